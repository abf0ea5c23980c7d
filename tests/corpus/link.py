"""Two hosts of our own TCP on a link that loses and stalls, captured at both ends, the truth written down."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Literal

from multitracer.lab.simulator.host import BulkSender, SimulatedHost, SimulatedSocket, StreamReader
from multitracer.lab.simulator.network import EventLoop
from multitracer.lab.tcp.packet import Endpoint, TcpPacket, sequence_length
from multitracer.lab.tcp.state import CongestionState
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from multitracer.protocols.ranges import RangeSet
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from multitracer.lab.tcp.profile import TcpProfile

POINTS = ("mobile", "middle", "fixed")
"""Where captures are made: at the sender of the data, half-way, and at its receiver."""
ADDRESSES = {"mobile": bytes([10, 1, 1, 1]), "fixed": bytes([10, 1, 1, 2])}
FIRST_PORT = 10_000
"""Each transfer has a port and an hour of its own, so that their captures can be one file."""
_FAR = {"mobile": "fixed", "fixed": "mobile"}
_BEGIN_NS = 1_000_000_000 * NS_PER_S
_SNAP_BYTES = 96
_LONGEST_NS = 3600 * NS_PER_S
"""No transfer takes longer; also between the begins of two of them."""


@dataclass(frozen=True)
class Drive:
    """What the link does; times in ns."""

    rate_bps: int
    delay_ns: int
    queue_packets: int
    loss: float
    """Probability that a data packet is lost."""
    ack_loss: float
    """Probability that a packet of the other way is lost."""
    stalls: tuple[tuple[int, int, str], ...]
    """(begin, duration, "data", "acks" or "both"): nothing is delivered that way; what is sent waits."""
    handshake_ns: int
    """How much longer the very first packet takes each way: the radio channel is set up."""


@dataclass(frozen=True)
class Habits:
    """What hosts make of SACKs that RFC 2018 lets them."""

    sender: Literal["heeds", "forgets", "ignores"] = "heeds"
    """It keeps what SACKs said over a timeout, drops it then (section 8), or never reads them."""
    reneges: float = 0
    """Probability that the receiver throws away what it holds out of order, at each arrival (section 8)."""


def capture_file(path: Path, captures: Iterable[list[bytes]]) -> Path:
    """Write captures (records of packets) as one file, one after the other."""
    with path.open("wb") as file:
        file.write(pcap_header(snap_bytes=_SNAP_BYTES))
        for records in captures:
            file.writelines(records)
    return path


@dataclass
class Sent:
    """A packet that left a host, and what became of it."""

    sent_ns: int
    begin: int
    end: int
    """Sequence units on the sender's scale, the SYN is 0."""
    ack: int
    """Units acknowledged on the other's scale; -1 without ACK."""
    blocks: tuple[tuple[int, int], ...]
    resent: bool
    cause: str
    arrived_ns: int | None = None
    frames: dict[str, int] = field(default_factory=dict)
    """Its number in the captures on its way: "middle", and the host that it went to."""


