-- The planner's estimates for temporary tables that have not been analyzed.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS parallel_temp;
RESET client_min_messages;
SET parallel_temp.statistics = on;
SET max_parallel_workers_per_gather = 0;

CREATE FUNCTION estimate(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN (plan->0->'Plan'->>'Plan Rows')::float8;
END $$;

-- by which factor two numbers of rows differ
CREATE FUNCTION apart(a float8, b float8) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT greatest(greatest(a, 1) / greatest(b, 1), greatest(b, 1) / greatest(a, 1))';

-- EXPLAIN shows them, with and without; for a table that is analyzed the server's statistics are used
CREATE TEMP TABLE few AS SELECT i AS id, i % 4 AS v, repeat('x', 300) || i AS s FROM generate_series(1, 300) i;
EXPLAIN (COSTS off) SELECT * FROM few WHERE v = 3;
SELECT relation, attname, rows, sampled, changed, null_frac, avg_width, n_distinct, most_common_freqs, histogram_bounds, correlation IS NOT NULL AS correlation FROM pg_temp_stats;
SET parallel_temp.statistics = off;
EXPLAIN (COSTS off) SELECT * FROM few WHERE v = 3;
SET parallel_temp.statistics = on;
SELECT sum(n_distinct) FROM pg_stats WHERE tablename = 'few';
SELECT estimate('SELECT * FROM few WHERE id < 101'), estimate('SELECT * FROM few a JOIN few b USING (id)'), estimate('SELECT DISTINCT v FROM few');
SELECT attname FROM pg_temp_stats ORDER BY 1;
ANALYZE few;
EXPLAIN (COSTS off) SELECT * FROM few WHERE v = 3;

-- who may see values
CREATE ROLE pt_curious;
SET ROLE pt_curious;
SELECT count(*) FROM pg_temp_stats;
RESET ROLE;
DROP ROLE pt_curious;

-- changes are followed, and taken back; samples of 400 rows, so that no bound below is met by chance
SET default_statistics_target = 200;
CREATE TEMP TABLE t AS SELECT i AS id, i % 10 AS v, repeat('x', i % 7) AS s FROM generate_series(1, 3000) i;
SELECT estimate('SELECT * FROM t WHERE v = 3') BETWEEN 150 AND 600 AS three_hundred;
UPDATE t SET s = 'y' WHERE v < 1;
SELECT sum(changed) FROM (SELECT DISTINCT relation, changed FROM pg_temp_stats) s;
BEGIN;
DELETE FROM t WHERE v <> 3;
SELECT estimate('SELECT * FROM t WHERE v = 3') BETWEEN 150 AND 600 AS three_hundred, estimate('SELECT * FROM t WHERE v = 4');
ROLLBACK;
SELECT estimate('SELECT * FROM t WHERE v = 4') BETWEEN 150 AND 600 AS three_hundred;
BEGIN;
SAVEPOINT a;
INSERT INTO t SELECT i, 77, 'new' FROM generate_series(1, 20000) i;
SELECT estimate('SELECT * FROM t WHERE v = 77') BETWEEN 10000 AND 40000 AS twenty_thousand;
ROLLBACK TO a;
SELECT estimate('SELECT * FROM t WHERE v = 77'), estimate('SELECT * FROM t') BETWEEN 1500 AND 6000 AS three_thousand;
SAVEPOINT b;
UPDATE t SET v = 78;
SELECT estimate('SELECT * FROM t WHERE v = 78') BETWEEN 1500 AND 6000 AS three_thousand;
RELEASE b;
SELECT estimate('SELECT * FROM t WHERE v = 78') BETWEEN 1500 AND 6000 AS three_thousand;
ROLLBACK;
SELECT estimate('SELECT * FROM t WHERE v = 78');
DO $$ BEGIN UPDATE t SET v = 79; PERFORM estimate('SELECT * FROM t WHERE v = 79'); RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END $$;
SELECT estimate('SELECT * FROM t WHERE v = 79');
WITH gone AS (DELETE FROM t WHERE v = 4 RETURNING 1) SELECT count(*) FROM gone;
SELECT estimate('SELECT * FROM t WHERE v = 4') < 100 AS few;
MERGE INTO t USING (VALUES (5), (6), (7)) w (v) ON t.v = w.v WHEN MATCHED THEN UPDATE SET v = 6;
SELECT estimate('SELECT * FROM t WHERE v = 5') < 100 AS few, estimate('SELECT * FROM t WHERE v = 6') BETWEEN 450 AND 1800 AS nine_hundred;
\copy t FROM PROGRAM 'seq 1 3000 | sed "s/$/\t80\tcopied/"'
SELECT estimate('SELECT * FROM t WHERE v = 80') BETWEEN 1500 AND 6000 AS three_thousand;
TRUNCATE t;
SELECT count(*) FROM pg_temp_stats WHERE relation = 't'::regclass;
INSERT INTO t SELECT i, 1, repeat('x', 300) FROM generate_series(1, 300) i;
SELECT estimate('SELECT * FROM t');
ALTER TABLE t ADD COLUMN more int DEFAULT 5;
SELECT estimate('SELECT * FROM t WHERE more = 5');
ALTER TABLE t ALTER COLUMN v TYPE text;
SELECT estimate('SELECT * FROM t WHERE v = ''1'''), estimate('SELECT * FROM t WHERE v = ''2''');
VACUUM t;
SELECT estimate('SELECT * FROM t WHERE more = 5');
DROP TABLE t;
SELECT count(*) FROM pg_temp_stats;

-- a plan that is kept is made again when its table has become another
CREATE TEMP TABLE grows (id int, v int);
CREATE INDEX ON grows (id);
INSERT INTO grows VALUES (1, 1), (2, 2);
PREPARE look AS SELECT count(*) FROM grows a JOIN grows b USING (v);
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS off) EXECUTE look;
INSERT INTO grows SELECT i, i FROM generate_series(3, 20000) i;
EXPLAIN (COSTS off) EXECUTE look;
DEALLOCATE look;
-- also after what it was made for is undone, if it was looked at for the first time
CREATE TEMP TABLE undone (id int, v int);
INSERT INTO undone VALUES (1, 1), (2, 2);
PREPARE look AS SELECT count(*) FROM undone a JOIN undone b USING (v);
BEGIN;
INSERT INTO undone SELECT i, i FROM generate_series(3, 20000) i;
EXPLAIN (COSTS off) EXECUTE look;
ROLLBACK;
EXPLAIN (COSTS off) EXECUTE look;
TRUNCATE undone;
INSERT INTO undone VALUES (1, 1), (2, 2);
BEGIN;
SAVEPOINT a;
INSERT INTO undone SELECT i, i FROM generate_series(3, 20000) i;
EXPLAIN (COSTS off) EXECUTE look;
ROLLBACK TO a;
EXPLAIN (COSTS off) EXECUTE look;
COMMIT;
DROP TABLE undone;
RESET plan_cache_mode;
DEALLOCATE look;

