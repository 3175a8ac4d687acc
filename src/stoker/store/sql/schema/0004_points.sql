-- A job may be one point of a parameter space: its parameters, and the name by which the same
-- point is known again when its sweep (or batch, or feed) is submitted once more.

ALTER TABLE jobs ADD COLUMN params TEXT;  -- JSON object
ALTER TABLE jobs ADD COLUMN point TEXT;
CREATE INDEX jobs_point ON jobs (point, id) WHERE point IS NOT NULL;