@dataclass
class Transfer:
    """One transfer over one path; also the `Network` of both hosts."""

    path: Drive
    profile: TcpProfile
    size_bytes: int
    seed: int
    """Also which port and hour it has."""
    habits: Habits = Habits()
    sent: dict[str, list[Sent]] = field(default_factory=lambda: {side: [] for side in ADDRESSES})
    captures: dict[str, list[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._loop = EventLoop()
        self._luck = Random(self.seed)
        self._free_ns = dict.fromkeys(ADDRESSES, 0)
        self._last_ns = dict.fromkeys(ADDRESSES, 0)
        self._waiting = dict.fromkeys(ADDRESSES, 0)
        self._seen = {side: RangeSet() for side in ADDRESSES}
        self._whims = Random(f"whims {self.seed}")
        self._reneged: list[tuple[int, RangeSet]] = []
        self._isn: dict[str, int] = {}
        self._timeouts = dict.fromkeys(ADDRESSES, 0)
        self._after_timeout = dict.fromkeys(ADDRESSES, False)
        self.captures = {point: [] for point in POINTS}
        self.hosts = {
            side: SimulatedHost(side, address=ADDRESSES[side], profile=self.profile, network=self)  # type: ignore[arg-type]
            for side in ADDRESSES
        }

    def run(self) -> None:
        """Send the stream from the mobile to the fixed host."""
        port = FIRST_PORT + self.seed
        self.hosts["fixed"].listen(port, StreamReader)
        remote = Endpoint(ADDRESSES["fixed"], port)
        self.hosts["mobile"].connect(remote, BulkSender(size_bytes=self.size_bytes))
        self._loop.run(until_ns=_LONGEST_NS, stop=self._is_over)

    def _is_over(self) -> bool:
        sockets = [socket for host in self.hosts.values() for socket in host.sockets]
        return len(sockets) > 1 and all(socket.is_done for socket in sockets)

    # --- the hosts' world ---

    @property
    def now_ns(self) -> int:
        """Virtual time."""
        return self._loop.now_ns

    def at(self, time_ns: int, call: Callable[[], None]) -> None:
        """Call something later."""
        self._loop.at(time_ns, call)

    def initial_sequence_number(self) -> int:
        """Return a random number."""
        return self._luck.getrandbits(32)

    def saw_state(self, host: SimulatedHost, socket: SimulatedSocket) -> None:
        """States are looked at when a packet leaves."""

    def saw_packet(self, host: SimulatedHost, packet: TcpPacket, data: bytes, *, outgoing: bool) -> None:
        """Capture a packet at a host; note what leaves."""
        records = self._record(host.name, data)
        if outgoing:
            self._note(host, packet, frame=len(records))
        elif host.name == "mobile" and self.habits.sender == "ignores":
            host.sockets[0].connection.sender.sack = False

    def _record(self, point: str, data: bytes) -> list[bytes]:
        time_ns = _BEGIN_NS + self.seed * _LONGEST_NS + self.now_ns
        self.captures[point].append(pcap_record(data, time_ns=time_ns, snap_bytes=_SNAP_BYTES))
        return self.captures[point]

    def _pass(self, note: Sent, data: bytes) -> None:
        note.frames["middle"] = len(self._record("middle", data))

    def _note(self, host: SimulatedHost, packet: TcpPacket, *, frame: int) -> None:
        segment, side = packet.segment, host.name
        isn = self._isn.setdefault(side, segment.seq)
        begin = (segment.seq - isn) % 2**32
        end = begin + sequence_length(segment)
        seen = self._seen[side]
        resent = begin < end and any(left < end and right > begin for left, right in seen)
        seen.add(begin, end)
        far = self._isn.get(_FAR[side], 0)
        blocks = tuple(((left - far) % 2**32, (right - far) % 2**32) for left, right in segment.sack_blocks)
        ack = (segment.ack - far) % 2**32 if segment.flags & 0x10 else -1
        cause = self._cause(host) if resent else ""
        self.sent[side].append(Sent(self.now_ns, begin, end, ack, blocks, resent, cause))
        self.sent[side][-1].frames[side] = frame

    def _cause(self, host: SimulatedHost) -> str:
        """Return why the host sends again now, by its own counters and state."""
        sender = host.sockets[0].connection.sender
        expired = sender.counters.timeouts > self._timeouts[host.name]
        self._timeouts[host.name] = sender.counters.timeouts
        if expired:
            if self.habits.sender == "forgets":
                sender.scoreboard.clear()
            self._after_timeout[host.name] = True
            return "timeout"
        if sender.ca_state is CongestionState.LOSS and self._after_timeout[host.name]:
            return "slow-start"
        self._after_timeout[host.name] = False
        return "fast" if sender.ca_state in {CongestionState.RECOVERY, CongestionState.LOSS} else "unknown"

    # --- the link ---

    def transmit(self, host: SimulatedHost, data: bytes) -> bool:
        """Send a packet at the link's rate behind those before it; a full queue drops it without a word."""
        side, note = host.name, self.sent[host.name][-1]
        way = "data" if side == "mobile" else "acks"
        if self._waiting[side] >= self.path.queue_packets:
            return True
        if self._luck.random() < (self.path.loss if way == "data" else self.path.ack_loss):
            if self._whims.random() < 0.5:  # behind the middle
                halfway_ns = max(self.now_ns, self._free_ns[side], self._last_ns[side] - self.path.delay_ns)
                self._loop.at(halfway_ns + self.path.delay_ns // 2, partial(self._pass, note, data))
            return True
        duration_ns = len(data) * 8 * NS_PER_S // self.path.rate_bps
        begin_ns = self._not_stalled(max(self.now_ns, self._free_ns[side]), way)
        self._free_ns[side] = begin_ns + duration_ns
        extra_ns = self.path.handshake_ns if note.begin == 0 and note.end == 1 else 0
        arrival_ns = max(self._free_ns[side] + self.path.delay_ns + extra_ns, self._last_ns[side])
        self._last_ns[side] = arrival_ns
        self._waiting[side] += 1
        self._loop.at(arrival_ns - self.path.delay_ns // 2, partial(self._pass, note, data))
        self._loop.at(arrival_ns, partial(self._arrive, side, note, data))
        return True

    def _not_stalled(self, time_ns: int, way: str) -> int:
        for begin_ns, duration_ns, which in self.path.stalls:
            if which in (way, "both") and begin_ns <= time_ns < begin_ns + duration_ns:
                time_ns = begin_ns + duration_ns
        return time_ns

    def _arrive(self, side: str, note: Sent, data: bytes) -> None:
        self._waiting[side] -= 1
        note.arrived_ns = self.now_ns
        note.frames[_FAR[side]] = len(self.captures[_FAR[side]]) + 1
        if side == "mobile" and self.habits.reneges:
            self._renege(self.hosts["fixed"])
        self.hosts[_FAR[side]].deliver(data)

    def _renege(self, host: SimulatedHost) -> None:
        """Throw away, at random, what a receiver holds out of order."""
        receiver = host.sockets[0].connection.receiver if host.sockets else None
        if receiver is None or not receiver._early or self._whims.random() >= self.habits.reneges:
            return
        self._reneged.append((self.now_ns, receiver._ranges))
        receiver._early, receiver._ranges, receiver._recent = [], RangeSet(), []

    # --- the truth ---

    def verdicts(self, side: str, *, point: str = "") -> dict[int, tuple[str, str]]:
        """Return (cause, necessity) of a side's retransmissions, by frame of its or `point`'s capture."""
        return {
            sent.frames[point or side]: (sent.cause, self._necessity(side, at))
            for at, sent in enumerate(self.sent[side])
            if sent.resent and (point or side) in sent.frames
        }

    def _necessity(self, side: str, at: int) -> str:
        resent = self.sent[side][at]
        copies = [each for each in self.sent[side][at:] if each.begin == resent.begin < each.end]
        came_ns = min((c.arrived_ns for c in copies if c.arrived_ns is not None), default=_LONGEST_NS)
        had = RangeSet()
        for earlier in self.sent[side][:at]:
            if not self._is_gone(earlier, came_ns):
                had.add(earlier.begin, earlier.end)
        if not had.covers(resent.begin, resent.end):
            return "necessary"
        kept_ns = self._thrown_ns(resent.begin, came_ns)
        told = any(
            ack.arrived_ns is not None and kept_ns < ack.sent_ns < came_ns and _covers(ack, resent)
            for ack in self.sent[_FAR[side]]
        )
        return "spurious" if told else "ack-lost"

    def _is_gone(self, sent: Sent, before_ns: int) -> bool:
        """Return whether a packet never arrived, or the receiver threw its data away before a moment."""
        return sent.arrived_ns is None or sent.arrived_ns <= self._thrown_ns(sent.begin, before_ns)

    def _thrown_ns(self, unit: int, before_ns: int) -> int:
        """Return when the receiver last threw a unit away before a moment; -1 if it did not."""
        times = [ns for ns, thrown in self._reneged if ns < before_ns and thrown.holding(unit) is not None]
        return max(times, default=-1)


def _covers(ack: Sent, resent: Sent) -> bool:
    sacked = any(left <= resent.begin and resent.end <= right for left, right in ack.blocks)
    return ack.ack >= resent.end or sacked