-- a table whose drop is undone is looked at again, whatever was looked at meanwhile
CREATE TEMP TABLE kept AS SELECT i AS id, i % 10 AS v, repeat('x', 200) AS s FROM generate_series(1, 3000) i;
CREATE TEMP TABLE meanwhile AS SELECT * FROM kept;
SELECT estimate('SELECT * FROM kept WHERE v = 3') BETWEEN 150 AND 600 AS three_hundred;
BEGIN;
SAVEPOINT a;
DROP TABLE kept;
SELECT estimate('SELECT * FROM meanwhile WHERE v = 3') BETWEEN 150 AND 600 AS three_hundred;
ROLLBACK TO a;
SELECT estimate('SELECT * FROM kept WHERE v = 3') BETWEEN 150 AND 600 AS three_hundred;
DROP TABLE meanwhile;
ROLLBACK;
SELECT estimate('SELECT * FROM kept WHERE v = 4') BETWEEN 150 AND 600 AS three_hundred, estimate('SELECT * FROM meanwhile WHERE v = 4') BETWEEN 150 AND 600 AS three_hundred;
SELECT relation, count(*) FROM pg_temp_stats WHERE relation IN ('kept'::regclass, 'meanwhile'::regclass) GROUP BY 1 ORDER BY 1;
DROP TABLE kept, meanwhile;

