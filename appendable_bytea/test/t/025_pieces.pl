# Slow: random statements and sessions

# Values that are replaced and stored as differences: random statements compared with
# bytea, random sessions compared with a model, through crashes, on a standby, in a dump
# and by logical decoding.
#
# STRESS_SECONDS sets how long each part takes (default 8).
use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'python3 is not installed' if system('python3 -c "import threading" 2>/dev/null') != 0;
local $ENV{PYTHONDONTWRITEBYTECODE} = 1;

my $node = PostgreSQL::Test::Cluster->new('pieces');
$node->init(allows_streaming => 1, extra => [ '--encoding=UTF8', '--locale=C' ]);
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'appendable_bytea'
max_prepared_transactions = 10
restart_after_crash = on
fsync = off
wal_keep_size = 8GB
});
$node->start;
my $seconds = $ENV{STRESS_SECONDS} || 8;
my @to = ('--host', $node->host, '--port', $node->port, '--user', scalar getpwuid($<), '--seconds', $seconds, '--differences');

sub program_ok
{
	my ($name, $program, @options) = @_;
	my ($out, $err) = ('', '');
	ok(IPC::Run::run([ 'python3', "test/$program.py", @to, @options ], '>', \$out, '2>', \$err), $name) or diag(substr("$out$err", 0, 4000));
	note($out);
	return;
}

program_ok('statements with chunks of 64 bytes', 'differential', '--chunk-size', 64);
program_ok('statements on text with chunks of 64 bytes, and crashes', 'differential', '--text', '--chunk-size', 64, '--crash');
program_ok('statements with chunks of a page, and crashes', 'differential', '--crash');
program_ok('sessions with chunks of 64 bytes', 'stress', '--chunk-size', 64);
program_ok('sessions on text, and crashes', 'stress', '--text', '--crash');
# after the crashes, which leave it behind
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'max_standby_streaming_delay = 1s');
$standby->start;
program_ok('sessions with a standby that reads', 'stress', '--standby', $standby->host . ':' . $standby->port);
$standby->append_conf('postgresql.conf', 'max_standby_streaming_delay = 60s');
$standby->reload;

# The standby reads, and a dump restores, the same values.
$node->safe_psql('postgres', q{
CREATE DATABASE d;
\c d
CREATE EXTENSION appendable_bytea;
SET appendable_bytea.store_differences = on;
CREATE FUNCTION random_bytes(seed int, size int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
	$$ SELECT substr(string_agg(sha256(int4send(seed) || int4send(i)), '' ORDER BY i), 1, size) FROM generate_series(1, size / 32 + 1) i $$;
CREATE TABLE t (id int PRIMARY KEY, data appendable_bytea, wanted bytea);
INSERT INTO t SELECT i, random_bytes(i, 40000), random_bytes(i, 40000) FROM generate_series(1, 3) i;
DO $do$ BEGIN
	FOR i IN 1 .. 30 LOOP
		UPDATE t SET data = d, wanted = d FROM (SELECT id AS i, overlay(wanted PLACING random_bytes(i, i * 11) FROM 1 + i * 1237 FOR i) AS d FROM t) q WHERE id = q.i;
	END LOOP;
END $do$;
UPDATE t SET data = appendable_drop_front(data, 5000 * id), wanted = substr(wanted, 5000 * id + 1);
UPDATE t SET data = appendable_drop_front(data, 1) || random_bytes(4, 10000), wanted = substr(wanted, 2) || random_bytes(4, 10000);
});
my $digest = 'SELECT id, md5(data), md5(data) = md5(wanted), data = wanted, substr(data, 20000, 5000) = substr(wanted, 20000, 5000) FROM t ORDER BY id';
my $values = $node->safe_psql('d', $digest);
unlike($values, qr/\bf\b/, 'the values are what was stored');
is($node->safe_psql('d', q{SELECT count(*) FROM appendable_bytea_check()}), '0', 'and are found intact');
$node->wait_for_catchup($standby);
is($standby->safe_psql('d', $digest), $values, 'the standby reads the same');

# A snapshot of the standby outlives pieces that are given up.
my ($status, $out, $err) = $standby->psql('d', qq{
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM t;
\\! psql -X -q -d "${\$node->connstr('d')}" -c "SET appendable_bytea.store_differences = on" -c "UPDATE t SET data = overlay(wanted PLACING random_bytes(99, 9000) FROM 3000 FOR 9000)" >/dev/null
SELECT pg_sleep(0.5);
$digest;
COMMIT;
});
like($out, qr/\Q$values\E/, 'an old snapshot of the standby reads the old pieces');
$node->safe_psql('d', q{UPDATE t SET wanted = data});
$values = $node->safe_psql('d', $digest);
$node->wait_for_catchup($standby);
is($standby->safe_psql('d', $digest), $values, 'and a new one the new pieces');

my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, '-d', $node->connstr('d') ], 'dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $node->connstr('restored') ], 'restore');
is($node->safe_psql('restored', $digest), $values, 'a restored dump has the same values');
is($node->safe_psql('restored', q{SELECT count(*) FROM appendable_bytea_check()}), '0', 'and is intact');

