"""Bluetooth 1.1: PPP over RFCOMM between a mobile, the slave, and an access point, the master.

Input: IP packets at two sides, a `BluetoothConfig`, a script and a seed. Output: packets, events and
readings of the modem. The radio and baseband are in `bluetooth_piconet.py`.

What must hold: packets are lost only by a full queue or a lost connection, and order is kept. Everything
happens in order of one scheduler, in whole slots of 625 µs, at times that do not depend on how often the
driver calls. docs/links.md lists what the model leaves out.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import TYPE_CHECKING

from multitracer.lab.channel.bluetooth_piconet import SLOT_NS, Air, Piconet, PiconetBitErrors, RfcommEnd, link_quality
from multitracer.lab.channel.shared.frame_errors import FadingErrors, NoErrors, ReplayedErrors
from multitracer.lab.channel.shared.interface import LinkInterface, SideJournal, ip_facts
from multitracer.lab.channel.shared.outages import OutageProcess, Signal
from multitracer.lab.channel.shared.packet_link import FAR, SIDES, LinkDelivery, RadioReading, one_of_two
from multitracer.lab.channel.shared.scheduler import Agenda, Script
from multitracer.lab.ppp import PppDamage, PppDeframer, PppFramer
from multitracer.protocols.error_trace import ErrorTrace, LostRuns
from multitracer.protocols.l2r import PppProtocol
from multitracer.protocols.link_events import (
    Flushed,
    OutageEnded,
    OutageStarted,
    PieceLost,
    PieceReceived,
    PieceSent,
    PppDamaged,
    PppReceived,
    PppSent,
    ResetDone,
    ResetStarted,
)
from multitracer.units import NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.lab.channel.bluetooth_piconet import BasebandPacket, BluetoothConfig
    from multitracer.lab.channel.shared.frame_errors import ErrorProcess
    from multitracer.lab.channel.shared.outages import OutageKind
    from multitracer.lab.channel.shared.packet_link import HostName, Side
    from multitracer.lab.channel.shared.scheduler import ScriptEvent
    from multitracer.lab.ppp import PppPacket
    from multitracer.protocols.error_trace import Runs
    from multitracer.protocols.link_events import LinkEvent

# Bluetooth 1.1: PPP over RFCOMM between a mobile, the slave, and an access point, the master.
#
#     interface queue → PPP → RFCOMM (N1, credits) → L2CAP → baseband packets, stop and wait → … → PPP → IP
#
# The baseband repeats a packet until it arrives: nothing is lost but by a full queue or a lost connection.
# What the model leaves out (hopping sequence, SCO, other slaves, the serial transport between host and
# controller) and what is uncertain in it is told in docs/links.md.


_KINDS = {"fade", "drop", "blackout"}
_CHUNK_OCTETS = 4
"""Octets of the payload header and CRC of a baseband packet."""


class BluetoothLink:
    """A `PacketLink` over Bluetooth.

    Parameters
    ----------
    config : BluetoothConfig
    seed : int
        The same seed gives the same radio.
    script : sequence of ScriptEvent
        fade (of packets), drop and blackout, counted from the first packet.
    """

    def __init__(self, config: BluetoothConfig, *, seed: int, script: Sequence[ScriptEvent] = ()) -> None:
        self.config = config
        self._seed = f"{seed} bluetooth"
        self._agenda = Agenda()
        self._out: list[LinkDelivery] = []
        self._ends = {side: _End(config, SideJournal(SLOT_NS)) for side in SIDES}
        self._signal = Signal(config.signal, luck=self._luck("signal"))
        self._errors = PiconetBitErrors(config.errors, luck=self._luck("errors"))
        self._fading = {side: FadingErrors(NoErrors(), luck=self._luck(f"fades {side}")) for side in SIDES}
        self._air = Air(
            PiconetBitErrors(config.errors, luck=self._luck("errors")),  # a reading asks at its own times
            Signal(config.signal, luck=self._luck("signal")),
            self._fading,
            self._luck("packets"),
            self._replayed(),
        )
        self._lost = {side: LostRuns() for side in SIDES}
        self._piconet = self._connect()
        self._away_since_ns: int | None = None
        self._in_host = 0
        self._is_connected = True
        self._outages = OutageProcess([], agenda=self._agenda, seed=self._seed, changed=self._outage)
        self._script = Script(script, kinds=_KINDS, agenda=self._agenda, play=self._play)

    def _luck(self, name: str) -> Random:
        return Random(f"{self._seed} {name}")

    def _replayed(self) -> dict[Side, ErrorProcess]:
        errors = self.config.errors
        if errors.kind != "replay":
            return {}
        runs: dict[Side, Runs] = {"mobile": errors.replayed_up, "fixed": errors.replayed_down}
        return {side: ReplayedErrors(runs[side], repeat_slots=errors.repeat_slots) for side in SIDES}

    def _connect(self) -> Piconet:
        ends = {side: end.rfcomm for side, end in self._ends.items()}
        return Piconet(self.config, ends, self._air, agenda=self._agenda, arrived=self._chunk)

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
        """Whether the two devices are connected and no outage is active."""
        return self._is_connected and not self._outages

    @property
    def is_dropped(self) -> bool:
        """Return False: the link always sets up a lost connection again."""
        return False

    @property
    def is_drained(self) -> bool:
        """Whether no packet is waiting or in transit."""
        return self._in_host == 0 and all(end.is_drained for end in self._ends.values())

    def send(self, host: HostName, packet: bytes, *, now_ns: int) -> bool:
        """Offer an IP packet of a host to the host's queue; return False if the queue refuses it."""
        side = one_of_two(host)
        self._agenda.advance(now_ns)
        now_ns = self._agenda.now_ns
        self._script.first_packet(now_ns)
        end = self._ends[side]
        taken = end.interface.offer(packet, now_ns=now_ns, is_closed=not self._is_connected)
        self._attend(side, now_ns)
        return taken

    def advance(self, now_ns: int) -> list[LinkDelivery]:
        """Run all events up to `now_ns`; return the packets that came out, in order."""
        self._agenda.advance(now_ns)
        out, self._out = self._out, []
        return out

    def _attend(self, side: Side, now_ns: int) -> None:
        if self._is_connected:
            self._ends[side].fill(now_ns)
            self._piconet.kick(side, now_ns)

    def _chunk(self, packet: BasebandPacket, now_ns: int, fate: str) -> None:
        """Report the end of a baseband packet with data to both logs.

        Deliver the IP packets that it completes.
        """
        fragment = packet.fragment
        assert fragment is not None
        side, far = self._ends[packet.side], self._ends[FAR[packet.side]]
        names = side.names_at(fragment.frame.octets.offset)
        about = fragment.octets + _CHUNK_OCTETS, fragment.frame.octets.offset
        cause = "arq" if packet.attempt > 1 else ""
        air_us = (now_ns - packet.began_ns) // NS_PER_US
        side.journal.add(PieceSent, now_ns, air_us, *about, packet.attempt, *names, cause)
        if fate == "lost":
            self._lost[packet.side].add(packet.began_ns // SLOT_NS, packet.kind.slots)
            far.journal.add(PieceLost, now_ns, *about, *names, "block")
            return
        far.journal.add(PieceReceived, now_ns, *about, *names, fate if fate == "duplicate" else "")
        if fate == "new" and fragment.is_last:
            for out in far.take(far.rfcomm.receive(fragment.frame), now_ns):
                self._hand_up(FAR[packet.side], out, now_ns)
        for each in SIDES:  # a grant may be due, or credits have come
            self._ends[each].fill(now_ns)

    def _hand_up(self, side: Side, packet: bytes, now_ns: int) -> None:
        def arrive(then_ns: int) -> None:
            del then_ns
            self._in_host -= 1
            self._out.append(LinkDelivery(side, packet))

        self._in_host += 1
        self._agenda.at(now_ns + 2 * self.config.host_ns, arrive)

    # --- outages and the script ---

    def _outage(self, now_ns: int, kind: OutageKind, begins: bool) -> None:
        for end in self._ends.values():
            end.journal.add(OutageStarted if begins else OutageEnded, now_ns, kind)
        if begins and self._away_since_ns is None:
            self._away_since_ns = now_ns
            self._piconet.set_away(now_ns, is_away=True)
            self._agenda.at(now_ns + self.config.supervision_ns, lambda then_ns: self._supervise(now_ns, then_ns))
        elif not self._outages:
            self._away_since_ns = None
            if self._is_connected:
                self._piconet.set_away(now_ns, is_away=False)
            else:
                self._agenda.at(now_ns + self.config.reconnect_ns, self._reconnected)

    def _supervise(self, began_ns: int, now_ns: int) -> None:
        """Drop the connection if the supervision timeout has passed without a packet from the other end."""
        if began_ns != self._away_since_ns or not self._is_connected:
            return
        self._is_connected = False
        for end in self._ends.values():
            end.journal.add(ResetStarted, now_ns, "supervision", None, None)
            end.lose_all(now_ns)
        self._piconet = self._connect()
        self._piconet.set_away(now_ns, is_away=True)

    def _reconnected(self, now_ns: int) -> None:
        if self._outages or self._is_connected:
            return
        self._is_connected = True
        for end in self._ends.values():
            end.journal.add(ResetDone, now_ns)
        self._piconet.set_away(now_ns, is_away=False)

    def _play(self, event: ScriptEvent, now_ns: int) -> None:
        lasts_ns = round(event.duration_s * NS_PER_S)
        if event.kind == "blackout":
            self._outages.begin(now_ns, "blackout", lasts_ns)
            return
        for side in SIDES:
            if event.direction not in ("both", "up" if side == "mobile" else "down"):
                continue
            if event.kind == "drop":
                self._ends[side].interface.lose_packets(event.packets)
            else:
                slots = -(-lasts_ns // SLOT_NS)
                self._fading[side].fade(begin=now_ns // SLOT_NS, slots=slots, rate=event.rate)

    # --- what it tells ---

    def events(self, host: HostName) -> list[LinkEvent]:
        """Return the events at a host since the last call of this method, in order of time."""
        return self._ends[one_of_two(host)].journal.events()

    def radio(self, now_ns: int) -> ErrorTrace:
        """Return the error trace up to now: the slots of the data packets that were lost.

        Slots without data are unknown.
        """
        self._agenda.advance(now_ns)
        up, down = (self._lost[side].runs for side in SIDES)
        return ErrorTrace(SLOT_NS, -(-max(now_ns, 1) // SLOT_NS), up, down)

    def reading(self, now_ns: int, *, host: HostName | None = None) -> RadioReading:
        """Return the signal values that the mobile's modem reports.

        Its packet error rate is None while no data arrive.
        """
        del host
        if self._outages:
            return RadioReading(self.config.signal.zero_dbm, None, None, None, "blackout")
        if not self._is_connected:
            return RadioReading(None, None, None, None, "connecting")
        receptions = self._piconet.receptions
        while receptions and receptions[0][0] < now_ns - self.config.report_ns:
            receptions.popleft()
        lost = [is_lost for _, is_lost in receptions]
        rate = 100 * sum(lost) / len(lost) if lost else None
        if self._air.replayed:  # a recording of lost packets knows of no power
            return RadioReading(None, rate, None, None, "connected")
        rssi = self._signal.dbm(now_ns)
        ber = self._piconet.ber_at(self._errors.ber(now_ns), rssi)
        return RadioReading(rssi, rate, None, None, "connected", link_quality(ber))


class _End:
    """One side of the link above the baseband."""

    def __init__(self, config: BluetoothConfig, journal: SideJournal) -> None:
        self.journal = journal
        self.interface = LinkInterface(config.queue, journal.add)
        self._config = config
        self._begin()

    def _begin(self) -> None:
        config = self._config
        self.rfcomm = RfcommEnd(config.rfcomm)
        self._framer = PppFramer(accm=config.rfcomm.accm)
        self._deframer = PppDeframer(accm=config.rfcomm.accm)
        self._names: deque[tuple[int, int | None, int | None]] = deque()

    def fill(self, now_ns: int) -> None:
        """Append packets to the octet stream until the next RFCOMM frame is full."""
        while self.rfcomm.unsent_bytes < self._config.rfcomm.n1_octets:
            packet = self.interface.take(now_ns)
            if packet is None:
                return
            if self.rfcomm.unsent_bytes == 0:
                self._framer.idle()
            frame, facts = self._framer.frame(PppProtocol.IP, packet), ip_facts(packet)
            begin = self.rfcomm.written_bytes
            self.rfcomm.write(frame)
            self._names.append((begin + len(frame), facts.ip_id, facts.seq))
            sizes = len(packet), len(frame), begin
            self.journal.add(PppSent, now_ns, PppProtocol.IP, *sizes, facts.ip_id, facts.seq)

    def names_at(self, offset: int) -> tuple[int | None, int | None]:
        """Return the IP identification and the TCP sequence number of the packet at a stream offset.

        Each is None if the packet does not have it. Offsets must not decrease from call to call.
        """
        while self._names and self._names[0][0] <= offset:
            self._names.popleft()
        return self._names[0][1:] if self._names else (None, None)

    def take(self, data: bytes, now_ns: int) -> list[bytes]:
        """Process octets that arrived from the other end; return the IP packets that are now complete."""
        outcomes = self._deframer.feed(data)
        return [packet for outcome in outcomes if (packet := self._packet(outcome, now_ns)) is not None]

    def _packet(self, outcome: PppPacket | PppDamage, now_ns: int) -> bytes | None:
        if isinstance(outcome, PppDamage):
            self.journal.add(PppDamaged, now_ns, outcome.cause, outcome.wire_bytes)
            return None
        facts = ip_facts(outcome.information)
        sizes = len(outcome.information), outcome.wire_bytes
        self.journal.add(PppReceived, now_ns, outcome.protocol, *sizes, facts.ip_id, facts.seq)
        return outcome.information

    def lose_all(self, now_ns: int) -> None:
        """Empty the queue and discard all packets in transit."""
        waiting = self.interface.queue.queued_bytes
        while self.interface.take(now_ns) is not None:
            pass
        self.journal.add(Flushed, now_ns, 0, self.rfcomm.unsent_bytes + waiting, 0)
        self._begin()

    @property
    def is_drained(self) -> bool:
        """Whether this side has nothing to send."""
        return not (len(self.interface.queue) or self.rfcomm.unsent_bytes or self.rfcomm.is_sending_data)
