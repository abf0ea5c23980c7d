"""A link with a capacity trace in Mahimahi's format: one line for each delivery opportunity.

Input: IP packets at two sides and a `CapacityTrace` for one direction or both. Output: the same packets,
as many octets as the opportunities carry, after a constant delay. `CapacityLink` defines what an opportunity
carries; `Opportunities` finds the next one in time that does not depend on their number.

What must hold: packets are lost only by a full queue, a script or the end of the trace, and order is kept.
The work of a run grows with the number of packets, not with the number of opportunities. Nothing is random.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.shared.interface import LinkInterface, SideJournal, ip_facts
from multitracer.lab.channel.shared.packet_link import FAR, SIDES, LinkDelivery, RadioReading, one_of_two
from multitracer.lab.channel.shared.queue import QueueConfig
from multitracer.lab.channel.shared.scheduler import Agenda, Script
from multitracer.protocols.capacity_trace import OPPORTUNITY_BYTES
from multitracer.protocols.link_events import PieceReceived, PieceSent
from multitracer.units import NS_PER_MS, NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from multitracer.lab.channel.shared.packet_link import HostName, Side
    from multitracer.lab.channel.shared.scheduler import ScriptEvent
    from multitracer.protocols.capacity_trace import CapacityTrace
    from multitracer.protocols.link_events import LinkEvent

# The parameters of a link that follows capacity traces.


_MOST_DELAY_NS = 60 * NS_PER_S
"""Maximum delay, more than any satellite has (not measured)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedConfig:
    """Configuration of one direction: the capacity trace (key `trace` of a scenario) and the delay.

    Without a trace, packets only have the delay.
    """

    trace: CapacityTrace | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityConfig:
    """A Mahimahi link: a queue, delivery opportunities and a delay in each direction."""

    queue: QueueConfig = field(default_factory=lambda: QueueConfig(limit_packets=100))
    """Queue before the opportunities, in each direction, as in a router: hosts are not informed of its drops.

    A limit of 100 packets is our choice: 1.2 s at 1 Mbit/s."""
    delay_ns: int = 20 * NS_PER_MS
    """One-way delay after the opportunity, in each direction (our choice: a core network and a part of the Internet).
    """
    at_end: Literal["repeat", "stop"] = "repeat"
    """What happens after the last line of a trace: repeat the trace, or end the link and the run."""
    overhead_bytes: int = 4
    """Additional octets of each IP packet (Mahimahi: the header of its TUN device)."""
    up: TracedConfig = field(default_factory=TracedConfig)
    down: TracedConfig = field(default_factory=TracedConfig)

    def __post_init__(self) -> None:
        if not 0 <= self.delay_ns <= _MOST_DELAY_NS:
            raise LocalProtocolError(f'capacity link: "delay" must be 0 to {_MOST_DELAY_NS // NS_PER_S} s')
        if not 0 <= self.overhead_bytes <= 1_000:
            raise LocalProtocolError('capacity link: "overhead_bytes" must be 0 to 1,000')

    @property
    def traces(self) -> dict[str, CapacityTrace]:
        """Capacity traces by direction; a direction without a trace is absent."""
        named = {"up": self.up.trace, "down": self.down.trace}
        return {direction: trace for direction, trace in named.items() if trace is not None}


# The opportunities of a trace over the time of a run, found in steps that do not depend on their number.


class DeliveryOpportunity(NamedTuple):
    """A time at which the link can send one packet or some octets."""

    time_ns: int
    opportunities: int
    """Number of opportunities at this time."""


class Opportunities:
    """The delivery opportunities of a trace from link time 0 on; the trace is used once or repeated.

    Parameters
    ----------
    trace : CapacityTrace
    repeats : bool
        Whether the trace repeats; a line with time 0 then coincides with the end of the previous round.
    """

    def __init__(self, trace: CapacityTrace, *, repeats: bool) -> None:
        stamps, counts = np.unique(trace.stamps_ms, return_counts=True)
        self._stamps_ms: list[int] = stamps.tolist()
        self._counts: list[int] = counts.tolist()
        self._lasts_ms = trace.lasts_ms
        self._repeats = repeats

    def after(self, time_ns: int) -> DeliveryOpportunity | None:
        """Return the first delivery opportunity after a time.

        None if the trace is over and does not repeat.
        """
        time_ms = time_ns // NS_PER_MS
        round_, in_round_ms = divmod(time_ms, self._lasts_ms)
        if not self._repeats and round_ > 0:
            return None
        place = bisect_right(self._stamps_ms, in_round_ms)  # there is one: the last stamp is the length
        at_ms = round_ * self._lasts_ms + self._stamps_ms[place]
        count = self._counts[place]
        is_at_end = place == len(self._stamps_ms) - 1
        if is_at_end and self._repeats and self._stamps_ms[0] == 0:
            count += self._counts[0]
        return DeliveryOpportunity(at_ms * NS_PER_MS, count)


