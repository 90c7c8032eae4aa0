# The history of waits: buckets have exactly the samples that were taken in them, with the plan of
# statements that took longer than a bucket; it is bounded, kept across restarts and crashes,
# and shows what it has no space for.
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

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'light_explain'
autovacuum = off
jit = off
compute_query_id = on
max_parallel_workers_per_gather = 0
restart_after_crash = on
light_explain.profile = on
light_explain.sample_interval = 10
light_explain.sample_ring = 200000
light_explain.waits_interval = 1
light_explain.history_interval = 1d
light_explain.history_save = 1d
CONF
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION light_explain;
CREATE TABLE t AS SELECT g AS id, g % 10 AS k FROM generate_series(1, 1000) g;
VACUUM ANALYZE t;
CREATE ROLE other LOGIN;
CREATE ROLE reader LOGIN IN ROLE pg_read_all_stats;
GRANT SELECT ON t TO other;
SQL

sub query { return $node->safe_psql('postgres', @_); }

sub reload
{
	my ($name, $value) = @_;
	$node->append_conf('postgresql.conf', "light_explain.$name = $value");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT setting = '$value' FROM pg_settings WHERE name = 'light_explain.$name'") or die 'is not reloaded';
}

# Two rounds later all plans of statements that have ended are known.
sub settle
{
	my $rounds = query('SELECT sampler_rounds FROM light_explain_status()');
	$node->poll_query_until('postgres', "SELECT sampler_rounds > $rounds + 2 FROM light_explain_status()") or die 'the sampler does not work';
}

# No more samples are taken, so that two statements see the same ones.
sub freeze
{
	settle();
	reload('sample_interval', 60000);
	# the sampler reads the setting after the postmaster
	1 while do { my $rounds = query('SELECT sampler_rounds FROM light_explain_status()'); sleep 1; $rounds != query('SELECT sampler_rounds FROM light_explain_status()') };
}

sub background { return IPC::Run::start([ 'psql', '-X', '-q', '-d', $node->connstr('postgres'), map { ('-c', $_) } @_ ], '<', \undef, '>', '/dev/null', '2>', '/dev/null'); }

# ---- each sample is in the bucket of its time, with its plan ----

my $key = 'dbid, userid, queryid, planid, node, activity, wait_event_type, wait_event, worker';
my $of_ring = <<"SQL";
SELECT b.bucket, dbid, userid, queryid, planid, node, activity, wait_event_type, wait_event, leader_pid IS NOT NULL AS worker, count(*)
FROM light_explain_samples() s JOIN (SELECT DISTINCT bucket, bucket_start, coalesce(bucket_end, 'infinity') AS bucket_end FROM light_explain_waits_history()) b
	ON s.sampled >= b.bucket_start AND s.sampled < b.bucket_end
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
SQL
my $of_history = "SELECT bucket, $key, sum(samples) FROM light_explain_waits_history() GROUP BY bucket, $key";
my $differs = "SELECT 'ring', d.* FROM ($of_ring EXCEPT $of_history) d UNION ALL SELECT 'history', d.* FROM ($of_history EXCEPT $of_ring) d ORDER BY 2, 5, 1";

query('SELECT light_explain_samples_reset(), light_explain_waits_history_reset()');
my @sessions = (
	background('SELECT count(*), pg_sleep(3.5) FROM t', 'SELECT pg_sleep(0.3)'),
	background(map { "SELECT count(pg_sleep(0.0005)), $_ FROM t WHERE id < 400" } 1 .. 10),
	background("SET light_explain.profile = off", 'SELECT pg_sleep(1.5)'),
	background('SET max_parallel_workers_per_gather = 2', 'SET parallel_setup_cost = 0', 'SET parallel_tuple_cost = 0', 'SET min_parallel_table_scan_size = 0',
		'SELECT count(*) FROM t WHERE CASE WHEN id % 10 = 0 THEN pg_sleep(0.02) IS NOT NULL ELSE true END'),
	background((q{DO $$BEGIN PERFORM pg_sleep(0.01) FROM t WHERE id < 30; EXCEPTION WHEN division_by_zero THEN NULL; END$$}) x 5));
