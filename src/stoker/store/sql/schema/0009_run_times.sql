-- How long the slowest run of a kind took: what waits is planned by it.
ALTER TABLE profiles ADD COLUMN longest_ms INTEGER NOT NULL DEFAULT 0;
