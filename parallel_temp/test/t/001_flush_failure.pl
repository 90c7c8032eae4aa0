# A flush that fails half way (disk full, quota, file size limit) loses nothing:
# pages that were not written stay dirty, and calling it again writes them.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => ['--data-checksums']);
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'parallel_temp'\ntemp_buffers = 64MB\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION parallel_temp');

# The backend itself gets a file size limit, in the middle of a page and of a run
# of pages.  It is above the size of a WAL segment, which has to stay writable.
my $block = $node->safe_psql('postgres', 'SHOW block_size');
my $limit_pages = 2560;
my $limit = $limit_pages * $block + 3 * $block + 100;

my ($rc, $stdout, $stderr) = $node->psql(
	'postgres', qq{
\\set VERBOSITY verbose
SET parallel_temp.fast_load = off;
SET parallel_temp.enabled = off;
CREATE TEMP TABLE t (id int, filler text);
INSERT INTO t SELECT g, repeat('x', 200) FROM generate_series(1, 110000) g;
CREATE TABLE sums AS SELECT count(*) AS n, sum(id) AS s FROM t;
SELECT pg_flush_local_buffers() > 0, pg_evict_temp_relation('t') > 0;
SELECT pg_read_temp_relation('t', true) > 3000;
SELECT pg_temp_buffers_dirty('t') AS pages \\gset
SELECT pg_backend_pid() AS pid \\gset
\\setenv PID :pid
\\! prlimit --pid \$PID --fsize=$limit:unlimited
SELECT pg_flush_local_buffers('t');
SELECT 'written', :pages - pg_dirty_local_buffers();
SELECT pg_flush_local_buffers();
SELECT 'written', :pages - pg_dirty_local_buffers();
SELECT pg_evict_temp_relation('t');
SELECT 'resident', resident = :pages, 'dirty', dirty = :pages - $limit_pages FROM pg_temp_relations WHERE relation = 't'::regclass;
BEGIN;
SAVEPOINT s;
SELECT pg_flush_local_buffers('t');
ROLLBACK TO s;
SELECT 'usable', count(*) = (SELECT n FROM sums) FROM t;
COMMIT;
\\! prlimit --pid \$PID --fsize=unlimited:unlimited
SELECT 'rest', pg_flush_local_buffers('t') = :pages - $limit_pages, pg_dirty_local_buffers();
SELECT 'evicted', pg_evict_temp_relation('t') = :pages;
SELECT 'same', count(*) = (SELECT n FROM sums), sum(id) = (SELECT s FROM sums), bool_and(filler = repeat('x', 200)) FROM t;
},
	on_error_stop => 0);

is($stdout, join("\n",
		't|t', 't',
		"written|$limit_pages",
		"written|$limit_pages",
		'resident|t|dirty|t',
		'usable|t',
		'rest|t|0',
		'evicted|t',
		'same|t|t|t'),
	'what was written is clean, the rest is dirty and is written later');
my @errors = $stderr =~ /ERROR:  (.*)/g;
is(scalar(@errors), 4, 'each attempt failed') or diag($stderr);
like($_, qr/could not write blocks? \d+(\.\.\d+)? in file "base/, 'with the file and blocks') for @errors;
unlike($stderr, qr/PANIC|FATAL|WARNING/, 'and nothing worse');

$node->stop;
my $log = slurp_file($node->logfile);
unlike($log, qr/PANIC|refcount leak|TRAP/, 'no leak in the log');
done_testing();
