-- The cost of DDL does not depend on the number of chunk stores: how often catalogs are
-- scanned and their rows fetched is counted with few stores and with many.
SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
CREATE SCHEMA dc;
SET search_path = dc, public;
-- (17 reads pg_index whole when an index is created)
CREATE TABLE catalogs AS SELECT oid FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind IN ('r', 'i') AND oid <> 'pg_index'::regclass;
CREATE FUNCTION looks() RETURNS bigint LANGUAGE sql AS $$
	SELECT sum(pg_stat_get_xact_numscans(oid) + pg_stat_get_xact_tuples_fetched(oid) + pg_stat_get_xact_tuples_returned(oid))::bigint FROM dc.catalogs $$;
CREATE TABLE measured (command text, kind text, looks bigint);
-- the least of three, because caches are filled by the first
CREATE PROCEDURE measure(kind text, command text, undo text) LANGUAGE plpgsql AS $$
DECLARE before bigint; least bigint; BEGIN
	FOR i IN 1 .. 3 LOOP
		before := looks();
		EXECUTE command;
		least := least(least, looks() - before);
		EXECUTE undo;
		COMMIT;
	END LOOP;
	INSERT INTO measured VALUES (command, kind, least);
END $$;
CREATE PROCEDURE measure_all(kind text) LANGUAGE plpgsql AS $$ BEGIN
	CALL measure(kind, 'CREATE TABLE plain (i int); DROP TABLE plain', '');
	CALL measure(kind, 'CREATE TEMPORARY TABLE plain (i int); DROP TABLE plain', '');
	CALL measure(kind, 'CREATE TABLE own (data appendable_bytea); DROP TABLE own', '');
	CALL measure(kind, 'CREATE PUBLICATION dc FOR TABLE one', 'DROP PUBLICATION dc');
	CALL measure(kind, 'ALTER TABLE one ADD COLUMN more int', 'ALTER TABLE one DROP COLUMN more');
END $$;
CREATE TABLE one (id int PRIMARY KEY, data appendable_bytea);
CALL measure_all('few stores');
DO $$ BEGIN
	FOR i IN 1 .. 150 LOOP
		EXECUTE format('CREATE TABLE t%s (data appendable_bytea)', i);
	END LOOP;
END $$;
CALL measure_all('many stores');
SELECT f.command, CASE WHEN m.looks <= f.looks + 30 THEN 'the same' ELSE format('%s looks, before %s', m.looks, f.looks) END AS many
	FROM measured f JOIN measured m USING (command) WHERE f.kind = 'few stores' AND m.kind = 'many stores' ORDER BY 1;
-- ALTER of a root: each partition costs the same, and not much more than one of a plain table
CREATE TABLE own_root (k int, data appendable_bytea) PARTITION BY LIST (k);
CREATE TABLE plain_root (k int, data bytea) PARTITION BY LIST (k);
CREATE PROCEDURE grow(n int, until int) LANGUAGE plpgsql AS $$ BEGIN
	FOR i IN n .. until LOOP
		EXECUTE format('CREATE TABLE own_%s PARTITION OF own_root FOR VALUES IN (%s)', i, i);
		EXECUTE format('CREATE TABLE plain_%s PARTITION OF plain_root FOR VALUES IN (%s)', i, i);
	END LOOP;
END $$;
TRUNCATE measured;
CALL grow(1, 10);
CALL measure('own 10', 'ALTER TABLE own_root ADD COLUMN more int', 'ALTER TABLE own_root DROP COLUMN more');
CALL measure('plain 10', 'ALTER TABLE plain_root ADD COLUMN more int', 'ALTER TABLE plain_root DROP COLUMN more');
CALL grow(11, 60);
CALL measure('own 60', 'ALTER TABLE own_root ADD COLUMN more int', 'ALTER TABLE own_root DROP COLUMN more');
CALL measure('plain 60', 'ALTER TABLE plain_root ADD COLUMN more int', 'ALTER TABLE plain_root DROP COLUMN more');
SELECT own_60.looks <= 6 * 1.4 * own_10.looks AS linear, own_60.looks <= 1.3 * plain_60.looks AS as_plain
	FROM measured own_10, measured own_60, measured plain_60 WHERE own_10.kind = 'own 10' AND own_60.kind = 'own 60' AND plain_60.kind = 'plain 60';
SET client_min_messages = error;
DROP SCHEMA dc CASCADE;
