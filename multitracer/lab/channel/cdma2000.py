"""cdma2000 1x packet data: a permanent fundamental channel, a supplemental one in bursts, and RLP above both.

Input: IP packets of mobiles and of the fixed host, a `Cdma2000Config`, a script and a seed. Output:
packets, events and readings of each modem. Read `Cdma2000Link` first; `SectorMobile` holds the complete state
of one mobile. `cdma2000_radio.py` contains rates, frames, the signal and the assignments; `cdma2000_rlp.py`
finds missing octets, requests them in rounds of NAKs and finally gives up.

What must hold: all frames begin at multiples of 20 ms. The same seed gives the same radio, whatever is
sent. A packet is delivered in order, lost with an event that reports it, or still inside. docs/links.md
lists what the model leaves out.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from multitracer.lab.channel.cdma2000_radio import (
    FRAME_NS,
    FUNDAMENTAL,
    Assigned,
    FrameErrors,
    Pilot,
    Rate,
    Scheduler,
    octets_at,
)
from multitracer.lab.channel.cdma2000_rlp import RlpPath
from multitracer.lab.channel.shared.frame_errors import FadingErrors, NoErrors
from multitracer.lab.channel.shared.interface import LinkInterface, SideJournal, ip_facts
from multitracer.lab.channel.shared.outages import STATES, OutageProcess
from multitracer.lab.channel.shared.packet_link import (
    FAR,
    FIXED,
    SIDES,
    LinkDelivery,
    Mobiles,
    RadioReading,
    host_names,
)
from multitracer.lab.channel.shared.scheduler import Agenda, Script
from multitracer.protocols.link_events import (
    STREAM_BITS,
    BurstSent,
    OutageEnded,
    OutageStarted,
    PacketDropped,
    PieceLost,
    PieceSent,
    RateAssigned,
)
from multitracer.units import BITS_PER_BYTE, NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from multitracer.lab.channel.cdma2000_radio import Cdma2000Config
    from multitracer.lab.channel.cdma2000_rlp import FrameOctets, Nak
    from multitracer.lab.channel.shared.outages import OutageKind
    from multitracer.lab.channel.shared.packet_link import HostName, Side
    from multitracer.lab.channel.shared.queue import QueueConfig
    from multitracer.lab.channel.shared.scheduler import ScriptEvent
    from multitracer.protocols.link_events import LinkEvent

# One mobile of a sector: its queues, its radio, RLP both ways, and the frame that each side sends.


_AIR_US = FRAME_NS // NS_PER_US
_PACKETS_OF_A_FULL_BUFFER = 1 << 20
"""Packet limit of a full buffer, so large that only octets limit the base station controller's buffer."""


_PN_STEP, _PN_OFFSETS = 4, 512
"""Distance of the PN offsets of neighbouring cells (our choice), and how many there are (C.S0002)."""


class _OnAir(NamedTuple):
    """The content of a frame that a side sends."""

    rate: Rate
    chunks: list[FrameOctets]
    nak: Nak | None
    sent_up_to: int | None
    """Stream position that an idle frame states; None if the frame carries data."""


