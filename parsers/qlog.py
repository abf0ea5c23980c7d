"""qlog: what a program that speaks QUIC logged of its own packets and of its sender's state.

JSON and JSON text sequences, drafts 00 to 02, versions 0.3 and 0.4 and the schemas named by URN; names as aioquic,
quic-go, quiche, mvfst, ngtcp2, neqo, picoquic and quinn write them. Events are read one by one, so a file may be larger
than memory. A file that ends in the middle gives what precedes its end.

Source: draft-ietf-quic-qlog-main-schema and draft-ietf-quic-qlog-quic-events (00 to 12).
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from multitracer.errors import FormatError
from multitracer.schemas.quic import QLOG_PACKETS, QLOG_TRACES, QUIC_FRAMES, QUIC_STATE
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_MS, NS_PER_S
from parsers._format import Format, Match
from parsers._text.times import EARLIEST_NS, LATEST_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from multitracer.tables import Array, Document


MOST_EVENTS = 50_000_000
_CHUNK = 1 << 20
_MOST_TEXT = 1 << 24
"""Characters of one event, or of all that is outside events. An event has some hundred."""
_MOST_TRACES = 4096
_MOST_NUMBER = 1 << 62
_EPOCH_MS = 1e11
"""Times from this one on are since 1970, in ms: it is in 1973."""
_SNIFFED = re.compile(rb'"(?:qlog_version|qlog_format|file_schema)"\s*:\s*"')
_EVENTS = re.compile(r'"events"\s*:\s*\[')
_SPACES = {
    "initial": "initial", "handshake": "handshake", "0rtt": "0-rtt", "1rtt": "1-rtt", "zerortt": "0-rtt",
    "onertt": "1-rtt", "retry": "retry", "version_negotiation": "version-negotiation",
}  # fmt: skip
_NOT_ELICITING = {"ack", "padding", "connection_close"}
_STATE = {
    "cwnd_bytes": ("cwnd", "congestion_window"), "ssthresh_bytes": ("ssthresh",), "flight_bytes": ("bytes_in_flight",),
    "pto_count": ("pto_count",), "pacing_rate_bps": ("pacing_rate",),
}  # fmt: skip
_TIMES = {
    "srtt_ns": "smoothed_rtt", "latest_rtt_ns": "latest_rtt", "min_rtt_ns": "min_rtt", "rttvar_ns": "rtt_variance",
}  # fmt: skip
_NUMBERED = {
    "max_data": (0x10, "maximum", ""), "max_stream_data": (0x11, "maximum", "stream_id"),
    "data_blocked": (0x14, "limit", ""), "stream_data_blocked": (0x15, "limit", "stream_id"),
}  # fmt: skip
_STATE_NAMES = (*_STATE, *_TIMES)


@dataclass(slots=True)
class _Trace:
    """One trace while it is read: times are as the file has them."""

    facts: Document = field(default_factory=dict)
    cids: dict[str, None] = field(default_factory=dict)
    packets: list[tuple[float, bool, str, int, int, bool]] = field(default_factory=list)
    frames: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    state: list[tuple[object, ...]] = field(default_factory=list)
    parameters: dict[bool, dict[str, int]] = field(default_factory=dict)
    """Transport parameters: True of the program itself, False of its peer."""
    last: float = 0.0
    unusable: int = 0


def sniff(head: bytes) -> Match:
    """Return "yes" for JSON that names a version or schema of qlog at its begin."""
    begin = head.lstrip(b"\xef\xbb\xbf \t\r\n\x1e")
    if not begin.startswith(b"{"):
        return "no"
    collected = _SNIFFED.search(begin)
    is_named = collected is not None and (b"qlog" in begin[collected.start() : collected.start() + 200])
    return "yes" if is_named else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return the tables `qlog_traces`, `qlog_packets`, `quic_frames`, `qlog_parameters` and `quic_state`.

    Raises
    ------
    FormatError
        If the file holds no trace of qlog.
    """
    log = _Log()
    log.read(stream)
    if not log.traces:
        raise FormatError(path, "the file names qlog, but no event of it can be read")
    return log.tables(path)


