-- A table of more than one segment (1 GB); only with PG_LEAN_LONG=1.

CREATE TEMP TABLE big (id int, v int, pad text);
ALTER TABLE big ALTER pad SET STORAGE PLAIN;
INSERT INTO big SELECT i, i % 1000, repeat('x', 7000) FROM generate_series(1, 140000) i;

--@ parallel
SELECT count(*), sum(id), sum(v), sum(length(pad)) FROM big;

UPDATE big SET v = v + 1 WHERE id % 1000 = 0;
DELETE FROM big WHERE id % 1001 = 0;

--@ parallel
SELECT count(*), sum(id), sum(v) FROM big WHERE id > 130000 OR id < 100;

CREATE INDEX big_id ON big (id);
SELECT count(*), sum(v) FROM big WHERE id BETWEEN 131000 AND 131200;

TRUNCATE big;
SELECT count(*) FROM big;
INSERT INTO big SELECT i, 1, 'y' FROM generate_series(1, 10000) i;
SELECT count(*), sum(id), sum(v) FROM big;
