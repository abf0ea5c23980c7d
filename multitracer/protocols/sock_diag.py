"""Linux `sock_diag`: encodes requests for the kernel's variables of TCP sockets, and decodes the answers.

A request selects sockets by filters that run in the kernel (`filter_bytecode`). An answer has a socket's
endpoints and state (`decode`) and its `struct tcp_info` (`decode_tcp_info`). No socket is opened here:
`collectors.tcp_info` does that.

What must hold: an older kernel's struct is shorter, a newer one's is longer; the decoded result leaves out
absent fields; no field changes its position. Values keep the kernel's names and units (microseconds, bytes,
segments). Source: linux/inet_diag.h, linux/tcp.h, linux/netlink.h.
"""

from __future__ import annotations

import functools
import struct
import sys
from dataclasses import dataclass, field
from enum import IntEnum
from ipaddress import IPv4Network, IPv6Network
from typing import TYPE_CHECKING, Literal

from multitracer.captured import IpProtocol
from multitracer.errors import LocalProtocolError, RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from multitracer.tables import Document

# The names of a sender's states, and their numbers in tables and in the kernel.


class Family(IntEnum):
    """Address families of Linux (linux/socket.h)."""

    INET = 2
    INET6 = 10


class SocketTimer(IntEnum):
    """Timers of a socket, of which one can run (linux/inet_diag.h: idiag_timer)."""

    NONE = 0
    RETRANSMISSION = 1
    KEEP_ALIVE = 2
    TIME_WAIT = 3
    ZERO_WINDOW_PROBE = 4


class TcpState(IntEnum):
    """States of a socket as Linux numbers them (include/net/tcp_states.h).

    Examples
    --------
    >>> mt.TcpState(session.tcp_state["state"].iloc[0]).name
    'SYN_SENT'
    """

    ESTABLISHED = 1
    SYN_SENT = 2
    SYN_RECV = 3
    FIN_WAIT1 = 4
    FIN_WAIT2 = 5
    TIME_WAIT = 6
    CLOSE = 7
    CLOSE_WAIT = 8
    LAST_ACK = 9
    LISTEN = 10
    CLOSING = 11
    NEW_SYN_RECV = 12
    BOUND_INACTIVE = 13


class TcpCaState(IntEnum):
    """The sender's state of loss recovery (enum tcp_ca_state, linux/tcp.h).

    Examples
    --------
    >>> bool((session.tcp_state["ca_state"] == mt.TcpCaState.RECOVERY).any())
    True
    """

    OPEN = 0
    DISORDER = 1
    """Duplicate ACKs or SACKs arrived; nothing was retransmitted yet."""
    CWR = 2
    """The window is being reduced without a loss: after ECN, or a drop in the host itself."""
    RECOVERY = 3
    """Fast retransmit is in progress."""
    LOSS = 4
    """A retransmission timeout occurred."""


class ReadBy(IntEnum):
    """How a row of tcp_state was recorded.

    Examples
    --------
    >>> mt.ReadBy(session.tcp_state["method"].iloc[0]).name
    'TCP_INFO'
    """

    TCP_INFO = 1
    """Polled: the state at some time between read_before and read_after."""
    TCP_PROBE = 2
    """Read at the arrival of a segment, before the segment changed the state."""
    SS = 3
    """Polled as text of `ss`, between two time stamps of the recorder."""
    SIFTR = 4
    """Read at a packet, in FreeBSD's packet filter."""


class TcpEvent(IntEnum):
    """The events of tcp_events.

    Examples
    --------
    >>> int((session.tcp_events["event"] == mt.TcpEvent.RETRANSMISSION).sum())
    83
    """

    RETRANSMISSION = 1
    CA_STATE = 2


# Requests to and answers from NETLINK_SOCK_DIAG about TCP sockets.
#
# A dump asks for every socket that a filter chooses; a question about one socket costs a fortieth of it,
# because the kernel need not walk its whole table. Source: linux/netlink.h, linux/inet_diag.h, sock_diag(7).
# All numbers are in the byte order of the machine, ports and addresses in network order.


IpVersion = Literal[4, 6]  # the version field of the IP header

NETLINK_SOCK_DIAG = 4
"""Protocol number of the netlink socket for these messages."""

_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI48s")
_SOCKET = struct.Struct("=BBBB48sIIIII")
_ATTRIBUTE = struct.Struct("=HH")


class _Message(IntEnum):
    """Types of netlink messages (linux/netlink.h: NLMSG_*); BY_FAMILY is sock_diag's request and answer."""

    NOOP = 1
    ERROR = 2
    DONE = 3
    OVERRUN = 4
    BY_FAMILY = 20


