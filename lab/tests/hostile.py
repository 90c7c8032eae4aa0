"""Objects in schema public that match better than those that the lab's queries mean.

They are generated from the package's SQL: for each function, operator, type and relation of pg_catalog whose name is
in it, a role without privileges creates overloads for other argument types, and objects of the same name.  Each one
reports its call to the server's log, which a rollback does not undo, and tries to make that role a superuser.
"""

from __future__ import annotations

import ast
import re

from pg_lean.cluster import Cluster
from pg_lean.paths import TOP

#: Argument types of the overloads.
TYPES = (
    "int2",
    "int4",
    "int8",
    "float4",
    "float8",
    "numeric",
    "text",
    "name",
    "varchar",
    "oid",
    "regclass",
    "bool",
    "timestamptz",
    "interval",
    "pg_lsn",
    "xid",
    "bytea",
)

#: Written to the server's log by each call.
MARK = "HOSTILE"

CREATE = r"""
CREATE ROLE bob;
GRANT CREATE, USAGE ON SCHEMA public TO bob;
SET ROLE bob;
CREATE FUNCTION public.hostile_read(what text) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    RAISE WARNING 'HOSTILE %', what;
    BEGIN EXECUTE 'ALTER ROLE bob SUPERUSER'; EXCEPTION WHEN OTHERS THEN NULL; END;
    RETURN true;
END $$;
DO $do$
DECLARE
    names text[] := {names};
    symbols text[] := {symbols};
    arguments text[] := {arguments};
    types oid[] := (SELECT array_agg(t::regtype::oid) FROM unnest({types}::text[]) t);
    body text := $$ BEGIN RAISE WARNING 'HOSTILE %', {{}}; BEGIN EXECUTE 'ALTER ROLE bob SUPERUSER'; EXCEPTION WHEN OTHERS THEN NULL; END; RETURN NULL; END $$;
    one record;
BEGIN
    -- functions: each argument by each type, and all of them by it; single arguments also by their names
    FOR one IN
        WITH known AS (
            SELECT p.proname, p.proargtypes::oid[] AS args, p.pronargs, p.proargnames,
                   CASE WHEN t.typtype = 'p' THEN 'text'::regtype ELSE p.prorettype::regtype END AS result
            FROM pg_proc p JOIN pg_type t ON t.oid = p.prorettype
            WHERE p.proname = ANY (names) AND p.pronargs BETWEEN 1 AND 7
                  AND p.pronamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('pg_catalog', 'public', 'work'))),
        clean AS (
            SELECT proname, result, proargnames, pronargs,
                   (SELECT array_agg(CASE WHEN t.typtype = 'p' THEN 'text'::regtype::oid ELSE a END ORDER BY n)
                    FROM unnest(args[0:]) WITH ORDINALITY u(a, n) JOIN pg_type t ON t.oid = a) AS args
            FROM known),
        variants AS (
            SELECT proname, result, args[1:i - 1] || t || args[i + 1:] AS args, NULL::text AS argument FROM clean, generate_series(1, pronargs) i,
                unnest(types) t
            UNION SELECT proname, result, array_fill(t, ARRAY[pronargs]), NULL FROM clean, unnest(types) t
            UNION SELECT proname, result, ARRAY[t], argument FROM clean, unnest(types) t, unnest(proargnames[1:pronargs]) argument
                WHERE argument = ANY (arguments))
        SELECT DISTINCT ON (proname, args) proname, args, result, argument,
               (SELECT string_agg(coalesce(quote_ident(argument) || ' ', '') || a::regtype::text, ', ' ORDER BY n)
                   FROM unnest(args) WITH ORDINALITY u(a, n)) AS written
        FROM variants ORDER BY proname, args, argument
    LOOP
        BEGIN
            EXECUTE format('CREATE FUNCTION public.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', one.proname, one.written, one.result,
                           replace(body, '{{}}', quote_literal(format('function %s(%s)', one.proname, one.written))));
        EXCEPTION WHEN duplicate_function OR invalid_function_definition THEN NULL;
        END;
    END LOOP;
    -- operators: each pair of types
    FOR one IN
        SELECT symbol, l::regtype AS l, r::regtype AS r,
               CASE WHEN symbol ~ '^[=<>!~@&]+[*]?$' AND symbol <> '&' THEN 'bool'::regtype ELSE l::regtype END AS result
        FROM unnest(symbols) symbol, unnest(types) l, unnest(types) r
        WHERE symbol IN (SELECT oprname FROM pg_operator)
    LOOP
        BEGIN
            EXECUTE format('CREATE FUNCTION public.%I(%s, %s) RETURNS %s LANGUAGE plpgsql AS %L', 'operator ' || one.symbol, one.l, one.r, one.result,
                           replace(body, '{{}}', quote_literal(format('operator %s %s %s', one.l, one.symbol, one.r))));
            EXECUTE format('CREATE OPERATOR public.%s (FUNCTION = public.%I, LEFTARG = %s, RIGHTARG = %s)', one.symbol, 'operator ' || one.symbol,
                one.l, one.r);
        EXCEPTION WHEN duplicate_function OR syntax_error THEN NULL;
        END;
    END LOOP;
    -- relations and types of the catalog's names
    FOR one IN
        SELECT relname, (SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute a WHERE attrelid = c.oid AND attnum > 0
            AND atttypid <> 'anyarray'::regtype) AS columns
        FROM pg_class c WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind IN ('r', 'v') AND relname = ANY (names)
    LOOP
        EXECUTE format('CREATE VIEW public.%1$I AS SELECT %3$s FROM pg_catalog.%1$I WHERE public.hostile_read(%2$L)', one.relname, 'relation ' ||
            one.relname, one.columns);
        EXECUTE format('GRANT SELECT ON public.%1$I TO PUBLIC', one.relname);
    END LOOP;
    FOR one IN SELECT typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype = 'b' AND typcategory <> 'A' AND typname = ANY (names)
    LOOP
        EXECUTE format('CREATE DOMAIN public.%1$I AS pg_catalog.%1$I CHECK (public.hostile_read(%2$L))', one.typname, 'type ' || one.typname);
    END LOOP;
END $do$;
RESET ROLE;
"""


