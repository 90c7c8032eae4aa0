# The same statement with the feature off and on, by both methods: the same rows.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../fuzz";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Differential;

my $node = PostgreSQL::Test::Cluster->new('differential');
$node->init;
$node->append_conf('postgresql.conf', <<'EOC');
shared_preload_libraries = 'parallel_temp'
max_worker_processes = 12
max_parallel_workers = 8
fsync = off
EOC
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION parallel_temp;
CREATE TABLE perm AS SELECT g AS id, g % 100 AS k, 'row ' || g AS txt FROM generate_series(1, 20000) g;
CREATE INDEX ON perm (id);
CREATE TABLE parent (id int, k int);
INSERT INTO parent SELECT g, g % 50 FROM generate_series(1, 3000) g;
CREATE FUNCTION restricted(int) RETURNS int LANGUAGE plpgsql PARALLEL RESTRICTED AS 'BEGIN RETURN $1 + 1; END';
CREATE FUNCTION counted() RETURNS bigint LANGUAGE plpgsql PARALLEL RESTRICTED AS 'BEGIN RETURN (SELECT count(*) FROM t); END';
CREATE FUNCTION liar(int) RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE AS 'BEGIN RETURN (SELECT count(*) FROM other_temp WHERE id <= $1); END';
CREATE FUNCTION returns_query(int) RETURNS SETOF bigint LANGUAGE plpgsql AS 'BEGIN RETURN QUERY SELECT count(*) FROM t WHERE k = $1; END';
CREATE FUNCTION loops() RETURNS bigint LANGUAGE plpgsql AS 'DECLARE r record; n bigint := 0; BEGIN FOR r IN SELECT id FROM t WHERE k = 3 LOOP n := n + r.id; END LOOP; RETURN n; END';
SET check_function_bodies = off;
CREATE FUNCTION sqlf(int) RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM t WHERE k < $1';
SQL

my $tables = <<'SQL';
CREATE TEMP TABLE t AS SELECT g AS id, g % 97 AS k, 'text ' || g AS txt, g::numeric / 7 AS num FROM generate_series(1, 15000) g;
CREATE TEMP TABLE s AS SELECT g * 2 AS id, g % 11 AS k, repeat('s', g % 40) AS txt FROM generate_series(1, 9000) g;
CREATE INDEX ON s (id);
CREATE TEMP TABLE wide (id int, big text, huge text);
ALTER TABLE wide ALTER huge SET STORAGE EXTERNAL;
INSERT INTO wide SELECT g, repeat(md5(g::text), 100), (SELECT string_agg(md5((g * i)::text), '') FROM generate_series(1, 100) i)
	FROM generate_series(1, 600) g;
CREATE TEMP TABLE other_temp AS SELECT g AS id FROM generate_series(1, 100) g;
CREATE TEMP TABLE empty (id int, k int);
ANALYZE t; ANALYZE s; ANALYZE wide; ANALYZE perm; ANALYZE other_temp;
SQL

