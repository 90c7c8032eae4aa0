# The README is correct: its session is run and compared; the
# reference's lists of settings and SQL objects are complete.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../../../common/test";
use PageSessions;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $readme = slurp_file('README.md');
my $reference = slurp_file('docs/reference.md');
my @sessions = sessions_of($readme);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "session_preload_libraries = 'parallel_temp'\nmax_parallel_workers_per_gather = 2\n");
$node->start;

run_sessions($node, @sessions);

# Every setting and every object of the extension has its place in the reference.
my %settings = map { $_ => 1 } split /\n/,
  $node->safe_psql('postgres', "LOAD 'parallel_temp'; SELECT name FROM pg_settings WHERE name LIKE 'parallel\\_temp.%'");
my %described = map { $_ => 1 } $reference =~ /^\| `(parallel_temp\.\w+)` \|/mg;
is_deeply(\%described, \%settings, 'all settings are listed, and no others');

my %defaults = $reference =~ /^\| `(parallel_temp\.\w+)` \| `([^`]*)` \|/mg;
my %boot = map { split /\|/ } split /\n/,
  $node->safe_psql('postgres', "LOAD 'parallel_temp'; SELECT name, boot_val FROM pg_settings WHERE name LIKE 'parallel\\_temp.%'");
is_deeply(\%defaults, \%boot, 'with their defaults');

my @objects = split /\n/,
  $node->safe_psql(
	'postgres', q{
SELECT DISTINCT coalesce(p.proname, c.relname) FROM pg_depend d
LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
	AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'parallel_temp')
	AND coalesce(p.proname, c.relname) IS NOT NULL});
ok(@objects > 8, 'the extension has objects');
like($reference, qr/`\Q$_\E\b/, "$_ is described") for @objects;
is($node->safe_psql('postgres', q{
SELECT count(*) FROM pg_depend d
LEFT JOIN pg_description x ON x.classoid = d.classid AND x.objoid = d.objid AND x.objsubid = 0
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND x.description IS NULL
	AND d.classid IN ('pg_proc'::regclass, 'pg_class'::regclass)
	AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'parallel_temp')}), '0', 'every object has a comment');

# The plan shapes that are left out are those that the regression test finds.
for my $list ([ 'shape', 'parallel_shapes.out' ], [ 'shape, on PostgreSQL 19', 'parallel_shapes_1.out' ])
{
	my ($head, $file) = @$list;
	my ($table) = $reference =~ /^\| \Q$head\E \| why not \|\n\|[-|]+\|\n((?:\|.*\n)+)/m;
	my @found = slurp_file("test/expected/$file") =~ /^ (\| .* \|) *$/mg;
	ok(@found > 0, "the test of plan shapes lists some in $file");
	ok(!(grep { /\|  \|$/ } @found), 'each with a reason');
	is_deeply([ sort split /\n/, $table // '' ], [ sort @found ], 'plan shapes that are not parallel are listed, and no others');
}

$node->stop;
done_testing();
