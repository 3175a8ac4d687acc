-- What a user is to be told, and the hooks that are to be run: a row is written in the commit of what it
-- is about, and deleted when that is done. An id is never given twice: it is how a message is known that
-- was sent before a crash.

CREATE TABLE notices (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    what        TEXT    NOT NULL,  -- job, hook, failure, group, gpu
    subject     TEXT    NOT NULL,  -- the id of a job, the name of a group, the id of a GPU
    at_ms       INTEGER NOT NULL,
    body        TEXT    NOT NULL,  -- JSON: how it ended
    tries       INTEGER NOT NULL DEFAULT 0,
    again_at_ms INTEGER NOT NULL DEFAULT 0,
    CHECK (what = 'job' OR what = 'hook' OR what = 'failure' OR what = 'group' OR what = 'gpu')
) STRICT;

-- Groups of which a job that notifies has ended, and whose users have not been told yet that all have.
CREATE TABLE open_groups (
    name         TEXT PRIMARY KEY,
    first_failed INTEGER
) STRICT, WITHOUT ROWID;
