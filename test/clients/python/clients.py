"""psycopg 3, psycopg2, asyncpg, SQLAlchemy on psycopg and psycopg2, Django, ADBC and Polars: what they give and take
for a column of appendable_bytea is what they give and take for bytea.

Each scenario is a function of a table's name that returns a list of anything that has a repr(); it is run on the
table "plain" (bytea) and on the table "own" (appendable_bytea), and the two lists are compared.
"""

import asyncio
import os
import sys
import traceback

CHUNK = bytes(range(256)) * 40      # in chunks
HEX = b"\\x4142"                    # six bytes that look like bytea's text
DSN = "host={PGHOST} port={PGPORT} user={PGUSER} dbname={PGDATABASE}".format(**os.environ)
URL = "{PGUSER}@{PGHOST}:{PGPORT}/{PGDATABASE}".format(**os.environ)

failed = False


def compare(name, scenario):
    global failed
    results = []
    for table in ("plain", "own"):
        try:
            results.append([repr(r).replace(f"{table}", "TABLE") for r in scenario(table)])
        except Exception:
            results.append([traceback.format_exc()])
    plain, own = results
    if plain == own and len(plain) > 2:
        print(f"ok {name}: {len(plain)} results")
        return
    failed = True
    print(f"not ok {name}")
    for number, (a, b) in enumerate(zip(plain + [None] * 99, own)):
        if a != b:
            print(f"  {number}: bytea            {str(a)[:600]}\n  {number}: appendable_bytea {str(b)[:2000]}")


def kind(value):
    """A value with its type; long ones shortened by a checksum."""
    data = bytes(value) if isinstance(value, (bytes, bytearray, memoryview)) else value
    return type(value).__name__, data if not isinstance(data, bytes) or len(data) < 30 else (len(data), hash(data))


def rows(cursor):
    return [tuple(kind(v) for v in row) for row in cursor.fetchall()], [(d[0], d[1]) for d in cursor.description]


# ---- psycopg 3 ---------------------------------------------------------------

def psycopg3(binary, table):
    import psycopg

    found = []
    with psycopg.connect(DSN, autocommit=True) as conn, conn.cursor(binary=binary) as cur:
        p = "%b" if binary else "%s"
        cur.execute(f"TRUNCATE {table}")
        for i, value in enumerate((b"", b"\0\1", CHUNK, HEX, None)):
            found.append(rows(cur.execute(f"INSERT INTO {table} VALUES ({p}, {p}) RETURNING id, data", (i, value))))
        for n in range(7):  # prepared by the server after five
            found.append(rows(cur.execute(f"UPDATE {table} SET data = data || {p} WHERE id = {p} RETURNING data, length(data)", (b"more" * n, 1))))
            found.append(rows(cur.execute(f"SELECT substr(data, {p}, {p}), get_byte(data, {p}) FROM {table} WHERE id = {p}", (2, 3, 1, 2))))
            found.append(rows(cur.execute(f"SELECT data, id FROM {table} WHERE data = {p} OR data = ANY ({p}) ORDER BY data", (HEX, [b"", CHUNK]))))
        cur.execute(f"ALTER TABLE {table} SET (fillfactor = 77)")
        found.append(rows(cur.execute(f"UPDATE {table} SET data = data || {p} WHERE id = {p} RETURNING data, length(data)", (b"last", 1))))
        found.append(
            rows(
                cur.execute(
                    f"WITH new AS (UPDATE {table} SET data = overlay(data PLACING {p} FROM {p}) RETURNING data) SELECT data FROM new ORDER BY data", (b"XY", 5)
                )
            )
        )
        found.append(rows(cur.execute(f"SELECT data FROM {table} UNION SELECT {p} ORDER BY 1", (b"z",))))
        found.append(rows(cur.execute(f"SELECT array_agg(data ORDER BY id) FROM {table}")))
    return found


def psycopg3_server_cursor(table):
    import psycopg

    with psycopg.connect(DSN) as conn:
        conn.execute(f"INSERT INTO {table} SELECT i, %s FROM generate_series(20, 60) i", (CHUNK,))
        with conn.cursor("named", binary=True) as cur:
            cur.execute(f"SELECT data FROM {table} WHERE data = %b ORDER BY id", (CHUNK,))
            found = [kind(row[0]) for row in cur]
        with conn.cursor("other") as cur:
            cur.execute(f"SELECT data FROM {table} ORDER BY id")
            found += [kind(cur.fetchone()[0]), kind(cur.fetchmany(3)[2][0])]
        conn.rollback()
    return found


