"""The server that is measured: a private throwaway cluster, or the user's own.

A private cluster listens on a unix socket in a fresh folder of /tmp and nowhere
else, keeps its data below build/, has checksums on, and belongs to the user
"postgres" when the lab runs as root.  It must never outlive the lab: it is
stopped when its `with` block ends, at interpreter exit and on SIGTERM, and the
kernel stops it (setpriv --pdeathsig) if the lab is killed outright.

Of the user's own server the lab touches one schema that it makes and drops, and
temporary tables.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

import psutil
import psycopg
import psycopg.conninfo
from psycopg import sql

from pg_lean.errors import LabError, Unavailable
from pg_lean.names import need_extension_schema
from pg_lean.paths import SERVER_DIR

#: Every library of the project, in the order in which they are preloaded.
LIBRARIES = ("parallel_temp", "appendable_bytea", "light_explain", "ram_tablespace")

#: Port of a private cluster: the name of its socket file, nothing else.
PORT = 5432

#: Settings of a private cluster that keep background work out of the figures.
QUIET = {
    "listen_addresses": "",
    "max_connections": "40",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
    "autovacuum_naptime": "1h",
    "bgwriter_lru_maxpages": "0",
    "log_checkpoints": "off",
}


class Server:
    """What measuring code may ask of either kind of server."""

    #: True for a private cluster: it may be restarted and its settings changed.
    private = False

    def __init__(self, conninfo: str):
        self.conninfo = conninfo
        self.schema = f"lean_lab_{secrets.token_hex(4)}"
        self._schema_made = False

    def connect(self, options: str = "", **settings: Any) -> psycopg.Connection:
        """A new autocommit session that looks names up in schemas in which no other role may create objects (path()).

        `options` are given to the server when the session starts, as in
        "-c session_preload_libraries=parallel_temp".  `settings` are applied with SET before anything else runs, so temp_buffers
        works; a dot of a setting's name is written as two underscores
        (`parallel_temp__method="flush"`).
        """
        conn = self._open(autocommit=True, application_name="pg-lean", **({"options": options} if options else {}))
        try:
            # the first statement, whatever the role, the database or the connection string set
            conn.execute(sql.SQL("SET search_path = {}").format(sql.SQL(", ").join(map(sql.Identifier, self.path()))))
            self.set(conn, settings)
        except Exception:
            conn.close()
            raise
        return conn

    def path(self) -> list[str]:
        """The search_path of sessions; pg_catalog is first, named or not, and of these only the lab's own schema can be created in."""
        return [self.schema if self._schema_made else "pg_catalog", "pg_temp"]

    def _open(self, **parameters: Any) -> psycopg.Connection:
        try:
            if "connect_timeout" not in psycopg.conninfo.conninfo_to_dict(self.conninfo):
                parameters = {"connect_timeout": 30, **parameters}  # a server that takes connections and says nothing is none
            return psycopg.connect(self.conninfo, **parameters)
        except psycopg.OperationalError as error:
            raise LabError(f"cannot connect to the server: {str(error).strip()}",
                           "Check the connection string given with --dsn, and the PG... variables of the environment.") from None
        except psycopg.ProgrammingError as error:
            raise LabError(f"this is not a connection string: {self.conninfo} ({str(error).strip()})",
                           "Write --dsn 'host=... dbname=...' or --dsn postgresql://host/dbname.") from None

    @staticmethod
    def set(conn: psycopg.Connection, settings: Mapping[str, Any]) -> None:
        """SET several settings in a session; names as in connect()."""
        for name, value in settings.items():
            conn.execute("SELECT set_config(%s::text, %s::text, false)", (name.replace("__", "."), _setting(value)))

    def make_schema(self) -> None:
        """Create the lab's own schema; the first path of every later session."""
        if self._schema_made:
            return
        with self.connect() as conn:
            try:
                conn.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self.schema)))
            except psycopg.errors.InsufficientPrivilege as error:
                raise LabError(f"cannot create the lab's schema: {error.diag.message_primary}",
                               "Grant CREATE on the database to this role.") from None
        self._schema_made = True

    def drop_schema(self) -> None:
        """Remove everything the lab made in this database."""
        if not self._schema_made:
            return
        self._schema_made = False
        with self.connect() as conn:
            conn.execute("SET client_min_messages = warning")
            conn.execute("SET lock_timeout = '30s'")
            conn.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(self.schema)))

    @property
    def version(self) -> int:
        """server_version_num, such as 150020."""
        with self.connect() as conn:
            return conn.info.server_version

    def need_extension(self, name: str) -> str:
        """The extension's schema, quoted, in which its functions are found; or Unavailable, which says how to get the extension."""
        with self.connect() as conn:
            return need_extension_schema(conn, name)

    def need_function(self, signature: str) -> None:
        """Make sure that an extension of the project has a function such as "pg_flush_local_buffers()", or raise Unavailable."""
        with self.connect() as conn:
            if not conn.execute("SELECT count(to_regprocedure(quote_ident(n.nspname) || '.' || %s::text)) FROM pg_extension e JOIN pg_namespace n"
                                " ON n.oid = e.extnamespace WHERE e.extname = ANY(%s::name[])", (signature, list(LIBRARIES))).fetchone()[0]:
                raise Unavailable(f"this server has no function {signature}",
                                  "Install the current version of the extension, then ALTER EXTENSION ... UPDATE.")

    def backend_is_local(self, conn: psycopg.Connection) -> bool:
        """Can /proc of this machine show the session's process?"""
        pid = conn.info.backend_pid
        try:
            return psutil.Process(pid).name().startswith("postgres") and (conn.info.host or "").startswith("/")
        except psutil.Error:
            return False

    def configure(self, preload: Sequence[str] = (), settings: Mapping[str, Any] | None = None) -> None:
        """Bring the server to these settings; see the two kinds of server."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_exc: Any) -> None:
        self.close()


class UserServer(Server):
    """The user's own server: nothing is restarted, settings are the session's only."""

    def __init__(self, conninfo: str):
        super().__init__(conninfo)
        self._load: list[str] = []
        self._session_settings: dict[str, Any] = {}
        self.connect().close()

    def configure(self, preload: Sequence[str] = (), settings: Mapping[str, Any] | None = None) -> None:
        """Check what the caller needs.

        A library that the server does not preload is loaded in each session, if
        the role may do that.  Settings that a session or this role cannot change
        stay as they are; the report shows them.
        """
        self._load, self._session_settings = [], {}
        for name in preload:
            if name in LIBRARIES:
                self.need_extension(name)
        with self.connect() as conn:
            loaded = ",".join(row[0] for row in conn.execute(
                "SELECT setting FROM pg_settings WHERE name IN"
                " ('shared_preload_libraries', 'session_preload_libraries', 'local_preload_libraries')"))
            for name in preload:
                if name in loaded:
                    continue
                try:
                    conn.execute(sql.SQL("LOAD {}").format(sql.Literal(name)))
                except psycopg.Error as error:
                    raise Unavailable(f"library {name} is not preloaded on this server, and cannot be loaded: {error.diag.message_primary}",
                                      "Add it to shared_preload_libraries (restart) or session_preload_libraries (reload).") from None
                self._load.append(name)
        self._session_settings = {name.replace(".", "__"): value for name, value in (settings or {}).items()}

    def connect(self, options: str = "", **settings: Any) -> psycopg.Connection:
        conn = super().connect(options)
        try:
            for name in self._load:
                conn.execute(sql.SQL("LOAD {}").format(sql.Literal(name)))
            for name, value in self._session_settings.items():
                with contextlib.suppress(psycopg.errors.CantChangeRuntimeParam, psycopg.errors.InsufficientPrivilege):
                    self.set(conn, {name: value})
            self.set(conn, settings)
        except psycopg.Error as error:
            conn.close()
            raise Unavailable(f"cannot prepare a session: {error.diag.message_primary}") from None
        return conn

    def close(self) -> None:
        self.drop_schema()


class Cluster(Server):
    """A private throwaway cluster.  Use it in a `with` block, or call start() and close().

    `pg_config` may name any installation, also a copy at another place than it
    was built for, or be a label of ci/lib.sh: "18-assert" for an assertion-enabled
    server that `make matrix` built, "17" for Debian's server in its debootstrap
    root, which is then run inside of it (as root only).  `preload` are
    shared_preload_libraries; extensions that are installed are created in the
    database on start.
    """

    private = True

    def __init__(self, pg_config: str | None = None, *, preload: Sequence[str] = (),
                 settings: Mapping[str, Any] | None = None, checksums: bool = True, name: str = "lab", extension_schema: str = "public"):
        #: A debootstrap root that the server runs in, or None.
        self.root: Path | None = None
        wanted = pg_config or os.environ.get("PG_CONFIG") or "pg_config"
        if re.fullmatch(r"\d+-assert", wanted):
            wanted = str(SERVER_DIR / "server" / wanted / "bin" / "pg_config")
        elif re.fullmatch(r"\d+", wanted):
            self.root, wanted = _debian_root(wanted)
        self.pg_config = wanted if self.root else shutil.which(wanted)
        if self.pg_config is None:
            raise LabError(f"no PostgreSQL server found ({wanted})", "Set PG_CONFIG to the pg_config of a server, or run make install.")
        self.bindir = Path(self.ask_pg_config("--bindir"))
        self.pkglibdir = Path(self.ask_pg_config("--pkglibdir"))
        if not self.outside(self.bindir / "initdb").exists():
            raise LabError(f"no server programs in {self.bindir}", "Install the server package, not only the client.")
        self.preload = list(preload)
        self.settings = dict(settings or {})
        self.checksums = checksums
        self.name = name
        #: Schema of the project's extensions.  It is on the search_path: the server has no other users.
        self.extension_schema = extension_schema
        #: A program that the server runs below from its next start on, with its options: valgrind.
        self.below: list[str] = []
        #: Seconds in which the server must accept connections once it is launched.
        self.patience = 60.0
        self.process: subprocess.Popen | None = None
        self.home: Path | None = None
        self.sockets: Path | None = None
        self.user = _server_user(self.root)
        super().__init__("")

    def path(self) -> list[str]:
        return [*([self.schema] if self._schema_made else []), self.extension_schema]

    def ask_pg_config(self, option: str) -> str:
        inside = ["chroot", str(self.root)] if self.root else []
        return subprocess.run([*inside, self.pg_config, option], check=True, capture_output=True, text=True).stdout.strip()

    def outside(self, path: Path) -> Path:
        """A path of the server's as seen from here."""
        return self.root / path.relative_to("/") if self.root else path

    def inside(self, path: Path) -> str:
        """A path of this process as the server sees it."""
        return f"/{path.relative_to(self.root)}" if self.root else str(path)

    # -- life ----------------------------------------------------------------

    def __enter__(self) -> "Cluster":
        self.start()
        return self

    def start(self) -> None:
        """initdb and start; on any failure nothing is left."""
        if self.process is not None:
            return
        atexit.register(self.close)
        try:
            self._initdb()
            self._launch()
            self.create_extensions()
            self.make_schema()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop the server and remove its files.  May be called more than once."""
        with _Uninterrupted():
            self.stop()
            for folder in (self.home, self.sockets):
                if folder is not None:
                    shutil.rmtree(folder, ignore_errors=True)
            self.home = self.sockets = None
            self._schema_made = False
        atexit.unregister(self.close)

    def stop(self, mode: str = "fast") -> None:
        """Stop the server; its files stay.  mode: fast (checkpoint) or immediate (a crash)."""
        process, self.process = self.process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGQUIT if mode == "immediate" else signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGQUIT)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def restart(self, mode: str = "fast") -> None:
        """Stop and start again with the settings of now.  Open sessions end."""
        self.stop(mode)
        self._launch()

    def configure(self, preload: Sequence[str] = (), settings: Mapping[str, Any] | None = None) -> None:
        """Restart with these libraries and settings, unless the server already runs so.

        A library whose file is not installed raises Unavailable.
        """
        for name in preload:
            if not self.has_library(name):
                raise Unavailable(f"library {name} is not installed for this server ({self.pkglibdir})", "Run make install.")
        wanted = dict(settings or {})
        if list(preload) == self.preload and wanted == self.settings and self.process is not None and self.process.poll() is None:
            return
        self.preload, self.settings = list(preload), wanted
        if self.home is not None:
            self.restart()
            self.create_extensions()

    def has_library(self, name: str) -> bool:
        return self.outside(self.pkglibdir / f"{name}.so").exists()

    def create_extensions(self) -> None:
        """Create the project's extensions, those that are installed and preloaded."""
        with self.connect() as conn:
            conn.execute("SET client_min_messages = warning")
            schema = sql.Identifier(self.extension_schema)
            conn.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {0}; GRANT USAGE ON SCHEMA {0} TO PUBLIC").format(schema))
            for (name,) in conn.execute("SELECT name FROM pg_available_extensions WHERE name = ANY(%s)",
                                        (self.preload,)).fetchall():
                conn.execute(sql.SQL("CREATE EXTENSION IF NOT EXISTS {} SCHEMA {} CASCADE").format(sql.Identifier(name), schema))

    # -- files and programs --------------------------------------------------

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def log(self) -> Path:
        """The server's log file."""
        return self.home / "server.log"

    def run(self, program: str, *args: str, **kwargs: Any) -> subprocess.CompletedProcess:
        """Run a program of the server's bin folder against this cluster, as the server's user."""
        env = {**_environment(), "PGHOST": self.inside(self.sockets), "PGPORT": str(PORT), "PGUSER": "postgres", "PGDATABASE": "postgres",
               "PGOPTIONS": f"-c search_path={self.schema},{self.extension_schema}", **kwargs.pop("env", {})}
        return subprocess.run([*self._as_user(), str(self.bindir / program), *args], env=env, text=True,
                              capture_output=True, cwd="/", **kwargs)

    def _as_user(self, *options: str) -> list[str]:
        """The beginning of a command line that changes to the server's user (and root)."""
        if self.user is None:
            return ["setpriv", *options] if options else []
        change = ["setpriv", f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--init-groups", *options]
        if self.root is None:
            return change
        # /proc and /dev of a separate mount namespace: nothing stays mounted.
        return ["unshare", "--mount", "--propagation", "private", "sh", "-ec",
                'root=$1; shift; mount --rbind /dev "$root/dev"; mount -t proc proc "$root/proc"; exec chroot "$root" "$@"',
                "in_root", str(self.root), *change]

    def _folder(self, path: Path) -> None:
        if self.user is not None:
            os.chown(path, self.user.pw_uid, self.user.pw_gid)
        path.chmod(0o700)

    def _initdb(self) -> None:
        base, short = SERVER_DIR / "cluster", Path("/tmp")
        if self.root:
            base, short = self.root / "var/tmp/pg_lean-cluster", self.root / "tmp"
        base.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(PermissionError):
            base.chmod(0o1777)  # root and ordinary users may both have run the lab here
        _remove_abandoned(base, short)
        self.home = Path(tempfile.mkdtemp(prefix=f"{self.name}-{os.getpid()}-", dir=base))
        self.sockets = Path(tempfile.mkdtemp(prefix=f"pg_lean-{os.getpid()}-", dir=short))
        self._folder(self.home)
        self._folder(self.sockets)
        options = ["-D", self.inside(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        if self.checksums:
            options.append("--data-checksums")
        done = self.run("initdb", *options)
        if done.returncode != 0:
            raise LabError(f"initdb failed: {(done.stderr or done.stdout).strip()}")
        self.conninfo = f"host={self.sockets} port={PORT} user=postgres dbname=postgres"

    def _open(self, **parameters: Any) -> psycopg.Connection:
        with without_pg_variables():
            return super()._open(**parameters)

    def _launch(self) -> None:
        settings = {**QUIET, **self.settings, "port": PORT, "unix_socket_directories": self.inside(self.sockets)}
        if self.preload:  # else what ALTER SYSTEM says, which is nothing in a new cluster
            settings["shared_preload_libraries"] = ",".join(self.preload)
        args = [*self.below, str(self.bindir / "postgres"), "-D", self.inside(self.data)]
        for name, value in settings.items():
            args += ["-c", f"{name}={_setting(value)}"]
        with open(self.log, "ab") as log:
            # A separate session: Ctrl-C reaches the lab alone, which then stops the server in order.
            self.process = subprocess.Popen([*self._as_user("--pdeathsig", "INT"), *args], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, env=_environment(), cwd="/", start_new_session=True)
        deadline = time.monotonic() + self.patience
        while True:
            try:
                with without_pg_variables():
                    # below valgrind a session begins many times more slowly
                    psycopg.connect(self.conninfo, connect_timeout=60 if self.below else 5).close()
                return
            except psycopg.OperationalError as error:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-12:])
                    self.stop("immediate")
                    raise LabError(f"the server did not start: {str(error).strip()}\n{tail}") from None
                time.sleep(0.05)


def _setting(value: Any) -> str:
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)


