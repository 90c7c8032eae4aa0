
# Values survive crashes at any moment: after recovery each is exactly the
# concatenation of what committed transactions appended, and nothing else.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../../../common/test";
use CrashedServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = PostgreSQL::Test::Cluster->new('crash');
$node->init(extra => ['--data-checksums']);
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'appendable_bytea'
autovacuum_naptime = 1
max_prepared_transactions = 4
wal_level = minimal
max_wal_senders = 0
restart_after_crash = on
});
$node->start;

# piece(i) is what the i-th change of a row appends; kinds of i differ in size, so
# that tails, single chunks and several chunks are written.
$node->safe_psql('postgres', q{
CREATE EXTENSION appendable_bytea;
CREATE TABLE t (id int PRIMARY KEY, n int, data appendable_bytea) WITH (fillfactor = 80);
CREATE FUNCTION piece(id int, i int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
	$$ SELECT decode(repeat(md5(id || ':' || i), CASE i % 10 WHEN 3 THEN 20 WHEN 6 THEN 400 WHEN 9 THEN 1300 ELSE 1 END), 'hex') $$;
CREATE FUNCTION whole(id int, n int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
	$$ SELECT coalesce(string_agg(piece(id, i), '' ORDER BY i), '') FROM generate_series(1, n) i $$;
INSERT INTO t SELECT id, 0, '' FROM generate_series(1, 6) id;
});

my $script = $node->basedir . '/append.sql';
append_to_file($script, q{
\set id random(1, 6)
\set kind random(1, 20)
BEGIN;
UPDATE t SET n = n + 1, data = data || piece(id, n + 1) WHERE id = :id;
SAVEPOINT s;
UPDATE t SET n = n + 1, data = data || piece(id, n + 1) WHERE id = :id;
\if :kind <= 10
ROLLBACK TO s;
\endif
\if :kind = 1
DELETE FROM t WHERE id = :id;
INSERT INTO t VALUES (:id, 0, '');
\endif
\if :kind = 2
UPDATE t SET n = 3, data = appendable_truncate(data, length(whole(:id, 3))) WHERE id = :id AND n > 3;
\endif
\if :kind = 4
DO $$ DECLARE next int; BEGIN
	UPDATE t SET n = n + 2 WHERE id = :id RETURNING n INTO next;
	IF FOUND THEN
		PERFORM appendable_append('t', ARRAY[:id, :id], ARRAY[piece(:id, next - 1), piece(:id, next)]);
	END IF;
END $$;
\endif
\if :kind = 3
ROLLBACK;
\else
COMMIT;
\endif
});

my $compact = $node->basedir . '/compact.sql';
append_to_file($compact, "CALL appendable_compact('t', 'id > 1');\nCALL appendable_shrink('t');\n");

sub check_values
{
	my ($what) = @_;
	is($node->safe_psql('postgres', 'SELECT count(*), sum((data = whole(id, n))::int) FROM t'),
		'6|6', "$what: every value is what was committed");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM appendable_bytea_check()'),
		'0', "$what: every chunk is right");
	return;
}

for my $round (1 .. 4)
{
	my ($out, $err) = ('', '');
	my $bench = IPC::Run::start(
		[ 'pgbench', '-n', '-c', '4', '-T', '60', '-f', "$script\@9", '-f', "$compact\@1", $node->connstr('postgres') ],
		'>', \$out, '2>', \$err);

	# until enough has been written, however fast the machine is
	my $start = $node->safe_psql('postgres', 'SELECT sum(n) FROM t');
	$node->poll_query_until('postgres',
		"SELECT n_tup_upd > 60 * $round FROM pg_stat_user_tables WHERE relname = 't'")
	  or die 'nothing is written';
	if ($round % 2)
	{
		$node->stop('immediate');
		$bench->finish;
		$node->start;
	}
	else
	{
		my $pid = $node->safe_psql('postgres',
			"SELECT pid FROM pg_stat_activity WHERE datname = 'postgres' AND backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY backend_start LIMIT 1");
		my $before = -s $node->logfile;
		kill 'KILL', $pid;
		$bench->finish;
		wait_until_back($node, $before);
	}
	check_values("crash $round");
	$node->safe_psql('postgres', 'VACUUM');
	check_values("vacuum after crash $round");
}

# Persistence: a table that becomes logged has logged chunks; an unlogged one is
# empty after a crash, with its chunks.
$node->safe_psql('postgres', q{
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE other LOCATION '';
ALTER TABLE t SET TABLESPACE other;
UPDATE t SET n = n + 1, data = data || piece(id, n + 1);
ALTER TABLE t SET UNLOGGED;
UPDATE t SET n = n + 1, data = data || piece(id, n + 1);
ALTER TABLE t SET LOGGED;
UPDATE t SET n = n + 1, data = data || piece(id, n + 1);
CREATE UNLOGGED TABLE u AS SELECT * FROM t;
BEGIN;
CREATE TABLE created AS SELECT * FROM t;
UPDATE created SET n = n + 1, data = data || piece(id, n + 1);
COMMIT;
BEGIN;
TRUNCATE created;
INSERT INTO created SELECT * FROM t;
COMMIT;
BEGIN;
TRUNCATE t;
INSERT INTO t VALUES (1, 0, '');
ROLLBACK;
BEGIN;
UPDATE t SET n = n + 1, data = data || piece(id, n + 1) WHERE id = 1;
PREPARE TRANSACTION 'first';
BEGIN;
UPDATE t SET n = n + 1, data = data || piece(id, n + 1) WHERE id = 2;
PREPARE TRANSACTION 'second';
});
$node->stop('immediate');
$node->start;
$node->safe_psql('postgres', 'VACUUM');
$node->safe_psql('postgres', "COMMIT PREPARED 'first'");
$node->safe_psql('postgres', "ROLLBACK PREPARED 'second'");
check_values('persistence, tablespaces and prepared transactions');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relname IN ('t', 'chunks_' || 't'::regclass::oid, 'chunks_' || 't'::regclass::oid || '_index')
	AND reltablespace = (SELECT oid FROM pg_tablespace WHERE spcname = 'other')}), '3', 'chunks are in the tablespace of their table');
