# The history: buckets add up to the profile, whatever ends statements and servers; it is
# bounded, and shows what it has no room for.
# Slow: buckets end with time
use strict;
use warnings;

BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 60 }
use FindBin;
use lib "$FindBin::RealBin/../../../common/test";
use CrashedServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# In buckets of a day the test decides when one ends: by its own reload.
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'light_explain'
autovacuum = off
jit = off
compute_query_id = on
max_parallel_workers_per_gather = 0
restart_after_crash = on
light_explain.history_interval = 1d
light_explain.history_save = 1
light_explain.waits_interval = 1h
CONF
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION light_explain;
CREATE TABLE t AS SELECT g AS id, g % 10 AS k FROM generate_series(1, 1000) g;
CREATE INDEX t_id ON t (id);
VACUUM ANALYZE t;
CREATE FUNCTION caught() RETURNS int LANGUAGE plpgsql AS $$BEGIN
	BEGIN PERFORM 1 / (k - 3) FROM t; EXCEPTION WHEN division_by_zero THEN NULL; END;
	RETURN (SELECT count(*) FROM t WHERE id = 7); END$$;
CREATE ROLE other LOGIN;
CREATE ROLE reader LOGIN IN ROLE pg_read_all_stats;
GRANT SELECT ON t TO other;
SQL

sub profiled
{
	my ($rc, $out, $err) = $node->psql('postgres', join(";\n", 'SET light_explain.profile = on', @_), on_error_stop => 0);
	return $err;
}

sub query { return $node->safe_psql('postgres', @_); }

sub reload
{
	my ($name, $value) = @_;
	$node->append_conf('postgresql.conf', "light_explain.$name = $value");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT setting = '$value' FROM pg_settings WHERE name = 'light_explain.$name'") or die 'is not reloaded';
}

# End the open bucket, which has executions.
sub end_bucket
{
	my $buckets = query('SELECT max(bucket) FROM light_explain_history()');
	reload('history_interval', 1);
	$node->poll_query_until('postgres', "SELECT bool_and(bucket_end IS NOT NULL) FROM light_explain_history() WHERE bucket <= $buckets") or die 'does not end';
	reload('history_interval', 86400);
	# the worker reads the setting after the postmaster
	sleep 1;
}

sub new_worker
{
	my $pid = query('SELECT history_pid FROM light_explain_status()');
	kill 'TERM', $pid;
	$node->poll_query_until('postgres', "SELECT history_pid <> $pid FROM light_explain_status()") or die 'is not started';
}

# Where the history differs from the profile, which has the same statements.
my $differs = <<'SQL';
SELECT count(*) FROM (
	SELECT dbid, userid, queryid, caller_queryid, planid, node, executions, loops, rows, plan_rows, shared_hit, shared_read, temp_written FROM (
		SELECT dbid, userid, queryid, caller_queryid, planid, node, sum(executions) AS executions, sum(loops) AS loops, sum(rows) AS rows, sum(plan_rows) AS plan_rows,
			sum(shared_hit) AS shared_hit, sum(shared_read) AS shared_read, sum(temp_written) AS temp_written
		FROM light_explain_history() GROUP BY 1, 2, 3, 4, 5, 6) h
	EXCEPT SELECT dbid, userid, queryid, caller_queryid, planid, node, executions, loops, rows, plan_rows, shared_hit, shared_read, temp_written FROM light_explain_profile()) d
SQL
my $times_differ = <<'SQL';
SELECT count(*) FROM (SELECT dbid, userid, queryid, planid, node, caller_queryid, sum(total_ms) AS total_ms, sum(self_ms) AS self_ms FROM light_explain_history() GROUP BY 1, 2, 3, 4, 5, 6) h
	JOIN light_explain_profile() p USING (dbid, userid, queryid, planid, node)
WHERE h.caller_queryid IS NOT DISTINCT FROM p.caller_queryid AND (abs(h.total_ms - p.total_ms) > 1e-6 + 1e-9 * p.total_ms OR abs(h.self_ms - p.self_ms) > 1e-6 + 1e-9 * p.total_ms)
SQL
# Logarithms of self times: of one execution that of its time, with the stated error; of several at most that of their mean.
my $logs_differ = <<'SQL';
SELECT count(*) FROM light_explain_history() h, LATERAL (SELECT ln(self_ms / executions + 0.001) AS log, self_log_sum / executions AS mean) l
WHERE NOT CASE WHEN executions = 1 THEN mean BETWEEN log - 0.06 AND log + 1e-6 AND self_log_max = mean ELSE mean < log + 1e-6 AND self_log_max >= mean END
SQL

# ---- buckets ----

