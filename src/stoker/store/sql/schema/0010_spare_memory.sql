-- Of what an attempt has reserved, what is only a margin: those on a GPU share one. And what is
-- kept free beside it because nobody has seen yet how far its kind grows.
ALTER TABLE attempts ADD COLUMN spare_mib INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN growth_mib INTEGER NOT NULL DEFAULT 0;
