# Plans with a Gather that do not run from start to end in one go: portals that a
# driver fetches from in parts (as JDBC does with a fetch size), while the table
# changes in between; and parallel queries inside a function that a parallel query
# calls in its leader.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../diff";
use IO::Socket::UNIX;
use PostgreSQL::Test::Utils;
use SameAnswers qw(start_server has_setting bad_log_lines psql_text);
use Test::More;

my $node = start_server('portals');
plan skip_all => 'this build has no parallel scan of temporary tables' unless has_setting($node, 'parallel_temp.method');
plan skip_all => 'no unix sockets' unless $node->host =~ m{^/};
$node->safe_psql('postgres', 'CREATE EXTENSION parallel_temp');

# ---- The frontend/backend protocol, as far as needed here --------------------

my $user = getpwuid($>);
my $socket;

sub message { my ($type, $body) = @_; return $type . pack('N', 4 + length $body) . $body; }

sub read_message
{
	my ($head, $body) = ('', '');
	while (length $head < 5) { sysread($socket, $head, 5 - length $head, length $head) or die 'connection lost'; }
	my ($type, $length) = unpack 'aN', $head;
	while (length $body < $length - 4) { sysread($socket, $body, $length - 4 - length $body, length $body) or die 'connection lost'; }
	return ($type, $body);
}

# Send messages and a Sync; returns rows (first column), and an error's text.
sub ask
{
	my @messages = @_;
	syswrite $socket, join('', @messages) . message('S', '');
	my (@rows, $error);
	for (;;)
	{
		my ($type, $body) = read_message();
		if ($type eq 'D')
		{
			my ($fields, $length) = unpack 'nN', $body;
			push @rows, substr($body, 6, $length);
		}
		$error = $body if $type eq 'E';
		last if $type eq 'Z';
	}
	diag("error: $error") if $error;
	return (\@rows, $error);
}

sub parse { my ($name, $sql) = @_; return message('P', "$name\0$sql\0" . pack('n', 0)); }
sub bind_portal { my ($portal, $name) = @_; return message('B', "$portal\0$name\0" . pack('nnn', 0, 0, 0)); }
sub execute { my ($portal, $rows) = @_; return message('E', "$portal\0" . pack('N', $rows)); }
sub simple { my $sql = shift; return ask(parse('', $sql), bind_portal('', ''), execute('', 0)); }

sub connect_raw
{
	$socket = IO::Socket::UNIX->new(Peer => $node->host . '/.s.PGSQL.' . $node->port) or die "cannot connect: $!";
	my $body = pack('N', 196608) . "user\0$user\0database\0postgres\0\0";
	syswrite $socket, pack('N', 4 + length $body) . $body;
	for (;;)
	{
		my ($type, $text) = read_message();
		die "cannot start: $text" if $type eq 'E';
		last if $type eq 'Z';
	}
	return;
}

