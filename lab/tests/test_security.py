"""docs/security.md against the catalogs: every SQL-callable function of the project is in it, with those who may call it."""

import re

import pytest

from pg_lean.cluster import LIBRARIES, Cluster
from pg_lean.paths import TOP

PAGE = TOP / "docs" / "security.md"

#: Functions of the project's extensions: whole signature, who may execute it besides its owner, and how it runs.
FUNCTIONS = """
SELECT p.proname || '(' || oidvectortypes(p.proargtypes) || ')', p.prosecdef, p.proconfig, p.provolatile, p.proparallel,
    obj_description(p.oid, 'pg_proc'), e.extname,
    CASE WHEN has_function_privilege('plain', p.oid, 'EXECUTE') THEN 'everyone'
        WHEN has_function_privilege('watcher', p.oid, 'EXECUTE') THEN 'pg_monitor' ELSE 'superuser' END
FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
    JOIN pg_extension e ON e.oid = d.refobjid WHERE e.extname = ANY(%s) ORDER BY 1
"""


@pytest.fixture(scope="module")
def catalog():
    cluster = Cluster(name="test", preload=list(LIBRARIES))
    for name in LIBRARIES:
        assert cluster.has_library(name), f"{name} is not installed for this server (make install)"
    with cluster, cluster.connect() as conn:
        conn.execute("CREATE ROLE plain; CREATE ROLE watcher; GRANT pg_monitor TO watcher")
        yield conn


@pytest.fixture(scope="module")
def functions(catalog):
    return catalog.execute(FUNCTIONS, (list(LIBRARIES),)).fetchall()


def test_the_page_lists_every_function_with_those_who_may_call_it(functions):
    written = dict(re.findall(r"^\| `([^`]+)` \| (everyone|pg_monitor|superuser) \|", PAGE.read_text(), re.M))
    listed = {row[0]: row[-1] for row in functions if not of_the_default_kind(row) or row[0] in written}
    assert written == listed


def of_the_default_kind(row) -> bool:
    """The page's default: of appendable_bytea's types, for everyone, with the caller's privileges, not volatile, not called by the server alone."""
    signature, definer, _, volatility, _, _, extension, callers = row
    return extension == "appendable_bytea" and callers == "everyone" and not definer and volatility != "v" and "regclass" not in signature \
        and "internal" not in signature and not signature.endswith("()")


def test_a_function_that_is_not_of_the_default_kind_has_to_be_listed(functions):
    row = next(row for row in functions if row[0] == "appendable_bytea_cat(appendable_bytea, bytea)")
    assert of_the_default_kind(row)
    for place, value in ((1, True), (3, "v"), (6, "parallel_temp"), (7, "superuser"), (0, "appendable_bytea_total_size(regclass)")):
        assert not of_the_default_kind(tuple(value if n == place else field for n, field in enumerate(row)))


def test_a_function_of_its_owners_rights_has_a_search_path(functions):
    assert [row[0] for row in functions if row[1] and not any(s.startswith("search_path=") for s in row[2] or ())] == []


def test_every_function_says_what_it_is_for(functions):
    assert [row[0] for row in functions if not row[5]] == []


def test_what_changes_something_is_not_run_in_parallel_workers(functions):
    """A volatile function marked safe could write in a worker."""
    assert [row[0] for row in functions if row[3] == "v" and row[4] == "s" and "internal" not in row[0]] == []


def test_nothing_of_the_project_can_be_created_in_by_everyone(catalog):
    schemas = catalog.execute("SELECT n.nspname FROM pg_namespace n JOIN pg_depend d ON d.classid = 'pg_namespace'::regclass AND d.objid = n.oid"
                              " AND d.deptype = 'e' JOIN pg_extension e ON e.oid = d.refobjid WHERE e.extname = ANY(%s)"
                              " AND has_schema_privilege('plain', n.oid, 'CREATE')", (list(LIBRARIES),)).fetchall()
    assert schemas == []


def test_relations_of_the_project_cannot_be_changed_by_everyone(catalog):
    rows = catalog.execute("SELECT c.oid::regclass::text FROM pg_class c JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid"
                           " AND d.deptype = 'e' JOIN pg_extension e ON e.oid = d.refobjid WHERE e.extname = ANY(%s) AND c.relkind IN ('r', 'v', 'p')"
                           " AND has_table_privilege('plain', c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER')", (list(LIBRARIES),)).fetchall()
    assert rows == []


def test_views_use_the_servers_operators_whatever_is_in_the_extensions_schema(catalog):
    """A role that may create in the schema, before the extension is created, cannot change what its scripts and views do."""
    for name in LIBRARIES:
        schema = f"trap_{name}"
        catalog.execute(f"DROP EXTENSION {name} CASCADE; CREATE SCHEMA {schema}")
        for operator in ("=", "<", ">", ">=", "/", "*", "-", "+", "||", "!~"):
            for left, right in (
                ("oid", "regclass"),
                ("float8", "int4"),
                ("int8", "int4"),
                ("int4", "int8"),
                ("name", "text"),
                ("text", "text"),
                ("numeric", "float8"),
            ):
                function = f"{schema}.\"{operator} {left} {right}\""
                kind = "bool" if operator in ("=", "<", ">", ">=", "!~") else left
                catalog.execute(f"CREATE FUNCTION {function}({left}, {right}) RETURNS {kind} LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$")
                catalog.execute(f"CREATE OPERATOR {schema}.{operator} (FUNCTION = {function}, LEFTARG = {left}, RIGHTARG = {right})")
        catalog.execute(f"CREATE EXTENSION {name} SCHEMA {schema}")
        used = catalog.execute("SELECT pg_describe_object(classid, objid, objsubid), refobjid::regoperator FROM pg_depend"
                               " WHERE refclassid = 'pg_operator'::regclass AND classid = 'pg_rewrite'::regclass"
                               " AND refobjid IN (SELECT oid FROM pg_operator WHERE oprnamespace = %s::regnamespace)", (schema,)).fetchall()
        assert used == []
        catalog.execute(f"DROP EXTENSION {name}; DROP SCHEMA {schema} CASCADE; CREATE EXTENSION {name}")


@pytest.mark.parametrize("script", sorted(TOP.glob("*/sql/*.sql")), ids=lambda path: path.name)
def test_a_script_resolves_nothing_by_the_callers_search_path(script):
    """What CREATE EXTENSION runs as a superuser names no operator or function that another schema could give."""
    text = re.sub(r"/\*.*?\*/|--[^\n]*", "", script.read_text(), flags=re.S)
    assert not re.search(r"\bCREATE\s+OR\s+REPLACE\b", text, re.I), "CREATE OR REPLACE takes over an object of another role"
    assert not re.search(r"\bIF\s+NOT\s+EXISTS\b", text, re.I), "IF NOT EXISTS adopts an object of another role"
    assert text.lstrip().startswith("\\echo")
