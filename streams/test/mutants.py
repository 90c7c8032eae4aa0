"""Planted bugs of streams: one line of Go or SQL each, and the tests that must notice.

streams/test/run.sh runs this (make streams-mutants) with its private server.  Each set of tests
must pass once without a bug.  A bug is caught if a test fails, or hangs for minutes.

    mutants.py WORK [TEXT...]

WORK is a folder for the copies; with TEXT, only bugs whose file or description contains one of
them are planted.  Ends with status 0 only if every bug was caught.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "certificate"))
from mutations import Mutation  # noqa: E402

SRC = "streams/src/"
PATIENCE = 240
#: Tests that start the program; the others have the server in their process.
NEED_PROGRAM = {"TestServerAcknowledged", "TestServerFewDescriptors", "TestServerKills"}

NEWS = "if begin > 0 && (r.incarnation(begin) != incarnation || r.timeline != timeline) {"
GATHERED = "WHERE x.id = held.id AND x.media = medias[held.n] AND NOT x.closed AND NOT x.deleted AND x.ttl < 0 AND x.expires_at = 'infinity'"

MUTATIONS = [
    Mutation(SRC + "streams.sql", "a retry of a producer's last append is a gap",
             "ELSIF known AND epochs[i] = p.epoch AND pseqs[i] <= p.seq THEN", "ELSIF known AND epochs[i] = p.epoch AND pseqs[i] < p.seq THEN",
             ("TestServerBadSequences",)),
    Mutation(SRC + "streams.sql", "a gap in a producer's sequence is accepted",
             "ELSIF producers[i] IS NOT NULL AND pseqs[i] > 0 AND NOT (known AND epochs[i] = p.epoch AND pseqs[i] = p.seq + 1) THEN", "ELSIF false THEN",
             ("TestServerBadSequences",)),
    Mutation(SRC + "streams.sql", "an epoch that decreases is accepted",
             "ELSIF known AND epochs[i] < p.epoch THEN", "ELSIF false THEN", ("TestServerBadEpochs",)),
    Mutation(SRC + "streams.sql", "Stream-Seq may repeat",
             'ELSIF seqs[i] COLLATE "C" <= s.last_seq THEN', 'ELSIF seqs[i] COLLATE "C" < s.last_seq THEN', ("TestServerBadSequences",)),
    Mutation(SRC + "streams.sql", "of the appends to a stream in one statement the last is stored",
             "more := more || datas[i];", "more := datas[i];", ("TestServerHeldRow",)),
    Mutation(SRC + "streams.sql", "a locked row is waited for in the statement of the others",
             "SELECT * INTO s FROM streams.stream x WHERE x.path = paths[first] FOR NO KEY UPDATE SKIP LOCKED;",
             "SELECT * INTO s FROM streams.stream x WHERE x.path = paths[first] FOR NO KEY UPDATE;", ("TestServerHeldRow",)),
    Mutation(SRC + "streams.sql", "SQL appends to a stream that is closed",
             "IF NOT NEW.closed OR NEW.dropped + appendable_length(NEW.data) <> OLD.dropped + appendable_length(OLD.data) THEN",
             "IF NOT NEW.closed THEN", ("TestServerStored",)),
    Mutation(SRC + "streams.sql", "a producer's state is not stored",
             "UPDATE streams.producer x SET epoch = epochs[i], seq = pseqs[i] WHERE x.stream_id = s.id AND x.producer = producers[i];", "NULL;",
             ("TestServerBadSequences",)),
    Mutation(SRC + "streams.sql", "a source that has forks is removed",
             "IF status = 'ok' AND streams.has_forks(s.id) THEN", "IF false THEN", ("TestServerForkLocks",)),
    Mutation(SRC + "streams.sql", "the source is not locked while a fork of it is created",
             "SELECT * INTO source FROM streams.stream x WHERE x.path = from_path FOR KEY SHARE;",
             "SELECT * INTO source FROM streams.stream x WHERE x.path = from_path;", ("TestServerForkLocks",)),
    Mutation(SRC + "streams.sql", "two last forks that are removed at once leave their source",
             "SELECT * INTO s FROM streams.stream x WHERE x.id = source FOR UPDATE;", "SELECT * INTO s FROM streams.stream x WHERE x.id = source;",
             ("TestServerForkLocks",)),
    Mutation(SRC + "streams.sql", "the last byte before a fork is of the fork's incarnation", "EXIT WHEN s.source_id = 0 OR at > s.source_bytes;",
             "EXIT WHEN s.source_id = 0 OR at >= s.source_bytes;", ("TestServerForks",)),
    Mutation(SRC + "streams.sql", "a fork divides a JSON message",
             "AND (SELECT r.data FROM streams.read(NULL, source.id, at - 1, 1, false) r WHERE r.first < at) <> '\\x0a' THEN 'offset' END;",
             "AND false THEN 'offset' END;", ("TestServerForks",)),
    Mutation(SRC + "streams.sql", "a chain of forks has no end", "WHEN source.fork_depth >= 1000 THEN 'depth'", "WHEN source.fork_depth >= 100000 THEN 'depth'",
             ("TestServerForkLocks",)),
    Mutation(SRC + "streams.sql", "a stream is deleted in an old snapshot",
             "IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN", "IF false THEN", ("TestServerUpgrade",)),
    Mutation(SRC + "streams.sql", "SQL deletes a source that has forks", "IF streams.has_forks(OLD.id) THEN", "IF false THEN", ("TestServerForks",)),
    Mutation(SRC + "streams.sql", "an upgrade forgets when streams end",
             "last_seq = coalesce(last_seq, ''), ttl = coalesce(ttl, -1), expires = coalesce(expires, ''), expires_at = coalesce(expires_at, 'infinity');",
             "last_seq = coalesce(last_seq, ''), ttl = -1, expires = coalesce(expires, ''), expires_at = coalesce(expires_at, 'infinity');",
             ("TestServerUpgrade",)),
    Mutation(SRC + "fork.go", "a sub-offset of JSON counts bytes", 'if f.media = media(got.contentType); f.media != "application/json" {',
             'if f.media = media(got.contentType); f.media != "" {', ("TestServerForks",)),
    Mutation(SRC + "streams.sql", "messages of a source after the fork are counted as the fork's",
             "IF part.ends IS NULL OR found_at <= part.ends THEN", "IF found_at IS NOT NULL THEN", ("TestServerForkMessages",)),
    Mutation(SRC + "streams.sql", "messages of a source count again in its fork", "from_offset := part.ends;", "from_offset := part.ends; n := n + 1;",
             ("TestServerForkMessages",)),
    Mutation(SRC + "fork.go", "messages are counted from an offset whose bytes are no longer kept", "if at > 0 && at < got.first {", "if at > 0 && at < 0 {",
             ("TestServerForkMessages",)),
    Mutation(SRC + "source.go", "an offset of the source is none of its fork", "if r.begins[i] < at {", "if r.begins[i] <= at {", ("TestUnitForkTokens",)),
    Mutation(SRC + "jsonlines.go", "an empty line is a message", "if line = bytes.TrimSpace(line); len(line) > 0 {",
             "if line = bytes.TrimSpace(line); len(line) >= 0 {",
             ("TestUnitJSON",)),
    Mutation(SRC + "jsonlines.go", "a character that is not complete is sent", "if b >= utf8.RuneSelf && !utf8.FullRune(text[len(text)-back:]) {",
             "if b >= utf8.RuneSelf && utf8.FullRune(text[len(text)-back:]) {", ("TestUnitCharacters",)),
    Mutation(SRC + "streams.sql", "a fork begins where its source has no bytes",
             "WHEN at IS NULL OR at > source_tail OR source.dropped > 0 AND at < source.source_bytes + source.dropped OR "
             "coalesce(from_offset, 0) > 0 AND from_incarnation <> streams.incarnation_at(source.id, from_offset)",
             "WHEN at IS NULL OR at > source_tail OR false OR "
             "coalesce(from_offset, 0) > 0 AND from_incarnation <> streams.incarnation_at(source.id, from_offset)",
             ("TestServerRetention",)),
    Mutation(SRC + "streams.sql", "a fork has bytes that its source has dropped",
             "first := CASE WHEN source.dropped > 0 THEN least(source.source_bytes + source.dropped, ends[1]) ELSE 0 END;",
             "first := CASE WHEN s.dropped > 0 THEN least(source.source_bytes + source.dropped, ends[1]) ELSE 0 END;",
             ("TestServerRetention",)),
    Mutation(SRC + "streams.sql", "the front that is dropped ends inside a message",
             "ELSIF n > 0 AND s.media = 'application/json' AND appendable_get_byte(s.data, n - 1) <> 10 THEN", "ELSIF false THEN",
             ("TestServerRetention",)),
    Mutation(SRC + "source.go", "a follower from the beginning is told an offset before what is kept", "if r.begin < r.first {", "if false {",
             ("TestServerRetention",)),
    Mutation(SRC + "read.go", "bytes that are no longer kept are skipped without a word",
             "if from != nil && *from < r.first && *from > 0 { // at 0, what is kept is the beginning",
             "if from != nil && *from < r.first && *from < 0 {",
             ("TestServerRetention",)),
    Mutation(SRC + "hub.go", "a read from before a notification is shared after it", "e.reads = map[string]*flight{}", "_ = e.reads", ("TestUnitHub",)),
    Mutation(SRC + "hub.go", "each follower reads for itself", "if f != nil {", 'if f != nil && role == "" {',
             ("TestServerManyFollowers",)),
    Mutation(SRC + "server.go", "an append wakes the followers of other servers only", "s.hub.wake(storedKey(id))", "_ = storedKey(id)",
             ("TestServerManyFollowers",)),
    Mutation(SRC + "server.go", "a part of a request is appended", "if err == nil {", "if err == nil || len(data) > 0 {", ("TestServerIncompleteRequests",),
             after="data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(s.c.BodyBytes)))"),
    Mutation(SRC + "server.go", "a client that sends no more keeps its connection", "c.SetReadDeadline(time.Now().Add(ms(s.c.WriteMS)))",
             "c.SetReadDeadline(time.Now().Add(100 * ms(s.c.WriteMS)))", ("TestServerIncompleteRequests",)),
    Mutation(SRC + "server.go", "the size limit is an internal error", 'case state == "54000":', 'case state == "54xxx":', ("TestServerTooLarge",)),
    Mutation(SRC + "server.go", "a client has time for an answer from the begin of its request", "a.progress()", "_ = a.progress",
             ("TestServerIncompleteRequests",),
             after="func (a answering) WriteHeader(status int) {"),
    Mutation(SRC + "server.go", "the role none, that of the program's connection, is permitted", 'if role == "" || role == "none" {', 'if role == "" {',
             ("TestServerNothingByDefault",)),
    Mutation(SRC + "lanes.go", "an append that fails takes the others of its statement with it", "if len(take) == 1 {", "if len(take) > 0 {",
             ("TestServerTooLarge",)),
    Mutation(SRC + "events.go", "an event ends inside a character", "data = data[:wholeCharacters(data)]", "data = data[:len(data)]",
             ("TestServerPartsOfCharacters",)),
    Mutation(SRC + "events.go", "the offset after an event skips the part of a character", "r.after = r.begin + int64(len(data))", "r.after = r.next",
             ("TestServerPartsOfCharacters",)),
    Mutation(SRC + "events.go", "a line loses the space that it begins with", 'line = " " + line', 'line = "" + line', ("TestUnitEvent",)),
    Mutation(SRC + "db.go", "an append is acknowledged before it is on disk", 'quiet := map[string]string{"streams.quiet": "on"}',
             'quiet := map[string]string{"streams.quiet": "on", "synchronous_commit": "off"}', ("TestServerAcknowledged",)),
    Mutation(SRC + "db.go", "each request tries to connect while PostgreSQL is down", "if d.isDown() && pool.Stat().TotalConns() == 0 {",
             "if d.isDown() && pool == nil {", ("TestServerDatabaseDown",)),
    Mutation(SRC + "db.go", "notifications are lost while the listener connects", "wakeAll() // notifications while nothing listened are lost", "_ = wakeAll",
             ("TestServerListenerLost",)),
    Mutation(SRC + "db.go", "a connection keeps the role of the request before", "if has, _ := d.roles.Load(c); has != role {",
             "if has, _ := d.roles.Load(c); has == nil {", ("TestServerTable",)),
    Mutation(SRC + "read.go", "an offset beyond the end is the end", "if from != nil && *from > r.tail {", "if from != nil && *from < 0 {",
             ("TestServerBadOffsets",)),
    Mutation(SRC + "read.go", "an offset of a former stream is one of the stream that took its path",
             "if from != nil && (incarnation != got.incarnation(*from) || *from > 0 && timeline != got.timeline) { "
             "// the offset names bytes that this stream does not have",
             "if from != nil && (incarnation < 0 || *from > 0 && timeline != got.timeline) {", ("TestServerBadOffsets",)),
    Mutation(SRC + "main.go", "followers take all open files", "if c.Followers <= most {", "if c.Followers > 0 {", ("TestServerFewDescriptors",)),
    Mutation(SRC + "streams.sql", "a gathered append is stored to a stream of another media type",
             GATHERED, GATHERED.replace(" AND x.media = medias[held.n]", ""), ("TestServerGathered",)),
    Mutation(SRC + "streams.sql", "a gathered append is stored to a source that was deleted",
             GATHERED, GATHERED.replace(" AND NOT x.deleted", ""), ("TestServerGathered",)),
    Mutation(SRC + "streams.sql", "a gathered append is stored to a stream whose time is over since it was used",
             GATHERED, GATHERED.replace(" AND x.ttl < 0", ""), ("TestServerGathered",)),
    Mutation(SRC + "streams.sql", "a gathered append is stored to a stream whose time is over",
             GATHERED, GATHERED.replace(" AND x.expires_at = 'infinity'", ""), ("TestServerGathered",)),
    Mutation(SRC + "streams.sql", "a gathered append is stored twice",
             "done[n] := true; ids := ids || stream_id;", "ids := ids || stream_id;", ("TestServerGathered",)),
    Mutation(SRC + "streams.sql", "a locked row is waited for by gathered appends",
             "SELECT r.n, x.id FROM unnest(alone) r (n) JOIN streams.stream x ON x.path = paths[r.n] FOR NO KEY UPDATE OF x SKIP LOCKED)",
             "SELECT r.n, x.id FROM unnest(alone) r (n) JOIN streams.stream x ON x.path = paths[r.n] FOR NO KEY UPDATE OF x)", ("TestServerHeldRow",)),
    Mutation(SRC + "streams.sql", "gathered appends are in no notification",
             "done[n] := true; ids := ids || stream_id;", "done[n] := true;", ("TestServerNotices",)),
    Mutation(SRC + "streams.sql", "other appends are in no notification", "ids := ids || s.id;", "NULL;", ("TestServerNotices",)),
    Mutation(SRC + "lanes.go", "streams that no notification has are forgotten if the append that takes them is refused",
             "if err != nil || !changed {", "if err != nil {",
             ("TestServerNotices",)),
    Mutation(SRC + "lanes.go", "an append notifies in a transaction after it", "if others, ok = l.d.notices.carry(); ok {",
             "if others, ok = l.d.notices.carry(); ok && false {", ("TestServerNotices",)),
    Mutation(SRC + "notify.go", "an append of another time is in no notification", "if len(ids) == most {", "if len(ids) == 0 {", ("TestServerNotices",)),
    Mutation(SRC + "read.go", "an offset of another timeline is accepted",
             "if from != nil && (incarnation != got.incarnation(*from) || *from > 0 && timeline != got.timeline) { "
             "// the offset names bytes that this stream does not have",
             "if from != nil && (incarnation != got.incarnation(*from) || timeline < 0) {", ("TestServerFailover",)),
    Mutation(SRC + "read.go", "a follower continues after a failover", NEWS, "if begin > 0 && r.incarnation(begin) != incarnation {",
             ("TestServerFailover",)),
    Mutation(SRC + "read.go", "a follower continues in a row that was inserted again", NEWS, "if begin > 0 && r.timeline != timeline {",
             ("TestServerIncarnation",)),
    Mutation(SRC + "source.go", "a row that was inserted again has the incarnation of the former",
             "r.begins, r.incarnations = []int64{0}, []int64{incarnation}", "r.begins, r.incarnations = []int64{0}, []int64{1}",
             ("TestServerIncarnation",)),
    Mutation(SRC + "source.go", "a row that was inserted again has the entity tag of the former",
             'r.key, r.id = s.t.route.Channel+"\\x00"+key, s.t.name+"\\x00"+key+"\\x00"+formatInt(incarnation)',
             'r.key, r.id = s.t.route.Channel+"\\x00"+key, s.t.name+"\\x00"+key', ("TestServerIncarnation",)),
    Mutation(SRC + "events.go", "a follower from the beginning ends after the first bytes",
             "first, incarnation = false, got.incarnation(next)", "first = false", ("TestServerIncarnation",)),
    Mutation(SRC + "read.go", "an ETag is valid after a failover",
             'h.Write([]byte(r.id + "\\x00" + formatInt(r.timeline)))', "h.Write([]byte(r.id))", ("TestServerFailover",)),
    Mutation(SRC + "write.go", "a fork begins at an offset of another timeline",
             "FROM streams.create_stream($1, $2, $3, $4, $5, $6, $7, $8, $9, CASE WHEN $13 = `+timelineSQL+` THEN $10::bigint ELSE -1 END, $11, $12)`,",
             "FROM streams.create_stream($1, $2, $3, $4, $5, $6, $7, $8, $9, CASE WHEN $13 = `+timelineSQL+` THEN $10::bigint ELSE $10 END, $11, $12)`,",
             ("TestServerFailover",)),
]


def mutated(mutation: Mutation) -> str:
    """The text of the mutation's file with its one line changed; ends the program if the line is not there once."""
    lines = (TOP / mutation.file).read_text().split("\n")
    start = 0
    if mutation.after:
        starts = [n for n, line in enumerate(lines) if line.strip() == mutation.after]
        if len(starts) != 1:
            sys.exit(f"{mutation.file}: {len(starts)} lines are '{mutation.after}'")
        start = starts[0]
    found = [n for n, line in enumerate(lines) if n >= start and line.strip() == mutation.old]
    if not found or len(found) > 1 and not mutation.after:
        sys.exit(f"{mutation.file}: {len(found)} lines are '{mutation.old}'")
    lines[found[0]] = lines[found[0]].replace(mutation.old, mutation.new)
    return "\n".join(lines)


