# Statements that together use every plan node type, and a function that runs one
# of them under core's instrumentation and under light_explain and compares all
# figures of all nodes but times.
package Battery;

use strict;
use warnings;

use Exporter 'import';
our @EXPORT = qw(battery_sql battery_statements battery_node_types);

# SQL that makes tables and functions.
sub battery_sql
{
	return <<'SQL';
CREATE TABLE t (id int PRIMARY KEY, k int NOT NULL, v text, n numeric);
INSERT INTO t SELECT g, g % 100, repeat('x', 20 + g % 10), g FROM generate_series(1, 3000) g;
CREATE INDEX t_k ON t (k);
CREATE TABLE u (id int PRIMARY KEY, t_id int, w text);
INSERT INTO u SELECT g, g * 3, 'w' || g FROM generate_series(1, 1000) g;
CREATE INDEX u_t_id ON u (t_id);
CREATE TABLE big (id int, pad text);
INSERT INTO big SELECT g, repeat('p', 100) FROM generate_series(1, 4000) g;
CREATE TABLE par (id int, k int) PARTITION BY RANGE (id);
CREATE TABLE par1 PARTITION OF par FOR VALUES FROM (0) TO (500);
CREATE TABLE par2 PARTITION OF par FOR VALUES FROM (500) TO (1000);
CREATE TABLE par3 PARTITION OF par FOR VALUES FROM (1000) TO (2000);
INSERT INTO par SELECT g, g % 7 FROM generate_series(0, 1999) g;
CREATE INDEX par_id ON par (id);
CREATE TABLE toasted (id int, doc text);
ALTER TABLE toasted ALTER doc SET STORAGE EXTERNAL;
INSERT INTO toasted SELECT g, repeat(md5(g::text), 300) FROM generate_series(1, 30) g;
CREATE TABLE parent (id int PRIMARY KEY);
INSERT INTO parent SELECT generate_series(1, 200);
CREATE TABLE child (id int, p int REFERENCES parent ON DELETE CASCADE);
INSERT INTO child SELECT g, g FROM generate_series(1, 200) g;
CREATE INDEX ON child (p);
CREATE TEMP TABLE tmp (id int, v text);
INSERT INTO tmp SELECT g, repeat('y', 50) FROM generate_series(1, 2000) g;
CREATE TABLE bm (a int, b int, pad text);
INSERT INTO bm SELECT g % 31, g % 29, repeat('b', 100) FROM generate_series(1, 8000) g;
CREATE INDEX ON bm (a);
CREATE INDEX ON bm (b);
CREATE TABLE trig_plan (plan json);
CREATE SEQUENCE counter;
CREATE TABLE ten AS SELECT generate_series(1, 10) AS id;
ANALYZE ten;
VACUUM ANALYZE t; VACUUM ANALYZE u; VACUUM ANALYZE big; VACUUM ANALYZE par; VACUUM ANALYZE toasted;
VACUUM ANALYZE bm;
VACUUM ANALYZE parent; VACUUM ANALYZE child; ANALYZE tmp;

CREATE FUNCTION f_sql(i int) RETURNS bigint LANGUAGE sql VOLATILE
	AS 'SELECT count(*) FROM t WHERE k = i % 100';
CREATE FUNCTION f_plpgsql(i int) RETURNS bigint LANGUAGE plpgsql AS
$$DECLARE r bigint; BEGIN SELECT sum(id) INTO r FROM u WHERE t_id = i; RETURN r; END$$;
CREATE FUNCTION f_caught(i int) RETURNS int LANGUAGE plpgsql AS
$$BEGIN
	IF i % 3 = 0 THEN PERFORM 1 / (SELECT count(*) FROM u WHERE t_id = i AND w = 'none'); END IF;
	RETURN (SELECT count(*) FROM t WHERE id = i);
EXCEPTION WHEN division_by_zero THEN RETURN -i; END$$;
CREATE FUNCTION f_rows(n int) RETURNS SETOF t LANGUAGE sql VOLATILE AS 'SELECT * FROM t WHERE id <= n ORDER BY v, id';
CREATE FUNCTION f_cursor(n int) RETURNS SETOF int LANGUAGE plpgsql AS
$$DECLARE c CURSOR FOR SELECT a.id FROM t a JOIN u b ON a.id = b.t_id ORDER BY a.id; r record;
BEGIN OPEN c; FOR i IN 1..n LOOP FETCH c INTO r; RETURN NEXT r.id; END LOOP; CLOSE c; END$$;
CREATE FUNCTION t_nested() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN PERFORM count(*) FROM t WHERE k = NEW.k; RETURN NEW; END$$;
CREATE FUNCTION t_transition() RETURNS trigger LANGUAGE plpgsql AS
$$DECLARE j json; BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, WAL, TIMING OFF, FORMAT JSON)
		SELECT count(*) FROM changed c JOIN t ON c.id = t.id' INTO j;
	TRUNCATE trig_plan; INSERT INTO trig_plan VALUES (j); RETURN NULL; END$$;

