-- The same words as everywhere else: the margin of a reservation, and the vendor of a GPU.

ALTER TABLE attempts RENAME COLUMN spare_mib TO margin_mib;
ALTER TABLE gpus RENAME COLUMN maker TO vendor;
UPDATE needs SET body = replace(body, '"spare_mib":', '"margin_mib":');
