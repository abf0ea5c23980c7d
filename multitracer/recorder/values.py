"""The newest values in what a collector wrote: a small function for each collector that the screen knows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Record = dict[str, Any]


@dataclass(slots=True)
class Newest:
    """What the newest records say."""

    words: str = ""
    numbers: dict[str, float] = field(default_factory=dict)
    """Label with unit -> value."""
    dropped: int | None = None
    """Packets, events or readings that were lost so far."""


def values_of(name: str, records: Sequence[Record]) -> Newest:
    """Return the newest values of a collector; nothing for one that is not known here."""
    found = _BY_COLLECTOR.get(name)
    return found(records) if found and records else Newest()


def _numbers(record: Record, **labels: str) -> dict[str, float]:
    """Return the numbers of a record by their labels; what is missing is left out."""
    pairs = ((label, record.get(key)) for key, label in labels.items())
    return {label: float(v) for label, v in pairs if isinstance(v, int | float) and not isinstance(v, bool)}


def _tcp_info(records: Sequence[Record]) -> Newest:
    newest = Newest()
    readings = [r for r in records if r.get("kind") == "reading" and isinstance(r.get("tcp_info"), dict)]
    if readings:
        busiest = max(readings, key=lambda r: _whole(r["tcp_info"].get("bytes_acked")))
        info = busiest["tcp_info"]
        newest.numbers = _numbers(info, snd_cwnd="cwnd, segments")
        newest.numbers |= {
            label: value / scale
            for label, value, scale in (
                ("RTT, ms", _whole(info.get("rtt")), 1e3),
                ("throughput, kbit/s", _whole(info.get("delivery_rate")), 125),
            )
            if value
        }
        newest.words = (
            f"{len({r.get('cookie') for r in readings})} sockets, busiest to {busiest.get('remote')}"
        )
    newest.dropped = _last(records, "missed")
    return newest


def _tcpdump(records: Sequence[Record]) -> Newest:
    newest = Newest(dropped=_last(records, "dropped_kernel"))
    captured = _last(records, "captured")
    if captured is not None:
        newest.words = f"{captured:,} packets"
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
    """Return the serving cell's newest values; an answer that told none gives none."""
    newest = Newest(dropped=_last(records, "missed"))
    for record in records:
        shown = record.get("shown")
        for told in shown if isinstance(shown, list) else ():
            if isinstance(told, dict) and told.get("role") != "neighbour":
                newest.numbers |= _numbers(told, **_RADIO)
                words = [str(told[key]) for key in ("rat", "operator", "state") if told.get(key)]
                newest.words = " ".join(words) or newest.words
        if record.get("kind") == "missed":
            newest.words = str(record.get("why", "nothing read"))
    return newest


def _gps(records: Sequence[Record]) -> Newest:
    newest = Newest()
    for record in records:
        told = record.get("shown")
        if isinstance(told, dict) and isinstance(told.get("lat_deg"), float):
            newest.words = f"{told['lat_deg']:.5f} {told.get('lon_deg', 0.0):.5f}"
            newest.numbers |= _numbers(told, speed_mps="speed, m/s")
    return newest


def _host_clock(records: Sequence[Record]) -> Newest:
    steps = [record for record in records if record.get("event") == "step"]
    return Newest(words=f"the clock was set by {steps[-1].get('step_ns', 0) / 1e9:+.3f} s" if steps else "")


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _last(records: Iterable[Record], key: str) -> int | None:
    found = [record[key] for record in records if isinstance(record.get(key), int)]
    return found[-1] if found else None


_BY_COLLECTOR: dict[str, Callable[[Sequence[Record]], Newest]] = {
    "tcp_info": _tcp_info,
    "tcp_probe": _tcp_probe,
    "tcpdump": _tcpdump,
    "sniffer": _tcpdump,
    "modem": _modem,
    "gps": _gps,
    "host_clock": _host_clock,
}
