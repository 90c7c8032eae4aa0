
# Everything at once against a model outside the server: test/stress.py.
#
# STRESS_SECONDS sets how long (default 8).
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'python3 is not installed' if system('python3 -c "import threading" 2>/dev/null') != 0;

my $node = PostgreSQL::Test::Cluster->new('stress');
$node->init;
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'appendable_bytea'
max_prepared_transactions = 10
fsync = off
});
$node->start;
my $seconds = $ENV{STRESS_SECONDS} || 8;
my $user = getpwuid($<);
for my $chunk_size (64, 8104)
{
	command_ok([ 'python3', 'test/stress.py', '--host', $node->host, '--port', $node->port, '--user', $user,
			'--seconds', $seconds, '--chunk-size', $chunk_size ],
		"stress with chunks of $chunk_size bytes");
}
$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|was terminated by signal/, 'no crash');
done_testing();
