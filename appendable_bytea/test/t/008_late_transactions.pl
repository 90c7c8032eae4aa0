
# A server that has seen 2^39 transactions stores values as before, next to older ones:
# a value's id is made of the transaction's.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('late');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'appendable_bytea'\n");
my $number = 0;

# epoch: the upper 32 bits of transaction ids
for my $epoch (0, 63, 64, 200, 60000)
{
	command_ok([ 'pg_resetwal', '-e', $epoch, '-D', $node->data_dir ], "epoch $epoch") if $epoch;
	$node->start;
	$node->safe_psql('postgres', q{
CREATE EXTENSION appendable_bytea;
CREATE TABLE t (id int PRIMARY KEY, data appendable_bytea);
}) if !$epoch;
	$number++;
	$node->safe_psql('postgres', qq{
UPDATE t SET data = data || convert_to(repeat('+', 20000), 'UTF8');
INSERT INTO t SELECT $number * 10 + i, convert_to(repeat('a', 20000), 'UTF8') FROM generate_series(1, 3) i;
});
	is($node->safe_psql('postgres', q{SELECT count(*), count(*) FILTER (WHERE md5(data) = md5(repeat('a', 20000) || repeat('+', (length(data) - 20000)::int))) FROM t}),
		3 * $number . '|' . 3 * $number, "values of epoch $epoch and before");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM appendable_bytea_check()'), '0', 'their chunks');
	is($node->safe_psql('postgres', q{SELECT min(length(data)), max(length(data)) FROM t}), '20000|' . 20000 * $number, 'their lengths');
	$node->stop;
}

# in a transaction that stores more values than one id leaves room for
$node->start;
$node->safe_psql('postgres', q{
SET appendable_bytea.inline_max = 0;
CREATE TABLE many AS SELECT i AS id, convert_to(i::text, 'UTF8')::appendable_bytea AS data FROM generate_series(1, 40000) i;
});
is($node->safe_psql('postgres', q{SELECT count(*), count(*) FILTER (WHERE data = convert_to(id::text, 'UTF8')) FROM many}), '40000|40000', 'many values of one transaction');
$node->stop;
done_testing();
