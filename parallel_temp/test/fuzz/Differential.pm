# Run statements in one session with the feature off and on, and compare.
#
# A session is one psql script.  Every statement to compare is run once for each
# variant (a name and some SET commands); the outputs are told apart by echoed
# marks.  Row order does not count, ERRORs are compared by their message.
package Differential;

use strict;
use warnings;
use PostgreSQL::Test::Utils;

# Settings under which small tables go parallel.
our $EAGER = <<'SQL';
SET client_min_messages = warning;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SQL

our %VARIANTS = (
	off => 'SET parallel_temp.enabled = off;',
	share => 'SET parallel_temp.enabled = on; SET parallel_temp.method = share;',
	flush => 'SET parallel_temp.enabled = on; SET parallel_temp.method = flush;');

# new(node => ..., temp_buffers => '8MB', variants => [names], settings => sql)
sub new
{
	my ($class, %args) = @_;
	my $self = bless { script => '', count => 0, statements => {}, %args }, $class;
	$self->{variants} ||= [ 'off', 'share', 'flush' ];
	$self->{script} .= "SET temp_buffers = '$args{temp_buffers}';\n" if $args{temp_buffers};
	$self->{script} .= $EAGER . ($args{settings} || '') . "\n";
	return $self;
}

# Statements that only prepare.
sub setup
{
	my ($self, $sql) = @_;
	$self->{script} .= "$sql\n";
	return;
}

# A statement to compare.
sub compare
{
	my ($self, $sql) = @_;
	my $number = ++$self->{count};
	$self->{statements}{$number} = $sql;
	foreach my $variant (@{ $self->{variants} })
	{
		$self->{script} .= "$VARIANTS{$variant}\n\\echo <<$number $variant>>\n$sql;\n\\echo <<end>>\n";
	}
	return;
}

# Runs the script.  Returns a list of complaints and a hash of counters.
sub run
{
	my ($self) = @_;
	my $stdout;
	my (%output, @complaints, %counters);

	$self->{script} .= "\\echo <<0 stats>>\nSELECT counter, value FROM parallel_temp_stats;\n"
	  . "SELECT 'pins', coalesce(sum(pins), 0) FROM pg_local_buffers;\n\\echo <<end>>\n";
	# Errors are results: psql prints them in place, in the order of events.
	my $file = PostgreSQL::Test::Utils::tempdir() . '/script.sql';
	PostgreSQL::Test::Utils::append_to_file($file, "\\set VERBOSITY terse\n" . $self->{script});
	local $ENV{PGHOST} = $self->{node}->host;
	local $ENV{PGPORT} = $self->{node}->port;
	my $psql = $self->{node}->can('installed_command') ? $self->{node}->installed_command('psql') : 'psql';
	$stdout = `$psql -X -A -t -q -v ON_ERROR_STOP=0 -d postgres -f $file 2>&1`;
	my $current;
	foreach my $line (split /\n/, $stdout)
	{
		if ($line =~ /^<<(\d+) (\w+)>>$/) { $current = $output{$1}{$2} = []; }
		elsif ($line eq '<<end>>') { undef $current; }
		elsif ($current)
		{
			$line =~ s/^psql:\S+:\d+: //;
			push @$current, $line;
		}
		elsif ($line =~ /ERROR|FATAL|PANIC|WARNING/) { push @complaints, "outside statements: $line"; }
	}
	foreach my $row (@{ $output{0}{stats} || [] })
	{
		my ($name, $value) = split /\|/, $row;
		$counters{$name} = $value;
	}
	push @complaints, "the session did not come to its end:\n" . substr($stdout, -2000) unless exists $counters{pins};
	foreach my $number (sort { $a <=> $b } keys %{ $self->{statements} })
	{
		my ($reference, @others) = @{ $self->{variants} };
		my $expected = join("\n", sort @{ $output{$number}{$reference} || ['(no output)'] });
		foreach my $variant (@others)
		{
			my $got = join("\n", sort @{ $output{$number}{$variant} || ['(nothing)'] });
			next if $got eq $expected;
			push @complaints,
			  "$self->{statements}{$number}\n--- $reference\n" . substr($expected, 0, 1000) . "\n--- $variant\n" . substr($got, 0, 1000);
		}
	}
	push @complaints, "$counters{pins} pins are left" if ($counters{pins} // 0) != 0;
	return (\@complaints, \%counters);
}

1;
