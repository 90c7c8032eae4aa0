"""Statements that six applications send, and the values that they send with them, as data for a replay.

The statements, tables and orders of statements are facts from the sources that each
application names; nothing of their code is here.  An event is what the application does
for one line, one batch of lines or one message: its statements, each alone or all in one
transaction.  Values are random with a seed, so that every column gets the same.

The statements go through psycopg.  Of the drivers that the applications use, psycopg is
that of LangGraph and Open WebUI; those of Rust (sqlx), PHP (PDO) and Go (pq) send the same
text with the parameters of the same types by the extended protocol, so what the server
executes is the same.  pg-promise, that of Mastra, puts the values into the text.
"""

from __future__ import annotations

import base64
import json
import random
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Sequence

from pg_lean import loglines

Statement = tuple[str, Sequence[Any]]


@dataclass(frozen=True)
class Event:
    """What the application does for one line or message."""

    statements: list[Statement]
    #: Bytes that are new in the value.
    changed: int
    #: All statements are in one transaction, as the application has them.
    together: bool = False


@dataclass(frozen=True)
class Application:
    name: str
    #: Repositories and paths that the statements are from.
    source: str
    #: The driver that the application uses.
    driver: str
    setup: str
    #: The one command that gives the column our type: {ext} is the extension's schema.
    alter: str
    tables: tuple[str, ...]
    #: Events of the value with this number.
    events: Callable[[int, int], Iterator[Event]]
    #: Gives the whole value with this number.
    whole: Callable[[int], Statement]
    #: Names of an event and of a value.
    event: str
    value: str


def message(rng: random.Random, least: int, most: int) -> str:
    """Some text with the statistics of a log."""
    size = rng.randint(least, most)
    text = ""
    while len(text) < size:
        text += loglines.line(rng, len(text))
    return text[:size]


def identifier(rng: random.Random) -> str:
    digits = f"{rng.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


# -- Windmill: a line of a job's log is concatenated --------------------------------------

_WINDMILL_APPEND = ("INSERT INTO job_logs (logs, job_id, workspace_id) VALUES (%s, %s, %s) "
                    "ON CONFLICT (job_id) DO UPDATE SET logs = concat(job_logs.logs, EXCLUDED.logs)")
_WINDMILL_LENGTH = ("INSERT INTO job_logs (logs, job_id, workspace_id) VALUES (%s, %s, %s) "
                    "ON CONFLICT (job_id) DO UPDATE SET logs = concat(job_logs.logs, EXCLUDED.logs) RETURNING length(logs)")
#: Appends of which one asks for the length.
LENGTH_EACH = 10


def _job(number: int) -> str:
    return identifier(random.Random(f"job {number}"))


def windmill(number: int, count: int) -> Iterator[Event]:
    rng = random.Random(f"windmill {number}")
    for line in range(count):
        text = loglines.line(rng, line)
        yield Event([(_WINDMILL_LENGTH if line % LENGTH_EACH == 0 else _WINDMILL_APPEND, (text, _job(number), "admins"))], len(text))


# -- Coolify: a JSON array of lines is decoded, extended and written back -------------------

_COOLIFY_READ = "select * from application_deployment_queues where id = %s limit 1"
_COOLIFY_WRITE = "update application_deployment_queues set logs = %s, updated_at = %s where id = %s"
#: Lines of a command; the application reads the row before each command.
COMMAND = 10


def coolify(number: int, count: int) -> Iterator[Event]:
    rng = random.Random(f"coolify {number}")
    lines: list[str] = []
    yield Event([("insert into application_deployment_queues (id, application_id, deployment_uuid, updated_at) values (%s, %s, %s, %s)",
                  (number, "1", identifier(rng), "2026-11-28 00:00:00"))], 0)
    for line in range(count):
        time = f"2026-11-28T{line // 3600 % 24:02}:{line // 60 % 60:02}:{line % 60:02}.{rng.randrange(10**6):06}Z"
        lines.append(json.dumps({"command": None, "output": message(rng, 60, 300), "type": "stdout", "timestamp": time, "hidden": False, "batch": 1,
                                 "order": line + 1}, separators=(",", ":")))
        written = (_COOLIFY_WRITE, ("[" + ",".join(lines) + "]", time[:19].replace("T", " "), number))
        yield Event([*([(_COOLIFY_READ, (number,))] if line % COMMAND == 0 else []), written], len(lines[-1]) + 1)


