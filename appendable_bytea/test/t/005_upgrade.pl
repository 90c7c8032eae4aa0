
# pg_upgrade keeps values and stores, with the chunks in them (see UpgradedServers.pm).
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../../../common/test";
use PostgreSQL::Test::Utils;
use Test::More;
use UpgradedServers;

my $servers = UpgradedServers->new('appendable_bytea');
my $digest = q{SELECT id, length(data), md5(data), length(log), md5(log), right(log, 3) FROM t ORDER BY id};
my (undef, undef, undef, undef, undef, $want) = $servers->run('old',
	'CREATE EXTENSION appendable_bytea',
	'CREATE TABLE t (id int PRIMARY KEY, data appendable_bytea, log appendable_text) WITH (fillfactor = 80)',
	q{INSERT INTO t SELECT i, convert_to(repeat(md5(i::text), i * 300), 'UTF8'), repeat('line ' || i || U&' \20AC ', i * 300) FROM generate_series(0, 6) i; UPDATE t SET data = data || '\x00ff'::bytea, log = log || U&'\00DF\20AC'; UPDATE t SET data = appendable_write(data, '\xaa', 1, 1) WHERE id = 5},
	# lists of pieces
	q{SET appendable_bytea.store_differences = on; UPDATE t SET data = overlay(data::bytea PLACING '\xaabb' FROM id * 2000 FOR 1), log = overlay(log::text PLACING 'pieces' FROM id * 1000) WHERE id > 2;
UPDATE t SET data = overlay(data PLACING '\xcc' FROM 3), log = overlay(log PLACING 'more' FROM 3) WHERE id = 6},
	'CREATE UNLOGGED TABLE u AS SELECT * FROM t; CREATE TABLE short (id int, data appendable_bytea, log appendable_text)',
	$digest);
$servers->upgrade;
my ($got, undef, $check, $after) = $servers->run('new', $digest,
	q{SET appendable_bytea.store_differences = on; UPDATE t SET data = overlay(data::bytea PLACING '' FROM 5000 FOR 9) WHERE id > 4; UPDATE t SET data = data || '\x01'::bytea, log = log || 'more'; INSERT INTO short SELECT * FROM t; DELETE FROM short WHERE id = 1},
	'SELECT count(*) FROM appendable_bytea_check()',
	q{DROP TABLE u; SELECT count(*) FROM pg_class WHERE relnamespace = 'appendable_store'::regnamespace AND relkind = 'r'});
is($got, $want, 'the same values');
is($check, "0\n", 'chunks are right');
is($after, "2\n", 'a store goes with its table');
done_testing();