-- Takes what is a matter of time or of memory layout out of a plan.
CREATE FUNCTION figures(plan jsonb) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS
$$DECLARE k text; v jsonb; result jsonb;
BEGIN
	IF jsonb_typeof(plan) = 'object' THEN
		result := '{}';
		FOR k, v IN SELECT * FROM jsonb_each(plan) LOOP
			IF k ~ 'Time$|^Trigger Name$|^Planning|^JIT$|^Sort Space|^Average Sort|^Peak Sort|Memory|^Maximum Storage' OR
			   k ~ '^Full-sort Groups$|^Pre-sorted Groups$|Cache (Hits|Misses|Evictions|Overflows)$' THEN
				CONTINUE;
			END IF;
			result := result || jsonb_build_object(k, figures(v));
		END LOOP;
		RETURN result;
	ELSIF jsonb_typeof(plan) = 'array' THEN
		RETURN coalesce((SELECT jsonb_agg(figures(e) ORDER BY o) FROM jsonb_array_elements(plan) WITH ORDINALITY a(e, o)), '[]');
	END IF;
	RETURN plan;
END$$;

-- Every field of a plan that is a time of a node.
CREATE FUNCTION run_explain(setup text, statement text, options text) RETURNS jsonb LANGUAGE plpgsql AS
$$DECLARE j json;
BEGIN
	IF setup <> '' THEN EXECUTE setup; END IF;
	IF statement ~ '^TRIGGER:' THEN
		EXECUTE substr(statement, 9);
		SELECT plan INTO j FROM trig_plan;
	ELSE
		EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, WAL, ' || options || ', FORMAT JSON) ' || statement INTO j;
	END IF;
	RETURN j::jsonb;
END$$;

-- Run as core does, light, as core again: 'same', or what differs.
CREATE FUNCTION compare(setup text, statement text, options text) RETURNS text LANGUAGE plpgsql AS
$$DECLARE a jsonb; b jsonb; c jsonb; tries int := 0;
BEGIN
	PERFORM set_config('light_explain.enabled', 'off', false);
	PERFORM run_explain(setup, statement, options);
	LOOP
		tries := tries + 1;
		PERFORM set_config('light_explain.enabled', 'off', false);
		a := figures(run_explain(setup, statement, options));
		PERFORM set_config('light_explain.enabled', 'on', false);
		b := figures(run_explain(setup, statement, options));
		IF a = b THEN
			IF current_setting('parallel_setup_cost') = '0' AND a::text !~ '"Workers Planned"' THEN
				RETURN 'has no workers';
			END IF;
			INSERT INTO node_types SELECT DISTINCT t #>> '{}' FROM jsonb_path_query(a, 'strict $.**."Node Type"') t
				ON CONFLICT DO NOTHING;
			RETURN 'same';
		END IF;
		-- core must agree with itself before anything can be said
		PERFORM set_config('light_explain.enabled', 'off', false);
		c := figures(run_explain(setup, statement, options));
		IF a = c AND tries >= 2 THEN
			-- workers on a busy machine sometimes look up a catalog again, without any
			-- library (one in fifty parallel sorts): only differences that core also shows are excused
			FOR i IN 1 .. CASE WHEN a::text ~ '"Workers Launched"' THEN 100 ELSE 0 END LOOP
				c := figures(run_explain(setup, statement, options));
				EXIT WHEN b = c;
			END LOOP;
			CONTINUE WHEN b = c AND tries < 12;
			RETURN E'differs\n' || statement || E'\ncore: ' || jsonb_pretty(a) || E'\nlight: ' || jsonb_pretty(b);
		END IF;
		IF tries >= 12 THEN
			RETURN E'never twice the same\n' || statement || E'\n' || jsonb_pretty(a) || E'\n' || jsonb_pretty(c);
		END IF;
	END LOOP;
END$$;
CREATE TEMP TABLE node_types (name text PRIMARY KEY);
SQL
}

