"""An index of the blocks of a large capture by time; it is built while the capture is read.

Each capture has one index file in `multitracer/index` of the user's cache directory ($XDG_CACHE_HOME,
~/.cache); only the user can enter that folder. The index holds the facts of the capture file. For each block
of some MB it holds the offset, the number of packets, and their smallest and largest time. An index is used
only if the capture has the same size, modification time and digest as when it was indexed. The packets that
are read through the index must match it, too.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import tempfile
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from multitracer import __version__
from multitracer.captured import CaptureInterface, SourceFile
from multitracer.tables import NOT_A_TIME
from parsers import forced_reading

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from multitracer.recording.window import Bounds
    from multitracer.tables import Array, Document
    from parsers import PacketBlock

MIN_BYTES = 64 << 20
"""Minimum size of a capture that gets an index: smaller ones are read completely within a second (docs/benchmarks.md).
"""
_MOST_INDEX_BYTES = 16 << 20
"""Maximum size of an index in bytes: some 300,000 blocks, a capture of 1 TB."""
_LONGEST_NS = 30 * 86_400 * 10**9
"""Maximum time span of a capture that gets an index, in ns: the parsers take a longer step in time for damage."""
_SAMPLE_BYTES, _SAMPLES = 1 << 16, 16
"""The digest covers `_SAMPLES` places of `_SAMPLE_BYTES` each, including the start and the end of the file.
It detects changes by programs, not by an attacker who changes other places and keeps size and time."""
_FACTS = (
    "format", "variant", "packets", "bytes", "link_types", "protocols", "not_decoded", "first_ns", "last_ns",
    "time_steps_back", "largest_step_back_ns", "time_repeats", "time_grain_ns", "interfaces", "hardware",
    "operating_system", "application",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Index:
    """The index of a capture file: where its blocks are, and the facts of the file."""

    blocks: Array
    """Int64, shape (n_blocks, 4): the columns of `PacketBlock`."""
    facts: SourceFile

    def fits(self, source: SourceFile, packets: int) -> bool:
        """Return whether `packets` packets were read without loss, as the index states.

        If so, the facts of the file are stored in `source`.
        """
        if source.stopped:  # by the user: then it is what it is
            return True
        if source.damaged or source.packets != packets:
            return False
        for name in _FACTS:
            setattr(source, name, getattr(self.facts, name))
        return True

    def within(self, bounds: Bounds) -> tuple[list[tuple[int, int]], int]:
        """Return the byte ranges of the file to read for a time window, and their number of packets.

        The first block is always included, because it holds the file header. One more block on either side is
        included, for packets that belong together.
        """
        begin_ns, end_ns = bounds
        wanted = np.ones(len(self.blocks), dtype=bool)
        if begin_ns is not None:
            wanted &= self.blocks[:, 3] >= begin_ns
        if end_ns is not None:
            wanted &= self.blocks[:, 2] < end_ns
        wanted[1:] |= wanted[:-1].copy()
        wanted[:-1] |= wanted[1:].copy()
        wanted[0] = True
        edges = np.append(self.blocks[:, 0], self.facts.bytes)
        edges[0] = 0
        first = np.flatnonzero(wanted & ~np.append(False, wanted[:-1]))
        last = np.flatnonzero(wanted & ~np.append(wanted[1:], False))
        ranges = list(zip(edges[first].tolist(), edges[last + 1].tolist(), strict=True))
        return ranges, int(self.blocks[wanted, 1].sum())


def index_of(path: str) -> Index | None:
    """Return the index of a capture; None without an index, or if the capture has changed since."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, RecursionError, OverflowError):
        folder = _folder(make=False)
        document = None if folder is None else json.loads(_unsealed(_own_content(folder / _name(path))))
        if isinstance(document, dict) and document["state"] == _state(path):
            return _checked(document, path)
    return None


def keep_index(path: str, state: Document | None, blocks: Sequence[PacketBlock], files: Sequence[SourceFile]) -> None:
    """Write the index of a capture that was read completely, if it is possible to read parts of it.

    Parameters
    ----------
    path : str
    state : dict, optional
        The result of `state_of` before the capture was read; without it no index is written.
    blocks : sequence of PacketBlock
        All blocks of the file.
    files : sequence of SourceFile
        The facts of the capture's files; an index is written only for one file. Write errors are ignored.
    """
    with contextlib.suppress(OSError, ValueError):
        fit = state is not None and len(files) == 1 and _is_fit(blocks, files[0])
        if not fit or _state(path) != state or (folder := _folder(make=True)) is None:
            return
        facts = {name: value for name, value in asdict(files[0]).items() if name in _FACTS}
        text = json.dumps({"state": state, "facts": facts, "blocks": [list(block) for block in blocks]})
        _put(folder / _name(path), sealed(text.encode()))


def forget_index(path: str) -> None:
    """Remove the wrong index of a capture."""
    with contextlib.suppress(OSError):
        if (folder := _folder(make=False)) is not None:
            (folder / _name(path)).unlink()


def state_of(path: str) -> Document | None:
    """Return size, modification time and digest of a capture, to detect changes; None if it gets no index."""
    try:
        return _state(path) if Path(path).stat().st_size >= MIN_BYTES else None
    except (OSError, ValueError):
        return None