class _Attribute(IntEnum):
    """Types of the attributes that an answer has in addition to the socket (INET_DIAG_*)."""

    INFO = 2
    VEGAS = 3
    CONGESTION = 4


_REQUEST_FLAG, _DUMP, _DUMP_INTERRUPTED = 0x01, 0x300, 0x10
"""Flags of netlink messages (linux/netlink.h): NLM_F_REQUEST, NLM_F_DUMP, NLM_F_DUMP_INTR."""
_FAMILY: dict[IpVersion, Family] = {4: Family.INET, 6: Family.INET6}
_VERSION: dict[int, IpVersion] = {family: version for version, family in _FAMILY.items()}
_MAPPED = b"\0" * 10 + b"\xff\xff"  # RFC 4291, 2.5.5.2

_WANTED = 1 << (_Attribute.INFO - 1) | 1 << (_Attribute.VEGAS - 1) | 1 << (_Attribute.CONGESTION - 1)
"""Requested extensions (linux/inet_diag.h): bit n - 1 requests extension n."""
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
"""States in which a socket has the variables of a sender."""

_ANY_ACTIVE = sum(1 << state for state in ACTIVE)  # a bit for each state, as idiag_states


@dataclass(frozen=True, slots=True)
class DiagSocket:
    """One socket, from an answer.

    `identity` is the kernel's 48-byte socket id (ports, addresses, interface, cookie), which `socket_request`
    needs. `attributes` are the raw values by INET_DIAG_* number. Queues are in bytes, `expires_ms` is the
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
    """Whether the kernel's table changed during the dump: sockets may be missing or occur twice."""

    @property
    def ip_version(self) -> IpVersion:
        """IP version; 4 also for IPv4 over an IPv6 socket (RFC 4291, section 2.5.5.2)."""
        return 4 if self.family_version == 4 or self.identity[4:16] == _MAPPED else 6

    @property
    def address_local(self) -> bytes:
        """Local address, 4 or 16 bytes."""
        return self._address(4)

    @property
    def address_remote(self) -> bytes:
        """Remote address, 4 or 16 bytes."""
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
        """The kernel's number of the socket; it is unique until the kernel restarts."""
        low, high = struct.unpack_from("=II", self.identity, 40)
        return int(high << 32 | low)

    @property
    def tcp_info(self) -> bytes | None:
        """The raw `struct tcp_info`; None if the kernel sent none."""
        return self.attributes.get(_Attribute.INFO)

    @property
    def congestion_control(self) -> str | None:
        """Name of the congestion control; None if the kernel sent none."""
        name = self.attributes.get(_Attribute.CONGESTION)
        return None if name is None else name.split(b"\0")[0].decode("ascii", "replace")


@dataclass(frozen=True, slots=True)
class DumpDone:
    """The message that ends a dump (a list of sockets)."""

    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """An error message of the kernel: `errno` 2 (ENOENT) if the requested socket no longer exists."""

    errno: int


Answer = DiagSocket | DumpDone | Refused


def dump_request(*, ip_version: IpVersion, bytecode: bytes = b"", sequence: int = 0) -> bytes:
    """Return a request for all active TCP sockets of an IP version that `bytecode` selects."""
    body = _REQUEST.pack(_FAMILY[ip_version], IpProtocol.TCP, _WANTED, 0, _ANY_ACTIVE, bytes(48))
    if bytecode:
        body += _ATTRIBUTE.pack(_ATTRIBUTE.size + len(bytecode), _BYTECODE) + bytecode
    return _message(body, flags=_REQUEST_FLAG | _DUMP, sequence=sequence)


def socket_request(socket: DiagSocket, *, sequence: int = 0) -> bytes:
    """Return a request for the socket of an earlier answer."""
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
        The result of one `recv`.
    sequence : int, optional
        Answers to other requests are skipped, such as late answers to a request that was given up.

    Raises
    ------
    RemoteProtocolError
        If lengths contradict each other or the datagram was truncated.
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
            f"netlink: only {left} bytes remain, but a message header has {_HEADER.size} bytes; use a larger buffer"
        )
    length, kind, flags, number, port = _HEADER.unpack_from(datagram, at)
    if not _HEADER.size <= length <= left:
        raise RemoteProtocolError(
            f"netlink: a message of {length} bytes does not fit into the remaining {left} bytes; use a larger buffer"
        )
    return length, kind, flags, number, port


