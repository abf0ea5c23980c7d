"""The native kernel: an optional module of compiled code with the results of the Python code, but faster.

`multitracer._native` (the folder `native/`) is a part of wheels for one platform, and of installations where Rust's
cargo could compile it. It is used where it is there; `MULTITRACER_NATIVE=0` disables it. Its results equal those of
the Python code, bit for bit.

`CaptureFile` reads a complete file; `walk_pcap`, `walk_pcapng`, `pcapng_packets` and `decode` read chunks and
blocks that Python passes. `CountingPass` counts the segments of a file or of columns. `EachSegment` and
`place_segments` analyse each segment. `identities`, `copies`, `among`, `join` and `same_packets` match the
packets of two captures; `places`, `span_minimum` and `first_painters` are functions on columns.
"""

from __future__ import annotations

import importlib
import os
import warnings
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType

    import numpy as np
    from numpy.typing import NDArray

    from multitracer.tables import Array, DecodedPart, Numbers, Times

    Bytes = NDArray[np.uint8]

VARIABLE = "MULTITRACER_NATIVE"
"""Environment variable that disables the kernel if its value is 0."""
_MODULE = "multitracer._native"


class Kernel(Protocol):
    """The functions of the native kernel; `native/src/lib.rs` describes arguments and results."""

    Fault: type[Exception]
    SOURCES: str
    """Checksum of the sources that the kernel was compiled from."""

    def walk_pcap(
        self, data: Bytes, begin: int, end: int, layout: Mapping[str, bool | int], /
    ) -> tuple[Numbers, Numbers, Numbers, Times, int, int] | None:
        """Return the records of a chunk of a pcap file; None if the chunk has an unexpected record."""

    def walk_pcapng(self, data: Bytes, begin: int, end: int, /, *, big_endian: bool) -> tuple[Numbers, int]:
        """Return the offsets of enhanced packet blocks, and the end of the last one."""

    def pcapng_packets(self, data: Bytes, starts: Numbers, /, **section: bool | list[int]) -> list[Numbers] | None:
        """Return the packets of enhanced packet blocks; None if a block is unexpected."""

    def decode(
        self, data: Bytes, start: Numbers, captured: Numbers, original: Numbers, link_type: Numbers, /
    ) -> list[DecodedPart]:
        """Return the segments of packet records, in several parts."""

    def EachSegment(self, rows: Array, columns: dict[str, Array], /) -> EachSegment:  # noqa: N802  # a class
        """Return an object that computes the results for each segment of a connection, chunk by chunk."""

    def CaptureFile(  # noqa: N802, PLR0913  # it is a class
        self,
        origin: str | Callable[[int], memoryview],
        first_record: int,
        link_type: int,
        form: Mapping[str, bool | int | list[int]],
        /,
        *,
        block_bytes: int,
        far_ns: int,
        limits: tuple[int, ...] | None,
        only: FlowEnds | None,
    ) -> CaptureFile:
        """Return the reader and counter of a capture file.

        `origin` is a path, or a function that returns up to a number of further bytes. Without limits nothing
        is counted, and all segments are stored, or `only` those of one flow: `flow` is then 0 for segments of
        its first endpoint, else 1.
        """

    def CountingPass(self, known: tuple[int, int] | None = None, /) -> CountingPass:  # noqa: N802  # a class
        """Return a counter of all connections, or of those with a number in the half-open range `known`."""

    # --- columns, whatever they are about ---

    def identities(self, columns: list[Array], rows: Array | None, /) -> Array:
        """Return a hash of the columns for each row, or for the given rows."""

    def copies(self, key: Array, /) -> tuple[Array, Array]:
        """Return for each key the number of equal keys before it, and the total number of equal keys."""

    def among(self, key: Array, wanted: Array, /) -> Array:
        """Return the indexes of the keys that are in `wanted`."""

    def join(self, near_key: Array, near_copy: Array, far_key: Array, far_copy: Array, /) -> tuple[Array, Array]:
        """Return the indexes of equal (key, copy) pairs at both points, in order of the near point."""

    def same_packets(
        self, near: tuple[list[Array], Array | None], far: tuple[list[Array], Array | None], only: Array | None, /
    ) -> tuple[tuple[Array, Array], tuple[Array, Array, Array]]:
        """Return the indexes of the same packets at both points.

        The second tuple contains masks: packets that are first, equally frequent at both points, and unique.
        """

    def place_segments(self, *columns: Array | tuple[Array, ...], missing: int, with_acked: bool) -> dict[str, Array]:
        """Return columns of TCP_SEGMENTS by row; with `with_acked` also the highest ACK of both sides."""

    def places(self, ordered: Array, values: Array, right: bool, /) -> Array | None:
        """Return the result of `numpy.searchsorted`; None if the first column is not sorted."""

    def span_minimum(self, values: Array, low: Array, high: Array, /) -> Array | None:
        """Return the minimum of values[low[i]:high[i]] for each i; None if the ranges are not in order."""

    def first_painters(self, left: Array, right: Array, cells: int, /) -> Array | None:
        """Return for each cell the index of the first range that covers it.

        The number of ranges if none does.

        None if a range is empty.
        """


