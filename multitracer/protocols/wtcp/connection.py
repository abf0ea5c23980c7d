"""One end of a WTCP connection: handshake, the two directions, and the close.

Rules of the file:

- No I/O: `receive` accepts the octets of one UDP datagram, `outgoing` returns octets to send. Every call that
  depends on time has a parameter `now_ns`, of any monotonic clock; the clocks of the two ends may differ.
- After each call that changed something, the caller must call `outgoing(now_ns)` until it returns None, then
  read `next_ns`: the time of the next call, or None if only an arriving packet or the application can change
  anything. A time in the past means now.
- No received packet raises an error; bad packets are counted in `counters`. A wrong call raises
  `LocalProtocolError`.
- The accepting end sends one packet of the same length for each SYN, and nothing else until the peer has
  repeated the identity in that packet.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from multitracer.errors import LocalProtocolError
from multitracer.protocols.wtcp.packet import (
    IDENTITY_BYTES,
    NO_IDENTITY,
    Data,
    Hello,
    PacketFlag,
    Reset,
    WtcpAck,
    WtcpOpening,
    WtcpPacketType,
    decode,
    encode,
)
from multitracer.protocols.wtcp.receiver import WtcpReceiver
from multitracer.protocols.wtcp.sender import WtcpSender
from multitracer.protocols.wtcp.state import StateChanged, WtcpConfig, WtcpCounters, WtcpEvent, WtcpState

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.protocols.wtcp.packet import Body

_MOST_EVENTS = 4096
"""Maximum number of events that wait for `take_events`; older ones are dropped (not measured)."""
_AT_WORK = frozenset({WtcpState.ESTABLISHED, WtcpState.TIME_WAIT})


class WtcpConnection:
    """One endpoint of a WTCP connection.

    Parameters
    ----------
    config : WtcpConfig, optional
        Parameters of this end.
    initiator : bool
        Whether this end connects (`open`); otherwise it waits for a SYN.
    random_bytes : callable
        Returns the given number of unpredictable bytes, such as `os.urandom`.

    Examples
    --------
    >>> import random
    >>> a = WtcpConnection(initiator=True, random_bytes=random.Random(1).randbytes)
    >>> b = WtcpConnection(initiator=False, random_bytes=random.Random(2).randbytes)
    >>> a.open(0)
    >>> a.write(b"hello")
    5
    >>> a.close()
    >>> for now_ns in range(0, 1_000_000_000, 10_000_000):
    ...     for end, other in ((a, b), (b, a)):
    ...         while octets := end.outgoing(now_ns):
    ...             other.receive(octets, now_ns)
    >>> b.read(), b.at_end
    (b'hello', True)
    """

    def __init__(
        self, config: WtcpConfig | None = None, *, initiator: bool, random_bytes: Callable[[int], bytes]
    ) -> None:
        self.config = config or WtcpConfig()
        self.initiator = initiator
        self.counters = WtcpCounters()
        self.state = WtcpState.CLOSED if initiator else WtcpState.LISTEN
        self.error: str | None = None
        """Why the connection ended abnormally: timed out, aborted, or reset by the peer; else None."""
        self.identity = random_bytes(IDENTITY_BYTES)
        """Identity that packets to this end must carry."""
        self._peer = NO_IDENTITY
        self._events: deque[WtcpEvent] = deque(maxlen=_MOST_EVENTS)
        self._sender = WtcpSender(self.config, self.counters, self._report)
        self._receiver = WtcpReceiver(self.config, self.counters, self._report)
        self._now_ns = 0
        self._heard_ns: int | None = None
        self._opening: WtcpPacketType | None = None
        self._opening_due_ns: int | None = None
        self._syns = 0
        self._syn_ns = 0
        self._is_confirmed = not initiator
        self._linger_ns: int | None = None
        self._reset_due = False

    # --- the application's side ---

    def open(self, now_ns: int) -> None:
        """Begin to connect; the first packet from `outgoing` is the SYN.

        Raises
        ------
        LocalProtocolError
            If this end accepts connections, or was opened before.
        """
        if not self.initiator or self.state is not WtcpState.CLOSED or self._heard_ns is not None:
            raise LocalProtocolError(f"WTCP {self.state}: cannot open in this state; create a new initiator")
        self._now_ns = self._heard_ns = now_ns
        self._opening, self._opening_due_ns = WtcpPacketType.SYN, now_ns
        self._enter(WtcpState.SYN_SENT)

    def write(self, data: bytes) -> int:
        """Accept data to send, at any time before `close`; return how many bytes the send buffer accepted.

        Raises
        ------
        LocalProtocolError
            After `close`, or when the connection has ended.
        """
        if self._sender.is_closed or self._has_ended:
            raise LocalProtocolError(
                f"WTCP {self.state}: cannot write in this state, because the sending side is closed"
            )
        return self._sender.write(data)

    def read(self, max_bytes: int = 1 << 30) -> bytes:
        """Return data that arrived in order; empty if there are none, and after the end."""
        return self._receiver.read(max_bytes, self._now_ns)

    def close(self) -> None:
        """Send all written data, then the end of the stream.

        Reading is possible until the peer closes too.
        """
        self._sender.is_closed = True

    def abort(self) -> None:
        """Discard all data and send a reset, if the peer is known."""
        if not self._has_ended:
            self._reset_due = self.state in _AT_WORK
            self._end("aborted")

    @property
    def free_bytes(self) -> int:
        """Number of bytes that `write` would accept now."""
        return self._sender.free_bytes

    @property
    def unacknowledged_bytes(self) -> int:
        """Number of bytes that were written and are not acknowledged yet."""
        return self._sender.unacknowledged_bytes

    @property
    def readable_bytes(self) -> int:
        """Number of bytes that `read` would return."""
        return self._receiver.readable_bytes

    @property
    def at_end(self) -> bool:
        """Whether the application has read everything up to the end of the peer's stream."""
        return self._receiver.is_complete and not self._receiver.readable_bytes

    @property
    def is_finished(self) -> bool:
        """Whether both directions are complete (TIME-WAIT or CLOSED), or the connection failed."""
        return self.state is WtcpState.TIME_WAIT or self._has_ended

    @property
    def _has_ended(self) -> bool:
        return self.state is WtcpState.CLOSED and (not self.initiator or self._heard_ns is not None)

    @property
    def _is_over(self) -> bool:
        """Whether both directions are complete; only lost final acknowledgments are still sent again."""
        return self.state is WtcpState.CLOSED and self._receiver.is_complete and self.error is None

    # --- what arrives ---

    def receive(self, octets: bytes, now_ns: int) -> None:
        """Process the octets of one datagram; any octets are allowed."""
        self._now_ns = now_ns
        self.counters.packets_received += 1
        self.counters.received_octets += len(octets)
        packet = decode(octets)
        if packet is None:
            self.counters.malformed += 1
        elif self._is_syn(packet.body):
            self._take_syn(packet.body)
        elif packet.identity != self.identity:
            self.counters.wrong_identity += 1
        else:
            self._take_body(packet.body, len(octets), now_ns)

    def _is_syn(self, body: Body) -> bool:
        return isinstance(body, WtcpOpening) and body.kind is WtcpPacketType.SYN

    def _take_syn(self, body: Body) -> None:
        """Answer a SYN, while it is not proven that the peer receives at its address."""
        if self.state is not WtcpState.LISTEN or not isinstance(body, WtcpOpening):
            self.counters.unexpected += 1
            return
        self._peer = body.hello.identity
        self._opening, self._opening_due_ns = WtcpPacketType.SYN_ACK, self._now_ns

    def _take_body(self, body: Body, octets: int, now_ns: int) -> None:
        match body:
            case WtcpOpening():
                self._take_opening(body, now_ns)
            case Data() if self._may_begin(body.hello, now_ns):
                self._confirmed(now_ns)
                self._receiver.take(body, octets, now_ns)
                self._finish(now_ns)
            case WtcpAck() if self.state in _AT_WORK:
                self._take_ack(body, now_ns)
            case Reset() if self.state in _AT_WORK or self.state is WtcpState.SYN_SENT:
                self._end("reset by the peer")
            case _:
                self.counters.unexpected += 1

    def _may_begin(self, hello: Hello | None, now_ns: int) -> bool:
        """Return whether data may be accepted.

        A peer that repeats the identity which this end chose has proven its address.
        """
        if self.state is WtcpState.LISTEN and hello is not None:
            self._establish(hello, now_ns)
        return self.state in _AT_WORK or self._is_over

    def _take_opening(self, body: WtcpOpening, now_ns: int) -> None:
        if body.kind is WtcpPacketType.SYN_ACK and self.state is WtcpState.SYN_SENT:
            if self._syns == 1:
                self._sender.round_trip.add(max(0, now_ns - self._syn_ns))
            self._establish(body.hello, now_ns)
            self._opening, self._opening_due_ns = WtcpPacketType.CONFIRM, now_ns
        elif body.kind is WtcpPacketType.CONFIRM and not self.initiator:
            if self._may_begin(body.hello, now_ns):
                self._receiver.demand_ack(now_ns)
        else:
            self.counters.unexpected += 1

    def _establish(self, hello: Hello, now_ns: int) -> None:
        self._peer = hello.identity
        self._heard_ns = now_ns
        self._opening = self._opening_due_ns = None
        self._sender.open_window(hello.window_bytes, now_ns)
        self._enter(WtcpState.ESTABLISHED)

    def _confirmed(self, now_ns: int) -> None:
        """Process a packet that shows that the peer has accepted our address."""
        self._heard_ns = now_ns
        if not self._is_confirmed:
            self._is_confirmed = True
            self._opening = self._opening_due_ns = None

    def _take_ack(self, ack: WtcpAck, now_ns: int) -> None:
        self._confirmed(now_ns)
        if not self._sender.acknowledge(ack, now_ns):
            return
        self._finish(now_ns)
        if ack.flags & PacketFlag.DONE and self.state is WtcpState.TIME_WAIT:
            self._linger_ns = now_ns  # the peer waits for nothing any more

    # --- the end ---

    def _finish(self, now_ns: int) -> None:
        """Enter TIME-WAIT if both directions are complete; in this state, answer retransmissions."""
        if not (self._receiver.is_complete and self._sender.outstanding.is_complete):
            return
        if self.state is WtcpState.ESTABLISHED:
            self._enter(WtcpState.TIME_WAIT)
            self._receiver.demand_ack(now_ns)
            self._linger_ns = now_ns + self.config.linger_ns

    def _end(self, error: str | None) -> None:
        self.error = error
        self._linger_ns = self._opening_due_ns = None
        self._enter(WtcpState.CLOSED)

    def _enter(self, state: WtcpState) -> None:
        self.state = state
        self._report(StateChanged(self._now_ns, state))

    # --- what leaves ---

    def outgoing(self, now_ns: int) -> bytes | None:
        """Return the next packet to send now; None if no packet is due. The packet counts as sent."""
        self._now_ns = now_ns
        self._watch(now_ns)
        body = self._next_body(now_ns)
        if body is None:
            if self._linger_ns is not None and self._linger_ns <= now_ns:
                self._end(None)
            return None
        is_syn = isinstance(body, WtcpOpening) and body.kind is WtcpPacketType.SYN
        octets = encode(NO_IDENTITY if is_syn else self._peer, body)
        self.counters.packets_sent += 1
        self.counters.sent_octets += len(octets)
        return octets

    def _watch(self, now_ns: int) -> None:
        """End the connection if no packet of the peer has arrived for `give_up_ns`."""
        deadline_ns = self._give_up_ns
        if deadline_ns is not None and now_ns >= deadline_ns:
            self._end("timed out")

    @property
    def _give_up_ns(self) -> int | None:
        if self._heard_ns is None or self.state not in (WtcpState.SYN_SENT, WtcpState.ESTABLISHED):
            return None
        return self._heard_ns + self.config.give_up_ns

    def _next_body(self, now_ns: int) -> Body | None:
        if self._reset_due:
            self._reset_due = False
            return Reset()
        if self._opening_due_ns is not None and now_ns >= self._opening_due_ns:
            return self._next_opening(now_ns)
        if self.state not in _AT_WORK and not self._is_over:
            return None
        receiver = self._receiver
        if receiver.ack_due_ns is not None and now_ns >= receiver.ack_due_ns:
            self.counters.acks_sent += 1
            return receiver.make_ack(now_ns, is_done=self._sender.outstanding.is_complete)
        return self._sender.outgoing(now_ns, None if self._is_confirmed else self._hello)

    @property
    def _hello(self) -> Hello:
        return Hello(self.identity, self._receiver.window_bytes)

    def _next_opening(self, now_ns: int) -> WtcpOpening | None:
        """Return the handshake packet that is due: a SYN-ACK once, other packets until the peer answers."""
        kind = self._opening
        if kind is None:
            return None
        self._opening_due_ns = now_ns + self.config.handshake_ns
        if kind is WtcpPacketType.SYN_ACK:
            self._opening = self._opening_due_ns = None
        elif kind is WtcpPacketType.SYN:
            self._syns += 1
            self._syn_ns = now_ns
        return WtcpOpening(kind, self._hello)

    @property
    def next_ns(self) -> int | None:
        """Time in ns at which `outgoing` must be called; None if nothing is scheduled.

        A past time means now.
        """
        if self._reset_due:
            return self._now_ns
        times = [self._opening_due_ns, self._linger_ns, self._give_up_ns]
        if self.state in _AT_WORK or self._is_over:
            times += [self._receiver.ack_due_ns, self._sender.next_ns]
        return min((each for each in times if each is not None), default=None)

    # --- what a log shows ---

    @property
    def rate_bps(self) -> float:
        """Sending rate of this end, in bit/s of complete IP packets."""
        return self._sender.rate_bps

    @property
    def rate_packets_per_s(self) -> float:
        """Sending rate of this end, in packets of maximum length per second."""
        return self._sender.rate_bps / self.config.packet_bits

    @property
    def asked_rate_bps(self) -> float:
        """Sending rate that this end requests from the peer, in bit/s of complete IP packets."""
        return self._receiver.rate.rate_bps

    @property
    def is_blacked_out(self) -> bool:
        """Whether this end sends probes instead of data, because no acknowledgment arrived."""
        return self._sender.is_blacked_out

    @property
    def srtt_ns(self) -> int | None:
        """Smoothed round-trip time in ns, without the receiver's delay; None before the first measurement."""
        return self._sender.round_trip.srtt_ns

    def take_events(self) -> list[WtcpEvent]:
        """Return the events since the last call, at most the newest 4096."""
        taken = list(self._events)
        self._events.clear()
        return taken

    def _report(self, event: WtcpEvent) -> None:
        if len(self._events) == _MOST_EVENTS:
            self.counters.overflowed_events += 1
        self._events.append(event)
