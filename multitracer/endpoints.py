"""Converts addresses and ports of connections to text and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from multitracer.errors import InputError

if TYPE_CHECKING:
    from multitracer.captured import Address
    from multitracer.tables import Array, Table

    EndpointColumns = tuple[list[str], list[int], list[str], list[int]]


class Endpoints(NamedTuple):
    """The two endpoints of a connection, the initiator first."""

    src: str
    sport: int
    dst: str
    dport: int

    @property
    def source(self) -> str:
        """The initiator as HOST:PORT."""
        return host_port(self.src, self.sport)

    @property
    def destination(self) -> str:
        """The responder as HOST:PORT."""
        return host_port(self.dst, self.dport)


def host_port(host: str, port: int) -> str:
    """Return an endpoint as HOST:PORT, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_text(version: int, address: bytes) -> str:
    """Return an address from a table as text."""
    if version == 4:
        return f"{address[0]}.{address[1]}.{address[2]}.{address[3]}"
    import socket

    return socket.inet_ntop(socket.AF_INET6, address)


def network_of(host: object) -> object:
    """Return the network of a host as text, /24 of IPv4 and /48 of IPv6; of any other name the name itself.

    Examples
    --------
    >>> network_of("192.0.2.77"), network_of("2001:db8:7:1::5"), network_of("line 1")
    ('192.0.2', '20010db80007', 'line 1')
    """
    if not isinstance(host, str):
        return host
    if "." in host:
        return host.rpartition(".")[0]
    import socket

    try:
        return socket.inet_pton(socket.AF_INET6, host.partition("%")[0])[:6].hex()
    except OSError:
        return host


def address_text(address: Address) -> str:
    """Return an address from both its halves as text."""
    high, low = address
    is_ipv4 = high < 1 << 32 and not low
    return host_text(4, high.to_bytes(4, "big")) if is_ipv4 else host_text(6, (high << 64 | low).to_bytes(16, "big"))


def endpoints_of(flows: Table, directed: Array) -> list[Endpoints]:
    """Return the endpoints of directed flows, the sender first.

    Parameters
    ----------
    flows : Table
        FLOWS.
    directed : ndarray of int, shape (n,)
        2 x row in `flows`, plus 1 if endpoint b of the flow is the sender.
    """
    return [Endpoints(*each) for each in zip(*endpoint_columns(flows, directed), strict=True)]


def endpoint_columns(flows: Table, directed: Array) -> EndpointColumns:
    """Return the endpoints of directed flows as columns: address and port of the sender, then of the receiver."""
    import numpy as np

    rows, back = flows.take(directed >> 1), (directed & 1).astype(bool)
    version = rows["ip_version"]
    texts: dict[tuple[int, bytes], str] = {}

    def column(end: str, other: str) -> tuple[list[str], list[int]]:
        address = np.where(back, rows[f"address_{other}"], rows[f"address_{end}"]).tolist()
        for key in set(zip(version.tolist(), address, strict=True)) - texts.keys():
            texts[key] = host_text(*key)
        port = np.where(back, rows[f"port_{other}"], rows[f"port_{end}"])
        return [texts[key] for key in zip(version.tolist(), address, strict=True)], port.tolist()

    return *column("a", "b"), *column("b", "a")


def flows_with(flows: Table, host: str, port: int) -> Array:
    """Return which flows have HOST:PORT as one of their endpoints: bool, shape (n_flows,).

    Raises
    ------
    InputError
        If `host` is not an IP address.
    """
    import numpy as np

    version, packed = _packed(host)
    wanted = np.frombuffer(packed.ljust(16, b"\0"), dtype="V16")
    ends = [(flows[f"address_{end}"] == wanted) & (flows[f"port_{end}"] == port) for end in "ab"]
    fitting: Array = (ends[0] | ends[1]) & (flows["ip_version"] == version)
    return fitting


def _packed(host: str) -> tuple[int, bytes]:
    import socket

    version, family = (6, socket.AF_INET6) if ":" in host else (4, socket.AF_INET)
    try:
        return version, socket.inet_pton(family, host)
    except OSError as error:
        raise InputError(
            f"{host!r} is not an IP address, and host names are not resolved; give an IP address"
        ) from error


def vlan_text(vlan: int) -> str | None:
    """Return VLAN IDs, outermost first, separated by dots; None if untagged (`vlan` of FLOWS below 0)."""
    if vlan < 0:
        return None
    tags = (vlan.bit_length() - 1) // 12
    return ".".join(str(vlan >> 12 * i & 0xFFF) for i in range(tags - 1, -1, -1))
