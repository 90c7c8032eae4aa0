# A client sees bytea: test/protocol.py runs the same statements on both types and
# compares what comes over the wire.  And which first statements of a session do,
# where nothing preloads the library (the table in docs/clients.md).
use strict;
use warnings;

use Cwd qw(abs_path);
use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

sub new_node
{
	my ($name, $conf) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init;
	$node->append_conf('postgresql.conf', "fsync = off\nautovacuum = off\n$conf");
	$node->start;
	return $node;
}

sub lines_of
{
	my ($node, $what) = @_;
	my ($stdout, $stderr) = run_command([ 'python3', 'test/protocol.py', $node->host, $node->port, $what ]);
	diag($stderr) if $stderr ne '';
	return split /\n/, $stdout;
}

my $node = new_node('statements', "shared_preload_libraries = 'appendable_bytea'\nmax_prepared_transactions = 10\n");
$node->safe_psql('postgres', 'CREATE EXTENSION appendable_bytea');
$node->safe_psql('postgres', 'CREATE ROLE postgres SUPERUSER LOGIN') if $node->safe_psql('postgres', q{SELECT count(*) FROM pg_roles WHERE rolname = 'postgres'}) eq '0';
my @lines = lines_of($node, 'statements');
foreach my $line (@lines)
{
	$line =~ /^(not )?ok - (.*?)(?: # (.*))?$/ or next;
	ok(!$1, $2) or diag($3);
}
ok(scalar(@lines) > 200, 'all statements were tried: ' . scalar(@lines));
is($lines[-1], 'ok - and bytea again', 'up to the last one');

# A function of another extension that analyses a statement in order to run it takes the
# rows itself: they stay what they are, and bytes of a bytea are not taken for a value.
my $analyse = abs_path("$FindBin::RealBin/../analyse/ab_test_analyse.so");
$node->safe_psql('postgres', "CREATE FUNCTION ab_test_analyse(text) RETURNS text LANGUAGE C STRICT AS '$analyse'; CREATE TABLE analyzed (id int, data appendable_bytea, log appendable_text)");
my $own = 'integer, appendable_bytea, appendable_text; $1 appendable_bytea';
my $call = q{SELECT ab_test_analyse('SELECT * FROM analyzed WHERE data = $1')};
is($node->safe_psql('postgres', $call), $own, 'a statement of another extension');
is($node->safe_psql('postgres', "PREPARE p AS $call; EXECUTE p; EXECUTE p"), "$own\n$own", 'run by a prepared statement');
is($node->safe_psql('postgres', "DO \$\$BEGIN EXECUTE 'PREPARE p AS SELECT data FROM analyzed WHERE data = \$1'; END\$\$; $call; SELECT parameter_types FROM pg_prepared_statements"), "$own\n{bytea}", 'PREPARE in a block, before it');
$node->stop;

# Nothing preloads the library: what is documented is what happens.
$node = new_node('first', '');
$node->safe_psql('postgres', 'CREATE ROLE postgres SUPERUSER LOGIN') if $node->safe_psql('postgres', q{SELECT count(*) FROM pg_roles WHERE rolname = 'postgres'}) eq '0';
my $docs = slurp_file('docs/clients.md');
my %found;

# The answers for a statement that is kept prepared, and the types that were shown at first.
sub first_statements
{
	%found = ();
	foreach my $line (lines_of($node, 'first'))
	{
		if ($line =~ /^(not )?ok - (.*?)(?: # (.*))?$/)
		{
			ok(!$1, $2) or diag($3);
			next;
		}
		my ($what, @types) = split /\|/, $line;
		$found{$what} = join(', ', @types);
	}
	is(scalar(keys %found), 7, 'ways to a column were tried');
}
first_statements();
foreach my $what (sort keys %found)
{
	my ($documented) = $docs =~ /^\| \Q$what\E \| (.*?) \|/m;
	is($found{$what}, $documented, "first statement through a $what is as documented");
}
$node->safe_psql('postgres', q{ALTER DATABASE postgres SET session_preload_libraries = 'appendable_bytea'});
first_statements();
is_deeply([ sort { $a cmp $b } values %found ], [ ('bytea, bytea, bytea') x 7 ], 'with session_preload_libraries all see bytea');

# The parser keeps its parameters in a state that no hook can see when the statement is analyzed.
if ($node->safe_psql('postgres', 'SHOW server_version_num') >= 160000)
{
	$node->safe_psql('postgres', 'CREATE TABLE generic (id int, data appendable_bytea)');
	my $explain = 'EXPLAIN (GENERIC_PLAN, COSTS OFF) SELECT data FROM generic WHERE id = $1 AND data = $2;';
	like($node->safe_psql('postgres', $explain x 5), qr/(Seq Scan on generic.*){5}/s, 'EXPLAIN (GENERIC_PLAN) of a simple statement');
}
$node->stop;
done_testing();
