-- Attempts that an MPS server took with it when it failed: they cost no retry.
ALTER TABLE jobs ADD COLUMN mps_faults INTEGER NOT NULL DEFAULT 0;
