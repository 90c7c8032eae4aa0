# Random sessions that fill temporary tables while functions of the statement do
# something to the session: the tables after a fast load, also with rows that
# workers formed, are the same as after a load on the server's path, and no buffer stays pinned.
#
#   PG_LEAN_FUZZ_SEED=N        start with this seed (default: changes daily; a failure prints it)
#   PG_LEAN_FUZZ_SESSIONS=N    compare that many sessions (default 20)
# Slow: random sessions

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../diff", "$FindBin::RealBin/../fuzz";
use PostgreSQL::Test::Utils;
use RandomLoads;
use SameAnswers qw(start_server run_script differences bad_log_lines);
use Test::More;

my $sessions = $ENV{PG_LEAN_FUZZ_SESSIONS} // 20;
my $first = $ENV{PG_LEAN_FUZZ_SEED} // int(time / 86400) * 1000;

my $node = start_server('random_loads', "log_error_verbosity = verbose\n");
my $dir = PostgreSQL::Test::Utils::tempdir;
chmod 0777, $dir;
$node->safe_psql('postgres', "CREATE EXTENSION parallel_temp;\n" . RandomLoads::setup($dir));

my ($failed, $compared, $rows, $filling) = (0, 0, 0, 0);
my %pages = (filled => 0, written => 0);
for my $seed ($first .. $first + $sessions - 1)
{
	my $generator = RandomLoads->new($seed);
	my @blocks = $generator->blocks($dir, 30);
	my $from = -s $node->logfile;
	my @told = (@blocks, { line => 'told', text => "SELECT counter, value FROM parallel_temp_stats WHERE counter LIKE 'pages % by workers';\n" });
	my ($own, $bulk) = map { run_script($node, 'postgres', \@told, settings => { 'parallel_temp.fast_load' => $_, 'parallel_temp.parallel_insert' => $_, 'parallel_temp.fill_pages' => $_ }, name => "loads-$seed-$_") } qw(off on);
	if (grep { ($_->{err} // '') =~ /57014/ } @$own, @$bulk)
	{
		note("seed $seed: a statement took too long");
		next;
	}
	$compared++;
	$filling++ if $generator->{fills};
	my $told = $bulk->[-1]{out} // '';
	$pages{$1} += $2 while $told =~ /pages (\w+) by workers\|(\d+)/g;
	pop @$bulk;
	my @reports = differences(\@blocks, $own, $bulk);
	push @reports, "the server's log says:\n$_" for bad_log_lines(slurp_file($node->logfile, $from));
	push @reports, "pins are left: $bulk->[-1]{out}" if ($bulk->[-1]{out} // '') !~ /^pins\|0$/m;
	my $output = join '', map { $_->{out} // '' } @$bulk;
	$rows += $1 while $output =~ /^t\d\|(\d+)\|/mg;
	next unless @reports;
	fail("seed $seed");
	diag("seed $seed, $reports[0]");
	last if ++$failed == 3;
}
is($failed, 0, "$sessions sessions from seed $first leave the same rows");
cmp_ok($compared, '>', $sessions / 2, 'most sessions were fast enough');
cmp_ok($rows, '>', 100 * $compared, 'tables were filled') or diag("$rows rows");
SKIP:
{
	skip 'no session in which workers fill pages for sure', 2 if !$filling;
	cmp_ok($pages{$_}, '>', 100 * $filling, "workers have $_ pages") for 'filled', 'written';
}
note("$rows rows in $compared sessions, $pages{filled} pages filled by workers, $pages{written} written");
$node->stop;
done_testing();
