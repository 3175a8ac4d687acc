-- Jobs of the same kind (the same program and options, whatever the values) run for about as long:
-- their run times tell when a waiting job may start.

ALTER TABLE jobs ADD COLUMN kind TEXT NOT NULL DEFAULT '';
CREATE INDEX jobs_kind_succeeded ON jobs (kind, id) WHERE state = 'succeeded';
