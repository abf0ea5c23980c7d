"""The baseband of a Bluetooth master and its one slave: turns, polls, and a stop-and-wait ARQ.

The master begins in an even slot; the slave answers in the slot after the master's packet, with data or
with NULL. Each packet's header says whether the last payload was understood; what was not is sent again,
and what was heard twice is told by its number. While there are data the turns follow each other; an idle
slave is polled once in a while, and until then its data wait.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from multitracer.lab.channel.bluetooth.bit_errors import BitErrors, header_error, payload_error
from multitracer.lab.channel.bluetooth.config import PACKET_TYPES, SLOT_NS
from multitracer.lab.channel.shared.hosts import FAR

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from multitracer.lab.channel.bluetooth.config import BluetoothConfig, PacketType
    from multitracer.lab.channel.bluetooth.rfcomm import Fragment, RfcommEnd
    from multitracer.lab.channel.shared.frame_errors import ErrorProcess, FadingErrors
    from multitracer.lab.channel.shared.hosts import Side
    from multitracer.lab.channel.shared.received_power import Signal
    from multitracer.lab.channel.shared.scheduler import Agenda

_SENSITIVITY_BER = 1e-3


@dataclass(frozen=True, slots=True)
class Packet:
    """A baseband packet; without a fragment it is POLL or NULL, of one slot."""

    side: Side
    """Who sends it."""
    kind: PacketType
    fragment: Fragment | None
    began_ns: int
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Air:
    """Decides whether a packet arrives."""

    errors: BitErrors
    signal: Signal
    fades: dict[Side, FadingErrors]
    luck: Random
    replayed: dict[Side, ErrorProcess]
    """What a recording says instead of `errors` and `signal`, by who sends; empty if there is none."""


class Piconet:
    """Exchanges packets between two ends of RFCOMM.

    Parameters
    ----------
    config : BluetoothConfig
    ends : dict
        What each side sends and receives.
    air : Air
    agenda : Agenda
    arrived : callable
        Called with a packet with a fragment, its end, and whether it arrived, came twice, or was lost.
    """

    def __init__(
        self,
        config: BluetoothConfig,
        ends: dict[Side, RfcommEnd],
        air: Air,
        *,
        agenda: Agenda,
        arrived: Callable[[Packet, int, str], None],
    ) -> None:
        self._config = config
        self._ends = ends
        self._air = air
        self._agenda = agenda
        self._arrived = arrived
        self._types = {side: _family(name) for side, name in (("mobile", config.up), ("fixed", config.down))}
        self._attempts: dict[Side, tuple[int, int]] = dict.fromkeys(("mobile", "fixed"), (0, 0))
        self._turns = 0  # a turn that was planned before the latest plan does nothing
        self._planned_ns: int | None = None
        self._is_busy = False
        self._idle_since_ns = 0
        self._is_away = False
        self.receptions: deque[tuple[int, bool]] = deque()
        """When payloads reached the mobile, and whether they were lost; the caller forgets what is old."""

    # --- when ---

    def kick(self, side: Side, now_ns: int) -> None:
        """Note that a side has something to send."""
        if self._is_busy or self._is_away or not self._ends[side].has_work:
            return
        due_ns = self._next_turn(side, now_ns)
        if self._planned_ns is None or due_ns < self._planned_ns:
            self._plan(due_ns)

    def _next_turn(self, side: Side, now_ns: int) -> int:
        """Return when an idle link can carry a side's data: the master's soon, the slave's when polled."""
        config = self._config
        step_ns = 2 * SLOT_NS if side == "fixed" else config.poll_slots * SLOT_NS
        since_ns = self._idle_since_ns
        if config.sniff_slots and now_ns - since_ns >= config.sniff_after_ns:
            step_ns, since_ns = config.sniff_slots * SLOT_NS, 0
        turns = max(1, -(-(now_ns - since_ns) // step_ns))
        return _even(since_ns + turns * step_ns)

    def _plan(self, time_ns: int) -> None:
        self._turns += 1
        turn = self._turns
        self._planned_ns = time_ns
        self._agenda.at(time_ns, lambda now_ns: self._turn(turn, now_ns))

    def set_away(self, now_ns: int, *, is_away: bool) -> None:
        """Note that the two ends are out of reach of each other, or within reach again."""
        self._is_away = is_away
        self._turns += 1  # what is on the air is lost
        self._planned_ns = None
        self._is_busy = False
        if not is_away:
            self._idle_since_ns = _even(now_ns)
            self._plan(self._idle_since_ns)

    # --- an exchange ---

    def _turn(self, turn: int, now_ns: int) -> None:
        if turn != self._turns:
            return
        self._planned_ns = None
        self._is_busy = True
        packet = self._packet("fixed", now_ns)
        end_ns = now_ns + packet.kind.slots * SLOT_NS
        self._agenda.at(end_ns, lambda then_ns: self._master_ended(turn, packet, then_ns))

    def _packet(self, side: Side, now_ns: int) -> Packet:
        types = self._types[side]
        fragment = self._ends[side].fragment(types[-1].payload_octets)
        if fragment is None:
            return Packet(side, types[0], None, now_ns)
        kind = next(kind for kind in types if kind.payload_octets >= fragment.octets)
        number, attempts = self._attempts[side]
        attempts = attempts + 1 if number == fragment.number else 1
        self._attempts[side] = fragment.number, attempts
        return Packet(side, kind, fragment, now_ns, attempts)

    def _master_ended(self, turn: int, packet: Packet, now_ns: int) -> None:
        if turn != self._turns:
            return
        is_understood, is_whole = self._fate(packet, now_ns)
        if not is_understood:
            self._agenda.at(now_ns + SLOT_NS, lambda then_ns: self._over(turn, True, then_ns))
            return
        answer = self._packet("mobile", now_ns)
        end_ns = now_ns + answer.kind.slots * SLOT_NS
        self._agenda.at(end_ns, lambda then_ns: self._slave_ended(turn, answer, is_whole, then_ns))

    def _slave_ended(self, turn: int, answer: Packet, is_masters_whole: bool, now_ns: int) -> None:
        if turn != self._turns:
            return
        is_understood, is_whole = self._fate(answer, now_ns)
        if is_understood and is_masters_whole:
            self._ends["fixed"].acknowledged()
        if is_understood and is_whole:
            # ARQN of the master's next packet tells the slave; that it may be missed is left out
            self._ends["mobile"].acknowledged()
        self._over(turn, answer.fragment is not None, now_ns)

    def _over(self, turn: int, was_used: bool, now_ns: int) -> None:
        if turn != self._turns:
            return
        self._is_busy = False
        self._idle_since_ns = now_ns
        if was_used or self._ends["fixed"].has_work:
            self._plan(now_ns)
        else:
            self.kick("mobile", now_ns)

    def _fate(self, packet: Packet, now_ns: int) -> tuple[bool, bool]:
        """Return whether a packet's header is decoded and its payload correct; report payloads."""
        ber = 0.0 if self._air.replayed else self._ber(now_ns)
        fades = self._air.fades[packet.side].lost(now_ns // SLOT_NS)
        is_understood = self._air.luck.random() >= header_error(ber) and not fades
        if packet.fragment is None:
            return is_understood, True
        error = payload_error(ber, packet.kind, packet.fragment.octets)
        is_whole = (
            self._air.luck.random() >= error and is_understood and not self._failed_then(packet, now_ns)
        )
        if packet.side == "fixed":
            self.receptions.append((now_ns, not is_whole))
        is_new = is_whole and self._ends[FAR[packet.side]].is_new(packet.fragment)
        self._arrived(packet, now_ns, "new" if is_new else "duplicate" if is_whole else "lost")
        return is_understood, is_whole

    def _failed_then(self, packet: Packet, now_ns: int) -> bool:
        """Return whether one of a packet's slots failed in the recording that is replayed."""
        if packet.side not in self._air.replayed:
            return False
        return any(self._air.replayed[packet.side].lost_slots(packet.began_ns // SLOT_NS, now_ns // SLOT_NS))

    def _ber(self, now_ns: int) -> float:
        return self.ber_at(self._air.errors.ber(now_ns), self._air.signal.dbm(now_ns))

    def ber_at(self, ber: float, dbm: float) -> float:
        """Return the bit error rate at a power; at the receiver's sensitivity, that of the specification."""
        return max(ber, _SENSITIVITY_BER) if dbm <= self._config.signal.sensitivity_dbm else ber


def _family(longest: str) -> list[PacketType]:
    """Return the packet types of the same code, up to the longest, by length."""
    last = next(kind for kind in PACKET_TYPES if kind.name == longest)
    return [kind for kind in PACKET_TYPES if kind.coded == last.coded and kind.slots <= last.slots]


def _even(time_ns: int) -> int:
    """Return the begin of the next even slot."""
    return -(-time_ns // (2 * SLOT_NS)) * 2 * SLOT_NS
