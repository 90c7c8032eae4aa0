# Workers read a table from its file while the leader evicts, hints and prunes
# pages of the same table: no row is torn, lost or seen twice.
#
# Every row carries a checksum of itself.  The table is larger than temp_buffers
# and full of dead rows, and the leader's part of each query makes it read the
# table, or others, with stock code.  PG_LEAN_LONG=1 runs it for longer.
# Slow: a large table that changes

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../diff";
use PostgreSQL::Test::Utils;
use SameAnswers qw(start_server has_setting bad_log_lines psql_text);
use Test::More;

# The other choice about checksums than initdb's default, which the other tests run with.
my $initdb = `initdb --help`;
my $node = start_server('pages_change', '', [ $initdb =~ /--no-data-checksums/ ? '--no-data-checksums' : '--data-checksums' ]);
plan skip_all => 'this build has no parallel scan of temporary tables' unless has_setting($node, 'parallel_temp.method');
$node->safe_psql('postgres', 'CREATE EXTENSION parallel_temp');

my $n = 5000;
my $rounds = $ENV{PG_LEAN_LONG} ? 40 : 3;
my $good = "count(*), count(*) FILTER (WHERE chk IS DISTINCT FROM md5(id || ':' || a || pad)), sum(id)";
my $expected = "$n|0|" . $n * ($n + 1) / 2;

# Functions of the leader alone.  They may not write; reading makes stock code
# evict dirty pages, set hint bits and prune.
my $setup = <<"END";
SET client_min_messages = warning;
CREATE TEMP TABLE t (id int, a int, pad text, chk text) WITH (fillfactor = 70);
INSERT INTO t SELECT i, 0, repeat(md5(i::text), 6), md5(i || ':' || 0 || repeat(md5(i::text), 6)) FROM generate_series(1, $n) i;
CREATE TEMP TABLE other AS SELECT i AS id, repeat('o', 400) AS pad FROM generate_series(1, 4000) i;
CREATE INDEX t_id ON t (id);
CREATE INDEX other_id ON other (id);
ANALYZE t;
ANALYZE other;
CREATE FUNCTION pg_temp.reads_t(i int) RETURNS bigint LANGUAGE plpgsql VOLATILE PARALLEL RESTRICTED AS \$\$
BEGIN
	IF i % 500 = 0 THEN RETURN (SELECT count(*) FROM t WHERE pad <> 'x'); END IF;
	RETURN $n;
END\$\$;
CREATE FUNCTION pg_temp.reads_other(i int) RETURNS bigint LANGUAGE plpgsql VOLATILE PARALLEL RESTRICTED AS \$\$
BEGIN
	IF i % 500 = 0 THEN RETURN (SELECT count(*) FROM other WHERE pad <> 'x'); END IF;
	RETURN 4000;
END\$\$;
END

# The check of a domain runs in the leader as well.
$setup .= <<"END";
CREATE FUNCTION pg_temp.check_t(i int) RETURNS boolean LANGUAGE plpgsql STABLE PARALLEL RESTRICTED AS 'BEGIN RETURN pg_temp.reads_t(i) = $n; END';
CREATE DOMAIN pg_temp.checked AS int CHECK (pg_temp.check_t(VALUE));
END