-- rows that a partitioned table has put into a partition are changes of it
CREATE TEMP TABLE parted (id int, v int) PARTITION BY RANGE (id);
CREATE TEMP TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (100000);
INSERT INTO part SELECT i, i % 10 FROM generate_series(1, 3000) i;
SELECT estimate('SELECT * FROM part WHERE v = 3') BETWEEN 150 AND 600 AS three_hundred;
INSERT INTO parted SELECT i, 77 FROM generate_series(1, 20) i;
SELECT sum(changed) FROM (SELECT DISTINCT relation, changed FROM pg_temp_stats WHERE relation = 'part'::regclass) s;
DELETE FROM part WHERE id > 1500;
SELECT estimate('SELECT * FROM part WHERE v = 77') > 0 AS looked_at;
INSERT INTO parted SELECT i, 77 FROM generate_series(1, 300) i;
SELECT estimate('SELECT * FROM part WHERE v = 77') BETWEEN 160 AND 640 AS three_hundred;
DROP TABLE parted;

-- the first pages tell nothing of the others: few long rows, many short ones
CREATE TEMP TABLE uneven AS SELECT i AS id, CASE WHEN i <= 400 THEN repeat('x', 1900) ELSE '' END AS s FROM generate_series(1, 36000) i;
SELECT estimate('SELECT * FROM uneven WHERE id > 18000') BETWEEN 9000 AND 36000 AS half, estimate('SELECT * FROM uneven WHERE id <= 18000') BETWEEN 9000 AND 36000 AS other_half,
	(SELECT sampled FROM pg_temp_stats WHERE relation = 'uneven'::regclass) BETWEEN 200 AND 1600 AS sampled;
DROP TABLE uneven;

-- a function that planning evaluates may drop a table whose statistics it used
CREATE FUNCTION makes_and_drops() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
	CREATE TEMP TABLE passing AS SELECT i AS id FROM generate_series(1, 5000) i;
	PERFORM count(*) FROM passing a JOIN passing b USING (id) WHERE a.id = 5;
	DROP TABLE passing;
	RETURN 1;
END $$;
CREATE FUNCTION while_planning() RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN makes_and_drops(); END';
EXPLAIN (COSTS off) SELECT while_planning();
DROP FUNCTION makes_and_drops, while_planning;

