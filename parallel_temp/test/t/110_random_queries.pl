# Random sessions over temporary and permanent tables: every query gives the same
# answer with parallel_temp off and on, by either method, in the same state.
#
#   PG_LEAN_FUZZ_SEED=N    start with this seed (default: changes daily; a failure prints it)
#   PG_LEAN_FUZZ_PAIRS=N   compare that many pairs (default 400)
# Slow: random sessions

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../../common/test";
use lib "$FindBin::RealBin/../diff", "$FindBin::RealBin/../fuzz";
use Fuzz qw(run_episode shrink script_of);
use PostgreSQL::Test::Utils;
use RandomSQL;
use CrashedServer;
use SameAnswers qw(start_server has_setting bad_log_lines force_parallel);
use Test::More;

my $wanted = $ENV{PG_LEAN_FUZZ_PAIRS} // 400;
my $seed = $ENV{PG_LEAN_FUZZ_SEED} // int(time / 86400) * 1000;

my $node = start_server('random_queries', "restart_after_crash = on\nlog_error_verbosity = verbose\n");
$node->safe_psql('postgres', 'CREATE EXTENSION parallel_temp');
my $methods = has_setting($node, 'parallel_temp.method');
my $force = force_parallel($node);

my ($pairs, $timeouts, $errors, $failed, %counter) = (0, 0, 0, 0);
while ($pairs < $wanted && $failed < 3)
{
	my $random = RandomSQL->new($seed);
	$random->{force_parallel} = $force;
	my @units = $random->episode('fuzz', 15);
	$units[$_]{number} = $_ for 0 .. $#units;
	my $from = -s $node->logfile;
	my ($failures, $p, $t, $e, $stats) = run_episode($node, \@units, $seed, $methods);
	$pairs += $p;
	$timeouts += $t;
	$errors += $e;
	$counter{$1} += $2 while $stats =~ /^([^|\n]+)\|([\d.]+)/mg;
	if (my @bad = bad_log_lines(slurp_file($node->logfile, $from)))
	{
		wait_until_back($node);
		push @$failures, { unit => $#units, what => "the server's log says:\n" . join "\n", @bad } unless @$failures;
	}
	if (@$failures)
	{
		$failed++;
		my $failure = $failures->[0];
		fail("seed $seed");
		diag("seed $seed, unit $failure->{unit}: $failure->{what}");
		diag("query:\n$units[$failure->{unit}]{text}");
		my $kept = shrink($node, \@units, $failure, $seed, $methods, $ENV{PG_LEAN_FUZZ_SHRINK} // 40);
		diag("what is left of the session (seed $seed):\n" . script_of($kept, $seed, $methods, 0));
	}
	$seed++;
	last if !$p && !$t && !@$failures;
}

diag("$pairs pairs, $errors ended in the same error, $timeouts were left out for a timeout; next seed $seed");
is($failed, 0, "$pairs pairs of answers are the same");
cmp_ok($pairs, '>=', $wanted, 'enough pairs were compared') unless $failed;
cmp_ok($timeouts, '<', $pairs / 10 + 5, 'few timeouts');
cmp_ok($errors, '<', $pairs / 4, 'few statements fail');
SKIP:
{
	skip 'this build has no parallel scan of temporary tables', 1 unless $methods;
	note(join "\n", map { "$_: $counter{$_}" } sort keys %counter);
	my ($chosen) = grep { /chosen/ } sort keys %counter;
	cmp_ok($chosen ? $counter{$chosen} : 0, '>', $pairs / 10, 'queries went parallel');
}
$node->stop;
done_testing();
