# Nodes have the names, types, relations, aliases and indexes that EXPLAIN shows.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use Battery;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
# names of several bytes a character, which are cut between them
$node->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'light_explain'\nautovacuum = off\njit = off\nmax_parallel_workers = 8\nmax_worker_processes = 16\n");
$node->start;

my $setup = "LOAD '$FindBin::RealBin/../custom/light_test_custom.so';\n" . battery_sql() . <<'SQL';
CREATE TABLE "Odd name" (id int PRIMARY KEY, "a b" text);
INSERT INTO "Odd name" SELECT g, g FROM generate_series(1, 100) g;
CREATE INDEX "odd index" ON "Odd name" ("a b");
ANALYZE "Odd name";
SELECT format('CREATE TABLE %1$I (id int); INSERT INTO %1$I VALUES (1); ANALYZE %1$I', name) FROM (VALUES (repeat('l', 63)), (repeat('l', 62)), ('l' || repeat(U&'\00E4', 31)), (repeat(U&'\00E4', 31))) v(name) \gexec
CREATE FUNCTION "Odd rows"() RETURNS SETOF int LANGUAGE plpgsql AS 'BEGIN RETURN NEXT 1; END';
CREATE FUNCTION differs(setup text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text; plan json; theirs text[] := '{}'; ours text[]; columns text[]; our_columns text[];
BEGIN
	IF setup <> '' THEN EXECUTE setup; END IF;
	IF statement ~ '^TRIGGER:' THEN RETURN 'same'; END IF;
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || statement INTO plan;
	SELECT array_agg(x ORDER BY x COLLATE "C") INTO columns
	FROM jsonb_path_query(plan::jsonb, 'strict $.** ? (exists (@."Node Type"))') n, LATERAL (SELECT concat_ws(' | ',
		CASE n ->> 'Node Type'
			WHEN 'Aggregate' THEN CASE n ->> 'Strategy' WHEN 'Sorted' THEN 'Group' WHEN 'Plain' THEN '' ELSE replace(n ->> 'Strategy', 'Hashed', 'Hash') END || 'Aggregate'
			WHEN 'SetOp' THEN CASE n ->> 'Strategy' WHEN 'Hashed' THEN 'Hash' ELSE '' END || 'SetOp'
			WHEN 'ModifyTable' THEN n ->> 'Operation'
			WHEN 'Foreign Scan' THEN 'Foreign ' || CASE n ->> 'Operation' WHEN 'Select' THEN 'Scan' ELSE n ->> 'Operation' END
			WHEN 'Custom Scan' THEN format('Custom Scan (%s)', n ->> 'Custom Plan Provider')
			ELSE n ->> 'Node Type' END,
		'relation ' || (n ->> 'Relation Name'), 'alias ' || (n ->> 'Alias'), 'index ' || (n ->> 'Index Name')) AS x) c;
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || statement LOOP
		IF line ~ '\((actual rows|never executed)' AND line !~ '^ *Worker ' THEN
			theirs := theirs || regexp_replace(line, '^ *(->  )?(.*?) +\((actual|never executed).*$', '\2');
		END IF;
	END LOOP;
	SELECT array_agg(label), array_agg(x ORDER BY x COLLATE "C") INTO ours, our_columns FROM light_explain_last(),
		LATERAL (SELECT concat_ws(' | ', node_type, 'relation ' || relation, 'alias ' || alias, 'index ' || index) AS x) c;
	IF columns <> our_columns THEN
		RETURN format('columns by EXPLAIN: %s; ours: %s', columns, our_columns);
	END IF;
	IF (SELECT array_agg(x ORDER BY x COLLATE "C") FROM unnest(theirs) x) = (SELECT array_agg(x ORDER BY x COLLATE "C") FROM unnest(ours) x) THEN
		RETURN 'same';
	END IF;
	RETURN format('EXPLAIN: %s; ours: %s', theirs, ours);
END$$;
SQL

my @statements = (battery_statements(), map { [ $_->[1] // '', '', $_->[0] ] } (
	[ 'SELECT * FROM t ORDER BY id DESC LIMIT 3' ],
	[ 'SELECT id FROM t ORDER BY id DESC LIMIT 3' ],
	[ 'SELECT * FROM t a LEFT JOIN u b ON a.id = b.t_id', 'SET enable_mergejoin = off; SET enable_nestloop = off' ],
	[ 'SELECT * FROM t a FULL JOIN u b ON a.id = b.t_id', 'SET enable_hashjoin = off' ],
	[ 'SELECT * FROM t WHERE NOT EXISTS (SELECT FROM u WHERE u.t_id = t.id)' ],
	[ 'SELECT * FROM t WHERE EXISTS (SELECT FROM big WHERE big.id = t.id)', 'SET enable_mergejoin = off; SET enable_nestloop = off' ],
	[ 'SELECT * FROM u RIGHT JOIN t ON t.id = u.t_id AND u.id < 5', 'SET enable_mergejoin = off' ],
	[ 'SELECT * FROM u LEFT JOIN LATERAL (SELECT * FROM t WHERE t.id = u.t_id OFFSET 0) x ON true WHERE u.id < 9' ],
	[ 'SELECT k, id % 3, count(*) FROM t GROUP BY CUBE (k, id % 3)' ],
	[ 'SELECT id FROM t INTERSECT ALL SELECT t_id FROM u' ], [ 'SELECT id FROM t EXCEPT SELECT t_id FROM u' ],
	[ 'SELECT id FROM t EXCEPT ALL SELECT t_id FROM u', 'SET enable_hashagg = off' ],
	[ 'SELECT * FROM "Odd name" WHERE "a b" = \'7\'', 'SET enable_seqscan = off' ],
	[ 'SELECT * FROM "Odd name" WHERE "a b" IN (\'7\', \'8\')', 'SET enable_seqscan = off; SET enable_indexscan = off' ],
	[ 'SELECT * FROM "Odd rows"() "And so", generate_series(1, 3), ROWS FROM (generate_series(1, 2), "Odd rows"()) r' ],
	[ 'SELECT * FROM t a, t b, u t_1, t WHERE a.id = b.id AND t_1.t_id = b.id AND t.id = t_1.id' ],
	[ 'SELECT * FROM par p, par WHERE p.id = par.id' ],
	# numbers of names that are as long as may be
	(map { my $table = $_; [ "SELECT * FROM " . join(' NATURAL JOIN ', map { "(SELECT id FROM \"$table\" OFFSET 0) x$_" } 1 .. 12) ] } 'l' x 63, 'l' x 62, 'l' . "\xc3\xa4" x 31, "\xc3\xa4" x 31),
	[ 'SELECT * FROM "' . 'l' x 63 . '" NATURAL JOIN (SELECT * FROM "' . 'l' x 63 . '" OFFSET 0) x NATURAL JOIN (SELECT * FROM u "' . 'l' x 61 . '_1" OFFSET 0) y NATURAL JOIN (SELECT * FROM u "' . 'l' x 61 . '_1" OFFSET 0) z' ],
	[ 'WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 5) SELECT * FROM r JOIN r s USING (i)' ]));

my $script = "\\pset format unaligned\n\\pset tuples_only on\nCREATE EXTENSION light_explain;\n$setup\n";
my $n = 0;
for my $s (@statements)
{
	my ($set, $prepare, $statement) = map { my $x = $_; $x =~ s/'/''/g; $x } @$s;
	$script .= "RESET ALL; SET jit = off;\n$s->[0];\nSELECT '<<' || " . $n++ . " || '>>' || differs('$prepare', '$statement');\n";
}
my ($rc, $out, $err) = $node->psql('postgres', $script);
is($rc, 0, 'ran');
diag($err) if $err =~ /ERROR/;
my %result = $out =~ /^<<(\w+)>>(.*?)(?=^<<|\z)/msg;
chomp(%result);
is($result{$_} // 'no result', 'same', $statements[$_][2]) for 0 .. $#statements;

# the reference has all columns
my $reference = slurp_file("$FindBin::RealBin/../../docs/reference.md");
my @columns = split /\n/, $node->safe_psql('postgres', <<'SQL');
SELECT unnest(proargnames) FROM pg_proc WHERE proname ~ '^light_explain_'
UNION SELECT attname FROM pg_attribute WHERE attrelid IN (SELECT oid FROM pg_class WHERE relname ~ '^light_explain_' AND relkind = 'v') AND attnum > 0
SQL
cmp_ok(scalar @columns, '>', 50, 'columns of functions and views');
is(join(' ', grep { $reference !~ /[`.]\Q$_\E`/ } @columns), '', 'are in the reference');

$node->stop;
done_testing();
