# The parts of the time that samples of each node stand for, waiting and not, are those of its time,
# which the statement itself measures; also while other processes keep all CPUs busy.  Numbers of
# samples would not do: a sampler on the CPU of a process that computes is woken later than next to
# one that waits, so that it takes fewer samples there, and each of them stands for more time.
# Slow: statements that run for a minute
use strict;
use warnings;

BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 120 }
use List::Util qw(sum);
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# Samples of each kind at least; the largest distance of a part from the truth, in standard errors of that many independent
# samples, and of the sum of their times.  Rounds are closer together than changes of the node, so parts of a correct sampler
# stay far below; what else the machine does may disturb one try, and a sample never stands for more than ten intervals.
use constant { ENOUGH => 4000, DISTANCE => 4, SUM_WITHIN => 0.05, TRIES => 5 };

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'light_explain'
light_explain.profile = on
light_explain.sample_interval = 2
light_explain.sample_ring = 200000
compute_query_id = on
autovacuum = off
jit = off
max_parallel_workers_per_gather = 0
CONF
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION light_explain;
CREATE TABLE t AS SELECT g AS id FROM generate_series(1, 100) g;
CREATE TABLE one AS SELECT 0 AS id;
VACUUM ANALYZE t, one;
-- wait or compute for about so many milliseconds, and add the true time to a setting
CREATE FUNCTION spend(place text, how text, mean float8, id int) RETURNS int LANGUAGE plpgsql VOLATILE COST 1 AS $$
DECLARE
	began timestamptz = clock_timestamp();
	ms float8 = mean * (0.5 + random());
	waits bool = CASE how WHEN 'both' THEN random() < 0.5 ELSE how = 'waits' END;
	total text = 'test.' || place || CASE WHEN waits THEN '_waits' ELSE '_computes' END;
BEGIN
	IF waits THEN
		IF pg_sleep(ms / 1000) IS NULL THEN RETURN 0; END IF;
	ELSE
		FOR i IN 1 .. 100000000 LOOP
			EXIT WHEN i % 50 = 0 AND clock_timestamp() > began + ms * interval '1 millisecond';
		END LOOP;
	END IF;
	total = set_config(total, (current_setting(total)::float8 + extract(epoch FROM clock_timestamp() - began))::text, false);
	RETURN id + 1;
END$$;
SQL

# Where the statement spends time: name, node, mean of a call in milliseconds.
my @places = ([ aggregate => 'Aggregate', 8 ], [ 'join' => 'Nested Loop', 14 ], [ scan => 'Seq Scan', 5 ]);
my @ways = ([ waits => 'PgSleep' ], [ computes => 'CPU' ]);
my @settings = map { my $place = $_->[0]; map { "test.${place}_$_->[0]" } @ways } @places;
my @cells = map { my $type = $_->[1]; map { "$type, $_->[1]" } @ways } @places;

# Execute the statement once; adds its own seconds, and those of its samples, by node and wait; the numbers of samples, of those
# that stand for ten intervals and of more time perhaps, and the sums of squared seconds are those of all.
sub execute
{
	my ($how, $true, $seen, $all) = @_;
	my ($aggregate, $join, $scan) = map { my ($place, undef, $mean) = @$_; sub { "spend('$place', '$how', $mean, $_[0])" } } @places;
	my ($pid, @true) = split /\|/, (split /\n/, $node->safe_psql('postgres', join '; ', (map { "SET $_ = 0" } @settings),
			"SELECT count(${\ $aggregate->('t.id')}) FROM t JOIN one ON ${\ $join->('t.id + one.id')} > 0 WHERE ${\ $scan->('t.id')} > 0",
			'SELECT ' . join ', ', 'pg_backend_pid()', map { "current_setting('$_')" } @settings))[-1];
	my $rounds = $node->safe_psql('postgres', 'SELECT sampler_rounds FROM light_explain_status()');
	$node->poll_query_until('postgres', "SELECT sampler_rounds > $rounds + 2 FROM light_explain_status()") or die 'the sampler does not work';
	my $samples = $node->safe_psql('postgres', "SELECT node_type || ', ' || wait_event, sum(seconds), count(*), sum(seconds ^ 2), count(*) FILTER (WHERE seconds > 0.01999) FROM light_explain_samples WHERE pid = $pid AND query ~ 'spend' AND node IS NOT NULL GROUP BY 1");
	$true->{ $cells[$_] } += $true[$_] for 0 .. $#cells;
	for (split /\n/, $samples)
	{
		my ($cell, $seconds, $n, $squares, $cut) = split /\|/;
		$seen->{$cell} += $seconds;
		$all->{samples} += $n;
		$all->{squares} += $squares;
		$all->{cut} += $cut;
	}
	return;
}

# Compare parts of nodes, and of all waiting and all computing; returns those that are too far away.
sub compare
{
	my ($what, $true, $seen, $all) = @_;
	my ($seconds, $sampled) = (sum(values %$true), sum(values %$seen));
	# so many samples of the same weight would have the same error
	my $n = $sampled**2 / $all->{squares};
	my (@all, @outside);
	my %parts = map { $_ => [ $true->{$_} // 0, $seen->{$_} // 0 ] } keys %{ { %$true, %$seen } };
	for my $event (map { $_->[1] } @ways)
	{
		my @of = grep { /, $event$/ } keys %parts;
		$parts{"all, $event"} = [ map { my $i = $_; sum(map { $parts{$_}[$i] } @of) // 0 } 0, 1 ];
	}
	for my $part (sort keys %parts)
	{
		my ($is, $found) = ($parts{$part}[0] / $seconds, $parts{$part}[1] / $sampled);
		# next to each nap there is a moment of computing
		my $error = $is > 0.001 && $is < 0.999 ? sqrt($is * (1 - $is) / $n) : 0.03 / DISTANCE;
		my $z = ($found - $is) / $error;
		push @all, sprintf '%s: %.1f %% for %.1f %%, z %.1f', $part, 100 * $found, 100 * $is, $z;
		push @outside, $all[-1] if abs($z) > DISTANCE;
	}
	push @all, sprintf 'sum: %.2f s for %.2f s, %d cut', $sampled, $seconds, $all->{cut};
	# a sampler that is woken too late loses time
	push @outside, $all[-1] if $sampled / $seconds - 1 > SUM_WITHIN || 1 - $sampled / $seconds > SUM_WITHIN && $all->{cut} < 0.001 * $all->{samples};
	note("$what, $all->{samples} samples: ", join '; ', @all);
	return join '; ', @outside;
}

my @burners;
my $parent = $$;
chomp(my $cpus = `getconf _NPROCESSORS_ONLN`);
for my $load ('idle', 'busy')
{
	for (1 .. $load eq 'busy' ? $cpus : 0)
	{
		my $pid = fork() // die "cannot fork: $!";
		if ($pid == 0)
		{
			1 while getppid() == $parent;
			POSIX::_exit(0);
		}
		push @burners, $pid;
	}
	for my $how ('waits', 'computes', 'both')
	{
		my $outside;
		for my $try (1 .. TRIES)
		{
			my (%true, %seen, %all);
			# on a machine with much else to do there are few rounds
			for (1 .. 40)
			{
				execute($how, \%true, \%seen, \%all);
				last if ($all{samples} // 0) >= ENOUGH;
			}
			$outside = compare("$how, $load CPUs, try $try", \%true, \%seen, \%all);
			last if $outside eq '';
		}
		is($outside, '', "$how, $load CPUs: the parts of the time that samples stand for are those of the true time");
	}
}
kill 'KILL', @burners;
waitpid $_, 0 for @burners;

$node->stop;
done_testing();
