"""Runs of the bundled scenarios, kept in memory for the tests that look at them."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.simulator.network import NetworkObserver
from multitracer.lab.simulator.run import VirtualRun
from multitracer.lab.tcp.packet import unwrap
from multitracer.protocols.link_events import FrameSent, PacketQueued
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.lab.channel.gsm import OnAir
    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.scenario.summary import Summary
    from multitracer.lab.simulator.host import SimulatedSocket
    from multitracer.lab.tcp.packet import TcpPacket
    from multitracer.protocols.link_events import LinkEvent


@dataclass(frozen=True)
class SeenPacket:
    time_s: float
    side: str
    outgoing: bool
    packet: TcpPacket


@dataclass(frozen=True)
class SeenState:
    time_s: float
    side: str
    cwnd_bytes: int
    rto_s: float
    rtt_s: float | None
    backoff: int
    window_bytes: int
    send_queue_bytes: int


@dataclass
class Watched(NetworkObserver):
    """A finished run: its summary and all that its observers were told."""

    scenario: Scenario
    packets: list[SeenPacket] = field(default_factory=list)
    states: list[SeenState] = field(default_factory=list)
    link: list[tuple[str, LinkEvent]] = field(default_factory=list)
    frames: list[OnAir] = field(default_factory=list)
    summary: Summary = field(init=False)

    def packet(self, host: str, packet: TcpPacket | None, data: bytes, *, now_ns: int, outgoing: bool) -> None:
        del data
        if packet is not None:
            self.packets.append(SeenPacket(now_ns / NS_PER_S, host, outgoing, packet))

    def state(self, host: str, socket: SimulatedSocket, *, now_ns: int) -> None:
        sender = socket.connection.sender
        latest_ns = sender.rto.latest_ns
        self.states.append(
            SeenState(
                time_s=now_ns / NS_PER_S,
                side=host,
                cwnd_bytes=sender.congestion.cwnd_bytes,
                rto_s=sender.rto.rto_ns / NS_PER_S,
                rtt_s=None if latest_ns is None else latest_ns / NS_PER_S,
                backoff=sender.rto.backoff,
                window_bytes=sender.snd_wnd_bytes,
                send_queue_bytes=len(sender.stream),
            )
        )

    def link_events(self, host: str, events: list[LinkEvent]) -> None:
        self.link += [(host, event) for event in events]

    def on_air(self, frame: OnAir) -> None:
        self.frames.append(frame)

    # --- what tests ask ---

    def data(self, side: str, *, outgoing: bool, sender: str = "mobile") -> list[tuple[float, int]]:
        """Return (time, first byte) of the data segments of `sender` seen at `side`, from byte 0."""
        from_sender = outgoing == (side == sender)
        seen = [p for p in self.packets if p.side == side and p.outgoing == outgoing and p.packet.segment.payload]
        assert from_sender
        base = seen[0].packet.segment.seq
        return [(p.time_s, unwrap(p.packet.segment.seq - base, near=0)) for p in seen if p.packet.checksum_ok]

    def acks(self, side: str) -> list[tuple[float, int]]:
        """Return (time, ACK number) of the pure ACKs that arrive at `side`."""
        seen = [p for p in self.packets if p.side == side and not p.outgoing and not p.packet.segment.payload]
        base = seen[0].packet.segment.ack
        return [(p.time_s, p.packet.segment.ack - base) for p in seen[1:]]

    def sent_frames(self, side: str) -> list[FrameSent]:
        """Return the information frames with characters that `side` sent."""
        events = [event for where, event in self.link if where == side and isinstance(event, FrameSent)]
        return [event for event in events if event.offset_bytes is not None]

    def queue(self, side: str) -> list[int]:
        """Return the length of the interface queue at each arrival."""
        return [e.queue_packets for where, e in self.link if where == side and isinstance(e, PacketQueued)]

    def bursts(self) -> list[tuple[float, int]]:
        """Return (time, segments) of what the mobile sent at one instant."""
        times = [time for time, _ in self.data("mobile", outgoing=True)]
        return sorted({time: times.count(time) for time in times}.items())


def slope(points: list[tuple[float, int]]) -> float:
    """Return the least-squares slope."""
    times, values = np.array(points, dtype=float).T
    return float(np.polyfit(times - times[0], values, 1)[0])


def gaps(times: list[float]) -> list[float]:
    """Return the distances of successive times."""
    return [later - earlier for earlier, later in pairwise(times)]


@functools.cache
def watched(name: str) -> Watched:
    """Return the run of a bundled scenario."""
    return watch(load_scenario(name))


def watch(scenario: Scenario, *, seed: int | None = None) -> Watched:
    """Run a scenario."""
    seen = Watched(scenario)
    seen.summary = VirtualRun(scenario, seed=seed, observers=[seen]).run()
    return seen
