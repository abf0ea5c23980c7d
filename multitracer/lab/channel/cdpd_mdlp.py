"""CDPD's data link: numbered frames with retransmission as in MDLP, or packets that are sent once."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from multitracer.lab.channel.shared.interface import ip_facts
from multitracer.protocols.link_events import Flushed, PieceReceived, ResetDone, ResetStarted

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.lab.channel.cdpd_config import MdlpConfig
    from multitracer.lab.channel.shared.interface import SideJournal

# A data link like CDPD's MDLP: numbered frames, a window, selective rejects, polls and resets, as in LAPD.
#
# Packets are cut into segments, one to a frame. What is *like* and not *as*: frames are objects, of which
# only the length is that of MDLP's; numbers do not wrap; a poll is the newest frame sent again, so that the
# other end sees every hole below it; the link counts as set up from the start. A link that is set up anew
# forgets what was on its way, both ways: these packets are lost, and none is delivered twice.


Kind = Literal["I", "RR", "SREJ", "SABME", "UA"]


@dataclass(frozen=True, slots=True)
class MdlpTransmission:
    """One transmission of a link frame."""

    kind: Kind
    n_s: int = 0
    """I: number of the frame; SREJ: the requested number; SABME and UA: number of the set-up."""
    n_r: int = 0
    """Number of the next expected frame: all lower numbers have arrived."""
    is_poll: bool = False
    """In an I frame: whether the other end must acknowledge immediately."""
    payload: bytes = b""
    is_last: bool = False
    """Whether the packet ends with this frame."""
    offset_bytes: int = 0
    """Position of the payload in the sender's stream of packets."""
    attempt: int = 1
    cause: str = ""
    """Reason of a retransmission; empty for the first transmission."""
    ip_id: int | None = None
    seq: int | None = None


