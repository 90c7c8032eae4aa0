# Rows that workers put on pages are counted by others as rows that they hand over one by
# one: by pg_stat_statements and by light_explain, whichever library was loaded first.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../diff";
use SameAnswers qw(start_server bad_log_lines);
use PostgreSQL::Test::Utils;
use Test::More;
use WorkerSession qw(worker_session);

my $node = start_server('rows_counted', '');
chomp(my $libdir = `$ENV{PG_CONFIG} --pkglibdir`) if $ENV{PG_CONFIG};
chomp($libdir = `pg_config --pkglibdir`) if !$libdir;
my @others = grep { -e "$libdir/$_.so" } qw(pg_stat_statements light_explain);
ok(@others > 0, 'there is a library that counts: ' . join(', ', @others));

my %load = (
	insert => 'INSERT INTO t SELECT * FROM source WHERE id > 7;',
	create => 'CREATE TEMP TABLE made AS SELECT * FROM source WHERE id > 8;',
	select_into => 'SELECT * INTO TEMP made FROM source WHERE id > 9;');

for my $libraries (join(', ', @others, 'parallel_temp'), join(', ', 'parallel_temp', reverse @others))
{
	my %counted;
	$node->append_conf('postgresql.conf', "shared_preload_libraries = '$libraries'");
	$node->restart;
	$node->safe_psql('postgres', <<'END');
DROP TABLE IF EXISTS source;
CREATE TABLE source AS SELECT i AS id, repeat('x', 300) AS pad FROM generate_series(1, 20000) i;
ANALYZE source;
END
	$node->safe_psql('postgres', "CREATE EXTENSION IF NOT EXISTS $_") for @others;
	for my $pages ('off', 'on')
	{
		my $s = worker_session($node, 'counts', 'parallel_temp.fill_pages' => $pages);
		$s->query('CREATE TEMP TABLE t (id int, pad text);');
		for my $kind (sort keys %load)
		{
			my $statement = $load{$kind};
			is($s->query("EXPLAIN (COSTS off) $statement") =~ /Temp Load/ ? 'on' : 'off', $pages, "$kind with pages $pages, $libraries") or diag($s->error);
			my ($rows) = $s->query("EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) $statement") =~ /Gather \(actual rows=(\d+)/;
			$counted{$pages} .= "$kind: a node has " . ($rows // 'no') . " rows\n";
			$s->query('DROP TABLE IF EXISTS made;');
			next if !grep { $_ eq 'pg_stat_statements' } @others;
			$s->query('SELECT pg_stat_statements_reset();');
			$s->query($statement);
			$counted{$pages} .= $s->query("SELECT calls, rows FROM pg_stat_statements WHERE query ~ 'source' AND query !~ 'pg_stat';") . "\n";
			$s->query('DROP TABLE IF EXISTS made;');
		}
		is($s->query('SELECT count(*) FROM t;'), @others > 1 || $others[0] eq 'pg_stat_statements' ? 2 * 19993 : 19993, "rows in the table, pages $pages, $libraries");
		$s->quit;
	}
	is($counted{on}, $counted{off}, "what is counted, $libraries");
	like($counted{on}, qr/insert: a node has 19993 rows/, "it is the rows, $libraries");
}
is(join("\n", bad_log_lines(slurp_file($node->logfile))), '', 'no leak in the log');
$node->stop;
done_testing();
