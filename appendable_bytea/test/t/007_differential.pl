# Slow: random statements

# The same random statements on bytea and on appendable_bytea, and on text and
# appendable_text: test/differential.py.
#
# STRESS_SECONDS sets how long (default 8).
use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'python3 is not installed' if system('python3 -c "import random" 2>/dev/null') != 0;
local $ENV{PYTHONDONTWRITEBYTECODE} = 1;

my $node = PostgreSQL::Test::Cluster->new('differential');
# Not wal_level = minimal, which such a test's server has else: there a table that is
# rewritten twice in a subtransaction that is rolled back is believed to need no WAL, by
# the server alone too (its assertion "relcache_verdict == RelFileLocatorSkippingWAL").
$node->init(allows_streaming => 1, extra => [ '--encoding=UTF8', '--locale=C' ]);
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'appendable_bytea'
restart_after_crash = on
fsync = off
});
$node->start;
my $seconds = $ENV{STRESS_SECONDS} || 8;
my @command = ('python3', 'test/differential.py', '--host', $node->host, '--port', $node->port, '--user', scalar getpwuid($<), '--seconds', $seconds);

# Print the failure, also if the program's log is not kept.
sub same
{
	my ($name, @options) = @_;
	my ($out, $err) = ('', '');
	ok(IPC::Run::run([ @command, @options ], '>', \$out, '2>', \$err), $name) or diag(substr("$out$err", 0, 4000));
	note($out);
	return;
}

same('the same with chunks of 64 bytes', '--chunk-size', 64);
same('the same of text, with chunks of 64 bytes and crashes', '--text', '--chunk-size', 64, '--crash');
same('the same with chunks of a page, and crashes', '--crash');
$node->stop;
my @crashes = grep { /TRAP:|PANIC:|was terminated by signal (?!9:)|startup process .* exited/ } split(/\n/, slurp_file($node->logfile));
is("@crashes", '', 'no crash but those');
done_testing();
