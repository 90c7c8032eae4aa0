-- Workers fill pages of the table that their query's rows go into.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS parallel_temp;

RESET client_min_messages;
CREATE SCHEMA fill_pages;
SET search_path = fill_pages, public;
CREATE EXTENSION pageinspect;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET parallel_temp.worker_start_cost = 0;
SET parallel_temp.enter_page_cost = 0;
SET max_parallel_workers_per_gather = 2;
-- all rows are then made by workers
SET parallel_leader_participation = off;
SET temp_buffers = 200;
CREATE TABLE source AS SELECT i AS id, i % 10 AS v, CASE WHEN i % 7 > 0 THEN 'row ' || i END AS s FROM generate_series(1, 20000) i;
ANALYZE source;
CREATE TEMP TABLE target (id int, v int, s text);

-- What EXPLAIN ANALYZE says: of the node, of pages, of rows.
CREATE FUNCTION explained(statement text, OUT node bool, OUT by_workers bool, OUT only_leader text, OUT gathered text, OUT fast_load text)
LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	node := false;
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) ' || statement LOOP
		node := node OR line LIKE '%Custom Scan (Temp Load)%';
		by_workers := coalesce(by_workers, line ~ 'Pages: .* by workers:.* [1-9]') OR line ~ 'Pages: .* by workers:.* [1-9]';
		only_leader := coalesce(only_leader, substring(line FROM 'Pages: by the leader only \((.*)\)'));
		gathered := coalesce(gathered, substring(line FROM 'Gather \(actual rows=(\d+)'));
		fast_load := coalesce(fast_load, regexp_replace(substring(line FROM 'Fast Load: (.*)'), '\d\d+|\m\d\M', 'N', 'g'));
	END LOOP;
END $$;

-- The same rows with pages and without.
CREATE FUNCTION fill(statement text, relation text DEFAULT 'target', OUT node bool, OUT by_workers bool, OUT only_leader text, OUT gathered text, OUT same bool, OUT count bigint)
LANGUAGE plpgsql AS $$
DECLARE
	left_by_rows text;
	left_by_pages text;
	is_new bool := statement !~ '^(INSERT|WITH)';
	look text := format('SELECT sum(hashtext(t::text)::bigint), count(*) FROM %I t', relation);
	clear text := CASE WHEN is_new THEN 'DROP TABLE ' ELSE 'TRUNCATE ' END || relation;
	n bigint;
BEGIN
	SET LOCAL parallel_temp.fill_pages = off;
	IF NOT is_new THEN EXECUTE clear; END IF;
	EXECUTE statement;
	EXECUTE look INTO left_by_rows, count;
	EXECUTE clear;
	SET LOCAL parallel_temp.fill_pages = on;
	EXECUTE statement;
	GET DIAGNOSTICS n = ROW_COUNT;
	IF n <> count THEN RAISE '% rows instead of %', n, count; END IF;
	EXECUTE look INTO left_by_pages, count;
	EXECUTE clear;
	same := left_by_rows IS NOT DISTINCT FROM left_by_pages;
	SELECT e.node, e.by_workers, e.only_leader, e.gathered FROM explained(statement) e INTO node, by_workers, only_leader, gathered;
	EXECUTE look INTO left_by_pages, count;
	same := same AND left_by_rows IS NOT DISTINCT FROM left_by_pages;
	IF is_new THEN EXECUTE clear; END IF;
END $$;

-- Rows of a table whose header is not as the server would have left it.
CREATE FUNCTION odd_headers(relation text) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM generate_series(0, pg_relation_size(relation) / 8192 - 1) block,
		heap_page_items(get_raw_page(relation, block::int)) item
		-- rows that were rolled back are pruned by 19's scans: places that are free or dead
		WHERE item.lp_flags = 2 OR item.lp_flags = 1 AND (item.t_ctid IS DISTINCT FROM format('(%s,%s)', block, item.lp)::tid
			OR item.t_xmax <> '0' OR item.t_infomask & 2048 = 0);
$$;

