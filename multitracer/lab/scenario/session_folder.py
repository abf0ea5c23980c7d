"""The session folder of a run: files that runs in virtual time and runs of real kernels both write.

DIR/manifest.json  scenario.toml  clocks.jsonl  summary.json
DIR/mobile/        tcp-0.pcap  tcp_state.jsonl  rlp.pcapng  …   (of several mobiles mobile-1/, mobile-2/, …)
DIR/fixed/         the same
DIR/truth/         frames.csv  segments.csv  (of CDPD and Bluetooth: radio.txt, an error trace)
DIR/truth/traces/  the traces that scenario.toml names

The truth is for judging an analysis, never its input. `frames.csv` has a line for each frame that was sent.
`segments.csv` has a line for each packet that left a host; its fate is `delivered`, `damaged` (it arrived with a
header that the decompressor restored wrongly), `dropped` (by the interface queue), `lost` (on the link: flushed by a
reset, or discarded by the decompressor) or `queued` (nothing behind it has arrived until the end). A packet keeps its
TCP checksum and its payload whatever happens to its header, and the link keeps the order of a stream; so an arrived
packet is matched with the packet that was sent. A stream is all that one host sends another; with `error_control =
"by-protocol"` TCP and all else are two.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

from multitracer.errors import InputError
from multitracer.lab.channel.bluetooth import BluetoothLink
from multitracer.lab.channel.cdma2000_radio import Cdma2000Config
from multitracer.lab.channel.cdpd import CdpdLink
from multitracer.lab.channel.gsm import LinkConfig
from multitracer.lab.channel.shared.packet_link import FIXED, SIDES, host_address
from multitracer.lab.channel.shared.queue import named
from multitracer.lab.channel.switched import SwitchedConfig
from multitracer.lab.scenario.library import KEPT_TRACES, SCENARIO
from multitracer.manifest import MANIFEST, Host, LogFile, Manifest, Role, Variables, checksum, inside, read_manifest
from multitracer.protocols.capacity_trace import CapacityTrace
from multitracer.protocols.error_trace import RADIO
from multitracer.protocols.link_events import PacketDropped

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from multitracer.lab.channel.gsm import OnAir
    from multitracer.lab.channel.shared.packet_link import HostName, PacketLink, RadioReading
    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.scenario.summary import Summary
    from multitracer.lab.tcp.packet import TcpPacket
    from multitracer.protocols.link_events import LinkEvent


FRAMES_HEADER = "direction,sent_slot,arrival_slot,lost,header\n"
SEGMENTS_HEADER = "host,left_ns,ip_id,port,seq,payload_bytes,flags,fate,arrived_ns\n"
_SHOWN_OCTETS = 3
_UDP_DATA_AT = 28
"""Octet of an IPv4 packet without options at which the payload of a datagram begins (RFC 791, RFC 768)."""
_DIRECTIONS = {"mobile": "up", "fixed": "down"}


def frame_line(frame: OnAir) -> str:
    """Return the line of frames.csv for one frame; the first three octets are written in hexadecimal."""
    header = frame.octets[:_SHOWN_OCTETS].hex()
    return f"{_DIRECTIONS[frame.side]},{frame.sent_slot},{frame.arrival_slot},{frame.lost:d},{header}\n"


class _Pending(NamedTuple):
    """A packet whose fate is not known yet."""

    host: HostName
    left_ns: int
    packet: TcpPacket | None
    data: bytes

    @property
    def ip_id(self) -> int:
        return int.from_bytes(self.data[4:6], "big")

    @property
    def seq(self) -> int | None:
        """TCP sequence number of the packet; None for a datagram."""
        return None if self.packet is None else self.packet.segment.seq

    @property
    def key(self) -> bytes:
        """Octets of the packet that the link does not change: its transport checksum and its payload."""
        return _key(self.packet, self.data)

    def line(self, fate: str, arrived_ns: int | str = "") -> str:
        """Return the packet's line of segments.csv; a datagram has no sequence number and no flags."""
        host, left_ns, packet, data = self
        begin = f"{host},{left_ns},{data[4] << 8 | data[5]}"
        if packet is None:
            port = int.from_bytes(data[20:22], "big")
            return f"{begin},{port},,{len(data) - _UDP_DATA_AT},,{fate},{arrived_ns}\n"
        segment = packet.segment
        about = f"{segment.source_port},{segment.seq},{len(segment.payload)},{segment.flags:#x}"
        return f"{begin},{about},{fate},{arrived_ns}\n"


