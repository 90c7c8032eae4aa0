# The profile keeps what matters: statements that failed, what there was before a
# restart, who called whom; and it is bounded and says what it dropped.
use strict;
use warnings;

BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 60 }
use FindBin;
use lib "$FindBin::RealBin/../../../common/test";
use CrashedServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'light_explain'
autovacuum = off
jit = off
compute_query_id = on
max_parallel_workers_per_gather = 0
light_explain.profile_text = 60
max_prepared_transactions = 1
CONF
$node->start;
my $schema = <<'SQL';
CREATE EXTENSION light_explain;
CREATE TABLE t AS SELECT g AS id, g % 10 AS k FROM generate_series(1, 1000) g;
CREATE TABLE u (id int);
VACUUM ANALYZE t;
CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'not now'; END$$;
CREATE TRIGGER fails AFTER INSERT ON u FOR EACH ROW EXECUTE FUNCTION fails();
CREATE FUNCTION inner_one(i int) RETURNS int LANGUAGE plpgsql AS $$BEGIN RETURN (SELECT 1 / (k - i) FROM t WHERE id = i); END$$;
CREATE FUNCTION caught(i int) RETURNS int LANGUAGE plpgsql AS $$BEGIN RETURN inner_one(i); EXCEPTION WHEN division_by_zero THEN RETURN -1; END$$;
CREATE FUNCTION deep(i int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT deep(i + 1) FROM t WHERE id = 1); END';
CREATE ROLE other LOGIN;
GRANT SELECT ON t TO other;
SQL
$node->safe_psql('postgres', $schema);

# Run statements in a session with the profile on; they may fail.
sub profiled
{
	my ($rc, $out, $err) = $node->psql('postgres', join(";\n", 'SET light_explain.profile = on', @_), on_error_stop => 0);
	return $err;
}

# The profile's rows of nodes whose query matches.
sub profile
{
	my ($columns, $query, $group) = @_;
	$group //= '';
	$query =~ s/'/''/g;
	return $node->safe_psql('postgres', "SELECT $columns FROM (SELECT * FROM light_explain_profile WHERE query ~ '$query' ORDER BY queryid, caller_queryid, planid, node) p $group");
}

# ---- plans that a session remembers ----

$node->safe_psql('postgres', 'CREATE TABLE m AS SELECT g AS id, g % 10 AS k FROM generate_series(1, 1000) g; CREATE INDEX m_id ON m (id); VACUUM ANALYZE m; GRANT SELECT ON m TO other');
my @index = ('SET enable_seqscan = off', 'SET enable_bitmapscan = off');
my @table = ('SET enable_indexscan = off', 'SET enable_bitmapscan = off', 'SET enable_seqscan = on');
my $lookup = 'SELECT k FROM m WHERE id = 7';
profiled((@index, $lookup, @table, $lookup, 'RESET ALL', 'SET light_explain.profile = on') x 3);
is(profile('label, executions, rows, loops', '^SELECT k FROM m', 'ORDER BY 1'), "Index Scan using m_id on m|3|3|3\nSeq Scan on m|3|3|3", 'plans that take turns');
$node->safe_psql('postgres', 'SELECT light_explain_profile_reset()');
profiled(@index, ($lookup) x 2, 'ALTER INDEX m_id RENAME TO m_key', ($lookup) x 3, 'ALTER TABLE m RENAME TO other_m', ('SELECT k FROM other_m WHERE id = 7') x 4, ('SELECT k FROM other_m AS m WHERE id = 7') x 5);
is(profile('label, executions', '^SELECT k FROM', 'ORDER BY 2'),
	"Index Scan using m_id on m|2\nIndex Scan using m_key on m|3\nIndex Scan using m_key on other_m|4\nIndex Scan using m_key on other_m m|5", 'another name is another plan');
