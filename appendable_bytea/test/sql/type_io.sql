--
-- Input, output and casts: outside, the type is bytea.
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;

-- both formats are read, whatever bytea_output says
SELECT '\x00FF5c'::appendable_bytea, '\x 00 ff 5c '::appendable_bytea, ''::appendable_bytea, '\x'::appendable_bytea;
SELECT 'plain'::appendable_bytea = '\x706c61696e'::appendable_bytea AS same,
	'a\\b\000\377'::appendable_bytea = '\x615c6200ff'::appendable_bytea AS escaped;
SET bytea_output = escape;
SELECT '\x00207e7f80ff5c'::appendable_bytea, ''::appendable_bytea;
RESET bytea_output;

-- malformed literals
SELECT '\x0'::appendable_bytea;
SELECT '\xzz'::appendable_bytea;
SELECT 'one \ backslash'::appendable_bytea;
SELECT '\400'::appendable_bytea;
SELECT '\12'::appendable_bytea;

-- every byte there is comes back, in both formats
CREATE TABLE io_bytes AS
	SELECT string_agg(decode(lpad(to_hex(i), 2, '0'), 'hex'), '' ORDER BY i) AS b FROM generate_series(0, 255) i;
SELECT b::appendable_bytea::text = b::text AS out_hex, b::text::appendable_bytea = b AS in_hex FROM io_bytes;
SET bytea_output = escape;
SELECT b::appendable_bytea::text = b::text AS out_escape, b::text::appendable_bytea = b AS in_escape FROM io_bytes;
RESET bytea_output;

-- casts: bytea by assignment, to bytea by itself, nothing else without text
CREATE TABLE io_cast (id int, data appendable_bytea);
INSERT INTO io_cast SELECT 1, b FROM io_bytes;
INSERT INTO io_cast VALUES (2, 'literal'), (3, '\x01'::bytea), (4, NULL);
INSERT INTO io_cast VALUES (5, 12);
SELECT id, md5(data::bytea), pg_typeof(data), pg_typeof(data::bytea) FROM io_cast ORDER BY id;
SELECT convert_from(data, 'UTF8') FROM io_cast WHERE id = 2;
SELECT castsource::regtype, casttarget::regtype, castcontext, castmethod FROM pg_cast
WHERE 'appendable_bytea'::regtype IN (castsource, casttarget) ORDER BY 1, 2;

-- COPY, text and binary, of values of every size
CREATE TABLE io_values (id int, data appendable_bytea);
CREATE TABLE io_plain (id int, data bytea);
INSERT INTO io_plain SELECT n, (SELECT string_agg(sha256(int4send(n * 10000 + i)), '' ORDER BY i) FROM generate_series(1, n) i)
FROM unnest(ARRAY[1, 10, 15, 16, 62, 63, 64, 253, 254, 255, 1000, 4000]) n;
INSERT INTO io_plain VALUES (0, ''), (-1, NULL);
INSERT INTO io_values SELECT * FROM io_plain;
\getenv abs_builddir PG_ABS_BUILDDIR
\set file :abs_builddir '/results/type_io.data'
CREATE TABLE io_back (LIKE io_values);
COPY io_values TO :'file';
COPY io_back FROM :'file';
COPY io_values TO :'file' (FORMAT binary);
COPY io_back FROM :'file' (FORMAT binary);
-- the formats are interchangeable with bytea's
COPY io_plain TO :'file' (FORMAT binary);
COPY io_back FROM :'file' (FORMAT binary);
COPY io_values TO :'file' (FORMAT binary);
COPY io_plain FROM :'file' (FORMAT binary);
SELECT count(*) AS values, count(b.data) AS not_null, bool_and(b.data = p.data) AS equal
FROM io_back b JOIN io_values p USING (id);
SELECT count(*), count(DISTINCT data) FROM io_plain;

-- statistics hold no value of the type
ANALYZE io_values;
SELECT attname, null_frac > 0 AS nulls, avg_width > 0 AS width, n_distinct < 0 AS distinct,
	most_common_vals IS NULL AND histogram_bounds IS NULL AS no_values
FROM pg_stats WHERE tablename = 'io_values' AND attname = 'data';

DROP TABLE io_bytes, io_cast, io_values, io_plain, io_back;

-- the cap of a value's length holds wherever a value is made
SET appendable_bytea.max_size = '1MB';
CREATE TABLE io_cap (id int, data appendable_bytea);
INSERT INTO io_cap VALUES (1, convert_to(repeat('a', 1048576), 'UTF8'));
INSERT INTO io_cap VALUES (2, convert_to(repeat('a', 1048577), 'UTF8'));
UPDATE io_cap SET data = data || '\x00'::bytea;
UPDATE io_cap SET data = '\x00'::bytea || data;
UPDATE io_cap SET data = overlay(data PLACING 'ab' FROM 5 FOR 1);
UPDATE io_cap SET data = appendable_write(data, 'ab', 5, 1);
SELECT repeat('a', 1048577)::appendable_bytea IS NULL;
SELECT (repeat('61', 1048577)::bytea::appendable_bytea) IS NULL;
UPDATE io_cap SET data = overlay(data PLACING 'b' FROM 1048576);
SELECT id, length(data), get_byte(data, 1048575) FROM io_cap;
-- a value that is there stays readable under a smaller cap, and can be cut
RESET appendable_bytea.max_size;
UPDATE io_cap SET data = data || data;
SET appendable_bytea.max_size = '1MB';
SELECT id, length(data), length(data::bytea) FROM io_cap;
UPDATE io_cap SET data = data || '\x00'::bytea;
UPDATE io_cap SET data = appendable_truncate(data, 1000);
UPDATE io_cap SET data = data || '\x00'::bytea;
SELECT id, length(data), md5(data) = md5(data::bytea) AS right FROM io_cap;
SELECT count(*) FROM appendable_bytea_check('io_cap');
RESET appendable_bytea.max_size;
DROP TABLE io_cap;
