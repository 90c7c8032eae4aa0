-- A little of everything, which test/assert.conf runs with every catalog cache thrown
-- away at every chance: no OID or pointer may be kept across something that can
-- process an invalidation.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
CREATE TABLE c (id int PRIMARY KEY, data appendable_bytea) WITH (fillfactor = 80);
INSERT INTO c VALUES (1, ''), (2, convert_to(repeat('x', 20000), 'UTF8'));
UPDATE c SET data = data || convert_to(repeat('y', 9000), 'UTF8');
UPDATE c SET data = data || 'tail'::bytea;
UPDATE c SET data = appendable_write(data, '\x00', 8500, 1);
UPDATE c SET data = appendable_truncate(data, 15000) WHERE id = 2;
INSERT INTO c VALUES (2, 'lost') ON CONFLICT (id) DO UPDATE SET data = c.data || convert_to(repeat('z', 700), 'UTF8') RETURNING length(data);
CREATE INDEX ON c (sha256(data));
SELECT id, length(data), md5(data) = md5(data::bytea) AS same, convert_from(substr(data, 8999, 6), 'UTF8') FROM c ORDER BY id;
CREATE TABLE c2 AS SELECT * FROM c;
ALTER TABLE c2 ALTER id TYPE int8;
BEGIN;
TRUNCATE c2;
INSERT INTO c2 SELECT id, data FROM c WHERE id = 2;
ROLLBACK;
SELECT count(*) FROM c JOIN c2 USING (id, data);
DELETE FROM c WHERE id = 1;
SELECT appendable_bytea_repair('c');
SELECT * FROM appendable_bytea_check();
CREATE TABLE cp (id int, data bytea) PARTITION BY LIST (id);
CREATE TABLE cp1 PARTITION OF cp FOR VALUES IN (1);
CREATE TABLE cp2 PARTITION OF cp FOR VALUES IN (2);
INSERT INTO cp SELECT * FROM c2;
ALTER TABLE cp ALTER data TYPE appendable_bytea;
UPDATE cp SET id = 3 - id, data = data || '\x01'::bytea;
SELECT cp.id, length(cp.data) - length(c2.data) AS longer FROM cp JOIN c2 ON cp.id + c2.id = 3 ORDER BY 1;
SELECT appendable_bytea_detach('cp');
SELECT count(*) FROM pg_class WHERE relnamespace = 'appendable_store'::regnamespace AND relkind = 'r';
DROP TABLE c, c2, cp;
SELECT count(*) FROM pg_class WHERE relnamespace = 'appendable_store'::regnamespace;
