"""A path between two hosts, fast enough for hundreds of cases: queues, serialization, jitter, losses, clocks.

Window-limited TCP without congestion control runs over two first-in-first-out links, one each way.
The captures of both hosts are made from it, each with its own clock and with packets missing. Every number
is seeded.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from multitracer.capture import CaptureTables
from multitracer.captured import CaptureMark, SourceFile
from multitracer.tables import FLOWS, NA, SEGMENTS, SYN_OPTIONS, Table
from multitracer.units import NS_PER_S

EPOCH_S = 1_795_000_000
MOBILE, FIXED = bytes([10, 0, 0, 1]), bytes([10, 9, 9, 2])
UP, DOWN = 0, 1
_SYN, _ACK, _FIN, _PSH = 0x02, 0x10, 0x01, 0x08


@dataclass(frozen=True, kw_only=True)
class Path:
    """What one direction does to packets; `jitter` is drawn for each packet and never negative."""

    rate_bps: float
    propagation_s: float = 0.04
    jitter: str = "uniform"
    jitter_s: float = 0.0
    loss: float = 0.0
    queue_bytes: float = 1e9
    overhead_bytes: int = 0
    slot_s: float = 0.0
    overtaking: bool = False


@dataclass(frozen=True, kw_only=True)
class Clock:
    """An error of the fixed host's clock: ahead by `offset_s` at the start, `skew_ppm` faster, with steps."""

    offset_s: float = 0.0
    skew_ppm: float = 0.0
    steps: tuple[tuple[float, float], ...] = ()
    """(When, by how much), in seconds."""


@dataclass(frozen=True, kw_only=True)
class Case:
    up: Path
    down: Path
    duration_s: float = 200.0
    mss: int = 1448
    window: int = 20
    transfer_bytes: int = 1 << 60
    think_s: float = 2.0
    directions: tuple[int, ...] = (UP,)
    delayed_acks: int = 1
    mobile: Clock = Clock()
    fixed: Clock = Clock()
    missing: float = 0.0
    seed: int = 0


@dataclass
class _Link:
    path: Path
    luck: Any
    free_s: float = 0.0
    latest_s: float = 0.0

    def carry(self, now: float, size: int) -> float | None:
        """Return when a packet that is sent now arrives."""
        path = self.path
        if self.free_s - now > path.queue_bytes * 8 / path.rate_bps:
            return None
        self.free_s = max(now, self.free_s) + (size + path.overhead_bytes) * 8 / path.rate_bps
        if self.luck.random() < path.loss:
            return None
        arrives = self.free_s + path.propagation_s + _jitter(path, self.luck)
        if path.slot_s:
            arrives = np.ceil(arrives / path.slot_s) * path.slot_s
        if not path.overtaking:
            arrives = self.latest_s = max(arrives, self.latest_s + 1e-6)
        return float(arrives)


def _jitter(path: Path, luck: Any) -> float:
    if not path.jitter_s:
        return 0.0
    if path.jitter == "uniform":
        return luck.uniform(0, path.jitter_s)
    if path.jitter == "exponential":
        return luck.exponential(path.jitter_s)
    if path.jitter == "normal":
        return max(0.0, luck.normal(2.5 * path.jitter_s, path.jitter_s))
    if path.jitter == "half-normal":
        return abs(luck.normal(0, path.jitter_s))
    raise ValueError(path.jitter)


@dataclass
class Packet:
    sender: int
    sent_s: float
    arrived_s: float | None
    flow: int
    seq: int
    ack: int
    payload: int
    flags: int
    ip_id: int
    tsval: int
    tsecr: int = 0


@dataclass
class _World:
    case: Case
    luck: Any
    links: list[_Link]
    packets: list[Packet] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    ids: list[int] = field(default_factory=lambda: [7, 30_000])
    serial: int = 0
    now: float = 0.0

    def send(  # noqa: PLR0917
        self, now: float, sender: int, flow: int, seq: int, ack: int, payload: int, flags: int
    ) -> float | None:
        size = payload + (60 if flags & _SYN else 52)
        self.ids[sender] = (self.ids[sender] + 1) % 65536
        arrives = self.links[sender].carry(now, size)
        packet = Packet(
            sender, now, arrives, flow, seq % 2**32, ack % 2**32, payload, flags, self.ids[sender], int(now * 1000)
        )
        self.packets.append(packet)
        return arrives

    def at(self, time: float, call: Any, *args: Any) -> None:
        self.serial += 1
        heapq.heappush(self.events, (time, self.serial, call, args))


