# Loads that fail or are ended half-way: no room for the file, cancel, terminate,
# crash.  The session lives where it should, rows of failed statements are nowhere,
# files do not stay behind.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = PostgreSQL::Test::Cluster->new('failures');
$node->init(extra => [ '--data-checksums', '--wal-segsize=1' ]);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'parallel_temp'
temp_buffers = '800kB'
min_wal_size = 2MB
autovacuum = off
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION parallel_temp');

# The whole output of a session that continues after errors.
sub session
{
	my ($sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql, on_error_stop => 0);
	return ($out, $err);
}

my $rows = "SELECT i AS id, repeat('x', 500) AS pad FROM generate_series(1, 20000) i";

# the same rows from a program
my $program = 'seq -f "%.0f,' . ('x' x 500) . '" 1 20000';

# ---- checksums of pages that never were in local buffers ----
is($node->safe_psql('postgres', "CREATE TEMP TABLE t AS $rows; INSERT INTO t $rows; SELECT count(*), sum(id) FROM t"),
	'40000|400020000', 'pages written past the buffers have good checksums');
is($node->safe_psql('postgres', "CREATE TEMP TABLE t (id int, pad text, g int GENERATED ALWAYS AS (id + 1) STORED); INSERT INTO t $rows; SELECT count(*), sum(id), sum(g) FROM t"),
	'20000|200010000|200030000', 'those of rows with generated columns, too');

# ---- no room: a limit on the size of files stands for a full disk ----
SKIP:
{
	skip 'no prlimit here', 4 if system('prlimit --version >/dev/null 2>&1') != 0;
	for my $lazy ('on', 'off')
	{
		my ($out, $err) = session(qq{
			SET parallel_temp.lazy_files = $lazy;
			CREATE TEMP TABLE kept AS SELECT 1 AS id, 'x' AS pad;
			SELECT pg_backend_pid() AS pid \\gset
			\\setenv PID :pid
			\\! prlimit --pid \$PID --fsize=4194304:
			CREATE TEMP TABLE t AS $rows;
			INSERT INTO kept $rows;
			SELECT 'removed', pg_relation_size('kept') < 10 * 8192, count(*) < 10 FROM pg_local_buffers WHERE relation = 'kept'::regclass;
			INSERT INTO kept $rows RETURNING NULL;
			SELECT 'removed', pg_relation_size('kept') < 20 * 8192, count(*) < 20 FROM pg_local_buffers WHERE relation = 'kept'::regclass;
			BEGIN;
			CREATE TEMP TABLE u (LIKE kept);
			SAVEPOINT one;
			INSERT INTO u $rows;
			ROLLBACK TO one;
			SELECT 'in block', count(*) FROM u;
			TRUNCATE u;
			INSERT INTO u $rows LIMIT 2000;
			COMMIT;
			SELECT 'alive', (SELECT count(*) FROM kept), (SELECT count(*) FROM u), to_regclass('t') IS NULL;
			\\! prlimit --pid \$PID --fsize=unlimited
			INSERT INTO kept $rows;
			INSERT INTO u $rows;
			SELECT 'again', (SELECT count(*) FROM kept), (SELECT sum(id) FROM u);
		});
		my @failures = $err =~ /ERROR:  could not (?:extend|write)[^\n]*File too large/g;
		is(scalar(@failures), 4, "file size limit, lazy_files = $lazy: each statement fails");
		unlike($err, qr/FATAL|PANIC|WARNING|server closed/, "file size limit, lazy_files = $lazy: nothing worse");
		like($out, qr/^removed\|t\|t\nremoved\|t\|t\nin block\|0\nalive\|1\|2000\|t$/m, "file size limit, lazy_files = $lazy: old rows are there, added pages are removed");
		like($out, qr/^again\|20001\|202011000$/m, "file size limit, lazy_files = $lazy: continues when there is space");
	}
}

# ---- what a failed load has to leave in buffers has room on the disk ----
# or statements that must evict it would fail on a full one.  All of it fits into the
# buffers, so nothing has been written when the file is looked at.
my %leaves = (
	'an index' => "CREATE INDEX ON kept (id); INSERT INTO kept SELECT id / (19000 - id), pad FROM ($rows) s",
	'a scan of the table' => "INSERT INTO kept SELECT s.id / (19000 - s.id), s.pad FROM ($rows) s LEFT JOIN kept USING (id)",
	'a function that looks' => "INSERT INTO kept SELECT looks(id) / (19000 - id), pad FROM ($rows) s",
	'an index, COPY' => "CREATE INDEX ON kept ((1 / (19000 - id))); COPY kept FROM PROGRAM '$program' WITH (FORMAT csv)");
