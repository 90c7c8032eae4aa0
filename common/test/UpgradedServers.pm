# Two servers of different major versions and a pg_upgrade from one to the other, for
# the tests */test/t/*upgrade.pl.  PG_LEAN_OLD_BINDIR names the folder of the older
# server's programs, into which the extension must be installed too; ci/upgrade.sh
# provides both.
package UpgradedServers;
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

# new(LIBRARIES, SETTING...): both servers, initialized with these libraries preloaded; skips
# the whole test if there is no older server.
sub new
{
	my ($class, $libraries, @settings) = @_;
	my $old_bindir = $ENV{PG_LEAN_OLD_BINDIR};
	plan skip_all => 'PG_LEAN_OLD_BINDIR does not name the programs of an older server'
	  unless $old_bindir && -x "$old_bindir/initdb";
	my $new_bindir = `pg_config --bindir`;
	chomp $new_bindir;
	my $base = PostgreSQL::Test::Utils::tempdir_short();
	my $self = bless { base => $base, old => [ $old_bindir, "$base/old" ], new => [ $new_bindir, "$base/new" ] }, $class;
	for my $which ('old', 'new')
	{
		my ($bindir, $dir) = @{ $self->{$which} };
		my @initdb = ("$bindir/initdb", '-D', $dir, '-A', 'trust', '-U', 'postgres', '-N', '--no-locale', '-E', 'UTF8');
		push @initdb, '--no-data-checksums' if $which eq 'new' && `$bindir/initdb --help` =~ /no-data-checksums/;
		command_ok(\@initdb, "initdb of the $which server");
		append_to_file("$dir/postgresql.conf", join("\n", "listen_addresses = ''", "unix_socket_directories = '$base'", 'fsync = off',
				"shared_preload_libraries = '$libraries'", @settings, ''));
	}
	return $self;
}

# pg_ctl(WHICH, ARGUMENT...) of the 'old' or 'new' server
sub pg_ctl
{
	my ($self, $which, @arguments) = @_;
	my ($bindir, $dir) = @{ $self->{$which} };
	system_or_bail("$bindir/pg_ctl", '-D', $dir, '-l', "$self->{base}/log", '-w', '-s', '-o', '-p 5999', @arguments);
}

# query(SQL): what it prints on the running server, each statement in its own transaction
sub query
{
	my ($self, $sql) = @_;
	my ($out, $err);
	IPC::Run::run([ "$self->{new}[0]/psql", '-X', '-A', '-t', '-q', '-v', 'ON_ERROR_STOP=1', '-h', $self->{base}, '-p', '5999', '-U', 'postgres', '-d', 'postgres' ],
		'<', \$sql, '>', \$out, '2>', \$err) or diag($err);
	return $out;
}

# run(WHICH, SQL...): starts the server, runs each, stops it; returns what they print
sub run
{
	my ($self, $which, @statements) = @_;
	$self->pg_ctl($which, 'start');
	my @results = map { $self->query($_) } @statements;
	$self->pg_ctl($which, '-m', 'fast', 'stop');
	return @results;
}

# upgrade(): pg_upgrade from the old to the new server
sub upgrade
{
	my ($self) = @_;
	my ($old_bindir, $old) = @{ $self->{old} };
	my ($new_bindir, $new) = @{ $self->{new} };
	# Some builds stamp columns with an option that other servers do not know, so that no table
	# can be upgraded: it is removed.
	$self->run('old', "UPDATE pg_attribute SET attoptions = NULL WHERE attoptions::text LIKE '{pg_attver=%'");
	chdir $self->{base} or die;
	command_ok([ "$new_bindir/pg_upgrade", '--no-sync', '-U', 'postgres', '-d', $old, '-D', $new, '-b', $old_bindir, '-B', $new_bindir, '-s', $self->{base}, '-p', '5998', '-P', '5997' ],
		'pg_upgrade') or diag(map { slurp_file($_) =~ /((?:.*\n){1,12})\z/ } glob("$new/pg_upgrade_output.d/*/log/pg_upgrade_dump_*.log"));
}

1;
