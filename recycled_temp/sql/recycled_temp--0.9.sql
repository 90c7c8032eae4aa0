\echo Use "CREATE EXTENSION recycled_temp" to load this file. \quit

CREATE FUNCTION recycled_temp_pool(OUT relation regclass, OUT dropped_at timestamptz, OUT bytes bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION recycled_temp_pool() IS 'temporary tables that this session dropped and keeps, the last one first';

CREATE VIEW recycled_temp_tables AS
SELECT relation, dropped_at, bytes FROM @extschema@.recycled_temp_pool();

COMMENT ON VIEW recycled_temp_tables IS 'temporary tables that this session dropped and keeps, the last one first';
GRANT SELECT ON recycled_temp_tables TO PUBLIC;

CREATE FUNCTION recycled_temp_empty()
RETURNS integer
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION recycled_temp_empty() IS 'drops the temporary tables that this session keeps, and returns their number';

CREATE FUNCTION recycled_temp_status(OUT kept bigint, OUT reused bigint, OUT obstacle text)
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION recycled_temp_status() IS
'how many temporary tables this session kept and reused, and why recycled_temp cannot be enabled in this server';
