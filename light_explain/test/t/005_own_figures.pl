# The profile shows the same of each node as light_explain_last() after
# EXPLAIN ANALYZE of the same statement, though the profile has no records of a
# statement's first calls, or none at all, and computes from core's counters.  So does
# EXPLAIN ANALYZE of a brief statement: the result is the same as with records.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use Battery;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'light_explain'
compute_query_id = on
autovacuum = off
checkpoint_timeout = 1h
max_parallel_workers = 8
max_worker_processes = 16
jit = off
CONF
$node->start;

my $setup = "LOAD '$FindBin::RealBin/../custom/light_test_custom.so';\n" . battery_sql() . <<'SQL';
CREATE EXTENSION light_explain;
CREATE TYPE own AS (node int, label text, rows float8, loops float8, blocks bigint, temp bigint);

-- 'same', or the differences; 'whole' compares only the sums over all nodes.
-- Workers on a busy machine sometimes look up a catalog again, without any library
-- (Battery.pm: one in fifty parallel sorts), so theirs are added up and compared up to
-- five times: a wrong counter is wrong each time.
CREATE FUNCTION compare_own(statement text, whole bool, switch_after int) RETURNS text LANGUAGE plpgsql AS
$$DECLARE plan jsonb; last own[]; brief own[]; profile own[]; least bigint; sum_own float8; total float8; line text; differences text;
BEGIN
	-- hint bits are set and catalogs read
	EXECUTE statement;
	FOR attempt IN 1 .. 5 LOOP
		differences := '';
		PERFORM set_config('light_explain.switch_after', '-1', false);
		EXECUTE 'EXPLAIN (ANALYZE, BUFFERS) ' || statement;
		brief := ARRAY(SELECT (node, label, rows, loops, shared_hit + shared_read + local_blocks, temp_read + temp_written)::own
			FROM light_explain_last() WHERE loops > 0);
		PERFORM set_config('light_explain.switch_after', '0', false);
		EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ' || statement INTO plan;
		last := ARRAY(SELECT (node, label, rows, loops, shared_hit + shared_read + local_blocks, temp_read + temp_written)::own
			FROM light_explain_last() WHERE loops > 0);
		IF NOT whole AND brief IS DISTINCT FROM last THEN
			RETURN format(E'differs\n%s\nEXPLAIN ANALYZE as it begins: %s\nwith records: %s', statement, brief, last);
		END IF;
		IF NOT whole AND (SELECT sum(blocks) FROM unnest(last)) <>
			(SELECT sum(value::bigint) FROM jsonb_each_text(plan -> 0 -> 'Plan') WHERE key ~ '^(Shared|Local) (Hit|Read) Blocks$') THEN
			RETURN format(E'differs\n%s\nblocks of all nodes: %s\nwhole plan: %s', statement, last, plan);
		END IF;
		PERFORM light_explain_profile_reset();
		PERFORM set_config('light_explain.switch_after', switch_after::text, false);
		PERFORM set_config('light_explain.profile', 'on', false);
		EXECUTE statement;
		PERFORM set_config('light_explain.profile', 'off', false);
		profile := ARRAY(SELECT (node, label, rows, loops, shared_hit + shared_read + local_blocks, temp_read + temp_written)::own
			FROM light_explain_profile());
		SELECT min(least(shared_hit, shared_read, shared_dirtied, local_blocks, temp_read, temp_written, wal_bytes)), sum(self_ms), max(total_ms)
			INTO least, sum_own, total FROM light_explain_profile();
		IF array_length(profile, 1) IS DISTINCT FROM array_length(last, 1) THEN
			differences := format(E'\n%s nodes, %s', array_length(last, 1), array_length(profile, 1));
		ELSIF least < 0 THEN
			differences := E'\nless than nothing';
		ELSIF NOT whole AND (sum_own > 1.1 * total + 0.05 OR sum_own < 0.9 * total - 0.05) THEN
			differences := format(E'\nown times make %s of %s ms', sum_own, total);
		ELSIF whole THEN
			IF (SELECT abs(sum(a.blocks) - sum(b.blocks)) > count(*) OR abs(sum(a.temp) - sum(b.temp)) > count(*)
				FROM unnest(last) a FULL JOIN unnest(profile) b USING (node)) THEN
				differences := E'\nnot the same together';
			END IF;
		ELSIF EXISTS (SELECT FROM unnest(last) a FULL JOIN unnest(profile) b USING (node) WHERE a IS DISTINCT FROM b) THEN
			differences := E'\nnot the same';
		END IF;
		IF differences = '' THEN RETURN 'same'; END IF;
		EXIT WHEN differences !~ '^\nnot the same together';
	END LOOP;
	FOR line IN SELECT format(E'\n%s %s', a, b) FROM unnest(last) a FULL JOIN unnest(profile) b USING (node) LOOP
		differences := differences || line;
	END LOOP;
	RETURN E'differs\n' || statement || differences;
