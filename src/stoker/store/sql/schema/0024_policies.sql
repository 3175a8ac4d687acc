-- What the order of waiting jobs is decided by: how long jobs of a kind took on so many GPUs (JSON, the latest
-- last), the GPU time that each group has used as of a moment ('': jobs without a group), and the first job of
-- each minute in which some came.

CREATE TABLE run_times (
    kind TEXT    NOT NULL,
    gpus INTEGER NOT NULL,
    runs TEXT    NOT NULL,
    PRIMARY KEY (kind, gpus)
) STRICT, WITHOUT ROWID;

CREATE TABLE group_usage (
    name   TEXT    PRIMARY KEY,
    gpu_ms INTEGER NOT NULL,
    at_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE arrivals (
    first_id INTEGER PRIMARY KEY,
    minute   INTEGER NOT NULL
) STRICT;

INSERT INTO arrivals
SELECT min(id), submitted_at_ms / 60000 FROM jobs WHERE ended_at_ms IS NULL GROUP BY submitted_at_ms / 60000;
