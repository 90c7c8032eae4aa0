# Pages that workers append to the file themselves: tables far larger than temp_buffers,
# with checksums and without, frozen or not; readers of the table, an error, and
# a full disk during the load.
# Slow: large tables

use strict;
use warnings;
use File::Temp qw(tempdir);

# A small tmpfs takes a separate mount namespace, in which this test runs again
# (before the modules below take its output).
BEGIN
{
	if (!defined $ENV{WORKERS_WRITE_MOUNT})
	{
		my $folder = tempdir();
		my @namespace = ('unshare', '--user', '--map-current-user', '--mount', '--keep-caps', 'sh', '-c',
			'mount -t tmpfs -o size=8m,mode=0700 tmpfs "$0" 2>/dev/null && exec "$@"', $folder);
		open(my $stderr, '>&', \*STDERR) or die $!;
		open(STDERR, '>', '/dev/null') or die $!;
		my $able = system(@namespace, 'true') == 0;
		open(STDERR, '>&', $stderr) or die $!;
		$ENV{WORKERS_WRITE_MOUNT} = $able ? $folder : '';
		exec(@namespace, $^X, (map { "-I$_" } @INC), $0) if $able;
		rmdir($folder);
	}
}

use FindBin;
use lib "$FindBin::RealBin/../diff";
use PostgreSQL::Test::Utils;
use SameAnswers qw(start_server bad_log_lines);
use Test::More;
use WorkerSession qw(worker_session workers_of);

my $rows = 40000;
my $mount = $ENV{WORKERS_WRITE_MOUNT};
my $initdb_can_be_told = `initdb --help` =~ /--no-data-checksums/;

# How many pages workers of this session wrote.
my $written = "SELECT value FROM parallel_temp_stats WHERE counter = 'pages written by workers';";

# The result that must be the same as after a load by one process, and numbers that must be zero.
sub look
{
	my ($s, $table) = @_;
	return $s->query("SELECT count(*), sum(id), sum(hashtext(pad)::bigint), md5(string_agg(md5(id || pad), '' ORDER BY id, pad)) FROM $table;") . "\n"
	  . $s->query("SELECT 'odd headers', odd_headers('$table'), 'empty blocks', pg_relation_size('$table') / 8192 - count(DISTINCT (ctid::text::point)[0]) FROM $table;") . "\n"
	  . $s->query("SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off; SELECT 'not where they say', (SELECT count(*) FROM $table) - count(*) FROM $table a JOIN $table b ON b.ctid = a.ctid AND b.id = a.id; RESET enable_hashjoin; RESET enable_mergejoin; RESET enable_seqscan;");
}

