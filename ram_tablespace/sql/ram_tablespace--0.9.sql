\echo Use "CREATE EXTENSION ram_tablespace" to load this file. \quit

-- These functions were parallel_temp's own before they got an extension; a database
-- that has them there gives them up.  Tablespaces are the cluster's and stay.
DO $$
DECLARE
    routine record;
BEGIN
    FOR routine IN
        SELECT p.oid::pg_catalog.regprocedure AS signature, CASE WHEN p.prokind OPERATOR(pg_catalog.=) 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END AS kind
        FROM pg_catalog.pg_proc p
        JOIN pg_catalog.pg_depend d ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid OPERATOR(pg_catalog.=) p.oid
            AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass AND d.deptype OPERATOR(pg_catalog.=) 'e'
        JOIN pg_catalog.pg_extension e ON e.oid OPERATOR(pg_catalog.=) d.refobjid
        WHERE e.extname OPERATOR(pg_catalog.=) 'parallel_temp' AND p.proname OPERATOR(pg_catalog.=) ANY ('{ram_tablespace_create, ram_tablespace_drop, ram_tablespaces,
            ram_tablespace_check, ram_tablespace_use}'::pg_catalog.name[])
    LOOP
        EXECUTE pg_catalog.format('ALTER EXTENSION parallel_temp DROP %s %s', routine.kind, routine.signature);
        EXECUTE pg_catalog.format('DROP %s %s', routine.kind, routine.signature);
    END LOOP;
END
$$;

-- Tablespaces are the cluster's, so making and dropping one is for superusers, as
-- with CREATE TABLESPACE; looking is for monitors.

CREATE PROCEDURE ram_tablespace_create(name text, mount_point text)
AS 'MODULE_PATHNAME'
LANGUAGE C;

COMMENT ON PROCEDURE ram_tablespace_create(text, text) IS
'creates a tablespace for temporary tables in a separate directory on a tmpfs mount';

CREATE PROCEDURE ram_tablespace_drop(name text)
AS 'MODULE_PATHNAME'
LANGUAGE C;

COMMENT ON PROCEDURE ram_tablespace_drop(text) IS
'drops a RAM tablespace that holds no relations, with its directory';

CREATE PROCEDURE ram_tablespace_protect(name text)
AS 'MODULE_PATHNAME'
LANGUAGE C;

COMMENT ON PROCEDURE ram_tablespace_protect(text) IS
'turns a tablespace in memory into a RAM tablespace, which accepts temporary relations only';

REVOKE ALL ON PROCEDURE ram_tablespace_create(text, text), ram_tablespace_drop(text), ram_tablespace_protect(text) FROM PUBLIC;

CREATE FUNCTION ram_tablespace_is_protected(name text)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION ram_tablespace_is_protected(text) IS
'whether a tablespace is a RAM tablespace, which accepts temporary relations only';