def _answer(kind: int, body: bytes, *, interrupted: bool) -> Answer | None:
    if kind == _Message.BY_FAMILY:
        return _socket(body, interrupted=interrupted)
    if kind == _Message.ERROR or (kind == _Message.DONE and len(body) >= 4 and body[:4] != bytes(4)):
        if len(body) < 4:
            raise RemoteProtocolError(
                f"netlink: an error message must have at least 4 bytes, but has {len(body)} bytes"
            )
        return Refused(abs(int(struct.unpack_from("=i", body)[0])))
    if kind == _Message.DONE:
        return DumpDone(interrupted)
    if kind == _Message.OVERRUN:
        raise RemoteProtocolError("netlink: the kernel had no buffer space for its answers; ask for fewer sockets")
    if kind == _Message.NOOP:
        return None
    raise RemoteProtocolError(f"netlink: a message of type {kind} is not an answer to the request")


def _socket(body: bytes, *, interrupted: bool) -> DiagSocket:
    if len(body) < _SOCKET.size:
        raise RemoteProtocolError(
            f"netlink: a socket record must have at least {_SOCKET.size} bytes, but has {len(body)} bytes"
        )
    family, state, timer, retransmits, identity, expires, received, sending, uid, inode = _SOCKET.unpack_from(body)
    if family not in _VERSION:
        raise RemoteProtocolError(
            f"netlink: the address family of a socket must be 2 (IPv4) or 10 (IPv6), but is {family}"
        )
    return DiagSocket(
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
            raise RemoteProtocolError(
                f"netlink: an attribute of {length} bytes does not fit into the remaining {len(data) - at} bytes"
            )
        yield kind & 0x3FFF, data[at + _ATTRIBUTE.size : at + length]
        at += _aligned(length)


def _aligned(length: int) -> int:
    return length + 3 & ~3


# Filters that run in the kernel, so that a dump holds only the requested sockets.
#
# The program is a row of operations, each a conditional jump forward: `yes` bytes if it holds, else `no`. A
# socket is chosen if the program ends exactly at its last byte; to refuse one, jump four bytes beyond.
# Source: linux/inet_diag.h and inet_diag_bc_run in net/ipv4/inet_diag.c. Only operations of the first version
# are used, so that old kernels accept the program.


_JUMP = 1  # linux/inet_diag.h: INET_DIAG_BC_JMP
_SOURCE = 7  # INET_DIAG_BC_S_COND
_DESTINATION = 8  # INET_DIAG_BC_D_COND
_ANY_PORT = -1  # struct inet_diag_hostcond: any port
_OPERATION_BYTES = 4  # sizeof(struct inet_diag_bc_op)
_MOST_BYTES = 0xFFFF - _OPERATION_BYTES
"""Maximum length of a filter: the length field of a netlink attribute has 16 bits and includes its header."""

Network = IPv4Network | IPv6Network


def filter_bytecode(*, ports: Iterable[int] = (), networks: Iterable[Network] = ()) -> bytes:
    """Return the program that selects sockets by the address or port of either endpoint.

    Parameters
    ----------
    ports : iterable of int
        The local or the remote port must be one of these; by default any.
    networks : iterable of IPv4Network or IPv6Network
        The local or the remote address must be in one of these; by default any. An IPv4 network also
        selects IPv6 sockets with IPv4-mapped addresses of the network.

    Raises
    ------
    LocalProtocolError
        If a port is not 1 to 65535, or the filter is too long for the kernel's 16-bit jumps.
    """
    clauses = [
        [_condition(end, port=_checked(port)) for port in ports for end in (_SOURCE, _DESTINATION)],
        [_condition(end, network=network) for network in networks for end in (_SOURCE, _DESTINATION)],
    ]
    clauses = [clause for clause in clauses if clause]
    total = sum(map(_clause_bytes, clauses))
    if total > _MOST_BYTES:
        raise LocalProtocolError(
            f"socket filter: the filter program of {total} bytes is too long; name fewer ports or addresses"
        )
    program = b""
    for clause in clauses:
        program += _assemble(clause, rest=total - len(program))
    return program


def _checked(port: int) -> int:
    if not 0 < port < 1 << 16:
        raise LocalProtocolError(f"socket filter: each port must be 1 to 65535, but one port is {port}")
    return port


def _condition(end: int, *, port: int = _ANY_PORT, network: Network | None = None) -> tuple[int, bytes]:
    family, length, address = 0, 0, b""
    if network is not None:
        family, length = _FAMILY[network.version], network.prefixlen
        address = network.network_address.packed
    return end, struct.pack("=BBxxi", family, length, port) + address


def _clause_bytes(clause: Sequence[tuple[int, bytes]]) -> int:
    conditions = sum(_OPERATION_BYTES + len(argument) for _, argument in clause)
    return conditions + _OPERATION_BYTES * (len(clause) - 1)


def _assemble(clause: Sequence[tuple[int, bytes]], *, rest: int) -> bytes:
    """Return the bytecode of one clause: at the first true condition it jumps to the end of the clause.

    If no condition is true, the socket is rejected. `rest` is the length of the clauses after it.
    """
    program, length = b"", _clause_bytes(clause)
    for code, argument in clause[:-1]:
        step = _OPERATION_BYTES + len(argument)
        program += struct.pack("=BBH", code, step, step + _OPERATION_BYTES) + argument
        program += struct.pack("=BBH", _JUMP, _OPERATION_BYTES, length - len(program))
    code, argument = clause[-1]
    refuse = rest - len(program) + _OPERATION_BYTES
    return program + struct.pack("=BBH", code, _OPERATION_BYTES + len(argument), refuse) + argument


# `struct tcp_info`: one layout for every kernel, because fields were only ever added at the end.
#
# The oldest kernels return 104 bytes, 6.18 returns 280. Any length decodes, and a field that is not wholly
# there is absent. Source: linux/tcp.h (include/uapi).


ByteOrder = Literal["little", "big"]

_FIELDS = (
    "B state ca_state retransmits probes backoff options wscale flags",
    "I rto ato snd_mss rcv_mss unacked sacked lost retrans fackets last_data_sent last_ack_sent",
    "I last_data_recv last_ack_recv pmtu rcv_ssthresh rtt rttvar snd_ssthresh snd_cwnd advmss reordering",
    "I rcv_rtt rcv_space total_retrans",
    "Q pacing_rate max_pacing_rate bytes_acked bytes_received",
    "I segs_out segs_in notsent_bytes min_rtt data_segs_in data_segs_out",
    "Q delivery_rate busy_time rwnd_limited sndbuf_limited",
    "I delivered delivered_ce",
    "Q bytes_sent bytes_retrans",
    "I dsack_dups reord_seen rcv_ooopack snd_wnd rcv_wnd rehash",
    "H total_rto total_rto_recoveries",
    "I total_rto_time",
    "I received_ce delivered_e1_bytes delivered_e0_bytes delivered_ce_bytes",
    "I received_e1_bytes received_e0_bytes received_ce_bytes accecn",
)
"""Lines of a `struct` type code and field names without `tcpi_`, in order and without gaps."""

LAYOUT = tuple((name, line[0]) for line in _FIELDS for name in line[2:].split())
"""Pairs of field name and `struct` code, in order; `wscale` and `flags` are bit fields."""

TCP_INFO_BYTES = struct.calcsize("=" + "".join(code for _, code in LAYOUT))
"""Length of the longest known struct; further bytes are ignored."""

BIT_FIELDS = {"wscale": ("snd_wscale", "rcv_wscale"), "flags": ("app_limited", "fastopen_client_fail")}
"""The fields in each bit field, in the order of their bits in little-endian data."""

INFINITE_SSTHRESH = 0x7FFFFFFF
"""Value of tcpi_snd_ssthresh before the first loss."""

STRUCT_ORDERS: dict[ByteOrder, str] = {"little": "<", "big": ">"}
"""Prefix of `struct` for each order of bytes."""


@functools.lru_cache(maxsize=1024)
def _prefix(length: int, byte_order: ByteOrder) -> tuple[struct.Struct, tuple[str, ...]]:
    codes, names = "", []
    for name, code in LAYOUT:
        if struct.calcsize("=" + codes + code) > length:
            break
        codes += code
        names.append(name)
    return struct.Struct(STRUCT_ORDERS[byte_order] + codes), tuple(names)


def decode_tcp_info(blob: bytes, *, byte_order: ByteOrder = sys.byteorder) -> dict[str, int]:
    """Return the fields in `blob` by the kernel's names without `tcpi_`, in the kernel's units.

    The bit fields `wscale` and `flags` appear as `snd_wscale`, `rcv_wscale`, `app_limited` and
    `fastopen_client_fail`. Bytes after the known struct are ignored.
    """
    packed, names = _prefix(min(len(blob), TCP_INFO_BYTES), byte_order)
    fields = dict(zip(names, packed.unpack_from(blob), strict=True))
    split_bit_fields(fields, byte_order)
    return fields


def split_bit_fields(fields: Document, byte_order: ByteOrder) -> None:
    """Replace the bit fields `wscale` and `flags` by a field for each value in them.

    In little-endian data the first value has the lowest bits.
    """
    little = byte_order == "little"
    if "wscale" in fields:
        both = fields.pop("wscale")
        low, high = both & 0xF, both >> 4
        fields["snd_wscale"], fields["rcv_wscale"] = (low, high) if little else (high, low)
    if "flags" in fields:
        flags = fields.pop("flags")
        fields["app_limited"] = flags & 1 if little else flags >> 7
        fields["fastopen_client_fail"] = flags >> 1 & 3 if little else flags >> 5 & 3