_variables_lock = threading.Lock()


@contextlib.contextmanager
def without_pg_variables() -> Iterator[None]:
    """Connect to a private cluster without what the user's environment tells libpq (PGHOST, PGSERVICE, PGOPTIONS and so on)."""
    with _variables_lock:
        taken = {name: os.environ.pop(name) for name in list(os.environ) if re.fullmatch(r"PG[A-Z]+", name)}
        try:
            yield
        finally:
            os.environ.update(taken)


def _environment() -> dict[str, str]:
    """The environment of server programs: nothing of the user's PG* variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, "HOME": "/tmp", "LC_ALL": "C"}


def _server_user(root: Path | None = None) -> pwd.struct_passwd | None:
    """Who runs the server: None for the current user, "postgres" (of that root) for root."""
    if os.geteuid() != 0:
        return None
    try:
        if root is None:
            return pwd.getpwnam("postgres")
        lines = (line.split(":") for line in (root / "etc/passwd").read_text().splitlines())
        fields = next(line for line in lines if line[0] == "postgres")
        return pwd.struct_passwd((*fields[:2], int(fields[2]), int(fields[3]), *fields[4:]))
    except (KeyError, StopIteration):
        raise LabError('PostgreSQL refuses to run as root, and there is no user "postgres"',
                       "Install the server package, or run the lab as an ordinary user.") from None


def _debian_root(label: str) -> tuple[Path, str]:
    """The debootstrap root of that major version and pg_config in it."""
    if not 15 <= int(label) <= 19:
        raise LabError(f"there is no server {label}", "Give --pg-config the path of a server's pg_config, or a label of make matrix, such as 17 or 18-assert.")
    root, pg_config = SERVER_DIR / "root" / label, f"/usr/lib/postgresql/{label}/bin/pg_config"
    if not (root / pg_config[1:]).exists():
        raise LabError(f"there is no root with PostgreSQL {label}", f"ci/server.sh {label} makes it.")
    if os.geteuid() != 0:
        raise LabError("a server in a debootstrap root needs the lab to run as root")
    return root, pg_config


def _remove_abandoned(base: Path, short: Path) -> None:
    """Remove the folders of labs that were killed; the name carries the lab's pid."""
    for folder in [*base.iterdir(), *short.glob("pg_lean-*-*")]:
        pid = folder.name.split("-")[-2] if folder.name.count("-") >= 2 else ""
        if pid.isdigit() and not psutil.pid_exists(int(pid)) and not _postmaster_lives(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _postmaster_lives(folder: Path) -> bool:
    """Is a server still running (perhaps just stopping) on this data or socket folder?"""
    try:
        if any(folder.glob(".s.PGSQL.*.lock")):
            return any(psutil.pid_exists(int(lock.read_text().split()[0])) for lock in folder.glob(".s.PGSQL.*.lock"))
    except (OSError, IndexError, ValueError):
        return True  # it is just being written or removed
    try:
        pid = (folder / "data" / "postmaster.pid").read_text().split()[0]
        return psutil.pid_exists(int(pid))
    except (OSError, IndexError, ValueError):
        return False


class _Uninterrupted:
    """Hold Ctrl-C and SIGTERM back while a server is being stopped."""

    def __enter__(self) -> None:
        self.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})

    def __exit__(self, *_exc: Any) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)


def exit_on_signals() -> None:
    """Turn SIGTERM and SIGHUP into an ordinary exit, so that `with` blocks stop their servers."""
    def leave(number: int, _frame: Any) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGHUP, leave)