for my $what (sort keys %leaves)
{
	my ($out, $err) = session(qq{
		SET temp_buffers = '32MB';
		CREATE TEMP TABLE kept AS SELECT 1 AS id, 'x' AS pad;
		CREATE FUNCTION pg_temp.looks(id int) RETURNS int LANGUAGE plpgsql AS 'BEGIN IF id = 15000 THEN PERFORM FROM kept LIMIT 1; END IF; RETURN id; END';
		SET search_path = public, pg_temp;
		@{[ $leaves{$what} =~ s/looks/pg_temp.looks/r ]};
		SELECT pg_relation_filepath('kept') AS file, current_setting('data_directory') AS dir \\gset
		\\setenv FILE :dir/:file
		\\! stat -c 'room %s %b %B' "\$FILE"
		SELECT 'alive', count(*), min(id) FROM kept;
	});
	like($err, qr/division by zero/, "$what: the load fails") or diag($err);
	like($out, qr/^alive\|1\|1$/m, "$what: no row of it is seen");
	my ($size, $blocks, $unit) = $out =~ /^room (\d+) (\d+) (\d+)$/m;
	cmp_ok($size, '>', 1000 * 8192, "$what: its pages stay");
	cmp_ok($blocks * $unit, '>=', $size, "$what: they have room") or diag($out);
}
# a load that removes its pages when it fails removes none as long as it does not
{
	my ($out, $err) = session(qq{
		SET temp_buffers = '32MB';
		CREATE TEMP TABLE kept AS SELECT 1 AS id, 'x' AS pad;
		INSERT INTO kept $rows;
		SELECT pg_relation_filepath('kept') AS file, current_setting('data_directory') AS dir \\gset
		\\setenv FILE :dir/:file
		\\! stat -c 'room %s %b %B' "\$FILE"
	});
	my ($size, $blocks, $unit) = $out =~ /^room (\d+) (\d+) (\d+)$/m;
	cmp_ok($blocks * $unit, '<', $size / 2, 'a lazy file takes little room') or diag($out, $err);
}

# ---- cancel ----
for my $load (
	"CREATE TEMP TABLE t AS SELECT i AS id, pg_sleep(CASE WHEN i = 15000 THEN 100 ELSE 0 END)::text FROM generate_series(1, 20000) i",
	"INSERT INTO kept SELECT i, pg_sleep(CASE WHEN i = 15000 THEN 100 ELSE 0 END)::text FROM generate_series(1, 20000) i",
	"INSERT INTO kept SELECT i, pg_sleep(CASE WHEN i = 15000 THEN 100 ELSE 0 END)::text FROM generate_series(1, 20000) i RETURNING id",
	"COPY kept FROM PROGRAM '$program' WITH (FORMAT csv) WHERE id <> 15000 OR pg_sleep(100) IS NULL")
{
	my ($out, $err) = session(qq{
		CREATE TEMP TABLE kept AS SELECT 1 AS id, 'x' AS pad;
		SET statement_timeout = '1s';
		$load;
		RESET statement_timeout;
		SELECT 'alive', count(*), to_regclass('t') IS NULL FROM kept;
		INSERT INTO kept $rows;
		SELECT 'again', count(*) FROM kept;
	});
	like($err, qr/canceling statement due to statement timeout/, 'cancelled');
	like($out, qr/^alive\|1\|t\nagain\|20001$/m, 'the session lives');
	unlike($err, qr/WARNING/, 'nothing leaked');
}

# ---- terminated during a load: files of the session go with it ----
sub temp_files
{
	my $base = $node->data_dir . '/base';
	return grep { m{/t\d+_\d+} } glob("$base/*/t*");
}
# lost($sql): what is said when the session ends itself (of which psql() may die).
sub lost
{
	my ($sql) = @_;
	my @said = eval { session($sql) };
	return join("\n", @said, $@);
}
like(lost("CREATE TEMP TABLE t AS SELECT i AS id, CASE WHEN i = 15000 THEN pg_terminate_backend(pg_backend_pid()) END FROM generate_series(1, 20000) i"),
	qr/terminating connection due to administrator command/, 'terminated');
# sessions of before remove their tables after their clients have left
$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'");
is(scalar(temp_files()), 0, 'no file stays');

# ---- crash: the next start removes the files ----
lost(qq{
	CREATE TEMP TABLE t AS $rows;
	SELECT pg_backend_pid() AS pid \\gset
	\\setenv PID :pid
	\\! kill -9 \$PID
	SELECT 1;
});
# (test servers do not start again by themselves)
for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
{
	last unless -e $node->data_dir . '/postmaster.pid';
	usleep(100_000);
}
isnt(scalar(temp_files()), 0, 'the crash left files');
$node->_update_pid(0);
$node->start;
is($node->safe_psql('postgres', "CREATE TEMP TABLE t AS $rows; SELECT count(*) FROM t"), '20000', 'works after a crash');
$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'");
is(scalar(temp_files()), 0, 'no file stays after a crash');

my $log = slurp_file($node->logfile);
unlike($log, qr/PANIC|TRAP:|page verification failed/, 'clean log');
$node->stop;
done_testing();
