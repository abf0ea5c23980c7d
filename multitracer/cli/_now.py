"""What limits the connection that carries most now: the diagnosis of the last 10 s of a recording that goes on.

`capture` starts it beside the live view as a process of its own, of low priority: `python -m multitracer.cli._now
FOLDER`. It reads the newest packets and readings of the host's folder, writes a sentence each time that it knows
more, as a JSON object a line, and ends with its standard input. Of QUIC, which shows nothing without keys, it writes
what the connection carries each way. It waits between two looks for 50 times what the last
one took, so that it uses 2 % of a core; of many packets it takes the newest.
"""

from __future__ import annotations

import json
import os
import select
import struct
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from multitracer.units import BITS_PER_BYTE, NS_PER_S, NS_PER_US
from multitracer.words import percent, printable, rate

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.limited import Limited

WINDOW_NS = 10 * NS_PER_S
_EVERY_S = 3.0
"""Shortest time between two looks, s. Not measured."""
_FIRST_S = 1.0
"""Time before the first look, s."""
_LONGEST_S = 8.0
"""Longest time between two looks, s: the view shows no statement that is older than 10 s."""
_SHARE = 50
"""Time between two looks, in times of the processor time of the last one."""
_MOST_PACKETS = 8000
"""Packets of one look; 4,000 took 0.05 s of a slow core."""
_FEWEST_NS = NS_PER_S
"""Shortest time that the newest packets must cover: less is not called now."""
_IDLE_NS = 3 * NS_PER_S
"""Time without a packet of the connection after which the idle time is stated, not the limit before it."""
_MOST_BYTES = 16 << 20
"""Bytes of a capture that are read at a time. It bounds memory."""
_MOST_STATE_BYTES = 2 << 20
_MAGICS = {0xA1B23C4D: 1, 0xA1B2C3D4: NS_PER_US}
"""First number of a pcap file of this machine, with the ns of a unit of its fractions (pcap-savefile(5))."""
_HEADER_BYTES = 24
_RECORD = struct.Struct("=4I")
_LINK_BYTES = {1: 14, 12: 0, 14: 0, 101: 0, 113: 16, 276: 20}
"""Octets before the IP header by link type: Ethernet, raw IP, and Linux cooked (https://www.tcpdump.org/linktypes)."""
_QUIC = 443
_HEADER_OF = {6: 20, 17: 8}
"""Octets of the header by protocol: TCP without options, UDP."""
_MOSTLY = 0.95
"""Share of the time from which on a limit is stated without it."""


_MODULES = ("multitracer.recording.read", "multitracer.recording.transfer", "multitracer.diagnosis.limits.limited")
"""Modules that a look needs; they take 0.7 s once."""


class NewestPackets(NamedTuple):
    """The newest packets of a capture."""

    header: bytes
    records: list[tuple[int, bytes]]
    """Time in ns, and the record of the file."""

    @property
    def span_ns(self) -> int:
        """Return the time between its first and its last packet, in ns."""
        return self.records[-1][0] - self.records[0][0] if self.records else 0


class Tail:
    """Follows the newest capture of a folder, and holds the packets of the last 10 s.

    Parameters
    ----------
    folder : Path
    pattern : str
        Names of its captures.
    """

    def __init__(self, folder: Path, pattern: str = "tcp-*.pcap*") -> None:
        self._folder = folder
        self._pattern = pattern
        self._path: Path | None = None
        self._place = 0
        self._header = b""
        self._records: list[tuple[int, bytes]] = []

    def look(self) -> NewestPackets | None:
        """Return the newest packets; None if nothing is captured."""
        path = max(self._folder.glob(self._pattern), key=lambda each: each.stat().st_mtime_ns, default=None)
        if path is None:
            return None
        if path != self._path:
            self._path, self._place = path, 0
        with path.open("rb") as file:
            if not self._place:
                self._header, self._place = file.read(_HEADER_BYTES), _HEADER_BYTES
            if len(self._header) < _HEADER_BYTES:
                self._place = 0
                return None
            size = _MOST_BYTES
            while size == _MOST_BYTES:  # what is older than the newest packets is read, too, but not kept
                file.seek(self._place)
                chunk = file.read(_MOST_BYTES)
                before, size = self._place, len(chunk)
                self._take(chunk)
                newest_ns = self._records[-1][0] if self._records else 0
                self._records = [each for each in self._records if each[0] > newest_ns - WINDOW_NS][-_MOST_PACKETS:]
                if self._place == before:
                    break  # not even one packet
        return NewestPackets(self._header, self._records)

    def _take(self, chunk: bytes) -> None:
        unit_ns = _MAGICS.get(struct.unpack_from("=I", self._header)[0], 0)
        at, size = 0, len(chunk)
        while unit_ns and at + _RECORD.size <= size:
            seconds, fraction, captured, _ = _RECORD.unpack_from(chunk, at)
            end = at + _RECORD.size + captured
            if end > size:
                break
            self._records.append((seconds * NS_PER_S + fraction * unit_ns, chunk[at:end]))
            at = end
        self._place += at


