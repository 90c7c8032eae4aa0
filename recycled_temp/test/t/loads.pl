# parallel_temp, which freezes the rows of CREATE TABLE AS: whatever has used the pool,
# sessions print what a server without both features prints, and rows of a reused table
# are frozen as those of a new one.  In the other order of loading the pool is not used.
# Slow: the same sessions with each feature off and on
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('loads');
$node->init;
plan skip_all => 'no parallel_temp' unless -e $node->config_data('--sharedir') . '/extension/parallel_temp.control';
my $pageinspect = -e $node->config_data('--sharedir') . '/extension/pageinspect.control';
$node->append_conf('postgresql.conf', "recycled_temp.after_drops = 1\nfsync = off\nautovacuum = off\n");

# Frozen rows of the first page, and all of them.
my $frozen = q{SELECT 'frozen ' || count(*) FILTER (WHERE t_infomask & 768 = 768) || ' of ' || count(*) FROM heap_page_items(get_raw_page('t', 0)) WHERE lp_flags = 1;};
my $load = q{CREATE TEMP TABLE t AS SELECT g AS a, repeat('%s', 50) AS b FROM generate_series(1, %d) g;};
my $look = 'SELECT count(*), sum(a), min(b), max(b) FROM t;';
sub load { return sprintf($load, $_[0], $_[1] // 5000) }

# Each begins in a session that has no table t, and may leave one.
my @scripts = (
	[ 'a load into a reused table' => load('x') . "DROP TABLE t;" . load('y') . "$frozen $look" ],
	[ 'the DROP is rolled back' => load('x') . "BEGIN; DROP TABLE t;" . load('y', 300) . "$frozen $look ROLLBACK; $look" ],
	[ 'the load is rolled back' => load('x') . "DROP TABLE t; BEGIN;" . load('y') . "$frozen ROLLBACK; SELECT * FROM t; CREATE TEMP TABLE t (a int, b text); $look"
		  . "INSERT INTO t VALUES (1, 'own'); $look" ],
	[ 'the load is rolled back to a savepoint' => load('x') . "DROP TABLE t; BEGIN; SAVEPOINT s;" . load('y') . "$look ROLLBACK TO s; SELECT to_regclass('t');"
		  . load('z', 200) . "$look COMMIT; $frozen $look" ],
	[ 'a load in a subtransaction that is released' => load('x') . "DROP TABLE t; BEGIN; SAVEPOINT s;" . load('y') . "RELEASE s; $look DROP TABLE t;" . load('z', 300) . "$look ROLLBACK; SELECT to_regclass('t');"
		  . load('w', 100) . $look ],
	[ 'DROP and load after a savepoint' => "BEGIN;" . load('x') . "SAVEPOINT s; DROP TABLE t;" . load('y', 300) . "$frozen $look ROLLBACK TO s; $look DROP TABLE t;" . load('z', 200) . "$look COMMIT; $look" ],
	[ 'several tables in one transaction' => "BEGIN;" . join('DROP TABLE t;', map { load($_, 1000) . "$look" } 'a' .. 'e') . "COMMIT; $frozen $look" ],
	[ 'the load fails' => load('x') . "DROP TABLE t; CREATE TEMP TABLE t AS SELECT g AS a, (1 / (4000 - g))::text AS b FROM generate_series(1, 5000) g;"
		  . "SELECT * FROM t; CREATE TEMP TABLE t (a int, b text); $look BEGIN; DROP TABLE t; SAVEPOINT s;"
		  . "CREATE TEMP TABLE t AS SELECT g AS a, (1 / (4000 - g))::text AS b FROM generate_series(1, 5000) g; ROLLBACK TO s; CREATE TEMP TABLE t (a int, b text); $look COMMIT; $look" ],
	[ 'a cursor whose snapshot is older than the load' => load('x', 7) . "DROP TABLE t; BEGIN; DECLARE c CURSOR FOR SELECT pg_temp.seen() FROM generate_series(1, 3); FETCH c;"
		  . load('y') . "FETCH c; $frozen $look INSERT INTO t VALUES (0, 'z'); FETCH c; CLOSE c; COMMIT; $look" ],
	[ 'a cursor that is older than DROP and load' => "BEGIN;" . load('x', 7) . "DECLARE c CURSOR FOR SELECT pg_temp.seen() FROM generate_series(1, 3); FETCH c; DROP TABLE t;"
		  . load('y') . "FETCH c; $frozen $look SAVEPOINT s; DROP TABLE t;" . load('z', 9) . "FETCH c; ROLLBACK TO s; FETCH c; CLOSE c; COMMIT; $look" ],
	[ 'a cursor that began between load and DROP' => load('x', 7) . "DROP TABLE t; BEGIN;" . load('y', 9) . "DECLARE c CURSOR FOR SELECT a FROM t; FETCH c; DROP TABLE t; ROLLBACK; SELECT to_regclass('t');" ],
	[ 'a cursor WITH HOLD' => load('x', 7) . "DECLARE h CURSOR WITH HOLD FOR SELECT a, b FROM t; FETCH h; DROP TABLE t;" . load('y', 3) . "FETCH ALL h; CLOSE h; $look" ],
	[ 'a load in a function whose caller has an older snapshot' => load('x', 7) . "DROP TABLE t; SELECT pg_temp.filled(), pg_temp.seen(); $look DROP TABLE t; SELECT pg_temp.seen(pg_temp.filled()); $frozen $look" ],
	[ 'a statement that was started before the load' => load('x', 7) . "DROP TABLE t; SELECT g, CASE g WHEN 2 THEN pg_temp.filled() END, pg_temp.seen() FROM generate_series(1, 3) g; $look" ],
	[ 'repeatable read' => load('x', 7) . "DROP TABLE t; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) > 0 FROM pg_class;" . load('y', 100) . "$look SAVEPOINT s; DROP TABLE t;" . load('z', 50)
		  . "$look ROLLBACK TO s; $look COMMIT; $look" ],
	[ 'ON COMMIT DROP' => load('x', 7) . "DROP TABLE t; BEGIN; CREATE TEMP TABLE t ON COMMIT DROP AS SELECT g AS a, 'd' AS b FROM generate_series(1, 1000) g; $frozen $look COMMIT; SELECT to_regclass('t');"
		  . load('y', 9) . "$frozen $look" ],
	[ 'ON COMMIT DELETE ROWS' => load('x', 7) . "DROP TABLE t; BEGIN; CREATE TEMP TABLE t ON COMMIT DELETE ROWS AS SELECT g AS a, 'd' AS b FROM generate_series(1, 1000) g; $look SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; $look COMMIT; $look" ],
	[ 'rows that were frozen are updated and deleted' => load('x') . "DROP TABLE t;" . load('y') . "BEGIN; UPDATE t SET b = 'new' WHERE a % 2 = 0; DELETE FROM t WHERE a % 5 = 0; $look ROLLBACK; $look"
		  . "UPDATE t SET b = 'new' WHERE a % 2 = 0; VACUUM t; $look DROP TABLE t;" . load('z', 9) . "$frozen $look VACUUM (FREEZE) t; DROP TABLE t;" . load('w', 5) . $look ],
	[ 'INSERT into a reused table' => "CREATE TEMP TABLE t (a int, b text); DROP TABLE t; BEGIN; SAVEPOINT s; CREATE TEMP TABLE t (a int, b text); INSERT INTO t SELECT g, 'i' FROM generate_series(1, 100000) g;"
		  . "ROLLBACK TO s; CREATE TEMP TABLE t (a int, b text); $look INSERT INTO t SELECT g, 'j' FROM generate_series(1, 50000) g; COMMIT; $look" ],
	[ 'pg_truncate_temp_relation in the transaction that created the table' => "CREATE TEMP TABLE t (a int PRIMARY KEY, b text); DROP TABLE t; BEGIN; CREATE TEMP TABLE t (a int PRIMARY KEY, b text);"
		  . "INSERT INTO t SELECT g, 'p' FROM generate_series(1, 100) g; SELECT pg_truncate_temp_relation('t'); INSERT INTO t VALUES (1, 'q'); $look COMMIT; $look"
		  . "CREATE TEMP TABLE u (a int, b text); BEGIN; DROP TABLE u; CREATE TEMP TABLE u (a int, b text); INSERT INTO u VALUES (1, 'r'); SELECT pg_truncate_temp_relation('u'); SELECT * FROM u; ROLLBACK; SELECT * FROM u;" ],
	[ 'SELECT INTO' => load('x') . "DROP TABLE t; SELECT g AS a, 's'::text AS b INTO TEMP t FROM generate_series(1, 3000) g; $frozen $look" ],
);

# The output of a script, with errors; the lines about freezing separately.
sub printed
{
	my ($settings, $script) = @_;
	my $functions = <<'SQL';
SET client_min_messages = warning;
CREATE FUNCTION pg_temp.seen(text DEFAULT '') RETURNS text STABLE LANGUAGE plpgsql AS $$
DECLARE n text;
BEGIN
  IF to_regclass('pg_temp.t') IS NULL THEN RETURN 'no table'; END IF;
  EXECUTE 'SELECT count(*) || max(b) FROM t' INTO n;
  RETURN n;
END $$;
CREATE FUNCTION pg_temp.filled() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  CREATE TEMP TABLE t AS SELECT g AS a, 'f'::text AS b FROM generate_series(1, 4000) g;
  RETURN 'filled';
END $$;
SQL
	my ($rc, $out, $err) = $node->psql('postgres', "$settings\n$functions\n" . $script =~ s/;/;\n/gr . "\n\\o | cat >&2\nSELECT 'reused ' || reused FROM recycled_temp_status();", on_error_stop => 0);
	my $reused = $err =~ s/^reused (\d+)(?:\n|\z)//m ? $1 : -1;
	my @frozen = $out =~ /^(frozen.*)$/mg;
	$out =~ s/^frozen.*\n//mg;
	return ("$out\n" . join("\n", $err =~ /^psql:.*?(ERROR: .*)$/mg), join(', ', @frozen), $reused);
}

my @off = ('SET recycled_temp.enabled = off; SET parallel_temp.enabled = off; SET parallel_temp.fast_load = off;', '', '');
for my $order ('recycled_temp, parallel_temp', 'parallel_temp, recycled_temp')
{
	my $first = $order =~ /^recycled/;
	$node->append_conf('postgresql.conf', "shared_preload_libraries = '$order'\nrecycled_temp.enabled = on\n");
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION IF NOT EXISTS recycled_temp; CREATE EXTENSION IF NOT EXISTS parallel_temp');
	$node->safe_psql('postgres', 'CREATE EXTENSION IF NOT EXISTS pageinspect') if $pageinspect;
	for my $script (@scripts)
	{
		my ($name, $text) = @$script;
		$text =~ s/\Q$frozen\E//g unless $pageinspect;
		my ($stock) = printed($first ? $off[0] : $off[0] =~ s/SET recycled_temp.enabled = off;//r, $text);
		for my $force ('off', 'on')
		{
			# without the pool, what parallel_temp freezes in new tables
			my ($new, $new_frozen) = printed($first ? "SET recycled_temp.enabled = off; SET parallel_temp.debug_force = $force;" : "SET parallel_temp.debug_force = $force;", $text);
			my ($pooled, $frozen, $reused) = printed("SET parallel_temp.debug_force = $force;", $text);
			my $what = "$order: $name" . ($force eq 'on' ? ', through the extension\'s scan' : '');
			is($new, $stock, "$what, in new tables");
			is($pooled, $stock, $what);
			is($frozen, $new_frozen, "$what: frozen as in new tables") if $pageinspect;
			like($frozen, qr/^frozen ([1-9]\d*) of \1$/, "$what: all rows") if $pageinspect && $script == $scripts[0];
			cmp_ok($reused, $first ? '>' : '==', 0, "$what: " . ($first ? 'reused' : 'not reused'));
		}
	}
	$node->stop;
}
unlike(slurp_file($node->logfile), qr/TRAP|PANIC|terminated by signal/, 'no process died');
done_testing();
