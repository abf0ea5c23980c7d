"""Requests to and answers from NETLINK_SOCK_DIAG about TCP sockets.

A dump asks for every socket that a filter chooses; a question about one socket costs a fortieth of it,
because the kernel need not walk its whole table. Source: linux/netlink.h, linux/inet_diag.h, sock_diag(7).
All numbers are in the byte order of the machine, ports and addresses in network order.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Literal

from multitracer.captured import IpProtocol
from multitracer.errors import RemoteProtocolError
from multitracer.protocols.sock_diag.words import Family, TcpState

if TYPE_CHECKING:
    from collections.abc import Iterator

IpVersion = Literal[4, 6]  # the version field of the IP header

NETLINK_SOCK_DIAG = 4
"""The protocol number of the netlink socket that carries these messages."""

_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI48s")
_SOCKET = struct.Struct("=BBBB48sIIIII")
_ATTRIBUTE = struct.Struct("=HH")


class _Message(IntEnum):
    """Types of netlink messages (linux/netlink.h: NLMSG_*); BY_FAMILY is sock_diag's question and answer."""

    NOOP = 1
    ERROR = 2
    DONE = 3
    OVERRUN = 4
    BY_FAMILY = 20


class _Attribute(IntEnum):
    """INET_DIAG_*: attributes of an answer besides the socket."""

    INFO = 2
    VEGAS = 3
    CONGESTION = 4


_REQUEST_FLAG, _DUMP, _DUMP_INTERRUPTED = 0x01, 0x300, 0x10
"""linux/netlink.h: NLM_F_REQUEST, NLM_F_DUMP, NLM_F_DUMP_INTR."""
_FAMILY: dict[IpVersion, Family] = {4: Family.INET, 6: Family.INET6}
_VERSION: dict[int, IpVersion] = {family: version for version, family in _FAMILY.items()}
_MAPPED = b"\0" * 10 + b"\xff\xff"  # RFC 4291, 2.5.5.2

_WANTED = 1 << (_Attribute.INFO - 1) | 1 << (_Attribute.VEGAS - 1) | 1 << (_Attribute.CONGESTION - 1)
"""linux/inet_diag.h: bit n - 1 asks for extension n."""
_BYTECODE = 1  # linux/inet_diag.h: INET_DIAG_REQ_BYTECODE

ACTIVE = (
    TcpState.ESTABLISHED,
    TcpState.SYN_SENT,
    TcpState.SYN_RECV,
    TcpState.FIN_WAIT1,
    TcpState.FIN_WAIT2,
    TcpState.CLOSE_WAIT,
    TcpState.LAST_ACK,
    TcpState.CLOSING,
)
"""The states in which a socket has a sender's variables."""

_ANY_ACTIVE = sum(1 << state for state in ACTIVE)  # a bit for each state, as idiag_states


@dataclass(frozen=True, slots=True)
class Socket:
    """One socket as an answer describes it.

    `identity` is the kernel's 48-byte socket id (ports, addresses, interface, cookie), as `socket_request`
    takes it. `attributes` are the raw values by INET_DIAG_* number. Queues are in bytes, `expires_ms` is the
    time until `timer` fires (a `SocketTimer`).
    """

    family_version: IpVersion
    identity: bytes
    state: int
    timer: int
    retransmits: int
    expires_ms: int
    receive_queue_bytes: int
    send_queue_bytes: int
    uid: int
    inode: int
    attributes: dict[int, bytes] = field(repr=False)
    interrupted: bool = False
    """The kernel's table changed during the dump: sockets may be missing from it or be there twice."""

    @property
    def ip_version(self) -> IpVersion:
        """4 also for IPv4 carried by an IPv6 socket (RFC 4291, section 2.5.5.2)."""
        return 4 if self.family_version == 4 or self.identity[4:16] == _MAPPED else 6

    @property
    def address_local(self) -> bytes:
        """4 or 16 bytes."""
        return self._address(4)

    @property
    def address_remote(self) -> bytes:
        """4 or 16 bytes."""
        return self._address(20)

    def _address(self, at: int) -> bytes:
        if self.family_version == 4:
            return self.identity[at : at + 4]
        return self.identity[at + 12 : at + 16] if self.ip_version == 4 else self.identity[at : at + 16]

    @property
    def port_local(self) -> int:
        """TCP port of this host."""
        return int.from_bytes(self.identity[0:2], "big")

    @property
    def port_remote(self) -> int:
        """TCP port of the peer."""
        return int.from_bytes(self.identity[2:4], "big")

    @property
    def cookie(self) -> int:
        """The number that the kernel gives to a socket once and never again until it restarts."""
        low, high = struct.unpack_from("=II", self.identity, 40)
        return int(high << 32 | low)

    @property
    def tcp_info(self) -> bytes | None:
        """The raw struct, None if the kernel sent none."""
        return self.attributes.get(_Attribute.INFO)

    @property
    def congestion_control(self) -> str | None:
        """Name of the algorithm, None if the kernel sent none."""
        name = self.attributes.get(_Attribute.CONGESTION)
        return None if name is None else name.split(b"\0")[0].decode("ascii", "replace")


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a dump."""

    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """The kernel's error: `errno` 2 (ENOENT) if the requested socket no longer exists."""

    errno: int


