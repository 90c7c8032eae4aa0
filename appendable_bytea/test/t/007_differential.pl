
# The same random statements on bytea and on appendable_bytea, and on text and
# appendable_text: test/differential.py.
#
# STRESS_SECONDS sets how long (default 8).
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'python3 is not installed' if system('python3 -c "import random" 2>/dev/null') != 0;
local $ENV{PYTHONDONTWRITEBYTECODE} = 1;

my $node = PostgreSQL::Test::Cluster->new('differential');
$node->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'appendable_bytea'
restart_after_crash = on
fsync = off
});
$node->start;
my $seconds = $ENV{STRESS_SECONDS} || 8;
my @command = ('python3', 'test/differential.py', '--host', $node->host, '--port', $node->port, '--user', scalar getpwuid($<), '--seconds', $seconds);
command_ok([ @command, '--chunk-size', 64 ], 'the same with chunks of 64 bytes');
command_ok([ @command, '--text', '--chunk-size', 64, '--crash' ], 'the same of text, with chunks of 64 bytes and crashes');
command_ok([ @command, '--crash' ], 'the same with chunks of a page, and crashes');
$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|was terminated by signal (?!9:)/, 'no crash but those');
done_testing();
