-- The record of all jobs. Times are milliseconds since the epoch.
-- What many jobs have in common (needs, terms, environments) is kept once and referred to.

CREATE TABLE settings (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE needs (
    id   INTEGER PRIMARY KEY,
    body TEXT NOT NULL UNIQUE  -- JSON, keys sorted
) STRICT;

CREATE TABLE terms (
    id   INTEGER PRIMARY KEY,
    body TEXT NOT NULL UNIQUE  -- JSON, keys sorted
) STRICT;

CREATE TABLE environments (
    id     INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    body   BLOB NOT NULL  -- JSON, compressed
) STRICT;

-- The conditions on `state` are put in this way since SQLite makes a table of each IN list, for
-- every row that it checks.
CREATE TABLE jobs (
    id               INTEGER PRIMARY KEY,
    state            TEXT    NOT NULL,
    priority         INTEGER NOT NULL,
    need             INTEGER NOT NULL REFERENCES needs (id),
    terms            INTEGER NOT NULL REFERENCES terms (id),
    "group"          TEXT,
    name             TEXT,
    user             TEXT    NOT NULL,
    submitted_at_ms  INTEGER NOT NULL,
    not_before_ms    INTEGER,
    backoff_until_ms INTEGER,
    attempt          INTEGER NOT NULL DEFAULT 0,
    failures         INTEGER NOT NULL DEFAULT 0,
    unmet            TEXT,              -- JSON: requirements that have not come true yet
    requires         TEXT,              -- JSON: all of them, as asked for
    launch           TEXT    NOT NULL,  -- JSON: command, directory, files
    environment      INTEGER NOT NULL REFERENCES environments (id),
    ended_at_ms      INTEGER,
    cause            TEXT,
    exit_code        INTEGER,
    signal           INTEGER,
    detail           TEXT,
    CHECK (CASE
           WHEN ended_at_ms IS NULL
           THEN state = 'waiting' OR state = 'running' OR state = 'stopping' OR state = 'held'
           ELSE state = 'succeeded' OR state = 'failed' OR state = 'cancelled'
                OR state = 'skipped' OR state = 'lost'
           END),
    CHECK (exit_code IS NULL OR signal IS NULL)
) STRICT;

CREATE INDEX jobs_unfinished ON jobs (id) WHERE ended_at_ms IS NULL;
CREATE INDEX jobs_ended ON jobs (ended_at_ms, state) WHERE ended_at_ms IS NOT NULL;
CREATE INDEX jobs_named ON jobs (name) WHERE name IS NOT NULL;
CREATE INDEX jobs_grouped ON jobs ("group") WHERE "group" IS NOT NULL;

CREATE TABLE attempts (
    job_id        INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number        INTEGER NOT NULL,
    gpus          TEXT    NOT NULL,  -- JSON list of ids
    placed_at_ms  INTEGER NOT NULL,
    started_at_ms INTEGER,
    pid           INTEGER,
    stop_cause    TEXT,
    stop_at_ms    INTEGER,
    warning       TEXT    NOT NULL DEFAULT 'none',
    ended_at_ms   INTEGER,
    state         TEXT,  -- how it ended
    cause         TEXT,
    exit_code     INTEGER,
    signal        INTEGER,
    detail        TEXT,
    PRIMARY KEY (job_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE gpus (
    id         TEXT PRIMARY KEY,
    memory_mib INTEGER,
    declared   INTEGER NOT NULL,
    drained    INTEGER NOT NULL,
    removing   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE groups (
    name        TEXT PRIMARY KEY,
    paused      INTEGER NOT NULL,
    max_running INTEGER
) STRICT, WITHOUT ROWID;
