"""A whole data call: two ends, the radio between them, and the scripted events.

Rules of the file:

- `tick` is one slot; a driver calls it at absolute times `start + n * slot_ns`, in real or virtual time.
- A frame's fate is decided in the slot in which it arrives: slot n of the receiver's log, of an error trace
  and of the error process are the same slot.
- Times of the script are link seconds, counted from the first IP packet that enters an interface.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.gsm.character_balance import Balance, Ledger
from multitracer.lab.channel.gsm.codes import WEIGHTS
from multitracer.lab.channel.gsm.end import GsmEnd
from multitracer.lab.channel.shared.bit_errors import BitErrors
from multitracer.lab.channel.shared.frame_errors import FadingErrors, error_process
from multitracer.lab.channel.shared.hosts import FAR, SIDES, Side, one_of_two
from multitracer.lab.channel.shared.ip_fields import ip_facts
from multitracer.lab.channel.shared.packet_link import Delivery, RadioReading
from multitracer.lab.rlp import RlpState
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from multitracer.lab.channel.gsm.config import LinkConfig
    from multitracer.lab.channel.shared.frame_errors import ErrorConfig
    from multitracer.lab.channel.shared.hosts import HostName
    from multitracer.lab.channel.shared.script import ScriptEvent
    from multitracer.protocols.link_events import LinkEvent

__all__ = ["FAR", "SIDES", "Delivery", "GsmLink", "OnAir", "Side"]

_REPORT_SLOTS = 250
"""The error rate of a reading is that of the last 5 s, as a CDPD modem's here."""


class OnAir(NamedTuple):
    """Whether a frame got through on the radio: ground truth, which neither end knows."""

    side: Side
    """Who sent it."""
    sent_slot: int
    arrival_slot: int
    octets: bytes
    lost: bool


