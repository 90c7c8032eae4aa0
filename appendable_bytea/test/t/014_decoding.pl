
# Logical decoding with concurrent writers: transactions that insert or delete chunks do not count as
# catalog-changing, and every change is still decoded with the value that was written, by a
# slot that follows and by one that lags behind deletes, overwrites, vacuum and DDL.
use strict;
use warnings;

use Digest::MD5 qw(md5_hex);
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('decoding');
$node->init(allows_streaming => 'logical');
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'appendable_bytea'
autovacuum = off
logical_decoding_work_mem = '64kB'
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION appendable_bytea;
CREATE EXTENSION dblink;
CREATE FUNCTION bytes(n int, c text) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$ SELECT convert_to(repeat(c, n), 'UTF8') $$;
CREATE TABLE t (id int PRIMARY KEY, data appendable_bytea, sum text);
CREATE PUBLICATION p FOR TABLE t;
});
my $store = $node->safe_psql('postgres', q{SELECT store FROM appendable_bytea_stats('t')});

# Each writer has separate keys, and some that all change.  Every row records what its value
# must be; a transaction changes one common row at most, so that none waits in a circle.
$node->safe_psql('postgres', q{
CREATE PROCEDURE change(k int) LANGUAGE plpgsql AS $$
DECLARE
	x bytea := bytes(1 + (random() * 6000)::int, chr(97 + (random() * 25)::int));
BEGIN
	CASE (random() * 5)::int
		WHEN 0 THEN INSERT INTO t VALUES (k, x, md5(x)) ON CONFLICT (id) DO UPDATE SET data = excluded.data, sum = excluded.sum;
		WHEN 1 THEN DELETE FROM t WHERE id = k;
		WHEN 2 THEN UPDATE t SET data = overlay(data placing '\x2b2b2b' FROM length(data) / 2), sum = md5(overlay(data::bytea placing '\x2b2b2b' FROM length(data) / 2))
			WHERE id = k AND length(data) > 1;
		WHEN 3 THEN UPDATE t SET data = appendable_truncate(data, length(data) / 2), sum = md5(substr(data::bytea, 1, length(data) / 2)) WHERE id = k;
		WHEN 5 THEN UPDATE t SET data = appendable_drop_front(data, length(data) / 3), sum = md5(substr(data::bytea, 1 + length(data) / 3)) WHERE id = k;
		ELSE UPDATE t SET data = data || x, sum = md5(data::bytea || x) WHERE id = k;
	END CASE;
END $$;
CREATE PROCEDURE write(writer int, times int) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM setseed(writer / 10.0);
	FOR i IN 1 .. times LOOP
		FOR j IN 1 .. 1 + (random() * 2)::int LOOP
			BEGIN
				CALL change(writer * 100 + (random() * 8)::int);
				IF random() < 0.2 THEN
					RAISE EXCEPTION 'taken back';
				END IF;
			EXCEPTION WHEN raise_exception THEN
				NULL;
			END;
		END LOOP;
		CALL change((random() * 4)::int);
		IF random() < 0.1 THEN
			ROLLBACK;
		ELSE
			COMMIT;
		END IF;
	END LOOP;
END $$;
SELECT pg_create_logical_replication_slot(slot, 'test_decoding') FROM unnest(ARRAY['following', 'lagging']) slot;
});

# Apply what a slot has to a copy of the table; how many changes were decoded, and how many of
# them had a wrong value.
my (%copy, %wrong, %changes);

sub follow
{
	my ($slot, @options) = @_;
	my $options = join('', map { ", '$_'" } @options);
	for my $line (split /\n/, $node->safe_psql('postgres', "SELECT data FROM pg_logical_slot_get_changes('$slot', NULL, NULL, 'skip-empty-xacts', '1'$options)"))
	{
		if ($line =~ /^table public\.t: (?:INSERT|UPDATE): id\[integer\]:(\d+) data\[[^\]]*\]:'\\x([0-9a-f]*)' sum\[text\]:'([0-9a-f]+)'/)
		{
			$wrong{$slot}++ if md5_hex(pack('H*', $2)) ne $3;
			$copy{$slot}{$1} = $3;
		}
		elsif ($line =~ /^table public\.t: DELETE: id\[integer\]:(\d+)/)
		{
			delete $copy{$slot}{$1};
		}
		else
		{
			$wrong{$slot}++ if $line =~ /^table public\.t/;
			next;
		}
		$changes{$slot}++;
	}
	return;
}

