# Names that a worker makes for evicted pages, when the worker is killed and the server keeps
# the files of crashed processes: each leads to a file, so the server sees that it is taken.
# The table has three segments; most of it is a hole.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../../common/test";
use lib "$FindBin::RealBin/../diff";
use PostgreSQL::Test::Utils;
use CrashedServer;
use SameAnswers qw(start_server);
use PsqlSession;
use Test::More;

my $node = start_server('worker_files', <<'END');
remove_temp_files_after_crash = off
restart_after_crash = on
max_parallel_workers_per_gather = 2
parallel_leader_participation = off
parallel_setup_cost = 0
parallel_tuple_cost = 0
min_parallel_table_scan_size = 0
min_parallel_index_scan_size = 0
parallel_temp.worker_start_cost = 0
parallel_temp.enter_page_cost = 0
END
my $block = $node->safe_psql('postgres', 'SHOW block_size');
my $segment = $node->safe_psql('postgres', "SELECT setting::bigint FROM pg_settings WHERE name = 'segment_size'");
plan skip_all => 'segments of an unusual size' if $segment * $block > 1024 * 1024 * 1024;
plan skip_all => 'workers do not use indexes of temporary tables' if $node->safe_psql('postgres', "SELECT current_setting('server_version_num')::int >= 190000") eq 't';
$node->safe_psql('postgres', <<'END');
CREATE EXTENSION parallel_temp;
CREATE FUNCTION waits(i int) RETURNS bool LANGUAGE plpgsql PARALLEL SAFE COST 100000 AS 'BEGIN PERFORM pg_sleep(600); RETURN true; END';
END

my $gigabyte = $segment * $block;
my $hole = ($segment - 20) * $block;
my $s = PsqlSession->new($node);
my $out = $s->query(<<"END");
SET parallel_temp.fast_load = off;
CREATE TEMP TABLE t (id int, filler text);
INSERT INTO t SELECT g, 'first' FROM generate_series(1, 100) g;
SELECT pg_flush_local_buffers('t') > 0;
SELECT current_setting('data_directory') || '/' || pg_relation_filepath('t') AS file \\gset
\\setenv FILE :file
\\! truncate -s $gigabyte \$FILE && truncate -s $hole \$FILE.1
INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(101, 1100) g;
SELECT pg_relation_size('t') > 2 * ${gigabyte}::bigint;
CREATE INDEX ON t (id);
ALTER TABLE t SET (parallel_workers = 2);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT count(filler) FROM t WHERE id < 50 AND waits(id);
\\echo :file
END
like($out, qr/^t\nt\n.*Gather.*Index Scan/s, 'a worker reads a table of three segments by an index') or diag($s->error);
my ($folder) = $out =~ m{^(/.*)/t\d+_\d+$}m;

# taken(): the names of temporary tables' files, and where they lead
sub taken
{
	opendir(my $dir, $folder) or die "$folder: $!";
	return map { ($_ => -l "$folder/$_" ? readlink("$folder/$_") : 'file') } grep { /^t\d+_\d+/ } readdir($dir);
}
my %before = taken();
$s->send('SELECT count(filler) FROM t WHERE id < 50 AND waits(id);');
$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'parallel worker' AND wait_event = 'PgSleep'")
  or die 'no worker waits';
my $worker = $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'parallel worker' AND wait_event = 'PgSleep'");
kill 'KILL', $worker;
$s->wait;
ok(wait_until_back($node), 'the server is back after a worker was killed');
my %left = taken();
delete $left{$_} for keys %before;
cmp_ok(scalar(keys %left), '>=', 3, 'the names of the worker are left') or diag(explain(\%left));
is(join(' ', grep { $_ ne 'file' && $_ ne '/dev/null' } values %left), '', 'none of them leads to a name that may be removed') or diag(explain(\%left));
my ($first) = sort grep { $left{$_} eq 'file' } keys %left;
unlink("$folder/$first");
is(join(' ', grep { !-e "$folder/$_" } grep { $_ ne $first } keys %left), '', 'all of them exist without the first one');

# A new worker uses the names again.
$s = PsqlSession->new($node);
is($s->query('CREATE TEMP TABLE t AS SELECT g AS id FROM generate_series(1, 1000) g; SELECT count(*) FROM t;'), '1000', 'the next session works') or diag($s->error);
$s->quit;
$node->stop;
$node->start;
is(join(' ', sort grep { /^t\d+_\d+/ } keys %{ { taken() } }), '', 'a restart removes the names');
$node->stop;
done_testing();
