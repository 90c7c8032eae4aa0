"""pg-lean calibrate: measure the costs of a flush and of parallel plans, print them, and with --apply set them."""

from __future__ import annotations

import json
import math
from typing import Optional

import psycopg
import typer
from psycopg import sql
from rich.console import Console

from pg_lean import bench as benches
from pg_lean import report, terminal
from pg_lean.bench import Options
from pg_lean.bench.calibrate import recommended
from pg_lean.cluster import UserServer
from pg_lean.errors import LabError
from pg_lean.measure import to_json


def register(app: typer.Typer, console: Console) -> None:
    @app.command()
    def calibrate(
        quick: bool = typer.Option(False, "--quick", help="Fewer sizes and repetitions."),
        iterations: Optional[int] = typer.Option(None, "--iterations", min=1, help="Repetitions of each size."),
        scale: Optional[int] = typer.Option(None, "--scale", min=1, help="Scale of the pgbench data that tables are filled from."),
        dsn: Optional[str] = typer.Option(None, "--dsn", help="The server to measure, and to set with --apply."),
        pg_config: Optional[str] = typer.Option(
            None, "--pg-config", envvar="PG_CONFIG", help="Server of the private cluster: path of its pg_config, or a label of make matrix (17, 18-assert)."
        ),
        apply: str = typer.Option("none", "--apply", help="Set the constants: none, database (ALTER DATABASE) or system (ALTER SYSTEM)."),
        as_json: bool = typer.Option(False, "--json", help="Print settings and tables as JSON on standard output; everything else goes to standard error."),
    ) -> None:
        """Measure this machine's prices of a flush and of parallel plans over temporary tables; print settings, or set them with --apply."""
        if apply not in ("none", "database", "system"):
            raise LabError(f'--apply is "none", "database" or "system", not "{apply}"')
        if apply != "none" and not dsn:
            raise LabError("--apply needs a server", "Name yours with --dsn; a private cluster is removed at the end.")
        if apply != "none":
            check_rights(UserServer(dsn), apply)
        out = Console(stderr=True) if as_json else console
        result = benches.run_bench("calibrate", Options(quick, scale, iterations, dsn, pg_config), out)
        terminal.show(result, out)
        report.write(fresh=[result])
        if not result.whole:
            raise SystemExit(1)
        settings = {name: f"{value:.4g}" for name, value in recommended(result.raw).items() if math.isfinite(value)}
        out.print()
        if apply == "none":
            out.print("To set them: pg-lean calibrate --dsn ... --apply database, or as superuser:", highlight=False)
            for name, value in settings.items():
                out.print(f"  ALTER SYSTEM SET {name} = {value};", highlight=False)
            out.print("  SELECT pg_reload_conf();", highlight=False)
        else:
            for statement in set_constants(UserServer(dsn), settings, apply):
                out.print(f"done: {statement}", highlight=False)
        if as_json:
            print(json.dumps({"settings": {name: float(value) for name, value in settings.items()},
                              **{name: value for name, value in result.as_dict().items() if name != "raw"}}, default=to_json, indent=1))


def check_rights(server: UserServer, apply: str) -> None:
    """Fail before minutes of measuring if the role may not set anything."""
    with server.connect() as conn:
        superuser, owner = conn.execute(
            "SELECT rolsuper, pg_has_role(datdba, 'USAGE') FROM pg_roles, pg_database"
            " WHERE rolname = current_user AND datname = current_database()").fetchone()
    if apply == "system" and not superuser:
        raise LabError("--apply system needs a superuser", "Use --apply database as the owner of the database.")
    if apply == "database" and not (owner or superuser):
        raise LabError("--apply database needs the owner of the database or a superuser")


def set_constants(server: UserServer, settings: dict[str, str], apply: str) -> list[str]:
    """ALTER SYSTEM or ALTER DATABASE each setting; returns the statements that were run."""
    done = []
    with server.connect() as conn:
        for name, value in settings.items():
            target = sql.SQL("SYSTEM") if apply == "system" else sql.SQL("DATABASE {}").format(sql.Identifier(conn.info.dbname))
            statement = sql.SQL("ALTER {} SET {} = {}").format(target, sql.SQL(name), sql.SQL(value))
            try:
                conn.execute(statement)
            except psycopg.errors.InsufficientPrivilege as error:
                raise LabError(f"cannot set {name}: {error.diag.message_primary}") from None
            done.append(statement.as_string(conn))
        if apply == "system":
            conn.execute("SELECT pg_reload_conf()")
            done.append("SELECT pg_reload_conf()")
    return done
