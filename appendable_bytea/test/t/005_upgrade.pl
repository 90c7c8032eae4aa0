
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
# json of some kB, and the same with one member changed, in the middle and at its end
my $documents = q{SELECT g AS id, jsonb_build_object('name', 'n' || g, 'list', (SELECT jsonb_agg(jsonb_build_object('n', i, 'text', md5(i::text || g))) FROM generate_series(1, 300 * g) i)) AS doc FROM generate_series(1, 4) g};
my $json = q{SELECT id, md5(doc::text), md5(tree::text), doc -> 'list' -> 150 ->> 'text', tree -> 'list' -> 150 ->> 'text', tree ->> 'name', jsonb_array_length(tree -> 'list') FROM j ORDER BY id};
my $chunk_bytes = q{SELECT sum(chunk_bytes) FROM appendable_bytea_stats('j')};
my ($before, $replaced, $want_json) = ($servers->run('old',
	'CREATE EXTENSION appendable_bytea',
	'CREATE TABLE j (id int PRIMARY KEY, doc appendable_json, tree appendable_jsonb) WITH (fillfactor = 50)',
	"INSERT INTO j SELECT id, doc::text::json, doc FROM ($documents) d", $chunk_bytes,
	q{SET appendable_bytea.store_differences = on; UPDATE j SET doc = jsonb_set(doc::text::jsonb, '{list,149,text}', '"changed"')::text::json, tree = jsonb_set(tree::jsonb, '{list,149,text}', '"changed"'); UPDATE j SET tree = jsonb_set(tree::jsonb, '{list,10,text}', '"too"')},
	$chunk_bytes, $json))[3, 5, 6];
cmp_ok($replaced, '<', 1.5 * $before, 'json is stored as differences before the upgrade');
my (undef, undef, undef, undef, $want) = $servers->run('old',
	'CREATE TABLE t (id int PRIMARY KEY, data appendable_bytea, log appendable_text) WITH (fillfactor = 80)',
	q{INSERT INTO t SELECT i, convert_to(repeat(md5(i::text), i * 300), 'UTF8'), repeat('line ' || i || U&' \20AC ', i * 300) FROM generate_series(0, 6) i; UPDATE t SET data = data || '\x00ff'::bytea, log = log || U&'\00DF\20AC'; UPDATE t SET data = appendable_write(data, '\xaa', 1, 1) WHERE id = 5},
	# lists of pieces
	q{SET appendable_bytea.store_differences = on; UPDATE t SET data = overlay(data::bytea PLACING '\xaabb' FROM id * 2000 FOR 1), log = overlay(log::text PLACING 'pieces' FROM id * 1000) WHERE id > 2;
UPDATE t SET data = overlay(data PLACING '\xcc' FROM 3), log = overlay(log PLACING 'more' FROM 3) WHERE id = 6},
	'CREATE UNLOGGED TABLE u AS SELECT * FROM t; CREATE TABLE short (id int, data appendable_bytea, log appendable_text)',
	$digest);
$servers->upgrade;
my ($got, $got_json, undef, $check, $after) = $servers->run('new', $digest, $json,
	q{SET appendable_bytea.store_differences = on; UPDATE t SET data = overlay(data::bytea PLACING '' FROM 5000 FOR 9) WHERE id > 4; UPDATE t SET data = data || '\x01'::bytea, log = log || 'more'; INSERT INTO short SELECT * FROM t; DELETE FROM short WHERE id = 1; UPDATE j SET tree = jsonb_set(tree::jsonb, '{list,20,text}', '"after"') WHERE id > 2; UPDATE j SET doc = tree::text::json},
	'SELECT count(*) FROM appendable_bytea_check()',
	q{DROP TABLE u; SELECT count(*) FROM pg_class WHERE relnamespace = 'appendable_store'::regnamespace AND relkind = 'r'});
is($got, $want, 'the same values');
is($got_json, $want_json, 'the same json and jsonb');
is($check, "0\n", 'chunks are right');
is($after, "3\n", 'a store goes with its table');
done_testing();
