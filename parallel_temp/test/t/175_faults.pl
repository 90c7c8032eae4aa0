# Where a call of the system is not supported: answers are those of the server, or an
# error has a hint.  And how many CPUs count where the system allows fewer than there are.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../diff";
use PostgreSQL::Test::Utils;
use SameAnswers qw(start_server bad_log_lines);
use PsqlSession;
use Test::More;

my $library = "$FindBin::RealBin/../faults/parallel_test_faults.so";
plan skip_all => "no $library" unless -e $library;

my $node = start_server('faults', <<'END');
max_parallel_workers_per_gather = 2
parallel_setup_cost = 0
parallel_tuple_cost = 0
min_parallel_table_scan_size = 0
min_parallel_index_scan_size = 0
parallel_temp.worker_start_cost = 0
parallel_temp.enter_page_cost = 0
END
$node->safe_psql('postgres', <<'END');
CREATE EXTENSION parallel_temp;
CREATE TABLE source AS SELECT i AS id, repeat('x', 300) AS pad FROM generate_series(1, 20000) i;
CREATE FUNCTION counts(i int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	IF i = 15000 THEN RETURN (SELECT -count(*) FROM t); END IF;
	RETURN i;
END $$;
END

# restarted($faults): the server runs with these
sub restarted
{
	my ($faults) = @_;
	local $ENV{LD_PRELOAD} = $library;
	local $ENV{PARALLEL_TEST_FAULTS} = $faults;
	$node->stop;
	$node->start;
	return PsqlSession->new($node);
}

# answer($s, $sql, $expected, $name)
sub answer
{
	my ($s, $sql, $expected, $name) = @_;
	my $got = $s->query($sql);
	is($got, $expected, $name) or diag($s->error);
}

# ---- no space can be reserved ----
for my $lazy ('on', 'off')
{
	my $s = restarted('fallocate');
	my $name = "no posix_fallocate(), lazy_files = $lazy";
	answer($s, "SET parallel_temp.lazy_files = $lazy; CREATE TEMP TABLE t (id int, pad text); INSERT INTO t SELECT * FROM source; SELECT count(*), sum(id) FROM t;", '20000|200010000', "$name: a load");
	# the load is handed back, and its pages get their space; those that are in the file keep their rows
	answer($s, 'TRUNCATE t; INSERT INTO t SELECT counts(id), pad FROM source; SELECT count(*), count(DISTINCT id) FROM t;', '20000|20000', "$name: a function looks");
	answer($s, 'CREATE TEMP TABLE u (id int PRIMARY KEY, pad text); INSERT INTO u SELECT * FROM source; SELECT count(*) FROM u WHERE id > 0;', '20000', "$name: a table with an index");
	answer($s, "SELECT pg_evict_temp_relation('t') > 0; SELECT count(*), count(DISTINCT id), bool_and(pad = repeat('x', 300)) FROM t;", "t\n20000|20000|t", "$name: read from the file");
	$s = restarted('fallocate');
	answer($s, "SET temp_buffers = 100; SET parallel_temp.lazy_files = $lazy; CREATE TEMP TABLE t (id int, pad text); INSERT INTO t SELECT counts(id), pad FROM source; SELECT count(*), count(DISTINCT id) FROM t;",
		'20000|20000', "$name: a function looks at a table that is larger than the buffers");
}

# ---- a load has no memory left, also not for cutting its pages off ----
for my $lazy ('on', 'off')
{
	my $s = restarted('memory');
	my $name = "no memory, lazy_files = $lazy";
	$s->query("SET parallel_temp.lazy_files = $lazy; SET max_parallel_workers_per_gather = 0; CREATE TEMP TABLE t (id int, pad text); INSERT INTO t SELECT * FROM source WHERE id < 10;");
	$s->query("INSERT INTO t SELECT id, CASE WHEN id < 15000 THEN pad ELSE repeat(pad, 1000000) END FROM source;");
	like($s->error, qr/out of memory/, "$name: the load fails");
	answer($s, "SELECT count(*), sum(id), pg_relation_size('t') < 10 * current_setting('block_size')::int FROM t;", '9|45|t', "$name: its pages are gone");
	answer($s, 'INSERT INTO t SELECT * FROM source; SELECT count(*), count(DISTINCT id) FROM t;', '20009|20000', "$name: the next load");
}

# ---- workers cannot share memory ----
for my $faults ('memfd', 'proc', 'memfd proc')
{
	for my $buffers ('100', '64MB')
	{
		my $s = restarted($faults);
		my $name = "no $faults, temp_buffers = $buffers";
		answer($s, "SET temp_buffers = '$buffers'; CREATE TEMP TABLE t AS SELECT * FROM source; ANALYZE t; CREATE INDEX ON t (id); SELECT count(*), sum(id) FROM t;", '20000|200010000', "$name: a scan");
		answer($s, 'SELECT count(*) FROM t a JOIN t b USING (id) WHERE a.id % 3 = 0;', '6666', "$name: a join");
		answer($s, 'CREATE TEMP TABLE u AS SELECT a.id FROM t a JOIN source b USING (id); SELECT count(*) FROM u;', '20000', "$name: a load");
		$s->query('SET parallel_temp.method = share;');
		my $got = $s->query('SELECT count(*), sum(id) FROM t;');
		ok($got eq '20000|200010000' || $s->error =~ /could not open the temporary buffers of the parallel leader.*HINT:.*parallel_temp.method/s, "$name: method share answers, or says what to set")
		  or diag("$got\n" . $s->error);
	}
}

# ---- no worker can start ----
{
	my $s = restarted('');
	answer($s, 'CREATE TEMP TABLE t AS SELECT * FROM source; ANALYZE t; SET max_parallel_workers = 0; SELECT count(*), sum(id) FROM t;', '20000|200010000', 'no worker starts: a scan');
	answer($s, 'CREATE TEMP TABLE u AS SELECT * FROM source; SELECT count(*) FROM u;', '20000', 'no worker starts: a load');
	answer($s, 'CREATE TEMP TABLE w (id int, pad text); INSERT INTO w SELECT * FROM source; SELECT count(*) FROM w;', '20000', 'no worker starts: INSERT');
	answer($s, 'RESET max_parallel_workers; SELECT count(*), sum(id) FROM t;', '20000|200010000', 'and again with workers');
	# the library's files were replaced while the session was running
	$s->query('SET parallel_temp.debug_build = 1;');
	for my $query ('SELECT count(*), sum(id) FROM t', 'CREATE TEMP TABLE x AS SELECT * FROM source')
	{
		my $got = $s->query("$query;");
		like($s->error, qr/parallel worker has another build of parallel_temp than its leader.*HINT:.*reconnect/si, "another build in workers: $query") or diag($got);
	}
	answer($s, 'SET parallel_temp.enabled = off; SELECT count(*), sum(id) FROM t;', '20000|200010000', 'another build in workers: off');
	answer($s, 'RESET parallel_temp.enabled; RESET parallel_temp.debug_build; SELECT count(*), sum(id) FROM t;', '20000|200010000', 'the same build again');
}

# ---- CPUs that this server may use ----
for my $case ([ 'cpus', 7, 'as many as the size of the table suggests' ], [ 'cpus quota', 2, 'with the leader not more than the quota of the control group' ])
{
	my ($faults, $workers, $name) = @$case;
	my $s = restarted($faults);
	my $got = $s->query(<<'END');
SET max_parallel_workers_per_gather = 8;
SET min_parallel_table_scan_size = '8kB';
SET parallel_setup_cost = 1;
CREATE TEMP TABLE t AS SELECT * FROM source;
ANALYZE t;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE id % 7 = 3;
END
	like($got, qr/Workers Planned: $workers\n/, "workers: $name") or diag($got);
}
is_deeply([ bad_log_lines($node) ], [], 'nothing bad in the log');
$node->stop;
done_testing();
