# Statements that end early, fail, are cancelled or killed: figures stay core's,
# nothing is left on the stack, in shared memory or in the next statement.
# Slow: waits for timeouts
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use Battery;
BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 60 }
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'auto_explain, light_explain, pg_stat_statements'
autovacuum = off
full_page_writes = off
checkpoint_timeout = 1h
jit = off
max_worker_processes = 16
auto_explain.log_format = json
auto_explain.log_analyze = on
auto_explain.log_buffers = on
auto_explain.log_wal = on
auto_explain.log_nested_statements = on
log_min_messages = log
log_statement = none
CONF
$node->start;
$node->safe_psql('postgres', battery_sql() =~ s/CREATE TEMP TABLE tmp/CREATE TABLE tmp/r =~ s/^CREATE TEMP TABLE node_types.*$//mr);
$node->safe_psql('postgres', 'CREATE EXTENSION light_explain; CREATE EXTENSION pg_stat_statements');

my $json = JSON::PP->new->canonical;

# Without what is a matter of time.
sub figures
{
	my ($x) = @_;
	return [ map { figures($_) } @$x ] if ref $x eq 'ARRAY';
	return $x unless ref $x eq 'HASH';
	return { map { $_ => figures($x->{$_}) } grep { !/Time$|^Query|^Sort Space|Memory|Maximum Storage|^Trigger Name$|^JIT$/ } keys %$x };
}

# The plans that auto_explain logged since an offset of the server log.
sub logged_plans
{
	my ($offset) = @_;
	my $log = slurp_file($node->logfile, $offset);
	return map { $json->encode(figures($json->decode($_))) } $log =~ /plan:\n((?:\t[^\n]*\n)+)/g;
}

# Run a script with core's instrumentation and with light_explain, and compare the logs.
sub same_logged
{
	my ($name, $script, $settings) = @_;
	my @plans;
	for my $try (1 .. 5)
	{
		@plans = ();
		for my $enabled ('off', 'off', 'on')
		{
			my $offset = -s $node->logfile;
			$node->psql('postgres', "SET auto_explain.log_min_duration = -1; SET client_min_messages = error; "
				  . "SET light_explain.enabled = $enabled; SET light_explain.switch_after = 3;\n"
				  . ($settings // '') . ";\nSET auto_explain.log_min_duration = 0;\n$script", on_error_stop => 0);
			push @plans, [ logged_plans($offset) ];
		}
		last if "@{$plans[1]}" eq "@{$plans[2]}";
	}
	cmp_ok(scalar(@{ $plans[2] }), '>', 0, "$name: plans were logged");
	is_deeply($plans[2], $plans[1], "$name: same as core's");
}

same_logged('cursor fetched in parts', <<'SQL');
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT * FROM t a JOIN u b ON a.id = b.t_id ORDER BY a.id;
FETCH 5 FROM c; FETCH 100 FROM c; FETCH BACKWARD 20 FROM c; MOVE 30 IN c; FETCH 7 FROM c; CLOSE c;
COMMIT;
SQL
# A scan that stays on its page is not looked at: what comes next may be another page.
same_logged('scans that turn back or begin again within a page', <<'SQL', 'SET auto_explain.log_timing = off');
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT * FROM t;
FETCH 310 FROM c; FETCH BACKWARD 290 FROM c; FETCH 1000 FROM c; MOVE BACKWARD ALL IN c; FETCH 10 FROM c; CLOSE c;
DECLARE d SCROLL CURSOR FOR SELECT * FROM t;
FETCH 30 FROM d; FETCH BACKWARD ALL FROM d; FETCH 10 FROM d; CLOSE d;
COMMIT;
SELECT count(*) FROM (SELECT * FROM u LIMIT 20) a, LATERAL (SELECT * FROM t LIMIT 50 + a.id % 3) b;
SELECT count(*), sum(length(doc)) FROM (SELECT doc FROM toasted OFFSET 0) s;
SELECT sum(n) FROM (SELECT length(doc) AS n FROM toasted OFFSET 0) s;
SQL
same_logged('two cursors in turn', <<'SQL');
BEGIN;
DECLARE a CURSOR FOR SELECT * FROM t WHERE k < 50;
DECLARE b CURSOR FOR SELECT count(*) FROM u GROUP BY w;
FETCH 40 FROM a; FETCH 30 FROM b; FETCH 40 FROM a; FETCH 30 FROM b; SELECT count(*) FROM t; FETCH 40 FROM a; CLOSE b; CLOSE a;
COMMIT;
SQL
same_logged('cursor with hold', <<'SQL');
BEGIN; DECLARE h CURSOR WITH HOLD FOR SELECT * FROM t WHERE k < 20; FETCH 10 FROM h; COMMIT; FETCH 10 FROM h; CLOSE h;
SQL
same_logged('errors caught in PL/pgSQL', 'SELECT f_caught(id) FROM t WHERE id < 100; SELECT count(*) FROM t;');
same_logged('functions, triggers, keys', <<'SQL');
DROP TABLE IF EXISTS d; CREATE TABLE d (id int, k int, p int REFERENCES parent);
CREATE TRIGGER tr AFTER INSERT ON d FOR EACH ROW EXECUTE FUNCTION t_nested();
INSERT INTO d SELECT g, g % 9, g FROM generate_series(1, 60) g; SELECT f_plpgsql(id), f_sql(id) FROM t WHERE id < 30;
SELECT * FROM f_cursor(50);
SQL
same_logged('procedures that commit and roll back', <<'SQL');
DROP TABLE IF EXISTS pr; CREATE TABLE pr (id int, n bigint);
CREATE OR REPLACE PROCEDURE commits() LANGUAGE plpgsql AS $$
DECLARE r record; x bigint;
BEGIN
	FOR r IN SELECT id FROM t WHERE id <= 30 ORDER BY id LOOP
		SELECT count(*) INTO x FROM u WHERE t_id <= r.id * 10;
		INSERT INTO pr VALUES (r.id, x);
		BEGIN PERFORM 1 / (id - 900) FROM t WHERE k = r.id % 3; EXCEPTION WHEN division_by_zero THEN NULL; END;
		IF r.id % 5 = 0 THEN COMMIT; ELSIF r.id % 7 = 0 THEN ROLLBACK; END IF;
	END LOOP;
END$$;
CALL commits();
SELECT count(*), sum(n) FROM pr;
DO $$BEGIN PERFORM count(*) FROM t; COMMIT; PERFORM count(*) FROM u; ROLLBACK; PERFORM f_caught(id) FROM t WHERE id < 9; END$$;
SQL
same_logged('functions whose rows are not all asked for', <<'SQL');
SELECT (f_rows(500)).id LIMIT 7;
SELECT (f_rows(i)).id, i FROM generate_series(100, 103) i OFFSET 90 LIMIT 30;
BEGIN; DECLARE c CURSOR FOR SELECT (f_rows(400)).k, (f_rows(30)).id; FETCH 5 FROM c; SAVEPOINT s; FETCH 60 FROM c; ROLLBACK TO s; FETCH 5 FROM c; CLOSE c; COMMIT;
SQL
same_logged('error in the middle', "SELECT 1 / (id - 500) FROM t;\nSELECT count(*) FROM t;");
same_logged('savepoint rolled back', "BEGIN; SAVEPOINT s; SELECT 1 / (id - 500) FROM t;\nROLLBACK TO s;\nSELECT count(*) FROM t JOIN u ON t.id = u.t_id; COMMIT;");

# Errors that leave statements of several subtransactions, and more of them than there are spare entries.
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION sql_fails(i int) RETURNS int LANGUAGE sql VOLATILE AS 'SELECT count(*) FROM t WHERE id <= i; SELECT (1 / min(k - k))::int FROM t WHERE id <= i';
CREATE FUNCTION in_expression(i int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE x int := 0;
BEGIN
	FOR n IN 1..8 LOOP
		BEGIN x := x + sql_fails(n); EXCEPTION WHEN division_by_zero THEN x := x + (SELECT count(*) FROM t WHERE id < i + n); END;
	END LOOP;
	RETURN x;
END$$;
CREATE FUNCTION deeper(depth int, catcher int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE x int;
BEGIN
	IF depth = catcher THEN
		BEGIN
			BEGIN SELECT max(deeper(depth + 1, catcher)) INTO x FROM t WHERE id < 4; EXCEPTION WHEN no_data_found THEN x := -1; END;
			SELECT count(*) INTO x FROM t;
		EXCEPTION WHEN division_by_zero THEN SELECT count(*) INTO x FROM u WHERE t_id < depth * 10;
		END;
	ELSIF depth = 9 THEN SELECT 1 / (id - 3) INTO x FROM t WHERE id < 9 ORDER BY id DESC OFFSET 5;
	ELSE SELECT max(deeper(depth + 1, catcher)) INTO x FROM t WHERE id < 4;
	END IF;
	RETURN x;
END$$;
SQL
same_logged('errors of SQL functions in expressions', 'SELECT in_expression(id) FROM t WHERE id < 40; SELECT count(*) FROM t JOIN u ON t.id = u.t_id;');
same_logged("errors of a depth of nine, caught at $_", "SELECT deeper(1, $_), id FROM t WHERE id < 3; SELECT count(*) FROM t JOIN u ON t.id = u.t_id;") for 1, 4, 8;
same_logged('cursors that fail in savepoints', join("\n", 'BEGIN; DECLARE good CURSOR FOR SELECT id, f_caught(id) FROM t; FETCH 10 FROM good;',
		map({ ("DECLARE c$_ CURSOR FOR SELECT 1 / (id - 10 - $_) FROM t; FETCH 2 FROM c$_; SAVEPOINT s; SAVEPOINT z; FETCH 20 FROM good;", "FETCH 100 FROM c$_;",
				"ROLLBACK TO s;", 'FETCH 7 FROM good;', $_ % 2 ? "CLOSE c$_; RELEASE s;" : 'SELECT count(*) FROM t;') } 1 .. 7), 'CLOSE good;', 'COMMIT;', 'SELECT count(*) FROM t;'));

# the other way round in the chain of hooks
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'light_explain, pg_stat_statements, auto_explain'");
$node->restart;
same_logged('loaded before the others', 'SELECT f_caught(id), f_plpgsql(id) FROM t WHERE id < 60; SELECT count(*) FROM t JOIN u ON t.id = u.t_id;');

# ---- cancelled, timed out, killed ----

my $slow = 'EXPLAIN (ANALYZE, BUFFERS) SELECT count(*) FROM t a, t b, t c WHERE a.k + b.k + c.k = 0';
my $check = q{SELECT count(*) FROM light_explain_progress() WHERE pid <> pg_backend_pid()};

# Start statements in a separate session; returns the process and its errors.
sub victim
{
	my $err = '';
	my $psql = IPC::Run::start([ 'psql', '-X', '-q', '-d', $node->connstr('postgres'), map { ('-c', $_) } "SET application_name = 'victim'", @_ ],
		'>', \my $out, '2>', \$err);
	return ($psql, \$err);
}

for my $timing (qw(auto system))
{
	my ($rc, $out, $err) = $node->psql('postgres', "SET light_explain.timing = $timing; SET statement_timeout = 150; $slow;\n"
		  . 'SET statement_timeout = 0; SELECT count(*) FROM light_explain_progress();', on_error_stop => 0);
	like($err, qr/canceling statement due to statement timeout/, "$timing: timed out");
	is($out, '0', "$timing: no slot is left after a timeout");
}

for my $timing (qw(auto system))
{
	for my $function (qw(pg_cancel_backend pg_terminate_backend))
	{
		my ($psql, $err) = victim("SET light_explain.timing = $timing", $slow);
		$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM light_explain_progress() p JOIN pg_stat_activity a USING (pid)
			WHERE application_name = 'victim' AND rows > 10})
		  or die 'no progress';
		$node->safe_psql('postgres', "SELECT $function(pid) FROM pg_stat_activity WHERE application_name = 'victim'");
		$psql->finish;
		like($$err, qr/canceling statement|terminating connection/, "$timing: $function");
		ok($node->poll_query_until('postgres', "$check AND pid NOT IN (SELECT pid FROM pg_stat_activity)", '0'), "$timing: $function leaves no slot");
	}
}

# workers too
{
	# that have work until they are killed: a Gather below a join has its rows at once
	my ($psql) = victim('SET parallel_setup_cost = 0', 'SET parallel_tuple_cost = 0', 'SET min_parallel_table_scan_size = 0',
		'EXPLAIN (ANALYZE, BUFFERS) SELECT sum(length(md5((a.k + x)::text))) FROM t a, generate_series(1, 1000000) x');
	$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM light_explain_progress() WHERE leader_pid IS NOT NULL AND rows > 10}) or die 'no worker';
	$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'victim' AND backend_type = 'client backend'});
	$psql->finish;
	ok($node->poll_query_until('postgres', 'SELECT count(*) FROM light_explain_progress()', '0'), 'workers of a killed session leave no slot');
}

