"""WTCP with many peers on one UDP port: connections by address and identity, in bounded memory.

A SYN leaves no trace here: the identity in the answer is a keyed hash of the peer's address and identity (as
SYN cookies), so that only a peer who receives at his address can make a connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from multitracer.protocols.wtcp.config import WtcpConfig
    from multitracer.protocols.wtcp.connection import WtcpConnection


class WtcpOutgoing(NamedTuple):
    """A packet for the path."""

    octets: bytes
    address: Hashable


class WtcpWorker:
    """An endpoint that connects to peers and accepts connections of many.

    Parameters
    ----------
    config : WtcpConfig, optional
        Parameters of every connection.
    random_bytes : callable
        Returns so many bytes that nobody can guess, such as `os.urandom`.
    max_connections, max_connections_per_host : int
        Beyond, a new peer is not answered, unless a finished connection can give way.
    """

    def __init__(
        self,
        config: WtcpConfig | None = None,
        *,
        random_bytes: Callable[[int], bytes],
        max_connections: int = 256,
        max_connections_per_host: int = 64,
    ) -> None:
        raise NotImplementedError

    def connect(self, address: Hashable, now_ns: int) -> WtcpConnection:
        """Return a new connection to a peer, which begins to connect."""
        raise NotImplementedError

    def take_accepted(self) -> list[tuple[Hashable, WtcpConnection]]:
        """Return the peers and connections that were established by peers since the last call."""
        raise NotImplementedError

    def receive(self, octets: bytes, address: Hashable, now_ns: int) -> None:
        """Take the octets of one datagram, whatever they are."""
        raise NotImplementedError

    def outgoing(self, now_ns: int) -> WtcpOutgoing | None:
        """Return the next packet that is due, None if none is due yet."""
        raise NotImplementedError

    @property
    def next_ns(self) -> int | None:
        """When to call `outgoing` next, None if nothing is scheduled; in the past: now."""
        raise NotImplementedError
