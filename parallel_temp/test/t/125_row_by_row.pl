# A scan of a table that was filled row by row, which notes what hint bits are missing,
# is cancelled at any moment, or loses a worker: nothing is pinned, no answer changes, and
# the next scan that ends leaves the bits.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../diff";
use PsqlSession;
use SameAnswers qw(start_server bad_log_lines);
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('row_by_row');
$node->safe_psql('postgres', 'CREATE EXTENSION parallel_temp; CREATE EXTENSION pageinspect');
$node->safe_psql('postgres', <<'END');
CREATE PROCEDURE fill(first int, last int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN first .. last LOOP
		BEGIN
			INSERT INTO t VALUES (i, repeat('x', 100));
			IF i % 9 = 0 THEN RAISE division_by_zero; END IF;
		EXCEPTION WHEN division_by_zero THEN NULL;
		END;
		IF i % 1000 = 0 THEN COMMIT; END IF;
	END LOOP;
END $$;
END
my $answer = 'SELECT count(*), sum(id) FROM t;';
my $right = 'SET parallel_temp.enabled = off; SET enable_seqscan = off; SELECT count(*), sum(id) FROM t WHERE id > 0; RESET enable_seqscan; RESET parallel_temp.enabled;';
my $unhinted = q{SELECT count(*) FROM generate_series(0, pg_relation_size('t') / current_setting('block_size')::int - 1) b, heap_page_items(get_raw_page('t', b::int)) WHERE t_infomask & 768 = 0;};
my $slow = 'SELECT count(*) FROM t WHERE pg_sleep(0.01) IS NOT NULL;';

for my $method ('share', 'flush')
{
	my $s = PsqlSession->new($node, 'postgres', name => "row-by-row-$method", settings => {
			min_parallel_table_scan_size => 0, parallel_setup_cost => 0, parallel_tuple_cost => 0, max_parallel_workers_per_gather => 2,
			'parallel_temp.flush_page_cost' => 0, 'parallel_temp.scan_buffer_cost' => 0, 'parallel_temp.worker_start_cost' => 0, 'parallel_temp.method' => $method });
	$s->query('CREATE TEMP TABLE t (id int, pad text); CREATE INDEX ON t (id); CALL fill(1, 5000);');
	like($s->query("EXPLAIN (COSTS OFF) $answer"), qr/Gather.*Temp Scan/s, "$method: parallel");
	cmp_ok($s->query($unhinted), '>=', 4000, "$method: rows without hint bits");

	$s->send($slow);
	$node->poll_query_until('postgres', 'SELECT count(*) > 0 FROM pg_stat_activity WHERE leader_pid = ' . $s->pid . " AND wait_event = 'PgSleep'");
	$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $s->pid . ')');
	$s->wait;
	like($s->error, qr/57014/, "$method: cancelled");
	is($s->query('SELECT count(*) FROM pg_local_buffers WHERE pins <> 0;'), '0', "$method: no buffer is pinned");

	$s->send($slow);
	$node->poll_query_until('postgres', 'SELECT count(*) > 0 FROM pg_stat_activity WHERE leader_pid = ' . $s->pid . " AND backend_type = 'parallel worker' AND wait_event = 'PgSleep'");
	$node->safe_psql('postgres', q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'parallel worker' AND leader_pid = ) . $s->pid);
	$s->wait;
	like($s->error, qr/57P01/, "$method: worker terminated");
	cmp_ok($s->query($unhinted), '>=', 4000, "$method: what failed leaves nothing");

	# at any moment, the time after the last worker included
	$s->query("SET statement_timeout = $_; $answer DELETE FROM t WHERE id = $_ * 20;") for 1 .. 15;
	$s->reset_timeout;
	is($s->query('SELECT count(*) FROM pg_local_buffers WHERE pins <> 0;'), '0', "$method: no buffer is pinned after a storm of timeouts");
	my $first = $s->query($answer);
	is($s->error, '', "$method: the next scan ends");
	is($s->query($unhinted), '0', "$method: it leaves hint bits");
	is($s->query($answer), $first, "$method: the answer is the same with them");
	is($s->query($right), $first, "$method: and through an index");
	$s->query('CALL fill(5001, 6000); DELETE FROM t WHERE id % 4 = 0;');
	is($s->query($answer), $s->query($right), "$method: right after more rows and fewer");
	$s->quit;
}
is(join("\n", bad_log_lines(slurp_file($node->logfile))), '', 'no leak in the log');
$node->stop;
done_testing();