# -- Gitea: the last block of 32 kB of a file in the database is read and written back ------

_GITEA_FILE = "SELECT id, full_path, block_size, file_size, create_timestamp, modify_timestamp FROM dbfs_meta WHERE {} = %s LIMIT 1"
_GITEA_BLOCK = ("SELECT id, revision, meta_id, blob_offset, blob_size, blob_data FROM dbfs_data WHERE (meta_id = %s AND blob_offset = %s) LIMIT 1")
_GITEA_WRITE = "UPDATE dbfs_data SET revision=revision+1, blob_data=%s WHERE meta_id=%s AND blob_offset=%s"
_GITEA_INSERT = "INSERT INTO dbfs_data (revision, meta_id, blob_offset, blob_size, blob_data) VALUES (%s, %s, %s, %s, %s)"
_GITEA_SIZE = "UPDATE dbfs_meta SET file_size = %s, modify_timestamp = %s WHERE id = %s"
#: Bytes of a block; lines that a runner sends at once.
BLOCK, ROWS = 32 * 1024, 10


def gitea(number: int, count: int) -> Iterator[Event]:
    rng = random.Random(f"gitea {number}")
    path = f"1:actions_log/{number}.log"
    yield Event([("INSERT INTO dbfs_meta (id, full_path, block_size, file_size, create_timestamp, modify_timestamp) VALUES (%s, %s, %s, %s, %s, %s)",
                  (number, path, BLOCK, 0, 0, 0))], 0)
    size, block = 0, b""
    for batch in range(count):
        rows = "".join(f"2026-11-28T00:00:00.{rng.randrange(10**7):07}Z {message(rng, 20, 120)}\n" for _ in range(ROWS)).encode()
        statements: list[Statement] = [(_GITEA_FILE.format("full_path"), (path,)), (_GITEA_FILE.format("id"), (number,))]
        rest = rows
        while rest:
            at = size - size % BLOCK
            part, rest = rest[:BLOCK - size % BLOCK], rest[BLOCK - size % BLOCK:]
            is_new = size % BLOCK == 0
            block = part if is_new else block + part
            size += len(part)
            statements += [(_GITEA_BLOCK, (number, at)), (_GITEA_WRITE, (block, number, at))]
            if is_new:
                statements.append((_GITEA_INSERT, (0, number, at, 0, block)))
        statements.append((_GITEA_SIZE, (size, batch, number)))
        yield Event(statements, len(rows))


# -- Open WebUI: a chat is one json value, read and written at each message -----------------

_CHAT_COLUMNS = "id, user_id, title, chat, created_at, updated_at, share_id, archived, pinned, meta, folder_id"
_CHAT_READ = f"SELECT {_CHAT_COLUMNS} FROM chat WHERE id = %s FOR UPDATE"
_CHAT_WRITE = "UPDATE chat SET chat=%s::JSON, updated_at=%s WHERE chat.id = %s"
#: Times that an exchange writes the chat: the question, the empty answer, the answer.
EXCHANGE = 3