-- inside functions, while a load fills the table, in cursors, with dropped columns and wide values
CREATE TEMP TABLE wide AS SELECT i AS id, i AS gone, CASE WHEN i % 10 = 0 THEN repeat(md5(i::text), 500) ELSE 'short' END AS s, array_fill(i % 3, ARRAY[i % 30]) AS a FROM generate_series(1, 2000) i;
ALTER TABLE wide ALTER s SET STORAGE EXTERNAL;
UPDATE wide SET s = s || '.';
ALTER TABLE wide DROP COLUMN gone;
SELECT estimate('SELECT * FROM wide WHERE s = ''short.''') BETWEEN 1000 AND 3600 AS most, estimate('SELECT * FROM wide WHERE a @> ''{2}''') BETWEEN 300 AND 1300 AS a_third;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM wide;
FETCH 1 FROM c \gset unused_
DELETE FROM wide WHERE id > 1000;
SELECT estimate('SELECT * FROM wide WHERE id <= 1000') BETWEEN 500 AND 2000 AS thousand;
COMMIT;
CREATE FUNCTION looks(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN IF i % 500 = 0 THEN PERFORM count(*) FROM few JOIN wide USING (id) WHERE few.v = 2; END IF; RETURN i; END $$;
INSERT INTO wide SELECT looks(i), 'within' FROM generate_series(1001, 3000) i;
SELECT estimate('SELECT * FROM wide WHERE s = ''within''') BETWEEN 1000 AND 4000 AS two_thousand;

-- types whose comparison is a user's own are left alone
CREATE TYPE pair AS (a int, b int);
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TEMP TABLE types AS SELECT (i, i)::pair AS p, (ARRAY['sad', 'ok', 'ok', 'happy']::mood[])[1 + i % 4] AS m, int4range(i, i + 5) AS r, i::numeric AS n, ('{"a": ' || i || '}')::jsonb AS j FROM generate_series(1, 1000) i;
SELECT estimate('SELECT * FROM types WHERE m = ''ok''') BETWEEN 400 AND 600 AS half, estimate('SELECT * FROM types WHERE n <= 250') BETWEEN 200 AND 300 AS quarter, estimate('SELECT * FROM types WHERE r @> 500') < 100 AS some, estimate('SELECT * FROM types WHERE p = (1, 1)::pair') > 0 AS any;
SELECT attname FROM pg_temp_stats WHERE relation = 'types'::regclass ORDER BY 1;

RESET default_statistics_target;

-- as good as ANALYZE: over distributions of values, by the factor that an estimate is wrong
CREATE TEMP TABLE values_of (id int, uniform int, skewed int, few_values int, half_null int, normal int, clustered int, falling int, word text, at timestamptz, pad text);
SELECT setseed(0.5);
INSERT INTO values_of SELECT i, (random() * 1000)::int, (1000 * random() ^ 4)::int, (random() * 4)::int, CASE WHEN random() < 0.5 THEN (random() * 20)::int END,
	((random() + random() + random() + random()) * 250)::int, i / 100, -i, 'word ' || (random() * random() * 50)::int, timestamptz '2026-01-01' + i * interval '1 minute', repeat('x', i % 100)
	FROM generate_series(1, 60000) i;
CREATE TEMP TABLE questions (q text);
INSERT INTO questions VALUES ('uniform < 300'), ('uniform BETWEEN 100 AND 500'), ('uniform <> 3'), ('skewed = 0'), ('skewed < 10'), ('skewed > 500'), ('few_values = 0'), ('few_values IN (1, 2)'),
	('half_null IS NULL'), ('half_null IN (7, 8, 9)'), ('half_null IS NOT NULL AND few_values = 3'), ('normal < 400'), ('normal > 600'), ('clustered < 60'), ('falling > -6000'),
	('word = ''word 0'''), ('word < ''word 20'''), ('at < ''2026-01-10'''), ('at > ''2026-02-01'''), ('id <= 30000'), ('pad = ''''  OR length(pad) > 5');
CREATE FUNCTION ask() RETURNS TABLE (q text, estimated float8, actual float8) LANGUAGE plpgsql AS $$
BEGIN
	FOR q IN SELECT questions.q FROM questions LOOP
		estimated := estimate('SELECT * FROM values_of WHERE ' || q);
		EXECUTE 'SELECT count(*) FROM values_of WHERE ' || q INTO actual;
		RETURN NEXT;
	END LOOP;
END $$;
CREATE TABLE gathered AS SELECT q, apart(estimated, actual) AS wrong FROM ask();
CREATE TABLE groups AS SELECT attname, estimate(format('SELECT %I FROM values_of GROUP BY 1', attname)) AS n FROM pg_attribute WHERE attrelid = 'values_of'::regclass AND attnum > 0;
ANALYZE values_of;
CREATE TABLE analyzed AS SELECT q, apart(estimated, actual) AS wrong FROM ask();
SELECT q, g.wrong, a.wrong FROM gathered g JOIN analyzed a USING (q) WHERE g.wrong > 2 * a.wrong ORDER BY 1;
SELECT attname, n, estimate(format('SELECT %I FROM values_of GROUP BY 1', attname)) AS analyzed FROM groups WHERE apart(n, estimate(format('SELECT %I FROM values_of GROUP BY 1', attname))) > 3 ORDER BY 1;
DROP TABLE gathered, analyzed, groups;
-- of what is forgotten no other session hears: the message is not in WAL
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_walinspect;
RESET client_min_messages;
-- all rows are sampled
SET default_statistics_target = 5000;
CREATE TEMP TABLE of_session AS SELECT i AS id, i % 7 AS k FROM generate_series(1, 5000) i;
CREATE TABLE of_all (id int);
SELECT estimate('SELECT * FROM of_session WHERE k = 3') BETWEEN 500 AND 1000 AS seven_hundred;
SELECT pg_current_wal_insert_lsn() AS start \gset
INSERT INTO of_session SELECT i, 3 FROM generate_series(1, 5000) i;
SELECT estimate('SELECT * FROM of_session WHERE k = 3') BETWEEN 4000 AND 8000 AS six_thousand;
ALTER TABLE of_all SET (fillfactor = 90);
SELECT bool_or(description ~ format('relcache %s\M', 'of_session'::regclass::oid)) AS of_session, bool_or(description ~ format('relcache %s\M', 'of_all'::regclass::oid)) AS of_all
	FROM pg_get_wal_records_info(:'start', pg_current_wal_flush_lsn());
DROP TABLE of_session, of_all;
RESET default_statistics_target;
DROP EXTENSION pg_walinspect;
DROP FUNCTION estimate, apart, ask, looks;
DROP TABLE types, few, wide, values_of, grows;
DROP TYPE pair, mood;

-- a small table is looked at unless it is all that a query reads
CREATE TEMP TABLE small AS SELECT i AS id FROM generate_series(1, 7) i;
CREATE TEMP TABLE large (id int);
EXPLAIN (COSTS off) SELECT * FROM small WHERE id = 3;
EXPLAIN (COSTS off) UPDATE small SET id = id + 1 WHERE id = 8;
EXPLAIN (COSTS off) INSERT INTO large SELECT id FROM small WHERE id < 3;
SELECT count(*) FROM pg_temp_stats;
EXPLAIN (COSTS off) SELECT * FROM small WHERE id IN (SELECT g FROM generate_series(1, 3) g);
UPDATE small SET id = id + 1 WHERE id = (SELECT max(id) FROM large);
EXPLAIN (COSTS off) SELECT * FROM small WHERE id = 3 UNION ALL SELECT * FROM small WHERE id = 4;
SELECT relation, attname, rows FROM pg_temp_stats ORDER BY 1, 2;
DROP TABLE small, large;

-- looking leaves no trace: no hint bits, which would make clean pages dirty, and no page takes the place of another
CREATE TEMP TABLE clean (id int, pad text);
INSERT INTO clean SELECT i, repeat('x', 100) FROM generate_series(1, 20000) i;
SELECT pg_flush_local_buffers('clean') > 0 AS flushed;
SELECT dirty FROM pg_temp_relations WHERE relation = 'clean'::regclass;
EXPLAIN (COSTS off) SELECT * FROM clean WHERE id = 3;
SELECT dirty FROM pg_temp_relations WHERE relation = 'clean'::regclass;
SELECT pg_evict_temp_relation('clean') > 0 AS evicted;
INSERT INTO clean SELECT i, 'x' FROM generate_series(1, 10000) i;
SELECT resident FROM pg_temp_relations WHERE relation = 'clean'::regclass \gset before_
EXPLAIN (COSTS off) SELECT * FROM clean WHERE id = 3 AND pad = 'x';
SELECT resident - :before_resident AS more FROM pg_temp_relations WHERE relation = 'clean'::regclass;
SELECT rows BETWEEN 25000 AND 35000 AS thirty_thousand FROM pg_temp_stats WHERE attname = 'id';
DROP TABLE clean;

-- ANALYZE of tables that were just filled is not needed: the plans are those after it
CREATE FUNCTION plan_of(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	plan text := '';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS off) ' || query LOOP
		IF line !~ 'Gathered Statistics' THEN plan := plan || line || chr(10); END IF;
	END LOOP;
	RETURN plan;
END $$;
CREATE TABLE items AS SELECT i AS item, i % 5 AS kind, repeat('x', 200) AS name FROM generate_series(1, 20000) i;
CREATE UNIQUE INDEX ON items (item);
VACUUM ANALYZE items;
CREATE TEMP TABLE lines AS SELECT i AS id, i * 7 % 20000 AS item, i % 50 AS amount, CASE WHEN i % 100 = 0 THEN 'open' ELSE 'done' END AS state FROM generate_series(1, 5000) i;
CREATE TEMP TABLE chosen AS SELECT i * 1000 AS item FROM generate_series(1, 10) i;
CREATE TEMP TABLE asked AS SELECT * FROM (VALUES ('SELECT count(*) FROM lines JOIN items USING (item) WHERE state = ''open'''), ('SELECT count(*) FROM lines JOIN items USING (item) WHERE state = ''done'''),
	('SELECT * FROM chosen JOIN items USING (item)'), ('SELECT item, sum(amount) FROM lines GROUP BY item'), ('SELECT amount, count(*) FROM lines GROUP BY amount'),
	('SELECT count(*) FROM lines a JOIN lines b USING (id) JOIN items i ON i.item = a.item WHERE a.state = ''open'' AND b.amount < 40'), ('SELECT * FROM items WHERE item IN (SELECT item FROM chosen)')) v (q);
