"""Writes docs/peers_reports.md: what other tools say of captures as people report them, beside what we say.

`python -m docs.programs.peers_reports` builds a small capture of each kind, of packets whose story is known, runs
tshark and tcptrace on it, and makes the page.
"""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docs.programs.peers import ROOT, wireshark_labels
from tests.analysis.pcap_file import write_pcap
from tests.analysis.traffic import ACK, FIN, MS, RST, START_NS, SYN, Segment

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = ROOT / "docs" / "peers_reports.md"
_WORDS = tomllib.loads((ROOT / "docs" / "peers_reports.toml").read_text("utf-8"))
_MSS, _RTT_MS = 1448, 40
_ETHERNET, _RAW_IP, _LINUX_COOKED = 1, 101, 113
_NS, _US = 0xA1B23C4D, 0xA1B2C3D4
_TUNNELED_FROM, _TUNNELED_TO = bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2])

Packets = list[tuple[int, bytes]]
"""Time in ns, and the bytes of a packet from its IP header on."""


# --- packets whose story is known ---


def _opened(rtt_ms: int = _RTT_MS, *, at_server: bool = False) -> list[Segment]:
    """Return a handshake as one end sees it: the other end answers after a round trip, the own host at once."""
    offer, own_ns = {"mss": 1460, "scale": 7}, MS // 10
    syn_ns = START_NS + rtt_ms * MS // 2 * at_server
    answer_ns = syn_ns + (own_ns if at_server else rtt_ms * MS)
    last_ns = answer_ns + (rtt_ms * MS if at_server else own_ns)
    return [
        Segment(0, 0, flags=SYN, window=64_240, time_ns=syn_ns, options=offer, stamp=(1000, 0)),
        Segment(1, 0, flags=SYN | ACK, ack=1, window=65_160, time_ns=answer_ns, options=offer, stamp=(5000, 1000)),
        Segment(0, 1, ack=1, time_ns=last_ns, stamp=(1000 + rtt_ms, 5000)),
    ]


def _upload(rounds: int = 12, *, window: int = 10) -> list[Segment]:
    """Return a transfer of `window` segments each round trip, as the client sees it; nothing is lost."""
    segments, number = _opened(), 0
    for turn in range(rounds):
        at_ns = START_NS + (turn + 1) * _RTT_MS * MS + MS
        tick = 1000 + (turn + 1) * _RTT_MS
        for place in range(window):
            seq = 1 + number * _MSS
            sent_ns = at_ns + place * MS // 8
            segments.append(Segment(0, seq, _MSS, ack=1, time_ns=sent_ns, stamp=(tick, tick + 4000), ip_id=1 + number))
            number += 1
            came_ns, answered = sent_ns + _RTT_MS * MS, tick + 4000 + _RTT_MS // 2
            segments.append(Segment(1, 1, ack=seq + _MSS, time_ns=came_ns, stamp=(answered, tick)))
    return _in_time(segments)


def _in_time(segments: list[Segment]) -> list[Segment]:
    return sorted(segments, key=lambda each: each.time_ns or 0)


def _moved(segments: list[Segment], later_ns: Callable[[int], int]) -> list[Segment]:
    return [replace(each, time_ns=later_ns(each.time_ns or 0)) for each in segments]


def _packets(segments: list[Segment]) -> Packets:
    with tempfile.TemporaryDirectory() as place:
        data = write_pcap(Path(place) / "a.pcap", segments).read_bytes()
    found, at = [], 24
    while at < len(data):
        seconds, rest_ns, length, _ = struct.unpack_from("<IIII", data, at)
        found.append((seconds * 10**9 + rest_ns, data[at + 16 : at + 16 + length]))
        at += 16 + length
    return found


def _file(packets: Packets, link_type: int, *, frame: bytes = b"", magic: int = _NS, snap: int = 262_144) -> bytes:
    """Return a pcap file; `frame` stands before each packet."""
    parts = [struct.pack("<IHHiIII", magic, 2, 4, 0, 0, snap, link_type)]
    for time_ns, packet in packets:
        data = frame + packet
        parts.append(struct.pack("<IIII", *divmod(time_ns, 10**9), len(data[:snap]), len(data)) + data[:snap])
    return b"".join(parts)