for my $checksums (0, 1)
{
	my $node = start_server("workers_write_$checksums", "max_worker_processes = 8\n", $checksums ? ['--data-checksums'] : $initdb_can_be_told ? ['--no-data-checksums'] : []);
	my $with = $checksums ? 'checksums' : 'no checksums';
	is($node->safe_psql('postgres', 'SHOW data_checksums'), $checksums ? 'on' : 'off', $with);
	$node->safe_psql('postgres', <<"END");
CREATE EXTENSION parallel_temp;
CREATE EXTENSION pageinspect;
CREATE TABLE source AS SELECT i AS id, repeat('x', 250 + i % 100) AS pad FROM generate_series(1, $rows) i;
ANALYZE source;
CREATE FUNCTION odd_headers(relation text) RETURNS bigint LANGUAGE sql AS \$\$
	SELECT count(*) FROM generate_series(0, pg_relation_size(relation) / 8192 - 1) block, heap_page_items(get_raw_page(relation, block::int)) item
		WHERE item.lp_flags <> 1 OR item.t_ctid IS DISTINCT FROM format('(%s,%s)', block, item.lp)::tid OR item.t_xmax <> '0' OR item.t_infomask & 2048 = 0;
\$\$;
-- In a worker: wait each time that half a ring is full, or more; in the leader: do something, and wait less, so that
-- it happens between what workers append.
CREATE FUNCTION meanwhile(i int, every int, what text) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS \$\$
BEGIN
	IF pg_backend_pid()::text <> current_setting('my.pid') THEN
		IF i % 450 = 0 THEN PERFORM pg_sleep(0.005); END IF;
	ELSIF i % every = 0 THEN
		EXECUTE what;
	ELSIF i % 20 = 0 THEN
		PERFORM pg_sleep(0.0005);
	END IF;
	RETURN i;
END \$\$;
CREATE FUNCTION fails_at(i int, bad int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS 'BEGIN RETURN 1 / (i - bad); END';
CREATE FUNCTION waits_from(i int, late int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS
	\$\$ BEGIN IF i > late THEN PERFORM pg_sleep(CASE WHEN pg_backend_pid()::text <> current_setting('my.pid') THEN 100 ELSE 0.02 END); END IF; RETURN i; END \$\$;
END
	for my $leader ('off', 'on')
	{
		my $s = worker_session($node, 'writes', parallel_leader_participation => $leader);
		$s->query('SET my.pid = ' . $s->pid . ';');
		$s->query("CREATE TEMP TABLE near AS SELECT * FROM source; CREATE TEMP TABLE t (id int, pad text); INSERT INTO t VALUES (0, 'first');");
		my $name = "$with, leader takes part $leader";
		my %insert = (file => 'INSERT INTO t SELECT %s, pad FROM source;', near => 'INSERT INTO t SELECT %s, pad FROM near;');

		# by one process, then by workers
		$s->query('SET max_parallel_workers_per_gather = 0; INSERT INTO t SELECT id, pad FROM source; CREATE TEMP TABLE made AS SELECT * FROM source;');
		my ($t, $made) = (look($s, 't'), look($s, 'made'));
		like($t, qr/odd headers\|0\|empty blocks\|0\nnot where they say\|0$/, "$name: the tests of pages find no fault with a load by one process") or diag($s->error);
		$s->query("RESET max_parallel_workers_per_gather; DROP TABLE made; TRUNCATE t; INSERT INTO t VALUES (0, 'first'); SET max_parallel_workers_per_gather = 2;");
		my $before = $s->query($written);
		for my $source (sort keys %insert)
		{
			$s->query(sprintf $insert{$source}, 'id');
			is(look($s, 't'), $t, "$name: INSERT, $source") or diag($s->error);
			$s->query('VACUUM t;');
			is(look($s, 't'), $t, "$name: INSERT, $source, VACUUM") or diag($s->error);
			$s->query("TRUNCATE t; INSERT INTO t VALUES (0, 'first');");
			# rows of a new table are frozen, but not in a function
			$s->query('CREATE TEMP TABLE made AS SELECT * FROM ' . ($source eq 'file' ? 'source' : 'near') . ';');
			is($s->query("SELECT bool_and(t_infomask & 768 = 768) FROM generate_series(0, pg_relation_size('made') / 8192 - 1) block, heap_page_items(get_raw_page('made', block::int));"), 't', "$name: CREATE, $source: all are frozen");
			is(look($s, 'made'), $made, "$name: CREATE, $source") or diag($s->error);
			$s->query('VACUUM made; UPDATE made SET id = id WHERE id % 100 = 0;');
			is((split /\n/, look($s, 'made'))[0], (split /\n/, $made)[0], "$name: CREATE, $source, VACUUM, UPDATE") or diag($s->error);
			$s->query('DROP TABLE made; DO $$ BEGIN CREATE TEMP TABLE made AS SELECT * FROM source; END $$;');
			is($s->query("SELECT bool_or(t_infomask & 768 = 768) FROM generate_series(0, pg_relation_size('made') / 8192 - 1) block, heap_page_items(get_raw_page('made', block::int));"), 'f', "$name: CREATE in a function: none is frozen");
			is(look($s, 'made'), $made, "$name: CREATE in a function") or diag($s->error);
			$s->query('DROP TABLE made;');
		}
		cmp_ok($s->query($written) - $before, '>', 1000, "$name: workers wrote pages") if $leader eq 'off';

		# reserved room instead of a lazy file; a fill factor
		$s->query('SET parallel_temp.lazy_files = off; CREATE TEMP TABLE made WITH (fillfactor = 50) AS SELECT * FROM source;');
		is((split /\n/, look($s, 'made'))[0], (split /\n/, $made)[0], "$name: a file with reserved room") or diag($s->error);
		like(look($s, 'made'), qr/odd headers\|0\|empty blocks\|0\nnot where they say\|0$/, "$name: and its pages");
		$s->query('RESET parallel_temp.lazy_files; DROP TABLE made;');

		# The table is read while workers append.
		if ($leader eq 'on')
		{
			for my $every (2000, 3001, 5003, 9001, 14009)
			{
				my $one = $every % 2 ? 'id' : 'id + 0';
				$s->query(sprintf $insert{file}, "meanwhile(id, $every, 'SELECT count(*) FROM t')");
				is(look($s, 't') =~ s/empty blocks\|\d+/empty blocks|0/r, $t, "$name: INSERT, and the table is read at row $every") or diag($s->error);
				$s->query("TRUNCATE t; INSERT INTO t VALUES (0, 'first');");
				$s->query("CREATE TEMP TABLE made AS SELECT meanwhile(id, $every, 'SELECT count(*) FROM made') AS id, pad FROM source;");
				# rows that follow come by the server, which leaves blocks empty at the end since 16
				is(look($s, 'made') =~ s/empty blocks\|\d+/empty blocks|0/r, $made, "$name: CREATE, and the table is read at row $every") or diag($s->error);
				$s->query('DROP TABLE made;');
			}
			# an outer statement's rows continue where the reader left them
			is($s->query("BEGIN; INSERT INTO t SELECT meanwhile(id, 7001, 'SELECT count(*) FROM t'), pad FROM source; INSERT INTO t SELECT id, pad FROM source; SELECT count(*), sum(id) FROM t; ROLLBACK;"),
				2 * $rows + 1 . '|' . $rows * ($rows + 1), "$name: loads after one that was read") or diag($s->error);
			$s->query("TRUNCATE t; INSERT INTO t VALUES (0, 'first');");
		}

		# Nothing is left of a statement that fails, wherever it does.
		my $nothing_left = sub {
			my $what = shift;
			is($s->query("SELECT count(*) FROM pg_local_buffers WHERE pins <> 0;"), '0', "$what: no buffer is pinned") or diag($s->error);
			# except for the rows that the server's path has inserted before the load began
			is($s->query("SELECT count(*), sum(id), greatest(4, pg_relation_size('t') / 8192) FROM t;"), '1|0|4', "$what: nothing is left");
			is($s->query('BEGIN; INSERT INTO t SELECT * FROM source; SELECT count(*), sum(id) FROM t; ROLLBACK;'), $rows + 1 . '|' . $rows * ($rows + 1) / 2, "$what: the next one is right") or diag($s->error);
			$s->query("TRUNCATE t; INSERT INTO t VALUES (0, 'first');");
			return;
		};
		for my $source (sort keys %insert)
		{
			my $late = sprintf $insert{$source}, 'waits_from(id, 30000)';
			$s->send($late);
			workers_of($node, $s->pid);
			$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $s->pid . ')');
			$s->wait;
			like($s->error, qr/57014/, "$name, $source: cancelled");
			$nothing_left->("$name, $source, cancelled");

			$s->send($late);
			my ($worker) = workers_of($node, $s->pid);
			$node->safe_psql('postgres', "SELECT pg_terminate_backend($worker)");
			$s->wait;
			like($s->error, qr/57P01/, "$name, $source: worker terminated");
			$nothing_left->("$name, $source, worker terminated");

			$s->query(sprintf $insert{$source}, 'id + 0 * fails_at(id, 35000)');
			like($s->error, qr/22012/, "$name, $source: error in the query");
			$nothing_left->("$name, $source, error in the query");

			$s->query(join '', map { "SET statement_timeout = " . (20 + 2 * $_) . "; " . sprintf($insert{$source}, "meanwhile(id, 1000000, '')") . "\n" } 1 .. 15);
			unlike($s->error, qr/(?:PANIC|FATAL|ERROR:  (?!57014))/, "$name, $source: a storm of timeouts");
			$s->reset_timeout;
			$s->query("TRUNCATE t; INSERT INTO t VALUES (0, 'first');");

			is($s->query('BEGIN; SAVEPOINT a; ' . sprintf($insert{$source}, 'id') . ' ROLLBACK TO a; ' . sprintf($insert{$source}, 'id + 1') . 'SELECT count(*), sum(id) FROM t; SAVEPOINT b; ' . sprintf($insert{$source}, 'fails_at(id, 39000)') . ' ROLLBACK TO b; SELECT count(*), sum(id) FROM t; ROLLBACK;'),
				join("\n", ($rows + 1 . '|' . ($rows * ($rows + 1) / 2 + $rows)) x 2), "$name, $source: savepoints") or diag($s->error);
			$s->query("TRUNCATE t; INSERT INTO t VALUES (0, 'first');");
			is($s->query("BEGIN; DECLARE c CURSOR FOR SELECT count(*) FROM t; " . sprintf($insert{$source}, 'id') . ' FETCH c; CLOSE c; SELECT count(*) FROM t; COMMIT;'), "1\n" . ($rows + 1), "$name, $source: a cursor sees the table as it was") or diag($s->error);
			$s->query("TRUNCATE t; INSERT INTO t VALUES (0, 'first');");

			# If the table had no block, every row is the load's: no block is left, and rows of the
			# transaction that created the table are frozen, except those after a read of the table.
			$s->query('TRUNCATE t;');
			my $no_block_left = sub {
				my $what = shift;
				is($s->query("SELECT count(*), pg_relation_size('t') FROM t; SELECT count(*) FROM pg_local_buffers WHERE pins <> 0;"), "0|0\n0", "$name, $source, empty table, $what: no block is left") or diag($s->error);
				return;
			};
			$s->send($late);
			workers_of($node, $s->pid);
			$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $s->pid . ')');
			$s->wait;
			$no_block_left->('cancelled');
			$s->send($late);
			($worker) = workers_of($node, $s->pid);
			$node->safe_psql('postgres', "SELECT pg_terminate_backend($worker)");
			$s->wait;
			$no_block_left->('worker terminated');
			$s->query(sprintf $insert{$source}, 'id + 0 * fails_at(id, 35000)');
			like($s->error, qr/22012/, "$name, $source, empty table: error in the query");
			$no_block_left->('error in the query');
			$s->query('BEGIN; SAVEPOINT a; ' . sprintf($insert{$source}, 'id + 0 * fails_at(id, 35000)') . ' ROLLBACK TO a; COMMIT;');
			$no_block_left->('savepoint');
			my $frozen = "SELECT count(*), count(*) FILTER (WHERE t_infomask & 768 = 768), count(DISTINCT block) FILTER (WHERE (page_header(get_raw_page('t', block::int))).flags & 4 = 0) <= 1 FROM generate_series(0, pg_relation_size('t') / 8192 - 1) block, heap_page_items(get_raw_page('t', block::int));";
			is($s->query('BEGIN; TRUNCATE t; ' . sprintf($insert{$source}, 'id') . " $frozen"), "$rows|$rows|t", "$name, $source: all rows are frozen, all pages but one all-visible") or diag($s->error);
			is((split /\n/, look($s, 't'))[1], 'odd headers|0|empty blocks|0', "$name, $source: and their pages are right");
			$s->query('ROLLBACK;');
			$no_block_left->('rollback');
			is((split /\|/, $s->query(sprintf($insert{$source}, 'id') . $frozen))[1], '0', "$name, $source: none is frozen in a table that was there");
			$s->query('TRUNCATE t; BEGIN; TRUNCATE t; DECLARE c CURSOR FOR SELECT 1; ' . sprintf($insert{$source}, 'id'));
			is((split /\|/, $s->query($frozen))[1], '0', "$name, $source: none is frozen while a cursor is open");
			$s->query('ROLLBACK;');
			# on busy CPUs the workers may have done all before the leader meets such a row
			for (1 .. 20)
			{
				$s->query('BEGIN; TRUNCATE t; ' . sprintf($insert{$source}, "meanwhile(id, 400, 'SELECT count(*) FROM t')"));
				last if $leader eq 'off' || $s->query("SELECT seq_scan > 0 FROM pg_stat_xact_user_tables WHERE relid = 't'::regclass;") eq 't';
				$s->query('ROLLBACK;') if $_ < 20;
			}
			is((split /\|/, $s->query($frozen))[1], '0', "$name, $source: none is frozen in a table that is read meanwhile") if $leader eq 'on' && $source eq 'file';
			is($s->query('SELECT count(*), sum(id) FROM t; COMMIT; SELECT count(*), sum(id) FROM t;'), join("\n", ($rows . '|' . $rows * ($rows + 1) / 2) x 2), "$name, $source: all rows are there") or diag($s->error);
			$s->query("TRUNCATE t; INSERT INTO t VALUES (0, 'first');");
		}
		$s->quit;
	}

	# Across the end of a segment file: the first gigabyte is a hole, except for its last blocks.
  SKIP:
	{
		my $block = $node->safe_psql('postgres', 'SHOW block_size');
		my $segment = $node->safe_psql('postgres', "SELECT setting::bigint FROM pg_settings WHERE name = 'segment_size'");
		skip 'segments of an unusual size', 1 if $segment * $block > 1024 * 1024 * 1024;
		my $first = $segment - 700;
		my $hole = $first * $block;
		for my $leader ('off', 'on')
		{
			my $name = "$with, two segments, leader takes part $leader";
			my $s = worker_session($node, 'segments', parallel_leader_participation => $leader);
			my $before = $s->query($written);
			$s->query("CREATE TEMP TABLE t (id int, pad text); INSERT INTO t VALUES (0, 'first'); SELECT pg_flush_local_buffers('t');");
			truncate($node->data_dir . '/' . $s->query("SELECT pg_relation_filepath('t');"), $hole) or die $!;
			# a load that fails removes its pages from both segments
			$s->query('INSERT INTO t SELECT id + 1 / (id - 39999), pad FROM source;');
			like($s->error, qr/22012/, "$name: an error in the query");
			is($s->query("SELECT pg_relation_size('t') / $block - $first < 5;"), 't', "$name: nothing is left");
			$s->query('INSERT INTO t SELECT id, pad FROM source;');
			is($s->query("SELECT count(*), sum(id), sum(hashtext(pad)::bigint) FROM t WHERE ctid >= '($first,0)';"), $s->query('SELECT count(*), sum(id), sum(hashtext(pad)::bigint) FROM source;'), "$name: all rows are there") or diag($s->error);
			# the few blocks that the failed load left contain only invisible rows
			is($s->query("SELECT pg_relation_size('t') / $block > $segment + 500, pg_relation_size('t') / $block - count(DISTINCT (ctid::text::point)[0]) - $first < 5 FROM t WHERE ctid >= '($first,0)';"), 't|t', "$name: on every block");
			cmp_ok($s->query($written) - $before, '>', 1000, "$name: workers wrote pages") if $leader eq 'off';
			$s->quit;
		}
	}

	# The disk is full when a worker writes: its error names the table.
  SKIP:
	{
		skip 'no mount namespaces here', 1 if $mount eq '';
		mkdir "$mount/$checksums" or die $!;
		$node->safe_psql('postgres', "CREATE TABLESPACE small LOCATION '$mount/$checksums'");
		for my $lazy ('on', 'off')
		{
			for my $leader ('off', 'on')
			{
				my $name = "$with, lazy files $lazy, leader takes part $leader, full disk";
				my $s = worker_session($node, 'full', parallel_leader_participation => $leader, 'parallel_temp.lazy_files' => $lazy, temp_tablespaces => 'small');
				$s->query("CREATE TEMP TABLE t (id int, pad text); INSERT INTO t VALUES (0, 'first');");
				for my $round (1 .. 2)
				{
					$s->query('INSERT INTO t SELECT id, pad FROM source;');
					like($s->error, qr/ERROR:  53100: could not (?:extend|write blocks).*No space left/, "$name: an error") or diag($s->error);
					like($s->error, qr/writing pages of temporary table "t"/, "$name: of the table, where it is a worker's") if $s->error =~ /write blocks/;
					is($s->query("SELECT count(*), sum(id), greatest(4, pg_relation_size('t') / 8192) FROM t;"), '1|0|4', "$name: the table is as it was") or diag($s->error);
					$s->query('CREATE TEMP TABLE made AS SELECT * FROM source;');
					like($s->error, qr/ERROR:  53100/, "$name: an error of CREATE") or diag($s->error);
					is($s->query("BEGIN; INSERT INTO t SELECT id, pad FROM source WHERE id <= 12000; SELECT count(*), sum(id) FROM t; ROLLBACK; SELECT count(*) FROM t; VACUUM t;"), "12001|72006000\n1", "$name: what has room gets it") or diag($s->error);
					$s->query("DROP TABLE t; CREATE TEMP TABLE t (id int, pad text); INSERT INTO t VALUES (0, 'first');");
				}
				$s->quit;
			}
		}
	}
	is(join("\n", bad_log_lines(slurp_file($node->logfile))), '', "$with: no leak in the log");
	$node->stop;
}
done_testing();