class _Text:
    """The text of a stream, piece by piece."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._tail = b""
        self.is_done = False

    def more(self) -> str:
        """Return the next piece; "" at the end. Bytes that are no UTF-8 become U+FFFD."""
        chunk = self._stream.read(_CHUNK)
        self.is_done = not chunk
        data = self._tail + chunk
        cut = len(data)
        if chunk:  # do not divide a character
            while cut and len(data) - cut < 4 and data[cut - 1] & 0xC0 == 0x80:
                cut -= 1
            cut -= bool(cut and data[cut - 1] >= 0xC0)
        self._tail = data[cut:]
        return data[:cut].decode("utf-8", "replace")


class _Log:
    """Reads the events of a file, whatever its layout."""

    def __init__(self) -> None:
        self.traces: list[_Trace] = []
        self.header: Document = {}
        self.damage = ""
        self._events = 0

    def read(self, stream: BinaryIO) -> None:
        """Read a stream as far as it can be read."""
        text = _Text(stream)
        first = text.more()
        if first.lstrip("\ufeff \t\r\n").startswith("\x1e") or _is_lines(first):
            self._read_sequence(text, first)
        else:
            self._read_contained(text, first)

    # --- a record for each event ---

    def _read_sequence(self, text: _Text, buffer: str) -> None:
        trace = _Trace()
        is_header = True
        for line in _records(text, buffer):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                trace.unusable += 1
                continue
            if not isinstance(record, dict):
                trace.unusable += 1
            elif is_header:
                self.header, is_header = record, False
                trace.facts = record["trace"] if isinstance(record.get("trace"), dict) else {}
                self.traces.append(trace)
            else:
                self._take(trace, record)
        if trace.unusable:
            self.damage = f"{trace.unusable:,} records are no JSON"

    # --- one JSON value ---

    def _read_contained(self, text: _Text, buffer: str) -> None:
        outside: list[str] = []
        size = 0
        while True:
            match = _EVENTS.search(buffer)
            if match is None:
                keep = 0 if text.is_done else min(len(buffer), 64)
                outside.append(buffer[: len(buffer) - keep])
                size += len(outside[-1])
                buffer = buffer[len(buffer) - keep :]
                if text.is_done or size > _MOST_TEXT:
                    break
                buffer += text.more()
                continue
            outside.append(buffer[: match.end()])
            size += match.end()
            if len(self.traces) >= _MOST_TRACES:
                self.damage = f"only the first {_MOST_TRACES:,} traces are read"
                break
            self.traces.append(_Trace())
            rest = self._events_of(self.traces[-1], text, buffer[match.end() :], "".join(outside))
            if rest is None:
                self.damage = "the file ends, or is damaged, within its events"
                break
            buffer = rest
        self._facts("".join(outside))

    def _events_of(self, trace: _Trace, text: _Text, buffer: str, before: str) -> str | None:
        """Read the events of an array; return what follows it, None if it never ends."""
        decode, at = json.JSONDecoder().raw_decode, 0
        names = re.search(r'"event_fields"\s*:\s*(\[[^\]]*\])', before)
        fields = _names(names[1]) if names else None
        space = re.compile(r"[\s,]*")
        while True:
            at = space.match(buffer, at).end()  # type: ignore[union-attr]  # it matches nothing, too
            if at < len(buffer) and buffer[at] == "]":
                return buffer[at:]
            try:
                event, at = decode(buffer, at) if at < len(buffer) else (None, at)
            except (ValueError, RecursionError):
                event = None
            if event is None:
                if text.is_done or len(buffer) - at > _MOST_TEXT:
                    return None
                buffer, at = buffer[at:] + text.more(), 0
                continue
            self._take(trace, dict(zip(fields, event, strict=False)) if isinstance(event, list) and fields else event)

    def _facts(self, outside: str) -> None:
        """Read what is outside the events: the header, and the facts of each trace."""
        for end in ("", "]}]}", "]}}"):
            try:
                document = json.loads(outside + end)
            except (ValueError, RecursionError):
                continue
            self.header = document if isinstance(document, dict) else {}
            break
        known = self.header.get("traces", [self.header.get("trace")])
        for trace, facts in zip(self.traces, known if isinstance(known, list) else [], strict=False):
            trace.facts = facts if isinstance(facts, dict) else {}

    # --- events ---

    def _take(self, trace: _Trace, event: object) -> None:
        if not isinstance(event, dict):
            trace.unusable += 1
            return
        name = str(event.get("name") or event.get("event") or event.get("event_type") or "")
        taker = _TAKERS.get(name.rpartition(":")[2])
        when = event.get("time", event.get("relative_time", event.get("delta_time")))
        try:
            time = float(str(when))
        except ValueError:
            time = math.nan
        if not math.isfinite(time) or self._events >= MOST_EVENTS:
            trace.unusable += 1
            return
        self._events += 1
        if self._is_delta(trace):
            time = trace.last + time
        trace.last = time
        data = event.get("data")
        if taker is not None and isinstance(data, dict):
            taker(trace, time, data)

    def _is_delta(self, trace: _Trace) -> bool:
        common = trace.facts.get("common_fields")
        stated = common.get("time_format") if isinstance(common, dict) else None
        return stated in ("delta", "relative_to_previous_event")

    def tables(self, path: str) -> dict[str, Table]:
        """Return all tables of the file."""
        packets: list[tuple[object, ...]] = []
        frames: list[tuple[int, ...]] = []
        state: list[tuple[object, ...]] = []
        traces: list[tuple[object, ...]] = []
        facts = {}
        for number, trace in enumerate(self.traces):
            to_ns, is_known = _clock(trace)
            lost = {(each[1], each[2]): to_ns(each[0]) for each in _losses(trace)}
            before = len(packets)
            for time, sent, space, packet, size, eliciting in trace.packets:
                lost_ns = lost.get((space, packet), NOT_A_TIME) if sent else NOT_A_TIME
                packets.append((to_ns(time), number, sent, space, packet, size, lost_ns, eliciting))
            frames += [(before + row, *rest) for row, *rest in trace.frames]
            state += [(to_ns(float(str(each[0]))), number, *each[1:]) for each in trace.state]
            traces.append((number, _vantage(trace), _program(self.header, trace), _odcid(trace),
                           " ".join(trace.cids)[:255], _dialect(self.header, trace), is_known,
                           self.damage))  # fmt: skip
            facts[str(number)] = {"own": trace.parameters.get(True, {}), "peer": trace.parameters.get(False, {})}
        provenance = {"source": path, "format": FORMAT.name, "parameters": facts}
        return {
            "qlog_traces": Table(QLOG_TRACES, _columns(QLOG_TRACES.names, traces), provenance),
            "qlog_packets": Table(QLOG_PACKETS, _columns(QLOG_PACKETS.names, packets), provenance),
            "quic_frames": Table(QUIC_FRAMES, _columns(QUIC_FRAMES.names, frames), provenance),
            "quic_state": Table(QUIC_STATE, _columns(QUIC_STATE.names, state), provenance),
        }


def _columns(names: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> dict[str, Array]:
    values = list(zip(*rows, strict=True)) or [()] * len(names)
    made = {}
    for name, column in zip(names, values, strict=True):
        kind = _KINDS.get(name, np.int64)
        is_text = isinstance(kind, str)  # JSON may hold halves of surrogate pairs
        cells = [str(each).encode("utf-8", "backslashreplace").decode() for each in column] if is_text else column
        made[name] = np.array(cells, kind)
    return made


_KINDS: Document = {
    "trace": np.int32, "connection": np.int32, "sent": bool, "ack_eliciting": bool, "space": "U19", "vantage": "U8",
    "program": "U64", "odcid": "U40", "cids": "U255", "dialect": "U80", "clock_known": bool, "event": "U32",
    "frame_type": np.int16, "damage": "U128",
}  # fmt: skip


def _is_lines(begin: str) -> bool:
    """Return whether a text has a JSON value on its first line, and another one on the second."""
    first, _, rest = begin.lstrip("\ufeff \t\r\n").partition("\n")
    try:
        return isinstance(json.loads(first), dict) and rest.lstrip().startswith("{")
    except (ValueError, RecursionError):
        return False


def _records(text: _Text, buffer: str) -> Iterator[str]:
    while True:
        lines = re.split("[\x1e\n]", buffer)
        buffer = lines.pop()
        yield from (line for line in lines if line.strip())
        part = text.more()
        if text.is_done:
            if (buffer + part).strip():
                yield buffer + part
            return
        buffer = (buffer if len(buffer) < _MOST_TEXT else "") + part


def _names(text: str) -> list[str] | None:
    """Return the names of a JSON array; None if the text is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return list(map(str, value)) if isinstance(value, list) else None