SET parallel_temp.statistics = off;
ALTER TABLE asked ADD guessed text, ADD gathered text;
UPDATE asked SET guessed = plan_of(q);
SET parallel_temp.statistics = on;
UPDATE asked SET gathered = plan_of(q);
ANALYZE lines, chosen;
SELECT q, gathered, plan_of(q) FROM asked WHERE gathered <> plan_of(q);
SELECT count(*) > 1 AS guesses_differ FROM asked WHERE guessed <> gathered;
DROP TABLE items, lines, chosen, asked;
DROP FUNCTION plan_of;

-- from the first plan of a session on, without EXPLAIN
\c -
SET parallel_temp.statistics = on;
CREATE TEMP TABLE first (id int, v int);
CREATE TEMP TABLE second (id int);
INSERT INTO first VALUES (1, 10);
INSERT INTO second VALUES (1);
SELECT count(*) FROM first JOIN second USING (id) WHERE v = 10;
SELECT relation, attname, sampled FROM pg_temp_stats ORDER BY 1, 2;
DROP TABLE first, second;

-- a sample that cannot be kept is taken once for a statement, however many columns it asks for
CREATE FUNCTION planning_blocks(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (BUFFERS, FORMAT JSON) ' || query INTO plan;
	RETURN (plan -> 0 -> 'Planning' ->> 'Local Hit Blocks')::int + (plan -> 0 -> 'Planning' ->> 'Local Read Blocks')::int;
END
$$;
CREATE TEMP TABLE outside (a int, b int, c int, d int, s text);
ALTER TABLE outside ALTER s SET STORAGE EXTERNAL;
INSERT INTO outside SELECT i, i % 7, i % 11, i % 13, repeat('x', 3000) FROM generate_series(1, 2000) i;
CREATE TEMP TABLE other (LIKE outside INCLUDING STORAGE);
INSERT INTO other SELECT * FROM outside;
SELECT planning_blocks('SELECT s FROM outside WHERE a = 1') AS one, planning_blocks('SELECT s FROM other WHERE a = 1 AND b = 1 AND c = 1 AND d = 1') AS four \gset
SELECT :one > 0 AS looked, :four < 2 * :one AS once;
DROP TABLE outside, other;

-- few pages are looked at; rows are in the order of the table, wherever their pages are
CREATE TEMP TABLE half AS SELECT i AS id, repeat('x', 200) AS s FROM generate_series(1, 32000) i;
SELECT pg_evict_temp_relation('half') > 0 AS evicted;
SET parallel_temp.statistics = off;
SELECT count(*) > 0 AS there FROM half WHERE ctid < '(400,0)';
SET parallel_temp.statistics = on;
SELECT planning_blocks('SELECT * FROM half a JOIN half b USING (id)') BETWEEN 100 AND 350 AS few_pages;
SELECT correlation, rows BETWEEN 31000 AND 33000 AS counted, sampled BETWEEN 250 AND 500 AS sampled FROM pg_temp_stats WHERE relation = 'half'::regclass AND attname = 'id';
SELECT pages > buffered AS half_there FROM (SELECT r.pages, (SELECT count(*) FROM pg_local_buffers WHERE relation = 'half'::regclass AND fork = 'main') AS buffered FROM pg_temp_relations r WHERE r.relation = 'half'::regclass) p;
DROP TABLE half;
DROP FUNCTION planning_blocks;

-- utility statements call the planner's functions without a query: of small and other tables
CREATE TEMP TABLE small (a int PRIMARY KEY, b int);
INSERT INTO small SELECT i, -i FROM generate_series(1, 100) i;
CREATE TEMP TABLE large AS SELECT i AS a, -i AS b, repeat('x', 100) AS s FROM generate_series(1, 10000) i;
CREATE INDEX small_b ON small (b);
CREATE INDEX large_b ON large (b);
CLUSTER small USING small_b;
CLUSTER large USING large_b;
VACUUM FULL small, large;
REINDEX TABLE small;
REINDEX TABLE large;
CREATE INDEX small_sum ON small ((a + b));
CLUSTER small USING small_sum;
SELECT (SELECT count(*) FROM small), (SELECT count(*) FROM large);
DROP TABLE small, large;
