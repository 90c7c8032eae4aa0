# pg_upgrade of a cluster whose sessions had pooled tables (see UpgradedServers.pm).
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../../../common/test";
use PostgreSQL::Test::Utils;
use Test::More;
use UpgradedServers;

my $servers = UpgradedServers->new('recycled_temp', 'recycled_temp.enabled = on', 'recycled_temp.after_drops = 1', 'autovacuum = off');
my $cycles = <<'SQL';
CREATE TEMP TABLE t (a int PRIMARY KEY, b text);
INSERT INTO t SELECT g, repeat('x', 3000) FROM generate_series(1, 10) g;
DROP TABLE t;
CREATE TEMP TABLE t (a int PRIMARY KEY, b text);
SELECT count(*), (SELECT reused FROM recycled_temp_status()) FROM t;
DROP TABLE t;
SQL
my $left = q{SELECT count(*) FROM pg_class WHERE relname LIKE 'pg_temp_recycled_%' AND relkind = 'r'};

$servers->pg_ctl('old', 'start');
$servers->query('CREATE EXTENSION recycled_temp; CREATE TABLE kept AS SELECT 1 AS a');
# a session whose server dies leaves its pooled table in the catalogs
my $session = IPC::Run::start([ "$servers->{new}[0]/psql", '-XAtq', '-h', $servers->{base}, '-p', '5999', '-U', 'postgres', '-d', 'postgres' ],
	'<', \my $in, '>', \my $out, '2>', \my $err, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
$in = "$cycles\\echo said\n";
$session->pump until $out =~ /^said$/m;
like($out, qr/^0\|1$/m, 'a table is reused on the old server');
$servers->pg_ctl('old', '-m', 'immediate', 'stop');
eval { $session->finish };
my ($before) = $servers->run('old', $left);
is($before, "1\n", 'a pooled table of the dead session is in the catalogs');
$servers->upgrade;
my ($after, $kept, $printed) = $servers->run('new', $left, 'SELECT a FROM kept', "$cycles $left;");
is($after, "0\n", 'it is not upgraded');
is($kept, "1\n", 'other tables are');
is($printed, "0|1\n1\n", 'the pool works on the new server');
done_testing();
