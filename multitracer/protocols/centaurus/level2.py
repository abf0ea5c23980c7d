"""Level II: which end offers a message and when, on any medium (paper 000, section III C).

Rules of this file:

- Level I calls it with an indication (POLL, HELO, SENT, which are never sent over the medium) or a message.
  It gets the next message from `outgoing`, and reports SENT for each message before the next call.
- A session is a sequence of turns. In a turn one end offers one object, or sends NOPE. Peer-to-peer the
  initiator has the first turn, master-slave the slave; then the other end has one (our choice). With the
  extension "several messages" turns alternate until both ends have sent NOPE.
- No control message is retransmitted. If one is lost, the session waits until the watchdog of Level I ends
  it.
- A message that the state does not expect is late or a duplicate, and is ignored.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from multitracer.protocols.centaurus.events import ObjectDelivered, Received, Rejected
from multitracer.protocols.centaurus.messages import (
    NO_TOKEN,
    SEGMENT_BYTES,
    Bitmap,
    Extension,
    Message,
    Nope,
    Obj,
    ObjectAck,
    ObjectDone,
    Pk,
    Poll,
    Proceed,
    Rej,
    RejectReason,
    padding_for,
    slots_of,
)
from multitracer.protocols.centaurus.packet import overhead_bytes
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.protocols.centaurus.objects import EndpointState, OutgoingObject, Peer

# Sending one object in one session: OBJ, PROCEED, PK (one or more), DONE, ACK.
#
# The sender's bitmap says what need not be sent. A PROCEED replaces it; SENT sets the bit of the segment that
# left. With early start, segments leave between OBJ and PROCEED under the nonce of an earlier session (the
# token); if that PROCEED says that they are taken, their bits stay, since it left before they arrived.


EARLY = 0x80
"""Bit in the extensions of OBJ: early segments follow; in the PROCEED that answers: they are accepted."""


class TransmissionPhase(Enum):
    """The phase of an object's transmission."""

    OFFER = auto()
    WAIT_PROCEED = auto()
    """OBJ was sent; with early start, segments are sent meanwhile."""
    SEND = auto()
    WAIT_ANSWER = auto()
    """DONE was sent; an answer is expected."""


