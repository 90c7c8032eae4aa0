# Settings of the server that change how pages are read or what is written about a
# query: io_method (18 and later), wal_level, auto_explain.  The same session gives the
# same answers with parallel_temp off and on, by both methods, with a table that the
# buffers hold and one that they do not.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../diff";
use PostgreSQL::Test::Utils;
use SameAnswers qw(start_server has_setting bad_log_lines psql_text);
use Test::More;

my $node = start_server('server_settings', <<'END');
shared_preload_libraries = 'parallel_temp, auto_explain'
wal_level = minimal
max_wal_senders = 0
END
$node->safe_psql('postgres', 'CREATE EXTENSION parallel_temp');

my @servers = ({ wal_level => 'minimal' }, { wal_level => 'logical' });
if (has_setting($node, 'io_method'))
{
	my $known = $node->safe_psql('postgres', q(SELECT array_to_string(enumvals, ' ') FROM pg_settings WHERE name = 'io_method'));
	@servers = map { { io_method => $_, wal_level => $_ eq 'sync' ? 'logical' : 'minimal' } } split / /, $known;
}

my $session = <<'END';
SET client_min_messages = warning;
CREATE TEMP TABLE t (id int, k int, pad text, long text);
ALTER TABLE t ALTER long SET STORAGE EXTERNAL;
INSERT INTO t SELECT g, g % 50, repeat('p', 200), CASE WHEN g % 40 = 0 THEN repeat(md5(g::text), 100) END FROM generate_series(1, 6000) g;
CREATE INDEX t_id ON t (id);
ANALYZE t;
SELECT count(*), sum(id), sum(k) FROM t;
UPDATE t SET k = k + 1 WHERE id % 3 = 0;
DELETE FROM t WHERE id % 7 = 0;
SELECT count(*), sum(id), sum(k), min(pad) FROM t WHERE k > 3;
SELECT k, count(*) FROM t GROUP BY k ORDER BY k;
SELECT count(*), sum(length(long)), min(md5(long)) FROM t WHERE long IS NOT NULL;
SELECT count(*), sum(a.k - b.k) FROM t a JOIN t b USING (id);
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off;
SELECT count(*), sum(a.k - b.k) FROM t a JOIN t b USING (id) WHERE a.id < 2000;
BEGIN; UPDATE t SET k = -1; SELECT sum(k) FROM t; ROLLBACK;
SELECT count(*), sum(k) FROM t;
SELECT count(*) FROM pg_local_buffers WHERE pins <> 0;
END
my %eager = (
	min_parallel_table_scan_size => 0,
	min_parallel_index_scan_size => 0,
	parallel_setup_cost => 0,
	parallel_tuple_cost => 0,
	max_parallel_workers_per_gather => 2,
	'parallel_temp.flush_page_cost' => 0,
	'parallel_temp.scan_buffer_cost' => 0, 'parallel_temp.worker_start_cost' => 0, 'parallel_temp.enter_page_cost' => 0,
	'auto_explain.log_min_duration' => 0,
	'auto_explain.log_analyze' => 'on',
	'auto_explain.log_buffers' => 'on');

for my $server (@servers)
{
	my $name = join ', ', map { "$_ = $server->{$_}" } sort keys %$server;
	$node->append_conf('postgresql.conf', join '', map { "$_ = $server->{$_}\n" } keys %$server);
	$node->stop;
	if (!$node->start(fail_ok => 1))
	{
		# The kernel or a container may forbid io_uring.
		note("the server does not start with $name");
		$node->append_conf('postgresql.conf', "io_method = sync\n");
		$node->start;
		next;
	}
	my (undef, $expected) = psql_text($node, 'postgres', $session, settings => { %eager, 'parallel_temp.enabled' => 'off', temp_buffers => 1024 });
	for my $method ('share', 'flush')
	{
		for my $buffers (100, 1024)
		{
			my $from = -s $node->logfile;
			my ($code, $out, $err) = psql_text($node, 'postgres', $session, settings => { %eager, 'parallel_temp.method' => $method, temp_buffers => $buffers });
			is("$code $err$out", "0 $expected", "$name: $method, $buffers buffers: as without the library");
			my $log = slurp_file($node->logfile, $from);
			like($log, qr/Workers Launched: [12]\s.*Temp Scan.*Temp Pages: method=$method/s, "$name: $method, $buffers buffers: auto_explain shows the scan");
			is(join("\n", bad_log_lines($log)), '', "$name: $method, $buffers buffers: nothing bad in the log");
		}
	}
}

$node->stop;
done_testing();
