-- A job makes its files with the umask of its submitter, which is kept with the environment.
-- For earlier jobs it is not known: they have that of the daemon, as before.

ALTER TABLE environments ADD COLUMN umask INTEGER;
