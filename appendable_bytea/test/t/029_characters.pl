
# The number of characters of a text in UTF8 is in its reference.  length() is that of a text after
# random changes, after those that were rolled back, and for old snapshots; the value is not read.
# A value without the number, from an earlier version, is counted as it is read.
use strict;
use warnings;
use utf8;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

$ENV{PGCLIENTENCODING} = 'UTF8';
my $node = PostgreSQL::Test::Cluster->new('characters');
$node->init(allows_streaming => 'logical', extra => [ '--encoding=UTF8', '--locale=C' ]);
$node->append_conf('postgresql.conf', "fsync = off\nautovacuum = off\nclient_min_messages = warning\nwal_level = replica\n");
$node->start;
my $dir = $node->basedir;
my $scripts = 0;

# Statements in UTF8 go through a file: psql's arguments would be bytes to perl.
sub run
{
	my ($db, $sql) = @_;
	my $file = "$dir/script" . $scripts++ . '.sql';
	open my $out, '>:encoding(UTF-8)', $file or die;
	print $out $sql;
	close $out;
	my ($stdout, $stderr) = run_command([ 'psql', '-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($db), '-f', $file ]);
	diag($stderr) if $stderr ne '';
	return $stdout;
}

# counted(): is the number in the reference?  uncounted(): the reference without it.
my $functions = q{
CREATE EXTENSION appendable_bytea;
CREATE FUNCTION raw(appendable_text) RETURNS bytea LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';
CREATE FUNCTION raw(appendable_bytea) RETURNS bytea LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';
CREATE FUNCTION forge(bytea) RETURNS appendable_text LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';
CREATE FUNCTION counted(value appendable_text) RETURNS bool LANGUAGE sql AS $$ SELECT get_byte(raw(value), 0) & 16 > 0 $$;
CREATE FUNCTION uncounted(value appendable_text) RETURNS appendable_text LANGUAGE plpgsql AS $$
DECLARE
	r bytea := raw(value);
	at int := 13;
BEGIN
	IF NOT counted(value) THEN
		RETURN value;
	END IF;
	WHILE get_byte(r, at) >= 128 LOOP
		at := at + 1;
	END LOOP;
	RETURN forge(set_byte(substr(r, 1, 1), 0, get_byte(r, 0) - 16) || substr(r, 2, 12) || substr(r, at + 2));
END $$;
CREATE FUNCTION word(n int) RETURNS text LANGUAGE sql VOLATILE AS $$
	SELECT coalesce(string_agg(substr('aaZé€😀ßｱ.', 1 + floor(random() * 9)::int, 1), ''), '') FROM generate_series(1, n)
$$;
CREATE FUNCTION blocks(statement text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT json) ' || statement INTO plan;
	RETURN (plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::int + (plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::int;
END $$;
};
run('postgres', $functions);

# Which values are counted, and what it takes to read the number.
is( run('postgres', q{
CREATE TABLE t (id int PRIMARY KEY, data appendable_text, plain text);
CREATE TABLE b (data appendable_bytea);
SET appendable_bytea.compress_new = off;
INSERT INTO t SELECT i, repeat('é€ log', 50000), repeat('é€ log', 50000) FROM generate_series(1, 3) i;
INSERT INTO b VALUES (convert_to(repeat('é€ log', 50000), 'UTF8'));
SELECT bool_and(counted(data)), bool_and(length(data) = 300000) FROM t;
SELECT get_byte(raw(data), 0) & 16 FROM b;
UPDATE t SET data = data || 'é', plain = plain || 'é' WHERE id = 1 RETURNING length(data), counted(data);
UPDATE t SET data = data || repeat('é', 3000), plain = plain || repeat('é', 3000) WHERE id = 1 RETURNING length(data), counted(data);
SELECT length(data || '😀'), counted(data || '😀') FROM t WHERE id = 1;
UPDATE t SET data = appendable_drop_front(data, 5000), plain = substr(convert_from(substr(convert_to(plain, 'UTF8'), 5001), 'UTF8'), 1) WHERE id = 1 RETURNING length(data) = length(plain), counted(data);
UPDATE t SET data = overlay(plain PLACING 'éé' FROM 200000 FOR 7), plain = overlay(plain PLACING 'éé' FROM 200000 FOR 7) WHERE id = 2 RETURNING length(data), counted(data);
INSERT INTO t VALUES (4, repeat('😀', 30000), repeat('😀', 30000));
SELECT counted(data), length(data), length(appendable_drop_front('é' || data, 2)), length(appendable_drop_front(data || 'é', 4)) FROM t WHERE id = 4;
UPDATE t SET data = repeat('é', 1000000), plain = '' WHERE id = 4;
UPDATE t SET data = appendable_drop_front(data, 1200000) WHERE id = 4 RETURNING length(data), counted(data);
DELETE FROM t WHERE id = 4;
SELECT count(*) FROM appendable_bytea_check();
}), "t|t\n0\n300001|t\n303001|t\n303002|t\nt|t\n299995|t\nt|30000|30000|30000\n400000|f\n0", 'a text is counted, also when it is changed, and bytes are not');
is( run('postgres', q{
SELECT blocks('SELECT length(data) FROM t WHERE id = 1') < 10, blocks('SELECT char_length(data) FROM t WHERE id = 2') < 10,
	blocks($$UPDATE t SET data = data || 'é' WHERE id = 3 RETURNING length(data)$$) < 40,
	blocks('SELECT md5(data) FROM t WHERE id = 3') > 50;
UPDATE t SET data = uncounted(data) WHERE id = 3;
SELECT counted(data), length(data), blocks('SELECT length(data) FROM t WHERE id = 3') > 50 FROM t WHERE id = 3;
UPDATE t SET data = data || repeat('é', 3000) WHERE id = 3 RETURNING length(data), counted(data);
CALL appendable_compact('t') \\gset
SELECT bool_and(counted(data)), string_agg(length(data)::text, ' ' ORDER BY id) = string_agg((length(plain) + CASE WHEN id = 3 THEN 3001 ELSE 0 END)::text, ' ' ORDER BY id) FROM t;
SELECT count(*) FROM appendable_bytea_check();
}), "t|t|t|t\nf|300001|t\n303001|f\nt|t\n0", 'the number takes no reading; compaction counts a value that has no number');

# What appendable_bytea_check() finds.
is( run('postgres', q{
CREATE TABLE wrong (data appendable_text);
INSERT INTO wrong VALUES (repeat('é€ log', 50000));
UPDATE wrong SET data = forge(overlay(raw(data) PLACING set_byte(substr(raw(data), 14, 1), 0, get_byte(raw(data), 13) # 1) FROM 14));
SELECT count(*), min(problem) FROM appendable_bytea_check('wrong');
UPDATE wrong SET data = forge(substr(raw(data), 1, 13) || '\\x00'::bytea || substr(raw(data), 17));
SELECT length(data) FROM wrong;
DO $$ BEGIN
	UPDATE wrong SET data = appendable_drop_front(data, 90);
EXCEPTION WHEN data_corrupted THEN
	UPDATE wrong SET data = substr(data, 11);
END $$;
SELECT length(data), md5(data::text) = md5(substr(repeat('é€ log', 50000), 11)) FROM wrong;
DROP TABLE wrong;
}), "1|the value has 150000 characters less than bytes in chunks, and its reference 133616\n450000\n299990|t", 'a wrong number is found');

# Random changes, some of them in a subtransaction that fails; an old snapshot is a cursor.
my $differential = q{
SET client_min_messages = warning;
SET appendable_bytea.chunk_size = CHUNK;
SET appendable_bytea.inline_max = 50;
SET appendable_bytea.tail_max = 30;
SET appendable_bytea.store_differences = DIFFERENCES;
CREATE TABLE r (id int PRIMARY KEY, data appendable_text, plain text);
INSERT INTO r SELECT i, '', '' FROM generate_series(1, 5) i;
CREATE TABLE gone (id int, step int, data appendable_text, plain text);
DO $$
DECLARE
	w text; p int; n int; one int; differ text; old refcursor; x record; characters int; wanted int;
BEGIN
	PERFORM setseed(0.5);
	FOR i IN 1 .. 500 LOOP
		IF i % 50 = 1 THEN
			IF i > 1 THEN CLOSE old; END IF;
			OPEN old FOR SELECT length(data) AS characters, length(plain) AS wanted FROM r, generate_series(1, 40) g ORDER BY g;
		END IF;
		one := 1 + floor(random() * 5)::int;
		w := word(floor(random() * 200)::int);
		p := 1 + floor(random() * 600)::int;
		n := floor(random() * 60)::int;
		PERFORM set_config('appendable_bytea.compress_new', CASE WHEN random() < 0.5 THEN 'on' ELSE 'off' END, true);
		PERFORM set_config('appendable_bytea.max_pieces', CASE WHEN random() < 0.5 THEN '3' ELSE '256' END, true);
		BEGIN
			CASE floor(random() * 14)::int
				WHEN 0 THEN UPDATE r SET data = w || data, plain = w || plain WHERE id = one;
				WHEN 1 THEN UPDATE r SET data = overlay(plain PLACING w FROM p FOR n), plain = overlay(plain PLACING w FROM p FOR n) WHERE id = one;
				WHEN 2 THEN UPDATE r SET data = left(plain, -n), plain = left(plain, -n) WHERE id = one;
				WHEN 3 THEN UPDATE r SET data = substr(plain, n), plain = substr(plain, n) WHERE id = one;
				WHEN 4 THEN UPDATE r SET data = appendable_drop_front(data, octet_length(left(plain, n))), plain = substr(plain, n + 1) WHERE id = one;
				WHEN 5 THEN UPDATE r SET data = replace(data, 'a', w), plain = replace(plain, 'a', w) WHERE id = one AND length(plain) < 2000;
				WHEN 6 THEN UPDATE r SET data = s.data, plain = s.plain FROM r s WHERE r.id = one AND s.id = 1 + (one + n) % 5;
				WHEN 7 THEN UPDATE r SET data = uncounted(data) WHERE id = one;
				WHEN 8 THEN UPDATE r SET data = appendable_drop_front(data || w, octet_length(left(plain, n))) || w, plain = substr(plain, n + 1) || w || w WHERE id = one AND length(plain) > n;
				WHEN 9 THEN UPDATE r SET data = word(p), plain = '' WHERE id = one; UPDATE r SET plain = data WHERE id = one;
				WHEN 10 THEN
					INSERT INTO gone SELECT id, i, data, plain FROM r WHERE id = one;
					IF n = 7 THEN UPDATE r SET data = '', plain = '' WHERE id = one; END IF;
				ELSE UPDATE r SET data = data || w, plain = plain || w WHERE id = one;
			END CASE;
			UPDATE r SET data = data || w, plain = plain || w WHERE id = one RETURNING length(data), length(plain) INTO characters, wanted;
			IF characters <> wanted THEN
				RAISE EXCEPTION USING ERRCODE = 'XX000', MESSAGE = 'RETURNING gave ' || characters || ', not ' || wanted;
			END IF;
			IF random() < 0.3 THEN
				RAISE EXCEPTION USING ERRCODE = 'ZZ001', MESSAGE = 'rolled back';
			END IF;
		EXCEPTION WHEN SQLSTATE 'ZZ001' THEN
		END;
		SELECT string_agg(id || ': ' || length(data) || ', not ' || length(plain), '; ') INTO differ FROM r WHERE length(data) <> length(plain) OR data::text <> plain;
		IF differ IS NOT NULL THEN
			RAISE EXCEPTION 'step % (%, %, %): %', i, one, p, n, differ;
		END IF;
		FETCH old INTO x;
		IF x.characters <> x.wanted THEN
			RAISE EXCEPTION 'step %: % characters in an old snapshot, not %', i, x.characters, x.wanted;
		END IF;
		IF i % 100 = 0 THEN
			SELECT string_agg(problem, '; ') INTO differ FROM appendable_bytea_check();
			IF differ IS NOT NULL THEN
				RAISE EXCEPTION 'step %: %', i, differ;
			END IF;
		END IF;
	END LOOP;
END $$;
SELECT count(*) FILTER (WHERE length(data) <> length(plain)), count(*) > 10 FROM gone;
SELECT count(*) FROM appendable_bytea_check();
SELECT count(*) FILTER (WHERE counted(data)) > 0 FROM (SELECT data FROM r UNION ALL SELECT data FROM gone) u;
VACUUM FULL gone;
ALTER TABLE r ADD COLUMN more int DEFAULT floor(random() * 10);
ALTER TABLE gone ALTER data TYPE text, ALTER plain TYPE appendable_text;
SELECT count(*) FILTER (WHERE length(data) <> length(plain)), bool_and(counted(plain) OR octet_length(plain) <= 50) FROM gone;
CALL appendable_compact('r') \\gset
UPDATE r SET data = data || 'é', plain = plain || 'é';
SELECT count(*) FILTER (WHERE length(data) <> length(plain)) FROM r;
DROP TABLE gone;
SELECT count(*) FROM appendable_bytea_check();
DROP TABLE r;
};
my $wanted = "0|t\n0\nt\n0|t\n0\n0";
foreach my $chunk (64, 1000)
{
	foreach my $differences ('on', 'off')
	{
		(my $script = $differential) =~ s/CHUNK/$chunk/;
		$script =~ s/DIFFERENCES/$differences/;
		is(run('postgres', $script), $wanted, "random changes, chunks of $chunk bytes, differences $differences");
	}
}

# The WAL of most appends of a kind.
sub wal_of_appends
{
	my ($table, $chunk) = @_;
	return run('postgres', qq{
CREATE TEMP TABLE taken (bytes numeric);
DO \$\$
DECLARE
	before pg_lsn;
BEGIN
	FOR i IN 1 .. 60 LOOP
		before := pg_current_wal_insert_lsn();
		UPDATE $table SET data = data || $chunk;
		INSERT INTO taken VALUES (pg_current_wal_insert_lsn() - before);
		COMMIT;
	END LOOP;
END \$\$;
SELECT mode() WITHIN GROUP (ORDER BY bytes) FROM taken});
}
run('postgres', q{
CREATE TABLE wb (data appendable_bytea) WITH (fillfactor = 50); CREATE TABLE wt (data appendable_text) WITH (fillfactor = 50); CREATE TABLE wu (data appendable_text) WITH (fillfactor = 50);
INSERT INTO wb VALUES (convert_to(repeat('é log', 100000), 'UTF8')); INSERT INTO wt VALUES (repeat('x log', 120000)); INSERT INTO wu VALUES (repeat('é log', 100000));
CHECKPOINT;
});
foreach my $size (50, 300)
{
	run('postgres', 'UPDATE wb SET data = data || convert_to(repeat($$é$$, 300), $$UTF8$$); UPDATE wt SET data = data || repeat($$x$$, 600); UPDATE wu SET data = data || repeat($$é$$, 300)');
	my $bytes = wal_of_appends('wb', "convert_to(repeat('é', $size / 2), 'UTF8')");
	my $ascii = wal_of_appends('wt', "repeat('x', $size)");
	my $utf8 = wal_of_appends('wu', "repeat('é', $size / 2)");
	note("$size bytes: $bytes $ascii $utf8 bytes of WAL");
	# records are aligned to eight bytes
	cmp_ok($ascii, '<=', $bytes, "WAL of an append of $size bytes in ASCII");
	cmp_ok($utf8, '<=', $bytes + 8, "WAL of an append of $size bytes in UTF8");
}

# Encodings of one byte a character need no number.
$node->safe_psql('postgres', q{CREATE DATABASE latin1 ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'});
run('latin1', $functions =~ s/'aaZ.*?'/'aaZ'/r);
is(run('latin1', q{CREATE TABLE t (data appendable_text); INSERT INTO t VALUES (repeat('é', 30000)); UPDATE t SET data = data || repeat('ü', 3000) RETURNING length(data), counted(data)}), '33000|f', 'LATIN1');

# Dump and restore.
command_ok([ 'pg_dump', '-Fc', '-t', 't', '-f', "$dir/dump", $node->connstr('postgres') ], 'dump');
$node->safe_psql('postgres', q{CREATE DATABASE restored TEMPLATE template0});
run('restored', $functions);
command_ok([ 'pg_restore', '-d', $node->connstr('restored'), "$dir/dump" ], 'restore');
is(run('restored', 'SELECT id, length(data), counted(data) FROM t ORDER BY id'), run('postgres', 'SELECT id, length(data), true FROM t ORDER BY id'), 'restored values are counted');
$node->stop;
done_testing();