def sql_of_the_package() -> dict[str, list[str]]:
    """Words, operators and names of arguments in all strings of the package: those of its SQL are among them."""
    text = "\n".join(
        node.value
        for path in sorted((TOP / "lab" / "pg_lean").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    sign = r"[-+*/<>=~!@#%^&|`?]"
    found = {
        "names": r"[a-z_][a-z0-9_]*",
        "symbols": rf"(?<!{sign}){sign}{{1,3}}(?!{sign})",
        "arguments": r"([a-z_]+) *=>",
    }
    return {what: sorted(set(re.findall(pattern, text))) for what, pattern in found.items()}


def array(values) -> str:
    return "ARRAY[" + ", ".join("'" + value.replace("'", "''") + "'" for value in values) + "]"


class Hostile:
    """The objects in a cluster's database, and what was called of them.

    The role's search_path begins with public, so that a session that sets none finds them before the server's.
    """

    def __init__(self, cluster: Cluster):
        self.cluster = cluster
        with cluster.connect() as conn:
            conn.execute("SET search_path = pg_catalog")
            conn.execute(
                CREATE.format(
                    types=array(TYPES), **{what: array(values) for what, values in sql_of_the_package().items()}
                ).encode()
            )
            created = conn.execute("SELECT count(*) FROM pg_proc WHERE proowner = 'bob'::regrole").fetchone()[0]
            assert created > 5000, f"only {created} objects: the package's SQL was not found"
            conn.execute("ALTER ROLE postgres SET search_path = public, pg_catalog")
        self.read = 0
        self.called()

    def called(self) -> list[str]:
        """The objects that were called since the last call of this function, according to the server's log."""
        with open(self.cluster.log, errors="replace") as log:
            log.seek(self.read)
            text = log.read()
            self.read = log.tell()
        return sorted(set(re.findall(rf"{MARK} (.*)", text)))

    def check(self) -> None:
        """None of them was called, and their owner has no more privileges than before."""
        called = self.called()
        assert not called, f"hostile objects were called: {called}"
        if self.cluster.process is not None:
            with self.cluster.connect() as conn:
                conn.execute("SET search_path = pg_catalog")
                assert conn.execute("SELECT rolname FROM pg_roles WHERE rolsuper").fetchall() == [("postgres",)]
