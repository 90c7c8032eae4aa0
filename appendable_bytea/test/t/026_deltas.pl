
# appendable_deltas(): a consumer of logical decoding gets the bytes that were appended, not the
# value, and gets exactly what was committed.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('deltas');
$node->init(allows_streaming => 'logical', extra => [ '--encoding=UTF8', '--no-locale' ]);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'appendable_bytea'
autovacuum = off
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION appendable_bytea;
CREATE TABLE runs (id int PRIMARY KEY, log appendable_text, data appendable_bytea, note text, document appendable_json) WITH (fillfactor = 80);
CREATE TRIGGER deltas AFTER INSERT OR UPDATE OR DELETE ON runs FOR EACH ROW EXECUTE FUNCTION appendable_deltas('id');
CREATE TRIGGER deltas_truncate AFTER TRUNCATE ON runs FOR EACH STATEMENT EXECUTE FUNCTION appendable_deltas('id');
CREATE TABLE parts (id int, log appendable_text, other appendable_text) PARTITION BY RANGE (id);
CREATE TABLE part1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE TABLE part2 PARTITION OF parts FOR VALUES FROM (10) TO (20);
CREATE TRIGGER deltas AFTER INSERT OR UPDATE OR DELETE ON parts FOR EACH ROW EXECUTE FUNCTION appendable_deltas('id', 'log');
CREATE PUBLICATION deltas;
SELECT pg_create_logical_replication_slot('s', 'pgoutput');
});
my $options = q{NULL, NULL, 'proto_version', '1', 'publication_names', 'deltas', 'messages', 'true'};
my $start = length('appendable_deltas') + 1 + 1 + 8 + 1 + 4;

# messages(): those since the last call, without the name of the schema
sub messages
{
	my $got = $node->safe_psql('postgres', qq{
SELECT rtrim(replace(convert_from(substr(data, $start + 1), 'UTF8'), '"schema": "public", ', ''), chr(10))
FROM pg_logical_slot_get_binary_changes('s', $options) WHERE get_byte(data, 0) = ascii('M')});
	return $got;
}

sub writes
{
	my ($what, $sql, @want) = @_;
	$node->safe_psql('postgres', $sql);
	is(messages(), join("\n", @want), $what);
	return;
}

writes('a new row', q{INSERT INTO runs VALUES (1, 'line 1', NULL)},
	'{"op": "set", "table": "runs", "key": {"id": "1"}, "column": "log", "type": "text", "offset": 0, "length": 6}', 'line 1',
	'{"op": "null", "table": "runs", "key": {"id": "1"}, "column": "data"}');
writes('an append', q{UPDATE runs SET log = log || E'\nline 2'},
	'{"op": "append", "table": "runs", "key": {"id": "1"}, "column": "log", "type": "text", "offset": 6, "length": 7}', '', 'line 2');
writes('a value that was null', q{UPDATE runs SET data = 'bytes'},
	'{"op": "set", "table": "runs", "key": {"id": "1"}, "column": "data", "type": "bytea", "offset": 0, "length": 5}', 'bytes');
writes('no change', q{UPDATE runs SET note = 'x', log = log, data = data || ''});
writes('another value', q{UPDATE runs SET log = 'other', data = data || '+'},
	'{"op": "set", "table": "runs", "key": {"id": "1"}, "column": "log", "type": "text", "offset": 0, "length": 5}', 'other',
	'{"op": "append", "table": "runs", "key": {"id": "1"}, "column": "data", "type": "bytea", "offset": 5, "length": 1}', '+');
writes('what is rolled back is not sent', q{
BEGIN; UPDATE runs SET log = log || 'lost'; ROLLBACK;
BEGIN; UPDATE runs SET log = log || '1'; SAVEPOINT s; UPDATE runs SET log = log || 'lost'; ROLLBACK TO s; UPDATE runs SET log = log || '2'; COMMIT},
	'{"op": "append", "table": "runs", "key": {"id": "1"}, "column": "log", "type": "text", "offset": 5, "length": 1}', '1',
	'{"op": "append", "table": "runs", "key": {"id": "1"}, "column": "log", "type": "text", "offset": 6, "length": 1}', '2');
writes('a column of json is not sent', q{
UPDATE runs SET document = '[1]'; UPDATE runs SET document = '[1, 2]', log = log || '.'},
	'{"op": "append", "table": "runs", "key": {"id": "1"}, "column": "log", "type": "text", "offset": 7, "length": 1}', '.');
writes('another key, null, deletion', q{
UPDATE runs SET id = 2, data = NULL; UPDATE runs SET log = NULL; DELETE FROM runs; TRUNCATE runs},
	'{"op": "delete", "table": "runs", "key": {"id": "1"}}',
	'{"op": "set", "table": "runs", "key": {"id": "2"}, "column": "log", "type": "text", "offset": 0, "length": 8}', 'other12.',
	'{"op": "null", "table": "runs", "key": {"id": "2"}, "column": "data"}',
	'{"op": "null", "table": "runs", "key": {"id": "2"}, "column": "log"}',
	'{"op": "delete", "table": "runs", "key": {"id": "2"}}',
	'{"op": "truncate", "table": "runs"}');
