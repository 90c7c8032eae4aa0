"""Alembic's migrations of a table with plain columns and of one with columns of the types.

The lines that make SQLAlchemy know the types are those of appendable_bytea/docs/clients.md,
which the test puts before this program (TYPES).  PGHOST and PGPORT say where the server is.
"""

import os
import sys

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata, produce_migrations
from alembic.migration import MigrationContext
from alembic.operations import Operations

exec(os.environ["TYPES"])
engine = sa.create_engine("postgresql+psycopg://postgres@/postgres", connect_args={"host": os.environ["PGHOST"], "port": os.environ["PGPORT"]})


def tables(more: bool) -> sa.MetaData:
    """The application's models, before and after its second revision."""
    metadata = sa.MetaData()
    for name, binary, text in (("plain", sa.dialects.postgresql.BYTEA, sa.TEXT), ("lean", AppendableBytea, AppendableText)):  # noqa: F821
        columns = [sa.Column("id", sa.Integer, primary_key=True), sa.Column("data", binary(), nullable=False), sa.Column("note", text(), nullable=not more)]
        if more:
            columns.append(sa.Column("second", binary(), nullable=True))
        sa.Table(name, metadata, *columns)
    return metadata


def ours(item, name, kind, reflected, compare_to):
    """What this application's revisions may change."""
    return kind != "table" or name in ("plain", "lean")


with engine.begin() as connection:
    context = MigrationContext.configure(connection, opts={"compare_type": True, "include_object": ours})
    operations = Operations(context)
    for more in (False, True):
        wanted = tables(more)
        script = produce_migrations(context, wanted)

        def run(group):
            for operation in group.ops:
                run(operation) if hasattr(operation, "ops") else operations.invoke(operation)

        if more:
            for name in ("plain", "lean"):
                connection.execute(sa.text(f"UPDATE {name} SET note = '' WHERE note IS NULL"))
        run(script.upgrade_ops)
        left = compare_metadata(context, wanted)
        if left:
            sys.exit(f"autogenerate still finds differences: {left!r:.500}")
        for name in ("plain", "lean"):
            table = wanted.tables[name]
            rows = [{"id": 10 * more + n, "data": bytes([n]) * 5000 * n, "note": "note" * n * 500} for n in range(1, 9)]
            connection.execute(table.insert(), rows)
            connection.execute(table.update().where(table.c.id % 2 == 0).values(data=table.c.data.op("||")(b"more")))
            connection.execute(table.delete().where(table.c.id == 10 * more + 3))
    found = {name: connection.execute(sa.select(table).order_by(table.c.id)).all() for name, table in tables(True).tables.items()}
    if found["plain"] != found["lean"]:
        sys.exit("the rows differ")
    reflected = {name: [(column.name, isinstance(column.type, (sa.LargeBinary, sa.TEXT, sa.Integer)), column.nullable)
                        for column in sa.Table(name, sa.MetaData(), autoload_with=connection).columns] for name in ("plain", "lean")}
    if reflected["plain"] != reflected["lean"]:
        sys.exit(f"reflection differs: {reflected}")
print(f"{len(found['plain'])} rows after two revisions, no difference found by autogenerate")
