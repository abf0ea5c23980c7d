"""What paper_figures.md says of each figure, measured in the sessions of sample_traces."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from multitracer.analysis.group import SegmentKind
from multitracer.analysis.series.throughput import trendline
from multitracer.lab.scenario.library import bundled_names, load_scenario
from multitracer.lab.simulator.run import VirtualRun
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.lab.scenario.summary import Summary
    from multitracer.recording.hosts import LinkSide
    from multitracer.tables import Array

SAMPLES = Path(__file__).parents[3] / "sample_traces"
MSS_BYTES = 460
_AT_ONCE_S = 0.1
Row = tuple[str, str, str]


class Points(NamedTuple):
    """A series: seconds on the figure's axis, and values."""

    seconds: Array
    value: Array

    def between(self, begin: float, end: float) -> Points:
        """Return the points with begin <= time < end."""
        inside = (self.seconds >= begin) & (self.seconds < end)
        return Points(self.seconds[inside], self.value[inside])

    def idle_gaps(self) -> list[tuple[float, float]]:
        """Return (begin, end) of the times between successive points, the longest first."""
        order = np.argsort(-np.diff(self.seconds), kind="stable")
        return [(float(self.seconds[i]), float(self.seconds[i + 1])) for i in order]

    @property
    def slope(self) -> float:
        """The least-squares slope, per second."""
        return trendline(np.rint(self.seconds * NS_PER_S).astype(np.int64), self.value).slope_per_s


class Trace:
    """The largest connection of a session."""

    def __init__(self, folder: Path) -> None:
        recording = read(folder)
        self.transfer = Transfer.of(recording, 1)
        self.summary: dict[str, Any] = json.loads((folder / "summary.json").read_text("utf-8"))
        self._logs = recording.hosts.link
        self._series = self.transfer.series
        self._origin_ns = self.transfer.at_sender.capture.tables.first_ns or 0

    def series(self, label: str) -> Points:
        """Return a labelled series; an empty one if nothing of it happened."""
        if label not in self._series:
            return Points(np.empty(0), np.empty(0))
        table = self._series[label]
        return Points((table["time_ns"] - self._origin_ns) / NS_PER_S, table["value"])

    def advances(self) -> Points:
        """Return when the receiver's ACK advanced, and to which byte."""
        acks = self.series("TcpRcv_ack")
        highest = np.maximum.accumulate(acks.value)
        new = np.append(True, np.diff(highest) > 0)
        return Points(acks.seconds[new], highest[new])

    def new_data(self) -> Points:
        """Return the data segments that the sender sent for the first time."""
        sent = self.series("TcpSnd_data")
        highest = np.maximum.accumulate(np.append(-1, sent.value[:-1]))
        return Points(sent.seconds[sent.value > highest], sent.value[sent.value > highest])

    def resent(self) -> Points:
        """Return the TCP retransmissions."""
        segments = self.transfer.sender
        rows = (segments["reverse"] == self.transfer.reverse) & ((segments["kind"] & SegmentKind.RETRANSMISSION) != 0)
        return Points(self._seconds(segments["time_ns"][rows]), segments["seq_bytes"][rows])

    def drops(self) -> Array:
        """Return when the queue of the sender's host dropped a packet, in seconds."""
        events = self._sender.events
        return self._seconds(events["time_ns"][events["event"] == "packet_dropped"])

    def exhaustions(self) -> Array:
        """Return when an end gave up a frame after N2 transmissions and reset the link, in seconds."""
        ends = [side.events for side in self._logs.values()]
        times = [each["time_ns"][(each["event"] == "reset_started") & (each["cause"] == "n2")] for each in ends]
        return np.sort(self._seconds(np.concatenate(times)))

    def _seconds(self, time_ns: Array) -> Array:
        return (time_ns - self._origin_ns) * self.transfer.speed / NS_PER_S

    def stops(self) -> Array:
        """Return how long each stop of the link's sender lasted, in seconds."""
        stops, goes = self.series("RlpSnd_xoff").seconds, self.series("RlpSnd_xon").seconds
        after = np.searchsorted(goes, stops)
        ended = after < len(goes)
        return goes[after[ended]] - stops[ended]

    def rates_between_stops(self) -> list[float]:
        """Return the slope of the link's data from each go-ahead to the next stop."""
        data, goes, stops = (self.series(f"RlpSnd_{name}") for name in ("data", "xon", "xoff"))
        after = np.searchsorted(stops.seconds, goes.seconds)
        spans = [(goes.seconds[i], stops.seconds[n]) for i, n in enumerate(after) if n < len(stops.seconds)]
        return [data.between(begin, end).slope for begin, end in spans]

    def wire_bytes(self) -> int:
        """Return the octets that the link carries for a full segment: the commonest PPP frame's length."""
        events = self._sender.events
        lengths = events["wire_bytes"][events["event"] == "ppp_sent"]
        values, counts = np.unique(lengths, return_counts=True)
        return int(values[np.argmax(counts)])

    @property
    def _sender(self) -> LinkSide:
        """The log of the link at the data's sender."""
        (side,) = [log for log in self._logs.values() if self._is_sender(log)]
        return side

    @staticmethod
    def _is_sender(side: LinkSide) -> bool:
        frames = side.frames
        return bool(frames["payload_bytes"][frames["sent"]].sum() > frames["payload_bytes"][~frames["sent"]].sum())


