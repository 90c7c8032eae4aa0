-- what prevents that a column gets the type, or loses it, is named before anything is changed
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
CREATE EXTENSION pg_trgm;
RESET client_min_messages;
CREATE TABLE docs (id int PRIMARY KEY, data bytea, body text UNIQUE, title text, v tsvector, half text GENERATED ALWAYS AS (left(body, 10)) STORED);
CREATE INDEX docs_trgm ON docs USING gist (body gist_trgm_ops);
CREATE INDEX docs_pattern ON docs USING hash (title text_pattern_ops);
CREATE INDEX docs_fine ON docs USING hash (body);
CREATE INDEX docs_digest ON docs (md5(body));
CREATE INDEX docs_partial ON docs (id) INCLUDE (data);
CREATE VIEW docs_view AS SELECT id, body, length(body) FROM docs;
CREATE MATERIALIZED VIEW docs_matview AS SELECT data FROM docs;
CREATE TABLE docs_rows (r docs);
CREATE DOMAIN docs_domain AS docs;
CREATE TABLE docs_refer (body text REFERENCES docs (body));
CREATE TRIGGER vectors BEFORE INSERT OR UPDATE ON docs FOR EACH ROW EXECUTE FUNCTION tsvector_update_trigger(v, 'pg_catalog.simple', title, body);
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE TRIGGER plain BEFORE UPDATE ON docs FOR EACH ROW EXECUTE FUNCTION nothing();
CREATE TRIGGER conditional BEFORE UPDATE ON docs FOR EACH ROW WHEN (NEW.body <> OLD.body) EXECUTE FUNCTION nothing();
CREATE TRIGGER columns BEFORE UPDATE OF data ON docs FOR EACH ROW EXECUTE FUNCTION nothing();
CREATE POLICY readers ON docs USING (length(body) > 0);
CREATE FUNCTION bodies() RETURNS SETOF text LANGUAGE sql BEGIN ATOMIC SELECT body FROM docs; END;
CREATE TABLE docs_child (more text) INHERITS (docs);
CREATE INDEX docs_child_body ON docs_child (body);
\set VERBOSITY terse
\set SHOW_CONTEXT never
CREATE FUNCTION problems(command text) RETURNS TABLE (problem text) LANGUAGE plpgsql AS $$
DECLARE detail text; message text; BEGIN
	EXECUTE command;
	RETURN QUERY SELECT 'done';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, message = MESSAGE_TEXT;
	RETURN QUERY SELECT message;
	RETURN QUERY SELECT * FROM string_to_table(detail, E'\n') d ORDER BY d COLLATE "C";
