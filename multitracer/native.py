"""The native kernel: an optional package of compiled code that does what Python does here, only faster.

`multitracer-native` (the folder `native/`) is used where it can be imported and has the version of this
package. `MULTITRACER_NATIVE=0` turns it off. Its answers are those of the Python code, bit for bit.

It reads: `CaptureFile` a file by itself; `walk_pcap`, `walk_pcapng`, `pcapng_packets` and `decode` the
windows and blocks that Python hands over. It counts: `CountingPass`, over a file or over columns, and nothing
else. `EachSegment` and `place_segments` say what each segment was. `identities`, `copies`, `among`, `join`
and `same_packets` find the same packets in two captures; `places`, `span_minimum` and `first_painters` look
at columns.
"""

from __future__ import annotations

import importlib
import os
import warnings
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from multitracer import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from multitracer.tables import Array, DecodedPart, Numbers, Times

    Bytes = NDArray[np.uint8]

VARIABLE = "MULTITRACER_NATIVE"
"""The environment variable that turns the kernel off when it is 0."""
_MODULE = "multitracer_native"


class Kernel(Protocol):
    """What the native kernel offers; `native/src/lib.rs` says what comes in and out."""

    Fault: type[Exception]

    def walk_pcap(
        self, data: Bytes, begin: int, end: int, layout: Mapping[str, bool | int], /
    ) -> tuple[Numbers, Numbers, Numbers, Times, int, int] | None:
        """Return the records of a stretch of a pcap file; None if anything in it is strange."""

    def walk_pcapng(self, data: Bytes, begin: int, end: int, /, *, big_endian: bool) -> tuple[Numbers, int]:
        """Return where enhanced packet blocks begin, and where the last one ends."""

    def pcapng_packets(
        self, data: Bytes, starts: Numbers, /, **section: bool | list[int]
    ) -> list[Numbers] | None:
        """Return the packets of enhanced packet blocks; None if anything is strange about one of them."""

    def decode(
        self, data: Bytes, start: Numbers, captured: Numbers, original: Numbers, link_type: Numbers, /
    ) -> list[DecodedPart]:
        """Return the segments of packet records, in parts."""

    def EachSegment(self, rows: Array, columns: dict[str, Array], /) -> EachSegment:  # noqa: N802  # a class
        """Return what tells of each segment of a connection what it was, piece by piece."""

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
        """Return what reads and counts a capture file: a path, or what returns up to so many bytes more.

        Without limits nothing is counted, and all segments are kept, or `only` those of one flow: `flow` is 0
        then of what its first end sent, else 1.
        """

    def CountingPass(self, known: tuple[int, int] | None = None, /) -> CountingPass:  # noqa: N802  # a class
        """Return what counts the connections that come, or those from a number to below another."""

    # --- columns, whatever they are about ---

    def identities(self, columns: list[Array], rows: Array | None, /) -> Array:
        """Return a hash of some columns of each row, or of some rows."""

    def copies(self, key: Array, /) -> tuple[Array, Array]:
        """Return how many equal keys came before each one, and how many there are."""

    def among(self, key: Array, wanted: Array, /) -> Array:
        """Return the indexes of the keys that are among some wanted ones."""

    def join(
        self, near_key: Array, near_copy: Array, far_key: Array, far_copy: Array, /
    ) -> tuple[Array, Array]:
        """Return the indexes of equal (key, copy) at both points, in order of the near one."""

    def same_packets(
        self,
        near: tuple[list[Array], Array | None],
        far: tuple[list[Array], Array | None],
        only: Array | None,
        /,
    ) -> tuple[tuple[Array, Array], tuple[Array, Array, Array]]:
        """Return the indexes of packets that are the same, and which are first, equally many, and alone."""

    def place_segments(
        self, *columns: Array | tuple[Array, ...], missing: int, with_acked: bool
    ) -> dict[str, Array]:
        """Return columns of TCP_SEGMENTS by row, and the highest ACK of both sides if that is asked for."""

    def places(self, ordered: Array, values: Array, right: bool, /) -> Array | None:
        """Return what `numpy.searchsorted` does; None if the first column is not sorted."""

    def span_minimum(self, values: Array, low: Array, high: Array, /) -> Array | None:
        """Return the minimum of values[low[i]:high[i]]; None if the stretches are not in order."""

    def first_painters(self, left: Array, right: Array, cells: int, /) -> Array | None:
        """Return the first span that covers each cell, or their number; None if one covers no cell."""