-- shape
EXPLAIN (COSTS off) INSERT INTO target SELECT * FROM source WHERE v < 9;
EXPLAIN (VERBOSE, COSTS off) INSERT INTO target (s, id) SELECT a.s, b.id + 1 FROM source a JOIN source b USING (id) WHERE b.v < 3;
EXPLAIN (COSTS off) CREATE TEMP TABLE made AS SELECT id, s FROM source;
EXPLAIN (COSTS off) CREATE TABLE made AS SELECT id, s FROM source;

-- statements
SELECT * FROM fill('INSERT INTO target SELECT * FROM source WHERE v < 9');
SELECT * FROM fill('INSERT INTO target (s, id) SELECT s, id FROM source');
SELECT * FROM fill('INSERT INTO target SELECT id, 7, ''same'' FROM source');
SELECT * FROM fill('CREATE TEMP TABLE made AS SELECT * FROM source WHERE v < 9', 'made');
SELECT * FROM fill('CREATE TEMP TABLE made (a, b) WITH (fillfactor = 40) AS SELECT id, md5(s) FROM source', 'made');
SELECT * FROM fill('CREATE TEMP TABLE made ON COMMIT DROP AS SELECT source FROM source', 'made');
SELECT * FROM fill('INSERT INTO target SELECT a.id, b.v, a.s FROM source a JOIN source b USING (id) WHERE b.v <> 4');
SELECT * FROM fill('INSERT INTO target SELECT id, (SELECT max(v) FROM source), s FROM source WHERE id > (SELECT avg(id) FROM source)');
SELECT * FROM fill('INSERT INTO target SELECT * FROM source WHERE v = 1 UNION ALL SELECT * FROM source WHERE v = 2');
SELECT * FROM fill('INSERT INTO target SELECT * FROM source WHERE id < 0');
SELECT * FROM fill('INSERT INTO target SELECT * FROM source WHERE id = 77');
SELECT id, v, s INTO TEMP made FROM source;
SELECT count(*), sum(id), odd_headers('made') FROM made;
DROP TABLE made;

-- other formats than text have numbers
CREATE FUNCTION in_json(statement text, OUT leader text, OUT numbers bool, OUT pages bool, OUT leader_only text) LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
	node jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, FORMAT JSON) ' || statement INTO plan;
	node := jsonb_path_query_first(plan, 'strict $.** ? (@."Custom Plan Provider" == "Temp Load")');
	leader := jsonb_typeof(node -> 'Pages by Leader');
	leader_only := node ->> 'Pages by Leader Only';
	SELECT bool_and(jsonb_typeof(w -> 'Pages') = 'number' AND jsonb_typeof(w -> 'Worker Number') = 'number'), sum((w ->> 'Pages')::int) > 0
		INTO numbers, pages FROM jsonb_array_elements(node -> 'Pages by Workers') w;
END $$;
SELECT * FROM in_json('INSERT INTO target SELECT * FROM source');
SET max_parallel_workers = 0;
SELECT * FROM in_json('INSERT INTO target SELECT * FROM source');
RESET max_parallel_workers;
TRUNCATE target;

-- an order, a group, a limit: rows
SELECT * FROM fill('CREATE TEMP TABLE made AS SELECT * FROM source ORDER BY s', 'made');
SELECT * FROM fill('CREATE TEMP TABLE made AS SELECT v, count(*) FROM source GROUP BY v', 'made');
SELECT * FROM fill('INSERT INTO target SELECT * FROM source LIMIT 100000');
SELECT * FROM fill('INSERT INTO target SELECT DISTINCT * FROM source');

-- the leader takes part, or is alone
SET parallel_leader_participation = on;
SELECT node, gathered, same, count FROM fill('INSERT INTO target SELECT * FROM source');
SELECT node, gathered, same, count FROM fill('CREATE TEMP TABLE made AS SELECT * FROM source', 'made');
SET max_parallel_workers = 0;
SELECT * FROM fill('INSERT INTO target SELECT * FROM source');
SELECT * FROM fill('CREATE TEMP TABLE made AS SELECT * FROM source', 'made');
RESET max_parallel_workers;
SET parallel_leader_participation = off;