# Node types of EXPLAIN that the battery must meet.
sub battery_node_types
{
	return (
		'Result', 'ProjectSet', 'ModifyTable', 'Append', 'Merge Append', 'Recursive Union', 'BitmapAnd', 'BitmapOr',
		'Nested Loop', 'Merge Join', 'Hash Join', 'Seq Scan', 'Sample Scan', 'Gather', 'Gather Merge', 'Index Scan',
		'Index Only Scan', 'Bitmap Index Scan', 'Bitmap Heap Scan', 'Tid Scan', 'Tid Range Scan', 'Subquery Scan',
		'Function Scan', 'Values Scan', 'CTE Scan', 'Named Tuplestore Scan', 'WorkTable Scan',
		'Materialize', 'Memoize', 'Sort', 'Incremental Sort', 'Group', 'Aggregate', 'WindowAgg', 'Unique', 'SetOp',
		'LockRows', 'Limit', 'Hash', 'Custom Scan');
}

my $parallel = 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; '
  . 'SET min_parallel_index_scan_size = 0; SET parallel_leader_participation = off; '
  . 'SET max_parallel_workers_per_gather = 2; SET max_parallel_workers = 1';
my $leader = "$parallel; SET parallel_leader_participation = on; SET max_parallel_workers = 0";
my $two = "$parallel; SET max_parallel_workers = 2";
my $dml = 'DROP TABLE IF EXISTS d; CREATE TABLE d (id int PRIMARY KEY, k int, v text); '
  . q{INSERT INTO d SELECT g, g % 10, 'row' || g FROM generate_series(1, 300) g; ANALYZE d};