$node->safe_psql('postgres', 'ALTER TABLE other_m RENAME TO m; SELECT light_explain_profile_reset()');
profiled(('SELECT max(k) FROM m') x 2, 'SELECT light_explain_profile_reset()', ('SELECT max(k) FROM m') x 3, 'SET ROLE other', ('SELECT max(k) FROM m') x 4);
is(profile('rolname, label, executions, rows, query', 'max.k. FROM m', "WHERE label ~ 'Agg' ORDER BY 3"),
	"postgres|Aggregate|3|3|SELECT max(k) FROM m\nother|Aggregate|4|4|SELECT max(k) FROM m", 'forgotten plans, and those of another role');
$node->safe_psql('postgres', 'CREATE FUNCTION one() RETURNS int LANGUAGE plpgsql AS $$BEGIN RETURN (SELECT count(*) FROM m WHERE k = 3); END$$;'
	  . ' CREATE FUNCTION two() RETURNS int LANGUAGE plpgsql AS $$BEGIN RETURN one(); END$$; SELECT light_explain_profile_reset()');
profiled('DO $$BEGIN FOR i IN 1..5 LOOP PERFORM one(); PERFORM two() + 0; END LOOP; END$$');
is(profile('executions', 'count\(\*\) FROM m', "WHERE label ~ 'Agg' ORDER BY 1"), "5\n5", 'and callers that take turns');

# figures of a short statement are taken in another way than those of one with records
my $join = 'SELECT count(*), max(a.k) FROM m a JOIN m b USING (id) WHERE a.k = 3';
my @found;
for my $switch (0, 100000)
{
	$node->safe_psql('postgres', 'SELECT light_explain_profile_reset()');
	profiled("SET light_explain.switch_after = $switch", ($join) x 2);
	push @found, profile('node, parent, label, executions, loops, rows, plan_rows, rows_filtered, shared_hit, shared_read, total_ms >= self_ms', 'FROM m a JOIN');
}
like($found[0], qr/Hash Join/, 'a join is in the profile');
is($found[1], $found[0], 'with the same figures in both ways');
is(profile('abs(sum(self_ms) - max(total_ms)) < 0.001 + 0.05 * max(total_ms)', 'FROM m a JOIN'), 't', 'and own times that make the whole');

# WAL is charged to the node that wrote it
for my $switch (0, 100000)
{
	$node->safe_psql('postgres', 'SELECT light_explain_profile_reset()');
	profiled("SET light_explain.switch_after = $switch", 'CREATE TEMP TABLE no_wal (id int)', 'CREATE TABLE IF NOT EXISTS wal (id int)', ('INSERT INTO wal SELECT id FROM t WHERE id <= 20') x 2, 'INSERT INTO no_wal SELECT 1');
	is(profile('label, wal_bytes > 1000', '^INSERT INTO wal'), "Insert on wal|t\n  Seq Scan on t|f", "WAL of the node that wrote it, switch after $switch");
	is(profile('DISTINCT wal_bytes', '^INSERT INTO no_wal'), '0', 'and none of others');
}