my $n = 4000;
for my $method ('share', 'flush')
{
	for my $buffers (100, 1024)
	{
		my $what = "$method, $buffers buffers";
		connect_raw();
		simple($_) for "SET temp_buffers = $buffers", 'SET min_parallel_table_scan_size = 0', 'SET parallel_setup_cost = 0', 'SET parallel_tuple_cost = 0',
		  "SET parallel_temp.method = '$method'", 'SET parallel_temp.flush_page_cost = 0', 'SET parallel_temp.scan_buffer_cost = 0', 'SET parallel_temp.worker_start_cost = 0', 'SET parallel_temp.enter_page_cost = 0', 'SET client_min_messages = error',
		  "CREATE TEMP TABLE t AS SELECT i AS id, repeat('x', 300) AS pad FROM generate_series(1, $n) i";

		# All at once: parallel.
		my ($rows) = simple('SELECT id FROM t WHERE id > 0');
		is(scalar @$rows, $n, "$what: all rows at once");

		# In parts, the last of them without a limit, the table changed between.
		simple('BEGIN');
		my @got;
		push @got, @{ (ask(parse('s', 'SELECT id FROM t WHERE id > 0'), bind_portal('p', 's'), execute('p', 7)))[0] };
		push @got, @{ (ask(execute('p', 50)))[0] };
		simple("UPDATE t SET pad = 'changed' WHERE id % 2 = 0");
		($rows) = simple('SELECT id FROM t WHERE id > 0');
		is(scalar @$rows, $n, "$what: another query while a portal is open");
		push @got, @{ (ask(execute('p', 100)))[0] };
		simple('DELETE FROM t WHERE id > 3000');
		push @got, @{ (ask(execute('p', 0)))[0] };
		my %seen;
		$seen{$_}++ for @got;
		is(scalar @got, $n, "$what: as many rows in parts");
		is(scalar keys %seen, $n, "$what: no row twice");
		($rows) = simple('SELECT count(*) FROM t');
		is($rows->[0], 3000, "$what: the changed table is right");

		# Two portals of one statement, one of them left open.
		my @first = @{ (ask(bind_portal('a', 's'), execute('a', 5)))[0] };
		my @second = @{ (ask(bind_portal('b', 's'), execute('b', 0)))[0] };
		is(scalar @second, 3000, "$what: a second portal of the same statement");
		push @first, @{ (ask(execute('a', 0)))[0] };
		is(scalar @first, 3000, "$what: the rest of the first portal");
		ask(bind_portal('c', 's'), execute('c', 3));
		simple('ROLLBACK');
		($rows) = simple('SELECT id FROM t WHERE id > 0');
		is(scalar @$rows, $n, "$what: all rows after ROLLBACK");
		($rows) = simple('SELECT count(*) FROM pg_local_buffers WHERE pins <> 0');
		is($rows->[0], 0, "$what: no pin is left");

		# A portal that is pipelined with others before one Sync.
		($rows) = ask(bind_portal('', 's'), execute('', 0), parse('', 'SELECT count(*) FROM t'), bind_portal('', ''), execute('', 0), bind_portal('', 's'), execute('', 0));
		is(scalar @$rows, 2 * $n + 1, "$what: several in a pipeline");
		close $socket;
	}
}

# ---- A parallel query within a parallel query --------------------------------

for my $method ('share', 'flush')
{
	for my $buffers (100, 1024)
	{
		my ($code, $out, $err) = psql_text($node, 'postgres', <<'END', name => "nested-$method", settings => {
SET client_min_messages = warning;
CREATE TEMP TABLE t AS SELECT i AS id, i % 10 AS a, repeat('x', 200) AS pad FROM generate_series(1, 4000) i;
CREATE TEMP TABLE u AS SELECT i AS id, repeat('u', 200) AS pad FROM generate_series(1, 3000) i;
CREATE FUNCTION pg_temp.counts(lo int) RETURNS SETOF bigint LANGUAGE plpgsql STABLE PARALLEL RESTRICTED AS $$
BEGIN
	RETURN QUERY SELECT count(*) FROM u WHERE id > lo;
	RETURN QUERY SELECT count(*) FROM t WHERE id > lo;
END$$;
SET plan_cache_mode = force_generic_plan;
SELECT 'warm', count(*), sum(c) FROM pg_temp.counts(0) c;
UPDATE t SET a = a + 1;
UPDATE u SET pad = 'new' WHERE id % 2 = 0;
SELECT 'nested', count(*), sum(s) FROM (SELECT id, (SELECT sum(c) FROM pg_temp.counts(id) c) AS s FROM t WHERE id % 400 = 0 OFFSET 0) x;
SELECT 'twice', count(*), sum(s) FROM (SELECT id, (SELECT sum(c) FROM pg_temp.counts(0) c) AS s FROM t WHERE id % 800 = 0 OFFSET 0) x JOIN u USING (id);
SELECT 'pins', count(*) FROM pg_local_buffers WHERE pins <> 0;
END
				min_parallel_table_scan_size => 0, parallel_setup_cost => 0, parallel_tuple_cost => 0, 'parallel_temp.method' => $method,
				'parallel_temp.flush_page_cost' => 0, 'parallel_temp.scan_buffer_cost' => 0, 'parallel_temp.worker_start_cost' => 0, 'parallel_temp.enter_page_cost' => 0, temp_buffers => $buffers });
		my $nested = 0;
		for (my $id = 400; $id <= 4000; $id += 400) { $nested += ($id < 3000 ? 3000 - $id : 0) + 4000 - $id; }
		is(join(' ', grep { /\|/ } split /\n/, $out), "warm|2|7000 nested|10|$nested twice|3|21000 pins|0", "$method, $buffers buffers: nested queries are right");
		is($err, '', "$method, $buffers buffers: no error");
	}
}

is(join("\n", bad_log_lines(slurp_file($node->logfile))), '', 'no leak and no crash in the log');
$node->stop;
done_testing();