my @queries = (
	'SELECT count(*), sum(id), min(k), max(txt) FROM t',
	'SELECT * FROM t WHERE k = 5',
	'SELECT id, txt, ctid, xmin, cmin, tableoid::regclass FROM t WHERE id BETWEEN 100 AND 130',
	'SELECT t FROM t WHERE id < 20',
	'SELECT k, count(*), sum(num) FROM t GROUP BY k ORDER BY k',
	'SELECT DISTINCT k FROM t',
	'SELECT k, count(DISTINCT id % 10) FROM t GROUP BY k',
	'SELECT id, row_number() OVER (PARTITION BY k ORDER BY id) FROM t WHERE id < 3000',
	'SELECT * FROM (SELECT id, k FROM t ORDER BY k, id LIMIT 30) x',
	'SELECT id FROM t ORDER BY txt DESC, id LIMIT 20 OFFSET 7',
	'SELECT count(*), sum(t.id) FROM t JOIN perm p ON p.id = t.id WHERE p.k = 7',
	'SELECT count(*), sum(p.id) FROM perm p LEFT JOIN t ON p.id = t.id AND t.k = 3 WHERE t.id IS NULL',
	'SELECT count(*), sum(t.id), sum(s.id) FROM t FULL JOIN s ON t.id = s.id',
	'SELECT count(*) FROM t JOIN s USING (id) JOIN perm p USING (id) WHERE t.k < 50',
	'SELECT count(*) FROM perm p WHERE EXISTS (SELECT 1 FROM t WHERE t.id = p.id AND t.k = p.k % 97)',
	'SELECT count(*) FROM t WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.id = t.id)',
	'SELECT count(*) FROM t WHERE id NOT IN (SELECT id FROM s)',
	'SELECT count(*) FROM t WHERE id IN (SELECT id FROM perm WHERE k = 1)',
	'SELECT count(*) FROM t WHERE id > (SELECT avg(id) FROM s)',
	'SELECT count(*) FROM perm p WHERE k = (SELECT max(k) FROM s WHERE s.id = p.id)',
	'SELECT p.id, x.n FROM perm p, LATERAL (SELECT count(*) AS n FROM s WHERE s.id < p.id) x WHERE p.id < 12',
	'WITH c AS (SELECT k, count(*) AS n FROM t GROUP BY k) SELECT a.k, a.n + b.n FROM c a JOIN c b USING (k)',
	'WITH c AS MATERIALIZED (SELECT * FROM t WHERE k = 2) SELECT count(*), sum(id) FROM c',
	'WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 10) SELECT n, (SELECT count(*) FROM t WHERE k = n) FROM r',
	'SELECT sum(id) FROM (SELECT id FROM t UNION ALL SELECT id FROM perm UNION ALL SELECT id FROM s) x',
	'SELECT sum(n) FROM (SELECT id AS n FROM perm UNION ALL SELECT count(*) FROM t GROUP BY k UNION ALL SELECT id FROM s) x',
	'SELECT sum(n) FROM (SELECT id AS n FROM t UNION ALL (SELECT id FROM perm ORDER BY id LIMIT 10)) x',
	'SELECT sum(n) FROM (SELECT k AS n FROM (SELECT DISTINCT k FROM perm) y UNION ALL SELECT k FROM t UNION ALL VALUES (1), (2)) x',
	'SELECT id FROM t WHERE k = 1 UNION SELECT id FROM s WHERE k = 1',
	'SELECT id FROM t INTERSECT SELECT id FROM s',
	'SELECT id, k FROM t EXCEPT SELECT id, k FROM perm',
	'SELECT count(*), sum(length(big)), sum(length(huge)) FROM wide',
	'SELECT md5(string_agg(huge, \'\' ORDER BY id)) FROM wide WHERE big LIKE \'%a%\'',
	'SELECT id, huge FROM wide WHERE id < 5',
	'SELECT substr(huge, 100, 10) FROM wide WHERE huge LIKE \'%abc%\'',
	'SELECT count(*) FROM wide a JOIN wide b ON a.huge = b.huge',
	'SELECT length(w.huge) FROM wide w JOIN t ON t.id = w.id WHERE t.k = 3',
	'SELECT count(*) FROM empty JOIN t USING (id)',
	'SELECT count(*) FROM empty',
	'SELECT restricted(id) FROM t WHERE k = 9',
	'SELECT count(*) FROM t WHERE restricted(k) = 4',
	'SELECT id, counted() FROM t WHERE k = 90',
	'SELECT returns_query(4)',
	'SELECT loops()',
	'SELECT sqlf(10)',
	'SELECT random() >= 0, count(*) FROM t',
	'SELECT count(*) FROM t TABLESAMPLE BERNOULLI (100)',
	'SELECT count(*) FROM t, pg_class c WHERE c.oid = t.id',
	'SELECT * FROM t WHERE ctid = \'(0,1)\'',
	'SELECT count(*) FROM t a, t b WHERE a.id = b.id + 1 AND a.k = 4',
	'SELECT grouping(k), k % 3, count(*) FROM t GROUP BY GROUPING SETS ((k % 3, k), ())',
	'SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY id), count(*) FILTER (WHERE k > 50) FROM t',
	'SELECT current_setting(\'temp_buffers\'), count(*) FROM t GROUP BY 1',
	'TABLE other_temp');