_MACS = bytes([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1])
_ON_ETHERNET = _MACS + b"\x08\x00"


def _plain(segments: list[Segment]) -> bytes:
    return _file(_packets(segments), _ETHERNET, frame=_ON_ETHERNET)


def _in_udp(packets: Packets, port: int, header: bytes) -> Packets:
    """Return the packets behind a header of a tunnel, in UDP; a length in the header is set where it begins GTP-U."""
    found = []
    for time_ns, packet in packets:
        own = header[:2] + struct.pack("!H", len(packet)) + header[4:] if port == 2152 else header
        udp = struct.pack("!HHHH", port, port, 8 + len(own) + len(packet), 0) + own + packet
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + _TUNNELED_FROM + _TUNNELED_TO
        found.append((time_ns, ip + udp))
    return found


def _three_copies() -> bytes:
    """Return each packet on three interfaces of one host, 5 µs apart, without identification; hop by hop."""
    packets = []
    for time_ns, packet in _packets([replace(each, ip_id=0) for each in _upload()]):
        for copy in range(3):
            hop = bytearray(packet)
            hop[8] -= copy
            packets.append((time_ns + copy * 5_000, bytes(hop)))
    packets.sort(key=lambda each: each[0])
    return _file(packets, _LINUX_COOKED, frame=b"\0\0\0\1\0\6\2\0\0\0\0\1\0\0\x08\0")


def _gtp_u() -> bytes:
    inside = _in_udp(_packets(_upload()), 2152, b"\x30\xff\0\0\0\0\0\7")
    return _file(inside, _ETHERNET, frame=_ON_ETHERNET)


def _vxlan() -> bytes:
    inside = [(time_ns, _ON_ETHERNET + packet) for time_ns, packet in _packets(_upload())]
    return _file(_in_udp(inside, 4789, b"\x08\0\0\0\0\0\x2a\0"), _ETHERNET, frame=_ON_ETHERNET)


def _raw_ip_called_ethernet() -> bytes:
    return _file(_packets(_upload()), _ETHERNET)


def _ns_called_us() -> bytes:
    return _file(_packets(_upload()), _ETHERNET, frame=_ON_ETHERNET, magic=_US)


def _one_stamp() -> bytes:
    return _plain(_moved(_upload(), lambda _: START_NS))


def _clock_step() -> bytes:
    middle_ns = START_NS + 6 * _RTT_MS * MS
    return _plain(_moved(_upload(), lambda at: at + 7_300 * MS if at > middle_ns else at))


def _reordered() -> bytes:
    """Return what the receiver sees: the fifth of ten segments came 2.6 ms late, nothing was lost or sent again."""
    data = [replace(each, time_ns=(each.time_ns or 0) + 20 * MS) for each in _upload() if each.payload]
    late = [replace(each, time_ns=(each.time_ns or 0) + 2_600_000 * (each.ip_id % 10 == 5)) for each in data]
    segments, reached, ahead = _opened(at_server=True), 1, 0
    for each in _in_time(late):
        came_ns, (tick, _) = each.time_ns or 0, each.stamp or (0, 0)
        ahead = max(ahead, each.seq + each.payload)
        reached = ahead if each.ip_id % 10 == 5 else reached + _MSS * (each.seq == reached)
        hole = ((reached + _MSS, ahead),) if ahead > reached else ()
        answer = Segment(1, 1, ack=reached, sack=hole, time_ns=came_ns + 20_000, stamp=(tick + 4020, tick))
        segments += [each, answer]
    return _plain(_in_time(segments))