$_->finish for @sessions;
freeze();
is(query('SELECT samples_overwritten FROM light_explain_status()'), '0', 'the ring has all samples');
is(query($differs), '', 'buckets have the samples of their time');
is(query('SELECT sum(samples) - (SELECT samples_taken FROM light_explain_status()) FROM light_explain_waits_history()'), '0', 'and all of them');
cmp_ok(query('SELECT count(DISTINCT bucket) FROM light_explain_waits_history()'), '>=', 4, 'of several seconds');
is(query(q{SELECT count(DISTINCT bucket) >= 4, count(*) FILTER (WHERE planid IS NULL), string_agg(DISTINCT btrim(label), ',') FROM light_explain_waits_history WHERE query ~ 'pg_sleep.3.5' AND wait_event = 'PgSleep'}),
	't|0|Aggregate', 'a long statement has its plan in all buckets');
is(query(q{SELECT count(*) > 0 FROM light_explain_waits_history WHERE worker AND wait_event = 'PgSleep' AND node_type = 'Seq Scan'}), 't', 'and so have workers');
is(query(q{SELECT abs(sum(seconds) - 3.5) < 1.5 FROM light_explain_waits_history WHERE query ~ 'pg_sleep.3.5' AND wait_event = 'PgSleep'}), 't', 'for the time that it waited');
is(query(q{SELECT count(*) FROM (SELECT bucket_end, lead(bucket_start) OVER (ORDER BY bucket) AS next FROM (SELECT DISTINCT bucket, bucket_start, bucket_end FROM light_explain_waits_history()) b) b
	WHERE next < bucket_end OR bucket_end > date_trunc('second', bucket_end)}), '0', 'buckets end at multiples of the interval and do not overlap');
is(query(q{SELECT count(*) FROM light_explain_waits_history GROUP BY bucket, userid, queryid, planid, node, activity, wait_event_type, wait_event, worker HAVING count(*) > 1}), '', 'the view has one row for each');

# a period has all of the buckets of which a part is in it, and its end is not
my $all = q{SELECT count(*) || md5(coalesce(string_agg(h::text, ',' ORDER BY h::text), '')) FROM light_explain_waits_history};
is(query(qq{WITH time AS (SELECT DISTINCT unnest(ARRAY[bucket_start, coalesce(bucket_end, 'infinity'), bucket_start + interval '0.3 s', '-infinity']) AS t FROM light_explain_waits_history())
	SELECT bool_and(($all(s.t, e.t) h) = ($all() h WHERE bucket_start < e.t AND (bucket_end IS NULL OR bucket_end > s.t))), count(*) > 50,
		count(DISTINCT ($all(s.t, e.t) h)) > 5, ($all(NULL, NULL) h) ~ '^0' FROM time s, time e}), 't|t|t|t', 'a period has the buckets that it overlaps');

# ---- roles ----

reload('sample_interval', 10);
$node->safe_psql('postgres', 'SELECT pg_sleep(0.5)', extra_params => [ '-U', 'other' ]);
settle();
for my $what ('light_explain_waits_history', 'light_explain_waits_history()')
{
	is($node->safe_psql('postgres', "SELECT count(*) > 0, bool_and(userid = 'other'::regrole) FROM $what", extra_params => [ '-U', 'other' ]), 't|t', "$what: a role sees its own statements");
	is($node->safe_psql('postgres', "SELECT count(DISTINCT userid) > 1 FROM $what", extra_params => [ '-U', 'reader' ]), 't', "$what: pg_read_all_stats sees all");
}
my ($rc, $out, $err) = $node->psql('postgres', 'SELECT light_explain_waits_history_reset()', extra_params => [ '-U', 'other' ]);
like($err, qr/permission denied for function light_explain_waits_history_reset/, 'other roles cannot reset it');

