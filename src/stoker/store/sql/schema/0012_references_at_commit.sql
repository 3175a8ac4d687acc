-- Whether a job's need, terms and environment are there is looked at when its commit ends, not at the
-- end of each statement. A statement of many rows that may be undone by itself has SQLite put aside
-- every page that it changes, which took a quarter of the time of a long submission; a commit is undone
-- as a whole anyway. Nothing else of the table changes, so its text is changed where it stands.

PRAGMA writable_schema = ON;
UPDATE sqlite_master
SET sql = replace(replace(replace(sql,
    'REFERENCES needs (id)', 'REFERENCES needs (id) DEFERRABLE INITIALLY DEFERRED'),
    'REFERENCES terms (id)', 'REFERENCES terms (id) DEFERRABLE INITIALLY DEFERRED'),
    'REFERENCES environments (id)', 'REFERENCES environments (id) DEFERRABLE INITIALLY DEFERRED')
WHERE type = 'table' AND name = 'jobs';
PRAGMA writable_schema = RESET;
