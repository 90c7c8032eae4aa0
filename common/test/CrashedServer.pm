# A server that begins again after one of its processes was killed.
package CrashedServer;

use strict;
use warnings;

use Exporter 'import';
our @EXPORT = qw(wait_until_back);

# Wait until a server accepts connections again; true if it does.  The postmaster learns of the killed process some time
# later: with an offset in its log, wait first until that says so.
sub wait_until_back
{
	my ($node, $offset) = @_;
	my $back;

	$node->wait_for_log(qr/all server processes terminated; reinitializing/, $offset) if defined $offset;
	# psql that cannot connect may end before it is told what to ask
	1 until eval { $back = $node->poll_query_until('postgres', 'SELECT true'); 1 } || $@ !~ /Broken pipe/;
	return $back;
}

1;