class _Transfer:
    """One connection: handshake by the mobile, then bytes from one side, ACKs from the other."""

    def __init__(self, network: _World, number: int, now: float) -> None:
        case = network.case
        self.w, self.flow = network, number
        self.sender = case.directions[number % len(case.directions)]
        self.isn = [int(x) for x in network.luck.integers(0, 2**32, 2)]
        self.total = case.transfer_bytes
        self.next, self.una, self.cwnd = 0, 0, 2.0
        self.got: set[int] = set()
        self.expected, self.unacked, self.dup = 0, 0, 0
        self.closed = False
        self.recover = -1
        self._handshake(now)

    def _handshake(self, now: float) -> None:
        arrives = self.w.send(now, UP, self.flow, self.isn[UP], 0, 0, _SYN)
        back = None
        if arrives is not None:
            back = self.w.send(arrives, DOWN, self.flow, self.isn[DOWN], self.isn[UP] + 1, 0, _SYN | _ACK)
        if back is None:
            self.w.at(now + 1.0, self._handshake, now + 1.0)
            return
        self.w.at(back, self._open, back, arrives)

    def _open(self, now: float, there: float) -> None:
        self.w.send(now, UP, self.flow, self.isn[UP] + 1, self.isn[DOWN] + 1, 0, _ACK)
        self.w.at(now if self.sender == UP else now + 0.001, self._fill, None)
        self.w.at(now + 1.0, self._timer, self.una)

    def _fill(self, _: Any, now: float | None = None) -> None:
        now = self.w.now if now is None else now
        window = min(self.cwnd, self.w.case.window) * self.w.case.mss
        while self.next < self.total and self.next - self.una < window and now < self.w.case.duration_s:
            self._data(now, self.next)
            self.next += min(self.w.case.mss, self.total - self.next)

    def _data(self, now: float, offset: int) -> None:
        size = min(self.w.case.mss, self.total - offset)
        me, peer = self.sender, 1 - self.sender
        arrives = self.w.send(now, me, self.flow, self.isn[me] + 1 + offset, self.isn[peer] + 1, size, _ACK | _PSH)
        if arrives is not None:
            self.w.at(arrives, self._arrived, offset, size)

    def _arrived(self, offset: int, size: int) -> None:
        in_order = offset == self.expected
        self.got.add(offset)
        while self.expected in self.got:
            self.got.discard(self.expected)
            self.expected += min(self.w.case.mss, self.total - self.expected)
        self.unacked += 1
        if not in_order or self.unacked >= self.w.case.delayed_acks or self.expected >= self.total:
            self.unacked = 0
            me, peer = 1 - self.sender, self.sender
            now = self.w.now
            arrives = self.w.send(now, me, self.flow, self.isn[me] + 1, self.isn[peer] + 1 + self.expected, 0, _ACK)
            if arrives is not None:
                self.w.at(arrives, self._acked, self.expected)

    def _acked(self, number: int) -> None:
        now = self.w.now
        if number > self.una:
            self.una, self.dup = number, 0
            self.cwnd += 1 if self.cwnd < self.w.case.window else 0
            if number <= self.recover:
                self._data(now, number)
        elif number == self.una and self.next > self.una:
            self.dup += 1
            if self.dup == 3 and self.una > self.recover:
                self.recover, self.cwnd = self.next, max(2.0, self.cwnd / 2)
                self._data(now, self.una)
        if self.una >= self.total and not self.closed:
            self.closed = True
            start = now + self.w.case.think_s * (0.5 + self.w.luck.random())
            if start < self.w.case.duration_s:
                self.w.at(start, _Transfer, self.w, self.flow + 1, start)
            return
        self._fill(None)

    def _timer(self, una: int) -> None:
        now = self.w.now
        if self.closed or now > self.w.case.duration_s:
            return
        wait = 2.0 + self.w.case.window * self.w.case.mss * 8 / self.w.links[self.sender].path.rate_bps
        if self.una == una and self.next > una:
            self._data(now, una)
        self.w.at(now + wait, self._timer, self.una)


def run(case: Case) -> list[Packet]:
    """Return every packet that was sent, in order of sending."""
    luck = np.random.default_rng(case.seed)
    network = _World(case, luck, [_Link(case.up, luck), _Link(case.down, luck)])
    network.at(0.5, _Transfer, network, 0, 0.5)
    while network.events:
        time, _, call, args = heapq.heappop(network.events)
        network.now = time
        call(*args)
    return network.packets


