-- A job may be a cluster's: it is handed over, and has a state of its own until the cluster starts it.
-- The list of states is a constraint that no row can break by growing, so the text of the table is
-- changed where it stands, which SQLite allows; copying the table would take all its rows along.
-- Databases of the first versions have that list in another form.

ALTER TABLE attempts ADD COLUMN place TEXT;  -- what the cluster calls it, and the node it runs on

PRAGMA writable_schema = ON;
UPDATE sqlite_schema
SET sql = replace(replace(sql,
                          'OR state = ''held''', 'OR state = ''held'' OR state = ''submitted'''),
                  '''waiting'', ''running''', '''waiting'', ''submitted'', ''running''')
WHERE type = 'table' AND name = 'jobs';
PRAGMA writable_schema = RESET;
