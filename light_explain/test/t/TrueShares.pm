# Statements of which it is known where their time goes, and what a plan shows of that.
package TrueShares;

use strict;
use warnings;

use Exporter 'import';
use List::Util qw(max min sum);
our @EXPORT = qw(shares_sql shares_statements own_times corrected_times median nodes);

# SQL that creates tables of this many rows, and functions.
sub shares_sql
{
	my ($rows) = @_;
	return <<"SQL";
CREATE TABLE clustered AS SELECT g AS id, g % 100 AS k, (g * 7919::bigint % $rows)::int + 1 AS anywhere FROM generate_series(1, $rows) g;
CREATE TABLE tenth AS SELECT g * 10 AS id, repeat('t', 20) AS v FROM generate_series(1, $rows / 10) g;
CREATE TABLE few (id int PRIMARY KEY);
INSERT INTO few SELECT generate_series(0, 79);
CREATE TABLE locked (id int PRIMARY KEY);
INSERT INTO locked SELECT generate_series(1, 2000);
CREATE TABLE customer AS SELECT g AS id FROM generate_series(1, 40) g;
CREATE TABLE item AS SELECT c.id AS customer, g AS amount FROM customer c, generate_series(1, CASE WHEN c.id % 10 = 0 THEN $rows / 10 ELSE 50 END) g;
CREATE INDEX ON item (customer) INCLUDE (amount);
CREATE FUNCTION slow(i int, every int, n int) RETURNS int LANGUAGE plpgsql AS
\$\$BEGIN IF i % every = 0 THEN FOR j IN 1..n LOOP NULL; END LOOP; END IF; RETURN i; END\$\$;
VACUUM ANALYZE clustered, tenth, few, locked, customer, item;
SQL
}

# Names, settings and statements.
sub shares_statements
{
	my ($rows) = @_;
	my $parallel = 'SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0';
	return ((map { [ "$_ of $rows rows at the beginning", '', "SELECT count(*) FROM clustered WHERE id <= $_" ] } (33, 40, 60, 100, 500, 5000), $rows / 20, $rows / 5, $rows / 2),
		(map { [ "$_ of $rows rows anywhere", '', "SELECT count(*) FROM clustered WHERE anywhere <= $_" ] } (33, 500, 5000), $rows / 20, $rows / 2),
		[ 'hash join in memory', q{SET work_mem = '256MB'}, 'SELECT count(*) FROM clustered a JOIN tenth b USING (id) WHERE a.k < 20' ],
		[ 'hash join in batches', q{SET work_mem = '256kB'}, 'SELECT count(*) FROM clustered a JOIN tenth b USING (id) WHERE a.k < 20' ],
		# clusters of matches, and no other rows between them
		[ 'join of some rows', '', 'SELECT count(*) FROM clustered a JOIN few f ON f.id = a.k WHERE a.id % 3 = 1 AND f.id < 40' ],
		(map { [ "each ${_}th call is slow", '', "SELECT count(x) FROM (SELECT slow(i, $_, " . 40 * $_ . ") AS x FROM generate_series(1, $rows / 10) i OFFSET 0) s" ] } (10, 37, 300)),
		[ 'lateral aggregate over groups of unequal size', 'SET enable_seqscan = on; SET enable_bitmapscan = off', 'SELECT sum(s) FROM customer c, LATERAL (SELECT sum(sqrt(amount::numeric)) AS s FROM item WHERE customer = c.id OFFSET 0) l' ],
		[ 'sums of an index-only scan', 'SET enable_seqscan = off; SET enable_bitmapscan = off', 'SELECT sum(s) FROM customer c, LATERAL (SELECT sum(amount) AS s FROM item WHERE customer = c.id OFFSET 0) l' ],
		# rows that come from all over memory
		[ 'sort', q{SET work_mem = '256MB'}, 'SELECT count(*) FROM (SELECT * FROM clustered ORDER BY anywhere, k OFFSET 0) s' ],
		[ 'hash aggregate over a filter', q{SET work_mem = '256MB'}, 'SELECT count(*) FROM (SELECT anywhere, sum(k) FROM clustered WHERE k < 50 GROUP BY anywhere OFFSET 0) s' ],
		[ 'parallel scan', $parallel, 'SELECT count(*) FROM clustered WHERE (id # k) % 30 = 1 AND length(k::text) > 1' ],
		[ 'parallel hash join', $parallel, 'SELECT count(*) FROM clustered a LEFT JOIN tenth b USING (id) WHERE b.id IS NULL AND (a.id # a.k) % 4 = 1' ]);
}

sub median
{
	my @sorted = sort { $a <=> $b } @_;
	return @sorted % 2 ? $sorted[ @sorted / 2 ] : ($sorted[ @sorted / 2 - 1 ] + $sorted[ @sorted / 2 ]) / 2;
}

# Nodes in EXPLAIN's order: type, calls, milliseconds with and without the nodes below, and the numbers of those.
sub nodes
{
	my ($plan, $nodes) = @_;
	my ($loops, $rows) = @$plan{ 'Actual Loops', 'Actual Rows' };
	# the server measures a Hash once, not for each row
	my $node = { type => $plan->{'Node Type'}, total => ($plan->{'Actual Total Time'} // 0) * $loops, calls => $plan->{'Node Type'} eq 'Hash' ? 0 : ($rows + 1) * $loops, below => [], self => $plan->{'Self Time'} };
	push @$nodes, $node;
	for my $child (@{ $plan->{Plans} // [] })
	{
		push @{ $node->{below} }, scalar @$nodes;
		nodes($child, $nodes);
	}
	$node->{own} = $node->{total};
	$node->{own} -= $nodes->[$_]{total} for @{ $node->{below} };
	return $nodes;
}

# Nodes above a Gather wait for those below it: neither they nor the Gather count.
sub counted
{
	my ($nodes, @own) = @_;
	my $first = 0;
	$nodes->[$_]{type} =~ /^Gather/ and $first = $_ + 1 for 0 .. $#$nodes;
	return [ @own[ $first .. $#own ] ];
}

# Milliseconds of each node without the nodes below: by inclusive times, and by self times if they are shown.
sub own_times
{
	my ($plan) = @_;
	my $nodes = nodes($plan->{Plan}, []);
	return (counted($nodes, map { $_->{own} } @$nodes), defined $nodes->[0]{self} ? counted($nodes, map { $_->{self} // 0 } @$nodes) : undef);
}

# The same without what the clock adds to each call of a node: this part of that while the node's time is taken, the rest in its caller's.
# It adds what the statement takes longer than untimed, in milliseconds, if that is plausible: at least $each, and up to three times that
# while other processes use the CPUs.
sub corrected_times
{
	my ($plan, $longer, $each, $within) = @_;
	my $nodes = nodes($plan->{Plan}, []);
	my $calls = sum(map { $_->{calls} } @$nodes);
	my @own;
	$each = min(max($longer / $calls, $each), 3 * $each);
	for my $node (@$nodes)
	{
		my $added = $within * $node->{calls};
		$added += (1 - $within) * $nodes->[$_]{calls} for @{ $node->{below} };
		push @own, max(0, $node->{own} - $each * $added);
	}
	return counted($nodes, @own);
}

1;
