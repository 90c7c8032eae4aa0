# Kept plans: what EXPLAIN ANALYZE prints of the slowest and the last execution, for the roles
# that may see them, in bounded memory, whatever ends statements.
# Slow: each statement of the battery, and a standby
use strict;
use warnings;

BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 60 }
use FindBin;
use lib $FindBin::RealBin;
use Battery;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'light_explain, auto_explain'
autovacuum = off
jit = off
compute_query_id = on
deadlock_timeout = 10min
light_explain.profile = on
light_explain.plans_min_duration = 0
light_explain.plans_interval = 0
light_explain.sample_interval = 10
CONF
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION light_explain;
CREATE TABLE s AS SELECT g AS id, g % 10 AS k FROM generate_series(1, 1000) g;
CREATE INDEX s_id ON s (id);
VACUUM ANALYZE s;
CREATE ROLE other LOGIN;
CREATE ROLE reader LOGIN IN ROLE pg_read_all_stats;
GRANT SELECT ON s TO other;
-- what a plan is, but times and costs
CREATE FUNCTION shape(plan jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
	SELECT jsonb_build_object('type', plan->'Node Type', 'relation', plan->'Relation Name', 'alias', plan->'Alias', 'rows', plan->'Actual Rows', 'loops', plan->'Actual Loops',
		'below', (SELECT jsonb_agg(shape(below) ORDER BY n) FROM jsonb_array_elements(plan->'Plans') WITH ORDINALITY p(below, n)))$$;
-- without what EXPLAIN does not print, and what only it prints
CREATE FUNCTION theirs(plan jsonb) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE k text; v jsonb; result jsonb;
BEGIN
	IF jsonb_typeof(plan) = 'object' THEN
		result := '{}';
		FOR k, v IN SELECT * FROM jsonb_each(plan) LOOP
			CONTINUE WHEN k ~ '^Self |^Samples$|^Planning|^Execution Time$|^Query Parameters$';
			result := result || jsonb_build_object(k, theirs(v));
		END LOOP;
		RETURN result;
	ELSIF jsonb_typeof(plan) = 'array' THEN
		RETURN coalesce((SELECT jsonb_agg(theirs(e) ORDER BY o) FROM jsonb_array_elements(plan) WITH ORDINALITY a(e, o)), '[]');
	END IF;
	RETURN plan;
END$$;
-- EXPLAIN ANALYZE is an execution, too: its own plan is kept as it printed it, times included
CREATE FUNCTION kept_of_explain(setup text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE printed jsonb; kept jsonb; line text; lines text = '';
BEGIN
	IF setup <> '' THEN EXECUTE setup; END IF;
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, WAL, SETTINGS, FORMAT JSON) ' || statement INTO printed;
	SELECT light_explain_plan(queryid, planid, 'last', 'json') INTO kept FROM light_explain_plans() WHERE which = 'last' ORDER BY ended DESC LIMIT 1;
	IF theirs(printed) IS DISTINCT FROM theirs(kept) THEN
		RETURN E'differs\n' || statement || E'\n' || jsonb_pretty(printed) || E'\n' || jsonb_pretty(kept);
	END IF;
	IF setup <> '' THEN EXECUTE setup; END IF;
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, WAL, SETTINGS) ' || statement LOOP lines := lines || E'\n' || line; END LOOP;
	SELECT light_explain_plan(queryid, planid, 'last') INTO line FROM light_explain_plans() WHERE which = 'last' ORDER BY ended DESC LIMIT 1;
	lines := regexp_replace(regexp_replace(lines, '\nPlanning:\n[^\n]*', ''), '\n(Planning|Execution) Time[^\n]*', '', 'g');
	IF E'\n' || line !~ '\nExecution Time: [0-9.]+ ms$' OR lines <> regexp_replace(E'\n' || line, '\n *(Self [A-Z]|Samples:|Execution Time)[^\n]*', '', 'g') THEN
		RETURN E'text differs\n' || statement || E'\n' || lines || E'\n' || line;
	END IF;
	RETURN 'same';
END$$;
SQL

sub query { return $node->safe_psql('postgres', @_); }

