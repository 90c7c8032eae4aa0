# The reference is correct: its sessions are run and compared; its lists of settings,
# functions and views are complete.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../../../common/test";
use PageSessions;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $reference = slurp_file('docs/reference.md');
my @sessions = sessions_of($reference);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'light_explain'
light_explain.profile = on
light_explain.sample_interval = 10
compute_query_id = on
autovacuum = off
CONF
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION light_explain');

run_sessions($node, @sessions);

# With their unit, as SHOW does, or without.
my %listed = $reference =~ /^\| `(light_explain\.\w+)` \| (\S+) \|/mg;
my %settings = map { my ($name, $plain, $shown) = split /\|/; ($name => ($listed{$name} // '') eq $plain ? $plain : $shown) } split /\n/,
  $node->safe_psql('postgres', q{SELECT name, setting, current_setting(name) FROM pg_settings WHERE name LIKE 'light\_explain.%'});
$settings{'light_explain.profile'} = 'off';
$settings{'light_explain.sample_interval'} = '100';
is_deeply(\%listed, \%settings, 'all settings are listed with their defaults, and no others');

my @objects = split /\n/, $node->safe_psql('postgres', q{
	SELECT DISTINCT coalesce(p.proname, c.relname) FROM pg_depend d
		LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
		LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
	WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND coalesce(p.proname, c.relname) IS NOT NULL
		AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'light_explain')});
ok(@objects > 10, 'the extension has objects');
like($reference, qr/^\| [^|]*`\Q$_\E(`|\()/m, "$_ is described") for @objects;
my @columns = split /\n/, $node->safe_psql('postgres', q{
	SELECT DISTINCT name FROM pg_proc, unnest(proargnames) name WHERE proname = 'light_explain_status'});
like($reference, qr/`\Q$_\E`/, "light_explain_status().$_ is described") for @columns;

$node->stop;
done_testing();