Answer = Socket | Done | Refused


def dump_request(*, ip_version: IpVersion, bytecode: bytes = b"", sequence: int = 0) -> bytes:
    """Return the request for every active TCP socket of an IP version that `bytecode` selects."""
    body = _REQUEST.pack(_FAMILY[ip_version], IpProtocol.TCP, _WANTED, 0, _ANY_ACTIVE, bytes(48))
    if bytecode:
        body += _ATTRIBUTE.pack(_ATTRIBUTE.size + len(bytecode), _BYTECODE) + bytecode
    return _message(body, flags=_REQUEST_FLAG | _DUMP, sequence=sequence)


def socket_request(socket: Socket, *, sequence: int = 0) -> bytes:
    """Return the request for the one socket that an earlier answer described."""
    family = _FAMILY[socket.family_version]
    body = _REQUEST.pack(family, IpProtocol.TCP, _WANTED, 0, _ANY_ACTIVE, socket.identity)
    return _message(body, flags=_REQUEST_FLAG, sequence=sequence)


def _message(body: bytes, *, flags: int, sequence: int) -> bytes:
    return _HEADER.pack(_HEADER.size + len(body), _Message.BY_FAMILY, flags, sequence, 0) + body


def decode(datagram: bytes, *, sequence: int | None = None) -> Iterator[Answer]:
    """Yield the answers of one received datagram.

    Parameters
    ----------
    datagram : bytes
        What one `recv` returned.
    sequence : int, optional
        Answers to other questions than this one are skipped (a late answer to one that was given up).

    Raises
    ------
    RemoteProtocolError
        If lengths contradict each other or the datagram was cut.
    """
    at = 0
    while at < len(datagram):
        length, kind, flags, number, _ = _header(datagram, at)
        body = datagram[at + _HEADER.size : at + length]
        at += _aligned(length)
        if sequence is None or number == sequence:
            answer = _answer(kind, body, interrupted=bool(flags & _DUMP_INTERRUPTED))
            if answer is not None:
                yield answer


def _header(datagram: bytes, at: int) -> tuple[int, int, int, int, int]:
    left = len(datagram) - at
    if left < _HEADER.size:
        raise RemoteProtocolError(
            f"netlink: {left} bytes left, a header has {_HEADER.size}; give more buffer"
        )
    length, kind, flags, number, port = _HEADER.unpack_from(datagram, at)
    if not _HEADER.size <= length <= left:
        raise RemoteProtocolError(f"netlink: a message of {length} bytes in {left}; give more buffer")
    return length, kind, flags, number, port


def _answer(kind: int, body: bytes, *, interrupted: bool) -> Answer | None:
    if kind == _Message.BY_FAMILY:
        return _socket(body, interrupted=interrupted)
    if kind == _Message.ERROR or (kind == _Message.DONE and len(body) >= 4 and body[:4] != bytes(4)):
        if len(body) < 4:
            raise RemoteProtocolError(f"netlink: an error message of {len(body)} bytes; it needs 4")
        return Refused(abs(int(struct.unpack_from("=i", body)[0])))
    if kind == _Message.DONE:
        return Done(interrupted)
    if kind == _Message.OVERRUN:
        raise RemoteProtocolError(
            "netlink: the kernel ran out of room for its answers; ask for fewer sockets"
        )
    if kind == _Message.NOOP:
        return None
    raise RemoteProtocolError(f"netlink: a message of type {kind} answers nothing that was asked")


def _socket(body: bytes, *, interrupted: bool) -> Socket:
    if len(body) < _SOCKET.size:
        raise RemoteProtocolError(f"netlink: a socket of {len(body)} bytes; it needs {_SOCKET.size}")
    family, state, timer, retransmits, identity, expires, received, sending, uid, inode = _SOCKET.unpack_from(
        body
    )
    if family not in _VERSION:
        raise RemoteProtocolError(f"netlink: a socket of address family {family}; TCP has 2 and 10")
    return Socket(
        family_version=_VERSION[family],
        identity=identity,
        state=state,
        timer=timer,
        retransmits=retransmits,
        expires_ms=expires,
        receive_queue_bytes=received,
        send_queue_bytes=sending,
        uid=uid,
        inode=inode,
        attributes=dict(_attributes(body[_SOCKET.size :])),
        interrupted=interrupted,
    )


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while len(data) - at >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if not _ATTRIBUTE.size <= length <= len(data) - at:
            raise RemoteProtocolError(f"netlink: an attribute of {length} bytes in {len(data) - at}")
        yield kind & 0x3FFF, data[at + _ATTRIBUTE.size : at + length]
        at += _aligned(length)


def _aligned(length: int) -> int:
    return length + 3 & ~3