# A killed session keeps its slot until it has ended, and releases it
# once: then it is the next one's.
for my $timing (qw(auto system))
{
	my $dir = PostgreSQL::Test::Utils::tempdir();
	$node->append_conf('postgresql.conf', 'light_explain.progress_statements = 1');
	$node->restart;
	my $seen = q{SELECT count(*) > 0 FROM light_explain_progress() p JOIN pg_stat_activity a USING (pid) WHERE rows > 10 AND application_name = '%s'};
	my ($first) = victim("LOAD '$FindBin::RealBin/../custom/light_test_custom.so'", "SET light_test_custom.wait_at_exit = '$dir/go'",
		"SET light_explain.timing = $timing", $slow);
	$node->poll_query_until('postgres', sprintf $seen, 'victim') or die 'no progress';
	$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'victim'});
	for (1 .. 600) { last if -e "$dir/go.waiting"; usleep(100_000); }
	append_to_file("$dir/go", '');
	$first->finish;
	$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'victim'});
	my ($second) = victim(q{SET application_name = 'second'}, $slow);
	$node->poll_query_until('postgres', sprintf $seen, 'second') or die 'the slot was not released';
	is($node->safe_psql('postgres', sprintf $seen, 'second'), 't', "$timing: a session that ended leaves the slot to its new owner");
	$node->safe_psql('postgres', 'EXPLAIN ANALYZE SELECT count(*) FROM u a JOIN t b ON a.t_id = b.id');
	$node->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'second'});
	$second->finish;
	is($node->safe_psql('postgres', 'SELECT count(*) FROM light_explain_progress()'), '0', "$timing: which releases it");
}

