# Samples attribute waits to the plan nodes that wait: for causes that are injected, in
# statements of each kind, whatever ends statements and processes.
# Slow: some hundred naps and waits, and servers that are killed
use strict;
use warnings;

BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 120 }
use FindBin;
use lib "$FindBin::RealBin/../../../common/test";
use CrashedServer;
use List::Util qw(sum);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'light_explain'
light_explain.profile = on
light_explain.sample_interval = 10
light_explain.sample_ring = 100000
max_connections = 40
compute_query_id = on
autovacuum = off
jit = off
restart_after_crash = on
deadlock_timeout = 10min
max_prepared_transactions = 3
max_parallel_workers_per_gather = 0
enable_bitmapscan = off
enable_indexonlyscan = off
CONF
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION light_explain;
CREATE TABLE t AS SELECT g AS id, g % 10 AS k, repeat(md5(g::text), 4) AS v FROM generate_series(1, 3000) g;
CREATE INDEX t_id ON t (id);
CREATE TABLE once (id int PRIMARY KEY);
CREATE TABLE locked AS SELECT g AS id FROM generate_series(1, 3) g;
VACUUM ANALYZE t, locked;
-- a nap of so many seconds, which a scan makes for a few of its rows
CREATE FUNCTION nap(seconds float8, really bool) RETURNS bool LANGUAGE sql VOLATILE AS 'SELECT CASE WHEN really THEN pg_sleep(seconds) IS NOT NULL ELSE true END';
CREATE FUNCTION nested() RETURNS int LANGUAGE plpgsql AS $$BEGIN RETURN (SELECT count(*) FROM t WHERE CASE WHEN id % 100 = 0 THEN pg_sleep(0.02) IS NOT NULL ELSE true END); END$$;
CREATE FUNCTION caught() RETURNS int LANGUAGE plpgsql AS $$BEGIN
	BEGIN PERFORM pg_sleep(0.1), 1 / (id - 1) FROM t; EXCEPTION WHEN division_by_zero THEN NULL; END;
	RETURN 1; END$$;