END$$;
SQL

# if it is not known which of several nodes evaluated a subplan, or if a process
# repeated the work of another one, only the sums are the same
my $parallel = 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 2';
my @statements = map { [ $_->[0], $_->[2], $_->[0] =~ /parallel/ || $_->[2] =~ /WITH .* JOIN c|WITH c .*\(SELECT id FROM c|WITH c .* c a|FROM e UNION/s ? 'true' : 'false' ] }
  grep { $_->[1] eq '' && $_->[2] =~ /^(SELECT|WITH|\()/ && $_->[2] !~ /\bf_|FOR (UPDATE|SHARE)|pg_class/ && $_->[0] !~ /jit = on/ } battery_statements();
push @statements, map { [ $_->[0], $_->[1], 'true' ] } (
	# three scans with one subplan
	[ '', 'SELECT count(*) FROM par p WHERE k < (SELECT count(*) FROM u WHERE u.t_id = p.id)' ],
	[ '', 'SELECT count(*) FROM par p WHERE id < 8 AND k < (SELECT count(*) FROM u WHERE u.t_id = p.id)' ],
	[ $parallel, 'SELECT count(*) FROM par p WHERE k < (SELECT count(*) FROM u WHERE u.t_id = p.id)' ],
	[ $parallel, 'SELECT count(*) FROM t WHERE k < (SELECT count(*) FROM u WHERE u.t_id = t.id)' ],
	[ $parallel, 'SELECT count(*) FROM t WHERE k < (SELECT count(*) FROM u)' ],
	[ '', 'WITH c AS MATERIALIZED (SELECT * FROM t LIMIT 3) SELECT count(*) FROM c a JOIN c b USING (id)' ],
	# keys of an index scan that is restarted
	[ '', 'SELECT id, ARRAY(SELECT k FROM t WHERE t.id < u.id + (SELECT min(id) FROM t)) FROM u WHERE id < 12' ]);
push @statements, map { [ '', $_, 'false' ] } (
	'WITH c AS MATERIALIZED (SELECT * FROM t LIMIT 3) SELECT count(*) FROM c',
	'SELECT count(*) FROM u WHERE id < (SELECT max(id) FROM (SELECT id FROM t LIMIT 4) x)',
	'SELECT count(*) FROM (SELECT id FROM u LIMIT 4) x WHERE id < (SELECT max(id) FROM t WHERE id < (SELECT min(id) FROM u) + 5)',
	'SELECT count(*) FROM par WHERE k < (SELECT count(*) FROM u)',
	# one InitPlan, which another node evaluates for each row
	'SELECT (SELECT count(*) FROM par WHERE par.id = t.id AND par.k < (SELECT count(*) FROM u WHERE u.t_id <= t.id)) FROM t WHERE id IN (100, 600, 1100)',
	'SELECT count(*) FROM u WHERE id < 50 AND id NOT IN (SELECT id FROM t WHERE id > (SELECT count(*) + 2970 FROM u))',
	'SELECT id, ARRAY(SELECT k FROM t WHERE t.id < u.id AND k > (SELECT min(id) FROM t)) FROM u WHERE id < 12');

for my $switch (-1, 3, 1000000000)
{
	my $script = "\\pset format unaligned\n\\pset tuples_only on\n$setup\n";
	my $n = 0;
	for my $s (@statements)
	{
		(my $statement = $s->[1]) =~ s/'/''/g;
		$script .= "RESET ALL; SET max_parallel_workers_per_gather = 0;\n$s->[0];\n"
		  . "SELECT '<<' || " . $n++ . " || '>>' || compare_own('$statement', $s->[2], $switch);\n";
	}
	$node->safe_psql('postgres', 'DROP DATABASE IF EXISTS own');
	$node->safe_psql('postgres', 'CREATE DATABASE own');
	my ($rc, $out, $err) = $node->psql('own', $script);
	is($rc, 0, "switch after $switch: ran");
	diag($err) if $err =~ /ERROR/;
	my %result = $out =~ /^<<(\w+)>>(.*?)(?=^<<|\z)/msg;
	chomp(%result);
	my $same = 0;
	for my $i (0 .. $#statements)
	{
		my $r = $result{$i} // 'no result';
		if ($r eq 'same') { $same++; next; }
		fail("switch after $switch: $statements[$i][1]");
		diag("$statements[$i][0]\n$r");
	}
	is($same, scalar(@statements), "switch after $switch: own figures of all nodes");
}

# Blocks of workers whose rows a LIMIT did not need are in one node only, when Gather begins again: not in the node that began it.
$node->safe_psql('own', <<'SQL');
CREATE FUNCTION own_blocks(statement text, OUT in_workers bool, OUT all_once bool, OUT none_at_top bool) LANGUAGE plpgsql AS $$
DECLARE plan jsonb;
BEGIN
	-- as in compare_own(): a wrong counter is wrong each time
	FOR attempt IN 1 .. 5 LOOP
		EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ' || statement INTO plan;
		in_workers := plan::text ~ '"Gather"' AND plan::text ~ '"Actual Loops": 4';
		all_once := (SELECT sum(shared_hit + shared_read) FROM light_explain_last())
			= (SELECT sum(value::bigint) FROM jsonb_each_text(plan -> 0 -> 'Plan') WHERE key ~ '^Shared (Hit|Read) Blocks$');
		none_at_top := (SELECT shared_hit + shared_read = 0 FROM light_explain_last() WHERE node = 0);
		EXIT WHEN in_workers AND all_once AND none_at_top;
	END LOOP;
END$$;
CREATE FUNCTION reads_blocks(int) RETURNS bool LANGUAGE plpgsql PARALLEL RESTRICTED AS 'BEGIN PERFORM FROM t WHERE id = $1; RETURN true; END';
SQL
my $big = q{SELECT id FROM big WHERE pad || '' <> 'x' LIMIT 3000};
for (
	[ 'a join', "SELECT * FROM generate_series(1, 4) g LEFT JOIN ($big) z ON z.id = g" ],
	# the filters' blocks are those of their nodes
	[ 'a join, with two Gathers below it', "SELECT * FROM generate_series(1, 4) g LEFT JOIN (SELECT * FROM (($big) UNION ALL ($big)) q WHERE reads_blocks(1) OFFSET 0) z ON z.id = g" ],
	[ 'a join, with an InitPlan below it', q{SELECT * FROM generate_series(1, 4) g LEFT JOIN (SELECT id FROM big WHERE pad <> (SELECT max(w) FROM u) LIMIT 3000) z ON z.id = g} ],
	[ 'a subplan', q{SELECT g, g > ANY (SELECT id FROM big WHERE pad || '' <> 'x' OFFSET 0) FROM generate_series(4000, 4003) g} ])
{
	is($node->safe_psql('own', <<"SQL"), 't|t|t', "blocks of abandoned workers are counted once: $_->[0]");
$parallel; SET enable_parallel_append = off;
SET parallel_leader_participation = off; SET enable_material = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
SELECT * FROM own_blocks(\$\$$_->[1]\$\$);
SQL
}

$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC|was terminated by signal/, 'nothing bad in the server log');
done_testing();
