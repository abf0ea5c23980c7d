"""The native kernel: an optional package of compiled code that does what Python does here, only faster.

`multitracer-native` (the folder `native/`) is used where it can be imported and has the version of this
package. `MULTITRACER_NATIVE=0` turns it off. Its answers are those of the Python code, bit for bit.
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

    def summarise(self, begin: int, first: int, packets: Numbers, /, **columns: Array) -> dict[str, Array]:
        """Return what is known of each direction of consecutive connections, as columns."""

    def time_facts(self, time_ns: Times, last: int | None, far_ns: int, /) -> tuple[int, ...]:
        """Return what the known times show: how many, the last, steps back, the largest, lowest, highest."""

    def calm_stamps(self, time_ns: Times, stamp: Array, short_ns: int, /) -> tuple[int, int, int]:
        """Return of the short pauses between stamped segments their number, time and ticks."""

    def stamp_disagreements(self, time_ns: Times, stamp: Array, /, **limits: float) -> Numbers:
        """Return behind which stamped segments time and ticks disagree."""

    def RunningDecoder(self) -> RunningDecoder:  # noqa: N802  # it is a class
        """Return what decodes a capture and keeps its segments in the kernel."""

    def FlowDecoder(  # noqa: N802  # it is a class
        self, ip_version: int, a: tuple[bytes, int], b: tuple[bytes, int], rows: int, /
    ) -> FlowDecoder:
        """Return what decodes the flow between two ends, up to so many segments of it."""

    def segments_of(
        self, table: dict[str, Array], sack_blocks: dict[str, Array], syn_options: dict[str, Array], /
    ) -> KernelSegments:
        """Return segments of which there are tables, SEGMENTS and its two side tables, in the kernel."""

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
    ) -> CaptureFile:
        """Return what reads and counts a capture file: a path, or what returns up to so many bytes more.

        Without limits nothing is counted, and all segments are kept.
        """

    def RunningPass(self) -> RunningPass:  # noqa: N802  # it is a class
        """Return what counts the connections of a capture while it is read."""

    # --- columns, whatever they are about ---

    def identities(self, columns: list[Array], rows: Array | None, /) -> Array:
        """Return a hash of some columns of each row, or of some rows."""

    def copies(self, key: Array, /) -> tuple[Array, Array]:
        """Return how many equal keys came before each one, and how many there are."""

    def copy_numbers(self, key: Array, /) -> Array:
        """Return how many equal keys came before each one."""

    def among(self, key: Array, wanted: Array, /) -> Array:
        """Return the indexes of the keys that are among some wanted ones."""

    def shared(self, key: Array, others: list[Array], /) -> list[int]:
        """Return how many distinct keys others hold, of each of these in turn."""

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

    def ordered(self, values: Array, /) -> Array:
        """Return numbers in ascending order."""

    def fail(self) -> None:
        """Fail as a bug would; for tests."""


class KernelSegments(Protocol):
    """Segments in capture order that lie in the kernel."""

    in_ipv4: int
    """How many are in IPv4; the others are in IPv6."""
    udp: int
    """Datagrams of UDP beside them, which are only counted."""

    def __len__(self) -> int:
        """Return how many there are."""

    def rest(self) -> Numbers:
        """Return the records of the block that are left to Python: ascending."""

    def flows(self) -> dict[str, Array] | None:
        """Return the flows that are new to the decoder, as columns; None if all are known."""


class RunningDecoder(Protocol):
    """Decodes a capture block by block; see `parsers/_packets/in_kernel.py`."""

    def decode(self, data: Bytes, /, *columns_and_first_frame: Array | int) -> KernelSegments:
        """Return the segments of packet records; these as for `decode`, with their times behind."""

    def number(self, segments: KernelSegments, numbers: Array, /) -> None:
        """Give segments the flows of the capture; `numbers` are those of their new ones."""


class FlowDecoder(Protocol):
    """Decodes the segments of one flow block by block; see `parsers/_one_flow.py`."""

    def add(self, data: Bytes, /, *columns_and_first_frame: Array | int) -> None:
        """Take in packet records; these as for `RunningDecoder.decode`."""

    def finish(self) -> tuple[Times, DecodedPart]:
        """Return the times and the columns of what was found; `flow` is 0 where its end a sent it, else 1."""


class RunningPass(Protocol):
    """Counts the connections of a capture piece by piece; see `native/src/running.rs`."""

    connections: int
    """How many there are so far."""
    is_odd: bool
    """Whether there is something that only all segments of a connection tell."""

    marked: list[int]
    """How many segments have each bit of their marks, except HAS_TIMESTAMPS."""
    giants: int
    """How many of the counted segments are larger than their receiver accepts."""
    segments: int
    """How many there are so far."""

    def add(self, segments: KernelSegments, /) -> KeptSegments | None:
        """Take in the next segments; return direction, time and columns of those that Python has to keep."""

    def finish(self) -> tuple[dict[str, Array], dict[str, Array], dict[str, Array]]:
        """Return what was counted of each directed flow, the rest of each, and how each connection began."""

    def stamps(self, direction: int, /) -> tuple[Array, Array]:
        """Return the times and the timestamps of a directed flow's segments that have both."""

    def calm_stamps(self, direction: int, short_ns: int, /) -> tuple[int, int, int]:
        """Do for these what `Kernel.calm_stamps` does."""

    def stamp_disagreements(self, direction: int, /, **limits: float) -> Numbers:
        """Do for these what `Kernel.stamp_disagreements` does."""


Rest = tuple[tuple[int, int, int], tuple[bytes, list[int], list[int], list[int]] | None, list[bytes]]
"""Of a block: its segments (IPv4, IPv6) and datagrams of UDP; packets, one behind the other, with captured
and original lengths and times; and blocks of pcapng that are no packets."""


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

    def counts(self) -> RunningPass:
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