# A query, and what it must give besides.
my @queries = (
	[ 'scan', "SELECT $good FROM t;", $expected ],
	[ 'function that reads the table', "SELECT $good, bool_and(r = $n) FROM (SELECT *, pg_temp.reads_t(id) AS r FROM t OFFSET 0) x;", "$expected|t" ],
	[ 'domain whose check reads the table', "SELECT $good, sum(r) FROM (SELECT *, id::pg_temp.checked AS r FROM t OFFSET 0) x;", "$expected|" . $n * ($n + 1) / 2 ],
	[ 'function that reads another', "SELECT $good, bool_and(r = 4000) FROM (SELECT *, pg_temp.reads_other(id) AS r FROM t OFFSET 0) x;", "$expected|t" ],
	[ 'subquery in the leader', "SELECT $good, sum(r) FROM (SELECT *, (SELECT count(*) FROM other o WHERE o.id = t.id) AS r FROM t OFFSET 0) x;", "$expected|4000" ],
	[ 'index scan in the leader', "SET enable_hashjoin = off; SET enable_mergejoin = off; SELECT $good, sum(same) FROM (SELECT x.*, (y.chk = x.chk)::int AS same FROM (SELECT * FROM t OFFSET 0) x JOIN t y USING (id)) z; RESET enable_hashjoin; RESET enable_mergejoin;", "$expected|$n" ],
	[ 'hash join', "SELECT $good, sum(same) FROM (SELECT x.*, (y.chk = x.chk)::int AS same FROM t x JOIN t y USING (id)) z;", "$expected|$n" ],
	[ 'merge join', "SET enable_hashjoin = off; SET enable_nestloop = off; SELECT $good, sum(same) FROM (SELECT x.*, (y.chk = x.chk)::int AS same FROM t x JOIN t y USING (id)) z; RESET enable_hashjoin; RESET enable_nestloop;", "$expected|$n" ],
	[ 'parameterised index scan', "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SELECT $good, sum(same) FROM (SELECT x.*, (y.chk = x.chk)::int AS same FROM t x JOIN t y USING (id)) z; RESET enable_hashjoin; RESET enable_mergejoin; RESET enable_material;", "$expected|$n" ],
	[ 'bitmap scan', "SET enable_seqscan = off; SET enable_indexscan = off; SELECT $good FROM t WHERE id > 0; RESET enable_seqscan; RESET enable_indexscan;", $expected ],
	[ 'anti join', "SELECT count(*) FROM t x WHERE NOT EXISTS (SELECT 1 FROM t y WHERE y.id = x.id AND y.chk = x.chk);", '0' ],
	[ 'union', "SELECT count(*), count(DISTINCT chk) FROM (SELECT id, chk FROM t UNION ALL SELECT id, chk FROM t) x;", 2 * $n . "|$n" ]);

# Changes between queries; the number of rows and their values stay correct.
my @changes = (
	"UPDATE t SET a = a + 1, chk = md5(id || ':' || a + 1 || pad) WHERE id % 3 = 0;",
	"BEGIN; DELETE FROM t WHERE id % 2 = 0; ROLLBACK;",
	"DELETE FROM t WHERE id % 10 = 7; INSERT INTO t SELECT i, 9, 'again', md5(i || ':9again') FROM generate_series(7, $n, 10) i;",
	"BEGIN; UPDATE t SET a = -1, chk = 'wrong'; ROLLBACK;",
	"UPDATE t SET pad = pad || 'y', chk = md5(id || ':' || a || pad || 'y') WHERE id % 5 = 1;",
	"VACUUM t;",
	"DO \$\$BEGIN FOR i IN 1 .. 5 LOOP BEGIN UPDATE t SET a = a - 1, chk = 'bad' WHERE id % 5 = i; RAISE EXCEPTION 'undo'; EXCEPTION WHEN raise_exception THEN NULL; END; END LOOP; END\$\$;");