def psycopg3_pipeline(table):
    import psycopg

    with psycopg.connect(DSN, autocommit=True) as conn, conn.pipeline():
        cursors = [conn.execute(f"TRUNCATE {table}")]
        cursors += [conn.execute(f"INSERT INTO {table} VALUES (%s, %s) RETURNING data", (i, CHUNK[:i * 50])) for i in range(8)]
        cursors += [conn.execute(f"UPDATE {table} SET data = data || %s WHERE id = %s RETURNING data", (HEX, i)) for i in range(8)]
        with conn.cursor() as many:
            many.executemany(f"UPDATE {table} SET data = data || %s WHERE id = %s RETURNING data", [(b"x", 1), (b"y", 2)], returning=True)
            found = [kind(many.fetchone()[0]), many.nextset(), kind(many.fetchone()[0])]
        return found + [[kind(row[0]) for row in c.fetchall()] for c in cursors[1:]]


def psycopg3_copy(table):
    import psycopg

    found = []
    with psycopg.connect(DSN, autocommit=True) as conn, conn.cursor() as cur:
        for form in ("TEXT", "BINARY"):
            cur.execute(f"TRUNCATE {table}")
            with cur.copy(f"COPY {table} (id, data) FROM STDIN (FORMAT {form})") as copy:
                copy.set_types(["int4", "bytea"])
                for i, value in enumerate((b"", CHUNK, HEX, None)):
                    copy.write_row((i, value))
            for query in (table, f"(SELECT id, data FROM {table} ORDER BY data)"):
                with cur.copy(f"COPY {query} TO STDOUT (FORMAT {form})") as copy:
                    copy.set_types(["int4", "bytea"])
                    found += [tuple(kind(v) for v in row) for row in copy.rows()]
                with cur.copy(f"COPY {query} TO STDOUT (FORMAT {form})") as copy:
                    found += [tuple(kind(v) for v in row) for row in copy.rows()]
    return found


# ---- json and jsonb: tables "plain_json" (json), "own_json" (appendable_json), and of jsonb ---

DOCUMENT = {"messages": [{"role": "user", "text": "\u00e4" * n} for n in range(120)], "title": None}


def psycopg3_json(binary, table):
    import psycopg
    from psycopg.types.json import Json

    found = []
    with psycopg.connect(DSN, autocommit=True) as conn, conn.cursor(binary=binary) as cur:
        p = "%b" if binary else "%s"
        cur.execute(f"TRUNCATE {table}")
        for i, value in enumerate((Json(DOCUMENT), Json([1, 2]), Json(None, dumps=lambda _: '{"a": 1,  "a": 2}'), None)):
            found.append(rows(cur.execute(f"INSERT INTO {table} VALUES ({p}, {p}) RETURNING id, data", (i, value))))
        for n in range(7):  # prepared by the server after five
            whole = cur.execute(f"SELECT data FROM {table} WHERE id = 0").fetchone()[0]
            whole["messages"].append({"role": "assistant", "text": "more" * n})
            found.append(rows(cur.execute(f"UPDATE {table} SET data = {p} WHERE id = {p} RETURNING data, data -> 'title'", (Json(whole), 0))))
            found.append(rows(cur.execute(f"SELECT data -> {p}, data ->> 'a' FROM {table} ORDER BY id", ("messages",))))
        found.append(rows(cur.execute(f"SELECT array_agg(data ORDER BY id), json_agg(data ORDER BY id) FROM {table}")))
        try:
            cur.execute(f"UPDATE {table} SET data = {p}", ("[1,",))
        except psycopg.Error as error:
            found.append((type(error).__name__, error.sqlstate))
    return found


def psycopg2_json(table):
    import psycopg2
    from psycopg2.extras import Json

    conn = psycopg2.connect(DSN)
    conn.autocommit = True
    cur = conn.cursor()
    cur.execute(f"TRUNCATE {table}")
    found = []
    for i, value in enumerate((Json(DOCUMENT), Json([1, 2]), None)):
        cur.execute(f"INSERT INTO {table} VALUES (%s, %s) RETURNING id, data", (i, value))
        found.append(rows(cur))
    cur.execute(f"UPDATE {table} SET data = %s WHERE id = 0 RETURNING data, data -> 'more'", (Json({**DOCUMENT, "more": 1}),))
    found.append(rows(cur))
    conn.close()
    return found