def _object(value: object) -> Document:
    """Return a JSON object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def _number(value: object) -> int:
    """Return a natural number, also one that is written as a text; NA if it is none."""
    try:
        number = int(float(value)) if isinstance(value, (int, float, str)) else NA
    except (ValueError, OverflowError):
        return NA
    return number if 0 <= number < _MOST_NUMBER else NA


def _ms(value: object) -> int:
    """Return a duration in ms as ns."""
    try:
        ms = float(value) if isinstance(value, (int, float, str)) else math.nan
    except (ValueError, OverflowError):
        ms = math.nan
    return round(ms * NS_PER_MS) if math.isfinite(ms) and 0 <= ms < 1e9 else NOT_A_TIME


def _take_packet(trace: _Trace, time: float, data: Document, *, sent: bool) -> None:
    header = data.get("header")
    header = header if isinstance(header, dict) else {}
    kind = str(header.get("packet_type", data.get("packet_type", ""))).lower().replace("-", "")
    for name in ("scid", "dcid"):
        cid = header.get(name)
        if isinstance(cid, str) and re.fullmatch("[0-9a-f]{2,40}", cid) and len(trace.cids) < 8:
            trace.cids[cid] = None
    raw = _object(data.get("raw"))
    size = _number(raw.get("length", header.get("packet_size", data.get("packet_size"))))
    frames = data.get("frames")
    row, eliciting = len(trace.packets), False
    for frame in frames if isinstance(frames, list) else ():
        if isinstance(frame, dict):
            name = str(frame.get("frame_type", ""))
            eliciting = eliciting or name not in _NOT_ELICITING
            _take_frame(trace, row, name, frame)
    number = _number(header.get("packet_number", data.get("packet_number")))
    trace.packets.append((time, sent, _SPACES.get(kind, kind[:19]), number, size, eliciting))


def _take_frame(trace: _Trace, row: int, name: str, frame: Document) -> None:
    if name == "stream":
        raw = _object(frame.get("raw"))
        length = _number(frame.get("length", raw.get("payload_length", raw.get("length"))))
        offset = _number(frame.get("offset", 0))
        trace.frames.append((row, 8, _number(frame.get("stream_id")), offset, length))
    elif name == "ack":
        delay = _ms(frame.get("ack_delay"))
        ranges = frame.get("acked_ranges")
        pairs = [each for each in ranges if isinstance(each, list) and each] if isinstance(ranges, list) else []
        numbers = sorted(((_number(each[0]), _number(each[-1])) for each in pairs), reverse=True)
        for low, high in numbers:
            if 0 <= low <= high:
                trace.frames.append((row, 2, low, high, NA if delay == NOT_A_TIME else delay))
                delay = NOT_A_TIME
    elif name in _NUMBERED:
        kind, key, stream = _NUMBERED[name]
        value = _number(frame.get(key))
        trace.frames.append((row, kind, _number(frame.get(stream)) if stream else value, value, NA))


def _sent(trace: _Trace, time: float, data: Document) -> None:
    _take_packet(trace, time, data, sent=True)


def _received(trace: _Trace, time: float, data: Document) -> None:
    _take_packet(trace, time, data, sent=False)


def _metrics(trace: _Trace, time: float, data: Document) -> None:
    values = [next((_number(data[key]) for key in keys if key in data), NA) for keys in _STATE.values()]
    times = [_ms(data.get(key)) for key in _TIMES.values()]
    trace.state.append(_state_row(time, values, times, "metrics", NA))


def _state_row(time: float, values: list[int], times: list[int], event: str, number: int) -> tuple[object, ...]:
    cwnd, ssthresh, flight, pto, pacing = values
    return (time, cwnd, ssthresh, flight, *times, pto, pacing, event, number)


_NO_VALUES, _NO_TIMES = [NA] * len(_STATE), [NOT_A_TIME] * len(_TIMES)


def _lost(trace: _Trace, time: float, data: Document) -> None:
    header = _object(data.get("header")) or data
    number = _number(header.get("packet_number"))
    kind = str(header.get("packet_type", header.get("type", "1rtt"))).lower().replace("-", "")
    if _SPACES.get(kind) == "1-rtt":
        trace.state.append(_state_row(time, _NO_VALUES, _NO_TIMES, "packet_lost", number))


def _losses(trace: _Trace) -> Iterator[tuple[float, str, int]]:
    for row in trace.state:
        if row[-2] == "packet_lost":
            yield float(str(row[0])), "1-rtt", int(str(row[-1]))


def _congestion(trace: _Trace, time: float, data: Document) -> None:
    trace.state.append(_state_row(time, _NO_VALUES, _NO_TIMES, str(data.get("new", ""))[:32], NA))


def _parameters(trace: _Trace, time: float, data: Document) -> None:
    del time
    owner = data.get("initiator", data.get("owner"))
    if owner in ("local", "remote"):
        kept = trace.parameters.setdefault(owner == "local", {})
        kept |= {
            name: number
            for name, value in data.items()
            if name.startswith("initial_max_") and (number := _number(value)) != NA
        }


_TAKERS: dict[str, Callable[[_Trace, float, Document], None]] = {
    "packet_sent": _sent,
    "packet_received": _received,
    "metrics_updated": _metrics,
    "recovery_metrics_updated": _metrics,
    "packet_lost": _lost,
    "congestion_state_updated": _congestion,
    "parameters_set": _parameters,
    "transport_parameters_set": _parameters,
}


# --- facts ---


def _clock(trace: _Trace) -> tuple[Callable[[float], int], bool]:
    """Return what turns times of a trace into ns, and whether they then are since 1970."""
    settings = trace.facts.get("configuration")
    is_us = isinstance(settings, dict) and settings.get("time_units") == "us"
    per_unit = 1e3 if is_us else 1e6
    first = trace.packets[0][0] if trace.packets else trace.last
    if first * per_unit / 1e6 > _EPOCH_MS:
        return lambda time: _ns(0, time * 1000, 1 if is_us else 1000), True
    base = _base_ns(trace)
    return lambda time: _ns(base or 0, time * per_unit), base is not None


def _ns(base_ns: int, since: float, unit_ns: int = 1) -> int:
    """Return a time in ns; NOT_A_TIME if it is none that a log can have."""
    if not math.isfinite(since):
        return NOT_A_TIME
    time_ns = base_ns + round(since) * unit_ns
    return time_ns if EARLIEST_NS <= time_ns <= LATEST_NS else NOT_A_TIME


def _base_ns(trace: _Trace) -> int | None:
    """Return the reference time of a trace in ns since 1970; None if it states none."""
    common = trace.facts.get("common_fields")
    stated = common.get("reference_time") if isinstance(common, dict) else None
    if isinstance(stated, dict):
        stated = stated.get("wall_clock_time") or stated.get("epoch")
    if isinstance(stated, str):
        try:
            moment = datetime.fromisoformat(stated)
        except ValueError:
            try:
                stated = float(stated)
            except ValueError:
                return None
        else:
            return round(moment.timestamp() * NS_PER_S) if moment.tzinfo is not None else None
    if not isinstance(stated, (int, float)) or not _EPOCH_MS < stated < 1e14:
        return None
    return round(stated * 1000) * 1000


def _vantage(trace: _Trace) -> str:
    point = trace.facts.get("vantage_point")
    stated = point.get("type", "") if isinstance(point, dict) else point
    return stated if isinstance(stated, str) and stated in ("client", "server", "network") else ""


def _program(header: Document, trace: _Trace) -> str:
    point = trace.facts.get("vantage_point")
    stated = point.get("name") if isinstance(point, dict) else None
    return str(stated or header.get("title") or "")[:64]


def _odcid(trace: _Trace) -> str:
    common = trace.facts.get("common_fields")
    common = common if isinstance(common, dict) else {}
    stated = common.get("ODCID") or common.get("odcid") or common.get("group_id") or ""
    return stated if isinstance(stated, str) and re.fullmatch("[0-9a-f]{2,40}", stated) else ""


def _dialect(header: Document, trace: _Trace) -> str:
    schemas = trace.facts.get("event_schemas")
    named = schemas[0] if isinstance(schemas, list) and schemas else ""
    return str(header.get("qlog_version") or header.get("file_schema") or named)[:80]


FORMAT = Format(
    name="qlog",
    layer="quic",
    description="packets and congestion state that a QUIC program logged (qlog, JSON and JSON-SEQ)",
    source="draft-ietf-quic-qlog-main-schema, draft-ietf-quic-qlog-quic-events",
    sniff=sniff,
    parse=parse,
)