# Packets over delivery opportunities: the rules of Mahimahi's mm-link.
#
#     interface queue → opportunities of a trace, 1504 octets each → delay → the other side
#
# Rules of the file:
#
# - At an opportunity 1504 octets leave. A packet that is longer than what is left goes on at the next one;
#   what
#   the end of a packet leaves of an opportunity is the next packet's, if one waits.
# - An opportunity that finds the queue empty is lost: nothing is saved up for later.
# - A packet that comes in the very millisecond of an opportunity waits for the next one.
# - What is on its way over opportunities has left the queue, and does not count towards its limit.
# - A direction without a trace has only the delay.


_KINDS = {"drop"}


class CapacityLink:
    """A `PacketLink` over capacity traces.

    Parameters
    ----------
    config : CapacityConfig
    seed : int
        Has no effect: nothing in this link is random.
    script : sequence of ScriptEvent
        drop, counted from the first packet.
    """

    def __init__(self, config: CapacityConfig, *, seed: int = 0, script: Sequence[ScriptEvent] = ()) -> None:
        del seed
        self.config = config
        self._agenda = Agenda()
        self._out: list[LinkDelivery] = []
        self._journals = {side: SideJournal(NS_PER_MS) for side in SIDES}
        self._under_way = 0
        self._ways = {side: self._way(side) for side in SIDES}
        self._script = Script(script, kinds=_KINDS, agenda=self._agenda, play=self._play)
        self.is_dropped = False
        """Whether the link has ended, with a trace that does not repeat."""
        if config.at_end == "stop" and config.traces:
            ends_ns = min(trace.lasts_ns for trace in config.traces.values())
            # its last opportunity is of the same time, and comes before
            self._agenda.at(ends_ns, lambda now_ns: self._agenda.at(now_ns, self._stop))

    def _way(self, side: Side) -> _Way:
        trace = (self.config.up if side == "mobile" else self.config.down).trace
        return _Way(
            self.config,
            trace,
            journal=self._journals[side],
            agenda=self._agenda,
            left=lambda packet, offset, now_ns: self._left(side, packet, offset, now_ns),
        )

    # --- packets ---

    @property
    def hosts(self) -> tuple[HostName, ...]:
        """Names of the link's two hosts."""
        return SIDES

    @property
    def next_ns(self) -> int | None:
        """Link time of the next event in ns; None if no event is scheduled."""
        return self._agenda.next_ns

    @property
    def is_up(self) -> bool:
        """Whether the link is up: always, or until the end of a trace that does not repeat."""
        return not self.is_dropped

    @property
    def is_drained(self) -> bool:
        """Whether no packet waits or is in transit."""
        return self._under_way == 0 and all(way.is_drained for way in self._ways.values())

    def send(self, host: HostName, packet: bytes, *, now_ns: int) -> bool:
        """Offer an IP packet of a host; return False if the queue refuses it (an event reports this)."""
        way = self._ways[one_of_two(host)]
        self._agenda.advance(now_ns)
        now_ns = self._agenda.now_ns
        self._script.first_packet(now_ns)
        taken = way.interface.offer(packet, now_ns=now_ns, is_closed=self.is_dropped)
        way.attend(now_ns)
        return taken

    def advance(self, now_ns: int) -> list[LinkDelivery]:
        """Run all events up to `now_ns`; return the packets that came out, in order."""
        self._agenda.advance(now_ns)
        out, self._out = self._out, []
        return out

    def _left(self, side: Side, packet: bytes, offset_bytes: int, now_ns: int) -> None:
        """Pass a packet on to the other side, where it arrives after the delay.

        Its last octet has been sent.
        """
        far = FAR[side]

        def arrive(then_ns: int) -> None:
            facts = ip_facts(packet)
            about = len(packet) + self.config.overhead_bytes, offset_bytes, facts.ip_id, facts.seq
            self._journals[far].add(PieceReceived, then_ns, *about)
            self._under_way -= 1
            self._out.append(LinkDelivery(far, packet))

        self._under_way += 1
        self._agenda.at(now_ns + self.config.delay_ns, arrive)

    def _stop(self, now_ns: int) -> None:
        """End the link; packets that are already sent still arrive."""
        del now_ns
        self.is_dropped = True
        for way in self._ways.values():
            way.close()

    def _play(self, event: ScriptEvent, now_ns: int) -> None:
        del now_ns
        for side in SIDES:
            if event.direction in ("both", "up" if side == "mobile" else "down"):
                self._ways[side].interface.lose_packets(event.packets)

    # --- what it tells ---

    def events(self, host: HostName) -> list[LinkEvent]:
        """Return the events of one end of the link since the last call, in order of time."""
        journal = self._journals.get(host)  # type: ignore[call-overload]  # asked after every event
        return (journal or self._journals[one_of_two(host)]).events()

    def reading(self, now_ns: int, *, host: HostName | None = None) -> RadioReading:
        """Return a reading that shows the link as up or not; a capacity trace has no radio values."""
        del now_ns, host
        return RadioReading(None, None, None, None, "dropped" if self.is_dropped else "connected")