def _closed_window() -> bytes:
    """Return a receiver that stops reading; the sender asks with one byte of data each time, as BSD does."""
    sent = _upload(4)
    at_ns, seq = max(each.time_ns or 0 for each in sent), 1 + 40 * _MSS
    closed = [Segment(1, 1, ack=seq, window=0, time_ns=at_ns + MS)]
    for probe in range(5):
        ask_ns = at_ns + (1 << probe) * 500 * MS
        closed += [
            Segment(0, seq, 1, ack=1, time_ns=ask_ns),
            Segment(1, 1, ack=seq, window=0, time_ns=ask_ns + 40 * MS),
        ]
    open_ns = at_ns + 9_000 * MS
    closed += [Segment(1, 1, ack=seq, window=1000, time_ns=open_ns), Segment(0, seq, _MSS, ack=1, time_ns=open_ns + MS),
               Segment(1, 1, ack=seq + _MSS, time_ns=open_ns + 41 * MS)]  # fmt: skip
    return _plain(_in_time([replace(each, stamp=None) for each in sent] + closed))


def _foreign_reset() -> bytes:
    """Return a reset of another hop limit, which the receiver ignored: the transfer goes on."""
    packets = _packets(_upload())
    time_ns, _ = packets[len(packets) // 2]
    (_, reset), *_ = _packets([Segment(1, 1, flags=RST | ACK, ack=1, window=0)])
    packets.append((time_ns + 1000, reset[:8] + bytes([200]) + reset[9:]))
    packets.sort(key=lambda each: each[0])
    return _file(packets, _ETHERNET, frame=_ON_ETHERNET)


def _unanswered() -> bytes:
    return _plain([Segment(0, 0, flags=SYN, time_ns=START_NS + ((1 << n) - 1) * 1000 * MS) for n in range(6)])


def _refused() -> bytes:
    pairs = [[Segment(0, 0, flags=SYN, pair=n, time_ns=START_NS + n * 500 * MS),
              Segment(1, 0, flags=RST | ACK, ack=1, pair=n, time_ns=START_NS + n * 500 * MS + 30 * MS)]
             for n in range(3)]  # fmt: skip
    return _plain([each for pair in pairs for each in pair])


def _forgotten_by_nat() -> bytes:
    """Return an exchange, 400 s of silence, then data that nobody answers any more."""
    talk = [*_upload(1)]
    at_ns, seq = max(each.time_ns or 0 for each in talk) + 400_000 * MS, 1 + 10 * _MSS
    resent = [Segment(0, seq, 100, ack=1, time_ns=at_ns + ((1 << n) - 1) * 300 * MS) for n in range(7)]
    return _plain([replace(each, stamp=None) for each in [*talk, *resent]])


def _two_writes() -> bytes:
    """Return 40 requests in two small writes each: the second waits for the delayed ACK of the first."""
    segments, at_ns, seq, answer = _opened(1), START_NS + 2 * MS, 1, 1
    for _ in range(40):
        segments += [
            Segment(0, seq, 60, ack=answer, time_ns=at_ns),
            Segment(1, answer, ack=seq + 60, time_ns=at_ns + 200 * MS),
            Segment(0, seq + 60, 60, ack=answer, time_ns=at_ns + 200 * MS + 50_000),
            Segment(1, answer, 90, ack=seq + 120, time_ns=at_ns + 201 * MS),
        ]
        seq, answer, at_ns = seq + 120, answer + 90, at_ns + 202 * MS
    segments.append(Segment(0, seq, flags=FIN | ACK, ack=answer, time_ns=at_ns))
    return _plain([replace(each, stamp=None) for each in segments])


def _udp_443() -> bytes:
    packets = []
    for n in range(200):
        body = bytes([0x40 | n % 4, *((n * 37 + place * 101) % 256 for place in range(1199))])
        udp = struct.pack("!HHHH", 443, 50_000, 8 + len(body), 0) + body
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + _TUNNELED_FROM + _TUNNELED_TO
        packets.append((START_NS + n * MS, ip + udp))
    return _file(packets, _ETHERNET, frame=_ON_ETHERNET)


def _cut_options() -> bytes:
    return _file(_packets(_upload()), _ETHERNET, frame=_ON_ETHERNET, snap=60)


KINDS: dict[str, Callable[[], bytes]] = {
    each.__name__.removeprefix("_"): each
    for each in (
        _three_copies, _gtp_u, _vxlan, _raw_ip_called_ethernet, _ns_called_us, _one_stamp, _clock_step, _reordered,
        _closed_window, _foreign_reset, _unanswered, _refused, _forgotten_by_nat, _two_writes, _udp_443, _cut_options,
    )
}  # fmt: skip
"""Name of a kind, as in docs/peers_reports.toml -> what makes its capture."""


# --- the page ---


def page() -> str:
    """Return the text of the page."""
    return str(_WORDS["introduction"]) + "".join(f"\n{section(name)}" for name in KINDS)


def section(name: str) -> str:
    """Return what everyone says of a capture of one kind."""
    words = _WORDS["kinds"][name]
    with tempfile.TemporaryDirectory() as place:
        capture = Path(place) / "capture.pcap"
        capture.write_bytes(KINDS[name]())
        rows = [
            ("right", words["right"]),
            ("`analyze`", _counts(capture)),
            ("`diagnose`", _answer(capture)),
            ("tshark", _tshark(capture)),
            ("tcptrace", _tcptrace(capture)),
        ]
    table = "".join(f"| {who} | {says} |\n" for who, says in rows)
    return f"## {words['title']}\n\n| | says |\n|---|---|\n{table}"


def _run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program in UTF-8 and UTC, without the errors that it ends with."""
    return subprocess.run(
        list(map(str, arguments)), capture_output=True, check=False, encoding="utf-8", errors="replace", cwd=ROOT
    )


def _counts(capture: Path) -> str:
    """Return what `analyze` counts, and how far it trusts the capture."""
    document = json.loads(_run(sys.executable, "-m", "multitracer", "analyze", "--json", capture).stdout)
    connections: list[dict[str, Any]] = document["connections"]
    ways = [each[way] for each in connections for way in ("forward", "reverse")]
    packets = sum(way["packets"] for way in ways)
    again = sum(way["retransmitted_segments"] for way in ways)
    trust = document["trust"]
    notes = " ".join(_cell(note) for note in trust["notes"][:1])
    counted = f"{_count(len(connections), 'connection')}, {_count(packets, 'segment')}, {again} sent again"
    return f"{counted}; trust: {trust['verdict']}. {notes}".strip()


def _answer(capture: Path) -> str:
    done = _run(sys.executable, "-m", "multitracer", "diagnose", capture)
    lines = done.stdout.splitlines()
    if done.returncode:
        lines = done.stderr.replace("Error: ", "").replace(f"{capture.name}: ", "").splitlines()[-1:]
    found = [line for line in lines if re.match(r"[a-z-]+, .* cost ", line)]
    kinds = ", ".join(dict.fromkeys(line.partition(",")[0] for line in found))
    first = next((before for before, line in pairwise(lines) if line.startswith("What would help")), lines[0])
    return _cell(first) + (f" Findings: {kinds}." if kinds else "")


def _tshark(capture: Path) -> str:
    """Return the number of connections and the expert information on TCP."""
    streams = set(_run("tshark", "-n", "-r", capture, "-T", "fields", "-e", "tcp.stream", "tcp").stdout.split())
    labels = wireshark_labels(capture)
    return f"{_count(len(streams), 'connection')}; {labels}"


def _tcptrace(capture: Path) -> str:
    done = _run("tcptrace", "-l", "-n", capture).stdout
    connections = re.search(r"(\d+) TCP connections? traced", done)
    if connections is None:
        return "nothing"
    again = [sum(map(int, pair)) for pair in re.findall(r"rexmt data pkts:\s+(\d+)\s+rexmt data pkts:\s+(\d+)", done)]
    elapsed = re.findall(r"elapsed time:\s+(\S+)", done)
    took = f"; elapsed {elapsed[0]}" if elapsed else ""
    return f"{_count(int(connections[1]), 'connection')}; {sum(again)} data packets retransmitted{took}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").strip()


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