-- from a temporary table; rows that are too wide for a page, and values out of line
CREATE TEMP TABLE near AS SELECT id, v, CASE v WHEN 1 THEN repeat(s || md5(s), 300) WHEN 2 THEN repeat(s, 130) ELSE s END AS s FROM source WHERE id <= 10000;
SELECT * FROM fill('INSERT INTO target SELECT * FROM near');
SELECT * FROM fill('INSERT INTO target SELECT id, v, s || ''x'' FROM near');
SELECT * FROM fill('INSERT INTO target SELECT * FROM near WHERE v = 1');
SELECT * FROM fill('CREATE TEMP TABLE made AS SELECT * FROM near', 'made');
SET parallel_temp.method = flush;
SELECT * FROM fill('INSERT INTO target SELECT * FROM near WHERE v > 1');
RESET parallel_temp.method;

-- The leader's rows, of which it forms all here, or some: also of those kinds.
SET parallel_leader_participation = on;
CREATE TEMP TABLE strict (id int NOT NULL, v int, s text NOT NULL);
SELECT node, gathered, same, count FROM fill('INSERT INTO target SELECT * FROM near');
SELECT node, gathered, same, count FROM fill('CREATE TEMP TABLE made WITH (fillfactor = 20) AS SELECT * FROM near', 'made');
SET max_parallel_workers = 0;
SELECT * FROM fill('INSERT INTO target SELECT * FROM near');
SELECT * FROM fill('INSERT INTO target SELECT * FROM near WHERE v = 1');
SELECT * FROM fill('INSERT INTO target SELECT * FROM near WHERE id < 0');
SELECT * FROM fill('CREATE TEMP TABLE made AS SELECT id, v, s || ''x'' AS s FROM near', 'made');
SELECT * FROM fill('INSERT INTO strict SELECT id, v, coalesce(s, '''') FROM near', 'strict');
TRUNCATE strict;
\set VERBOSITY sqlstate
INSERT INTO strict SELECT nullif(id, 9500), v, '' FROM near;
\set VERBOSITY default
SELECT count(*), pg_relation_size('strict') FROM strict;
INSERT INTO strict SELECT * FROM near WHERE s IS NOT NULL;
INSERT INTO strict SELECT * FROM near WHERE s IS NOT NULL;
SELECT count(*), count(DISTINCT id), count(DISTINCT ctid), odd_headers('strict') FROM strict;
-- no row is counted twice, or not at all: of the insertion, the Gather, the node and the scan
CREATE FUNCTION rows_of_nodes(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	found text := '';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) ' || statement LOOP
		found := found || coalesce(substring(line FROM 'actual rows=(\d+)') || ' ', '');
	END LOOP;
	RETURN found;
END $$;
SELECT rows_of_nodes('INSERT INTO strict SELECT id, v, '''' FROM source');
BEGIN;
CREATE TEMP TABLE made AS SELECT * FROM source;
SELECT count(*), count(*) FILTER (WHERE item.t_infomask & 768 = 768) FROM generate_series(0, pg_relation_size('made') / 8192 - 1) block,
	heap_page_items(get_raw_page('made', block::int)) item;
ROLLBACK;
-- a function looks at the table (in a worker it could not)
CREATE FUNCTION looks(i int) RETURNS int LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
	IF i = 7000 THEN
		RETURN i + (SELECT count(*) FROM strict);
	END IF;
	RETURN i;
END $$;
TRUNCATE strict;
SELECT fast_load FROM explained('INSERT INTO strict SELECT looks(id), v, '''' FROM source');
SELECT fast_load FROM explained('INSERT INTO strict SELECT looks(id), v, '''' FROM source');
SELECT count(*), count(DISTINCT ctid), sum(id) = 2 * (20000 * 20001 / 2) + 20000 AS seen_before, odd_headers('strict') FROM strict;
RESET max_parallel_workers;
SET parallel_leader_participation = off;
DROP TABLE strict;

