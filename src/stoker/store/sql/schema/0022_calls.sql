-- The file of the call that a removed job was to make: it is deleted with its logs.
ALTER TABLE removals ADD COLUMN call TEXT;
