# Sessions that pages show: lines that begin with "=> " are commands, the others what psql prints.
package PageSessions;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Utils;
use Test::More;
our @EXPORT = qw(sessions_of run_sessions);

# The sessions of pages, in their order; at least one.
sub sessions_of
{
	my @sessions = join('', @_) =~ /^```console\n(.*?)^```$/msg;
	ok(@sessions > 0, 'there are sessions to run');
	return @sessions;
}

# Run sessions one after the other in the database postgres of a server.  Each must print what it shows, except empty lines.
sub run_sessions
{
	my ($node, @sessions) = @_;
	my $number = 0;

	foreach my $session (@sessions)
	{
		$number++;
		my $commands = join '', map { s/^=> //r . "\n" } grep { /^=> / } split /\n/, $session;
		my $expected = join '', map { "$_\n" } grep { !/^=> / && !/^\s*$/ } split /\n/, $session;
		my $file = $node->basedir . "/session$number.sql";
		append_to_file($file, $commands);
		my ($stdout, $stderr) = run_command([ 'psql', '-X', '-q', '-d', $node->connstr('postgres'), '-f', $file ]);
		$stdout = join '', map { "$_\n" } grep { !/^\s*$/ } split /\n/, $stdout;
		# the number of workers depends on that of CPUs
		s/^( *Workers Planned: )\d+$/$1n/mg for $stdout, $expected;
		is($stdout, $expected, "session $number prints what the page shows");
		is($stderr, '', 'and nothing else');
	}
	return;
}

1;
