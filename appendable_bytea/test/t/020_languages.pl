
# Values pass through PL/Python, PL/Perl and PL/Tcl as values of bytea and text do, in
# triggers, arguments, results and statements; what would store or give anything else is
# an error.  A language that is not installed is left out.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('languages');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\nshared_preload_libraries = 'appendable_bytea'\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION appendable_bytea');

sub available
{
	my ($name) = @_;
	return $node->safe_psql('postgres', "SELECT count(*) FROM pg_available_extensions WHERE name = '$name'");
}

# what a script prints, errors included, with a database of the type's name for each type
sub both
{
	my ($script) = @_;
	my @printed;
	foreach my $own (0, 1)
	{
		my $sql = $script;
		my $bytes = $own ? 'appendable_bytea' : 'bytea';
		my $text = $own ? 'appendable_text' : 'text';
		my $transform = $own ? 'TRANSFORM FOR TYPE appendable_bytea' : '';
		$sql =~ s/BYTES/$bytes/g;
		$sql =~ s/TEXT/$text/g;
		$sql =~ s/PYTHON/$transform LANGUAGE plpython3u/g;
		my ($status, $stdout, $stderr) = $node->psql('postgres', "BEGIN; $sql ROLLBACK;", on_error_stop => 0);
		$stderr =~ s/appendable_(bytea|text)/$1/g;
		$stderr =~ s/^psql:[^ ]*: //mg;
		$stdout =~ s/appendable_(bytea|text)/$1/g;
		push @printed, "$stdout\n$stderr";
	}
	return @printed;
}

my $tables = q{
CREATE TABLE t (id int PRIMARY KEY, data BYTES, log TEXT, n int);
INSERT INTO t SELECT i, decode(md5(i::text), 'hex') || '\x00ff5c27'::bytea, 'log ''\ ' || i, 0 FROM generate_series(1, 3) i;
INSERT INTO t SELECT 4, convert_to(repeat('large', 5000), 'UTF8'), repeat('large', 5000), 0;
};
my $show = q{SELECT id, md5(data), length(data), md5(log), n FROM t ORDER BY id;};