# The server is killed, and the standby promoted.
$node->safe_psql('d', q{SET appendable_bytea.store_differences = on;
UPDATE t SET data = d, wanted = d FROM (SELECT id AS i, overlay(wanted PLACING random_bytes(98, 777) FROM 5000 FOR 20) AS d FROM t) q WHERE id = q.i});
$values = $node->safe_psql('d', $digest);
$node->wait_for_catchup($standby);
$node->stop('immediate');
$node->start;
is($node->safe_psql('d', $digest), $values, 'the values survive a crash');
$standby->promote;
is($standby->safe_psql('d', $digest), $values, 'and the promotion of the standby');
$standby->safe_psql('d', q{SET appendable_bytea.store_differences = on;
UPDATE t SET data = d, wanted = d FROM (SELECT id AS i, overlay(wanted PLACING random_bytes(97, 777) FROM 15000 FOR 20) AS d FROM t) q WHERE id = q.i});
unlike($standby->safe_psql('d', $digest), qr/\bf\b/, 'which replaces values');
is($standby->safe_psql('d', q{SELECT count(*) FROM appendable_bytea_check()}), '0', 'and leaves them intact');
$standby->stop;

# Decoded whole, also if the pieces were given up and vacuumed since.
$node->append_conf('postgresql.conf', 'wal_level = logical');
$node->restart;
$node->safe_psql('d', q{
SELECT pg_create_logical_replication_slot('s', 'test_decoding');
SET appendable_bytea.store_differences = on;
CREATE TABLE decoded (id int PRIMARY KEY, data appendable_bytea);
INSERT INTO decoded VALUES (1, random_bytes(1, 30000));
UPDATE decoded SET data = overlay(random_bytes(1, 30000) PLACING random_bytes(2, 500) FROM 9000 FOR 3);
UPDATE decoded SET data = overlay(random_bytes(1, 30000) PLACING random_bytes(3, 500) FROM 100 FOR 12000);
UPDATE decoded SET data = data || random_bytes(4, 900);
UPDATE decoded SET data = random_bytes(5, 10000);
VACUUM;
});
is($node->safe_psql('d', q{
SELECT string_agg(md5(decode(substring(data FROM E'data\\\\[[a-z_.]*\\\\]:\'\\\\\\\\x([0-9a-f]*)'), 'hex')), ' ' ORDER BY lsn)
FROM pg_logical_slot_get_changes('s', NULL, NULL) WHERE data ~ 'decoded: '}),
	$node->safe_psql('d', q{SELECT concat_ws(' ', md5(random_bytes(1, 30000)),
	md5(overlay(random_bytes(1, 30000) PLACING random_bytes(2, 500) FROM 9000 FOR 3)),
	md5(overlay(random_bytes(1, 30000) PLACING random_bytes(3, 500) FROM 100 FOR 12000)),
	md5(overlay(random_bytes(1, 30000) PLACING random_bytes(3, 500) FROM 100 FOR 12000) || random_bytes(4, 900)),
	md5(random_bytes(5, 10000)))}), 'decoded values are whole');
$node->stop;
for my $server ($node, $standby)
{
	my @crashes = grep { /TRAP:|PANIC:|was terminated by signal (?!9:)|startup process .* exited/ } split(/\n/, slurp_file($server->logfile));
	is("@crashes", '', 'no crash but those');
}
done_testing();
