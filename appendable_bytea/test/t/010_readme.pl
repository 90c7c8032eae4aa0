# What README and reference show is what happens: their sessions are run, one after the other
# in one database, and compared; the lists of settings and functions in the reference are complete.
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
my @sessions = sessions_of($readme, $reference);
is(scalar(@sessions), 18, 'all of them are found');

my $node = PostgreSQL::Test::Cluster->new('readme');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'appendable_bytea'\nautovacuum = off\n");
$node->start;

# settings and objects, while the extension is there
$node->safe_psql('postgres', 'CREATE DATABASE lists');
$node->safe_psql('lists', 'CREATE EXTENSION appendable_bytea');
my %defaults = $reference =~ /^\| `(appendable_bytea\.\w+)` \| (\S+) \|/mg;
my %boot = map { split /\|/ } split /\n/, $node->safe_psql('lists', q{
	SELECT name, format('`%s`', boot_val) FROM pg_settings WHERE name LIKE 'appendable\_bytea.%'});
$boot{'appendable_bytea.chunk_size'} = 'page';
# pglz where the server was built without LZ4
$boot{'appendable_bytea.compression'} = '`lz4`';
is_deeply(\%defaults, \%boot, 'all settings are listed with their defaults, and no others');
my @functions = split /\n/, $node->safe_psql('lists', q{
	SELECT DISTINCT p.proname FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid
	WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
		AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'appendable_bytea')
		AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype, 'table_am_handler'::regtype)
		AND NOT EXISTS (SELECT 1 FROM pg_operator o WHERE o.oprcode = p.oid)
		AND NOT EXISTS (SELECT 1 FROM pg_amproc a WHERE a.amproc = p.oid)
		AND NOT EXISTS (SELECT 1 FROM pg_cast c WHERE c.castfunc = p.oid)
		AND NOT EXISTS (SELECT 1 FROM pg_type t WHERE p.oid IN (t.typinput, t.typoutput, t.typreceive, t.typsend, t.typanalyze, t.typsubscript))});
ok(@functions > 20, 'the extension has functions');
like($reference, qr/`[^`]*\b\Q$_\E\b/, "$_ is described") for @functions;

run_sessions($node, @sessions);

$node->stop;
done_testing();