END $$;
SELECT * FROM problems('ALTER TABLE docs ALTER body TYPE appendable_text, ALTER data TYPE appendable_bytea');
SELECT * FROM problems('ALTER TABLE docs ALTER title TYPE appendable_text');
SELECT * FROM problems('ALTER TABLE docs_refer ALTER body TYPE appendable_text');
-- all else is the command's own
SELECT * FROM problems('ALTER TABLE docs ALTER body TYPE varchar(10)');
SELECT * FROM problems('ALTER TABLE docs ALTER nothing TYPE appendable_text');
SELECT * FROM problems('ALTER TABLE nothing ALTER body TYPE appendable_text');
CREATE ROLE ab_converts;
SET ROLE ab_converts;
SELECT * FROM problems('ALTER TABLE docs ALTER body TYPE appendable_text');
RESET ROLE;
DROP ROLE ab_converts;
DROP INDEX docs_trgm, docs_partial, docs_child_body, docs_pattern;
DROP VIEW docs_view;
DROP MATERIALIZED VIEW docs_matview;
DROP TABLE docs_rows, docs_refer;
DROP DOMAIN docs_domain;
DROP TRIGGER vectors ON docs;
DROP TRIGGER conditional ON docs;
DROP TRIGGER columns ON docs;
DROP POLICY readers ON docs;
DROP FUNCTION bodies;
ALTER TABLE docs DROP half, DROP CONSTRAINT docs_body_key;
INSERT INTO docs VALUES (1, '\x0001', 'body', 'title');
INSERT INTO docs_child VALUES (2, '\x0002', 'of the child', 'title');
SELECT * FROM problems('ALTER TABLE docs ALTER body TYPE appendable_text, ALTER data TYPE appendable_bytea, ALTER title TYPE appendable_text');
-- and back
CREATE VIEW docs_view AS SELECT id, body, length(body) FROM docs;
CREATE VIEW docs_rule AS SELECT * FROM docs_child;
ALTER TABLE docs ADD half text GENERATED ALWAYS AS (left(body, 10)) STORED;
CREATE POLICY readers ON docs USING (length(body) > 0);
CREATE TRIGGER conditional BEFORE UPDATE ON docs FOR EACH ROW WHEN (NEW.body <> OLD.body) EXECUTE FUNCTION nothing();
SELECT * FROM problems('SELECT appendable_bytea_detach(''docs'')');
DROP VIEW docs_view, docs_rule;
DROP POLICY readers ON docs;
DROP TRIGGER conditional ON docs;
ALTER TABLE docs DROP half;
SELECT * FROM problems('SELECT appendable_bytea_detach(''docs'')');
SELECT id, data, body FROM docs ORDER BY id;
DROP TABLE docs CASCADE;
-- defaults and generated columns compute the same afterwards
CREATE FUNCTION greet(name text) RETURNS appendable_text LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN 'hello ' || name; END $$;
CREATE FUNCTION name_of(id int) RETURNS text LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN 'name ' || id; END $$;
CREATE TABLE greetings (id int PRIMARY KEY, body appendable_text DEFAULT greet('bob'), called appendable_text DEFAULT name_of(1), joined appendable_text DEFAULT greet('ann') || '!',
	same appendable_text DEFAULT 'same', made appendable_text GENERATED ALWAYS AS (repeat('x', id)) STORED);
INSERT INTO greetings VALUES (3000);
SELECT appendable_bytea_detach('greetings');
SELECT a.attname, format_type(a.atttypid, NULL) AS type, pg_get_expr(d.adbin, d.adrelid) AS value
	FROM pg_attribute a JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum WHERE a.attrelid = 'greetings'::regclass ORDER BY a.attnum;
INSERT INTO greetings VALUES (3);
SELECT id, body, called, joined, same, length(made) FROM greetings ORDER BY id;
DROP TABLE greetings;
-- what would be dropped with the extension afterwards is named: here a string in an expression is of the type
CREATE TABLE uses (id int PRIMARY KEY, body appendable_text NOT NULL DEFAULT greet('bob') CHECK (length(body) > 0), made appendable_text GENERATED ALWAYS AS (('x'::appendable_text || id::text)) STORED,
	CHECK (body <> 'forbidden'), CONSTRAINT listed CHECK (body NOT IN ('x', 'y')));
CREATE INDEX uses_part ON uses (id) WHERE body <> 'z';
CREATE INDEX uses_other ON uses (id) WHERE id > 5;
CREATE TRIGGER only_appends BEFORE UPDATE ON uses FOR EACH ROW EXECUTE FUNCTION appendable_only('body');
CREATE TABLE uses_child () INHERITS (uses);
CREATE VIEW uses_view AS SELECT id, 'v'::appendable_text AS v FROM uses;
SELECT * FROM problems('SELECT appendable_bytea_detach(''uses'')');
ALTER TABLE uses DROP CONSTRAINT uses_body_check1, DROP CONSTRAINT listed, DROP COLUMN made;
DROP INDEX uses_part;
DROP TRIGGER only_appends ON uses;
SELECT * FROM problems('SELECT appendable_bytea_detach(''uses'')');
SELECT conname, pg_get_constraintdef(oid) AS definition FROM pg_constraint WHERE conrelid = 'uses'::regclass AND contype = 'c' ORDER BY 1;
DROP TABLE uses, uses_child CASCADE;
DROP FUNCTION greet, name_of;
DROP FUNCTION nothing, problems;
DROP EXTENSION pg_trgm;
