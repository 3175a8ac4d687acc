-- Jobs that give way for urgent ones: when they were told to of late, since when they have waited and for
-- which job (JSON, see GaveWay in core/model.py); and the GPUs that are kept for an urgent job.

ALTER TABLE jobs ADD COLUMN gave_way TEXT;
ALTER TABLE jobs ADD COLUMN kept TEXT;