my $ends = q{SELECT bucket, bucket_end IS NULL, sum(executions), sum(rows) FROM light_explain_history WHERE query ~ '^SELECT count.*k = 3' AND label = 'Aggregate' GROUP BY 1, 2 ORDER BY 1};
profiled(('SELECT count(*) FROM t WHERE k = 3') x 3);
is(query($ends), '1|t|3|3', 'the open bucket');
end_bucket();
is(query($ends), '1|f|3|3', 'has ended');
profiled(('SELECT count(*) FROM t WHERE k = 3') x 2, 'SELECT sum(1 / (id - 500)) FROM t', 'SELECT caught()', "SET statement_timeout = '1s'", 'SELECT pg_sleep(60)');
is(query($ends), "1|f|3|3\n2|t|2|2", 'the next one');
end_bucket();
profiled('SELECT count(*) FROM t WHERE k = 3');
is(query($ends), "1|f|3|3\n2|f|2|2\n3|t|1|1", 'and the next one');
is(query($differs), '0', 'buckets add up to the profile');
is(query($times_differ), '0', 'their times, too');
is(query($logs_differ), '0', 'and logarithms of times are those of the times');
is(query(q{SELECT executions, cancelled, failed, max_ms >= 500 AND p50_ms BETWEEN 400 AND max_ms FROM light_explain_latency WHERE query ~ 'pg_sleep'}), '1|1|0|t', 'a statement that timed out');
is(query(q{SELECT executions, cancelled, failed FROM light_explain_latency WHERE query ~ '1 / \(id - 500'}), '1|0|1', 'one that failed');
is(query(q{SELECT executions, failed FROM light_explain_latency WHERE query ~ '1 / \(k - 3'}), '1|1', 'one whose error was caught');
is(query(q{SELECT count(*) FROM light_explain_history WHERE query ~ 'id = 7' AND caller_queryid IS NOT NULL AND executions = 1}) > 0, 1, 'and one that a function called');
is(query('SELECT count(*) FROM (SELECT bucket_end, lead(bucket_start) OVER (ORDER BY bucket) AS next FROM (SELECT DISTINCT bucket, bucket_start, bucket_end FROM light_explain_history()) b) b WHERE next < bucket_end'),
	'0', 'buckets do not overlap');

# an empty bucket replaces none
my $before = query('SELECT history_buckets FROM light_explain_status()');
reload('history_interval', 1);
sleep 3;
reload('history_interval', 86400);
is(query('SELECT history_buckets <= ' . ($before + 1) . ' FROM light_explain_status()'), 't', 'buckets without executions take no room');

# ---- percentiles, compared with known times ----

query('SELECT light_explain_history_reset()');
is(query('SELECT count(*) FROM light_explain_history()'), '0', 'the history is forgotten');
profiled(q{DO $$BEGIN FOR i IN 1..100 LOOP PERFORM pg_sleep(CASE WHEN i > 90 THEN 0.05 ELSE 0.002 END); END LOOP; END$$});
is(query(q{SELECT executions, p50_ms BETWEEN 1.9 AND 45, p95_ms BETWEEN 47 AND 200, p99_ms BETWEEN p95_ms AND max_ms, abs(mean_ms - total_ms / 100) < 1e-9 FROM light_explain_latency WHERE query ~ 'pg_sleep'}),
	'100|t|t|t|t', 'percentiles of naps');
is(query(q{SELECT count(*) FROM light_explain_latency() WHERE (SELECT sum(c) FROM unnest(counts) c) <> executions OR array_length(counts, 1) <> array_length(times_ms, 1)}), '0', 'each execution is counted once');
# each time is within 6 percent of the value that represents it: the mean of all shows that, as all intervals have that error at most
is(query(q{SELECT count(*) FROM light_explain_latency() l, LATERAL (SELECT sum(t * c) AS ms FROM unnest(times_ms, counts) u(t, c)) s WHERE total_ms > 0.01 AND abs(s.ms - total_ms) > 0.06 * total_ms}), '0', 'within the stated error');

# The logarithm of a node's time is that of its naps: nine short ones, a long one, and in the next bucket one that is shorter.
query('SELECT light_explain_history_reset()');
profiled(q{DO $$BEGIN FOR i IN 1..10 LOOP PERFORM pg_sleep(CASE WHEN i = 5 THEN 0.5 ELSE 0.01 END); END LOOP; END$$});
end_bucket();
profiled(q{DO $$BEGIN FOR i IN 4..4 LOOP PERFORM pg_sleep(CASE WHEN i = 5 THEN 0.5 ELSE 0.01 END); END LOOP; END$$});
is(query(q{SELECT string_agg(format('%s %s %s', h.executions, exp(self_log_max) BETWEEN 470 AND 5000, exp((self_log_sum - self_log_max) / nullif(h.executions - 1, 0)) BETWEEN 9 AND 100), ',' ORDER BY bucket)
	FROM light_explain_history() h JOIN light_explain_history v USING (bucket, queryid, planid, node) WHERE label = 'Result' AND query ~ 'pg_sleep'}),
	'10 t t,1 f ', 'the sum and the maximum of logarithms');

