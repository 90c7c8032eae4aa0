
# pg_dump and pg_restore carry values as bytes; stores are created again.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('dump');
$node->init;
$node->append_conf('postgresql.conf', 'fsync = off');
$node->start;
my $dir = $node->basedir;

# the library is not preloaded: everything must load it in time
$node->safe_psql('postgres', 'CREATE EXTENSION appendable_bytea');
$node->safe_psql('postgres', q{
CREATE TABLE t (id int PRIMARY KEY, data appendable_bytea, note text) WITH (fillfactor = 80);
INSERT INTO t SELECT i, convert_to(repeat(md5(i::text), i * 300), 'UTF8'), 'n' || i FROM generate_series(0, 6) i;
INSERT INTO t VALUES (10, NULL, 'null');
UPDATE t SET data = data || '\x00ff'::bytea;
UPDATE t SET data = appendable_write(data, '\xaa', 1, 1) WHERE id = 5;
CREATE TABLE child (id int, t_id int REFERENCES t, data appendable_bytea);
INSERT INTO child SELECT 1, 5, data FROM t WHERE id = 5;
CREATE TABLE p (id int, data appendable_bytea) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (4);
CREATE TABLE p2 PARTITION OF p DEFAULT;
INSERT INTO p SELECT id, data FROM t;
CREATE VIEW v AS SELECT id, length(data) AS l FROM t;
});
my $digest = q{SELECT 't', id, md5(data), note FROM t UNION ALL SELECT 'child', id, md5(data), '' FROM child
	UNION ALL SELECT tableoid::regclass::text, id, md5(data), '' FROM p ORDER BY 1, 2};
my $want = $node->safe_psql('postgres', $digest);

sub check_restored
{
	my ($db, $what) = @_;
	is($node->safe_psql($db, $digest), $want, "$what: values");
	is($node->safe_psql($db, q{SELECT string_agg(relname || ' ' || amname, ', ' ORDER BY relname) FROM pg_class c JOIN pg_am a ON a.oid = relam
		WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace}),
		'child appendable_heap, p1 appendable_heap, p2 appendable_heap, t appendable_heap', "$what: access methods");
	$node->safe_psql($db, q{UPDATE t SET data = data || '\x01'::bytea});
	is($node->safe_psql($db, 'SELECT count(*) FROM appendable_bytea_check()'), '0', "$what: chunks");
	return;
}

my $plain = "$dir/plain.sql";
command_ok([ 'pg_dump', '-f', $plain, $node->connstr('postgres') ], 'plain dump');
unlike(slurp_file($plain), qr/chunks_/, 'stores are not dumped');
$node->safe_psql('postgres', 'CREATE DATABASE plain');
command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $plain, $node->connstr('plain') ], 'plain restore');
check_restored('plain', 'plain');

my $custom = "$dir/custom";
command_ok([ 'pg_dump', '-Fc', '-f', $custom, $node->connstr('postgres') ], 'custom dump');
$node->safe_psql('postgres', 'CREATE DATABASE custom');
command_ok([ 'pg_restore', '-j', '4', '-d', $node->connstr('custom'), $custom ], 'restore with four jobs');
check_restored('custom', 'custom -j4');

$node->safe_psql('postgres', 'CREATE DATABASE dataonly');
command_ok([ 'pg_restore', '-s', '-d', $node->connstr('dataonly'), $custom ], 'schema alone');
command_ok([ 'pg_restore', '-a', '--disable-triggers', '-d', $node->connstr('dataonly'), $custom ],
	'data alone, triggers disabled');
check_restored('dataonly', 'data only');

command_ok([ 'pg_dump', '-Fd', '-j', '4', '-f', "$dir/folder", $node->connstr('postgres') ], 'dump with four jobs');
$node->safe_psql('postgres', 'CREATE DATABASE folder');
command_ok([ 'pg_restore', '-j', '4', '-d', $node->connstr('folder'), "$dir/folder" ], 'restore with four jobs');
check_restored('folder', 'folder -j4');

command_ok([ 'pg_dump', '--inserts', '-f', "$dir/inserts.sql", $node->connstr('postgres') ], 'dump as INSERTs');
$node->safe_psql('postgres', 'CREATE DATABASE inserts');
command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/inserts.sql", $node->connstr('inserts') ], 'restore from INSERTs');
check_restored('inserts', 'inserts');

# Binary COPY, and a table whose command was the first that a session ran.
$node->safe_psql('postgres', qq{COPY t TO '$dir/t.bin' (FORMAT binary)});
$node->safe_psql('postgres', 'CREATE TABLE first AS SELECT * FROM t LIMIT 0');
is($node->safe_psql('postgres', q{SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname = 'first'}),
	'appendable_heap', 'the first command of a session attaches');
$node->safe_psql('postgres', qq{COPY first FROM '$dir/t.bin' (FORMAT binary)});
is($node->safe_psql('postgres', 'SELECT count(*) FROM t JOIN first USING (id) WHERE t.data IS NOT DISTINCT FROM first.data'), '8', 'binary COPY');

is($node->safe_psql('postgres', 'SELECT count(*) FROM appendable_bytea_check()'), '0', 'chunks after all');
$node->stop;
done_testing();