class ScheduledDirection:
    """One direction of one mobile, as the scheduler sees it.

    Parameters
    ----------
    interface : LinkInterface
        The queue before this direction.
    path : RlpPath
    pilot : Pilot
    errors : FrameErrors
    steady : (Rate, float), optional
        A constant rate, which needs no assignment, and the mean number of octets in its frames.
    """

    def __init__(
        self,
        interface: LinkInterface,
        path: RlpPath,
        pilot: Pilot,
        errors: FrameErrors,
        *,
        steady: tuple[Rate, float] | None,
    ) -> None:
        self.interface = interface
        self.path = path
        self.errors = errors
        self.assigned = Assigned()
        self.on_air: _OnAir | None = None
        self._pilot = pilot
        self._steady = None if steady is None else steady[0]
        self._steady_octets = 0.0 if steady is None else steady[1]
        self._credit = 0.0
        self.reported: Rate | None = None
        """The last rate that was written to the log."""
        self.frames = 0
        """Number of consecutive frames with data at one rate so far."""

    @property
    def backlog_bytes(self) -> int:
        """Bytes that wait: packets in the queue, and unsent octets in RLP."""
        return self.interface.queue.queued_bytes + self.path.unsent_bytes

    def ecio_db(self, now_ns: int) -> float:
        """Pilot strength Ec/Io that the mobile reports now, in dB."""
        return self._pilot.db(now_ns)

    @property
    def rate(self) -> Rate:
        """Data rate of this direction in the present frame."""
        if self._steady is not None:
            return self._steady
        burst = self.assigned.present
        return burst.rate if burst is not None else FUNDAMENTAL

    def room(self) -> int:
        """Return the capacity of the present frame in octets."""
        if self._steady is None:
            return self.rate.octets
        self._credit += self._steady_octets
        octets = int(self._credit)
        self._credit -= octets
        return octets

    @property
    def is_idle(self) -> bool:
        """Whether this direction has nothing to send and no supplemental channel is assigned to it."""
        return (
            self.on_air is None
            and self.assigned.present is None
            and self.assigned.promised is None
            and not len(self.interface.queue)
            and self.path.is_settled
        )


@dataclass(frozen=True, slots=True)
class Sector:
    """Objects that all mobiles of a sector share."""

    config: Cdma2000Config
    agenda: Agenda
    journal: SideJournal
    """Journal of the fixed side."""
    has_channel: Callable[[], bool]
    deliver: Callable[[HostName, Side, bytes, int], None]
    """Called with a mobile, the side at which RLP delivers the packet, the packet, and the time."""


