-- Each shape of plan that the server runs in parallel over unlogged tables: over temporary ones it is parallel, too, or the reason is known.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS parallel_temp;
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 10;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SET temp_buffers = '32MB';
-- what can be is asked here, not what pays; but a small subquery gets no workers of its own
SET parallel_temp.worker_start_cost = 300;
SET parallel_temp.enter_page_cost = 0;

-- The same tables twice, by the same names, so that one query is for both.
CREATE SCHEMA shapes;
CREATE FUNCTION make_tables(kind text, schema text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	of_partitioned text := CASE kind WHEN 'TEMP' THEN 'TEMP' ELSE '' END;
	line text;
BEGIN
	FOREACH line IN ARRAY ARRAY[
		'CREATE %1$s TABLE %2$s.big (id int, k int, v int, txt text)',
		'INSERT INTO %2$s.big SELECT g, g %% 1000, g * 7 %% 1013, CASE WHEN g %% 4000 = 0 THEN repeat(md5(g::text), 400) ELSE g::text END FROM generate_series(1, 40000) g',
		'ALTER TABLE %2$s.big SET (parallel_workers = 2)',
		'CREATE INDEX ON %2$s.big (id)',
		'CREATE INDEX ON %2$s.big (k)',
		'CREATE INDEX ON %2$s.big ((v %% 100)) WHERE k < 900',
		'CREATE %1$s TABLE %2$s.small AS SELECT g AS id, g * 3 AS k, g %% 5 AS v FROM generate_series(1, 300) g',
		'CREATE %1$s TABLE %2$s.other AS SELECT g AS id, g %% 900 AS k FROM generate_series(1, 20000) g',
		'CREATE INDEX ON %2$s.other (id)',
		'CREATE %1$s TABLE %2$s.heir (extra int) INHERITS (%2$s.other)',
		'CREATE INDEX ON %2$s.heir (id)',
		'INSERT INTO %2$s.heir SELECT g, g %% 900, g FROM generate_series(50001, 52000) g',
		'CREATE %3$s TABLE %2$s.parted (id int, k int) PARTITION BY RANGE (id)',
		'CREATE %1$s TABLE %2$s.parted1 PARTITION OF %2$s.parted FOR VALUES FROM (0) TO (10000)',
		'CREATE %1$s TABLE %2$s.parted2 PARTITION OF %2$s.parted FOR VALUES FROM (10000) TO (30000)',
		'INSERT INTO %2$s.parted SELECT g, g %% 100 FROM generate_series(0, 29999) g']
	LOOP
		EXECUTE format(line, kind, schema, of_partitioned);
	END LOOP;
END
$$;
SELECT make_tables('UNLOGGED', 'shapes');
SELECT make_tables('TEMP', 'pg_temp');
-- from all rows: a sample of one table must not make a plan more expensive than the other's
SET default_statistics_target = 200;
VACUUM ANALYZE shapes.big, shapes.small, shapes.other, shapes.heir, shapes.parted;
VACUUM ANALYZE pg_temp.big, pg_temp.small, pg_temp.other, pg_temp.heir, pg_temp.parted;

CREATE TABLE shape (number serial, name text, query text, settings text, reason text);
INSERT INTO shape (name, query, settings, reason) VALUES
('scan with an aggregate', 'SELECT count(*), sum(v) FROM big WHERE v > 500', NULL, NULL),
('scan that returns few rows', 'SELECT id, txt FROM big WHERE v = 7', NULL, NULL),
('groups', 'SELECT k, count(*), sum(v) FROM big GROUP BY k', NULL, NULL),
('groups, sorted', 'SELECT k, count(*), sum(v) FROM big GROUP BY k', 'enable_hashagg=off', NULL),
('distinct', 'SELECT DISTINCT v % 10 FROM big', NULL, NULL),
('grouping sets', 'SELECT v % 5, k % 3, count(*) FROM big GROUP BY ROLLUP (1, 2)', NULL, NULL),
('sort and limit', 'SELECT id, v FROM big ORDER BY v, id LIMIT 10', NULL, NULL),
('values out of line', 'SELECT sum(length(txt)) FROM big', NULL, NULL),
('hash join', 'SELECT count(*), sum(b.v) FROM big b JOIN other o ON b.v = o.k', 'enable_mergejoin=off', NULL),
('hash join, each its own table', 'SELECT count(*), sum(b.v) FROM big b JOIN small s ON b.k = s.k', 'enable_parallel_hash=off,enable_nestloop=off,enable_mergejoin=off', NULL),
('merge join', 'SELECT count(*), sum(b.v) FROM big b JOIN other o ON b.v = o.k', 'enable_hashjoin=off,enable_nestloop=off', NULL),
('nested loop with an index', 'SELECT count(*), sum(o.k) FROM big b JOIN other o ON b.v = o.id WHERE b.k < 20', 'enable_hashjoin=off,enable_mergejoin=off', NULL),
('nested loop into a tree with a table without index', 'SELECT count(*) FROM big b JOIN (SELECT id FROM other UNION ALL SELECT id FROM small) o ON b.v = o.id WHERE b.k < 20', 'enable_hashjoin=off,enable_mergejoin=off', 'A sequential scan that depends on rows of another table is left to the server.'),
('subquery with such a nested loop', 'SELECT count(*) FROM big WHERE k NOT IN (SELECT s.k FROM small s JOIN (SELECT id FROM other UNION ALL SELECT id FROM small) o ON s.v = o.id)', 'enable_hashjoin=off,enable_mergejoin=off', 'A sequential scan that depends on rows of another table is left to the server.'),
('nested loop without', 'SELECT count(*) FROM big b JOIN small s ON b.v < s.v WHERE s.id < 30', NULL, NULL),
('left join', 'SELECT count(*), count(s.id) FROM big b LEFT JOIN small s ON b.k = s.k', NULL, NULL),
('semijoin', 'SELECT count(*) FROM big WHERE k IN (SELECT k FROM small)', NULL, NULL),
('antijoin', 'SELECT count(*) FROM big b WHERE NOT EXISTS (SELECT FROM small s WHERE s.k = b.k)', NULL, NULL),
('three tables', 'SELECT s.v, count(*) FROM big b JOIN small s ON b.k = s.k JOIN other o ON o.id = b.id GROUP BY 1', NULL, NULL),
('index scan', 'SELECT sum(v) FROM big WHERE id BETWEEN 1000 AND 30000', 'enable_seqscan=off,enable_bitmapscan=off', NULL),
('index-only scan', 'SELECT count(*) FROM big WHERE id BETWEEN 1000 AND 30000', 'enable_seqscan=off,enable_bitmapscan=off', NULL),
('index scan in order', 'SELECT id, v FROM big WHERE v > 1000 ORDER BY id', 'enable_seqscan=off,enable_sort=off,enable_bitmapscan=off', NULL),
('bitmap heap scan', 'SELECT sum(v) FROM big WHERE k < 300', 'enable_seqscan=off,enable_indexscan=off', NULL),
('bitmap heap scan, two indexes', 'SELECT sum(v) FROM big WHERE k < 100 OR id < 9000', 'enable_seqscan=off,enable_indexscan=off', NULL),
('UNION ALL', 'SELECT count(*), sum(k) FROM (SELECT k FROM big UNION ALL SELECT k FROM other) x', NULL, NULL),
('UNION', 'SELECT count(*) FROM (SELECT k FROM big UNION SELECT k FROM other) x', NULL, NULL),
('partitions', 'SELECT count(*), sum(k) FROM parted', NULL, NULL),
('join of partitions', 'SELECT count(*) FROM parted p JOIN parted q USING (id)', 'enable_partitionwise_join=on', NULL),
('inheritance', 'SELECT count(*), sum(k) FROM other', NULL, NULL),
('hashed NOT IN', 'SELECT count(*) FROM big WHERE k NOT IN (SELECT k FROM small)', NULL, NULL),
('hashed IN with another condition', 'SELECT count(*) FROM big WHERE k IN (SELECT k FROM small) OR v < 3', NULL, NULL),
('plain subquery in the filter', 'SELECT count(*) FROM big WHERE v > ALL (SELECT id FROM small WHERE id < 4)', NULL, NULL),
('subquery of a join', 'SELECT count(*) FROM big WHERE k NOT IN (SELECT s.k FROM small s JOIN small t USING (id))', NULL, NULL),
('subquery within a subquery', 'SELECT count(*) FROM big WHERE k NOT IN (SELECT k FROM small WHERE v NOT IN (SELECT v FROM small WHERE id < 4))', NULL, NULL),
('subquery by index', 'SELECT count(*) FROM big WHERE k NOT IN (SELECT k FROM other WHERE id < 50)', 'enable_seqscan=off', NULL),
('subquery in the output', 'SELECT k, k IN (SELECT k FROM small) FROM big WHERE v < 3', NULL, NULL),
('scalar subquery', 'SELECT count(*) FROM big WHERE v > (SELECT avg(k) FROM small)', NULL, NULL),
('scalar subquery that is parallel', 'SELECT count(*) FROM small WHERE k > (SELECT avg(k) FROM big)', NULL, NULL),
('array of a subquery', 'SELECT count(*) FROM big WHERE k = ANY (ARRAY(SELECT k FROM small))', NULL, NULL),
('scalar subquery in the target list', 'SELECT count(*), (SELECT max(id) FROM small) FROM big', NULL, NULL),
('EXISTS with another condition', 'SELECT count(*) FROM big b WHERE v < 3 OR EXISTS (SELECT FROM small s WHERE s.k = b.k)', NULL, NULL),
('correlated subquery', 'SELECT count(*) FROM small s WHERE id < 20 AND k < (SELECT avg(v) FROM other o JOIN big b USING (id) WHERE o.k = s.k)', NULL, NULL),
('subquery in FROM', 'SELECT count(*) FROM (SELECT k, count(*) AS n FROM big GROUP BY k) x JOIN small s USING (k) WHERE n > 2', NULL, NULL),
('WITH', 'WITH c AS (SELECT k, count(*) AS n FROM big GROUP BY k) SELECT count(*), sum(n) FROM c', NULL, NULL),
('WITH, materialized', 'WITH c AS MATERIALIZED (SELECT k, count(*) AS n FROM big GROUP BY k) SELECT count(*), sum(x.n) FROM c x JOIN c y USING (k)', NULL, NULL),
('window function', 'SELECT sum(r) FROM (SELECT row_number() OVER (ORDER BY v, id) AS r FROM big WHERE k < 100) x', NULL, NULL),
('LATERAL', 'SELECT sum(n) FROM small s, LATERAL (SELECT count(*) AS n FROM big b WHERE b.k = s.k) x WHERE s.id < 20', NULL, NULL),
('least and greatest by index', 'SELECT min(id), max(id) FROM big', NULL, NULL),
('sample', 'SELECT count(*) FROM big TABLESAMPLE SYSTEM (100)', NULL, 'The query reads a sample of the table.'),
('range of row addresses', 'SELECT count(*) FROM big WHERE ctid < ''(100,1)''', NULL, NULL),
('function over the table''s rows', 'SELECT count(*) FROM big b, generate_series(1, b.k % 3) g', NULL, NULL),
('join with a function in FROM', 'SELECT count(*) FROM big b JOIN generate_series(1, 100) g ON b.k = g', NULL, NULL),
('join with VALUES', 'SELECT count(*) FROM big b JOIN (VALUES (1), (2), (3)) AS g (k) USING (k)', NULL, NULL),
('full join', 'SELECT count(*), count(b.id), count(o.id) FROM big b FULL JOIN other o ON b.v = o.id', 'enable_mergejoin=off', NULL),
('right join', 'SELECT count(*), count(s.id) FROM small s RIGHT JOIN big b ON b.k = s.k', NULL, NULL),
('semijoin by merging', 'SELECT count(*) FROM big b WHERE EXISTS (SELECT FROM other o WHERE o.k = b.v)', 'enable_hashjoin=off,enable_nestloop=off', NULL),
('antijoin by an index', 'SELECT count(*) FROM big b WHERE b.k < 50 AND NOT EXISTS (SELECT FROM big c WHERE c.id = b.v * 2)', 'enable_hashjoin=off,enable_mergejoin=off', NULL),
('lookups that are memoized', 'SELECT count(*), sum(c.k) FROM big b JOIN big c ON c.id = b.v WHERE b.k < 300', 'enable_hashjoin=off,enable_mergejoin=off', NULL),
('join with itself', 'SELECT count(*) FROM big a JOIN big b ON a.id = b.v', 'enable_nestloop=off,enable_mergejoin=off', NULL),
('join of a group with a group', 'SELECT count(*) FROM (SELECT k, sum(v) AS n FROM big GROUP BY k) x JOIN (SELECT k, count(*) AS m FROM other GROUP BY k) y USING (k) WHERE n > m', NULL, NULL),
('sort of what is sorted in part', 'SELECT id, v FROM big WHERE v > 1000 ORDER BY id, v', 'enable_seqscan=off,enable_bitmapscan=off', NULL),
('backwards by an index', 'SELECT id, v FROM big WHERE v > 1000 ORDER BY id DESC', 'enable_seqscan=off,enable_bitmapscan=off,enable_sort=off', NULL),
('distinct rows, sorted', 'SELECT count(*) FROM (SELECT DISTINCT k, v % 3 FROM big) x', 'enable_hashagg=off', NULL),
('first of each group', 'SELECT DISTINCT ON (k) k, v, id FROM big ORDER BY k, v, id', NULL, NULL),
('distinct values in an aggregate', 'SELECT v % 3, count(DISTINCT k) FROM big GROUP BY 1', NULL, NULL),
('order in an aggregate', 'SELECT md5(string_agg(id::text, '','' ORDER BY v, id)) FROM big WHERE k < 20', NULL, NULL),
('part of an aggregate', 'SELECT k % 7, count(*) FILTER (WHERE v > 500), avg(v), stddev(v)::numeric(10,4) FROM big GROUP BY 1', NULL, NULL),
('group that a subquery chooses', 'SELECT k, count(*) FROM big GROUP BY k HAVING count(*) > (SELECT min(v) + 39 FROM small)', NULL, NULL),
('cube', 'SELECT v % 5, k % 3, id % 2, count(*) FROM big GROUP BY CUBE (1, 2, 3)', NULL, NULL),
('set of rows from each row', 'SELECT count(*), sum(u) FROM (SELECT unnest(ARRAY[k, v]) AS u FROM big) x', NULL, NULL),
('ranks', 'SELECT sum(r) FROM (SELECT rank() OVER (PARTITION BY k ORDER BY v, id) AS r FROM big) x', NULL, NULL),
('sum of a frame', 'SELECT sum(r) FROM (SELECT sum(v) OVER (ORDER BY id RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) AS r FROM big WHERE k < 100) x', NULL, NULL),
('INTERSECT', 'SELECT count(*) FROM (SELECT k FROM big INTERSECT SELECT k FROM other) x', NULL, NULL),
('EXCEPT', 'SELECT count(*) FROM (SELECT id FROM big EXCEPT SELECT id FROM other) x', NULL, NULL),
('UNION ALL of groups', 'SELECT sum(n) FROM (SELECT k, count(*) AS n FROM big GROUP BY k UNION ALL SELECT k, count(*) FROM other GROUP BY k) x', NULL, NULL),
('UNION ALL in order', 'SELECT id FROM (SELECT id FROM big UNION ALL SELECT id FROM other) x ORDER BY id LIMIT 50', 'enable_seqscan=off,enable_sort=off', NULL),
('UNION ALL in a join', 'SELECT count(*) FROM (SELECT k FROM big UNION ALL SELECT k FROM other) x JOIN small s ON x.k = s.k', NULL, NULL),
('partitions in order', 'SELECT id, k FROM parted WHERE k < 50 ORDER BY k, id LIMIT 20', NULL, NULL),
('groups of partitions', 'SELECT count(*), sum(n) FROM (SELECT id, count(*) AS n FROM parted GROUP BY id) x', 'enable_partitionwise_aggregate=on', NULL),
('partitions with a table', 'SELECT count(*), sum(s.v) FROM parted p JOIN small s ON p.k = s.k', NULL, NULL),
('one partition', 'SELECT count(*), sum(k) FROM parted WHERE id < 5000', NULL, NULL),
('bitmap heap scan, both of two indexes', 'SELECT sum(v) FROM big WHERE k < 100 AND id < 30000', 'enable_seqscan=off,enable_indexscan=off', NULL),
('index on an expression of some rows', 'SELECT count(*), sum(id) FROM big WHERE v % 100 < 30 AND k < 900', 'enable_seqscan=off,enable_bitmapscan=off', NULL),
('list of keys', 'SELECT count(*), sum(v) FROM big WHERE k IN (1, 5, 9, 700, 800)', 'enable_seqscan=off', NULL),
('EXISTS of another table with another condition', 'SELECT count(*) FROM big WHERE v < 3 OR EXISTS (SELECT FROM small WHERE k = 6)', NULL, NULL),
('NOT IN of a subquery with a subquery', 'SELECT count(*) FROM big WHERE k NOT IN (SELECT k FROM small WHERE v > (SELECT min(v) FROM other o JOIN small USING (id)))', NULL, NULL),
('subquery in a condition of a join', 'SELECT count(*) FROM big b JOIN other o ON b.v = o.id AND b.k > (SELECT avg(v) FROM small)', NULL, NULL),
('CASE with a subquery', 'SELECT sum(CASE WHEN k > (SELECT avg(k) FROM small) THEN v END) FROM big', NULL, NULL),
('two subqueries of one table', 'SELECT count(*) FROM big WHERE v BETWEEN (SELECT min(k) FROM small) AND (SELECT max(k) FROM small)', NULL, NULL),
('join with WITH RECURSIVE', 'WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 9) SELECT count(*) FROM big JOIN r ON big.k = r.n', NULL, NULL),
('WITH, materialized, of a small table', 'WITH c AS MATERIALIZED (SELECT * FROM small WHERE v = 1) SELECT count(*) FROM big b JOIN c USING (k)', NULL, NULL),
('LATERAL of a join', 'SELECT count(*), sum(x.k) FROM big b, LATERAL (SELECT o.k FROM other o WHERE o.id = b.v) x WHERE b.k < 20', 'enable_hashjoin=off,enable_mergejoin=off', NULL),
('whole rows', 'SELECT count(b), count(DISTINCT b.tableoid) FROM big b', NULL, NULL),
('row addresses', 'SELECT count(DISTINCT ctid) FROM big', NULL, NULL),
('list of row addresses', 'SELECT count(*) FROM big WHERE ctid = ANY (ARRAY[''(0,1)'', ''(3,2)'']::tid[])', NULL, NULL),
('sample by rows', 'SELECT count(*) FROM big TABLESAMPLE BERNOULLI (100) REPEATABLE (1)', NULL, 'The query reads a sample of the table.'),
('comparison of rows', 'SELECT count(*) FROM big WHERE (k, v) > (500, 3)', NULL, NULL),
('only a limit', 'SELECT count(*) FROM (SELECT id FROM big WHERE v > 1000 LIMIT 300) x', NULL, NULL),
('materialized once for each row of many', 'SELECT count(*) FROM big b JOIN small s ON b.k % 50 = s.id WHERE s.v = 1 AND b.k < 500', 'enable_hashjoin=off,enable_mergejoin=off', NULL);

-- Since 19 the server changes the visibility map of a table that it reads by an index, so workers do not.
UPDATE shape SET reason = why FROM (VALUES
	('Workers do not read the table by an index.', ARRAY['index scan', 'index-only scan', 'bitmap heap scan', 'bitmap heap scan, two indexes',
		'bitmap heap scan, both of two indexes', 'index on an expression of some rows', 'order in an aggregate', 'window function', 'sum of a frame']),
	('Workers do not read the table in the order of an index.', ARRAY['index scan in order', 'backwards by an index', 'sort of what is sorted in part']),
	('Workers do not read the inner table of the loop by an index.', ARRAY['nested loop with an index', 'antijoin by an index', 'LATERAL of a join']),
	('The subquery reads a table by an index, so workers do not run it.', ARRAY['subquery by index', 'NOT IN of a subquery with a subquery'])) AS since (why, names)
WHERE current_setting('server_version_num')::int >= 190000 AND name = ANY (names);

-- The names of tables that workers read, from a plan.
CREATE FUNCTION read_by_workers(plan jsonb, below boolean) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT plan ->> 'Relation Name' WHERE below AND plan ? 'Relation Name'
	UNION
	SELECT read_by_workers(child, below OR plan ->> 'Node Type' LIKE 'Gather%')
	FROM jsonb_array_elements(CASE WHEN plan ? 'Plans' THEN plan -> 'Plans' ELSE '[]' END) child
$$;
CREATE FUNCTION run_shape(query text, settings text, OUT tables text[], OUT answer text) LANGUAGE plpgsql AS $$
DECLARE
	before text[] := ARRAY(SELECT split_part(s, '=', 1) || '=' || current_setting(split_part(s, '=', 1)) FROM unnest(string_to_array(settings, ',')) s);
	setting text;
	plan jsonb;
BEGIN
	FOREACH setting IN ARRAY string_to_array(coalesce(settings, ''), ',') LOOP
		PERFORM set_config(split_part(setting, '=', 1), split_part(setting, '=', 2), true);
	END LOOP;
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	tables := ARRAY(SELECT DISTINCT name FROM read_by_workers(plan -> 0 -> 'Plan', false) name ORDER BY 1);
	EXECUTE format('SELECT md5(coalesce(string_agg(x::text, chr(10) ORDER BY x::text), %L)) FROM (%s) x', '', query) INTO answer;
	FOREACH setting IN ARRAY before LOOP
		PERFORM set_config(split_part(setting, '=', 1), split_part(setting, '=', 2), true);
	END LOOP;
END
$$;
CREATE TABLE outcome AS SELECT number, 'stock' AS kind, NULL::text[] AS tables, NULL::text AS answer FROM shape WITH NO DATA;
SET search_path = shapes, public, pg_temp;
INSERT INTO outcome SELECT number, 'unlogged', (run_shape(query, settings)).* FROM shape ORDER BY number;
SET search_path = pg_temp, public;
INSERT INTO outcome SELECT number, 'temporary', (run_shape(query, settings)).* FROM shape ORDER BY number;
RESET search_path;

-- No answer differs.
SELECT s.name FROM shape s JOIN outcome u USING (number) JOIN outcome t USING (number)
WHERE u.kind = 'unlogged' AND t.kind = 'temporary' AND u.answer IS DISTINCT FROM t.answer;

-- The server does run nearly all of them in parallel: the list is not empty talk.
SELECT count(*) > 80 AS enough FROM outcome WHERE kind = 'unlogged' AND tables <> '{}';

-- What is parallel over unlogged tables and not over temporary ones: the README's list, and nothing without a reason.
SELECT format('| %s | %s |', s.name, s.reason) AS row FROM shape s JOIN outcome u USING (number) JOIN outcome t USING (number)
WHERE u.kind = 'unlogged' AND t.kind = 'temporary' AND NOT u.tables <@ t.tables ORDER BY number;

-- The first cause, once for each table.
CREATE FUNCTION plan_only(query text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN ' || query LOOP
	END LOOP;
END
$$;
CREATE DOMAIN shape_domain AS int CHECK (VALUE <> 5);
CREATE FUNCTION shape_restricted(int) RETURNS int LANGUAGE plpgsql PARALLEL RESTRICTED AS 'BEGIN RETURN $1; END';
CREATE FUNCTION shape_unsafe(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
RESET client_min_messages;
SET parallel_temp.explain_refusals = on;
SELECT plan_only('SELECT count(*) FROM big b WHERE v < 3 OR EXISTS (SELECT FROM small s WHERE s.k = b.k)');
SELECT plan_only('SELECT count(*) FROM big WHERE shape_restricted(k) = 1');
SELECT plan_only('SELECT count(*) FROM big WHERE shape_unsafe(k) = 1');
SELECT plan_only('SELECT count(*) FROM big WHERE v::shape_domain = 1');
SELECT plan_only('SELECT count(*) FROM big TABLESAMPLE SYSTEM (10)');
SELECT plan_only('SELECT id FROM big ORDER BY v FOR UPDATE LIMIT 1');
SELECT plan_only('WITH d AS (DELETE FROM small RETURNING id) SELECT count(*) FROM big, d');
SELECT plan_only('DECLARE c CURSOR FOR SELECT count(*) FROM big');
SELECT plan_only('SELECT count(*) FROM big b JOIN small s USING (k)');
SET parallel_setup_cost = 1000000;
SELECT plan_only('SELECT count(*) FROM big b JOIN small s USING (k)');
RESET parallel_temp.explain_refusals;
SET client_min_messages = warning;

DROP FUNCTION plan_only, shape_restricted, shape_unsafe;
DROP DOMAIN shape_domain;
DROP TABLE shape, outcome;
DROP SCHEMA shapes CASCADE;
DROP FUNCTION make_tables, run_shape, read_by_workers;
