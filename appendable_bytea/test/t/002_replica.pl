
# A streaming replica reads the same bytes, also while the primary appends and
# vacuums, and continues to append once it is promoted.
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'appendable_bytea'
autovacuum = off
});
$primary->start;
$primary->safe_psql('postgres', q{
CREATE EXTENSION appendable_bytea;
CREATE TABLE t (id int PRIMARY KEY, data appendable_bytea) WITH (fillfactor = 80);
INSERT INTO t SELECT i, convert_to(repeat(md5(i::text), 1000), 'UTF8') FROM generate_series(1, 5) i;
});
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'max_standby_streaming_delay = 60s');
$standby->start;

my $digest = 'SELECT id, length(data), md5(data), md5(data::bytea) FROM t ORDER BY id';

sub same_on_standby
{
	my ($what) = @_;
	$primary->wait_for_catchup($standby);
	is($standby->safe_psql('postgres', $digest), $primary->safe_psql('postgres', $digest), $what);
	return;
}
same_on_standby('values of the backup');

$primary->safe_psql('postgres', q{
UPDATE t SET data = data || '\x0102'::bytea;
UPDATE t SET data = data || convert_to(repeat('x', 10000), 'UTF8') WHERE id = 1;
UPDATE t SET data = appendable_write(data, '\xcafe', 9000, 2) WHERE id = 2;
UPDATE t SET data = appendable_truncate(data, 20000) WHERE id = 3;
DELETE FROM t WHERE id = 4;
INSERT INTO t VALUES (6, convert_to(repeat('6', 50000), 'UTF8'));
});
same_on_standby('appends, overwrites, cuts, deletes');

# A snapshot on the standby outlives the row, as long as nothing is removed.
my $before = $standby->safe_psql('postgres', $digest);
my ($status, $stdout, $stderr) = $standby->psql('postgres', qq{
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM t;
\\! psql -X -q -d "${\$primary->connstr('postgres')}" -c "UPDATE t SET data = data || '\\\\x03'::bytea; DELETE FROM t WHERE id = 1; UPDATE t SET data = 'new' WHERE id = 2" >/dev/null
SELECT pg_sleep(0.5);
$digest;
COMMIT;
});
like($stdout, qr/\Q$before\E/, 'an old snapshot of the standby reads old values');
same_on_standby('after that');

# When they are removed, it ends as it would with any table; with feedback nothing is
# removed.
for my $feedback ('off', 'on')
{
	$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = 0\nhot_standby_feedback = $feedback\nwal_receiver_status_interval = 1\n");
	$standby->reload;
	$primary->safe_psql('postgres', q{INSERT INTO t VALUES (9, convert_to(repeat('9', 50000), 'UTF8'))});
	$primary->wait_for_catchup($standby);
	my $reader = IPC::Run::start([ 'psql', '-X', '-At', '-d', $standby->connstr('postgres'), '-c', 'BEGIN ISOLATION LEVEL REPEATABLE READ',
			'-c', 'SELECT count(*) FROM t', '-c', q{DO $$ BEGIN FOR i IN 1 .. 600 LOOP EXIT WHEN EXISTS (SELECT FROM pg_ls_dir('.') f WHERE f = 'go_on'); PERFORM pg_sleep(0.1); END LOOP; END $$},
			'-c', 'SELECT md5(data) FROM t WHERE id = 9', '-c', 'COMMIT' ],
		'>', \my $out, '2>', \my $err);
	$standby->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE 'DO%' AND state = 'active' AND backend_xmin IS NOT NULL)}) or die;
	if ($feedback eq 'on')
	{
		$primary->poll_query_until('postgres', q{SELECT backend_xmin IS NOT NULL FROM pg_stat_replication}) or die;
	}
	$primary->safe_psql('postgres', 'DELETE FROM t WHERE id = 9');
	$primary->safe_psql('postgres', 'VACUUM');
	$primary->wait_for_catchup($standby);
	append_to_file($standby->data_dir . '/go_on', '');
	$reader->finish;
	unlink $standby->data_dir . '/go_on';
	my $md5 = $primary->safe_psql('postgres', q{SELECT md5(repeat('9', 50000))});
	if ($feedback eq 'on')
	{
		like($out, qr/$md5/, 'with feedback an old snapshot of the standby reads on') or diag($err);
	}
	else
	{
		like($err, qr/conflict with recovery/, 'without feedback it is cancelled');
		unlike($out, qr/$md5/, 'and reads nothing');
	}
}
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = 60s\nhot_standby_feedback = off\n");
$standby->reload;

# A statement of the standby holds a value while newer snapshots, of a volatile
# function, are already after the end of its chunks.  (A custom plan would have the
# planner read the value, with the statement's snapshot.)
$primary->safe_psql('postgres', q{
CREATE TABLE mark (id int);
CREATE FUNCTION after_the_mark(value appendable_bytea) RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN
	FOR i IN 1 .. 600 LOOP
		EXIT WHEN EXISTS (SELECT FROM mark);
		PERFORM pg_sleep(0.1);
	END LOOP;
	RETURN (SELECT count(*) FROM mark) || ' ' || md5(value);
END $$;
INSERT INTO t VALUES (7, convert_to(repeat('7', 50000), 'UTF8'));
});
$primary->wait_for_catchup($standby);
my $reader = IPC::Run::start([ 'psql', '-X', '-At', '-d', $standby->connstr('postgres'), '-c', 'SELECT after_the_mark(data) FROM t WHERE id = 7' ],
	'>', \my $late, '2>', \my $errors);
$standby->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE 'SELECT after_the_mark%' AND wait_event = 'PgSleep')})
	or die 'the reader does not start';
$primary->safe_psql('postgres', q{
UPDATE t SET data = 'replaced' WHERE id = 7;
INSERT INTO mark VALUES (1);
});
$reader->finish;
is($late, '1 ' . $primary->safe_psql('postgres', q{SELECT md5(repeat('7', 50000))}) . "\n", 'a value is read after a newer snapshot than its own')
	or diag($errors);
is($standby->safe_psql('postgres', 'SELECT count(*) FROM appendable_bytea_check()'), '0', 'check on the standby');
($status, $stdout, $stderr) = $standby->psql('postgres', "SELECT * FROM appendable_bytea_repair('t')");
like($stderr, qr/cannot .* recovery/, 'no repair on the standby');

# Promotion.
$standby->promote;
$standby->safe_psql('postgres', q{
UPDATE t SET data = data || convert_to(repeat('p', 3000), 'UTF8') WHERE id = 6;
CREATE TABLE t2 AS SELECT * FROM t;
});
is($standby->safe_psql('postgres', q{SELECT data = convert_to(repeat('6', 50000), 'UTF8') || '\x03'::bytea || convert_to(repeat('p', 3000), 'UTF8') FROM t2 WHERE id = 6}),
	't', 'the promoted server appends');
$standby->safe_psql('postgres', 'VACUUM');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM appendable_bytea_check()'), '0', 'check after promotion');
$standby->stop;
$primary->stop;
done_testing();
