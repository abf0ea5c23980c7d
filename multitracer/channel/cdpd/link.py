"""CDPD: one mobile's link to the fixed host, with the cell that it shares.

    mobile: interface queue → MDLP → blocks → reverse channel (contended) ─┐
                                                              backhaul → MDLP → fixed network → fixed host
    mobile ← MDLP ← backhaul ← forward channel ← blocks ← MDLP ← interface queue ← fixed network ← fixed host

Downlink packets wait at the router that ends MDLP: it has the queue that overflows, the host has none. What
the model leaves out (sleep mode, other users' forward traffic, header and V.42bis compression) and what is
uncertain in it is told in docs/links.md.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from multitracer.channel.cdpd.block_radio import BlockRadio
from multitracer.channel.cdpd.blocks import (
    FORWARD_BLOCK_NS,
    MICROSLOT_NS,
    REVERSE_BLOCK_NS,
    BlockFiller,
    BlockPath,
)
from multitracer.channel.cdpd.dsma import ReverseChannel
from multitracer.channel.cdpd.fixed_network import FixedNetwork
from multitracer.channel.cdpd.forward_channel import ForwardChannel
from multitracer.channel.cdpd.mdlp import MdlpEntity
from multitracer.channel.cdpd.other_users import Cell
from multitracer.channel.cdpd.reverse_transmitter import ReverseTransmitter
from multitracer.channel.shared.event_log import SideJournal
from multitracer.channel.shared.frame_errors import FadingErrors, error_process
from multitracer.channel.shared.hosts import FAR, SIDES, one_of_two
from multitracer.channel.shared.interface import Interface
from multitracer.channel.shared.ip_fields import ip_facts
from multitracer.channel.shared.outages import STATES, Chance, Outages
from multitracer.channel.shared.packet_link import Delivery, RadioReading
from multitracer.channel.shared.received_power import Signal
from multitracer.channel.shared.scheduler import Agenda
from multitracer.channel.shared.script import Script
from multitracer.protocols.channel_events import OutageEnded, OutageStarted, PieceLost, PieceSent
from multitracer.protocols.link_events import PacketDropped
from multitracer.units import NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from multitracer.channel.cdpd.blocks import Carriage
    from multitracer.channel.cdpd.config import CdpdConfig, OutageConfig
    from multitracer.channel.shared.frame_errors import ErrorConfig
    from multitracer.channel.shared.hosts import HostName, Side
    from multitracer.channel.shared.outages import OutageKind
    from multitracer.channel.shared.script import ScriptEvent
    from multitracer.protocols.link_events import LinkEvent

_BLOCK_NS: dict[Side, int] = {"mobile": REVERSE_BLOCK_NS, "fixed": FORWARD_BLOCK_NS}
_AMPS_CHANNELS = range(1, 800)
_KINDS = {"fade", "drop", "hop", "ejection", "blackout"}


class CdpdLink:
    """A `PacketLink` over CDPD.

    Parameters
    ----------
    config : CdpdConfig
    seed : int
        The same seed gives the same radio and the same cell.
    script : sequence of ScriptEvent
        fade, drop, hop, ejection and blackout, counted from the first packet.
    """

    def __init__(self, config: CdpdConfig, *, seed: int, script: Sequence[ScriptEvent] = ()) -> None:
        self.config = config
        self._seed = f"{seed} cdpd"
        self._agenda = Agenda()
        self._out: list[Delivery] = []
        self._journals: dict[Side, SideJournal] = {side: SideJournal(MICROSLOT_NS) for side in SIDES}
        self._interfaces = {side: Interface(config.queue, self._journals[side].add) for side in SIDES}
        self._entities = {
            side: MdlpEntity(config.mdlp, self._interfaces[side].take, self._journals[side]) for side in SIDES
        }
        self._armed: dict[Side, int | None] = dict.fromkeys(SIDES)
        self._networks = {
            "mobile": self._network("up", config.network.loss_up, self._reach_host),
            "fixed": self._network("down", config.network.loss_down, self._reach_router),
        }
        self._radio_parts(config)
        self._channels(config)
        self._tuning = self._luck("tuning")
        self._channel = self._tuning.choice(_AMPS_CHANNELS)
        self._outages = Outages(
            _chances(config.outages), agenda=self._agenda, seed=self._seed, changed=self._outage
        )
        self._script = Script(script, kinds=_KINDS, agenda=self._agenda, play=self._play)

    # --- parts ---

    def _luck(self, name: str) -> Random:
        return Random(f"{self._seed} {name}")

    def _network(self, name: str, loss: float, arrived: Callable[[bytes, int], None]) -> FixedNetwork:
        network = self.config.network
        return FixedNetwork(
            delay_ns=network.fixed_ns,
            jitter_ns=network.jitter_ns,
            loss=loss,
            agenda=self._agenda,
            luck=self._luck(f"network {name}"),
            arrived=arrived,
        )

    def _radio_parts(self, config: CdpdConfig) -> None:
        self._signal = Signal(config.signal, luck=self._luck("signal"))
        self._fading: dict[Side, FadingErrors] = {
            "mobile": self._errors(config.up, "mobile"),
            "fixed": self._errors(config.down, "fixed"),
        }
        self._radios = {
            side: BlockRadio(
                self._fading[side],
                Signal(config.signal, luck=self._luck("signal")),  # each asks at its own times
                block_ns=_BLOCK_NS[side],
                report_ns=config.report_ns,
            )
            for side in SIDES
        }

    def _errors(self, config: ErrorConfig, side: Side) -> FadingErrors:
        below = error_process(config, slot_ns=_BLOCK_NS[side], luck=self._luck(f"errors {side}"))
        return FadingErrors(below, luck=self._luck(f"fades {side}"))

    def _channels(self, config: CdpdConfig) -> None:
        self._reverse_channel = ReverseChannel(config.access)
        self._cell = Cell(
            self._reverse_channel,
            config.cell,
            config.access,
            agenda=self._agenda,
            seed=self._seed,
        )
        self._reverse = ReverseTransmitter(
            self._reverse_channel,
            config.access,
            self._path("mobile"),
            has_work=self._has_work,
            luck=self._luck("access"),
        )
        self._forward = ForwardChannel(self._path("fixed"))

    def _path(self, side: Side) -> BlockPath:
        entity = self._entities[side]
        return BlockPath(
            agenda=self._agenda,
            filler=BlockFiller(entity.next_frame, entity.frame_bits),
            radio=self._radios[side],
            journal=self._journals[side],
            completed=lambda carriage, now_ns: self._carried(side, carriage, now_ns),
        )

    def _has_work(self, now_ns: int) -> bool:
        waiting = len(self._interfaces["mobile"].queue) > 0
        return self._entities["mobile"].has_work(now_ns, has_packet=waiting)

    # --- packets ---

    @property
    def hosts(self) -> tuple[HostName, ...]:
        """Names of its hosts."""
        return SIDES

    @property
    def next_ns(self) -> int | None:
        """Time of the next event."""
        return self._agenda.next_ns

    @property
    def is_up(self) -> bool:
        """Whether there is a channel."""
        return not self._outages

    @property
    def is_dropped(self) -> bool:
        """Return False: the channel always comes back."""
        return False

    @property
    def is_quiet(self) -> bool:
        """Whether no packet waits or is in transit."""
        return not (
            any(len(interface.queue) for interface in self._interfaces.values())
            or any(network.under_way for network in self._networks.values())
            or any(not entity.is_quiet for entity in self._entities.values())
        )

    def send(self, host: HostName, packet: bytes, *, now_ns: int) -> bool:
        """Offer a host's IP packet; False if the modem's queue refused it and reports that."""
        side = one_of_two(host)
        self._agenda.advance(now_ns)
        now_ns = self._agenda.now_ns
        self._script.first_packet(now_ns)
        if side == "fixed":
            self._cross("fixed", packet, now_ns)
            return True
        taken = self._interfaces["mobile"].offer(packet, now_ns=now_ns)
        self._attend("mobile", now_ns)
        return taken

    def advance(self, now_ns: int) -> list[Delivery]:
        """Run all events up to `now_ns`; return the packets that came out, in order."""
        self._agenda.advance(now_ns)
        out, self._out = self._out, []
        return out

    def _reach_router(self, packet: bytes, now_ns: int) -> None:
        self._interfaces["fixed"].offer(packet, now_ns=now_ns)
        self._attend("fixed", now_ns)

    def _reach_host(self, packet: bytes, now_ns: int) -> None:
        del now_ns
        self._out.append(Delivery("fixed", packet))

    def _cross(self, side: Side, packet: bytes, now_ns: int) -> None:
        """Send a side's packet through the fixed network."""
        if not self._networks[side].send(packet, now_ns):
            facts = ip_facts(packet)
            about = 0, len(packet), facts.ip_id, facts.seq, "network"
            self._journals["fixed"].add(PacketDropped, now_ns, *about)

    # --- frames ---

    def _attend(self, side: Side, now_ns: int) -> None:
        """Make a side send its data, and schedule its next timer."""
        entity = self._entities[side]
        if entity.deadline_ns is not None and entity.deadline_ns <= now_ns:
            entity.expire(now_ns)
        (self._reverse if side == "mobile" else self._forward).kick(now_ns)
        due_ns = entity.deadline_ns
        if due_ns is not None and due_ns != self._armed[side]:
            self._armed[side] = due_ns
            self._agenda.at(due_ns, lambda then_ns: self._wake(side, then_ns))

    def _wake(self, side: Side, now_ns: int) -> None:
        self._entities[side].expire(now_ns)
        self._attend(side, now_ns)

    def _carried(self, side: Side, carriage: Carriage, now_ns: int) -> None:
        """Handle the end of a frame's last block."""
        frame, entity = carriage.frame, self._entities[side]
        entity.sent(frame, now_ns)
        about = entity.frame_octets(frame), frame.offset_bytes
        names = frame.ip_id, frame.seq
        if frame.kind == "I":
            air_us = (now_ns - carriage.began_ns) // NS_PER_US
            journal = self._journals[side]
            journal.add(PieceSent, now_ns, air_us, *about, frame.attempt, *names, frame.cause)
        if not carriage.is_damaged:
            arrives_ns = now_ns + self.config.network.backhaul_ns
            self._agenda.at(arrives_ns, lambda then_ns: self._arrived(FAR[side], carriage, then_ns))
        elif frame.kind == "I":
            cause = "outage" if self._outages else "block"
            self._journals[FAR[side]].add(PieceLost, now_ns, *about, *names, cause)
        self._attend(side, now_ns)

    def _arrived(self, side: Side, carriage: Carriage, now_ns: int) -> None:
        for packet in self._entities[side].receive(carriage.frame, now_ns):
            if side == "mobile":
                self._out.append(Delivery("mobile", packet))
            else:
                self._cross("mobile", packet, now_ns)
        self._attend(side, now_ns)

    # --- outages and the script ---

    def _outage(self, now_ns: int, kind: OutageKind, begins: bool) -> None:
        is_away = bool(self._outages)
        is_deaf = self._outages.kind in ("hop", "ejection")
        for side in SIDES:
            self._journals[side].add(OutageStarted if begins else OutageEnded, now_ns, kind)
            self._radios[side].set_outage(now_ns, deaf=is_deaf, dead=is_away)
        if not begins and kind != "blackout":
            self._channel = self._tuning.choice(_AMPS_CHANNELS)
        self._reverse.set_away(now_ns, is_away=is_away)

    def _play(self, event: ScriptEvent, now_ns: int) -> None:
        lasts_ns = round(event.duration_s * NS_PER_S)
        if event.kind in STATES:
            self._outages.begin(now_ns, event.kind, lasts_ns)
            return
        for side in SIDES:
            if event.direction not in ("both", "up" if side == "mobile" else "down"):
                continue
            if event.kind == "drop":
                self._interfaces[side].lose_packets(event.packets)
            else:
                begin, slots = now_ns // _BLOCK_NS[side], -(-lasts_ns // _BLOCK_NS[side])
                self._fading[side].fade(begin=begin, slots=slots, rate=event.rate)

    # --- what it tells ---

    def events(self, host: HostName) -> list[LinkEvent]:
        """Return what happened at one end since the last call, in order."""
        return self._journals[one_of_two(host)].events()

    def reading(self, now_ns: int, *, host: HostName | None = None) -> RadioReading:
        """Return the modem's answer; without a channel it holds nothing about the channel."""
        del host
        kind = self._outages.kind
        if kind in ("hop", "ejection"):
            return RadioReading(None, None, None, None, STATES[kind])
        bler = self._radios["fixed"].bler_percent(now_ns)
        if kind == "blackout":
            return RadioReading(self.config.signal.zero_dbm, bler, None, self._channel, STATES[kind])
        since_ns = max(0, now_ns - self.config.report_ns)
        busy = self._reverse_channel.busy_percent(since_ns, now_ns)
        return RadioReading(self._signal.dbm(now_ns), bler, busy, self._channel, "registered")


def _chances(config: OutageConfig) -> list[Chance]:
    return [
        Chance("hop", config.hop_every_ns, config.hop_min_ns, config.hop_max_ns),
        Chance("ejection", config.ejection_every_ns, config.ejection_min_ns, config.ejection_max_ns),
        Chance("blackout", config.blackout_every_ns, config.blackout_min_ns, config.blackout_max_ns, True),
    ]
