-- Statistics that parallel_temp gathers reveal no rows that the user must not read.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS parallel_temp;
RESET client_min_messages;
SET parallel_temp.statistics = on;
CREATE ROLE regress_reader;
CREATE ROLE regress_column_reader;
-- an operator that counts its calls in planning, also of a statement that fails
CREATE TEMP SEQUENCE revealed;
GRANT ALL ON SEQUENCE revealed TO regress_reader, regress_column_reader;
CREATE FUNCTION reveal(int, int) RETURNS bool LANGUAGE plpgsql IMMUTABLE COST 0.0001 AS $$ BEGIN PERFORM nextval('revealed'); RETURN $1 < $2; END $$;
CREATE OPERATOR <<< (LEFTARG = int, RIGHTARG = int, PROCEDURE = reveal, RESTRICT = scalarltsel);
CREATE PROCEDURE reveals(title text, query text) LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	PERFORM setval('revealed', 1, false);
	BEGIN
		FOR line IN EXECUTE 'EXPLAIN ' || query LOOP END LOOP;
	EXCEPTION WHEN insufficient_privilege THEN
		RAISE NOTICE '%: %', title, SQLERRM;
	END;
	RAISE NOTICE '%: values revealed: %', title, nextval('revealed') > 1;
END $$;

-- partitions and children: the policies of the parent that the query names count, and those of a child only if it is named
CREATE TEMP TABLE parent (secret int, owner_name text) PARTITION BY RANGE (secret);
CREATE TEMP TABLE middle PARTITION OF parent FOR VALUES FROM (0) TO (100000000) PARTITION BY RANGE (secret);
CREATE TEMP TABLE part (owner_name text, secret int);
ALTER TABLE middle ATTACH PARTITION part FOR VALUES FROM (0) TO (100000000);
CREATE TEMP TABLE ancestor (secret int, owner_name text);
CREATE TEMP TABLE heir (more int) INHERITS (ancestor);
INSERT INTO part SELECT CASE WHEN g % 100 = 0 THEN 'regress_reader' ELSE 'x' END, 700000 + g % 50 FROM generate_series(1, 20000) g;
INSERT INTO heir SELECT secret, owner_name, secret FROM part;
INSERT INTO ancestor SELECT secret, owner_name FROM part;
CREATE TEMP TABLE plain AS SELECT secret, owner_name FROM part;
GRANT SELECT, DELETE ON parent, middle, part, ancestor, heir, plain TO regress_reader;

SET ROLE regress_reader;
CALL reveals('partitions without policies', 'SELECT * FROM parent WHERE secret <<< 5');
CALL reveals('children without policies', 'SELECT * FROM ancestor WHERE secret <<< 5');
CALL reveals('a table without policies', 'SELECT * FROM plain WHERE secret <<< 5');
CALL reveals('branches of UNION ALL', 'SELECT * FROM (SELECT secret FROM plain UNION ALL SELECT secret FROM heir) u WHERE secret <<< 5');
RESET ROLE;

ALTER TABLE parent ENABLE ROW LEVEL SECURITY;
ALTER TABLE ancestor ENABLE ROW LEVEL SECURITY;
ALTER TABLE plain ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON parent USING (owner_name = current_user);
CREATE POLICY own ON ancestor USING (owner_name = current_user);
CREATE POLICY own ON plain USING (owner_name = current_user);
SET ROLE regress_reader;
SELECT count(*), count(DISTINCT secret) FROM parent;
CALL reveals('partitions below a policy', 'SELECT * FROM parent WHERE secret <<< 5');
CALL reveals('children below a policy', 'SELECT * FROM ancestor WHERE secret <<< 5');
CALL reveals('a table with a policy', 'SELECT * FROM plain WHERE secret <<< 5');
CALL reveals('a policy in a branch of UNION ALL', 'SELECT * FROM (SELECT secret FROM plain UNION ALL SELECT secret FROM plain) u WHERE secret <<< 5');
CALL reveals('in a subquery', 'SELECT * FROM (SELECT secret FROM parent OFFSET 0) q WHERE secret <<< 5');
CALL reveals('in a DELETE', 'DELETE FROM plain WHERE secret <<< 5');
CALL reveals('partitions in a DELETE', 'DELETE FROM parent WHERE secret <<< 5');
CALL reveals('a partition that the query names', 'SELECT * FROM part WHERE secret <<< 5');
CALL reveals('a child that the query names', 'SELECT * FROM heir WHERE secret <<< 5');
RESET ROLE;
ALTER TABLE part ENABLE ROW LEVEL SECURITY;
ALTER TABLE heir ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON part USING (owner_name = current_user);
CREATE POLICY own ON heir USING (owner_name = current_user);
SET ROLE regress_reader;
CALL reveals('a partition with a policy', 'SELECT * FROM part WHERE secret <<< 5');
CALL reveals('parent and partition with a policy', 'SELECT * FROM parent WHERE secret <<< 5');
CALL reveals('parent and child with a policy', 'SELECT * FROM ancestor WHERE secret <<< 5');
RESET ROLE;
CALL reveals('the owner', 'SELECT * FROM parent WHERE secret <<< 5');

-- privileges of columns, and through views
CREATE TEMP TABLE open_to_some AS SELECT secret, secret AS known FROM plain;
CREATE TEMP TABLE open_parent (known int, secret int);
CREATE TEMP TABLE open_child (local int, secret int, known int);
ALTER TABLE open_child INHERIT open_parent;
INSERT INTO open_child SELECT secret, secret, secret FROM plain;
GRANT SELECT (known) ON open_to_some, open_parent TO regress_column_reader;
CREATE TEMP VIEW of_owner AS SELECT secret, known FROM open_to_some;
CREATE TEMP VIEW with_barrier WITH (security_barrier) AS SELECT secret, known FROM open_to_some WHERE known > 700010;
GRANT SELECT ON of_owner, with_barrier TO regress_column_reader;
SET ROLE regress_column_reader;
CALL reveals('a column with the privilege', 'SELECT known FROM open_to_some WHERE known <<< 5');
CALL reveals('a column of a parent with the privilege', 'SELECT known FROM open_parent WHERE known <<< 5');
CALL reveals('a column without the privilege', 'SELECT known FROM open_to_some WHERE secret <<< 5');
CALL reveals('a column of a parent without the privilege', 'SELECT known FROM open_parent WHERE secret <<< 5');
CALL reveals('a view of the owner', 'SELECT * FROM of_owner WHERE secret <<< 5');
CALL reveals('a security barrier view', 'SELECT * FROM with_barrier WHERE secret <<< 5');
RESET ROLE;
SELECT count(*) > 0 AS gathered FROM pg_temp_stats WHERE relation IN ('part'::regclass, 'heir'::regclass, 'open_to_some'::regclass) AND attname = 'secret';

DROP VIEW of_owner, with_barrier;
DROP SEQUENCE revealed;
DROP TABLE parent, heir, ancestor, plain, open_to_some, open_child, open_parent;
DROP OPERATOR <<< (int, int);
DROP FUNCTION reveal;
DROP PROCEDURE reveals;
DROP ROLE regress_reader, regress_column_reader;
