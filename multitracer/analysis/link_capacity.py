"""Capacity traces and error traces of a link, from a capture, from link logs or from radio readings.

`delivered_to`: the capacity that the TCP segments in a capture used (kind *derived*). A capture shows the
data that arrived, not the data that could have arrived. The trace has less capacity than the link whenever
the sender was idle, other users had the link, or protocols other than TCP used it.

`link_error_trace`: which frames of a recorded link failed, for a replay with any transport.

`capacity_by_map`: the capacity of a drive from readings of its radio and a given map (kind *modelled*). The
readings are recorded. The map from SINR to bit rate is a model, and so is the share of other users, unless
the modem reports it. Outages shorter than the time between two readings are missed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from multitracer.captured import CaptureMark, Flag
from multitracer.errors import FormatError, InputError
from multitracer.protocols.capacity_trace import OPPORTUNITY_BYTES, CapacityTrace
from multitracer.protocols.error_trace import ErrorTrace
from multitracer.schemas.radio import OUT_OF_SERVICE, SEARCHES
from multitracer.tables import NOT_A_TIME
from multitracer.units import BITS_PER_BYTE, NS_PER_MS, NS_PER_S
from multitracer.words import rate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.capture import CaptureTables
    from multitracer.tables import Array, Document, Numbers, Table, Times

_TUN_BYTES = 4
"""Mahimahi adds the 4 bytes of its TUN header to each packet."""
_TCP_BYTES = 20
"""Length of a TCP header without options (RFC 9293, section 3.1)."""
_TIMESTAMPS_BYTES, _SYN_OPTION_BYTES = 12, 20
"""Length of the options, in full 32-bit words: timestamps (RFC 7323), and in a SYN also MSS, SACK permitted and window
scale."""
_SACK_BYTES, _BLOCK_BYTES = 4, 8
"""Length of the SACK option with two NOPs before it, and of each of its blocks (RFC 2018, section 3)."""


@dataclass(frozen=True)
class DeliveredCapacity:
    """A capacity trace made from a capture, with its caveats."""

    trace: CapacityTrace
    segments: int
    """Number of TCP segments that the trace was made from."""
    longest_gap_s: float
    """Longest time between two of these segments, s: the link may have been idle or out of service then."""

    @property
    def sentence(self) -> str:
        """A text for users that describes the trace and its limitations."""
        trace = self.trace
        return (
            f"derived from {self.segments:,} TCP segments as the receiver saw them: {len(trace):,} "
            f"opportunities in {trace.lasts_ms / 1000:.1f} s ({rate(trace.mean_bits_per_s)}); "
            f"where the sender paused (at most {self.longest_gap_s:.2f} s) or others used the link, "
            "it could have carried more"
        )


def delivered_to(capture: CaptureTables, address: bytes, *, speed: float = 1.0) -> DeliveredCapacity:
    """Return the capacity that the TCP segments to one host used.

    Parameters
    ----------
    capture : CaptureTables
        A capture made at that host, or close to it.
    address : bytes
        Address of the host, 16 bytes as in FLOWS.
    speed : float
        Number of link seconds in a recorded second.

    Returns
    -------
    DeliveredCapacity
        A delivery opportunity each time 1504 more octets have arrived, in ms since the first segment.

    Raises
    ------
    InputError
        If fewer than 1504 octets arrived, or all within one millisecond.
    """
    segments, flows = capture.segments, capture.flows
    flow = segments["flow"]
    to = np.where(flow & 1, flows["address_a"][flow >> 1], flows["address_b"][flow >> 1])
    rows = np.flatnonzero((to == np.void(address)) & (segments["time_ns"] != NOT_A_TIME))
    version = flows["ip_version"][flow[rows] >> 1]
    return _delivered(segments["time_ns"][rows], _ip_bytes(segments, rows, version), speed)


def _delivered(time_ns: Times, ip_bytes: Numbers, speed: float) -> DeliveredCapacity:
    order = np.argsort(time_ns, kind="stable")
    link_ns = np.round((time_ns[order] - time_ns[order[:1]]) * speed).astype(np.int64)
    octets = np.cumsum(ip_bytes[order] + _TUN_BYTES)
    full = np.arange(OPPORTUNITY_BYTES, (octets[-1] if len(octets) else 0) + 1, OPPORTUNITY_BYTES)
    stamps_ms = link_ns[np.searchsorted(octets, full)] // NS_PER_MS
    if not len(stamps_ms) or stamps_ms[-1] == 0:
        raise InputError(
            "capacity: the receiver must have received at least 1504 octets, over more than 1 ms; "
            "give a longer recording"
        )
    gap_s = float(np.diff(link_ns).max(initial=0)) / NS_PER_S
    return DeliveredCapacity(CapacityTrace(stamps_ms), len(order), gap_s)


def _ip_bytes(segments: Table, rows: Array, version: Numbers) -> Numbers:
    """Return the lengths of the IP packets: payload, headers, and the options that the table records."""
    ip = np.where(version == 4, 20, 40)
    has_stamps = segments["marks"][rows] & CaptureMark.HAS_TIMESTAMPS.value != 0
    is_syn = segments["flags"][rows] & Flag.SYN.value != 0
    blocks = segments["sack_blocks"][rows].astype(np.int64)
    options = np.where(is_syn, _SYN_OPTION_BYTES, _TIMESTAMPS_BYTES * has_stamps)
    options += np.where(blocks > 0, _SACK_BYTES + _BLOCK_BYTES * blocks, 0)
    return segments["payload_bytes"][rows].astype(np.int64) + ip + _TCP_BYTES + options


_DIRECTION_OF = {"fixed": "up", "mobile": "down"}
"""The direction of the frames in the log of each side: a log records the frames that its side received."""


def link_error_trace(frames: Mapping[str, Table]) -> ErrorTrace:
    """Return the slots in which each side failed to decode a frame.

    Parameters
    ----------
    frames : mapping of str to Table
        `link_frames` of the sides "mobile" and "fixed". A side may be missing; its receive direction then has
        no errors in the trace.

    Raises
    ------
    InputError
        If both logs are missing, if they disagree on the slot time, or if a log has no slot numbers.
    """
    if not frames.keys() & _DIRECTION_OF.keys():
        raise InputError(
            "error trace: the session has no link log of the mobile or the fixed side; record a link log (rlp.pcapng)"
        )
    failed: dict[str, list[int]] = {"up": [], "down": []}
    for side, direction in _DIRECTION_OF.items():
        if side in frames:
            failed[direction] = _failed_slots(frames[side])
    last = max(int(table["tick"].max(initial=0)) for table in frames.values())
    return ErrorTrace.from_slots(slot_ns=_slot_ns(frames), slots=last + 1, up=failed["up"], down=failed["down"])


def _failed_slots(table: Table) -> list[int]:
    lost = ~table["sent"] & ~table["fcs_ok"]
    slots = np.unique(table["tick"][lost])
    if len(slots) and slots[0] < 0:
        raise InputError(
            f"{table.provenance.get('path')}: the frames of this log have no slot numbers; record a "
            "log with slot numbers"
        )
    return [int(slot) for slot in slots]


def _slot_ns(frames: Mapping[str, Table]) -> int:
    stated = sorted({str(table.provenance.get("header", {}).get("slot_ns")) for table in frames.values()})
    if len(stated) > 1 or not stated[0].isdigit():
        raise InputError(
            f"error trace: both logs must have the same slot time, but their slot times are {' and '.join(stated)} ns"
        )
    return int(stated[0])


_LONGEST_HOLD_NS = 5 * NS_PER_S
"""Maximum time for which a reading is valid before the next one; modems are polled each second (our choice)."""
_NO_SERVICE = (*SEARCHES, OUT_OF_SERVICE, "LIMSRV")
"""Modem states without a serving cell (Quectel's AT+QENG)."""
_MOST_BITS_PER_S = 1e10
"""Maximum plausible rate of a map, bit/s; a higher rate would also make the trace too long (our choice)."""


@dataclass(frozen=True)
class SinrMap:
    """A map from SINR to the bit rate of a link.

    Attributes
    ----------
    bandwidth_hz : float
    no_service_dbm : float
        Below this RSRP the rate is 0.
    classes : tuple of (float, float)
        Pairs of minimum SINR (dB) and spectral efficiency (bit/s/Hz), in descending order.
    """

    bandwidth_hz: float
    no_service_dbm: float
    classes: tuple[tuple[float, float], ...]

    def bits_per_s(self, sinr_db: float, rsrp_dbm: float, busy_percent: float) -> float:
        """Return the rate of the link in bit/s; if the RSRP is unknown (NaN), it is not checked.

        `busy_percent` is the share of the cell that other users take.
        """
        if rsrp_dbm < self.no_service_dbm:
            return 0.0
        efficiency = next((bits for minimum, bits in self.classes if sinr_db >= minimum), 0.0)
        return self.bandwidth_hz * efficiency * (1 - busy_percent / 100)


def parse_map(text: str, *, path: str) -> SinrMap:
    """Return the map from SINR to bit rate that a JSON text contains.

    The map is the JSON object itself, or its member `map` (as in the file with the truth of a simulated drive).

    Parameters
    ----------
    text : str
        {"bandwidth_hz": …, "no_service_dbm": …, "classes": [{"least_sinr_db": …, "bits_per_s_per_hz": …}]}.
    path : str
        Name of the file, for messages.

    Raises
    ------
    FormatError
        If `text` is not JSON, a key is missing, or a number is out of range.
    """
    try:
        document = json.loads(text)
        stated = document.get("map", document)
        classes = [(_number(each, "least_sinr_db"), _number(each, "bits_per_s_per_hz")) for each in stated["classes"]]
        stated_map = SinrMap(
            _number(stated, "bandwidth_hz"), _number(stated, "no_service_dbm"), tuple(sorted(classes, reverse=True))
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(
            path,
            'the file is not a map from SINR to bit/s; it must have the keys "bandwidth_hz", '
            '"no_service_dbm" and "classes", and each class "least_sinr_db" and '
            '"bits_per_s_per_hz"',
        ) from error
    rates = [bits * stated_map.bandwidth_hz for _, bits in stated_map.classes]
    if not rates or min(rates) < 0 or not 0 < max(rates) <= _MOST_BITS_PER_S:
        raise FormatError(path, f"the highest rate of the map must be above 0 and at most {_MOST_BITS_PER_S:.0e} bit/s")
    return stated_map


def _number(document: Document, key: str) -> float:
    value = document[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise TypeError(key)
    return float(value)


@dataclass(frozen=True)
class Mapped:
    """A capacity trace made from radio readings by a map, with its caveats."""

    trace: CapacityTrace
    readings: int
    unknown_s: float
    """Total time without a reading, s: the trace has no capacity then."""
    has_load: bool
    """Whether the modem reported the load of the cell."""

    @property
    def sentence(self) -> str:
        """A text for users that describes the trace and its limitations."""
        load = "" if self.has_load else "; how busy the cell was is not recorded, and taken as the option says"
        return (
            f"modelled by a stated map from {self.readings:,} recorded readings of SINR: {len(self.trace):,} "
            f"opportunities in {self.trace.lasts_ms / 1000:.1f} s "
            f"({rate(self.trace.mean_bits_per_s)}), {self.unknown_s:.1f} s without a reading{load}"
        )


def capacity_by_map(radio: Table, by: SinrMap, *, busy_percent: float = 0.0) -> Mapped:
    """Return the capacity that the map `by` gives for the readings of the serving cell.

    Parameters
    ----------
    radio : Table
        RADIO of one modem.
    by : SinrMap
    busy_percent : float
        Share of the cell that other users take, in percent; used where the modem does not report the load.

    Returns
    -------
    Mapped
        A delivery opportunity each time 1504 more octets fit, in ms since the first reading.

    Raises
    ------
    InputError
        If no reading has an SINR, or the capacity is 0 all the time.
    """
    sinr, is_out = radio["sinr_db"], np.isin(radio["state"], _NO_SERVICE)
    of_cell = (radio["role"] == "serving") & (np.isfinite(sinr) | is_out)
    order = np.flatnonzero(of_cell)[np.argsort(radio["time_ns"][of_cell], kind="stable")]
    if not np.isfinite(sinr[order]).any():
        raise InputError("capacity by map: no reading of the serving cell contains an SINR; choose another drive")
    time_ns, loads = radio["time_ns"][order], radio["cell_busy_pct"]
    known = np.flatnonzero(np.isfinite(loads))
    rates = np.array(
        [
            0.0 if is_out[row] else by.bits_per_s(sinr[row], radio["rsrp_dbm"][row], busy)
            for row, busy in zip(order, _loads(radio, known, time_ns, busy_percent), strict=True)
        ]
    )
    held_ns = np.minimum(np.diff(time_ns, append=time_ns[-1]), _LONGEST_HOLD_NS)
    unknown_s = float((time_ns[-1] - time_ns[0] - held_ns.sum()) / NS_PER_S)
    return Mapped(_trace(time_ns - time_ns[0], held_ns, rates), len(order), unknown_s, bool(len(known)))


def _loads(radio: Table, known: Numbers, time_ns: Times, otherwise: float) -> Numbers:
    """Return the latest load that the modem reported before each time, in percent.

    Before the first report it is `otherwise`.
    """
    if not len(known):
        return np.full(len(time_ns), otherwise)
    place = np.searchsorted(radio["time_ns"][known], time_ns, side="right") - 1
    return np.where(place >= 0, radio["cell_busy_pct"][known][place], otherwise)


def _trace(begin_ns: Times, held_ns: Times, rates: Numbers) -> CapacityTrace:
    """Return the capacity trace of a link that has `rates`[i] bit/s from `begin_ns`[i] for `held_ns`[i]."""
    ends = np.stack([begin_ns, begin_ns + held_ns], axis=1).ravel()
    bits = np.cumsum(np.stack([np.zeros(len(rates)), rates * held_ns / NS_PER_S], axis=1).ravel())
    size = OPPORTUNITY_BYTES * BITS_PER_BYTE
    full = np.arange(1, int(bits[-1] // size) + 1) * size
    at = np.searchsorted(bits, full)  # bits[at - 1] < full <= bits[at]: the rate is above 0 there
    share = (full - bits[at - 1]) / (bits[at] - bits[at - 1])
    stamps_ms = (ends[at - 1] + share * (ends[at] - ends[at - 1])) // NS_PER_MS
    if not len(stamps_ms) or stamps_ms[-1] < 1:
        raise InputError("capacity by map: this map gives a capacity of 0 bit/s at all times; choose another map")
    return CapacityTrace(stamps_ms.astype(np.int64))