class MdlpEntity:
    """One end of the data link; the channel requests frames from it.

    Parameters
    ----------
    config : MdlpConfig
    take_packet : callable
        Returns the next packet of the interface queue at a time, or None.
    journal : SideJournal
        The journal for its events.
    first_offset_bytes : int
        Offset of its stream of packets.
    """

    def __init__(
        self,
        config: MdlpConfig,
        take_packet: Callable[[int], bytes | None],
        journal: SideJournal,
        *,
        first_offset_bytes: int = 0,
    ) -> None:
        self._config = config
        self._take_packet = take_packet
        self._journal = journal
        self._segments: deque[MdlpTransmission] = deque()
        self._control: deque[MdlpTransmission] = deque()
        self._offset_bytes = first_offset_bytes
        self._set_ups = 0
        self._peers_set_up = 0
        self._is_resetting = False
        self._forget()

    def _forget(self) -> None:
        """Discard all unacknowledged frames, and start to number frames from 0 again."""
        self._v_s = 0
        self._unacked: dict[int, MdlpTransmission] = {}
        self._resend: deque[tuple[int, str]] = deque()
        self._polls = 0
        self._t200_ns: int | None = None
        self._v_r = 0
        self._stored: dict[int, MdlpTransmission] = {}
        self._requested: set[int] = set()
        self._partial: list[bytes] = []
        self._unacknowledged = 0
        self._ack_at_ns: int | None = None
        self._is_ack_due = False

    # --- what the channel asks ---

    def frame_octets(self, frame: MdlpTransmission) -> int:
        """Return the length of a frame in octets, including its headers and one flag."""
        segment = self._config.sndcp_octets + len(frame.payload) if frame.kind == "I" else 0
        return self._config.header_octets + segment

    def frame_bits(self, frame: MdlpTransmission) -> int:
        """Return the length of a frame on the channel in bits, including those that bit stuffing inserts."""
        return -(-self.frame_octets(frame) * 8 * (1000 + round(10 * self._config.stuffing_percent)) // 1000)

    def next_frame(self, now_ns: int) -> MdlpTransmission | None:
        """Return the frame to send now; None if there is none."""
        if self._control:
            return replace(self._control.popleft(), n_r=self._v_r)
        frame = None if self._is_resetting else self._retransmitted() or self._new(now_ns)
        if frame is None and (self._is_resetting or not self._owes_ack(now_ns)):
            return None
        self._unacknowledged = 0
        self._ack_at_ns = None
        self._is_ack_due = False
        return replace(frame or MdlpTransmission("RR"), n_r=self._v_r)

    def _owes_ack(self, now_ns: int) -> bool:
        return self._is_ack_due or (self._ack_at_ns is not None and now_ns >= self._ack_at_ns)

    def _retransmitted(self) -> MdlpTransmission | None:
        while self._resend:
            number, cause = self._resend.popleft()
            if number in self._unacked:
                before = self._unacked[number]
                frame = replace(before, attempt=before.attempt + 1, cause=cause, is_poll=cause == "poll")
                self._unacked[number] = frame
                return frame
        return None

    def _new(self, now_ns: int) -> MdlpTransmission | None:
        if not self._is_window_open:
            return None
        if not self._segments:
            packet = self._take_packet(now_ns)
            if packet is None:
                return None
            self._segments.extend(self._cut(packet))
        frame = replace(self._segments.popleft(), n_s=self._v_s)
        self._unacked[self._v_s] = frame
        self._v_s += 1
        return frame

    @property
    def _is_window_open(self) -> bool:
        return self._v_s - min(self._unacked, default=self._v_s) < self._config.window

    def _cut(self, packet: bytes) -> list[MdlpTransmission]:
        size = self._config.n201_octets - self._config.sndcp_octets
        facts = ip_facts(packet)
        begins = range(0, len(packet), size)
        frames = [
            MdlpTransmission(
                "I",
                payload=packet[at : at + size],
                is_last=at + size >= len(packet),
                offset_bytes=self._offset_bytes + at,
                ip_id=facts.ip_id,
                seq=facts.seq,
            )
            for at in begins
        ]
        self._offset_bytes += len(packet)
        return frames

    def sent(self, frame: MdlpTransmission, now_ns: int) -> None:
        """Record the time at which a frame was sent."""
        if self._t200_ns is None and frame.kind in ("I", "SABME"):
            self._t200_ns = now_ns + self._config.t200_ns

    # --- what arrives ---

    def receive(self, frame: MdlpTransmission, now_ns: int) -> list[bytes]:
        """Process a frame that arrived without errors; return the packets that are now complete."""
        if frame.kind == "SABME":
            self._peer_sets_up(frame.n_s, now_ns)
        elif frame.kind == "UA":
            if self._is_resetting and frame.n_s == self._set_ups:
                self._is_resetting = False
                self._t200_ns = None
                self._journal.add(ResetDone, now_ns)
        elif self._is_resetting:
            if frame.kind == "I":
                self._note(frame, now_ns, "reset")
        else:
            self._acknowledged(frame.n_r, now_ns)
            if frame.kind == "SREJ" and frame.n_s not in (number for number, _ in self._resend):
                self._resend.append((frame.n_s, "srej"))
            if frame.kind == "I":
                return self._information(frame, now_ns)
        return []

    def _acknowledged(self, n_r: int, now_ns: int) -> None:
        done = [number for number in self._unacked if number < n_r]
        for number in done:
            del self._unacked[number]
        if done:
            self._polls = 0
            self._t200_ns = now_ns + self._config.t200_ns if self._unacked else None

    def _information(self, frame: MdlpTransmission, now_ns: int) -> list[bytes]:
        is_known = frame.n_s < self._v_r or frame.n_s in self._stored
        self._note(frame, now_ns, "duplicate" if is_known else "")
        packets: list[bytes] = []
        if not is_known:
            self._stored[frame.n_s] = frame
            packets = self._in_order()
        self._ask_for_holes(frame)
        self._unacknowledged += 1
        if is_known or frame.is_poll or self._unacknowledged >= self._config.ack_every:
            self._ack_at_ns = now_ns
        elif self._ack_at_ns is None and not self._is_ack_due:
            self._ack_at_ns = now_ns + self._config.ack_delay_ns
        return packets

    def _in_order(self) -> list[bytes]:
        packets = []
        while (frame := self._stored.pop(self._v_r, None)) is not None:
            self._requested.discard(self._v_r)
            self._v_r += 1
            self._partial.append(frame.payload)
            if frame.is_last:
                packets.append(b"".join(self._partial))
                self._partial = []
        return packets

    def _ask_for_holes(self, frame: MdlpTransmission) -> None:
        if frame.is_poll:
            self._requested.clear()
        for number in range(self._v_r, frame.n_s):
            if number not in self._stored and number not in self._requested:
                self._requested.add(number)
                self._control.append(MdlpTransmission("SREJ", n_s=number))

    def _note(self, frame: MdlpTransmission, now_ns: int, cause: str) -> None:
        octets = self.frame_octets(frame)
        self._journal.add(PieceReceived, now_ns, octets, frame.offset_bytes, frame.ip_id, frame.seq, cause)

    # --- timers and set-up ---

    @property
    def deadline_ns(self) -> int | None:
        """Time of the next call of `expire` in ns; None if no timer runs."""
        due = [time for time in (self._t200_ns, self._ack_at_ns) if time is not None]
        return min(due) if due else None

    def expire(self, now_ns: int) -> None:
        """Run the timers that have expired by now."""
        if self._owes_ack(now_ns):
            self._is_ack_due, self._ack_at_ns = True, None  # else it would hide T200 while it waits
        if self._t200_ns is None or now_ns < self._t200_ns:
            return
        self._t200_ns = None
        if self._is_resetting:
            self._control.append(MdlpTransmission("SABME", n_s=self._set_ups))
        elif self._polls >= self._config.n200:
            self._set_up_anew(now_ns)
        elif self._unacked:
            self._polls += 1
            self._resend.append((max(self._unacked), "poll"))

    def _set_up_anew(self, now_ns: int) -> None:
        attempts = 1 + self._polls
        self._journal.add(ResetStarted, now_ns, "n200", min(self._unacked, default=None), attempts)
        self._flush(now_ns)
        self._is_resetting = True
        self._set_ups += 1
        self._control.append(MdlpTransmission("SABME", n_s=self._set_ups))

    def _peer_sets_up(self, number: int, now_ns: int) -> None:
        if number != self._peers_set_up:
            self._peers_set_up = number
            if not self._is_resetting:
                self._journal.add(ResetStarted, now_ns, "peer", None, None)
                self._flush(now_ns)
                self._journal.add(ResetDone, now_ns)
        self._control.append(MdlpTransmission("UA", n_s=number))

    def _flush(self, now_ns: int) -> None:
        """Discard all unacknowledged frames, and the unsent frames of the packet that is partly sent."""
        unacked = sum(len(frame.payload) for frame in self._unacked.values())
        unsent = sum(len(frame.payload) for frame in self._segments)
        self._journal.add(Flushed, now_ns, unacked, unsent, len(self._stored))
        self._segments.clear()
        self._control.clear()
        self._forget()

    def settled(self) -> None:
        """Do nothing, because acknowledgements show which frames are in transit."""

    # --- what it tells ---

    @property
    def is_drained(self) -> bool:
        """Whether no data of this side are partly sent or unacknowledged."""
        return not (self._unacked or self._segments)

    def has_work(self, now_ns: int, *, has_packet: bool) -> bool:
        """Return whether this side has a frame to send now: a control frame, an acknowledgement or data.

        Parameters
        ----------
        now_ns : int
        has_packet : bool
            Whether the interface queue holds a packet.
        """
        if self._control:
            return True
        if self._is_resetting:
            return False
        is_new = self._is_window_open and (has_packet or bool(self._segments))
        return self._owes_ack(now_ns) or is_new or any(number in self._unacked for number, _ in self._resend)


# The end of a channel without a data link: each packet is one frame, sent once, and nothing is recovered.


class PacketEnd:
    """Sends each packet once, without recovery; it has the methods of `MdlpEntity` that a channel calls.

    Parameters
    ----------
    take_packet : callable
        Returns the next packet of the interface queue at a time, or None.
    journal : SideJournal
        Journal for the packets that arrive.
    first_offset_bytes : int
        Offset of its stream of packets.
    """

    deadline_ns: int | None = None
    """Always None: there is no timer."""

    def __init__(
        self, take_packet: Callable[[int], bytes | None], journal: SideJournal, *, first_offset_bytes: int = 0
    ) -> None:
        self._take_packet = take_packet
        self._journal = journal
        self._offset_bytes = first_offset_bytes
        self._under_way = 0

    def frame_octets(self, frame: MdlpTransmission) -> int:
        """Return the length of a frame in octets: that of its packet."""
        return len(frame.payload)

    def frame_bits(self, frame: MdlpTransmission) -> int:
        """Return the length of a frame on the channel in bits."""
        return 8 * len(frame.payload)

    def next_frame(self, now_ns: int) -> MdlpTransmission | None:
        """Return the next packet as a frame; None if there is none."""
        packet = self._take_packet(now_ns)
        if packet is None:
            return None
        facts = ip_facts(packet)
        offset, self._offset_bytes = self._offset_bytes, self._offset_bytes + len(packet)
        self._under_way += 1
        return MdlpTransmission(
            "I", payload=packet, is_last=True, offset_bytes=offset, ip_id=facts.ip_id, seq=facts.seq
        )

    def sent(self, frame: MdlpTransmission, now_ns: int) -> None:
        """Do nothing: no timer waits for an answer."""

    def settled(self) -> None:
        """Record that a frame which this end sent is no longer in transit: it arrived or was lost."""
        self._under_way -= 1

    def receive(self, frame: MdlpTransmission, now_ns: int) -> list[bytes]:
        """Return the packet in a frame that arrived from the other end."""
        about = len(frame.payload), frame.offset_bytes, frame.ip_id, frame.seq
        self._journal.add(PieceReceived, now_ns, *about, "")
        return [frame.payload]

    def expire(self, now_ns: int) -> None:
        """Do nothing: there is no timer."""

    @property
    def is_drained(self) -> bool:
        """Whether no packet of this side is in transit."""
        return self._under_way == 0

    def has_work(self, now_ns: int, *, has_packet: bool) -> bool:
        """Return whether there is a frame to send: if the interface queue has a packet."""
        del now_ns
        return has_packet
