# A seeded generator of sessions over temporary and permanent tables: schemas,
# changes in transactions with savepoints, and queries of every shape.
#
# episode() gives the statements of one session as a list of units
#
#   { kind => 'run', text }      statements that prepare or change
#   { kind => 'same', text }     a query, to be run off and on in the same state
#   { kind => 'zero', text }     a query that must give 0
#
# A unit's text may hold several statements.  Everything is decided beforehand
# from the seed, so a session can be run again, whole or in part.  Answers are
# deterministic: no floats, no order that ties decide, no LIMIT without an order
# over all columns, windows with the default frame, aggregates that are ordered
# where order matters.  Every relation has the same columns (id, a, b int, c
# bigint, t text, n numeric, f bool, big text), in a separate physical order, with
# dropped and added columns between them; so any relation fits any place.

package RandomSQL;

use strict;
use warnings;

my %TYPE = (id => 'int', a => 'int', b => 'int', c => 'big', t => 'text', n => 'num', f => 'bool', big => 'text');
my @COLUMNS = sort keys %TYPE;
my %SQLTYPE = (int => 'int', big => 'bigint', text => 'text', num => 'numeric(14,3)', bool => 'boolean');

sub new
{
	my ($class, $seed) = @_;
	return bless { state => ($seed * 2654435761 + 12345) & 0xffffffff }, $class;
}

# A number from 0 to n - 1: our own generator, so that a seed means the same on
# every Perl.
sub pick
{
	my ($self, $n) = @_;
	my $x = $self->{state} || 1;
	$x ^= ($x << 13) & 0xffffffff;
	$x ^= $x >> 17;
	$x ^= ($x << 5) & 0xffffffff;
	$self->{state} = $x;
	return int(($x >> 3) % $n);
}
sub one { my $self = shift; return $_[ $self->pick(scalar @_) ]; }
sub chance { my ($self, $percent) = @_; return $self->pick(100) < $percent; }
sub between { my ($self, $lo, $hi) = @_; return $lo + $self->pick($hi - $lo + 1); }

