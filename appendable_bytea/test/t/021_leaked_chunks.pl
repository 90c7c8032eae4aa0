
# Rows that other extensions delete below the access method, as pglogical's apply worker
# does, leave chunks.  Repair removes those while readers and writers continue, in parts if
# it is asked to, and no chunk of a value that a transaction may still need.
use strict;
use warnings;

use Cwd qw(abs_path);
use FindBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('leaked');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\nshared_preload_libraries = 'appendable_bytea'\nmax_prepared_transactions = 2\n");
$node->start;
my $library = abs_path("$FindBin::RealBin/../analyse/ab_test_analyse.so");
$node->safe_psql('postgres', qq{
CREATE EXTENSION appendable_bytea;
CREATE FUNCTION ab_test_heap_delete(regclass, tid) RETURNS void LANGUAGE C STRICT AS '$library';
CREATE TABLE t (id int PRIMARY KEY, data appendable_bytea) WITH (fillfactor = 70);
INSERT INTO t SELECT i, convert_to(repeat(i::text, 20000), 'UTF8') FROM generate_series(1, 20) i;
UPDATE t SET data = data || convert_to(repeat('more', 5000), 'UTF8');
CREATE TABLE expected AS SELECT id, md5(data) FROM t;
CREATE FUNCTION wrong() RETURNS SETOF text LANGUAGE sql AS 'SELECT problem FROM appendable_bytea_check(''t'') UNION ALL SELECT id::text FROM t JOIN expected USING (id) WHERE md5(data) <> md5';
});
is($node->safe_psql('postgres', 'SELECT wrong()'), '', 'before');

# a reader with an old snapshot, a writer in progress, and a prepared transaction
my $reader = $node->background_psql('postgres');
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class');
my $writer = $node->background_psql('postgres');
$writer->query_safe(q{BEGIN; UPDATE t SET data = data || convert_to(repeat('w', 20000), 'UTF8') WHERE id = 15; DELETE FROM t WHERE id = 16; INSERT INTO t VALUES (100, convert_to(repeat('n', 20000), 'UTF8')); SELECT ab_test_heap_delete('t', ctid) FROM t WHERE id = 18});
$node->safe_psql('postgres', q{BEGIN; UPDATE t SET data = data || 'p' WHERE id = 17; PREPARE TRANSACTION 'p'});
my $leaked = $node->safe_psql('postgres', q{SELECT sum((SELECT count(*) FROM appendable_chunks(data, 1000000))) FROM t WHERE id <= 10; SELECT ab_test_heap_delete('t', ctid) FROM t WHERE id <= 10;});
like($node->safe_psql('postgres', 'SELECT wrong()'), qr{^\d+ chunks belong to no value$}, 'they are leaked');
my ($chunks) = $node->safe_psql('postgres', 'SELECT wrong()') =~ /^(\d+)/;
ok($chunks > 20, "$chunks chunks");

# in parts, with all of these at work: lock_timeout shows that none is waited for
is($node->safe_psql('postgres', q{SET lock_timeout = '5s'; SELECT chunks_removed FROM appendable_bytea_repair('t', 7)}), '7', 'a part of them');
is($node->safe_psql('postgres', q{SELECT chunks_removed FROM appendable_bytea_repair('t', 0)}), '0', 'none');
is($node->safe_psql('postgres', q{SET lock_timeout = '5s'; SELECT chunks_removed FROM appendable_bytea_repair('t')}), $chunks - 7, 'the others');
is($node->safe_psql('postgres', 'SELECT wrong()'), '', 'nothing else');
$node->safe_psql('postgres', 'VACUUM');
is($reader->query_safe('SELECT count(*) FROM t JOIN expected USING (id) WHERE md5(data) = md5'), '20', 'the old snapshot reads all that it sees');
$reader->query_safe('COMMIT');
$writer->query_safe('COMMIT');
$node->safe_psql('postgres', q{COMMIT PREPARED 'p'});
is($node->safe_psql('postgres', q{SELECT count(*), sum(length(data)) > 0 FROM t; SELECT id, right(convert_from(data, 'UTF8'), 1) FROM t WHERE id IN (15, 17, 100) ORDER BY id}),
	"9|t\n15|w\n17|p\n100|n", 'transactions that were in progress keep their values');
my ($rest) = $node->safe_psql('postgres', q{SELECT problem FROM appendable_bytea_check('t')}) =~ /^(\d+) chunks/;
ok($rest, 'one more row was deleted so meanwhile');
is($node->safe_psql('postgres', q{SELECT chunks_removed FROM appendable_bytea_repair('t')}), $rest, 'its chunks go when it has ended');
is($node->safe_psql('postgres', q{SELECT problem FROM appendable_bytea_check('t')}), '', 'and no others');

# Only a snapshot keeps vacuum from chunks: who reads a value without one is told so.
$node->safe_psql('postgres', qq{CREATE PROCEDURE ab_test_read_without_snapshot(appendable_bytea) LANGUAGE C AS '$library';
	CREATE FUNCTION value(int) RETURNS appendable_bytea LANGUAGE sql AS 'SELECT data FROM t WHERE id = \$1'});
my ($status, $stdout, $stderr) = $node->psql('postgres', q{CALL ab_test_read_without_snapshot(value(15))});
like($stderr, qr/cannot read an appendable value without an active snapshot/, 'a reader without a snapshot');

# pages are free again once vacuum has seen to them
$node->safe_psql('postgres', q{SELECT ab_test_heap_delete('t', ctid) FROM t; SELECT appendable_bytea_repair('t'); VACUUM});
is($node->safe_psql('postgres', q{SELECT chunk_bytes, "values" FROM appendable_bytea_stats('t')}), '0|0', 'nothing is left');
$reader->quit;
$writer->quit;
$node->stop;
done_testing();
