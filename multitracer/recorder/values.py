"""The newest values in a collector's log: a small function for each collector that the screen shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Record = dict[str, Any]


@dataclass(slots=True)
class Newest:
    """The newest values, as the newest records state them."""

    words: str = ""
    numbers: dict[str, float] = field(default_factory=dict)
    """Label with unit -> value."""
    dropped: int | None = None
    """Packets, events or readings that were lost so far."""
    gap: str | None = None
    """Why the source gives no values now; empty if it gives some, None if nothing tells."""
    alert: str = ""
    """What the engineer should know of at once."""
    packets: int | None = None
    """How many were recorded so far, where no record of the log is one of them."""


def values_of(name: str, records: Sequence[Record]) -> Newest:
    """Return the newest values of a collector; empty for one that has no function here."""
    reader = _BY_COLLECTOR.get(name)
    return reader(records) if reader and records else Newest()


def _numbers(record: Record, **labels: str) -> dict[str, float]:
    """Return the numbers of a record by their labels; what is missing is left out."""
    pairs = ((label, record.get(key)) for key, label in labels.items())
    return {label: float(v) for label, v in pairs if isinstance(v, int | float) and not isinstance(v, bool)}


def _tcp_info(records: Sequence[Record]) -> Newest:
    newest = Newest(dropped=_last(records, "missed"))
    sockets: dict[object, list[Record]] = {}
    for record in records:
        if record.get("kind") == "reading" and isinstance(record.get("tcp_info"), dict):
            sockets.setdefault(record.get("cookie"), []).append(record)
    if not sockets:
        return newest
    busiest = max(sockets.values(), key=lambda readings: (_moved_bytes(readings), _carried(readings[-1])))
    info = busiest[-1]["tcp_info"]
    newest.words = f"{len(sockets)} sockets, busiest to {busiest[-1].get('remote')}"
    newest.numbers = _numbers(info, snd_cwnd="cwnd, segments")
    if rtt_us := _whole(info.get("rtt")):
        newest.numbers["RTT, ms"] = rtt_us / 1e3
    span_ns = _whole(busiest[-1].get("read_before_ns")) - _whole(busiest[0].get("read_before_ns"))
    if span_ns > 0:
        newest.numbers["throughput, kbit/s"] = _moved_bytes(busiest) * 8e6 / span_ns
    return newest


def _moved_bytes(readings: Sequence[Record]) -> int:
    """Return how many bytes a socket carried between its first and its last reading."""
    return _carried(readings[-1]) - _carried(readings[0])


def _carried(reading: Record) -> int:
    info = reading["tcp_info"]
    return _whole(info.get("bytes_acked")) + _whole(info.get("bytes_received"))


def _tcpdump(records: Sequence[Record]) -> Newest:
    newest = Newest(dropped=_last(records, "dropped_kernel"), packets=_last(records, "captured"))
    if newest.packets is not None:
        newest.words = f"{newest.packets:,} packets"
    return newest


def _tcp_probe(records: Sequence[Record]) -> Newest:
    return Newest(dropped=_last(records, "lost"))


_RADIO = {
    "rssi_dbm": "RSSI, dBm",
    "rsrp_dbm": "RSRP, dBm",
    "rsrq_db": "RSRQ, dB",
    "sinr_db": "SINR, dB",
    "bler_pct": "BLER, %",
    "cell_busy_pct": "cell busy, %",
}


def _modem(records: Sequence[Record]) -> Newest:
    """Return the serving cell's newest values; empty if an answer held none."""
    newest = Newest(dropped=_last(records, "missed"), gap=_gap(records))
    for record in records:
        shown = record.get("shown")
        for reading in shown if isinstance(shown, list) else ():
            if isinstance(reading, dict) and reading.get("role") != "neighbour":
                newest.numbers |= _numbers(reading, **_RADIO)
                words = [str(reading[key]) for key in ("rat", "operator", "state") if reading.get(key)]
                newest.words = " ".join(words) or newest.words
    return newest


def _gps(records: Sequence[Record]) -> Newest:
    newest = Newest(dropped=_last(records, "missed"), gap=_gap(records))
    for record in records:
        fix = record.get("shown")
        if not isinstance(fix, dict):
            continue
        newest.words = "no fix"
        if isinstance(fix.get("lat_deg"), float):
            newest.words = f"{fix['lat_deg']:.5f} {fix.get('lon_deg', 0.0):.5f}"
            newest.numbers |= _numbers(fix, speed_mps="speed, m/s")
    return newest


def _gap(records: Sequence[Record]) -> str | None:
    """Return why the last round had no answer; empty if it had one, None if there was no round."""
    gap = None
    for record in records:
        if record.get("kind") == "missed":
            gap = str(record.get("why") or "nothing read")
        elif record.get("shown"):
            gap = ""
    return gap


def _host_clock(records: Sequence[Record]) -> Newest:
    newest = Newest()
    for record in records:
        if "synchronized" in record:
            error_s = _whole(record.get("max_error_ns")) / 1e9
            newest.words = f"synchronised, ±{error_s:.3f} s" if record["synchronized"] else "not synchronised"
        if record.get("event") == "step":
            newest.alert = f"the clock was set by {_whole(record.get('step_ns')) / 1e9:+.3f} s"
    return newest


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _last(records: Iterable[Record], key: str) -> int | None:
    values = [record[key] for record in records if isinstance(record.get(key), int)]
    return values[-1] if values else None


_BY_COLLECTOR: dict[str, Callable[[Sequence[Record]], Newest]] = {
    "tcp_info": _tcp_info,
    "tcp_probe": _tcp_probe,
    "tcpdump": _tcpdump,
    "sniffer": _tcpdump,
    "modem": _modem,
    "gps": _gps,
    "host_clock": _host_clock,
}
