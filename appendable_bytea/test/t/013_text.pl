
# appendable_text is text: random statements on a column of each, in encodings of one,
# two and up to four bytes a character, with chunks that end inside characters;
# collations; conversions, COPY, dump and restore, logical replication; and what comes
# over the wire (test/protocol.py).
# Slow: four encodings
use strict;
use warnings;
use utf8;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

$ENV{PGCLIENTENCODING} = 'UTF8';
my $node = PostgreSQL::Test::Cluster->new('text');
$node->init(allows_streaming => 'logical');
$node->append_conf('postgresql.conf', "fsync = off\nautovacuum = off\n");
$node->start;
my $dir = $node->basedir;

# Statements in UTF8 go through a file: psql's arguments would be bytes to perl.
my $scripts = 0;

sub run
{
	my ($db, $sql) = @_;
	my $file = "$dir/script" . $scripts++ . '.sql';
	open my $out, '>:encoding(UTF-8)', $file or die;
	print $out $sql;
	close $out;
	my ($stdout, $stderr) = run_command([ 'psql', '-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($db), '-f', $file ]);
	diag($stderr) if $stderr ne "" && $stderr !~ m{ERROR};
	return $stderr =~ /ERROR: +(.*)/ ? "$stdout|$1" : $stdout;
}

my $differential = q{
SET client_min_messages = warning;
CREATE EXTENSION appendable_bytea;
SET appendable_bytea.chunk_size = 64;
SET appendable_bytea.inline_max = 50;
SET appendable_bytea.tail_max = 30;
CREATE TABLE r (id int PRIMARY KEY, data appendable_text, plain text);
INSERT INTO r SELECT i, '', '' FROM generate_series(1, 4) i;
INSERT INTO r VALUES (5, NULL, NULL);
CREATE FUNCTION word(n int) RETURNS text LANGUAGE sql VOLATILE AS $$
	SELECT coalesce(string_agg(substr('@', 1 + floor(random() * length('@'))::int, 1), ''), '') FROM generate_series(1, n)
$$;
CREATE FUNCTION in_pieces(value appendable_text, n int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	t record; o bigint := 0; found text := '';
BEGIN
	LOOP
		SELECT * INTO t FROM appendable_tail(value, o, n);
		found := found || t.data;
		EXIT WHEN t.next_offset IS NOT DISTINCT FROM o OR value IS NULL;
		o := t.next_offset;
	END LOOP;
	RETURN found;
END $$;
CREATE FUNCTION is_end(part text, plain text, most int) RETURNS bool LANGUAGE sql AS $$
	SELECT right(plain, length(part)) = part AND octet_length(part) <= most AND (part = plain OR octet_length(part) > most - 4)
$$;
DO $$
DECLARE
	w text; p int; n int; one int; differ text;
BEGIN
	PERFORM setseed(0.25);
	FOR i IN 1 .. 120 LOOP
		one := 1 + floor(random() * 5)::int;
		w := word(floor(random() * 60)::int);
		p := 1 + floor(random() * 300)::int;
		n := floor(random() * 40)::int;
		CASE floor(random() * 9)::int
			WHEN 0 THEN UPDATE r SET data = w || data, plain = w || plain WHERE id = one;
			WHEN 1 THEN UPDATE r SET data = overlay(data PLACING w FROM p FOR n), plain = overlay(plain PLACING w FROM p FOR n) WHERE id = one;
			WHEN 2 THEN UPDATE r SET data = left(data, -n), plain = left(plain, -n) WHERE id = one;
			WHEN 3 THEN UPDATE r SET data = substr(data, n), plain = substr(plain, n) WHERE id = one;
			WHEN 4 THEN UPDATE r SET data = data || n || w, plain = plain || n || w WHERE id = one;
			WHEN 6 THEN UPDATE r SET data = appendable_drop_front(data, octet_length(left(plain, n))), plain = substr(plain, n + 1) WHERE id = one;
			WHEN 5 THEN UPDATE r SET data = replace(data, 'a', w), plain = replace(plain, 'a', w) WHERE id = one AND length(plain) < 2000;
			ELSE UPDATE r SET data = data || w, plain = plain || w WHERE id = one;
		END CASE;
		p := floor(random() * 2000)::int - 500;
		w := word(1 + floor(random() * 2)::int);
		SELECT string_agg(id || ':' || what, ' ') INTO differ FROM r, LATERAL (VALUES
			('value', data::text IS DISTINCT FROM plain), ('=', (data = plain) IS DISTINCT FROM (plain = plain)),
			('length', length(data) IS DISTINCT FROM length(plain)), ('char_length', char_length(data) IS DISTINCT FROM char_length(plain)),
			('octet_length', octet_length(data) IS DISTINCT FROM octet_length(plain)), ('md5', md5(data) IS DISTINCT FROM md5(plain)),
			('left', left(data, p) IS DISTINCT FROM left(plain, p)), ('right', right(data, p) IS DISTINCT FROM right(plain, p)),
			('substr', substr(data, p, n) IS DISTINCT FROM substr(plain, p, n)), ('substring', substring(data FROM p) IS DISTINCT FROM substring(plain FROM p)),
			('position', position(w IN data) IS DISTINCT FROM position(w IN plain)), ('strpos', strpos(data, w) IS DISTINCT FROM strpos(plain, w)),
			('like', (data LIKE '%' || w || '%') IS DISTINCT FROM (plain LIKE '%' || w || '%')), ('regexp', regexp_replace(data, w, 'x', 'g') IS DISTINCT FROM regexp_replace(plain, w, 'x', 'g')),
			('convert_to', convert_to(data, 'UTF8') IS DISTINCT FROM convert_to(plain, 'UTF8')), ('upper', upper(data) IS DISTINCT FROM upper(plain)),
			('reverse', reverse(data) IS DISTINCT FROM reverse(plain)), ('split_part', split_part(data, w, 2) IS DISTINCT FROM split_part(plain, w, 2)),
			('tail in pieces', in_pieces(data, 1 + n) IS DISTINCT FROM plain), ('tail from the end', NOT is_end((appendable_tail(data, -1 - n)).data, plain, 1 + n)),
			('json', to_jsonb(data) IS DISTINCT FROM to_jsonb(plain)), ('format', format('%s', data) IS DISTINCT FROM format('%s', plain)),
			('hash', appendable_text_hash(data) IS DISTINCT FROM appendable_text_hash(plain)), ('to_tsvector', to_tsvector('simple', data) IS DISTINCT FROM to_tsvector('simple', plain))
			) v(what, different) WHERE different;
		IF differ IS NOT NULL THEN
			RAISE EXCEPTION 'step % (%, %): %', i, p, n, differ;
		END IF;
		SELECT string_agg(a.id || '/' || b.id, ' ') INTO differ FROM r a, r b
			WHERE (a.data < b.data) IS DISTINCT FROM (a.plain < b.plain) OR (a.data <= b.plain) IS DISTINCT FROM (a.plain <= b.plain)
				OR (a.plain > b.data) IS DISTINCT FROM (a.plain > b.plain) OR (a.data >= b.data COLLATE "C") IS DISTINCT FROM (a.plain >= b.plain COLLATE "C")
				OR (a.data <> b.plain) IS DISTINCT FROM (a.plain <> b.plain) OR (a.data, a.id) < (b.plain, b.id) IS DISTINCT FROM ((a.plain, a.id) < (b.plain, b.id));
		IF differ IS NOT NULL THEN
			RAISE EXCEPTION 'step %: order of %', i, differ;
		END IF;
	END LOOP;
END $$;
SELECT sum(length(plain)) > 300, sum(octet_length(plain)) - sum(length(plain)) > 0, count(*) FROM r, appendable_bytea_stats('r') WHERE values_in_chunks > 0 GROUP BY values_in_chunks;
SELECT count(*) FROM appendable_bytea_check();
};

my %alphabet = (UTF8 => 'aaZé€😀ßｱ.', LATIN1 => 'aaZéßü.', EUC_JP => 'aaZあ漢字ｱ.', EUC_KR => 'aaZ한국어.');
foreach my $encoding (sort keys %alphabet)
{
	$node->safe_psql('postgres', "CREATE DATABASE d_$encoding ENCODING '$encoding' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'");
	(my $script = $differential) =~ s/\@/$alphabet{$encoding}/g;
	is(run("d_" . lc $encoding, $script), 't|' . ($encoding eq 'LATIN1' ? 'f' : 't') . "|5\n0", "$encoding: as text");
}
my $db = 'd_utf8';

# groups, sorts, joins and indexes
run($db, q{INSERT INTO r SELECT i, chr(200 + i % 7) || repeat('log', i % 3 * 50), chr(200 + i % 7) || repeat('log', i % 3 * 50) FROM generate_series(10, 60) i});
foreach my $set ('', 'SET enable_hashagg = off; SET enable_hashjoin = off; SET enable_nestloop = off', 'SET enable_sort = off; SET enable_mergejoin = off; SET enable_nestloop = off')
{
	is( run($db, qq{$set;
SELECT count(*), sum(n) FROM (SELECT data, count(*) AS n FROM r GROUP BY data) g; SELECT count(DISTINCT data) FROM r;
SELECT count(*) FROM r a JOIN r b ON a.data = b.data; SELECT count(*) FROM r a JOIN r b ON a.data = b.plain; SELECT count(*) FROM r a JOIN r b ON a.plain = b.data;
SELECT count(*) FROM (SELECT data FROM r UNION SELECT plain::appendable_text FROM r) u;
SELECT string_agg(id::text, ' ' ORDER BY data DESC, id) = string_agg(id::text, ' ' ORDER BY plain DESC, id) FROM r}),
		run($db, qq{$set;
SELECT count(*), sum(n) FROM (SELECT plain, count(*) AS n FROM r GROUP BY plain) g; SELECT count(DISTINCT plain) FROM r;
SELECT count(*) FROM r a JOIN r b ON a.plain = b.plain; SELECT count(*) FROM r a JOIN r b ON a.plain = b.plain; SELECT count(*) FROM r a JOIN r b ON a.plain = b.plain;
SELECT count(*) FROM (SELECT plain FROM r UNION SELECT plain FROM r) u; SELECT true}), "groups and joins: $set");
}
is(run($db, q{SELECT count(*) FILTER (WHERE NOT amvalidate(c.oid)), count(*) FROM pg_opclass c WHERE opcname = 'appendable_text_ops'}), '0|2', 'operator classes are whole');
like(run($db, q{CREATE INDEX ON r (data)}), qr/cannot keep values of type appendable_text/, 'no btree index on values');
is(run($db, q{CREATE INDEX ON r USING hash (data); CREATE UNIQUE INDEX ON r (id, md5(data)); SET enable_seqscan = off;
SELECT count(*) FROM r a, r b WHERE b.data = a.plain AND a.id = 20}), run($db, 'SELECT count(*) FROM r a, r b WHERE b.plain = a.plain AND a.id = 20'), 'a hash index');

# collations: of the database, of the column, of the expression
is(run($db, q{CREATE TABLE c (data appendable_text COLLATE "POSIX", plain text COLLATE "POSIX"); INSERT INTO c VALUES ('b', 'b'), ('A', 'A'), ('a', 'a'), ('É', 'É');
SELECT string_agg(data, '' ORDER BY data) = string_agg(plain, '' ORDER BY plain), collation for (data) = collation for (plain) FROM c WHERE true GROUP BY 2 LIMIT 1}), 't|t', 'collation of a column');
like(run($db, q{CREATE TABLE x (a appendable_text COLLATE "C", b appendable_text COLLATE "POSIX"); INSERT INTO x VALUES ('a', 'b'); SELECT * FROM x WHERE a < b}), qr/could not determine which collation to use/, 'collations that conflict');
SKIP:
{
	my ($status) = $node->psql($db, q{CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false)});
	skip 'no ICU', 1 if $status != 0;
	my $sql = q{CREATE TABLE f_@ (id int, data @ COLLATE folded); INSERT INTO f_@ SELECT i, (ARRAY['Log', 'log', 'LOG', 'é', 'É', 'z'])[1 + i % 6] || repeat('Xy', i % 2 * 400) FROM generate_series(1, 24) i;
SELECT count(*), md5(string_agg(n::text, ' ' ORDER BY n)) FROM (SELECT data, count(*) AS n FROM f_@ GROUP BY data) g; SELECT count(*) FROM f_@ a JOIN f_@ b USING (data);
SET enable_hashjoin = off; SELECT count(*) FROM f_@ a JOIN f_@ b ON a.data = b.data::text; SELECT count(*) FROM f_@ WHERE data = 'LOG'; SELECT count(*) FROM f_@ WHERE data < 'LOH'};
	is(run($db, $sql =~ s/\@/appendable_text/gr), run($db, $sql =~ s/\@/text/gr), 'a collation that finds different bytes equal');
}

# what is stored is valid in the encoding
like(run($db, q{INSERT INTO r VALUES (99, convert_from('\xc3', 'UTF8'))}), qr/invalid byte sequence/, 'half a character');
is(run('d_latin1', q{UPDATE r SET data = data || 'é' WHERE id = 1; SELECT right(data, 1) = 'é', octet_length(right(data, 1)) FROM r WHERE id = 1}), 't|1', "a client's encoding is converted");
like(run('d_latin1', q{UPDATE r SET data = data || '漢' WHERE id = 1}), qr/no equivalent in encoding/, 'a character that the database does not have');

for my $of ([ $db, 'äb' ], [ 'd_euc_jp', 'あb' ])
{
	like(run($of->[0], "SELECT appendable_drop_front('$of->[1]'::appendable_text, 1)"), qr/offset 1 is inside a character/, 'half a character is not dropped');
	is(run($of->[0], "SELECT appendable_drop_front('$of->[1]'::appendable_text, 2)"), 'b', 'but a whole one');
}

like(run($db, q{SELECT appendable_line_offset('ä'::appendable_text, 1, 1)}), qr/offset 1 is inside a character/, 'a line is not looked for from inside a character');
is(run($db, q{SELECT appendable_line_offset(E'ä\nö\nü'::appendable_text, 5, -1), appendable_line_offset(E'ä\nö\nü'::appendable_text, 0, 2)}), '3|6', 'lines of characters of several bytes');

# conversions of a column, both ways, and the call that undoes all
is( run($db, q{CREATE TABLE a (id int, data text DEFAULT 'né'); INSERT INTO a SELECT id, plain FROM r; INSERT INTO a (id) VALUES (1000); CREATE TABLE b AS TABLE a;
ALTER TABLE a ALTER data TYPE appendable_text; UPDATE a SET data = data || '€'; UPDATE b SET data = data || '€'; INSERT INTO a (id) VALUES (1001); INSERT INTO b VALUES (1001, 'né');
SELECT count(*) FILTER (WHERE a.data IS DISTINCT FROM b.data) FROM a JOIN b USING (id);
ALTER TABLE a ALTER data TYPE text; SELECT count(*) FILTER (WHERE a.data IS DISTINCT FROM b.data), bool_and(pg_typeof(a.data) = 'text'::regtype) FROM a JOIN b USING (id);
ALTER TABLE a ALTER data TYPE appendable_text; SELECT appendable_bytea_detach('a'); INSERT INTO a (id) VALUES (1002); INSERT INTO b VALUES (1002, 'né');
SELECT count(*) FILTER (WHERE a.data IS DISTINCT FROM b.data), bool_and(pg_typeof(a.data) = 'text'::regtype), count(*) > 50 FROM a JOIN b USING (id)}), "0\n0|t\n\n0|t|t", 'conversions');

# both types in one table, next to varchar and char
is( run($db, q{CREATE TABLE m (t appendable_text, b appendable_bytea, v varchar(10), c char(5)); INSERT INTO m VALUES ('é', 'e', 'é', 'é'); UPDATE m SET t = t || v || c || 'x'::varchar, b = b || '\x00';
INSERT INTO m VALUES (5, '', 'a'::char(3), NULL); INSERT INTO m (t) SELECT v FROM m; UPDATE m SET v = left(t, 3);
SELECT t, b, v, t = v, v <= t, t || 1, t LIKE v || '%', coalesce(v, t), rtrim(coalesce(c, t)), greatest(v, t), CASE WHEN true THEN t ELSE v END, t || NULL::text FROM m ORDER BY t}),
	run($db, q{CREATE TABLE n (t text, b bytea, v varchar(10), c char(5)); INSERT INTO n VALUES ('é', 'e', 'é', 'é'); UPDATE n SET t = t || v || c || 'x'::varchar, b = b || '\x00';
INSERT INTO n VALUES (5, '', 'a'::char(3), NULL); INSERT INTO n (t) SELECT v FROM n; UPDATE n SET v = left(t, 3);
SELECT t, b, v, t = v, v <= t, t || 1, t LIKE v || '%', coalesce(v, t), rtrim(coalesce(c, t)), greatest(v, t), CASE WHEN true THEN t ELSE v END, t || NULL::text FROM n ORDER BY t}), 'next to other types');
like(run($db, q{CREATE TABLE y (data appendable_text[])}), qr/has a type that contains appendable_text/, 'no arrays');
like(run($db, q{CREATE DOMAIN y AS appendable_text}), qr/appendable_text cannot be the base of a domain/, 'no domains');
like(run($db, q{ALTER TYPE appendable_text RENAME TO y}), qr/cannot rename or move an object/, 'the type stays what it is');
like(run($db, q{CREATE TABLE y (data appendable_text) PARTITION BY LIST (data)}), qr/cannot be partitioned by values of type appendable_text/, 'no partitions by value');
is( run($db, q{CREATE TABLE h (data appendable_text) PARTITION BY HASH (data); CREATE TABLE h0 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE h1 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 1); INSERT INTO h SELECT plain FROM r WHERE plain IS NOT NULL; INSERT INTO h SELECT data || 'é' FROM r WHERE data IS NOT NULL;
SELECT count(*) FILTER (WHERE n = 0) FROM (SELECT (SELECT count(*) FROM h WHERE h.data = r.plain) AS n FROM r WHERE plain IS NOT NULL) x; SELECT count(DISTINCT tableoid) FROM h}), "0\n2", 'partitions by hash');
like(run($db, 'DROP EXTENSION appendable_bytea CASCADE'), qr/cannot drop extension "appendable_bytea" together with the tables/, 'tables are not dropped with the extension');

# A collation is kept: by expressions of the type's forms, by prepared statements, by a conversion back.
is( run($db, q{CREATE VIEW own AS SELECT ('x' || data)::appendable_text AS d FROM r; CREATE TABLE own2 AS SELECT d FROM own;
	SELECT count(DISTINCT d) = (SELECT count(DISTINCT data) FROM r), count(DISTINCT o) = count(DISTINCT d) + 1 FROM own o; DROP TABLE own2; DROP VIEW own}),
	't|t', 'own forms have a collation');
is( run($db, q{CREATE TABLE k (data text COLLATE "POSIX"); INSERT INTO k VALUES ('b'), ('A'); PREPARE z AS SELECT data FROM k ORDER BY data; EXECUTE z;
	ALTER TABLE k ALTER data TYPE appendable_text COLLATE "POSIX"; EXECUTE z; CREATE TABLE k2 AS EXECUTE z; SELECT appendable_bytea_detach('k'); EXECUTE z;
	SELECT collname FROM pg_attribute a JOIN pg_collation c ON c.oid = attcollation WHERE attrelid = 'k'::regclass AND attname = 'data'; DROP TABLE k, k2}),
	"A\nb\nA\nb\n\nA\nb\nPOSIX", 'a statement stays prepared over conversions, which keep the collation');
is(run($db, 'SELECT count(*) FROM appendable_bytea_check()'), '0', 'check');

# COPY in text, CSV and binary, dump and restore
foreach my $format ('text', 'csv', 'binary')
{
	is( run($db, qq{COPY (SELECT id, data FROM r ORDER BY id) TO '$dir/copy' (FORMAT $format); CREATE TEMP TABLE i (id int, data text); COPY i FROM '$dir/copy' (FORMAT $format);
CREATE TABLE j (id int, data appendable_text); COPY j FROM '$dir/copy' (FORMAT $format);
SELECT count(*) FILTER (WHERE i.data IS DISTINCT FROM r.plain), count(*) FILTER (WHERE j.data IS DISTINCT FROM r.plain), count(*) > 50 FROM r JOIN i USING (id) JOIN j USING (id); DROP TABLE j}), '0|0|t', "COPY, $format");
}
my $want = run($db, 'SELECT id, md5(data), data = plain FROM r ORDER BY id');
command_ok([ 'pg_dump', '-Fc', '-f', "$dir/dump", $node->connstr($db) ], 'dump');
$node->safe_psql('postgres', q{CREATE DATABASE restored ENCODING 'UTF8' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'});
command_ok([ 'pg_restore', '-d', $node->connstr('restored'), "$dir/dump" ], 'restore');
is(run('restored', 'SELECT id, md5(data), data = plain FROM r ORDER BY id'), $want, 'restored');
is(run('restored', q{UPDATE r SET data = data || 'é', plain = plain || 'é'; SELECT count(*) FILTER (WHERE data <> plain) FROM r; SELECT count(*) FROM appendable_bytea_check()}), "0\n0", 'and continues');

# logical replication, into text and into appendable_text
$node->safe_psql('restored', 'CREATE PUBLICATION p FOR TABLE r');
$node->safe_psql('postgres', q{CREATE DATABASE subscriber ENCODING 'UTF8' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'});
$node->safe_psql('subscriber', 'CREATE EXTENSION appendable_bytea; CREATE TABLE r (id int PRIMARY KEY, data text, plain appendable_text)');
$node->safe_psql('restored', q{SELECT pg_create_logical_replication_slot('s', 'pgoutput')});
$node->safe_psql('subscriber', "CREATE SUBSCRIPTION s CONNECTION \$c\$" . $node->connstr('restored') . "\$c\$ PUBLICATION p WITH (create_slot = false)");
run('restored', q{UPDATE r SET data = data || repeat('é', 3000), plain = plain || repeat('é', 3000) WHERE id < 20; DELETE FROM r WHERE id = 30});
$node->poll_query_until('subscriber', q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel});
$node->wait_for_catchup('s');
is( run('subscriber', 'SELECT id, md5(plain), data = plain FROM r ORDER BY id'), run('restored', 'SELECT id, md5(data), data = plain FROM r ORDER BY id'), 'replicated');
$node->safe_psql('subscriber', 'DROP SUBSCRIPTION s');

# the wire
$node->safe_psql('postgres', 'CREATE ROLE postgres SUPERUSER LOGIN') if $node->safe_psql('postgres', q{SELECT count(*) FROM pg_roles WHERE rolname = 'postgres'}) eq '0';
$node->safe_psql('postgres', q{CREATE DATABASE wire ENCODING 'UTF8' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'});
$node->safe_psql('wire', 'CREATE EXTENSION appendable_bytea');
my ($stdout, $stderr) = run_command([ 'python3', 'test/protocol.py', $node->host, $node->port, 'texts' ]);
diag($stderr) if $stderr ne '';
my @lines = split /\n/, $stdout;
foreach my $line (@lines)
{
	$line =~ /^(not )?ok - (.*?)(?: # (.*))?$/ or next;
	ok(!$1, $2) or diag($3);
}
is($lines[-1], 'ok - and text again', 'up to the last one');
$node->stop;
done_testing();