def stamp(clock: Clock, times_s: Any) -> Any:
    """Return what a host's clock shows, int64 ns."""
    times = np.asarray(times_s, dtype=np.float64)
    error = clock.offset_s + clock.skew_ppm * 1e-6 * times
    for when, jump in clock.steps:
        error = error + np.where(times >= when, jump, 0.0)
    return EPOCH_S * NS_PER_S + np.rint((times + error) * 1e9).astype(np.int64)


def captures(case: Case, packets: list[Packet] | None = None) -> tuple[CaptureTables, CaptureTables]:
    """Return what was captured at the mobile and at the fixed host."""
    packets = run(case) if packets is None else packets
    luck = np.random.default_rng(case.seed + 1_000_003)
    return (
        _capture(case, packets, UP, case.mobile, luck, "mobile.pcap"),
        _capture(case, packets, DOWN, case.fixed, luck, "fixed.pcap"),
    )


def _capture(case: Case, packets: list[Packet], at: int, clock: Clock, luck: Any, path: str) -> CaptureTables:
    stamped = [(p.sent_s if p.sender == at else p.arrived_s, p) for p in packets]
    passed = sorted(((t, p) for t, p in stamped if t is not None), key=lambda tp: tp[0])
    seen = [tp for tp in passed if luck.random() >= case.missing]
    flows = sorted({p.flow for _, p in seen})
    first: dict[int, int] = {}
    for _, p in seen:
        first.setdefault(p.flow, p.sender)
    row_of = {flow: i for i, flow in enumerate(flows)}
    times = stamp(clock, [t for t, _ in seen])
    column = {c.name: np.zeros(len(seen), dtype=c.dtype) for c in SEGMENTS}
    column["time_ns"] = times
    column["frame"] = np.arange(1, len(seen) + 1, dtype=np.uint32)
    flow = [2 * row_of[p.flow] + (p.sender != first[p.flow]) for _, p in seen]
    column["flow"] = np.array(flow, dtype=np.int32)
    fields = {"payload_bytes": "payload"} | {name: name for name in ("seq", "ack", "flags", "ip_id", "tsval")}
    for name, attribute in fields.items():
        column[name] = np.array([getattr(p, attribute) for _, p in seen], dtype=column[name].dtype)
    column["marks"][:] = CaptureMark.HAS_TIMESTAMPS
    syn = np.flatnonzero(column["flags"] & _SYN)
    options = {
        "row": syn, "mss_bytes": np.full(len(syn), case.mss + 12), "window_scale": np.full(len(syn), NA),
        "sack_permitted": np.ones(len(syn), bool), "mptcp": np.zeros(len(syn), bool),
        "fast_open": np.zeros(len(syn), bool),
    }  # fmt: skip
    file = SourceFile(path, "pcap", packets=len(seen))
    file.first_ns, file.last_ns = (int(times.min()), int(times.max())) if len(times) else (None, None)
    return CaptureTables([file], Table(SEGMENTS, column), _flows(flows, first), syn_options=Table(SYN_OPTIONS, options))


def _flows(numbers: list[int], first: dict[int, int]) -> Table:
    ends = {UP: MOBILE, DOWN: FIXED}
    column = {c.name: np.zeros(len(numbers), dtype=c.dtype) for c in FLOWS}
    for i, number in enumerate(numbers):
        a = first[number]
        column["ip_version"][i] = 4
        column["address_a"][i] = np.void(ends[a].ljust(16, b"\0"))
        column["address_b"][i] = np.void(ends[1 - a].ljust(16, b"\0"))
        column["port_a"][i], column["port_b"][i] = (
            (20_000 + number % 40_000, 5001) if a == UP else (5001, 20_000 + number % 40_000)
        )
    column["vlan"][:] = NA
    return Table(FLOWS, column)


def true_offset_ns(case: Case, mobile_ns: Any) -> Any:
    """Return fixed less mobile clock at stamps of the mobile, float64 ns; the mobile's has no steps."""
    m, f = case.mobile, case.fixed
    times = (np.asarray(mobile_ns, dtype=np.int64) - EPOCH_S * NS_PER_S) / 1e9
    true = (times - m.offset_s) / (1 + m.skew_ppm * 1e-6)
    return (stamp(f, true) - np.asarray(mobile_ns, dtype=np.int64)).astype(np.float64)


def with_clock(case: Case, **fields: Any) -> Case:
    return replace(case, fixed=Clock(**fields))
