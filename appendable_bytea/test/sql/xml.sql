-- XML functions encode values of the types as they do bytea and text
SELECT NOT bool_or(setting LIKE '%--with-libxml%') AS no_xml FROM pg_config WHERE name = 'CONFIGURE' \gset
\if :no_xml
\quit
\endif
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
RESET client_min_messages;
SET xmlbinary = base64;
CREATE TABLE plain (id int PRIMARY KEY, data bytea, log text);
CREATE TABLE own (id int PRIMARY KEY, data appendable_bytea, log appendable_text);
INSERT INTO plain SELECT i, convert_to(repeat('<' || i || '>', i * i), 'UTF8'), repeat('&' || i || ' words ', i * i) FROM generate_series(1, 40) i;
INSERT INTO own SELECT * FROM plain;
SELECT xmlforest(data, log AS text), xmlelement(NAME a, xmlattributes(data AS d, log), data, log) FROM own WHERE id = 1;
SELECT count(*) AS same FROM plain p JOIN own o USING (id) WHERE xmlforest(p.data, p.log)::text = xmlforest(o.data, o.log)::text AND xmlelement(NAME a, p.data, p.log)::text = xmlelement(NAME a, o.data, o.log)::text;
CREATE VIEW forest AS SELECT id, xmlforest(data) FROM own;
SELECT pg_get_viewdef('forest') LIKE '%XMLFOREST((%data)::bytea AS data)%' AS is_cast;
SELECT * FROM forest WHERE id = 1;
PREPARE element(int) AS SELECT xmlelement(NAME e, data) FROM own WHERE id = $1;
EXECUTE element(1);
SELECT replace(table_to_xml('own', true, false, '')::text, 'own', 'plain') = table_to_xml('plain', true, false, '')::text AS same;
SELECT query_to_xml('SELECT data, log FROM own WHERE id = 1', true, true, '');
DO $$ DECLARE x xml; BEGIN
	x := query_to_xml('SELECT data FROM own WHERE id = 1', true, true, '');
	RAISE NOTICE '%', x;
	EXECUTE 'SELECT query_to_xml(''SELECT data FROM own WHERE id = 1'', true, true, '''')' INTO x;
	RAISE NOTICE '%', x;
END $$;
DROP VIEW forest;
DROP TABLE plain, own;