# EXPLAIN ANALYZE is seen from its first call on, and so are others of which 16 rows are expected; one with InitPlans is tracked at once, since its figures need that.
{
	my ($victim) = victim(q{SET application_name = 'holds'}, $slow);
	$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM light_explain_progress() WHERE rows > 10}) or die 'no progress';
	for my $statement (
		[ 1, 'EXPLAIN ANALYZE SELECT * FROM t WHERE id = 7' ],
		[ 1, 'EXPLAIN ANALYZE SELECT pg_sleep(0)' ],
		[ 0, 'SELECT * FROM t WHERE id = 7' ],
		[ 0, 'SELECT id, (SELECT max(b.k) FROM t b WHERE b.id = a.id) FROM t a WHERE id = 7' ],
		[ 1, 'SELECT * FROM t WHERE id < 1000' ],
		[ 0, 'SELECT * FROM t WHERE id < 1000 LIMIT 15' ],
		[ 1, 'SELECT * FROM t WHERE id < 1000 LIMIT 16' ],
		[ 1, 'SELECT * FROM t WHERE id = (SELECT 7)' ])
	{
		my ($slots, $measured) = @$statement;
		is($node->safe_psql('postgres', <<"SQL"), $slots, "slots that are asked for: $measured");
\\o /dev/null
SET enable_indexscan = on; SET enable_hashjoin = off;
SELECT progress_refused_full + progress_refused_role AS before FROM light_explain_status() \\gset
SET light_explain.instrument_all = on;
$measured;
RESET light_explain.instrument_all;
\\o
SELECT progress_refused_full + progress_refused_role - :before FROM light_explain_status();
SQL
	}
	$node->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'holds'});
	$victim->finish;
}

