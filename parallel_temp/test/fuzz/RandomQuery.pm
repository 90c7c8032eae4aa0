# Random SELECT statements over a few known temporary and permanent tables.
#
# RandomQuery->new(seed)->statement returns one statement at a time; the same seed
# gives the same statements.  Every statement has one right answer as a set of
# rows: LIMIT comes with a total order, and nothing volatile or inexact is used.
package RandomQuery;

use strict;
use warnings;

# name => columns that are integers, columns that are text
my %TABLES = (
	t => [ [qw(id k)], [qw(txt)] ],
	s => [ [qw(id k)], [qw(txt)] ],
	part => [ [qw(id k)], [qw(txt)] ],
	wide => [ [qw(id)], [qw(big huge)] ],
	perm => [ [qw(id k)], [qw(txt)] ],
	parent => [ [qw(id k)], [] ]);
my @NAMES = sort keys %TABLES;

our $SETUP = <<'SQL';
CREATE TEMP TABLE t AS SELECT g AS id, g % 97 AS k, 'text ' || g AS txt FROM generate_series(1, 6000) g;
CREATE TEMP TABLE s AS SELECT g * 2 AS id, nullif(g % 11, 4) AS k, repeat('s', g % 40) AS txt FROM generate_series(1, 3000) g;
CREATE INDEX ON s (id);
CREATE INDEX ON t (k);
CREATE TEMP TABLE wide (id int, big text, huge text);
ALTER TABLE wide ALTER huge SET STORAGE EXTERNAL;
INSERT INTO wide SELECT g, repeat(md5(g::text), 100), (SELECT string_agg(md5((g * i)::text), '') FROM generate_series(1, 70) i)
	FROM generate_series(1, 120) g;
CREATE TEMP TABLE part (id int, k int, txt text) PARTITION BY RANGE (id);
CREATE TEMP TABLE part1 PARTITION OF part FOR VALUES FROM (MINVALUE) TO (1000);
CREATE TEMP TABLE part2 PARTITION OF part FOR VALUES FROM (1000) TO (2000);
CREATE TEMP TABLE part3 PARTITION OF part DEFAULT;
INSERT INTO part SELECT g, g % 9, 'p' || g FROM generate_series(1, 3000) g;
CREATE INDEX ON part (id);
CREATE TEMP TABLE child () INHERITS (parent);
INSERT INTO child SELECT g, g % 50 FROM generate_series(1, 1000) g;
DELETE FROM t WHERE id % 13 = 5;
UPDATE t SET k = k + 1 WHERE id % 17 = 3;
ANALYZE;
SQL

sub new
{
	my ($class, $seed) = @_;
	return bless { state => $seed * 2654435761 % 4294967296 }, $class;
}

# An own generator: Perl's differs between builds.
sub number
{
	my ($self, $below) = @_;
	$self->{state} = ($self->{state} * 1103515245 + 12345) % 2147483648;
	return int($self->{state} / 65536) % $below;
}

sub pick
{
	my ($self, @from) = @_;
	return $from[ $self->number(scalar @from) ];
}

sub int_column
{
	my ($self, $from) = @_;
	my ($alias, $table) = @{ $self->pick(@$from) };
	return "$alias." . $self->pick(@{ $TABLES{$table}[0] });
}

sub text_column
{
	my ($self, $from) = @_;
	my ($alias, $table) = @{ $self->pick(@$from) };
	return @{ $TABLES{$table}[1] } ? "$alias." . $self->pick(@{ $TABLES{$table}[1] }) : "'none'";
}

sub int_expression
{
	my ($self, $from) = @_;
	my $column = $self->int_column($from);
	return $self->pick(
		$column, "$column % " . (2 + $self->number(9)), "$column + " . $self->int_column($from),
		"coalesce($column, 0)", 'length(' . $self->text_column($from) . ')',
		"CASE WHEN $column > " . $self->number(2000) . ' THEN 1 ELSE ' . $self->int_column($from) . ' END');
}