my @access = (
	'SET enable_seqscan = off', 'SET enable_hashjoin = off; SET enable_mergejoin = off',
	'SET enable_hashjoin = off; SET enable_nestloop = off', 'SET enable_indexscan = off; SET enable_seqscan = off',
	'SET enable_parallel_hash = off', 'SET parallel_leader_participation = off',
	'SET jit = on; SET jit_above_cost = 0', 'SET work_mem = \'64kB\'', 'SET enable_hashagg = off',
	'SET max_parallel_workers_per_gather = 1');
my @index_queries = (
	'SELECT count(*), sum(s.k) FROM perm p JOIN s ON s.id = p.id WHERE p.k < 30',
	'SELECT count(*), sum(t.k) FROM t JOIN s ON s.id = t.id',
	'SELECT count(*) FROM perm p JOIN s ON s.id = p.id AND s.txt > \'ss\'',
	'SELECT count(*) FROM s WHERE id < 500',
	'SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.id = t.id AND s.k = 3)',
	'SELECT max(id), min(id) FROM s',
	'SELECT sum(length(big)) FROM wide JOIN t USING (id)');

foreach my $temp_buffers ('800kB', '3MB', '64MB')
{
	my $session = Differential->new(node => $node, temp_buffers => $temp_buffers);
	$session->setup($tables);
	$session->compare($_) foreach @queries;
	foreach my $settings (@access)
	{
		(my $reset = $settings) =~ s/SET (\w+) = [^;]*/RESET $1/g;
		$session->setup("$settings;");
		$session->compare($_) foreach @index_queries;
		$session->setup("$reset;\n" . ($reset =~ /workers/ ? 'SET max_parallel_workers_per_gather = 2;' : ''));
	}
	my ($complaints, $counters) = $session->run;
	is(join("\n\n", grep { defined } @$complaints[0 .. 4]), '', "plain queries with temp_buffers = $temp_buffers");
	cmp_ok($counters->{'queries with shared pages'}, '>', 60, "... and many of them share");
	cmp_ok($counters->{'queries with flushed pages'}, '>', 60, "... and many of them flush");
	note("$_: $counters->{$_}") foreach sort keys %$counters;
}

# Rows of this transaction, and what becomes of them.
my @looks = (
	'SELECT count(*), sum(id), sum(k) FROM t', 'SELECT count(*) FROM t JOIN perm USING (id)',
	'SELECT id, k, txt FROM t WHERE k = 13', 'SELECT count(*), sum(length(txt)) FROM s',
	'SELECT count(*) FROM perm p JOIN s ON s.id = p.id');
my @changes = (
	'BEGIN',
	'INSERT INTO t SELECT g, g % 97, \'new\' FROM generate_series(20001, 21000) g',
	'DELETE FROM t WHERE id % 7 = 0',
	'UPDATE t SET k = k + 1 WHERE id % 5 = 0',
	'UPDATE s SET txt = txt || \'u\' WHERE id % 3 = 0',
	'SAVEPOINT a', 'DELETE FROM t WHERE id % 3 = 1', 'UPDATE t SET k = 13 WHERE id < 500',
	'SAVEPOINT b', 'INSERT INTO t SELECT g, 13, \'sub\' FROM generate_series(1, 50) g', 'UPDATE t SET txt = txt || \'+\' WHERE k = 13',
	'RELEASE b', 'ROLLBACK TO a', 'UPDATE t SET k = 13 WHERE id BETWEEN 700 AND 900', 'DELETE FROM t WHERE id BETWEEN 800 AND 850',
	'SAVEPOINT c', 'DELETE FROM t WHERE k = 13 RETURNING id', 'ROLLBACK TO c', 'DELETE FROM s WHERE id % 4 = 0', 'RELEASE c',
	'SELECT count(*) FROM (SELECT 1 FROM t WHERE k = 13 FOR UPDATE) x',
	'SAVEPOINT d', 'SELECT count(*) FROM (SELECT 1 FROM t WHERE k < 20 FOR SHARE) x', 'UPDATE t SET txt = \'locked\' WHERE k = 3', 'RELEASE d',
	'ALTER TABLE t ADD COLUMN fast int DEFAULT 42', 'ALTER TABLE t ADD COLUMN fast2 text DEFAULT \'dflt\'',
	'INSERT INTO t (id, k) VALUES (0, 13)',
	'COMMIT',
	'BEGIN ISOLATION LEVEL SERIALIZABLE', 'DELETE FROM t WHERE id % 11 = 3', 'COMMIT',
	'BEGIN', 'TRUNCATE s', 'INSERT INTO s SELECT g, g % 5, \'t\' FROM generate_series(1, 4000) g', 'SAVEPOINT e', 'TRUNCATE t', 'ROLLBACK TO e',
	'ALTER TABLE t ALTER k TYPE bigint', 'CREATE INDEX t_k ON t (k)', 'CLUSTER t USING t_k', 'COMMIT',
	'BEGIN', 'UPDATE t SET k = k + 1', 'ROLLBACK', 'VACUUM t', 'VACUUM (FREEZE) s', 'UPDATE s SET k = k WHERE id < 1000', 'VACUUM FULL t',
	'SET plan_cache_mode = force_generic_plan', 'PREPARE look AS SELECT count(*), sum(id) FROM t WHERE k > 3');
