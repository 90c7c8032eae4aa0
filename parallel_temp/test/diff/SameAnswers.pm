# Runs SQL scripts with parallel_temp off and on and says where the answers
# differ.  Used by the TAP tests 1NN and by the random generator (../fuzz).
#
# A script is a list of blocks, separated by blank lines.  A block holds one or
# more statements; a comment line at its start is dropped, and lines "--@ flag"
# are for the runner:
#
#   ordered    rows are compared in the order they came (otherwise sorted)
#   parallel   at least one configuration must plan this with a scan of a
#              temporary table below a Gather
#   index      likewise, with an index or bitmap scan below a Gather; for blocks
#              that read only temporary tables
#
# Each configuration runs the script in a separate session and database, so
# that permanent objects of one run are not seen by the next.  The compared output
# of each block is that of psql: rows, command tags, and for errors their
# SQLSTATE.  Scripts must therefore print nothing that differs between two runs
# of a stock server (OIDs, times, random numbers, sums of floats).

package SameAnswers;

use strict;
use warnings;
use Exporter 'import';
use File::Temp ();
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Storable ();

our @EXPORT_OK = qw(start_server has_setting parse_script run_script run_all differences planned_parallel bad_log_lines psql_text force_parallel);

# The setting that puts a Gather on top of every plan that may have one.
sub force_parallel
{
	my $node = shift;
	return has_setting($node, 'debug_parallel_query') ? 'debug_parallel_query' : 'force_parallel_mode';
}