# ---- roles ----

$node->safe_psql('postgres', 'ALTER ROLE other SET light_explain.profile = on');
$node->safe_psql('postgres', 'SELECT max(k) FROM t', extra_params => [ '-U', 'other' ]);
for my $view (qw(light_explain_history light_explain_latency light_explain_history() light_explain_latency()))
{
	is($node->safe_psql('postgres', "SELECT count(*) > 0, bool_and(userid = 'other'::regrole) FROM $view", extra_params => [ '-U', 'other' ]), 't|t', "$view: a role sees its own statements");
	is($node->safe_psql('postgres', "SELECT count(DISTINCT userid) > 1 FROM $view", extra_params => [ '-U', 'reader' ]), 't', "$view: pg_read_all_stats sees all");
}
my ($rc, $out, $err) = $node->psql('postgres', 'SELECT light_explain_history_reset()', extra_params => [ '-U', 'other' ]);
like($err, qr/permission denied/, 'other roles cannot reset it');

# ---- the profile makes room, and is forgotten ----

query('SELECT light_explain_history_reset(); SELECT light_explain_profile_reset()');
profiled(('SELECT min(k) FROM t WHERE k > 2') x 4);
query('SELECT light_explain_profile_reset()');
profiled('SELECT min(k) FROM t WHERE k > 2');
is(query(q{SELECT count(DISTINCT bucket), sum(executions) FROM light_explain_history WHERE label = 'Aggregate'}), '1|5', 'a profile that is forgotten is in the history');

# ---- restarts ----

my $ended = q{SELECT md5(string_agg(h::text, ',' ORDER BY h::text)), count(*) > 5 FROM light_explain_history() h WHERE bucket <= %d};
my $latency = q{SELECT md5(string_agg(h::text, ',' ORDER BY h::text)), count(*) > 2 FROM light_explain_latency() h WHERE bucket <= %d};
my $file = $node->data_dir . '/pg_stat_tmp/light_explain_history.stat';
profiled('SELECT count(*) FROM t a JOIN t b USING (id)', 'SELECT k FROM t WHERE id = 5', 'SELECT caught()');
end_bucket();
my $last = query('SELECT max(bucket) FROM light_explain_history() WHERE bucket_end IS NOT NULL');
my @kept = map { query(sprintf $_, $last) } ($ended, $latency);
like($kept[0], qr/\|t$/, 'there is a history');
profiled('WITH before_shutdown AS MATERIALIZED (SELECT 1 FROM t LIMIT 1) SELECT * FROM before_shutdown');
$node->stop;
ok(-s $file, 'it is in a file');
my $whole = slurp_file($file);
$node->start;
is(query(sprintf $ended, $last), $kept[0], 'and there again after a restart');
is(query(sprintf $latency, $last), $kept[1], 'with its times');
is(query(q{SELECT count(DISTINCT bucket), bool_and(bucket_end IS NOT NULL), sum(executions) FROM light_explain_history WHERE query ~ 'before_shutdown' AND btrim(label) = 'Limit'}), '1|t|1', 'the open bucket was ended');
profiled('WITH after_restart AS MATERIALIZED (SELECT 1 FROM t LIMIT 1) SELECT * FROM after_restart');
is(query(q{SELECT count(*) FROM light_explain_history WHERE query ~ 'before_shutdown' AND bucket_end IS NULL}), '0', 'and nothing of it is in the next one');
is(query(q{SELECT sum(executions) FROM light_explain_history WHERE query ~ 'after_restart' AND btrim(label) = 'Limit'}), '1', 'which begins');

