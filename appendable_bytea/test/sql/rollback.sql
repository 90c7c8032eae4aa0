-- What a rollback, a repair or a refused command must leave as it was.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
CREATE FUNCTION bytes(n int, seed text) RETURNS bytea LANGUAGE sql IMMUTABLE AS
	$$ SELECT substr(string_agg(sha512(convert_to(seed || i, 'UTF8')), '' ORDER BY i), 1, n) FROM generate_series(0, n / 64) i $$;
CREATE TABLE r (id int PRIMARY KEY, other int, data appendable_bytea);
INSERT INTO r SELECT i, i, bytes(30000, 'r' || i) FROM generate_series(1, 3) i;
CREATE FUNCTION whole() RETURNS TABLE (rows bigint, same bigint, problems bigint) LANGUAGE sql AS
	$$ SELECT count(*), count(*) FILTER (WHERE data = bytes(30000, 'r' || id)), (SELECT count(*) FROM appendable_bytea_check()) FROM r $$;

-- A table that was rewritten in the transaction is truncated in place; its chunks,
-- which were not, must come back.
BEGIN;
ALTER TABLE r ALTER other TYPE int8;
TRUNCATE r;
ROLLBACK;
SELECT * FROM whole();
BEGIN;
CLUSTER r USING r_pkey;
TRUNCATE r;
INSERT INTO r VALUES (4, 4, bytes(20000, 'lost'));
TRUNCATE r;
INSERT INTO r VALUES (5, 5, bytes(20000, 'lost'));
ROLLBACK;
SELECT * FROM whole();
BEGIN;
SAVEPOINT a;
ALTER TABLE r ALTER other TYPE int8;
RELEASE a;
TRUNCATE r;
ROLLBACK;
SELECT * FROM whole();
BEGIN;
CREATE TABLE made AS SELECT * FROM r;
SAVEPOINT a;
ALTER TABLE made ALTER other TYPE int8;
TRUNCATE made;
ROLLBACK TO a;
SELECT count(*) FROM made JOIN r USING (id, data);
TRUNCATE made;
INSERT INTO made SELECT * FROM r WHERE id = 2;
COMMIT;
SELECT count(*) FROM made JOIN r USING (id, data);
SELECT * FROM whole();
BEGIN;
ALTER TABLE r ALTER other TYPE int8;
TRUNCATE r;
INSERT INTO r SELECT id, other, data FROM made;
COMMIT;
SELECT * FROM whole();

-- A damaged value can be replaced by any other, also by a longer one.
INSERT INTO r VALUES (1, 1, bytes(30000, 'r1')), (3, 3, bytes(30000, 'r3'));
SELECT store AS "STORE" FROM appendable_bytea_stats('r') \gset
DELETE FROM :STORE WHERE off > 10000;
VACUUM :STORE;
UPDATE :STORE SET data = set_byte(data, 5000, 255 - get_byte(data, 5000)) WHERE vid = (SELECT max(vid) FROM :STORE);
VACUUM :STORE;
SELECT id, length(data) FROM r ORDER BY id;
SELECT count(*) FROM appendable_bytea_check('r');
UPDATE r SET data = bytes(30000, 'r' || id);
SELECT * FROM whole();
UPDATE :STORE SET data = set_byte(data, 5000, 255 - get_byte(data, 5000));
VACUUM :STORE;
UPDATE r SET data = bytes(30000, 'r' || id);
SELECT * FROM whole();

-- DROP EXTENSION drops nothing that is on the access method, whatever its kind.
CREATE MATERIALIZED VIEW m USING appendable_heap AS SELECT 1 AS one;
DROP TABLE r, made;
DROP EXTENSION appendable_bytea CASCADE;
DROP MATERIALIZED VIEW m;
DO $$
BEGIN
	IF current_setting('server_version_num')::int >= 170000 THEN
		EXECUTE 'CREATE TABLE whole_table (id int) PARTITION BY LIST (id) USING appendable_heap';
		EXECUTE 'CREATE TABLE part PARTITION OF whole_table DEFAULT USING heap';
		BEGIN
			EXECUTE 'DROP EXTENSION appendable_bytea CASCADE';
			RAISE 'a partitioned table was dropped with its partitions';
		EXCEPTION WHEN dependent_objects_still_exist THEN
			NULL;
		END;
		EXECUTE 'DROP TABLE whole_table';
	END IF;
