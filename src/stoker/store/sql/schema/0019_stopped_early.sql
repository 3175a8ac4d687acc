-- A point of a search may be stopped early, which is an outcome of its own; why is on record before its
-- processes are told. The list of states is changed where it stands: see step 6.

ALTER TABLE attempts ADD COLUMN stop_detail TEXT;

PRAGMA writable_schema = ON;
UPDATE sqlite_schema
SET sql = replace(replace(sql,
                          'OR state = ''lost''', 'OR state = ''lost'' OR state = ''stopped'''),
                  '''succeeded'', ''failed''', '''succeeded'', ''stopped'', ''failed''')
WHERE type = 'table' AND name = 'jobs';
PRAGMA writable_schema = RESET;
