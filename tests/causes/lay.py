"""Lays the path between the two hosts: at their own devices, or behind a router where these have offload.

Without offload a host's device is the path's own TUN device, and segments leave it one at a time. With it:

    mobile -- wwan0 (veth) near -- wwan0 (TUN, the path) core0 -- far (veth) core0 -- fixed

The sender hands segments of up to 64 kB to its veth, where they are captured; the router cuts them for the
TUN device, which can't. What comes out of the path is joined again at the receiver's veth, whose device waits
a little for more (`gro_flush_timeout`), as a modem that hands on what came in one block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.causes.scenario import BEHIND, CLIENT, SERVER

if TYPE_CHECKING:
    from tests.causes.scenario import Scenario
    from tests.netns import Namespaces

PROXY = "proxy"
BEHIND_PROXY = f"to-{PROXY}"
"""The server's device where a proxy is between it and the path."""
DEVICES = {"mobile": "wwan0", "fixed": "core0"}
"""Host -> its device, under whose name the path has its TUN device, too."""
_ROUTERS = {"mobile": "near", "fixed": "far"}
_NETS = {4: ("10.0.3.0/24", "10.0.1.0/24"), 6: ("fd00:3::/64", "fd00:1::/64")}
_ROUTER_HOST = {4: ("10.0.3.1", "10.0.1.1"), 6: ("fd00:3::1", "fd00:1::1")}
_MACS = ("02:00:00:00:00:02", "02:00:00:00:00:01")
"""Of host and router."""
_COMPLETE = {4: "32", 6: "128"}


def labels(told: Scenario) -> tuple[str, ...]:
    """Return the namespaces that are needed: `core` has the path."""
    more = (PROXY,) if told.proxy else tuple(_ROUTERS.values()) if told.hosts.offload else ()
    return ("mobile", "core", "fixed", *more)


def end_of_path(told: Scenario, host: str) -> str:
    """Return the namespace at which the path ends on a host's side."""
    return PROXY if told.proxy and host == "fixed" else host


def device_of(told: Scenario, host: str) -> str:
    """Return the device at which a host is captured."""
    return BEHIND_PROXY if told.proxy and host == "fixed" else DEVICES[host]


def header_bytes(told: Scenario) -> int:
    """Return how long a packet's headers are as captured, without TCP's options; a TUN device has no Ethernet."""
    ethernet = 14 if told.hosts.offload else 0
    return ethernet + (40 if told.hosts.ip_version == 6 else 20) + 20


