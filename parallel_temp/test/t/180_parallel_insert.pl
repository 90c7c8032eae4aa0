# INSERT ... SELECT into a temporary table whose rows workers compute: after any failure
# no row of it is left, and the session continues; without workers the result is the same.

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

my $node = start_server('parallel_insert', <<'END');
restart_after_crash = on
max_worker_processes = 8
max_parallel_workers = 8
END
$node->safe_psql('postgres', <<'END');
CREATE EXTENSION parallel_temp;
CREATE FUNCTION fails_at(i int, bad int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS 'BEGIN RETURN 1 / (i - bad); END';
CREATE TABLE source AS SELECT i AS id, repeat('x', 100) AS pad FROM generate_series(1, 20000) i;
ANALYZE source;
END

my $fill = 'INSERT INTO t SELECT * FROM source;';
my $slow = 'INSERT INTO t SELECT * FROM source WHERE pg_sleep(0.01) IS NOT NULL;';

sub new_session
{
	my $s = worker_session($node, 'insert');
	$s->query('CREATE TEMP TABLE t (id int PRIMARY KEY, pad text); CREATE TEMP TABLE near AS SELECT * FROM source;');
	return $s;
}

# Nothing is there of the failed statement, and the next one is right.
sub check
{
	my ($s, $name) = @_;
	is($s->query('SELECT count(*) FROM t;'), '0', "$name: no row is left") or diag($s->error);
	is($s->query('SELECT count(*) FROM pg_local_buffers WHERE pins <> 0;'), '0', "$name: no buffer is pinned");
	is($s->query("BEGIN; $fill SELECT count(*), sum(id) FROM t; ROLLBACK;"), '20000|200010000', "$name: the next statement is right") or diag($s->error);
	return;
}

my $s = new_session();
like($s->query("EXPLAIN (COSTS off) $slow"), qr/Insert on t.*Gather/s, 'the slow statement has workers');
for my $source ('source', 'near')
{
	(my $from = $slow) =~ s/source/$source/;
	$s->send($from);
	workers_of($node, $s->pid);
	$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $s->pid . ')');
	$s->wait;
	like($s->error, qr/57014/, "$source: cancelled");
	check($s, "$source, cancel");

	$s->send($from);
	my ($worker) = workers_of($node, $s->pid);
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($worker)");
	$s->wait;
	like($s->error, qr/57P01/, "$source: worker terminated");
	check($s, "$source, worker terminated");

	$s->query("INSERT INTO t SELECT id + 0 * fails_at(id, 19000), pad FROM $source;");
	like($s->error, qr/22012/, "$source: error in the query");
	check($s, "$source, error in the query");

	# In the leader, while workers run: the second half of the rows are there already.
	$s->query("BEGIN; INSERT INTO t SELECT id + 10000, pad FROM $source; SAVEPOINT a;");
	$s->query("INSERT INTO t SELECT * FROM $source;");
	like($s->error, qr/23505/, "$source: error in the leader");
	is($s->query('ROLLBACK TO a; SELECT count(*), min(id) FROM t;'), '20000|10001', "$source: what was there before stays");
	$s->query('ROLLBACK;');
	check($s, "$source, error in the leader");

	$s->query('SET max_parallel_workers = 0;');
	check($s, "$source, no workers");
	$s->query('RESET max_parallel_workers;');

	# At any moment of planning, starting, filling. On a busy machine ROLLBACK takes too long as well: the next one does it.
	$s->query(join '', map { "BEGIN; SET LOCAL statement_timeout = " . (2 * $_) . "; INSERT INTO t SELECT * FROM $source; ROLLBACK; ROLLBACK; ROLLBACK;\n" } 1 .. 25);
	unlike($s->error, qr/(?:PANIC|FATAL|ERROR:  (?!57014))/, "$source: a storm of timeouts");
	check($s, "$source, storm of timeouts");
}
is(join("\n", bad_log_lines(slurp_file($node->logfile))), '', 'no leak in the log');

# A worker dies; the server starts again.
$s->send($slow);
my ($worker) = workers_of($node, $s->pid);
kill 'KILL', $worker;
$s->wait;
$s->quit;
ok(wait_until_back($node), 'the server comes back after a worker was killed');
$s = new_session();
check($s, 'after the restart');
$s->quit;
$node->stop;
done_testing();