END $$;
-- A variable keeps its value over COMMIT while the row it came from is appended to; when
-- what it had is changed there, it is right or gone.
CREATE TABLE kept (id int PRIMARY KEY, data appendable_bytea);
INSERT INTO kept VALUES (1, bytes(30000, 'k'));
DO $$
DECLARE
	v appendable_bytea;
	want bytea := overlay(overlay(bytes(30000, 'k') PLACING '\xaa' FROM 10) PLACING '\xbb' FROM 20000) || '\xcc'::bytea;
BEGIN
	SELECT data INTO v FROM kept;
	v := overlay(v PLACING '\xaa' FROM 10);
	COMMIT;
	UPDATE kept SET data = data || bytes(9000, 'more');
	COMMIT;
	v := overlay(v PLACING '\xbb' FROM 20000);
	COMMIT;
	v := v || '\xcc'::bytea;
	ASSERT v = want, 'the variable has other bytes';
	UPDATE kept SET data = v;
	COMMIT;
	ASSERT (SELECT data = want FROM kept), 'the row has other bytes';
	SELECT data INTO v FROM kept;
	v := overlay(v PLACING '\xdd' FROM 30);
	want := overlay(want PLACING '\xdd' FROM 30);
	COMMIT;
	FOR i IN 1 .. 20 LOOP
		UPDATE kept SET data = overlay(data PLACING '\x00' FROM 1000 * i);
		COMMIT;
		BEGIN
			ASSERT v = want, 'the variable has other bytes, ' || i;
		EXCEPTION WHEN data_corrupted THEN
			NULL;
		END;
	END LOOP;
END $$;
-- A variable keeps the bytes of a subtransaction that was rolled back, as a TOASTed value
-- does, until vacuum removes them: also where other bytes take their place.  They are
-- appended, overwritten and inserted, with chunks before and after the contested ones.
CREATE FUNCTION fork(change text, others text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	v appendable_bytea;
	want bytea;
	now bytea;
	part bytea;
BEGIN
	TRUNCATE kept;				-- a full index page would drop entries of chunks that failed
	INSERT INTO kept VALUES (1, bytes(30000, 'k'));
	UPDATE kept SET data = data || bytes(20000, 'more');
	BEGIN
		EXECUTE format('UPDATE kept SET data = %s', change);
		EXECUTE format('UPDATE kept SET data = data || bytes(20000, ''mine'') RETURNING data, data::bytea') INTO v, want;
		ASSERT substr(v, length(v) - 99, 50) = substr(want, length(want) - 99, 50), 'the end is wrong in the subtransaction';
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN
		NULL;
	END;
	EXECUTE format('UPDATE kept SET data = %s RETURNING data', others) INTO now;
	FOR at IN REVERSE length(want) - 40 .. 1 BY 2500 LOOP
		part := substr(v, at, 40);
		ASSERT part = substr(want, at, 40), 'another part at ' || at;
	END LOOP;
	ASSERT v::bytea = want, 'another value';
	ASSERT md5(v) = md5(want), 'another digest';
	ASSERT (SELECT data = now FROM kept), 'the row has another value';
	UPDATE kept SET data = v;
	ASSERT (SELECT data = want FROM kept), 'another value was stored';
	RETURN 'right';
END $$;
SELECT change, others, fork(change, others) FROM
	unnest(ARRAY[$$data || bytes(30000, 'first')$$, $$overlay(data PLACING '\xaabb' FROM 12000)$$,
		$$appendable_write(data, bytes(3000, 'ins'), 9000, 0)$$, $$appendable_truncate(data, 25000)$$, $$bytes(50000, 'new')$$]) change,
	unnest(ARRAY[$$data || bytes(30000, 'others')$$, $$data || bytes(29000, 'others')$$, $$overlay(data PLACING '\xccdd' FROM 1)$$,
		$$overlay(data PLACING '\xccdd' FROM 20000)$$, $$appendable_truncate(data, 20000)$$]) others;
SELECT count(*) FROM appendable_bytea_check('kept');
DROP TABLE kept;
DROP FUNCTION whole, bytes, fork;
DROP EXTENSION appendable_bytea;
