"""One end of a TCP connection: RFC 9293's state machine around a sender and a receiver.

Rules of the file:

- No I/O: `receive` accepts packets, `next_packet` returns packets until it returns None; `now_ns` is a
  parameter of every method that depends on time.
- 32-bit sequence numbers are unwrapped only here.
- After each call that changed something the caller must call `next_packet` until it returns None, then
  `next_timer_ns`.
"""

from __future__ import annotations

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
from multitracer.lab.tcp.receiver import TcpReceiver
from multitracer.lab.tcp.state import AckInfo, AnswerLimit, ConnectionState, earlier

if TYPE_CHECKING:
    from multitracer.lab.tcp.profile import TcpProfile

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
