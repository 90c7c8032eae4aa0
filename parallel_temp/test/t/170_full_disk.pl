# Without space: shared memory that is full makes a query run without
# workers, and pages discarded by workers take no disk space.
# Slow: fills disks
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../diff";
use PostgreSQL::Test::Utils;
use SameAnswers qw(start_server bad_log_lines);
use PsqlSession;
use Test::More;

my $node = start_server('full_disk', <<'END');
max_parallel_workers_per_gather = 2
parallel_setup_cost = 0
parallel_tuple_cost = 0
min_parallel_table_scan_size = 0
min_parallel_index_scan_size = 0
parallel_temp.worker_start_cost = 0
parallel_temp.enter_page_cost = 0
END
$node->safe_psql('postgres', 'CREATE EXTENSION parallel_temp');

# A limit on the length of files stands for a full file system of shared memory: it
# stops the area that tells workers where pages are, 4 bytes for each block.
my $rows = 30000;
my $s = PsqlSession->new($node);
$s->query("SET temp_buffers = '32MB'; CREATE TEMP TABLE t AS SELECT i AS id, repeat('x', 500) AS pad FROM generate_series(1, $rows) i; ANALYZE t;");
my $alone = "SELECT value FROM parallel_temp_stats WHERE counter = 'queries run without workers';";
is($s->query('SELECT count(*) FROM t;'), $rows, 'the query is right');
is($s->query($alone), '0', 'and has workers');
my $pid = $s->pid;
my $limited = system('prlimit', "--pid=$pid", '--fsize=4096:unlimited') == 0;
SKIP:
{
	skip 'no prlimit', 4 unless $limited;
	is($s->query('SELECT count(*) FROM t;'), $rows, 'the query is right where shared memory is full') or diag($s->error);
	is($s->query($alone), '1', 'and runs without workers');
	is($s->query("BEGIN; DO \$\$ BEGIN PERFORM count(*) FROM t; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END \$\$; SELECT count(*) FROM t; COMMIT;"), $rows, 'in a transaction as well, and in a block with exceptions') or diag($s->error);
	system('prlimit', "--pid=$pid", '--fsize=unlimited:unlimited');
	my $before = $s->query($alone);
	$s->query('SELECT count(*) FROM t;');
	is($s->query($alone), $before, 'with room again there are workers again');
}

