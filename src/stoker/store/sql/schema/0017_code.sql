-- The git repository that jobs were queued in: the commit that was checked out, and whether tracked files
-- were changed (null: not known). Jobs of one submission share a row. Earlier jobs have none.

CREATE TABLE code (
    id        INTEGER PRIMARY KEY,
    root      TEXT    NOT NULL,
    commit_id TEXT    NOT NULL,
    dirty     INTEGER
) STRICT;

ALTER TABLE jobs ADD COLUMN code INTEGER REFERENCES code (id);
