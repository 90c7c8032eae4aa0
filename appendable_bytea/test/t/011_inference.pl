# CREATE EXTENSION changes nothing for statements that do not touch a value of the
# type: every function and operator of bytea, text and jsonb, called with untyped, typed
# and literal arguments, is analyzed into the same tree (chosen functions, casts,
# parameter and result types) before and after.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('inference');
$node->init;
$node->append_conf('postgresql.conf', "fsync = off\nautovacuum = off\n");
$node->start;
my $dir = $node->basedir;

# Argument lists of each call.  U is untyped, T typed, S a literal, N of a neighboring
# type (smallint for int, varchar for text, and so on): all of one kind, and each
# argument in turn of another kind than the rest.
$node->safe_psql('postgres', q{
CREATE FUNCTION arg(kind text, n int, type regtype) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE kind WHEN 'U' THEN '$' || n
		WHEN 'S' THEN CASE WHEN type IN ('int4'::regtype, 'int8'::regtype) THEN '1' WHEN type = 'jsonb'::regtype THEN '''"abc"''' ELSE '''abc''' END
		WHEN 'N' THEN format('$%s::%s', n, CASE type::text WHEN 'integer' THEN 'smallint' WHEN 'bigint' THEN 'integer'
			WHEN 'text' THEN 'varchar' WHEN 'jsonb' THEN 'json' WHEN 'bytea' THEN 'bytes' ELSE type::text END)
		ELSE format('$%s::%s', n, type) END
$$;
CREATE DOMAIN bytes AS bytea;
CREATE TABLE kinds AS SELECT n, array_agg(DISTINCT k) AS lists FROM generate_series(1, 4) n, LATERAL (
	SELECT repeat(k, n) AS k FROM unnest(ARRAY['U', 'T', 'S', 'N']) k
	UNION ALL SELECT overlay(repeat(b, n) PLACING a FROM i) FROM generate_series(1, n) i, (VALUES ('T', 'U'), ('T', 'S'), ('U', 'T'), ('S', 'T')) v(b, a)) x GROUP BY n;
CREATE TABLE statements AS
SELECT row_number() OVER (ORDER BY ord, oid, list) AS n, format('PREPARE s%s AS SELECT ', row_number() OVER (ORDER BY ord, oid, list)) || call AS statement
FROM (SELECT 1 AS ord, p.oid, list, format('pg_catalog.%I(%s)', p.proname,
		(SELECT string_agg(arg(substr(list, i::int, 1), i::int, t::regtype), ', ' ORDER BY i) FROM unnest(p.proargtypes) WITH ORDINALITY a(t, i))) AS call
	FROM pg_proc p JOIN kinds ON kinds.n = p.pronargs, unnest(lists) list
	WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.oid < 16384 AND p.prokind IN ('f', 'a')
		AND p.proargtypes::oid[] && '{bytea,text,jsonb}'::regtype[]::oid[]
		AND NOT 'internal'::regtype = ANY (p.proargtypes) AND NOT 'cstring'::regtype = ANY (p.proargtypes)
	UNION ALL
	SELECT 2, o.oid, list, format('%s OPERATOR(pg_catalog.%s) %s', CASE WHEN oprleft <> 0 THEN arg(substr(list, 1, 1), 1, oprleft::regtype) ELSE '' END, oprname,
		arg(right(list, 1), length(list), oprright::regtype))
	FROM pg_operator o JOIN kinds ON kinds.n = 1 + (oprleft <> 0)::int, unnest(lists) list
	WHERE o.oid < 16384 AND ARRAY[oprleft, oprright] && '{bytea,text,jsonb}'::regtype[]::oid[]
	UNION ALL
	-- syntax that the parser turns into calls, and choices of a common type
	SELECT 3, v.n, list, replace(replace(call, 'A', arg(list, 1, 'bytea')), 'B', arg('U', 2, 'bytea'))
	FROM unnest(ARRAY['U', 'T', 'S', 'N']) list, unnest(ARRAY['substring(A FROM 2 FOR B)', 'substring(A FROM B)', 'overlay(A PLACING B FROM 1)', 'position(A IN B)', 'position(B IN A)',
		'trim(A FROM B)', 'trim(BOTH B FROM A)', 'A LIKE B', 'A IN (B, A)', 'A BETWEEN B AND A', 'coalesce(A, B)', 'greatest(A, B)', 'nullif(A, B)', 'ARRAY[A, B]',
		'CASE WHEN A = B THEN A ELSE B END', 'A IS DISTINCT FROM B', 'sha256(A || B)', 'A || ''x''::text', 'B || A', 'A UNION SELECT B', 'x FROM (VALUES (A), (B)) v(x) ORDER BY x < B',
		'bytea(A)', 'max(A)', 'string_agg(A, B)', 'A = ANY (ARRAY[B])', '(A, 1) < (B, 2)']) WITH ORDINALITY v(call, n)) x;
});

# The results of analyzing all statements in one session of a database.
sub analyzed
{
	my ($name, $first) = @_;
	my ($script, $trees) = ("$dir/$name.sql", "$dir/$name.out");
	append_to_file($script, "$first\n\\pset format unaligned\n\\pset tuples_only on\n\\set VERBOSITY verbose\n"
		. "SET client_min_messages = log;\nSET debug_pretty_print = off;\nSET debug_print_parse = on;\n");
	append_to_file($script, "$_;\n") for split /\n/, $node->safe_psql('postgres', 'SELECT statement FROM statements ORDER BY n');
	append_to_file($script, "RESET debug_print_parse;\n"
		. "SELECT 'types', name, parameter_types, to_jsonb(s) -> 'result_types' FROM pg_prepared_statements s ORDER BY substr(name, 2)::int;\n");
	# psql prints messages with the place of the statement in the script; the trees have places in the statement
	system_or_bail('sh', '-c', "psql -X -q -d '" . $node->connstr('postgres') . "' -f '$script' >'$trees' 2>&1");
	my @lines = split /\n/, slurp_file($trees);
	s/^psql:\S+?:\d+: // for @lines;
	return grep { !/^\s*$/ && !/^LOCATION: / } @lines;
}

my @before = analyzed('before', '');
$node->safe_psql('postgres', 'CREATE EXTENSION appendable_bytea');
my @after = analyzed('after', "LOAD 'appendable_bytea';");
my $statements = $node->safe_psql('postgres', 'SELECT count(*) FROM statements');
my $types = grep { /^types\|/ } @before;
my $trees = grep { /QUERY/ } @before;
ok($statements > 3000, "$statements statements");
ok($types > 2000 && $trees >= 2 * $types, "$types of them are valid, and their trees were seen");

sub differences
{
	my ($one, $other) = @_;
	my $n = 0;
	for my $i (0 .. ($#$one > $#$other ? $#$one : $#$other))
	{
		my ($a, $b) = ($one->[$i] // '(nothing)', $other->[$i] // '(nothing)');
		next if $a eq $b;
		diag("before: " . substr($a, 0, 1500) . "\nafter:  " . substr($b, 0, 1500)) if $n++ < 2;
	}
	return $n;
}
is(differences(\@before, \@after), 0, 'all are analyzed as before');

# the test sees what overloads would do
$node->safe_psql('postgres', q{CREATE FUNCTION pg_catalog.sha256(appendable_bytea) RETURNS bytea LANGUAGE sql AS 'SELECT sha256($1::bytea)'});
my $found;
{
	no warnings 'redefine';
	local *main::diag = sub { };
	$found = differences(\@before, [ analyzed('overload', "LOAD 'appendable_bytea';") ]);
}
ok($found > 0, 'an overload of a function is seen');

$node->stop;
done_testing();