sub lsn
{
	return $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
}

my $start = lsn();
my @writers = map { IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-c', "CALL write($_, 120)" ]) } 1 .. 4;
my $file = $node->safe_psql('postgres', "SELECT pg_relation_filenode('$store')");
for my $round (1 .. 8)
{
	# space is wanted back all the time, and catalogs do change
	$node->safe_psql('postgres', $_) for ("VACUUM $store", 'VACUUM t', "CREATE TABLE other_$round (data appendable_bytea)", "DROP TABLE other_$round",
		'SELECT sum(length(data::bytea)) FROM t');
	follow('following');
}
ok($_->finish, 'a writer') for @writers;
my $end = lsn();
$node->safe_psql('postgres', $_) for ("VACUUM $store", 'VACUUM t', 'SELECT pg_switch_wal()');
# what marks a transaction as one that changes a catalog; the slot that lags keeps the WAL
my ($waldump) = run_command([ 'pg_waldump', '-r', 'Heap2', '-p', $node->data_dir . '/pg_wal', '-s', $start, '-e', $end ]);
my @marks = grep { /NEW_CID/ } split /\n/, $waldump;
my $rows = $node->safe_psql('postgres', 'SELECT id, md5(data) FROM t WHERE md5(data) = sum ORDER BY id');
for my $slot ('following', 'lagging')
{
	follow($slot);
	cmp_ok($changes{$slot}, '>', 400, "$slot: changes");
	is($wrong{$slot}, undef, "$slot: every value as it was written");
	is(join("\n", map { "$_|$copy{$slot}{$_}" } sort { $a <=> $b } keys %{ $copy{$slot} }), $rows, "$slot: the table in the end");
}
is($changes{following}, $changes{lagging}, 'both had the same changes');
is($node->safe_psql('postgres', 'SELECT count(*) FROM appendable_bytea_check()'), '0', 'chunks');

cmp_ok(scalar @marks, '>', 0, 'other changes of catalogs in the WAL');
# one that meets an invalidation of the store on its way may be marked, which does no harm
cmp_ok(scalar(grep { m{rel \d+/\d+/$file\b} } @marks), '<', $changes{lagging} / 10, 'chunks are none');

# The store stays protected in a session in which a chunk could not be inserted: its
# serializable transaction had been given up by others'.
$node->safe_psql('postgres', q{
CREATE TABLE s (id int PRIMARY KEY, n int);
INSERT INTO s VALUES (1, 0), (2, 0);
DELETE FROM t;
});
follow('lagging');
my ($status, $stdout, $stderr) = $node->psql('postgres', sprintf(q{
INSERT INTO t VALUES (1, bytes(10000, 'a'), md5(bytes(10000, 'a')));
SELECT dblink_connect('reads', '%1$s'), dblink_connect('writes', '%1$s') \g /dev/null
SELECT dblink_exec(c, 'BEGIN ISOLATION LEVEL SERIALIZABLE') FROM unnest(ARRAY['reads', 'writes']) c \g /dev/null
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT n FROM s WHERE id = 1 \g /dev/null
SELECT * FROM dblink('reads', 'SELECT n FROM s WHERE id = 2') AS (n int) \g /dev/null
SELECT dblink_exec('writes', 'UPDATE s SET n = 1 WHERE id = 1') \g /dev/null
UPDATE s SET n = 1 WHERE id = 2;
SELECT dblink_exec('writes', 'COMMIT') \g /dev/null
INSERT INTO t VALUES (2, bytes(10000, 'b'), md5(bytes(10000, 'b')));
ROLLBACK;
SELECT dblink_disconnect(c) FROM unnest(ARRAY['reads', 'writes']) c \g /dev/null
DELETE FROM t;
VACUUM %2$s;
}, $node->connstr('postgres') =~ s/'/''/gr, $store), on_error_stop => 0);
like($stderr, qr/^[^\n]*ERROR:  could not serialize access/, 'a chunk that could not be inserted');
is(() = $stderr =~ /ERROR/g, 1, 'nothing else went wrong');
follow('lagging');
is($wrong{lagging}, undef, 'what that session deleted and vacuumed then');
is(join(' ', keys %{ $copy{lagging} }), '', 'and its end');
$node->stop;
done_testing();
