-- A client that was cut off before it had its answer repeats its submission with the same token.

CREATE TABLE submissions (
    token   TEXT PRIMARY KEY,
    at_ms   INTEGER NOT NULL,
    job_ids TEXT NOT NULL  -- JSON
) STRICT, WITHOUT ROWID;

-- Jobs that were removed and whose directories are still to be deleted.
CREATE TABLE removals (
    job_id   INTEGER PRIMARY KEY,
    attempts INTEGER NOT NULL
) STRICT;
