# A parallel query over temporary tables that fails in any way releases pins,
# descriptors and mappings, and the next query in the session is right.
# Slow: each failure at each place

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../../common/test";
use lib "$FindBin::RealBin/../diff";
use PostgreSQL::Test::Utils;
use PsqlSession;
use CrashedServer;
use SameAnswers qw(start_server has_setting bad_log_lines);
use Test::More;

my $node = start_server('failures', <<'END');
restart_after_crash = on
max_worker_processes = 8
max_parallel_workers = 8
END
plan skip_all => 'this build has no parallel scan of temporary tables' unless has_setting($node, 'parallel_temp.method');
$node->safe_psql('postgres', 'CREATE EXTENSION parallel_temp');
$node->safe_psql('postgres', "CREATE FUNCTION fails_at(i int, bad int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS 'BEGIN RETURN 1 / (i - bad); END'");
$node->safe_psql('postgres', "CREATE TABLE perm AS SELECT i AS id, i AS v FROM generate_series(1, 5000) i");

my %eager = (
	min_parallel_table_scan_size => 0,
	min_parallel_index_scan_size => 0,
	parallel_setup_cost => 0,
	parallel_tuple_cost => 0,
	max_parallel_workers_per_gather => 2,
	'parallel_temp.flush_page_cost' => 0,
	'parallel_temp.scan_buffer_cost' => 0, 'parallel_temp.worker_start_cost' => 0, 'parallel_temp.enter_page_cost' => 0);
my $rows = 12000;
my $sum = $rows * ($rows + 1) / 2;

# pg_sleep is parallel safe: a scan that is slow in leader and workers alike.
my $slow = 'SELECT count(*) FROM t WHERE pg_sleep(0.01) IS NOT NULL;';
my $answer = 'SELECT count(*), sum(id) FROM t;';

sub new_session
{
	my ($method, $buffers) = @_;
	my $s = PsqlSession->new($node, 'postgres', name => "failures-$method", settings => { %eager, 'parallel_temp.method' => $method, temp_buffers => $buffers });
	$s->query("CREATE TEMP TABLE t AS SELECT i AS id, i % 1000 AS v, repeat('x', 200) AS pad FROM generate_series(1, $rows) i; CREATE TEMP TABLE other AS SELECT i AS id FROM generate_series(1, 3000) i;");
	$s->query('CREATE INDEX t_id ON t (id);');
	return $s;
}