class Sending:
    """The sender of one object in one session.

    Parameters
    ----------
    early_token : int
        The token that early segments may carry, `NO_TOKEN` for none. It must be from an earlier session: the
        nonce of this session is in segments of earlier objects, which may be late.
    """

    def __init__(self, outgoing: OutgoingObject, peer: Peer, shared: EndpointState, *, early_token: int) -> None:
        self.object = outgoing
        self.phase = TransmissionPhase.OFFER
        self._peer = peer
        self._shared = shared
        agreed = shared.agreed(peer)
        longest = min(shared.config.segment_bytes, peer.offer.segment_bytes)
        outgoing.offered(longest if agreed & Extension.PATH_MTU and longest >= SEGMENT_BYTES else SEGMENT_BYTES)
        # only the first time: later, the peer may hold segments that its PROCEED would tell of
        self._starts_early = bool(agreed & Extension.EARLY_START) and early_token != NO_TOKEN and outgoing.sessions == 1
        self._early = Bitmap(outgoing.slots)
        self._nonce = early_token
        self._round = 0
        self._proceeded = False
        self._unsent: int | None = None

    @property
    def has_output(self) -> bool:
        """Whether `outgoing` would return a message; after a PK, SENT must be reported first."""
        if self._unsent is not None or self.phase is TransmissionPhase.WAIT_ANSWER:
            return False
        return self.phase is not TransmissionPhase.WAIT_PROCEED or self._may_go_early

    @property
    def _may_go_early(self) -> bool:
        if not self._starts_early:
            return False
        return self._early.is_full or self._early.count < self._shared.config.early_segments

    def outgoing(self, now_ns: int) -> Message:
        """Return the next message for this object."""
        if self.phase is TransmissionPhase.OFFER:
            self.phase = TransmissionPhase.WAIT_PROCEED
            return self._obj(now_ns)
        slot = self.object.bitmap.missing(0)
        if slot is None:
            self.phase = TransmissionPhase.WAIT_ANSWER
            return ObjectDone(self._nonce, self._round)
        self._unsent = slot
        self.object.segments_sent += 1
        return Pk(slot, self._nonce, self.object.segment(slot))

    def _obj(self, now_ns: int) -> Obj:
        each = self.object
        overhead = overhead_bytes(self._shared.config.key)
        padding = padding_for(each.slots, proceed_overhead=overhead, obj_overhead=overhead)
        lifetime_ms = max(1, -(-(each.expires_ns - now_ns) // NS_PER_MS))
        return Obj(
            each.kind,
            each.stamp_ns,
            len(each.data),
            min(lifetime_ms, 0xFFFFFFFF),
            each.segment_bytes,
            self._peer.token,
            self._shared.offer.marked(EARLY if self._starts_early else 0),
            padding,
        )

    def sent(self) -> None:
        """Process SENT: mark the segment as sent (not as received)."""
        if self._unsent is None:
            return
        self.object.bitmap.set(self._unsent)
        if not self._proceeded:
            self._early.set(self._unsent)
        self._unsent = None

    def concerns(self, kind: int, stamp_ns: int) -> bool:
        """Return whether an answer with this class and time stamp is about this object."""
        return (kind, stamp_ns) == (self.object.kind, self.object.stamp_ns)

    @property
    def is_accepted(self) -> bool:
        """Whether the peer has answered PROCEED."""
        return self._proceeded

    def proceed(self, message: Proceed) -> bool:
        """Process a PROCEED; return whether it is the answer to the last control message that was sent."""
        held = Bitmap.parse(message.bitmap, self.object.slots)
        if held is None or not self.concerns(message.kind, message.stamp_ns) or not self._awaits(message.round):
            return False
        answers = self.phase is TransmissionPhase.WAIT_PROCEED or message.round > 0
        taken = not self._proceeded and bool(message.offer.extensions & EARLY)
        resumed = not self._proceeded and self.object.sessions > 1
        self._peer.token, self._peer.offer = message.nonce, message.offer
        self._nonce, self._proceeded = message.nonce, True
        if not answers and taken:
            return False  # all left early, DONE too: its answer follows
        early = self._early if taken and message.round == 0 else None
        self.object.proceed(held, sent_early=early, resumed=resumed)
        self._round = message.round
        self.phase = TransmissionPhase.SEND
        return answers

    def _awaits(self, number: int) -> bool:
        if not self._proceeded and number == 0:
            return self.phase in (TransmissionPhase.WAIT_PROCEED, TransmissionPhase.WAIT_ANSWER)
        return self.phase is TransmissionPhase.WAIT_ANSWER and number == (self._round + 1) % 256


# Receiving one object in one session: its segments, and the answers to OBJ and DONE.
#
# Nothing is changed on behalf of a peer that has not echoed the nonce of our PROCEED: a spoofed OBJ costs no
# memory beyond its session, and supersedes no part of a real object.


class Receiving:
    """The receiver of one object in one session."""

    def __init__(self, obj: Obj, peer: Peer, shared: EndpointState, *, nonce: int) -> None:
        self.obj = obj
        self._proven = False
        self._peer = peer
        self._shared = shared
        self._known = peer.acceptance.has(obj)
        self._nonce = nonce
        peer.issue(nonce)
        self._round = 0
        early = Extension.EARLY_START in shared.config.extensions and bool(obj.offer.extensions & EARLY)
        self._early = obj.token if early and peer.use_up(obj.token) else NO_TOKEN

    def proceed(self) -> Proceed:
        """Return the PROCEED message of the current round: a request for the missing segments."""
        slots = slots_of(self.obj.size_bytes, self.obj.segment_bytes)
        held = self._peer.acceptance.partials.get(self.obj.kind)
        bitmap = Bitmap.full(slots) if self._known else Bitmap(slots)
        if not self._known and held is not None and held.is_of(self.obj):
            bitmap = held.bitmap
        offer = self._shared.offer.marked(EARLY if self._early else 0)
        return Proceed(self.obj.kind, self.obj.stamp_ns, self._nonce, self._round, offer, bytes(bitmap))

    def is_proof(self, nonce: int) -> bool:
        """Return whether this end made the nonce; the peer can know it only if it receives at its address."""
        return nonce != NO_TOKEN and nonce in (self._nonce, self._early)

    def belongs_to(self, peer: Peer) -> None:
        """Use the state of this peer from now on."""
        self._peer = peer
        self._known = peer.acceptance.has(self.obj)

    def _proves(self, nonce: int) -> bool:
        if not self.is_proof(nonce):
            return False
        if not self._proven:
            self._peer.proved(self._nonce)
            self._peer.offer = self.obj.offer
            self._proven = True
        return True

    def segment(self, message: Pk, now_ns: int) -> bool:
        """Store a segment; return whether it is an answer to our first PROCEED."""
        if not self._proves(message.nonce):
            return False
        if not self._known:
            self._store(message, now_ns)
        return message.nonce == self._nonce and self._round == 0  # later, it may answer an earlier PROCEED

    def _store(self, message: Pk, now_ns: int) -> None:
        shared = self._shared
        part = shared.part_for(self._peer, self.obj, now_ns)
        if not part.fits(message.slot, message.data):
            return
        if shared.partial_bytes + len(message.data) > shared.config.max_partial_bytes:
            shared.counters.refused += 1
            return
        taken = part.store(message.slot, message.data)
        shared.partial_bytes += taken
        shared.counters.duplicate_segments += not taken

    def answers(self, message: ObjectDone) -> bool:
        """Return whether a DONE was sent in answer to our last PROCEED."""
        return message.nonce == self._nonce

    def done(self, message: ObjectDone, now_ns: int) -> ObjectAck | Proceed | None:
        """Return the answer to a DONE message: an ACK, or a PROCEED for missing segments.

        None if the DONE is late.
        """
        if message.round != self._round or not self._proves(message.nonce):
            return None
        if not self._known and not self._completed(now_ns):
            self._round = (self._round + 1) % 256
            return self.proceed()
        return ObjectAck(self.obj.kind, self.obj.stamp_ns)

    def _completed(self, now_ns: int) -> bool:
        """Report the object if all segments have arrived; return whether they have."""
        part = self._shared.part_for(self._peer, self.obj, now_ns)
        if not part.bitmap.is_full:
            return False
        self._peer.acceptance.complete(part, self._shared.keep_until_ns(self.obj, now_ns))
        self._shared.partial_bytes -= part.memory_bytes
        self._known = True
        facts = part.kind, part.stamp_ns, part.joined(), part.payload_bytes, part.began_ns
        event = Received(now_ns, self._peer.address, *facts)
        self._shared.events.append(event)
        return True


class SessionRole(Enum):
    """Role of this end in a session: whether it established the session or answers."""

    INITIATOR = auto()
    RESPONDER = auto()
    MASTER = auto()
    SLAVE = auto()


class Indication(Enum):
    """Indications (POLL, HELO, SENT) that the lower layer, Level I, gives to Level II on the same host."""

    POLL = auto()
    """Peer-to-peer: this end must begin the session."""
    HELO = auto()
    """Master-slave: the session is established, and the slave must be polled."""
    SENT = auto()
    """The last message was sent."""


class Level2State(Enum):
    """State of Level II."""

    IDLE = auto()
    TURN = auto()
    """This end has the turn: Level I may ask for an offer."""
    SENDING = auto()
    WAIT_OFFER = auto()
    RECEIVING = auto()
    ENDED = auto()
    """The session has ended; a last message may still wait to be sent."""


class Level2:
    """The state machine of one session."""

    def __init__(self, role: SessionRole, peer: Peer, shared: EndpointState) -> None:
        self.state = Level2State.IDLE
        self.role = role
        self.indicated = False
        """Whether a received object waits for the application.

        Until it is processed, this end takes no turn."""
        self.cookie = NO_TOKEN
        """Nonce for the first PROCEED to a peer whose address is not proven; else the nonce is random."""
        self._peer = peer
        self._first_token = peer.token
        self._shared = shared
        self._control: Message | None = None
        self._sending: Sending | None = None
        self._receiving: Receiving | None = None
        self._held: Obj | Nope | None = None
        self._last_offer: tuple[int, int] | None = None
        self._turn = 0
        self._nopes = 0

    # -- what Level I asks and tells -------------------------------------------------------------------

    def hear(self, indication: Indication) -> None:
        """Process an indication (POLL, HELO or SENT) of Level I."""
        if indication is Indication.POLL:
            self.state = Level2State.TURN
        elif indication is Indication.HELO:
            self._control = Poll(self._shared.offer)
            self.state = Level2State.WAIT_OFFER
        elif self._sending is not None:
            self._sending.sent()

    @property
    def has_output(self) -> bool:
        """Whether `outgoing` would return a message now."""
        if self._control is not None:
            return True
        if self.state is Level2State.TURN:
            return not self.indicated
        return self.state is Level2State.SENDING and self._sending is not None and self._sending.has_output

    @property
    def is_over(self) -> bool:
        """Whether the session has ended and nothing is left to send."""
        return self.state is Level2State.ENDED and self._control is None

    def is_proof(self, message: Message) -> bool:
        """Return whether a message shows that the peer receives at its address."""
        if self._receiving is None or not isinstance(message, Pk | ObjectDone):
            return False
        return self._receiving.is_proof(message.nonce)

    def belongs_to(self, peer: Peer) -> None:
        """Use the state of this peer from now on, because its address is proven."""
        self._peer = peer
        if self._receiving is not None:
            self._receiving.belongs_to(peer)

    @property
    def is_unanswered(self) -> bool:
        """Whether the peer has not yet answered our first message."""
        if self.role is SessionRole.MASTER:
            return self._turn == 0 and self.state is Level2State.WAIT_OFFER
        return self._sending is not None and self._sending.phase is TransmissionPhase.WAIT_PROCEED and self._turn == 0

    @property
    def in_flight(self) -> OutgoingObject | None:
        """The object that is being sent; None if there is none."""
        return self._sending.object if self._sending is not None else None

    def outgoing(self, now_ns: int) -> Message:
        """Return the next message; call it only if `has_output` is true."""
        if self._control is not None:
            message, self._control = self._control, None
            return message
        if self.state is Level2State.TURN:
            return self._begin_turn(now_ns)
        assert self._sending is not None
        return self._sending.outgoing(now_ns)

    def _begin_turn(self, now_ns: int) -> Message:
        chosen = self._peer.outgoing.first(now_ns)
        if chosen is None:
            return self._say_nope()
        self.state = Level2State.SENDING
        token = self._first_token if self._peer.token == self._first_token else NO_TOKEN
        self._sending = Sending(chosen, self._peer, self._shared, early_token=token)
        return self._sending.outgoing(now_ns)

    def _say_nope(self) -> Nope:
        nope = Nope(self._turn % 256, self._shared.offer)
        self._nopes += 1
        self._end_turn(ours=True)
        return nope

    def _end_turn(self, *, ours: bool) -> None:
        """Pass the turn to the peer, or end the session."""
        self._turn += 1
        self._sending = None
        several = Extension.SEVERAL in self._shared.agreed(self._peer)
        if self._nopes >= 2 or (self._turn >= 2 and not several):
            self.state = Level2State.ENDED
        elif not ours:
            self.state = Level2State.TURN
        else:
            self.state = Level2State.WAIT_OFFER

    # -- what the peer says ----------------------------------------------------------------------------

    def receive(self, message: Message, now_ns: int) -> bool:
        """Process a message; return whether it is an answer to the last message that this end sent."""
        match message:
            case Pk():
                if self._receiving is None or self.state is not Level2State.RECEIVING:
                    return False
                return self._receiving.segment(message, now_ns)
            case ObjectDone():
                return self._done(message, now_ns)
            case Proceed():
                return self._proceed(message)
            case ObjectAck():
                return self._ack(message, now_ns)
            case Rej():
                return self._rej(message, now_ns)
            case Poll():
                return self._poll(message)
            case Obj() | Nope():
                return self._offered(message)

    def _poll(self, message: Poll) -> bool:
        if self.role is not SessionRole.SLAVE or self.state is not Level2State.IDLE:
            return False
        self._peer.offer = message.offer
        self.state = Level2State.TURN
        return True

    def _offered(self, message: Obj | Nope) -> bool:
        """Process the peer's offer or NOPE; return whether it is an answer to our last message.

        If it arrives before the ACK of our object, it is stored until that ACK has arrived.
        """
        if self._sending is not None and self._sending.phase is TransmissionPhase.WAIT_ANSWER:
            self._held = message
            return False
        return self._nope(message) if isinstance(message, Nope) else self._obj(message)

    def _nope(self, message: Nope) -> bool:
        if self.state is not Level2State.WAIT_OFFER or message.turn != self._turn % 256:
            return False
        self._peer.offer = message.offer
        self._nopes += 1
        self._end_turn(ours=False)
        return True

    def _obj(self, obj: Obj) -> bool:
        awaited = self.state is Level2State.WAIT_OFFER or (
            self.state is Level2State.IDLE and self.role is SessionRole.RESPONDER
        )
        if not awaited or self._last_offer == (obj.kind, obj.stamp_ns):
            return False
        answer = self._answer(obj)
        if answer is None:
            return False
        self._last_offer = obj.kind, obj.stamp_ns
        self._nopes = 0
        self._control = answer
        return True

    def _answer(self, obj: Obj) -> Proceed | Rej | None:
        """Return the answer to the peer's offer: accepted (PROCEED) or rejected (REJ).

        None if there is not enough memory for the object now.
        """
        config = self._shared.config
        reason = self._peer.acceptance.refuses(obj, accepts=config.accepts, max_classes=config.max_classes)
        if reason is None and obj.size_bytes > config.max_message_bytes:
            reason = RejectReason.SIZE
        if reason is not None:
            # a slave whose object is rejected says NOPE; in every other case the session is over
            self.state = Level2State.WAIT_OFFER if self.role is SessionRole.MASTER else Level2State.ENDED
            return Rej(obj.kind, obj.stamp_ns, reason)
        if self._shared.partial_bytes + obj.size_bytes > config.max_partial_bytes:
            self._shared.counters.refused += 1
            return None
        nonce, self.cookie = self.cookie or self._shared.nonce(), NO_TOKEN
        self._receiving = Receiving(obj, self._peer, self._shared, nonce=nonce)
        self.state = Level2State.RECEIVING
        return self._receiving.proceed()

    def _done(self, message: ObjectDone, now_ns: int) -> bool:
        if self._receiving is None or self.state is not Level2State.RECEIVING:
            return False
        events = len(self._shared.events)
        answer = self._receiving.done(message, now_ns)
        if answer is None:
            return False
        self._control = answer
        if isinstance(answer, ObjectAck):
            self.indicated = len(self._shared.events) > events
            self._end_turn(ours=False)
        return self._receiving.answers(message)

    def _ack(self, message: ObjectAck, now_ns: int) -> bool:
        sending = self._sending
        if sending is None or sending.phase is not TransmissionPhase.WAIT_ANSWER:
            return False
        if not sending.concerns(message.kind, message.stamp_ns):
            return False
        each = sending.object
        self._remove(sending)
        facts = each.handle, each.sessions, each.slots, each.segments_sent
        self._shared.events.append(ObjectDelivered(now_ns, self._peer.address, *facts))
        self._nopes = 0
        self._end_turn(ours=True)
        held, self._held = self._held, None
        if held is not None:
            self._offered(held)
        return True

    def _proceed(self, message: Proceed) -> bool:
        if self._sending is None or not self._sending.proceed(message):
            return False
        if self._sending.object.is_cut_too_long:
            # the peer holds nothing: end before it might, and offer smaller segments in the next session
            self._sending = None
            self.state = Level2State.ENDED
        return True

    def _rej(self, message: Rej, now_ns: int) -> bool:
        sending = self._sending
        if sending is None or sending.phase is TransmissionPhase.OFFER or self.state is not Level2State.SENDING:
            return False
        if not sending.concerns(message.kind, message.stamp_ns) or sending.is_accepted:
            return False
        each = sending.object
        self._remove(sending)
        known = message.reason in RejectReason.__members__.values()
        reason = RejectReason(message.reason).name.lower() if known else str(message.reason)
        event = Rejected(now_ns, self._peer.address, each.handle, reason, each.segments_sent)
        self._shared.events.append(event)
        if self.role is SessionRole.SLAVE:
            self._control = self._say_nope()
        else:
            self._sending = None
            self.state = Level2State.ENDED
        return True

    def _remove(self, sending: Sending) -> None:
        self._peer.outgoing.remove(sending.object)
        self._shared.outgoing_bytes -= len(sending.object.data)
