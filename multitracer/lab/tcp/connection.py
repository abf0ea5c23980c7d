"""One end of a TCP connection: RFC 9293's state machine around a sender and a receiver.

Rules of the file:

- No I/O: `receive` accepts packets, `next_packet` returns packets until it returns None; `now_ns` is a
  parameter of every method that depends on time.
- 32-bit sequence numbers are unwrapped only here.
- After each call that changed something the caller must call `next_packet` until it returns None, then
  `next_timer_ns`.

Its receiving half does reassembly, keeps the window, and decides when to acknowledge. Units are unwrapped sequence
numbers: 0 is the peer's SYN, 1 the first byte, the FIN follows the last byte; ends are exclusive.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING

from multitracer.captured import Flag
from multitracer.errors import LocalProtocolError
from multitracer.lab.tcp.linux_sender import sender_of
from multitracer.lab.tcp.packet import (
    IP_HEADER_BYTES,
    MODULUS,
    TCP_HEADER_BYTES,
    Ecn,
    Endpoint,
    Segment,
    TcpPacket,
    sack_blocks_that_fit,
    sequence_length,
    unwrap,
)
from multitracer.lab.tcp.state import AckInfo, AnswerLimit, ConnectionState, earlier
from multitracer.protocols.ranges import RangeSet

if TYPE_CHECKING:
    from multitracer.lab.tcp.profile import TcpProfile


_ACK_EVERY_SEGMENTS = 2
"""At least every second full segment is acknowledged (RFC 5681, section 4.2)."""
_REMEMBERED_ARRIVALS = 31
"""Out-of-order arrivals from which SACK blocks are chosen; a header contains at most four blocks."""


class TcpReceiver:
    """Receive state of one connection.

    Parameters
    ----------
    profile : TcpProfile
        Size of the receive buffer and the ACK delay.
    """

    def __init__(self, profile: TcpProfile) -> None:
        self.profile = profile
        self.rcv_nxt = 0
        self.peer_mss_bytes = 536
        """Payload bytes of a full segment of the peer."""
        self.fin_received = False
        """Whether everything up to and including the peer's FIN has arrived."""
        self.duplicate_bytes = 0
        """Payload bytes that arrived although they had been received before."""
        self._readable = bytearray()
        self._early: list[tuple[int, bytes]] = []
        self._ranges = RangeSet()
        self._recent: list[int] = []
        self._dsack: tuple[int, int] | None = None
        self._fin_at: int | None = None
        self._right_edge = 0
        self._unacknowledged_bytes = 0
        self.acks_due = 0
        """Number of ACKs that must be sent now, with data or without."""
        self.delayed_ack_ns: int | None = None
        """Time at which a delayed ACK must be sent; None if none waits."""
        self._wait_ns = profile.delayed_ack_ns
        self._quick_acks_left: int | None = None

    # --- the window ---

    @property
    def readable_bytes(self) -> int:
        """Number of bytes that `read` would return."""
        return len(self._readable)

    @property
    def window_bytes(self) -> int:
        """Receive window in bytes: the free buffer, or the rest of the advertised window.

        The window grows to the free buffer only if it grows by enough (RFC 9293, section 3.8.6.2.2).
        """
        buffer_bytes, offered = self.profile.receive_buffer_bytes, self._right_edge - self.rcv_nxt
        free = buffer_bytes - len(self._readable)
        gain = free - offered
        if free > 0 and (gain >= self.peer_mss_bytes or gain >= buffer_bytes // 2):
            return free  # it grows by enough to advertise it (RFC 9293, section 3.8.6.2.2)
        return offered if offered > 0 else 0

    def window_field(self, shift: int) -> int:
        """Return the header's window field; the advertised window is recorded, because it must not shrink."""
        field = min(-(-self.window_bytes >> shift), 0xFFFF)
        edge = self.rcv_nxt + (field << shift)
        self._right_edge = max(self._right_edge, edge)
        return field

    def acceptable(self, seq: int, end: int) -> bool:
        """Return whether any sequence number of `[seq, end)` is in the receive window (RFC 9293, 3.4)."""
        edge = max(self._right_edge, self.rcv_nxt)
        if seq == end:
            return self.rcv_nxt <= seq <= edge
        return seq < edge and end > self.rcv_nxt

    # --- what arrives ---

    def take(self, seq: int, payload: bytes, *, fin: bool, now_ns: int) -> None:
        """Process the payload and the FIN of a segment; data that arrived before are ignored."""
        if seq < self.rcv_nxt or self._early:
            self.note_duplicate(seq, seq + len(payload))
        if fin:
            self._fin_at = seq + len(payload)
        in_order = seq <= self.rcv_nxt
        first = max(seq, self.rcv_nxt)
        kept = payload[first - seq : max(0, self._right_edge - seq)]
        had_holes = bool(self._early)
        if kept and in_order:
            self._deliver(kept)
        elif kept:
            self._keep_early(first, kept)
        if self._fin_at is not None:
            self._take_fin()
        prompt = had_holes or bool(self._early) or len(kept) < len(payload) or not in_order or fin
        self._plan_ack(len(kept), prompt=prompt, now_ns=now_ns)

    def note_duplicate(self, seq: int, end: int) -> None:
        """Record that the data `[seq, end)` arrived again, for the D-SACK of the next ACK (RFC 2883)."""
        if seq < self.rcv_nxt and seq < end:
            self._dsack = (seq, min(end, self.rcv_nxt))
        elif (held := self._ranges.holding(seq)) is not None and seq < end:
            self._dsack = (seq, min(end, held[1]))
        else:
            return
        self.duplicate_bytes += self._dsack[1] - self._dsack[0]

    def _deliver(self, payload: bytes) -> None:
        self._readable += payload
        self.rcv_nxt += len(payload)
        if not self._early:
            return
        while self._early and self._early[0][0] <= self.rcv_nxt:
            seq, early = self._early.pop(0)
            rest = early[self.rcv_nxt - seq :]
            self._readable += rest
            self.rcv_nxt += len(rest)
        self._ranges.remove_below(self.rcv_nxt)

    def _keep_early(self, seq: int, payload: bytes) -> None:
        """Store the parts of an out-of-order segment that are not stored yet."""
        at, end = seq, seq + len(payload)
        while at < end:
            held = self._ranges.holding(at)
            if held is not None:
                at = held[1]
                continue
            above = self._ranges.above(at)
            stop = end if above is None else min(end, above[0])
            insort(self._early, (at, payload[at - seq : stop - seq]))
            self._ranges.add(at, stop)
            at = stop
        self._recent = [*self._recent[-_REMEMBERED_ARRIVALS:], seq]

    def _take_fin(self) -> None:
        if self._fin_at == self.rcv_nxt and not self.fin_received:
            self.fin_received = True
            self.rcv_nxt += 1

    def read(self, max_bytes: int) -> bytes:
        """Return up to `max_bytes` of the stream; advertise the window if it opens by enough."""
        if not self._readable:
            return b""
        data = bytes(self._readable[:max_bytes] if max_bytes < len(self._readable) else self._readable)
        del self._readable[:max_bytes]
        gain = self.window_bytes - (self._right_edge - self.rcv_nxt)
        enough = min(2 * self.peer_mss_bytes, self.profile.receive_buffer_bytes // 2)
        if not self.fin_received and gain >= enough:
            self.acks_due = max(self.acks_due, 1)
        return data

    # --- acknowledgments ---

    def _plan_ack(self, new_bytes: int, *, prompt: bool, now_ns: int) -> None:
        self._unacknowledged_bytes += new_bytes
        full = self._unacknowledged_bytes >= _ACK_EVERY_SEGMENTS * self.peer_mss_bytes
        if prompt or full or self._wait_ns == 0 or self._quick():
            self.acks_due += 1
        elif self.delayed_ack_ns is None:
            self.delayed_ack_ns = now_ns + self._wait_ns

    def _quick(self) -> bool:
        """Return whether the segment is acknowledged at once, as one of the connection's first segments.

        The profile says whether this is done.
        """
        if self._quick_acks_left is None:
            window = self.profile.receive_buffer_bytes // self.peer_mss_bytes
            self._quick_acks_left = window // 2 + 1 if self.profile.quick_acks else 0
        self._quick_acks_left -= 1
        return self._quick_acks_left >= 0

    def demand_ack(self) -> None:
        """Request an ACK that must be sent now."""
        self.acks_due += 1

    def acknowledged(self, *, pure: bool) -> None:
        """Record that an ACK was sent; a `pure` ACK has no data.

        An ACK with data also answers all requests for ACKs, except those for duplicate ACKs.
        """
        self.acks_due = max(0, self.acks_due - 1) if pure else 0
        self._unacknowledged_bytes = 0
        self.delayed_ack_ns = None

    def sack_blocks(self, limit: int) -> tuple[tuple[int, int], ...]:
        """Return up to `limit` SACK blocks: a D-SACK, then the most recent first (RFC 2018, section 4)."""
        if self._dsack is None and not self._ranges:
            return ()
        duplicate = [self._dsack] if self._dsack is not None else []
        self._dsack = None
        held: dict[tuple[int, int], None] = {}
        for seq in reversed(self._recent):
            holder = self._ranges.holding(seq)
            if holder is not None:
                held[holder] = None
        return tuple([*duplicate, *held][:limit])

    def on_timer(self, now_ns: int) -> None:
        """Request the delayed ACK if its time has come."""
        if self.delayed_ack_ns is not None and self.delayed_ack_ns <= now_ns:
            self.delayed_ack_ns = None
            self.acks_due += 1
            self._wait_ns = max(self._wait_ns, min(2 * self._wait_ns, self.profile.longest_delayed_ack_ns))


# The options that the handshake offers and agrees: MSS, SACK, timestamps, window scaling, ECN.
#
# RFC 9293, section 3.7.1; RFC 2018; RFC 7323; RFC 3168, section 6.1.1.


DEFAULT_MSS_BYTES = 536
"""MSS of a peer that sends no MSS option (RFC 9293)."""
_TIMESTAMP_BYTES = 12  # RFC 7323, appendix A: with two NOPs
_MAX_WINDOW_SHIFT = 14  # RFC 7323, 2.3


class EndOptions:
    """The TCP options of one end; before `settle`, the offered ones.

    Parameters
    ----------
    profile : TcpProfile
        Options that this end may offer.
    """

    def __init__(self, profile: TcpProfile) -> None:
        self._profile = profile
        self._own_shift = _window_shift(profile.receive_buffer_bytes)
        self.timestamps = profile.timestamps
        self.sack = profile.sack
        self.scaling = profile.window_scaling
        self.ecn = False
        """Whether both ends use ECN; False before `settle`."""
        self.peer_shift = 0
        """Shift of the peer's window field."""
        self.mss_bytes = DEFAULT_MSS_BYTES
        """Payload bytes of a full segment."""

    @property
    def _announced_mss_bytes(self) -> int:
        return self._profile.mtu_bytes - IP_HEADER_BYTES - TCP_HEADER_BYTES

    @property
    def most_sack_blocks(self) -> int:
        """Maximum number of SACK blocks in a segment."""
        return sack_blocks_that_fit(timestamps=self.timestamps)

    def window_shift(self, *, syn: bool) -> int:
        """Return the number of bits by which our window field is scaled; 0 on a SYN."""
        return self._own_shift if self.scaling and not syn else 0

    def settle(self, syn: Segment) -> None:
        """Set the options that both ends offer, from the peer's SYN or SYN-ACK."""
        self.timestamps = self.timestamps and syn.timestamps is not None
        self.sack = self.sack and syn.sack_permitted
        self.scaling = self.scaling and syn.window_scale is not None
        if self.scaling:
            self.peer_shift = min(syn.window_scale or 0, _MAX_WINDOW_SHIFT)
        wanted = Flag.ECE if syn.flags & Flag.ACK else Flag.ECE | Flag.CWR
        self.ecn = self._profile.ecn and syn.flags & (Flag.ECE | Flag.CWR) == wanted
        most = min(syn.mss_bytes or DEFAULT_MSS_BYTES, self._announced_mss_bytes)
        self.mss_bytes = max(1, most - (_TIMESTAMP_BYTES if self.timestamps else 0))

    def put(self, syn: Segment, *, first: bool) -> None:
        """Write the options into our SYN; `first` is true if the peer's SYN has not arrived yet."""
        syn.flags |= Flag.SYN
        syn.mss_bytes = self._announced_mss_bytes
        syn.sack_permitted = self.sack
        syn.window_scale = self._own_shift if self.scaling else None
        if first and self._profile.ecn:
            syn.flags |= Flag.ECE | Flag.CWR
        elif self.ecn:
            syn.flags |= Flag.ECE


def _window_shift(buffer_bytes: int) -> int:
    shift = 0
    while buffer_bytes >> shift > 0xFFFF and shift < _MAX_WINDOW_SHIFT:
        shift += 1
    return shift


# Converts the wire's 32-bit numbers to a connection's unwrapped units and back; its timestamps clock.
#
# This is the only place that knows the initial sequence numbers, the modulus and the TSval clock.


Blocks = tuple[tuple[int, int], ...]


class Numbering:
    """Converts between the 32-bit sequence numbers of packets and unwrapped ones, and creates timestamps.

    An unwrapped sequence number counts from the start of the stream: 0 is the SYN, 1 the first byte.

    Parameters
    ----------
    isn : int
        Initial send sequence number.
    tick_ns : int
        Duration of one unit of TSval.
    """

    def __init__(self, *, isn: int, tick_ns: int) -> None:
        self.isn = isn % MODULUS
        self.irs = 0
        """Initial receive sequence number; valid once the peer's SYN has arrived."""
        self.ts_recent = 0
        """Latest TSval of the peer, which is echoed (RFC 7323, section 4.3)."""
        self._tick_ns = tick_ns

    def wire_seq(self, unit: int) -> int:
        """Return the 32-bit form of an unwrapped sequence number of our stream."""
        return (self.isn + unit) % MODULUS

    def wire_ack(self, unit: int) -> int:
        """Return the 32-bit form of an unwrapped sequence number of the peer's stream."""
        return (self.irs + unit) % MODULUS

    def wire_blocks(self, blocks: Blocks) -> Blocks:
        """Return SACK blocks of the peer's stream with 32-bit instead of unwrapped sequence numbers."""
        return tuple((self.wire_ack(left), self.wire_ack(right)) for left, right in blocks)

    def seq(self, segment: Segment, *, near: int) -> int:
        """Return the unwrapped sequence number at which a segment begins, in the peer's stream.

        Of all possible numbers it is the closest to `near`.
        """
        return unwrap(segment.seq - self.irs, near=near)

    def ack(self, segment: Segment, *, near: int) -> int:
        """Return the unwrapped acknowledgment number of a segment, in our stream.

        Of all possible numbers it is the closest to `near`.
        """
        return unwrap(segment.ack - self.isn, near=near)

    def blocks(self, segment: Segment, *, near: int) -> Blocks:
        """Return a segment's SACK blocks with unwrapped sequence numbers of our stream, closest to `near`."""
        return tuple(
            (unwrap(left - self.isn, near=near), unwrap(right - self.isn, near=near))
            for left, right in segment.sack_blocks
        )

    def tsval(self, now_ns: int) -> int:
        """Return the timestamp value TSval at a time; each connection starts with another value."""
        return (self.isn + now_ns // self._tick_ns) % MODULUS

    def echoed_ns(self, segment: Segment, *, now_ns: int) -> int | None:
        """Return the time at which the TSval that a segment echoes was created.

        None if the segment echoes none.
        """
        if segment.timestamps is None:
            return None
        age_ticks = (self.tsval(now_ns) - segment.timestamps[1]) % MODULUS
        made_ns = (now_ns // self._tick_ns - age_ticks) * self._tick_ns
        return made_ns if made_ns >= 0 else None

    def is_old(self, segment: Segment) -> bool:
        """Return whether PAWS rejects the segment, because its timestamp is too old (RFC 7323, section 5)."""
        if segment.timestamps is None:
            return False
        return (segment.timestamps[0] - self.ts_recent) % MODULUS >= MODULUS // 2


_ACK, _CWR, _ECE, _FIN, _PSH = (flag.value for flag in (Flag.ACK, Flag.CWR, Flag.ECE, Flag.FIN, Flag.PSH))
_RST, _SYN = Flag.RST.value, Flag.SYN.value
_SILENT = (
    ConnectionState.CLOSED,
    ConnectionState.LISTEN,
)  # nothing but a RST is sent; a set would take the hash of a state

if TYPE_CHECKING:
    from multitracer.lab.tcp.profile import TcpProfile
    from multitracer.lab.tcp.transmitter import Transmission


class Connection:
    """One endpoint of a TCP connection; `connect` or `listen` make it.

    Parameters
    ----------
    profile : TcpProfile
        Options and constants of this end.
    local, remote : Endpoint
        Endpoints; a listening connection takes the remote one from the first SYN.
    isn : int
        Initial send sequence number, 32 bits.
    """

    def __init__(self, profile: TcpProfile, *, local: Endpoint, remote: Endpoint, isn: int) -> None:
        self.profile = profile
        self.local = local
        self.remote = remote
        self.state = ConnectionState.CLOSED
        self.error: str | None = None
        """Why the connection ended abnormally: reset, refused, timed out or aborted; else None."""
        self.sender = sender_of(profile, mss_bytes=DEFAULT_MSS_BYTES)
        self.receiver = TcpReceiver(profile)
        self.options = EndOptions(profile)
        self.numbering = Numbering(isn=isn, tick_ns=profile.timer_tick_ns)
        self._last_ack_sent = 0
        self._congestion_experienced = False
        self._reset_due = False
        self._time_wait_ns: int | None = None
        self._answers = AnswerLimit()
        self._identification = isn & 0xFFFF

    @classmethod
    def connect(cls, profile: TcpProfile, *, local: Endpoint, remote: Endpoint, isn: int) -> Connection:
        """Return a connection; its SYN is the first packet from `next_packet`."""
        connection = cls(profile, local=local, remote=remote, isn=isn)
        connection.state = ConnectionState.SYN_SENT
        return connection

    @classmethod
    def listen(cls, profile: TcpProfile, *, local: Endpoint, isn: int) -> Connection:
        """Return a connection that waits for a SYN."""
        connection = cls(profile, local=local, remote=Endpoint(bytes(4), 0), isn=isn)
        connection.state = ConnectionState.LISTEN
        return connection

    # --- the application's side ---

    def write(self, data: bytes) -> int:
        """Accept data to send; return how many bytes the send buffer accepted.

        Raises
        ------
        LocalProtocolError
            After `close`, or when the connection has ended.
        """
        if self.sender.stream.closed or self.state is ConnectionState.CLOSED:
            raise LocalProtocolError(f"TCP: cannot write in the state {self.state}, because the sending side is closed")
        return self.sender.stream.write(data)

    def read(self, max_bytes: int = 1 << 30) -> bytes:
        """Return data that arrived in order; empty if there are none, and after the end."""
        return self.receiver.read(max_bytes)

    @property
    def at_end(self) -> bool:
        """Whether the application has read everything that the peer sent, FIN included."""
        return self.receiver.fin_received and self.receiver.readable_bytes == 0

    def close(self) -> None:
        """Send all written data, then a FIN."""
        self.sender.stream.closed = True
        if self.state is ConnectionState.ESTABLISHED:
            self.state = ConnectionState.FIN_WAIT_1
        elif self.state is ConnectionState.CLOSE_WAIT:
            self.state = ConnectionState.LAST_ACK
        elif self.state is ConnectionState.LISTEN:
            self.state = ConnectionState.CLOSED

    def abort(self) -> None:
        """Discard all data and send a RST."""
        self._reset_due = self.state not in {
            ConnectionState.CLOSED,
            ConnectionState.LISTEN,
            ConnectionState.SYN_SENT,
            ConnectionState.TIME_WAIT,
        }
        self._end("aborted")

    def _end(self, error: str | None) -> None:
        self.state = ConnectionState.CLOSED
        self.error = error
        self._time_wait_ns = None

    # --- what arrives ---

    def receive(self, packet: TcpPacket, *, now_ns: int) -> None:
        """Process a packet for this connection with a correct checksum."""
        segment = packet.segment
        if self.state is ConnectionState.CLOSED:
            return
        if self.state is ConnectionState.LISTEN:
            self._receive_listening(packet)
        elif self.state is ConnectionState.SYN_SENT:
            self._receive_syn_sent(segment, now_ns)
        else:
            seq = self._seq_of(segment)
            length = sequence_length(segment)
            if self._passes_checks(segment, seq, seq + length, now_ns):
                self._receive_synchronized(packet, seq, length, now_ns)

    def _receive_listening(self, packet: TcpPacket) -> None:
        segment = packet.segment
        if segment.flags & (Flag.RST | Flag.ACK) or not segment.flags & Flag.SYN:
            return
        self.remote = Endpoint(packet.source, segment.source_port)
        self._take_syn(segment)
        self.state = ConnectionState.SYN_RECEIVED

    def _receive_syn_sent(self, segment: Segment, now_ns: int) -> None:
        acknowledges = bool(segment.flags & Flag.ACK)
        ack = self.numbering.ack(segment, near=1)
        if acknowledges and (ack != 1 or self.sender.snd_max == 0):
            return
        if segment.flags & Flag.RST:
            if acknowledges:
                self._end("refused")
            return
        if not segment.flags & Flag.SYN:
            return
        self._take_syn(segment)
        self.receiver.demand_ack()
        if not acknowledges:  # simultaneous open
            self.state = ConnectionState.SYN_RECEIVED
            self.sender.snd_nxt = 0
            return
        self._acknowledge(segment, self._seq_of(segment), ack, now_ns, pure=False)
        self._established()

    def _take_syn(self, syn: Segment) -> None:
        """Store the sequence number, options and window of the peer's SYN."""
        self.options.settle(syn)
        self.numbering.irs = syn.seq
        if syn.timestamps is not None:
            self.numbering.ts_recent = syn.timestamps[0]
        self.receiver.rcv_nxt = 1
        self.receiver.peer_mss_bytes = self.options.mss_bytes
        self.sender.negotiate(mss_bytes=self.options.mss_bytes, sack=self.options.sack)
        if self.sender.counters.timeouts:  # the SYN was lost: one segment (RFC 5681, section 3.1)
            self.sender.congestion.cwnd_bytes = self.options.mss_bytes
        self.sender.snd_wnd_bytes = syn.window

    def _established(self) -> None:
        self.state = ConnectionState.FIN_WAIT_1 if self.sender.stream.closed else ConnectionState.ESTABLISHED

    def _seq_of(self, segment: Segment) -> int:
        return self.numbering.seq(segment, near=self.receiver.rcv_nxt)

    def _passes_checks(self, segment: Segment, seq: int, end: int, now_ns: int) -> bool:
        """Return whether a segment passes the first four checks (RFC 9293, 3.10.7.4) and PAWS (RFC 7323)."""
        if (self.options.timestamps and self._is_old_by_timestamp(segment)) or not self.receiver.acceptable(seq, end):
            self._answer_unacceptable(segment, seq, now_ns)
            return False
        if segment.flags & _RST:
            if seq == self.receiver.rcv_nxt:
                self._end("refused" if self.state is ConnectionState.SYN_RECEIVED else "reset")
            else:
                self._challenge(segment, now_ns)
            return False
        if segment.flags & _SYN:
            self._challenge(segment, now_ns)
            return False
        return bool(segment.flags & _ACK)

    def _is_old_by_timestamp(self, segment: Segment) -> bool:
        return self.options.timestamps and not segment.flags & _RST and self.numbering.is_old(segment)

    def _answer_unacceptable(self, segment: Segment, seq: int, now_ns: int) -> None:
        """Send an ACK for a segment outside the window, unless it is a RST."""
        if segment.flags & Flag.RST:
            return
        self.receiver.note_duplicate(seq, seq + len(segment.payload))
        if self.state is ConnectionState.SYN_RECEIVED and segment.flags & Flag.SYN:
            self._answer_repeated_syn(segment, seq, now_ns)
            return
        self._challenge(segment, now_ns)
        if segment.flags & Flag.ACK and not self._is_old_by_timestamp(segment):
            pure = sequence_length(segment) == 0
            self._acknowledge(segment, seq, self._ack_of(segment), now_ns, pure=pure)
        if self.state is ConnectionState.TIME_WAIT:
            self._time_wait_ns = now_ns + 2 * self.profile.msl_ns

    def _answer_repeated_syn(self, segment: Segment, seq: int, now_ns: int) -> None:
        """Answer a repeated SYN with an ACK if the open is simultaneous; otherwise send our SYN again."""
        if segment.flags & Flag.ACK and self._ack_of(segment) == 1 <= self.sender.snd_max:
            self._acknowledge(segment, seq, 1, now_ns, pure=False)
            self._established()
            self.receiver.demand_ack()
        elif self._answers.allow(segment, now_ns=now_ns):
            self.sender.snd_nxt = 0

    def _challenge(self, segment: Segment, now_ns: int) -> None:
        """Send an ACK with the expected sequence number."""
        if self._answers.allow(segment, now_ns=now_ns):
            self.receiver.demand_ack()

    def _receive_synchronized(self, packet: TcpPacket, seq: int, length: int, now_ns: int) -> None:
        segment = packet.segment
        ack = self._ack_of(segment)
        if ack > self.sender.snd_max:
            self._challenge(segment, now_ns)
            return
        if segment.timestamps is not None:
            self._note_timestamp(segment.timestamps[0], seq)
        if self.options.ecn:
            self._note_congestion(packet)
        self._acknowledge(segment, seq, ack, now_ns, pure=length == 0)
        if self.state is ConnectionState.SYN_RECEIVED:
            if ack < 1:
                return
            self._established()
        if self.sender.stream.fin_acknowledged:
            self._advance_closing(now_ns)
        if length and not self.receiver.fin_received:
            self._take_payload(segment, seq, now_ns)

    def _ack_of(self, segment: Segment) -> int:
        return self.numbering.ack(segment, near=self.sender.snd_una)

    def _note_timestamp(self, tsval: int, seq: int) -> None:
        """Store TS.Recent from the segment that contains the last acknowledged byte (RFC 7323, 4.3)."""
        if seq <= self._last_ack_sent:
            self.numbering.ts_recent = tsval

    def _note_congestion(self, packet: TcpPacket) -> None:
        """Record a CE mark, so that ACKs carry ECE until the peer sends CWR (RFC 3168, section 6.1.3)."""
        if packet.segment.flags & _CWR:
            self._congestion_experienced = False
        if packet.ecn == Ecn.CE:
            self._congestion_experienced = True

    def _acknowledge(self, segment: Segment, seq: int, ack: int, now_ns: int, *, pure: bool) -> None:
        if ack > self.sender.snd_max:
            return
        syn = bool(segment.flags & _SYN)
        echoed_ns = self.numbering.echoed_ns(segment, now_ns=now_ns) if self.options.timestamps else None
        info = AckInfo(
            seq=seq,
            ack=ack,
            window_bytes=segment.window << (0 if syn else self.options.peer_shift),
            blocks=self.numbering.blocks(segment, near=ack) if segment.sack_blocks else (),
            pure=pure,
            echoed_ns=echoed_ns,
            ece=self.options.ecn and not syn and bool(segment.flags & _ECE),
        )
        self.sender.acknowledge(info, now_ns=now_ns)

    def _take_payload(self, segment: Segment, seq: int, now_ns: int) -> None:
        fin = bool(segment.flags & _FIN)
        self.receiver.take(seq, segment.payload, fin=fin, now_ns=now_ns)
        if not self.receiver.fin_received:
            return
        if self.state is ConnectionState.ESTABLISHED:
            self.state = ConnectionState.CLOSE_WAIT
        elif self.state is ConnectionState.FIN_WAIT_1:
            self.state = ConnectionState.CLOSING
        elif self.state is ConnectionState.FIN_WAIT_2:
            self._enter_time_wait(now_ns)

    def _advance_closing(self, now_ns: int) -> None:
        """Change state when the peer has acknowledged our FIN (RFC 9293, section 3.10.7.4, fifth check)."""
        if self.state is ConnectionState.FIN_WAIT_1:
            self.state = ConnectionState.FIN_WAIT_2
        elif self.state is ConnectionState.CLOSING:
            self._enter_time_wait(now_ns)
        elif self.state is ConnectionState.LAST_ACK:
            self._end(None)

    def _enter_time_wait(self, now_ns: int) -> None:
        self.state = ConnectionState.TIME_WAIT
        self._time_wait_ns = now_ns + 2 * self.profile.msl_ns

    # --- what leaves ---

    def next_packet(self, now_ns: int) -> TcpPacket | None:
        """Return the next packet to send at `now_ns`; None if there is none."""
        if self.state in _SILENT:
            return self._reset_packet(now_ns)
        transmission = self.sender.next_transmission(now_ns)
        if transmission is None and not self.receiver.acks_due:
            return None
        segment = self._segment(now_ns, syn=transmission is not None and transmission.syn)
        if transmission is not None:
            self._fill(segment, transmission)
        if segment.flags & _ACK:
            self.receiver.acknowledged(pure=transmission is None)
            self._last_ack_sent = self.receiver.rcv_nxt
        marked = self.options.ecn and transmission is not None and transmission.may_be_marked
        return self._packet(segment, marked=marked)

    def _reset_packet(self, now_ns: int) -> TcpPacket | None:
        if not self._reset_due:
            return None
        self._reset_due = False
        segment = self._segment(now_ns, syn=False)
        segment.flags |= Flag.RST
        return self._packet(segment, marked=False)

    def _segment(self, now_ns: int, *, syn: bool) -> Segment:
        """Return a segment without data, with the header fields of an ACK."""
        segment = Segment(
            source_port=self.local.port,
            destination_port=self.remote.port,
            seq=self.numbering.wire_seq(self.sender.ack_seq),
            ack=0,
            flags=0,
            window=self.receiver.window_field(self.options.window_shift(syn=syn)),
        )
        if self.state is not ConnectionState.SYN_SENT:
            segment.flags |= _ACK
            segment.ack = self.numbering.wire_ack(self.receiver.rcv_nxt)
        if self._congestion_experienced:
            segment.flags |= _ECE
        if self.options.timestamps:
            segment.timestamps = (self.numbering.tsval(now_ns), self.numbering.ts_recent)
        if self.options.sack and not syn:
            blocks = self.receiver.sack_blocks(self.options.most_sack_blocks)
            segment.sack_blocks = self.numbering.wire_blocks(blocks)
        return segment

    def _fill(self, segment: Segment, transmission: Transmission) -> None:
        """Write the data of a transmission into `segment`."""
        segment.seq = self.numbering.wire_seq(transmission.seq)
        segment.payload = transmission.payload
        if transmission.syn:
            self.options.put(segment, first=self.state is ConnectionState.SYN_SENT)
        if transmission.fin:
            segment.flags |= _FIN
        if transmission.payload and self.sender.stream.end == transmission.seq + len(transmission.payload):
            segment.flags |= _PSH
        if transmission.cwr:
            segment.flags |= _CWR

    def _packet(self, segment: Segment, *, marked: bool) -> TcpPacket:
        self._identification = (self._identification + 1) & 0xFFFF
        return TcpPacket(
            source=self.local.address,
            destination=self.remote.address,
            segment=segment,
            identification=self._identification,
            ecn=Ecn.ECT_0 if marked else Ecn.NOT_ECT,
        )

    # --- timers ---

    def next_timer_ns(self) -> int | None:
        """Return the time at which `on_timer` must be called; None if no timer runs."""
        if self.state in _SILENT:
            return None
        ends_ns = earlier(self.receiver.delayed_ack_ns, self._time_wait_ns)
        return earlier(self.sender.next_timer_ns(), ends_ns)

    def on_timer(self, now_ns: int) -> None:
        """Run every timer that has expired."""
        if self.state in _SILENT:
            return
        self.receiver.on_timer(now_ns)
        if self._time_wait_ns is not None and self._time_wait_ns <= now_ns:
            self._end(None)
        elif not self.sender.on_timer(now_ns):
            self._end("timed out")
