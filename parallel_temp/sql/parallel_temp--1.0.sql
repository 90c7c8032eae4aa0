\echo Use "CREATE EXTENSION parallel_temp" to load this file. \quit

-- ---- Toolkit: the session's temporary buffers -------------------------------
--
-- A session's local buffers are in its own memory, and every function here looks
-- at those of the calling session alone.  So nobody learns anything about anybody
-- else, and all of this is for everyone; the functions that change the state of
-- one relation's pages check that the caller owns it.

CREATE FUNCTION pg_allocated_local_buffers()
RETURNS integer
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_allocated_local_buffers() IS
'temporary buffers of this session that have memory';

CREATE FUNCTION pg_dirty_local_buffers()
RETURNS integer
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_dirty_local_buffers() IS
'temporary buffers of this session whose page is not written to its file yet';

CREATE FUNCTION pg_flush_local_buffers()
RETURNS integer
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_flush_local_buffers() IS
'write all dirty temporary buffers of this session; returns the number of pages written';

CREATE FUNCTION pg_flush_local_buffers(rel regclass)
RETURNS integer
AS 'MODULE_PATHNAME', 'pg_flush_local_buffers_rel'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_flush_local_buffers(regclass) IS
'write the dirty temporary buffers of a relation, its TOAST table and the indexes of both; returns the number of pages written';

CREATE FUNCTION pg_read_temp_relation(rel regclass, randomize boolean)
RETURNS integer
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_read_temp_relation(regclass, boolean) IS
'bring all pages of a temporary relation into temporary buffers, in order or at random; returns the number of pages read from its file';

CREATE FUNCTION pg_temp_buffers_dirty(rel regclass)
RETURNS integer
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_temp_buffers_dirty(regclass) IS
'mark the pages of a temporary relation that are in temporary buffers dirty; returns the number of pages that were clean';

CREATE FUNCTION pg_evict_temp_relation(rel regclass)
RETURNS integer
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_evict_temp_relation(regclass) IS
'write the dirty pages of a temporary relation and take its pages out of temporary buffers; returns the number of pages taken out';

CREATE FUNCTION pg_temp_flush_cost(rel regclass DEFAULT NULL)
RETURNS float8
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_temp_flush_cost(regclass) IS
'the planner''s price, in units of seq_page_cost, of flushing a temporary relation with its TOAST table and indexes, or everything';

