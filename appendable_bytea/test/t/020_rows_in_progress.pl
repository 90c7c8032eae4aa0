
# Readers of rows in progress: an apply worker with REPLICA IDENTITY FULL, BRIN
# summarization and exclusion constraints read row versions of transactions that have
# not committed, and some that are rolled back while they are read.  They find every
# chunk, because chunks are written before their row, and are read whatever becomes of
# their transaction.  Each row has the same value in a column of bytea or text, kept in
# TOAST: the control.
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $publisher = PostgreSQL::Test::Cluster->new('publisher');
$publisher->init(allows_streaming => 'logical');
my $node = PostgreSQL::Test::Cluster->new('subscriber');
$node->init;
for my $server ($publisher, $node)
{
	$server->append_conf('postgresql.conf', "shared_preload_libraries = 'appendable_bytea'\nautovacuum = off\n" . ($server == $node ? "wal_level = replica\ndeadlock_timeout = '20ms'\n" : ''));
	$server->start;
	$server->safe_psql('postgres', q{
CREATE EXTENSION appendable_bytea;
CREATE FUNCTION bytes(n int, c text) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$ SELECT convert_to(repeat(c, n), 'UTF8') $$;
CREATE TABLE t (data appendable_bytea, plain bytea, n int, id int);
ALTER TABLE t REPLICA IDENTITY FULL;
ALTER TABLE t ALTER plain SET STORAGE external;
});
}
$publisher->safe_psql('postgres', q{INSERT INTO t VALUES (bytes(6000, 'a'), bytes(6000, 'a'), 0, 1); CREATE PUBLICATION p FOR TABLE t});
$node->safe_psql('postgres', q{
CREATE TABLE br (id int PRIMARY KEY, log appendable_text, plain text) WITH (fillfactor = 70);
ALTER TABLE br ALTER plain SET STORAGE external;
INSERT INTO br SELECT i, repeat('x', 6000) FROM generate_series(1, 20) i;
CREATE INDEX br_idx ON br USING brin (substr(log::text, 1, 8));
CREATE INDEX br_plain ON br USING brin (substr(plain, 1, 8));
CREATE TABLE ex (id int, log appendable_text, plain text, EXCLUDE USING btree (substr(log::text, 1, 8) WITH =), EXCLUDE USING btree (substr(plain, 1, 8) WITH =));
ALTER TABLE ex ALTER plain SET STORAGE external;
INSERT INTO t SELECT bytes(5700, 'a'), bytes(5700, 'a'), 0, 100 + i FROM generate_series(1, 30) i;
});

# The order in the WAL: the chunk, then the row version that refers to it.
my ($table_file, $store_file) = split /\|/, $node->safe_psql('postgres',
	q{SELECT pg_relation_filenode('br'), pg_relation_filenode(store) FROM appendable_bytea_stats('br')});
for my $change (q{UPDATE br SET log = log || repeat('z', 1000) WHERE id = 1}, q{UPDATE br SET log = log || repeat('z', 20000) WHERE id = 2},
	q{UPDATE br SET log = overlay(log PLACING 'new' FROM 100) WHERE id = 3}, q{INSERT INTO br VALUES (100, repeat('i', 9000))})
{
	my $start = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
	$node->safe_psql('postgres', $change);
	my $end = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
	my ($waldump) = run_command([ 'pg_waldump', '-r', 'Heap', '-p', $node->data_dir . '/pg_wal', '-s', $start, '-e', $end ]);
	my $order = '';
	for my $line (split /\n/, $waldump)
	{
		$order .= 'c' if $line =~ m{INSERT.* rel \d+/\d+/$store_file\b};
		$order .= 'R' if $line =~ m{(INSERT|UPDATE).* rel \d+/\d+/$table_file\b};
	}
	like($order, qr/^c+R$/, "chunks before the row: $change");
}

