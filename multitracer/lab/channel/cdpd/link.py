"""CDPD: the mobiles' links to the fixed host, with the cell that they share.

    mobile: interface queue → MDLP → blocks → reverse channel (contended) ─┐
                                                              backhaul → MDLP → fixed network → fixed host
    mobile ← MDLP ← backhaul ← forward channel ← blocks ← MDLP ← interface queue ← fixed network ← fixed host

Downlink packets wait at the router that ends MDLP: it has a queue for each mobile, which overflows; the host
has none. Everything of one mobile is a `Member`; all members share both channels. What the model leaves out
(sleep mode, other users' forward traffic, header and V.42bis compression) and what is uncertain in it is told
in docs/links.md.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from multitracer.lab.channel.cdpd.blocks import block_times
from multitracer.lab.channel.cdpd.dsma import ReverseChannel
from multitracer.lab.channel.cdpd.forward_channel import ForwardChannel
from multitracer.lab.channel.cdpd.member import Member, Shared
from multitracer.lab.channel.cdpd.other_users import Cell
from multitracer.lab.channel.shared.event_log import SideJournal
from multitracer.lab.channel.shared.hosts import FIXED, host_names
from multitracer.lab.channel.shared.ip_fields import ip_facts
from multitracer.lab.channel.shared.mobiles import Mobiles
from multitracer.lab.channel.shared.outages import STATES, Chance, Outages
from multitracer.lab.channel.shared.packet_link import Delivery
from multitracer.lab.channel.shared.scheduler import Agenda
from multitracer.lab.channel.shared.script import Script
from multitracer.protocols.channel_events import OutageEnded, OutageStarted
from multitracer.protocols.link_events import PacketDropped
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.lab.channel.cdpd.config import CdpdConfig
    from multitracer.lab.channel.shared.hosts import HostName
    from multitracer.lab.channel.shared.outages import OutageKind
    from multitracer.lab.channel.shared.packet_link import RadioReading
    from multitracer.lab.channel.shared.script import ScriptEvent
    from multitracer.protocols.error_trace import ErrorTrace
    from multitracer.protocols.link_events import LinkEvent

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
        fade, drop, hop, ejection and blackout, counted from the first packet; they befall all mobiles.
    """

    def __init__(self, config: CdpdConfig, *, seed: int, script: Sequence[ScriptEvent] = ()) -> None:
        self.config = config
        self.hosts = host_names(config.mobiles)
        self._seed = f"{seed} cdpd"
        self._agenda = Agenda()
        self._out: list[Delivery] = []
        self._tuning = Random(f"{self._seed} tuning")
        self._channel = self._tuning.choice(_AMPS_CHANNELS)
        shared = self._shared_parts()
        self._journal, self._hops = shared.journal, shared.hops
        self._members = self._joined(shared)
        self._journals = {FIXED: self._journal} | {h: m.journal for h, m in self._members.items()}
        self._mobiles = Mobiles(self._members)
        self._script = Script(script, kinds=_KINDS, agenda=self._agenda, play=self._play)

    # --- parts ---

    def _shared_parts(self) -> Shared:
        config, agenda = self.config, self._agenda
        times = block_times(config.bits_per_s, is_coded=config.recovery == "mdlp")
        journal = SideJournal(times.microslot_ns)
        reverse = ReverseChannel(config.access, times, remembers_ns=config.report_ns)
        Cell(reverse, config.cell, config.access, agenda=agenda, seed=self._seed)
        of = config.outages
        hops = Chance("hop", of.hop_every_ns, of.hop_min_ns, of.hop_max_ns)
        return Shared(
            config=config,
            times=times,
            agenda=agenda,
            reverse=reverse,
            forward=ForwardChannel(times, agenda, journal),
            journal=journal,
            hops=Outages([hops], agenda=agenda, seed=self._seed, changed=self._hop),
            deliver=lambda host, packet: self._out.append(Delivery(host, packet)),
            outage_ended=self._outage_ended,
        )

    def _joined(self, shared: Shared) -> dict[HostName, Member]:
        """Return the mobiles by name; the first has the chance of an only one."""
        members = {}
        for number, host in enumerate(self.hosts[:-1], start=1):
            seed = self._seed if number == 1 else f"{self._seed} {host}"
            members[host] = Member(host, number, shared, seed=seed)
        return members

    # --- packets ---

    @property
    def next_ns(self) -> int | None:
        """Time of the next event."""
        return self._agenda.next_ns

    @property
    def is_up(self) -> bool:
        """Whether a mobile has a channel."""
        return any(member.has_channel for member in self._members.values())

    @property
    def is_dropped(self) -> bool:
        """Return False: the channel always comes back."""
        return False

    @property
    def is_quiet(self) -> bool:
        """Whether no packet waits or is in transit."""
        return all(member.is_quiet for member in self._members.values())

    def send(self, host: HostName, packet: bytes, *, now_ns: int) -> bool:
        """Offer a host's IP packet; False if the modem's queue refused it and reports that."""
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

    def advance(self, now_ns: int) -> list[Delivery]:
        """Run all events up to `now_ns`; return the packets that came out, in order."""
        self._agenda.advance(now_ns)
        out, self._out = self._out, []
        return out

    # --- outages and the script ---

    def _hop(self, now_ns: int, kind: OutageKind, begins: bool) -> None:
        """Take the channel away from all mobiles, or give them another one."""
        self._journal.add(OutageStarted if begins else OutageEnded, now_ns, kind)
        for member in self._members.values():
            member.change_channel(now_ns, kind, begins=begins, journals=[member.journal])
        if not begins:
            self._channel = self._tuning.choice(_AMPS_CHANNELS)

    def _outage_ended(self, kind: OutageKind) -> None:
        """Tune an only mobile anew after an ejection; one of many comes back to the channel of all."""
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
        """Return what happened at a host's end since the last call, in order; at the fixed one of all."""
        journal = self._journals.get(host)  # asked for each host after each event: 31 times in a full cell
        return journal.events() if journal is not None else self._mobiles.named(host).journal.events()

    def radio(self, now_ns: int) -> ErrorTrace | None:
        """Return which blocks the radio has destroyed up to now; None for several mobiles or no blocks."""
        self._agenda.advance(now_ns)
        members = list(self._members.values())
        is_whole = len(members) == 1 and self.config.recovery == "mdlp"
        return members[0].radio(now_ns) if is_whole else None

    def reading(self, now_ns: int, *, host: HostName | None = None) -> RadioReading:
        """Return the answer of a mobile's modem, by default the first one's."""
        return self._mobiles.named(host or self.hosts[0]).reading(now_ns, self._channel)
