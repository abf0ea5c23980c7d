"""A link that is up while the received power is above a threshold.

    interface queue → air, one packet after the other at a fixed rate → the other end

A packet arrives if the link was up from its first bit to its last. What becomes of the others in a fade is
`when_down`. Both directions go up and down together and do not share the rate (docs/ray_channel.md).
"""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.ray.fades import switches
from multitracer.lab.channel.shared.event_log import SideJournal
from multitracer.lab.channel.shared.hosts import FAR, SIDES, one_of_two
from multitracer.lab.channel.shared.interface import Interface
from multitracer.lab.channel.shared.ip_fields import ip_facts
from multitracer.lab.channel.shared.named import named
from multitracer.lab.channel.shared.outages import Outages
from multitracer.lab.channel.shared.packet_link import Delivery, RadioReading
from multitracer.lab.channel.shared.scheduler import Agenda
from multitracer.lab.channel.shared.script import Script
from multitracer.protocols.channel_events import (
    OutageEnded,
    OutageStarted,
    PieceLost,
    PieceReceived,
    PieceSent,
)
from multitracer.protocols.link_events import PacketDropped
from multitracer.units import NS_PER_MS, NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from multitracer.lab.channel.ray.channel import Channel
    from multitracer.lab.channel.shared.hosts import HostName, Side
    from multitracer.lab.channel.shared.outages import OutageKind
    from multitracer.lab.channel.shared.script import ScriptEvent
    from multitracer.lab.channel.switched.config import SwitchedConfig
    from multitracer.protocols.link_events import LinkEvent

_KINDS = {"drop", "blackout"}


class _OnAir(NamedTuple):
    """A packet on its way from one side."""

    side: Side
    packet: bytes
    about: tuple[int, int, int | None, int | None]
    """Octets, offset in the stream of its side, IP identification and sequence number."""
    air_ns: int
    """From its first bit to its last."""
    falls: int | None
    """How often the link had gone down when it began; None if the link was down."""


