"""Pictures of what pg-lean shows of a server: the screen, a plan that moves, flame graphs, one of them with waits.

They are taken of the real thing: a private server runs a few statements, some of
them in trouble, and the screen is driven by its keys without a terminal.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import time
from pathlib import Path
from typing import Callable, Iterator

import psycopg

from pg_lean import flame, waits
from pg_lean.cluster import Cluster, Server
from pg_lean.commands.flame import draw
from pg_lean.errors import LabError
from pg_lean.screen import Plan, Top

#: Columns and lines of a picture.
SIZE = (110, 22)
#: The screen must show it within this many seconds, however slow the machine is.
PATIENCE = 120.0
#: Colour schemes: their names, and the screen's.
SCHEMES = {"light": "textual-light", "dark": "textual-dark"}
SETTINGS = {
    "compute_query_id": "on",
    "light_explain.profile": "on",
    "jit": "off",
    "max_parallel_workers_per_gather": 0,
    "work_mem": "32MB",
    "autovacuum": "off",
}

TABLES = """
CREATE TABLE customer AS SELECT g AS customer_id, g % 25 AS region FROM generate_series(1, {rows} / 10) g;
CREATE TABLE item AS SELECT g AS item_id, g % 50 AS kind, g % 50 AS shelf FROM generate_series(1, {rows} / 20) g;
CREATE TABLE sale AS SELECT g AS sale_id, 1 + g * 7919::bigint % ({rows} / 20) AS item_id, 1 + g * 104729::bigint % ({rows} / 10) AS customer_id,
    g % 1000 AS amount
    FROM generate_series(1, {rows}) g;
CREATE TABLE account AS SELECT g AS id, 0 AS balance FROM generate_series(1, 1000) g;
ANALYZE customer; ANALYZE item; ANALYZE sale; ANALYZE account"""

REPORT = (
    "SELECT region, sum(amount) FROM sale JOIN item USING (item_id) JOIN customer USING (customer_id) WHERE kind < 25 AND shelf < 25 "
    "GROUP BY region ORDER BY 2 DESC"
)
#: The same, slowed down so that it can be looked at: by so many short sleeps.
SLOW_REPORT = REPORT.replace(" WHERE", " WHERE (sale_id % {every} > 0 OR pg_sleep(0.001) IS NOT NULL) AND")
SLEEPS = 20_000
INDEX = "CREATE INDEX ON customer (slowly(region))"
NAP = "SELECT count(*) FROM customer WHERE CASE WHEN customer_id = 7 THEN pg_sleep(3) IS NOT NULL END"
BLOCKED = "UPDATE account SET balance = balance - 10 WHERE id = 1"


def take(folder: Path, rows: int = 2_000_000) -> list[Path]:
    """Take all pictures into `folder`, each in both color schemes; `rows` is the size of the largest table.  Returns their files."""
    cluster = Cluster(name="scenes", preload=["light_explain"], settings=SETTINGS)
    if not cluster.has_library("light_explain"):
        raise LabError("light_explain is not installed for this server", "Run make install.")
    folder.mkdir(parents=True, exist_ok=True)
    pictures: dict[str, str] = {}
    with cluster, cluster.connect() as conn:
        for statement in TABLES.format(rows=rows).split(";"):
            conn.execute(statement)
        conn.execute("CREATE FUNCTION slowly(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(0.002); RETURN $1; END$$")
        for name, root in (("flame", draw(conn, REPORT, "", None, None)[0]), ("waits", night(cluster, conn))):
            pictures.update({f"{name}-{scheme}.svg": flame.svg(root, dark=scheme == "dark", waits=name == "waits") for scheme in SCHEMES})
        with cluster.connect() as owner, owner.transaction():
            owner.execute("UPDATE account SET balance = balance + 10 WHERE id = 1")
            report = SLOW_REPORT.format(every=max(rows // SLEEPS, 1))
            with running(cluster, report), running(cluster, INDEX), running(cluster, BLOCKED):
                pictures.update(asyncio.run(look(cluster, report)))
    for name, picture in pictures.items():
        (folder / name).write_text(picture)
    return [folder / name for name in pictures]


def night(cluster: Cluster, conn: psycopg.Connection) -> flame.Frame:
    """The profile of a few statements: one that works, one that a function keeps waiting, and one that waits for a row."""
    conn.execute("SELECT light_explain_profile_reset(), light_explain_samples_reset()")
    for statement in (REPORT, NAP):
        conn.execute(statement)
    with cluster.connect() as waiting, cluster.connect() as owner:
        with owner.transaction():
            owner.execute("UPDATE account SET balance = balance + 10 WHERE id = 1")
            waiting.pgconn.send_query(BLOCKED.encode())
            time.sleep(3)
        while waiting.pgconn.get_result() is not None:
            pass
    waits.settle(conn, cluster.need_extension("light_explain"))
    return draw(conn, None, "", None, None)[0]


@contextlib.contextmanager
def running(server: Server, statement: str) -> Iterator[None]:
    """The statement in a separate session, canceled at the end."""
    conn = server.connect()

    def run() -> None:
        with contextlib.suppress(psycopg.Error):
            conn.execute(statement)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        with server.connect() as killer:
            killer.execute("SELECT pg_terminate_backend(%s)", (conn.info.backend_pid,))
        thread.join()
        conn.close()


async def look(server: Server, slow_report: str) -> dict[str, str]:
    """The screen and the report's plan, as SVG, by the names of their files."""
    app = Top(server, 0.5)
    found: dict[str, str] = {}
    async with app.run_test(size=SIZE) as pilot:
        async def wait(condition: Callable[[], bool]) -> None:
            end = time.monotonic() + PATIENCE
            while not condition():
                if time.monotonic() > end:
                    raise LabError("the screen does not show what runs" + (f": {app.trouble}" if app.trouble else ""))
                await pilot.pause(0.1)

        def statement(query: str):
            return next((found for found in app.statements if found.query == query), None)

        def in_full() -> bool:
            report, index, blocked = map(statement, (slow_report, INDEX, BLOCKED))
            return bool(
                report and (report.share or 0) > 0.3 and report.left and report.rows_per_second and index and index.share and blocked and blocked.blockers
            )

        async def take(name: str, title: str) -> None:
            for scheme, theme in SCHEMES.items():
                app.theme = theme
                await pilot.pause(0.3)
                found[f"{name}-{scheme}.svg"] = bare(app.export_screenshot(title=title))

        await wait(in_full)
        await take("top", "pg-lean top")
        await pilot.press("slash", *"region", "enter")
        await wait(lambda: [found.query for found in app.shown()][:1] == [slow_report])
        await pilot.press("enter")
        await wait(lambda: isinstance(app.screen, Plan) and "Hash Join" in str(app.screen.query_one("#plan").render()))
        await take("plan", "pg-lean top: a plan")
    return found


def bare(svg: str) -> str:
    """Without fonts that would be fetched from elsewhere: the reader's own monospaced one is used."""
    return re.sub(r"@font-face\s*{[^}]*}\s*|<!--.*?-->\s*", "", svg, flags=re.S).replace("Fira Code", "monospace")
