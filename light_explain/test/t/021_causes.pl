# Causes that are injected, each in five kinds of statements, are attributed to the node
# and wait event by at least 99 % of the samples.
# Slow: more than a hundred causes
#
# A cause keeps a statement in one place until it is released, so the truth does not depend on
# time: samples are compared from when the statement has arrived there until the release.
#
#   short     the statement has no records
#   recorded  it has records from its first call
#   worker    its plan runs in a parallel worker
#   nested    a PL/pgSQL function executes it, and it has records
#   cursor    it is read through a cursor, and has no records
#
# A kind in which a cause cannot exist has a reason in the cause's "not".
use strict;
use warnings;

BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 120 }
use FindBin;
use List::Util qw(any sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

use constant SAMPLES => 100;    # of each process, at least
use constant SHARE => 0.99;

my @kinds = qw(short recorded worker nested cursor);
my %number = map { $kinds[$_] => $_ + 1 } 0 .. $#kinds;

# ---- the server ----

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'light_explain'
light_explain.profile = on
light_explain.sample_interval = 3
max_connections = 60
max_worker_processes = 20
max_parallel_workers = 16
max_parallel_workers_per_gather = 0
max_prepared_transactions = 3
max_wal_senders = 2
wal_level = replica
synchronous_standby_names = 'missing'
synchronous_commit = local
fsync = on
wal_writer_delay = 10s
compute_query_id = on
autovacuum = off
jit = off
deadlock_timeout = 10min
cursor_tuple_fraction = 1
log_line_prefix = '<%p %P> '
log_statement = none
CONF
my $slow_io = PostgreSQL::Test::Utils::tempdir() . '/slow';
$ENV{LIGHT_TEST_SLOW_IO} = $slow_io;

sub start_server
{
	local $ENV{LD_PRELOAD} = "$FindBin::RealBin/../causes/light_test_slow_io.so";
	$node->start;
}

my $stop = $node->data_dir . '/stop';
start_server();
my $version = $node->safe_psql('postgres', 'SHOW server_version_num') / 10000;
my $forced = $version < 16 ? 'force_parallel_mode' : 'debug_parallel_query';
my ($port, $host) = ($node->port, $node->host);
my $foreign = $node->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'postgres_fdw'});
append_to_file($stop, '');
$node->safe_psql('postgres', <<"SQL");
CREATE EXTENSION light_explain;
-- Until a file "stop" exists, or the test was killed.  It says that it begins when its expressions have been planned.
CREATE FUNCTION burn(int) RETURNS int LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1 AS \$\$
DECLARE
	said bool := false;
BEGIN
	WHILE (pg_stat_file('stop', true)).size IS NULL AND clock_timestamp() < now() + '5min' LOOP
		FOR i IN 1 .. 10000 LOOP END LOOP;
		IF NOT said THEN
			said := true;
			RAISE LOG 'a cause begins';
		END IF;
	END LOOP;
	RETURN \$1;
END\$\$;
CREATE FUNCTION nap(int) RETURNS int LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1 AS \$\$
BEGIN
	WHILE (pg_stat_file('stop', true)).size IS NULL AND clock_timestamp() < now() + '5min' LOOP
		IF pg_sleep(0.3) IS NULL THEN END IF;
	END LOOP;
	RETURN \$1;