def open_webui(number: int, count: int) -> Iterator[Event]:
    rng = random.Random(f"open webui {number}")
    chat = identifier(random.Random(f"chat {number}"))
    written: list[str] = []
    yield Event([("INSERT INTO chat (id, user_id, title, chat, created_at, updated_at) VALUES (%s, %s, %s, %s::JSON, %s, %s)",
                  (chat, "user", "New Chat", "{}", 0, 0))], 0)

    def entry(name: str, role: str, content: str, parent: str | None, children: list[str]) -> str:
        return json.dumps({name: {"id": name, "parentId": parent, "childrenIds": children, "role": role, "content": content,
                                  "timestamp": 1700000000}})[1:-1]

    def event(current: str, clock: int, changed: int) -> Event:
        value = ('{"id": "", "title": "New Chat", "models": ["a-model"], "params": {}, "history": {"messages": {' + ", ".join(written)
                 + f'}}, "currentId": "{current}"}}, "tags": [], "timestamp": 1700000000000, "files": []}}')
        return Event([(_CHAT_READ, (chat,)), (_CHAT_WRITE, (value, clock, chat))], changed, together=True)

    last: tuple[str, str, str, str | None] | None = None
    for exchange in range((count + EXCHANGE - 1) // EXCHANGE):
        question, answer = identifier(rng), identifier(rng)
        parent = last[0] if last else None
        texts = message(rng, 50, 600), message(rng, 500, 6000)
        if last:
            written[-1] = entry(*last, [question])
        written.append(entry(question, "user", texts[0], parent, []))
        yield event(question, 3 * exchange, len(written[-1]) + 38)
        written[-1] = entry(question, "user", texts[0], parent, [answer])
        written.append(entry(answer, "assistant", "", question, []))
        yield event(answer, 3 * exchange + 1, len(written[-1]) + 38)
        written[-1] = entry(answer, "assistant", texts[1], question, [])
        yield event(answer, 3 * exchange + 2, len(texts[1]))
        last = (answer, "assistant", texts[1], question)


# -- LangGraph: all messages of a run are one bytea value, written at each step -------------

_STEP_WRITE = ("INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob) "
               "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) DO NOTHING")
_STEP_DELETE = "DELETE FROM checkpoint_writes WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id NOT IN (%s, %s)"
_STEP_BLOB = ("INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, type, blob) VALUES (%s, %s, %s, %s, %s) "
              "ON CONFLICT (thread_id, checkpoint_ns, channel) DO UPDATE SET type = EXCLUDED.type, blob = EXCLUDED.blob")
_STEP_STATE = ("INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint, metadata) VALUES (%s, %s, %s, %s) "
               "ON CONFLICT (thread_id, checkpoint_ns) DO UPDATE SET checkpoint = EXCLUDED.checkpoint, metadata = EXCLUDED.metadata")
_STEP_READ = ("SELECT thread_id, checkpoint, checkpoint_ns, metadata, (SELECT array_agg(array[bl.channel::bytea, bl.type::bytea, bl.blob]) "
              "FROM jsonb_each_text(checkpoint -> 'channel_versions') INNER JOIN checkpoint_blobs bl ON bl.thread_id = checkpoints.thread_id "
              "AND bl.checkpoint_ns = checkpoints.checkpoint_ns AND bl.channel = jsonb_each_text.key) AS channel_values "
              "FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = %s")
#: Steps of a turn; the state is read before each turn.
TURN = 4


def langgraph(number: int, count: int) -> Iterator[Event]:
    rng = random.Random(f"langgraph {number}")
    thread = f"thread {number}"
    messages: list[bytes] = []
    before = ""
    for step in range(count):
        body = json.dumps({"type": ("human", "ai", "tool", "ai")[step % TURN], "content": message(rng, 100, 3000), "id": identifier(rng)}).encode()
        # an element of MessagePack: an extension with 16 bits of length; and the array with 16 bits of count
        messages.append(b"\xc8" + len(body).to_bytes(2, "big") + b"\x05" + body)
        checkpoint = identifier(rng)
        versions = {"__start__": f"{1:032}.0", "messages": f"{step + 1:032}.{rng.random()}"}
        state = json.dumps({"v": 4, "id": checkpoint, "ts": "2026-11-28T00:00:00Z", "channel_versions": versions, "versions_seen": {}})
        metadata = json.dumps({"source": "loop", "step": step, "parents": {}})
        statements: list[Statement] = [] if step % TURN else [(_STEP_READ, (thread, ""))]
        statements += [
            (_STEP_WRITE, (thread, "", before, identifier(rng), "", 0, "messages", "msgpack", messages[-1])),
            (_STEP_DELETE, (thread, "", checkpoint, before)),
            (_STEP_BLOB, (thread, "", "messages", "msgpack", b"\xdc" + len(messages).to_bytes(2, "big") + b"".join(messages))),
            (_STEP_STATE, (thread, "", state, metadata)),
        ]
        before = checkpoint
        yield Event(statements, 2 * len(messages[-1]) + len(state))


# -- Mastra: the state of a workflow is one jsonb value, written after each step ------------

_SNAPSHOT_WRITE = ('INSERT INTO mastra_workflow_snapshot (workflow_name, run_id, "resourceId", snapshot, "createdAt", "updatedAt") '
                   "VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (workflow_name, run_id) DO UPDATE "
                   'SET "resourceId" = %s, snapshot = %s, "updatedAt" = %s')
_SNAPSHOT_READ = 'SELECT * FROM mastra_workflow_snapshot WHERE run_id = %s AND workflow_name = %s ORDER BY "createdAt" DESC LIMIT 1'
#: Steps after which a client asks for the state.
ASKED_EACH = 10


def _run(number: int) -> str:
    return identifier(random.Random(f"run {number}"))


def mastra(number: int, count: int) -> Iterator[Event]:
    rng = random.Random(f"mastra {number}")
    run = _run(number)
    context: dict[str, Any] = {"input": {"prompt": message(rng, 50, 600)}}
    for step in range(count):
        name, clock = f"step-{step}", f"2026-11-28T{step // 3600:02}:{step // 60 % 60:02}:{step % 60:02}Z"
        result = {"status": "success", "payload": {"turn": step}, "output": {"text": message(rng, 100, 3000), "usage": rng.randrange(4000)},
                  "startedAt": 1764288000000 + 1000 * step, "endedAt": 1764288000900 + 1000 * step}
        context[name] = result
        snapshot = json.dumps({"runId": run, "status": "running", "value": {name: "success"}, "context": context, "activePaths": [], "suspendedPaths": {},
                               "timestamp": 1764288000900 + 1000 * step})
        statements: list[Statement] = [] if step % ASKED_EACH else [(_SNAPSHOT_READ, (run, "agent"))]
        statements.append((_SNAPSHOT_WRITE, ("agent", run, None, snapshot, clock, clock, None, snapshot, clock)))
        yield Event(statements, len(json.dumps({name: result})))


APPLICATIONS = (
    Application(
        "Windmill",
        "windmill-labs/windmill: `append_logs()` in `backend/windmill-queue/src/jobs.rs`, and `append_logs_with_compaction()`, which asks for the length",
        "sqlx (Rust)",
        "CREATE TABLE job_logs (job_id uuid NOT NULL PRIMARY KEY, workspace_id varchar(255), created_at timestamptz DEFAULT now(), logs text, "
        "log_offset int NOT NULL DEFAULT 0, log_file_index text[])",
        "ALTER TABLE job_logs ALTER logs TYPE {ext}.appendable_text, SET (fillfactor = 80)", ("job_logs",),
        windmill, lambda number: ("SELECT logs FROM job_logs WHERE job_id = %s", (_job(number),)), "a line", "a job's log",
    ),
    Application(
        "Coolify",
        "coollabsio/coolify: `addLogEntry()` in `app/Models/ApplicationDeploymentQueue.php`, "
        "`execute_remote_command()` in `app/Traits/ExecuteRemoteCommand.php`",
        "PDO (PHP)",
        "CREATE TABLE application_deployment_queues (id bigint PRIMARY KEY, application_id varchar(255) NOT NULL, "
        "deployment_uuid varchar(255) NOT NULL UNIQUE, pull_request_id int NOT NULL DEFAULT 0, status varchar(255) NOT NULL DEFAULT 'queued', "
        "logs text, updated_at timestamp(0))",
        "ALTER TABLE application_deployment_queues ALTER logs TYPE {ext}.appendable_text, SET (fillfactor = 80)", ("application_deployment_queues",),
        coolify, lambda number: ("SELECT logs FROM application_deployment_queues WHERE id = %s", (number,)), "a line", "a deployment's log",
    ),
    Application(
        "Gitea",
        "go-gitea/gitea: `Write()` in `models/dbfs/dbfile.go`, the tables in `models/dbfs/dbfs.go`, `WriteLogs()` of `modules/actions`",
        "pq (Go)",
        "CREATE TABLE dbfs_meta (id bigserial PRIMARY KEY, full_path varchar(500) NOT NULL UNIQUE, block_size bigint NOT NULL, file_size bigint NOT NULL, "
        "create_timestamp bigint NOT NULL, modify_timestamp bigint NOT NULL); "
        "CREATE TABLE dbfs_data (id bigserial PRIMARY KEY, revision bigint NOT NULL, meta_id bigint NOT NULL, blob_offset bigint NOT NULL, "
        "blob_size bigint NOT NULL, blob_data bytea NOT NULL); CREATE INDEX ON dbfs_data (meta_id, blob_offset)",
        "ALTER TABLE dbfs_data ALTER blob_data TYPE {ext}.appendable_bytea, SET (fillfactor = 80)", ("dbfs_meta", "dbfs_data"),
        gitea, lambda number: ("SELECT blob_offset, blob_data FROM dbfs_data WHERE meta_id = %s ORDER BY blob_offset", (number,)),
        f"{ROWS} lines that a runner sends", "a task's log in blocks of 32 kB",
    ),
    Application(
        "Open WebUI",
        "open-webui/open-webui: `upsert_message_to_chat_by_id_and_message_id()` and `_chat_transaction()` in `backend/open_webui/models/chats.py`",
        "psycopg (Python), below SQLAlchemy",
        "CREATE TABLE chat (id varchar PRIMARY KEY, user_id varchar, title text, chat json, created_at bigint, updated_at bigint, share_id text UNIQUE, "
        "archived boolean DEFAULT false, pinned boolean DEFAULT false, meta json DEFAULT '{}', folder_id text); "
        "CREATE INDEX ON chat (user_id); CREATE INDEX ON chat (created_at); CREATE INDEX ON chat (updated_at)",
        "ALTER TABLE chat ALTER chat TYPE {ext}.appendable_json, SET (fillfactor = 80)", ("chat",),
        open_webui, lambda number: ("SELECT chat::text FROM chat WHERE id = %s", (identifier(random.Random(f"chat {number}")),)),
        "a message created or completed", "a chat",
    ),
    Application(
        "LangGraph",
        "langchain-ai/langgraph: `ShallowPostgresSaver` in `libs/checkpoint-postgres/langgraph/checkpoint/postgres/shallow.py`",
        "psycopg (Python)",
        "CREATE TABLE checkpoints (thread_id text NOT NULL, checkpoint_ns text NOT NULL DEFAULT '', type text, checkpoint jsonb NOT NULL, "
        "metadata jsonb NOT NULL DEFAULT '{}', PRIMARY KEY (thread_id, checkpoint_ns)); "
        "CREATE TABLE checkpoint_blobs (thread_id text NOT NULL, checkpoint_ns text NOT NULL DEFAULT '', channel text NOT NULL, type text NOT NULL, "
        "blob bytea, PRIMARY KEY (thread_id, checkpoint_ns, channel)); "
        "CREATE TABLE checkpoint_writes (thread_id text NOT NULL, checkpoint_ns text NOT NULL DEFAULT '', checkpoint_id text NOT NULL, task_id text NOT NULL, "
        "idx int NOT NULL, channel text NOT NULL, type text, blob bytea NOT NULL, task_path text NOT NULL DEFAULT '', "
        "PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)); "
        "CREATE INDEX ON checkpoints (thread_id); CREATE INDEX ON checkpoint_blobs (thread_id); CREATE INDEX ON checkpoint_writes (thread_id)",
        "ALTER TABLE checkpoint_blobs ALTER blob TYPE {ext}.appendable_bytea, SET (fillfactor = 80)", ("checkpoints", "checkpoint_blobs", "checkpoint_writes"),
        langgraph, lambda number: ("SELECT blob FROM checkpoint_blobs WHERE thread_id = %s", (f"thread {number}",)),
        "a step of an agent", "the messages of a thread",
    ),
    Application(
        "Mastra",
        "mastra-ai/mastra: `persistWorkflowSnapshot()` and `getWorkflowRunById()` in `stores/pg/src/storage/domains/workflows/index.ts`, "
        "the table in `packages/core/src/storage/constants.ts`",
        "pg-promise (JavaScript)",
        'CREATE TABLE mastra_workflow_snapshot (workflow_name text NOT NULL, run_id text NOT NULL, "resourceId" text, snapshot jsonb NOT NULL, '
        '"createdAt" timestamp NOT NULL, "updatedAt" timestamp NOT NULL, UNIQUE (workflow_name, run_id))',
        "ALTER TABLE mastra_workflow_snapshot ALTER snapshot TYPE {ext}.appendable_jsonb, SET (fillfactor = 80)", ("mastra_workflow_snapshot",),
        mastra, lambda number: ("SELECT snapshot::text FROM mastra_workflow_snapshot WHERE run_id = %s", (_run(number),)),
        "a step of a workflow", "the state of a run",
    ),
)


def as_bytes(cell: Any) -> bytes:
    """A cell of an answer, for the comparison of all answers."""
    if isinstance(cell, (bytes, memoryview)):
        return base64.b16encode(cell)
    return repr(cell).encode()
