"""The codec against the running kernel: filters choose what they say, one socket can be asked for."""

from __future__ import annotations

import errno
import socket
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any

import pytest

from multitracer.protocols.sock_diag import (
    DiagSocket,
    DumpDone,
    Refused,
    TcpState,
    decode,
    decode_tcp_info,
    dump_request,
    filter_bytecode,
    socket_request,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def netlink() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as channel:
        channel.settimeout(5)
        yield channel


@pytest.fixture
def ports() -> Iterator[list[int]]:
    """Servers' ports of three connections: over IPv4, over IPv6, and IPv4 through IPv6 sockets."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(loopback(socket.AF_INET, "127.0.0.1", "127.0.0.1")),
            stack.enter_context(loopback(socket.AF_INET6, "::1", "::1")),
            stack.enter_context(loopback(socket.AF_INET6, "::", "::ffff:127.0.0.1")),
        ]


@contextmanager
def loopback(family: int, bind: str, connect: str) -> Iterator[int]:
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket(family))
        if family == socket.AF_INET6:
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind((bind, 0))
        server.listen()
        client = stack.enter_context(socket.socket(family))
        client.connect((connect, server.getsockname()[1]))
        stack.enter_context(server.accept()[0])
        yield server.getsockname()[1]


def dump(netlink: socket.socket, **chosen: Any) -> list[DiagSocket]:
    """Ask for the sockets of both IP versions."""
    found: list[DiagSocket] = []
    for ip_version in (4, 6):
        netlink.send(dump_request(ip_version=ip_version, bytecode=filter_bytecode(**chosen)))
        done = False
        while not done:
            for answer in decode(netlink.recv(65536)):
                assert not isinstance(answer, Refused)
                done = isinstance(answer, DumpDone)
                found += [answer] if isinstance(answer, DiagSocket) else []
    return found


def server_ports(sockets: list[DiagSocket], ports: list[int]) -> set[int]:
    return {port for s in sockets for port in (s.port_local, s.port_remote) if port in ports}


def test_kernel_chooses_by_port(netlink: socket.socket, ports: list[int]) -> None:
    for port in ports:
        found = dump(netlink, ports=[port])
        assert len(found) == 2
        assert all(port in (s.port_local, s.port_remote) for s in found)
    assert server_ports(dump(netlink, ports=ports[:2]), ports) == set(ports[:2])


def test_kernel_chooses_by_network(netlink: socket.socket, ports: list[int]) -> None:
    four, six, mapped = ports
    local = [ip_network("127.0.0.0/8")]
    assert server_ports(dump(netlink, networks=local), ports) == {four, mapped}
    assert server_ports(dump(netlink, networks=[ip_network("::1")]), ports) == {six}
    assert server_ports(dump(netlink, networks=[*local, ip_network("::1")]), ports) == set(ports)
    assert dump(netlink, networks=[ip_network("198.51.100.0/24")]) == []


def test_kernel_wants_port_and_network_together(netlink: socket.socket, ports: list[int]) -> None:
    four, six, _ = ports
    local = [ip_network("127.0.0.1"), ip_network("192.0.2.1")]
    assert server_ports(dump(netlink, ports=[four, six], networks=local), ports) == {four}


def test_kernel_accepts_a_filter_of_many_ports(netlink: socket.socket, ports: list[int]) -> None:
    many = [port for port in range(1000, 2000) if port not in ports] + ports
    assert server_ports(dump(netlink, ports=many), ports) == set(ports)


def test_ipv4_through_an_ipv6_socket_has_ipv4_addresses(netlink: socket.socket, ports: list[int]) -> None:
    found = dump(netlink, ports=[ports[2]])
    assert {(s.ip_version, s.family_version) for s in found} == {(4, 6)}
    assert {ip_address(s.address_remote) for s in found} == {ip_address("127.0.0.1")}


def test_one_socket_can_be_asked_for_until_it_is_gone(netlink: socket.socket) -> None:
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with loopback(family, address, address) as port:
            known, other = dump(netlink, ports=[port])
            netlink.send(socket_request(known, sequence=5))
            (again,) = decode(netlink.recv(65536), sequence=5)
            assert isinstance(again, DiagSocket)
            assert again.identity == known.identity
            assert decode_tcp_info(again.tcp_info or b"")["snd_cwnd"] > 0
            assert again.congestion_control
        left = [ask(netlink, known), ask(netlink, other)]
        assert Refused(errno.ENOENT) in left
        waiting = [answer for answer in left if isinstance(answer, DiagSocket)]
        assert all(s.state == TcpState.TIME_WAIT and s.tcp_info is None for s in waiting)


def ask(netlink: socket.socket, known: DiagSocket) -> object:
    netlink.send(socket_request(known))
    (answer,) = decode(netlink.recv(65536))
    return answer
