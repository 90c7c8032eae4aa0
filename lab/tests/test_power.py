"""The model of a disk, which keeps and loses writes in a power failure (certificate/replay.py), the recorder below a server, and full disks."""

import argparse
import contextlib
import os
import random
import shutil
import subprocess
import sys
import types

import pytest

from pg_lean.paths import TOP

sys.path.insert(0, str(TOP / "certificate"))
import chaos
import replay

OLD, NEW = b"a" * 16384, b"b" * 16384


def seeds(n=200):
    return [random.Random(seed) for seed in range(n)]


def test_what_was_synced_is_there():
    file = replay.File(OLD)
    file.pending = [(0, NEW[:100]), (20000, b"c"), (8192, None)]
    file.sync()
    assert {file.crash(rng) for rng in seeds()} == {NEW[:100] + OLD[100:8192]}


def test_writes_that_were_not_synced_are_lost_kept_and_torn_at_sectors():
    file = replay.File(OLD)
    file.pending = [(0, NEW)]
    found = {file.crash(rng) for rng in seeds()}
    assert {OLD, NEW} < found
    for content in found:
        assert len(content) == len(OLD)
        assert all(content[at:at + 512] in (OLD[:512], NEW[:512]) for at in range(0, len(content), 512))
    halves = [content for content in found if any(len(set(content[at:at + 8192])) == 2 for at in (0, 8192))]
    assert any(len(set(content[at:at + 4096])) == 2 for content in halves for at in range(0, len(content), 4096))
    assert any(all(len(set(content[at:at + 4096])) == 1 for at in range(0, len(content), 4096)) for content in halves)


def test_a_sector_has_no_write_without_those_before_it():
    file = replay.File(b"0" * 512)
    file.pending = [(0, b"1"), (1, b"2")]
    assert {file.crash(rng)[:2] for rng in seeds()} == {b"00", b"10", b"12"}


def test_lengths_that_were_not_synced():
    file = replay.File(b"x" * 512)
    file.pending = [(1024, True), (512, b"y" * 512), (0, None)]
    assert {len(file.crash(rng)) for rng in seeds()} == {512, 1024, 0}
    assert {file.crash(rng)[512:] for rng in seeds()} == {b"", bytes(512), b"y" * 512}


@pytest.fixture
def disk(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "old").write_bytes(b"old")
    return replay.Disk(tmp_path / "data")


def after(disk, tmp_path, seed):
    """Names and contents after the power went."""
    path = tmp_path / f"crash-{seed}"
    disk.crash(random.Random(seed), path)
    return tuple(sorted((str(p.relative_to(path)), p.read_bytes()) for p in path.rglob("*") if p.is_file()))


def follow(disk, *calls):
    for kind, inode, *names in calls:
        disk._follow(kind, inode, 0, memoryview(b"".join(name.encode() + b"\0" for name in names)))


def test_names_are_lost_until_their_folder_or_file_is_synced(disk, tmp_path):
    root = next(inode for inode, entry in disk.inodes.items() if entry is disk.root)
    follow(disk, ("c", 1001, "new"), ("r", 0, "old", "other"))
    assert {tuple(name for name, _ in after(disk, tmp_path, seed)) for seed in range(60)} == {("old",), ("new", "old"), ("other",), ("new", "other")}
    follow(disk, ("s", 1001))
    assert {tuple(name for name, _ in after(disk, tmp_path, seed)) for seed in range(100, 160)} == {("new", "old"), ("new", "other")}
    follow(disk, ("s", root))
    assert {tuple(name for name, _ in after(disk, tmp_path, seed)) for seed in range(200, 230)} == {("new", "other")}


def test_a_synced_file_keeps_its_name_behind_one_that_was_removed(disk, tmp_path):
    follow(disk, ("u", 0, "old"), ("c", 1001, "old"), ("s", 1001))
    assert {after(disk, tmp_path, seed) for seed in range(30)} == {(("old", b""),)}


CALLS = """
import os
os.mkdir("sub")
file = os.open("sub/one", os.O_CREAT | os.O_RDWR)
os.write(file, b"one" * 1000)
os.pwrite(file, b"two", 9000)
os.pwritev(file, [b"three", b"four"], 20)
if os.fork() == 0:
    os.write(file, b"child")
    os._exit(0)
os.wait()
os.ftruncate(file, 9001)
os.posix_fallocate(file, 9000, 1000)
os.fsync(file)
os.rename("old", "sub/moved")
os.link("sub/one", "same")
os.symlink("/dev/null", "nowhere")
with open("gone", "w") as gone:
    gone.write("x")
os.unlink("gone")
os.close(os.open("sub/moved", os.O_WRONLY | os.O_TRUNC))
"""