CREATE FUNCTION cursor_of(statement text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE c refcursor; r record; n int = 0;
BEGIN
	OPEN c FOR EXECUTE statement;
	LOOP FETCH c INTO r; EXIT WHEN NOT FOUND; n = n + 1; END LOOP;
	CLOSE c;
	RETURN n;
END$$;
CREATE ROLE other LOGIN;
CREATE ROLE reader LOGIN IN ROLE pg_read_all_stats;
SQL

# Two rounds later all plans of statements that have ended are known.
sub settle_samples
{
	my ($server) = @_;
	my $rounds = $server->safe_psql('postgres', 'SELECT sampler_rounds FROM light_explain_status()');
	$server->poll_query_until('postgres', "SELECT sampler_rounds > $rounds + 2 FROM light_explain_status()") or die 'the sampler does not work';
}

# Samples of a process, grouped: "columns|n", the most frequent first.
sub samples
{
	my ($server, $pid, $columns, $condition) = @_;
	settle_samples($server);
	return $server->safe_psql('postgres', "SELECT $columns, count(*) FROM light_explain_samples WHERE (pid = $pid OR leader_pid = $pid) AND $condition GROUP BY $columns ORDER BY count(*) DESC");
}

# Run statements in a session; returns its process.
sub run_in_session
{
	my ($server, @statements) = @_;
	my ($rc, $out, $err) = $server->psql('postgres', join(";\n", 'SELECT pg_backend_pid()', @statements), on_error_stop => 0);
	return (split /\n/, $out)[0];
}

# Start a session that will wait; returns handle and process.
my $started = 0;
sub start_session
{
	my ($server, @statements) = @_;
	my $name = 'victim' . ++$started;
	my ($out, $err) = ('', '');
	my $handle = IPC::Run::start([ 'psql', '-X', '-q', '-d', $server->connstr('postgres') . " application_name=$name", map { ('-c', $_) } @statements ], '<', \undef, '>', '/dev/null', '2>', \$err);
	$server->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = '$name' AND state = 'active'") or die "$name: $err";
	my $pid = $server->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE application_name = '$name'");
	return ($handle, $pid);
}

# Wait for so many samples of a process.
sub wait_for_samples
{
	my ($server, $pid, $condition, $n) = @_;
	return $server->poll_query_until('postgres', "SELECT count(*) >= $n FROM light_explain_samples() WHERE (pid = $pid OR leader_pid = $pid) AND $condition");
}

# ---- waits of each kind, in statements of each kind ----

my %kinds = (
	short => [ 'SET light_explain.switch_after = 1000000', sub { $_[0] } ],
	recorded => [ 'SET light_explain.switch_after = 0', sub { $_[0] } ],
	cursor => [ 'SET light_explain.switch_after = 0', sub { my $s = $_[0]; $s =~ s/'/''/g; "SELECT cursor_of('$s')" } ],
	'short cursor' => [ 'SET light_explain.switch_after = 1000000', sub { my $s = $_[0]; $s =~ s/'/''/g; "SELECT cursor_of('$s')" } ]);

# statement, condition of samples, what they must be
my @naps = (
	[ 'a filter below a join', q{SELECT count(*) FROM (SELECT id FROM t WHERE id <= 40 AND nap(0.01, id <= 40) OFFSET 0) a JOIN locked USING (id)}, 'Index Scan using t_id on t' ],
	[ 'a target list', 'SELECT pg_sleep(2)', 'Result' ],
	[ 'an argument of an aggregate', 'SELECT bool_and(nap(0.01, id <= 40)) FROM t', 'Aggregate' ],
	[ 'a filter below a sort', 'SELECT id FROM t WHERE nap(0.01, id <= 40) ORDER BY v', 'Seq Scan on t' ],
	[ 'an index scan', 'SELECT k FROM t WHERE id < 40 AND nap(0.01, true)', 'Index Scan using t_id on t' ]);
for my $kind (sort keys %kinds)
{
	my ($setting, $form) = @{ $kinds{$kind} };
	for my $case (@naps)
	{
		my ($name, $statement, $label) = @$case;
		my $pid = run_in_session($node, $setting, $form->($statement));
		my $found = samples($node, $pid, 'label', q{wait_event = 'PgSleep'});
		like($found, qr/\A\Q$label\E\|(\d+)\z/, "$kind: the nap in $name is $label\'s");
		cmp_ok((split /\|/, $found)[-1] || 0, '>=', 10, "... and was seen ten times");
	}
}

my $blocked = sub {
	my ($kind, $name, $block, $free, $statement, $label, $event) = @_;
	my ($setting, $form) = @{ $kinds{$kind} };
	$node->safe_psql('postgres', $block);
	my ($handle, $pid) = start_session($node, $setting, $form->($statement));
	ok(wait_for_samples($node, $pid, "wait_event = '$event'", 20), "$kind: $name is seen");
	$node->safe_psql('postgres', $free);
	$handle->finish;
	like(samples($node, $pid, 'label', q{wait_event_type = 'Lock'}), qr/\A\Q$label\E\|\d+\z/, "... as $label\'s wait");
};
my $prepare = q{BEGIN; UPDATE locked SET id = id WHERE id = 2; PREPARE TRANSACTION 'blocker'};
my $commit = q{COMMIT PREPARED 'blocker'};
my $advise = q{BEGIN; SELECT pg_advisory_xact_lock(7); PREPARE TRANSACTION 'blocker'};
for my $kind (sort keys %kinds)
{
	$blocked->($kind, 'a row lock of SELECT FOR UPDATE', $prepare, $commit, 'SELECT id FROM locked FOR UPDATE', 'LockRows', 'transactionid');
	$blocked->($kind, 'an advisory lock in a filter', $advise, $commit, 'SELECT id FROM t WHERE id = 2 AND pg_advisory_xact_lock_shared(7) IS NOT NULL', 'Index Scan using t_id on t', 'advisory');
	next if $kind =~ /cursor/;
	$blocked->($kind, 'a row lock of UPDATE', $prepare, $commit, 'UPDATE locked SET id = id', 'Update on locked', 'transactionid');
	$blocked->($kind, 'a unique conflict', q{BEGIN; INSERT INTO once VALUES (1); PREPARE TRANSACTION 'blocker'}, q{ROLLBACK PREPARED 'blocker'},
		'INSERT INTO once VALUES (1) ON CONFLICT DO NOTHING', 'Insert on once', 'transactionid');
	$node->safe_psql('postgres', 'TRUNCATE once');
}

# ---- nodes that core measures inside its code ----

{
	$node->safe_psql('postgres', 'CREATE FUNCTION many() RETURNS SETOF int LANGUAGE plpgsql ROWS 10 AS $$BEGIN RETURN QUERY SELECT generate_series(1, 1500000); END$$');
	my $pid = run_in_session($node, 'SET light_explain.switch_after = 0', 'SET enable_mergejoin = off', 'SET enable_nestloop = off',
		'SELECT count(*) FROM generate_series(1, 1000) a JOIN many() b ON a = b');
	my $found = samples($node, $pid, 'node_type', q{node_type IS NOT NULL});
	like($found, qr/^Hash\|/m, 'Hash is told apart from its join');
	# a scan's key is evaluated within the index scan, its filter within the heap scan
	$node->safe_psql('postgres', <<'SQL');
CREATE TABLE wide AS SELECT g AS id, g % 100 AS k FROM generate_series(1, 20000) g;
CREATE INDEX ON wide (k);
VACUUM ANALYZE wide;
CREATE FUNCTION stable_sleep(float8) RETURNS void STABLE STRICT LANGUAGE internal AS 'pg_sleep';
SQL
	$pid = run_in_session($node, 'SET light_explain.switch_after = 0', 'SET enable_bitmapscan = on', 'SET enable_seqscan = off', 'SET enable_indexscan = off',
		'SELECT count(*) FROM wide WHERE k = CASE WHEN stable_sleep(0.2) IS NULL THEN 0 ELSE 1 END AND nap(0.01, id < 3000)');
	$found = samples($node, $pid, 'node_type', q{wait_event = 'PgSleep' AND node_type IS NOT NULL});
	like($found, qr/^Bitmap Index Scan\|/m, 'a bitmap index scan is told apart from the heap scan');
	like($found, qr/^Bitmap Heap Scan\|/m, '... which is seen as well');
}

# ---- a sort that goes to disk ----
{
	my $pid = run_in_session($node, q{SET work_mem = '64kB'}, 'SELECT count(*) FROM (SELECT g FROM generate_series(1, 400000) g ORDER BY md5(g::text) OFFSET 0) s');
	my $found = samples($node, $pid, 'node_type', q{activity = 'execute' AND node IS NOT NULL});
	like($found, qr/^Sort\|/m, 'a sort that goes to disk is seen');
	is($node->safe_psql('postgres', "SELECT string_agg(DISTINCT node_type, ',') FROM light_explain_samples WHERE pid = $pid AND wait_event LIKE 'BufFile%' AND node_type NOT IN ('Sort', 'Function Scan')"),
		'', '... and temporary files are waited for in the nodes that have some');
}

# ---- nested statements, functions that catch errors ----
{
	my $pid = run_in_session($node, 'SELECT nested() FROM locked WHERE id = 1');
	my $found = samples($node, $pid, 'label, left(query, 6)', q{wait_event = 'PgSleep'});
	like($found, qr/\A(Seq|Index) Scan[^|]* on t\|/, 'a nap in a nested statement is its node\'s');
	$pid = run_in_session($node, 'SELECT caught(), nap(0.02, true) FROM t WHERE id <= 20');
	$found = samples($node, $pid, 'label', q{wait_event = 'PgSleep' AND query ~ 'caught'});
	like($found, qr/\A(Seq|Index) Scan[^|]* on t\|/, 'after an error in a nested statement the outer node is seen again');
}

# ---- workers ----
my @parallel = ('SET max_parallel_workers_per_gather = 2', 'SET parallel_setup_cost = 0', 'SET parallel_tuple_cost = 0',
	'SET min_parallel_table_scan_size = 0', 'SET parallel_leader_participation = off');
for my $switch (0, 1000000)
{
	my $pid = run_in_session($node, @parallel, "SET light_explain.switch_after = $switch", 'ALTER FUNCTION nap PARALLEL SAFE',
		'SELECT count(*) FROM t WHERE CASE WHEN id % 60 = 0 THEN pg_sleep(0.02) IS NOT NULL ELSE true END');
	my $found = samples($node, $pid, 'leader_pid IS NOT NULL, label', q{wait_event = 'PgSleep'});
	like($found, qr/\At\|(Parallel )?Seq Scan on t\|\d+\z/, "switch after $switch: naps of workers are their scan's");
	like(samples($node, $pid, 'label, wait_event', q{leader_pid IS NULL AND wait_event_type = 'IPC' AND wait_event ~ 'Execute'}), qr/\AGather\|ExecuteGather\|\d+\z/, '... and the leader waits for them in Gather');

	$pid = run_in_session($node, @parallel, "SET light_explain.switch_after = $switch", 'SET parallel_tuple_cost = 0',
		'SELECT bool_and(nap(0.02, n % 50 = 0)) FROM (SELECT row_number() OVER () AS n, v FROM (SELECT v FROM t OFFSET 0) s WHERE v IS NOT NULL) x WHERE n <= 1000');
	$found = samples($node, $pid, 'wait_event', q{leader_pid IS NOT NULL AND wait_event_type = 'IPC'});
	like($found, qr/MessageQueueSend\|/, '... and they wait for a leader that does not read');
}

# ---- a client that does not read ----
SKIP:
{
	my ($handle, $pid) = start_session($node, q{SELECT repeat('x', 1000000), pg_sleep(0.001) FROM generate_series(1, 10000)});
	my ($client) = map { $_->{PID} } @{ $handle->{KIDS} };
	kill STOP => $client;
	ok(wait_for_samples($node, $pid, q{wait_event = 'ClientWrite'}, 20), 'a client that does not read is seen');
	is($node->safe_psql('postgres', "SELECT DISTINCT activity, node IS NULL FROM light_explain_samples() WHERE pid = $pid AND wait_event = 'ClientWrite'"),
		'execute|t', '... as the statement\'s wait, not a node\'s');
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	kill CONT => $client;
	$handle->finish;
}

# ---- statements that take microseconds ----
{
	my $pid = run_in_session($node, <<'SQL');
DO $$
DECLARE began timestamptz = clock_timestamp();
BEGIN
	WHILE clock_timestamp() < began + interval '2 seconds' LOOP
		FOR i IN 1 .. 1000 LOOP PERFORM v FROM t WHERE id = i; END LOOP;
	END LOOP;
END$$
SQL
	settle_samples($node);
	my ($n, $without) = split /\|/, $node->safe_psql('postgres', "SELECT count(*), count(*) FILTER (WHERE planid IS NULL) FROM light_explain_samples() WHERE pid = $pid AND activity = 'execute'");
	cmp_ok($n, '>=', 20, 'lookups in a loop are seen');
	# a sampler that is interrupted may ask when 32 more have ended
	cmp_ok($without, '<=', $n / 10, "... with their plans: $without of $n have none");
}

# ---- statements within each other ----
{
	$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION deep(n int, fails bool) RETURNS int LANGUAGE plpgsql AS $$
DECLARE r int;
BEGIN
	IF n > 1 THEN EXECUTE format('SELECT count(*) FROM (SELECT deep(%s, %L) OFFSET 0) s', n - 1, fails) INTO r;
	ELSIF fails THEN RAISE 'deep';
	ELSE PERFORM pg_sleep(0.4); END IF;
	RETURN 1;
END$$;
CREATE FUNCTION deep_fails(n int) RETURNS int LANGUAGE plpgsql AS $$BEGIN RETURN deep(n, true); EXCEPTION WHEN raise_exception THEN RETURN 1; END$$;
SQL
	my $pid = run_in_session($node, 'SELECT deep(28, false)');
	like(samples($node, $pid, 'label', q{wait_event = 'PgSleep'}), qr/\AResult\|\d+\z/, 'of 28 statements within each other the innermost waits');
	$pid = run_in_session($node, 'SELECT deep(45, false)');
	like(samples($node, $pid, 'node IS NULL, activity', q{wait_event = 'PgSleep'}), qr/\At\|execute\|\d+\z/, 'of 45 the innermost are not shown, and nothing waits in their place');
	for my $depth (28, 45)
	{
		$pid = run_in_session($node, "SELECT count(*) FROM t WHERE id <= 10 AND deep_fails($depth) > 0 AND pg_sleep(0.04) IS NOT NULL");
		like(samples($node, $pid, 'label', q{wait_event = 'PgSleep'}), qr/\AIndex Scan using t_id on t\|\d+\z/, "after $depth failed, the scan that called them waits");
	}
}

# ---- planner, commit, utility, locks before there is a plan ----
{
	$node->safe_psql('postgres', 'CREATE FUNCTION planned() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN PERFORM pg_sleep(0.3); RETURN 1; END$$');
	my $pid = run_in_session($node, 'SELECT count(*) FROM t WHERE id = planned()');
	like(samples($node, $pid, 'activity, wait_event', q{true}), qr/execute\|PgSleep\|/, 'a function that the planner evaluates');

	$node->safe_psql('postgres', q{BEGIN; LOCK TABLE locked; PREPARE TRANSACTION 'blocker'});
	(my $handle, $pid) = start_session($node, 'SELECT count(*) FROM locked');
	ok(wait_for_samples($node, $pid, q{wait_event = 'relation' AND activity = 'other' AND node IS NULL}, 20), 'a lock that is taken before there is a plan');
	(my $handle2, my $pid2) = start_session($node, 'ALTER TABLE locked ADD COLUMN n int');
	ok(wait_for_samples($node, $pid2, q{wait_event = 'relation' AND activity = 'utility'}, 20), 'a utility command that waits');
	$node->safe_psql('postgres', q{COMMIT PREPARED 'blocker'});
	$_->finish for $handle, $handle2;
}

# ---- who may see what ----
{
	my $pid = run_in_session($node, 'SET ROLE other', 'SELECT pg_sleep(1)');
	settle_samples($node);
	for my $who ([ other => 't' ], [ reader => 't' ], [ postgres => 't' ])
	{
		is($node->safe_psql('postgres', "SET ROLE $who->[0]; SELECT count(*) > 5 FROM light_explain_samples() WHERE pid = $pid AND wait_event = 'PgSleep'"), $who->[1], "$who->[0] sees other's samples");
	}
	is($node->safe_psql('postgres', 'SET ROLE other; SELECT count(*) FROM light_explain_samples() WHERE userid <> (SELECT oid FROM pg_roles WHERE rolname = current_user)'), 0, 'nothing of other roles');
	is($node->safe_psql('postgres', 'SET ROLE other; SELECT count(*) FROM light_explain_waits WHERE userid <> (SELECT oid FROM pg_roles WHERE rolname = current_user)'), 0, 'nor in the sums');
	my ($rc, $out, $err) = $node->psql('postgres', 'SET ROLE other; SELECT light_explain_samples_reset()');
	like($err, qr/permission denied for function light_explain_samples_reset/, 'who may not reset');
}

# ---- sums: all samples are in them, shares are the truth's ----
{
	# a nap of 30 ms in one node and of 20 ms in another, 60 times: 3 to 2
	$node->safe_psql('postgres', 'SELECT light_explain_samples_reset()');
	my $began = time;
	my $pid = run_in_session($node, 'SELECT count(pg_sleep(0.03)) FROM t WHERE id <= 60 AND pg_sleep(0.02) IS NOT NULL');
	my $took = time - $began;
	settle_samples($node);
	my ($top, $all, $seconds) = split /\|/, $node->safe_psql('postgres', q{
		SELECT sum(samples) FILTER (WHERE node_type = 'Aggregate'), sum(samples), sum(seconds) FROM light_explain_waits WHERE query ~ 'pg_sleep.0.03' AND wait_event = 'PgSleep'});
	my $z = ($top / $all - 0.6) / sqrt(0.6 * 0.4 / $all);
	cmp_ok(abs($z), '<', 5, "shares of two nodes: $top of $all samples for 0.6");
	cmp_ok($all, '>=', 100, 'there are enough of them');
	cmp_ok($seconds, '>', 1.5, "time that they stand for: $seconds for 3 s or more");
	cmp_ok($seconds, '<', 1.1 * $took, "and not more than the session's $took s");
	is($node->safe_psql('postgres', q{SELECT (SELECT sum(samples) FROM light_explain_waits()) + waits_discarded >= samples_taken - 50 FROM light_explain_status()}), 't', 'all samples are in the sums');
}

# ---- bounded memory ----
{
	$node->append_conf('postgresql.conf', "light_explain.sample_ring = 100\nlight_explain.sample_waits = 100\nlight_explain.sample_interval = 1");
	$node->restart;
	$node->safe_psql('postgres', 'SET light_explain.profile = off; ' . join(' ', map { "SELECT pg_sleep(0.01)" . ", 1" x $_ . ';' } 1 .. 130));
	settle_samples($node);
	is($node->safe_psql('postgres', q{SELECT samples_overwritten > 0, waits_max, waits_used <= 100, waits_discarded > 0, sampler_torn >= 0, samples_kept,
			samples_taken - samples_overwritten <= 100 FROM light_explain_status()}), 't|100|t|t|t|100|t', 'full memory is reported');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM light_explain_samples()'), 100, 'the last samples are kept');
	$node->append_conf('postgresql.conf', "light_explain.sample_ring = 200000\nlight_explain.sample_waits = 5000");
	$node->restart;
}

# ---- no impossible pair of node and wait, in LOOKS samples (10,000 if that is not set) ----
{
	my $looks = $ENV{LOOKS} || 10_000;
	# naps in the scan only; above it work that never waits
	my $sql = PostgreSQL::Test::Utils::tempdir() . '/torn.sql';
	append_to_file($sql, <<'SQL');
SELECT max(md5(md5(md5(v)))) FROM (SELECT v FROM t WHERE id <= 300 AND CASE WHEN id % 3 = 0 THEN pg_sleep(0.0001) IS NOT NULL ELSE true END OFFSET 0) s;
SQL
	my ($rc) = $node->psql('postgres', 'SELECT light_explain_samples_reset()');
	my $taken = sub { $node->safe_psql('postgres', q{SELECT coalesce(sum(samples), 0) FROM light_explain_waits WHERE query ~ 'md5.md5' AND planid IS NOT NULL}) };
	my $seconds = 0;
	while ($taken->() < $looks)
	{
		$seconds += 4;
		PostgreSQL::Test::Utils::system_or_bail('pgbench', '-n', '-c', '30', '-T', '4', '-f', $sql, '-h', $node->host, '-p', $node->port, 'postgres');
		settle_samples($node);
	}
	note($taken->() . " samples in $seconds s");
	my $found = $node->safe_psql('postgres', q{SELECT node_type, wait_event, sum(samples) FROM light_explain_waits WHERE query ~ 'md5.md5' AND wait_event_type IN ('CPU', 'Timeout') AND planid IS NOT NULL GROUP BY 1, 2 ORDER BY 3 DESC});
	note($found);
	my %impossible = $found =~ /^((?:Aggregate|Subquery Scan)\|PgSleep)\|(\d+)$/mg;
	is(join(', ', %impossible), '', 'a node that does not wait is never seen waiting');
	# ci/check.sh prints this for certificate/run
	diag(sprintf 'counted: %d looks of the sampler, %d impossible pairs of node and wait', $taken->(), sum(0, values %impossible)) if $ENV{LOOKS};
	like($found, qr/^(Seq|Index) Scan\|PgSleep\|\d{3,}/m, 'the one that does is');
	like($found, qr/^Aggregate\|CPU\|\d+/m, 'and the work above it');
}

# ---- statements and processes that are ended ----
{
	# ten sessions end, so that their places are free; then no session works
	my $sql = PostgreSQL::Test::Utils::tempdir() . '/one.sql';
	append_to_file($sql, "SELECT 1;\n");
	PostgreSQL::Test::Utils::system_or_bail('pgbench', '-n', '-c', '10', '-t', '5', '-f', $sql, '-h', $node->host, '-p', $node->port, 'postgres');
	my $watcher = $node->background_psql('postgres');
	$watcher->query_safe('SELECT light_explain_samples_reset()');
	$watcher->query_safe('SELECT pg_sleep(1)');
	is($watcher->query_safe('SELECT count(*) FROM light_explain_samples WHERE pid <> pg_backend_pid()'), '0', 'processes that have ended do not work');
	cmp_ok($watcher->query_safe('SELECT sampler_rounds FROM light_explain_status()'), '>', 20, 'and it was looked often enough');
	$watcher->quit;

	my $pid = run_in_session($node, "SET statement_timeout = '50ms'", ('SELECT nested()', 'SELECT count(*) FROM t WHERE nap(0.01, true)') x 5,
		'SET statement_timeout = 0', 'SELECT count(*) FROM t WHERE id <= 20 AND nap(0.02, true) -- last');
	settle_samples($node);
	like($node->safe_psql('postgres', "SELECT label, count(*) FROM light_explain_samples WHERE pid = $pid AND wait_event = 'PgSleep' AND query ~ 'last' GROUP BY 1"), qr/\A(Seq|Index) Scan[^|]* on t\|\d+\z/, 'after statements that timed out');

	my $sampler = $node->safe_psql('postgres', 'SELECT sampler_pid FROM light_explain_status()');
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($sampler)") if $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE pid = $sampler");
	kill TERM => $sampler;
	ok($node->poll_query_until('postgres', "SELECT sampler_pid <> $sampler AND sampler_rounds > 3 FROM light_explain_status()"), 'a sampler that was terminated comes back');

	for my $victim ('sampler', 'backend')
	{
		my ($handle, $pid) = start_session($node, 'SELECT count(*) FROM t WHERE nap(0.05, true)');
		wait_for_samples($node, $pid, 'node IS NOT NULL', 3);
		my $killed = $victim eq 'backend' ? $pid : $node->safe_psql('postgres', 'SELECT sampler_pid FROM light_explain_status()');
		my $before = -s $node->logfile;
		kill KILL => $killed;
		$handle->finish;
		wait_until_back($node, $before);
		ok($node->poll_query_until('postgres', "SELECT sampler_pid <> $killed AND sampler_rounds > 3 FROM light_explain_status()"), "after kill -9 of the $victim there is a sampler");
		$pid = run_in_session($node, 'SELECT count(*) FROM t WHERE id <= 20 AND nap(0.02, true)');
		like(samples($node, $pid, 'label', q{wait_event = 'PgSleep'}), qr/\A(Seq|Index) Scan[^|]* on t\|\d+\z/, '... and it sees what it should');
	}
}

# ---- a standby ----
{
	$node->backup('base');
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	$standby->init_from_backup($node, 'base', has_streaming => 1);
	$standby->start;
	my $pid = run_in_session($standby, 'SELECT count(*) FROM t WHERE id <= 20 AND nap(0.02, true)');
	like(samples($standby, $pid, 'label', q{wait_event = 'PgSleep'}), qr/\A(Seq|Index) Scan[^|]* on t\|\d+\z/, 'a standby has separate samples');
	$standby->stop;
}

# ---- changed and turned off while the server runs, and from its start ----
{
	$node->append_conf('postgresql.conf', 'light_explain.sample_interval = 0');
	$node->reload;
	$node->poll_query_until('postgres', q{SELECT current_setting('light_explain.sample_interval') = '0'});
	run_in_session($node, 'SELECT pg_sleep(0.3)');
	my $rounds = $node->safe_psql('postgres', 'SELECT sampler_rounds FROM light_explain_status()');
	run_in_session($node, 'SELECT pg_sleep(0.5)');
	is($node->safe_psql('postgres', 'SELECT sampler_rounds FROM light_explain_status()'), $rounds, 'no rounds while it is off');
	$node->restart;
	my ($rc, $out, $err) = $node->psql('postgres', 'SELECT * FROM light_explain_waits');
	like($err, qr/there are no samples of statements.*HINT:  Set light_explain.sample_interval/s, 'no samples');
	is($node->safe_psql('postgres', 'SELECT sampler_pid IS NULL, sampler_rounds, samples_kept FROM light_explain_status()'), 't|0|0', 'and no sampler');
}

# ---- where the page cannot be shared ----
{
	$node->append_conf('postgresql.conf', 'light_explain.sample_interval = 10');
	$node->stop;
	my $log = -s $node->logfile;
	{
		local $ENV{LD_PRELOAD} = "$FindBin::RealBin/../custom/light_test_no_memfd.so";
		$node->start;
	}
	for my $session (1 .. 2)
	{
		my $pid = run_in_session($node, 'SET light_explain.switch_after = 0', 'SELECT count(*) FROM t WHERE id <= 20 AND nap(0.02, true)');
		is(samples($node, $pid, 'activity, node IS NULL', q{wait_event = 'PgSleep'}) =~ s/\|\d+\z//r, 'execute|t', 'waits of a statement without its nodes');
	}
	cmp_ok($node->safe_psql('postgres', 'SELECT sampler_without_nodes FROM light_explain_status()'), '>=', 2, 'such processes are counted');
	my @reports = slurp_file($node->logfile, $log) =~ /samples of light_explain do not show plan nodes/g;
	is(scalar @reports, 1, '... and reported once');
}

$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|terminated by signal (?!9)/, 'nothing bad in the log');
done_testing();
