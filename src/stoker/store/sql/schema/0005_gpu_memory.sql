-- GPUs that a driver shows are known by something longer than their number.
ALTER TABLE gpus ADD COLUMN label TEXT NOT NULL DEFAULT '';
ALTER TABLE gpus ADD COLUMN maker TEXT NOT NULL DEFAULT '';

-- What an attempt has reserved, if its need does not say it, and the most that it was seen to use.
ALTER TABLE attempts ADD COLUMN mem_mib INTEGER;
ALTER TABLE attempts ADD COLUMN peak_mib INTEGER;

-- A job that ran out of GPU memory gets more.
ALTER TABLE jobs ADD COLUMN ooms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN floor_mib INTEGER;

-- What is known of jobs of one kind.
CREATE TABLE profiles (
    kind          TEXT PRIMARY KEY,
    count         INTEGER NOT NULL,
    max_mib       INTEGER NOT NULL,
    mean_mib      REAL    NOT NULL,
    spread        REAL    NOT NULL,
    settle_ms     INTEGER NOT NULL,
    use_percent   INTEGER,
    ooms          INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The course of use and memory, for plots: JSON, one list a quantity.
CREATE TABLE gpu_histories (
    gpu  TEXT PRIMARY KEY,
    body BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE attempt_histories (
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    body   BLOB    NOT NULL,
    PRIMARY KEY (job_id, number)
) STRICT, WITHOUT ROWID;
