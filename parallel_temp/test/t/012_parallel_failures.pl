# When something goes wrong while workers read temporary tables: no pin is left,
# and the next query is right.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../fuzz";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Differential;

my $node = PostgreSQL::Test::Cluster->new('failures');
$node->init(extra => ['--data-checksums']);
$node->append_conf('postgresql.conf', <<'EOC');
shared_preload_libraries = 'parallel_temp'
max_worker_processes = 8
max_files_per_process = 64
restart_after_crash = on
fsync = off
EOC
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION parallel_temp;
CREATE FUNCTION kill_a_worker(pause int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	n int := 0;
BEGIN
	LOOP
		PERFORM pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'parallel worker';
		EXIT WHEN FOUND OR n > 3000;
		n := n + 1;
		PERFORM pg_sleep(0.01);
		PERFORM pg_stat_clear_snapshot();
	END LOOP;
END
$$;
SQL

my $tables = <<'SQL';
CREATE TEMP TABLE t AS SELECT g AS id, g % 97 AS k FROM generate_series(1, 20000) g;
CREATE TEMP TABLE s AS SELECT g AS id, repeat('x', 500) AS txt FROM generate_series(1, 4000) g;
CREATE INDEX ON s (id);
ANALYZE t; ANALYZE s;
SQL
my $endless = 'SELECT count(*) FROM t a, t b, t c WHERE a.k + b.k + c.k < 0';
my $check = <<'SQL';
SELECT 'check', count(*), sum(id) FROM t;
SELECT 'pins', coalesce(sum(pins), 0) FROM pg_local_buffers;
SQL
my $good = "check|20000|200010000\npins|0";

# run(settings, statements): what a session prints, errors in place.
my $scripts = 0;
sub run_session
{
	my ($sql) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/failures' . ++$scripts . '.sql';
	append_to_file($file, "\\set VERBOSITY terse\n$Differential::EAGER$sql");
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	my $psql = $node->can('installed_command') ? $node->installed_command('psql') : 'psql';
	my $out = `$psql -X -A -t -q -d postgres -f $file 2>&1`;
	$out =~ s/^psql:\S+:\d+: //mg;
	chomp $out;
	return $out;
}

foreach my $method ('share', 'flush')
{
	foreach my $buffers ('1MB', '32MB')
	{
		my $settings = "SET temp_buffers = '$buffers'; SET parallel_temp.method = $method;\n$tables";

		is(run_session("${settings}SELECT count(*) FROM t WHERE 1 / (id - 19999) > 5;\n$check"),
			"ERROR:  division by zero\n$good", "$method, $buffers: an error in the scan");
		is(run_session("${settings}SET statement_timeout = '300ms';\n$endless;\nRESET statement_timeout;\n$check"),
			"ERROR:  canceling statement due to statement timeout\n$good", "$method, $buffers: statement_timeout");
		is(run_session(
				"${settings}BEGIN;\nUPDATE t SET k = k;\nSAVEPOINT a;\nSELECT count(*) FROM t JOIN s USING (id) WHERE 1 / (id - 3999) > 5;\nROLLBACK TO a;\n"
				  . "${check}COMMIT;\n${check}DROP TABLE t;\nSELECT count(*) FROM s;\n"),
			"ERROR:  division by zero\n$good\n$good\n4000", "$method, $buffers: an error in a subtransaction, then DROP TABLE");
		is(run_session("${settings}SET max_parallel_workers = 0;\n$check"), $good, "$method, $buffers: no worker can be had");
	}
}

# A worker is told to go.
{
	my $killer = "SELECT kill_a_worker(0);\n";
	my $pid = fork();
	if ($pid == 0)
	{
		run_session($killer);
		require POSIX;
		POSIX::_exit(0);
	}
	my $out = run_session("SET temp_buffers = '32MB';\n$tables$endless;\n$check");
	waitpid($pid, 0);
	like($out, qr/^(FATAL|ERROR): .*terminating .* due to administrator command\n\Q$good\E$/, 'a worker is terminated');
}

# Descriptors are short: a table with more files than the session may have open.
is(run_session(<<'SQL' . $check), "130|9000\n$good", 'more files than descriptors');
SET temp_buffers = '1MB';
CREATE TEMP TABLE part (id int, txt text) PARTITION BY HASH (id);
SELECT format('CREATE TEMP TABLE part%s PARTITION OF part FOR VALUES WITH (MODULUS 130, REMAINDER %s)', g, g) FROM generate_series(0, 129) g \gexec
INSERT INTO part SELECT g, repeat('y', 400) FROM generate_series(1, 9000) g;
CREATE TEMP TABLE t AS SELECT g AS id FROM generate_series(1, 20000) g;
SELECT count(DISTINCT tableoid), count(*) FROM part;
SQL

# A page that is damaged on disk ends the query with an error, in any process.
{
	my $out = run_session(<<'SQL' . $check);
SET temp_buffers = '1MB';
CREATE TEMP TABLE t AS SELECT g AS id FROM generate_series(1, 20000) g;
CREATE TEMP TABLE bad AS SELECT g AS id, repeat('z', 500) AS txt FROM generate_series(1, 20000) g;
SELECT pg_evict_temp_relation('bad') IS NOT NULL;
SELECT pg_relation_filepath('bad') AS path, current_setting('data_directory') AS dir \gset
\setenv BAD :dir/:path
\! printf 'garbage' | dd of="$BAD" bs=1 seek=$((8192 * 700 + 4000)) conv=notrunc 2>/dev/null
SET parallel_leader_participation = off;
SELECT count(*) FROM bad;
RESET parallel_leader_participation;
SQL
	like($out, qr/ERROR:  invalid page in block 700 of temporary table "bad"\n\Q$good\E$/, 'a damaged page is found');
}

# A worker that is killed takes the server down with it; nothing is left behind.
{
	my $pid = fork();
	if ($pid == 0)
	{
		run_session("SET temp_buffers = '1MB';\n$tables" . "CREATE TEMP TABLE w AS SELECT g AS id, repeat(md5(g::text), 200) AS txt FROM generate_series(1, 2000) g;\n$endless;");
		require POSIX;
		POSIX::_exit(0);
	}
	my $victim;
	foreach (1 .. 600)
	{
		$victim = $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'parallel worker' LIMIT 1");
		last if $victim;
		select(undef, undef, undef, 0.1);
	}
	ok($victim, 'a worker runs');
	kill 'KILL', $victim if $victim;
	waitpid($pid, 0);
	$node->poll_query_until('postgres', 'SELECT true') or die 'the server did not come back';
	my $base = $node->data_dir . '/base';
	my @left = grep { m{/t\d+_\d+} } glob("$base/*/*");
	is("@left", '', 'no temporary file is left after a crash');
	is(run_session("SET temp_buffers = '1MB';\n$tables$check"), $good, 'and the next query is right');
}

my $log = slurp_file($node->logfile);
unlike($log, qr/refcount leak|TRAP|PANIC/, 'no leak, no failed assertion');
$node->stop;
done_testing();