for my $method ('share', 'flush')
{
	for my $buffers (100, 150, 1024)
	{
		my $text = $setup;
		my @names;
		for my $round (1 .. $rounds)
		{
			for my $i (0 .. $#queries)
			{
				$text .= $changes[ ($round * 5 + $i * 3) % @changes ] . "\n";
				$text .= "\\echo =#=\n$queries[$i][1]\n";
				$text .= "SELECT pg_evict_temp_relation('t') * 0;\n\\echo =#=\n$queries[$i][1]\n" if ($i + $round) % 3 == 0;
				push @names, $queries[$i];
				push @names, $queries[$i] if ($i + $round) % 3 == 0;
				$text .= "\\echo =#=\n";
				push @names, ['changes'];
			}
		}
		$text .= "\\echo =#=\nSELECT count(*) FROM pg_local_buffers WHERE pins <> 0;\nSELECT counter, value FROM parallel_temp_stats WHERE value <> 0;\n";
		my ($code, $out, $err) = psql_text($node, 'postgres', $text, timeout => 600, name => "change-$method", settings => {
				min_parallel_table_scan_size => 0, min_parallel_index_scan_size => 0, parallel_setup_cost => 0, parallel_tuple_cost => 0, max_parallel_workers_per_gather => 2,
				'parallel_temp.method' => $method, 'parallel_temp.flush_page_cost' => 0, 'parallel_temp.scan_buffer_cost' => 0, 'parallel_temp.worker_start_cost' => 0, 'parallel_temp.enter_page_cost' => 0, temp_buffers => $buffers });
		is("$code $err", '0 ', "$method, $buffers buffers: no error");
		my @parts = split /^=#=\n/m, $out;
		shift @parts;
		my $end = pop @parts;
		my %wrong;
		my $asked = 0;
		for my $i (0 .. $#names)
		{
			next if @{ $names[$i] } == 1;
			my ($answer) = grep { /^\d+(\||$)/ } split /\n/, $parts[$i] // '';
			$asked++;
			$wrong{ $names[$i][0] } = ($answer // 'nothing') . " for $names[$i][2]" if ($answer // '') ne $names[$i][2];
		}
		is(join('; ', map { "$_: $wrong{$_}" } sort keys %wrong), '', "$method, $buffers buffers: all $asked answers are right");
		like($end, qr/^0$/m, "$method, $buffers buffers: no pin is left");
		note($end);
		my ($chosen) = $end =~ /^chosen\|(\d+)/m;
		cmp_ok($chosen // 0, '>', $rounds * 3, "$method, $buffers buffers: queries were parallel");
	}
}
# If the leader may change the table during the query, and pages are in the file alone,
# there are no workers at all.
for my $case ([ 'pg_temp.reads_t(id)', 'a function' ], [ 'id::pg_temp.checked', 'a domain' ])
{
	my ($code, $out) = psql_text($node, 'postgres', "${setup}SELECT pg_evict_temp_relation('t') > 0;\nEXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT $case->[0] FROM t;\n", settings => {
			min_parallel_table_scan_size => 0, parallel_setup_cost => 0, parallel_tuple_cost => 0, 'parallel_temp.flush_page_cost' => 0, 'parallel_temp.worker_start_cost' => 0, 'parallel_temp.enter_page_cost' => 0, temp_buffers => 100 });
	like($out, qr/Temp Scan/, "$case->[1]: the plan is parallel");
	unlike($out, qr/Workers Launched: [1-9]/, "$case->[1]: no worker reads the file while the leader may write it");
}
# The same for two parallel parts with index scans: the leader runs one of them if there
# is no worker left for it.
if ($node->safe_psql('postgres', 'SHOW server_version_num') < 190000)
{
	for my $buffers (100, 4096)
	{
		my ($code, $out) = psql_text($node, 'postgres', "${setup}SELECT pg_evict_temp_relation('t') > 0;\nSET enable_seqscan = off; SET enable_bitmapscan = off;\n" .
			"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT count(*) FROM (SELECT a, min(chk) AS m FROM t WHERE id < 4000 GROUP BY a) x JOIN (SELECT a, max(chk) AS m FROM t WHERE id > 1000 GROUP BY a) y USING (a);\n", settings => {
				'parallel_temp.worker_start_cost' => 0, 'parallel_temp.enter_page_cost' => 0,
				min_parallel_index_scan_size => 0, min_parallel_table_scan_size => 0, parallel_setup_cost => 0, parallel_tuple_cost => 0, cpu_index_tuple_cost => 1, cpu_operator_cost => 1, temp_buffers => $buffers });
		like($out, qr/Gather.*Index Scan using t_id on t.*Gather.*Index Scan using t_id on t/s, "two parallel parts, $buffers buffers: the plan is parallel");
		my $launched = () = $out =~ /Workers Launched: [1-9]/g;
		is($launched, $buffers == 100 ? 0 : 2, "two parallel parts, $buffers buffers: workers only where every page is kept");
	}
}
is(join("\n", bad_log_lines(slurp_file($node->logfile))), '', 'no leak and no crash in the log');

$node->stop;
done_testing();