class CountingPass(Protocol):
    """Counts connections: all of them, or a range of known ones; see `native/src/running.rs`."""

    connections: int
    """Number of connections so far."""
    is_odd: bool
    """Whether a connection needs the analysis of all its segments."""

    marked: list[int]
    """Number of segments that have each bit of the marks, except HAS_TIMESTAMPS."""
    oversized: int
    """Number of segments that are larger than their receiver accepts, and are not stored."""
    segments: int
    """Number of segments so far."""

    def add(self, columns: dict[str, Array], syn_options: dict[str, Array], begin: int, /) -> tuple[Array, Array]:
        """Count the next segments, the rows from `begin` on; return those that Python must store.

        `columns` are those for `EachSegment`; if connections are not known, `direction` is the directed flow.
        The result is the row numbers of the segments to store, and twice the number of the connection, plus 1
        for segments of the second endpoint of the flow.
        """

    def finish(self) -> tuple[dict[str, Array], dict[str, Array], dict[str, Array]]:
        """Return the counts and other properties of each direction, and the begin of each connection.

        If a range of connections is known, there is a row for each, in order of their numbers.
        """

    def stamps(self, direction: int, /) -> tuple[Array, Array]:
        """Return times and TCP timestamps of a directed flow's segments that have both."""

    def calm_stamps(self, direction: int, short_ns: int, /) -> tuple[int, int, int]:
        """Return number, total time and total ticks of the short gaps between these segments."""

    def stamp_disagreements(self, direction: int, /, **limits: float) -> Numbers:
        """Return the indexes of these segments after which time and ticks disagree."""


Rest = tuple[tuple[int, int, int], tuple[bytes, list[int], list[int], list[int]] | None, list[bytes]]
"""Parts of a block that Python must process.

The tuple contains: the numbers of IPv4 and IPv6 segments and of UDP datagrams; concatenated packets with
their captured lengths, original lengths and times; and pcapng blocks that are not packets."""


FlowEnds = tuple[int, tuple[bytes, int], tuple[bytes, int]]
"""IP version of a flow, then address and port of its two endpoints."""


class CaptureFile(Protocol):
    """Reads and counts a capture file; see `native/src/whole_file.rs`."""

    read_bytes: int
    stored_bytes: int | None
    """Compressed bytes read of a file that the kernel unpacks, None for other files.

    Not available during `read`."""

    def read(self, first: int, every: int, look: Callable[[list[Rest], int, int], bool], /) -> bool:
        """Read and count the file; return False if it has unexpected content, so that Python must read it.

        `look` is called at block `first`, after each `every` further blocks, and when many packets wait. Its
        arguments are the result of `rests`, the number of bytes read, and the number of connections. It
        returns False if the content is unexpected.
        """

    def tail(self) -> bytes:
        """Return the octets of an incomplete last record; empty for most files."""

    def times(self) -> tuple[int, int, int, int, int, int, int]:
        """Return how many packets and steps back there are, the largest, repeats, grain and extremes."""

    def rests(self) -> list[Rest]:
        """Return the parts of each block since the last call that Python must process."""

    def flows(self) -> dict[str, Array]:
        """Return the flows as columns."""

    def kept(self) -> list[KeptSegments]:
        """Return the segments that Python must store; without limits all segments, as one chunk."""

    def counts(self) -> CountingPass:
        """Return the counter of the connections; no other method may be called after it."""


KeptSegments = tuple["Array", "Times", "DecodedPart"]
"""Direction, time and columns of segments that Python must store."""


