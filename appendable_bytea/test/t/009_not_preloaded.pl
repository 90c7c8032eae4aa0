
# Nothing has to be preloaded: sessions load the library when they need it, also when
# that is late, and ordinary autovacuum looks after the chunks.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('late');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\n");
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION appendable_bytea;
CREATE TABLE t (id int PRIMARY KEY, data appendable_bytea);
INSERT INTO t VALUES (1, convert_to(repeat('t', 30000), 'UTF8'));
CREATE FUNCTION f() RETURNS appendable_bytea LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN (SELECT data FROM t); END $$;
});
$node->safe_psql('postgres', 'CREATE TABLE made AS SELECT 1 AS id, f() AS data');
is($node->safe_psql('postgres', q{SELECT made.data = t.data FROM made, t}), 't', 'a table that a first statement makes');

# EXPLAIN is no command that event triggers see, and makes the table before it calls f()
my ($status, $stdout, $stderr) = $node->psql('postgres', 'EXPLAIN ANALYZE CREATE TABLE stray AS SELECT 1 AS id, f() AS data');
if ($status == 0)
{
	pass('EXPLAIN ANALYZE CREATE TABLE AS found the library there');
}
else
{
	like($stderr, qr/was created before library "appendable_bytea" was loaded.*Run the command again/s, 'a table that was made too early is refused');
}
$node->safe_psql('postgres', 'DROP TABLE IF EXISTS stray');
is($node->safe_psql('postgres', q{
SELECT length(data) FROM t;
SET client_min_messages = error;
\o /dev/null
EXPLAIN ANALYZE CREATE TABLE stray AS SELECT 1 AS id, f() AS data;
\o
DELETE FROM t;
SELECT md5(data) = md5(repeat('t', 30000)) FROM stray;
}), "30000\nt", 'and works with the library there');
$node->safe_psql('postgres', 'VACUUM');
is($node->safe_psql('postgres', q{SELECT md5(data) = md5(repeat('t', 30000)) FROM stray}), 't', 'it has a separate store');
is($node->safe_psql('postgres', q{SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE relname = 'stray'}), 'appendable_heap', 'and the access method');
is($node->safe_psql('postgres', q{SELECT count(*) FROM appendable_bytea_check()}), '0', 'check');
is($node->safe_psql('postgres', q{SELECT pg_relation_size(store) FROM appendable_bytea_stats('t')}), '0', 'deleted chunks free their space');
is($node->safe_psql('postgres', 'DROP TABLE made; SELECT 1'), '1', 'a store goes with its table in a first statement');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relnamespace = 'appendable_store'::regnamespace AND relkind = 'r'}), '2', 'two are left');
$node->stop;
done_testing();