# A server with the library preloaded, workers to spare and the settings given
# (lines of postgresql.conf).
sub start_server
{
	my ($name, $conf, $init) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init(extra => $init // []);
	$node->append_conf('postgresql.conf', <<"END" . ($conf // ''));
shared_preload_libraries = 'parallel_temp'
autovacuum = off
fsync = off
max_connections = 30
max_worker_processes = 24
max_parallel_workers = 24
log_line_prefix = '%a|'
log_min_messages = warning
log_statement = none
END
	$node->start;
	return $node;
}

# Does this server know a setting?  (The library is preloaded.)
sub has_setting
{
	my ($node, $setting) = @_;
	return $node->safe_psql('postgres', "SELECT count(*) FROM pg_settings WHERE name = '$setting'") eq '1';
}

# Split a script into blocks: { line, text, flag => 1, ... }.
sub parse_script
{
	my $path = shift;
	open my $in, '<', $path or die "cannot open $path: $!";
	my (@blocks, $block);
	while (my $line = <$in>)
	{
		if ($line =~ /^\s*$/)
		{
			$block = undef;
			next;
		}
		if (!$block || ($block->{text} eq '' && $line =~ /^--/ && $block->{comment} && $line =~ /^--@/))
		{
			$block //= { line => $., text => '', file => $path };
			push @blocks, $block if !@blocks || $blocks[-1] != $block;
		}
		if ($block->{text} eq '' && $line =~ /^--@ (\w+)/) { $block->{$1} = 1; next; }
		if ($block->{text} eq '' && $line =~ /^--/) { next; }
		$block->{line} = $. if $block->{text} eq '';
		$block->{text} .= $line;
	}
	close $in;
	return grep { $_->{text} ne '' } @blocks;
}

# Feed text to psql; returns its exit code, output and error output.
sub psql_text
{
	my ($node, $db, $text, %arg) = @_;
	my ($out, $err) = ('', '');
	local $ENV{PGOPTIONS} = join ' ', map { my $v = $arg{settings}{$_}; $v =~ s/([\\ ])/\\$1/g; "-c $_=$v" } sort keys %{ $arg{settings} // {} };
	local $ENV{PGAPPNAME} = $arg{name} // 'same';
	my $timeout = IPC::Run::timer($arg{timeout} // 300);
	my $done = eval {
		IPC::Run::run([ 'psql', '-XAt', '-v', 'VERBOSITY=sqlstate', '-d', $node->connstr($db) ],
			'<', \$text, '>', \$out, '2>', \$err, $timeout);
		1;
	};
	my $code = $done ? $? >> 8 : -1;
	$err .= "\npsql did not finish: $@" unless $done;
	return ($code, $out, $err);
}

# Run blocks in one session.  Returns one hash a block, { out, err }; a lost
# connection shows in err of the block where it was lost.
sub run_script
{
	my ($node, $db, $blocks, %arg) = @_;
	my $mark = '=#=';
	my $text = '';
	for my $i (0 .. $#$blocks)
	{
		$text .= "\\echo $mark$i\n\\warn $mark$i\n$blocks->[$i]{text}";
		$text .= "\n" unless $text =~ /\n\z/;
	}
	$text .= "\\echo ${mark}end\n\\warn ${mark}end\n";
	my ($code, $out, $err) = psql_text($node, $db, $text, %arg);
	my @result = map { { out => undef, err => '' } } @$blocks;
	my %part = (out => $out, err => $err);
	for my $stream (qw(out err))
	{
		my @pieces = split /^$mark(\w+)\n/m, $part{$stream};
		shift @pieces;
		while (my ($i, $body) = splice @pieces, 0, 2)
		{
			next if $i eq 'end';
			$result[$i]{$stream} = $body // '';
		}
	}
	if ($code != 0)
	{
		my ($last) = grep { !defined $result[$_]{out} } 0 .. $#result;
		my $at = defined $last ? $last - 1 : $#result;
		$at = 0 if $at < 0;
		$result[$at]{err} .= "psql ended with code $code: " . substr($err, -400);
	}
	return \@result;
}

# The part of a block's outcome that is compared.
sub comparable
{
	my ($block, $outcome) = @_;
	my $out = $outcome->{out} // '(not run)';
	$out = join "\n", sort split(/\n/, $out, -1) unless $block->{ordered};
	my $err = $outcome->{err};
	$err =~ s/^(WARNING|NOTICE|INFO): .*\n//mg if $block->{quiet};
	return "$out\n--- messages:\n$err";
}

# Where two runs of the same blocks differ: a list of readable reports.
sub differences
{
	my ($blocks, $expected, $got) = @_;
	my @reports;
	for my $i (0 .. $#$blocks)
	{
		my ($want, $have) = (comparable($blocks->[$i], $expected->[$i]), comparable($blocks->[$i], $got->[$i]));
		next if $want eq $have;
		my (%want, %have);
		$want{$_}++ for split /\n/, $want;
		$have{$_}++ for split /\n/, $have;
		my @lines = ((map { "-$_" } grep { ($have{$_} // 0) < $want{$_} } sort keys %want), (map { "+$_" } grep { ($want{$_} // 0) < $have{$_} } sort keys %have));
		my $more = @lines > 24 ? "... and " . (@lines - 24) . " more lines\n" : '';
		splice @lines, 24;
		push @reports, "line $blocks->[$i]{line}:\n$blocks->[$i]{text}" . join('', map { substr($_, 0, 300) . "\n" } @lines) . $more;
	}
	return @reports;
}

# Run each job { name, db, blocks, settings } (two at a time), each in a new
# database of the given name.  Returns name => outcome of run_script.
sub run_all
{
	my ($node, $width, @jobs) = @_;
	my $dir = File::Temp->newdir;
	my (%outcome, %running);
	my $reap = sub {
		my $pid = waitpid(-1, 0);
		my $job = delete $running{$pid} or return;
		my $file = "$dir/$job->{name}";
		die "job $job->{name} failed" unless $? == 0 && -e $file;
		$outcome{ $job->{name} } = Storable::retrieve($file);
		unlink $file;
	};
	for my $job (@jobs)
	{
		$reap->() while keys %running >= $width;
		(my $db = "d$job->{name}") =~ s{\W}{_}g;
		$node->safe_psql('postgres', "CREATE DATABASE $db");
		my $pid = fork // die "cannot fork: $!";
		if ($pid == 0)
		{
			my $result = eval { run_script($node, $db, $job->{blocks}, settings => $job->{settings}, name => $job->{name}) };
			warn $@ if $@;
			Storable::store($result, "$dir/$job->{name}") if $result;

			# Not exit: the parent's END blocks stop the server.
			require POSIX;
			POSIX::_exit($result ? 0 : 1);
		}
		$running{$pid} = $job;
	}
	$reap->() while %running;
	return \%outcome;
}

# From the server's log of runs with debug_print_plan: run name => statement text
# (spaces squashed) => what was below a Gather in its plan: "parallel" for a scan node of
# the library, "index" for an index or bitmap scan.
sub planned_parallel
{
	my $log = shift;
	my (%statement, %parallel);

	# A message continues in lines that start with a tab; core breaks plans at spaces.
	for my $message (split /\n(?!\t)/, $log)
	{
		if ($message =~ /^([^|]*)\|LOG:  (?:statement|execute [^:]*): (.*)/s)
		{
			my ($name, $text) = ($1, $2);
			$text =~ s/\s+//g;
			$statement{$name} = $text;
		}
		elsif ($message =~ /^([^|]*)\|DETAIL:  \{PLANNEDSTMT/ && defined $statement{$1})
		{
			my $name = $1;
			$parallel{$name}{ $statement{$name} } .= ' parallel' if $message =~ /\{GATHER(?:MERGE)?\s.*\{CUSTOMSCAN\s/s;
			$parallel{$name}{ $statement{$name} } .= ' index' if $message =~ /\{GATHER(?:MERGE)?\s.*\{(?:INDEXSCAN|INDEXONLYSCAN|BITMAPHEAPSCAN)\s/s;
		}
	}
	return \%parallel;
}

# Lines of a server log that no test may cause.
sub bad_log_lines
{
	my $log = shift;
	return grep { /TRAP:|PANIC:|terminated by signal|refcount leak|reference leak|still referenced|buffer.*leak|cache lookup failed|segfault/i && !/\|LOG:  statement/ } split /\n/, $log;
}

1;
