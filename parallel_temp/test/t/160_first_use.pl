# The pool is made, and a library that is not preloaded is loaded, while a session runs.
# So the first statement that uses them comes here in many shapes, each in a session of its
# own: inside functions, blocks with exception handlers, subtransactions, cursors, COPY.
# Answers are compared with a session without the library, for a library that
# the session loads and for one that the server has preloaded.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../diff";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SameAnswers qw(bad_log_lines psql_text);
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('first');
$node->init;
$node->append_conf('postgresql.conf', <<'END');
autovacuum = off
fsync = off
max_worker_processes = 16
max_parallel_workers = 16
min_parallel_table_scan_size = 0
min_parallel_index_scan_size = 0
parallel_setup_cost = 0
parallel_tuple_cost = 0
parallel_temp.worker_start_cost = 0
parallel_temp.enter_page_cost = 0
client_min_messages = warning
END
$node->start;
$node->safe_psql('postgres', <<'END');
CREATE EXTENSION parallel_temp;
CREATE EXTENSION pageinspect;
SET check_function_bodies = off;
CREATE TABLE log (n bigint);
CREATE FUNCTION make(rows int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	CREATE TEMP TABLE t (id int, pad text);
	INSERT INTO t SELECT i, repeat('x', 200) FROM generate_series(1, rows) i;
	RETURN (SELECT count(*) FROM t WHERE id > 0);
END$$;
CREATE FUNCTION seen() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE n bigint;
BEGIN
	EXECUTE 'SELECT count(*) FROM t' INTO n;
	RETURN n;
END$$;
CREATE FUNCTION counted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log SELECT count(*) FROM t;
	RETURN NEW;
END$$;
CREATE FUNCTION more_than(lo int) RETURNS SETOF int LANGUAGE sql STABLE AS 'SELECT id FROM t WHERE id > lo';
CREATE PROCEDURE steps() LANGUAGE plpgsql AS $$
BEGIN
	CREATE TEMP TABLE t (id int, pad text);
	INSERT INTO t VALUES (0, 'first');
	COMMIT;
	INSERT INTO t SELECT i, repeat('x', 200) FROM generate_series(1, 3000) i;
	COMMIT;
	INSERT INTO log SELECT count(*) FROM t;
	ROLLBACK;
	INSERT INTO log SELECT sum(id) FROM t;
END$$;
END

my $one_by_one = "DO \$\$BEGIN FOR i IN 1..3000 LOOP INSERT INTO t VALUES (i, repeat('y', 200)); END LOOP; END\$\$;\n";
my %first = (
	'rows one by one, then a parallel query' => <<"END",
CREATE TEMP TABLE t (id int, pad text);
$one_by_one
UPDATE t SET pad = 'z' WHERE id % 3 = 0;
SELECT count(*), sum(id), sum(length(pad)) FROM t WHERE id > 10;
END
	'rows one by one with an open cursor' => <<"END",
CREATE TEMP TABLE t (id int, pad text);
$one_by_one
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t;
FETCH 3 FROM c;
DELETE FROM t WHERE id % 2 = 0;
SELECT count(*), sum(id) FROM t WHERE id > 10;
FETCH 3 FROM c;
MOVE ALL FROM c;
COMMIT;
SELECT count(*), sum(id) FROM t WHERE id > 10;
END
	'a function fills and another one looks with the older snapshot' => "SELECT make(3000), seen();\nSELECT seen(), (SELECT count(*) FROM t WHERE id > 10);\n",
	'a subtransaction that is rolled back' => <<'END',
BEGIN;
SAVEPOINT a;
SELECT make(3000);
SAVEPOINT b;
SELECT make(10);
ROLLBACK TO a;
SELECT make(2000), seen();
CREATE TEMP TABLE u AS SELECT * FROM t;
COMMIT;
SELECT count(*), sum(id) FROM u WHERE id > 10;
SELECT count(*), sum(id) FROM t WHERE id > 10;
END
	'a block with an exception handler' => <<'END',
DO $$
DECLARE n bigint;
BEGIN
	BEGIN
		PERFORM make(2000);
		SELECT count(*) / (count(*) - 2000) INTO n FROM t WHERE id > 0;
	EXCEPTION WHEN division_by_zero THEN
		n := make(1000);
	END;
	INSERT INTO log VALUES (n), (seen());
END$$;
SELECT count(*), sum(id) FROM t WHERE id > 10;
END
	'prepared statements' => <<'END',
CREATE TEMP TABLE t (id int, pad text);
PREPARE fill(int) AS INSERT INTO t SELECT i, repeat('x', 200) FROM generate_series(1, $1) i;
PREPARE look(int) AS SELECT count(*), sum(id) FROM t WHERE id > $1;
EXECUTE look(0);
EXECUTE fill(3000);
EXECUTE look(10);
TRUNCATE t;
EXECUTE look(10);
EXECUTE fill(2000);
EXECUTE look(10);
END
	'a cursor' => <<"END",
CREATE TEMP TABLE t (id int, pad text);
$one_by_one
BEGIN;
DECLARE c CURSOR FOR SELECT count(*), sum(id) FROM t WHERE id > 10;
FETCH c;
CREATE TEMP TABLE u AS SELECT * FROM t;
SELECT count(*) FROM u WHERE id > 10;
COMMIT;
END
	'index and bitmap scans in workers' => <<"END",
CREATE TEMP TABLE t (id int, pad text);
$one_by_one
CREATE INDEX ON t (id);
ANALYZE t;
SET enable_seqscan = off;
SET parallel_temp.flush_page_cost = 0;
SET parallel_temp.scan_buffer_cost = 0;
SET parallel_temp.worker_start_cost = 0;
SET parallel_temp.enter_page_cost = 0;
SELECT count(*), sum(length(pad)) FROM t WHERE id > 10;
SET enable_indexscan = off;
SELECT count(*), sum(length(pad)) FROM t WHERE id > 10;
END
	'COPY with a trigger that looks' => <<'END',
CREATE TEMP TABLE t (id int, pad text);
CREATE TRIGGER looks AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION counted();
COPY t FROM stdin;
1	a
2	b
\.
SELECT count(*), sum(id) FROM t WHERE id > 1;
END
	'INSERT with a trigger that looks' => <<'END',
CREATE TEMP TABLE t (id int, pad text);
CREATE TRIGGER looks AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION counted();
INSERT INTO t SELECT i, repeat('x', 200) FROM generate_series(1, 5) i;
SELECT count(*), sum(id) FROM t WHERE id > 1;
END
	'a function whose body takes its place' => "SELECT make(3000);\nSELECT count(*), sum(x) FROM more_than(10) x;\n",
	'a procedure that commits' => "CALL steps();\nSELECT count(*), sum(id) FROM t WHERE id > 10;\n",
	'a failure' => <<'END',
CREATE TEMP TABLE t (id int, pad text);
INSERT INTO t SELECT 1000 / (1500 - i), repeat('x', 200) FROM generate_series(1, 3000) i;
SELECT count(*) FROM t WHERE id > 0;
CREATE TEMP TABLE u AS SELECT 1000 / (1500 - i) AS id FROM generate_series(1, 3000) i;
INSERT INTO t SELECT i, repeat('x', 200) FROM generate_series(1, 3000) i;
SELECT count(*) / (count(*) - 3000) FROM t WHERE id > 0;
SELECT count(*), sum(id) FROM t WHERE id > 10;
END
	'several rows of VALUES' => <<'END',
CREATE TEMP TABLE t (id int, pad text);
INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c') RETURNING id;
SELECT count(*), sum(id) FROM t WHERE id > 1;
END
);

# The last statements of every script, and further ones in sessions with the library.
my $end = "SELECT 'log', n FROM log ORDER BY n;\nTRUNCATE log;\n";
my $stats = "SELECT 'shared', value > 0 FROM parallel_temp_stats WHERE counter = 'queries with shared pages';\nSELECT 'pins', count(*) FROM pg_local_buffers WHERE pins <> 0;\n";
my %errors = ('a failure' => "ERROR:  22012\n" x 3, 'a subtransaction that is rolled back' => "ERROR:  42P07\n");
my %expected;

for my $name (sort keys %first)
{
	my ($code, $out, $err) = psql_text($node, 'postgres', $first{$name} . $end);
	$expected{$name} = $out . $err;
	is($err, $errors{$name} // '', "without the library: $name");
}

my $version = $node->safe_psql('postgres', 'SHOW server_version_num');
for my $way ('session', 'server')
{
	if ($way eq 'server')
	{
		$node->append_conf('postgresql.conf', "shared_preload_libraries = 'parallel_temp'\n");
		$node->restart;
	}
	for my $name (sort keys %first)
	{
		my ($code, $out, $err) = psql_text($node, 'postgres', $first{$name} . $end . $stats,
			settings => $way eq 'session' ? { session_preload_libraries => 'parallel_temp' } : {});
		my $shared = $out =~ s/^shared\|([tf])\n//m && $1 eq 't';
		ok($out =~ s/^pins\|0\n\z//m, "$way: no pin is left: $name");
		is($out . $err, $expected{$name}, "$way: $name");
		next if $name =~ /trigger|VALUES/;
		# since 19 workers do not reach temporary tables by indexes
		is($shared, $name =~ /index/ && $version >= 190000 ? '' : 1, "$way: shared with workers: $name");
	}
}

# A session of short statements, as applications have them, goes without the pool.
# (A program that the server runs looks at its parent's descriptors.)
SKIP:
{
	skip 'no /proc', 1 unless -d "/proc/$$/fd";
	my $pools = q{COPY log FROM PROGRAM 'ls -l /proc/$PPID/fd | grep -c memfd:parallel_temp || true';} . "\nTABLE log;\nTRUNCATE log;\n";
	my ($code, $out, $err) = psql_text($node, 'postgres', <<"END");
CREATE TEMP TABLE t (id int, pad text);
SET min_parallel_table_scan_size = "8MB";
INSERT INTO t VALUES (1, 'x');
INSERT INTO t VALUES (2, 'x');
UPDATE t SET pad = 'y';
SELECT pad FROM t WHERE id = 2;
$pools
INSERT INTO t SELECT i, repeat('x', 200) FROM generate_series(1, 3000) i;
$pools
END
	is(join(' ', grep { /^\d+$/ } split /\n/, $out) . $err, '0 1', 'rows of a query make the pool, single rows do not');
}

# The depth of nesting is right again after a first use that failed: the next load
# stores its rows frozen, which one inside another statement does not.
{
	my ($code, $out, $err) = psql_text($node, 'postgres', <<'END');
BEGIN;
SAVEPOINT a;
SELECT make(2000) / 0;
ROLLBACK TO a;
CREATE TEMP TABLE v AS SELECT i AS id FROM generate_series(1, 100) i;
SELECT 'frozen', count(*) FROM heap_page_items(get_raw_page('v', 0)) WHERE t_infomask & 768 = 768;
COMMIT;
END
	is($err, "ERROR:  22012\n", 'a first use that fails');
	like($out, qr/^frozen\|100$/m, 'rows of the next load are frozen');
}

# Data of a library that was loaded first is its own, whatever name it has.
{
	my $other = "$FindBin::RealBin/../planless/parallel_test_planless";
	$node->append_conf('postgresql.conf', "shared_preload_libraries = '$other, parallel_temp'");
	$node->restart;
	$node->safe_psql('postgres', "CREATE FUNCTION own_data_is_untouched() RETURNS boolean AS '$other' LANGUAGE C");
	is($node->safe_psql('postgres', 'SELECT make(2000); SELECT own_data_is_untouched()'), "2000\nt", 'data of another library under one of our names is not changed');
}

is(join("\n", bad_log_lines(slurp_file($node->logfile))), '', 'no leak and no crash in the log');
$node->stop;
done_testing();
