"""Filters that run in the kernel, so that a dump holds only the requested sockets.

The program is a row of operations, each a conditional jump forward: `yes` bytes if it holds, else `no`. A
socket is chosen if the program ends exactly at its last byte; to refuse one, jump four bytes beyond.
Source: linux/inet_diag.h and inet_diag_bc_run in net/ipv4/inet_diag.c. Only operations of the first version
are used, so that old kernels accept the program.
"""

from __future__ import annotations

import struct
from ipaddress import IPv4Network, IPv6Network
from typing import TYPE_CHECKING

from multitracer.errors import LocalProtocolError
from multitracer.protocols.sock_diag.words import Family

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_JUMP = 1  # linux/inet_diag.h: INET_DIAG_BC_JMP
_SOURCE = 7  # INET_DIAG_BC_S_COND
_DESTINATION = 8  # INET_DIAG_BC_D_COND
_FAMILY = {4: Family.INET, 6: Family.INET6}
_ANY_PORT = -1  # struct inet_diag_hostcond: any port
_OPERATION_BYTES = 4  # sizeof(struct inet_diag_bc_op)
_MOST_BYTES = 0xFFFF - _OPERATION_BYTES
"""The length of a netlink attribute has 16 bits and counts its header."""

Network = IPv4Network | IPv6Network


def filter_bytecode(*, ports: Iterable[int] = (), networks: Iterable[Network] = ()) -> bytes:
    """Return the program that selects sockets by the address or port of either end.

    Parameters
    ----------
    ports : iterable of int
        The local or the remote port must be one of these; none given: any.
    networks : iterable of IPv4Network or IPv6Network
        The local or the remote address must lie in one of these; none given: any. An IPv4 network also
        chooses IPv6 sockets whose addresses are mapped from it.

    Raises
    ------
    LocalProtocolError
        If a port is not one, or the filter is too long for the kernel's 16-bit jumps.
    """
    clauses = [
        [_condition(end, port=_checked(port)) for port in ports for end in (_SOURCE, _DESTINATION)],
        [_condition(end, network=network) for network in networks for end in (_SOURCE, _DESTINATION)],
    ]
    clauses = [clause for clause in clauses if clause]
    total = sum(map(_clause_bytes, clauses))
    if total > _MOST_BYTES:
        raise LocalProtocolError(f"socket filter: {total} bytes of program; name fewer ports or addresses")
    program = b""
    for clause in clauses:
        program += _assemble(clause, rest=total - len(program))
    return program


def _checked(port: int) -> int:
    if not 0 < port < 1 << 16:
        raise LocalProtocolError(f"socket filter: no port {port}; ports are 1 to 65535")
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
    """Return one clause: the first true condition jumps to its end; without one, the socket is refused."""
    program, length = b"", _clause_bytes(clause)
    for code, argument in clause[:-1]:
        step = _OPERATION_BYTES + len(argument)
        program += struct.pack("=BBH", code, step, step + _OPERATION_BYTES) + argument
        program += struct.pack("=BBH", _JUMP, _OPERATION_BYTES, length - len(program))
    code, argument = clause[-1]
    refuse = rest - len(program) + _OPERATION_BYTES
    return program + struct.pack("=BBH", code, _OPERATION_BYTES + len(argument), refuse) + argument
