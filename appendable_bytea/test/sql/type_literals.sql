-- Statements over literals and bytea mean what they mean without the extension.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
SELECT sha256('abc') = sha256('abc'::bytea) AS sha256, get_byte('abc', 0), encode('abc', 'hex'), md5('abc'), length('abc'), substr('abc', 2), position('c' IN 'abc');
SELECT sha224('') = sha224(''::bytea) AS sha224, sha384('') = sha384(''::bytea) AS sha384, sha512('') = sha512(''::bytea) AS sha512, set_byte('abc', 0, 65);
PREPARE untyped AS SELECT sha256($1) = sha256('abc'::bytea) AS same;
EXECUTE untyped('abc');
CREATE TABLE lit (a appendable_bytea, b bytea);
INSERT INTO lit VALUES ('\x01', '\x02');
SELECT pg_typeof(b || '\x01'), pg_typeof(b || b), pg_typeof(substr(b, 1)), pg_typeof(length(b)), pg_typeof(overlay(b PLACING '\x01' FROM 1)), pg_typeof(set_byte(b, 0, 1)) FROM lit;
SELECT b = '\x02' AS eq, b IN ('\x01', '\x02') AS in, b BETWEEN '\x00' AND '\x05' AS between, b LIKE '\x02' AS like, b || 'x'::text AS text FROM lit;
SELECT coalesce(a, b), coalesce(b, a), CASE WHEN a < b THEN a ELSE b END, greatest(a, b), ARRAY[a, b], ARRAY[b, a] FROM lit;
SELECT a FROM lit UNION SELECT b FROM lit ORDER BY 1;
SELECT b FROM lit UNION ALL SELECT a FROM lit ORDER BY 1;
SELECT count(*) FROM lit x JOIN lit y ON x.a <> y.b;
DROP TABLE lit;
DEALLOCATE untyped;
DROP EXTENSION appendable_bytea;