def test(work: Path, mutation: Mutation | None, tests: tuple[str, ...]) -> tuple[bool, list[str]]:
    """Build a copy with this bug (None: without one) and run tests; whether they passed, and which failed."""
    src = work / "src"
    shutil.rmtree(src, ignore_errors=True)
    shutil.copytree(TOP / SRC, src)
    if mutation:
        (src / Path(mutation.file).name).write_text(mutated(mutation))
    commands = [["go", "test", "-c", "-o", work / "unit", "."]]
    if not NEED_PROGRAM.isdisjoint(tests):
        commands.append(["go", "build", "-o", work / "streams", "."])
    for command in commands:
        built = subprocess.run(command, cwd=src, capture_output=True, text=True)
        if built.returncode:
            sys.exit(f"{mutation.what if mutation else 'no bug'}: does not build:\n{built.stderr}")
    try:
        done = subprocess.run([work / "unit", "-test.v", "-test.run", f"^({'|'.join(tests)})$"], cwd=src, capture_output=True, text=True, errors="replace",
                              timeout=PATIENCE, env={**os.environ, "STREAMS_TEST_PROGRAM": str(work / "streams")})
    except subprocess.TimeoutExpired:
        return False, ["(hangs)"]
    failed = re.findall(r"^--- FAIL: (\w+)", done.stdout, re.M)
    if mutation is None and done.returncode:
        print(done.stdout[-2000:])
    return done.returncode == 0, failed or ["(crashes)"]


def main() -> int:
    work = Path(sys.argv[1])
    work.mkdir(parents=True, exist_ok=True)
    chosen = [m for m in MUTATIONS if len(sys.argv) < 3 or any(text in f"{m.file} {m.what}" for text in sys.argv[2:])]
    if not chosen:
        sys.exit("no planted bug has this text")
    for mutation in MUTATIONS:
        mutated(mutation)
    names = tuple(sorted({name for mutation in chosen for name in mutation.tests}))
    if not test(work, None, names)[0]:
        sys.exit("tests fail without a bug")
    caught = 0
    for mutation in chosen:
        passed, failed = test(work, mutation, mutation.tests)
        caught += not passed
        print(f"{'survived' if passed else 'caught  '} {mutation.file}: {mutation.what}  {'' if passed else ' '.join(failed)}", flush=True)
    print(f"{caught} of {len(chosen)} planted bugs caught")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
