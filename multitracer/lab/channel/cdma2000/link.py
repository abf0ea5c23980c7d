"""cdma2000 1x packet data: the mobiles' links to the fixed host, with the sector that they share.

    fixed host → wire → buffer of the mobile (octets) → RLP → frames of 20 ms → backhaul → RLP → mobile
    fixed host ← wire ← RLP ← backhaul ← frames of 20 ms ← RLP ← interface queue ← mobile

Each direction of a mobile has a fundamental channel of 9.6 kbit/s always, which carries NAKs, too. Bursts of
a supplemental channel are assigned by backlog and channel (`supplemental.py`); while one lasts, it carries
the data. With `rate = "mean"` there is one channel of a steady rate instead: the control of paper 003.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.lab.channel.cdma2000.member import Member, Shared
from multitracer.lab.channel.cdma2000.rates import FRAME_NS
from multitracer.lab.channel.cdma2000.supplemental import Scheduler
from multitracer.lab.channel.shared.event_log import SideJournal
from multitracer.lab.channel.shared.hosts import FIXED, SIDES, host_names
from multitracer.lab.channel.shared.ip_fields import ip_facts
from multitracer.lab.channel.shared.mobiles import Mobiles
from multitracer.lab.channel.shared.outages import STATES, Outages
from multitracer.lab.channel.shared.packet_link import Delivery
from multitracer.lab.channel.shared.scheduler import Agenda
from multitracer.lab.channel.shared.script import Script
from multitracer.protocols.channel_events import OutageEnded, OutageStarted
from multitracer.protocols.link_events import PacketDropped
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.lab.channel.cdma2000.config import Cdma2000Config
    from multitracer.lab.channel.shared.hosts import HostName, Side
    from multitracer.lab.channel.shared.outages import OutageKind
    from multitracer.lab.channel.shared.packet_link import RadioReading
    from multitracer.lab.channel.shared.script import ScriptEvent
    from multitracer.protocols.link_events import LinkEvent

_KINDS = {"fade", "drop", "blackout"}


class Cdma2000Link:
    """A `PacketLink` over cdma2000 1x.

    Parameters
    ----------
    config : Cdma2000Config
    seed : int
        The same seed gives the same radios.
    script : sequence of ScriptEvent
        fade, drop and blackout, counted from the first packet; they befall all mobiles.
    """

    def __init__(self, config: Cdma2000Config, *, seed: int, script: Sequence[ScriptEvent] = ()) -> None:
        self.config = config
        self.hosts = host_names(config.mobiles)
        self._seed = f"{seed} cdma2000"
        self._agenda = Agenda()
        self._out: list[Delivery] = []
        self._on_wire = 0
        self._is_awake = False
        self._journal = SideJournal(FRAME_NS)
        self._outages = Outages([], agenda=self._agenda, seed=self._seed, changed=self._outage)
        self._members = {host: self._member(number, host) for number, host in enumerate(self.hosts[:-1], 1)}
        self._mobiles = Mobiles(self._members)
        self._schedulers = {
            "fixed": Scheduler(config.forward, config.errors, has_codes=True),
            "mobile": Scheduler(config.reverse, config.errors, has_codes=False),
        }
        self._script = Script(script, kinds=_KINDS, agenda=self._agenda, play=self._play)

    def _member(self, number: int, host: HostName) -> Member:
        """Return a mobile; the first has the chance of an only one."""
        shared = Shared(self.config, self._agenda, self._journal, lambda: not self._outages, self._deliver)
        return Member(host, number, shared, seed=self._seed if number == 1 else f"{self._seed} {host}")

    # --- packets ---

    @property
    def next_ns(self) -> int | None:
        """Time of the next event."""
        return self._agenda.next_ns

    @property
    def is_up(self) -> bool:
        """Whether there is a channel: no blackout of the script goes on."""
        return not self._outages

    @property
    def is_dropped(self) -> bool:
        """Return False: the channel always comes back."""
        return False

    @property
    def is_quiet(self) -> bool:
        """Whether no packet waits or is in transit."""
        return self._on_wire == 0 and all(member.is_quiet for member in self._members.values())

    def send(self, host: HostName, packet: bytes, *, now_ns: int) -> bool:
        """Offer a host's IP packet; False if the mobile's queue refused it and reports that."""
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

    def _over_wire(self, member: Member, packet: bytes, now_ns: int) -> None:
        """Carry a packet of the fixed host to the buffer of a mobile."""

        def arrive(then_ns: int) -> None:
            self._on_wire -= 1
            member.offer("fixed", packet, then_ns)
            self._wake(then_ns)

        self._on_wire += 1
        self._agenda.at(now_ns + self.config.wired.fixed_ns, arrive)

    def _deliver(self, host: HostName, side: Side, packet: bytes, now_ns: int) -> None:
        """Hand a packet up at the mobile, or carry it to the fixed host."""
        if side == "mobile":
            self._out.append(Delivery(host, packet))
            return

        def arrive(then_ns: int) -> None:
            del then_ns
            self._on_wire -= 1
            self._out.append(Delivery(FIXED, packet))

        self._on_wire += 1
        self._agenda.at(now_ns + self.config.wired.fixed_ns, arrive)

    def advance(self, now_ns: int) -> list[Delivery]:
        """Run all events up to `now_ns`; return the packets that came out, in order."""
        self._agenda.advance(now_ns)
        out, self._out = self._out, []
        return out

    # --- frames ---

    def _wake(self, now_ns: int) -> None:
        """Look at frames from the next one on, if nobody does."""
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

    # --- outages and the script ---

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
        """Return what happened at a host's end since the last call, in order; at the fixed one of all."""
        return self._journal.events() if host == FIXED else self._mobiles.named(host).journal.events()

    def reading(self, now_ns: int, *, host: HostName | None = None) -> RadioReading:
        """Return the answer of a mobile's modem, by default the first one's."""
        kind = self._outages.kind
        state = "connected" if kind is None else STATES[kind]
        return self._mobiles.named(host or self.hosts[0]).reading(now_ns, state=state)