foreach my $temp_buffers ('800kB', '32MB')
{
	my $session = Differential->new(node => $node, temp_buffers => $temp_buffers);
	$session->setup($tables);
	foreach my $change (@changes)
	{
		$session->setup("$change;");
		$session->compare($_) foreach @looks;
		$session->compare('SELECT fast, fast2, count(*) FROM t GROUP BY 1, 2') if $change =~ /fast2/;
	}
	foreach my $between ('TRUNCATE t', 'INSERT INTO t (id, k) SELECT g, g % 8 FROM generate_series(1, 9000) g', 'DROP INDEX t_k', 'VACUUM FULL t')
	{
		$session->setup('SET parallel_temp.enabled = on; EXECUTE look;');
		$session->compare('EXECUTE look');
		$session->setup("$between;");
		$session->compare('EXECUTE look');
	}
	$session->setup(<<'SQL');
CREATE TEMP TABLE gone (id int) ON COMMIT DELETE ROWS;
BEGIN; INSERT INTO gone SELECT generate_series(1, 5000);
SQL
	$session->compare('SELECT count(*), sum(id) FROM gone');
	$session->setup('COMMIT;');
	$session->compare('SELECT count(*), sum(id) FROM gone');
	$session->setup('BEGIN; CREATE TEMP TABLE dropped ON COMMIT DROP AS SELECT generate_series(1, 5000) AS id;');
	$session->compare('SELECT count(*), sum(id) FROM dropped');
	$session->setup('COMMIT;');
	$session->compare('SELECT count(*), sum(id) FROM dropped');
	$session->setup('BEGIN; DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id; FETCH 5 FROM c;');
	$session->compare('SELECT count(*), sum(id) FROM t');
	$session->compare('FETCH ALL FROM c');
	$session->setup('COMMIT; DISCARD TEMP;');
	$session->compare('SELECT count(*) FROM t');
	$session->setup($tables);
	$session->compare($_) foreach @looks;
	my ($complaints, $counters) = $session->run;
	# The statements of the FETCH ALL pair differ by design: the first takes all rows.
	my @real = grep { !/^FETCH ALL/ } @$complaints;
	is(join("\n\n", grep { defined } @real[0 .. 4]), '', "changed rows with temp_buffers = $temp_buffers");
	cmp_ok($counters->{'queries with shared pages'}, '>', 100, '... and many queries share');
}

