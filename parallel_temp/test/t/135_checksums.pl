# A damaged page of a temporary table's file: a parallel scan reports it as the server's
# scan does, and continues if ignore_checksum_failure is on.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../diff";
use PostgreSQL::Test::Utils;
use SameAnswers qw(start_server psql_text bad_log_lines);
use Test::More;

my $node = start_server('checksums', '', ['--data-checksums']);
$node->safe_psql('postgres', 'CREATE EXTENSION parallel_temp');
my $data = $node->data_dir;

# $read is asked after a byte of the file was changed, while no page is in a buffer.
sub damaged
{
	my ($settings, $read) = @_;
	my ($code, $out, $err) = psql_text($node, 'postgres', <<"END", settings => { min_parallel_table_scan_size => 0, parallel_setup_cost => 0, parallel_tuple_cost => 0, 'parallel_temp.worker_start_cost' => 0, 'parallel_temp.flush_page_cost' => 0, 'parallel_temp.scan_buffer_cost' => 0, 'parallel_temp.statistics' => 'on' });
CREATE TEMP TABLE t AS SELECT i AS id, repeat('x', 100) AS pad FROM generate_series(1, 5000) i;
SELECT pg_flush_local_buffers('t') >= 0, pg_evict_temp_relation('t') > 0;
SELECT pg_relation_filepath('t') AS path \\gset
\\setenv DAMAGED :path
\\! printf y | dd of='$data'/"\$DAMAGED" bs=1 seek=\$((3 * 8192 - 40)) conv=notrunc 2>/dev/null
$settings
EXPLAIN (COSTS OFF) SELECT count(*) FROM t;
$read
END
	return "$out$err";
}

my $count = 'SELECT count(*), count(*) FILTER (WHERE pad ~ $$y$$) FROM t;';
my $stock = damaged('SET parallel_temp.enabled = off;', $count);
like($stock, qr/ERROR:  XX001/, "the server's scan: an error");
for my $method ('share', 'flush')
{
	my $found = damaged("SET parallel_temp.method = $method;", $count);
	like($found, qr/Gather.*Temp Scan/s, "$method: parallel");
	like($found, qr/Gathered Statistics: t/, "$method: a damaged page does not keep the planner from looking at others");
	like($found, qr/ERROR:  XX001/, "$method: an error");
	$found = damaged("SET parallel_temp.method = $method; SET ignore_checksum_failure = on;", $count);
	like($found, qr/^5000\|1$/m, "$method: all rows where the failure is to be ignored") or diag($found);
	unlike($found, qr/ERROR/, "$method: no error then");
}
is(join("\n", bad_log_lines(slurp_file($node->logfile))), '', 'no leak in the log');
$node->stop;
done_testing();