def state_of(folder: Path) -> bytes:
    """Return the newest readings of the kernel's variables, with the header of their log; empty without a log."""
    return _newest(folder, "tcp_state-*.jsonl")


def _newest(folder: Path, pattern: str) -> bytes:
    """Return the newest lines of the newest log of a collector, with its header; empty without a log."""
    path = max(folder.glob(pattern), key=lambda each: each.stat().st_mtime_ns, default=None)
    if path is None:
        return b""
    with path.open("rb") as file:
        header = file.readline(1 << 16)
        start = max(file.seek(0, os.SEEK_END) - _MOST_STATE_BYTES, len(header))
        file.seek(start)
        lines = file.read(_MOST_STATE_BYTES).split(b"\n")
    return header + b"\n".join(lines[1 if start > len(header) else 0 : -1]) + b"\n"


def phone_of(folder: Path, now_ns: int) -> str:
    """Return the states that the modem reported last, each with its source and since when; empty without any.

    Parameters
    ----------
    folder : Path
        Of the host, with the log of the modem.
    now_ns : int
        The time of the clock of the log.
    """
    raw = _newest(folder, "radio-*.jsonl")
    if not raw:
        return ""
    import parsers
    from multitracer.analysis.signalling.states import states_of
    from multitracer.errors import MultiTracerError

    with tempfile.TemporaryDirectory(prefix="multitracer-now-") as place:
        log = Path(place, "radio-0.jsonl")
        log.write_bytes(raw)
        try:
            _, tables = parsers.read(str(log))
        except MultiTracerError:  # a log of one line, or of another program
            return ""
    rows = states_of(tables).rows() if isinstance(tables, dict) else iter(())
    last = {
        (-1 if row["card"] is None else row["card"], row["machine"], row["source"]): row
        for row in rows
        if row["end_frame"] is None
    }
    by_machine = {
        (card, machine): row for (card, machine, _), row in sorted(last.items(), reverse=True)
    }  # +CSCON first
    are_several = len({card for card, _ in by_machine}) > 1
    return ", ".join(
        f"{f'card {card}: ' if are_several and card >= 0 else ''}{machine} {printable(row['state'])} for "
        f"{max(now_ns - row['begin_ns'], 0) / NS_PER_S:.0f} s ({printable(row['source'])})"
        for (card, machine), row in sorted(
            by_machine.items(), key=lambda each: (each[0][0], each[0][1] != "RRC", each[0])
        )
    )


def words_of(window: NewestPackets, state: bytes, now_ns: int) -> str:
    """Return a sentence about the newest packets: what limits the connection that carries most, and its rate.

    Parameters
    ----------
    window : NewestPackets
    state : bytes
        A log of `collectors.tcp_info`; empty without one.
    now_ns : int
        The time of the clock that stamps packets.
    """
    if not window.records or now_ns - window.records[-1][0] > WINDOW_NS:
        return "not known: no TCP packet in the last 10 s"
    if window.span_ns < _FEWEST_NS:
        many = len(window.records)
        dense = many >= _MOST_PACKETS
        return f"not known: {'too many' if dense else 'only'} {many:,} packets {'a second' if dense else 'so far'}"
    from multitracer.errors import MultiTracerError
    from multitracer.recording.read import read

    with tempfile.TemporaryDirectory(prefix="multitracer-now-") as folder:
        capture = Path(folder, "tcp-0.pcap")
        capture.write_bytes(window.header + b"".join(record for _, record in window.records))
        if state:
            Path(folder, "tcp_state-0.jsonl").write_bytes(state)
        try:
            recording = read(folder)
            if not len(recording):
                return "not known: no TCP packet in the last 10 s"
            from multitracer.diagnosis.limits.limited import limited, of_both_directions
            from multitracer.recording.transfer import Transfer

            transfer = Transfer.of(recording, None)
            idle_ns = now_ns - int(transfer.time_ns[-1])
            if not len(transfer.data):
                return "not known: no data in the last 10 s"
            return _sentence(of_both_directions(limited(transfer)), window, idle_ns)
        except MultiTracerError as error:
            return f"not known: {printable(str(error))}"