# Writers, of which many are rolled back.
$node->safe_psql('postgres', q{
UPDATE br SET plain = log::text;
CREATE PROCEDURE append_br(times int) LANGUAGE plpgsql AS $$
DECLARE
	k int;
BEGIN
	FOR i IN 1 .. times LOOP
		k := 1 + (random() * 19)::int;
		UPDATE br SET log = log || repeat('y', 300), plain = plain || repeat('y', 300) WHERE id = k;
		IF random() < 0.5 THEN ROLLBACK; ELSE COMMIT; END IF;
	END LOOP;
END $$;
CREATE PROCEDURE append_t(times int) LANGUAGE plpgsql AS $$
DECLARE
	k int;
BEGIN
	FOR i IN 1 .. times LOOP
		k := 101 + (random() * 29)::int;
		UPDATE t SET data = data || bytes(300, 'a'), plain = plain || bytes(300, 'a') WHERE id = k AND length(data) = 5700;
		IF random() < 0.5 THEN ROLLBACK; ELSE COMMIT; END IF;
		UPDATE t SET data = appendable_truncate(data, 5700), plain = substr(plain, 1, 5700) WHERE id = k AND length(data) = 6000;
		COMMIT;
	END LOOP;
END $$;
CREATE PROCEDURE insert_ex(writer int, times int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. times LOOP
		BEGIN
			DELETE FROM ex WHERE id = writer;
			INSERT INTO ex SELECT writer, v, v FROM repeat(chr(97 + (random() * 3)::int), 9000) v;
		EXCEPTION WHEN exclusion_violation OR deadlock_detected THEN
			NULL;
		END;
		IF random() < 0.5 THEN ROLLBACK; ELSE COMMIT; END IF;
	END LOOP;
END $$;
CREATE TABLE summarized (index regclass, tries int, damaged int);
CREATE PROCEDURE summarize(index regclass, times int) LANGUAGE plpgsql AS $$
DECLARE
	damaged int := 0;
BEGIN
	FOR i IN 1 .. times LOOP
		BEGIN
			PERFORM brin_desummarize_range(index, 0), brin_summarize_new_values(index);
		EXCEPTION WHEN data_corrupted THEN
			-- (the server's "failed to find parent tuple" is of any table)
			IF SQLERRM LIKE '%chunk%' THEN
				damaged := damaged + 1;
			END IF;
		END;
		COMMIT;
	END LOOP;
	INSERT INTO summarized VALUES (index, times, damaged);
END $$;
});
my $connstr = $publisher->connstr('postgres');
$node->safe_psql('postgres', "CREATE SUBSCRIPTION s CONNECTION \$c\$$connstr\$c\$ PUBLICATION p");
$node->poll_query_until('postgres', q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel});

sub start_writer
{
	my ($call) = @_;
	return [ $call, IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-c', "CALL $call" ]) ];
}

# Errors in the log: for chunks of the type, and of TOAST.
sub errors_in_log
{
	my $log = slurp_file($node->logfile);
	my $own = () = $log =~ /missing chunk of an appendable|damaged chunk/g;
	my $toast = () = $log =~ /missing chunk number|unexpected chunk/g;
	return ($own, $toast);
}

# Of two numbers of rare events, the one may be larger by this: three times the standard deviation of their difference, and some.
sub chance { return 5 + 3 * sqrt($_[0] + $_[1]); }

# A chunk of a transaction that has failed can be gone before the reader comes to it: pruning and
# the index's cleanup remove dead rows at once, as they do in a TOAST table.  That is rare; if chunks
# did not count, or came after their rows, it would be many times as often.
my @brin = map { start_writer($_) } ('append_br(800)') x 4, q{summarize('br_idx', 500)}, q{summarize('br_plain', 500)};
ok($_->[1]->finish, $_->[0]) for @brin;
my ($damaged, $control) = split /\|/,
	$node->safe_psql('postgres', q{SELECT sum(damaged) FILTER (WHERE index = 'br_idx'::regclass), sum(damaged) FILTER (WHERE index = 'br_plain'::regclass) FROM summarized WHERE tries = 500});
cmp_ok($damaged, '<=', $control + chance($damaged, $control), "BRIN summarization finds the chunks as it finds those of TOAST, of which $control are missing");
is($node->safe_psql('postgres', 'SELECT count(*) FROM br WHERE log::text IS DISTINCT FROM plain'), '0', 'the values are those in TOAST');

my @apply = map { start_writer($_) } ('append_t(900)') x 4;
$publisher->safe_psql('postgres', 'DO $$ BEGIN FOR i IN 1 .. 500 LOOP UPDATE t SET n = n + 1; COMMIT; END LOOP; END $$');
ok($_->[1]->finish, $_->[0]) for @apply;
$publisher->wait_for_catchup('s');
# The worker finds the row by both columns, and tries again after an error.
is($node->safe_psql('postgres', 'SELECT n, length(data) FROM t WHERE id = 1'), '500|6000', 'every change was applied');
my ($own, $toast) = errors_in_log();
cmp_ok($own, '<=', $toast + chance($own, $toast), "the apply worker finds the chunks as it finds those of TOAST, of which $toast are missing");
is($node->safe_psql('postgres', 'SELECT count(*) FROM t WHERE data::bytea IS DISTINCT FROM plain'), '0', 'the values are those in TOAST');

my @exclusion = map { start_writer("insert_ex($_, 100)") } 1 .. 3;
ok($_->[1]->finish, $_->[0]) for @exclusion;
is($node->safe_psql('postgres', 'SELECT count(*) FROM ex WHERE log::text IS DISTINCT FROM plain'), '0', 'the values are those in TOAST');

is($node->safe_psql('postgres', 'SELECT count(*) FROM appendable_bytea_check()'), '0', 'values are intact');
is((errors_in_log())[0], $own, 'no other reader missed a chunk');
$node->stop;
$publisher->stop;
done_testing();