class GsmLink:
    """A data call between a mobile and a fixed host.

    Parameters
    ----------
    config : LinkConfig
        The call's parameters.
    seed : int
        The same seed gives the same radio.
    script : sequence of ScriptEvent
        What happens when.
    on_air : callable, optional
        Called with an `OnAir` for each frame.
    """

    def __init__(
        self,
        config: LinkConfig,
        *,
        seed: int,
        script: Sequence[ScriptEvent] = (),
        on_air: Callable[[OnAir], None] | None = None,
    ) -> None:
        self.config = config
        self.slot = 0
        """Number of slots that have passed."""
        self.ends: dict[Side, GsmEnd] = {side: GsmEnd(side, config) for side in SIDES}
        self._radio: dict[Side, FadingErrors] = {
            "mobile": _radio(config.up, config, seed=f"{seed} up"),
            "fixed": _radio(config.down, config, seed=f"{seed} down"),
        }
        self._pipe: dict[Side, deque[tuple[int, bytes | None]]] = {side: deque() for side in SIDES}
        self._ledgers: dict[Side, Ledger] = {side: Ledger() for side in SIDES}
        self._on_air = on_air
        self._lost_down: deque[bool] = deque(maxlen=_REPORT_SLOTS)
        unknown = {event.kind for event in script} - {"fade", "reset", "xoff", "drop"}
        if unknown:
            raise LocalProtocolError(f"GSM link: a script has no {', '.join(sorted(unknown))}; choose a fade")
        self._script = list(script)
        self._due: list[tuple[int, int, ScriptEvent]] = []
        self._resume: list[tuple[int, Side]] = []
        self._sent_up_to: dict[bytes, int] = {}
        self._retransmissions = 0
        self._first_packet_slot: int | None = None
        self.ends["mobile"].rlp.connect()

    # --- packets ---

    @property
    def hosts(self) -> tuple[HostName, ...]:
        """Names of its two hosts."""
        return SIDES

    @property
    def is_up(self) -> bool:
        """Whether both ends are connected."""
        return all(end.rlp.state is RlpState.ESTABLISHED for end in self.ends.values())

    @property
    def is_dropped(self) -> bool:
        """Whether the call is over."""
        return any(end.rlp.state is RlpState.DROPPED for end in self.ends.values())

    @property
    def is_quiet(self) -> bool:
        """Whether no user data wait anywhere."""
        return all(end.is_quiet for end in self.ends.values())

    def send(self, host: HostName, packet: bytes, *, now_ns: int) -> bool:
        """Offer a host's IP packet; False if the interface queue refused it."""
        if self._first_packet_slot is None:
            self._first_packet_slot = self.slot
            self._schedule("first-packet", 1)
        self._watch_retransmissions(packet)
        self._play_script(now_ns)
        return self.ends[one_of_two(host)].send(packet, now_ns=now_ns)

    def _watch_retransmissions(self, packet: bytes) -> None:
        facts = ip_facts(packet)
        if facts.seq is None or facts.payload_bytes <= 0:
            return
        end = facts.seq + facts.payload_bytes
        known = self._sent_up_to.get(facts.flow)
        if known is not None and (facts.seq - known) % (1 << 32) >= 1 << 31:
            self._retransmissions += 1
            self._schedule("retransmission", self._retransmissions)
        if known is None or (end - known) % (1 << 32) < 1 << 31:
            self._sent_up_to[facts.flow] = end % (1 << 32)

    # --- slots ---

    @property
    def next_ns(self) -> int:
        """Link time at which the next slot begins."""
        return (self.slot + 1) * self.config.slot_ns

    def advance(self, now_ns: int) -> list[Delivery]:
        """Run all slots up to `now_ns` of link time; return the packets that come out."""
        out: list[Delivery] = []
        while self.next_ns <= now_ns:
            out += self.tick(self.next_ns)
        return out

    def tick(self, now_ns: int) -> list[Delivery]:
        """Run one slot in both directions; return the packets that come out."""
        self.slot += 1
        self._play_script(now_ns)
        for side in SIDES:
            self._pipe[side].append((self.slot, self.ends[side].outgoing(now_ns)))
        return [Delivery(FAR[side], packet) for side in SIDES for packet in self._arrive(side, now_ns)]

    def _arrive(self, side: Side, now_ns: int) -> list[bytes]:
        """Deliver the frame that `side` sent one pipe length ago."""
        lost = self._radio[side].lost(self.slot)
        if side == "fixed":
            self._lost_down.append(lost)
        pipe = self._pipe[side]
        if len(pipe) <= self.config.pipe_slots:
            return []
        sent_slot, frame = pipe.popleft()
        if self._on_air is not None and frame is not None:
            self._on_air(OnAir(side, sent_slot, self.slot, frame, lost))
        return self.ends[FAR[side]].incoming(None if lost else frame, now_ns)

    # --- the script ---

    def _schedule(self, after: str, nth: int) -> None:
        for event in self._script:
            if event.after == after and (after == "first-packet" or event.nth == nth):
                slot = self.slot + self._slots(event.at_s)
                self._due.append((slot, len(self._due), event))
        self._due.sort(key=lambda due: due[:2])

    def _slots(self, seconds: float) -> int:
        return round(seconds * NS_PER_S / self.config.slot_ns)

    def _play_script(self, now_ns: int) -> None:
        while self._due and self._due[0][0] <= self.slot:
            self._play(self._due.pop(0)[2], now_ns)
        while self._resume and self._resume[0][0] <= self.slot:
            self.ends[self._resume.pop(0)[1]].drain.paused = False

    def _play(self, event: ScriptEvent, now_ns: int) -> None:
        for side in SIDES:
            if event.direction in ("both", "up" if side == "mobile" else "down"):
                self._play_at(side, event, now_ns)

    def _play_at(self, side: Side, event: ScriptEvent, now_ns: int) -> None:
        """Apply a scripted event to what `side` sends."""
        end, far = self.ends[side], FAR[side]
        slots = self._slots(event.duration_s)
        if event.kind == "fade":
            self._radio[side].fade(begin=self.slot, slots=slots, rate=event.rate)
        elif event.kind == "drop":
            end.lose_packets(event.packets)
        elif event.kind == "xoff":
            self.ends[far].drain.paused = True
            self._resume.append((self.slot + slots, far))
            self._resume.sort()
        elif end.rlp.state is RlpState.ESTABLISHED:
            end.rlp.reset(now_ns=now_ns)

    # --- what it tells ---

    def events(self, host: HostName) -> list[LinkEvent]:
        """Return what happened at one end since the last call, in order."""
        side = one_of_two(host)
        end, far = self.ends[side], self.ends[FAR[side]]
        events = end.events()
        received = far.received_bytes + far.l2r.unread_bytes
        is_over = end.rlp.state is RlpState.DROPPED
        for event in events:
            self._ledgers[side].note(event, received=received, is_over=is_over)
        return events

    def reading(self, now_ns: int, *, host: HostName | None = None) -> RadioReading:
        """Return the modem's answer; this model of the radio has no power, only lost frames."""
        del now_ns, host
        lost = self._lost_down
        bler = 100 * sum(lost) / len(lost) if lost else None
        state = "dropped" if self.is_dropped else "connected" if self.is_up else "connecting"
        return RadioReading(None, bler, None, None, state)

    def count_idle(self) -> None:
        """Make events of the idle frames that were not reported."""
        for end in self.ends.values():
            end.rlp.count_idle()

    def balance(self) -> Balance:
        """Return the balance of both directions; call `events` of both sides before."""
        up, down = (self._balance(side) for side in SIDES)
        return up + down

    def _balance(self, side: Side) -> Balance:
        near = self.ends[side]
        far = self.ends[FAR[side]]
        return self._ledgers[side].balance(
            written=near.l2r.written_bytes,
            unsent=near.l2r.unsent_bytes + near.rlp.unsent_bytes,
            received=far.received_bytes + far.l2r.unread_bytes,
            unread=far.l2r.unread_bytes,
        )


def _radio(errors: ErrorConfig, config: LinkConfig, *, seed: str) -> FadingErrors:
    luck = Random(f"{seed} errors")
    if errors.kind == "bits":
        bits, weights = config.frame_bits, WEIGHTS[config.code]
        coded = BitErrors(errors, frame_bits=bits, weights=weights, slot_ns=config.slot_ns, luck=luck)
        return FadingErrors(coded, luck=Random(f"{seed} fades"))
    below = error_process(errors, slot_ns=config.slot_ns, luck=luck)
    return FadingErrors(below, luck=Random(f"{seed} fades"))
