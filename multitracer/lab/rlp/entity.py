"""One end of an RLP link: the state machine.

Source: 3GPP TS 24.022, clauses 5 and 6; docs/protocols.md lists our choices where these clauses specify nothing.

A radio channel carries one frame per slot in each direction, even without data, so the slot is the clock: the driver
calls `outgoing` once per slot and passes the result to the other end's `receive`, or None if the radio destroyed it.
All timers count slots. Every frame of an established link carries N(R), so T2 is not needed.

Rules of this file:

1. Everything that changes the state is here; numbered frames are processed in `balanced.py`.
2. A received frame never raises an error. An invalid frame is reported as ignored.
3. A command (XID, SABM, DISC) is repeated after each T1 until it is answered, one command at a time.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, ClassVar

from multitracer.errors import LocalProtocolError
from multitracer.lab.rlp.balanced import BalancedMode, ExhaustedError, Sdu
from multitracer.lab.rlp.xid import Command, RlpState, SlotJournal, decode_parameters
from multitracer.protocols import link_events as say
from multitracer.protocols.rlp import (
    U_FRAME,
    FcsError,
    FrameError,
    FrameKind,
    RlpFrame,
    Unnumbered,
    decode_slot,
    sealed_without_info,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.lab.rlp.xid import RlpConfig
    from multitracer.protocols.link_events import LinkEvent

_REPLIES_WAITING = 8
"""Maximum number of answers to U frames that wait for a slot; further commands are not answered."""


class RlpEntity:
    """One end of an RLP link.

    Parameters
    ----------
    config : RlpConfig
        Role, parameters and options.
    attached : bool
        False to refuse set-up (DM) until `attach` is called.

    Notes
    -----
    In each slot the driver calls `receive` with the other end's frame (or None), and `outgoing`, always in
    the same order. `write` accepts user data when `ready` is true; `read` returns received data.
    """

    def __init__(self, config: RlpConfig, *, attached: bool = True) -> None:
        self.config = config
        self.parameters = config.parameters
        """The parameters in use: those agreed by XID, or the configured ones."""
        self.state = RlpState.ATTACHED if attached else RlpState.DETACHED
        self.epoch = 0
        """Number of times the link was cleared."""
        self.on_flush: Callable[[], int] | None = None
        """Called when the link is cleared: the layer above flushes its buffer and returns the number of user octets."""
        self.journal = SlotJournal()
        """Events of all layers of this side, so that one log has them in order."""
        self._balanced = BalancedMode(config, self.journal)
        self._command: Command | None = None
        self._replies: deque[RlpFrame] = deque(maxlen=_REPLIES_WAITING)
        self._ui_fields: deque[bytes] = deque()
        self._ui_turn = False
        self._arrived_ui_fields: list[bytes] = []

    # -- what the user of the link calls ---------------------------------------------------------------

    def attach(self) -> None:
        """Accept a link set-up by the peer from now on."""
        if self.state is RlpState.DETACHED:
            self.state = RlpState.ATTACHED

    def connect(self) -> None:
        """Set up the link: XID if configured, then SABM; an event `Connected` or `Disconnected` follows.

        Raises
        ------
        LocalProtocolError
            Unless the entity is attached and not connected.
        """
        self._expect("connect", RlpState.ATTACHED)
        self.state = RlpState.CONNECTING
        if self.config.negotiate:
            self._command = Command(Unnumbered.XID, self.parameters.encode())
        else:
            self._command = Command(Unnumbered.SABM)

    def disconnect(self, *, now_ns: int) -> None:
        """Release the link by DISC; unacknowledged data are lost, and an event `Disconnected` follows.

        Raises
        ------
        LocalProtocolError
            Unless the link is established, being set up or being reset.
        """
        self._expect("disconnect", RlpState.ESTABLISHED, RlpState.CONNECTING, RlpState.RESETTING)
        self.journal.now_ns = now_ns
        self._flush()
        self.state = RlpState.DISCONNECTING
        self._command = Command(Unnumbered.DISC)

    def reset(self, *, now_ns: int) -> None:
        """Reset the link by SABM; both ends discard data that are not delivered.

        Raises
        ------
        LocalProtocolError
            Unless the link is established.
        """
        self._expect("reset", RlpState.ESTABLISHED)
        self.journal.now_ns = now_ns
        self._begin_reset("forced")

    def channel_lost(self, *, now_ns: int) -> None:
        """Record that the layer below has ended the call."""
        self.journal.now_ns = now_ns
        self._drop_call("lost")

    @property
    def ready(self) -> bool:
        """Whether a unit that is written now is sent in the next slot, unless a U frame must be answered."""
        return self.state is RlpState.ESTABLISHED and self._balanced.ready

    def write(self, info: bytes, *, offset_bytes: int | None = None, user_bytes: int | None = None) -> None:
        """Queue one unit of user data for transmission.

        Parameters
        ----------
        info : bytes
            One information field, at most 25 or 67 octets.
        offset_bytes, user_bytes : int, optional
            Position of its user octets in the sender's stream, and their number: for the log, and to count
            what a reset discards. By default all octets of `info` count.

        Raises
        ------
        LocalProtocolError
            If the link is not established, `info` is too long, or a full window is already waiting.
        """
        self._expect("write", RlpState.ESTABLISHED)
        if len(info) > self.config.info_octets or not self._balanced.can_queue:
            raise LocalProtocolError(
                f"RLP: cannot write {len(info)} octets, because a unit holds "
                f"{self.config.info_octets} octets, or a full window of units is waiting; write when "
                "the entity is ready"
            )
        self._balanced.queue(Sdu(info, offset_bytes, len(info) if user_bytes is None else user_bytes))

    def read(self) -> list[bytes]:
        """Return the information fields that arrived since the last call of this method, in order.

        They include their padding.
        """
        delivered, self._balanced.delivered = self._balanced.delivered, []
        return delivered

    @property
    def unnumbered_waiting(self) -> int:
        """Number of UI frames that wait for a slot."""
        return len(self._ui_fields)

    def write_unnumbered(self, info: bytes) -> None:
        """Queue an information field for a UI frame, which is sent once.

        UI frames take every other slot: they have no N(R), and without it the peer's T1 would expire.

        Raises
        ------
        LocalProtocolError
            If the link is not established.
        """
        self._expect("write unnumbered", RlpState.ESTABLISHED)
        self._ui_fields.append(info)

    def read_unnumbered(self) -> list[bytes]:
        """Return the information fields of UI frames that arrived since the last call of this method."""
        arrived, self._arrived_ui_fields = self._arrived_ui_fields, []
        return arrived

    @property
    def local_busy(self) -> bool:
        """Set to make the peer stop sending new frames (RNR); clear to let it continue (RR)."""
        return self._balanced.local_busy

    @local_busy.setter
    def local_busy(self, busy: bool) -> None:
        self._balanced.local_busy = busy

    def events(self) -> list[LinkEvent]:
        """Return the events since the last call of this method, in order of time."""
        return self.journal.take()

    def count_idle(self) -> None:
        """Add an event with the number of idle frames since the last such event."""
        self.journal.count_idle()

    @property
    def tick(self) -> int:
        """Number of slots that have begun."""
        return self.journal.tick

    @property
    def unacked_bytes(self) -> int:
        """Number of user octets that were sent and are not acknowledged."""
        return self._balanced.unacked_bytes

    @property
    def unsent_bytes(self) -> int:
        """Number of user octets that were written and not sent yet."""
        return self._balanced.unsent_bytes

    def _expect(self, verb: str, *states: RlpState) -> None:
        if self.state not in states:
            raise LocalProtocolError(
                f'RLP: the operation "{verb}" is not possible in the state {self.state.name.lower()}'
            )

    # -- the channel: one frame out, one frame in per slot ---------------------------------------------

    def outgoing(self, now_ns: int) -> bytes | None:
        """Begin the next slot and return its frame; None after the call is dropped."""
        journal = self.journal
        journal.tick += 1
        journal.now_ns = now_ns
        if self._replies:
            return journal.sent(self._encoded(self._replies.popleft()))
        if self.state is RlpState.ESTABLISHED:
            self._ui_turn = bool(self._ui_fields) and not self._ui_turn
            if self._ui_turn:
                return journal.sent(self._encoded(_unnumbered_information(self._ui_fields.popleft())))
            try:
                return self._balanced.outgoing()
            except ExhaustedError as failure:
                self._give_up(failure)
        if self._command is not None:
            return self._repeat(self._command)
        return None if self.state is RlpState.DROPPED else self._null()

    def receive(self, octets: bytes | None, now_ns: int) -> None:
        """Process the frame of this slot, or None if the radio could not decode it."""
        self.journal.now_ns = now_ns
        try:
            frame = decode_slot(octets or b"", length=self.config.frame_octets)
        except FcsError:
            self.journal.note(say.FrameLost, octets or b"")
        except FrameError:
            self.journal.received(octets or b"", "ignored")
        else:
            self._obey(frame, octets or b"")

    def _obey(self, frame: RlpFrame, octets: bytes) -> None:
        if frame.kind is FrameKind.U:
            self._unnumbered(frame, octets)
        elif self.state is RlpState.ESTABLISHED:
            self._balanced.receive(frame, octets)
        else:
            self.journal.received(octets, "ignored")

    def _encoded(self, frame: RlpFrame) -> bytes:
        return frame.encode(octets=self.config.frame_octets)

    def _null(self) -> bytes:
        header = Unnumbered.NULL << 10 | U_FRAME
        return self.journal.idle_sent(sealed_without_info(header, self.config.frame_octets))

    # -- commands and their answers --------------------------------------------------------------------

    def _repeat(self, command: Command) -> bytes | None:
        tick = self.journal.tick
        if not command.is_due(tick, self._balanced.t1_ticks):
            return self._null()
        if command.tries > self.parameters.n2:
            return self._unanswered(command)
        return self.journal.sent(self._encoded(command.send(tick)), attempt=command.tries)

    def _unanswered(self, command: Command) -> bytes | None:
        if command.function is Unnumbered.XID:  # the peer does not negotiate: what we wished for holds
            self._command = Command(Unnumbered.SABM)
        elif self.state is RlpState.RESETTING:
            command.tries = 0  # whether the call is over is for the layer below to say
        else:
            self._released("no-answer")
            return self._null()
        return self._repeat(self._command or command)

    def _unnumbered(self, frame: RlpFrame, octets: bytes) -> None:
        if frame.function is Unnumbered.NULL:
            self.journal.idle_received()
            return
        act = self._ACTIONS.get((frame.function, frame.command))
        if act is None or self.state is RlpState.DROPPED or not act(self, frame):
            self.journal.received(octets, "ignored")
        else:
            self.journal.received(octets)

    def _sabm(self, frame: RlpFrame) -> bool:
        if not frame.poll_final or self.state is RlpState.DISCONNECTING:
            return False
        if self.state is RlpState.DETACHED:
            return self._answer(Unnumbered.DM, final=True)
        if self._command is not None and self._command.function is Unnumbered.SABM and self._command.tries:
            self._command.crossed = True  # wait for our UA all the same, or it would answer a later SABM
            return self._answer(Unnumbered.UA, final=True)
        if self.state is RlpState.ESTABLISHED and not self._balanced.is_held:
            self.journal.note(say.ResetStarted, "peer")
            self._flush()
            self.state = RlpState.RESETTING
        if self.state is not RlpState.ESTABLISHED:  # else our UA was lost, and this is the same SABM
            self._established(hold=True)
        return self._answer(Unnumbered.UA, final=True)

    def _ua(self, frame: RlpFrame) -> bool:
        command = self._command
        if command is None or not command.tries or not frame.poll_final:
            return False
        if command.function is Unnumbered.DISC:
            self._released("local")
        elif command.function is Unnumbered.SABM:
            self._established(hold=command.crossed)
        return command.function is not Unnumbered.XID

    def _dm(self, frame: RlpFrame) -> bool:
        if self._command is None or not self._command.tries or not frame.poll_final:
            return False
        self._flush()
        self._released("local" if self.state is RlpState.DISCONNECTING else "refused")
        return True

    def _disc(self, frame: RlpFrame) -> bool:
        if self.state is RlpState.DETACHED:
            return self._answer(Unnumbered.DM, final=frame.poll_final)
        if self.state is not RlpState.ATTACHED:
            self._flush()
            self._released("local" if self.state is RlpState.DISCONNECTING else "peer")
        return self._answer(Unnumbered.UA, final=frame.poll_final)

    def _xid_command(self, frame: RlpFrame) -> bool:
        if self.state is RlpState.DETACHED or not self._agree(frame):
            return False
        return self._answer(Unnumbered.XID, final=True, info=self.parameters.encode())

    def _xid_response(self, frame: RlpFrame) -> bool:
        if self._command is None or self._command.function is not Unnumbered.XID or not self._agree(frame):
            return False
        self._command = Command(Unnumbered.SABM)
        return True

    def _agree(self, frame: RlpFrame) -> bool:
        try:
            wished = decode_parameters(frame.info, default=self.config.parameters)
        except FrameError:
            return False
        self.parameters = self.config.parameters.agreed(wished)
        self._balanced.use(self.parameters)
        return True

    def _unnumbered_arrived(self, frame: RlpFrame) -> bool:
        if self.state is not RlpState.ESTABLISHED or len(self._arrived_ui_fields) >= self.config.backlog_frames:
            return False
        self._arrived_ui_fields.append(frame.info)
        return True

    def _test(self, frame: RlpFrame) -> bool:
        return self._answer(Unnumbered.TEST, final=frame.poll_final, info=frame.info)

    def _answer(self, function: Unnumbered, *, final: bool, info: bytes = b"") -> bool:
        self._replies.append(RlpFrame(FrameKind.U, function, command=False, poll_final=final, info=info))
        return True

    # -- changes of state ------------------------------------------------------------------------------

    def _established(self, *, hold: bool) -> None:
        """Enter balanced mode, starting at frame 0.

        With `hold`, send no information until the peer answers.
        """
        was_reset = self.state is RlpState.RESETTING
        self.state = RlpState.ESTABLISHED
        self._command = None
        self._balanced.clear()
        if hold:
            self._balanced.hold()
        if was_reset:
            self.journal.note(say.ResetDone)
        else:
            agreed = self.parameters
            self.journal.note(say.Connected, agreed.version, self._balanced.window, agreed.t1_ms, agreed.n2)

    def _give_up(self, failure: ExhaustedError) -> None:
        if self.config.when_exhausted == "drop-call":
            self._drop_call("n2")
        else:
            self._begin_reset("n2", failure.n_s, failure.attempts)

    def _begin_reset(self, cause: str, n_s: int | None = None, attempts: int | None = None) -> None:
        self.journal.note(say.ResetStarted, cause, n_s, attempts)
        self._flush()
        self.state = RlpState.RESETTING
        self._command = Command(Unnumbered.SABM)

    def _flush(self) -> None:
        loss = self._balanced.clear()
        self._ui_fields.clear()
        self.epoch += 1
        above = self.on_flush() if self.on_flush else 0
        self.journal.note(say.Flushed, loss.unacked_bytes, loss.unsent_bytes + above, loss.stored_frames)

    def _released(self, cause: str) -> None:
        self.state = RlpState.ATTACHED
        self._command = None
        self.journal.note(say.Disconnected, cause)

    def _drop_call(self, cause: str) -> None:
        self._flush()
        self.state = RlpState.DROPPED
        self._command = None
        self._replies.clear()
        self.journal.note(say.CallDropped, cause)

    _ACTIONS: ClassVar[dict[tuple[int, bool], Callable[[RlpEntity, RlpFrame], bool]]] = {
        (Unnumbered.SABM, True): _sabm,
        (Unnumbered.UA, False): _ua,
        (Unnumbered.DM, False): _dm,
        (Unnumbered.DISC, True): _disc,
        (Unnumbered.XID, True): _xid_command,
        (Unnumbered.XID, False): _xid_response,
        (Unnumbered.TEST, True): _test,
        (Unnumbered.UI, True): _unnumbered_arrived,
    }


def _unnumbered_information(info: bytes) -> RlpFrame:
    return RlpFrame(FrameKind.U, Unnumbered.UI, command=True, poll_final=False, info=info)