is($node->safe_psql('postgres', 'SELECT count(*) FROM u'), '0', 'an unlogged table is empty after a crash');
is($node->safe_psql('postgres', 'SELECT count(*), sum((data = whole(id, n))::int) FROM created'),
	'6|6', 'a table that was made and filled in one transaction is whole');
$node->safe_psql('postgres', 'INSERT INTO u SELECT * FROM t');
is($node->safe_psql('postgres', 'SELECT sum((data = whole(id, n))::int) FROM u'), '6', 'and can be filled again');

# Ordinary autovacuum frees space: no worker of the extension has to run, and a value that is
# rewritten repeatedly takes the space of a few.
$node->safe_psql('postgres', q{
CREATE TABLE again (id int PRIMARY KEY, data appendable_bytea);
INSERT INTO again SELECT i, whole(i, 30) FROM generate_series(1, 4) i;
ALTER TABLE u ALTER data TYPE bytea, SET ACCESS METHOD heap;
});
is($node->safe_psql('postgres', q{SELECT to_regclass('appendable_store.chunks_' || 'u'::regclass::oid) IS NULL}), 't', 'a store goes when its table does not need it');
my $store = $node->safe_psql('postgres', q{SELECT store FROM appendable_bytea_stats('again')});
$node->safe_psql('postgres', 'ALTER TABLE again SET (autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0)');
my $vacuums = "SELECT autovacuum_count FROM pg_stat_all_tables WHERE relid = '$store'::regclass";
for my $round (1 .. 3)
{
	my $before = $node->safe_psql('postgres', $vacuums);
	$node->safe_psql('postgres', 'DELETE FROM again; INSERT INTO again SELECT i, whole(i, 30) FROM generate_series(1, 4) i');
	$node->poll_query_until('postgres', "SELECT ($vacuums) > $before") or die 'autovacuum does nothing';
}
ok($node->safe_psql('postgres', q{SELECT store_bytes < 4 * chunk_bytes FROM appendable_bytea_stats('again')}), 'space is used again');
is($node->safe_psql('postgres', 'SELECT sum((data = whole(id, 30))::int) FROM again'), '4', 'the values are right');
check_values('autovacuum');

# It leaves what an old snapshot reads.
my ($status, $stdout, $stderr) = $node->psql('postgres', qq{
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM again;
\\! psql -X -q -d "${\$node->connstr('postgres')}" -c "DELETE FROM again" -c "VACUUM"
SELECT 'read ' || sum((data = whole(id, 30))::int) FROM again;
COMMIT;
});
like($stdout, qr/^read 4$/m, 'a vacuum leaves what an old snapshot reads') or diag($stderr);
$node->safe_psql('postgres', 'VACUUM');
for (1 .. 300)
{
	# autovacuum may be at it too, and then this one does not cut the file
	$node->safe_psql('postgres', "VACUUM $store");
	last if $node->safe_psql('postgres', "SELECT pg_relation_size('$store')") eq '0';
	usleep(200_000);
}
is($node->safe_psql('postgres', "SELECT pg_relation_size('$store')"), '0', 'and no longer');
$node->stop;
done_testing();
