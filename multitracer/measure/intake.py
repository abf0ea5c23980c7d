"""What a UDP server processes first: known peers, then strangers, of which a flood is dropped early.

Rules of this file:

- A datagram is read from the socket and sorted by the address alone: a flood costs two microseconds a datagram, and
  cannot fill the socket's buffer before a client's packet is read.
- A stranger is an address that has proven nothing to the protocol. Datagrams of proven addresses, and those that
  carry the proof, come first, 2,000 a second of each; then those of strangers that sent nothing else in this second;
  then the rest. Only strangers have quotas.
- Quotas hold for an address with its port, a host (/64 of IPv6), and a network (/24, /48). Only what a quota lets
  pass counts against the next wider one, so that one flooding port or host does not shut out its neighbours. An
  address above its quota is blocked while it goes on, and some seconds longer; a host or a network for a second,
  after which the addresses that flood are blocked by themselves.
"""

from __future__ import annotations

import socket
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from multitracer.endpoints import network_of
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    Address = tuple[str, int]

_LONGEST_DATAGRAM = 2048
"""Octets of a datagram that are read; what is longer is dropped: no packet of the protocols has more than 1,500."""
_RECEIVE_BUFFER_BYTES = 8 << 20
"""Requested size of the socket's buffer; the system may allow less (`net.core.rmem_max`) but to root."""
_SO_RCVBUFFORCE = 33  # Linux, asm-generic/socket.h; needs CAP_NET_ADMIN
_READS_A_STEP = 256
"""Datagrams that are read in one step: half a millisecond."""
_WAITING_PROVEN = 4096
"""Datagrams of proven peers that may wait: as many as fit a socket's buffer of 3 MB."""
_WAITING_FIRST = 2048
"""First datagrams of strangers that may wait: those of a thousand flooding addresses, before quotas stop them."""
_WAITING_REPEATED = 256
_PROVEN_QUOTA = 2000
"""Datagrams of a proven peer in a second that come before those of strangers: 8 Mbit/s (not measured)."""
_QUOTAS = (8, 64, 256)
"""Datagrams of strangers in a second from an address with its port, a host, a network. A client needs one or two
in ten seconds; 64 are 30 clients behind one address that begin in the same second (not measured)."""
_BLOCK_NS = 10 * NS_PER_S
"""Time for which an address is blocked; what it sends in the second half of it begins the time anew."""
_WIDE_BLOCK_NS = NS_PER_S
"""Time for which a host or a network is blocked; others there must not renew it."""
_WINDOW_NS = NS_PER_S
_TRACKED = 16_384
"""Sources that are counted or blocked at a time, 5 MB; above it, those of forged addresses, no more are."""


class ArrivedDatagram(NamedTuple):
    """A datagram, and where it came from."""

    octets: bytes
    address: Address


class IntakeCounters(NamedTuple):
    """Counts of datagrams since the start."""

    read: int
    over_quota: int
    """Datagrams of strangers that were dropped because of a quota."""
    overflowed: int
    """Datagrams that were dropped because too many waited, or because they were longer than any packet."""


class PeerProofs(Protocol):
    """What a protocol knows about the addresses of its peers."""

    def is_proven(self, address: Address, /) -> bool:
        """Return whether the address has proven that it receives datagrams."""

    def carries_proof(self, octets: bytes, address: Address, now_ns: int, /) -> bool:
        """Return whether this datagram proves it."""


