"""CDPD, Cellular Digital Packet Data: the links of 1 to 30 mobiles to the fixed host, and their cell.

Input: IP packets at the hosts, a configuration (`cdpd_config.py`), a script and a seed. Output: packets,
events and readings of the modems. Read `CdpdLink` first; `CellMobile` holds the complete state of one mobile.
`cdpd_mdlp.py` divides packets into frames and retransmits lost ones, `cdpd_channel.py` packs frames into
blocks and sends them; behind the base station is the `FixedNetwork`.

What must hold: everything happens in order of one scheduler, at times that do not depend on how often the driver calls.
docs/links.md and `cdpd_config.py` describe the uncertainty of the model, and the source of each number.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from multitracer.lab.channel.cdpd_channel import (
    BlockPath,
    BlockRadio,
    CdpdCell,
    ForwardChannel,
    ReverseChannel,
    ReverseTransmitter,
    block_times,
)
from multitracer.lab.channel.cdpd_mdlp import MdlpEntity, PacketEnd
from multitracer.lab.channel.shared.frame_errors import FadingErrors, NoErrors, error_process
from multitracer.lab.channel.shared.interface import LinkInterface, SideJournal, ip_facts
from multitracer.lab.channel.shared.outages import STATES, Chance, OutageProcess, Signal
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
from multitracer.protocols.error_trace import ErrorTrace
from multitracer.protocols.link_events import (
    STREAM_BITS,
    OutageEnded,
    OutageStarted,
    PacketDropped,
    PieceLost,
    PieceSent,
)
from multitracer.units import NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from multitracer.lab.channel.cdpd_channel import BlockTimes, Carriage
    from multitracer.lab.channel.cdpd_config import CdpdConfig
    from multitracer.lab.channel.shared.frame_errors import ErrorConfig
    from multitracer.lab.channel.shared.outages import OutageKind
    from multitracer.lab.channel.shared.packet_link import HostName, Side
    from multitracer.lab.channel.shared.scheduler import ScriptEvent
    from multitracer.protocols.link_events import LinkEvent

# The wired part of a path: a delay with an exponential tail, a random loss, order kept.


class FixedNetwork:
    """One direction of the fixed network.

    Parameters
    ----------
    delay_ns : int
        The minimum delay.
    jitter_ns : int
        Mean of the additional exponential delay.
    loss : float
        Probability that a packet is lost.
    agenda : Agenda
    luck : Random
        Random generator.
    arrived : callable
        Called with each arrived packet and its time.
    """

    def __init__(
        self,
        *,
        delay_ns: int,
        jitter_ns: int,
        loss: float,
        agenda: Agenda,
        luck: Random,
        arrived: Callable[[bytes, int], None],
    ) -> None:
        self._delay_ns = delay_ns
        self._jitter_ns = jitter_ns
        self._loss = loss
        self._agenda = agenda
        self._luck = luck
        self._arrived = arrived
        self._last_ns = 0
        self.under_way = 0
        """Number of packets that have not arrived yet."""

    def send(self, packet: bytes, now_ns: int) -> bool:
        """Send a packet; return False if it is lost."""
        is_lost = self._luck.random() < self._loss
        extra_ns = round(self._luck.expovariate(1.0) * self._jitter_ns)
        if is_lost:
            return False
        self.under_way += 1
        self._last_ns = max(self._last_ns, now_ns + self._delay_ns + extra_ns)
        self._agenda.at(self._last_ns, lambda then_ns: self._arrive(packet, then_ns))
        return True

    def _arrive(self, packet: bytes, now_ns: int) -> None:
        self.under_way -= 1
        self._arrived(packet, now_ns)


# One mobile of a CDPD cell: its two ends of the data link, their queues, its radio and its transmitter.
#
# What it shares with the other mobiles is a `CdpdChannelState`: the channels in both directions, the journal
# of the fixed side and the time.


@dataclass(frozen=True, slots=True)
class CdpdChannelState:
    """Objects that all mobiles of a cell share."""

    config: CdpdConfig
    times: BlockTimes
    agenda: Agenda
    reverse: ReverseChannel
    forward: ForwardChannel
    journal: SideJournal
    """Journal of the fixed side."""
    hops: OutageProcess
    """Outages of the channel for all mobiles."""
    deliver: Callable[[HostName, bytes], None]
    """Called with a host and a packet that has arrived there."""
    outage_ended: Callable[[OutageKind], None]
    """Called with the kind when an outage of one mobile ends."""


class CellMobile:
    """A mobile and its path to the fixed host.

    Parameters
    ----------
    host : HostName
        Name of the mobile.
    number : int
        Number of the mobile, from 1.
    shared : CdpdChannelState
    seed : str
        Seed of all random numbers of this mobile.
    """

    def __init__(self, host: HostName, number: int, shared: CdpdChannelState, *, seed: str) -> None:
        config = shared.config
        self.host = host
        self._number = number
        self._shared = shared
        self._agenda = shared.agenda
        self._seed = seed
        self.journal = SideJournal(shared.times.microslot_ns)
        self._journals: dict[Side, SideJournal] = {"mobile": self.journal, "fixed": shared.journal}
        self._interfaces = {side: LinkInterface(config.queue, self._journals[side].add) for side in SIDES}
        self._ends = {side: self._end(side) for side in SIDES}
        self._armed: dict[Side, int | None] = dict.fromkeys(SIDES)
        self._loss: dict[Side, float] = {"mobile": config.loss.up, "fixed": config.loss.down}
        self._lose = {side: self._luck(f"loss {side}").random for side in SIDES}
        self._radio_parts(config)
        self._paths = {side: self._path(side) for side in SIDES}
        self._networks = self._fixed_network(config)
        self._reverse = ReverseTransmitter(
            shared.reverse,
            config.access,
            self._paths["mobile"],
            owner=number,
            has_work=self._has_work,
            luck=self._luck("access"),
        )
        self._outages = OutageProcess(_chances(config), agenda=self._agenda, seed=seed, changed=self._own_outage)

    # --- parts ---

    def _luck(self, name: str) -> Random:
        return Random(f"{self._seed} {name}")

    def _end(self, side: Side) -> MdlpEntity | PacketEnd:
        take, journal = self._interfaces[side].take, self._journals[side]
        first = self._number - 1 << STREAM_BITS
        if self._shared.config.recovery == "none":
            return PacketEnd(take, journal, first_offset_bytes=first)
        return MdlpEntity(self._shared.config.mdlp, take, journal, first_offset_bytes=first)

    def _fixed_network(self, config: CdpdConfig) -> dict[Side, FixedNetwork]:
        network, loses = config.network, config.recovery == "mdlp"

        def way(name: str, loss: float, arrived: Callable[[bytes, int], None]) -> FixedNetwork:
            return FixedNetwork(
                delay_ns=network.fixed_ns,
                jitter_ns=network.jitter_ns,
                loss=loss if loses else 0.0,
                agenda=self._agenda,
                luck=self._luck(f"network {name}"),
                arrived=arrived,
            )

        return {
            "mobile": way("up", network.loss_up, self._reach_host),
            "fixed": way("down", network.loss_down, self._reach_router),
        }

    def _radio_parts(self, config: CdpdConfig) -> None:
        times = self._shared.times
        self._block_ns: dict[Side, int] = {"mobile": times.reverse_ns, "fixed": times.forward_ns}
        self._signal = Signal(config.signal, luck=self._luck("signal"))
        errors: dict[Side, ErrorConfig] = {"mobile": config.up, "fixed": config.down}
        self._fading = {side: self._errors(errors[side], side) for side in SIDES}
        is_coded = config.recovery == "mdlp"
        self._radios = {
            side: BlockRadio(
                self._fading[side],
                # each asks at its own times
                Signal(config.signal, luck=self._luck("signal")) if is_coded else None,
                block_ns=self._block_ns[side],
                report_ns=config.report_ns,
            )
            for side in SIDES
        }

    def _errors(self, config: ErrorConfig, side: Side) -> FadingErrors:
        luck, is_coded = self._luck(f"errors {side}"), self._shared.config.recovery == "mdlp"
        below = error_process(config, slot_ns=self._block_ns[side], luck=luck) if is_coded else NoErrors()
        return FadingErrors(below, luck=self._luck(f"fades {side}"))

    def _path(self, side: Side) -> BlockPath:
        return BlockPath(
            agenda=self._agenda,
            end=self._ends[side],
            radio=self._radios[side],
            journal=self._journals[side],
            completed=lambda carriage, now_ns: self._carried(side, carriage, now_ns),
        )

    def _has_work(self, now_ns: int) -> bool:
        waiting = len(self._interfaces["mobile"].queue) > 0
        return self._ends["mobile"].has_work(now_ns, has_packet=waiting)

    # --- packets ---

    @property
    def is_drained(self) -> bool:
        """Whether no packet from or to this mobile is waiting or in transit."""
        return not (
            any(len(interface.queue) for interface in self._interfaces.values())
            or any(network.under_way for network in self._networks.values())
            or any(not end.is_drained for end in self._ends.values())
        )

    def send_up(self, packet: bytes, now_ns: int) -> bool:
        """Offer a packet of the mobile.

        Return False if the modem's queue refuses it (an event reports this).
        """
        taken = self._interfaces["mobile"].offer(packet, now_ns=now_ns)
        self._attend("mobile", now_ns)
        return taken

    def send_down(self, packet: bytes, now_ns: int) -> None:
        """Send a packet of the fixed host to the mobile."""
        self._cross("fixed", packet, now_ns)

    def _reach_router(self, packet: bytes, now_ns: int) -> None:
        self._interfaces["fixed"].offer(packet, now_ns=now_ns)
        self._attend("fixed", now_ns)

    def _reach_host(self, packet: bytes, now_ns: int) -> None:
        del now_ns
        self._shared.deliver("fixed", packet)

    def _cross(self, side: Side, packet: bytes, now_ns: int) -> None:
        """Send a packet from one side of the radio through the fixed network to the other side."""
        if not self._networks[side].send(packet, now_ns):
            facts = ip_facts(packet)
            about = 0, len(packet), facts.ip_id, facts.seq, "network"
            self._shared.journal.add(PacketDropped, now_ns, *about)

    # --- frames ---

    def _attend(self, side: Side, now_ns: int) -> None:
        """Run the expired timers of a side, start to send its data, and schedule its next timer."""
        end = self._ends[side]
        if end.deadline_ns is not None and end.deadline_ns <= now_ns:
            end.expire(now_ns)
        if side == "mobile":
            self._reverse.kick(now_ns)
        else:
            self._shared.forward.kick(self._paths["fixed"], now_ns)
        due_ns = end.deadline_ns
        if due_ns is not None and due_ns != self._armed[side]:
            self._armed[side] = due_ns
            self._agenda.at(due_ns, lambda then_ns: self._wake(side, then_ns))

    def _wake(self, side: Side, now_ns: int) -> None:
        self._ends[side].expire(now_ns)
        self._attend(side, now_ns)

    def _carried(self, side: Side, carriage: Carriage, now_ns: int) -> None:
        """Process the end of a frame's last block: report the frame, and deliver it or report its loss."""
        frame, end = carriage.frame, self._ends[side]
        end.sent(frame, now_ns)
        about = end.frame_octets(frame), frame.offset_bytes
        names = frame.ip_id, frame.seq
        if frame.kind == "I":
            air_us = (now_ns - carriage.began_ns) // NS_PER_US
            journal = self._journals[side]
            journal.add(PieceSent, now_ns, air_us, *about, frame.attempt, *names, frame.cause)
        cause = self._loss_cause(side, carriage)
        if not cause:
            arrives_ns = now_ns + self._shared.config.network.backhaul_ns
            self._agenda.at(arrives_ns, lambda then_ns: self._arrived(FAR[side], carriage, then_ns))
        else:
            end.settled()
            if frame.kind == "I":
                self._journals[FAR[side]].add(PieceLost, now_ns, *about, *names, cause)
        self._attend(side, now_ns)

    def _loss_cause(self, side: Side, carriage: Carriage) -> str:
        """Return why a sent frame does not arrive: `outage`, `block` or `loss`.

        An empty string if it arrives.
        """
        is_lost = self._loss[side] > 0 and self._lose[side]() < self._loss[side]
        if carriage.is_damaged:
            return "outage" if self._worst else "block"
        return "loss" if is_lost else ""

    def _arrived(self, side: Side, carriage: Carriage, now_ns: int) -> None:
        self._ends[FAR[side]].settled()
        for packet in self._ends[side].receive(carriage.frame, now_ns):
            if side == "mobile":
                self._shared.deliver(self.host, packet)
            else:
                self._cross("mobile", packet, now_ns)
        self._attend(side, now_ns)

    # --- outages and the script ---

    @property
    def _worst(self) -> OutageKind | None:
        """Kind of the worst active outage, of this mobile or of the channel; None without an outage."""
        return self._outages.kind or self._shared.hops.kind

    @property
    def has_channel(self) -> bool:
        """Whether the mobile has a channel."""
        return self._worst is None

    def begin_outage(self, now_ns: int, kind: OutageKind, lasts_ns: int) -> None:
        """Begin an outage (an ejection from the channel or a blackout) of this mobile, for `lasts_ns`."""
        self._outages.begin(now_ns, kind, lasts_ns)

    def _own_outage(self, now_ns: int, kind: OutageKind, begins: bool) -> None:
        self.change_channel(now_ns, kind, begins=begins, journals=self._own_journals)
        if not begins:
            self._shared.outage_ended(kind)

    @property
    def _own_journals(self) -> list[SideJournal]:
        """Return the logs that report outages of this mobile.

        They are the mobile's log and, if there is only one mobile, also the log of the network.
        """
        is_only_one = self._shared.config.mobiles == 1
        return [self.journal, self._shared.journal] if is_only_one else [self.journal]

    def change_channel(self, now_ns: int, kind: OutageKind, *, begins: bool, journals: list[SideJournal]) -> None:
        """Begin or end an outage of this mobile or of the channel, and report it in `journals`."""
        for journal in journals:
            journal.add(OutageStarted if begins else OutageEnded, now_ns, kind)
        worst = self._worst
        for radio in self._radios.values():
            radio.set_outage(now_ns, deaf=worst in ("hop", "ejection"), dead=worst is not None)
        self._reverse.set_away(now_ns, is_away=worst is not None)

    def play(self, event: ScriptEvent, now_ns: int) -> None:
        """Apply a scripted fade or packet loss to this mobile."""
        for side in SIDES:
            if event.direction not in ("both", "up" if side == "mobile" else "down"):
                continue
            if event.kind == "drop":
                self._interfaces[side].lose_packets(event.packets)
                continue
            block_ns, lasts_ns = self._block_ns[side], round(event.duration_s * NS_PER_S)
            slots = -(-lasts_ns // block_ns)
            self._fading[side].fade(begin=now_ns // block_ns, slots=slots, rate=event.rate)

    # --- what it tells ---

    def radio(self, now_ns: int) -> ErrorTrace:
        """Return the error trace up to now: the blocks that the radio destroyed in each direction."""
        for side in SIDES:
            self._radios[side].bler_percent(now_ns)  # decides those that nobody asked for
        up_ns = self._block_ns["mobile"]
        up, down = (self._radios[side].lost.runs for side in SIDES)
        slots = -(-max(now_ns, 1) // up_ns)
        return ErrorTrace(up_ns, slots, up, down, down_slot_ns=self._block_ns["fixed"])

    def reading(self, now_ns: int, channel: int) -> RadioReading:
        """Return the values that the modem reports.

        The values of the channel are None while it has no channel.
        """
        config, kind = self._shared.config, self._worst
        if kind in ("hop", "ejection"):
            return RadioReading(None, None, None, None, STATES[kind])
        bler = self._radios["fixed"].bler_percent(now_ns)
        if kind == "blackout":
            return RadioReading(config.signal.zero_dbm, bler, None, channel, STATES[kind])
        since_ns = max(0, now_ns - config.report_ns)
        busy = self._shared.reverse.busy_percent(since_ns, now_ns, owner=self._number)
        return RadioReading(self._signal.dbm(now_ns), bler, busy, channel, "registered")


def _chances(config: CdpdConfig) -> list[Chance]:
    of = config.outages
    return [
        Chance("ejection", of.ejection_every_ns, of.ejection_min_ns, of.ejection_max_ns),
        Chance("blackout", of.blackout_every_ns, of.blackout_min_ns, of.blackout_max_ns, True),
    ]


# CDPD: the mobiles' links to the fixed host, with the cell that they share.
#
#     mobile: interface queue → MDLP → blocks → reverse channel (contended) ─┐
#                                                               backhaul → MDLP → fixed network → fixed host
#     mobile ← MDLP ← backhaul ← forward channel ← blocks ← MDLP ← interface queue ← fixed network ← fixed
#     host
#
# Downlink packets wait at the router that ends MDLP: it has a queue for each mobile, which overflows; the
# host has none. Everything of one mobile is a `CellMobile`; all members share both channels. What the model
# leaves out (sleep mode, other users' forward traffic, header and V.42bis compression) and what is uncertain
# in it is told in docs/links.md.


_AMPS_CHANNELS = range(1, 800)
_KINDS = {"fade", "drop", "hop", "ejection", "blackout"}


class CdpdLink:
    """A `PacketLink` over CDPD.

    Parameters
    ----------
    config : CdpdConfig
    seed : int
        The same seed gives the same radios and the same cell.
    script : sequence of ScriptEvent
        fade, drop, hop, ejection and blackout, counted from the first packet; they affect all mobiles.
    """

    def __init__(self, config: CdpdConfig, *, seed: int, script: Sequence[ScriptEvent] = ()) -> None:
        self.config = config
        self.hosts = host_names(config.mobiles)
        self._seed = f"{seed} cdpd"
        self._agenda = Agenda()
        self._out: list[LinkDelivery] = []
        self._tuning = Random(f"{self._seed} tuning")
        self._channel = self._tuning.choice(_AMPS_CHANNELS)
        shared = self._shared_parts()
        self._journal, self._hops = shared.journal, shared.hops
        self._members = self._joined(shared)
        self._journals = {FIXED: self._journal} | {h: m.journal for h, m in self._members.items()}
        self._mobiles = Mobiles(self._members)
        self._script = Script(script, kinds=_KINDS, agenda=self._agenda, play=self._play)

    # --- parts ---

    def _shared_parts(self) -> CdpdChannelState:
        config, agenda = self.config, self._agenda
        times = block_times(config.bits_per_s, is_coded=config.recovery == "mdlp")
        journal = SideJournal(times.microslot_ns)
        reverse = ReverseChannel(config.access, times, remembers_ns=config.report_ns)
        CdpdCell(reverse, config.cell, config.access, agenda=agenda, seed=self._seed)
        of = config.outages
        hops = (
            Chance("hop", of.hop_every_ns, of.hop_min_ns, of.hop_max_ns),
            Chance("hop", of.planned_hop_every_ns, of.planned_hop_min_ns, of.planned_hop_max_ns, is_planned=True),
        )
        return CdpdChannelState(
            config=config,
            times=times,
            agenda=agenda,
            reverse=reverse,
            forward=ForwardChannel(times, agenda, journal),
            journal=journal,
            hops=OutageProcess(hops, agenda=agenda, seed=self._seed, changed=self._hop),
            deliver=lambda host, packet: self._out.append(LinkDelivery(host, packet)),
            outage_ended=self._outage_ended,
        )

    def _joined(self, shared: CdpdChannelState) -> dict[HostName, CellMobile]:
        """Return new mobiles by name.

        The random numbers of the first do not depend on the number of mobiles.
        """
        members = {}
        for number, host in enumerate(self.hosts[:-1], start=1):
            seed = self._seed if number == 1 else f"{self._seed} {host}"
            members[host] = CellMobile(host, number, shared, seed=seed)
        return members

    # --- packets ---

    @property
    def next_ns(self) -> int | None:
        """Link time of the next event in ns; None if no event is scheduled."""
        return self._agenda.next_ns

    @property
    def is_up(self) -> bool:
        """Whether at least one mobile has a channel."""
        return any(member.has_channel for member in self._members.values())

    @property
    def is_dropped(self) -> bool:
        """Return False: after an outage the channel always returns."""
        return False

    @property
    def is_drained(self) -> bool:
        """Whether no packet waits or is in transit."""
        return all(member.is_drained for member in self._members.values())

    def send(self, host: HostName, packet: bytes, *, now_ns: int) -> bool:
        """Offer an IP packet of a host.

        Return False if the modem's queue refuses it (an event reports this).
        """
        member = None if host == FIXED else self._mobiles.named(host)
        self._agenda.advance(now_ns)
        now_ns = self._agenda.now_ns
        self._script.first_packet(now_ns)
        if member is not None:
            return member.send_up(packet, now_ns)
        member = self._mobiles.addressed(packet)
        if member is not None:
            member.send_down(packet, now_ns)
            return True
        facts = ip_facts(packet)
        self._journal.add(PacketDropped, now_ns, 0, len(packet), facts.ip_id, facts.seq, "no-route")
        return True

    def advance(self, now_ns: int) -> list[LinkDelivery]:
        """Run all events up to `now_ns`; return the packets that came out, in order."""
        self._agenda.advance(now_ns)
        out, self._out = self._out, []
        return out

    # --- outages and the script ---

    def _hop(self, now_ns: int, kind: OutageKind, begins: bool) -> None:
        """Begin or end an outage that affects the channel of all mobiles."""
        self._journal.add(OutageStarted if begins else OutageEnded, now_ns, kind)
        for member in self._members.values():
            member.change_channel(now_ns, kind, begins=begins, journals=[member.journal])
        if not begins:
            self._channel = self._tuning.choice(_AMPS_CHANNELS)

    def _outage_ended(self, kind: OutageKind) -> None:
        """After an outage of a mobile, choose its channel.

        A single mobile tunes to a random channel, except after a blackout; one of several mobiles
        returns to the common channel.
        """
        if kind != "blackout" and len(self._members) == 1:
            self._channel = self._tuning.choice(_AMPS_CHANNELS)

    def _play(self, event: ScriptEvent, now_ns: int) -> None:
        lasts_ns = round(event.duration_s * NS_PER_S)
        if event.kind == "hop":
            self._hops.begin(now_ns, event.kind, lasts_ns)
            return
        for member in self._members.values():
            if event.kind in STATES:
                member.begin_outage(now_ns, event.kind, lasts_ns)
            else:
                member.play(event, now_ns)

    # --- what it tells ---

    def events(self, host: HostName) -> list[LinkEvent]:
        """Return the events at a host since the last call of this method, in order of time.

        The fixed host has the events of all mobiles.
        """
        journal = self._journals.get(host)  # asked for each host after each event: 31 times in a full cell
        return journal.events() if journal is not None else self._mobiles.named(host).journal.events()

    def radio(self, now_ns: int) -> ErrorTrace | None:
        """Return the error trace up to now: the blocks that the radio destroyed.

        None with several mobiles, or if the link has no blocks.
        """
        self._agenda.advance(now_ns)
        members = list(self._members.values())
        is_complete = len(members) == 1 and self.config.recovery == "mdlp"
        return members[0].radio(now_ns) if is_complete else None

    def reading(self, now_ns: int, *, host: HostName | None = None) -> RadioReading:
        """Return the values that a mobile's modem reports; by default of the first mobile."""
        return self._mobiles.named(host or self.hosts[0]).reading(now_ns, self._channel)
