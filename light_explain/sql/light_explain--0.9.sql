/* light_explain/sql/light_explain--0.9.sql: one file, because CREATE EXTENSION runs one */

\echo Use "CREATE EXTENSION light_explain" to load this file. \quit

CREATE FUNCTION light_explain_last(
    OUT node integer,
    OUT parent integer,
    OUT depth integer,
    OUT label text,
    OUT node_type text,
    OUT relation text,
    OUT alias text,
    OUT index text,
    OUT rows double precision,
    OUT loops double precision,
    OUT total_ms double precision,
    OUT self_ms double precision,
    OUT shared_hit bigint,
    OUT shared_read bigint,
    OUT shared_dirtied bigint,
    OUT shared_written bigint,
    OUT local_blocks bigint,
    OUT temp_read bigint,
    OUT temp_written bigint,
    OUT wal_records bigint,
    OUT wal_bytes bigint,
    OUT distinct_blocks bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'light_explain_last'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION light_explain_last() IS
'the plan nodes of the session''s last EXPLAIN ANALYZE, for the role that ran it: rows over all loops, total time, and time, blocks and WAL of each node without the nodes that it calls; distinct_blocks with light_explain.distinct_blocks';

CREATE FUNCTION light_explain_progress(
    OUT pid integer,
    OUT leader_pid integer,
    OUT dbid oid,
    OUT userid oid,
    OUT queryid bigint,
    OUT started timestamptz,
    OUT node integer,
    OUT parent integer,
    OUT depth integer,
    OUT label text,
    OUT node_type text,
    OUT relation text,
    OUT alias text,
    OUT index text,
    OUT plan_rows double precision,
    OUT rows double precision,
    OUT loops double precision,
    OUT called boolean,
    OUT total_ms double precision,
    OUT shared_hit bigint,
    OUT shared_read bigint,
    OUT local_blocks bigint,
    OUT temp_read bigint,
    OUT temp_written bigint,
    OUT plan_cost double precision,
    OUT plan_blocks double precision,
    OUT work_mem integer,
    OUT plan_width integer,
    OUT process_read bigint,
    OUT process_written bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'light_explain_progress'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION light_explain_progress() IS
'the plan nodes of statements that run now with instrumentation, with their counters so far; work_mem is that of the process, in kilobytes, and the bytes that it has read and written since it started, which only Linux counts, are those of the process, too; own statements, or all for pg_read_all_stats';

-- Resolve the names in views now, whatever the search_path: only the server's operators may be found.
SET LOCAL search_path = pg_catalog, pg_temp;

CREATE VIEW @extschema@.light_explain_progress AS
SELECT p.pid, p.leader_pid, a.datname, a.usename, p.started, p.node, p.parent,
       repeat('  ', p.depth) || p.label AS label, p.node_type, p.relation, p.alias, p.index,
       p.plan_rows, p.rows, p.loops,
       CASE WHEN p.plan_rows > 0 THEN round((100 * p.rows / (p.plan_rows * greatest(p.loops, 1)))::numeric, 1) END AS percent_of_plan,
       p.called, p.total_ms, p.shared_hit, p.shared_read, p.local_blocks, p.temp_read, p.temp_written,
       p.queryid, a.query
FROM @extschema@.light_explain_progress() p LEFT JOIN pg_stat_activity a USING (pid)
ORDER BY coalesce(p.leader_pid, p.pid), p.leader_pid NULLS FIRST, p.pid, p.node;

COMMENT ON VIEW @extschema@.light_explain_progress IS
'running statements with instrumentation, one row a plan node, indented as in EXPLAIN';

SET LOCAL search_path = @extschema@, pg_temp;

CREATE FUNCTION light_explain_profile(
    OUT dbid oid,
    OUT userid oid,
    OUT queryid bigint,
    OUT caller_queryid bigint,
    OUT planid bigint,
    OUT node integer,
    OUT parent integer,
    OUT depth integer,
    OUT label text,
    OUT node_type text,
    OUT relation text,
    OUT alias text,
    OUT index text,
    OUT executions bigint,
    OUT cancelled bigint,
    OUT failed bigint,
    OUT loops double precision,
    OUT rows double precision,
    OUT plan_rows double precision,
    OUT rows_filtered double precision,
    OUT total_ms double precision,
    OUT self_ms double precision,
    OUT max_self_ms double precision,
    OUT shared_hit bigint,
    OUT shared_read bigint,
    OUT shared_dirtied bigint,
    OUT local_blocks bigint,
    OUT temp_read bigint,
    OUT temp_written bigint,
    OUT wal_bytes bigint,
    OUT max_memory_bytes bigint,
    OUT spilled_bytes bigint,
    OUT jit_functions bigint,
    OUT jit_ms double precision,
    OUT query text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'light_explain_profile'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION light_explain_profile() IS
'counters of plan nodes added up over all executions while light_explain.profile was on, also of statements that were canceled or failed, which are counted; own statements, or all for pg_read_all_stats; caller_queryid is the statement that ran it in a function; times, blocks and WAL of a node without the nodes that it calls, except total_ms; max_memory_bytes and spilled_bytes where the executor records memory and temporary files of a node; what the statement compiled just in time, in the row of its top node';

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE VIEW @extschema@.light_explain_profile AS
SELECT p.dbid, d.datname, p.userid, r.rolname, p.queryid, p.caller_queryid, p.planid, p.node, p.parent,
       repeat('  ', p.depth) || p.label AS label, p.node_type, p.relation, p.alias, p.index,
       p.executions, p.cancelled, p.failed, p.loops, p.rows, p.plan_rows, p.rows_filtered, p.total_ms, p.self_ms, p.max_self_ms,
       p.shared_hit, p.shared_read, p.shared_dirtied, p.local_blocks, p.temp_read, p.temp_written, p.wal_bytes,
       p.max_memory_bytes, p.spilled_bytes, p.jit_functions, p.jit_ms, p.query
FROM @extschema@.light_explain_profile() p
     LEFT JOIN pg_database d ON d.oid = p.dbid
     LEFT JOIN pg_roles r ON r.oid = p.userid
ORDER BY p.dbid, p.userid, p.queryid, p.caller_queryid, p.planid, p.node;

COMMENT ON VIEW @extschema@.light_explain_profile IS
'per-node profile of all statements, one row a plan node, indented as in EXPLAIN';

CREATE VIEW @extschema@.light_explain_misestimates AS
WITH node AS (
    SELECT *, CASE WHEN rows >= plan_rows THEN greatest(rows, 1) / greatest(plan_rows, 1) ELSE greatest(plan_rows, 1) / greatest(rows, 1) END AS factor
    FROM @extschema@.light_explain_profile
    WHERE loops > 0 AND cancelled + failed < executions)
SELECT n.dbid, n.datname, n.userid, n.rolname, n.queryid, n.caller_queryid, n.planid, n.node,
       btrim(n.label) AS label, n.node_type, n.relation, n.alias, n.index, n.executions,
       n.rows / n.loops AS rows, n.plan_rows / n.loops AS plan_rows,
       CASE WHEN n.rows >= n.plan_rows THEN 'more' ELSE 'less' END AS than_expected,
       n.factor, n.factor / below.factor AS own_factor, n.self_ms, sum(n.self_ms) OVER (PARTITION BY n.dbid, n.userid, n.queryid, n.caller_queryid, n.planid) AS plan_ms, n.query
FROM node n
     CROSS JOIN LATERAL (
         SELECT coalesce(max(c.factor), 1) AS factor
         FROM node c
         WHERE c.parent = n.node AND (c.rows >= c.plan_rows) = (n.rows >= n.plan_rows)
           AND (c.dbid, c.userid, c.queryid, c.caller_queryid, c.planid) IS NOT DISTINCT FROM (n.dbid, n.userid, n.queryid, n.caller_queryid, n.planid)) below
WHERE n.factor >= 10 AND abs(n.rows - n.plan_rows) / n.loops >= 10
ORDER BY n.self_ms DESC;

COMMENT ON VIEW @extschema@.light_explain_misestimates IS
'nodes of the profile that returned ten times more or less than the planner expected, a loop; own_factor is the part that the nodes below do not explain; rows that were not requested (LIMIT, EXISTS) count as less';

SET LOCAL search_path = @extschema@, pg_temp;

CREATE FUNCTION light_explain_profile_reset()
RETURNS bigint
AS 'MODULE_PATHNAME', 'light_explain_profile_reset'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION light_explain_profile_reset() IS
'discards the per-node profile; returns the number of entries';

REVOKE ALL ON FUNCTION light_explain_profile_reset() FROM PUBLIC;

CREATE FUNCTION light_explain_history(
    OUT bucket bigint,
    OUT bucket_start timestamptz,
    OUT bucket_end timestamptz,
    OUT dbid oid,
    OUT userid oid,
    OUT queryid bigint,
    OUT caller_queryid bigint,
    OUT planid bigint,
    OUT node integer,
    OUT executions bigint,
    OUT loops double precision,
    OUT rows double precision,
    OUT plan_rows double precision,
    OUT total_ms double precision,
    OUT self_ms double precision,
    OUT self_log_sum double precision,
    OUT self_log_max double precision,
    OUT shared_hit bigint,
    OUT shared_read bigint,
    OUT temp_written bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'light_explain_history'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION light_explain_history() IS
'counters of plan nodes in each of the last intervals of time (light_explain.history_interval); self_log_sum and self_log_max are of ln(self time of an execution in milliseconds + 0.001), and too small by at most 0.06 for each; bucket_end is NULL in the open one; a plan that was dropped from the profile and came back within a bucket has several rows; own statements, or all for pg_read_all_stats';

CREATE FUNCTION light_explain_latency(
    OUT bucket bigint,
    OUT bucket_start timestamptz,
    OUT bucket_end timestamptz,
    OUT dbid oid,
    OUT userid oid,
    OUT queryid bigint,
    OUT caller_queryid bigint,
    OUT planid bigint,
    OUT executions bigint,
    OUT cancelled bigint,
    OUT failed bigint,
    OUT total_ms double precision,
    OUT max_ms double precision,
    OUT times_ms double precision[],
    OUT counts bigint[])
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'light_explain_latency'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION light_explain_latency() IS
'executions of each plan in each bucket of the history, and how long they took: counts of them took times_ms, with a relative error of at most 6 percent; the plans for which a bucket had no room are one row without identifiers, for pg_read_all_stats; own statements, or all for pg_read_all_stats';

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE VIEW @extschema@.light_explain_history AS
WITH named AS (
    SELECT DISTINCT ON (dbid, userid, queryid, planid, node) dbid, userid, queryid, planid, node, parent, depth, label, node_type, relation, query
    FROM @extschema@.light_explain_profile()
    ORDER BY dbid, userid, queryid, planid, node),
summed AS (
    SELECT bucket, bucket_start, bucket_end, dbid, userid, queryid, caller_queryid, planid, node,
           sum(executions)::bigint AS executions, sum(loops) AS loops, sum(rows) AS rows, sum(plan_rows) AS plan_rows,
           sum(total_ms) AS total_ms, sum(self_ms) AS self_ms,
           sum(shared_hit)::bigint AS shared_hit, sum(shared_read)::bigint AS shared_read, sum(temp_written)::bigint AS temp_written
    FROM @extschema@.light_explain_history()
    GROUP BY bucket, bucket_start, bucket_end, dbid, userid, queryid, caller_queryid, planid, node)
SELECT h.bucket, h.bucket_start, h.bucket_end, h.dbid, d.datname, h.userid, r.rolname, h.queryid, h.caller_queryid, h.planid, h.node, n.parent,
       repeat('  ', n.depth) || n.label AS label, n.node_type, n.relation,
       h.executions, h.loops, h.rows, h.plan_rows, h.total_ms, h.self_ms, h.shared_hit, h.shared_read, h.temp_written, n.query
FROM summed h
     LEFT JOIN named n USING (dbid, userid, queryid, planid, node)
     LEFT JOIN pg_database d ON d.oid = h.dbid
     LEFT JOIN pg_roles r ON r.oid = h.userid
ORDER BY h.bucket, h.dbid, h.userid, h.queryid, h.caller_queryid, h.planid, h.node;

COMMENT ON VIEW @extschema@.light_explain_history IS
'the profile in intervals of time, the oldest first, one row a plan node, with the names that the profile has of nodes';

CREATE VIEW @extschema@.light_explain_latency AS
WITH plan AS MATERIALIZED (
    SELECT bucket, bucket_start, bucket_end, coalesce(dbid, 0) AS dbid, coalesce(userid, 0) AS userid, coalesce(queryid, 0) AS queryid,
           executions, cancelled, failed, total_ms, max_ms, times_ms, counts
    FROM @extschema@.light_explain_latency()),
statement AS (
    SELECT bucket, bucket_start, bucket_end, dbid, userid, queryid, sum(executions)::bigint AS executions,
           sum(cancelled)::bigint AS cancelled, sum(failed)::bigint AS failed, sum(total_ms) AS total_ms, max(max_ms) AS max_ms
    FROM plan
    GROUP BY bucket, bucket_start, bucket_end, dbid, userid, queryid),
counted AS (
    SELECT p.bucket, p.dbid, p.userid, p.queryid, t.ms, sum(t.executions) AS executions
    FROM plan p CROSS JOIN LATERAL unnest(p.times_ms, p.counts) t(ms, executions)
    GROUP BY p.bucket, p.dbid, p.userid, p.queryid, t.ms),
running AS (
    SELECT bucket, dbid, userid, queryid, ms, sum(executions) OVER (statement ORDER BY ms) / sum(executions) OVER statement AS share
    FROM counted
    WINDOW statement AS (PARTITION BY bucket, dbid, userid, queryid)),
percentile AS (
    SELECT bucket, dbid, userid, queryid, min(ms) FILTER (WHERE share >= 0.5) AS p50_ms, min(ms) FILTER (WHERE share >= 0.95) AS p95_ms,
           min(ms) FILTER (WHERE share >= 0.99) AS p99_ms
    FROM running
    GROUP BY bucket, dbid, userid, queryid),
text AS (
    SELECT DISTINCT ON (dbid, userid, queryid) dbid, userid, queryid, query
    FROM @extschema@.light_explain_profile()
    ORDER BY dbid, userid, queryid)
SELECT s.bucket, s.bucket_start, s.bucket_end, nullif(s.dbid, 0) AS dbid, d.datname, nullif(s.userid, 0) AS userid, r.rolname,
       nullif(s.queryid, 0) AS queryid, s.executions, s.cancelled, s.failed, s.total_ms, s.total_ms / s.executions AS mean_ms,
       p.p50_ms, p.p95_ms, p.p99_ms, s.max_ms, t.query
FROM statement s
     JOIN percentile p USING (bucket, dbid, userid, queryid)
     LEFT JOIN text t USING (dbid, userid, queryid)
     LEFT JOIN pg_database d ON d.oid = s.dbid
     LEFT JOIN pg_roles r ON r.oid = s.userid
ORDER BY s.bucket, s.total_ms DESC;

COMMENT ON VIEW @extschema@.light_explain_latency IS
'how long statements took in intervals of time, the oldest first; percentiles have a relative error of at most 6 percent; the row without identifiers is the statements for which there was no room';

SET LOCAL search_path = @extschema@, pg_temp;

CREATE FUNCTION light_explain_advice(
    OUT dbid oid,
    OUT userid oid,
    OUT queryid bigint,
    OUT caller_queryid bigint,
    OUT planid bigint,
    OUT advice text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'light_explain_advice'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION light_explain_advice() IS
'the advice with which the planner, with pg_plan_advice, makes a plan of the profile again, for plans whose advice is known (PostgreSQL 19); own statements, or all for pg_read_all_stats';

SET LOCAL search_path = pg_catalog, pg_temp;

-- The reference explains the test.
CREATE FUNCTION @extschema@.light_explain_regressions(
    recent_start timestamptz,
    recent_end timestamptz,
    before_start timestamptz,
    before_end timestamptz,
    false_alarms double precision DEFAULT 0.01,
    least_factor double precision DEFAULT 1.5,
    OUT dbid oid, OUT userid oid, OUT queryid bigint, OUT caller_queryid bigint,
    OUT change text, OUT slower boolean, OUT planid bigint, OUT before_planid bigint,
    OUT node integer, OUT label text, OUT node_type text, OUT relation text, OUT tested text, OUT factor double precision, OUT e_value double precision,
    OUT executions bigint, OUT before_executions bigint, OUT before_buckets bigint, OUT mean_ms double precision, OUT before_mean_ms double precision,
    OUT node_ms double precision, OUT before_node_ms double precision, OUT rows double precision, OUT before_rows double precision,
    OUT blocks double precision, OUT before_blocks double precision, OUT temp_written double precision, OUT before_temp_written double precision,
    OUT query text, OUT pin text)
RETURNS SETOF record
LANGUAGE sql VOLATILE PARALLEL RESTRICTED
-- the planner does not know how many rows the history has, and takes what is disabled for expensive
SET enable_nestloop = off
SET jit = off
SET search_path = pg_catalog, pg_temp
AS $$
-- executions, time and the sum of logarithms of times of plans in the buckets of the two periods
WITH plan_bucket AS MATERIALIZED (
    SELECT l.bucket, bool_or(p.recent) AS recent, l.dbid, l.userid, l.queryid, coalesce(l.caller_queryid, 0) AS caller, l.planid,
           sum(l.executions)::double precision AS n, sum(l.total_ms) AS ms, sum(y.sum) AS y_sum, max(y.longest) AS y_longest
    FROM @extschema@.light_explain_latency() l
         CROSS JOIN LATERAL (SELECT l.bucket_start >= recent_start AND l.bucket_start < recent_end AS recent) p
         CROSS JOIN LATERAL (SELECT sum(t.n * ln(t.ms + 0.001)) AS sum, max(ln(t.ms + 0.001)) AS longest FROM unnest(l.times_ms, l.counts) t(ms, n)) y
    WHERE l.queryid IS NOT NULL AND (p.recent OR (l.bucket_start >= before_start AND l.bucket_start < before_end))
    GROUP BY l.bucket, l.dbid, l.userid, l.queryid, coalesce(l.caller_queryid, 0), l.planid),
plan AS MATERIALIZED (
    SELECT b.dbid, b.userid, b.queryid, b.caller, b.planid, sum(b.n) FILTER (WHERE b.recent) AS n, sum(b.ms) FILTER (WHERE b.recent) AS ms,
           sum(b.y_sum) FILTER (WHERE b.recent) AS y_sum, max(b.y_longest) FILTER (WHERE b.recent) AS y_longest, sum(b.n) FILTER (WHERE NOT b.recent) AS before_n
    FROM plan_bucket b
    GROUP BY b.dbid, b.userid, b.queryid, b.caller, b.planid),
-- the nodes of these plans: means of an execution of the plan, and those that are tested, of an execution of the node
node AS MATERIALIZED (
    SELECT b.dbid, b.userid, b.queryid, b.caller, b.planid, h.node,
           sum(h.ms) FILTER (WHERE b.recent) / sum(b.n) FILTER (WHERE b.recent) AS ms, sum(h.ms) FILTER (WHERE NOT b.recent) / sum(b.n) FILTER (WHERE NOT b.recent) AS before_ms,
           sum(h.rows) FILTER (WHERE b.recent) / sum(b.n) FILTER (WHERE b.recent) AS rows, sum(h.rows) FILTER (WHERE NOT b.recent) / sum(b.n) FILTER (WHERE NOT b.recent) AS before_rows,
           sum(h.blocks) FILTER (WHERE b.recent) / sum(b.n) FILTER (WHERE b.recent) AS blocks, sum(h.blocks) FILTER (WHERE NOT b.recent) / sum(b.n) FILTER (WHERE NOT b.recent) AS before_blocks,
           sum(h.temp) FILTER (WHERE b.recent) / sum(b.n) FILTER (WHERE b.recent) AS temp, sum(h.temp) FILTER (WHERE NOT b.recent) / sum(b.n) FILTER (WHERE NOT b.recent) AS before_temp,
           sum(b.n) FILTER (WHERE b.recent) AS plan_n,
           sum(h.n) FILTER (WHERE b.recent) AS n, sum(h.y_sum) FILTER (WHERE b.recent) AS y_sum, max(h.y_longest) FILTER (WHERE b.recent) AS y_longest,
           count(*) FILTER (WHERE NOT b.recent) AS k, count(*) FILTER (WHERE NOT b.recent) / sum(1 / h.n) FILTER (WHERE NOT b.recent) AS usual_n,
           avg(h.y) FILTER (WHERE NOT b.recent) AS center, stddev_samp(h.y) FILTER (WHERE NOT b.recent) AS sd
    FROM plan_bucket b
         JOIN (SELECT i.bucket, i.dbid, i.userid, i.queryid, coalesce(i.caller_queryid, 0) AS caller, i.planid, i.node, sum(i.self_ms) AS ms, sum(i.rows) AS rows,
                      sum(i.shared_hit + i.shared_read)::double precision AS blocks, sum(i.temp_written)::double precision AS temp,
                      sum(i.executions)::double precision AS n, sum(i.self_log_sum) AS y_sum, max(i.self_log_max) AS y_longest,
                      CASE WHEN sum(i.executions) > 1 THEN (sum(i.self_log_sum) - max(i.self_log_max)) / (sum(i.executions) - 1) ELSE sum(i.self_log_sum) END AS y
               FROM @extschema@.light_explain_history() i
               GROUP BY i.bucket, i.dbid, i.userid, i.queryid, coalesce(i.caller_queryid, 0), i.planid, i.node) h USING (bucket, dbid, userid, queryid, caller, planid)
    GROUP BY b.dbid, b.userid, b.queryid, b.caller, b.planid, h.node),
-- statements: the recent period, and the distribution of buckets before, each without its longest execution
statement_before AS (
    SELECT b.dbid, b.userid, b.queryid, b.caller, count(*) AS k, sum(b.n) AS before_n, sum(b.ms) AS before_ms,
           count(*) / sum(1 / b.n) AS usual_n, avg(b.y) AS center, stddev_samp(b.y) AS sd
    FROM (SELECT s.dbid, s.userid, s.queryid, s.caller, sum(s.n) AS n, sum(s.ms) AS ms,
                 CASE WHEN sum(s.n) > 1 THEN (sum(s.y_sum) - max(s.y_longest)) / (sum(s.n) - 1) ELSE sum(s.y_sum) END AS y
          FROM plan_bucket s
          WHERE NOT s.recent
          GROUP BY s.bucket, s.dbid, s.userid, s.queryid, s.caller) b
    GROUP BY b.dbid, b.userid, b.queryid, b.caller),
statement_work AS (
    SELECT n.dbid, n.userid, n.queryid, n.caller, sum(n.rows + n.blocks + n.temp) AS work, max(n.before_work) AS before_work
    FROM (SELECT o.*, sum(o.before_rows + o.before_blocks + o.before_temp) OVER (PARTITION BY o.dbid, o.userid, o.queryid, o.caller, o.planid) AS before_work FROM node o) n
    GROUP BY n.dbid, n.userid, n.queryid, n.caller),
statement AS MATERIALIZED (
    SELECT r.*, b.k, b.before_n, b.before_ms, b.usual_n, b.center, b.sd, coalesce(w.work > least_factor * w.before_work, false) AS more_work
    FROM (SELECT p.dbid, p.userid, p.queryid, p.caller, sum(p.n) AS n, sum(p.ms) AS ms, sum(p.y_sum) AS y_sum, max(p.y_longest) AS y_longest,
                 (array_agg(p.planid ORDER BY p.ms DESC NULLS LAST, p.planid))[1] AS planid,
                 (array_agg(p.planid ORDER BY p.before_n DESC NULLS LAST, p.planid))[1] AS before_planid
          FROM plan p
          GROUP BY p.dbid, p.userid, p.queryid, p.caller) r
         JOIN statement_before b USING (dbid, userid, queryid, caller)
         LEFT JOIN statement_work w USING (dbid, userid, queryid, caller)
    WHERE r.n IS NOT NULL),
-- Nodes of a new plan are tested against the usual plan's nodes of the same name, or scans of the same table, of which the slowest counts.
-- A plan that is faster has nodes that do more, because others do less: these are not tested.
new_plan AS MATERIALIZED (
    SELECT p.dbid, p.userid, p.queryid, p.caller, p.planid, s.before_planid
    FROM plan p
         JOIN statement s USING (dbid, userid, queryid, caller)
    WHERE p.before_n IS NULL AND least_factor * p.ms / p.n >= s.before_ms / s.before_n),
part AS MATERIALIZED (
    SELECT DISTINCT f.dbid, f.userid, f.queryid, f.planid, f.node, CASE WHEN f.node_type LIKE '%Scan' THEN coalesce(f.relation, f.label) ELSE f.label END AS part
    FROM @extschema@.light_explain_profile() f
    WHERE f.queryid IN (SELECT w.queryid FROM new_plan w)),
usual_part AS MATERIALIZED (
    SELECT DISTINCT ON (w.dbid, w.userid, w.queryid, w.caller, w.planid, t.part) w.dbid, w.userid, w.queryid, w.caller, w.planid, w.before_planid, t.part,
           n.before_ms, n.before_rows + n.before_blocks + n.before_temp AS before_work, n.k, n.usual_n, n.center, n.sd
    FROM new_plan w
         JOIN node n ON (n.dbid, n.userid, n.queryid, n.caller, n.planid) = (w.dbid, w.userid, w.queryid, w.caller, w.before_planid)
         JOIN part t ON (t.dbid, t.userid, t.queryid, t.planid, t.node) = (n.dbid, n.userid, n.queryid, n.planid, n.node)
    WHERE n.k > 0
    ORDER BY w.dbid, w.userid, w.queryid, w.caller, w.planid, t.part, n.center DESC),
-- the tests: of statements, new plans, and nodes; a single execution counts if it has a new plan, or did more
candidate AS MATERIALIZED (
    SELECT s.dbid, s.userid, s.queryid, s.caller, 'statement' AS what, s.planid, s.before_planid, NULL::integer AS node, s.ms, s.n,
           CASE WHEN s.n > 1 THEN (s.y_sum - s.y_longest) / (s.n - 1) WHEN s.more_work THEN s.y_sum END AS y, s.k, s.usual_n, s.center, s.sd
    FROM statement s
    UNION ALL
    SELECT s.dbid, s.userid, s.queryid, s.caller, 'plan', p.planid, s.before_planid, NULL, p.ms, p.n,
           CASE WHEN p.n > 1 THEN (p.y_sum - p.y_longest) / (p.n - 1) ELSE p.y_sum END, s.k, s.usual_n, s.center, s.sd
    FROM plan p
         JOIN statement s USING (dbid, userid, queryid, caller)
    WHERE p.before_n IS NULL
    UNION ALL
    SELECT n.dbid, n.userid, n.queryid, n.caller, 'node', n.planid, n.planid, n.node, n.plan_n * (n.ms - n.before_ms), n.n,
           CASE WHEN n.n > 1 THEN (n.y_sum - n.y_longest) / (n.n - 1)
                WHEN n.rows + n.blocks + n.temp > least_factor * (n.before_rows + n.before_blocks + n.before_temp) THEN n.y_sum END, n.k, n.usual_n, n.center, n.sd
    FROM node n
    WHERE n.n IS NOT NULL AND n.k > 0
    UNION ALL
    SELECT n.dbid, n.userid, n.queryid, n.caller, 'node', n.planid, u.before_planid, n.node, n.plan_n * (n.ms - u.before_ms), n.n,
           CASE WHEN n.n > 1 THEN (n.y_sum - n.y_longest) / (n.n - 1)
                WHEN n.rows + n.blocks + n.temp > least_factor * u.before_work THEN n.y_sum END, u.k, u.usual_n, u.center, u.sd
    FROM node n
         JOIN part t USING (dbid, userid, queryid, planid, node)
         JOIN usual_part u USING (dbid, userid, queryid, caller, planid, part)
    WHERE n.n IS NOT NULL),
distance AS (
    SELECT c.*, c.y - c.center AS d, greatest(c.sd, 0.05) * sqrt(1.0 / c.k + greatest(1, c.usual_n / greatest(c.n - 1, 1))) AS deviation
    FROM candidate c),
-- half of the false alarms are for nodes, however many there are, and half for the others
tested AS (
    SELECT d.*, CASE WHEN d.d > 0 AND d.k > 2
                     THEN 2 * count(*) OVER (PARTITION BY d.node IS NULL) * looks.n * 0.39895 * (d.k - 1) / (d.k - 2) / (d.d / d.deviation)
                          -- exp() fails where the result is too small
                          * exp(greatest(-500, -0.5 * (d.k - 2) * ln(1 + (d.d / d.deviation) ^ 2 / (d.k - 1)))) END AS e
    FROM distance d
         CROSS JOIN (SELECT greatest(1, current_setting('light_explain.history_buckets')::double precision / greatest(count(DISTINCT b.bucket), 1)) AS n
                     FROM plan_bucket b WHERE b.recent) looks),
judged AS (
    SELECT t.dbid, t.userid, t.queryid, t.caller, t.what, t.planid, t.before_planid, t.node, t.ms, t.d, t.e,
           coalesce(t.e <= false_alarms AND t.d >= ln(greatest(least_factor, 1)), false) AS slower
    FROM tested t
    UNION ALL
    SELECT n.dbid, n.userid, n.queryid, n.caller, 'spill', n.planid, s.before_planid, n.node, n.temp, NULL, NULL, false
    FROM node n
         JOIN statement s USING (dbid, userid, queryid, caller)
    WHERE n.temp > 0 AND n.before_temp = 0),
-- one row for a statement: a new plan, the statement or a node that is slower, otherwise a new plan, otherwise a node that spills
chosen AS MATERIALIZED (
    SELECT DISTINCT ON (j.dbid, j.userid, j.queryid, j.caller) j.*
    FROM judged j
    WHERE j.slower OR j.what IN ('plan', 'spill')
    ORDER BY j.dbid, j.userid, j.queryid, j.caller, j.slower DESC, array_position(ARRAY['plan', 'statement', 'node', 'spill'], j.what), j.ms DESC, j.planid, j.node),
named AS MATERIALIZED (
    SELECT DISTINCT ON (f.dbid, f.userid, f.queryid, f.planid, f.node) f.dbid, f.userid, f.queryid, f.planid, f.node, f.label, f.node_type, f.relation, f.query,
           CASE WHEN f.node_type LIKE '%Scan' THEN coalesce(f.relation, f.label) ELSE f.label END AS part
    FROM @extschema@.light_explain_profile() f
    WHERE f.queryid IN (SELECT c.queryid FROM chosen c)
    ORDER BY f.dbid, f.userid, f.queryid, f.planid, f.node),
-- nodes of the chosen plans: compared with themselves, or with the same part of the usual plan
usual AS (
    SELECT c.dbid, c.userid, c.queryid, c.caller, m.part, max(n.before_ms) AS before_ms, max(n.before_rows) AS before_rows,
           max(n.before_blocks) AS before_blocks, max(n.before_temp) AS before_temp
    FROM chosen c
         JOIN node n ON (n.dbid, n.userid, n.queryid, n.caller, n.planid) = (c.dbid, c.userid, c.queryid, c.caller, c.before_planid)
         JOIN named m ON (m.dbid, m.userid, m.queryid, m.planid, m.node) = (n.dbid, n.userid, n.queryid, n.planid, n.node)
    WHERE c.planid <> c.before_planid
    GROUP BY c.dbid, c.userid, c.queryid, c.caller, m.part),
responsible AS (
    SELECT DISTINCT ON (c.dbid, c.userid, c.queryid, c.caller) c.dbid, c.userid, c.queryid, c.caller, n.node, m.label, m.node_type, m.relation, m.query,
           n.ms, n.rows, n.blocks, n.temp,
           CASE WHEN u.part IS NULL THEN n.before_ms ELSE u.before_ms END AS before_ms, CASE WHEN u.part IS NULL THEN n.before_rows ELSE u.before_rows END AS before_rows,
           CASE WHEN u.part IS NULL THEN n.before_blocks ELSE u.before_blocks END AS before_blocks, CASE WHEN u.part IS NULL THEN n.before_temp ELSE u.before_temp END AS before_temp
    FROM chosen c
         JOIN node n USING (dbid, userid, queryid, caller, planid)
         LEFT JOIN named m ON (m.dbid, m.userid, m.queryid, m.planid, m.node) = (n.dbid, n.userid, n.queryid, n.planid, n.node)
         LEFT JOIN usual u ON (u.dbid, u.userid, u.queryid, u.caller, u.part) = (c.dbid, c.userid, c.queryid, c.caller, m.part)
    WHERE n.ms IS NOT NULL AND (c.node IS NULL OR n.node = c.node)
    ORDER BY c.dbid, c.userid, c.queryid, c.caller, n.ms - coalesce(CASE WHEN c.planid = c.before_planid THEN n.before_ms ELSE u.before_ms END, 0) DESC, n.node),
-- the statement that pins the plan of before; NULL if pg_stash_advice is not in this database, or this session has no stash
pin AS (
    SELECT a.dbid, a.userid, a.queryid, coalesce(a.caller_queryid, 0) AS caller, a.planid AS before_planid,
           'SELECT ' || quote_ident((SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'pg_stash_advice')) ||
           '.pg_set_stashed_advice(' || quote_literal(nullif(current_setting('pg_stash_advice.stash_name', true), '')) || ', ' || quote_literal(a.queryid) || ', ' || quote_literal(a.advice) || ')' AS pin
    FROM @extschema@.light_explain_advice() a
    WHERE a.dbid = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
SELECT c.dbid, c.userid, c.queryid, nullif(c.caller, 0), CASE WHEN c.planid <> c.before_planid THEN 'plan' WHEN m.temp > 0 AND m.before_temp = 0 THEN 'spill' ELSE 'node' END, c.slower, c.planid, c.before_planid,
       m.node, m.label, m.node_type, m.relation, nullif(c.what, 'spill'), exp(c.d), c.e, s.n::bigint, s.before_n::bigint, s.k, s.ms / s.n, s.before_ms / s.before_n,
       m.ms, m.before_ms, m.rows, m.before_rows, m.blocks, m.before_blocks, m.temp, m.before_temp, m.query,
       CASE WHEN c.slower AND c.planid <> c.before_planid THEN i.pin END
FROM chosen c
     JOIN statement s USING (dbid, userid, queryid, caller)
     LEFT JOIN responsible m USING (dbid, userid, queryid, caller)
     LEFT JOIN pin i ON (i.dbid, i.userid, i.queryid, i.caller, i.before_planid) = (c.dbid, c.userid, c.queryid, c.caller, c.before_planid)
ORDER BY c.slower DESC, CASE c.what WHEN 'node' THEN c.ms ELSE s.ms - s.n * s.before_ms / s.before_n END DESC;
$$;

COMMENT ON FUNCTION @extschema@.light_explain_regressions(timestamptz, timestamptz, timestamptz, timestamptz, double precision, double precision) IS
'statements that became slower, or of which a node did, from one period of the history to another, have a plan that they did not have, or write temporary files that they did not write, with the node that is responsible; buckets belong to the period in which they begin; e_value bounds the number of false alarms of this size in as many buckets as the history has, and is at most false_alarms for slower ones, under the conditions that the reference states; own statements, or all for pg_read_all_stats';

CREATE VIEW @extschema@.light_explain_regressions AS
SELECT p.recent_start, p.recent_end, x.dbid, d.datname, x.userid, r.rolname, x.queryid, x.caller_queryid, x.change, x.slower, x.planid, x.before_planid,
       x.node, x.label, x.node_type, x.relation, x.tested, x.factor, x.e_value, x.executions, x.before_executions, x.before_buckets,
       x.mean_ms, x.before_mean_ms, x.node_ms, x.before_node_ms, x.rows, x.before_rows, x.blocks, x.before_blocks, x.temp_written, x.before_temp_written, x.query, x.pin
FROM (SELECT bucket_start AS recent_start, bucket_end AS recent_end
      FROM @extschema@.light_explain_latency() WHERE bucket_end IS NOT NULL ORDER BY bucket DESC LIMIT 1) p
     CROSS JOIN LATERAL @extschema@.light_explain_regressions(p.recent_start, p.recent_end, p.recent_start - interval '1 day', p.recent_start) x
     LEFT JOIN pg_database d ON d.oid = x.dbid
     LEFT JOIN pg_roles r ON r.oid = x.userid
ORDER BY x.slower DESC, x.executions * CASE x.tested WHEN 'node' THEN x.node_ms - x.before_node_ms ELSE x.mean_ms - x.before_mean_ms END DESC;

COMMENT ON VIEW @extschema@.light_explain_regressions IS
'statements of the last bucket that ended that are slower, or have a node that is slower, than in the day before it, have a new plan, or began to spill, with the node that is responsible; those with the most additional time first';

SET LOCAL search_path = @extschema@, pg_temp;

CREATE FUNCTION light_explain_history_reset()
RETURNS bigint
AS 'MODULE_PATHNAME', 'light_explain_history_reset'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION light_explain_history_reset() IS
'discards the history; returns the number of its buckets';

REVOKE ALL ON FUNCTION light_explain_history_reset() FROM PUBLIC;

CREATE FUNCTION light_explain_waits(
    OUT dbid oid,
    OUT userid oid,
    OUT queryid bigint,
    OUT planid bigint,
    OUT node integer,
    OUT activity text,
    OUT wait_event_type text,
    OUT wait_event text,
    OUT worker boolean,
    OUT samples bigint,
    OUT seconds double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'light_explain_waits'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION light_explain_waits() IS
'samples of running statements added up by statement, plan, node and wait event (CPU: no wait event), and the time that they represent; workers of a parallel plan are separate rows; own statements, or all for pg_read_all_stats; planid is NULL until a statement has ended, and without light_explain.profile';

CREATE FUNCTION light_explain_samples(
    OUT sampled timestamptz,
    OUT pid integer,
    OUT leader_pid integer,
    OUT dbid oid,
    OUT userid oid,
    OUT queryid bigint,
    OUT planid bigint,
    OUT node integer,
    OUT activity text,
    OUT wait_event_type text,
    OUT wait_event text,
    OUT seconds double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'light_explain_samples'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION light_explain_samples() IS
'the last samples of running statements (light_explain.sample_ring of them) and the time that each stands for, the oldest first; own statements, or all for pg_read_all_stats';

CREATE FUNCTION light_explain_waits_history(
    period_start timestamptz DEFAULT '-infinity',
    period_end timestamptz DEFAULT 'infinity',
    OUT bucket bigint,
    OUT bucket_start timestamptz,
    OUT bucket_end timestamptz,
    OUT dbid oid,
    OUT userid oid,
    OUT queryid bigint,
    OUT planid bigint,
    OUT node integer,
    OUT activity text,
    OUT wait_event_type text,
    OUT wait_event text,
    OUT worker boolean,
    OUT samples bigint,
    OUT seconds double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'light_explain_waits_history'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION light_explain_waits_history(timestamptz, timestamptz) IS
'samples of running statements added up by statement, plan, node and wait event in each of the last intervals of time (light_explain.waits_interval), or in those that have a part in a period, the oldest first; bucket_end is NULL in the open one; a combination may have several rows in a bucket; those for which a bucket had no space are one row without identifiers, for pg_read_all_stats; own statements, or all for pg_read_all_stats';

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE VIEW @extschema@.light_explain_waits_history AS
WITH named AS (
    SELECT DISTINCT ON (dbid, userid, queryid, planid, node) dbid, userid, queryid, planid, node, label, node_type, relation
    FROM @extschema@.light_explain_profile()
    ORDER BY dbid, userid, queryid, planid, node),
text AS (
    SELECT DISTINCT ON (dbid, userid, queryid) dbid, userid, queryid, query
    FROM @extschema@.light_explain_profile()
    ORDER BY dbid, userid, queryid),
summed AS (
    SELECT bucket, bucket_start, bucket_end, dbid, userid, queryid, planid, node, activity, wait_event_type, wait_event, worker,
           sum(samples)::bigint AS samples, sum(seconds) AS seconds
    FROM @extschema@.light_explain_waits_history()
    GROUP BY bucket, bucket_start, bucket_end, dbid, userid, queryid, planid, node, activity, wait_event_type, wait_event, worker)
SELECT w.bucket, w.bucket_start, w.bucket_end, w.dbid, d.datname, w.userid, r.rolname, w.queryid, w.planid, w.node, n.label, n.node_type, n.relation,
       w.activity, w.wait_event_type, w.wait_event, w.worker, w.samples, w.seconds, t.query
FROM summed w
     LEFT JOIN named n USING (dbid, userid, queryid, planid, node)
     LEFT JOIN text t USING (dbid, userid, queryid)
     LEFT JOIN pg_database d ON d.oid = w.dbid
     LEFT JOIN pg_roles r ON r.oid = w.userid
ORDER BY w.bucket, w.samples DESC;

COMMENT ON VIEW @extschema@.light_explain_waits_history IS
'what statements waited for in intervals of time, by plan node, the oldest first, with the names that the profile has of nodes; the row without identifiers is the samples for which there was no space';

CREATE VIEW @extschema@.light_explain_waits AS
WITH named AS (
    SELECT DISTINCT ON (dbid, userid, queryid, planid, node) dbid, userid, queryid, planid, node, label, node_type, relation, query
    FROM @extschema@.light_explain_profile()
    ORDER BY dbid, userid, queryid, planid, node)
SELECT w.dbid, d.datname, w.userid, r.rolname, w.queryid, w.planid, w.node, n.label, n.node_type, n.relation,
       w.activity, w.wait_event_type, w.wait_event, w.worker, w.samples, w.seconds, n.query
FROM @extschema@.light_explain_waits() w
     LEFT JOIN named n USING (dbid, userid, queryid, planid, node)
     LEFT JOIN pg_database d ON d.oid = w.dbid
     LEFT JOIN pg_roles r ON r.oid = w.userid
ORDER BY w.samples DESC;

COMMENT ON VIEW @extschema@.light_explain_waits IS
'waits of statements by plan node, with the names that the profile has of nodes; the most frequent first';

CREATE VIEW @extschema@.light_explain_samples AS
WITH named AS (
    SELECT DISTINCT ON (dbid, userid, queryid, planid, node) dbid, userid, queryid, planid, node, label, node_type, relation, query
    FROM @extschema@.light_explain_profile()
    ORDER BY dbid, userid, queryid, planid, node)
SELECT s.sampled, s.pid, s.leader_pid, s.dbid, d.datname, s.userid, r.rolname, s.queryid, s.planid, s.node,
       n.label, n.node_type, n.relation, s.activity, s.wait_event_type, s.wait_event, s.seconds, n.query
FROM @extschema@.light_explain_samples() s
     LEFT JOIN named n USING (dbid, userid, queryid, planid, node)
     LEFT JOIN pg_database d ON d.oid = s.dbid
     LEFT JOIN pg_roles r ON r.oid = s.userid
ORDER BY s.sampled;

COMMENT ON VIEW @extschema@.light_explain_samples IS
'the last samples of running statements, with the names that the profile has of nodes; the oldest first';

SET LOCAL search_path = @extschema@, pg_temp;

CREATE FUNCTION light_explain_waits_history_reset()
RETURNS bigint
AS 'MODULE_PATHNAME', 'light_explain_waits_history_reset'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION light_explain_waits_history_reset() IS
'discards the history of waits; returns the number of its buckets';

REVOKE ALL ON FUNCTION light_explain_waits_history_reset() FROM PUBLIC;

CREATE FUNCTION light_explain_samples_reset()
RETURNS bigint
AS 'MODULE_PATHNAME', 'light_explain_samples_reset'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION light_explain_samples_reset() IS
'discards all samples of running statements, except those in the history of waits; returns their number';

REVOKE ALL ON FUNCTION light_explain_samples_reset() FROM PUBLIC;

CREATE FUNCTION light_explain_plans(
    OUT dbid oid,
    OUT userid oid,
    OUT queryid bigint,
    OUT caller_queryid bigint,
    OUT planid bigint,
    OUT which text,
    OUT ended timestamptz,
    OUT total_ms double precision,
    OUT stored_bytes integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'light_explain_plans'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION light_explain_plans() IS
'executions of which the plan is kept: the slowest and the last one of each plan; own statements, or all for pg_read_all_stats';

CREATE FUNCTION light_explain_plan(
    queryid bigint,
    planid bigint DEFAULT NULL,
    which text DEFAULT 'slowest',
    format text DEFAULT 'text')
RETURNS text
AS 'MODULE_PATHNAME', 'light_explain_plan'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION light_explain_plan(bigint, bigint, text, text) IS
'the plan of the slowest or last execution of a statement, as EXPLAIN ANALYZE prints it: as text or json; planid NULL: of any plan; own statements, or all for pg_read_all_stats';

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE VIEW @extschema@.light_explain_plans AS
WITH named AS (
    SELECT DISTINCT ON (dbid, userid, queryid) dbid, userid, queryid, query
    FROM @extschema@.light_explain_profile()
    ORDER BY dbid, userid, queryid)
SELECT p.dbid, d.datname, p.userid, r.rolname, p.queryid, p.caller_queryid, p.planid, p.which, p.ended, p.total_ms, p.stored_bytes, n.query
FROM @extschema@.light_explain_plans() p
     LEFT JOIN named n USING (dbid, userid, queryid)
     LEFT JOIN pg_database d ON d.oid = p.dbid
     LEFT JOIN pg_roles r ON r.oid = p.userid
ORDER BY p.total_ms DESC, p.which DESC;

COMMENT ON VIEW @extschema@.light_explain_plans IS
'executions of which the plan is kept, the slowest first, with the texts that the profile has of statements; light_explain_plan() returns the plan';

SET LOCAL search_path = @extschema@, pg_temp;

CREATE FUNCTION light_explain_plans_reset()
RETURNS bigint
AS 'MODULE_PATHNAME', 'light_explain_plans_reset'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION light_explain_plans_reset() IS
'discards all plans of slowest and last executions; returns their number';

REVOKE ALL ON FUNCTION light_explain_plans_reset() FROM PUBLIC;

-- Each shows a role its own statements only, unless it has pg_read_all_stats.
GRANT SELECT ON light_explain_progress, light_explain_profile, light_explain_misestimates, light_explain_history, light_explain_latency, light_explain_regressions, light_explain_waits, light_explain_waits_history, light_explain_samples, light_explain_plans TO PUBLIC;

CREATE FUNCTION light_explain_status(
    OUT enabled boolean,
    OUT problem text,
    OUT progress_slots integer,
    OUT progress_used integer,
    OUT progress_refused_full bigint,
    OUT progress_refused_role bigint,
    OUT progress_refused_nodes bigint,
    OUT profile_max_nodes integer,
    OUT profile_nodes integer,
    OUT profile_plans integer,
    OUT profile_dropped_plans bigint,
    OUT profile_dropped_nodes bigint,
    OUT profile_without_queryid bigint,
    OUT profile_utility_without_queryid bigint,
    OUT clock text,
    OUT sampler_pid integer,
    OUT sampler_rounds bigint,
    OUT sampler_late bigint,
    OUT sampler_torn bigint,
    OUT samples_taken bigint,
    OUT samples_kept integer,
    OUT samples_overwritten bigint,
    OUT waits_max integer,
    OUT waits_used integer,
    OUT waits_discarded bigint,
    OUT sampler_without_nodes bigint,
    OUT history_pid integer,
    OUT history_buckets_max integer,
    OUT history_buckets integer,
    OUT history_overwritten bigint,
    OUT history_other_plans bigint,
    OUT history_clock_jumps bigint,
    OUT history_saved timestamptz,
    OUT history_bytes bigint,
    OUT plans_bytes_max bigint,
    OUT plans_bytes bigint,
    OUT plans_max integer,
    OUT plans_used integer,
    OUT plans_kept bigint,
    OUT plans_dropped bigint,
    OUT plans_too_large bigint,
    OUT plans_failed bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'light_explain_status'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION light_explain_status() IS
'whether light_explain is on, and the reason if it is not; slots for the progress of statements: how many there are and are taken, and how many statements got none because all were, because their login role had its share, or because they have too many nodes; room in the profile, how much is taken, plans that made room for others, nodes of too large plans, and statements that have no identifier; the clock: the processor''s counter by the name that Linux gives it, or system; the sampler''s process, its rounds, those that were late, processes that it could not read; samples that were taken, that are kept one by one at most, and that newer ones replaced; sums by statement, plan, node and wait event: how many there may be and are, and samples of sums that made room; processes whose nodes it cannot see; the history''s process, the buckets that it may have and has, those that newer ones replaced, plans for which a bucket had no room, how often the system''s time was set, when the file was written, and bytes of shared memory that the history takes; bytes that kept plans may take and take, how many there may be and are; executions that were kept until now, plans that made room for others, executions whose plan is too large, and those whose plan could not be formatted';

CREATE FUNCTION light_explain_memory(
    OUT area text,
    OUT bytes bigint,
    OUT used_bytes bigint,
    OUT entries_max bigint,
    OUT entries bigint,
    OUT discarded bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'light_explain_memory'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION light_explain_memory() IS
'memory of each part of light_explain, which is allocated when the server starts: bytes of it that entries use; how many entries there may be and are, and what was discarded because there was no space';
