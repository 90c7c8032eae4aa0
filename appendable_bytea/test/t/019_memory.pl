# Running out of memory in the middle leaves nothing behind for the rest of the session.
use strict;
use warnings;

use Cwd qw(abs_path);
use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('memory');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'appendable_bytea'\n");
$node->start;

# The first append makes the memory context of kept queries, the second is the next to need a place in it.
my $fail = abs_path("$FindBin::RealBin/../faults/ab_test_fail_memory.so");
$node->safe_psql('postgres', qq{
CREATE EXTENSION appendable_bytea;
CREATE FUNCTION ab_test_fail_memory(text) RETURNS void LANGUAGE C STRICT AS '$fail';
CREATE TABLE first (id int PRIMARY KEY, log appendable_text);
CREATE TABLE logs (id int PRIMARY KEY, log appendable_text);
INSERT INTO first VALUES (1, '');
INSERT INTO logs VALUES (1, '')});
my $kept = q{SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'CachedPlanSource' AND ident LIKE 'UPDATE ONLY %'};
my $first = q{SELECT length FROM appendable_append('first', ARRAY[1], ARRAY['line'])};
my $append = q{SELECT length FROM appendable_append('logs', ARRAY[1], ARRAY['line'])};
my ($status, $stdout, $stderr) = $node->psql('postgres', qq{
$first; $kept;
SELECT ab_test_fail_memory('appendable_append queries');
$append; $kept;
$append; $kept;
$append; $kept}, on_error_stop => 0);
is($stdout, "4\n1\n\n1\n4\n2\n8\n2", 'a plan without a place is not kept, and the next one is');
like($stderr, qr/out of memory/, 'for want of memory');

$node->stop;
done_testing();
