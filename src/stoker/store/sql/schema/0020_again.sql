-- Jobs that are put back without having failed: where they stand among their equals since then (see
-- Job.rank), how often that was, and how many attempts in a row made no progress before it.

ALTER TABLE jobs ADD COLUMN place INTEGER;
ALTER TABLE jobs ADD COLUMN resumes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN stuck INTEGER NOT NULL DEFAULT 0;

-- The point that a removed job was: its checkpoints are deleted with the last job of the point.
ALTER TABLE removals ADD COLUMN point TEXT;
