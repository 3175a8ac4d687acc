-- Attempts whose processes are stopped for a while: whether they are, or are to be; since when; how long
-- they were before; and how often it was ordered.

ALTER TABLE attempts ADD COLUMN suspension TEXT NOT NULL DEFAULT 'none';
ALTER TABLE attempts ADD COLUMN suspended_at_ms INTEGER;
ALTER TABLE attempts ADD COLUMN suspended_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN suspensions INTEGER NOT NULL DEFAULT 0;
