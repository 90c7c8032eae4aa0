# Thirty causes for which statements become slower, and some that make a node slower but not its statement:
# each is found in one bucket, with the responsible node, and statements without a cause are not reported.
# Slow: buckets before, and one after
use strict;
use warnings;

BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 60 }
use FindBin;
use lib $FindBin::RealBin;
use Crowded;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

# Buckets of a day end by a reload.
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'light_explain'
autovacuum = off
jit = off
compute_query_id = on
max_parallel_workers_per_gather = 0
deadlock_timeout = 10min
light_explain.history_interval = 1d
light_explain.history_save = 0
light_explain.plans_size = 0
CONF
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION light_explain');
# Aliases differ, because 18 computes identifiers of statements from them instead of from tables.
my $executions = 6;
my $buckets = 24;

# name, setup, statement, what causes the regression ("SET ...": in the session), what is reported, label of the responsible node, part of
# the text if it is another statement's
my $narrow = sub { my ($table, $rows, $more) = @_; return "CREATE TABLE $table AS SELECT g AS id, g % 1000 AS k, md5(g::text) AS v" . ($more // '') . " FROM generate_series(1, $rows) g; ANALYZE $table" };
my @cases = (
	[ 'an index is dropped', $narrow->('a01', 30000) . '; CREATE INDEX a01_id ON a01 (id)', 'SELECT v FROM a01 WHERE id = 77', 'DROP INDEX a01_id', 'plan', 'Seq Scan on a01' ],
	[ 'an index that gave the order is dropped', $narrow->('a02', 30000) . '; CREATE INDEX a02_v ON a02 (v)', 'SELECT v FROM a02 ORDER BY v LIMIT 3', 'DROP INDEX a02_v', 'plan', '(Seq Scan on a02|Sort)' ],
	[ 'an index of a foreign key is dropped', $narrow->('a03', 3000) . '; ALTER TABLE a03 ADD PRIMARY KEY (id); CREATE TABLE a03_below (id int REFERENCES a03); INSERT INTO a03_below SELECT 1 FROM generate_series(1, 30000); CREATE INDEX a03_i ON a03_below (id); ANALYZE a03_below',
		'DELETE FROM a03 WHERE id = (SELECT max(id) FROM a03)', 'DROP INDEX a03_i', 'plan', 'Seq Scan on a03_below x', 'a03_below" x WHERE' ],
	[ 'an index that a function uses is dropped', $narrow->('a04', 30000) . '; CREATE INDEX a04_id ON a04 (id); CREATE FUNCTION f04() RETURNS text LANGUAGE plpgsql AS $$BEGIN RETURN (SELECT min(a04.v) FROM a04 WHERE id = 5); END$$', 'SELECT f04()', 'DROP INDEX a04_id', 'plan', 'Seq Scan on a04', '(SELECT min(a04.v)' ],
	[ 'statistics are stale: an outer table grows', 'CREATE TABLE a05 (id int); INSERT INTO a05 VALUES (1); CREATE TABLE a05_in AS SELECT g AS id FROM generate_series(1, 300) g; ANALYZE a05, a05_in', 'SELECT count(*) FROM a05 JOIN a05_in ON a05.id < a05_in.id', 'INSERT INTO a05 SELECT 1 FROM generate_series(1, 120)', 'node', '(Nested Loop|Seq Scan on a05_in)' ],
	[ 'statistics are stale: a value becomes frequent', 'CREATE TABLE a06 AS SELECT g AS id, g AS k, md5(g::text) AS v FROM generate_series(1, 20000) g; CREATE INDEX a06_k ON a06 (k); ANALYZE a06', 'SELECT v FROM a06 WHERE k = 5 AND md5(v) < \'0\'', 'UPDATE a06 SET k = 5 WHERE id < 10000', 'node', '(Index Scan|Bitmap Heap Scan|Bitmap Index Scan).*a06.*' ],
	[ 'a sort spills', 'CREATE TABLE a07 AS SELECT g AS id, md5(g::text) AS v, repeat(md5(g::text), 30) AS w FROM generate_series(1, 1500) g; ALTER TABLE a07 ALTER w SET STORAGE PLAIN; ANALYZE a07', 'SELECT count(*) FROM (SELECT * FROM a07 ORDER BY id + 1 OFFSET 0) s', "SET work_mem = '64kB'", 'spill', 'Sort' ],
	[ 'a hash join spills', 'CREATE TABLE a08 AS SELECT g AS id, repeat(md5(g::text), 10) AS w FROM generate_series(1, 8000) g; ANALYZE a08', 'SELECT count(x.w || y.w) FROM a08 x JOIN a08 y USING (id)', "SET work_mem = '64kB'; SET enable_mergejoin = off; SET enable_nestloop = off", 'spill', '(Hash Join|Hash)' ],
	[ 'an aggregate spills', $narrow->('a09', 12000), 'SELECT count(*) FROM (SELECT v FROM a09 GROUP BY v OFFSET 0) s', "SET work_mem = '64kB'; SET enable_sort = off", 'spill', 'HashAggregate' ],
	[ 'index scans are disabled', $narrow->('a10', 30000) . '; CREATE INDEX a10_id ON a10 (id)', 'SELECT v FROM a10 WHERE id = 78', 'SET enable_indexscan = off; SET enable_bitmapscan = off', 'plan', 'Seq Scan on a10' ],
	[ 'hash joins are disabled', $narrow->('a11', 1200), 'SELECT count(*) FROM a11 x JOIN a11 y USING (id)', 'SET enable_hashjoin = off; SET enable_mergejoin = off', 'plan', '(Nested Loop|Materialize|Seq Scan on a11 .)' ],
	[ 'random_page_cost is changed', $narrow->('a12', 30000) . '; CREATE INDEX a12_id ON a12 (id)', 'SELECT v FROM a12 WHERE id = 79', 'SET random_page_cost = 1e7', 'plan', 'Seq Scan on a12' ],
	[ 'Materialize is disabled', $narrow->('a13', 150), 'SELECT count(*) FROM a13 x LEFT JOIN (SELECT md5(v) AS m FROM a13 WHERE md5(v || v) > \'a\' OFFSET 0) y ON x.v < y.m', 'SET enable_material = off', 'plan', '(Nested Loop Left Join|Seq Scan on a13|Subquery Scan on y)' ],
	[ 'the order of joins is fixed', $narrow->('a14', 600), 'SELECT count(*) FROM a14 x CROSS JOIN a14 y JOIN a14 z ON z.id = x.id AND z.k = y.id WHERE z.id < 3', 'SET join_collapse_limit = 1; SET enable_material = on', 'plan', '(Nested Loop|Seq Scan on a14 y|Materialize|Hash Join)' ],
	[ 'partitions are not pruned', 'CREATE TABLE a15 (id int, v text) PARTITION BY RANGE (id); SELECT format(\'CREATE TABLE a15_%s PARTITION OF a15 FOR VALUES FROM (%s) TO (%s)\', g, g * 100, g * 100 + 100) FROM generate_series(0, 99) g \gexec' . "\n" . 'INSERT INTO a15 SELECT g, md5(g::text) FROM generate_series(0, 9999) g; ANALYZE a15', 'SELECT count(*) FROM a15 WHERE id = 5', 'SET enable_partition_pruning = off', 'plan', '(Append|Seq Scan on a15_.*)' ],
	[ 'a parameter has a value with more rows', 'CREATE TABLE a16 AS SELECT g AS id, (g < 10)::int AS k, md5(g::text) AS v FROM generate_series(1, 10000) g; CREATE INDEX a16_k ON a16 (k); ANALYZE a16; SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; PREPARE p16 AS SELECT v FROM a16 WHERE k = $1 AND md5(v) < \'0\'', 'EXECUTE p16(1)', 'STATEMENT EXECUTE p16(0)', 'node', '(Index Scan|Bitmap Heap Scan).*a16.*', 'SELECT v FROM a16' ],
	[ 'a parameter asks for more', 'SET plan_cache_mode = force_generic_plan; PREPARE p17 AS SELECT count(*) FROM generate_series(1, $1) OFFSET 0', 'EXECUTE p17(200)', 'STATEMENT EXECUTE p17(20000)', 'node', '(Function Scan on generate_series|Aggregate)', 'FROM generate_series(1, $1)' ],
	[ 'a table grows', $narrow->('a18', 1000), 'SELECT count(*) FROM a18 WHERE v > \'0\'', 'INSERT INTO a18 SELECT id, k, v FROM a18, generate_series(1, 29)', 'node', 'Seq Scan on a18' ],
	[ 'a table is bloated', $narrow->('a19', 1000), 'SELECT count(*) FROM a19', 'INSERT INTO a19 SELECT g, g, md5(g::text) FROM generate_series(1001, 400000) g; DELETE FROM a19 WHERE id > 1000', 'node', 'Seq Scan on a19' ],
	[ 'the row that is looked for is at the end', $narrow->('a20', 30000), 'SELECT v FROM a20 WHERE id = 1 LIMIT 1', 'UPDATE a20 SET k = 1 WHERE id = 1', 'node', 'Seq Scan on a20' ],
	[ 'values are longer', 'CREATE TABLE a21 AS SELECT g AS id, \'a\'::text AS v FROM generate_series(1, 30) g; ANALYZE a21', 'SELECT max(md5(v)) FROM a21', 'UPDATE a21 SET v = repeat(md5(id::text), 10000)', 'node', 'Aggregate' ],
	[ 'a join has more pairs', 'CREATE TABLE a22 AS SELECT g AS id FROM generate_series(1, 700) g; ANALYZE a22; SET enable_mergejoin = off; SET enable_nestloop = off', 'SELECT count(*) FROM a22 p JOIN a22 q USING (id)', 'UPDATE a22 SET id = id % 10', 'node', '(Hash Join|Aggregate)' ],
	[ 'a function in a condition is slower', $narrow->('a23', 50) . '; CREATE FUNCTION f23(i int) RETURNS bool LANGUAGE plpgsql AS $$BEGIN RETURN i > 0; END$$', 'SELECT count(*) FROM a23 WHERE f23(id)', 'CREATE OR REPLACE FUNCTION f23(i int) RETURNS bool LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(0.001); RETURN i > 0; END$$', 'node', 'Seq Scan on a23' ],
	[ 'a function in the result is slower', $narrow->('a24', 50) . '; CREATE FUNCTION f24(i int) RETURNS int LANGUAGE plpgsql AS $$BEGIN RETURN i; END$$', 'SELECT max(f24(id)) FROM a24', 'CREATE OR REPLACE FUNCTION f24(i int) RETURNS int LANGUAGE plpgsql AS $$BEGIN FOR n IN 1 .. 3000 LOOP i = i + 1; END LOOP; RETURN i; END$$', 'node', 'Aggregate' ],
	[ 'a trigger is slower', 'CREATE TABLE a25 (id int); CREATE FUNCTION f25() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NEW; END$$; CREATE TRIGGER t25 BEFORE INSERT ON a25 FOR EACH ROW EXECUTE FUNCTION f25()', 'INSERT INTO a25 SELECT g FROM generate_series(1, 30) g', 'CREATE OR REPLACE FUNCTION f25() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(0.001); RETURN NEW; END$$', 'node', 'Insert on a25' ],
	[ 'a table gets an expensive index', 'CREATE TABLE a26 (id int, v text); CREATE FUNCTION f26(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN FOR n IN 1 .. 3000 LOOP i = i + 1; END LOOP; RETURN i; END$$', 'INSERT INTO a26 SELECT g FROM generate_series(1, 30) g', 'TRUNCATE a26; CREATE INDEX a26_f ON a26 (f26(id))', 'node', 'Insert on a26' ],
	[ 'a view is changed', $narrow->('a27', 500) . '; CREATE VIEW v27 AS SELECT id FROM a27', 'SELECT count(*) FROM v27', 'CREATE OR REPLACE VIEW v27 AS SELECT x.id FROM a27 x, a27 y WHERE x.v <> y.v', 'plan', '(Nested Loop|Materialize)' ],
	[ 'a row is locked', 'CREATE TABLE a28 AS SELECT g AS id, 0 AS n FROM generate_series(1, 10) g; ANALYZE a28', 'UPDATE a28 SET n = n + 1 WHERE id = 1', 'LOCKER', 'node', 'Update on a28' ],
	[ 'an advisory lock is held', 'CREATE TABLE a29 AS SELECT 1 AS id; ANALYZE a29', 'SELECT pg_advisory_xact_lock_shared(29) FROM a29', 'LOCKER', 'node', 'Seq Scan on a29' ],
	[ 'a recursion is deeper', 'CREATE TABLE a30 AS SELECT g AS id, g + 1000 AS next FROM generate_series(1, 900) g; INSERT INTO a30 VALUES (0, 899); CREATE INDEX a30_id ON a30 (id); ANALYZE a30; SET enable_hashjoin = off; SET enable_mergejoin = off', 'WITH RECURSIVE r AS (SELECT id, next FROM a30 WHERE id = 0 UNION ALL SELECT a30.id, a30.next FROM r JOIN a30 ON a30.id = r.next) SELECT count(*) FROM r', 'UPDATE a30 SET next = id + 1', 'node', '(Recursive Union|Nested Loop|Index Scan.*a30.*|WorkTable Scan on r_?1?|CTE Scan on r|Bitmap .*)' ],
	[ 'a subplan reads more', $narrow->('a31', 30) . '; ' . $narrow->('a31_in', 30), 'SELECT id, (SELECT count(*) FROM a31_in i WHERE i.k >= o.k) FROM a31 o', 'INSERT INTO a31_in SELECT id, k, v FROM a31_in, generate_series(1, 60)', 'node', '(Seq Scan on a31_in i|Aggregate)' ],
);
# a node becomes slower, and its statement does not: it is a small part of it, or another part becomes faster
my $naps = sub { my ($function, $ms) = @_; return "CREATE OR REPLACE FUNCTION $function(i int) RETURNS bool LANGUAGE plpgsql AS \$\$BEGIN PERFORM pg_sleep($ms / 1000.0); RETURN true; END\$\$" };
my @node_cases = (
	[ 'a small table of a long statement grows', $narrow->('n01', 30), 'SELECT pg_sleep(0.02), (SELECT max(md5(v)) FROM n01)', 'INSERT INTO n01 SELECT id, k, v FROM n01, generate_series(1, 60)', 'node', '(Aggregate|Seq Scan on n01)' ],
	[ 'a small table of a long statement is bloated', $narrow->('n02', 100), 'SELECT pg_sleep(0.02), (SELECT count(*) FROM n02)', 'INSERT INTO n02 SELECT g, g, md5(g::text) FROM generate_series(101, 100000) g; DELETE FROM n02 WHERE id > 100', 'node', 'Seq Scan on n02' ],
	[ 'a part is slower, and another one faster', $narrow->('n03', 1) . ';' . $naps->('n03_a', 40) . ';' . $naps->('n03_b', 1), 'SELECT bool_and(n03_b(id)) FROM (SELECT id FROM n03 WHERE n03_a(id) OFFSET 0) s', $naps->('n03_a', 1) . ';' . $naps->('n03_b', 40), 'node', 'Aggregate' ],
	[ 'a part is slower, and another one is left out', $narrow->('n04', 1) . ';' . $narrow->('n04_in', 1) . ';' . $naps->('n04_a', 40) . ';' . $naps->('n04_b', 1), 'SELECT (SELECT count(*) FROM n04_in WHERE n04_a(id)) FROM n04 WHERE n04_b(id)', 'DELETE FROM n04_in;' . $naps->('n04_b', 40), 'node', 'Seq Scan on n04' ],
	[ 'an index of a small table of a long statement is dropped', $narrow->('n05', 20000) . '; CREATE INDEX n05_id ON n05 (id)', 'SELECT pg_sleep(0.02), (SELECT v FROM n05 WHERE id = 77)', 'DROP INDEX n05_id', 'plan', 'Seq Scan on n05' ],
);
my %of_node = map { $_->[0] => 1 } @node_cases;
push @cases, @node_cases;
# without a cause
my @calm = map { [ "SELECT count(*) FROM calm WHERE id > $_" . ' AND v > 0' x $_, "calm$_" ] } 1 .. 10;
$node->safe_psql('postgres', 'CREATE TABLE calm AS SELECT g AS id, g AS v FROM generate_series(1, 2000) g; ANALYZE calm');
# a session's part of a setup is repeated in each
my @in_session = map { join ';', grep { /^\s*(SET|PREPARE)/ } split /;/, $_->[1] } @cases;
$node->safe_psql('postgres', join(";\n", map { my $setup = $_->[1]; $setup =~ s/PREPARE [^;]*//; $setup } @cases));

my $dir = PostgreSQL::Test::Utils::tempdir();
# For each round without a cause: how many times as long its session took because it waited for a processor.
my @crowded;
my $schedstat = -e '/proc/self/schedstat' ? "pg_read_file('/proc/self/schedstat')" : "'1 0'";

# Execute all statements in a session; returns how many times as long they took because it waited for a processor.
sub round_of
{
	my ($injected) = @_;
	my $script = "\\o /dev/null\nSET light_explain.profile = on;\n";
	for my $n (0 .. $#cases)
	{
		my ($name, $setup, $statement, $cause) = @{ $cases[$n] };
		my $set = $injected && $cause =~ /^SET/ ? $cause : '';
		$statement = $1 if $injected && $cause =~ /^STATEMENT (.*)/;
		$script .= "$in_session[$n];\n$set;\n" . "$statement;\n" x $executions . "RESET work_mem; RESET random_page_cost; RESET join_collapse_limit; RESET plan_cache_mode;\n";
		$script .= "RESET enable_$_;\n" for qw(indexscan bitmapscan hashjoin mergejoin nestloop material seqscan sort partition_pruning);
	}
	$script .= "$_->[0];\n" x $executions for @calm;
	$script .= "SET light_explain.profile = off;\n\\o\nSELECT $schedstat;\n";
	append_to_file("$dir/round.sql", '') if !-e "$dir/round.sql";
	open my $file, '>', "$dir/round.sql" or die $!;
	print $file $script;
	close $file;
	my ($rc, $out, $err) = $node->psql('postgres', undef, extra_params => [ '-f', "$dir/round.sql" ]);
	is($err, '', 'a round of statements') if $err ne '';
	# nanoseconds on a processor, and waiting for one
	my ($ran, $waited) = $out =~ /^(\d+) (\d+)/m or die "no times of a session: $out";
	return 1 + $waited / $ran;
}

sub query { return $node->safe_psql('postgres', @_); }

sub reload
{
	my ($value) = @_;
	$node->append_conf('postgresql.conf', "light_explain.history_interval = $value");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT setting = '$value' FROM pg_settings WHERE name = 'light_explain.history_interval'") or die 'is not reloaded';
}

sub end_bucket
{
	my $last = query('SELECT max(bucket) FROM light_explain_latency()');
	reload(1);
	$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM light_explain_latency() WHERE bucket = $last AND bucket_end IS NULL") or die 'does not end';
	reload(86400);
	# the worker reads the setting after the postmaster
	sleep 1;
}

# the first one fills caches
round_of(0);
query('SELECT light_explain_history_reset()');
my $slower;
for (1 .. $buckets + 5)
{
	push @crowded, round_of(0);
	end_bucket();
	next if @crowded < $buckets;
	$slower = query('SELECT count(*) FROM light_explain_regressions WHERE slower');
	last if $slower == 0 || !is_crowded($crowded[-1], @crowded[ 0 .. $#crowded - 1 ]);
}
note("waiting for a processor: @crowded");
is($slower, '0', 'without a cause nothing is slower');
diag(query('SELECT * FROM light_explain_regressions')) if query('SELECT count(*) FROM light_explain_regressions') > 0;
is(query("SELECT count(DISTINCT bucket) FROM light_explain_latency() WHERE bucket_end IS NOT NULL"), scalar(@crowded), 'buckets');

# the causes
for my $case (@cases)
{
	my ($name, $setup, $statement, $cause) = @$case;
	$node->safe_psql('postgres', $cause) if $cause !~ /^(SET|STATEMENT|LOCKER)/;
}
# sessions that lock what others need; several wait for the advisory lock, so that it is never free
append_to_file("$dir/row.sql", "BEGIN;\nUPDATE a28 SET n = 0 WHERE id = 1;\nSELECT pg_sleep(0.02);\nCOMMIT;\n");
append_to_file("$dir/advisory.sql", "BEGIN;\nSELECT pg_advisory_xact_lock(29);\nSELECT pg_sleep(0.02);\nCOMMIT;\n");
my @lockers = map { IPC::Run::start([ 'pgbench', '-n', '-c', '3', '-T', '600', '-f', "$dir/$_.sql", '-h', $node->host, '-p', $node->port, 'postgres' ], '>', \my $ignored, '2>', \my $ignored_too) } qw(row advisory);
$node->poll_query_until('postgres', q{SELECT count(*) > 1 FROM pg_locks WHERE locktype = 'advisory'}) or die 'does not lock';
# A process that disturbs most executions in a bucket can hide a cause, so the causes have further buckets; each is compared with those before the causes.
my $before = query('SELECT max(bucket_end) FROM light_explain_latency()');
my $fields = 'query, change, slower, label, round(factor::numeric, 1), e_value, executions, before_executions, before_buckets, tested';
my (%found, %as_expected);
for (1 .. 5)
{
	my $crowded = round_of(1);
	end_bucket();
	my ($start, $end) = split /\|/, query('SELECT bucket_start, bucket_end FROM light_explain_latency() WHERE bucket_end IS NOT NULL ORDER BY bucket DESC LIMIT 1');
	%found = map { my ($query, @rest) = split /\t/; $query => \@rest } split /\n/, query("SELECT $fields FROM light_explain_regressions('$start', '$end', '-infinity', '$before')", extra_params => [ '-F', "\t" ]);
	for my $case (@cases)
	{
		my ($name, $setup, $statement, $cause, $change, $label, $text) = @$case;
		my ($match) = grep { index($_, $text // $statement) >= 0 } keys %found;
		my $is = $match ? $found{$match} : [ 'is not found', '', '', '', '' ];
		# a spill is found whether or not it made the statement slower
		$as_expected{$name} //= 1 if $is->[0] eq $change && ($is->[1] eq 't' || $change eq 'spill') && $is->[2] =~ /^$label$/ && (!$of_node{$name} || $is->[8] eq 'node');
		$case->[7] = $is;
		delete $found{$match} if $match;
	}
	# callers of functions may be slower, too, and so are statements of functions that nap for longer
	delete $found{$_} for 'SELECT f04()', 'DELETE FROM a03 WHERE id = (SELECT max(id) FROM a03)', grep { /^SELECT pg_sleep\(\d+ \/ 1000/ } keys %found;
	$slower = join '; ', grep { $found{$_}[1] eq 't' } sort keys %found;
	last if keys %as_expected == @cases && ($slower eq '' || !is_crowded($crowded, @crowded));
}
$_->signal('TERM') for @lockers;
$_->finish for @lockers;

for my $case (@cases)
{
	my ($name, $setup, $statement, $cause, $change, $label, $text, $is) = @$case;
	ok($as_expected{$name}, $name)
		or diag("found: @$is; expected: $change, $label\n",
		query("SELECT string_agg(format('%s %s n=%s ms=%s self=%s', bucket, node, h.executions, total_ms, self_ms), E'\\n' ORDER BY bucket DESC, node) FROM light_explain_history h WHERE strpos(query, \$q\$" . ($text // $statement) . "\$q\$) > 0 AND bucket > 18"));
}
is($slower, '', 'nothing else is slower');

$node->stop;
ok(slurp_file($node->logfile) !~ /TRAP:|PANIC|was terminated by signal/, 'nothing bad in the server log');
done_testing();