class CountingPass(Protocol):
    """Counts connections: those that come, or some that are known; see `native/src/running.rs`."""

    connections: int
    """How many there are so far."""
    is_odd: bool
    """Whether there is something that only all segments of a connection tell."""

    marked: list[int]
    """How many segments have each bit of their marks, except HAS_TIMESTAMPS."""
    giants: int
    """How many segments that are not kept are larger than their receiver accepts."""
    segments: int
    """How many there are so far."""

    def add(
        self, columns: dict[str, Array], syn_options: dict[str, Array], begin: int, /
    ) -> tuple[Array, Array]:
        """Take in the next segments, the rows from `begin` on; return those that Python has to keep.

        `columns` are those for `EachSegment`; where connections are not known, `direction` is the directed
        flow. Of what is kept the rows are told, and twice the number of the connection, plus 1 for what the
        other end of its flow sent.
        """

    def finish(self) -> tuple[dict[str, Array], dict[str, Array], dict[str, Array]]:
        """Return what was counted of each direction, what else is known of it, and how each connection began.

        Of connections that are known there is a row for each, in order of their numbers.
        """

    def stamps(self, direction: int, /) -> tuple[Array, Array]:
        """Return the times and the timestamps of a directed flow's segments that have both."""

    def calm_stamps(self, direction: int, short_ns: int, /) -> tuple[int, int, int]:
        """Return of the short pauses between these their number, time and ticks."""

    def stamp_disagreements(self, direction: int, /, **limits: float) -> Numbers:
        """Return behind which of these time and ticks disagree."""


Rest = tuple[tuple[int, int, int], tuple[bytes, list[int], list[int], list[int]] | None, list[bytes]]
"""Of a block: its segments (IPv4, IPv6) and datagrams of UDP; packets, one behind the other, with captured
and original lengths and times; and blocks of pcapng that are no packets."""


FlowEnds = tuple[int, tuple[bytes, int], tuple[bytes, int]]
"""The IP version of a flow, and address and port of its ends."""


class CaptureFile(Protocol):
    """Reads and counts a capture file; see `native/src/whole_file.rs`."""

    read_bytes: int
    stored_bytes: int | None
    """Of a file that the kernel unpacks, how many bytes were taken; not while it is read."""

    def read(self, first: int, every: int, look: Callable[[list[Rest], int, int], bool], /) -> bool:
        """Read and count the file; return False if something is strange, so that Python has to read it.

        At block `first`, at each `every` more, and when many packets wait, `look` is called while there is
        more: with what `rests` returns, how many bytes of the file were taken, and how many connections there
        are. It may say that something is.
        """

    def tail(self) -> bytes:
        """Return what there is of a last record that is cut off: nothing of most files."""

    def times(self) -> tuple[int, int, int, int, int]:
        """Return how many packets there are, steps back of their times, the largest, the extreme times."""

    def rests(self) -> list[Rest]:
        """Return what Python looks at of each block since the last look."""

    def flows(self) -> dict[str, Array]:
        """Return the flows as columns."""

    def kept(self) -> list[KeptSegments]:
        """Return the segments that Python has to keep; without limits one piece, with all of them."""

    def counts(self) -> CountingPass:
        """Return the pass over the connections; nothing else may be asked for behind that."""


KeptSegments = tuple["Array", "Times", "DecodedPart"]
"""Direction, time and columns of segments that Python has to keep."""


