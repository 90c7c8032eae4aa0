-- Behavior without a mount: privileges, arguments, the views.
CREATE EXTENSION ram_tablespace;

-- procedures cannot be strict
CALL ram_tablespace_create(NULL, '/');
CALL ram_tablespace_create('ram', NULL);
CALL ram_tablespace_drop(NULL);
CALL ram_tablespace_create('', '/');
CALL ram_tablespace_drop(repeat('no_such_tablespace_', 4));
CALL ram_tablespace_create('ram', 'relative');
CALL ram_tablespace_drop('pg_default');
CALL ram_tablespace_protect(NULL);
CALL ram_tablespace_protect('pg_default');
SELECT ram_tablespace_is_protected('pg_default'), ram_tablespace_is_protected('no_such_tablespace'), ram_tablespace_is_protected(NULL);

-- the directory cannot be rolled back
BEGIN;
CALL ram_tablespace_drop('pg_default');
ROLLBACK;
DO 'BEGIN CALL ram_tablespace_drop(''pg_default''); END';
CREATE PROCEDURE drops() LANGUAGE plpgsql AS 'BEGIN CALL ram_tablespace_drop(''pg_default''); END';
CALL drops();
CREATE PROCEDURE drops_sql() LANGUAGE sql AS 'CALL ram_tablespace_drop(''pg_default'')';
CALL drops_sql();

-- privileges: superusers create and drop, monitors read
CREATE ROLE regress_ram_user;
CREATE ROLE regress_ram_monitor;
GRANT pg_monitor TO regress_ram_monitor;
SET ROLE regress_ram_user;
CALL ram_tablespace_create('ram', '/');
CALL ram_tablespace_drop('pg_default');
CALL ram_tablespace_protect('pg_default');
SELECT ram_tablespace_is_protected('pg_default');
SELECT * FROM ram_tablespaces();
SELECT * FROM ram_tablespace_check();
SELECT ram_tablespace_use('pg_default');
SELECT ram_tablespace_use(NULL);
RESET ROLE;
GRANT EXECUTE ON PROCEDURE ram_tablespace_drop(text) TO regress_ram_user;
SET ROLE regress_ram_user;
CALL ram_tablespace_drop('pg_default');
SET ROLE regress_ram_monitor;
SELECT * FROM ram_tablespaces();
SELECT * FROM ram_tablespace_check();
RESET ROLE;

-- settings are the server's
SET ram_tablespace.max_size = '1MB';
SELECT name, setting, unit, context FROM pg_settings WHERE name LIKE 'ram_tablespace.%' ORDER BY name;

-- Functions that parallel_temp had before there was this extension come over from
-- it.  (A row in the catalog stands for such a parallel_temp.)
DROP EXTENSION ram_tablespace;
INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
SELECT 999999, 'parallel_temp', oid, 'public'::regnamespace, false, '1.0' FROM pg_roles WHERE rolname = current_user;
CREATE FUNCTION ram_tablespaces(OUT name name) RETURNS SETOF name LANGUAGE sql AS 'SELECT NULL::name';
CREATE PROCEDURE ram_tablespace_drop(name text) LANGUAGE sql AS '';
CREATE FUNCTION pg_dirty_local_buffers() RETURNS integer LANGUAGE sql AS 'SELECT 0';
ALTER EXTENSION parallel_temp ADD FUNCTION ram_tablespaces();
ALTER EXTENSION parallel_temp ADD PROCEDURE ram_tablespace_drop(text);
ALTER EXTENSION parallel_temp ADD FUNCTION pg_dirty_local_buffers();
CREATE EXTENSION ram_tablespace;
SELECT e.extname, p.oid::regprocedure AS routine
FROM pg_depend d JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid
JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
WHERE e.extname IN ('parallel_temp', 'ram_tablespace') ORDER BY 1, p.oid::regprocedure::text COLLATE "C";
SELECT * FROM ram_tablespaces();
DROP EXTENSION parallel_temp;

DROP PROCEDURE drops, drops_sql;
DROP EXTENSION ram_tablespace;
DROP ROLE regress_ram_user, regress_ram_monitor;