# [settings, setup before each run, statement]
sub battery_statements
{
	my @s = map { [ '', '', $_ ] } (
		'SELECT 1',
		'SELECT * FROM t WHERE false',
		'SELECT generate_series(1, 50), generate_series(1, 3)',
		'SELECT unnest(ARRAY[id, k]) FROM t WHERE id < 20',
		'SELECT count(*) FROM t',
		'SELECT count(*), sum(k), avg(n) FROM t WHERE k < 30',
		'SELECT k, count(*) FROM t GROUP BY k',
		# filters: rows on every page, on none, at the ends of pages, in several cycles; parts that may move counters or fail
		'SELECT count(*) FROM t WHERE k <> 50',
		'SELECT count(*) FROM t WHERE k % 2 = 1 AND (id > 1000 OR id < 990) AND NOT id = ANY (ARRAY[7, 1500])',
		'SELECT count(*) FROM big WHERE id <= 1000 OR id > 3000',
		'SELECT count(*) FROM ten a, ten b WHERE a.id <> b.id',
		'SELECT a.id, b.id FROM ten a JOIN ten b ON a.id < b.id ORDER BY 1, 2',
		'SELECT count(*) FROM u a WHERE EXISTS (SELECT 1 FROM ten b WHERE b.id > a.id)',
		'SELECT count(*) FROM big WHERE id > 3990 OR id % 56 = 0',
		'SELECT * FROM t WHERE k < 50 LIMIT 77',
		'SELECT count(*) FROM u, LATERAL (SELECT count(*) FROM big WHERE id <> u.t_id OFFSET 0) s WHERE u.id <= 5',
		q{SELECT count(*) FROM t WHERE k >= 0 AND setval('counter', id) > 0},
		'SELECT count(*) FROM toasted WHERE id > 0 AND doc LIKE \'%a%\'',
		'SELECT count(*) FROM toasted WHERE id > 0 AND hashtext(doc) <> 0',
		'SELECT (SELECT count(*) FROM big b WHERE b.id <> a.id AND b.id <= 500) FROM u a WHERE a.id < 4',
		'SELECT k, count(DISTINCT id) FROM t GROUP BY k',
		'SELECT k, count(*) FROM t GROUP BY k HAVING count(*) > 1000',
		'SELECT k, v, count(*) FROM t GROUP BY ROLLUP (k, v)',
		'SELECT k, v, count(*) FROM t GROUP BY GROUPING SETS ((k), (v), ())',
		'SELECT count(*) FILTER (WHERE k > 5), string_agg(v, \',\' ORDER BY id DESC) FROM t',
		'SELECT * FROM t ORDER BY v, id',
		'SELECT * FROM t ORDER BY v LIMIT 5',
		'SELECT * FROM t LIMIT 10',
		'SELECT * FROM t LIMIT 0',
		'SELECT * FROM t OFFSET 50 LIMIT 7',
		'SELECT * FROM t ORDER BY k FETCH FIRST 10 ROWS WITH TIES',
		'SELECT * FROM t LIMIT (SELECT count(*) / 100 FROM u)',
		'SELECT * FROM t WHERE id = 17',
		'SELECT * FROM t WHERE id = ANY (ARRAY[1, 5, 900, 12345])',
		'SELECT * FROM t WHERE id BETWEEN 100 AND 200 AND k = 5',
		'SELECT id FROM t WHERE id < 100',
		'SELECT * FROM t WHERE ctid = \'(0,1)\'',
		'SELECT * FROM t WHERE ctid = ANY (ARRAY[\'(0,1)\', \'(1,2)\', \'(9999,1)\']::tid[])',
		'SELECT * FROM t WHERE ctid >= \'(1,1)\' AND ctid < \'(3,1)\'',
		'SELECT * FROM t TABLESAMPLE BERNOULLI (30) REPEATABLE (1)',
		'SELECT count(*) FROM t TABLESAMPLE SYSTEM (50) REPEATABLE (2) WHERE k < 10',
		'SELECT * FROM generate_series(1, 100) g WHERE g % 2 = 0',
		'SELECT * FROM ROWS FROM (generate_series(1, 10), generate_series(1, 5)) WITH ORDINALITY',
		'SELECT * FROM (VALUES (1, \'a\'), (2, \'b\'), (3, \'c\')) v(a, b) WHERE a > 1',
		'SELECT t.*, v.* FROM t JOIN (VALUES (1), (2), (3)) v(x) ON t.id = v.x',
		'SELECT count(*) FROM t JOIN u ON t.id = u.t_id',
		'SELECT count(*) FROM t LEFT JOIN u ON t.id = u.t_id AND u.id < 100 WHERE u.id IS NULL',
		'SELECT count(*) FROM t FULL JOIN u ON t.id = u.t_id',
		'SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.t_id = t.id)',
		'SELECT count(*) FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.t_id = t.id)',
		'SELECT count(*) FROM t WHERE id IN (SELECT t_id FROM u WHERE w > \'w5\')',
		'SELECT count(*) FROM t WHERE id NOT IN (SELECT t_id FROM u)',
		'SELECT id, (SELECT count(*) FROM u WHERE u.t_id = t.id) FROM t WHERE id < 200',
		'SELECT id, (SELECT max(id) FROM u) FROM t WHERE id < 50',
		'SELECT id FROM t WHERE k = (SELECT min(k) FROM t) AND id > (SELECT avg(id) FROM u)',
		'SELECT CASE WHEN k = 3 THEN (SELECT sum(id) FROM u) ELSE 0 END FROM t',
		'SELECT ARRAY(SELECT id FROM u WHERE u.id < t.k) FROM t WHERE id < 30',
		'SELECT count(*) FROM t, LATERAL (SELECT * FROM u WHERE u.t_id = t.id LIMIT 1) x',
		'SELECT * FROM t, LATERAL generate_series(1, t.k % 3) g WHERE t.id < 60',
		# scans that begin again in the middle of a page
		'SELECT count(*) FROM (SELECT * FROM u LIMIT 20) a, LATERAL (SELECT * FROM t LIMIT 50 + a.id % 3) b',
		'SELECT * FROM u a, u b WHERE a.id < 20 AND b.id < 20',
		'SELECT count(*) FROM t a, t b, u c WHERE a.id = b.id AND b.id = c.t_id AND a.k < 10',
		'SELECT DISTINCT k FROM t',
		'SELECT DISTINCT ON (k) * FROM t ORDER BY k, id DESC',
		'SELECT id FROM t UNION SELECT id FROM u',
		'SELECT id FROM t UNION ALL SELECT id FROM u',
		'SELECT id FROM t INTERSECT SELECT t_id FROM u',
		'SELECT id FROM t EXCEPT ALL SELECT t_id FROM u',
		'SELECT k, row_number() OVER (PARTITION BY k ORDER BY id), sum(id) OVER (ORDER BY id) FROM t WHERE id < 500',
		'SELECT * FROM (SELECT *, rank() OVER (ORDER BY k) r FROM t) x WHERE r < 5',
		'WITH c AS MATERIALIZED (SELECT * FROM t WHERE k < 20) SELECT count(*) FROM c a JOIN c b USING (id)',
		'WITH c AS MATERIALIZED (SELECT * FROM t) SELECT * FROM c LIMIT 30',
		'WITH c AS MATERIALIZED (SELECT * FROM t ORDER BY id), e AS MATERIALIZED (SELECT * FROM c WHERE k < 50)
			SELECT count(*) FROM e UNION ALL SELECT count(*) FROM c',
		'WITH c AS MATERIALIZED (SELECT id FROM t ORDER BY id)
			SELECT (SELECT id FROM c OFFSET 10 LIMIT 1), (SELECT id FROM c OFFSET 500 LIMIT 1), u.id FROM u WHERE id < 10',
		'WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 50) SELECT sum(i) FROM r',
		'WITH RECURSIVE r AS (SELECT id, t_id FROM u WHERE id = 3 UNION SELECT u.id, u.t_id FROM u JOIN r ON u.id = r.t_id) SELECT * FROM r',
		'WITH x AS (SELECT 1) SELECT * FROM x, (SELECT sum(id) FROM t) y, (SELECT k FROM t GROUP BY k OFFSET 3 LIMIT 2) z',
		'SELECT * FROM (SELECT * FROM t ORDER BY v OFFSET 0) x WHERE k = 3',
		'SELECT * FROM t WHERE k < 3 FOR UPDATE',
		'SELECT * FROM t WHERE id < 5 FOR SHARE',
		'SELECT * FROM t JOIN u ON t.id = u.t_id WHERE u.id < 20 FOR UPDATE OF u SKIP LOCKED',
		'SELECT count(*) FROM par',
		'SELECT * FROM par WHERE id BETWEEN 400 AND 600',
		'SELECT * FROM par ORDER BY id LIMIT 700',
		'SELECT count(*) FROM par WHERE id = (SELECT min(t_id) FROM u)',
		'SELECT length(doc) FROM toasted',
		'SELECT sum(length(doc || id)) FROM toasted WHERE doc LIKE \'%ab%\'',
		'SELECT count(*) FROM tmp',
		'SELECT count(*) FROM tmp a JOIN tmp b ON a.id = b.id + 1',
		'SELECT f_sql(id) FROM t WHERE id < 40',
		'SELECT f_plpgsql(id) FROM t WHERE id < 60',
		'SELECT f_caught(id) FROM t WHERE id < 60',
		'SELECT * FROM f_rows(100)',
		'SELECT sum(k) FROM f_rows(500) WHERE k < 50',
		'SELECT * FROM f_cursor(40)',
		'SELECT pg_relation_size(oid) FROM pg_class WHERE relname < \'pg_c\'',
		'SELECT relname, (SELECT count(*) FROM pg_attribute WHERE attrelid = c.oid) FROM pg_class c WHERE relkind = \'r\'',
		'DECLARE c CURSOR FOR SELECT * FROM t WHERE k < 3',
		'CREATE TABLE ctas AS SELECT * FROM t WHERE k < 30',
		'EXECUTE ps(7)');

	# the last two leave something behind
	for my $s (@s)
	{
		$s->[1] = 'DROP TABLE IF EXISTS ctas' if $s->[2] =~ /^CREATE TABLE ctas/;
		$s->[1] = 'DEALLOCATE ALL; PREPARE ps(int) AS SELECT * FROM t WHERE k = $1' if $s->[2] =~ /^EXECUTE/;
	}

	my $join = 'SELECT count(*), sum(t.k) FROM t JOIN u ON t.id = u.t_id';
	# rows that their own transaction deleted: entries of an index that lead from page to page without a row
	push @s, [ 'SET enable_seqscan = off; SET enable_bitmapscan = off',
		q{DROP TABLE IF EXISTS gone; CREATE TABLE gone AS SELECT g AS id, repeat('g', 60) AS v FROM generate_series(1, 3000) g; }
		  . 'CREATE INDEX ON gone (id); DELETE FROM gone WHERE id % 200 > 20', 'SELECT count(v) FROM gone WHERE id > 0' ];
	push @s, map { [ $_->[0], '', $_->[1] ] } (
		[ 'SET enable_hashjoin = off; SET enable_mergejoin = off', $join ],
		[ 'SET enable_hashjoin = off; SET enable_nestloop = off', $join ],
		[ 'SET enable_mergejoin = off; SET enable_nestloop = off', $join ],
		[ 'SET enable_hashjoin = off; SET enable_nestloop = off', 'SELECT count(*) FROM t a FULL JOIN t b ON a.k = b.k AND a.id < 500 AND b.id < 500' ],
		[ 'SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_memoize = off',
			'SELECT count(*) FROM (SELECT * FROM t WHERE id < 100) t JOIN (SELECT * FROM u WHERE id < 200) u ON t.id = u.t_id' ],
		[ 'SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off', 'SELECT count(*) FROM t JOIN u ON t.k = u.id' ],
		[ 'SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off', 'SELECT count(*) FROM u b JOIN t a ON b.id = a.k WHERE a.id < 500' ],
		[ 'SET work_mem = 64', 'SELECT * FROM t ORDER BY v DESC, id' ],
		[ 'SET work_mem = 64', 'SELECT count(*) FROM t a JOIN t b ON a.v = b.v AND a.id = b.id' ],
		# hash joins with unique keys below an aggregate that goes to disk, below each other, and again in each loop; and one that goes to disk itself
		[ 'SET work_mem = 64; SET hash_mem_multiplier = 1; SET enable_sort = off; SET enable_mergejoin = off; SET enable_nestloop = off',
			'SELECT t.id, count(*) FROM t JOIN parent ON t.k = parent.id GROUP BY t.id' ],
		[ 'SET enable_mergejoin = off; SET enable_nestloop = off', 'SELECT count(*) FROM t JOIN u ON t.id = u.t_id JOIN parent ON t.k = parent.id' ],
		[ 'SET work_mem = 64; SET hash_mem_multiplier = 1; SET enable_mergejoin = off; SET enable_nestloop = off', 'SELECT count(b.v) FROM t a JOIN t b USING (id)' ],
		[ 'SET enable_mergejoin = off; SET enable_nestloop = off',
			'SELECT p.id, (SELECT count(*) FROM par1 a JOIN parent b ON a.k = b.id WHERE b.id <> p.id) FROM parent p WHERE p.id < 5' ],
		# ... and of each kind, with rows that match nowhere, in the middle of a page only, or after a filter, and one that ends early
		(map { [ 'SET enable_mergejoin = off; SET enable_nestloop = off', "SELECT count(*), sum(t.k) FROM t $_" ] } (
			'LEFT JOIN parent ON t.id = parent.id', 'RIGHT JOIN parent ON t.id = parent.id', 'FULL JOIN parent ON t.id = parent.id',
			'JOIN parent ON t.k = parent.id WHERE t.k > 20 AND t.k < 90', 'JOIN parent ON t.id = parent.id + 9999',
			'WHERE k IN (SELECT id FROM parent)', 'WHERE NOT EXISTS (SELECT FROM parent WHERE parent.id = t.k)')),
		[ 'SET enable_mergejoin = off; SET enable_nestloop = off', 'SELECT t.id, parent.id FROM t JOIN parent ON t.k = parent.id LIMIT 333' ],
		[ 'SET work_mem = 64; SET enable_sort = off', 'SELECT id, count(*) FROM t GROUP BY id' ],
		[ 'SET work_mem = 64', 'WITH c AS MATERIALIZED (SELECT * FROM t) SELECT count(*) FROM c a, c b WHERE a.id = b.id AND a.id < 20' ],
		[ 'SET work_mem = 64', 'SELECT sum(id) OVER (ORDER BY k ROWS BETWEEN 5 PRECEDING AND CURRENT ROW) FROM t' ],
		[ 'SET work_mem = 64', 'SELECT count(*) FROM t, LATERAL (SELECT * FROM big WHERE big.id < 50 OFFSET 0) x WHERE t.id < 30' ],
		[ 'SET enable_hashagg = off', 'SELECT k, count(*) FROM t GROUP BY k' ],
		[ 'SET enable_hashagg = off', 'SELECT DISTINCT v FROM t' ],
		[ 'SET enable_hashagg = off', 'SELECT k FROM t GROUP BY k' ],
		[ 'SET enable_hashagg = off', 'SELECT id FROM t EXCEPT SELECT t_id FROM u' ],
		[ 'SET enable_seqscan = off; SET enable_indexscan = off', 'SELECT * FROM t WHERE k = 5 AND id < 1000' ],
		[ 'SET enable_seqscan = off; SET enable_indexscan = off', 'SELECT * FROM bm WHERE a = 5 AND b = 7' ],
		[ 'SET enable_seqscan = off; SET enable_indexscan = off', 'SELECT * FROM t WHERE k = 5 OR id < 100' ],
		[ 'SET enable_seqscan = off; SET enable_indexscan = off', 'SELECT * FROM t WHERE (k = 5 OR k = 6) AND id BETWEEN 1 AND 1500' ],
		[ 'SET enable_seqscan = off; SET enable_bitmapscan = off', 'SELECT * FROM t WHERE k IN (1, 2, 3) ORDER BY k DESC' ],
		[ 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off', 'SELECT * FROM t ORDER BY k, id LIMIT 200' ],
		[ 'SET enable_seqscan = off; SET enable_sort = off', 'SELECT k, id, rank() OVER (PARTITION BY k ORDER BY id) FROM t' ],
		[ 'SET enable_partitionwise_join = on; SET enable_partitionwise_aggregate = on', 'SELECT a.id, count(*) FROM par a JOIN par b USING (id) GROUP BY a.id' ],
		[ 'SET enable_seqscan = off; SET enable_bitmapscan = off', 'SELECT * FROM par ORDER BY id' ],
		[ 'SET enable_seqscan = off; SET enable_bitmapscan = off', '(SELECT id FROM t ORDER BY id) UNION ALL (SELECT id FROM u ORDER BY id) ORDER BY id LIMIT 900' ],
		[ 'SET plan_cache_mode = force_generic_plan', 'SELECT f_plpgsql(id) FROM t WHERE id < 60' ],
		[ 'SET jit = on; SET jit_above_cost = 0', 'SELECT sum(k), count(*) FROM t WHERE id % 3 = 1' ],
		[ $leader, 'SELECT count(*) FROM t' ],
		[ $leader, 'SELECT count(*) FROM t a JOIN t b USING (id)' ],
		[ $parallel, 'SELECT count(*) FROM t' ],
		[ $parallel, 'SELECT count(*) FROM big WHERE id % 7 = 1' ],
		[ $parallel, 'SELECT k, count(*) FROM t GROUP BY k' ],
		[ "$parallel; SET enable_nestloop = off; SET enable_mergejoin = off", 'SELECT count(*) FROM t a JOIN t b USING (id)' ],
		[ "$parallel; SET enable_nestloop = off; SET enable_mergejoin = off; SET enable_parallel_hash = off", 'SELECT count(*) FROM t a JOIN t b USING (id)' ],
		[ "$parallel; SET enable_hashjoin = off; SET enable_nestloop = off", 'SELECT count(*) FROM t a JOIN u b ON a.id = b.t_id' ],
		[ "$parallel; SET enable_hashjoin = off; SET enable_mergejoin = off", 'SELECT count(*) FROM u a JOIN t b ON a.t_id = b.id' ],
		[ "$parallel; SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off", 'SELECT count(v) FROM t WHERE k < 30' ],
		[ "$parallel; SET enable_seqscan = off; SET enable_bitmapscan = off", 'SELECT count(v) FROM t WHERE id < 2000' ],
		[ $parallel, 'SELECT * FROM t ORDER BY v, id' ],
		[ "$parallel; SET enable_incremental_sort = off; SET enable_indexscan = off; SET enable_bitmapscan = off", 'SELECT DISTINCT k, v FROM t ORDER BY k, v' ],
		[ $two, 'SELECT pad, id FROM big ORDER BY pad, id' ],
		[ $parallel, 'SELECT count(*) FROM par' ],
		[ $parallel, 'SELECT * FROM t WHERE k = (SELECT min(k) FROM u JOIN t ON u.id = t.id)' ],
		[ "$parallel; SET enable_nestloop = off; SET enable_mergejoin = off", 'SELECT a.k, count(*) FROM t a JOIN u b ON a.id = b.t_id JOIN t c ON c.id = b.id GROUP BY a.k ORDER BY 1' ],
		[ "$two; SET enable_nestloop = off; SET enable_mergejoin = off", 'SELECT count(*) FROM t' ]);

	push @s, map { [ '', $dml, $_ ] } (
		q{INSERT INTO d SELECT g, g, 'new' FROM generate_series(1001, 1200) g},
		q{INSERT INTO d VALUES (2001, 1, 'one') RETURNING *},
		q{INSERT INTO d SELECT g, g, 'x' FROM generate_series(250, 350) g ON CONFLICT DO NOTHING},
		q{INSERT INTO d SELECT g, g, 'x' FROM generate_series(250, 350) g ON CONFLICT (id) DO UPDATE SET v = excluded.v WHERE d.k > 3},
		q{UPDATE d SET v = v || 'y' WHERE k < 5},
		q{UPDATE d SET v = u.w FROM u WHERE u.id = d.id},
		q{DELETE FROM d WHERE k = 3 RETURNING id},
		q{DELETE FROM d USING u WHERE u.t_id = d.id},
		q{MERGE INTO d USING (SELECT id, w FROM u WHERE id BETWEEN 200 AND 400) s ON d.id = s.id
			WHEN MATCHED AND s.id % 2 = 0 THEN UPDATE SET v = s.w WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.id, 0, s.w)},
		q{WITH del AS (DELETE FROM d WHERE k < 2 RETURNING *) SELECT count(*) FROM del},
		q{WITH ins AS (INSERT INTO d SELECT g, g, 'c' FROM generate_series(3001, 3050) g RETURNING id), up AS (UPDATE d SET k = 0 WHERE id < 30 RETURNING id)
			SELECT * FROM ins LIMIT 3});

	push @s,
	  [ '', "$dml; CREATE TRIGGER tr BEFORE INSERT OR UPDATE ON d FOR EACH ROW EXECUTE FUNCTION t_nested()", q{UPDATE d SET v = 'z' WHERE id < 40} ],
	  [ '', "$dml; CREATE TRIGGER tr AFTER INSERT ON d FOR EACH ROW EXECUTE FUNCTION t_nested()", q{INSERT INTO d SELECT g, g % 9, '' FROM generate_series(901, 930) g} ],
	  [ '', "$dml; CREATE TRIGGER tr AFTER UPDATE ON d REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION t_transition()", q{TRIGGER:UPDATE d SET v = 'z' WHERE id < 40} ],
	  [ '', 'DROP TABLE IF EXISTS fk; CREATE TABLE fk (id int, p int REFERENCES parent)', 'INSERT INTO fk SELECT g, g FROM generate_series(1, 150) g' ],
	  [ '', 'INSERT INTO parent VALUES (777) ON CONFLICT DO NOTHING; DELETE FROM child WHERE id > 900; INSERT INTO child SELECT 901, 777', 'DELETE FROM parent WHERE id = 777' ],
	  [ '', 'TRUNCATE tmp; INSERT INTO tmp SELECT g, repeat(\'y\', 50) FROM generate_series(1, 2000) g', 'UPDATE tmp SET v = \'n\' WHERE id % 3 = 0' ],
	  [ '', 'DROP TABLE IF EXISTS dp; CREATE TABLE dp (id int, k int) PARTITION BY LIST (k); CREATE TABLE dp0 PARTITION OF dp FOR VALUES IN (0); '
		. 'CREATE TABLE dp1 PARTITION OF dp FOR VALUES IN (1, 2)', 'INSERT INTO dp SELECT g, g % 3 FROM generate_series(1, 100) g' ];

	# scans that another library has wrapped: a join above them has to look
	push @s, map { [ "SET light_test_custom.wrap = on; SET enable_mergejoin = off; SET enable_nestloop = off; $_->[0]", '', $_->[1] ] } (
		[ '', 'SELECT count(*) FROM t JOIN parent ON t.k = parent.id' ],
		[ '', 'SELECT * FROM t LEFT JOIN parent ON t.k = parent.id JOIN u ON t.id = u.t_id WHERE t.id > 100' ],
		[ $leader, 'SELECT count(*) FROM t JOIN parent ON t.k = parent.id' ]);

	# custom scans that read tables for all of these
	for my $kind (qw(child hidden leaf))
	{
		push @s, map { [ "SET light_test_custom.kind = $kind" . ($_->[1] ? "; $_->[1]" : ''), '', $_->[0] ] } (
			[ 'SELECT * FROM t WHERE k < 30' ],
			[ 'SELECT k, count(*) FROM t WHERE id > 50 GROUP BY k' ],
			[ 'SELECT * FROM t ORDER BY v, id LIMIT 300' ],
			[ 'SELECT count(*) FROM t JOIN u ON t.id = u.t_id' ],
			[ 'SELECT count(*) FROM (SELECT * FROM t WHERE id < 40 OFFSET 0) a LEFT JOIN u ON a.id = u.t_id AND u.w > \'w1\'',
				'SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off' ],
			[ 'SELECT id, (SELECT count(*) FROM u WHERE u.t_id = t.id) FROM t WHERE id < 20' ],
			[ 'WITH c AS MATERIALIZED (SELECT id, k FROM t) SELECT count(*) FROM c a JOIN c b USING (id) WHERE a.k = (SELECT min(k) FROM t)' ],
			[ 'SELECT f_plpgsql(id) FROM t WHERE id < 30' ],
			[ 'SELECT sum(length(doc)), (SELECT count(k) FROM par WHERE id > 5) FROM toasted WHERE id < 20' ]);
	}

	return @s;
}

1;