def _sentence(limits: Limited, window: NewestPackets, idle_ns: int) -> str:
    from multitracer.diagnosis.limits.names import Confidence, Limit

    carried = rate(limits.transfer.both_unique_bytes[0] * BITS_PER_BYTE * NS_PER_S / window.span_ns)
    if idle_ns > _IDLE_NS:
        return f"no packet for {idle_ns / NS_PER_S:.0f} s; {carried} before"
    largest = limits.shares[0]
    name = largest.limit.label.replace("-", " ")
    if largest.limit is Limit.UNKNOWN:
        return f"not known, {carried}: {limits.reason or 'the last 10 s show no limit'}"
    if largest.confidence is Confidence.WEAK:
        return f"not known, {carried}: weak evidence of {name}"
    seconds = f", last {window.span_ns / NS_PER_S:.1f} s" if len(window.records) >= _MOST_PACKETS else ""
    lasted = "" if largest.share >= _MOSTLY else f" for {percent(largest.share, is_short=True)} of the time"
    return f"{name}{lasted}, {carried} ({largest.confidence.label}{seconds})"


class FlowRates(NamedTuple):
    """What the connection that carries most carried, in bit/s of TCP's or UDP's payload and header options."""

    from_server: float = 0.0
    to_server: float = 0.0

    @property
    def both(self) -> float:
        """Return the sum of both directions."""
        return self.from_server + self.to_server


def busiest_of(window: NewestPackets | None, now_ns: int) -> FlowRates:
    """Return what the connection carries that carries most; its server has port 443, or the lower port."""
    if window is None or not window.records or now_ns - window.records[-1][0] > _IDLE_NS:
        return FlowRates()
    link_bytes = _LINK_BYTES.get(struct.unpack_from("=I", window.header, 20)[0])
    carried: dict[tuple[bytes, bytes, int, int], list[int]] = {}
    for _, record in window.records if link_bytes is not None else ():
        original = struct.unpack_from("=I", record, 12)[0]
        if end := _ends_of(record[_RECORD.size + (link_bytes or 0) :]):
            source, destination, sport, dport, header_bytes = end
            is_from = sport == _QUIC or (dport != _QUIC and sport < dport)
            key = (source, destination, sport, dport) if is_from else (destination, source, dport, sport)
            both = carried.setdefault(key, [0, 0])
            both[not is_from] += max(0, original - (link_bytes or 0) - header_bytes)
    most = max(carried.values(), key=sum, default=[0, 0])
    seconds = max(window.span_ns, _FEWEST_NS) / NS_PER_S
    return FlowRates(most[0] * BITS_PER_BYTE / seconds, most[1] * BITS_PER_BYTE / seconds)


def _ends_of(packet: bytes) -> tuple[bytes, bytes, int, int, int] | None:
    """Return addresses, ports and length of the headers of a TCP or UDP packet; None for others."""
    if len(packet) >= 28 and packet[0] >> 4 == 4:
        protocol, at, addresses = packet[9], (packet[0] & 15) * 4, (packet[12:16], packet[16:20])
    elif len(packet) >= 48 and packet[0] >> 4 == 6:
        protocol, at, addresses = packet[6], 40, (packet[8:24], packet[24:40])
    else:
        return None
    if protocol not in _HEADER_OF or len(packet) < at + 4:
        return None
    sport, dport = struct.unpack_from(">2H", packet, at)
    return (*addresses, sport, dport, at + _HEADER_OF[protocol])


def main(folder: Path) -> None:
    """Write a sentence a line until the standard input ends."""
    tail, quic = Tail(folder), Tail(folder, "udp-*.pcap*")
    os.nice(10)
    for module in _MODULES:
        import_module(module)
    wait_s = _FIRST_S
    while not select.select([sys.stdin], [], [], wait_s)[0]:
        began_s = time.process_time()
        words = _look(tail, quic, folder)
        sys.stdout.write(json.dumps({"at_ns": time.monotonic_ns(), "words": words}) + "\n")
        sys.stdout.flush()
        wait_s = min(max(_EVERY_S, _SHARE * (time.process_time() - began_s)), _LONGEST_S)


def _look(tail: Tail, quic: Tail, folder: Path) -> str:
    try:
        now_ns = time.time_ns()
        words, phone = _limit_now(tail, quic, folder, now_ns), phone_of(folder, now_ns)
    except OSError as error:
        return f"not known: {error.strerror}"
    return f"{words}; {phone}" if phone else words


def _limit_now(tail: Tail, quic: Tail, folder: Path, now_ns: int) -> str:
    window, of_quic = tail.look(), quic.look()
    if (carried := busiest_of(of_quic, now_ns)).both > busiest_of(window, now_ns).both:
        return f"not known (QUIC, no keys): down {rate(carried.from_server)}, up {rate(carried.to_server)}"
    if window is None:
        return "not known: no packets are recorded"
    return words_of(window, state_of(folder), now_ns)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