@functools.cache
def trace(name: str) -> Trace:
    """Return a bundled session, read once."""
    return Trace(SAMPLES / name)


def _most_at_once(points: Points) -> int:
    """Return the most points within a tenth of a second."""
    ends = np.searchsorted(points.seconds, points.seconds + _AT_ONCE_S, side="right")
    return int((ends - np.arange(len(points.seconds))).max(initial=0))


def _segments(count_bytes: float) -> str:
    count = round(count_bytes / MSS_BYTES)
    return f"{count} segment{'' if count == 1 else 's'}"


def _span(begin: float, end: float) -> str:
    return f"{begin:.1f} to {end:.1f} s"


def slow_start(seen: Trace) -> list[Row]:
    """Figure 4."""
    first = float(seen.resent().seconds[0])
    rtt = seen.series("TcpSnd_rtt").between(0, first).value / NS_PER_S
    dropped = seen.drops()[0]
    before, complete = (seen.new_data().between(dropped, end).idle_gaps()[0] for end in (first, first + 15))
    cwnd = seen.series("TcpSnd_cwnd").between(dropped, first).value
    return [
        ("round-trip time, first and before the loss", "grows steadily", f"{rtt[0]:.1f} s, {rtt.max():.1f} s"),
        ("the queue drops a segment", "", f"at {dropped:.1f} s"),
        ("smallest congestion window after it", "one segment", _segments(cwnd.min())),
        ("longest pause before the retransmission", "10 to 15 s", _span(*before)),
        ("fast retransmit", "at 20 s", f"at {first:.1f} s"),
        ("longest pause of new segments", "", _span(*complete)),
    ]


def typical() -> list[Row]:
    """Figure 5."""
    seen = trace("fig5-typical")
    wire = seen.wire_bytes()
    return [
        ("slope of `RlpSnd_data`", "almost 960 B/s", f"{seen.series('RlpSnd_data').slope:.0f} B/s"),
        ("slope of `TcpRcv_data`", "848 B/s", f"{seen.series('TcpRcv_data').slope:.0f} B/s"),
        ("overhead on a segment of 460 bytes", "59 bytes", f"{wire - MSS_BYTES} bytes"),
        ("goodput, set-up included", "", f"{seen.summary['goodput_bytes_per_s']:.0f} B/s"),
        ("link resets, TCP timeouts", "none", f"{seen.summary['rlp_resets']}, {seen.summary['tcp_timeouts']}"),
    ]


