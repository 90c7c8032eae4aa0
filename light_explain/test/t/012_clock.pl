# Which counters of a processor are taken for a clock, and what becomes of its rate
# when the machine has slept or the counter changes: with a processor, a kernel and
# a time of the test's own.
use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;

my $library = "$FindBin::RealBin/../clock/light_test_watch.so";
$node->safe_psql('postgres', "CREATE FUNCTION light_test_watch() RETURNS text LANGUAGE C AS '$library'");
my ($sources, $rates) = $node->safe_psql('postgres', 'SELECT light_test_watch()') =~ /^(.*?)^(preloaded:.*)\z/ms;

plan skip_all => 'no counter of this processor is known' unless defined $rates;

is($sources, <<'SOURCES', 'the counter is taken where the kernel would rely on it, virtual machines included');
counter of counter and others: counter
kvm-clock of counter and others: counter
kvm-clock of others: system
xen of counter and others: counter
xen of others: system
hyperv_clocksource_tsc_page of counter and others: counter
hpet of others: system
hpet of counter and others: system
 of others: counter
SOURCES

chomp $rates;
is($rates, <<'RATES' =~ s/\n\z//r, 'a process that was not there does not wait, one that was learns the rate anew');
preloaded: 1.000 after 0 ms
another process: 1.000 after 0 ms
one that began after the machine slept: 1.000 after 0 ms
... a second later: 1.000 after 0 ms
one that was there when it slept: 1.000 after 10 ms
... once more: 1.000 after 0 ms
a thousandth quicker: 1.001 after 0 ms
a hundredth quicker: 1.000 after 10 ms
... once more: 1.000 after 0 ms
RATES

$node->stop;
done_testing();
