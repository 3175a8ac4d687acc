-- Searches that learn: sweeps whose points are chosen one by one, by what came of those before. The points
-- themselves are jobs, known by their sweep's name and the number of their trial.

CREATE TABLE searches (
    name     TEXT PRIMARY KEY,  -- of the sweep
    spec     TEXT NOT NULL,     -- JSON: what is searched for, and what all points share
    state    TEXT NOT NULL,
    progress TEXT NOT NULL,     -- JSON: what its searcher said last
    CHECK (state = 'running' OR state = 'ended')
) STRICT, WITHOUT ROWID;