@pytest.mark.skipif(shutil.which("cc") is None or not sys.platform.startswith("linux"), reason="no compiler")
def test_the_log_has_all_that_was_done(disk, tmp_path):
    library, data = tmp_path / "record.so", tmp_path / "data"
    subprocess.run(
        ["cc", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", "-o", library, TOP / "certificate" / "power" / "record.c", "-ldl"], check=True
    )
    (tmp_path / "log").touch()
    (tmp_path / "count").write_bytes(bytes(8))
    subprocess.run([sys.executable, "-S", "-c", CALLS], cwd=data, check=True,
                   env={**os.environ, "LD_PRELOAD": str(library), "POWER_ROOT": str(data.resolve()), "POWER_LOG": str(tmp_path / "log"),
                        "POWER_COUNT": str(tmp_path / "count"), "PYTHONDONTWRITEBYTECODE": "1"})
    log = (tmp_path / "log").read_bytes()
    kinds = replay.kinds(log)
    assert len(kinds) == int.from_bytes((tmp_path / "count").read_bytes(), sys.byteorder)
    assert set(kinds) == set("cdwtasrlyu")
    disk.replay(log, len(kinds))
    for entry in list(disk.inodes.values()):
        if isinstance(entry, replay.File):
            entry.sync()
    disk._keep(lambda change: True)
    disk.crash(random.Random(1), tmp_path / "again")
    for path in data.rglob("*"):
        other = tmp_path / "again" / path.relative_to(data)
        assert other.is_symlink() == path.is_symlink()
        if path.is_file():
            assert other.read_bytes() == path.read_bytes()
    assert sorted(p.relative_to(tmp_path / "again") for p in (tmp_path / "again").rglob("*")) == sorted(p.relative_to(data) for p in data.rglob("*"))
    assert os.path.samefile(tmp_path / "again" / "same", tmp_path / "again" / "sub" / "one")


GROW = """
import os, sys
def tried(call):
    try:
        call()
    except OSError as error:
        return os.strerror(error.errno)
    return "done"
for name in ("pg_wal/segment", "base", "t3_16384", "pgsql_tmp/pgsql_tmp1.0"):
    file = os.open(name, os.O_RDWR)
    print(tried(lambda: os.pwrite(file, b"over", 0)), "|", tried(lambda: os.pwrite(file, b"more", 6)), "|", tried(lambda: os.posix_fallocate(file, 0, 100)),
          "|", tried(lambda: os.open(name + ".new", os.O_CREAT | os.O_WRONLY)))
"""
GOES, NOT = "done | done | done | done", "done | No space left on device | No space left on device | No space left on device"


@pytest.mark.skipif(shutil.which("cc") is None or not sys.platform.startswith("linux"), reason="no compiler")
@pytest.mark.parametrize("full, wal, data, temporary", [(0, GOES, GOES, GOES), (chaos.DISKS["data"], GOES, NOT, NOT), (chaos.DISKS["WAL"], NOT, GOES, GOES),
                                                        (chaos.DISKS["temporary files"], GOES, GOES, NOT)])
def test_a_disk_that_is_full_takes_what_does_not_grow(tmp_path, full, wal, data, temporary):
    library, faults, folder = tmp_path / "faults.so", tmp_path / "faults", tmp_path / "data"
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", "-o", library, TOP / "certificate" / "faults.c", "-ldl"], check=True)
    for name in ("pg_wal", "pgsql_tmp"):
        (folder / name).mkdir(parents=True)
    for name in ("pg_wal/segment", "base", "t3_16384", "pgsql_tmp/pgsql_tmp1.0"):
        (folder / name).write_bytes(b"12345678")
    faults.write_bytes(chaos.FAULTS.pack(0, full, os.fsencode(folder.resolve())))
    done = subprocess.run([sys.executable, "-S", "-c", GROW], cwd=folder, check=True, capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C", "LD_PRELOAD": str(library), "CHAOS_FAULTS": str(faults)})
    assert done.stdout.splitlines() == [wal, data, temporary, temporary]


def test_kills_go_on_while_a_disk_is_full(tmp_path, monkeypatch):
    run = chaos.Chaos(argparse.Namespace(seed=1, pause=0.05, kills=None, only=None))
    run.faults, run.primary = (
        tmp_path / "faults",
        types.SimpleNamespace(data=tmp_path, inside=str, conninfo="", process=types.SimpleNamespace(poll=lambda: None)),
    )
    run.faults.write_bytes(chaos.FAULTS.pack(7, 0, b""))
    seen = []

    def kill(but=()):
        seen.append((but, chaos.FAULTS.unpack(run.faults.read_bytes())[:2]))
        run.jump(1)
        run.count("killed: backend")
    monkeypatch.setattr(chaos, "FULL", 2.0)
    monkeypatch.setattr(chaos.psycopg, "connect", lambda *args, **kwargs: contextlib.nullcontext(types.SimpleNamespace(execute=lambda query: None)))
    for name, value in (("kill", kill), ("panics", lambda: 0), ("processes", lambda server, kinds: [])):
        monkeypatch.setattr(run, name, value)
    run.fill_disk("temporary files")
    assert len(seen) > 1 and [seconds for _, (seconds, _) in seen] == list(range(7, 7 + len(seen)))
    assert all(but == chaos.NOT_WHEN_FULL and full == chaos.DISKS["temporary files"] for but, (_, full) in seen)
    assert chaos.FAULTS.unpack(run.faults.read_bytes())[1] == 0
    assert run.counts["full disks: processes killed meanwhile"] == len(seen) and run.counts["full disks: temporary files"] == 1