sub condition
{
	my ($self, $from, $depth) = @_;
	my $kind = $self->number($depth > 0 ? 10 : 6);
	my $left = $self->int_expression($from);
	return "$left = " . $self->number(100) if $kind == 0;
	return "$left " . $self->pick('<', '>', '<=', '<>') . ' ' . $self->number(3000) if $kind == 1;
	return "$left BETWEEN " . $self->number(100) . ' AND ' . $self->number(4000) if $kind == 2;
	return "$left IS " . $self->pick('NULL', 'NOT NULL') if $kind == 3;
	return $self->text_column($from) . ' LIKE \'%' . $self->number(30) . '%\'' if $kind == 4;
	return "$left IN (" . join(', ', map { $self->number(200) } 1 .. 5) . ')' if $kind == 5;
	return '(' . $self->condition($from, 0) . $self->pick(' OR ', ' AND ') . $self->condition($from, 0) . ')' if $kind == 6;
	my $inner = [ [ "x$depth", $self->pick(@NAMES) ] ];
	my $where = ' WHERE ' . $self->condition($inner, 0);
	my $source = "FROM $inner->[0][1] $inner->[0][0]";
	return "$left " . $self->pick('', 'NOT ') . 'IN (SELECT ' . $self->int_column($inner) . " $source$where)" if $kind == 7;
	return "$left > (SELECT " . $self->pick('min', 'max', 'count') . '(' . $self->int_column($inner) . ") $source$where)" if $kind == 8;
	return $self->pick('', 'NOT ') . "EXISTS (SELECT 1 $source$where AND " . $self->int_column($inner) . ' = ' . $self->int_column($from) . ')';
}

# A FROM clause and its (alias, table) pairs.
sub from_clause
{
	my ($self) = @_;
	my $count = $self->pick(1, 1, 2, 2, 3);
	my @from = ([ 'a', $self->pick(@NAMES) ]);
	my $sql = "$from[0][1] a";
	foreach my $alias ((qw(b c))[ 0 .. $count - 2 ])
	{
		my $new = [ $alias, $self->pick(@NAMES) ];
		my $join = $self->pick('JOIN', 'JOIN', 'LEFT JOIN', 'RIGHT JOIN', 'FULL JOIN');
		$sql .= " $join $new->[1] $alias ON " . $self->pick(map { "$_->[0].id" } @from) . " = $alias.id";
		push @from, $new;
	}
	return ($sql, \@from);
}

sub select_statement
{
	my ($self, $columns) = @_;
	my ($sql, $from) = $self->from_clause;
	my $where = $self->number(4) ? ' WHERE ' . join(' AND ', map { $self->condition($from, 1) } 1 .. 1 + $self->number(2)) : '';
	my @out = map { $self->int_expression($from) } 1 .. $columns;
	my $kind = $self->number(5);
	return 'SELECT ' . join(', ', @out) . " FROM $sql$where" if $kind == 0;
	return 'SELECT DISTINCT ' . join(', ', @out) . " FROM $sql$where" if $kind == 1;
	if ($kind == 2)
	{
		my @aggregates = map { $self->pick('count', 'sum', 'min', 'max') . "($_)" } @out;
		return 'SELECT ' . join(', ', @aggregates) . " FROM $sql$where";
	}
	if ($kind == 3)
	{
		my $key = shift @out;
		my @aggregates = map { $self->pick('count', 'sum', 'min', 'max', 'count(DISTINCT %s)') . "($_)" } @out;
		s/count\(DISTINCT %s\)\((.*)\)$/count(DISTINCT $1)/s foreach @aggregates;
		my $having = $self->number(3) ? '' : ' HAVING count(*) > 3';
		return 'SELECT ' . join(', ', $key, @aggregates) . " FROM $sql$where GROUP BY 1$having";
	}
	return 'SELECT ' . join(', ', @out) . " FROM $sql$where ORDER BY " . join(', ', 1 .. $columns) . ' LIMIT ' . (1 + $self->number(40));
}

sub statement
{
	my ($self) = @_;
	my $columns = 1 + $self->number(3);
	my $sql = $self->select_statement($columns);
	my $kind = $self->number(8);
	$sql = "($sql) " . $self->pick('UNION ALL', 'UNION', 'INTERSECT', 'EXCEPT') . ' (' . $self->select_statement($columns) . ')' if $kind == 0;
	$sql = "SELECT count(*) FROM ($sql) q" if $kind == 1;
	$sql = "WITH w AS " . $self->pick('', 'MATERIALIZED ') . "($sql) SELECT count(*) FROM w x, w y WHERE false UNION ALL SELECT count(*) FROM w"
	  if $kind == 2;
	# Large results say no more than their fingerprint.
	return "SELECT count(*), sum(hashtext(q::text)::bigint) FROM ($sql) q";
}

1;