# The file is written each second in which a bucket ends: a crash loses what was counted since.
end_bucket();
$last = query('SELECT max(bucket) FROM light_explain_history() WHERE bucket_end IS NOT NULL');
$node->poll_query_until('postgres', 'SELECT history_saved >= (SELECT max(bucket_end) FROM light_explain_history()) FROM light_explain_status()') or die 'is not saved';
@kept = map { query(sprintf $_, $last) } ($ended, $latency);
$node->stop('immediate');
$node->start;
is(query(sprintf $ended, $last), $kept[0], 'an immediate stop keeps buckets that ended');
is(query(sprintf $latency, $last), $kept[1], 'with their times');
profiled('WITH is_lost AS MATERIALIZED (SELECT 1 FROM t LIMIT 1) SELECT * FROM is_lost');
my $session = IPC::Run::start([ 'psql', '-X', '-q', '-d', $node->connstr('postgres'), '-c', 'SELECT pg_sleep(600)' ], '>', \my $ignored, '2>', \my $ignored_too);
$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep'}) or die 'does not sleep';
my $crash = -s $node->logfile;
kill 'KILL', query(q{SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'});
$session->finish;
wait_until_back($node, $crash);
is(query(sprintf $ended, $last), $kept[0], 'so does a crash');
is(query(q{SELECT count(*) FROM light_explain_latency() l WHERE bucket > } . $last . q{ AND executions = 1 AND bucket_end IS NOT NULL}), '0', 'which loses the open one');

# Buckets that were forgotten do not come back from the file.
profiled('SELECT count(*) FROM t');
end_bucket();
$node->poll_query_until('postgres', 'SELECT history_saved >= (SELECT max(bucket_end) FROM light_explain_history()) FROM light_explain_status()') or die 'is not saved';
reload('history_save', 900);
my $saved = query('SELECT history_saved FROM light_explain_status()');
isnt(query('SELECT light_explain_history_reset()'), '0', 'a history is forgotten');
$node->poll_query_until('postgres', "SELECT history_saved > '$saved' FROM light_explain_status()") or die 'is not saved';
$node->stop('immediate');
$node->start;
is(query('SELECT count(*) FROM light_explain_history() WHERE bucket_end IS NOT NULL'), '0', 'and stays so after a crash');
reload('history_save', 1);

# a base backup has a separate history
$node->backup('copy');
ok(!-e $node->backup_dir . '/copy/pg_stat_tmp/light_explain_history.stat', 'a base backup leaves it out');

# a worker that is terminated is started again
new_worker();
profiled('WITH afterwards AS MATERIALIZED (SELECT 1 FROM t LIMIT 1) SELECT * FROM afterwards');
end_bucket();
is(query(q{SELECT sum(executions) FROM light_explain_history WHERE query ~ 'afterwards' AND btrim(label) = 'Limit'}), '1', 'a worker that was terminated is started again');

# ---- files that are damaged, and times that were set ----

for my $content ([ 'a changed byte', substr($whole, 0, 3000) . (substr($whole, 3000, 1) ^ "\1") . substr($whole, 3001) ], [ 'a file cut short', substr($whole, 0, length($whole) / 2) ],
	[ 'an empty file', '' ], [ 'some bytes', 'abc' ], [ 'another version', substr($whole, 0, 4) . "\0" . substr($whole, 5) ])
{
	my ($what, $bytes) = @$content;
	$node->stop;
	for my $name ($file, "$file.tmp")
	{
		open my $handle, '>:raw', $name or die $!;
		print $handle $bytes;
		close $handle;
	}
	my $offset = -s $node->logfile;
	$node->start;
	is(query('SELECT count(*) FROM light_explain_history()'), '0', "$what: the history is empty");
	like(slurp_file($node->logfile, $offset), qr/LOG:  ignoring invalid data in file "pg_stat_tmp\/light_explain_history.stat"/, "$what: and the log shows it");
	ok(!-e $file && !-e "$file.tmp", "$what: and no file is left");
}

# The time is set back while the server is down.
SKIP:
{
	skip 'no libfaketime here', 3 unless my ($library) = grep { -e $_ } glob '/usr/lib/*/faketime/libfaketime.so.1';
	profiled('WITH before_set AS MATERIALIZED (SELECT 1 FROM t LIMIT 1) SELECT * FROM before_set');
	$node->stop;
	{
		local %ENV = (%ENV, LD_PRELOAD => $library, FAKETIME => '-3h');
		$node->start;
	}
	profiled('WITH after_set AS MATERIALIZED (SELECT 1 FROM t LIMIT 1) SELECT * FROM after_set');
	is(query('SELECT history_clock_jumps FROM light_explain_status()'), '1', 'a time that was set back is counted');
	$node->stop;
	$node->start;
	is(query(q{SELECT bool_and(bucket_end - bucket_start BETWEEN '0' AND '1min') FROM light_explain_history() WHERE bucket_end IS NOT NULL}), 't', 'buckets are as long as they were');
	is(query(q{SELECT string_agg(substring(query FROM 'before|after') || executions, ',' ORDER BY bucket) FROM light_explain_history WHERE query ~ 'WITH (before|after)_set' AND btrim(label) = 'Limit'}), 'before1,after1', 'and in their order');
}

# ---- bounds ----

$node->append_conf('postgresql.conf', "light_explain.history_buckets = 2\nlight_explain.history_size = '8kB'\nlight_explain.history_interval = 86400");
$node->restart;
query('SELECT light_explain_history_reset(); SELECT light_explain_profile_reset(); SELECT light_explain_history_reset()');
profiled('SELECT pg_sleep(0.3)', map { 'SELECT ' . join(', ', ('id') x $_) . ' FROM t LIMIT 1' } 1 .. 60);
end_bucket();
is(query(q{SELECT sum(executions) >= 61, count(*) FILTER (WHERE queryid IS NULL) FROM light_explain_latency()}), 't|1', 'what a bucket has no room for is one sum');
is(query(q{SELECT count(*) FROM light_explain_latency WHERE query ~ 'pg_sleep'}), '1', 'the statements that took most time are kept');
is(query(q{SELECT history_other_plans > 30, history_bytes > 8192 FROM light_explain_status()}), 't|t', 'and the others are counted');
is($node->safe_psql('postgres', 'SELECT count(*) FROM light_explain_latency() WHERE queryid IS NULL', extra_params => [ '-U', 'other' ]), '0', 'their sum is not for every role');
for (1 .. 3)
{
	profiled('SELECT k FROM t LIMIT 1');
	end_bucket();
}
is(query(q{SELECT history_buckets, history_overwritten >= 2 FROM light_explain_status()}), '2|t', 'older buckets go');
my $sum = query(q{SELECT sum(executions) FROM light_explain_latency() WHERE bucket_end IS NOT NULL});
$node->append_conf('postgresql.conf', "light_explain.history_size = '1kB'");
$node->restart;
is(query(q{SELECT sum(executions) >= } . $sum . q{ FROM light_explain_latency()}), 't', 'with less room than before, the rest is in the sum');

# plans that make room are in the history
$node->append_conf('postgresql.conf', "light_explain.history_size = '1MB'\nlight_explain.profile_max = 100");
$node->restart;
query('SELECT light_explain_profile_reset(); SELECT light_explain_history_reset()');
profiled(map { 'SELECT ' . join(', ', ('id') x ($_ % 40 + 1)) . ' FROM t LIMIT 1' } 1 .. 80);
is(query(q{SELECT sum(executions) FROM light_explain_latency() l WHERE queryid NOT IN (SELECT queryid FROM light_explain_profile() WHERE query !~ 'id.* FROM t LIMIT')}), '80', 'plans that make room are in the history');

# many sessions that store, read and forget, while buckets end
$node->append_conf('postgresql.conf', "light_explain.history_buckets = 96\nlight_explain.history_interval = 1\nlight_explain.profile_max = 5000\nlight_explain.profile = on");
$node->restart;
query('SELECT light_explain_profile_reset(); SELECT light_explain_history_reset()');
my $dir = PostgreSQL::Test::Utils::tempdir();
append_to_file("$dir/one.sql", "SELECT k FROM t WHERE id < 44;\n");
append_to_file("$dir/read.sql", "SELECT count(*) FROM light_explain_latency;\n");
append_to_file("$dir/$_.sql", 'SELECT ' . join(', ', ('k') x $_) . " FROM t LIMIT 1;\n") for 1 .. 40;
ok($node->run_log([ 'pgbench', '-n', '-c', '8', '-j', '2', '-t', '1000', '-f', "$dir/one.sql\@200", '-f', "$dir/read.sql", (map { ('-f', "$dir/$_.sql\@4") } 1 .. 40), '-h', $node->host, '-p', $node->port, 'postgres' ]), 'eight sessions while buckets end');
# the last one before was the reset
is(query(q{SELECT sum(executions) FROM light_explain_latency()}), '8001', 'nothing is lost or counted twice');
is(query($logs_differ), '0', 'also of logarithms');

# none
$node->append_conf('postgresql.conf', 'light_explain.history_size = 0');
$node->restart;
($rc, $out, $err) = $node->psql('postgres', 'SELECT * FROM light_explain_history()');
like($err, qr/there is no history of statements.*HINT:  Set light_explain.history_size/s, 'without memory there is none');
is(query('SELECT history_pid IS NULL, history_buckets_max, history_bytes FROM light_explain_status()'), 't|0|0', 'and no process');
is(query('SELECT count(*) > 0 FROM light_explain_profile'), 't', 'but a profile');

$node->stop;
ok(slurp_file($node->logfile) !~ /TRAP:|PANIC|was terminated by signal (?!9)/, 'nothing bad in the server log');
done_testing();