def asyncpg_json(table):
    import asyncpg
    import json

    async def run():
        found = []
        conn = await asyncpg.connect(dsn="postgresql://" + URL)
        for codec in (False, True):
            if codec:
                await conn.set_type_codec(table.partition("_")[2], encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
            encode = (lambda value: value) if codec else json.dumps
            await conn.execute(f"TRUNCATE {table}")
            for i, value in enumerate((DOCUMENT, [1, 2], {"a": None})):
                found += [tuple(row) for row in await conn.fetch(f"INSERT INTO {table} VALUES ($1, $2) RETURNING id, data", i, encode(value))]
            change = f"UPDATE {table} SET data = $1 WHERE id = $2 RETURNING data, data -> 'more'"
            found += [tuple(row) for row in await conn.fetch(change, encode({"more": 2}), 1)]
            found.append(await conn.fetchval(f"SELECT array_agg(data ORDER BY id) FROM {table}"))
        await conn.close()
        return found

    return asyncio.run(run())


def sqlalchemy_json(table):
    import sqlalchemy as sa
    from sqlalchemy.dialects.postgresql import JSONB
    from sqlalchemy.orm import Session, declarative_base

    base = declarative_base()
    kind = JSONB if table.endswith("_jsonb") else sa.JSON
    item = type("Item", (base,), {"__tablename__": table, "id": sa.Column(sa.Integer, primary_key=True), "data": sa.Column(kind)})
    engine = sa.create_engine(f"postgresql+psycopg://{URL}")
    found = []
    with Session(engine) as session:
        session.execute(sa.delete(item))
        session.add_all([item(id=1, data=DOCUMENT), item(id=2, data=[1, {"k": "v"}]), item(id=3, data=None)])
        session.commit()
        for n in range(4):
            one = session.get(item, 1)
            one.data = {**one.data, "messages": [*one.data["messages"], {"role": "assistant", "n": n}]}
            session.commit()
            found.append(session.get(item, 1).data)
        found += session.execute(sa.select(item.data["messages"][0]["role"].as_string(), item.data[1]["k"].as_string()).order_by(item.id)).all()
        found += session.scalars(sa.select(item.data).order_by(item.id)).all()
    engine.dispose()
    return found


# ---- psycopg2 ----------------------------------------------------------------

def psycopg2_dbapi(table):
    import psycopg2

    found = []
    conn = psycopg2.connect(DSN)
    conn.autocommit = True
    cur = conn.cursor()
    cur.execute(f"TRUNCATE {table}")
    for i, value in enumerate((b"", b"\0\1", CHUNK, HEX, None)):
        cur.execute(f"INSERT INTO {table} VALUES (%s, %s) RETURNING id, data", (i, value))
        found.append(rows(cur))
    for sql, values in (
        ("SELECT data FROM {t} ORDER BY id", ()),
        ("SELECT data FROM {t} WHERE data = %s ORDER BY data", (HEX,)),
        ("WITH new AS (UPDATE {t} SET data = data || %s RETURNING data) SELECT data FROM new ORDER BY data", (CHUNK,)),
        ("SELECT substr(data, %s, %s), length(data) FROM {t} ORDER BY id", (1, 2)),
        ("SELECT data FROM {t} WHERE data IN %s ORDER BY id", ((HEX, CHUNK),)),
    ):
        cur.execute(sql.format(t=table), values)
        found.append(rows(cur))
    conn.autocommit = False
    named = conn.cursor("named")
    named.execute(f"SELECT data, id FROM {table} ORDER BY data")
    found.append([kind(row[0]) for row in named])
    conn.rollback()
    conn.close()
    return found


# ---- asyncpg -----------------------------------------------------------------

def asyncpg_driver(table):
    async def run():
        import asyncpg

        found = []
        conn = await asyncpg.connect(f"postgresql://{URL}")
        try:
            await conn.execute(f"TRUNCATE {table}")
            for i, value in enumerate((b"", b"\0\1", CHUNK, HEX, None)):
                found.append(kind(await conn.fetchval(f"INSERT INTO {table} VALUES ($1, $2) RETURNING data", i, value)))
            await conn.executemany(f"INSERT INTO {table} VALUES ($1, $2)", [(10, b"a"), (11, CHUNK)])
            for sql, values in (
                ("SELECT data FROM {t} ORDER BY id", ()),
                ("UPDATE {t} SET data = data || $1 WHERE id = $2 RETURNING data", (CHUNK, 1)),
                ("SELECT substr(data, $1, $2), length(data) FROM {t} ORDER BY id", (1, 2)),
                ("SELECT id, data FROM {t} WHERE data = $1 OR data = ANY ($2::bytea[]) ORDER BY data", (HEX, [b"", CHUNK])),
                ("SELECT id FROM {t} WHERE data = ANY ($1) ORDER BY id", ([b"", CHUNK],)),
                ("SELECT array_agg(data ORDER BY id) FROM {t}", ()),
            ):
                statement = await conn.prepare(sql.format(t=table))
                found.append(([a.type.name for a in statement.get_attributes()], [p.name for p in statement.get_parameters()]))
                for _ in range(3):
                    found.append([tuple(kind(v) for v in row) for row in await statement.fetch(*values)])
            async with conn.transaction():
                found.append([kind(row["data"]) async for row in conn.cursor(f"SELECT data FROM {table} WHERE data <> $1 ORDER BY data", b"")])
            await conn.execute(f"TRUNCATE {table}")
            await conn.execute(f"ALTER TABLE {table} SET (fillfactor = 78)")
            found.append(kind(await conn.fetchval(f"INSERT INTO {table} VALUES ($1, $2) RETURNING data", 1, CHUNK)))
            found.append((await conn.copy_from_query(f"SELECT data FROM {table}", output=os.devnull, format="binary")))
        finally:
            await conn.close()
        return found
    return asyncio.run(run())


# ---- SQLAlchemy --------------------------------------------------------------

def sqlalchemy_engine(driver, table):
    import sqlalchemy as sa

    engine = sa.create_engine(f"postgresql+{driver}://{URL}")
    t = sa.Table(table, sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("data", sa.LargeBinary))
    found = []
    with engine.begin() as conn:
        conn.execute(t.delete())
        conn.execute(t.insert(), [{"id": i, "data": v} for i, v in enumerate((b"", b"\0\1", CHUNK, HEX, None))])
        found.append([tuple(kind(v) for v in row) for row in conn.execute(sa.select(t).order_by(t.c.id))])
        found.append([kind(v) for v in conn.scalars(sa.select(t.c.data).where(t.c.data.in_([HEX, b"\0\1"])).order_by(t.c.data))])
        found.append([kind(v) for v in conn.scalars(t.update().where(t.c.id == 1).values(data=t.c.data.op("||")(CHUNK)).returning(t.c.data))])
        found.append([kind(v) for v in conn.scalars(sa.select(sa.func.substr(t.c.data, 2, 3)).order_by(t.c.id))])
        found.append([kind(v) for v in conn.scalars(sa.select(t.c.data).union(sa.select(sa.literal(b"z"))).order_by("data"))])
        found.append([kind(row[0]) for row in conn.execute(sa.text(f"SELECT data FROM {table} ORDER BY id"))])
    engine.dispose()
    return found


def sqlalchemy_orm(table):
    import sqlalchemy as sa
    from sqlalchemy import orm

    class Base(orm.DeclarativeBase):
        pass

    class Item(Base):
        __tablename__ = table
        id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
        data: orm.Mapped[bytes]

    engine = sa.create_engine(f"postgresql+psycopg://{URL}")
    with orm.Session(engine) as session:
        session.execute(sa.delete(Item))
        session.add_all([Item(id=1, data=CHUNK), Item(id=2, data=HEX)])
        session.commit()
        item = session.get(Item, 1)
        item.data = item.data + b"more"
        session.commit()
        session.execute(sa.update(Item).values(data=Item.data.op("||")(b"!")))
        session.commit()
        found = [kind(item.data) for item in session.scalars(sa.select(Item).order_by(Item.data))]
        session.get(Item, 2).data = session.get(Item, 1).data
        session.commit()
        found += [kind(item.data) for item in session.scalars(sa.select(Item).order_by(Item.id))]
    engine.dispose()
    return found


# ---- Django ------------------------------------------------------------------

def django_setup():
    import django
    from django.conf import settings

    e = os.environ
    settings.configure(
        DATABASES={
            "default": {"ENGINE": "django.db.backends.postgresql", "NAME": e["PGDATABASE"], "USER": e["PGUSER"], "HOST": e["PGHOST"], "PORT": e["PGPORT"]}
        },
        INSTALLED_APPS=[],
        USE_TZ=True,
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    )
    django.setup()


def django_models(table):
    from django.db import connection, models
    from django.db.models.functions import Length, Substr

    class Meta:
        app_label = "clients"
        db_table = table
        managed = False

    model = type(
        f"Item{table}",
        (models.Model,),
        {"__module__": __name__, "Meta": Meta, "id": models.IntegerField(primary_key=True), "data": models.BinaryField(null=True)},
    )
    objects = model.objects
    objects.all().delete()
    for i, value in enumerate((b"", b"\0\1", CHUNK, HEX, None)):
        objects.create(id=i, data=value)
    found = [kind(objects.get(id=i).data) for i in range(5)]
    item = objects.get(id=2)
    item.save()
    item.data = bytes(item.data) + b"more"
    item.save()
    item.refresh_from_db()
    found.append(kind(item.data))
    found.append([kind(v) for v in objects.filter(data=HEX).values_list("data", flat=True)])
    found.append([kind(v) for v in objects.filter(data__in=[HEX, b""]).order_by("data").values_list("data", flat=True)])
    objects.bulk_create([model(id=10, data=CHUNK), model(id=11, data=b"")])
    objects.bulk_update([model(id=10, data=HEX), model(id=11, data=CHUNK)], ["data"])
    found.append([kind(v) for v in objects.order_by("data", "id").distinct().values_list("data", flat=True)])
    found.append([kind(v) for v in objects.annotate(n=Length("data"), part=Substr("data", 2, 3)).order_by("id").values_list("n", "part")])
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET data = data || %s WHERE id = 1 RETURNING data", [CHUNK])
        found.append(kind(cursor.fetchone()[0]))
    found.append([kind(i.data) for i in objects.order_by("id").iterator(chunk_size=2)])
    return found


# ---- ADBC and Polars -------------------------------------------------------------

def arrow(table):
    import adbc_driver_postgresql.dbapi as adbc
    import polars
    import pyarrow

    uri = f"postgresql://{URL}"
    rows_in = pyarrow.table({"id": pyarrow.array(range(4), pyarrow.int32()), "data": [b"", b"\0\1", CHUNK, HEX]})
    with adbc.connect(uri, autocommit=True) as conn, conn.cursor() as cur:
        cur.execute(f"TRUNCATE {table}")
        cur.adbc_ingest(table, rows_in, mode="append")
        cur.execute(f"UPDATE {table} SET data = data || $1 WHERE id = $2", (CHUNK, 1))
        cur.execute(f"SELECT * FROM {table} ORDER BY id")
        found = [cur.fetch_arrow_table().to_pydict()]
        found.append([str(f.type) for f in cur.adbc_execute_schema(f"SELECT * FROM {table}")])
    polars.DataFrame({"id": [9], "data": [CHUNK]}, schema={"id": polars.Int32, "data": polars.Binary}).write_database(
        table, uri, engine="adbc", if_table_exists="append"
    )
    frame = polars.read_database_uri(f"SELECT * FROM {table} ORDER BY id", uri, engine="adbc")
    return found + [frame.schema, frame.rows()]


# ---- reflection: what appendable_bytea/docs/clients.md says ------------------------------------------

def reflection():
    global failed
    import sqlalchemy as sa
    import warnings
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext
    from sqlalchemy.dialects.postgresql import base

    document = open(sys.argv[1]).read()
    example = document.split("```python\n# SQLAlchemy\n", 1)[1].split("```", 1)[0]
    engine = sa.create_engine(f"postgresql+psycopg://{URL}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        before = sa.inspect(engine).get_columns("own")[1]["type"]
    good = repr(before) == "NullType()" and "Did not recognize type 'appendable_bytea' of column 'data'" in str(caught[0].message)
    told = {}
    exec(example, told)
    after = sa.inspect(engine).get_columns("own")[1]["type"]
    good = good and isinstance(after, sa.LargeBinary) and "appendable_bytea" in base.ischema_names
    # a reflected table is created again, and Alembic notices both types
    copied = sa.Table("own", sa.MetaData(), autoload_with=engine).to_metadata(sa.MetaData(), name="copied")
    copied.append_column(sa.Column("log", told["AppendableText"]))
    copied.primary_key.name = None
    with engine.begin() as conn:
        copied.metadata.create_all(conn)
        types = conn.execute(sa.text("SELECT pg_typeof(data)::text, pg_typeof(log)::text FROM (SELECT) x LEFT JOIN copied ON true")).all()
        good = good and types == [("appendable_bytea", "appendable_text")]
        migrations = MigrationContext.configure(
            conn, opts={"compare_type": True, "include_name": lambda name, kind, parents: kind != "table" or name == "copied"}
        )
        for binary, text, differences in ((told["AppendableBytea"], told["AppendableText"], 0), (sa.LargeBinary, sa.Text, 2)):
            model = sa.MetaData()
            sa.Table("copied", model, sa.Column("id", sa.Integer, primary_key=True), sa.Column("data", binary), sa.Column("log", text))
            good = good and len(compare_metadata(migrations, model)) == differences
    engine.dispose()
    # columns of appendable_json and appendable_jsonb, made and read as JSON
    for name, kind in (("appendable_json", "AppendableJson"), ("appendable_jsonb", "AppendableJsonb")):
        engine = sa.create_engine(f"postgresql+psycopg://{URL}")
        made = sa.Table(f"made_{name}", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("data", told[kind]))
        with engine.begin() as conn:
            made.create(conn)
            conn.execute(made.insert().values(id=1, data=DOCUMENT))
            good = good and conn.execute(sa.select(made.c.data, made.c.data["title"].as_string(), sa.func.pg_typeof(made.c.data).cast(sa.Text))).all() == [
                (DOCUMENT, None, name)]
            good = good and isinstance(sa.inspect(conn).get_columns(made.name)[1]["type"], told[kind])
        engine.dispose()

    from io import StringIO

    from django.core.management import call_command

    out = StringIO()
    call_command("inspectdb", "own", stdout=out)
    inspected = [line.strip() for line in out.getvalue().split("\n") if "data = " in line]
    good = good and inspected == ["data = models.BinaryField(blank=True, null=True)"] and inspected[0] in document
    # a table made by Django
    from django.db import connection, models

    names = {}
    exec(document.split("```python\n# Django\n", 1)[1].split("```", 1)[0], names)
    made = type(
        "Made",
        (models.Model,),
        {"__module__": __name__, "Meta": type("Meta", (), {"app_label": "clients", "db_table": "made"}), "data": names["AppendableField"]()},
    )
    with connection.schema_editor() as editor:
        editor.create_model(made)
    made.objects.create(data=CHUNK)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_typeof(data)::text FROM made")
        good = good and cursor.fetchone()[0] == "appendable_bytea" and bytes(made.objects.get().data) == CHUNK

    print(f"{'ok' if good else 'not ok'} reflection by SQLAlchemy, Alembic and Django is as documented")
    if not good:
        failed = True
        print(f"  {before!r} {[str(w.message) for w in caught]} {after!r} {inspected}")


if __name__ == "__main__":
    compare("psycopg 3, text", lambda t: psycopg3(False, t))
    compare("psycopg 3, binary", lambda t: psycopg3(True, t))
    compare("psycopg 3, server cursors", psycopg3_server_cursor)
    compare("psycopg 3, pipeline", psycopg3_pipeline)
    compare("psycopg 3, COPY", psycopg3_copy)
    compare("psycopg2", psycopg2_dbapi)
    for of in ("json", "jsonb"):
        compare(f"psycopg 3, {of} as text", lambda t, of=of: psycopg3_json(False, f"{t}_{of}"))
        compare(f"psycopg 3, {of}, binary", lambda t, of=of: psycopg3_json(True, f"{t}_{of}"))
        compare(f"psycopg2, {of}", lambda t, of=of: psycopg2_json(f"{t}_{of}"))
        compare(f"asyncpg, {of}", lambda t, of=of: asyncpg_json(f"{t}_{of}"))
        compare(f"SQLAlchemy ORM, {of}", lambda t, of=of: sqlalchemy_json(f"{t}_{of}"))
    compare("asyncpg", asyncpg_driver)
    compare("SQLAlchemy on psycopg", lambda t: sqlalchemy_engine("psycopg", t))
    compare("SQLAlchemy on psycopg2", lambda t: sqlalchemy_engine("psycopg2", t))
    compare("SQLAlchemy ORM", sqlalchemy_orm)
    compare("ADBC and Polars", arrow)
    django_setup()
    compare("Django BinaryField", django_models)
    reflection()
    sys.exit(failed)
