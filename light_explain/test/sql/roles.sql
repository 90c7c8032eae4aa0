-- Whose figures a session shows, and how many statements of one role others can see.
CREATE EXTENSION light_explain;
CREATE ROLE regress_light_a;
CREATE ROLE regress_light_b;
CREATE TABLE r AS SELECT g AS id FROM generate_series(1, 100) g;
GRANT SELECT ON r TO regress_light_a, regress_light_b;
CREATE FUNCTION explain(statement text, options text DEFAULT 'ANALYZE') RETURNS void LANGUAGE plpgsql AS
$$BEGIN EXECUTE format('EXPLAIN (%s) %s', options, statement); END$$;
CREATE FUNCTION definers() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS
$$BEGIN EXECUTE 'EXPLAIN ANALYZE SELECT FROM r WHERE id = 7'; END$$;
CREATE FUNCTION last() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM light_explain_last()';

-- the statement is its role's
SET ROLE regress_light_a;
SELECT explain('SELECT count(*) FROM r');
SELECT last();
SET ROLE regress_light_b;
SELECT last();
SET ROLE regress_light_a;
SELECT last();
RESET ROLE;
SELECT last() AS reads_all_stats;

-- a function with its owner's privileges runs statements of its owner
SET ROLE regress_light_a;
SELECT definers();
SELECT last();
RESET ROLE;

-- a session of a pool is passed to another client
SELECT explain('SELECT count(*) FROM r');
SELECT last();
DISCARD PLANS;
SELECT last();
DISCARD ALL;
SELECT last();

-- only what EXPLAIN ANALYZE explains is kept, not what planning runs
LOAD 'auto_explain';
SET auto_explain.log_min_duration = 0;
SET auto_explain.log_analyze = on;
SET auto_explain.log_nested_statements = on;
CREATE FUNCTION planned() RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS
$$BEGIN RETURN (SELECT count(*) FROM r, r b WHERE r.id < 3); END$$;
SELECT explain('SELECT id FROM r LIMIT 3');
SELECT label FROM light_explain_last() ORDER BY node;
SELECT explain('SELECT planned()', 'COSTS OFF');
SELECT explain('SELECT planned()', 'ANALYZE OFF');
SELECT label FROM light_explain_last() ORDER BY node;
PREPARE planned AS SELECT id FROM r WHERE id = planned() - 199;
SELECT explain('EXECUTE planned');
SELECT label, rows FROM light_explain_last() ORDER BY node;
SELECT explain('CREATE TABLE made AS EXECUTE planned');
SELECT label, rows FROM light_explain_last() ORDER BY node;
DO $$BEGIN EXECUTE 'EXPLAIN ANALYZE SELECT planned() / (id - 1) FROM r'; EXCEPTION WHEN division_by_zero THEN NULL; END$$;
SELECT label, rows FROM light_explain_last() ORDER BY node;
SET auto_explain.log_min_duration = -1;

-- one role cannot take all slots, and refusals are counted
SELECT progress_slots, progress_used, progress_refused_role AS refused_before FROM light_explain_status() \gset
SELECT :progress_slots AS slots, :progress_used AS used;
BEGIN;
SET LOCAL light_explain.switch_after = 0;
SET LOCAL light_explain.instrument_all = on;
DO $$DECLARE c refcursor; i int; BEGIN
	FOR n IN 1..70 LOOP c := 'many' || n; OPEN c FOR SELECT id FROM r; FETCH c INTO i; END LOOP; END$$;
SET LOCAL light_explain.instrument_all = off;
SELECT count(*) AS visible FROM light_explain_progress() WHERE label ~ 'Scan on r';
SELECT progress_used, progress_refused_role - :refused_before AS refused, progress_refused_full FROM light_explain_status();
SET LOCAL light_explain.instrument_all = on;
SET LOCAL SESSION AUTHORIZATION regress_light_b;
SELECT count(*) AS seen FROM light_explain_progress() WHERE label ~ 'Function Scan';
SELECT count(*) AS of_others FROM light_explain_progress() WHERE label ~ 'Scan on r';
RESET SESSION AUTHORIZATION;
COMMIT;
SELECT progress_used FROM light_explain_status();

-- a plan of forty nodes is visible, one of too many is not
SELECT progress_refused_nodes AS refused_before FROM light_explain_status() \gset
DO $$BEGIN EXECUTE 'EXPLAIN ANALYZE ' || (SELECT string_agg('SELECT id FROM r', ' UNION ALL ') FROM generate_series(1, 40)); END$$;
SELECT progress_refused_nodes - :refused_before AS refused FROM light_explain_status();
DO $$BEGIN EXECUTE 'EXPLAIN ANALYZE ' || (SELECT string_agg('SELECT id FROM r', ' UNION ALL ') FROM generate_series(1, 120)); END$$;
SELECT progress_refused_nodes - :refused_before AS refused FROM light_explain_status();

DROP TABLE r, made;
DROP FUNCTION explain, definers, last, planned;
DROP ROLE regress_light_a, regress_light_b;
DROP EXTENSION light_explain;
