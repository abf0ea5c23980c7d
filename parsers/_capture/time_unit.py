"""The unit of a capture's time stamps, where the file names a wrong one: as forced by the user, or guessed.

Programs write nanoseconds under the magic number of microseconds, or the reverse, and pcapng without the
resolution of its interface. A unit is guessed only if the one of the file gives impossible times, or if the
clocks of TCP timestamps run a thousand times too fast beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.captured import CaptureMark, SourceFile
from parsers._forced import FORCED

if TYPE_CHECKING:
    from parsers._packets.layers import PacketRecords

UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
"""Length of each unit, ns."""
PROBE_BYTES = 1 << 20
"""Bytes of a file that are read to guess a unit, if its first records leave a doubt."""
FEWEST_RECORDS = 20
"""Minimum number of records for a guess from the spread of their times."""
_TICK_RATES_HZ = (1, 2, 10, 100, 250, 300, 500, 1000)
"""Rates at which TCP timestamps tick (RFC 7323, 5.4); Linux can also make 1 MHz."""
_RATE_SHARE = 0.15
"""Maximum difference from such a rate; queues stretch it. Not measured."""
_FEWEST_TICKS = 10
_NAMES = {1_000_000_000: "s", 1_000_000: "ms", 1_000: "µs", 1: "ns"}


def forced_tick_ns() -> int | None:
    """Return the length of the unit that --time-unit forces, ns; None if none is forced."""
    return UNITS.get(str(FORCED[-1].get("time_unit"))) if FORCED else None


def note_guess(source: SourceFile, tick_ns: int, declared_ns: int) -> None:
    """Note in the facts of a file that its time stamps are read in another unit than it names."""
    unit, declared = _NAMES[tick_ns], _NAMES[declared_ns]
    why = "cannot be" if tick_ns < declared_ns else "would run a thousand times too fast"
    source.guessed_unit = (
        f"the time stamps are read in {unit}, although the file names {declared}, in which they {why}; "
        f"--time-unit {declared.replace('µ', 'u')} reads them in {declared}"
    )


def ticks_too_fast(records: PacketRecords, factor: int) -> bool:
    """Return whether TCP timestamps tick at a usual rate only if time runs `factor` times slower.

    This is so for most senders of the records, and at least one.
    """
    import numpy as np  # noqa: PLC0415  # few captures leave a doubt

    from multitracer.tables import NOT_A_TIME  # noqa: PLC0415
    from parsers._packets.decode import Decoder  # noqa: PLC0415

    decoder = Decoder()
    decoder.files.append(SourceFile("", ""))
    decoder.add(records, decoder.files[0])
    segments = decoder.finish().segments
    stamped = (segments["marks"] & CaptureMark.HAS_TIMESTAMPS != 0) & (segments["time_ns"] != NOT_A_TIME)
    votes = []
    for flow in np.unique(segments["flow"][stamped]).tolist():
        here = np.flatnonzero(stamped & (segments["flow"] == flow))
        ticks = int((segments["tsval"][here[-1:]] - segments["tsval"][here[:1]]).astype(np.uint32).sum())
        spent_ns = int(segments["time_ns"][here[-1]] - segments["time_ns"][here[0]])
        if _FEWEST_TICKS <= ticks < 1 << 31 and spent_ns > 0:
            rate_hz = ticks * 1e9 / spent_ns
            votes.append(not _is_typical(rate_hz) and _is_typical(rate_hz / factor))
    return bool(votes) and 2 * sum(votes) > len(votes)


def _is_typical(rate_hz: float) -> bool:
    return any(abs(rate_hz - typical) < _RATE_SHARE * typical for typical in _TICK_RATES_HZ)