class SwitchedLink:
    """A `PacketLink` between two nodes of a ray-traced channel.

    Parameters
    ----------
    config : SwitchedConfig
    seed : int
        The same seed gives the same power.
    script : sequence of ScriptEvent
        drop and blackout, counted from the first packet.

    Raises
    ------
    LocalProtocolError
        If the nodes cannot be where they are (`channel_of`), or the link is never up.
    """

    def __init__(self, config: SwitchedConfig, *, seed: int, script: Sequence[ScriptEvent] = ()) -> None:
        self.config = config
        self.channel: Channel = config.channel(seed=seed)
        _check_up(self.channel, config)
        self._is_above, self._switches = _switch_times(self.channel, config)
        self.is_up = self._is_above
        """Whether the power is above the threshold, no blackout goes on, and no trace is over."""
        self.is_dropped = False
        """Whether a power trace that is not repeated is over, and the link with it."""
        self._agenda = Agenda()
        self._out: list[Delivery] = []
        self._journals = {side: SideJournal(NS_PER_MS) for side in SIDES}
        self._interfaces = {side: Interface(config.queue, self._journals[side].add) for side in SIDES}
        self._sent_bytes = dict.fromkeys(SIDES, 0)
        self._sending = dict.fromkeys(SIDES, False)
        self._in_transit = 0
        self._falls = 0
        self._outages = Outages([], agenda=self._agenda, seed=f"{seed} switched", changed=self._outage)
        self._script = Script(script, kinds=_KINDS, agenda=self._agenda, play=self._play)
        self._plan_switch()
        if config.power is not None and config.at_end == "stop":
            self._agenda.at(config.power.lasts_ns, self._stop)

    # --- packets ---

    @property
    def hosts(self) -> tuple[HostName, ...]:
        """Names of its two hosts."""
        return SIDES

    @property
    def next_ns(self) -> int | None:
        """Time of the next event."""
        return self._agenda.next_ns

    @property
    def first_up_ns(self) -> int:
        """When the power first reaches the threshold."""
        above = self.channel.power_dbm >= self.config.threshold_dbm
        return int(above.argmax()) * self.channel.step_ns

    @property
    def is_quiet(self) -> bool:
        """Whether no packet waits or is on the air."""
        return self._in_transit == 0 and not any(len(each.queue) for each in self._interfaces.values())

    def send(self, host: HostName, packet: bytes, *, now_ns: int) -> bool:
        """Offer a host's IP packet; False if its queue refused it and reports that."""
        side = one_of_two(host)
        self._agenda.advance(now_ns)
        now_ns = self._agenda.now_ns
        self._script.first_packet(now_ns)
        if not self.is_up and (self.is_dropped or self.config.when_down == "flush"):
            self._drop(side, packet, now_ns)
            return True
        taken = self._interfaces[side].offer(packet, now_ns=now_ns)
        self._start(side, now_ns)
        return taken

    def advance(self, now_ns: int) -> list[Delivery]:
        """Run all events up to `now_ns`; return the packets that came out, in order."""
        self._agenda.advance(now_ns)
        out, self._out = self._out, []
        return out

    def _start(self, side: Side, now_ns: int) -> None:
        """Begin to send the next packet of a side, if nothing prevents it."""
        if self._sending[side] or (not self.is_up and self.config.when_down == "hold"):
            return
        packet = self._interfaces[side].take(now_ns)
        if packet is None:
            return
        facts, offset = ip_facts(packet), self._sent_bytes[side]
        self._sent_bytes[side] += len(packet)
        about = len(packet), offset, facts.ip_id, facts.seq
        air_ns = self.config.air_ns(packet)
        sent = named(_OnAir, (side, packet, about, air_ns, self._falls if self.is_up else None))
        self._sending[side] = True
        self._in_transit += 1
        self._agenda.at(now_ns + air_ns, partial(self._has_left, sent))

    def _has_left(self, sent: _OnAir, now_ns: int) -> None:
        octets, offset, ip_id, seq = sent.about
        air_us = sent.air_ns // NS_PER_US
        self._journals[sent.side].add(PieceSent, now_ns, air_us, octets, offset, 1, ip_id, seq, "")
        self._agenda.at(now_ns + self.config.delay_ns, partial(self._arrive, sent))
        self._sending[sent.side] = False
        self._start(sent.side, now_ns)

    def _arrive(self, sent: _OnAir, now_ns: int) -> None:
        """Hand a packet up, unless the link was down at any time since its first bit."""
        far = FAR[sent.side]
        self._in_transit -= 1
        if sent.falls == self._falls and self.is_up:
            self._journals[far].add(PieceReceived, now_ns, *sent.about, "")
            self._out.append(named(Delivery, (far, sent.packet)))
        else:
            self._journals[far].add(PieceLost, now_ns, *sent.about, "outage")

    def _drop(self, side: Side, packet: bytes, now_ns: int) -> None:
        facts = ip_facts(packet)
        waiting = len(self._interfaces[side].queue)
        self._journals[side].add(
            PacketDropped, now_ns, waiting, len(packet), facts.ip_id, facts.seq, "closed"
        )

    # --- up and down ---

    def _plan_switch(self) -> None:
        due_ns = next(self._switches, None)
        if due_ns is not None:
            self._agenda.at(due_ns, self._switch)

    def _switch(self, now_ns: int) -> None:
        was_up = self.is_up
        self._is_above = not self._is_above
        self._tell_outage(now_ns, "fade", begins=not self._is_above)
        self._changed(now_ns, was_up=was_up)
        self._plan_switch()

    def _outage(self, now_ns: int, kind: OutageKind, begins: bool) -> None:
        self._tell_outage(now_ns, kind, begins=begins)
        self._changed(now_ns, was_up=self._is_above and begins)

    def _tell_outage(self, now_ns: int, cause: str, *, begins: bool) -> None:
        for journal in self._journals.values():
            journal.add(OutageStarted if begins else OutageEnded, now_ns, cause)

    def _changed(self, now_ns: int, *, was_up: bool) -> None:
        """Do what follows from the link's going up or down."""
        self.is_up = self._is_above and not self._outages and not self.is_dropped
        if was_up and not self.is_up:
            self._falls += 1
            if self.config.when_down == "flush":
                self._flush(now_ns)
        elif self.is_up:
            for side in SIDES:
                self._start(side, now_ns)

    def _stop(self, now_ns: int) -> None:
        """End the link: what waits or is on the air is lost."""
        was_up = self.is_up
        self.is_dropped = True
        self._changed(now_ns, was_up=was_up)
        self._flush(now_ns)

    def _flush(self, now_ns: int) -> None:
        for side in SIDES:
            while (packet := self._interfaces[side].take(now_ns)) is not None:
                self._drop(side, packet, now_ns)

    def _play(self, event: ScriptEvent, now_ns: int) -> None:
        if event.kind == "blackout":
            self._outages.begin(now_ns, "blackout", round(event.duration_s * NS_PER_S))
            return
        for side in SIDES:
            if event.direction in ("both", "up" if side == "mobile" else "down"):
                self._interfaces[side].lose_packets(event.packets)

    # --- what it tells ---

    def events(self, host: HostName) -> list[LinkEvent]:
        """Return what happened at one end since the last call, in order."""
        journal = self._journals.get(host)  # type: ignore[call-overload]  # asked after every event
        journal = journal or self._journals[one_of_two(host)]
        return journal.events() if journal.waiting else []

    def reading(self, now_ns: int, *, host: HostName | None = None) -> RadioReading:
        """Return the received power; after the end of one that is not repeated that of its last step."""
        del host
        step, steps = now_ns // self.channel.step_ns, len(self.channel.power_dbm)
        step = step % steps if _repeats(self.config) else min(step, steps - 1)
        state = "dropped" if self.is_dropped else "registered" if self.is_up else "blackout"
        return RadioReading(float(self.channel.power_dbm[step]), None, None, None, state)


def _repeats(config: SwitchedConfig) -> bool:
    """Return whether the power begins again at its end."""
    return config.power is not None and config.at_end == "repeat"


def _switch_times(channel: Channel, config: SwitchedConfig) -> tuple[bool, Iterator[int]]:
    """Return whether the link begins up, and when it changes, in ns; without end if the power repeats."""
    is_above, steps = switches(channel.power_dbm, config.threshold_dbm)
    once: list[int] = (steps * channel.step_ns).tolist()
    if not once or not _repeats(config):
        return is_above, iter(once)
    lasts_ns = channel.step_ns * len(channel.power_dbm)
    if len(once) % 2:  # it ends as it does not begin
        once.append(lasts_ns)
    return is_above, (begin_ns + time_ns for begin_ns in count(0, lasts_ns) for time_ns in once)


def _check_up(channel: Channel, config: SwitchedConfig) -> None:
    most_dbm = float(channel.power_dbm.max())
    if most_dbm < config.threshold_dbm:
        what = "a lower threshold, more power or nearer nodes"
        if config.power is not None:
            what = "a lower threshold or another trace"
        raise LocalProtocolError(
            f"the link is never up: at most {most_dbm:.1f} dBm arrive, and threshold_dbm is "
            f"{config.threshold_dbm:g}; choose {what}"
        )