# The first statement of a session that gets a slot may run inside a function that has a
# callback for errors, which must be the latest one when it is removed.
is($node->safe_psql('postgres', <<"SQL"), '3000', 'a callback around the first measured statement is the latest one');
CREATE FUNCTION light_test_in_cleanup(text) RETURNS text STRICT LANGUAGE c AS '$FindBin::RealBin/../custom/light_test_custom.so';
SELECT light_test_in_cleanup('SET light_explain.instrument_all = on; SET light_explain.switch_after = 0; SELECT count(*) FROM t');
SQL

# ---- the stack depth check is kept, also in nested statements ----

$node->safe_psql('postgres', q{CREATE FUNCTION deep(i int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT deep(i + 1) FROM t WHERE id = 1); END'});
my ($rc, $out, $err) = $node->psql('postgres', q{SET max_stack_depth = '500kB'; SET light_explain.instrument_all = on; SET light_explain.switch_after = 0; SELECT deep(1);
	SELECT count(*) FROM t;}, on_error_stop => 0);
like($err, qr/stack depth limit exceeded/, 'deep recursion fails');
is($out, '3000', 'and the session continues');

# ---- a custom scan that names its child twice, as another one's plan is kept in two places ----

my @twice = split /\n/, $node->safe_psql('postgres', <<"SQL");
LOAD '$FindBin::RealBin/../custom/light_test_custom.so';
SET light_test_custom.kind = twice;
SET light_explain.instrument_all = on; SET light_explain.switch_after = 3; SET light_explain.profile = on;
SELECT count(*), (SELECT count(*) FROM u WHERE t_id < 30) FROM t JOIN u ON t.id = u.t_id;
SET light_explain.enabled = off;
SELECT figures(run_explain('', 'SELECT count(*) FROM t JOIN u ON t.id = u.t_id', 'TIMING OFF'));
SELECT figures(run_explain('', 'SELECT count(*) FROM t JOIN u ON t.id = u.t_id', 'TIMING OFF'));
SET light_explain.enabled = on;
SELECT figures(run_explain('', 'SELECT count(*) FROM t JOIN u ON t.id = u.t_id', 'TIMING OFF'));
SQL
is($twice[0], '1000|9', 'a node that is there twice');
is($twice[3], $twice[2], 'has the figures that core shows');

# ---- a custom scan that gives its instrumentation to its child: core refuses that with TIMING only ----

for my $switch (0, 3, 100000)
{
	my @shared = split /\n/, $node->safe_psql('postgres', <<"SQL");
LOAD '$FindBin::RealBin/../custom/light_test_custom.so';
SET light_test_custom.kind = shared;
SET light_explain.switch_after = $switch;
SELECT run_explain('', 'SELECT count(*) FROM t JOIN u ON t.id = u.t_id', 'TIMING OFF')::text ~ '"Custom Plan Provider": "LightTest"';
SELECT run_explain('', 'SELECT count(*) FROM t a, LATERAL (SELECT FROM u WHERE t_id = a.id OFFSET 0) x WHERE a.id < 5', 'TIMING OFF')::text ~ '"Custom Plan Provider": "LightTest"';
SET light_test_custom.kind = off;
SELECT figures(run_explain('', 'SELECT count(*) FROM t JOIN u ON t.id = u.t_id', 'TIMING OFF'));
SET light_explain.enabled = off;
SELECT figures(run_explain('', 'SELECT count(*) FROM t JOIN u ON t.id = u.t_id', 'TIMING OFF'));
SQL
	is("@shared[ 0, 1 ]", 't t', "a node shares its instrumentation with its child, switch after $switch");
	is($shared[2], $shared[3], 'the next statement has the figures that core shows');
}

# ---- after all that, figures of a plain statement in one session ----

my @lines = split /\n/, $node->safe_psql('postgres', <<'SQL');
SET light_explain.instrument_all = on;
DO $$BEGIN PERFORM 1 / (id - 700) FROM t; EXCEPTION WHEN division_by_zero THEN NULL; END$$;
SET light_explain.enabled = off;
SELECT figures(run_explain('', 'SELECT count(*) FROM t JOIN u ON t.id = u.t_id', 'TIMING OFF'));
SELECT figures(run_explain('', 'SELECT count(*) FROM t JOIN u ON t.id = u.t_id', 'TIMING OFF'));
SET light_explain.enabled = on;
SELECT figures(run_explain('', 'SELECT count(*) FROM t JOIN u ON t.id = u.t_id', 'TIMING OFF'));
SQL
is($lines[2], $lines[1], 'a session that saw errors shows the same figures');

# pg_stat_statements counts the same whether we are there or not
$node->safe_psql('postgres', 'SELECT pg_stat_statements_reset()');
for my $enabled (qw(off off on))
{
	$node->safe_psql('postgres', "SET light_explain.enabled = $enabled; SET light_explain.instrument_all = on; "
		  . 'SELECT count(*) FROM t; SELECT count(*) FROM t;');
}
is($node->safe_psql('postgres', q{SELECT calls, rows, shared_blks_hit % 6 FROM pg_stat_statements WHERE query = 'SELECT count(*) FROM t'}), '6|6|0',
	'pg_stat_statements sees each statement once, with its buffers');

$node->stop;
my $log = slurp_file($node->logfile);
unlike($log, qr/TRAP:|PANIC|was terminated by signal|called twice in a row|called without start/, 'nothing bad in the server log');
done_testing();