def _put(target: Path, content: bytes) -> None:
    with tempfile.NamedTemporaryFile("wb", dir=target.parent, delete=False) as file:
        made = Path(file.name)
        try:
            file.write(content)
            file.flush()
            made.replace(target)
        except OSError:  # a full disk keeps no part of it
            made.unlink()
            raise


def sealed(content: bytes) -> bytes:
    """Return `content` after a line with its SHA-256, so that a damaged index is detected."""
    return hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def _unsealed(data: bytes) -> bytes:
    content = data.partition(b"\n")[2]
    if data != sealed(content):
        raise ValueError("the checksum of the index file is wrong")
    return content


def _state(path: str) -> Document:
    if not Path(path).is_file():  # to open a pipe takes it from its writer, or waits for one
        raise ValueError(path)
    with Path(path).open("rb") as file:
        status = os.fstat(file.fileno())
        return {
            "version": __version__,
            "size": status.st_size,
            "changed_ns": status.st_mtime_ns,
            "digest": _digest(file, status.st_size),
            "forced": forced_reading(),
        }


def _digest(file: BinaryIO, size: int) -> str:
    digest = hashlib.sha256()
    for i in range(_SAMPLES + 1):
        file.seek(max(size - _SAMPLE_BYTES, 0) * i // _SAMPLES)
        digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def _is_fit(blocks: Sequence[PacketBlock], source: SourceFile) -> bool:
    """Return whether parts of a capture can be read alone: no block depends on the content of another."""
    plain = SourceFile(source.path, source.format)
    same = all(getattr(source, f.name) == getattr(plain, f.name) for f in fields(plain) if f.name not in _FACTS)
    times = [t for block in blocks for t in block[2:]]
    return bool(
        same and times and NOT_A_TIME not in times and max(times) - min(times) <= _LONGEST_NS
        and sum(block.packets for block in blocks) == source.packets
    )  # fmt: skip


# --- the folder ---


def _folder(*, make: bool) -> Path | None:
    """Return the folder of indexes; None if anyone but the user can write there."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    folder = Path(cache, "multitracer", "index")
    if not hasattr(os, "geteuid"):  # Windows: no mode tells who can write there
        return None
    if make:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
    status = folder.lstat()
    is_own = status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == 0o700
    return folder if stat.S_ISDIR(status.st_mode) and is_own else None


def _name(path: str) -> str:
    return hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest() + ".json"


def _own_content(path: Path) -> bytes:
    """Return the content of a file that only the user can write and that is no symbolic link."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        mine = status.st_uid == os.geteuid() and not status.st_mode & 0o022
        if not (stat.S_ISREG(status.st_mode) and mine and status.st_size <= _MOST_INDEX_BYTES):
            raise ValueError(path)
        return file.read(_MOST_INDEX_BYTES)


# --- what is in it ---


def _checked(document: Document, path: str) -> Index:
    """Return the index in a JSON document.

    Raises
    ------
    ValueError, TypeError, KeyError
        If the document does not have the form that `keep_index` writes.
    """
    rows = document["blocks"]
    if not isinstance(rows, list) or not all(_are(int, row) and len(row) == 4 for row in rows) or not rows:
        raise ValueError(path)
    facts = _facts(document["facts"], path)
    blocks = np.array(rows, dtype=np.int64)
    offset, packets, first_ns, last_ns = blocks.T
    good = (np.diff(offset) > 0).all() and offset[0] >= 0 and offset[-1] < facts.bytes
    good &= (packets > 0).all() and (first_ns <= last_ns).all() and int(packets.sum()) == facts.packets
    if not good or facts.bytes != document["state"]["size"]:
        raise ValueError(path)
    return Index(blocks, facts)


def _facts(stored: Document, path: str) -> SourceFile:
    for name in ("packets", "bytes", "first_ns", "last_ns", "time_steps_back", "largest_step_back_ns",
                 "time_repeats", "time_grain_ns"):  # fmt: skip
        _must(_are(int, [stored[name]]) and (name.endswith("_ns") or stored[name] >= 0), path)
    for name in ("format", "variant", "hardware", "operating_system", "application"):
        _must(isinstance(stored[name], str | None), path)
    for name in ("link_types", "protocols", "not_decoded"):
        _must(isinstance(stored[name], dict) and _are(int, stored[name].values()), path)
    _must(set(stored) == set(_FACTS) and isinstance(stored["format"], str), path)
    links = {int(kind): count for kind, count in stored["link_types"].items()}
    interfaces = [_interface(each, path) for each in stored["interfaces"]]
    return SourceFile(path, **{**stored, "link_types": links, "interfaces": interfaces})


def _interface(stored: Document, path: str) -> CaptureInterface:
    interface = CaptureInterface(**stored)
    for name in ("snap_length", "dropped_packets"):
        value = getattr(interface, name)
        _must(value is None or _are(int, [value]), path)
    for name in ("name", "description", "filter"):
        _must(isinstance(getattr(interface, name), str | None), path)
    _must(_are(int, [interface.link_type]) and isinstance(interface.resolution_ns, float), path)
    return interface


def _are(kind: type, values: object) -> bool:
    return all(type(value) is kind for value in cast("list[object]", values))


def _must(holds: bool, path: str) -> None:  # a condition
    if not holds:
        raise ValueError(path)
