# Which counters of a processor are taken for a clock, and that times are right within a
# second after the machine has slept or was moved or the counter did something odd: with
# a processor, a kernel and a time of the test's own.
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
my ($sources, $rates) = $node->safe_psql('postgres', 'SELECT light_test_watch()') =~ /^(.*?)^(a process begins:.*)\z/ms;

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

is($rates, <<'RATES', 'times agree with the system clock, whatever the counter does');
a process begins: 1.000 by the system clock
... then: 1.000 by the counter
... then: 1.000 by the counter
it did nothing for a while: 1.000 by the system clock
... then: 1.000 by the counter
the counter became half as quick again: 1.000, goes back by the counter
... a second later: 1.000 by the counter
a process begins then: 1.000 by the system clock
... then: 1.000 by the counter
the machine has slept: 1.000 by the counter
... then: 1.000 by the counter
the counter jumped: 1.000 by the counter
... then: 1.000 by the counter
the counter went back: 1.000 by the counter
... then: 1.000 by the counter
a wrong rate for the third time: 1.000 by the system clock
... a second later: 1.000 by the system clock
RATES

$node->stop;
done_testing();