writes('partitions', q{INSERT INTO parts VALUES (1, 'a', 'b'); UPDATE parts SET log = log || 'c', other = other || 'd'; UPDATE parts SET id = 11},
	'{"op": "set", "table": "parts", "key": {"id": "1"}, "column": "log", "type": "text", "offset": 0, "length": 1}', 'a',
	'{"op": "append", "table": "parts", "key": {"id": "1"}, "column": "log", "type": "text", "offset": 1, "length": 1}', 'c',
	'{"op": "delete", "table": "parts", "key": {"id": "1"}}',
	'{"op": "set", "table": "parts", "key": {"id": "11"}, "column": "log", "type": "text", "offset": 0, "length": 2}', 'ac');

# a long value comes in parts, which end with a character
$node->safe_psql('postgres', q{INSERT INTO runs VALUES (1, 'x' || repeat('é', 5 * 1024 * 1024))});
is($node->safe_psql('postgres', qq{
SELECT string_agg(concat_ws(' ', head->>'op', head->>'offset', head->>'length', octet_length(body)), '; ' ORDER BY n) || ' ' || (string_agg(body, '' ORDER BY n) = (SELECT log FROM runs))
FROM (SELECT n, split_part(content, chr(10), 1)::json AS head, split_part(content, chr(10), 2) AS body
	FROM (SELECT n, convert_from(substr(data, $start + 1), 'UTF8') AS content
		FROM pg_logical_slot_get_binary_changes('s', $options) WITH ORDINALITY c(lsn, xid, data, n) WHERE get_byte(data, 0) = ascii('M')) m) h
WHERE head->>'column' = 'log'}),
	join('; ', 'set 0 1048575 1048575', map({ 'append ' . (1048575 + $_ * 1048576) . ' 1048576 1048576' } 0 .. 8), 'append 10485759 2 2') . ' true',
	'a long value');

# an append to a long value: what goes through the slot does not depend on its length
$node->safe_psql('postgres', q{UPDATE runs SET log = log || repeat('y', 1000)});
my $bytes = $node->safe_psql('postgres', "SELECT sum(octet_length(data)) FROM pg_logical_slot_get_binary_changes('s', $options)");
cmp_ok($bytes, '<=', 2000, 'at most 2 kB for 1 kB that is appended to 10 MB');

# after a crash the slot continues with the committed changes
$node->safe_psql('postgres', q{UPDATE runs SET log = log || 'before the crash'});
$node->stop('immediate');
$node->start;
like(messages(), qr/"offset": 10486761, "length": 16\}\nbefore the crash$/, 'an append before a crash is decoded after it');

# bytes that are dropped at the front are sent as their number, whatever the length of the value
$node->safe_psql('postgres', q{
TRUNCATE runs;
ALTER TABLE runs DISABLE TRIGGER deltas;
SET appendable_bytea.compress_new = off;
INSERT INTO runs (id, log, data) VALUES (1, repeat('0123456789abcde' || chr(10), 6553600), convert_to(repeat('x', 1000), 'UTF8'));
ALTER TABLE runs ENABLE TRIGGER deltas;
SELECT pg_drop_replication_slot('s');
SELECT pg_create_logical_replication_slot('s', 'pgoutput')});
my $log = '"table": "runs", "key": {"id": "1"}, "column": "log"';
$node->safe_psql('postgres', q{UPDATE runs SET log = log || repeat('y', 1000)});
$bytes = $node->safe_psql('postgres', "SELECT sum(octet_length(data)) FROM pg_logical_slot_peek_binary_changes('s', $options)");
cmp_ok($bytes, '<=', 2000, 'at most 2 kB for 1 kB that is appended to 100 MB');
is(messages(), qq({"op": "append", $log, "type": "text", "offset": 104857600, "length": 1000}\n) . 'y' x 1000, 'and they are the appended bytes');
writes('a dropped front of a value of 100 MB', q{UPDATE runs SET log = appendable_drop_front(log, 50000000)},
	qq({"op": "drop", $log, "offset": 104858600, "dropped": 50000000}));
$node->safe_psql('postgres', q{UPDATE runs SET log = appendable_drop_front(log, 10000001) || 'more'});
$bytes = $node->safe_psql('postgres', "SELECT sum(octet_length(data)) FROM pg_logical_slot_peek_binary_changes('s', $options)");
cmp_ok($bytes, '<=', 2000, 'at most 2 kB for it');
is(messages(), qq({"op": "drop", $log, "offset": 54858600, "dropped": 10000001}\n{"op": "append", $log, "type": "text", "offset": 44858599, "length": 4}\nmore),
	'a front is dropped and bytes are appended');