class _Way:
    """One direction: its queue, and the packet that the opportunities are sending."""

    def __init__(
        self,
        config: CapacityConfig,
        trace: CapacityTrace | None,
        *,
        journal: SideJournal,
        agenda: Agenda,
        left: Callable[[bytes, int, int], None],
    ) -> None:
        queue = config.queue
        if queue.local_drops == "default":  # it is a router's, and no host hears of a drop there
            queue = replace(queue, local_drops="silent")
        self.interface = LinkInterface(queue, journal.add)
        self._overhead_bytes = config.overhead_bytes
        repeats = config.at_end == "repeat"
        self._opportunities = None if trace is None else Opportunities(trace, repeats=repeats)
        self._journal = journal
        self._agenda = agenda
        self._left = left
        self._packet = b""
        self._octets_left = 0
        self._began_ns = 0
        self._sent_bytes = 0
        self._is_armed = self._is_closed = False

    @property
    def is_drained(self) -> bool:
        """Whether no packet waits in this direction."""
        return not (len(self.interface.queue) or self._octets_left)

    def close(self) -> None:
        """Stop sending in this direction."""
        self._is_closed = True

    def attend(self, now_ns: int) -> None:
        """Schedule the next opportunity if a packet waits; without a trace, send all packets at once."""
        if self._opportunities is None:
            while not self._is_closed and self._take(now_ns):
                self._finish(now_ns)
        elif not self._is_armed and not self.is_drained:
            moment = self._opportunities.after(now_ns)
            if moment is not None:
                self._is_armed = True
                self._agenda.at(moment.time_ns, lambda then_ns: self._use(moment, then_ns))

    def _use(self, moment: DeliveryOpportunity, now_ns: int) -> None:
        """Send as many octets as the opportunities of one time carry."""
        self._is_armed = False
        if self._is_closed:
            return
        for _ in range(moment.opportunities):
            room = OPPORTUNITY_BYTES
            while room and (self._octets_left or self._take(now_ns)):
                octets = min(room, self._octets_left)
                room -= octets
                self._octets_left -= octets
                if not self._octets_left:
                    self._finish(now_ns)
            if room:  # nothing waits: the rest passes in vain
                break
        self.attend(now_ns)

    def _take(self, now_ns: int) -> bool:
        """Take the next packet from the queue; return False if the queue is empty."""
        packet = self.interface.take(now_ns)
        if packet is None:
            return False
        self._packet, self._began_ns = packet, now_ns
        self._octets_left = len(packet) + self._overhead_bytes
        return True

    def _finish(self, now_ns: int) -> None:
        """Finish the packet whose last octet is sent."""
        packet, offset = self._packet, self._sent_bytes
        facts = ip_facts(packet)
        wire_bytes = len(packet) + self._overhead_bytes
        air_us = (now_ns - self._began_ns) // NS_PER_US
        self._octets_left = 0
        self._sent_bytes += wire_bytes
        self._journal.add(PieceSent, now_ns, air_us, wire_bytes, offset, 1, facts.ip_id, facts.seq)
        self._left(packet, offset, now_ns)
