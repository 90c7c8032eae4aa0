# Sessions whose statements have workers whatever that costs, and the workers that wait in
# pg_sleep(): what tests of failures while rows go into a table have in common.

package WorkerSession;

use strict;
use warnings;
use Exporter 'import';
use PsqlSession;

our @EXPORT_OK = qw(worker_session workers_of);

my %eager = (
	min_parallel_table_scan_size => 0,
	parallel_setup_cost => 0,
	parallel_tuple_cost => 0,
	max_parallel_workers_per_gather => 2,
	temp_buffers => 100,
	'parallel_temp.worker_start_cost' => 0);

# worker_session(node, name, setting => value...): a PsqlSession
sub worker_session
{
	my ($node, $name, %more) = @_;
	return PsqlSession->new($node, 'postgres', name => $name, settings => { %eager, %more });
}

# workers_of(node, pid): the workers of this session that wait in pg_sleep(), once there is one
sub workers_of
{
	my ($node, $pid) = @_;
	my $working = "SELECT pid FROM pg_stat_activity WHERE leader_pid = $pid AND backend_type = 'parallel worker' AND wait_event = 'PgSleep'";
	$node->poll_query_until('postgres', "SELECT EXISTS ($working)");
	return split /\n/, $node->safe_psql('postgres', $working);
}

1;