def overflow(seen: Trace, span_s: tuple[float, float]) -> list[Row]:
    """Figure 7: what happens in these seconds, in which the queue drops one segment."""
    cwnd, flight, data, came = (
        seen.series(f"Tcp{label}").between(*span_s) for label in ("Snd_cwnd", "Snd_flight", "Snd_data", "Rcv_data")
    )
    dropped = float(next(at for at in seen.drops() if at >= span_s[0]))
    resent = seen.resent().between(*span_s)
    again = float(resent.seconds[0])
    next_one = float(data.seconds[data.seconds > dropped + _AT_ONCE_S][0])
    acks = seen.series("TcpSnd_ack").between(again, span_s[1])
    filled = float(acks.seconds[acks.value > acks.value[0]][0])
    rate = MSS_BYTES * (len(came.seconds) - 1) / (came.seconds[-1] - came.seconds[0])
    return [
        ("most outstanding", "8 KB, 16 segments", _segments(flight.value.max())),
        ("smallest congestion window", "one segment", _segments(cwnd.value.min())),
        ("nothing leaves after the drop for", "half a round trip", f"{next_one - dropped:.1f} s"),
        ("from the drop to the retransmission", "", f"{again - dropped:.1f} s"),
        ("retransmitted segments", "one", str(len(resent.seconds))),
        ("from there to its ACK", "", f"{filled - again:.1f} s"),
        ("burst when the hole is filled", "8 segments", f"{_most_at_once(data)} segments"),
        ("rate at which data arrive", "not degraded", f"{rate:.0f} B/s"),
    ]


def resets() -> list[Row]:
    """Figure 8."""
    seen = trace("fig8-resets-vj")
    acks = seen.advances().between(0, 100)
    at = seen.series("RlpSnd_rst").seconds
    holes = sorted(acks.idle_gaps()[:2])
    throughput = (acks.value[-1] - acks.value[0]) / (acks.seconds[-1] - acks.seconds[0])
    return [
        ("link resets", "2 within 100 s", f"{len(at)}, at {' and '.join(f'{s:.0f}' for s in at)} s"),
        ("gaps of the receiver", "11 s and 18 s", " and ".join(f"{end - begin:.1f} s" for begin, end in holes)),
        ("throughput over the figure", "634 B/s", f"{throughput:.0f} B/s"),
    ]


def decompressor() -> list[Row]:
    """Figure 9."""
    seen = trace("fig8-resets-vj")
    begin, end = sorted(seen.advances().between(0, 100).idle_gaps()[:2])[0]
    flight = seen.series("TcpSnd_flight").between(0, begin).value[-1]
    arrived = len(seen.series("TcpRcv_data").between(begin + 0.01, end - 1.5).seconds)
    outstanding = round(flight / MSS_BYTES)
    return [
        ("segments lost by the reset", "5", str(outstanding - arrived)),
        ("segments that arrive and are never acknowledged", "13", str(arrived)),
        ("checksum errors, both resets", "", str(seen.summary["checksum_errors"])),
        ("TCP timeouts", "one a reset", str(seen.summary["tcp_timeouts"])),
    ]


def back_off() -> list[Row]:
    """Figure 10."""
    seen = trace("fig10-exhaustion")
    begin, end = seen.advances().idle_gaps()[0]
    resent = seen.resent().between(begin, end)
    tries = resent.seconds[resent.value == resent.value[0]]
    timer = seen.series("TcpSnd_rto")
    before = timer.value[np.searchsorted(timer.seconds, tries) - 1] / NS_PER_S
    return [
        ("retransmissions of one segment by timeout", "several", f"{len(tries)}, at {_listed(tries)} s"),
        ("the timer's value before each", "each twice as long", f"{_listed(before)} s"),
        ("silence at the receiver", "", f"{end - begin:.0f} s"),
        ("link resets in the whole call", "one shown", f"{seen.summary['rlp_resets']}, all because of N2"),
        ("an end gave up a frame", "", f"at {_listed(seen.exhaustions())} s"),
        ("TCP timeouts", "", str(seen.summary["tcp_timeouts"])),
    ]


def _listed(seconds: Array) -> str:
    return ", ".join(f"{s:.0f}" for s in seconds)