CREATE FUNCTION pg_local_buffers_info(OUT buffer integer, OUT relation regclass, OUT relfilenode oid, OUT fork text, OUT block bigint,
	OUT dirty boolean, OUT usage_count integer, OUT pins integer, OUT bytes integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_local_buffers_info() IS 'rows of the view pg_local_buffers';

CREATE VIEW pg_local_buffers AS
SELECT buffer, relation, relfilenode, fork, block, dirty, usage_count, pins, bytes
FROM pg_local_buffers_info();

COMMENT ON VIEW pg_local_buffers IS
'temporary buffers of this session: one row for each that has memory; without a page all columns but pins and bytes are null';

CREATE FUNCTION pg_temp_relations_info(OUT relation regclass, OUT relfilenode oid, OUT pages bigint, OUT bytes bigint,
	OUT resident integer, OUT dirty integer, OUT path text, OUT path_exists boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_temp_relations_info() IS 'rows of the view pg_temp_relations';

CREATE VIEW pg_temp_relations AS
SELECT relation, relfilenode, pages, bytes, resident, dirty, path, path_exists
FROM pg_temp_relations_info();

COMMENT ON VIEW pg_temp_relations IS
'temporary relations of this session with their TOAST tables and indexes: pages of the main fork in the file, bytes of all forks, pages of all forks in temporary buffers and how many of these are dirty, path of the file and whether it is there';

GRANT SELECT ON pg_local_buffers, pg_temp_relations TO PUBLIC;

-- Counters of the session.

CREATE FUNCTION parallel_temp_stats(OUT counter text, OUT value float8)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION parallel_temp_stats() IS 'rows of the view parallel_temp_stats';

CREATE VIEW parallel_temp_stats AS
SELECT counter, value FROM parallel_temp_stats();

COMMENT ON VIEW parallel_temp_stats IS
'what this session did with temporary tables: tables considered for parallel plans, chosen and refused by reason, queries and pages shared and flushed, time';

CREATE FUNCTION parallel_temp_stats_reset()
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION parallel_temp_stats_reset() IS 'sets the counters of parallel_temp_stats to zero';

GRANT SELECT ON parallel_temp_stats TO PUBLIC;

-- ---- RAM tablespaces ---------------------------------------------------------

-- Tablespaces are the cluster's, so making and dropping one is for superusers, as
-- with CREATE TABLESPACE; looking is for monitors.

CREATE PROCEDURE ram_tablespace_create(name text, mount_point text)
AS 'MODULE_PATHNAME'
LANGUAGE C;

COMMENT ON PROCEDURE ram_tablespace_create(text, text) IS
'makes a tablespace for temporary tables in a directory of its own on a tmpfs mount';

CREATE PROCEDURE ram_tablespace_drop(name text)
AS 'MODULE_PATHNAME'
LANGUAGE C;

COMMENT ON PROCEDURE ram_tablespace_drop(text) IS
'drops a RAM tablespace that holds no relations, with its directory';

REVOKE ALL ON PROCEDURE ram_tablespace_create(text, text), ram_tablespace_drop(text) FROM PUBLIC;

CREATE FUNCTION ram_tablespaces(OUT name name, OUT location text, OUT in_memory boolean, OUT usable boolean, OUT used_bytes bigint,
    OUT limit_bytes bigint, OUT mount_bytes bigint, OUT mount_available_bytes bigint, OUT memory_available_bytes bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION ram_tablespaces() IS
'RAM tablespaces of the cluster: whether the file system is in memory and the directories are there, what they hold and may hold, what mount and machine have left';

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
    SELECT 'directory is missing or belongs to somebody else', 'restart the server with parallel_temp in shared_preload_libraries'
    WHERE NOT r.usable
    UNION ALL
    SELECT 'file system is not in memory', 'stop the server, mount a tmpfs there, start the server'
    WHERE NOT r.in_memory
    UNION ALL
    SELECT format('holds %s of %s allowed', pg_size_pretty(r.used_bytes), pg_size_pretty(r.limit_bytes)), 'drop temporary tables or raise parallel_temp.ram_limit'
    WHERE r.used_bytes * 100 >= r.limit_bytes * current_setting('parallel_temp.ram_warn_percent')::int
    UNION ALL
    SELECT format('file system has %s of %s left', pg_size_pretty(r.mount_available_bytes), pg_size_pretty(r.mount_bytes)), 'drop temporary tables or remount it larger'
    WHERE r.mount_available_bytes * 100 <= r.mount_bytes * (100 - current_setting('parallel_temp.ram_warn_percent')::int)
    UNION ALL
    SELECT format('%s of memory left for %s that the file system may still take', pg_size_pretty(r.memory_available_bytes), pg_size_pretty(r.mount_available_bytes)),
           'mount it smaller or set parallel_temp.ram_limit'
    WHERE r.memory_available_bytes < least(r.mount_available_bytes, coalesce(r.limit_bytes - r.used_bytes, r.mount_available_bytes))
    UNION ALL
    SELECT format('holds %s, which is not temporary', c.oid::regclass), 'move it: ALTER ... SET TABLESPACE'
    FROM pg_class c JOIN pg_tablespace t ON t.oid = c.reltablespace
    WHERE t.spcname = r.name AND c.relpersistence <> 't'
    UNION ALL
    SELECT 'parallel_temp is not in shared_preload_libraries', 'add it, or the directory stays missing after a reboot'
    WHERE current_setting('shared_preload_libraries') !~ '\mparallel_temp\M'
) p (problem, remedy)
$$;

COMMENT ON FUNCTION ram_tablespace_check() IS 'what is wrong with RAM tablespaces, and what to do about it; no row when all is well';

REVOKE ALL ON FUNCTION ram_tablespace_check() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ram_tablespace_check() TO pg_monitor;

CREATE FUNCTION ram_tablespace_use(name text, for_role regrole DEFAULT NULL, for_database text DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF name IS NOT NULL AND NOT EXISTS (SELECT 1 FROM pg_tablespace t WHERE t.spcname = ram_tablespace_use.name
            AND pg_tablespace_location(t.oid) ~ '/parallel_temp_ram\.[^/]*$') THEN
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
