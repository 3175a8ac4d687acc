-- When its user last queued a job again (`stoker retry`). A job that never was has none.

ALTER TABLE jobs ADD COLUMN queued_again_at_ms INTEGER;
