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

# The table of kept plans comes to be with the first call.  A query as long as that of
# "wide" is not kept, so that the next plan is the first to need a place in it.
my $fail = abs_path("$FindBin::RealBin/../faults/ab_test_fail_memory.so");
my $wide = '"' x 126;
$node->safe_psql('postgres', qq{
CREATE EXTENSION appendable_bytea;
CREATE FUNCTION ab_test_fail_memory(text, text) RETURNS void LANGUAGE C STRICT AS '$fail';
CREATE TABLE logs (id int PRIMARY KEY, log appendable_text);
CREATE TABLE wide (id int PRIMARY KEY, "$wide" appendable_text);
INSERT INTO logs VALUES (1, '');
INSERT INTO wide VALUES (1, '')});
my $kept = q{SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'CachedPlanSource' AND ident LIKE 'UPDATE ONLY %'};
my $append = q{SELECT length FROM appendable_append('logs', ARRAY[1], ARRAY['line'])};
my $wide_append = q{SELECT length FROM appendable_append('wide', ARRAY[1], ARRAY['line'])};
my ($status, $stdout, $stderr) = $node->psql('postgres', qq{
$wide_append; $kept;
SELECT ab_test_fail_memory('dynahash', 'appendable_bytea appends');
$append; $kept;
$append; $kept;
$append; $kept}, on_error_stop => 0);
is($stdout, "4\n0\n\n0\n4\n1\n8\n1", 'a plan without a place is not kept, and the next one is');
like($stderr, qr/out of memory/, 'for want of memory');

$node->stop;
done_testing();
