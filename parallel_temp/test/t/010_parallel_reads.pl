# Reads of workers from files: more files than descriptors, a damaged page; tables that they
# must not read at all; and which pages are written before they start.

use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('reads');
$node->init(extra => ['--data-checksums']);
$node->append_conf('postgresql.conf', <<'EOC');
shared_preload_libraries = 'parallel_temp'
max_worker_processes = 8
max_files_per_process = 64
fsync = off
EOC
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION parallel_temp;
SET check_function_bodies = off;
CREATE FUNCTION liar(int) RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE
	AS 'BEGIN RETURN (SELECT count(*) FROM other WHERE id <= $1); END';
SQL

my $version = $node->safe_psql('postgres', 'SHOW server_version_num');

my $eager = <<'SQL';
SET parallel_setup_cost = 0;
SET parallel_temp.worker_start_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SET parallel_temp.flush_page_cost = 0;
SQL

# The output of a session, errors in place; and last the conditions that must hold after all of it.
my $scripts = 0;
sub run_session
{
	my ($sql) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/session' . ++$scripts . '.sql';
	append_to_file($file, "\\set VERBOSITY terse\n$eager$sql\nSELECT 'pins', coalesce(sum(pins), 0) FROM pg_local_buffers;\n");
	my ($stdout, $stderr) = ('', '');
	IPC::Run::run([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', $file ], '>', \$stdout, '2>', \$stderr);
	$stderr =~ s/^psql:\S+:\d+: //mg;
	return $stderr . $stdout;
}

is(run_session(<<'SQL'), "130|9000\npins|0\n", 'more files than descriptors');
SET temp_buffers = '1MB';
CREATE TEMP TABLE part (id int, txt text) PARTITION BY HASH (id);
SELECT format('CREATE TEMP TABLE part%s PARTITION OF part FOR VALUES WITH (MODULUS 130, REMAINDER %s)', g, g) FROM generate_series(0, 129) g \gexec
INSERT INTO part SELECT g, repeat('y', 400) FROM generate_series(1, 9000) g;
SELECT count(DISTINCT tableoid), count(*) FROM part;
SQL

foreach my $method ('share', 'flush')
{
	# A page of the file that is no page any more.
	like(run_session(<<SQL), qr/^(WARNING:  .*\n)?ERROR:  invalid page in block 700 of temporary table "bad"\n19000\npins\|0\n$/, "$method: a damaged page is found");
SET parallel_temp.method = $method;
SET temp_buffers = '1MB';
CREATE TEMP TABLE other AS SELECT g AS id FROM generate_series(1, 19000) g;
CREATE TEMP TABLE bad AS SELECT g AS id, repeat('z', 500) AS txt FROM generate_series(1, 20000) g;
SELECT pg_evict_temp_relation('bad') AS evicted \\gset
SELECT pg_relation_filepath('bad') AS path, current_setting('data_directory') AS dir \\gset
\\setenv BAD :dir/:path
\\! printf 'garbage' | dd of="\$BAD" bs=1 seek=\$((8192 * 700 + 4000)) conv=notrunc 2>/dev/null
SET parallel_leader_participation = off;
SELECT count(*) FROM bad;
SELECT count(*) FROM other;
SQL

	# With the local buffer manager running in a worker, core would not refuse any more.
	# (19 lets workers read no values that are stored out of line, so the plan is serial.)
	my $answer = $version < 190000 ? qr/^ERROR:  cannot access temporary tables during a parallel operation\npins\|0\n$/ : qr/^55050\npins\|0\n$/;
	like(run_session(<<SQL), $answer, "$method: a worker's function is kept from other tables");
SET parallel_temp.method = $method;
SET temp_buffers = '32MB';
SET parallel_leader_participation = off;
CREATE TEMP TABLE other AS SELECT g AS id FROM generate_series(1, 100) g;
CREATE TEMP TABLE t AS SELECT g AS id FROM generate_series(1, 15000) g;
CREATE TEMP TABLE wide (id int, txt text);
ALTER TABLE wide ALTER txt SET STORAGE EXTERNAL;
INSERT INTO wide SELECT g, (SELECT string_agg(md5((g * i)::text), '') FROM generate_series(1, 100) i) FROM generate_series(1, 600) g;
UPDATE other SET id = id;
SELECT sum(liar(id)) FROM wide JOIN t USING (id) WHERE txt > '0';
SQL
}

# A table that stays below the limit of pages kept in place is not written at all; of a larger one only the rest is.
is(run_session(<<'SQL'), "12600\nflushed: 0\n18900\nonly the rest: true\n18900\npins|0\n", 'only pages that cannot stay in place are written');
SET temp_buffers = '8MB';
CREATE TEMP TABLE fits AS SELECT g AS id, repeat('f', 350) AS txt FROM generate_series(1, 12600) g;
SELECT count(*) FROM fits;
SELECT 'flushed: ' || value FROM parallel_temp_stats WHERE counter = 'pages flushed';
DROP TABLE fits;
CREATE TEMP TABLE tight AS SELECT g AS id, repeat('f', 350) AS txt FROM generate_series(1, 18900) g;
SELECT count(*) FROM tight;
SELECT 'only the rest: ' || (value BETWEEN 1 AND 250) FROM parallel_temp_stats WHERE counter = 'pages flushed';
SELECT count(*) FROM tight;
SQL

# The more the start of workers costs, the fewer plans have them, and never again once they had not.
my $starts = run_session(<<'SQL');
SET temp_buffers = '32MB';
SET parallel_setup_cost = 100;
CREATE TEMP TABLE tie AS SELECT g AS id FROM generate_series(1, 60000) g;
ANALYZE tie;
DO $$
DECLARE
	plan json;
BEGIN
	FOR start IN 0 .. 6000 BY 200 LOOP
		PERFORM set_config('parallel_temp.worker_start_cost', start::text, false);
		EXECUTE 'EXPLAIN (COSTS OFF, FORMAT JSON) SELECT count(*) FROM tie' INTO plan;
		RAISE NOTICE 'start %: %', start, CASE WHEN plan::text ~ 'Gather' THEN 'parallel' ELSE 'serial' END;
	END LOOP;
END $$;
SQL
like(join(' ', $starts =~ /start \d+: (\w+)/g), qr/^(parallel ){2,}(serial ?){2,}$/, 'workers while their start costs little') or diag($starts);

# The cost of reading an index in workers is not charged to a scan that only the leader runs.
my $leaders = run_session(<<'SQL');
SET temp_buffers = '64MB';
SET parallel_setup_cost = 1000;
SET enable_hashjoin = off; SET enable_nestloop = off;
CREATE TEMP TABLE few AS SELECT g AS id, repeat('b', 40) AS pad FROM generate_series(1, 30000) g;
CREATE TEMP TABLE many AS SELECT (hashint8extended(g, 1) & 1073741823)::int % 30000 + 1 AS few_id, g % 50 AS part, repeat('a', 60) AS pad FROM generate_series(1, 300000) g;
CREATE INDEX ON few (id);
VACUUM ANALYZE few, many;
SET parallel_temp.enter_page_cost = 0.5;
EXPLAIN SELECT count(few.pad) FROM few JOIN many ON few_id = few.id WHERE part < 1;
SET parallel_temp.enter_page_cost = 5;
EXPLAIN SELECT count(few.pad) FROM few JOIN many ON few_id = few.id WHERE part < 1;
SQL
my @costs = $leaders =~ /Merge Join  \(cost=[0-9.]+?\.\.([0-9.]+) .*?Index Scan using few_id_idx.*?Gather.*?Temp Scan\) on many/gs;
ok(@costs == 2 && $costs[0] == $costs[1], "the leader's index scan costs the same at any cost of entering pages")
  or diag($leaders);

unlike(slurp_file($node->logfile), qr/refcount leak|TRAP|PANIC|was terminated by signal/, 'no leak, no crash');
$node->stop;
done_testing();