# triggers and checks of keys are run when a statement is finished, and called by it; since 19 only that of a partitioned table's key is a statement
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE parents (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE parents_1 PARTITION OF parents FOR VALUES FROM (0) TO (10);
INSERT INTO parents VALUES (1);
CREATE TABLE children (id int REFERENCES parents);
CREATE FUNCTION looks() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM count(*) FROM m WHERE k = 6; RETURN NULL; END$$;
CREATE TRIGGER looks AFTER INSERT ON children FOR EACH ROW EXECUTE FUNCTION looks();
CREATE FUNCTION adds() RETURNS void LANGUAGE plpgsql AS $$BEGIN INSERT INTO children VALUES (1); END$$;
SQL
for my $switch (0, 100000)
{
	$node->safe_psql('postgres', 'SELECT light_explain_profile_reset()');
	profiled("SET light_explain.switch_after = $switch", 'INSERT INTO children VALUES (1)', 'SELECT adds()');
	is($node->safe_psql('postgres', <<'SQL'), "a key|2|INSERT INTO children VALUES (1)\na trigger|2|INSERT INTO children VALUES (1)", "what a statement's triggers run is called by it, switch after $switch");
SELECT DISTINCT CASE WHEN p.query ~ 'k = 6' THEN 'a trigger' ELSE 'a key' END, p.executions, c.query
FROM light_explain_profile p LEFT JOIN light_explain_profile c ON c.queryid = p.caller_queryid
WHERE p.query ~ 'k = 6|FROM "public"."parents"' ORDER BY 1
SQL
}

# ---- statements that do not end well ----

like(profiled("SET statement_timeout = '200ms'", 'SELECT pg_sleep(600)', 'SET statement_timeout = 0', 'SELECT pg_sleep(0)'), qr/statement timeout/, 'a statement times out');
is(profile('label, executions, cancelled, failed, loops, rows, self_ms > 0 AND total_ms >= self_ms', 'pg_sleep'), 'Result|2|1|0|2|1|t', 'and is in the profile');
for my $switch (0, 3, 100000)
{
	for my $timing (qw(auto system))
	{
		$node->safe_psql('postgres', 'SELECT light_explain_profile_reset()');
		like(profiled("SET light_explain.switch_after = $switch", "SET light_explain.timing = $timing", 'SELECT sum(1 / (id - 500)) FROM t', 'SELECT count(*) FROM t'),
			qr/division by zero/, "switch after $switch, $timing: a statement fails");
		is(profile("label, executions, cancelled, failed, loops, rows, total_ms > 0", 'sum'), "Aggregate|1|0|1|1|0|t\n  Seq Scan on t|1|0|1|1|500|t", 'and has its rows in the profile');
		is(profile("sum(failed), max(rows)", 'count\(\*\)'), '0|1000', 'the next one did not');
	}
}
like(profiled('SELECT id FROM t WHERE id = 1', 'INSERT INTO u SELECT 1'), qr/not now/, 'a trigger fails at the end');
is(profile('label, executions, failed, loops', 'INSERT'), "Insert on u|1|1|1\n  Result|1|1|1", 'and its statement is in the profile');

# what was fetched before a fetch that fails is another call's time
profiled('DO $$DECLARE c CURSOR FOR SELECT pg_sleep(0.1), 1 / (id - 5) FROM t; BEGIN OPEN c; MOVE FORWARD 3 FROM c; MOVE FORWARD 3 FROM c; END$$');
is(profile('label, failed, loops, rows, total_ms >= 500', 'id - 5\)'), 'Seq Scan on t|1|1|4|t', 'a cursor that fails has the time of all its fetches');

# a wait for a lock that lasts too long is a timeout; NOWAIT fails
$node->safe_psql('postgres', q{BEGIN; SELECT id FROM t WHERE id = 600 FOR UPDATE; PREPARE TRANSACTION 'blocker'});
like(profiled(q{SET lock_timeout = '50ms'}, 'SELECT k FROM t WHERE id = 600 FOR UPDATE', 'SELECT k FROM t WHERE id = 600 FOR UPDATE NOWAIT'), qr/lock timeout.*could not obtain lock/s, 'a lock is not available');
is(profile('query, cancelled, failed', 'id = 600 FOR UPDATE', "WHERE label ~ 'LockRows' ORDER BY 1"), "SELECT k FROM t WHERE id = 600 FOR UPDATE|1|0\nSELECT k FROM t WHERE id = 600 FOR UPDATE NOWAIT|0|1", 'lock_timeout cancels a statement, NOWAIT fails');
$node->safe_psql('postgres', q{ROLLBACK PREPARED 'blocker'});

# a session that is told to stop
{
	my $psql = IPC::Run::start([ 'psql', '-X', '-q', '-d', $node->connstr('postgres'), '-c', 'SET light_explain.profile = on', '-c', 'SELECT count(*), pg_sleep(600) FROM t WHERE id = 5' ],
		'>', \my $out, '2>', \my $err);
	$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep'}) or die 'does not sleep';
	$node->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'});
	$psql->finish;
	like($err, qr/canceling statement due to user request/, 'a statement is cancelled');
	is(profile('label, cancelled, failed, rows', 'id = 5'), "Aggregate|1|0|0\n  Seq Scan on t|1|0|1", 'a cancelled statement is in the profile');
}

# errors that are caught, and too deep a recursion
unlike(profiled('SELECT caught(i) FROM generate_series(1, 4) i'), qr/ERROR/, 'a function catches errors');
is(profile('label, sum(executions), sum(failed)', '1 / \(k - i\)', 'GROUP BY 1 ORDER BY 1 DESC'), "Result|4|4\n  Seq Scan on t|4|4", 'what failed inside is marked');
is(profile('label, executions, failed', 'caught\(i\)'), "Function Scan on generate_series i|1|0", 'what was around is not');
my $err = profiled("SET max_stack_depth = '500kB'", 'SELECT deep(1)', 'SELECT count(*) FROM t WHERE k = 3');
like($err, qr/stack depth limit exceeded/, 'too deep a recursion says so');
unlike($err, qr/ERRORDATA|terminat|closed/, 'and nothing else');
cmp_ok(profile('max(failed)', 'deep\(i \+ 1\)'), '>', 2, 'its statements are marked');
is(profile('max(executions), max(failed)', 'k = 3'), '1|0', 'the session continues');

# a cursor that a function with another role's privileges opens stays that role's, with its constants
$node->safe_psql('postgres', q{CREATE FUNCTION opened_cursor(refcursor) RETURNS refcursor LANGUAGE plpgsql SECURITY DEFINER AS $$BEGIN OPEN $1 FOR SELECT 'private', 1 / (id - 3) FROM t; RETURN $1; END$$;
	CREATE ROLE lender; GRANT SELECT ON t TO lender; ALTER FUNCTION opened_cursor(refcursor) OWNER TO lender});
profiled(q{BEGIN}, q{SELECT opened_cursor('c')}, 'FETCH 2 FROM c', 'CLOSE c', q{SELECT opened_cursor('d')}, 'FETCH 3 FROM d', 'COMMIT');
is(profile('rolname, executions, failed, rows', "'private'"), 'lender|2|1|4', 'a cursor is filed under the role that opened it');

# what fails inside a function of another role stays its own role's
$node->safe_psql('postgres', q{CREATE FUNCTION lent(text) RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$BEGIN RETURN 1 / (length($1) - length($1)); END$$;
	ALTER FUNCTION lent(text) OWNER TO other});
like(profiled(q{SELECT lent('secret'), * FROM generate_series(1, 3)}), qr/division by zero/, "a function of another role's fails");
is(profile('DISTINCT rolname = current_user, failed', 'SELECT lent'), 't|1', 'the statement is filed under who ran it');

# ---- who called it ----

is($node->safe_psql('postgres', <<'SQL'), 't|t', 'calls in functions name their caller');
SELECT count(*) > 0, bool_and(EXISTS (SELECT FROM light_explain_profile c WHERE c.queryid = p.caller_queryid AND c.query ~ 'caught\(i\)|inner_one'))
FROM light_explain_profile p WHERE p.query ~ '1 / \(k - i\)'
SQL
my $callers = profile('count(DISTINCT caller_queryid)', '1 / \(k - i\)');
profiled('SELECT inner_one(7)');
is(profile('count(DISTINCT caller_queryid), count(DISTINCT queryid)', '1 / \(k - i\)'), ($callers + 1) . '|1', 'callers of one statement are told apart');

# ---- what a user may set ----

$node->safe_psql('postgres', 'CREATE ROLE evader LOGIN; GRANT SELECT ON t TO evader; ALTER ROLE evader SET light_explain.profile = on');
my $evading = $node->safe_psql('postgres', <<'SQL', extra_params => [ '-U', 'evader' ]);
SET light_explain.enabled = off;
SELECT count(*) AS evades FROM t WHERE id > 1;
SELECT sum(k) AS evades FROM t a JOIN (SELECT id FROM t OFFSET 0) b USING (id);
DO $$BEGIN PERFORM 1 / (k - 3) AS evades FROM t; EXCEPTION WHEN division_by_zero THEN NULL; END$$;
BEGIN;
DECLARE c CURSOR FOR SELECT id AS evades FROM t;
SET light_explain.enabled = on;
FETCH 3 FROM c;
SET light_explain.enabled = off;
FETCH 3 FROM c;
COMMIT;
EXPLAIN (ANALYZE, COSTS OFF) SELECT max(id) AS evades FROM t;
SELECT count(*) FROM light_explain_last();
SQL
# (which side of the join is hashed is a tie)
is(profile('query, label, executions, failed, loops, rows', 'evades', "WHERE query !~ '^DECLARE' ORDER BY query COLLATE \"C\", node") =~ s/Seq Scan on t a/Seq Scan on t/r, <<'ROWS' =~ s/\n\z//r, 'a role that disables the library is in the profile');
EXPLAIN (ANALYZE, COSTS OFF) SELECT max(id) AS evades FROM t|Aggregate|1|0|1|1
EXPLAIN (ANALYZE, COSTS OFF) SELECT max(id) AS evades FROM t|  Seq Scan on t|1|0|1|1000
SELECT 1 / (k - 3) AS evades FROM t|Seq Scan on t|1|1|1|2
SELECT count(*) AS evades FROM t WHERE id > 1|Aggregate|1|0|1|1
SELECT count(*) AS evades FROM t WHERE id > 1|  Seq Scan on t|1|0|1|999
SELECT sum(k) AS evades FROM t a JOIN (SELECT id FROM t OFFS|Aggregate|1|0|1|1
SELECT sum(k) AS evades FROM t a JOIN (SELECT id FROM t OFFS|  Hash Join|1|0|1|1000
SELECT sum(k) AS evades FROM t a JOIN (SELECT id FROM t OFFS|    Seq Scan on t|1|0|1|1000
SELECT sum(k) AS evades FROM t a JOIN (SELECT id FROM t OFFS|    Hash|1|0|1|1000
SELECT sum(k) AS evades FROM t a JOIN (SELECT id FROM t OFFS|      Seq Scan on t|1|0|1|1000
ROWS
is(profile('bool_and(total_ms > 0 AND self_ms >= 0)', 'evades'), 't', 'with its times');
like($evading, qr/\n0\z/, 'EXPLAIN is left to the server');

# ---- text ----

profiled('SELECT 1 AS a; SELECT max(k) FROM t');
is(profile('count(*), max(query)', '^SELECT max\(k\) FROM t$'), '2|SELECT max(k) FROM t', 'and is that of one statement');
$node->safe_psql('postgres', q{CREATE DATABASE utf8 TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'});
$node->safe_psql('utf8', q{SET light_explain.profile = on; DO $$BEGIN EXECUTE 'SELECT 12345 /* ' || repeat(chr(228), 40) || ' */'; END$$});
$node->safe_psql('utf8', 'CREATE EXTENSION light_explain');
is($node->safe_psql('utf8', q{SELECT octet_length(query), length(query) FROM light_explain_profile WHERE query ~ '12345'}), '60|38', 'text is cut between characters');
$node->safe_psql('postgres', q{CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'});
$node->safe_psql('latin', 'CREATE EXTENSION light_explain');
is($node->safe_psql('latin', q{SELECT query FROM light_explain_profile WHERE query ~ '12345'}), 'SELECT 12345 /* ' . '?' x 44, 'what another database cannot show is replaced');
$node->safe_psql('postgres', 'ALTER ROLE other SET light_explain.profile = on');
$node->safe_psql('postgres', 'SELECT count(k) FROM t', extra_params => [ '-U', 'other' ]);
is($node->safe_psql('postgres', q{SELECT string_agg(label || ' ' || query, ',') FROM light_explain_profile}, extra_params => [ '-U', 'other' ]),
	'Aggregate SELECT count(k) FROM t,  Seq Scan on t SELECT count(k) FROM t', 'a role sees its own statements');

# ---- restarts ----

my $all = q{SELECT md5(string_agg(p::text, ',' ORDER BY p::text)), count(*) > 20 FROM light_explain_profile p};
my $file = $node->data_dir . '/pg_stat/light_explain_profile.stat';
my $before = $node->safe_psql('postgres', $all);
like($before, qr/\|t$/, 'there is a profile');
$node->stop;
ok(-s $file, 'it is in a file while the server is down');
my $whole = slurp_file($file);
$node->start;
is($node->safe_psql('postgres', $all), $before, 'and there again after a restart');
ok(!-e $file, 'the file is gone then');

# the folder is flushed then, else the file would be there again after the power went
SKIP:
{
	my $trace = PostgreSQL::Test::Utils::tempdir() . '/trace';
	$node->stop;
	skip 'no strace here', 1 if system("strace -o $trace true 2>/dev/null") != 0;
	my $content = slurp_file($file);
	command_ok([ 'sh', '-c', "exec strace -f -y -o $trace -e trace=unlink,unlinkat,fsync '" . $node->config_data('--bindir') . "/postgres' --single -c fsync=on -D '" . $node->data_dir . "' postgres </dev/null" ],
		'a server of one process reads the profile');
	like(slurp_file($trace), qr/unlink\w*\([^\n]*"pg_stat\/light_explain_profile\.stat"[^\n]*\n[^\n]*fsync\(\d+<[^\n]*\/pg_stat>\)/, 'the removal of the file is flushed');
	is(slurp_file($file), $content, 'and the file is written again');
}
$node->start unless -e $node->data_dir . '/postmaster.pid';
is($node->safe_psql('postgres', $all), $before, 'with all that was in it');

# a server that continues without the library loses none of its statistics, nor the profile
my $counted = q{SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 't'};
my $inserted = $node->safe_psql('postgres', $counted);
cmp_ok($inserted, '>=', 1000, 'the server counts');
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
is($node->safe_psql('postgres', $counted), $inserted, "without the library the server's statistics are what they were");
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'light_explain'");
$node->restart;
is($node->safe_psql('postgres', $all), $before, 'and the profile comes back with it');
is($node->safe_psql('postgres', $counted), $inserted, 'the statistics, too');
# a new session has what the postmaster has read, which comes some time after the signal
$node->append_conf('postgresql.conf', 'restart_after_crash = on');
$node->reload;
$node->poll_query_until('postgres', 'SHOW restart_after_crash', 'on') or die 'is not reloaded';
my $session = IPC::Run::start([ 'psql', '-X', '-q', '-d', $node->connstr('postgres'), '-c', 'SELECT pg_sleep(600)' ], '>', \my $ignored, '2>', \my $ignored_too);
$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep'}) or die 'does not sleep';
my $crash = -s $node->logfile;
kill 'KILL', $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'});
$session->finish;
wait_until_back($node, $crash);
is($node->safe_psql('postgres', 'SELECT count(*) FROM light_explain_profile'), '0', 'a crash loses it');

for my $content ([ 'a changed byte', substr($whole, 0, 200) . (substr($whole, 200, 1) ^ "\1") . substr($whole, 201) ], [ 'a file cut short', substr($whole, 0, length($whole) / 2) ],
	[ 'an empty file', '' ], [ 'some bytes', 'abc' ], [ 'another version', substr($whole, 0, 4) . "\0" . substr($whole, 5) ])
{
	my ($what, $bytes) = @$content;
	$node->stop;
	unlink $file;
	for my $name ($file, "$file.tmp")
	{
		open my $handle, '>:raw', $name or die $!;
		print $handle $bytes;
		close $handle;
	}
	my $offset = -s $node->logfile;
	$node->start;
	is($node->safe_psql('postgres', 'SELECT count(*) FROM light_explain_profile'), '0', "$what: the profile is empty");
	like(slurp_file($node->logfile, $offset), qr/LOG:  (ignoring invalid data in|could not read) file "pg_stat\/light_explain_profile.stat"/, "$what: and the log says so");
	ok(!-e $file && !-e "$file.tmp", "$what: and no file is left");
}
profiled('SELECT count(*) FROM t WHERE k = 8');
$node->append_conf('postgresql.conf', 'light_explain.profile_save = off');
$node->reload;
$node->poll_query_until('postgres', 'SHOW light_explain.profile_save', 'off') or die 'is not reloaded';
$node->stop;
ok(!-e $file, 'nothing is written if it is not wanted');

# ---- bounds ----

$node->append_conf('postgresql.conf', 'light_explain.profile_max = 100');
$node->start;
my $count = q{SELECT profile_nodes <= profile_max_nodes, profile_max_nodes, profile_dropped_plans, profile_dropped_nodes, profile_without_queryid FROM light_explain_status()};
is($node->safe_psql('postgres', $count), 't|100|0|0|0', 'an empty profile');
profiled(map { 'SELECT ' . join(', ', ('1') x $_) . ' FROM t LIMIT 1' } 1 .. 60);
is($node->safe_psql('postgres', $count), 't|100|35|0|0', 'plans that were not used longest make room');
is($node->safe_psql('postgres', q{SELECT count(DISTINCT queryid), bool_and(executions = 1) FROM light_explain_profile}), '25|t', 'the others are there');
profiled('SELECT id FROM t LIMIT 1', (map { 'SELECT ' . join(', ', ('k') x $_) . ' FROM t LIMIT 1' } 1 .. 60), ('SELECT id FROM t LIMIT 1') x 2);
is(profile('label, executions', '^SELECT id FROM t LIMIT', 'ORDER BY 1'), "  Seq Scan on t|2\nLimit|2", 'a plan that had to make room is not taken for another one');
profiled('SELECT ' . join(' UNION ALL SELECT ', map { "count(*) FROM t" } 1 .. 80));
is($node->safe_psql('postgres', q{SELECT profile_nodes, profile_plans, profile_dropped_nodes FROM light_explain_status()}), '100|1|61', 'a plan that is too large is kept in part');
profiled('SET compute_query_id = off', 'SELECT count(*) FROM t');
my $without = q{SELECT profile_without_queryid, profile_utility_without_queryid FROM light_explain_status()};
is($node->safe_psql('postgres', $without), '1|0', 'statements without identifier are counted');
# The server computes none for the query of a cursor before 18, nor for that of a materialized view.
my $utility = $node->pg_version < 18 ? 3 : 2;
profiled('BEGIN', 'DECLARE c CURSOR FOR SELECT id FROM t', 'FETCH 1 FROM c', 'COMMIT', 'CREATE MATERIALIZED VIEW v AS SELECT id FROM t', 'REFRESH MATERIALIZED VIEW v');
is($node->safe_psql('postgres', $without), "1|$utility", 'those that the server gives none are counted apart');

# The largest profile, with more text than one palloc gives: statements, views and the
# file take what they need of it, plan by plan.
$node->append_conf('postgresql.conf', "light_explain.profile_max = 1000000\nlight_explain.profile_text = 4500\nlight_explain.profile_save = on");
$node->restart;
is($node->safe_psql('postgres', q{SELECT profile_max_nodes >= 1000000, profile_max_nodes / 4 * 4500.0 > 2 ^ 30 FROM light_explain_status()}), 't|t', 'a profile beyond the limit of palloc');
unlike(profiled(map { 'SELECT ' . join(', ', ('k') x $_) . ' FROM t LIMIT 1' } 1 .. 60), qr/ERROR/, 'takes statements');
my $large = q{SELECT count(DISTINCT queryid), sum(executions) FROM light_explain_profile WHERE query ~ '^SELECT k.*LIMIT 1$'};
is($node->safe_psql('postgres', $large), '60|120', 'shows them');
$node->restart;
is($node->safe_psql('postgres', $large), '60|120', 'keeps them');
is($node->safe_psql('postgres', q{SELECT light_explain_profile_reset() >= 120}), 't', 'and forgets them');
$node->append_conf('postgresql.conf', 'light_explain.profile_save = off');

# ---- many sessions ----

$node->append_conf('postgresql.conf', "light_explain.profile_max = 5000\nlight_explain.profile = on");
$node->restart;
my $dir = PostgreSQL::Test::Utils::tempdir();
my @scripts;
for my $n (1 .. 40)
{
	push @scripts, '-f', "$dir/$n.sql";
	append_to_file("$dir/$n.sql", 'SELECT ' . join(', ', ('id') x $n) . " FROM t WHERE id < 30;\n");
}
$node->run_log([ 'pgbench', '-n', '-c', '8', '-j', '2', '-t', '200', @scripts, '-h', $node->host, '-p', $node->port, 'postgres' ]);
is(profile('count(*), sum(executions), sum(rows), sum(loops)', '^SELECT id'), '40|1600|46400|1600', 'eight sessions at a time: nothing is lost');

# A session that finds a plan's lock taken keeps what it would have stored: until its transaction ends, and until it reads the profile itself.
$node->safe_psql('postgres', 'CREATE FUNCTION looped(n int) RETURNS bigint LANGUAGE plpgsql AS $$DECLARE r int; BEGIN FOR i IN 1..n LOOP SELECT k INTO r FROM t WHERE id < 444; END LOOP;'
	  . q{ RETURN (SELECT sum(executions) FROM light_explain_profile() WHERE query ~ '^SELECT k +FROM t WHERE id < 444' AND node = 0); END$$});
append_to_file("$dir/looped.sql", "SELECT looped(1000);\n");
append_to_file("$dir/looped_fails.sql", "DO \$\$BEGIN PERFORM looped(1000) / 0; EXCEPTION WHEN division_by_zero THEN NULL; END\$\$;\n");
$node->run_log([ 'pgbench', '-n', '-c', '8', '-j', '2', '-t', '4', '-f', "$dir/looped.sql", '-f', "$dir/looped_fails.sql", '-h', $node->host, '-p', $node->port, 'postgres' ]);
is(profile('sum(executions), sum(loops)', '^SELECT k +FROM t WHERE id < 444'), '32000|32000', 'eight sessions that run one statement: nothing is lost');
my $alone = $node->safe_psql('postgres', 'SELECT light_explain_profile_reset(); SELECT looped(50)');
like($alone, qr/\n50\z/, 'a session reads what it has stored');

# much more of them than there is room for, while others read and forget
$node->append_conf('postgresql.conf', 'light_explain.profile_max = 100');
$node->restart;
append_to_file("$dir/read.sql", "SELECT count(*) FROM light_explain_profile;\n");
append_to_file("$dir/reset.sql", "SELECT light_explain_profile_reset();\n");
append_to_file("$dir/fails.sql", "DO \$\$BEGIN PERFORM 1 / (id - 20) FROM t; EXCEPTION WHEN division_by_zero THEN NULL; END\$\$;\n");
ok($node->run_log([ 'pgbench', '-n', '-c', '8', '-j', '2', '-t', '200', @scripts, '-f', "$dir/read.sql\@4", '-f', "$dir/reset.sql", '-f', "$dir/fails.sql\@4", '-h', $node->host, '-p', $node->port, 'postgres' ]),
	'eight sessions that store, read and forget');
is($node->safe_psql('postgres', q{SELECT profile_nodes <= profile_max_nodes AND profile_plans * 4 <= profile_max_nodes FROM light_explain_status()}), 't', 'the profile stays within its bounds');

# ---- memory of readers ----

SKIP:
{
	skip 'no /proc here', 2 unless -r '/proc/self/status';
	$node->append_conf('postgresql.conf', "light_explain.profile_max = 20000\nlight_explain.profile = off");
	$node->restart;
	profiled(q{DO $$BEGIN FOR i IN 1..100 LOOP EXECUTE 'SELECT 1' || repeat(' UNION ALL SELECT 1', 200 + i); END LOOP; END$$});
	my ($rows, $kb) = split /\|/, $node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION peak() RETURNS int LANGUAGE sql AS $$SELECT substring(pg_read_file('/proc/self/status') FROM 'VmPeak:\s+(\d+)')::int$$;
SET work_mem = 64;
SELECT count(*) AS nothing FROM pg_class a, pg_class b \gset
SELECT peak() AS before \gset
SELECT count(*) AS n FROM light_explain_profile() \gset
SELECT :n, peak() - :before;
SQL
	cmp_ok($rows, '>', 10000, 'many rows of many plans');
	# a row's own memory, if it were kept, would be more than a kilobyte
	cmp_ok($kb, '<', $rows / 2, 'are not in memory at a time');
}

$node->stop;
ok(slurp_file($node->logfile) !~ /TRAP:|PANIC|was terminated by signal (?!9)/, 'nothing bad in the server log');
done_testing();
