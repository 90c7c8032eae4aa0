
# Appends use the room that fillfactor leaves in a page before they have it pruned, and
# none of them leaves its page.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant APPENDS => 240;

my $node = PostgreSQL::Test::Cluster->new('pruning');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'appendable_bytea'\nautovacuum = off\nfull_page_writes = off\n");
$node->start;
$node->safe_psql('postgres', q{CREATE EXTENSION appendable_bytea});

for my $fillfactor (50, 80, 90, 100)
{
	my $t = "t$fillfactor";

	# rows enough to fill pages; one of those in a page's middle is appended to
	my ($file, $size, $start) = split /\|/, $node->safe_psql('postgres', qq{
CREATE TABLE $t (id int PRIMARY KEY, log appendable_text) WITH (fillfactor = $fillfactor);
INSERT INTO $t SELECT i, '' FROM generate_series(1, 2000) i;
UPDATE $t SET log = log || repeat('x', 1000) WHERE id = 700;
CREATE PROCEDURE lines_$fillfactor() LANGUAGE plpgsql AS \$\$ BEGIN
	FOR i IN 1 .. @{[APPENDS]} LOOP
		UPDATE $t SET log = log || repeat('x', 1000) WHERE id = 700;
		COMMIT;
	END LOOP;
END \$\$;
CHECKPOINT;
SELECT pg_relation_filenode('$t'), pg_relation_size('$t'), pg_current_wal_insert_lsn()});
	$node->safe_psql('postgres', "CALL lines_$fillfactor()");
	my $end = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn() FROM pg_switch_wal()');

	my ($waldump) = run_command([ 'pg_waldump', '-r', 'Heap2', '-p', $node->data_dir . '/pg_wal', '-s', $start, '-e', $end ]);
	my $prunes = grep { m{desc: PRUNE.* rel \d+/\d+/$file } } split /\n/, $waldump;
	note("fillfactor $fillfactor: $prunes prunings");
	cmp_ok($prunes, '>', 0, "fillfactor $fillfactor: pages are pruned");
	cmp_ok($prunes, '<=', APPENDS / 5, "fillfactor $fillfactor: not at each append");
	is($node->safe_psql('postgres', "SELECT pg_relation_size('$t')"), $size, "fillfactor $fillfactor: the table stays as it is");
	ok($node->poll_query_until('postgres', "SELECT n_tup_upd = @{[APPENDS + 1]} FROM pg_stat_user_tables WHERE relname = '$t'"), 'statistics came');
	cmp_ok($node->safe_psql('postgres', "SELECT n_tup_upd - n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = '$t'"),
		'<=', 1, "fillfactor $fillfactor: appends stay in their page");
	is($node->safe_psql('postgres', "SELECT length(log), log = repeat('x', length(log)) FROM $t WHERE id = 700"), 1000 * (APPENDS + 1) . '|t', 'all is there');
}
is($node->safe_psql('postgres', q{SELECT count(*) FROM appendable_bytea_check('t80')}), 0, 'nothing is wrong');

# Rows that are deleted by a key are pruned by the next statement that comes to their page,
# as those of heap are, although the table leaves no room for appends.
$node->safe_psql('postgres', q{
CREATE TABLE own (id int PRIMARY KEY, log appendable_text);
CREATE TABLE plain (id int PRIMARY KEY, log text);
INSERT INTO own SELECT i, 'x' FROM generate_series(1, 2000) i;
INSERT INTO plain SELECT * FROM own;
CHECKPOINT});
my %deleted;
for my $table ('own', 'plain')
{
	my ($file, $start) = split /\|/, $node->safe_psql('postgres', "SELECT pg_relation_filenode('$table'), pg_current_wal_insert_lsn()");
	$node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_bitmapscan = off; DELETE FROM $table WHERE id = 500 + $_") for 1 .. 10;
	my $end = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn() FROM pg_switch_wal()');
	my ($waldump) = run_command([ 'pg_waldump', '-r', 'Heap2', '-p', $node->data_dir . '/pg_wal', '-s', $start, '-e', $end ]);
	$deleted{$table} = grep { m{desc: PRUNE.* rel \d+/\d+/$file } } split /\n/, $waldump;
}
cmp_ok($deleted{plain}, '>', 0, 'heap prunes a page after deletions');
is($deleted{own}, $deleted{plain}, 'and so does a table with columns of the type');

done_testing();
