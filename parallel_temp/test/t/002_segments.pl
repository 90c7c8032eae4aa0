# Runs of adjacent pages end where a segment file ends: pages on both sides of
# 1 GB land in their own files.  The first gigabyte is a hole.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => ['--data-checksums']);
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'parallel_temp'\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION parallel_temp');

my $block = $node->safe_psql('postgres', 'SHOW block_size');
my $segment = $node->safe_psql('postgres', "SELECT setting::bigint FROM pg_settings WHERE name = 'segment_size'");
plan skip_all => 'segments of an unusual size' if $segment * $block > 1024 * 1024 * 1024;

my $hole = ($segment - 20) * $block;
my $first = $segment - 20;
my ($rc, $stdout, $stderr) = $node->psql(
	'postgres', qq{
SET parallel_temp.fast_load = off;
SET parallel_temp.enabled = off;
CREATE TEMP TABLE t (id int, filler text);
INSERT INTO t VALUES (0, 'first');
SELECT pg_flush_local_buffers('t') > 0;
SELECT current_setting('data_directory') || '/' || pg_relation_filepath('t') AS file \\gset
\\setenv FILE :file
\\! truncate -s $hole \$FILE
INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1, 1000) g;
SELECT pg_relation_size('t') > $segment * ${block}::bigint AS two_segments;
SELECT min(block) <= $first + 1, max(block) > $segment FROM pg_local_buffers WHERE relation = 't'::regclass AND fork = 'main' AND dirty AND block > 0;
SELECT pg_dirty_local_buffers() AS dirty \\gset
SELECT pg_flush_local_buffers('t') = :dirty, pg_dirty_local_buffers();
\\! stat -c %s \$FILE
\\! test \$(stat -c %s \$FILE.1) -gt 100000 && echo second
SELECT pages > $segment, bytes > $segment * ${block}::bigint, path_exists FROM pg_temp_relations WHERE relation = 't'::regclass;
SELECT pg_evict_temp_relation('t') > 100;
SELECT count(*), min(id), max(id), count(DISTINCT id), bool_and(filler = repeat('x', 1000)) FROM t WHERE ctid >= '($first,0)';
SELECT filler FROM t WHERE ctid = '(0,1)';
},
	on_error_stop => 0);
my $gigabyte = $segment * $block;
my @lines = split /\n/, $stdout;
is_deeply([ @lines[0 .. 7] ], [ 't', 't', 't|t', 't|0', $gigabyte, 'second', 't|t|t', 't' ], 'pages of both segments are written')
  or diag($stdout, $stderr);
is($lines[8], '993|8|1000|993|t', 'and read back');
is($lines[9], 'first', 'with the one page before the hole');
is($stderr, '', 'without a message');
$node->stop;
done_testing();