class DatagramIntake:
    """Reads datagrams from a socket, and returns them in the order in which they are to be processed.

    Parameters
    ----------
    source : socket.socket
        A UDP socket that does not block; its receive buffer is enlarged.
    worker : PeerProofs, optional
        The protocol; without it, as for a socket with one peer, nothing is sorted.
    clock : callable
        Returns the time in ns.
    """

    def __init__(self, source: socket.socket, *, worker: PeerProofs | None, clock: Callable[[], int]) -> None:
        _enlarge_buffer(source)
        self._socket = source
        self._worker = worker
        self._clock = clock
        self._proven: deque[ArrivedDatagram] = deque(maxlen=_WAITING_PROVEN)
        self._first: deque[ArrivedDatagram] = deque(maxlen=_WAITING_FIRST)
        self._repeated: deque[ArrivedDatagram] = deque(maxlen=_WAITING_REPEATED)
        self._window_ns = self._pruned_ns = 0
        self._counts: dict[Hashable, int] = {}
        """Datagrams of strangers in this second, by source; sources are address, host, and network."""
        self._proven_counts: dict[Address, int] = {}
        """Datagrams of proven peers in this second."""
        self._blocked: dict[Hashable, int] = {}
        """Time until which a source is blocked, by source."""
        self._read = self._over_quota = self._overflowed = 0

    def __bool__(self) -> bool:
        return bool(self._proven or self._first or self._repeated)

    @property
    def counters(self) -> IntakeCounters:
        """Counts of datagrams since the start."""
        return IntakeCounters(self._read, self._over_quota, self._overflowed)

    def fill(self) -> list[OSError]:
        """Read what has arrived, at most 256 datagrams; return the errors that the kernel reports meanwhile."""
        now_ns = self._clock()
        if now_ns - self._window_ns >= _WINDOW_NS:
            self._window_ns = now_ns
            self._counts.clear()
            self._proven_counts.clear()
        errors = []
        receive = self._socket.recvfrom
        for _ in range(_READS_A_STEP):
            try:
                octets, address = receive(_LONGEST_DATAGRAM + 1)
            except BlockingIOError:
                break
            except OSError as error:  # an ICMP error
                errors.append(error)
                continue
            self._read += 1
            self._sort(octets, _peer(address), now_ns)
        return errors

    def take(self) -> ArrivedDatagram | None:
        """Return the next datagram to process; None if there is none."""
        for waiting in (self._proven, self._first, self._repeated):
            if waiting:
                return waiting.popleft()
        return None

    def _sort(self, octets: bytes, address: Address, now_ns: int) -> None:
        if self._worker is None:
            waiting = self._proven
        elif self._worker.is_proven(address) or (
            not self._is_blocked(address, now_ns) and self._worker.carries_proof(octets, address, now_ns)
        ):
            self._proven_counts[address] = number = self._proven_counts.get(address, 0) + 1
            waiting = self._proven if number <= _PROVEN_QUOTA else self._repeated
            if address in self._counts:
                self._forgive(address)
        elif self._admits(address, now_ns):
            waiting = self._first if self._counts.get(address) == 1 else self._repeated
        else:
            self._over_quota += 1
            return
        if len(octets) > _LONGEST_DATAGRAM or len(waiting) == waiting.maxlen:
            self._overflowed += 1
        else:
            waiting.append(ArrivedDatagram(octets, address))

    def _admits(self, address: Address, now_ns: int) -> bool:
        """Count a datagram of a stranger; return whether it is within all quotas."""
        for source, quota in zip(_sources_of(address), _QUOTAS, strict=True):
            if self._is_blocked(source, now_ns):
                if source is address and self._blocked[address] - now_ns < _BLOCK_NS // 2:
                    self._blocked[address] = now_ns + _BLOCK_NS
                return False
            number = self._counts.get(source, 0) + 1
            if number > 1 or len(self._counts) < _TRACKED:
                self._counts[source] = number
            if number > quota:
                self._block(source, now_ns + (_BLOCK_NS if source is address else _WIDE_BLOCK_NS), now_ns)
                return False
        return True

    def _is_blocked(self, source: Hashable, now_ns: int) -> bool:
        until_ns = self._blocked.get(source)
        if until_ns is None:
            return False
        if until_ns <= now_ns:
            del self._blocked[source]
            return False
        return True

    def _block(self, source: Hashable, until_ns: int, now_ns: int) -> None:
        if len(self._blocked) >= _TRACKED and now_ns - self._pruned_ns >= _WINDOW_NS:
            self._pruned_ns = now_ns
            self._blocked = {each: until_ns for each, until_ns in self._blocked.items() if until_ns > now_ns}
        if len(self._blocked) < _TRACKED:
            self._blocked[source] = until_ns

    def _forgive(self, address: Address) -> None:
        """Take back what an address counted before it was proven."""
        number = self._counts.pop(address)
        for source in _sources_of(address)[1:]:
            if source in self._counts:
                self._counts[source] = max(0, self._counts[source] - number)


def _peer(address: tuple[str, int] | tuple[str, int, int, int]) -> Address:
    """Return host and port of a peer, a link-local host of IPv6 with its interface: else no answer finds it."""
    if len(address) == 4 and address[3]:
        return f"{address[0]}%{socket.if_indextoname(address[3])}", address[1]
    return address[0], address[1]


def _sources_of(address: Address) -> tuple[Hashable, Hashable, Hashable]:
    """Return the address, its host (/64 of IPv6) and its network, as keys that differ."""
    host = address[0]
    if ":" in host and "." not in host:
        return address, socket.inet_pton(socket.AF_INET6, host.partition("%")[0])[:8], network_of(host)
    return address, host, network_of(host)


def _enlarge_buffer(source: socket.socket) -> None:
    source.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
    try:
        source.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER_BYTES)
    except OSError:  # without the right, or on another system
        return
