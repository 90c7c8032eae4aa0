# One psql session that a test talks to step by step, the same on every version of
# PostgreSQL::Test: query() waits for the answer, send() and wait() take two steps.

package PsqlSession;

use strict;
use warnings;
use IPC::Run ();

# new(node, database, settings => { name => value })
sub new
{
	my ($class, $node, $db, %arg) = @_;
	my $self = bless { in => '', out => '', err => '', count => 0 }, $class;
	local $ENV{PGAPPNAME} = $arg{name} // 'session';
	local $ENV{PGOPTIONS} = join ' ', map { "-c $_=$arg{settings}{$_}" } sort keys %{ $arg{settings} // {} };
	$self->{timer} = IPC::Run::timer(180);
	$self->{run} = IPC::Run::start([ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr($db // 'postgres') ],
		'<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{err}, $self->{timer});
	$self->{pid} = $self->query('SELECT pg_backend_pid();');
	return $self;
}

sub pid { return $_[0]{pid}; }

# The output of the last query on stderr.
sub error { return $_[0]{last_error}; }

# On a busy machine the timeout may end the very statement that takes it back.
sub reset_timeout
{
	my $self = shift;
	for (1 .. 1000)
	{
		$self->query('RESET statement_timeout;');
		last if $self->query('SHOW statement_timeout;') eq '0';
	}
	return;
}

sub send
{
	my ($self, $sql) = @_;
	my $mark = '=#=' . ++$self->{count};
	$self->{out} = $self->{err} = '';
	$self->{in} .= "$sql\n\\echo $mark\n\\warn $mark\n";
	$self->{timer}->start(180);
	eval { $self->{run}->pump_nb; };
	return;
}

# Wait for the end of the output of the last query; returns it.  A lost connection ends
# psql's wait as well: psql continues to the marks, or ends itself.  psql writes a mark on
# stderr and the end of its line in two steps: the end must be there, or it would be
# taken for a part of the next answer.
sub wait
{
	my $self = shift;
	my $mark = '=#=' . $self->{count};
	my $alive = 1;
	while ($alive && !($self->{out} =~ /^$mark\n/m && $self->{err} =~ /^$mark\n/m))
	{
		$alive = eval { $self->{run}->pump; } ? 1 : 0;
		last if !$alive && $@ && $@ =~ /timer|timeout/;
		$alive = 0 if !$self->{run}->pumpable;
	}
	my $out = $self->{out};
	$self->{last_error} = $self->{err};
	s/^$mark\n//mg for $out, $self->{last_error};
	$out =~ s/\n\z//;
	return $out;
}

sub query
{
	my ($self, $sql) = @_;
	$self->send($sql);
	return $self->wait;
}

sub quit
{
	my $self = shift;
	$self->{in} .= "\\q\n";
	eval { $self->{run}->finish; };
	return;
}

1;