# A function that the leader of another parallel query calls: nothing can be caught in a
# subtransaction there.  The query around it has its own area by then.
SKIP:
{
	skip 'no prlimit', 3 unless $limited;
	my $go = $node->data_dir . '/go_on';
	$s->query("CREATE TABLE outer_rows AS SELECT i AS id FROM generate_series(1, 20000) i; ANALYZE outer_rows;
		CREATE FUNCTION nested() RETURNS int LANGUAGE plpgsql PARALLEL RESTRICTED AS \$\$
		BEGIN
			WHILE (pg_stat_file('$go', true)).size IS NULL LOOP
				PERFORM pg_sleep(0.05);
			END LOOP;
			PERFORM count(*) FROM t;
			RETURN 1;
		END \$\$;");
	my $query = 'SELECT count(*), nested() FROM outer_rows;';
	like($s->query("EXPLAIN (COSTS OFF) $query"), qr/Gather/, 'a parallel query calls a function') or diag($s->error);
	my $before = $s->query($alone);
	$s->send($query);
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE pid = $pid AND wait_event = 'PgSleep'");
	system('prlimit', "--pid=$pid", '--fsize=4096:unlimited');
	append_to_file($go, 'x');
	is($s->wait, '20000|1', 'its query is right where shared memory is full') or diag($s->error);
	system('prlimit', "--pid=$pid", '--fsize=unlimited:unlimited');
	is($s->query($alone), $before + 1, 'and runs without workers');
}
$s->quit;

# No descriptor is available when the file that workers share should be created: a later
# query creates it.
SKIP:
{
	skip 'no prlimit', 3 unless $limited;
	my $shared = "SELECT value FROM parallel_temp_stats WHERE counter = 'queries with shared pages';";
	my $few = PsqlSession->new($node);
	$few->query("SET temp_buffers = '8MB'; CREATE TEMP TABLE first (id int); INSERT INTO first VALUES (1);");
	my $few_pid = $few->pid;
	my ($free) = grep { !-l "/proc/$few_pid/fd/$_" } 0 .. 1000;
	my ($hard) = `prlimit --noheadings --raw --output HARD --pid $few_pid --nofile` =~ /(\d+)/;
	system('prlimit', "--pid=$few_pid", "--nofile=$free:$hard");
	$few->query('CREATE TEMP TABLE u AS SELECT i AS id FROM generate_series(1, 20000) i;');
	my $pool = grep { (readlink($_) // '') =~ /memfd:parallel_temp/ } glob "/proc/$few_pid/fd/*";
	system('prlimit', "--pid=$few_pid", "--nofile=$hard:$hard");
	is($pool, 0, 'without a descriptor nothing is shared') or diag($few->error);
	$few->query('DROP TABLE IF EXISTS u; CREATE TEMP TABLE u AS SELECT i AS id FROM generate_series(1, 20000) i; ANALYZE u;');
	is($few->query('SELECT count(*) FROM u;'), '20000', 'with one the query is right');
	is($few->query($shared), '1', 'and shares its pages');
	$few->quit;
}

# Workers that use an index of a table that does not fit discard pages with hint
# bits.  From within a worker: files of the table's number have no more bytes than
# the leader's.
$s = PsqlSession->new($node);
$s->query(<<'END');
SET temp_buffers = '1MB';
SET parallel_leader_participation = off;
CREATE TEMP TABLE t (id int, pad text);
BEGIN;
INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 20000) i;
COMMIT;
CREATE INDEX ON t (id);
ANALYZE t;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET cpu_tuple_cost = 1;
CREATE FUNCTION bytes(node text) RETURNS bigint LANGUAGE sql PARALLEL SAFE VOLATILE AS
	$$ SELECT sum((pg_stat_file('base/' || d.oid || '/' || f, true)).size) FROM pg_database d, pg_ls_dir('base/' || d.oid) f
		WHERE datname = current_database() AND f ~ ('^t\d+_' || node || '$') $$;
END
my $node_number = $s->query("SELECT pg_relation_filenode('t');");
my $query = "SELECT max(bytes('$node_number')), count(pad) FROM t WHERE id BETWEEN 1 AND 19000 AND id % 4000 = 0";
# since 19 workers do not reach temporary tables by indexes
my $plan = $s->query('SHOW server_version_num;') < 190000 ? qr/Gather.*Parallel Index Scan/s : qr/^Aggregate\n +->  Index Scan/;
like($s->query("EXPLAIN (COSTS OFF) $query;"), $plan, 'workers use the index');
is($s->query("$query;"), $s->query("SELECT pg_relation_size('t') || '|4';"), 'pages discarded by workers take no disk space') or diag($s->error);
is($s->query("SELECT bytes('$node_number') = pg_relation_size('t');"), 't', 'and nothing is left of it');
$s->quit;
# Of a table of several segments the last one's name leads to nowhere as well; the others
# lead to one file, for the server wants these to have their full length.  (Nearly all of
# the table is a hole.)
SKIP:
{
	my $segment = $node->safe_psql('postgres', "SELECT setting::bigint * current_setting('block_size')::bigint FROM pg_settings WHERE name = 'segment_size'");
	skip 'segments of an unusual size', 6 if $segment > 1024 * 1024 * 1024;
	skip 'workers do not use indexes', 6 if $node->safe_psql('postgres', 'SHOW server_version_num') >= 190000;
	my $go = $node->data_dir . '/go_on_again';
	$s = PsqlSession->new($node);
	$s->query(<<"END");
SET temp_buffers = '1MB';
SET parallel_leader_participation = off;
CREATE TEMP TABLE t (id int, pad text);
INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 2000) i;
CREATE INDEX ON t (id);
ANALYZE t;
SELECT pg_flush_local_buffers();
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET cpu_tuple_cost = 1;
CREATE FUNCTION hold(id int) RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS \$\$
BEGIN
	WHILE (pg_stat_file('$go', true)).size IS NULL LOOP
		PERFORM pg_sleep(0.05);
	END LOOP;
	RETURN id;
END \$\$;
END
	my $file = $node->data_dir . '/' . $s->query("SELECT pg_relation_filepath('t');");
	my %length = ('' => $segment, '.1' => $segment, '.2' => 81920);
	for my $suffix (sort keys %length)
	{
		append_to_file("$file$suffix", '');
		truncate("$file$suffix", $length{$suffix}) or die "could not extend $file$suffix: $!";
	}
	is($s->query("SELECT pg_relation_size('t');"), 2 * $segment + 81920, 'a table of three segments');
	$s->send('SELECT count(hold(id)), count(pad) FROM t WHERE id BETWEEN 1 AND 1900 AND id % 400 = 0;');
	my ($pattern) = $file =~ s/\/t\d+_(\d+)$/\/t*_$1/r;
	my @last;
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		@last = grep { $_ ne "$file.2" } glob "$pattern.2";
		last if @last;
		select undef, undef, undef, 0.1;
	}
	cmp_ok(scalar(@last), '>', 0, 'workers have separate names');
	my ($worker) = ($last[0] // '') =~ /^(.*)\.2$/;
	ok(defined $worker && -c "$worker.2", 'the last one leads to a device');
	is_deeply([ (stat "$worker.1")[ 0, 1, 7 ] ], [ (stat $worker)[ 0, 1 ], $segment ], 'the others to the same file');
	append_to_file($go, 'x');
	is($s->wait, '4|4', 'the answer is right') or diag($s->error);
	is_deeply([ grep { index($_, $file) != 0 } glob "$pattern $pattern.?" ], [], 'and no file of the workers is left');
	$s->quit;
}
is(join("\n", bad_log_lines(slurp_file($node->logfile))), '', 'no leak and no crash in the log');
$node->stop;
done_testing();
