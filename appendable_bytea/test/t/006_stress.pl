# Slow: random sessions

# Everything at once against a model outside the server: test/stress.py.
#
# STRESS_SECONDS sets how long (default 8).
use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'python3 is not installed' if system('python3 -c "import threading" 2>/dev/null') != 0;

my $node = PostgreSQL::Test::Cluster->new('stress');
$node->init(allows_streaming => 1, extra => [ '--encoding=UTF8', '--locale=C' ]);
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'appendable_bytea'
max_prepared_transactions = 10
restart_after_crash = on
fsync = off
});
$node->start;
$node->safe_psql('postgres', "SELECT pg_create_physical_replication_slot('standby', true)");
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', "primary_slot_name = 'standby'\nmax_standby_streaming_delay = 1s");
$standby->start;
my $seconds = $ENV{STRESS_SECONDS} || 8;
my $user = getpwuid($<);
my @command = ('python3', 'test/stress.py', '--host', $node->host, '--port', $node->port, '--user', $user, '--seconds', $seconds);

# Print the failure, also if the program's log is not kept.
sub stress_ok
{
	my ($name, @options) = @_;
	my ($out, $err) = ('', '');
	ok(IPC::Run::run([ @command, @options ], '>', \$out, '2>', \$err), $name) or diag("$out$err");
	return;
}

stress_ok('stress with chunks of 64 bytes', '--chunk-size', 64);
stress_ok('stress of text with chunks of 64 bytes, and crashes', '--text', '--chunk-size', 64, '--crash');
stress_ok('stress with chunks of a page, crashes, and a replica that reads', '--crash', '--standby', $standby->host . ':' . $standby->port);
$standby->stop;
$node->stop;
unlike(slurp_file($_->logfile), qr/TRAP:|PANIC:|was terminated by signal (?!9:)/, 'no crash but those') for ($node, $standby);
done_testing();