class _Stream(NamedTuple):
    """Packets that arrive in the order in which they were sent, if at all."""

    source: HostName
    destination: HostName
    is_unrepeated: bool
    """Whether they are the packets that a link by protocol does not repeat, and sends before all others."""


class SegmentTruth:
    """Determines the fate of every packet between the hosts of a scenario.

    Parameters
    ----------
    scenario : Scenario
    """

    def __init__(self, scenario: Scenario) -> None:
        *mobiles, _ = scenario.hosts
        self._by_address = {host_address(mobile): mobile for mobile in mobiles}
        self._only = mobiles[0] if len(mobiles) == 1 else None
        link = scenario.link
        self._is_by_protocol = isinstance(link, LinkConfig) and link.error_control == "by-protocol"
        self._pending: defaultdict[_Stream, deque[_Pending]] = defaultdict(deque)

    def left(self, host: HostName, packet: TcpPacket | None, data: bytes, *, now_ns: int) -> None:
        """Record a packet that left a host; its fate is not known yet."""
        stream = self._stream(host, packet, data[16:20], outgoing=True)
        if stream is not None:
            self._pending[stream].append(named(_Pending, (host, now_ns, packet, data)))

    def arrived(self, host: HostName, packet: TcpPacket | None, data: bytes, *, now_ns: int) -> list[str]:
        """Process a packet that reached a host; return the lines of all packets whose fate is now known."""
        stream = self._stream(host, packet, data[12:16], outgoing=False)
        pending = deque[_Pending]() if stream is None else self._pending[stream]
        place = _place(pending, packet, data)
        if place is None:
            return []
        lost = [pending.popleft().line("lost") for _ in range(place)]
        fate = "delivered" if packet is None or packet.checksum_ok else "damaged"
        return [*lost, pending.popleft().line(fate, now_ns)]

    def _stream(self, host: HostName, packet: TcpPacket | None, far: bytes, *, outgoing: bool) -> _Stream | None:
        """Return the stream of a packet that passes the interface of `host`; None if no mobile of this link has it."""
        mobile = host if host != FIXED else self._only or self._by_address.get(far)
        if mobile is None:
            return None
        source, destination = (mobile, FIXED) if (host != FIXED) == outgoing else (FIXED, mobile)
        return named(_Stream, (source, destination, self._is_by_protocol and packet is None))

    def noted(self, host: HostName, event: LinkEvent) -> list[str]:
        """Process an event of the link; return the lines of the packets that the queue dropped."""
        if not isinstance(event, PacketDropped) or (event.seq is None and event.cause == "network"):
            return []  # the network's drops of both directions have one log: without a number they are alike
        for stream, pending in self._pending.items():
            if stream.source != host:
                continue
            for entry in reversed(pending):
                if entry.ip_id == event.ip_id and entry.seq == event.seq:
                    pending.remove(entry)
                    return [entry.line("dropped")]
        return []

    def rest(self) -> list[str]:
        """Return the lines of the packets of which nothing is known at the end of the run."""
        return [entry.line("queued") for pending in self._pending.values() for entry in pending]


def _key(packet: TcpPacket | None, data: bytes) -> bytes:
    """Return the octets of a packet that the link does not change: its transport checksum and its payload."""
    header = (data[0] & 0x0F) * 4
    if packet is None:
        return data[header + 6 :]
    return data[header + 16 : header + 18] + packet.segment.payload


def _place(pending: deque[_Pending], packet: TcpPacket | None, data: bytes) -> int | None:
    """Return the index in `pending` of the packet that has arrived; None if it is not there.

    Packets are compared by IP identification or, if that is damaged, by transport checksum and payload.
    """
    if pending and pending[0].data == data:
        return 0
    ip_id, key = int.from_bytes(data[4:6], "big"), _key(packet, data)
    alike = [place for place, entry in enumerate(pending) if entry.key == key]
    same = [place for place in alike if pending[place].ip_id == ip_id]
    return next(iter(same or alike), None)