# ---- what is forgotten ----

freeze();
my $before = query("SELECT md5(string_agg(h::text, ',' ORDER BY h::text)) FROM ($of_history) h");
query('SELECT light_explain_samples_reset()');
is(query("SELECT md5(string_agg(h::text, ',' ORDER BY h::text)) FROM ($of_history) h"), $before, 'the samples are forgotten, and not the history');
cmp_ok(query('SELECT light_explain_waits_history_reset()'), '>=', 4, 'the history is forgotten');
is(query('SELECT count(*) FROM light_explain_waits_history()'), '0', '... and empty');
# a statement that runs then has no samples of before in its plan
reload('sample_interval', 10);
query(q{CREATE FUNCTION sleeps_until_go() RETURNS int LANGUAGE plpgsql AS $$BEGIN WHILE (pg_stat_file('go', true)).size IS NULL LOOP IF pg_sleep(0.1) IS NULL THEN END IF; END LOOP; RETURN 1; END$$});
my $go = $node->data_dir . '/go';
my $long = background('SELECT sleeps_until_go()');
for (1 .. 2)
{
	$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM light_explain_waits_history() WHERE wait_event = 'PgSleep'}) or die 'is not seen';
	query('SELECT light_explain_waits_history_reset()') if $_ == 1;
}
append_to_file($go, '');
$long->finish;
unlink $go;
settle();
is(query(q{SELECT count(*) FILTER (WHERE planid IS NULL), count(*) FILTER (WHERE planid IS NOT NULL) > 0 FROM light_explain_waits_history() WHERE wait_event = 'PgSleep'}), '0|t', 'a statement that runs then begins again');

# an entry of the history has one row, also if its samples are forgotten in between
$long = background('SELECT sleeps_until_go()');
for (1 .. 5)
{
	$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM light_explain_samples() WHERE wait_event = 'PgSleep'}) or die 'is not seen';
	query('SELECT light_explain_samples_reset()');
}
append_to_file($go, '');
$long->finish;
unlink $go;
settle();
is(query(qq{SELECT max(n) FROM (SELECT count(*) AS n FROM light_explain_waits_history() GROUP BY bucket, $key) h}), '1', 'one row for each, also after a reset of the samples');

# ---- restarts ----

my $file = $node->data_dir . '/pg_stat_tmp/light_explain_history.stat';
my $ended = q{SELECT md5(string_agg(h::text, ',' ORDER BY h::text)), count(*) > 5 FROM light_explain_waits_history() h WHERE bucket <= %d AND wait_event_type <> 'LWLock'};
query('SELECT count(*), pg_sleep(2.2) FROM t');
query("CREATE FUNCTION light_test_lwlock(int) RETURNS void STRICT VOLATILE LANGUAGE c AS '$FindBin::RealBin/../custom/light_test_custom.so'; SELECT light_test_lwlock(400)");
freeze();
my $lwlock = q{SELECT DISTINCT coalesce(wait_event, 'unknown'), sum(samples) > 10 FROM light_explain_waits_history() WHERE wait_event_type = 'LWLock' AND (wait_event IS NULL OR wait_event = 'light_explain') GROUP BY 1};
is(query($lwlock), 'light_explain|t', 'an event that an extension defined has its name');
query('SELECT 1') for 1 .. 2;
my $last = query('SELECT max(bucket) FROM light_explain_waits_history() WHERE bucket_end IS NOT NULL');
my $kept = query(sprintf $ended, $last);
like($kept, qr/\|t$/, 'there is a history');
# no sample at all until the server stops, however long a busy machine takes
reload('sample_interval', 0);
my $open = query("SELECT sum(samples) FROM light_explain_waits_history() WHERE bucket > $last");
reload('waits_interval', 3600);
# a server that starts with 0 has no samples
$node->append_conf('postgresql.conf', 'light_explain.sample_interval = 60000');
$node->stop;
ok(-s $file, 'it is in a file');
my $whole = slurp_file($file);
$node->start;
is(query(sprintf $ended, $last), $kept, 'and there again after a restart');
is(query("SELECT coalesce(sum(samples), 0) - @{[$open || 0]}, bool_and(bucket_end IS NOT NULL) IS NOT FALSE FROM light_explain_waits_history() WHERE bucket > $last"), '0|t', 'the open bucket was ended');
is(query($lwlock), 'unknown|t', 'an event that an extension defined has another number now');
is(query(q{SELECT count(*) > 0 FROM light_explain_waits_history WHERE query ~ 'count.*pg_sleep' AND wait_event = 'PgSleep' AND label ~ 'Aggregate'}), 't', 'with the names of nodes');

