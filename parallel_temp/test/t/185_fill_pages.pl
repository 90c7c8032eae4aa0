# Pages that workers fill on their way to the table: after any failure no row of the
# statement is left, and the session continues.
# Slow: large tables

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../../common/test";
use lib "$FindBin::RealBin/../diff";
use PostgreSQL::Test::Utils;
use CrashedServer;
use SameAnswers qw(start_server bad_log_lines);
use Test::More;
use WorkerSession qw(worker_session workers_of);

my $node = start_server('fill_pages', <<'END', [ '--wal-segsize=1' ]);
restart_after_crash = on
max_worker_processes = 8
max_parallel_workers = 8
min_wal_size = 2MB
END
$node->safe_psql('postgres', <<'END');
CREATE EXTENSION parallel_temp;
CREATE FUNCTION fails_at(i int, bad int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS 'BEGIN RETURN 1 / (i - bad); END';
CREATE FUNCTION waits_at(i int, when_ int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN IF i % when_ = 0 THEN PERFORM pg_sleep(CASE WHEN pg_backend_pid()::text <> current_setting('my.pid') THEN 100 ELSE 0.02 END); END IF; RETURN i; END $$;
CREATE TABLE source AS SELECT i AS id, repeat('x', 300) AS pad FROM generate_series(1, 40000) i;
ANALYZE source;
END

my $sum = 40000 * 40001 / 2;

sub new_session
{
	my $s = worker_session($node, 'fill', @_);
	$s->query('SET my.pid = ' . $s->pid . ';');
	$s->query('CREATE TEMP TABLE t (id int, pad text); CREATE TEMP TABLE near AS SELECT * FROM source; CREATE TEMP TABLE kept AS SELECT 1 AS id;');
	return $s;
}

# Nothing is there of the failed statement, and the next ones are right.
sub check
{
	my ($s, $name) = @_;
	is($s->query("SELECT count(*), to_regclass('made') IS NULL FROM t;"), '0|t', "$name: no row is left") or diag($s->error);
	is($s->query('SELECT count(*) FROM pg_local_buffers WHERE pins <> 0;'), '0', "$name: no buffer is pinned");
	is($s->query('BEGIN; INSERT INTO t SELECT * FROM source; CREATE TEMP TABLE made AS SELECT * FROM near; SELECT count(*), sum(id) FROM t; SELECT count(*), sum(id) FROM made; ROLLBACK;'),
		"40000|$sum\n40000|$sum", "$name: the next statements are right") or diag($s->error);
	return;
}

# A worker comes to a row at which it waits: pages are on their way then.  A leader that
# takes part rests there, or it has all rows before a worker of a busy machine starts.
my %load = (insert => 'INSERT INTO t SELECT %s, pad FROM %s;', create => 'CREATE TEMP TABLE made AS SELECT %s AS id, pad FROM %s;');
for my $leader ('off', 'on')
{
	my $s = new_session(parallel_leader_participation => $leader);
	for my $kind (sort keys %load)
	{
		for my $source ('source', 'near')
		{
			my $name = "$kind from $source, leader takes part $leader";
			my $slow = sprintf $load{$kind}, 'waits_at(id, 500)', $source;
			like($s->query("EXPLAIN (COSTS off) $slow"), qr/Gather.*Temp Load/s, "$name: pages") if $leader eq 'off';
			$s->send($slow);
			workers_of($node, $s->pid);
			$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $s->pid . ')');
			$s->wait;
			like($s->error, qr/57014/, "$name: cancelled");
			check($s, "$name, cancel");

			$s->send($slow);
			my ($worker) = workers_of($node, $s->pid);
			$node->safe_psql('postgres', "SELECT pg_terminate_backend($worker)");
			$s->wait;
			like($s->error, qr/57P01/, "$name: worker terminated");
			check($s, "$name, worker terminated");

			$s->query(sprintf $load{$kind}, 'id + 0 * fails_at(id, 39000)', $source);
			like($s->error, qr/22012/, "$name: error in the query");
			check($s, "$name, error in the query");

			# At any moment of planning, starting, filling.
			$s->query(join '', map { "BEGIN; SET LOCAL statement_timeout = " . (3 * $_) . "; " . sprintf($load{$kind}, 'id', $source) . " ROLLBACK; ROLLBACK; ROLLBACK;\n" } 1 .. 25);
			unlike($s->error, qr/(?:PANIC|FATAL|ERROR:  (?!57014))/, "$name: a storm of timeouts");
			check($s, "$name, storm of timeouts");

			# In a savepoint, with rows before and after it.
			is($s->query('BEGIN; INSERT INTO t SELECT * FROM source WHERE id <= 100; SAVEPOINT a; ' . sprintf($load{$kind}, 'id', $source) . ' ROLLBACK TO a; INSERT INTO t SELECT id + 100, pad FROM source; SELECT count(*), sum(id) FROM t; ROLLBACK;'),
				'40100|' . ($sum + 40000 * 100 + 5050), "$name: savepoint") or diag($s->error);
			check($s, "$name, savepoint");
		}
	}

	# No room for the file: a limit on the length of files (longer than those of
	# WAL) stands for a full disk.
  SKIP:
	{
		my $pid = $s->pid;
		skip 'no prlimit', 7 if system('prlimit', "--pid=$pid", '--fsize=4194304:unlimited') != 0;
		$s->query("TRUNCATE t; INSERT INTO t VALUES (0, 'x');");
		for my $kind (sort keys %load)
		{
			$s->query(sprintf $load{$kind}, 'id', 'source');
			like($s->error, qr/could not (?:extend|write).*File too large/, "$kind, leader takes part $leader: no room") or diag($s->error);
			is($s->query("SELECT count(*), pg_relation_size('t') < 10 * 8192, to_regclass('made') IS NULL FROM t;"), '1|t|t', 'added pages are removed') or diag($s->error);
		}
		system('prlimit', "--pid=$pid", '--fsize=unlimited:unlimited');
		$s->query('TRUNCATE t;');
		check($s, "leader takes part $leader, room again");
	}
	$s->quit;
}
is(join("\n", bad_log_lines(slurp_file($node->logfile))), '', 'no leak in the log');

# A worker dies; the server starts again.
for my $kind (sort keys %load)
{
	my $s = new_session();
	$s->send(sprintf $load{$kind}, 'waits_at(id, 500)', 'source');
	my ($worker) = workers_of($node, $s->pid);
	kill 'KILL', $worker;
	$s->wait;
	$s->quit;
	ok(wait_until_back($node), "$kind: the server comes back after a worker was killed");
	$s = new_session();
	check($s, "$kind: after the restart");
	$s->quit;
}
$node->stop;
done_testing();