SKIP:
{
	skip 'PL/Python is not installed', 13 unless available('plpython3u');
	$node->safe_psql('postgres', 'CREATE EXTENSION plpython3u; CREATE EXTENSION appendable_bytea_plpython3u');
	my ($plain, $own) = both($tables . q{
CREATE FUNCTION change() RETURNS trigger PYTHON AS $$
new = TD["new"]
if TD["old"] and TD["old"]["data"] is not None and not isinstance(TD["old"]["data"], bytes):
    plpy.error("not bytes")
if new["id"] == 1:
    new["data"] = b"hello\\x00'\\\\\\xff"
elif new["id"] == 2:
    new["data"] = new["data"][1:3] * 5000
    new["log"] = new["log"][:4]
elif new["id"] == 3:
    new["data"] = None
new["n"] = len(new["data"] or b"")
return "MODIFY"
$$;
CREATE TRIGGER change BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION change();
UPDATE t SET n = n + 1;
} . $show . q{
CREATE FUNCTION get(i int) RETURNS BYTES PYTHON AS $$ return plpy.execute("SELECT data FROM t WHERE id = %d" % i)[0]["data"] $$;
CREATE FUNCTION type_of(x BYTES, y TEXT) RETURNS text PYTHON AS $$ return "%s %s %s" % (type(x), len(x), type(y)) $$;
CREATE FUNCTION row_of(r t) RETURNS t PYTHON AS $$ r["data"] = r["data"] + b"!" if r["data"] else r["data"]; return r $$;
CREATE FUNCTION rows() RETURNS SETOF t PYTHON AS $$
for r in plpy.cursor("SELECT * FROM t ORDER BY id"):
    yield (r["id"], r["data"], r["log"], len(r["data"] or b""))
$$;
CREATE FUNCTION many(a BYTES[]) RETURNS BYTES[] PYTHON AS $$ return [x[::-1] for x in a] + [b"last"] $$;
CREATE FUNCTION put(i int, x BYTES) RETURNS void PYTHON AS $$
plan = plpy.prepare("UPDATE t SET data = $1 WHERE id = $2", ["BYTES", "int"])
plpy.execute(plan, [x + b"put", i])
plpy.execute(plan, [bytearray(b"more"), 3])
$$;
SELECT md5(get(id)) FROM t ORDER BY id;
SELECT type_of(data, log) FROM t WHERE id IN (1, 4) ORDER BY id;
SELECT md5((row_of(t)).data) FROM t ORDER BY id;
SELECT id, md5(data), md5(log), n FROM rows();
SELECT many(ARRAY[data, data]::BYTES[]) FROM t WHERE id = 1;
DROP TRIGGER change ON t;
SELECT put(id, data) FROM t WHERE id = 1;
} . $show . q{
CREATE FUNCTION bad(kind text) RETURNS BYTES PYTHON AS $$ return {"text": "abc", "none": None, "list": [1, 2, 3]}[kind] $$;
SELECT bad('list');
SELECT bad('none') IS NULL;
SELECT bad('text');
});
	is($own, $plain, 'PL/Python: with the transform a value is bytes everywhere');
	like($plain, qr{<class 'bytes'> 9}, '... and the statements ran');
	# the same functions without the transform
	foreach my $body (
		'TD["new"]["data"] = b"hello"; return "MODIFY"',
		'TD["new"]["n"] = 1; return "MODIFY"')
	{
		my ($status, $stdout, $stderr) = $node->psql('postgres', 'BEGIN; ' . ($tables =~ s/BYTES/appendable_bytea/r =~ s/TEXT/appendable_text/r) . "
CREATE FUNCTION change() RETURNS trigger LANGUAGE plpython3u AS \$\$ $body \$\$;
CREATE TRIGGER change BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION change();
UPDATE t SET n = n;");
		like($stderr, qr{PL/Python function cannot convert a value of type appendable_bytea without a transform.*TRANSFORM FOR TYPE}s,
			"a trigger without the transform is an error: $body");
	}
	# a table with such a trigger is not converted
	my ($refused, undef, $problem) = $node->psql('postgres', q{BEGIN; CREATE TABLE c (data bytea, log text);
CREATE FUNCTION change() RETURNS trigger LANGUAGE plpython3u AS $$ return "OK" $$;
CREATE TRIGGER change BEFORE INSERT OR UPDATE ON c FOR EACH ROW EXECUTE FUNCTION change();
ALTER TABLE c ALTER log TYPE appendable_text; ALTER TABLE c ALTER data TYPE appendable_bytea;});
	like($problem, qr{type appendable_bytea because.*trigger change on table c: its PL/Python function does not declare}s, 'ALTER TYPE names such a trigger');
	is($node->safe_psql('postgres', q{BEGIN; CREATE TABLE c (data bytea);
CREATE FUNCTION change() RETURNS trigger TRANSFORM FOR TYPE appendable_bytea LANGUAGE plpython3u AS $$ TD["new"]["data"] += b"!"; return "MODIFY" $$;
CREATE TRIGGER change BEFORE INSERT OR UPDATE ON c FOR EACH ROW EXECUTE FUNCTION change();
INSERT INTO c VALUES ('a'); ALTER TABLE c ALTER data TYPE appendable_bytea; UPDATE c SET data = data || 'b'; SELECT encode(data, 'escape') FROM c;}), 'a!b!', '... and not one with the transform');
	my %results = (
		'return b"hello"' => qr{cannot convert},
		'return "hello"' => qr{cannot convert},
		'return bytearray(b"hello")' => qr{cannot convert},
		'return "\\\\x68656c6c6f"' => qr{^hello$},
		'return plpy.execute("SELECT data FROM x")[0]["data"].hex().join(["\\\\x", ""])' => qr{^stored$},
		'return plpy.execute("SELECT convert_to(data::text, \'UTF8\')::appendable_bytea AS d FROM x")[0]["d"].hex().join(["\\\\x", ""])' => qr{^\\x73746f726564$},
		'
for r in plpy.cursor("SELECT data::text::appendable_bytea::text AS d, x::text AS r FROM x"): return r["d"]' => qr{^stored$});
	foreach my $body (sort keys %results)
	{
		my ($status, $stdout, $stderr) = $node->psql('postgres', "BEGIN; CREATE TABLE x (data appendable_bytea); INSERT INTO x VALUES ('stored');
CREATE FUNCTION f() RETURNS appendable_bytea LANGUAGE plpython3u AS \$\$$body\$\$; SELECT convert_from(f(), 'UTF8');");
		like($stdout . $stderr, $results{$body}, "a function without the transform: $body");
	}
}

SKIP:
{
	skip 'PL/Perl is not installed', 2 unless available('plperlu');
	$node->safe_psql('postgres', 'CREATE EXTENSION plperlu');
	my ($plain, $own) = both($tables . q{
CREATE FUNCTION change() RETURNS trigger LANGUAGE plperlu AS $$
	my $new = $_TD->{new};
	if ($new->{id} == 1) { $new->{data} = encode_bytea("hello\\x00'\\\\\\xff"); }
	elsif ($new->{id} == 2) { $new->{data} = encode_bytea(substr(decode_bytea($new->{data}), 1, 2) x 5000); $new->{log} = substr($new->{log}, 0, 4); }
	elsif ($new->{id} == 3) { $new->{data} = undef; }
	else { $new->{data} = 'raw text'; }
	$new->{n} = defined $new->{data} ? length($new->{data}) : -1;
	return 'MODIFY';
$$;
CREATE TRIGGER change BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION change();
UPDATE t SET n = n + 1;
} . $show . q{
CREATE FUNCTION get(int) RETURNS BYTES LANGUAGE plperlu AS $$ return spi_exec_query("SELECT data FROM t WHERE id = $_[0]")->{rows}[0]{data}; $$;
CREATE FUNCTION pass(BYTES, TEXT) RETURNS text LANGUAGE plperlu AS $$ return "@_"; $$;
CREATE FUNCTION put(int, BYTES) RETURNS void LANGUAGE plperlu AS $$
	spi_exec_prepared(spi_prepare('UPDATE t SET data = $1 WHERE id = $2', 'BYTES', 'int'), encode_bytea(decode_bytea($_[1]) . 'put'), $_[0]);
$$;
CREATE FUNCTION wrong() RETURNS BYTES LANGUAGE plperlu AS $$ return '\\x6'; $$;
SELECT md5(get(id)), md5(pass(data, log)) FROM t ORDER BY id;
DROP TRIGGER change ON t;
SELECT put(id, data) FROM t WHERE id = 1;
} . $show . q{
SELECT wrong();
});
	is($own, $plain, 'PL/Perl: a value is what bytea is');
	like($plain, qr{ERROR:.*hexadecimal}, '... and the statements ran');
}

SKIP:
{
	skip 'PL/Tcl is not installed', 2 unless available('pltclu');
	$node->safe_psql('postgres', 'CREATE EXTENSION pltclu');
	my ($plain, $own) = both($tables . q{
CREATE FUNCTION change() RETURNS trigger LANGUAGE pltclu AS $$
	switch $NEW(id) {
		1 { set NEW(data) {\x68656c6c6f00} }
		2 { set NEW(data) "\\x[string repeat [string range $NEW(data) 2 5] 5000]"; set NEW(log) [string range $NEW(log) 0 3] }
		3 { unset NEW(data) }
		default { set NEW(data) {raw text} }
	}
	set NEW(n) [array size NEW]
	return [array get NEW]
$$;
CREATE TRIGGER change BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION change();
UPDATE t SET n = n + 1;
} . $show . q{
CREATE FUNCTION get(int) RETURNS BYTES LANGUAGE pltclu AS $$ spi_exec "SELECT data FROM t WHERE id = $1"; if {[info exists data]} { return $data } else { return_null } $$;
CREATE FUNCTION pass(BYTES, TEXT) RETURNS text LANGUAGE pltclu AS $$ return "$1 $2" $$;
CREATE FUNCTION put(int, BYTES) RETURNS void LANGUAGE pltclu AS $$
	spi_execp [spi_prepare {UPDATE t SET data = $1 WHERE id = $2} {BYTES int}] [list "${2}aa" $1]
	return_null
$$;
CREATE FUNCTION wrong() RETURNS BYTES LANGUAGE pltclu AS $$ return {\x6} $$;
SELECT md5(get(id)), md5(pass(data, log)) FROM t ORDER BY id;
DROP TRIGGER change ON t;
SELECT put(id, data) FROM t WHERE id = 1;
} . $show . q{
SELECT wrong();
});
	is($own, $plain, 'PL/Tcl: a value is what bytea is');
	like($plain, qr{ERROR:.*hexadecimal}, '... and the statements ran');
}

$node->stop;
done_testing();