# Run statements in a session; returns what it prints on standard output, and errors.
sub run_statements
{
	my ($role, @statements) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', join(";\n", @statements), on_error_stop => 0, extra_params => [ '-U', $role ]);
	return ($out, $err);
}

my $superuser = query('SELECT current_user');
sub profiled { return (run_statements($superuser, @_))[1]; }

# How many executions of queries are kept; the query of the test itself does not match the pattern.
sub kept { return query("SELECT count(*) FROM light_explain_plans WHERE which = 'last' AND query ~ '$_[0]' AND query !~ 'light_explain'"); }

# The plan of a query.
sub kept_plan
{
	my ($pattern, $which, $format) = @_;
	return query("SELECT light_explain_plan(queryid, planid, '$which', '$format') FROM light_explain_plans WHERE which = '$which' AND query ~ '$pattern' AND query !~ 'light_explain'");
}

sub status { return query("SELECT $_[0] FROM light_explain_status()"); }

# ---- what EXPLAIN prints ----

my @statements = battery_statements();
my $script = "\\pset format unaligned\n\\pset tuples_only on\n" . battery_sql() . "RESET ALL;\n";
my @compared;
for my $s (@statements)
{
	my ($settings, $setup, $statement) = @$s;
	# before 18 some have no identifier; a trigger's EXPLAIN is not the last statement
	next if $statement =~ /^(DECLARE|CREATE|REFRESH|TRIGGER:)/;
	push @compared, $statement;
	$script .= "RESET ALL;\n$settings;\n";
	$script .= '\echo ' . $#compared . ":\n" . "SELECT kept_of_explain(\$setup\$$setup\$setup\$, \$st\$$statement\$st\$);\n";
}
my ($rc, $out, $err) = $node->psql('postgres', "LOAD '$FindBin::RealBin/../custom/light_test_custom.so';\n$script", on_error_stop => 0);
my %results = $out =~ /^(\d+):\n(.*?)(?=^\d+:$|\z)/msg;
cmp_ok(scalar(@compared), '>=', 110, 'many statements are compared');
my @differ = grep { ($results{$_} // '') !~ /^same\n?$/ } 0 .. $#compared;
is(scalar(@differ), 0, 'the plan that is kept is the one that EXPLAIN ANALYZE prints') or diag(map { "$compared[$_]\n" . ($results{$_} // 'no result') . "\n" } @differ);
is($err =~ s/^psql:<stdin>:\d+: (NOTICE|WARNING).*\n//gmr =~ /ERROR/ ? $err : '', '', 'without errors');
is(status('plans_failed'), '0', 'none failed');

# Identifiers of queries do not depend on constants and names of columns: the statements of these tests
# differ in more than that.

# Statements without EXPLAIN have the same plan as with it.
query('SELECT light_explain_plans_reset()');
my $workers = 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 2';
for my $case ([ '', 'SELECT k, count(*) FROM s GROUP BY k ORDER BY k' ], [ '', 'SELECT * FROM s WHERE id = 17' ], [ '', 'SELECT count(*) FROM s a JOIN s b USING (id) WHERE a.k < 3' ],
	[ '', 'WITH c AS MATERIALIZED (SELECT * FROM s WHERE k = 2) SELECT (SELECT count(*) FROM c), max(id) FROM c' ], [ $workers, 'SELECT count(*) FROM s WHERE k <> 5' ],
	[ 'SET light_explain.enabled = off', 'SELECT min(k), max(id) FROM s WHERE k < 7' ], [ "SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on", 'SELECT sum(id) FROM s WHERE k = 8' ])
{
	my ($settings, $statement) = @$case;
	my $pattern = '^' . quotemeta $statement;
	profiled($settings, $statement);
	my $explained = (run_statements($superuser, $settings, "EXPLAIN (ANALYZE, FORMAT JSON) $statement"))[0];
	is(query("SELECT shape(\$j\$$explained\$j\$::jsonb->0->'Plan') = shape(light_explain_plan(queryid, planid, 'slowest', 'json')::jsonb->0->'Plan')
		FROM light_explain_plans WHERE which = 'slowest' AND query = \$q\$$statement\$q\$"), 't', "$settings $statement");
}
like(slurp_file($node->logfile), qr/Query Text: SELECT sum\(id\) FROM s WHERE k = 8\n.*Aggregate .*actual time/, 'auto_explain logs its plan as well');
like(kept_plan('^SELECT sum.id. FROM s WHERE k = 8', 'last', 'text'), qr/^Aggregate .*actual time=.*rows=1.*\n.*Seq Scan on s .*\n.*Filter: \(k = 8\)/s, 'and one is kept');
like(kept_plan('^SELECT count... FROM s WHERE k <> 5', 'last', 'text'), qr/Workers Launched: [12]\n.*Parallel Seq Scan on s .*loops=[23]\)/s, 'workers are in it');

# ---- the slowest and the last ----

query('SELECT light_explain_plans_reset()');
profiled('SELECT 1 AS nap, pg_sleep(0.1)', 'SELECT 1 AS nap, pg_sleep(0.3)', 'SELECT 1 AS nap, pg_sleep(0.02)');
my $times = q{SELECT string_agg(which || (SELECT max(t) FROM unnest('{20,100,300,500}'::int[]) t WHERE t <= total_ms), ',' ORDER BY which) FROM light_explain_plans WHERE query ~ ' AS nap,' AND query !~ 'light_explain'};
is(query($times), 'last20,slowest300', 'the slowest and the last execution');
like(kept_plan('AS nap', 'slowest', 'text'), qr/actual time=[34]\d\d\..*Execution Time: [34]\d\d\./s, 'the plan of the slowest');
like(kept_plan('AS nap', 'last', 'text'), qr/actual time=[2-9]\d\..*Execution Time: [2-9]\d\./s, 'the plan of the last');
profiled('SELECT 1 AS nap, pg_sleep(0.5)');
is(query($times), 'last500,slowest500', 'an execution that is both');
profiled('SET light_explain.plans_interval = 600000', 'SELECT 1 AS nap, pg_sleep(0.1)');
is(query($times), 'last500,slowest500', 'within the interval the last is not kept again');
profiled('SET light_explain.plans_interval = 10', 'SELECT 1 AS nap, pg_sleep(0.1)');
is(query($times), 'last100,slowest500', 'after it, it is');
profiled('SET light_explain.plans_min_duration = 200', 'SELECT 1 AS nap, pg_sleep(0.02)');
is(query($times), 'last100,slowest500', 'one that is too short is not kept');
profiled('SET light_explain.plans_min_duration = 200', 'SELECT 2 AS short, 3', 'SELECT 2 AS long, 3, pg_sleep(0.3)');
is(kept('AS short') . kept('AS long'), '01', 'neither is one of another query');
profiled('SET light_explain.plans_min_duration = -1', 'SELECT 2 AS never, 3, 4, pg_sleep(0.1)');
is(kept('AS never'), '0', 'nor any if none is to be');
profiled('SET light_explain.profile = off', 'SELECT 2 AS unprofiled, 3, 4, 5, pg_sleep(0.1)');
is(kept('AS unprofiled'), '0', 'nor without the profile');

# two plans of a query
profiled('SELECT id FROM s WHERE id = 4', 'SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off', 'SELECT id FROM s WHERE id = 4');
is(query(q{SELECT string_agg(light_explain_plan(queryid, planid)::text, ' ' ORDER BY light_explain_plan(queryid, planid)::text) ~ '^Index Only Scan.*Seq Scan' FROM light_explain_plans WHERE which = 'last' AND query = 'SELECT id FROM s WHERE id = 4'}), 't', 'plans of one query are kept apart');
is(query(q{SELECT count(*) FROM (SELECT DISTINCT light_explain_plan(queryid) FROM light_explain_plans WHERE query = 'SELECT id FROM s WHERE id = 4') p}), '1', 'without a plan the slowest of all is returned');
is(query(q{SELECT DISTINCT light_explain_plan(queryid, NULL, 'last') ~ '^Seq Scan' FROM light_explain_plans WHERE query = 'SELECT id FROM s WHERE id = 4'}), 't', 'or the last of all');

# waits
query('CREATE FUNCTION nap(really bool) RETURNS bool LANGUAGE plpgsql VOLATILE AS $$BEGIN IF really THEN PERFORM pg_sleep(0.3); END IF; RETURN true; END$$');
query('CREATE FUNCTION locks(n bigint) RETURNS bool LANGUAGE sql VOLATILE AS $$SELECT CASE WHEN n = 500 THEN pg_advisory_xact_lock(77) IS NOT NULL ELSE true END$$');
profiled('SELECT count(*) FROM s a JOIN s b USING (id) WHERE CASE WHEN a.id = 7 THEN pg_sleep(0.5) IS NOT NULL ELSE a.k = 7 END');
for my $format (qw(text json))
{
	like(kept_plan('a.id = 7', 'slowest', $format), qr/(Seq Scan on s a|"Alias": "a").*Samples"?: "?Timeout:PgSleep [1-9]\d*/s, "$format: a node has what it waited for");
	my $waits = () = kept_plan('a.id = 7', 'slowest', $format) =~ /PgSleep/g;
	is($waits, 1, "$format: and no other node has");
}

# what runs at a statement's end
query('CREATE TABLE audited (id int); CREATE FUNCTION slow_audit() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END$$; CREATE TRIGGER after_all AFTER INSERT ON audited FOR EACH ROW EXECUTE FUNCTION slow_audit()');
profiled('SET light_explain.plans_min_duration = 200', 'INSERT INTO audited VALUES (1)');
like(kept_plan('INSERT INTO audited', 'last', 'text'), qr/^Insert on audited.*Trigger after_all: time=(?:[3-9]\d\d|\d{4,})\..*Execution Time: (?:[3-9]\d\d|\d{4,})\./s, 'time of triggers counts');

# ---- kinds of statements ----

query('SELECT light_explain_plans_reset()');
query(<<'SQL');
CREATE FUNCTION by_cursor(n int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE c CURSOR FOR SELECT id AS of_cursor FROM s ORDER BY id; r record; done int = 0;
BEGIN OPEN c; FOR i IN 1..n LOOP FETCH c INTO r; done = done + 1; END LOOP; CLOSE c; RETURN done; END$$;
CREATE FUNCTION caught() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	BEGIN PERFORM 1 / (k - 3) AS of_failed FROM s; EXCEPTION WHEN division_by_zero THEN NULL; END;
	BEGIN PERFORM count(*) AS of_undone FROM s; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END;
	RETURN 1; END$$;
CREATE FUNCTION of_leader(i int) RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE AS $$BEGIN RETURN (SELECT count(*) AS inside FROM s WHERE id = i); END$$;
SQL
profiled('SELECT by_cursor(50)');
like(kept_plan('of_cursor', 'last', 'text'), qr/^Index Only Scan .*rows=50/, 'a cursor that was fetched in part');
my $caller = query(q{SELECT count(*) FROM light_explain_plans p WHERE which = 'last' AND query ~ 'of_cursor' AND caller_queryid = (SELECT queryid FROM light_explain_plans WHERE query = 'SELECT by_cursor(50)' AND which = 'last')});
is($caller, '1', 'has its caller');
profiled('SELECT caught()');
is(kept('of_failed') . kept('of_undone'), '01', 'an error that was caught: a statement that failed is not kept, one that was undone is');
profiled('SELECT 1 / (k - 3) AS of_error FROM s', "SET statement_timeout = '100ms'", 'SELECT pg_sleep(60) AS of_timeout');
is(kept('of_error') . kept('of_timeout'), '00', 'a statement that failed or timed out is not kept');
profiled('PREPARE p AS SELECT k AS of_prepared FROM s WHERE id = $1', 'EXECUTE p(3)', 'CREATE TEMP TABLE made AS EXECUTE p(4)');
is(kept('of_prepared'), '1', 'a prepared statement');
profiled('BEGIN', 'DECLARE held CURSOR WITH HOLD FOR SELECT id AS of_hold FROM s', 'COMMIT', 'FETCH 3 FROM held');
ok(kept('of_hold') eq ($node->pg_version < 18 ? '0' : '1'), 'a cursor that outlives its transaction');
($out) = run_statements($superuser, 'BEGIN', 'SAVEPOINT a', 'SELECT count(*) AS in_block, min(k) FROM s', 'ROLLBACK TO a', 'SELECT count(*) AS in_block, min(k) FROM s', 'SELECT pg_current_xact_id_if_assigned() IS NULL', 'COMMIT');
is($out, "1000|0\n1000|0\nt", 'a transaction continues, and gets no transaction ID');
is(kept('in_block'), '1', 'its statements are kept');
query('CREATE TABLE deferred (id int PRIMARY KEY, up int REFERENCES deferred DEFERRABLE INITIALLY DEFERRED)');
is(profiled('INSERT INTO deferred VALUES (1, 1), (2, 1)'), '', 'what runs at commit');
($out, $err) = run_statements($superuser, $workers, 'SET max_parallel_workers = 0', 'SELECT count(of_leader(id)) FROM s WHERE k = 1');
is("$out$err", '100', 'statements of a function in a parallel one');
is(kept('of_leader') . kept('AS inside'), '10', 'are not kept');
is(status('plans_failed > 0'), 't', 'but counted');
SKIP:
{
	skip 'no JIT here', 1 unless query('SELECT pg_jit_available()') eq 't';
	profiled('SET jit = on; SET jit_above_cost = 0', 'SELECT max(id) - min(k) AS of_jit FROM s');
	like(kept_plan('of_jit', 'last', 'json'), qr/"JIT": \{.*"Functions": [1-9]/s, 'JIT');
}

# ---- parameters ----

query('SELECT light_explain_plans_reset()');
my @secret = ('PREPARE q(text) AS SELECT k AS of_secret FROM s WHERE id::text = $1', "SET plan_cache_mode = force_generic_plan", "EXECUTE q('topsecret')");
profiled(@secret);
unlike(kept_plan('of_secret', 'last', 'text') . kept_plan('of_secret', 'last', 'json'), qr/topsecret|Query Parameters/, 'parameters are not kept');
profiled('SET light_explain.plans_parameters = -1', @secret);
like(kept_plan('of_secret', 'last', 'text'), qr/^Query Parameters: \$1 = 'topsecret'\nSeq Scan/, 'unless that is permitted');
is(query(q{SELECT DISTINCT light_explain_plan(queryid, planid, 'last', 'json')::json->0->>'Query Parameters' FROM light_explain_plans WHERE query ~ 'of_secret' AND query !~ 'light_explain'}), q{$1 = 'topsecret'}, 'in JSON, too');
profiled('SET light_explain.plans_parameters = 3', @secret);
like(kept_plan('of_secret', 'last', 'text'), qr/^Query Parameters: \$1 = 'top...'\n/, 'and are cut off');
for my $setting (qw(plans_parameters plans_min_duration plans_interval))
{
	like((run_statements('other', "SET light_explain.$setting = 5"))[1], qr/permission denied to set parameter "light_explain.$setting"/, "$setting is for superusers");
}

# ---- roles ----

($out, $err) = run_statements('other', 'SELECT max(k) AS of_other FROM s');
for my $role ([ 'other', 'f', '1' ], [ 'reader', 't', '2' ])
{
	my ($name, $all, $roles) = @$role;
	is((run_statements($name, q{SELECT bool_or(userid <> 'other'::regrole), count(DISTINCT userid) FROM light_explain_plans WHERE userid <> 'reader'::regrole}))[0], "$all|$roles", "$name: rows");
	is((run_statements($name, q{SELECT bool_or(userid <> 'other'::regrole) FROM light_explain_plans()}))[0], $all, "$name: of the function");
	for my $pattern ('of_secret', 'of_other')
	{
		my $id = query("SELECT DISTINCT queryid FROM light_explain_plans WHERE query ~ '$pattern' AND query !~ 'light_explain'");
		for my $which (qw(slowest last))
		{
			my $sees = $pattern eq 'of_other' || $all eq 't' ? 't' : 'f';
			is((run_statements($name, "SELECT light_explain_plan($id, NULL, '$which', 'json') IS NOT NULL"))[0], $sees, "$name: $which plan $pattern");
		}
	}
}
like((run_statements('reader', 'SELECT light_explain_plans_reset()'))[1], qr/permission denied for function/, 'other roles cannot forget them');
like(profiled(q{SELECT light_explain_plan(1, 1, 'first')}), qr/unrecognized value for argument "which": "first"\nHINT:  Available values: slowest, last./, 'which');
like(profiled(q{SELECT light_explain_plan(1, 1, 'last', 'yaml')}), qr/unrecognized value for argument "format": "yaml"\nHINT:  Available values: text, json./, 'format');
is(query(q{SELECT light_explain_plan(1, 1) IS NULL, light_explain_plan(NULL) IS NULL, light_explain_plan(1, 1, NULL) IS NULL}), 't|t|t', 'what is not there is null');

# ---- a plan that cannot be formatted ----

# A statement waits in the last row of a scan for an advisory lock, which this session has.  Then
# it locks another table, by which its caches learn what others have changed.
my $holder = $node->background_psql('postgres', on_error_stop => 0);
sub waits { $node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}) or die 'does not wait'; }
sub start_waiting
{
	my ($setting) = @_;
	my $h = { out => '', err => '' };
	$h->{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', $setting, '-c', 'SELECT count(*) AS of_waiting FROM s WHERE formed(id)' ], '>', \$h->{out}, '2>', \$h->{err});
	waits();
	return $h;
}
my $formed = q{CREATE OR REPLACE FUNCTION formed(i int) RETURNS bool LANGUAGE plpgsql VOLATILE COST 1 AS $$BEGIN IF i = 1000 THEN PERFORM pg_advisory_xact_lock_shared(78); LOCK TABLE audited IN ACCESS SHARE MODE; END IF; RETURN true; END$$};
query($formed);
$holder->query_safe('SELECT pg_advisory_lock(78)');
my $failed = status('plans_failed');
my $waiting = start_waiting('SET client_min_messages = error');
query('DROP FUNCTION formed(int)');
$holder->query_safe('SELECT pg_advisory_unlock(78)');
$waiting->{run}->finish;
is($waiting->{out} . $waiting->{err}, "1000\n", 'a statement does not fail because its plan cannot be formatted');
is(kept('of_waiting'), '0', 'which is not kept');
is(status('plans_failed') - $failed, 1, 'and counted');

# To format a plan waits for a lock on a catalog.
for my $ends (qw(cancel timeout))
{
	query($formed);
	$holder->query_safe('SELECT pg_advisory_lock(78)');
	$waiting = start_waiting($ends eq 'timeout' ? 'SET statement_timeout = 3000' : 'SET client_min_messages = error');
	# the session's cache must forget the function
	query('ALTER FUNCTION formed(int) COST 2');
	# ours must have all that it will need
	$holder->query_safe(q{SELECT pid FROM pg_locks WHERE relation = 'pg_proc'::regclass AND NOT granted LIMIT 1; SELECT pg_sleep(0); SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid = 0; SELECT pg_advisory_lock(79); SELECT pg_advisory_unlock(79)});
	$holder->query_safe('BEGIN; LOCK TABLE pg_proc IN ACCESS EXCLUSIVE MODE; SELECT pg_advisory_unlock(78)');
	if ($ends eq 'cancel')
	{
		my $pid = '';
		for (1 .. 100)
		{
			$pid = $holder->query_safe(q{SELECT pid FROM pg_locks WHERE relation = 'pg_proc'::regclass AND NOT granted LIMIT 1});
			last if $pid ne '';
			$holder->query_safe('SELECT pg_sleep(0.1)');
		}
		$holder->query_safe("SELECT pg_cancel_backend($pid)");
	}
	$waiting->{run}->finish;
	like($waiting->{err}, $ends eq 'cancel' ? qr/canceling statement due to user request/ : qr/canceling statement due to statement timeout/, "$ends while a plan is formatted");
	$holder->query_safe('ROLLBACK');
	is(kept('of_waiting'), '0', "$ends: it is not kept");
	query('DROP FUNCTION formed(int)');
}
$holder->quit;

# ---- a standby ----

$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;
$standby->safe_psql('postgres', 'SELECT count(*) AS of_standby FROM s');
like($standby->safe_psql('postgres', q{SELECT light_explain_plan(queryid) FROM light_explain_plans WHERE query ~ 'of_standby' AND query !~ 'light_explain'}), qr/^Aggregate .*Seq Scan on s/s, 'plans are kept on a standby');
$standby->stop;

# ---- a restart ----

$node->restart;
is(status('plans_used <= 2'), 't', 'a restart loses them');
profiled('SELECT count(k) AS of_restart FROM s, pg_sleep(0.2)');
is(kept('of_restart'), '1', 'and new ones are kept');
for my $seconds (0.1, 0)
{
	is(query('SELECT light_explain_plans_reset() > 0'), 't', 'all are forgotten');
	is(kept('of_restart'), '0', 'and not there any more');
	profiled('SET light_explain.plans_interval = 600000', "SELECT count(k) AS of_restart FROM s, pg_sleep($seconds)");
	is(kept('of_restart'), '1', 'the next execution is kept, however short it is');
}

# ---- bounds ----

$node->append_conf('postgresql.conf', "light_explain.plans_size = 1");
$node->restart;
like(status('plans_bytes_max'), qr/^[3-6]\d{4}$/, 'at least 64 kB are taken');
my $long = join ' OR ', map { "md5(id::text) = '" . join('', map { sprintf '%x', int rand 16 } 1 .. 32) . "'" } 1 .. 1500;
profiled("SELECT count(*) AS of_long FROM s WHERE $long");
is(kept('of_long'), '0', 'a plan that is too large is not kept');
is(status('plans_too_large'), '1', 'and counted');
my $largest = join ' OR ', map { "md5(id::text) = '" . join('', map { sprintf '%x', int rand 16 } 1 .. 32) . "'" } 1 .. 120;
profiled((map { 'SELECT ' . join(', ', ('id') x $_) . ' FROM s LIMIT 1' } 1 .. 100), "SELECT count(*) AS of_large FROM s WHERE $largest", (map { "SELECT count(*) AS of_large FROM s WHERE $largest AND id > $_" } 1 .. 20));
is(status('plans_dropped > 30 AND plans_bytes <= plans_bytes_max AND plans_bytes > plans_bytes_max / 2 AND plans_used <= plans_max'), 't', 'plans make room for others');
is(kept('of_large'), '2', 'the last ones are kept');
is(query(q{SELECT count(*) FROM light_explain_plans() p WHERE light_explain_plan(queryid, planid, which, 'json')::json IS NULL OR light_explain_plan(queryid, planid, which) IS NULL}), '0', 'and are whole');

# many sessions that keep, read and forget
my $dir = PostgreSQL::Test::Utils::tempdir();
append_to_file("$dir/one.sql", "SELECT k FROM s WHERE id < 44;\n");
append_to_file("$dir/read.sql", "SELECT count(light_explain_plan(queryid, planid, which, 'json')::json) FROM light_explain_plans();\n");
append_to_file("$dir/forget.sql", "SELECT light_explain_plans_reset();\n");
append_to_file("$dir/$_.sql", 'SELECT ' . join(', ', ('k') x $_) . " FROM s LIMIT 1;\n") for 1 .. 40;
ok($node->run_log([ 'pgbench', '-n', '-c', '8', '-j', '2', '-t', '300', '-f', "$dir/one.sql\@200", '-f', "$dir/read.sql\@10", '-f', "$dir/forget.sql", (map { ('-f', "$dir/$_.sql\@4") } 1 .. 40), '-h', $node->host, '-p', $node->port, 'postgres' ]),
	'eight sessions keep, read and forget');
is(status('plans_bytes <= plans_bytes_max AND plans_used <= plans_max AND plans_failed = 0'), 't', 'within bounds');
query('SELECT light_explain_plans_reset()');
is(status('plans_used <= 1 AND plans_bytes <= 2048'), 't', 'no block is lost');

# none
$node->append_conf('postgresql.conf', 'light_explain.plans_size = 0');
$node->restart;
like(profiled('SELECT * FROM light_explain_plans()'), qr/there are no plans of statements.*HINT:  Set light_explain.plans_size/s, 'without memory there are none');
is(status('plans_bytes_max, plans_max'), '0|0', 'of which there is none');
is(query('SELECT count(*) > 0 FROM light_explain_profile'), 't', 'but a profile');

$node->stop;
ok(slurp_file($node->logfile) !~ /TRAP:|PANIC|was terminated by signal|WARNING/, 'nothing bad in the server log');
done_testing();