-- what a table may have
CREATE TEMP TABLE not_nulls (dropped int, id int NOT NULL, v int, s text NOT NULL, more int DEFAULT 7);
ALTER TABLE not_nulls DROP COLUMN dropped;
ALTER TABLE not_nulls ADD COLUMN later int DEFAULT 8;
SELECT * FROM fill('INSERT INTO not_nulls (id, s) SELECT id, v FROM source', 'not_nulls');
SELECT * FROM fill('INSERT INTO not_nulls (id, s, more) SELECT id, coalesce(s, ''''), nullif(v, 3) FROM source', 'not_nulls');
\set VERBOSITY sqlstate
INSERT INTO not_nulls (id, s) SELECT nullif(id, 19000), 'x' FROM source;
\set VERBOSITY default
SELECT count(*) FILTER (WHERE id = 1) FROM not_nulls;
ALTER TABLE target SET (fillfactor = 30);
SELECT * FROM fill('INSERT INTO target SELECT * FROM source');
SELECT pg_relation_size('target') > 2 * pg_relation_size('source'), odd_headers('target');
ALTER TABLE target RESET (fillfactor);
ALTER TABLE target ALTER s SET STORAGE EXTERNAL;
SELECT * FROM fill('INSERT INTO target SELECT * FROM source');
CREATE TEMP TABLE other (LIKE target);
CREATE INDEX ON other (id);
SELECT * FROM fill('INSERT INTO other SELECT * FROM source', 'other');
DROP TABLE other;
CREATE TEMP TABLE other (LIKE target, CHECK (id > 0));
SELECT * FROM fill('INSERT INTO other SELECT * FROM source', 'other');
DROP TABLE other;
CREATE TEMP TABLE other (LIKE target, g int GENERATED ALWAYS AS (id + v) STORED);
SELECT * FROM fill('INSERT INTO other (id, v) SELECT id, v FROM source', 'other');
DROP TABLE other;
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TEMP TABLE other (LIKE target);
CREATE TRIGGER after_all AFTER INSERT ON other FOR EACH STATEMENT EXECUTE FUNCTION note();
SELECT * FROM fill('INSERT INTO other SELECT * FROM source', 'other');
DROP TABLE other;
CREATE TABLE other (LIKE target);
SELECT * FROM fill('INSERT INTO other SELECT * FROM source', 'other');
DROP TABLE other;
SELECT * FROM fill('CREATE TABLE made AS SELECT * FROM source', 'made');
EXPLAIN (COSTS off) INSERT INTO target SELECT * FROM source RETURNING id;
EXPLAIN (COSTS off) INSERT INTO target SELECT * FROM source ON CONFLICT DO NOTHING;
SET parallel_temp.fast_load = off;
SELECT * FROM explained('INSERT INTO target SELECT * FROM source');
RESET parallel_temp.fast_load;
SET parallel_temp.fill_pages = off;
SELECT * FROM explained('INSERT INTO target SELECT * FROM source');
SELECT * FROM explained('CREATE TEMP TABLE made AS SELECT * FROM source');
DROP TABLE made;
RESET parallel_temp.fill_pages;

-- few rows, unless workers are free
EXPLAIN (COSTS off) CREATE TEMP TABLE made AS SELECT id FROM source WHERE v < 3;
SET parallel_setup_cost = 1;
EXPLAIN (COSTS off) CREATE TEMP TABLE made AS SELECT id FROM source WHERE v < 3;

-- The planner's price of rows holds for those that come one by one.
SET parallel_tuple_cost = 10;
EXPLAIN (COSTS off) CREATE TEMP TABLE made AS SELECT * FROM source WHERE v < 9;
EXPLAIN (COSTS off) INSERT INTO target SELECT * FROM source WHERE v < 9;
EXPLAIN (COSTS off) SELECT * FROM source WHERE v < 9;
EXPLAIN (COSTS off) CREATE TEMP TABLE made AS SELECT id, count(*) FROM source GROUP BY id;
SHOW parallel_tuple_cost;
-- to take a row in a page is no more than to form it: what workers save of the query counts, however many rows it has
SET parallel_setup_cost = 80;
EXPLAIN (COSTS off) CREATE TEMP TABLE made AS SELECT * FROM source WHERE v < 9;
-- that they form rows is worth a part of what starting them costs, the more rows the more, and no more than that
SET parallel_setup_cost = 180;
EXPLAIN (COSTS off) CREATE TEMP TABLE made AS SELECT * FROM source WHERE v < 9;
EXPLAIN (COSTS off) INSERT INTO target SELECT * FROM source WHERE v < 9;
EXPLAIN (COSTS off) CREATE TEMP TABLE made AS SELECT * FROM source WHERE v < 2;
SET parallel_setup_cost = 340;
EXPLAIN (COSTS off) CREATE TEMP TABLE made AS SELECT * FROM source WHERE v < 9;
SHOW parallel_setup_cost;
-- a table that is worth one worker: what one saves, however many there may be
SET parallel_leader_participation = on;
ALTER TABLE source SET (parallel_workers = 1);
SET max_parallel_workers_per_gather = 8;
SET parallel_setup_cost = 160;
EXPLAIN (COSTS off) CREATE TEMP TABLE made AS SELECT * FROM source WHERE v < 9;
SET parallel_setup_cost = 280;
EXPLAIN (COSTS off) CREATE TEMP TABLE made AS SELECT * FROM source WHERE v < 9;
ALTER TABLE source RESET (parallel_workers);
SET max_parallel_workers_per_gather = 2;
SET parallel_leader_participation = off;
-- the start of two workers, over permanent tables
SET parallel_setup_cost = 100;
EXPLAIN (COSTS off) CREATE TEMP TABLE made AS SELECT * FROM source WHERE v < 9;
SET parallel_temp.worker_start_cost = 3000;
EXPLAIN (COSTS off) CREATE TEMP TABLE made AS SELECT * FROM source WHERE v < 9;
SET parallel_temp.worker_start_cost = 0;
-- and over temporary tables
CREATE TEMP TABLE nigh AS SELECT * FROM source;
ANALYZE nigh;
SET parallel_setup_cost = 100;
SET parallel_temp.worker_start_cost = 900;
EXPLAIN (COSTS off) CREATE TEMP TABLE made AS SELECT * FROM nigh WHERE v < 9;
SET parallel_temp.fill_pages = off;
SET parallel_tuple_cost = 0;
EXPLAIN (COSTS off) CREATE TEMP TABLE made AS SELECT * FROM nigh WHERE v < 9;
SET parallel_tuple_cost = 10;
RESET parallel_temp.fill_pages;
SET parallel_temp.worker_start_cost = 2000;
EXPLAIN (COSTS off) CREATE TEMP TABLE made AS SELECT * FROM nigh WHERE v < 9;
SHOW parallel_temp.worker_start_cost;
DROP TABLE nigh;
SET parallel_temp.worker_start_cost = 0;
SET parallel_setup_cost = 0;
SET parallel_temp.fill_pages = off;
EXPLAIN (COSTS off) CREATE TEMP TABLE made AS SELECT * FROM source WHERE v < 9;
RESET parallel_temp.fill_pages;
SET parallel_tuple_cost = 0;

-- a free place in the table is used first; a load that begins later; in buffers and beyond
TRUNCATE target;
INSERT INTO target SELECT * FROM source;
DELETE FROM target WHERE id % 2 = 0;
VACUUM target;
SELECT pg_relation_size('target') AS before \gset
INSERT INTO target SELECT * FROM source WHERE id % 2 = 0;
SELECT count(*), sum(id), count(DISTINCT ctid), pg_relation_size('target') < 1.2 * :before AS reused FROM target;
SELECT fast_load FROM explained('INSERT INTO target SELECT * FROM source');
SELECT count(*), sum(id), count(DISTINCT ctid) FROM target;
TRUNCATE target;

-- pages are the transaction's
BEGIN;
INSERT INTO target SELECT * FROM source WHERE v = 1;
SAVEPOINT one;
INSERT INTO target SELECT * FROM source;
SELECT count(*), count(DISTINCT xmin::text) FROM target;
ROLLBACK TO one;
SELECT count(*) FROM target;
SAVEPOINT two;
INSERT INTO target SELECT * FROM source WHERE v = 2;
RELEASE two;
DECLARE c CURSOR FOR SELECT count(*) FROM target;
INSERT INTO target SELECT * FROM source WHERE v = 3;
FETCH c;
SELECT only_leader FROM explained('INSERT INTO target SELECT * FROM source WHERE v = 4');
CLOSE c;
COMMIT;
SELECT count(*), count(DISTINCT xmin::text), odd_headers('target') FROM target;
UPDATE target SET v = -1 WHERE v = 3;
DELETE FROM target WHERE v = 1;
CREATE INDEX ON target (id);
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM target WHERE id > 10;
RESET enable_seqscan;
DROP TABLE target;

-- a table of the same transaction gets frozen rows, until it is read
BEGIN;
CREATE TEMP TABLE target AS SELECT * FROM source;
SELECT count(*), count(*) FILTER (WHERE item.t_infomask & 768 = 768) FROM generate_series(0, pg_relation_size('target') / 8192 - 1) block,
	heap_page_items(get_raw_page('target', block::int)) item;
SELECT odd_headers('target');
ROLLBACK;
BEGIN;
CREATE TEMP TABLE target AS SELECT * FROM source;
DELETE FROM target WHERE id % 2 = 0;
SELECT count(*), odd_headers('target') FROM target WHERE id <= 100;
COMMIT;
SELECT count(*) FROM target;
TRUNCATE target;

-- So does one that INSERT fills, be it empty before or not: where one process would freeze.
CREATE FUNCTION frozen(relation text, OUT rows bigint, OUT frozen bigint, OUT not_all_visible bigint) LANGUAGE sql AS $$
	SELECT sum(items), sum(frozen_items), count(*) FILTER (WHERE (page_header(page)).flags & 4 = 0)
	FROM generate_series(0, pg_relation_size(relation) / 8192 - 1) block,
		LATERAL (SELECT get_raw_page(relation, block::int) AS page OFFSET 0) pages,
		LATERAL (SELECT count(*) AS items, count(*) FILTER (WHERE t_infomask & 768 = 768) AS frozen_items FROM heap_page_items(page)) items
$$;
BEGIN;
CREATE TEMP TABLE made (LIKE source);
INSERT INTO made SELECT * FROM source;
SELECT rows, frozen, not_all_visible <= 1 AS all_visible, odd_headers('made') FROM frozen('made');
-- rows that go to a page that is there are not
INSERT INTO made SELECT * FROM source;
SELECT rows, frozen > 39000 AND frozen < 40000 AS most_are_frozen, not_all_visible <= 3 AS all_visible, odd_headers('made') FROM frozen('made');
SAVEPOINT one;
INSERT INTO made SELECT * FROM source;
SELECT rows, frozen < 40000 AS no_more_are_frozen FROM frozen('made');
TRUNCATE made;
INSERT INTO made SELECT * FROM source;
SELECT rows, frozen FROM frozen('made');
ROLLBACK TO one;
SELECT count(*), sum(id) FROM made;
COMMIT;
SELECT count(*), sum(id) FROM made;
DROP TABLE made;
-- rows that come one by one from workers are
BEGIN;
CREATE TEMP TABLE made (LIKE source);
CREATE INDEX ON made (id);
INSERT INTO made SELECT * FROM source;
SELECT rows, frozen > 19000 AS most_are_frozen FROM frozen('made');
ROLLBACK;
-- not those of a function, nor while a snapshot exists that must not see them
BEGIN;
CREATE TEMP TABLE made (LIKE source);
DO $$ BEGIN INSERT INTO made SELECT * FROM source; END $$;
SELECT rows, frozen FROM frozen('made');
TRUNCATE made;
DECLARE c CURSOR FOR SELECT 1;
INSERT INTO made SELECT * FROM source;
SELECT rows, frozen FROM frozen('made');
ROLLBACK;
CREATE FUNCTION rows_of(relation text) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE format('SELECT count(*) FROM %I', relation) INTO n;
	RETURN n;
END $$;
CREATE FUNCTION opens_cursor() RETURNS int LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
	c refcursor := 'looks_later';
BEGIN
	OPEN c FOR SELECT rows_of('made');
	RETURN 0;
END $$;
BEGIN;
CREATE TEMP TABLE made (LIKE source);
INSERT INTO made SELECT * FROM source WHERE id > (SELECT opens_cursor());
FETCH looks_later;
CLOSE looks_later;
SELECT rows, frozen FROM frozen('made');
INSERT INTO made SELECT * FROM source WHERE id > (SELECT opens_cursor());
FETCH looks_later;
CLOSE looks_later;
SELECT rows, frozen FROM frozen('made');
ROLLBACK;
-- rows are not frozen any more where a cursor opened meanwhile is there at the end
CREATE FUNCTION opens_and(i int, how text) RETURNS int LANGUAGE plpgsql STABLE AS $$
DECLARE
	c refcursor := 'looks_later';
BEGIN
	IF i <> 3000 THEN
		RETURN i;
	END IF;
	OPEN c FOR SELECT rows_of('made');
	IF how = 'closes' THEN
		CLOSE c;
	ELSIF how = 'undoes' THEN
		RAISE EXCEPTION 'undone';
	END IF;
	RETURN i;
EXCEPTION WHEN raise_exception THEN
	RETURN i;
END $$;
BEGIN;
CREATE TEMP TABLE made AS SELECT opens_and(i, 'leaves') AS id FROM generate_series(1, 9000) i;
SELECT rows, frozen FROM frozen('made');
FETCH looks_later;
ROLLBACK;
BEGIN;
CREATE TEMP TABLE made AS SELECT opens_and(i, 'closes') AS id FROM generate_series(1, 9000) i;
SELECT rows, frozen FROM frozen('made');
ROLLBACK;
BEGIN;
CREATE TEMP TABLE made AS SELECT opens_and(i, 'undoes') AS id FROM generate_series(1, 9000) i;
SELECT rows, frozen FROM frozen('made');
ROLLBACK;
-- a query without rows; an error; a table that is another transaction's: nothing is left
BEGIN;
CREATE TEMP TABLE made (LIKE source);
INSERT INTO made SELECT * FROM source WHERE id < 0;
SELECT count(*), pg_relation_size('made') FROM made;
INSERT INTO made SELECT * FROM source WHERE id = 77;
SELECT rows, frozen FROM frozen('made');
COMMIT;
TRUNCATE made;
INSERT INTO made SELECT * FROM source WHERE id < 0;
SELECT fast_load FROM explained('INSERT INTO made SELECT * FROM source WHERE id < 0');
\set VERBOSITY sqlstate
INSERT INTO made SELECT id, 1 / (id - 19000), s FROM source;
SELECT pg_relation_size('made');
BEGIN;
SAVEPOINT one;
INSERT INTO made SELECT id, 1 / (id - 19000), s FROM source;
ROLLBACK TO one;
SELECT count(*), pg_relation_size('made') FROM made;
INSERT INTO made SELECT * FROM source;
SELECT rows, frozen FROM frozen('made');
COMMIT;
\set VERBOSITY default
SELECT count(*), sum(id), odd_headers('made') FROM made;
-- workers do not start
BEGIN;
TRUNCATE made;
SET LOCAL max_parallel_workers = 0;
INSERT INTO made SELECT * FROM source;
SELECT rows, frozen FROM frozen('made');
SET LOCAL parallel_temp.fill_pages = off;
TRUNCATE made;
INSERT INTO made SELECT * FROM source;
SELECT rows, frozen > 19900 AS most_are_frozen FROM frozen('made');
COMMIT;
DROP TABLE made;

-- The table is read while it is filled: by the leader, in its part of the plan.
SELECT set_config('my.pid', pg_backend_pid()::text, false) IS NOT NULL;
CREATE FUNCTION peek(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
	IF pg_backend_pid()::text = current_setting('my.pid') AND i % 3000 = 0 THEN
		PERFORM count(*) FROM target;
	END IF;
	RETURN i;
END $$;
SET parallel_leader_participation = on;
INSERT INTO target SELECT peek(id), v, s FROM source;
SELECT count(*), sum(id), count(DISTINCT ctid) FROM target;
SET parallel_leader_participation = off;

-- A table that goes to the file for the most part: workers write pages themselves.  Every block has rows, and every row is where
-- it says it is.
CREATE TABLE wide AS SELECT id, v, CASE WHEN id % 7 > 0 THEN repeat(md5(id::text), 12) END AS s FROM source;
ANALYZE wide;
CREATE FUNCTION blocks_without_rows(relation text, OUT n bigint) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SELECT pg_relation_size(%L) / 8192 - count(DISTINCT (ctid::text::point)[0]) FROM %I', relation, relation) INTO n;
END $$;
SET parallel_leader_participation = off;
SELECT parallel_temp_stats_reset();
TRUNCATE target;
SELECT * FROM fill('INSERT INTO target SELECT * FROM wide');
SELECT * FROM fill('INSERT INTO target SELECT id, v, s || ''x'' FROM wide WHERE v < 9');
SELECT * FROM fill('CREATE TEMP TABLE made AS SELECT * FROM wide', 'made');
SELECT * FROM fill('CREATE TEMP TABLE made WITH (fillfactor = 40) AS SELECT * FROM wide', 'made');
SELECT value > 1000 AS written FROM parallel_temp_stats WHERE counter = 'pages written by workers';
CREATE TEMP TABLE made AS SELECT * FROM wide;
SELECT count(*), count(*) FILTER (WHERE item.t_infomask & 768 = 768) FROM generate_series(0, pg_relation_size('made') / 8192 - 1) block,
	heap_page_items(get_raw_page('made', block::int)) item;
SELECT odd_headers('made'), blocks_without_rows('made');
VACUUM made;
SELECT count(*), sum(id), sum(hashtext(s)::bigint), odd_headers('made'), blocks_without_rows('made') FROM made;
INSERT INTO target SELECT * FROM wide;
BEGIN;
INSERT INTO target SELECT * FROM made;
SELECT count(*), sum(id), odd_headers('target'), blocks_without_rows('target') FROM target;
SAVEPOINT one;
INSERT INTO target SELECT * FROM wide;
ROLLBACK TO one;
INSERT INTO target SELECT * FROM wide WHERE v = 1;
SELECT count(*), sum(id), odd_headers('target') FROM target;
COMMIT;
DROP TABLE made;
TRUNCATE target;
SET parallel_leader_participation = on;
INSERT INTO target SELECT peek(id), v, s FROM wide;
SELECT count(*), sum(id), sum(hashtext(s)::bigint), odd_headers('target'), blocks_without_rows('target') FROM target;
SET parallel_leader_participation = off;

-- a plan that is kept
PREPARE p AS INSERT INTO target SELECT id, $1, s FROM source WHERE v = $1;
SET plan_cache_mode = force_generic_plan;
TRUNCATE target;
EXPLAIN (COSTS off) EXECUTE p(1);
EXECUTE p(1);
SET parallel_temp.fill_pages = off;
EXPLAIN (COSTS off) EXECUTE p(1);
EXECUTE p(2);
RESET parallel_temp.fill_pages;
CREATE INDEX ON target (id);
EXPLAIN (COSTS off) EXECUTE p(1);
EXECUTE p(3);
SELECT count(*), sum(v) FROM target;
RESET plan_cache_mode;

-- an error in a worker, with pages on their way
DROP TABLE target;
CREATE TEMP TABLE target (id int, v int, s text);
\set VERBOSITY sqlstate
INSERT INTO target SELECT id, 1 / (id - 19000), s FROM source;
CREATE TEMP TABLE made AS SELECT id, 1 / (id - 19000) AS v, s FROM source;
SELECT count(*) FROM target;
SELECT count(*) FROM pg_local_buffers WHERE pins <> 0;
SET client_min_messages = warning;
DROP SCHEMA fill_pages CASCADE;