END\$\$;
-- the same with other properties
CREATE FUNCTION burn_volatile(int) RETURNS int LANGUAGE plpgsql VOLATILE PARALLEL SAFE COST 1 AS 'BEGIN RETURN public.burn(\$1); END';
CREATE FUNCTION burn_immutable(int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 1 AS 'BEGIN RETURN public.burn(\$1); END';
CREATE FUNCTION nap_volatile(int) RETURNS int LANGUAGE plpgsql VOLATILE PARALLEL SAFE COST 1 AS 'BEGIN RETURN public.nap(\$1); END';
CREATE FUNCTION nap_immutable(int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 1 AS 'BEGIN RETURN public.nap(\$1); END';
CREATE FUNCTION nap_restricted(int) RETURNS int LANGUAGE plpgsql STABLE PARALLEL RESTRICTED COST 1 AS 'BEGIN RETURN public.nap(\$1); END';
CREATE FUNCTION burns(int) RETURNS SETOF int LANGUAGE plpgsql STABLE PARALLEL SAFE AS 'BEGIN RETURN NEXT public.burn(\$1); END';
CREATE FUNCTION notices(int) RETURNS int LANGUAGE plpgsql VOLATILE PARALLEL SAFE AS \$\$
BEGIN
	IF \$1 = 1 AND pg_sleep(1.5) IS NULL THEN END IF;
	RAISE NOTICE '%', repeat('x', 100000);
	RETURN \$1;
END\$\$;
CREATE PROCEDURE nap_procedure() LANGUAGE plpgsql AS 'DECLARE i int; BEGIN i = nap(1); END';
CREATE FUNCTION light_test_hold(what text, tab regclass DEFAULT 0, block int DEFAULT 0) RETURNS bool LANGUAGE c AS '$FindBin::RealBin/../causes/light_test_hold.so';

-- a type whose every comparison is slow
CREATE TYPE slow AS (i int);
CREATE FUNCTION slow_cmp(slow, slow) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 1 AS 'BEGIN RETURN public.burn(1) * btint4cmp((\$1).i, (\$2).i); END';
CREATE FUNCTION slow_eq(slow, slow) RETURNS bool LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 1 AS 'BEGIN RETURN public.burn(1) > 0 AND (\$1).i = (\$2).i; END';
CREATE FUNCTION slow_lt(slow, slow) RETURNS bool LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 1 AS 'BEGIN RETURN public.burn(1) > 0 AND (\$1).i < (\$2).i; END';
CREATE FUNCTION slow_gt(slow, slow) RETURNS bool LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 1 AS 'BEGIN RETURN public.burn(1) > 0 AND (\$1).i > (\$2).i; END';
CREATE FUNCTION slow_hash(slow) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 1 AS 'BEGIN RETURN public.burn(1) * hashint4((\$1).i); END';
CREATE OPERATOR = (FUNCTION = slow_eq, LEFTARG = slow, RIGHTARG = slow, COMMUTATOR = =, HASHES, MERGES);
CREATE OPERATOR < (FUNCTION = slow_lt, LEFTARG = slow, RIGHTARG = slow, COMMUTATOR = >);
CREATE OPERATOR > (FUNCTION = slow_gt, LEFTARG = slow, RIGHTARG = slow, COMMUTATOR = <);
CREATE OPERATOR CLASS slow_btree DEFAULT FOR TYPE slow USING btree AS OPERATOR 1 <, OPERATOR 3 =, OPERATOR 5 >, FUNCTION 1 slow_cmp(slow, slow);
CREATE OPERATOR CLASS slow_hash DEFAULT FOR TYPE slow USING hash AS OPERATOR 1 =, FUNCTION 1 slow_hash(slow);

CREATE TABLE t AS SELECT g AS id, g % 10 AS k, md5(g::text) AS v FROM generate_series(1, 1000) g;
CREATE INDEX t_id ON t (id);
CREATE INDEX t_k ON t (k);
CREATE TABLE u AS SELECT g AS id, g % 10 AS k FROM generate_series(1, 100) g;
CREATE TABLE big AS SELECT g AS id, repeat('v', 50) AS v FROM generate_series(1, 20000) g;
CREATE TABLE s AS SELECT ROW(g % 3)::slow AS x, g AS y FROM generate_series(1, 100) g;
CREATE TABLE s2 AS SELECT * FROM s;
CREATE TABLE d AS SELECT g / 10 AS a, ROW(g % 3)::slow AS x FROM generate_series(1, 100) g;
CREATE INDEX ON s (x);
CREATE INDEX ON s2 (x);
CREATE INDEX ON d (a);
CREATE TABLE p (id int) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (1) TO (101);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (101) TO (201);
INSERT INTO p SELECT generate_series(1, 200);
-- rows of which each kind takes its own
CREATE TABLE r AS SELECT g AS id, 0 AS n FROM generate_series(1, 5) g;
CREATE TABLE once (id int PRIMARY KEY);
CREATE TABLE excluded (id int, EXCLUDE USING btree (id WITH =));
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (id int REFERENCES parent);
CREATE TABLE child_later (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE cascading (id int PRIMARY KEY);
CREATE TABLE cascaded (id int REFERENCES cascading ON DELETE CASCADE);
INSERT INTO parent SELECT generate_series(1, 10);
INSERT INTO cascading SELECT generate_series(1, 5);
INSERT INTO cascaded SELECT generate_series(1, 5);
CREATE TABLE checked (id int CHECK (burn_immutable(id) > 0));
CREATE TABLE computed (id int, twice int GENERATED ALWAYS AS (burn_immutable(id)) STORED);
CREATE TABLE before (id int);
CREATE TABLE after (id int);
CREATE TABLE transition (id int);
CREATE TABLE merged AS SELECT g AS id FROM generate_series(1, 5) g;
INSERT INTO before SELECT generate_series(1, 5);
CREATE FUNCTION burn_before() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.id = burn(NEW.id); RETURN NEW; END';
CREATE FUNCTION nap_after() RETURNS trigger LANGUAGE plpgsql AS 'DECLARE i int; BEGIN i = nap(1); RETURN NULL; END';
CREATE FUNCTION scan_after() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM FROM t WHERE t.id < 5 AND nap(t.id) > 0; RETURN NULL; END';
CREATE FUNCTION scan_transition() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM FROM added WHERE burn(id) > 0; RETURN NULL; END';
CREATE TRIGGER b BEFORE UPDATE ON before FOR EACH ROW EXECUTE FUNCTION burn_before();
CREATE TRIGGER a AFTER INSERT ON after FOR EACH ROW EXECUTE FUNCTION nap_after();
CREATE TRIGGER t AFTER INSERT ON transition REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION scan_transition();
CREATE TABLE scanning (id int);
CREATE TRIGGER a AFTER INSERT ON scanning FOR EACH ROW EXECUTE FUNCTION scan_after();
-- an index entry that only a session makes slow which asks for it
CREATE TABLE speculative (id int PRIMARY KEY, v int);
CREATE FUNCTION locked_entry(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS \$\$
BEGIN
	IF current_setting('test.locks', true) = 'on' THEN PERFORM pg_advisory_xact_lock(7); END IF;
	RETURN \$1;
END\$\$;
CREATE INDEX ON speculative (locked_entry(v));
CREATE TABLE lw AS SELECT g AS id, g AS k FROM generate_series(1, 100) g;
CREATE INDEX lw_id ON lw (id);
CREATE TABLE lw_insert (id int PRIMARY KEY);
INSERT INTO lw_insert VALUES (0);
CREATE TABLE lw_planned AS SELECT g AS id FROM generate_series(1, 100) g;
CREATE INDEX lw_planned_id ON lw_planned (id);
CREATE SEQUENCE numbers;
CREATE TABLE plain (id int);
CREATE TABLE extended (id int);
CREATE TABLE relation (id int);
INSERT INTO relation SELECT generate_series(1, 10);
CREATE FUNCTION dropped() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION nested_of(statement text) RETURNS int LANGUAGE plpgsql AS 'BEGIN EXECUTE statement; RETURN 1; END';
CREATE FUNCTION cursor_of(statement text) RETURNS int LANGUAGE plpgsql AS \$\$
DECLARE c refcursor; r record; n int = 0;
BEGIN
	OPEN c FOR EXECUTE statement;
	LOOP FETCH c INTO r; EXIT WHEN NOT FOUND; n = n + 1; END LOOP;
	CLOSE c;
	RETURN n;
END\$\$;
SQL
$node->safe_psql('postgres', join ' ', map { <<"SQL" } 1 .. 5);
CREATE TABLE io_$_ AS SELECT g AS id, g % 10 AS k, repeat('v', 50) AS v FROM generate_series(1, 500) g;
CREATE TABLE ix_$_ AS SELECT * FROM io_$_;
CREATE INDEX ix_id_$_ ON ix_$_ (id);
CREATE TABLE bm_$_ AS SELECT * FROM io_$_;
CREATE INDEX bm_k_$_ ON bm_$_ (k);
CREATE TABLE pl_$_ AS SELECT * FROM io_$_;
CREATE INDEX pl_id_$_ ON pl_$_ (id);
CREATE TABLE ext_$_ (id int);
CREATE TABLE pin_$_ AS SELECT generate_series(1, 10) AS id;
CREATE TABLE cic_$_ AS SELECT generate_series(1, 10) AS id;
CREATE TABLE delayed_$_ AS SELECT g AS id, repeat('v', 1000) AS v FROM generate_series(1, 2000) g;
CREATE TABLE indexed_$_ AS SELECT generate_series(1, 10) AS id;
SQL
$node->safe_psql('postgres', <<"SQL") if $foreign;
CREATE EXTENSION postgres_fdw;
CREATE SERVER one FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'postgres');
CREATE SERVER two FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'postgres', async_capable 'true');
CREATE SERVER three FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'postgres', async_capable 'true');
CREATE USER MAPPING FOR CURRENT_USER SERVER one;
CREATE USER MAPPING FOR CURRENT_USER SERVER two;
CREATE USER MAPPING FOR CURRENT_USER SERVER three;
CREATE VIEW napping AS SELECT nap(id) AS n FROM public.u;
CREATE FOREIGN TABLE f_u (id int) SERVER one OPTIONS (table_name 'u');
CREATE FOREIGN TABLE f_napping (n int) SERVER one OPTIONS (table_name 'napping');
CREATE FOREIGN TABLE f_two (n int) SERVER two OPTIONS (table_name 'napping');
CREATE FOREIGN TABLE f_three (n int) SERVER three OPTIONS (table_name 'napping');
SQL
$node->safe_psql('postgres', 'VACUUM ANALYZE t, u, big, lw, lw_planned' . join '', map { ", io_$_, ix_$_, bm_$_, pl_$_" } 1 .. 5);
# nothing is in memory that no statement needs
$node->stop;
start_server();

# ---- sessions ----

my @sessions;

sub pump_session
{
	my ($session, $until) = @_;
	my $deadline = time + $ENV{PG_TEST_TIMEOUT_DEFAULT};
	until ($session->{out} =~ $until)
	{
		die "session does not answer: $session->{sent}\n$session->{err}" if time > $deadline;
		$session->{run}->pump_nb;
		usleep(1000);
	}
}

# Send statements without waiting for their end; with $unfinished the client waits for more.
sub send_to
{
	my ($session, $statements, $unfinished) = @_;
	$session->{sent} = join ' ', map { "$_;" } @$statements;
	$session->{err} = '';
	$session->{in} .= join '', map { "$_;\n" } @$statements;
	$session->{in} .= '\echo end ' . ++$session->{n} . "\n" unless $unfinished;
	$session->{run}->pump_nb while length $session->{in};
}

sub wait_for
{
	my ($session) = @_;
	pump_session($session, qr/^end $session->{n}$/m);
	my $out = $session->{out} =~ s/^end \d+\n//mgr;
	$session->{out} = '';
	return $out;
}

sub ask
{
	my ($session, @statements) = @_;
	send_to($session, \@statements);
	my $out = wait_for($session);
	die "$session->{sent}\n$session->{err}" if $session->{err} =~ /ERROR|FATAL/;
	return $out =~ s/\n\z//r;
}

sub session
{
	my $session = { in => '', out => '', err => '', n => 0 };
	$session->{run} = IPC::Run::start([ 'psql', '-X', '-q', '-A', '-t', '-d', $node->connstr('postgres') ], '<', \$session->{in}, '>', \$session->{out}, '2>', \$session->{err});
	$session->{client} = $session->{run}{KIDS}[0]{PID};
	$session->{pid} = ask($session, 'SELECT pg_backend_pid()');
	push @sessions, $session;
	return $session;
}

my $observer = session();
my $helper = session();
my %victims = map { $_ => session() } @kinds;

sub until_true
{
	my ($what, $check) = @_;
	my $deadline = time + $ENV{PG_TEST_TIMEOUT_DEFAULT};
	until ($check->())
	{
		return undef if time > $deadline;
		usleep(5000);
	}
	return 1;
}

# ---- what a cause can do ----

my %settings = (
	short => 'SET light_explain.switch_after = 1000000',
	recorded => 'SET light_explain.switch_after = 0',
	worker => "SET light_explain.switch_after = 0; SET $forced = on; SET max_parallel_workers_per_gather = 2",
	nested => 'SET light_explain.switch_after = 0',
	cursor => 'SET light_explain.switch_after = 1000000');

# The statements of a kind.
sub statements
{
	my ($cause, $kind) = @_;
	my $statement = $cause->{sql} =~ s/KIND/$number{$kind}/gr;
	$statement .= ' RETURNING 1' if $kind eq 'cursor' && $statement =~ /^(INSERT|UPDATE|DELETE)/ && $statement !~ /RETURNING/;
	my @main = $kind eq 'nested' ? "SELECT nested_of(\$q\$$statement\$q\$)"
	  : $kind ne 'cursor' ? $statement
	  # before 18 the query of DECLARE has no identifier, so its nodes have no names
	  : $statement =~ /^(SELECT|WITH|VALUES)/ && $version >= 18 ? ('BEGIN', "DECLARE c CURSOR FOR $statement", 'FETCH ALL FROM c', 'COMMIT')
	  : "SELECT cursor_of(\$q\$$statement\$q\$)";
	return ((map { s/KIND/$number{$kind}/gr } @{ $cause->{before} // [] }), @main, @{ $cause->{after} // [] });
}

# Locks of a transaction that no session has.
sub prepared
{
	my ($statement, $end) = @_;
	$end //= 'COMMIT';
	return (
		block => sub { ask($helper, 'BEGIN', $statement, q{PREPARE TRANSACTION 'blocker'}) },
		free => sub { ask($helper, "$end PREPARED 'blocker'") });
}

# A session that executes statements until it is cancelled, rolled back or finds the file "stop"; it waits for this event.
sub other_session
{
	my ($event, @statements) = @_;
	my $other;
	return (
		block => sub {
			$other //= session();
			send_to($other, [@statements]);
			until_true('other', sub { ask($observer, "SELECT count(*) FROM pg_stat_activity WHERE pid = $other->{pid} AND wait_event ~* '$event'") }) or die "$event: $other->{err}";
		},
		free => sub { wait_for($other); ask($other, 'ROLLBACK') });
}

# A process that stands still with a lightweight lock.
sub held
{
	my ($arguments) = @_;
	my $other;
	return (
		block => sub {
			$other //= session();
			my $offset = -s $node->logfile;
			send_to($other, ["SELECT light_test_hold($arguments)"]);
			until_true('held', sub { slurp_file($node->logfile, $offset) =~ /a cause begins/ }) or die "$arguments: $other->{err}";
			kill STOP => $other->{pid};
		},
		free => sub { kill CONT => $other->{pid}; wait_for($other) });
}

# Operations on files that do not return: operation and pattern, or a relation's name.
sub slow
{
	my ($operation, $pattern, $own) = @_;
	return (
		free => sub { unlink $slow_io },
		block => sub {
			my @lines;
			for my $victim (@_)
			{
				my $path = $pattern =~ m{/} ? $pattern : '*/' . ask($observer, "SELECT pg_relation_filepath('" . $pattern =~ s/KIND/$number{$victim->{kind}}/r . "')");
				push @lines, "$operation " . ($own ? $victim->{pid} : 0) . " $path\n";
			}
			append_to_file("$slow_io.new", join '', @lines);
			rename "$slow_io.new", $slow_io or die $!;
		});
}

# The statements are cancelled.
my %cancel = (free => sub { ask($observer, "SELECT pg_cancel_backend($_->{pid})") for @_ });
my $writes = 'a worker writes nothing';
my $row_locks = 'a worker locks no rows';
my $advisory = 'a worker takes no advisory locks';
my $leader = 'the node is above Gather';
my $window = 'window functions are evaluated by the leader';
my $cte = 'CTEs are evaluated by the leader';
my $remote = 'postgres_fdw is not used in workers';
my $command = 'a cursor executes no such command';
my $utility = 'workers execute no such command';
my $outside = 'it cannot run in a function';
my $finished = 'a worker receives the finished plan';
# documented: nodes that core measures inside its code are told apart by their records
my %hash = (in => { short => 'Hash Join|-', cursor => 'Hash Join|-' });
my %bitmap = (in => { short => 'Bitmap Heap Scan|lw', cursor => 'Bitmap Heap Scan|lw' });
my %dml = (worker => $writes);
my %utility = (worker => $utility, cursor => $command);
my %top = (%utility, nested => $outside);
my $no_seq = 'enable_seqscan = off; SET enable_bitmapscan = off';
my $hash = 'enable_nestloop = off; SET enable_mergejoin = off';
my $merge = 'enable_nestloop = off; SET enable_hashjoin = off';
my $small = q{work_mem = '64kB'};
my $parallel = 'max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET parallel_leader_participation = off';

# name, node (activity if it is not execute, node type, relation), wait event, statement, the rest
my @causes;
sub cause
{
	my ($name, $place, $wait, $sql, %rest) = @_;
	push @causes, { name => $name, place => $place, wait => $wait, sql => $sql, not => {}, %rest };
}

# ---- CPU ----

cause('slow filter', 'Seq Scan|t', 'CPU:CPU', 'SELECT id FROM t WHERE burn(id) > 0');
cause('slow filter of an index scan', 'Index Scan|t', 'CPU:CPU', 'SELECT k FROM t WHERE id < 40 AND burn(k + id) > 0', set => $no_seq);
cause('slow filter of an index-only scan', 'Index Only Scan|t', 'CPU:CPU', 'SELECT id FROM t WHERE id < 40 AND burn(id) > 0', set => $no_seq);
cause('slow filter of a bitmap heap scan', 'Bitmap Heap Scan|t', 'CPU:CPU', 'SELECT id FROM t WHERE k = 3 AND burn(id) > 0', set => 'enable_seqscan = off; SET enable_indexscan = off');
cause('slow filter of a TID scan', 'Tid Scan|t', 'CPU:CPU', q{SELECT id FROM t WHERE ctid = '(0,1)' AND burn(id) > 0});
cause('slow filter of a TID range scan', 'Tid Range Scan|t', 'CPU:CPU', q{SELECT id FROM t WHERE ctid > '(0,1)' AND burn(id) > 0}, set => 'enable_seqscan = off');
cause('slow filter of a sample', 'Sample Scan|t', 'CPU:CPU', 'SELECT id FROM t TABLESAMPLE system (100) WHERE burn(id) > 0');
cause('slow filter of a subquery', 'Subquery Scan|-', 'CPU:CPU', 'SELECT * FROM (SELECT DISTINCT k FROM t) x WHERE burn_volatile(k) >= 0');
cause('slow filter of a function scan', 'Function Scan|-', 'CPU:CPU', 'SELECT g FROM generate_series(1, 10) g WHERE burn(g) > 0');
cause('slow set-returning function', 'Function Scan|-', 'CPU:CPU', 'SELECT * FROM burns(5)');
cause('slow function in a target list', 'ProjectSet|-', 'CPU:CPU', 'SELECT generate_series(1, burn(id)) FROM u');
cause('slow VALUES', 'Values Scan|-', 'CPU:CPU', 'SELECT * FROM (VALUES (1), (2)) v (x) WHERE burn(x) > 0');
cause('slow filter of a CTE', 'CTE Scan|-', 'CPU:CPU', 'WITH c AS MATERIALIZED (SELECT id FROM t) SELECT * FROM c WHERE burn(id) > 0', not => { worker => $cte });
cause('slow InitPlan', 'Aggregate|-', 'CPU:CPU', 'SELECT count(*) FROM t WHERE id = (SELECT max(burn(k)) FROM u)', not => { worker => 'InitPlans are evaluated by the leader' });
cause('slow SubPlan', 'Seq Scan|u', 'CPU:CPU', 'SELECT id FROM t WHERE id NOT IN (SELECT burn(id) FROM u)');
cause('slow join filter', 'Nested Loop|-', 'CPU:CPU', 'SELECT count(*) FROM t JOIN u ON burn(t.id + u.id) > 0');
cause('slow key of a hash table', 'Hash|-', 'CPU:CPU', 'SELECT count(*) FROM t JOIN u ON t.id = burn(u.id)', set => $hash, %hash);
cause('slow lookup in a hash table', 'Hash Join|-', 'CPU:CPU', 'SELECT count(*) FROM t JOIN u ON burn(t.id) = u.id', set => $hash);
cause('slow filter of a merge join', 'Merge Join|-', 'CPU:CPU', 'SELECT count(*) FROM t JOIN u ON t.id = u.id AND burn(t.k + u.k) <> 0', set => $merge);
cause('slow comparison of a sort', 'Sort|-', 'CPU:CPU', 'SELECT x FROM s ORDER BY x', set => 'enable_indexscan = off; SET enable_indexonlyscan = off');
cause('slow comparison of an incremental sort', 'Incremental Sort|-', 'CPU:CPU', 'SELECT a FROM d ORDER BY a, x', set => 'enable_seqscan = off; SET enable_sort = off');
cause('slow aggregate', 'Aggregate|-', 'CPU:CPU', 'SELECT count(burn(id)) FROM t');
cause('slow aggregate of groups', 'GroupAggregate|-', 'CPU:CPU', 'SELECT id, sum(burn(k)) FROM t GROUP BY id', set => "$no_seq; SET enable_hashagg = off");
cause('slow key of groups', 'HashAggregate|-', 'CPU:CPU', 'SELECT x, count(*) FROM s GROUP BY x', set => 'enable_sort = off; SET enable_indexscan = off; SET enable_indexonlyscan = off');
cause('slow comparison of groups', 'Group|-', 'CPU:CPU', 'SELECT x FROM s GROUP BY x', set => "$no_seq; SET enable_hashagg = off");
cause('slow comparison of distinct rows', 'Unique|-', 'CPU:CPU', 'SELECT DISTINCT ON (x) x, y FROM s ORDER BY x', set => "$no_seq; SET enable_hashagg = off");
cause('slow window function', 'WindowAgg|-', 'CPU:CPU', 'SELECT sum(burn(id)) OVER () FROM t', not => { worker => $window });
cause('slow EXCEPT', 'HashSetOp|-', 'CPU:CPU', 'SELECT x FROM s EXCEPT ALL SELECT x FROM s2', not => { worker => 'the leader compares the sets' }, set => 'enable_sort = off; SET enable_indexscan = off; SET enable_indexonlyscan = off');
cause('slow merge of sorted tables', 'Merge Append|-', 'CPU:CPU', '(SELECT x FROM s UNION ALL SELECT x FROM s2) ORDER BY x', set => $no_seq);
cause('slow recursion', 'Recursive Union|-', 'CPU:CPU', 'WITH RECURSIVE n AS (SELECT ROW(1)::slow AS x UNION SELECT x FROM n) SELECT count(*) FROM n', not => { worker => $cte });
cause('slow LIMIT', 'Limit|-', 'CPU:CPU', 'SELECT id FROM t LIMIT burn_volatile(5)');
cause('slow expression without a table', 'Result|-', 'CPU:CPU', 'SELECT burn_volatile(1)');
cause('slow partition', 'Seq Scan|p2', 'CPU:CPU', 'SELECT count(*) FROM p WHERE CASE WHEN id > 100 THEN burn(id) ELSE id END > 0');
cause('slow CHECK constraint', 'Insert|checked', 'CPU:CPU', 'INSERT INTO checked SELECT id FROM u', not => \%dml);
cause('slow generated column', 'Insert|computed', 'CPU:CPU', 'INSERT INTO computed SELECT id FROM u', not => \%dml);
cause('slow BEFORE trigger', 'Update|before', 'CPU:CPU', 'UPDATE before SET id = id WHERE id = KIND', not => \%dml);
cause('slow transition table', 'Named Tuplestore Scan|-', 'CPU:CPU', 'INSERT INTO transition VALUES (1), (2)', not => \%dml);
cause('slow RETURNING', 'Delete|r', 'CPU:CPU', 'DELETE FROM r WHERE id = KIND AND n < 0 OR id = KIND + 100 RETURNING burn(id)', not => \%dml,
	before => ['INSERT INTO r VALUES (KIND + 100, 0)']);
cause('slow condition of MERGE', 'Merge|merged', 'CPU:CPU', 'MERGE INTO merged m USING r ON m.id = r.id AND r.id = KIND WHEN MATCHED AND burn(m.id) > 0 THEN DO NOTHING',
	not => { %dml, cursor => 'it returns nothing before 17' });
cause('slow local filter of a foreign table', 'Foreign Scan|f_u', 'CPU:CPU', 'SELECT id FROM f_u WHERE burn(id) > 0', not => { worker => $remote }) if $foreign;
cause('slow constant for the planner', 'plan', 'CPU:CPU', 'SELECT burn_immutable(1)', not => { worker => $finished });
cause('slow expression of an index', 'utility', 'CPU:CPU', 'CREATE INDEX ON indexed_KIND (burn_immutable(id))', not => \%utility);

# ---- waits for time ----

cause('sleep in a filter', 'Seq Scan|t', 'Timeout:PgSleep', 'SELECT id FROM t WHERE nap(id) > 0');
cause('sleep in an aggregate', 'Aggregate|-', 'Timeout:PgSleep', 'SELECT count(nap(id)) FROM t');
cause('sleep without a table', 'Result|-', 'Timeout:PgSleep', 'SELECT nap_volatile(1)');
cause('sleep in a join filter', 'Nested Loop|-', 'Timeout:PgSleep', 'SELECT count(*) FROM t JOIN u ON nap(t.id + u.id) > 0');
cause('sleep of the planner', 'plan', 'Timeout:PgSleep', 'SELECT nap_immutable(1)', not => { worker => $finished });
cause('sleep of an AFTER trigger', '-|-', 'Timeout:PgSleep', 'INSERT INTO after VALUES (1)', not => \%dml);
cause('sleep in a statement of a trigger', 'Seq Scan|t', 'Timeout:PgSleep', 'INSERT INTO scanning VALUES (1)', not => \%dml, set => 'enable_indexscan = off; SET enable_bitmapscan = off');
# before 18 the query has no identifier, so that its nodes have no names
cause('sleep while a table is created', $version < 18 ? 'node 0|-' : 'Seq Scan|t', 'Timeout:PgSleep', 'CREATE TEMP TABLE created_KIND AS SELECT nap(id) FROM t', not => \%utility);
cause('sleep in EXPLAIN ANALYZE', 'Seq Scan|t', 'Timeout:PgSleep', 'EXPLAIN (ANALYZE, COSTS OFF) SELECT id FROM t WHERE nap(id) > 0', not => { worker => $utility, cursor => $command });
cause('sleep in COPY', 'Seq Scan|t', 'Timeout:PgSleep', q{COPY (SELECT id FROM t WHERE nap(id) > 0) TO '/dev/null'}, not => \%utility);
cause('sleep of a procedure', 'utility', 'Timeout:PgSleep', 'CALL nap_procedure()', not => \%utility);
cause('delays of VACUUM', 'utility', 'Timeout:VacuumDelay', 'VACUUM delayed_KIND', not => \%top, set => 'vacuum_cost_delay = 100; SET vacuum_cost_limit = 1', %cancel);

# ---- locks ----

my @rows = prepared('UPDATE r SET n = n + 1');
cause('row lock of UPDATE', 'Update|r', 'Lock:transactionid', 'UPDATE r SET n = 0 WHERE id = KIND', not => \%dml, @rows);
cause('row lock of DELETE', 'Delete|merged', 'Lock:transactionid', 'DELETE FROM merged WHERE id = KIND', not => \%dml, prepared('UPDATE merged SET id = id'));
cause('row lock of SELECT FOR UPDATE', 'LockRows|-', 'Lock:transactionid', 'SELECT id FROM r WHERE id = KIND FOR UPDATE', not => { worker => $row_locks }, @rows);
cause('row lock below an aggregate', 'LockRows|-', 'Lock:transactionid', 'SELECT count(*) FROM (SELECT id FROM r WHERE id = KIND FOR SHARE) x', not => { worker => $row_locks }, @rows);
{
	my %first = other_session('transactionid', 'BEGIN', 'UPDATE r SET n = 1 WHERE id = 1');
	my %rows = @rows;
	cause('queue for a row', 'Update|r', 'Lock:tuple', 'UPDATE r SET n = 0 WHERE id = 1', not => \%dml,
		block => sub { $rows{block}->(); $first{block}->() }, free => sub { $rows{free}->(); $first{free}->() });
}
cause('unique conflict', 'Insert|once', 'Lock:transactionid', 'INSERT INTO once VALUES (KIND)', not => \%dml, prepared('INSERT INTO once SELECT generate_series(1, 5)', 'ROLLBACK'), after => ['DELETE FROM once']);
cause('unique conflict of ON CONFLICT', 'Insert|once', 'Lock:transactionid', 'INSERT INTO once VALUES (KIND) ON CONFLICT DO NOTHING', not => \%dml, prepared('INSERT INTO once SELECT generate_series(1, 5)', 'ROLLBACK'),
	after => ['DELETE FROM once']);
cause('exclusion conflict', 'Insert|excluded', 'Lock:transactionid', 'INSERT INTO excluded VALUES (KIND)', not => \%dml, prepared('INSERT INTO excluded SELECT generate_series(1, 5)', 'ROLLBACK'));
{
	my %lock = prepared('SELECT pg_advisory_xact_lock(7)');
	my %first = other_session('advisory', 'BEGIN', q{SET LOCAL test.locks = 'on'}, 'INSERT INTO speculative VALUES (1, 1) ON CONFLICT DO NOTHING');
	cause('speculative insertion', 'Insert|speculative', 'Lock:spec.*', 'INSERT INTO speculative VALUES (1, 1) ON CONFLICT DO NOTHING', not => \%dml,
		block => sub { $lock{block}->(); $first{block}->() }, free => sub { $lock{free}->(); $first{free}->() });
}
# since 19 a check of a foreign key locks the row without executing a statement
cause('foreign key check', $version < 19 ? 'LockRows|-' : '-|-', 'Lock:transactionid', 'INSERT INTO child VALUES (KIND)', not => \%dml, prepared('SELECT FROM parent FOR UPDATE'));
cause('deferred foreign key check', $version < 19 ? 'LockRows|-' : 'utility', 'Lock:transactionid', 'SET CONSTRAINTS ALL IMMEDIATE', not => \%utility,
	before => [ 'BEGIN', 'INSERT INTO child_later VALUES (KIND)' ], after => ['COMMIT'], prepared('SELECT FROM parent FOR UPDATE'));
cause('foreign key check of COMMIT', $version < 19 ? 'LockRows|-' : 'other', 'Lock:transactionid', 'COMMIT', not => \%top,
	before => [ 'BEGIN', 'INSERT INTO child_later VALUES (KIND)' ], prepared('SELECT FROM parent FOR UPDATE'));
cause('cascading DELETE', 'Delete|cascaded', 'Lock:transactionid', 'DELETE FROM cascading WHERE id = KIND', not => \%dml, prepared('UPDATE cascaded SET id = id'));
cause('advisory lock in a filter', 'Seq Scan|u', 'Lock:advisory', 'SELECT id FROM u WHERE id = 2 AND pg_advisory_xact_lock_shared(7) IS NOT NULL', not => { worker => $advisory }, prepared('SELECT pg_advisory_xact_lock(7)'));
cause('advisory lock without a table', 'Result|-', 'Lock:advisory', 'SELECT pg_advisory_xact_lock_shared(7)', not => { worker => $advisory }, prepared('SELECT pg_advisory_xact_lock(7)'));
cause('relation lock of a function', 'Seq Scan|u', 'Lock:relation', q{SELECT id FROM u WHERE pg_relation_size(('relation'::regclass::oid::int + 0 * id)::regclass) >= 0}, prepared('LOCK TABLE relation'));
cause('lock of a partition for its first row', 'Insert|p', 'Lock:relation', 'INSERT INTO p VALUES (150)', not => \%dml, prepared('LOCK TABLE p2'));
cause('lock of a partition for the planner', 'plan', 'Lock:relation', 'SELECT count(*) FROM p', not => { worker => $finished }, prepared('LOCK TABLE ONLY p2'));
cause('lock of a table that is parsed', 'other', 'Lock:relation', 'SELECT id FROM relation', not => { worker => 'the leader parses' }, in => { nested => 'Result|-', $version < 18 ? (cursor => 'Result|-') : () }, prepared('LOCK TABLE relation'));
cause('lock for ALTER TABLE', 'utility', 'Lock:relation', q{ALTER TABLE relation ALTER id SET DEFAULT 1}, not => \%utility, prepared('SELECT id FROM relation'));
cause('lock of TRUNCATE', 'utility', 'Lock:relation', 'TRUNCATE relation', not => \%utility, prepared('SELECT id FROM relation'));
cause('lock of an object', 'utility', 'Lock:object', 'DROP FUNCTION IF EXISTS dropped()', not => \%utility, prepared('DROP FUNCTION dropped()', 'ROLLBACK'));
cause('unique conflict of COPY', 'utility', 'Lock:transactionid', q{COPY once FROM PROGRAM 'echo KIND'}, not => \%utility, prepared('INSERT INTO once SELECT generate_series(1, 5)', 'ROLLBACK'));
cause('snapshots before CREATE INDEX CONCURRENTLY', 'utility', 'Lock:virtualxid', 'CREATE INDEX CONCURRENTLY ON cic_KIND (id)', not => \%top, alone => 1,
	block => sub { ask($helper, 'BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT 1') }, free => sub { ask($helper, 'COMMIT') });
{
	my $other;
	cause('deadlock', 'Update|r', 'Lock:transactionid', 'UPDATE r SET n = 0 WHERE id = 2', not => \%dml, alone => 1,
		before => [ 'BEGIN', 'UPDATE r SET n = 0 WHERE id = 1' ], after => ['COMMIT'],
		block => sub { $other //= session(); ask($other, 'BEGIN', 'UPDATE r SET n = 0 WHERE id = 2') },
		arrived => sub { send_to($other, ['UPDATE r SET n = 0 WHERE id = 1']) },
		free => sub { ask($observer, "SELECT pg_cancel_backend($other->{pid})"); wait_for($other); ask($other, 'ROLLBACK') });
}

# ---- lightweight locks of a process that stands still, pins ----

my $content = '(LWLock:BufferContent|Buffer:.*)';
cause('content lock of a table', 'Seq Scan|lw', $content, 'SELECT count(k) FROM lw', held(q{'content', 'lw'}));
cause('content lock of a bitmap heap scan', 'Bitmap Heap Scan|lw', $content, 'SELECT count(k) FROM lw WHERE id = 50', set => 'enable_seqscan = off; SET enable_indexscan = off', held(q{'content', 'lw'}));
cause('content lock of an index', 'Index Scan|lw', $content, 'SELECT k FROM lw WHERE id = 50', set => $no_seq, held(q{'content', 'lw_id', 1}));
cause('content lock of an index-only scan', 'Index Only Scan|lw', $content, 'SELECT id FROM lw WHERE id = 50', set => $no_seq, held(q{'content', 'lw_id', 1}));
cause('content lock of a bitmap index scan', 'Bitmap Index Scan|-', $content, 'SELECT k FROM lw WHERE id = 50', set => 'enable_seqscan = off; SET enable_indexscan = off', %bitmap, held(q{'content', 'lw_id', 1}));
cause('content lock of INSERT', 'Insert|lw_insert', $content, 'INSERT INTO lw_insert VALUES (KIND)', not => \%dml, held(q{'content', 'lw_insert_pkey', 1}));
cause('content lock of a sequence', 'Result|-', $content, q{SELECT nextval('numbers')}, not => { worker => $writes }, held(q{'content', 'numbers'}));
cause('content lock for the planner', 'plan', $content, 'SELECT id FROM lw_planned WHERE id = 50', not => { worker => $finished }, held(q{'content', 'lw_planned_id'}));
cause('lock of the next transaction ID', 'Insert|plain', 'LWLock:XidGen', 'INSERT INTO plain VALUES (1)', not => \%dml, held(q{'xid'}));
cause('lock of WAL', 'commit', 'LWLock:WALWrite', 'INSERT INTO plain VALUES (1)', not => \%dml, held(q{'wal'}));
cause('pin of a cursor', 'utility', $version < 19 ? 'BufferPin:BufferPin' : 'Buffer:BufferCleanup', 'VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) pin_KIND', not => \%top,
	block => sub { ask($helper, 'BEGIN', map { ("DECLARE pin_$_ CURSOR FOR SELECT id FROM pin_$_", "FETCH pin_$_") } 1 .. 5) }, free => sub { ask($helper, 'ROLLBACK') });

# ---- files ----

my $read = '(IO:DataFileRead|IO:AioIoCompletion)';
cause('slow read of a table', 'Seq Scan|io_KIND', $read, 'SELECT count(*) FROM io_KIND', slow('read', 'io_KIND'));
cause('slow read of an index scan', 'Index Scan|ix_KIND', $read, 'SELECT v FROM ix_KIND WHERE id = 50', set => $no_seq, slow('read', 'ix_KIND'));
cause('slow read of a bitmap heap scan', 'Bitmap Heap Scan|bm_KIND', $read, 'SELECT v FROM bm_KIND WHERE k = 5', set => 'enable_seqscan = off; SET enable_indexscan = off', slow('read', 'bm_KIND'));
cause('slow read of the planner', 'plan', $read, 'SELECT v FROM pl_KIND WHERE id = 50', not => { worker => $finished }, slow('read', 'pl_id_KIND'));
cause('slow extension of a table', 'Insert|ext_KIND', 'IO:DataFileExtend', 'INSERT INTO ext_KIND VALUES (1)', not => \%dml, slow('write', 'ext_KIND'));
cause('slow spilling sort', 'Sort|-', 'IO:BufFileWrite', 'SELECT id FROM big ORDER BY v, id', set => $small, slow('write', '*/pgsql_tmp/*'));
cause('slow merge of sorted runs', 'Sort|-', 'IO:BufFileRead', 'SELECT id FROM big ORDER BY v, id', set => $small, slow('read', '*/pgsql_tmp/*'));
cause('slow spilling hash table', 'Hash|-', 'IO:BufFileWrite', 'SELECT count(*) FROM big a JOIN big b USING (id)', set => "$hash; SET $small", %hash, slow('write', '*/pgsql_tmp/*'));
cause('slow read of a batch', 'Hash Join|-', 'IO:BufFileRead', 'SELECT count(*) FROM big a JOIN big b USING (id)', set => "$hash; SET $small", slow('read', '*/pgsql_tmp/*'));
cause('slow spilling aggregate', 'HashAggregate|-', 'IO:BufFileWrite', 'SELECT id, count(*) FROM big GROUP BY id', set => "enable_sort = off; SET $small", slow('write', '*/pgsql_tmp/*'));
cause('slow spilling window', 'WindowAgg|-', 'IO:BufFileWrite', 'SELECT count(*) OVER () FROM big', set => $small, not => { worker => $window }, slow('write', '*/pgsql_tmp/*'));
cause('slow spilling materialization', 'Materialize|-', 'IO:BufFileWrite', 'SELECT count(*) FROM u a LEFT JOIN big b ON a.id > b.id + 1000000 WHERE a.id <= 20', set => $small, slow('write', '*/pgsql_tmp/*'));
cause('slow spilling CTE', 'CTE Scan|-', 'IO:BufFileWrite', 'WITH c AS MATERIALIZED (SELECT * FROM big) SELECT count(*) FROM c', set => $small, not => { worker => $cte }, slow('write', '*/pgsql_tmp/*'));
cause('slow spilling function', 'Function Scan|-', 'IO:BufFileWrite', 'SELECT count(*) FROM generate_series(1, 50000)', set => $small, slow('write', '*/pgsql_tmp/*'));
cause('slow sync of WAL', 'commit', 'IO:WALSync', 'INSERT INTO plain VALUES (1)', not => \%dml, alone => 1, slow('sync', '*/pg_wal/*', 1));
cause('slow write of WAL', 'commit', 'IO:WALWrite', 'INSERT INTO plain VALUES (1)', not => \%dml, alone => 1, slow('write', '*/pg_wal/*', 1));
cause('program that COPY reads', 'utility', $version < 19 ? 'CPU:CPU' : 'IO:CopyFromRead', q{COPY plain FROM PROGRAM 'while [ ! -e stop ]; do sleep 0.05; done'}, not => \%utility,
	$version < 19 ? (seen => 'EXISTS (SELECT FROM pg_stat_progress_copy WHERE pid = PID)') : ());
{
	my %extend = slow('write', 'extended');
	my %first = other_session('DataFileExtend', 'INSERT INTO extended VALUES (1)');
	cause('another session extends the table', 'Insert|extended', 'Lock:extend', 'INSERT INTO extended VALUES (1)', not => \%dml,
		block => sub { $extend{block}->(@_); $first{block}->() }, free => sub { $extend{free}->(); $first{free}->() });
}

# ---- other processes ----

cause('missing standby', 'commit', 'IPC:SyncRep', 'INSERT INTO plain VALUES (1)', not => \%dml, set => 'synchronous_commit = on', %cancel);
{
	my $pid;
	cause('checkpointer that stands still', 'utility', 'IPC:CheckpointStart', 'CHECKPOINT', not => \%utility,
		block => sub { $pid = ask($observer, q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'}); kill STOP => $pid }, free => sub { kill CONT => $pid });
}
cause('leader that does not read the queue', 'Aggregate|-', 'Timeout:PgSleep', 'SELECT count(nap_restricted(id)) FROM big', set => $parallel, workers => ['-|-|IPC:MessageQueueSend'],
	not => { worker => 'the leader is the cause', cursor => 'a cursor has no workers' });
cause('worker that another one waits for', 'Gather|-', 'IPC:ExecuteGather', 'SELECT count(*) FROM big a JOIN big b USING (id) WHERE CASE WHEN b.id = 1 THEN nap(b.id) ELSE b.id END > 0', set => "$parallel; SET $hash",
	workers => [ 'Seq Scan|big|Timeout:PgSleep', 'Hash|-|IPC:Hash\w+' ], workers_short => [ 'Seq Scan|big|Timeout:PgSleep', 'Hash Join|-|IPC:Hash\w+' ], not => { worker => 'the other kinds show it', cursor => 'a cursor has no workers' });
if ($foreign)
{
	cause('slow foreign server', 'Foreign Scan|f_napping', 'Extension:.*', 'SELECT n FROM f_napping', not => { worker => $remote },
		# a connection that begins waits for the foreign server, too
		seen => q{(SELECT count(*) FROM pg_stat_activity WHERE application_name = 'postgres_fdw' AND wait_event = 'PgSleep') >= 4});
	cause('asynchronous foreign scans', 'Append|-', 'IPC:AppendReady', 'SELECT n FROM f_two UNION ALL SELECT n FROM f_three', not => { worker => $remote });
}
# while the statement sleeps at first
my %stopped = (
	block => sub {
		for my $victim (@_)
		{
			until_true('sleeps', sub { ask($observer, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $victim->{pid} IN (pid, leader_pid) AND wait_event = 'PgSleep')") eq 't' });
			kill STOP => $victim->{client};
		}
	},
	after_send => 1, free => sub { kill CONT => $_->{client} for @_ });
cause('client that does not read', '-|-', 'Client:ClientWrite', q{SELECT repeat('x', 100000) FROM generate_series(1, 20) g WHERE g <> 1 OR pg_sleep(1.5) IS NOT NULL},
	not => { nested => 'a function returns its rows to the server', $version < 18 ? (cursor => 'a function reads the cursor') : () },
	leader => '-|-|Client:ClientWrite', in => { cursor => 'other' }, workers => ['-|-|IPC:MessageQueueSend'], %stopped);
cause('client that does not read notices', 'Seq Scan|u', 'Client:ClientWrite', 'SELECT notices(id) FROM u WHERE id <= 20', leader => 'Gather|-|Client:ClientWrite', workers => ['Seq Scan|u|IPC:MessageQueue.*'], %stopped);
cause('client that does not send', 'utility', 'Client:ClientRead', 'COPY plain FROM STDIN', not => \%top, unfinished => 1, free => sub { $_->{in} .= "\\.\n\\echo end " . ++$_->{n} . "\n" for @_ });

# ---- run them ----

my ($tested, $impossible) = (0, 0);

# "role|activity|node type|relation|wait" of a place of a cause
sub place
{
	my ($place, $wait, $kind) = @_;
	$place =~ s/KIND/$number{$kind}/;
	$place = $place =~ /\|/ ? "execute|$place" : "$place|-|-";
	return qr/\A\Q$place\E\|$wait\z/i;
}

# Do processes of this kind wait as the cause makes them?
sub has_arrived
{
	my ($cause, $kind, $offset) = @_;
	my $pid = $victims{$kind}{pid};
	return ask($observer, 'SELECT ' . $cause->{seen} =~ s/PID/$pid/r) eq 't' if $cause->{seen};
	my @waits = $cause->{workers} && ($kind eq 'worker' || !$cause->{leader}) ? map { s/.*\|//r } @{ $cause->{workers} } : $cause->{wait};
	if ($waits[0] eq 'CPU:CPU')
	{
		my $prefix = $kind eq 'worker' ? "<\\d+ $pid>" : "<$pid >";
		return slurp_file($node->logfile, $offset) =~ /^$prefix LOG:  a cause begins/m;
	}
	if ($kind eq 'worker' && $cause->{workers} && $cause->{leader})
	{
		# its leader has to wait, too
		my $wait = $cause->{leader} =~ s/.*\|//r;
		return 0 unless ask($observer, "SELECT wait_event_type || ':' || wait_event ~* '^$wait\$' FROM pg_stat_activity WHERE pid = $pid") eq 't';
	}
	my $process = $cause->{workers} && ($kind eq 'worker' || !$cause->{leader}) || $kind eq 'worker' ? 'leader_pid' : 'pid';
	my $processes = ($cause->{set} // '') =~ /per_gather = 2/ && $cause->{workers} ? 2 : 1;
	return ask($observer, "SELECT count(*) = $processes"
		  . join('', map { " AND count(*) FILTER (WHERE wait ~* '^$_\$') > 0" } @waits)
		  . ' AND bool_and(' . join(' OR ', map { "wait ~* '^$_\$'" } @waits) . ')'
		  . " FROM (SELECT coalesce(wait_event_type || ':' || wait_event, 'CPU:CPU') AS wait FROM pg_stat_activity WHERE $process = $pid) w") eq 't';
}

sub check
{
	my ($cause, $kind, $began, $ended) = @_;
	my $pid = $victims{$kind}{pid};
	my %expected = (leader => [ place($cause->{in}{$kind} // $cause->{place}, $cause->{wait}, $kind) ], worker => []);
	if ($kind eq 'worker' && !$cause->{workers})
	{
		$expected{worker} = $expected{leader};
		$expected{leader} = [ place('Gather|-', 'IPC:ExecuteGather', $kind) ];
	}
	elsif ($cause->{workers} && ($kind eq 'worker' || !$cause->{leader}))
	{
		$expected{worker} = [ map { place($_ =~ s/\|[^|]*\z//r, $_ =~ s/.*\|//r, $kind) } @{ $cause->{"workers_$kind"} // $cause->{workers} } ];
		$expected{leader} = [ map { place($_ =~ s/\|[^|]*\z//r, $_ =~ s/.*\|//r, $kind) } $cause->{leader} ] if $cause->{leader};
	}
	my %seen = map { $_ => {} } keys %expected;
	for (split /\n/, ask($observer, <<"SQL"))
SELECT CASE WHEN leader_pid IS NULL THEN 'leader' ELSE 'worker' END, count(*), concat_ws('|', activity, coalesce(node_type, 'node ' || node, '-'), coalesce(relation, '-'), wait_event_type || ':' || wait_event)
FROM light_explain_samples WHERE (pid = $pid OR leader_pid = $pid) AND sampled > '$began' AND sampled <= '$ended' GROUP BY 1, 3
SQL
	{
		my ($role, $n, $place) = split /\|/, $_, 3;
		$seen{$role}{$place} = $n;
	}
	my @faults;
	for my $role (sort keys %expected)
	{
		my ($seen, @places) = ($seen{$role}, @{ $expected{$role} });
		my $all = sum0(values %$seen);
		my $right = sum0(map { my $place = $_; (any { $place =~ $_ } @places) ? $seen->{$place} : 0 } keys %$seen);
		push @faults, "$role: $right of $all samples" if $right < SHARE * $all || @places && $all < SAMPLES;
		for my $place (@places)
		{
			push @faults, "$role: none is $place" unless any { $_ =~ $place } keys %$seen;
		}
	}
	is(join('; ', @faults), '', "$cause->{name}: $kind")
	  or diag(join "\n", (map { my $role = $_; map { "$role $seen{$role}{$_} $_" } sort keys %{ $seen{$role} } } sort keys %seen), $victims{$kind}{err} =~ s/^(.{300}).*/$1/sr);
	$tested++;
}

sub run_cause
{
	my ($cause, @together) = @_;
	my @victims = map { $victims{$_}{kind} = $_; $victims{$_} } @together;
	for my $victim (@victims)
	{
		ask($victim, 'RESET ALL', '\o', $settings{ $victim->{kind} }, $cause->{set} ? "SET $cause->{set}" : ());
	}
	ask($observer, 'SELECT light_explain_samples_reset(), light_explain_profile_reset()');
	unlink $stop;
	$cause->{block}->(@victims) if $cause->{block} && !$cause->{after_send};
	my $offset = -s $node->logfile;
	for my $victim (@victims)
	{
		send_to($victim, [ '\o /dev/null', statements($cause, $victim->{kind}) ], $cause->{unfinished});
	}
	$cause->{block}->(@victims) if $cause->{after_send};
	my $arrived = 1;
	for my $kind (@together)
	{
		until_true($kind, sub { $victims{$kind}{run}->pump_nb unless $cause->{after_send}; has_arrived($cause, $kind, $offset) }) and next;
		$arrived = fail("$cause->{name}: $kind does not begin");
		diag($victims{$kind}{err}, ask($observer, "SELECT state, wait_event_type, wait_event, query FROM pg_stat_activity WHERE $victims{$kind}{pid} IN (pid, leader_pid)"));
	}
	$cause->{arrived}->(@victims) if $cause->{arrived};
	my $began = ask($observer, 'SELECT clock_timestamp()');
	my $counts = join ' AND ', map {
		my $process = $_->{kind} eq 'worker' ? 'leader_pid' : 'pid';
		"count(*) FILTER (WHERE $process = $_->{pid}) >= " . SAMPLES
	} @victims;
	my $ended;
	until_true('samples', sub {
		(my $enough, $ended) = split /\|/, ask($observer, "SELECT $counts, max(sampled) FROM light_explain_samples() WHERE sampled > '$began'");
		return $enough eq 't';
	}) or fail("$cause->{name}: not enough samples") if $arrived;
	append_to_file($stop, '');
	$cause->{free}->(@victims) if $cause->{free};
	wait_for($_) for @victims;
	return unless $arrived;
	my $rounds = ask($observer, 'SELECT sampler_rounds FROM light_explain_status()');
	until_true('rounds', sub { ask($observer, "SELECT sampler_rounds > $rounds + 2 FROM light_explain_status()") eq 't' });
	check($cause, $_, $began, $ended) for @together;
}

my $only = $ENV{CAUSES} || '.';
for my $cause (grep { $_->{name} =~ $only } @causes)
{
	note("$cause->{name}: $_ is not possible: $cause->{not}{$_}") for sort keys %{ $cause->{not} };
	$impossible += keys %{ $cause->{not} };
	my @possible = grep { !$cause->{not}{$_} } @kinds;
	my $start = Time::HiRes::time();
	run_cause($cause, @$_) for $cause->{alone} ? map { [$_] } @possible : [@possible];
	note(sprintf '%s: %.1f s', $cause->{name}, Time::HiRes::time() - $start);
}
note('there is no postgres_fdw') unless $foreign;
cmp_ok(scalar @causes, '>=', 50, 'there are fifty causes');
is($tested + $impossible, 5 * @causes, "each in five kinds: $tested tested, $impossible not possible") if $only eq '.';

for my $session (@sessions)
{
	$session->{in} .= "\\q\n";
	$session->{run}->finish;
}
$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|terminated by signal/, 'nothing bad in the log');
done_testing();