LINK_NS = "link_ns"
"""Key of the experiment variables of a run in real time: the link time at its end."""
FIRST_PORT = 5001
"""First port of the fixed host; the nth traffic of a scenario uses the nth port from here."""
FIRST_MOBILE_PORT = 1025
SERVER_PORT = 5100
"""Port of a measurement's server on the fixed host."""
CAPTURE, TCP_STATE, RLPDUMP = "tcp-0.pcap", "tcp_state.jsonl", "rlp.pcapng"
_SNAP_BYTES = 96
"""Snap length of a capture: all headers."""
_COMPLETE_PACKET = 262_144
"""Snap length with header compression, where TCP checksums must be verified afterwards: complete packets."""


def snap_bytes(scenario: Scenario) -> int:
    """Return the number of bytes of each packet that captures store (snap length)."""
    link = scenario.link
    compressed = isinstance(link, LinkConfig) and link.header_compression != "none"
    return _COMPLETE_PACKET if compressed else _SNAP_BYTES


def make_folders(folder: Path, scenario: Scenario, *, is_new: bool = True) -> None:
    """Make the session folder with the folders of the hosts and of the truth; write the scenario into it.

    Parameters
    ----------
    folder : Path
    scenario : Scenario
    is_new : bool
        Whether the folder must be empty or absent.

    Raises
    ------
    InputError
        If the folder is not empty or cannot be made, or it contains another trace of the same name.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if is_new and any(folder.iterdir()):
            raise InputError(f"{folder}: the folder is not empty, and logs are never overwritten; give a new folder")
        for name in (*scenario.hosts, "truth"):
            (folder / name).mkdir(exist_ok=True)
        keep_scenario(folder, scenario)
    except OSError as error:
        raise InputError(f"{folder}: cannot create this folder: {error.strerror}; name another folder") from error


def keep_scenario(folder: Path, scenario: Scenario) -> None:
    """Write the scenario's TOML and the traces that it names into the existing folder of a run.

    Raises
    ------
    InputError
        If the name of a trace leads out of the folder, or the folder contains another trace of that name.
    OSError
        If a file cannot be written.
    """
    if scenario.source:
        (folder / SCENARIO).write_text(scenario.source, encoding="utf-8")
    for name, text in scenario.traces:
        path, octets = inside(folder / KEPT_TRACES, name), text.encode()
        if path.exists() and path.read_bytes() != octets:
            raise InputError(
                f"{path}: this file differs from the trace that {scenario.name} now names; name another session folder"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(octets)


def new_manifest(scenario: Scenario, *, seed: int, created_ns: int, virtual: bool, speed: float) -> Manifest:
    """Return a manifest as it is before the run, with the roles of the hosts and the experiment variables."""
    manifest = Manifest(name=scenario.name, created_ns=created_ns)
    manifest.hosts = {host: Host(role=_role(scenario, host)) for host in scenario.hosts}
    manifest.variables = _variables(scenario, seed)
    manifest.variables.virtual, manifest.variables.speed = virtual, speed
    return manifest


def _role(scenario: Scenario, host: HostName) -> Role | None:
    """Return the role of a host in the first traffic and in all traffic of the same direction.

    None if the host has no role there.
    """
    alike = [each for each in scenario.traffic if each.direction == scenario.traffic[0].direction]
    if host in {scenario.sender_of(each) for each in alike}:
        return Role.SENDER
    return Role.RECEIVER if host in {scenario.receiver_of(each) for each in alike} else None


def _variables(scenario: Scenario, seed: int) -> Variables:
    parameters = asdict(scenario)
    del parameters["source"], parameters["traces"]
    if isinstance(scenario.link, SwitchedConfig) and scenario.link.power is not None:
        parameters["link"]["power"] = scenario.link.power.facts()
    for direction in ("up", "down"):
        way = parameters["link"].get(direction)  # of Bluetooth a packet's name
        if isinstance(way, dict) and "replayed" in way:
            way["replayed_runs"] = len(way.pop("replayed"))
        elif isinstance(way, dict) and isinstance(way.get("trace"), CapacityTrace):
            way["trace"] = way["trace"].facts()
    errors = parameters["link"].get("errors", {})
    for name in ("replayed_up", "replayed_down"):
        if name in errors:
            errors[f"{name}_runs"] = len(errors.pop(name))
    return Variables(
        scenario=scenario.name,
        title=scenario.title,
        figure=scenario.figure,
        direction=scenario.traffic[0].direction,
        seed=seed,
        parameters=parameters,
    )


def rlp_facts(scenario: Scenario, *, speed: float) -> dict[str, str | int | float]:
    """Return the header fields of the link's log; their times are link times."""
    facts: dict[str, str | int | float] = {"clock": "realtime", "speed": speed}
    if isinstance(scenario.link, LinkConfig):
        facts |= {"slot_ns": scenario.link.slot_ns, "t1_ms": scenario.link.t1_ms, "n2": scenario.link.n2}
    return facts | {"scenario": scenario.name}


