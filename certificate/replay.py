"""The possible contents of a disk after a power cut: a model of files, fed with the calls of a server.

certificate/power/record.c logs every call; Disk.replay() follows the log up to a cut, and
Disk.crash() writes a folder as it may be found then:

* synced writes are there;
* of writes that were not synced, each sector has the contents after one of them, or
  before them (chosen at random, so pages of a file are torn at 512 or 4096 bytes), and the
  file's length is one that it had since it was synced;
* of names that were made, moved and removed, any may be lost whose folder was not
  synced; either a random choice of them or all from one on, as a journal loses them.
  Syncing a file keeps its own name too, as all file systems of Linux do, and a rename
  happens wholly or not at all.
"""

from __future__ import annotations

import mmap
import os
import random
import stat
import struct
from pathlib import Path
from typing import Union

#: struct head of record.c.
HEAD = struct.Struct("=IIQq")
#: Files that a server makes for as long as it runs, and must not find.
TRANSIENT = {"postmaster.pid", "postmaster.opts"}


class File:
    """What is on the disk for certain, and what was done to it since."""

    def __init__(self, content: bytes = b""):
        self.durable = bytearray(content)
        #: (offset, data) of a write; (length, None) cuts or (length, True) grows, in order.
        self.pending: list[tuple] = []

    def sync(self) -> None:
        for op in self.pending:
            self._apply(self.durable, *op)
        self.pending.clear()

    @staticmethod
    def _apply(content: bytearray, at: int, data) -> None:
        if data is None:
            del content[at:]
            content.extend(bytes(at - len(content)))
        elif data is True:
            content.extend(bytes(max(at - len(content), 0)))
        else:
            content.extend(bytes(max(at - len(content), 0)))
            content[at:at + len(data)] = data

    def lengths(self) -> list[int]:
        """The length before the first pending call, and after each."""
        found = [len(self.durable)]
        for at, data in self.pending:
            found.append(at if data is None else max(found[-1], at) if data is True else max(found[-1], at + len(data)))
        return found

    def crash(self, rng: random.Random) -> bytes:
        """What may be on the disk."""
        way = rng.random()
        if not self.pending or way < 0.15:
            return bytes(self.durable)
        lengths, n = self.lengths(), len(self.pending)
        content = self.durable + bytes(max(lengths) - len(self.durable))
        if way < 0.3:  # all of it
            upto: dict[int, int] = {}
            default, unit, length = n, 4096, lengths[-1]
        else:
            upto, default, unit, length = {}, None, 512 if way < 0.65 else 4096, rng.choice(lengths)
        for i, (at, data) in enumerate(self.pending):
            if data is True:
                continue
            end = len(content) if data is None else at + len(data)
            for sector in range(at // unit, -(-end // unit)):
                if default is not None:
                    cut = default
                elif (cut := upto.get(sector)) is None:
                    cut = upto[sector] = rng.randint(0, n)
                if i < cut:
                    low, high = max(at, sector * unit), min(end, (sector + 1) * unit)
                    content[low:high] = bytes(high - low) if data is None else data[low - at:high - at]
        return bytes(content[:length])


class Link(str):
    """A symbolic link's target."""


class Folder:
    def __init__(self) -> None:
        self.durable: dict[str, Entry] = {}
        self.now: dict[str, Entry] = {}


Entry = Union[File, Folder, Link]


class Disk:
    """A folder's files, as they are and as they are for certain on the disk."""

    def __init__(self, path: Path):
        """For a folder that no process changes: all of it counts as synced."""
        self.inodes: dict[int, Entry] = {}
        self.root = self._read(path)
        #: Changes of names that are not on the disk: lists of (folder, name, what it stands for or None).
        self.names: list[list[tuple[Folder, str, Entry | None]]] = []
        self.records = 0
        self.at = 0

    def _read(self, path: Path) -> Folder:
        folder = Folder()
        self.inodes[path.stat().st_ino] = folder
        for entry in os.scandir(path):
            if entry.is_symlink():
                found: Entry = Link(os.readlink(entry.path))
            elif entry.is_dir():
                found = self._read(Path(entry.path))
            else:
                found = File(Path(entry.path).read_bytes())
            self.inodes[entry.inode()] = found
            folder.now[entry.name] = folder.durable[entry.name] = found
        return folder

    # -- following the log ---------------------------------------------------

    def _at(self, path: str) -> tuple[Folder, str]:
        folder = self.root
        *parents, name = path.split("/")
        for parent in parents:
            folder = folder.now[parent]
        return folder, name

    def _name(self, *changes: tuple[Folder, str, Entry | None]) -> None:
        for folder, name, entry in changes:
            if entry is None:
                folder.now.pop(name, None)
            else:
                folder.now[name] = entry
        self.names.append(list(changes))

    def _keep(self, kept) -> None:
        """Changes of names for which this is true are on the disk now, and with them earlier ones of the same names."""
        touched: set[tuple[int, str]] = set()
        on_disk, left = [], []
        for change in reversed(self.names):
            its = {(id(folder), name) for folder, name, _ in change}
            if kept(change) or its & touched:
                touched |= its
                on_disk.append(change)
            else:
                left.append(change)
        for change in reversed(on_disk):
            self._enter(change, lambda folder: folder.durable)
        self.names = left[::-1]

    @staticmethod
    def _enter(change, names) -> None:
        for folder, name, entry in change:
            if entry is None:
                names(folder).pop(name, None)
            else:
                names(folder)[name] = entry

    def replay(self, log: mmap.mmap | bytes, until: int) -> None:
        """Follow the log to a number of records."""
        view = memoryview(log)
        while self.records < until:
            kind, length, inode, offset = HEAD.unpack_from(view, self.at)
            data = view[self.at + HEAD.size:self.at + HEAD.size + length]
            self._follow(chr(kind), inode, offset, data)
            self.at += HEAD.size + length
            self.records += 1

    def _follow(self, kind: str, inode: int, offset: int, data: memoryview) -> None:
        entry = self.inodes.get(inode)
        if kind == "w":
            entry.pending.append((offset, data))
        elif kind == "t":
            entry.pending.append((offset, None))
        elif kind == "a":
            entry.pending.append((offset, True))
        elif kind == "s":
            if isinstance(entry, File):
                entry.sync()
                self._keep(lambda change: any(what is entry for _, _, what in change))
            else:
                self._keep(lambda change: any(folder is entry for folder, _, _ in change))
        else:
            one, two = [name.decode() for name in bytes(data).split(b"\0")[:2]]
            folder, name = self._at(one)
            if kind in "cdy":
                self.inodes[inode] = made = File() if kind == "c" else Folder() if kind == "d" else Link(two)
                self._name((folder, name, made))
            elif kind == "u":
                self._name((folder, name, None))
            elif kind == "r":
                self._name((folder, name, None), (*self._at(two), folder.now[name]))
            elif kind == "l":
                self._name((*self._at(two), folder.now[name]))
            else:
                raise ValueError(f"the log has no record of kind {kind!r} (byte {self.at})")

    # -- the power goes ------------------------------------------------------

    def crash(self, rng: random.Random, path: Path, owner: tuple[int, int] | None = None) -> None:
        """Write what may be found, into a folder that is not there yet; the model stays as it is."""
        lost = rng.randint(0, len(self.names)) if rng.random() < 0.5 else None
        kept = self.names[:lost] if lost is not None else [change for change in self.names if rng.random() < 0.5]
        entries: dict[int, dict[str, Entry]] = {}

        def names(folder: Folder) -> dict[str, Entry]:
            return entries.setdefault(id(folder), dict(folder.durable))

        for change in kept:
            self._enter(change, names)
        self._write(rng, self.root, names, path, owner, {})

    def _write(self, rng, folder: Folder, names, path: Path, owner, written: dict[int, Path]) -> None:
        path.mkdir(mode=0o700)
        made = [str(path)]
        for name, entry in names(folder).items():
            target = path / name
            if isinstance(entry, Folder):
                self._write(rng, entry, names, target, owner, written)
            elif isinstance(entry, Link):
                target.symlink_to(entry)
            elif name in TRANSIENT:
                continue
            elif id(entry) in written:
                os.link(written[id(entry)], target)
            else:
                fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR)
                os.write(fd, entry.crash(rng))
                os.close(fd)
                written[id(entry)] = target
                made.append(str(target))
        if owner is not None:
            for name in made:
                os.chown(name, *owner)


def kinds(log: mmap.mmap | bytes) -> str:
    """The kind of each record, in order."""
    found, at = [], 0
    while at < len(log):
        kind, length, _, _ = HEAD.unpack_from(log, at)
        found.append(chr(kind))
        at += HEAD.size + length
    return "".join(found)