@dataclass(frozen=True)
class _End:
    """One end of the path."""

    spaces: Namespaces
    host: str
    version: int
    here: str
    there: str

    @property
    def device(self) -> str:
        return DEVICES[self.host]

    @property
    def near(self) -> bool:
        return self.host == "mobile"

    def ip(self, space: str, *words: str) -> None:
        self.spaces.run(space, "ip", f"-{self.version}", *words)

    def speak(self, space: str) -> None:
        """Allow IPv6 where it is spoken; `namespaces` forbids it."""
        if self.version == 6:
            names = [f"net.ipv6.conf.{which}.disable_ipv6=0" for which in ("all", "default")]
            self.spaces.run(space, "sysctl", "-qw", *names)

    def take_tun(self, space: str) -> None:
        """Put the path's device of this end into a namespace."""
        self.spaces.run("core", "ip", "link", "set", self.device, "netns", self.spaces[space])
        if self.version == 6:
            self.ip(space, "link", "set", self.device, "addrgenmode", "none")

    def address(self, space: str, device: str, here: str, there: str) -> None:
        """Give a device an address; the other side is the only one that is directly reached."""
        complete = _COMPLETE[self.version]
        nodad = ["nodad"] if self.version == 6 else []
        self.ip(space, "address", "add", here, "peer", f"{there}/{complete}", "dev", device, *nodad)

    def lay_plain(self, space: str) -> None:
        """Make the TUN device the host's own, or that of a proxy in its place."""
        self.take_tun(space)
        self.address(space, self.device, self.here, self.there)
        only = ("gso_max_segs", "1", "txqueuelen", "10000", "up")
        self.ip(space, "link", "set", self.device, *only)
        self.ip(space, "route", "add", "default", "dev", self.device)

    def lay_routed(self, gro_ns: int) -> None:
        """Put a router between host and TUN device."""
        router, cable = _ROUTERS[self.host], "host"
        self.speak(router)
        self.spaces.run(
            "core", "ip", "link", "add", self.device, "address", _MACS[0], "netns", self.spaces[self.host],
            "type", "veth", "peer", "name", cable, "address", _MACS[1], "netns", self.spaces[router],
        )  # fmt: skip
        self.spaces.run(self.host, "ethtool", "-K", self.device, "gro", "on")
        self.spaces.run(router, "ethtool", "-K", cable, "tso", "off")  # else a veth joins nothing
        timeout = f"/sys/class/net/{self.device}/gro_flush_timeout"
        self.spaces.run(self.host, "sh", "-c", f"echo {gro_ns} > {timeout}")
        self._lay_cable(router, cable)
        self.take_tun(router)
        self.ip(router, "link", "set", self.device, "txqueuelen", "10000", "up")
        self._route(router)

    def _lay_cable(self, router: str, cable: str) -> None:
        """Join host and router; they are told each other, as IPv6 takes its time to find who is there."""
        self.ip(router, "link", "set", cable, "up")
        self.ip(self.host, "link", "set", self.device, "up")
        gateway = _ROUTER_HOST[self.version][not self.near]
        self.address(self.host, self.device, self.here, gateway)
        self.address(router, cable, gateway, self.here)
        self.ip(router, "route", "replace", self.here, "dev", cable)
        self.ip(router, "neighbour", "add", self.here, "lladdr", _MACS[0], "dev", cable)
        self.ip(self.host, "neighbour", "add", gateway, "lladdr", _MACS[1], "dev", self.device)
        self.ip(self.host, "route", "add", "default", "via", gateway, "dev", self.device, "onlink")

    def _route(self, router: str) -> None:
        """Let the router pass on what is for the other side, and be silent about the rest."""
        forwarding = {4: "net.ipv4.ip_forward=1", 6: "net.ipv6.conf.all.forwarding=1"}
        self.spaces.run(router, "sysctl", "-qw", forwarding[self.version])
        self.ip(router, "route", "add", _NETS[self.version][self.near], "dev", self.device)
        self.ip(router, "route", "add", "blackhole", "default")


def lay(spaces: Namespaces, told: Scenario) -> None:
    """Join the hosts by the path that runs in `core`."""
    addresses = [told.hosts.address(each) for each in (CLIENT, SERVER)]
    for host, here, there in zip(DEVICES, addresses, addresses[::-1], strict=True):
        end = _End(spaces, host, told.hosts.ip_version, here, there)
        end.speak(host)
        spaces.sysctl(host, **told.sysctls)
        if told.hosts.offload:
            end.lay_routed(told.hosts.gro_ns)
        else:
            end.lay_plain(end_of_path(told, host))
    if told.proxy:
        spaces.sysctl(PROXY, **told.sysctls)
        spaces.join(PROXY, "fixed", network=BEHIND)
        spaces.limit("fixed", BEHIND_PROXY, rate=f"{told.proxy['rate_bps']}bit", burst="10kb", latency="50ms")
    if told.own:
        _shape(spaces, "mobile" if told.upload else "fixed", told.own)


def _shape(spaces: Namespaces, host: str, own: dict[str, int]) -> None:
    """Put a token bucket (tc-tbf) on a host's own interface: captured is what has left it."""
    spaces.run(
        host, "tc", "qdisc", "add", "dev", DEVICES[host], "root", "tbf", "rate", f"{own['rate_bps']}bit",
        "burst", str(own["burst_bytes"]), "limit", str(own["queue_bytes"]),
    )  # fmt: skip


def idle_gap(spaces: Namespaces, told: Scenario) -> None:
    """Let no kernel try again: what the path logs and what was captured shall end with the same packet."""
    for host in {*DEVICES, end_of_path(told, "fixed")}:
        spaces.run(host, "ip", f"-{told.hosts.ip_version}", "route", "flush", "table", "main")