CREATE FUNCTION ram_tablespaces(OUT name name, OUT location text, OUT in_memory boolean, OUT usable boolean, OUT used_bytes bigint,
    OUT limit_bytes bigint, OUT mount_bytes bigint, OUT mount_available_bytes bigint, OUT memory_available_bytes bigint, OUT protected boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION ram_tablespaces() IS
'RAM tablespaces of the cluster, and other tablespaces in memory, which are not protected: whether the file system is in memory and the directories exist, their size and its limit, and the free memory of mount and machine';

REVOKE ALL ON FUNCTION ram_tablespaces() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ram_tablespaces() TO pg_monitor;

CREATE FUNCTION ram_tablespace_check(OUT name name, OUT problem text, OUT remedy text)
RETURNS SETOF record
LANGUAGE sql VOLATILE PARALLEL RESTRICTED
SET search_path = pg_catalog, pg_temp
AS $$
SELECT r.name, p.problem, p.remedy
FROM @extschema@.ram_tablespaces() r,
LATERAL (
    SELECT 'is located in memory and accepts relations that are not temporary, which a restart of the machine loses',
           format('CALL ram_tablespace_protect(%L), or move it to a disk', r.name)
    WHERE NOT r.protected
    UNION ALL
    SELECT 'directory is missing or belongs to another user', 'restart the server with ram_tablespace in shared_preload_libraries'
    WHERE r.protected AND NOT r.usable
    UNION ALL
    SELECT 'file system is not in memory', 'stop the server, mount a tmpfs there, start the server'
    WHERE NOT r.in_memory
    UNION ALL
    SELECT format('holds %s of %s allowed', pg_size_pretty(r.used_bytes), pg_size_pretty(r.limit_bytes)), 'drop temporary tables or raise ram_tablespace.max_size'
    WHERE r.used_bytes * 100 >= r.limit_bytes * current_setting('ram_tablespace.warn_percent')::int
    UNION ALL
    SELECT format('file system has %s of %s left', pg_size_pretty(r.mount_available_bytes), pg_size_pretty(r.mount_bytes)), 'drop temporary tables or remount it larger'
    WHERE r.mount_available_bytes * 100 <= r.mount_bytes * (100 - current_setting('ram_tablespace.warn_percent')::int)
    UNION ALL
    SELECT format('%s of memory left for %s that the file system may still take', pg_size_pretty(r.memory_available_bytes), pg_size_pretty(r.mount_available_bytes)),
           'mount it smaller or set ram_tablespace.max_size'
    WHERE r.memory_available_bytes < least(r.mount_available_bytes, coalesce(r.limit_bytes - r.used_bytes, r.mount_available_bytes))
    UNION ALL
    SELECT format('holds %s, which is not temporary', c.oid::regclass), 'move it: ALTER ... SET TABLESPACE'
    FROM pg_class c JOIN pg_tablespace t ON t.oid = c.reltablespace
    WHERE t.spcname = r.name AND c.relpersistence <> 't'
    UNION ALL
    SELECT format('holds database %I', d.datname), format('move it: ALTER DATABASE %I SET TABLESPACE pg_default', d.datname)
    FROM pg_database d JOIN pg_tablespace t ON t.oid = d.dattablespace
    WHERE t.spcname = r.name
    UNION ALL
    SELECT 'ram_tablespace is not in shared_preload_libraries', 'add it, or the directory stays missing after a reboot'
    WHERE current_setting('shared_preload_libraries') !~ '\mram_tablespace\M'
) p (problem, remedy)
$$;

COMMENT ON FUNCTION ram_tablespace_check() IS 'problems of RAM tablespaces, each with a remedy; no row if there is none';

REVOKE ALL ON FUNCTION ram_tablespace_check() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ram_tablespace_check() TO pg_monitor;

CREATE FUNCTION ram_tablespace_use(name text, for_role regrole DEFAULT NULL, for_database text DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF name IS NOT NULL AND NOT @extschema@.ram_tablespace_is_protected(name) THEN
        RAISE EXCEPTION '"%" is not a RAM tablespace', name USING ERRCODE = 'wrong_object_type';
    END IF;
    IF for_role IS NULL AND for_database IS NULL THEN
        PERFORM set_config('temp_tablespaces', coalesce(quote_ident(name), (SELECT reset_val FROM pg_settings s WHERE s.name = 'temp_tablespaces')), false);
    ELSE
        EXECUTE CASE WHEN for_role IS NULL THEN format('ALTER DATABASE %I', for_database)
                WHEN for_database IS NULL THEN format('ALTER ROLE %s', for_role)
                ELSE format('ALTER ROLE %s IN DATABASE %I', for_role, for_database) END ||
            CASE WHEN name IS NULL THEN ' RESET temp_tablespaces' ELSE format(' SET temp_tablespaces = %I', name) END;
    END IF;
END
$$;

COMMENT ON FUNCTION ram_tablespace_use(text, regrole, text) IS
'sets temp_tablespaces to a RAM tablespace for this session, a role, a database, or a role in a database; NULL as name resets it';