class KernelLimits(NamedTuple):
    """How much of a capture is counted while it is read before it is better kept as tables."""

    few_connections: int = 1 << 15
    """So many may be of any size: each takes a kilobyte of the kernel's memory."""
    least_each: int = 32
    """Segments of a connection, on average, from which on it takes less than they do."""
    few_kept: int = 1 << 16
    """Segments that may be kept whatever the rest is: some megabytes."""
    kept_share: int = 8
    """One in so many may be kept: more of them, joined in the end, take as much as all in one table."""

    def exceeds(self, connections: int, kept: int, segments: int) -> bool:
        """Return whether so many connections, and kept segments, are too many; as the kernel does."""
        many = connections > max(self.few_connections, segments // self.least_each)
        return many or kept > max(self.few_kept, segments // self.kept_share)


LIMITS = KernelLimits()


class EachSegment(Protocol):
    """The segments of one connection, known after a first walk over them; see `native/src/each.rs`."""

    is_known: bool
    """Whether the kernel can judge it."""

    def next(self, rows: Array, columns: dict[str, Array], /) -> dict[str, Array]:
        """Return columns of the next segments, and the rows of the ACKs that answer each."""


class NativeFaultError(Exception):
    """A bug in the native kernel: no error of the input, so the program reports it as a bug."""


class NativeIgnoredWarning(RuntimeWarning):
    """The native kernel is installed, but of another version."""


def kernel() -> Kernel | None:
    """Return the module of the native kernel; None if Python is to do the work.

    Warns
    -----
    NativeIgnoredWarning
        Once, if the kernel has another version than this package.
    """
    return _looked_up(os.environ.get(VARIABLE, ""))[0]


def state() -> str:
    """Return in words what reads captures, and why: "the native kernel 0.1.0"."""
    return _looked_up(os.environ.get(VARIABLE, ""))[1]


@cache
def _looked_up(setting: str) -> tuple[Kernel | None, str]:
    if setting == "0":
        return None, f"Python ({VARIABLE} is 0)"
    try:
        module = importlib.import_module(_MODULE)
    except ImportError as error:
        why = "is not installed" if error.name == _MODULE and not error.path else f"does not load: {error}"
        return None, f"Python (multitracer-native {why})"
    version = getattr(module, "__version__", "of no known version")
    if version != __version__:
        warnings.warn(
            f"multitracer-native {version} is ignored, this is multitracer {__version__}: "
            f"install multitracer-native=={__version__}, or set {VARIABLE}=0",
            NativeIgnoredWarning,
            stacklevel=3,
        )
        return None, f"Python (multitracer-native {version} is ignored: it is not {__version__})"
    if missing := sorted(name for name in dir(Kernel) if name[0] != "_" and not hasattr(module, name)):
        warnings.warn(
            f"multitracer-native {version} is ignored, it is built from older sources, without {missing[0]}: "
            f"build it again (make native), or set {VARIABLE}=0",
            NativeIgnoredWarning,
            stacklevel=3,
        )
        return None, f"Python (multitracer-native {version} is ignored: it lacks {missing[0]})"
    return cast("Kernel", module), f"the native kernel {version}"


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Say of which file it was if the native kernel fails.

    Raises
    ------
    NativeFaultError
        With the SHA-256 of the file: who sends a file and who reads the report then mean the same.
    """
    try:
        yield
    except Exception as error:
        native = kernel()
        if native is None or not isinstance(error, native.Fault):
            raise
        reason = f"{path}{_digest(path)}: the native kernel failed, {error}; {VARIABLE}=0 reads it without"
        raise NativeFaultError(reason) from error


def _digest(path: str) -> str:
    import hashlib

    if not Path(path).is_file():
        return ""
    with Path(path).open("rb") as stream:
        return f" (SHA-256 {hashlib.file_digest(stream, 'sha256').hexdigest()})"