# Descriptors of the leader that point to shared memory, and its mappings of it.
# (The server itself maps a segment more now and then, for statistics.)
sub shared_things
{
	my $pid = shift;
	opendir my $dir, "/proc/$pid/fd" or return [ 0, 0 ];
	my @links = sort grep { /memfd|PostgreSQL\./ } map { readlink("/proc/$pid/fd/$_") // '' } readdir $dir;
	closedir $dir;
	open my $maps, '<', "/proc/$pid/maps" or return [ 0, 0 ];
	my $mapped = grep { m{/dev/shm/PostgreSQL\.} } <$maps>;
	close $maps;
	return [ scalar @links, $mapped ];
}

sub workers_of
{
	my $pid = shift;
	return split /\n/, $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE leader_pid = $pid AND backend_type = 'parallel worker' AND wait_event = 'PgSleep'");
}

sub wait_for_workers
{
	my $pid = shift;
	$node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_activity WHERE leader_pid = $pid AND backend_type = 'parallel worker' AND wait_event = 'PgSleep'");
	return workers_of($pid);
}

# After a failure: nothing is pinned, nothing more is open, the answer is right.
sub check
{
	my ($s, $name, $before) = @_;
	is($s->query('SELECT count(*) FROM pg_local_buffers WHERE pins <> 0;'), '0', "$name: no buffer is pinned");
	is($s->query($answer), "$rows|$sum", "$name: the next answer is right") or diag($s->error);
	my $now = shared_things($s->pid);
	ok($now->[0] <= $before->[0] && $now->[1] <= $before->[1] + 2, "$name: no shared memory is left") or diag("@$before before, @$now now");
	is($s->query("DROP TABLE other; CREATE TEMP TABLE other AS SELECT i AS id FROM generate_series(1, 3000) i; SELECT count(*) FROM other JOIN t USING (id);"), '3000', "$name: tables can be dropped and made again") or diag($s->error);
	return;
}

for my $method ('flush', 'share')
{
	for my $buffers (100, 1024)
	{
		my $s = new_session($method, $buffers);
		my $what = "$method, $buffers buffers";
		is($s->query($answer), "$rows|$sum", "$what: right before any failure");
		like($s->query("EXPLAIN (COSTS OFF) $slow"), qr/Gather.*Temp Scan/s, "$what: the slow query is parallel");
		my $before = shared_things($s->pid);
		my $from = -s $node->logfile;

		$s->send($slow);
		wait_for_workers($s->pid);
		$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $s->pid . ')');
		$s->wait;
		like($s->error, qr/57014/, "$what: cancelled");
		check($s, "$what, cancel", $before);

		$s->query("SET statement_timeout = '300ms';");
		$s->query($slow);
		like($s->error, qr/57014/, "$what: timed out");
		$s->reset_timeout;
		check($s, "$what, timeout", $before);

		# A worker that is told to end.
		$s->send($slow);
		my ($worker) = wait_for_workers($s->pid);
		$node->safe_psql('postgres', "SELECT pg_terminate_backend($worker)");
		$s->wait;
		like($s->error, qr/57P01/, "$what: worker terminated");
		check($s, "$what, worker terminated", $before);

		# Errors: in a worker, in the leader above Gather, in leader and worker, at once and late.
		$s->query('SET parallel_leader_participation = off;');
		$s->query('SELECT sum(fails_at(v, 500)) FROM t;');
		like($s->error, qr/22012.*parallel worker/s, "$what: error in a worker");
		check($s, "$what, error in a worker", $before);
		$s->query('RESET parallel_leader_participation;');
		$s->query("SELECT 1 / (count(*) - $rows) FROM t;");
		like($s->error, qr/22012/, "$what: error above Gather");
		$s->query('SELECT count(*) FROM t JOIN perm USING (id) WHERE fails_at(t.v, 999) > 5;');
		like($s->error, qr/22012/, "$what: error in a join");
		check($s, "$what, error in leader and workers", $before);

		# In subtransactions, by hand and of PL/pgSQL, with changes around.
		$s->query('BEGIN; UPDATE t SET v = v WHERE id < 100; SAVEPOINT a; DELETE FROM t WHERE id > 5000;');
		$s->query('SELECT sum(fails_at(v, 300)) FROM t;');
		like($s->error, qr/22012/, "$what: error in a savepoint");
		$s->query('ROLLBACK TO a;');
		is($s->query($answer), "$rows|$sum", "$what: right after ROLLBACK TO");
		$s->query('SELECT sum(fails_at(v, 300)) FROM t;');
		$s->query('ROLLBACK;');
		check($s, "$what, error in a savepoint", $before);
		$s->query(<<'END');
DO $$
DECLARE n bigint;
BEGIN
	FOR i IN 1 .. 12 LOOP
		BEGIN
			SELECT sum(fails_at(v, i * 77)) INTO n FROM t;
			RAISE WARNING 'no error';
		EXCEPTION WHEN division_by_zero THEN
			SELECT count(*) INTO n FROM t;
			IF n <> 12000 THEN RAISE WARNING 'wrong: %', n; END IF;
		END;
	END LOOP;
END$$;
END
		is($s->error, '', "$what: errors caught by PL/pgSQL");
		check($s, "$what, exceptions", $before);

		# Storms of timeouts at any moment of planning, sharing, flushing, starting, reading.
		my $storm = '';
		$storm .= "SET statement_timeout = " . (1 + $_ * 2) . ";\nUPDATE t SET v = v WHERE id % 50 = $_;\nSELECT sum(length(md5(pad || id))) FROM t;\nSELECT count(*) FROM t a JOIN t b USING (id);\n" for 1 .. 20;
		$s->query($storm);
		unlike($s->error, qr/(?:PANIC|FATAL|ERROR:  (?!57014))/, "$what: a storm of timeouts");
		$s->reset_timeout;
		check($s, "$what, storm of timeouts", $before);

		# Early ends.
		$s->query("SELECT id FROM t LIMIT 1;") for 1 .. 5;
		$s->query("SELECT EXISTS (SELECT 1 FROM t WHERE id > 100);");
		check($s, "$what, early end", $before);

		# No worker is available, at all or because another session has them.
		$s->query('SET max_parallel_workers = 0;');
		is($s->query($answer), "$rows|$sum", "$what: right without workers");
		$s->query('RESET max_parallel_workers;');
		my $hog = PsqlSession->new($node, 'postgres', name => 'hog', settings => { %eager, max_parallel_workers_per_gather => 8 });
		$hog->query('CREATE TABLE IF NOT EXISTS hogged AS SELECT * FROM perm; ALTER TABLE hogged SET (parallel_workers = 8);');
		$hog->send('SELECT count(*) FROM hogged WHERE pg_sleep(0.01) IS NOT NULL;');
		wait_for_workers($hog->pid);
		is($s->query("SET parallel_leader_participation = off; $answer RESET parallel_leader_participation;"), "$rows|$sum", "$what: right while another session has all workers");
		$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $hog->pid . ')');
		$hog->wait;
		$hog->quit;
		check($s, "$what, no worker", $before);

		# Limits of the leader's process: descriptors, size of files.
		SKIP:
		{
			skip 'prlimit is not there', 6 if system("prlimit --version >/dev/null 2>&1") != 0;
			my $pid = $s->pid;
			my $open = () = glob "/proc/$pid/fd/*";
			my ($hard) = `prlimit --noheadings --raw --output HARD --pid $pid --nofile` =~ /(\d+)/;
			system "prlimit --pid $pid --nofile=" . ($open + 1) . ":$hard";
			my $got = $s->query($answer);
			my $error = $s->error;
			ok($got eq "$rows|$sum" || $error =~ /ERROR:/, "$what: right, or an error, without descriptors");
			$error =~ /ERROR:  (\w+)/ and note("without descriptors: $error");
			unlike($error, qr/PANIC|XX000/, "$what: no internal error without descriptors");
			system "prlimit --pid $pid --nofile=$hard:$hard";
			is($s->query($answer), "$rows|$sum", "$what: right with descriptors again");

			$s->query('UPDATE t SET v = v + 1; SELECT parallel_temp_stats_reset();');
			system "prlimit --pid $pid --fsize=800000:unlimited";
			$got = $s->query($answer);
			$error = $s->error;
			if ($buffers == 100)
			{
				ok($got eq "$rows|$sum" || $error =~ m{ERROR: .*could not (?:write|extend)}, "$what: right, or a clear error, when files cannot be written") or diag("$got $error");
			}
			else
			{
				# Everything is in the buffers, so the leader can answer alone as stock does.
				is($got, "$rows|$sum", "$what: right when files cannot be written") or diag($error);
				my $alone = $s->query("SELECT value > 0 FROM parallel_temp_stats WHERE counter = 'queries run without workers';");
				is($alone, 't', "$what: without workers, as their pages cannot be written") if $method eq 'flush';
			}
			system "prlimit --pid $pid --fsize=unlimited:unlimited";
			is($s->query($answer), "$rows|$sum", "$what: right when they can be written again");
			is($s->query('SELECT count(*) FROM pg_local_buffers WHERE pins <> 0;'), '0', "$what: no buffer is pinned after a failed write");
			is($s->query('SELECT count(*), sum(v) - (SELECT sum(id % 1000 + 1) FROM t) FROM t;'), "$rows|0", "$what: nothing is lost by failed writes");
		}
		is(join("\n", bad_log_lines(slurp_file($node->logfile, $from))), '', "$what: no leak in the log");

		# The leader is told to end in the middle.
		$s->send($slow);
		wait_for_workers($s->pid);
		$node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . $s->pid . ')');
		$s->wait;
		ok($node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_stat_activity WHERE leader_pid = ' . $s->pid . ' OR pid = ' . $s->pid), "$what: leader and workers end");
		$s->quit;
		my $left = $node->safe_psql('postgres', q(SELECT count(*) FROM pg_database d, pg_ls_dir('base/' || d.oid) f WHERE f ~ '^t[0-9]+_'));
		is($left, '0', "$what: no temporary file is left");
	}
}
is(join("\n", bad_log_lines(slurp_file($node->logfile))), '', 'no leak and no crash so far');