class KernelLimits(NamedTuple):
    """Limits for counting a capture while it is read; above them, tables of all segments need less memory."""

    few_connections: int = 1 << 15
    """Number of connections that may be of any size: each needs 1 kB of the kernel's memory."""
    least_each: int = 32
    """Mean number of segments per connection above which a connection needs less memory than its segments."""
    few_kept: int = 1 << 16
    """Number of segments that may be stored in any case: some megabytes."""
    kept_share: int = 8
    """One segment in this many may be stored: more of them would need as much memory as one table of all."""

    def exceeds(self, connections: int, kept: int, segments: int) -> bool:
        """Return whether the numbers exceed the limits, by the same rule as the kernel."""
        many = connections > max(self.few_connections, segments // self.least_each)
        return many or kept > max(self.few_kept, segments // self.kept_share)


LIMITS = KernelLimits()


class EachSegment(Protocol):
    """The segments of one connection after a first pass over them; see `native/src/each.rs`."""

    is_known: bool
    """Whether the kernel can analyse the connection."""

    def next(self, rows: Array, columns: dict[str, Array], /) -> dict[str, Array]:
        """Return columns of the next segments, and the rows of the ACKs that answer each of them."""


class NativeFaultError(Exception):
    """A bug in the native kernel, not an error of the input; the program reports it as a bug."""


class NativeIgnoredWarning(RuntimeWarning):
    """The native kernel is there, but was compiled from other sources than those beside it."""


def kernel() -> Kernel | None:
    """Return the module of the native kernel; None if Python must do the work.

    Warns
    -----
    NativeIgnoredWarning
        Once, if the kernel lacks a function, or is not of the sources beside it: an editable installation whose
        sources have changed.
    """
    return _looked_up(os.environ.get(VARIABLE, ""))[0]


def state() -> str:
    """Return as text which code reads captures, and why: "the native kernel"."""
    return _looked_up(os.environ.get(VARIABLE, ""))[1]


@cache
def _looked_up(setting: str) -> tuple[Kernel | None, str]:
    if setting == "0":
        return None, f"Python ({VARIABLE} is 0)"
    try:
        module = importlib.import_module(_MODULE)
    except ImportError as error:
        missing = error.name == _MODULE and not error.path
        return None, f"Python (the native kernel {_why_missing() if missing else f'cannot be loaded: {error}'})"
    if reason := _why_ignored(module):
        warnings.warn(
            f"the native kernel is not used, because it {reason}; compile it again (make native), or set {VARIABLE}=0",
            NativeIgnoredWarning,
            stacklevel=3,
        )
        return None, f"Python (the native kernel is not used: it {reason})"
    return cast("Kernel", module), "the native kernel"


def _why_ignored(module: ModuleType) -> str:
    """Return what is wrong with a kernel that was loaded; empty if nothing is."""
    names = [name for name in dir(Kernel) if name[0] != "_"]
    if lacking := sorted(name for name in names if not hasattr(module, name)):
        return f"was compiled from older sources and lacks {lacking[0]}"
    sources = Path(__file__).parents[1] / "native"
    if (sources / "Cargo.toml").is_file() and sources_checksum(sources) != getattr(module, "SOURCES", ""):
        return "was compiled from other sources"
    return ""


def sources_checksum(folder: Path) -> str:
    """Return a checksum of what the kernel is compiled from: the files, and where in the folder they are."""
    import zlib  # no one forges sources; hashlib needs more time to load

    crates = (folder, folder / "core")
    paths = [path for crate in crates for path in (*crate.glob("Cargo.*"), *crate.glob("src/**/*.rs"))]
    checksum = 0
    for path in sorted(paths):
        text = path.read_bytes()
        checksum = zlib.crc32(f"{path.relative_to(folder).as_posix()} {len(text)}\n".encode() + text, checksum)
    return f"{checksum:08x}"


def _why_missing() -> str:
    """Return why the kernel was not compiled; `native/hatch_build.py` wrote it when MultiTracer was built."""
    noted = Path(__file__).with_name("_native.txt")
    return f"was not compiled: {noted.read_text('utf-8').strip()}" if noted.is_file() else "was not compiled"


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Add the file's name to an error if the native kernel fails during the body.

    Raises
    ------
    NativeFaultError
        With the SHA-256 of the file, so that the sender and the reader of a report refer to the same file.
    """
    try:
        yield
    except Exception as error:
        native = kernel()
        if native is None or not isinstance(error, native.Fault):
            raise
        reason = (
            f"{path}{_digest(path)}: the native kernel failed: {error}; set {VARIABLE}=0 to read this "
            "file without the native kernel"
        )
        raise NativeFaultError(reason) from error


def _digest(path: str) -> str:
    import hashlib

    if not Path(path).is_file():
        return ""
    with Path(path).open("rb") as stream:
        return f" (SHA-256 {hashlib.file_digest(stream, 'sha256').hexdigest()})"
