# Extensions that measure statements and were loaded before or after see what the
# executor leaves, whatever happens to a statement.  The one of the tests looks at
# every hook; pg_tracing does so where its source is given in PG_TRACING_SRC.

use strict;
use warnings;
use Cwd qw(abs_path);
use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $neighbor = abs_path("$FindBin::RealBin/../neighbor/light_test_neighbor.so");

my $setup = <<'END';
CREATE TABLE t AS SELECT i, i % 7 AS k FROM generate_series(1, 3000) i;
CREATE INDEX ON t (i);
CREATE TABLE u (i int PRIMARY KEY, k int);
CREATE FUNCTION count_u() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM count(*) FROM u; RETURN NULL; END $$;
CREATE TRIGGER after_u AFTER INSERT ON u FOR EACH ROW WHEN (NEW.i < 5) EXECUTE FUNCTION count_u();
CREATE FUNCTION inner_fails(int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN PERFORM 1 / (i - $1) FROM t; RETURN 0; EXCEPTION WHEN division_by_zero THEN RETURN (SELECT k FROM t WHERE i = $1); END $$;
CREATE FUNCTION deep(int, int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN RETURN (SELECT CASE WHEN $1 > 0 THEN deep($1 - 1, $2) ELSE 1 / (i - $2) END FROM t WHERE i = 10); END $$;
CREATE FUNCTION deep_fails(int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN RETURN deep($1, 10); EXCEPTION WHEN division_by_zero THEN RETURN deep($1, 9); END $$;
END

# The work of the statements matters, not their results.
my @statements = (
	'SELECT * FROM t WHERE i = 7',
	'SELECT count(*), sum(k) FROM t',
	'SELECT 1 / (i - 50) FROM t WHERE i = 50',
	'SELECT 1 / (i - 50) FROM t',
	'SELECT 1 / (i - 2500) FROM t',
	'CREATE TABLE c AS SELECT * FROM t',
	'DROP TABLE c',
	'INSERT INTO u SELECT i, k FROM t WHERE i < 100',
	'INSERT INTO u SELECT i, k FROM t WHERE i BETWEEN 90 AND 200',
	'WITH d AS (DELETE FROM u RETURNING *) SELECT 1',
	'SELECT inner_fails(20), inner_fails(k + 2000) FROM t LIMIT 3',
	'BEGIN; DECLARE c CURSOR FOR SELECT * FROM t; FETCH 5 FROM c; FETCH 500 FROM c; MOVE BACKWARD 3 IN c; FETCH ALL FROM c; COMMIT',
	'BEGIN; DECLARE c CURSOR FOR SELECT 1 / (i - 60) FROM t; FETCH 50 FROM c; FETCH 50 FROM c; ROLLBACK',
	# more statements at a time than have one of our structs for their total
	'SELECT deep(9, 9), deep_fails(7), deep(2, 3)',
	'SELECT deep(9, 10)',
	'BEGIN; ' . join('; ', map { "DECLARE c$_ CURSOR FOR SELECT * FROM t WHERE i > $_" } 1 .. 7) . '; ' . join('; ', map { ("FETCH 2 FROM c$_", "FETCH 30 FROM c" . (8 - $_)) } 1 .. 7) . '; COMMIT',
	'EXPLAIN ANALYZE SELECT count(*) FROM t a JOIN t b USING (i)',
	'EXPLAIN ANALYZE SELECT 1 / (i - 70) FROM t',
	'PREPARE p AS SELECT k FROM t WHERE i = $1; EXECUTE p(3); EXECUTE p(4); EXECUTE p(5)');

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'light_explain,$neighbor'\nautovacuum = off\njit = off\ncompute_query_id = on\nmax_parallel_workers_per_gather = 0\n");
$node->start;
$node->safe_psql('postgres', $setup);
$node->safe_psql('postgres', "CREATE FUNCTION light_test_looks() RETURNS text STRICT LANGUAGE c AS '$neighbor', 'light_test_looks'");

# The measurements that the neighbor saw of each statement, and of several ways to move to records.
sub looks
{
	my ($enabled, $switch_after) = @_;
	my $sql = "SET light_explain.enabled = $enabled; SET light_explain.switch_after = $switch_after;\n\\timing off\nSELECT light_test_looks();\n\\echo <<>>\n";
	$sql .= "\\o /dev/null\n$_;\n\\o\nSELECT light_test_looks();\n" for @statements;
	my ($code, $out, $err) = $node->psql('postgres', $sql, on_error_stop => 0);
	$out =~ s/.*<<>>\n//s;
	return split /\n/, $out;
}

SKIP:
{
	# a release candidate of 19 is less than 19 to pg_version
	skip 'no such measure of a statement since 19', 1 if $node->safe_psql('postgres', 'SHOW server_version_num') >= 190000;
	for my $order ("light_explain,$neighbor", "$neighbor,light_explain")
	{
		$node->append_conf('postgresql.conf', "shared_preload_libraries = '$order'\n");
		$node->restart;
		my $first = $order =~ /^light/ ? 'light_explain' : 'the neighbor';
		my @core = looks('off', -1);
		is(scalar(@core), scalar(@statements), "$first first: each statement was looked at");
		like($core[$_], qr/^[1-9]\d* starts.*; $/, "$first first, core: $statements[$_]") for 0 .. $#statements;
		for my $switch_after (-1, 0, 3)
		{
			my @light = looks('on', $switch_after);
			is($light[$_], $core[$_], "$first first, moves after $switch_after: $statements[$_]") for 0 .. $#statements;
		}
	}
	ok((grep { / [1-9]\d* failures/ } looks('on', -1)) >= 6, 'errors were looked at');
}

# A cursor begins in a function, or in DECLARE, where pg_stat_statements does not look at it,
# and ends outside; so does the statement of a function whose rows are not all asked for.
SKIP:
{
	skip 'pg_stat_statements is not installed', 1 unless -e $node->config_data('--sharedir') . '/extension/pg_stat_statements.control';
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'light_explain,pg_stat_statements'\n");
	$node->restart;
	$node->safe_psql('postgres', "CREATE EXTENSION pg_stat_statements; CREATE FUNCTION opens() RETURNS refcursor LANGUAGE plpgsql AS \$\$ DECLARE c refcursor := 'opened'; BEGIN OPEN c FOR SELECT i FROM t; RETURN c; END \$\$; CREATE FUNCTION one_by_one() RETURNS SETOF int LANGUAGE sql VOLATILE AS 'SELECT i FROM t WHERE i > 3'");
	my %seen;
	for my $profile ('off', 'on')
	{
		$node->safe_psql('postgres', 'SELECT pg_stat_statements_reset()');
		$node->safe_psql('postgres', "SET light_explain.profile = $profile; SELECT 1; BEGIN; SELECT opens(); FETCH 2 FROM opened; COMMIT; BEGIN; DECLARE c CURSOR FOR SELECT i FROM t; FETCH 3 FROM c; COMMIT; SELECT one_by_one() LIMIT 2");
		$seen{$profile} = $node->safe_psql('postgres', "SELECT query, toplevel, calls, rows FROM pg_stat_statements WHERE query !~ 'profile|pg_stat_statements' ORDER BY query COLLATE \"C\", toplevel");
	}
	like($seen{off}, qr/one_by_one.*opens/s, 'pg_stat_statements sees statements');
	unlike($seen{off}, qr/WHERE i >/, 'and not those of functions');
	is($seen{on}, $seen{off}, 'the same with the profile');
}

SKIP:
{
	my $source = $ENV{PG_TRACING_SRC};
	skip 'no source given (PG_TRACING_SRC)', 1 unless $source;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	system_or_bail(-d $source ? ('cp', '-a', "$source/.", $dir) : ('tar', 'xf', $source, '-C', $dir));
	system_log("make -s -C $dir PG_CONFIG=\${PG_CONFIG:-pg_config} all") == 0 or die 'pg_tracing does not build';
	for my $order ("light_explain,$dir/pg_tracing", "$dir/pg_tracing,light_explain")
	{
		$node->append_conf('postgresql.conf', "shared_preload_libraries = '$order'\npg_tracing.sample_rate = 1\nlight_explain.profile = on\n");
		$node->restart;
		# what happens inside functions and cursors fails in pg_tracing alone
		for my $statement (grep { !/inner_fails|CURSOR|EXPLAIN|INSERT/ } @statements)
		{
			my ($code, $out, $err) = $node->psql('postgres', $statement);
			unlike($err, qr/closed the connection/, ($order =~ /^light/ ? 'light_explain' : 'pg_tracing') . " first: $statement");
		}
	}
}

$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|terminated by signal/, 'nothing bad in the log');
done_testing();