writes('one of several pieces', q{
BEGIN;
UPDATE runs SET log = appendable_drop_front(log, 1);
SAVEPOINT s; UPDATE runs SET log = appendable_drop_front(log, 44000000); ROLLBACK TO s;
SET LOCAL appendable_bytea.store_differences = on;
UPDATE runs SET log = appendable_drop_front(log, 44000000) || repeat('y', 1000);
SAVEPOINT s; UPDATE runs SET log = appendable_drop_front(log, 10); ROLLBACK TO s;
ALTER TABLE runs DISABLE TRIGGER deltas;
UPDATE runs SET log = left(log, 200000) || 'inserted' || right(log, -200000);
ALTER TABLE runs ENABLE TRIGGER deltas;
UPDATE runs SET log = appendable_drop_front(log, 100000);
UPDATE runs SET log = appendable_drop_front(log, 100010) || '.';
COMMIT},
	qq({"op": "drop", $log, "offset": 44858603, "dropped": 1}),
	qq({"op": "drop", $log, "offset": 44858602, "dropped": 44000000}),
	qq({"op": "append", $log, "type": "text", "offset": 858602, "length": 1000}), 'y' x 1000,
	qq({"op": "drop", $log, "offset": 859610, "dropped": 100000}),
	qq({"op": "drop", $log, "offset": 759610, "dropped": 100010}),
	qq({"op": "append", $log, "type": "text", "offset": 659600, "length": 1}), '.');
# what is not only a front is a new value
for my $change ("left(appendable_drop_front(log, 500), -1)", "'x' || appendable_drop_front(log, 500)",
	"overlay(appendable_drop_front(log, 500)::text placing '*' from 100000 for 1)")
{
	$node->safe_psql('postgres', "SET appendable_bytea.store_differences = on; UPDATE runs SET log = $change");
	my $ops = $node->safe_psql('postgres', qq{
SELECT split_part(split_part(encode(substr(data, $start + 1, 20), 'escape'), '"op": "', 2), '"', 1)
FROM pg_logical_slot_get_binary_changes('s', $options) WHERE get_byte(data, 0) = ascii('M')});
	is($ops, 'set', "$change is a new value");
}
writes('a short value is sent whole', q{UPDATE runs SET data = appendable_drop_front(data, 998)},
	'{"op": "set", "table": "runs", "key": {"id": "1"}, "column": "data", "type": "bytea", "offset": 0, "length": 2}', 'xx');
$node->safe_psql('postgres', q{UPDATE runs SET log = appendable_drop_front(log, 100)});
$node->stop('immediate');
$node->start;
like(messages(), qr/"op": "drop", .* "dropped": 100\}$/, 'a front that was dropped before a crash');

# wrong uses
for my $wrong (
	[ q{CREATE TRIGGER w BEFORE UPDATE ON runs FOR EACH ROW EXECUTE FUNCTION appendable_deltas('id')}, qr/must be fired AFTER/ ],
	[ q{CREATE TRIGGER w AFTER UPDATE ON runs FOR EACH STATEMENT EXECUTE FUNCTION appendable_deltas('id')}, qr/must be fired AFTER/ ],
	[ q{CREATE TRIGGER w AFTER UPDATE ON runs FOR EACH ROW EXECUTE FUNCTION appendable_deltas()}, qr/missing argument/ ],
	[ q{CREATE TRIGGER w AFTER UPDATE ON runs FOR EACH ROW EXECUTE FUNCTION appendable_deltas('none')}, qr/does not exist/ ],
	[ q{CREATE TRIGGER w AFTER UPDATE ON runs FOR EACH ROW EXECUTE FUNCTION appendable_deltas('note')}, qr/must not be null/ ],
	[ q{CREATE TRIGGER w AFTER UPDATE ON runs FOR EACH ROW EXECUTE FUNCTION appendable_deltas('id', 'note')}, qr/has no column "note" of type/ ],
	[ q{CREATE TRIGGER w AFTER UPDATE ON runs FOR EACH ROW EXECUTE FUNCTION appendable_deltas('id', 'document')}, qr/has no column "document" of type/ ])
{
	my ($create, $error) = @$wrong;
	my ($code, $out, $err) = $node->psql('postgres', "BEGIN; $create; UPDATE runs SET log = log || 'x'; COMMIT");
	like($err, $error, $create);
}

# without logical decoding there is nothing to write
$node->safe_psql('postgres', q{SELECT pg_drop_replication_slot('s')});
$node->append_conf('postgresql.conf', 'wal_level = replica');
$node->restart;
$node->safe_psql('postgres', q{UPDATE runs SET log = log || 'x'});
is($node->safe_psql('postgres', 'SELECT right(log::text, 1) FROM runs'), 'x', 'with another wal_level, the trigger does nothing');

$node->stop;
done_testing();
