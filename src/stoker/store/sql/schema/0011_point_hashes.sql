-- The index by which points are found again is of numbers: an entry is written in half the time that
-- a part of the name takes. The number is made by Stoker itself; point_hash() is known in this step.

ALTER TABLE jobs ADD COLUMN point_hash INTEGER;
UPDATE jobs SET point_hash = point_hash(point) WHERE point IS NOT NULL;
DROP INDEX jobs_point;
CREATE INDEX jobs_point ON jobs (point_hash) WHERE point_hash IS NOT NULL;