# A worker dies; the server starts again.
for my $method ('share', 'flush')
{
	my $s = new_session($method, 1024);
	$s->send($slow);
	my ($worker) = wait_for_workers($s->pid);
	kill 'KILL', $worker;
	$s->wait;
	$s->quit;
	ok(wait_until_back($node), "$method: the server comes back after a worker was killed");
	my $left = $node->safe_psql('postgres', q(SELECT count(*) FROM pg_database d, pg_ls_dir('base/' || d.oid) f WHERE f ~ '^t[0-9]+_'));
	is($left, '0', "$method: no temporary file is left");
	$s = new_session($method, 1024);
	is($s->query($answer), "$rows|$sum", "$method: right after the restart");
	$s->quit;
}

# The library is loaded by the session alone, from a file that then goes away.
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
my $library = PostgreSQL::Test::Utils::tempdir() . '/parallel_temp.so';
my $from = $node->config_data('--pkglibdir') . '/parallel_temp.so';
system 'cp', $from, $library;
my $s = PsqlSession->new($node, 'postgres', settings => \%eager);
$s->query("LOAD '$library';");
unlike($s->error, qr{\S}, 'the library can be loaded in a session');
$s->query("CREATE TEMP TABLE t AS SELECT i AS id, i AS v FROM generate_series(1, $rows) i;");
is($s->query($answer), "$rows|$sum", 'right when loaded in the session');
like($s->query("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $answer"), qr/Workers Launched: [12].*Temp Scan/s, 'parallel when loaded in the session');
unlink $library;
my $got = $s->query($answer);
like($s->error, qr/ERROR:  \w+: could not access file.*parallel_temp/, 'a clear error if a worker cannot load the library') unless $got eq "$rows|$sum";
$s->query('SET parallel_temp.enabled = off;');
is($s->query($answer), "$rows|$sum", 'right with the feature off');
is($s->query('SELECT count(*) FROM perm WHERE id > 0;') || 'failed', $s->error =~ /could not access file/ ? 'failed' : '5000', 'permanent tables behave as with any library that has gone');
$s->quit;

$node->stop;
done_testing();
