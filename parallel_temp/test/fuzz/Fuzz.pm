# Runs the random sessions of RandomSQL and shrinks what fails.
#
# Every 'same' unit is run once for each variant, in the same session and state,
# in an order that the seed decides (a serial scan first would set the hint bits
# and prune the pages that a parallel one is to be tried on).

package Fuzz;

use strict;
use warnings;
use CrashedServer;
use Exporter 'import';
use RandomSQL;
use SameAnswers qw(psql_text force_parallel);

our @EXPORT_OK = qw(run_episode shrink script_of);

our $EAGER = <<'END';
\set VERBOSITY sqlstate
\set ON_ERROR_ROLLBACK on
SET client_min_messages = error;
SET parallel_setup_cost = 1;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SET jit = off;
SET parallel_temp.flush_page_cost = 0;
SET parallel_temp.scan_buffer_cost = 0;
SET parallel_temp.worker_start_cost = 500;
SET parallel_temp.enter_page_cost = 0;
SET statement_timeout = '20s';
END

my %VARIANT = (
	off => 'SET parallel_temp.enabled = off;',
	share => "SET parallel_temp.enabled = on; SET parallel_temp.method = 'share';",
	flush => "SET parallel_temp.enabled = on; SET parallel_temp.method = 'flush';",
	on => 'SET parallel_temp.enabled = on;');

# The text for psql of a list of units.
sub script_of
{
	my ($units, $seed, $methods, $marks) = @_;
	my @variants = $methods ? qw(off share flush) : qw(off on);
	my $order = RandomSQL->new($seed + 1);
	my $text = $EAGER;
	for my $i (0 .. $#$units)
	{
		my $unit = $units->[$i];
		if ($unit->{kind} eq 'run')
		{
			$text .= "\\echo =#=$i run\n\\warn =#=$i run\n" if $marks;
			$text .= $unit->{text};
			next;
		}
		for my $variant ($unit->{kind} eq 'zero' ? 'on' : RandomSQL->new($seed * 1000 + $unit->{number})->shuffled(@variants))
		{
			$text .= "\\o /dev/null\n$VARIANT{$variant}\n\\o\n";
			$text .= "\\echo =#=$i $variant\n\\warn =#=$i $variant\n" if $marks;
			$text .= $unit->{text};
		}
	}
	$text .= "\\echo =#=end end\n\\warn =#=end end\n" if $marks;
	return $text;
}

# Run units; returns (failures, pairs compared, pairs left out for a timeout, pairs
# that ended in an error, counters text).  A failure is { unit, what }.
sub run_episode
{
	my ($node, $units, $seed, $methods) = @_;
	my @tail = $methods ? ({ kind => 'run', text => "\\echo =#=stats stats\nSELECT counter, value FROM public.parallel_temp_stats WHERE value <> 0;\n" }) : ();
	my ($code, $out, $err) = psql_text($node, 'postgres', script_of([ @$units, @tail ], $seed, $methods, 1), timeout => 600, name => "fuzz-$seed");
	my (%got, $last, $ended);
	for my $stream ([ out => $out ], [ err => $err ])
	{
		my @pieces = split /^=#=(\w+) (\w+)\n/m, $stream->[1];
		shift @pieces;
		while (my ($i, $variant, $body) = splice @pieces, 0, 3)
		{
			$got{$i}{$variant}{ $stream->[0] } = $body // '';
			$last = $i if $stream->[0] eq 'out' && $i =~ /^\d+$/;
			$ended = 1 if $i eq 'end';
		}
	}
	my @failures;
	my ($pairs, $timeouts, $errors) = (0, 0, 0);
	for my $i (0 .. $#$units)
	{
		my $unit = $units->[$i];
		my $have = $got{$i} or next;
		if ($unit->{kind} eq 'zero')
		{
			my $answer = $have->{on}{out} // '';
			push @failures, { unit => $i, what => "pinned buffers are left: $answer$have->{on}{err}" } if defined $have->{on}{err} && $answer !~ /^0$/m && $have->{on}{err} !~ /25P02/;
			next;
		}
		next if $unit->{kind} ne 'same' || !defined $have->{off}{out};
		for my $variant (sort grep { $_ ne 'off' } keys %$have)
		{
			next unless defined $have->{$variant}{out};
			if (($have->{off}{err} // '') =~ /57014/ || ($have->{$variant}{err} // '') =~ /57014/)
			{
				$timeouts++;
				next;
			}
			$pairs++;
			$errors++ if ($have->{off}{err} // '') =~ /ERROR/;
			my ($want, $is) = map { join("\n", sort split /\n/, $have->{$_}{out}, -1) . "\n" . ($have->{$_}{err} // '') } 'off', $variant;
			next if $want eq $is;
			push @failures, { unit => $i, variant => $variant, what => "off and $variant differ\n--- off:\n" . substr($want, 0, 600) . "\n--- $variant:\n" . substr($is, 0, 600) };
		}
	}
	if ($code != 0 || !$ended)
	{
		push @failures, { unit => $last // 0, crash => 1, what => "the session ended with psql code $code: " . substr($err, -500) };
	}
	return (\@failures, $pairs, $timeouts, $errors, $got{stats}{stats}{out} // '');
}

# Leave out what a failure does not need.  At most $tries runs.
sub shrink
{
	my ($node, $units, $failure, $seed, $methods, $tries) = @_;
	my @kept = @$units[ 0 .. $failure->{unit} ];
	my $still = sub {
		my @try = @_;
		my ($failures) = run_episode($node, \@try, $seed, $methods);
		wait_until_back($node) if $failure->{crash};
		return grep { $_->{unit} == $#try || $_->{crash} } @$failures;
	};
	my $chunk = int(@kept / 2);
	while ($chunk >= 1 && $tries > 0)
	{
		my $at = $#kept - $chunk;
		while ($at >= 0 && $tries > 0)
		{
			my @out = grep { !$kept[$_]{keep} } $at .. $at + $chunk - 1;
			if (@out)
			{
				my %out = map { $_ => 1 } @out;
				my @try = map { $out{$_} ? () : $kept[$_] } 0 .. $#kept;
				$tries--;
				@kept = @try if $still->(@try);
			}
			$at -= $chunk;
			$at = $#kept - $chunk if $at > $#kept - $chunk;
		}
		$chunk = int($chunk / 2);
	}
	return \@kept;
}

1;
