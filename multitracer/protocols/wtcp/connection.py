"""One end of a WTCP connection: hand-shake, the two directions, and the end.

Rules of the file:

- Sans-IO: octets of one UDP datagram go in by `receive`, come out of `outgoing`; `now_ns` is a parameter of
  everything that time matters to, and any monotonic clock does: both ends' clocks need not agree.
- After each call that changed something the caller asks `outgoing(now_ns)` until it is None, then `next_ns`:
  when to ask next, None if only an arriving packet or the application can change anything. A time in the past
  means now.
- Nothing that arrives raises; it is counted in `counters`. A wrong call raises `LocalProtocolError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.protocols.wtcp.config import WtcpConfig
from multitracer.protocols.wtcp.state import WtcpCounters, WtcpEvent, WtcpState

if TYPE_CHECKING:
    from collections.abc import Callable


class WtcpConnection:
    """One end of one connection.

    Parameters
    ----------
    config : WtcpConfig, optional
        Parameters of this end.
    initiator : bool
        Whether this end connects (`open`); otherwise it waits for a SYN.
    random_bytes : callable
        Returns so many bytes that nobody can guess, such as `os.urandom`.
    """

    def __init__(
        self, config: WtcpConfig | None = None, *, initiator: bool, random_bytes: Callable[[int], bytes]
    ) -> None:
        self.config = config or WtcpConfig()
        self.initiator = initiator
        self.counters = WtcpCounters()
        self.state = WtcpState.CLOSED if initiator else WtcpState.LISTEN
        self.error: str | None = None
        """Why the connection ended before its time: timed out, aborted, reset."""

    # --- the application's side ---

    def open(self, now_ns: int) -> None:
        """Begin to connect; the SYN is the first packet from `outgoing`."""
        raise NotImplementedError

    def write(self, data: bytes) -> int:
        """Give data to send, at any time after `open`; return how many bytes the send buffer accepted.

        Raises
        ------
        LocalProtocolError
            After `close`, or when the connection has ended.
        """
        raise NotImplementedError

    def read(self, max_bytes: int = 1 << 30) -> bytes:
        """Return the data that arrived in order; empty when there is none, or after the end."""
        raise NotImplementedError

    def close(self) -> None:
        """Send all written data, then the end of the stream; reading goes on until the peer closes, too."""
        raise NotImplementedError

    def abort(self) -> None:
        """Discard everything and send a reset, if the peer is known."""
        raise NotImplementedError

    @property
    def free_bytes(self) -> int:
        """How many bytes `write` would accept now."""
        raise NotImplementedError

    @property
    def unacknowledged_bytes(self) -> int:
        """Bytes that were written and are not acknowledged yet."""
        raise NotImplementedError

    @property
    def at_end(self) -> bool:
        """Whether everything that the peer sent was read, its end of the stream included."""
        raise NotImplementedError

    @property
    def is_finished(self) -> bool:
        """Whether both directions are complete (TIME-WAIT or CLOSED), or the connection ended in an error."""
        raise NotImplementedError

    # --- the path's side ---

    def receive(self, octets: bytes, now_ns: int) -> None:
        """Take the octets of one datagram, whatever they are."""
        raise NotImplementedError

    def outgoing(self, now_ns: int) -> bytes | None:
        """Return the next packet that is due, None if none is due yet; a packet returned counts as sent."""
        raise NotImplementedError

    @property
    def next_ns(self) -> int | None:
        """When to call `outgoing` next, None if nothing is scheduled; in the past: now."""
        raise NotImplementedError

    # --- what a log shows ---

    @property
    def rate_bps(self) -> float:
        """Rate at which this end sends, in bit/s of whole IP packets."""
        raise NotImplementedError

    @property
    def rate_packets_per_s(self) -> float:
        """Rate at which this end sends, in longest packets each second."""
        raise NotImplementedError

    @property
    def asked_rate_bps(self) -> float:
        """Rate that the receiver of this end computed for the peer, in bit/s of whole IP packets."""
        raise NotImplementedError

    @property
    def is_blacked_out(self) -> bool:
        """Whether probes replace data because no acknowledgment came."""
        raise NotImplementedError

    @property
    def srtt_ns(self) -> int | None:
        """Smoothed round-trip time without the receiver's wait, None before the first."""
        raise NotImplementedError

    def take_events(self) -> list[WtcpEvent]:
        """Return what happened since the last call; at most some thousand are kept."""
        raise NotImplementedError