class SectorMobile:
    """A mobile and its path to the base station controller.

    Parameters
    ----------
    host : HostName
    number : int
        Number of the mobile, from 1.
    shared : Sector
    seed : str
        Seed of all its random numbers.
    """

    def __init__(self, host: HostName, number: int, shared: Sector, *, seed: str) -> None:
        self.host = host
        self._config = config = shared.config
        self._agenda = shared.agenda
        self._seed = seed
        self._has_channel = shared.has_channel
        self._deliver = shared.deliver
        self.journal = SideJournal(FRAME_NS)
        self._journals: dict[Side, SideJournal] = {"mobile": self.journal, "fixed": shared.journal}
        self._first_offset = number - 1 << STREAM_BITS
        self._fades = {side: FadingErrors(NoErrors(), luck=self._luck(f"fades {side}")) for side in SIDES}
        self._pilot = Pilot(config.radio, luck=self._luck("pilot"))
        self._modem = Pilot(config.radio, luck=self._luck("pilot"))  # a reading asks at its own times
        self.ways = {side: self._way(side) for side in SIDES}
        self._down_frames: deque[tuple[int, bool]] = deque(maxlen=config.report_ns // FRAME_NS + 1)
        """End of each forward frame with data, and whether it was lost, in the last `report_ns`."""
        self.under_way = 0
        """Number of frames that left the radio and have not yet arrived at the far end."""

    # --- parts ---

    def _luck(self, name: str) -> Random:
        return Random(f"{self._seed} {name}")

    def _way(self, side: Side) -> ScheduledDirection:
        config, luck = self._config, self._luck(f"errors {side}")
        queue = _buffer(config) if side == "fixed" else config.queue
        interface = LinkInterface(queue, self._journals[side].add)
        rlp, error_map = config.rlp, config.errors
        if config.rate == "mean":
            rlp = replace(rlp, overhead_bytes=0)
            error_map = replace(error_map, fundamental_error_rate=0.0, supplemental_error_rate=0.0)
        far = self._journals[FAR[side]]
        path = RlpPath(rlp, interface.take, far, first_offset_bytes=self._first_offset)
        errors = FrameErrors(config.radio, error_map, self._fades[side], luck=luck)
        return ScheduledDirection(interface, path, self._pilot, errors, steady=_steady(config, side))

    # --- packets ---

    def offer(self, side: Side, packet: bytes, now_ns: int) -> bool:
        """Put a packet into the queue of a side.

        Return False if the queue refuses it (an event reports this).
        """
        return self.ways[side].interface.offer(packet, now_ns=now_ns)

    @property
    def is_drained(self) -> bool:
        """Whether no packet from or to it is waiting or in transit."""
        return all(way.path.is_settled and not len(way.interface.queue) for way in self.ways.values())

    @property
    def is_idle(self) -> bool:
        """Whether both directions of this mobile are idle, so that its frames need no processing."""
        return self.under_way == 0 and all(way.is_idle for way in self.ways.values())

    # --- frames ---

    def end_frame(self, frame: int, now_ns: int) -> None:
        """Send the content of the frame that just ended to the other side."""
        ecio_db = self._pilot.db(now_ns - FRAME_NS)
        for side, way in self.ways.items():
            sent, way.on_air = way.on_air, None
            if sent is not None:
                self._end_sent(side, way, sent, frame - 1, ecio_db, now_ns)

    def _end_sent(
        self, side: Side, way: ScheduledDirection, sent: _OnAir, frame: int, ecio_db: float, now_ns: int
    ) -> None:
        is_away = not self._has_channel()
        is_lost = way.errors.is_lost(frame, sent.rate, ecio_db) or is_away
        for chunk in sent.chunks:
            cause = "nak" if chunk.attempt > 1 else ""
            about = chunk.octets, chunk.begin, chunk.attempt, chunk.ip_id, chunk.seq, cause
            self._journals[side].add(PieceSent, now_ns, _AIR_US, *about)
        if sent.chunks and side == "fixed":
            self._down_frames.append((now_ns, is_lost))
        if sent.chunks and is_lost:
            for chunk in sent.chunks:
                lost = chunk.octets, chunk.begin, chunk.ip_id, chunk.seq, "outage" if is_away else "block"
                self._journals[FAR[side]].add(PieceLost, now_ns, *lost)
        is_control_lost = is_away or way.errors.is_lost(frame, FUNDAMENTAL, ecio_db)
        chunks = [] if is_lost else sent.chunks
        nak, idle = (None, None) if is_control_lost else (sent.nak, sent.sent_up_to)
        if chunks or nak is not None or idle is not None:
            self.under_way += 1
            arrives_ns = now_ns + self._config.wired.backhaul_ns
            self._agenda.at(arrives_ns, lambda then_ns: self._arrive(side, chunks, nak, idle, then_ns))

    def _arrive(
        self, side: Side, chunks: list[FrameOctets], nak: Nak | None, sent_up_to: int | None, now_ns: int
    ) -> None:
        """Process at the other side the content of a frame that a side has sent."""
        self.under_way -= 1
        path = self.ways[side].path
        if nak is not None:
            self.ways[FAR[side]].path.requested(nak)
        if sent_up_to is not None:
            path.known(sent_up_to, now_ns)
        for packet in path.receive(chunks, now_ns):
            self._deliver(self.host, FAR[side], packet, now_ns)

    def begin_frame(self, frame: int, now_ns: int) -> None:
        """Decide what both sides send in this frame."""
        for side, way in self.ways.items():
            for packet in way.path.expire(now_ns):
                self._deliver(self.host, FAR[side], packet, now_ns)
            self._note_rate(side, way, frame, now_ns)
        for side, way in self.ways.items():
            way.on_air = self._frame(side, way, now_ns)
            if way.on_air is not None and way.on_air.chunks:
                way.frames += 1
            else:
                self._end_burst(side, way, now_ns)

    def _note_rate(self, side: Side, way: ScheduledDirection, frame: int, now_ns: int) -> None:
        way.assigned.step(frame)
        if way.rate is not way.reported:
            self._end_burst(side, way, now_ns)
            way.reported = way.rate
            about = way.rate.bits_per_s, way.backlog_bytes, self._first_offset
            self._journals[side].add(RateAssigned, now_ns, *about)

    def _end_burst(self, side: Side, way: ScheduledDirection, now_ns: int) -> None:
        """Report the end of a run of consecutive data frames of one rate."""
        if way.frames:
            self._journals[side].add(BurstSent, now_ns, way.frames * _AIR_US, way.frames, "done")
        way.frames = 0

    def _frame(self, side: Side, way: ScheduledDirection, now_ns: int) -> _OnAir | None:
        """Return the frame that a side sends, whether or not the radio destroys it.

        None if the frame has no content.
        """
        nak = self.ways[FAR[side]].path.nak(self._journals[side], now_ns)
        rate = way.rate
        room = 0 if nak is not None and rate is FUNDAMENTAL else way.room()  # a NAK takes the whole frame
        chunks = way.path.fill(room, now_ns) if room else []
        if chunks or nak is not None:
            return _OnAir(rate, chunks, nak, None)
        return None if way.path.is_settled else _OnAir(rate, [], None, way.path.sent_up_to)

    # --- the script ---

    def play(self, event: ScriptEvent, now_ns: int) -> None:
        """Apply a scripted fade or packet loss to this mobile."""
        for side in SIDES:
            if event.direction not in ("both", "up" if side == "mobile" else "down"):
                continue
            if event.kind == "drop":
                self.ways[side].interface.lose_packets(event.packets)
                continue
            frames = -(-round(event.duration_s * NS_PER_S) // FRAME_NS)
            self._fades[side].fade(begin=now_ns // FRAME_NS, slots=frames, rate=event.rate)

    # --- what it tells ---

    def reading(self, now_ns: int, *, state: str) -> RadioReading:
        """Return the values that the modem reports: Ec/Io in dB and the percentage of lost forward frames."""
        since_ns = now_ns - self._config.report_ns
        while self._down_frames and self._down_frames[0][0] <= since_ns:
            self._down_frames.popleft()
        lost = [is_lost for _, is_lost in self._down_frames]
        bler = 100 * sum(lost) / len(lost) if lost else None
        if state == "blackout":
            return RadioReading(None, bler, None, None, state)
        ecio_db = round(self._modem.db(now_ns), 2)
        pilot_pn = _PN_STEP * (1 + self._modem.cell) % _PN_OFFSETS
        return RadioReading(None, bler, None, None, state, ecio_db=ecio_db, pilot_pn=pilot_pn)


def _steady(config: Cdma2000Config, side: Side) -> tuple[Rate, float] | None:
    """Return the constant rate of a direction, and the mean octets per frame.

    None if the scheduler assigns rates.
    """
    if config.rate == "scheduled":
        return None
    mean = config.mean_bits_per_s if side == "fixed" else config.mean_up_bits_per_s
    complete = mean * FRAME_NS / NS_PER_S / BITS_PER_BYTE
    return Rate(mean, 0, 0), complete if config.rate == "mean" else octets_at(mean)


def _buffer(config: Cdma2000Config) -> QueueConfig:
    """Return the configuration of the packet buffer in the base station controller.

    The hosts are not informed when this buffer drops a packet.
    """
    return replace(
        config.queue, limit_packets=_PACKETS_OF_A_FULL_BUFFER, limit_bytes=config.buffer_bytes, local_drops="silent"
    )


# cdma2000 1x packet data: the mobiles' links to the fixed host, with the sector that they share.
#
#     fixed host → wire → buffer of the mobile (octets) → RLP → frames of 20 ms → backhaul → RLP → mobile
#     fixed host ← wire ← RLP ← backhaul ← frames of 20 ms ← RLP ← interface queue ← mobile
#
# Each direction of a mobile has a fundamental channel of 9.6 kbit/s always, which carries NAKs, too. Bursts
# of a supplemental channel are assigned by backlog and channel (`cdma2000_radio.py`); while one lasts, it
# carries the data. With `rate = "mean"` there is one channel of a steady rate instead: the control of paper
# 003.


_KINDS = {"fade", "drop", "blackout"}


class Cdma2000Link:
    """A `PacketLink` over cdma2000 1x.

    Parameters
    ----------
    config : Cdma2000Config
    seed : int
        The same seed gives the same radios.
    script : sequence of ScriptEvent
        fade, drop and blackout, counted from the first packet; they affect all mobiles.
    """

    def __init__(self, config: Cdma2000Config, *, seed: int, script: Sequence[ScriptEvent] = ()) -> None:
        self.config = config
        self.hosts = host_names(config.mobiles)
        self._seed = f"{seed} cdma2000"
        self._agenda = Agenda()
        self._out: list[LinkDelivery] = []
        self._on_wire = 0
        self._is_awake = False
        self._journal = SideJournal(FRAME_NS)
        self._outages = OutageProcess([], agenda=self._agenda, seed=self._seed, changed=self._outage)
        self._members = {host: self._member(number, host) for number, host in enumerate(self.hosts[:-1], 1)}
        self._mobiles = Mobiles(self._members)
        self._schedulers = {
            "fixed": Scheduler(config.forward, config.errors, has_codes=True),
            "mobile": Scheduler(config.reverse, config.errors, has_codes=False),
        }
        self._script = Script(script, kinds=_KINDS, agenda=self._agenda, play=self._play)
        self._plan_handoff(1)

    def _member(self, number: int, host: HostName) -> SectorMobile:
        """Return a new `SectorMobile`.

        The random numbers of mobile 1 do not depend on the number of mobiles.
        """
        shared = Sector(self.config, self._agenda, self._journal, lambda: not self._outages, self._deliver)
        return SectorMobile(host, number, shared, seed=self._seed if number == 1 else f"{self._seed} {host}")

    # --- packets ---

    @property
    def next_ns(self) -> int | None:
        """Link time of the next event in ns; None if no event is scheduled."""
        return self._agenda.next_ns

    @property
    def is_up(self) -> bool:
        """Whether the channel is available: no scripted blackout is active."""
        return not self._outages

    @property
    def is_dropped(self) -> bool:
        """Return False: after an outage the channel always returns."""
        return False

    @property
    def is_drained(self) -> bool:
        """Whether no packet waits or is in transit."""
        return self._on_wire == 0 and all(member.is_drained for member in self._members.values())

    def send(self, host: HostName, packet: bytes, *, now_ns: int) -> bool:
        """Offer an IP packet of a host; return False if the mobile's queue refuses it."""
        member = None if host == FIXED else self._mobiles.named(host)
        self._agenda.advance(now_ns)
        now_ns = self._agenda.now_ns
        self._script.first_packet(now_ns)
        if member is not None:
            taken = member.offer("mobile", packet, now_ns)
            self._wake(now_ns)
            return taken
        member = self._mobiles.addressed(packet)
        if member is not None:
            self._over_wire(member, packet, now_ns)
            return True
        facts = ip_facts(packet)
        self._journal.add(PacketDropped, now_ns, 0, len(packet), facts.ip_id, facts.seq, "no-route")
        return True

    def _over_wire(self, member: SectorMobile, packet: bytes, now_ns: int) -> None:
        """Send a packet of the fixed host to the buffer of a mobile."""

        def arrive(then_ns: int) -> None:
            self._on_wire -= 1
            member.offer("fixed", packet, then_ns)
            self._wake(then_ns)

        self._on_wire += 1
        self._agenda.at(now_ns + self.config.wired.fixed_ns, arrive)

    def _deliver(self, host: HostName, side: Side, packet: bytes, now_ns: int) -> None:
        """Deliver a packet at the mobile, or send it on to the fixed host."""
        if side == "mobile":
            self._out.append(LinkDelivery(host, packet))
            return

        def arrive(then_ns: int) -> None:
            del then_ns
            self._on_wire -= 1
            self._out.append(LinkDelivery(FIXED, packet))

        self._on_wire += 1
        self._agenda.at(now_ns + self.config.wired.fixed_ns, arrive)

    def advance(self, now_ns: int) -> list[LinkDelivery]:
        """Run all events up to `now_ns`; return the packets that came out, in order."""
        self._agenda.advance(now_ns)
        out, self._out = self._out, []
        return out

    # --- frames ---

    def _wake(self, now_ns: int) -> None:
        """Process frames from the next one on, unless frames are already being processed."""
        if not self._is_awake:
            self._is_awake = True
            self._agenda.at(-(-now_ns // FRAME_NS) * FRAME_NS, self._frame)

    def _frame(self, now_ns: int) -> None:
        """End a frame and begin the next one, for all mobiles."""
        frame, members = now_ns // FRAME_NS, self._members.values()
        for member in members:
            member.end_frame(frame, now_ns)
        for member in members:
            member.begin_frame(frame, now_ns)
        if self.config.rate == "scheduled":
            for side in SIDES:
                self._schedulers[side].decide(frame, [member.ways[side] for member in members])
        if all(member.is_idle for member in members):
            self._is_awake = False
        else:
            self._agenda.at(now_ns + FRAME_NS, self._frame)

    # --- handoffs, outages and the script ---

    def _plan_handoff(self, cell: int) -> None:
        """Hand all mobiles off into a cell when the route leads there, and into all cells behind it."""

        def hand_off(now_ns: int) -> None:
            self._outages.begin(now_ns, "handoff", self.config.radio.handoff_ns)
            for member in self._members.values():
                for way in member.ways.values():
                    way.assigned.end()
            self._plan_handoff(cell + 1)

        then_ns = self.config.radio.handoff_into_ns(cell)
        if then_ns is not None:
            self._agenda.at(then_ns, hand_off)

    def _outage(self, now_ns: int, kind: OutageKind, begins: bool) -> None:
        for journal in (self._journal, *(member.journal for member in self._members.values())):
            journal.add(OutageStarted if begins else OutageEnded, now_ns, kind)

    def _play(self, event: ScriptEvent, now_ns: int) -> None:
        if event.kind == "blackout":
            self._outages.begin(now_ns, "blackout", round(event.duration_s * NS_PER_S))
            return
        for member in self._members.values():
            member.play(event, now_ns)

    # --- what it tells ---

    def events(self, host: HostName) -> list[LinkEvent]:
        """Return the events at a host since the last call of this method, in order of time.

        The fixed host has the events of all mobiles.
        """
        return self._journal.events() if host == FIXED else self._mobiles.named(host).journal.events()

    def reading(self, now_ns: int, *, host: HostName | None = None) -> RadioReading:
        """Return the values that a mobile's modem reports; by default of the first mobile."""
        kind = self._outages.kind
        state = "connected" if kind is None else STATES[kind]
        return self._mobiles.named(host or self.hosts[0]).reading(now_ns, state=state)


# The mean of the rates that a mobile was assigned: what `rate = "mean"` is given as a control.


def mean_rate_bps(events: Iterable[LinkEvent], *, until_ns: int, mobile: int = 1) -> float | None:
    """Return the mean of the assigned rates over time, from the first assignment to `until_ns`.

    Parameters
    ----------
    events : iterable of LinkEvent
        Events of the sending side, in order: those of the fixed host for the rates to the mobiles.
    until_ns : int
        End of the averaged interval, link time in ns.
    mobile : int
        Number of the mobile, from 1: the fixed host's log has the rates of all.

    Returns
    -------
    float or None
        Mean rate of the channel (not of packets), bit/s; None if no rate was assigned.
    """
    first_ns = since_ns = until_ns
    rate_bps, bits = 0, 0
    for event in events:
        if not isinstance(event, RateAssigned) or event.offset_bytes >> STREAM_BITS != mobile - 1:
            continue
        if not rate_bps:
            first_ns = since_ns = event.time_ns
        bits += rate_bps * (event.time_ns - since_ns)
        rate_bps, since_ns = event.rate_bps, event.time_ns
    bits += rate_bps * (until_ns - since_ns)
    return bits / (until_ns - first_ns) if until_ns > first_ns else None
