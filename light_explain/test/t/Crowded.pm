# Other work on the machine makes statements slower, too: how much their sessions waited for a processor.
package Crowded;

use strict;
use warnings;

use Exporter 'import';
our @EXPORT = qw(scheduled is_crowded);

# Nanoseconds that processes were on a processor, and waited for one, together; (1, 0) where the kernel does not count them.
sub scheduled
{
	my ($ran, $waited) = (1, 0);
	for my $pid (@_)
	{
		open my $file, '<', "/proc/$pid/schedstat" or next;
		my ($on, $off) = split / /, <$file> // '0 0';
		$ran += $on;
		$waited += $off;
	}
	return ($ran, $waited);
}

# How many times as long as on an idle machine something took, and others like it: is there more work in it than in the
# others, or so much that chance decides who has to wait?
sub is_crowded
{
	my ($this, @others) = @_;
	return $this > 1.5 || $this > 1.2 * (sort { $a <=> $b } @others)[ @others / 2 ];
}

1;
