# Waits are not disturbed: no signal ends a sleep of user code early, and a
# session that waits for a lock is not woken.

use strict;
use warnings;
use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'light_explain, auto_explain'
autovacuum = off
jit = off
deadlock_timeout = 10min
max_prepared_transactions = 1
max_connections = 130
CONF
$node->start;
$node->safe_psql('postgres', <<"SQL");
CREATE TABLE t AS SELECT i FROM generate_series(1, 1000) i;
CREATE FUNCTION light_test_interrupted(int) RETURNS int STRICT VOLATILE LANGUAGE c AS '$FindBin::RealBin/../custom/light_test_custom.so';
SQL

my %measured = (
	'EXPLAIN ANALYZE' => [ '', 'EXPLAIN (ANALYZE, COSTS OFF)' ],
	'auto_explain' => [ q{SET auto_explain.log_min_duration = '1h'; SET auto_explain.log_analyze = on;}, '' ],
	'profile' => [ 'SET light_explain.profile = on;', '' ]);

for my $how (sort keys %measured)
{
	my ($settings, $explain) = @{ $measured{$how} };
	for my $timing (qw(auto system))
	{
		# rarely one of the server's signals arrives at that moment
		my $interrupted;
		for (1 .. 5)
		{
			my $out = $node->safe_psql('postgres', <<"SQL");
$settings SET light_explain.timing = $timing;
CREATE TEMP TABLE seen (n int);
$explain INSERT INTO seen SELECT light_test_interrupted(5) FROM t WHERE i <= 30;
SELECT '<' || sum(n) || '>' FROM seen;
SQL
			($interrupted) = $out =~ /<(\d+)>/;
			last if $interrupted == 0;
		}
		is($interrupted, 0, "$how, $timing: no sleep ends early");
	}
}

# A session that is measured and blocked: how often does it leave the processor?
SKIP:
{
	my ($psql, $out, $err);
	# a prepared transaction holds its locks without a session
	$node->safe_psql('postgres', "BEGIN; UPDATE t SET i = i WHERE i = 600; PREPARE TRANSACTION 'blocker'");
	$psql = IPC::Run::start([ 'psql', '-X', '-q', '-d', $node->connstr('postgres'), '-c', "SET application_name = 'victim'",
			'-c', 'EXPLAIN ANALYZE SELECT i FROM t WHERE length(repeat(md5(i::text), 20000)) > 0 FOR UPDATE' ],
		'>', \$out, '2>', \$err);
	ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'victim' AND wait_event_type = 'Lock'}), 'blocked');
	my $pid = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE application_name = 'victim'});
	my $switches = sub { return slurp_file("/proc/$pid/status") =~ /^voluntary_ctxt_switches:\s*(\d+)/m ? $1 : undef };
	my $before = -r "/proc/$pid/status" ? $switches->() : undef;
	if (defined $before)
	{
		sleep 2;
		# a timer of half a millisecond would make thousands
		cmp_ok($switches->() - $before, '<', 50, 'a session that waits for a lock is not woken');
	}
	$node->safe_psql('postgres', q{COMMIT PREPARED 'blocker'});
	$psql->finish;
	like($out, qr/LockRows .*actual time=/, 'and then it continues');
	skip 'no /proc here', 1 unless defined $before;
}

# A hundred of them, measured in each way: what do they use while they wait?
SKIP:
{
	skip 'no /proc here', 5 unless -r '/proc/self/stat';
	my $dir = PostgreSQL::Test::Utils::tempdir();
	for my $how (keys %measured)
	{
		my ($settings, $explain) = @{ $measured{$how} };
		append_to_file("$dir/$how.sql", "SET application_name = 'waits';\n$settings\n$explain SELECT i FROM t WHERE length(repeat(md5(i::text), 100)) > 0 FOR UPDATE;\n");
	}
	$node->safe_psql('postgres', "BEGIN; UPDATE t SET i = i WHERE i = 600; PREPARE TRANSACTION 'blocker'");
	my $pgbench = IPC::Run::start([ 'pgbench', '-n', '-c', '100', '-t', '1', (map { ('-f', "$dir/$_.sql") } sort keys %measured), '-h', $node->host, '-p', $node->port, 'postgres' ], '>', \my $out, '2>', \my $err);
	my $waiting = q{SELECT pid FROM pg_stat_activity WHERE application_name = 'waits' AND wait_event_type = 'Lock'};
	ok($node->poll_query_until('postgres', "SELECT count(*) = 100 FROM ($waiting) w"), 'a hundred sessions wait for a lock');
	my @pids = split /\n/, $node->safe_psql('postgres', $waiting);
	# ticks of the processor, by the user and by the system, and how often it left the processor
	my $used = sub {
		my ($pid) = @_;
		my @stat = split / /, slurp_file("/proc/$pid/stat") =~ s/^.*\) //sr;
		my ($switches) = slurp_file("/proc/$pid/status") =~ /^voluntary_ctxt_switches:\s*(\d+)/m;
		return ($stat[11] + $stat[12], $switches);
	};
	my %before = map { $_ => [ $used->($_) ] } @pids;
	sleep 3;
	my ($most, $ticks, $switches) = (0, 0, 0);
	for my $pid (@pids)
	{
		my ($t, $s) = $used->($pid);
		$most = $t - $before{$pid}[0] if $most < $t - $before{$pid}[0];
		$ticks += $t - $before{$pid}[0];
		$switches += $s - $before{$pid}[1];
	}
	# a timer of half a millisecond would make 600,000 switches and hundreds of ticks
	cmp_ok($most, '<=', 1, 'none of them uses more than a tick of the processor in three seconds');
	cmp_ok($ticks, '<=', 20, 'nor do all together');
	cmp_ok($switches, '<', 1000, 'and they are not woken');
	$node->safe_psql('postgres', q{COMMIT PREPARED 'blocker'});
	$pgbench->finish;
	like($out, qr/actually processed: 100\/100/, 'and then they continue');
}

$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|terminated by signal/, 'nothing bad in the log');
done_testing();