# Append relations with temporary members of every kind.
{
	my $session = Differential->new(node => $node, temp_buffers => '2MB');
	$session->setup($tables . <<'SQL');
CREATE TEMP TABLE part (id int, k int, txt text) PARTITION BY RANGE (id);
CREATE TEMP TABLE part1 PARTITION OF part FOR VALUES FROM (MINVALUE) TO (4000);
CREATE TEMP TABLE part2 PARTITION OF part FOR VALUES FROM (4000) TO (9000) PARTITION BY LIST (k);
CREATE TEMP TABLE part2a PARTITION OF part2 FOR VALUES IN (0, 1, 2, 3);
CREATE TEMP TABLE part2b PARTITION OF part2 DEFAULT;
CREATE TEMP TABLE part3 PARTITION OF part DEFAULT;
INSERT INTO part SELECT g, g % 9, 'p' || g FROM generate_series(1, 12000) g;
CREATE INDEX ON part (id);
CREATE TEMP TABLE child (more int) INHERITS (parent);
INSERT INTO child SELECT g, g % 50, g FROM generate_series(1, 5000) g;
CREATE TABLE permchild () INHERITS (parent);
INSERT INTO permchild SELECT g, g % 50 FROM generate_series(1, 2000) g;
ANALYZE part; ANALYZE parent; ANALYZE child; ANALYZE permchild;
SQL
	foreach my $setting ('SET enable_partitionwise_join = on; SET enable_partitionwise_aggregate = on',
		'SET enable_parallel_append = off', 'SET enable_hashjoin = off', 'SET enable_seqscan = off')
	{
		$session->setup("$setting;");
		$session->compare($_) foreach (
			'SELECT count(*), sum(id) FROM part', 'SELECT k, count(*) FROM part GROUP BY k',
			'SELECT count(*) FROM part WHERE id < 5000', 'SELECT id FROM part ORDER BY id LIMIT 5',
			'SELECT count(*) FROM part a JOIN part b USING (id)', 'SELECT count(*) FROM part JOIN perm USING (id)',
			'SELECT count(*), sum(id) FROM parent', 'SELECT count(*) FROM parent JOIN t USING (id)',
			'SELECT tableoid::regclass, count(*) FROM parent GROUP BY 1',
			'SELECT count(*) FROM (SELECT id FROM part UNION ALL SELECT id FROM parent UNION ALL SELECT id FROM perm) x',
			'SELECT count(*) FROM (SELECT restricted(id) AS id FROM perm UNION ALL SELECT id FROM t) x',
			'SELECT count(*) FROM (SELECT g FROM generate_series(1, 10) g UNION ALL SELECT id FROM t) x');
	}
	my ($complaints, $counters) = $session->run;
	is(join("\n\n", grep { defined } @$complaints[0 .. 4]), '', 'append relations');
	cmp_ok($counters->{'queries with shared pages'}, '>', 30, '... and many of them share');
}

# A function that lies about being parallel safe must not read unshared pages.
{
	my $session = Differential->new(node => $node, temp_buffers => '32MB', settings => 'SET parallel_leader_participation = off;');
	$session->setup($tables);
	$session->setup('SET parallel_temp.method = share; UPDATE other_temp SET id = id;');
	my ($stdout, $stderr);
	$node->psql('postgres', $session->{script} . 'SELECT sum(liar(k)) FROM wide JOIN t USING (id) WHERE huge > \'0\';',
		stdout => \$stdout, stderr => \$stderr, on_error_stop => 1);
	like($stderr, qr/cannot access temporary tables during a parallel operation/, 'a function in a worker is kept from other temporary tables');
}

# Forced single-worker plans run the complete scan in a worker.
{
	my $name = $node->safe_psql('postgres', 'SHOW server_version_num') >= 160000 ? 'debug_parallel_query' : 'force_parallel_mode';
	my $session = Differential->new(node => $node, temp_buffers => '2MB', settings => "SET parallel_temp.force = on; SET $name = on; SET max_parallel_workers_per_gather = 1; SET min_parallel_table_scan_size = '1GB';");
	$session->setup($tables);
	$session->compare($_) foreach @queries;
	my ($complaints, $counters) = $session->run;
	is(join("\n\n", grep { defined } @$complaints[0 .. 4]), '', 'the complete scan in a worker');
	cmp_ok($counters->{'queries with shared pages'}, '>', 20, '... and many of them share');
}

my $log = slurp_file($node->logfile);
unlike($log, qr/refcount leak|TRAP|PANIC|was terminated by signal/, 'no leak, no crash');
$node->stop;
done_testing();
