
# A table whose partitions are on other servers, over postgres_fdw: its columns are bytea
# here and appendable_bytea there, and what is appended here is appended there.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

sub start_node
{
	my ($name) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init;
	$node->append_conf('postgresql.conf', "fsync = off\nautovacuum = off\nmax_prepared_transactions = 10");
	$node->start;
	return $node;
}

my $here = start_node('here');
my @there = (start_node('one'), start_node('two'));
if ($here->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'postgres_fdw'}) eq '0')
{
	plan skip_all => 'postgres_fdw is not installed';
}
sub ask { my ($sql) = @_; return $here->safe_psql('postgres', $sql); }
sub there { my ($n, $sql) = @_; return $there[$n]->safe_psql('postgres', $sql); }

ask(q{CREATE EXTENSION postgres_fdw;
	CREATE TABLE logs (id int, data bytea, log text) PARTITION BY HASH (id);
	CREATE TABLE plain (id int PRIMARY KEY, data bytea, log text)});
for my $n (0, 1)
{
	there($n, q{CREATE EXTENSION appendable_bytea;
		CREATE TABLE logs_here (id int PRIMARY KEY, data appendable_bytea, log appendable_text) WITH (fillfactor = 80);
		CREATE VIEW ends AS SELECT id, length(data) AS length, substr(data, length(data) - 9) AS last FROM logs_here});
	ask(sprintf(q{CREATE SERVER s%d FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '%s', port '%d', dbname 'postgres', use_remote_estimate 'false');
		CREATE USER MAPPING FOR CURRENT_USER SERVER s%d;
		CREATE FOREIGN TABLE logs%d PARTITION OF logs FOR VALUES WITH (MODULUS 2, REMAINDER %d) SERVER s%d OPTIONS (table_name 'logs_here');
		CREATE FOREIGN TABLE ends%d (id int, length int, last bytea) SERVER s%d OPTIONS (table_name 'ends')},
		$n, $there[$n]->host, $there[$n]->port, ($n) x 6));
}

sub both
{
	my ($sql) = @_;
	ask($sql =~ s/TABLE/$_/gr) for qw(logs plain);
	return;
}

sub whole
{
	my ($what) = @_;
	is(ask(q{SELECT count(*), count(*) FILTER (WHERE l.data = p.data AND l.log = p.log) FROM logs l JOIN plain p USING (id)}), '20|20', "$what: every value");
	is(join(' ', map { there($_, 'SELECT count(*) FROM appendable_bytea_check()') } 0, 1), '0 0', "$what: every chunk");
	return;
}

both(q{INSERT INTO TABLE SELECT i, convert_to(repeat(md5(i::text), 600), 'UTF8'), repeat('line ' || i, 3000) FROM generate_series(1, 20) i});
is(join(' ', map { there($_, q{SELECT bool_and(chunk_bytes > 100000) FROM appendable_bytea_stats()}) } 0, 1), 't t', 'values are in chunks on both servers');
whole('inserted');

# what is there already does not travel, nor is it written again
my $append = q{UPDATE TABLE SET data = data || '\x010203'::bytea, log = log || ' end'};
like(ask('EXPLAIN (VERBOSE, COSTS OFF) ' . $append =~ s/TABLE/logs/r . ' WHERE id = 3'), qr/Remote SQL: UPDATE \S+logs_here SET data = \(data \|\| .*log = \(log \|\| /, 'an append is one statement there');
my $chunks = 'SELECT sum(chunk_bytes) FROM appendable_bytea_stats()';
my @before = map { there($_, $chunks) } 0, 1;
both($append);
both("$append WHERE id IN (3, 4)");
both(q{PREPARE append(int, bytea) AS UPDATE TABLE SET data = data || $2 WHERE id = $1; } . join(' ', map { "EXECUTE append($_, '\\xcc$_');" } 10 .. 19, (11) x 8));
whole('appended');
cmp_ok(there($_, 'SELECT sum(store_bytes) FROM appendable_bytea_stats()'), '<', 1.5 * $before[$_], 'the store has not become a second one') for 0, 1;
# with a join the value comes here and goes back, and is known again as a longer one
both(q{UPDATE TABLE t SET data = data || bytes FROM (SELECT i, '\xdddd'::bytea AS bytes FROM generate_series(1, 20) i) more WHERE t.id = more.i});
whole('appended from a join');
cmp_ok(there($_, 'SELECT sum(store_bytes) FROM appendable_bytea_stats()'), '<', 1.5 * $before[$_], 'nor after that') for 0, 1;
both(q{BEGIN; UPDATE TABLE SET data = data || '\x01'; SAVEPOINT a; UPDATE TABLE SET data = data || '\x02'; ROLLBACK TO a; COMMIT});
both(q{BEGIN; UPDATE TABLE SET data = data || '\x03'; ROLLBACK});
both(q{UPDATE TABLE SET data = overlay(data PLACING '\xffff'::bytea FROM 5000) WHERE id < 5});
both(q{UPDATE TABLE SET data = '\x00', log = '' WHERE id = 20});
whole('rolled back, changed in the middle, replaced');

is(ask('SELECT count(*) FROM (SELECT * FROM ends0 UNION ALL SELECT * FROM ends1) e JOIN plain p USING (id) WHERE last = substr(data, length(data) - 9) AND length = length(data)'), '20',
	'a view there reads slices there');
like(ask('EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM logs WHERE length(data) > 5 AND id = 3'), qr/Remote SQL: SELECT id FROM \S+logs_here WHERE .*length\(data\)/, 'conditions are computed there');
is(ask('SELECT sum(length(data)) FROM logs WHERE length(data) > 100'), ask('SELECT sum(length(data)) FROM plain WHERE length(data) > 100'), 'lengths');

my ($status, $stdout, $stderr) = $there[0]->psql('postgres', q{CREATE EXTENSION postgres_fdw; CREATE SERVER s FOREIGN DATA WRAPPER postgres_fdw; CREATE FOREIGN TABLE f (id int, data appendable_bytea) SERVER s});
like($stderr, qr/foreign table "f" cannot have a column of type appendable_bytea.*Use bytea/s, 'a foreign column of the type is refused with what to do');
# IMPORT FOREIGN SCHEMA makes columns of bytea and text
there(0, sprintf(q{CREATE SERVER other FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '%s', port '%d', dbname 'postgres');
	CREATE USER MAPPING FOR CURRENT_USER SERVER other;
	CREATE SCHEMA imported;
	IMPORT FOREIGN SCHEMA public FROM SERVER other INTO imported}, $there[1]->host, $there[1]->port));
is(there(0, q{SELECT attname, atttypid::regtype FROM pg_attribute WHERE attrelid = 'imported.logs_here'::regclass AND attnum > 1}), "data|bytea\nlog|text", 'columns of an imported table');
there(0, q{INSERT INTO imported.logs_here VALUES (4711, '\x00', 'imported'); UPDATE imported.logs_here SET data = data || '\x01' WHERE id = 4711});
is(there(1, q{SELECT data, log FROM logs_here WHERE id = 4711}), '\x0001|imported', 'what is written there');
done_testing();