def burst() -> list[Row]:
    """Figure 11."""
    seen = trace("fig5-typical")
    again = seen.series("RlpSnd_rexmt").between(0, 10).seconds
    hole = seen.series("TcpRcv_data").between(3, 10).idle_gaps()[0]
    return [
        ("RLP retransmissions", "a burst of 1325 ms", f"{len(again)} frames in {_ms(again[0], again[-1])}"),
        ("hole at the TCP receiver", "2260 ms", _ms(*hole)),
        ("TCP retransmissions", "none", str(len(seen.resent().between(0, 15).seconds))),
    ]


def _ms(begin: float, end: float) -> str:
    return f"{1000 * (end - begin):.0f} ms"


LEAST_STOP_S, LONGEST_STOP_S = 0.95, 1.3
"""Of the paper's Figure 12."""


FLOW_CONTROL_S = (50.0, 72.0)
"""What the picture of Figure 12 shows."""


def flow_control() -> list[Row]:
    """Figure 12."""
    seen = trace("fig5-typical")
    stops, rates = seen.stops(), seen.rates_between_stops()
    within = np.mean((stops >= LEAST_STOP_S) & (stops <= LONGEST_STOP_S))
    return [
        ("slope between two stops", "almost 1200 B/s", f"{np.median(rates):.0f} B/s (median of {len(rates)})"),
        (
            "slope of what is shown",
            "about 960 B/s",
            f"{seen.series('RlpSnd_data').between(*FLOW_CONTROL_S).slope:.0f} B/s",
        ),
        ("gaps", "950 to 1300 ms", f"{1000 * stops.min():.0f} to {1000 * stops.max():.0f} ms ({len(stops)})"),
        ("of these from 950 to 1300 ms", "", f"{100 * within:.1f} %"),
        ("spurious timeouts", "none", str(seen.summary["tcp_timeouts"])),
    ]


FIGURE_NUMBERS: dict[int, Callable[[], list[Row]]] = {
    5: typical,
    8: resets,
    9: decompressor,
    10: back_off,
    11: burst,
    12: flow_control,
}
"""Figure -> its table: what, what the paper says, what our session shows; 4 and 7 are in paper_bsd."""


def real_sessions() -> list[str]:
    """Return the bundled sessions that are runs of a bundled scenario under the kernel's TCP."""
    found = []
    for name in bundled_names():
        manifest = SAMPLES / name / "manifest.json"
        if manifest.is_file() and not json.loads(manifest.read_text("utf-8"))["variables"]["virtual"]:
            found.append(name)
    return found


@functools.cache
def virtual(name: str, *, as_linux: bool) -> Summary:
    """Return what the same scenario shows in virtual time, with Linux' ways or with its own profile."""
    scenario = load_scenario(name)
    return VirtualRun(scenario.as_linux() if as_linux else scenario).run()


_COMPARED = (
    "rlp_resets", "rlp_retransmissions", "tcp_retransmissions", "tcp_timeouts", "tcp_fast_retransmits",
    "checksum_errors",
)  # fmt: skip


def beside_virtual(*, as_linux: bool) -> str:
    """Return the table that puts each recorded session beside the same scenario in virtual time."""
    columns = ("scenario", "goodput, B/s", "apart", *(name.replace("_", " ") for name in _COMPARED), "hole, s")
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for name in real_sessions():
        real = json.loads((SAMPLES / name / "summary.json").read_text("utf-8"))
        model = virtual(name, as_linux=as_linux).document()
        pairs = [f"{real[key]} · {model[key]}" for key in _COMPARED]
        goodput = [each["goodput_bytes_per_s"] for each in (real, model)]
        holes = " · ".join(f"{each['longest_receiver_hole_s']:.1f}" for each in (real, model))
        apart = f"{100 * (goodput[0] / goodput[1] - 1):+.1f} %"
        lines.append(f"| `{name}` | {goodput[0]:.0f} · {goodput[1]:.0f} | {apart} | {' | '.join(pairs)} | {holes} |")
    return "\n".join(lines) + "\n"