# The file is written also if no bucket of plans has ended.
reload('waits_interval', 1);
reload('sample_interval', 10);
query('SELECT pg_sleep(1.5) -- saved');
freeze();
$last = query('SELECT max(bucket) FROM light_explain_waits_history() WHERE bucket_end IS NOT NULL');
$kept = query(sprintf $ended, $last);
my $saved = query('SELECT coalesce(history_saved, now()) FROM light_explain_status()');
reload('history_save', 1);
# the worker sleeps until the end of the day
kill 'HUP', query('SELECT history_pid FROM light_explain_status()');
# or it was when the worker read the settings before, and no bucket has ended since
$node->poll_query_until('postgres', "SELECT history_saved > '$saved' OR history_saved >= (SELECT max(bucket_end) FROM light_explain_waits_history()) FROM light_explain_status()") or die 'is not saved';
$node->stop('immediate');
$node->start;
is(query(sprintf $ended, $last), $kept, 'an immediate stop keeps what was saved');
# the worker wakes for it
reload('sample_interval', 10);
query('SELECT pg_sleep(1.5)');
ok($node->poll_query_until('postgres', 'SELECT history_saved IS NOT NULL FROM light_explain_status()'), 'it is saved in time');
my $session = background('SELECT pg_sleep(600)');
$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep'}) or die 'does not sleep';
my $crash = -s $node->logfile;
kill 'KILL', query(q{SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'});
$session->finish;
wait_until_back($node, $crash);
is(query(sprintf $ended, $last), $kept, 'so does a crash');

# Buckets that were forgotten do not come back from the file.
freeze();
reload('history_save', 86400);
$saved = query(q{SELECT coalesce(history_saved, '-infinity') FROM light_explain_status()});
isnt(query('SELECT light_explain_waits_history_reset()'), '0', 'a history of waits is forgotten');
$node->poll_query_until('postgres', "SELECT history_saved > '$saved' FROM light_explain_status()") or die 'is not saved';
$node->stop('immediate');
$node->start;
is(query("SELECT count(*) FROM light_explain_waits_history() WHERE bucket <= $last"), '0', 'and stays so after a crash');
reload('history_save', 1);

for my $content ([ 'a changed byte', substr($whole, 0, -100) . (substr($whole, -100, 1) ^ "\1") . substr($whole, -99) ], [ 'a file cut short', substr($whole, 0, length($whole) - 60) ])
{
	my ($what, $bytes) = @$content;
	$node->stop;
	open my $handle, '>:raw', $file or die $!;
	print $handle $bytes;
	close $handle;
	my $offset = -s $node->logfile;
	$node->start;
	is(query(q{SELECT count(*) FROM light_explain_waits_history() WHERE wait_event = 'PgSleep'}), '0', "$what: the history is empty");
	like(slurp_file($node->logfile, $offset), qr/LOG:  ignoring invalid data in file "pg_stat_tmp\/light_explain_history.stat"/, "$what: and the log shows it");
}

# ---- bounds ----

# ten entries in each bucket, and two buckets that have ended
$node->append_conf('postgresql.conf', "light_explain.waits_buckets = 2\nlight_explain.waits_size = '1kB'\nlight_explain.sample_interval = 10\nlight_explain.history_save = 1d\nlight_explain.waits_interval = 3600");
$node->restart;
# no sample between the two
freeze();
query('SELECT light_explain_samples_reset(), light_explain_waits_history_reset()');
reload('sample_interval', 10);
$long = background('SELECT pg_sleep(10)');
query(join ';', map { 'SELECT pg_sleep(0.2)' . ', 1' x $_ } 1 .. 30);
$long->finish;
freeze();
is(query('SELECT sum(samples) - (SELECT samples_taken FROM light_explain_status()) FROM light_explain_waits_history()'), '0', 'without space all samples are counted');
is(query('SELECT count(*) <= 11, count(*) FILTER (WHERE activity IS NULL), max(samples) FILTER (WHERE activity IS NULL) > 50 FROM light_explain_waits_history()'), 't|1|t', 'those for which there is none are one sum');
is(query(q{SELECT discarded - (SELECT samples FROM light_explain_waits_history() WHERE activity IS NULL), entries_max, used_bytes <= bytes FROM light_explain_memory() WHERE area = 'waits'}), '0|30|t', '... which light_explain_memory() shows');
is(query(q{SELECT sum(samples) > 100 FROM light_explain_waits_history() WHERE activity IS NOT NULL AND wait_event = 'PgSleep'}), 't', 'the most frequent ones are kept');
is($node->safe_psql('postgres', 'SELECT count(*) FROM light_explain_waits_history() WHERE activity IS NULL', extra_params => [ '-U', 'other' ]), '0', 'their sum is not for every role');
reload('waits_interval', 1);
reload('sample_interval', 10);
query('SELECT pg_sleep(4.2)');
settle();
cmp_ok(query('SELECT count(DISTINCT bucket) FROM light_explain_waits_history() WHERE bucket_end IS NOT NULL'), '==', 2, 'older buckets go');
freeze();
# the open bucket is ended at the shutdown, so the oldest one goes
my $of_two = 'SELECT sum(samples) FROM light_explain_waits_history() WHERE bucket > (SELECT max(bucket) - 2 FROM light_explain_waits_history())';
my $sum = query($of_two);
$node->append_conf('postgresql.conf', "light_explain.waits_buckets = 20");
$node->restart;
is(query($of_two), $sum, 'with less space than before the rest is in the sum');
is(query('SELECT max(n) FROM (SELECT count(*) AS n FROM light_explain_waits_history() WHERE activity IS NOT NULL GROUP BY bucket) b') <= 4, 1, '... because there are four entries');

# sums are dropped and made again while a bucket is open
$node->append_conf('postgresql.conf', "light_explain.waits_size = '1MB'\nlight_explain.sample_waits = 100\nlight_explain.waits_interval = 3600\nlight_explain.sample_interval = 10");
$node->restart;
query(join ';', map { 'SELECT pg_sleep(0.03)' . ', 1' x $_ } 1 .. 100, 1 .. 100);
settle();
cmp_ok(query(q{SELECT discarded FROM light_explain_memory() WHERE area = 'sums'}), '>', 100, 'sums were dropped');
is(query(qq{SELECT max(n) FROM (SELECT count(*) AS n FROM light_explain_waits_history() GROUP BY bucket, $key) h}), '1', 'an entry whose sum was dropped is found again');

# none
for my $setting ('waits_size', 'history_size')
{
	$node->append_conf('postgresql.conf', "light_explain.waits_size = '1MB'\nlight_explain.$setting = 0");
	$node->restart;
	($rc, $out, $err) = $node->psql('postgres', 'SELECT * FROM light_explain_waits_history()');
	like($err, qr/there is no history of waits.*HINT:  Set light_explain.waits_size/s, "without $setting there is none");
	is(query('SELECT count(*) FROM light_explain_waits() WHERE false'), '0', 'but sums');
}

$node->stop;
ok(slurp_file($node->logfile) !~ /TRAP:|PANIC|was terminated by signal (?!9)/, 'nothing bad in the server log');
done_testing();