sub shuffled
{
	my ($self, @list) = @_;
	for my $i (reverse 1 .. $#list)
	{
		my $j = $self->pick($i + 1);
		@list[ $i, $j ] = @list[ $j, $i ];
	}
	return @list;
}

# ---- Schemas ---------------------------------------------------------------

# SQL for the values of all columns, from a row number i.
sub value_of
{
	my ($self, $column, $skew) = @_;
	my %sql = (
		id => 'i',
		a => "(i * 7 + $skew) % 200",
		b => "CASE WHEN (i + $skew) % 6 = 0 THEN NULL ELSE (i * 13) % 50 END",
		c => "(i * 1000003::bigint + $skew) % 100000",
		t => "CASE WHEN (i + $skew) % 11 = 0 THEN NULL ELSE 't' || (i * 3) % 300 END",
		n => "CASE WHEN i % 9 = 0 THEN NULL ELSE (i % 1000) / 8.0 END",
		f => '(ARRAY[true, false, NULL])[1 + i % 3]',
		big => $self->{big} ? "CASE WHEN (i + $skew) % 40 = 0 THEN repeat(md5(i::text), 120 + i % 90) WHEN i % 5 = 0 THEN NULL ELSE md5(i::text) END" : "'g' || i % 7");
	return $sql{$column};
}

sub insert_rows
{
	my ($self, $table, $from, $count) = @_;
	my $skew = $self->pick(1000);
	my $to = $from + $count - 1;
	return "INSERT INTO $table (" . join(', ', @COLUMNS) . ') SELECT ' . join(', ', map { $self->value_of($_, $skew) } @COLUMNS) . " FROM generate_series($from, $to) i;\n";
}

# Column definitions in random order with fillers that get dropped; what is left
# out comes later by ALTER TABLE ADD COLUMN.
sub columns_sql
{
	my ($self, $late) = @_;
	my @parts;
	for my $column ($self->shuffled(@COLUMNS))
	{
		next if $late && $column eq $late;
		push @parts, 'fill' . $self->pick(1000) . ' ' . $self->one('int DEFAULT 5', 'text DEFAULT \'dropped soon\'', 'bigint', 'bool', "char(" . $self->between(5, 300) . ") DEFAULT 'p'")
		  if $self->chance(25);
		push @parts, "$column $SQLTYPE{ $TYPE{$column} }";
	}
	my %seen;
	return join ', ', grep { !$seen{ (split / /)[0] }++ } @parts;
}

sub plain_table
{
	my ($self, $name, $temp) = @_;
	my $late = $self->chance(25) ? $self->one('a', 'b', 'n', 't') : '';
	my $columns = $self->columns_sql($late);
	my $sql = 'CREATE ' . ($temp ? 'TEMP ' : '') . "TABLE $name ($columns)" . ($self->chance(25) ? ' WITH (fillfactor = ' . $self->between(30, 95) . ')' : '') . ";\n";
	$sql .= "ALTER TABLE $name ALTER big SET STORAGE " . $self->one('EXTERNAL', 'MAIN', 'EXTENDED') . ";\n";
	my $rows = $self->one(0, 1, 10, 300, 1000, 2000, 3000);
	if ($late)
	{
		my $default = { a => '17', b => '3', n => '2.5', t => "'late'" }->{$late};
		$sql .= "INSERT INTO $name (id, c, big) SELECT i, i * 3, 'early' FROM generate_series(1, 200) i;\n";
		$sql .= "ALTER TABLE $name ADD COLUMN $late $SQLTYPE{ $TYPE{$late} }" . ($self->chance(70) ? " DEFAULT $default" : '') . ";\n";
	}
	$sql .= $self->insert_rows($name, 1, $rows) if $rows;
	for my $fill ($columns =~ /(fill\d+)/g)
	{
		$sql .= "ALTER TABLE $name DROP COLUMN $fill;\n" if $self->chance(70);
	}
	$sql .= $self->insert_rows($name, $rows + 1, $self->between(1, 300)) if $self->chance(40);
	return $sql;
}

sub partitioned_table
{
	my ($self, $name) = @_;
	my ($key, @bounds);
	my $sort = $self->one('range', 'list', 'hash');
	if ($sort eq 'range') { $key = 'id'; @bounds = ('FROM (MINVALUE) TO (400)', 'FROM (400) TO (1100)', 'FROM (1100) TO (MAXVALUE)'); }
	elsif ($sort eq 'list') { $key = 'b'; @bounds = ('IN (' . join(', ', 0 .. 9) . ')', 'IN (' . join(', ', 10 .. 30) . ')'); }
	else { $key = 'a'; @bounds = map { "WITH (MODULUS 3, REMAINDER $_)" } 0 .. 2; }
	my $sql = 'CREATE TEMP TABLE ' . "$name (" . $self->columns_sql . ') PARTITION BY ' . uc($sort) . " ($key);\n";
	my $i = 0;
	$sql .= "CREATE TEMP TABLE ${name}_" . ++$i . " PARTITION OF $name FOR VALUES $_;\n" for @bounds;
	$sql .= "CREATE TEMP TABLE ${name}_d PARTITION OF $name DEFAULT;\n" if $sort eq 'list';
	return $sql . $self->insert_rows($name, 1, $self->one(20, 500, 2000));
}

sub inherited_table
{
	my ($self, $name) = @_;
	my $parent_temp = $self->chance(70);
	my $sql = $self->plain_table($name, $parent_temp);
	for my $i (1 .. $self->between(1, 2))
	{
		my $child_temp = $parent_temp || $self->chance(70);
		$sql .= 'CREATE ' . ($child_temp ? 'TEMP ' : '') . "TABLE ${name}_k$i (extra int DEFAULT 4) INHERITS ($name);\n" . $self->insert_rows("${name}_k$i", 2000 * $i, $self->between(0, 800));
	}
	return $sql;
}

# ---- Expressions ------------------------------------------------------------

sub columns_of_type
{
	my ($self, $scope, $type) = @_;
	my @found;
	for my $rel (@$scope)
	{
		push @found, map { "$rel->{alias}.$_" } grep { $rel->{columns}{$_} eq $type } sort keys %{ $rel->{columns} };
	}
	return @found;
}

sub constant
{
	my ($self, $type) = @_;
	return $self->pick(12) ? $self->between(-5, 250) : $self->between(0, 3000) if $type eq 'int';
	return $self->between(0, 99999) . '::bigint' if $type eq 'big';
	return $self->between(0, 1000) . '.' . $self->one('0', '125', '5', '875') if $type eq 'num';
	return $self->one('true', 'false', 'NULL::bool') if $type eq 'bool';
	return "'" . $self->one('t3', 't30', 't99', 't', 'g1', 'abc', '') . "'";
}

sub expr
{
	my ($self, $type, $scope, $depth) = @_;
	my @columns = $self->columns_of_type($scope, $type);
	return $self->condition($scope, $depth - 1) if $type eq 'bool' && $depth > 0 && $self->chance(40);
	if ($depth <= 0 || $self->chance(45))
	{
		return $self->one(@columns) if @columns && $self->chance(85);
		return $self->constant($type);
	}
	my $d = $depth - 1;
	my $case = sub { 'CASE WHEN ' . $self->condition($scope, $d) . ' THEN ' . $self->expr($type, $scope, $d) . ' ELSE ' . $self->expr($type, $scope, $d) . ' END' };
	my $coalesce = sub { 'coalesce(' . $self->expr($type, $scope, $d) . ', ' . $self->constant($type) . ')' };
	my $sub = sub { $self->scalar_subquery($type, $scope, $d) };
	my %more = (
		int => [
			sub { '(' . $self->expr('int', $scope, $d) . $self->one(' + ', ' - ') . $self->expr('int', $scope, $d) . ')' },
			sub { $self->expr('int', $scope, 0) . ' % ' . $self->between(2, 60) },
			sub { 'length(' . $self->expr('text', $scope, $d) . ')' },
			sub { 'abs(' . $self->expr('int', $scope, $d) . ')' },
			sub { $self->one('f_safe', 'f_restricted', 'f_unsafe', 'f_safe') . '(' . $self->expr('int', $scope, 0) . ')' } ],
		big => [ sub { '(' . $self->expr('big', $scope, $d) . ' + ' . $self->expr('int', $scope, 0) . ')' }, sub { $self->expr('big', $scope, 0) . ' % 97' } ],
		num => [ sub { 'round(' . $self->expr('num', $scope, $d) . ', 1)' }, sub { '(' . $self->expr('num', $scope, 0) . ' + ' . $self->expr('int', $scope, 0) . ')' } ],
		text => [
			sub { 'upper(' . $self->expr('text', $scope, $d) . ')' },
			sub { 'substr(' . $self->expr('text', $scope, $d) . ', ' . $self->between(1, 3) . ', ' . $self->between(1, 5) . ')' },
			sub { '(' . $self->expr('text', $scope, $d) . " || '" . $self->one('x', '-', '') . "')" },
			sub { 'md5(' . $self->expr('text', $scope, $d) . ')' },
			sub { '(' . $self->expr('int', $scope, $d) . ')::text' } ],
		bool => [ sub { $self->condition($scope, $d) } ]);
	my @ways = (@{ $more{$type} }, @{ $more{$type} }, $case, $coalesce);
	push @ways, $sub if $self->{budget} > 0 && $type ne 'bool';
	return $self->one(@ways)->();
}

sub condition
{
	my ($self, $scope, $depth) = @_;
	my $d = $depth - 1;
	my $compare = sub {
		my $type = $self->one('int', 'int', 'int', 'big', 'text', 'num');
		return $self->expr($type, $scope, $d) . ' ' . $self->one('=', '<', '>', '<=', '>=', '<>', 'IS DISTINCT FROM') . ' ' . $self->expr($type, $scope, $d);
	};
	return $compare->() if $depth <= 0;
	my @ways = (
		$compare, $compare, $compare,
		sub { $self->expr($self->one('int', 'text', 'num', 'bool'), $scope, 0) . ' IS ' . $self->one('NULL', 'NOT NULL') },
		sub { $self->expr('int', $scope, 0) . ' BETWEEN ' . $self->constant('int') . ' AND ' . $self->constant('int') },
		sub { $self->expr('int', $scope, 0) . ' IN (' . join(', ', map { $self->constant('int') } 1 .. $self->between(2, 12)) . ')' },
		sub { $self->expr('text', $scope, 0) . " LIKE '" . $self->one('t1%', '%5', '%a%', 't_', '%') . "'" },
		sub { '(' . $self->condition($scope, $d) . ' AND ' . $self->condition($scope, $d) . ')' },
		sub { '(' . $self->condition($scope, $d) . ' OR ' . $self->condition($scope, $d) . ')' },
		sub { 'NOT (' . $self->condition($scope, $d) . ')' },
		sub { '(' . $self->expr('bool', $scope, $d) . ')' });
	if ($self->{budget} > 0)
	{
		push @ways, (sub { $self->exists_subquery($scope, $d) }) x 2, (sub { $self->in_subquery($scope, $d) }) x 2;
	}
	return $self->one(@ways)->();
}

# ---- Subqueries -------------------------------------------------------------

sub scalar_subquery
{
	my ($self, $type, $scope, $depth) = @_;
	$self->{budget}--;
	my $inner = $self->relation(0);
	my $where = $self->subquery_where($inner, $scope, $depth);
	# as it is stored, out of line if it is long
	return '(SELECT ' . $self->expr($type, [$inner], 0) . " FROM $inner->{sql}$where ORDER BY 1" . $self->one('', ' DESC') . ' LIMIT 1)'
	  if $type ne 'bool' && $self->chance(35);
	my $value = $type eq 'bool' ? 'bool_or(' . $self->expr('bool', [$inner], 0) . ')' : $self->one('min', 'max') . '(' . $self->expr($type, [$inner], 1) . ')';
	return "(SELECT $value FROM $inner->{sql}$where)";
}

# A subquery may look at the query around it, mostly by an equality.
sub subquery_where
{
	my ($self, $inner, $scope, $depth) = @_;
	my @conditions;
	my @outer = $self->columns_of_type($scope, 'int');
	push @conditions, $self->one($self->columns_of_type([$inner], 'int')) . ' = ' . $self->one(@outer) if @outer && $self->chance(50);
	push @conditions, $self->condition([$inner], $depth > 1 ? 1 : 0) if $self->chance(60);
	return @conditions ? ' WHERE ' . join(' AND ', @conditions) : '';
}

sub exists_subquery
{
	my ($self, $scope, $depth) = @_;
	$self->{budget}--;
	my $inner = $self->relation(0);
	return $self->one('EXISTS', 'NOT EXISTS') . " (SELECT 1 FROM $inner->{sql}" . $self->subquery_where($inner, $scope, $depth) . ')';
}

sub in_subquery
{
	my ($self, $scope, $depth) = @_;
	$self->{budget}--;
	my $inner = $self->relation(0);
	my $where = $self->chance(70) ? ' WHERE ' . $self->condition([$inner], 0) : '';
	return $self->expr('int', $scope, 0) . $self->one(' IN', ' IN', ' NOT IN', ' = ANY', ' > ALL') . ' (SELECT ' . $self->expr('int', [$inner], 1) . " FROM $inner->{sql}$where)";
}

# ---- FROM -------------------------------------------------------------------

# One relation to read: a table, a CTE, a subquery, a function or VALUES.
sub relation
{
	my ($self, $depth, $lateral) = @_;
	my $alias = 'r' . ++$self->{aliases};
	my $way = $self->pick(100);
	if ($depth > 0 && $way < 22 && $self->{budget} > 0)
	{
		$self->{budget}--;
		my ($sql, $columns) = $self->simple_select($depth - 1, $lateral);
		return { alias => $alias, sql => ($lateral ? 'LATERAL ' : '') . "($sql) $alias", columns => $columns, lateral => $lateral };
	}
	if ($way < 30 && @{ $self->{ctes} })
	{
		my $cte = $self->one(@{ $self->{ctes} });
		return { alias => $alias, sql => "$cte->{name} $alias", columns => $cte->{columns} };
	}
	if ($way < 34)
	{
		my $to = $self->between(1, 300);
		return { alias => $alias, sql => "generate_series(1, $to) $alias (id)", columns => { id => 'int' } };
	}
	my @pool = $self->chance(80) ? @{ $self->{temp} } : @{ $self->{all} };
	my $table = $self->one(@pool);
	my $only = $self->chance(8) && !$self->{partitioned}{$table} ? 'ONLY ' : '';
	return { alias => $alias, sql => "$only$table $alias", columns => {%TYPE} };
}

# FROM clause with up to four relations.  Returns its text and the scope.
sub from_clause
{
	my ($self, $depth, $outer) = @_;
	my $count = $self->one(1, 1, 1, 2, 2, 2, 3, 3, 4);
	$count = 2 if $depth <= 0 && $count > 2;
	my $first = $self->relation($depth);
	my ($text, @scope) = ($first->{sql}, $first);
	for my $i (2 .. $count)
	{
		my $lateral = $self->chance(15) ? \@scope : undef;
		my $next = $self->relation($depth, $lateral);
		my $kind = $self->one('JOIN', 'JOIN', 'JOIN', 'LEFT JOIN', 'LEFT JOIN', 'RIGHT JOIN', 'FULL JOIN');
		$kind = 'LEFT JOIN' if $next->{lateral} && $kind =~ /RIGHT|FULL/;
		my $left = $self->one(@scope);
		my ($x, $y) = ($self->join_column($left), $self->join_column($next));
		my $on = "$x = $y";
		$on .= ' AND ' . $self->condition($kind eq 'FULL JOIN' ? [$next] : [ @scope, $next ], 0) if $kind ne 'FULL JOIN' && $self->chance(30);
		$text .= " $kind $next->{sql} ON $on";
		push @scope, $next;
	}
	return ($text, \@scope);
}

# Join on id, nearly unique, and sometimes on something coarser.
sub join_column
{
	my ($self, $rel) = @_;
	my @int = $self->columns_of_type([$rel], 'int');
	return $self->constant('int') unless @int;
	my ($id) = grep { /\.id$/ } @int;
	return $id if $id && $self->chance(85);
	return $self->one(@int);
}

# ---- Queries ----------------------------------------------------------------

# A query whose columns have names and types: what a subquery or a CTE can be.
sub simple_select
{
	my ($self, $depth, $outer) = @_;
	my ($from, $scope) = $self->from_clause($depth, $outer);
	my @types = ('int', map { $self->one('int', 'big', 'text', 'num', 'bool', 'int') } 1 .. $self->between(0, 3));
	my $where = $self->chance(70) ? ' WHERE ' . $self->condition([ @$scope, $outer && $self->chance(70) ? @$outer : () ], 1) : '';
	my (%columns, @select);
	my $aggregate = $self->chance(25);
	my $n = 0;
	my @groups;
	for my $type (@types)
	{
		my $name = $n ? "x$n" : 'id';
		$columns{$name} = $type;
		if ($aggregate && $n)
		{
			my $e = $self->expr($type, $scope, 1);
			push @select, ($type eq 'bool' ? "bool_and($e)" : $self->one('min', 'max') . "($e)") . " AS $name";
		}
		else
		{
			push @select, '(' . ($aggregate ? $self->one($self->columns_of_type($scope, 'int'), '7 + 0') : $self->expr($type, $scope, 1)) . ")::$SQLTYPE{$type} AS $name";
			push @groups, scalar @select if $aggregate;
		}
		$n++;
	}
	my $sql = 'SELECT ' . (!$aggregate && $self->chance(12) ? 'DISTINCT ' : '') . join(', ', @select) . " FROM $from$where";
	$sql .= ' GROUP BY ' . join(', ', @groups) if $aggregate;
	$sql .= ' ORDER BY ' . join(', ', 1 .. @types) . ($self->chance(70) ? ' LIMIT ' . $self->between(1, 400) : '') . ($self->chance(20) ? ' OFFSET ' . $self->between(0, 30) : '') if $self->chance(22);
	return ($sql, \%columns);
}

sub aggregate_call
{
	my ($self, $scope) = @_;
	my $filter = $self->chance(15) ? ' FILTER (WHERE ' . $self->condition($scope, 0) . ')' : '';
	return $self->one(
		sub { 'count(*)' . $filter },
		sub { 'count(' . $self->expr($self->one('int', 'text', 'bool', 'num'), $scope, 1) . ')' . $filter },
		sub { 'sum(' . $self->expr($self->one('int', 'big', 'num'), $scope, 1) . ')' . $filter },
		sub { 'avg(' . $self->expr('int', $scope, 0) . ')' },
		sub { $self->one('min', 'max') . '(' . $self->expr($self->one('int', 'big', 'num', 'text'), $scope, 1) . ')' . $filter },
		sub { 'count(DISTINCT ' . $self->expr($self->one('int', 'text', 'num'), $scope, 0) . ')' },
		sub { $self->one('bool_and', 'bool_or') . '(' . $self->expr('bool', $scope, 1) . ')' },
		sub { $self->one('bit_or', 'bit_and') . '(' . $self->expr('int', $scope, 0) . ')' },
		sub { my $e = $self->expr('text', $scope, 1); "md5(string_agg($e, ',' ORDER BY $e))" },
		sub { my $e = $self->expr('int', $scope, 0); "md5(array_agg($e ORDER BY $e)::text)" })->();
}

# The body of a whole query (no WITH), of any shape.
sub body
{
	my ($self, $depth) = @_;
	my ($from, $scope) = $self->from_clause($depth);
	my $where = $self->chance(75) ? ' WHERE ' . $self->condition($scope, 2) : '';
	my $shape = $self->pick(100);
	if ($shape < 35)
	{
		my @keys = map { $self->expr($self->one('int', 'int', 'text', 'bool', 'num'), $scope, 1) } 1 .. $self->between(0, 2);
		my @aggregates = map { $self->aggregate_call($scope) } 1 .. $self->between(1, 4);
		my $sql = 'SELECT ' . join(', ', @keys, @aggregates) . " FROM $from$where";
		if (@keys)
		{
			my $list = join ', ', 1 .. @keys;
			$sql .= ' GROUP BY ' . ($self->chance(12) ? $self->one('ROLLUP', 'CUBE') . ' (' . join(', ', map { "($_)" } @keys) . ')' : $list);
			$sql .= ' HAVING count(*) > ' . $self->between(0, 10) if $self->chance(25);
		}
		return $sql;
	}
	if ($shape < 48)
	{
		my $key = $self->expr($self->one('int', 'text'), $scope, 0);
		my $order = $self->expr($self->one('int', 'num'), $scope, 0);
		my $call = $self->one("rank() OVER w", "dense_rank() OVER w", 'count(*) OVER w', 'sum(' . $self->expr('int', $scope, 0) . ') OVER w', 'max(' . $self->expr('text', $scope, 0) . ') OVER w');
		return "SELECT $key, $call, " . $self->expr('int', $scope, 1) . " FROM $from$where WINDOW w AS (PARTITION BY $key ORDER BY $order)";
	}
	if ($shape < 58)
	{
		my ($left, $right) = map { 'SELECT (' . $self->expr('int', $_->[1], 1) . ')::int, (' . $self->expr('text', $_->[1], 1) . ")::text FROM $_->[0]" . ($self->chance(60) ? ' WHERE ' . $self->condition($_->[1], 1) : '') } ([ $from, $scope ], [ $self->from_clause(0) ]);
		return "$left " . $self->one('UNION ALL', 'UNION ALL', 'UNION', 'INTERSECT', 'EXCEPT', 'INTERSECT ALL', 'EXCEPT ALL') . " $right";
	}
	my @list = map { $self->expr($self->one('int', 'big', 'text', 'num', 'bool'), $scope, 2) } 1 .. $self->between(1, 4);
	push @list, $scope->[0]{alias} . ($self->chance(50) ? '' : '.*') if $self->chance(8) && $scope->[0]{columns}{big};
	my $sql = 'SELECT ' . ($self->chance(15) ? 'DISTINCT ' : '') . join(', ', @list) . " FROM $from$where";
	$sql .= ' ORDER BY ' . join(', ', map { "$_" . ($self->chance(30) ? ' DESC' : '') } 1 .. @list) . ($self->chance(60) ? ' LIMIT ' . $self->between(1, 300) : '') if $self->chance(30) && $sql !~ /^SELECT.*\br\d+\.\*/;
	return $sql;
}

# A query whose columns have different names.
sub named_query
{
	my $self = shift;
	$self->{aliases} = 0;
	$self->{budget} = $self->between(0, 3);
	$self->{ctes} = [];
	return ($self->simple_select(2))[0];
}

# A whole query; one with many rows is folded into a count and a checksum.
sub query
{
	my $self = shift;
	$self->{aliases} = 0;
	$self->{budget} = $self->between(0, 4);
	$self->{ctes} = [];
	my @with;
	if ($self->chance(20))
	{
		for my $i (1 .. $self->between(1, 2))
		{
			my ($sql, $columns) = $self->simple_select(1);
			push @with, "c$i AS " . $self->one('', '', 'MATERIALIZED ', 'NOT MATERIALIZED ') . "($sql)";
			push @{ $self->{ctes} }, { name => "c$i", columns => $columns };
		}
	}
	my $sql = $self->body(2);
	$sql = "SELECT count(*), md5(string_agg(z::text, '|' ORDER BY z::text COLLATE \"C\")) FROM ($sql) z" if $self->chance(60) && $sql !~ /\.\* FROM|\.\*,/;
	$sql = 'WITH ' . join(', ', @with) . " $sql" if @with;
	return $sql;
}

# ---- Changes ----------------------------------------------------------------

sub change
{
	my ($self, $state) = @_;
	my $table = $self->one(@{ $self->{temp} });
	my $plain = $self->{partitioned}{$table} ? 0 : 1;
	my $some = 'id % ' . $self->between(2, 20) . ' = ' . $self->pick(2);
	my @ways = (
		(sub { $self->insert_rows($table, $self->between(1, 4000), $self->one(1, 5, 100, 600)) }) x 4,
		(sub { "UPDATE $table SET a = a + 1 WHERE $some;\n" }) x 3,
		sub { "UPDATE $table SET t = t || ' grown ' || id, n = n + 1 WHERE $some;\n" },
		sub { "UPDATE $table SET id = id + 1, f = NOT f WHERE $some;\n" },
		sub { "UPDATE $table SET big = repeat(md5(id::text), 130) WHERE id % 50 = 1;\n" },
		sub { "UPDATE $table SET b = NULL;\n" },
		(sub { "DELETE FROM $table WHERE $some;\n" }) x 3,
		sub { "DELETE FROM $table WHERE id > " . $self->between(500, 3000) . ";\n" },
		sub { "DELETE FROM $table x USING " . $self->one(@{ $self->{all} }) . " y WHERE x.id = y.id AND y.a < 20;\n" },
		sub { 'SELECT count(*) FROM (SELECT 1 FROM ' . $table . " WHERE $some FOR " . $self->one('KEY SHARE', 'SHARE', 'NO KEY UPDATE', 'UPDATE') . ") x;\n" },
		sub { "INSERT INTO $table (" . join(', ', @COLUMNS) . ') SELECT ' . join(', ', @COLUMNS) . ' FROM ' . $self->one(@{ $self->{all} }) . " WHERE id % 7 = 0 ORDER BY id LIMIT 400;\n" });
	push @ways, sub { "TRUNCATE $table;\n" . ($self->chance(70) ? $self->insert_rows($table, 1, $self->between(1, 1500)) : '') };
	push @ways, sub { "CREATE INDEX ON $table (" . $self->one('id', 'a', 'id, a', 'b', 't', 'c') . ");\n" };
	push @ways, sub { "ALTER TABLE $table ADD COLUMN more" . ++$self->{added} . ' ' . $self->one("int DEFAULT 3", "text DEFAULT 'm'", 'int') . ";\n" };
	push @ways, sub { "ALTER TABLE $table ALTER c TYPE bigint USING c + 1;\n" } if $plain && $self->chance(50);
	push @ways, sub { "ANALYZE $table;\n" };
	if ($state->{open})
	{
		# A cursor that is left open keeps a page pinned.
		my $cursor = 'cur' . ++$state->{cursors};
		push @ways, (sub { "DECLARE $cursor CURSOR FOR SELECT id, a FROM $table WHERE $some;\nFETCH 3 $cursor;\n" }) x 2;
		push @ways, sub { 'FETCH 2 cur' . $self->between(1, $state->{cursors} - 1) . ";\n" } if $state->{cursors} > 1;
	}
	push @ways, sub { "DO \$\$BEGIN FOR i IN 1 .. 5 LOOP BEGIN UPDATE $table SET a = a + i WHERE id % 10 = i; IF i % 2 = 0 THEN RAISE EXCEPTION 'undo'; END IF; EXCEPTION WHEN raise_exception THEN NULL; END; END LOOP; END\$\$;\n" };
	if (!$state->{open})
	{
		push @ways, sub { $self->one('VACUUM', 'VACUUM FULL', 'VACUUM (FREEZE)') . " $table;\n" };
		push @ways, sub { "CREATE INDEX IF NOT EXISTS ${table}_cl ON $table (id); CLUSTER $table USING ${table}_cl;\n" } if $plain;
	}
	return $self->one(@ways)->();
}

# Begin, end, savepoints.
sub step_transaction
{
	my ($self, $state) = @_;
	if (!$state->{open})
	{
		return '' unless $self->chance(25);
		$state->{open} = 1;
		$state->{savepoints} = [];
		$state->{cursors} = 0;
		return 'BEGIN' . $self->one('', '', '', ' ISOLATION LEVEL REPEATABLE READ', ' ISOLATION LEVEL SERIALIZABLE') . ";\n";
	}
	if ($self->chance(12))
	{
		$state->{open} = 0;
		return $self->one('COMMIT', 'COMMIT', 'ROLLBACK') . ";\n";
	}
	if ($self->chance(30))
	{
		my $name = 's' . ++$state->{count};
		push @{ $state->{savepoints} }, $name;
		return "SAVEPOINT $name;\n";
	}
	if (@{ $state->{savepoints} } && $self->chance(35))
	{
		my $i = $self->pick(scalar @{ $state->{savepoints} });
		my $name = $state->{savepoints}[$i];
		if ($self->chance(60))
		{
			splice @{ $state->{savepoints} }, $i + 1;
			return "ROLLBACK TO $name;\n";
		}
		splice @{ $state->{savepoints} }, $i;
		return "RELEASE $name;\n";
	}
	return '';
}

# ---- Sessions ---------------------------------------------------------------

# Units of one session with that many queries.  Permanent objects live in a schema
# of the given name.
sub episode
{
	my ($self, $schema, $queries) = @_;
	my @units;
	my $run = sub { push @units, { kind => 'run', text => $_[0], keep => $_[1] } };
	$self->{big} = $self->chance(40);
	$self->{partitioned} = {};

	my $settings = 'SET temp_buffers = ' . $self->one(100, 128, 256, 1024, 1024) . ";\n";
	$settings .= "SET max_parallel_workers_per_gather = " . $self->between(1, 4) . ";\n";
	$settings .= "SET parallel_leader_participation = off;\n" if $self->chance(30);
	$settings .= "SET parallel_temp.fast_load = off;\n" if $self->chance(30);
	$settings .= "SET parallel_temp.enabled = off;\n" if $self->chance(25);
	$settings .= "SET work_mem = '64kB';\n" if $self->chance(20);
	for my $toggle (qw(enable_hashjoin enable_mergejoin enable_nestloop enable_hashagg enable_sort enable_material enable_memoize enable_indexscan enable_bitmapscan enable_parallel_hash enable_parallel_append))
	{
		$settings .= "SET $toggle = off;\n" if $self->chance(9);
	}
	for my $toggle (qw(enable_partitionwise_join enable_partitionwise_aggregate))
	{
		$settings .= "SET $toggle = on;\n" if $self->chance(40);
	}
	$settings .= "SET random_page_cost = 1;\n" if $self->chance(30);
	$settings .= "SET $self->{force_parallel} = on;\n" if $self->{force_parallel} && $self->chance(20);
	$run->("DROP SCHEMA IF EXISTS $schema CASCADE; CREATE SCHEMA $schema; SET search_path = pg_temp, $schema, public;\n", 1);
	$run->($settings, 1);
	$run->(<<"END", 1);
CREATE FUNCTION $schema.f_safe(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS 'BEGIN RETURN i + 1; END';
CREATE FUNCTION $schema.f_restricted(i int) RETURNS int LANGUAGE plpgsql STABLE PARALLEL RESTRICTED AS 'BEGIN RETURN i * 2; END';
CREATE FUNCTION $schema.f_unsafe(i int) RETURNS int LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS 'BEGIN RETURN i - 1; END';
END
	my @temp = map { "t$_" } 1 .. $self->between(1, 3);
	$run->($self->plain_table($_, 1), 1) for @temp;
	if ($self->chance(50))
	{
		push @temp, 'pt';
		$self->{partitioned}{pt} = 1;
		$run->($self->partitioned_table('pt'), 1);
	}
	if ($self->chance(35))
	{
		push @temp, 'ih';
		$run->($self->inherited_table('ih'), 1);
	}
	my @permanent = map { "$schema.p$_" } 1 .. $self->between(1, 2);
	$run->($self->plain_table($_, 0), 1) for @permanent;
	$self->{temp} = \@temp;
	$self->{all} = [ @temp, @permanent ];
	$run->('CREATE INDEX ON ' . $self->one(@temp) . ' (' . $self->one('id', 'a', 'id, b', 't') . ");\n") for 1 .. $self->between(0, 3);
	$run->("ANALYZE $_;\n") for grep { $self->chance(60) } @temp, @permanent;
	my $prepared = $self->chance(40) ? $self->between(1, 2) : 0;
	if ($prepared)
	{
		$run->("SET plan_cache_mode = force_generic_plan;\n", 1);
		$run->("PREPARE q$_ AS " . $self->query . ";\n", 1) for 1 .. $prepared;
	}

	# Values as they are stored, in variables of functions.
	my @by_value = map { [ $self->one(@temp), "by_value$_" ] } 1 .. 2;
	for my $function (@by_value)
	{
		my ($table, $name) = @$function;
		$run->(<<"END", 1);
CREATE FUNCTION $schema.$name(v text, r record) RETURNS SETOF bigint LANGUAGE plpgsql AS \$\$
DECLARE w text := v; s record;
BEGIN
	RETURN QUERY SELECT count(*) FROM $table WHERE big >= v;
	SELECT r.* INTO s;
	RETURN QUERY SELECT count(*) + sum(length(w)) FROM $table WHERE t < w OR big IS NOT DISTINCT FROM s.big OR id = s.id;
	RETURN QUERY SELECT sum(x.a) FROM $table x WHERE x.big < (SELECT max(w || y.t) FROM $table y WHERE y.big > w) OR v = w;
END\$\$;
END
	}

	my $state = { open => 0, savepoints => [], count => 0 };
	while ($queries > 0)
	{
		my $step = $self->step_transaction($state);
		$run->($step) if $step ne '';
		$run->($self->change($state)) if $self->chance(65);
		my $text;
		if ($prepared && $self->chance(20)) { $text = 'EXECUTE q' . $self->between(1, $prepared) . ";\n"; }
		elsif ($self->chance(8))
		{
			my ($table, $name) = @{ $self->one(@by_value) };
			my $from = $self->one(@temp);
			$text = ($self->chance(50) ? '' : "SET plan_cache_mode = force_generic_plan;\n") . "SELECT x FROM (SELECT big, id FROM $from ORDER BY length(big) DESC NULLS LAST, big, id LIMIT 3) q, LATERAL $schema.$name(big, q) x;\n";
		}
		elsif ($self->chance(7)) { $text = 'CREATE TEMP TABLE made AS ' . $self->named_query . ";\nSELECT count(*), md5(string_agg(x::text, '|' ORDER BY x::text COLLATE \"C\")) FROM made x;\nDROP TABLE made;\n"; }
		else { $text = $self->query . ";\n"; }
		push @units, { kind => 'same', text => $text };
		$queries--;
		push @units, { kind => 'zero', text => "SELECT count(*) FROM public.pg_local_buffers WHERE pins <> 0;\n" } if !$state->{open} && $self->chance(20);
	}
	$run->("ROLLBACK;\n", 1);
	push @units, { kind => 'zero', text => "SELECT count(*) FROM public.pg_local_buffers WHERE pins <> 0;\n" };
	return @units;
}

1;