def write_summary(folder: Path, summary: Summary) -> None:
    """Write summary.json."""
    text = json.dumps(summary.document(), indent=1) + "\n"
    (folder / "summary.json").write_text(text, encoding="utf-8")


def write_radio(folder: Path, link: PacketLink, *, now_ns: int, number: int = 0) -> None:
    """Write the error trace of the radio up to now, which `export errors` reads.

    A GSM call needs none, because its log has every frame.

    Parameters
    ----------
    folder : Path
    link : PacketLink
    now_ns : int
        Link time.
    number : int
        Number of the run in its folder, from 0; for later runs of a measurement it is in the file's name.
    """
    if isinstance(link, CdpdLink | BluetoothLink):
        trace = link.radio(now_ns)
        if trace is not None:
            (folder / "truth").mkdir(exist_ok=True)
            path = folder / RADIO
            path = path.with_stem(f"{path.stem}-{number}") if number else path
            path.write_text(trace.text(), encoding="utf-8")


def run_ns(folder: Path) -> int:
    """Return the length of a run in link time by its manifest; 0 if the manifest does not contain it.

    A run in real time writes it, because collectors start before the link and end after it.
    """
    manifest = read_manifest(folder)
    noted = None if manifest is None else manifest.variables.more.get(LINK_NS)
    if isinstance(noted, int):
        return max(0, noted)
    runs = [] if manifest is None else manifest.collectors
    ended_ns = max((run.ended_ns for run in runs if run.ended_ns is not None), default=0)
    began_ns = min((run.started_ns for run in runs if run.started_ns is not None), default=ended_ns)
    speed = 1 if manifest is None else manifest.variables.speed or 1
    return round(max(0, ended_ns - began_ns) * speed)


def log_files(folder: Path) -> Iterator[LogFile]:
    """Yield the manifest entry of every log (path, size, checksum), in order of paths."""
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_file() and relative.name != MANIFEST:
            yield LogFile(relative.as_posix(), _host(relative), path.stat().st_size, checksum(path))


def _host(relative: Path) -> str:
    folder = relative.parts[0]
    return folder if folder in SIDES or folder.startswith("mobile-") else ""


# What the modems of a sector said in a run, each second: a log of the radio, as the table `radio` in CSV.
#
# Only a link with a pilot has one: the other links say nothing of a radio in a run of a scenario's traffic.


PILOT_LOG = "radio.csv"
"""Radio log in the folder of each mobile."""
PILOT_HEADER = "time_ns,source,rat,state,ecio_db,bler_pct,physical_cell_id\n"
_SOURCE, _RAT = "link", "CDMA"


def has_pilot(scenario: Scenario) -> bool:
    """Return whether the link has a pilot channel, whose Ec/Io its modems report."""
    return isinstance(scenario.link, Cdma2000Config)


def pilot_line(reading: RadioReading, *, time_ns: int) -> str:
    """Return the log line of one reading; values that the modem does not know are empty.

    Parameters
    ----------
    reading : RadioReading
    time_ns : int
        Time by the mobile's clock, ns since 1970.
    """
    numbers = ("" if value is None else f"{value:.2f}" for value in (reading.ecio_db, reading.bler_percent))
    cell = "" if reading.pilot_pn is None else reading.pilot_pn
    return f"{time_ns},{_SOURCE},{_RAT},{reading.state},{','.join(numbers)},{cell}\n"
