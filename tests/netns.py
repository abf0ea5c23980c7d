"""Network namespaces for tests and recordings: hosts of our own, with the real kernel's TCP between them.

Names carry the process id (`mt<pid>-<n>-<label>`), so that runs side by side do not meet, and so that the
next run can remove what a killed one left behind. Needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN).
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = re.compile(r"mt(\d+)-\d+-\w+")
_NETNS_FOLDER = Path("/run/netns")
_OFFLOADS = ("tso", "gso", "gro", "tx", "rx", "sg")
_numbers = itertools.count()


class Namespaces:
    """A few network namespaces, by the labels they were asked for."""

    def __init__(self, labels: tuple[str, ...]) -> None:
        number = next(_numbers)
        self._names = {label: f"mt{os.getpid()}-{number}-{label}" for label in labels}
        self._children = ExitStack()

    def __getitem__(self, label: str) -> str:
        """Return the name under which `ip netns` knows the namespace."""
        return self._names[label]

    def _create(self) -> None:
        for name in self._names.values():
            _check("ip", "netns", "add", name)
            _check("ip", "-n", name, "link", "set", "lo", "up")
            if Path("/proc/sys/net/ipv6").exists():  # its neighbour discovery would join the traffic
                _check("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1",
                       "net.ipv6.conf.default.disable_ipv6=1")  # fmt: skip

    def _remove(self) -> None:
        self._children.close()
        for name in self._names.values():
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def command(self, label: str, *argv: str) -> list[str]:
        """Return the command line that runs `argv` inside a namespace."""
        return ["ip", "netns", "exec", self[label], *argv]

    def run(self, label: str, *argv: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command inside a namespace; raise with its words if it fails."""
        return _check(*self.command(label, *argv), **options)

    def start(self, label: str, *argv: str, **options: Any) -> subprocess.Popen[str]:
        """Start a command inside a namespace; it is stopped with the namespaces at the latest."""
        child = subprocess.Popen(self.command(label, *argv), text=True, **options)
        self._children.callback(stop, child)
        return child

    def join(self, left: str, right: str, *, network: str) -> None:
        """Lay a cable: `left` becomes NETWORK.1/24 on its device `to-RIGHT`, `right` becomes NETWORK.2/24.

        Segmentation and checksum offloads are off, so a capture holds the packets of the wire.
        """
        ends = ((left, f"to-{right}", f"{network}.1/24"), (right, f"to-{left}", f"{network}.2/24"))
        (_, here, _), (_, there, _) = ends
        _check("ip", "link", "add", here, "netns", self[left], "type", "veth",
               "peer", "name", there, "netns", self[right])  # fmt: skip
        for label, device, address in ends:
            _check("ip", "-n", self[label], "address", "add", address, "dev", device)
            _check("ip", "-n", self[label], "link", "set", device, "up")
            for offload in _OFFLOADS:
                self.run(label, "ethtool", "-K", device, offload, "off")

    def route(self, label: str, *, via: str) -> None:
        """Send everything that is not local through `via`."""
        _check("ip", "-n", self[label], "route", "add", "default", "via", via)

    def sysctl(self, label: str, **values: object) -> None:
        """Set net.ipv4 sysctls of a namespace, for example `tcp_sack=0`."""
        for key, value in values.items():
            self.run(label, "sysctl", "-qw", f"net.ipv4.{key}={value}")

    def limit(self, label: str, device: str, *, rate: str, burst: str, latency: str) -> None:
        """Put a token bucket (tc-tbf) in front of a device; its queue drops at the tail."""
        _check("tc", "-n", self[label], "qdisc", "replace", "dev", device, "root",
               "tbf", "rate", rate, "burst", burst, "latency", latency)  # fmt: skip

    def lose(self, label: str, *, one_in: int) -> None:
        """Drop each forwarded TCP packet whose number `one_in` divides (nftables numgen)."""
        last_of = f"numgen inc mod {one_in} offset 1 eq {one_in}"
        rules = f"""
            add table ip loss
            add chain ip loss forward {{ type filter hook forward priority 0; }}
            add rule ip loss forward meta l4proto tcp {last_of} counter drop
        """
        self.run(label, "nft", "-f", "-", input=rules)


@contextmanager
def namespaces(*labels: str) -> Iterator[Namespaces]:
    """Make namespaces, and remove them and every process started in them whatever happens."""
    remove_stale()
    made = Namespaces(labels)
    try:
        made._create()
        yield made
    finally:
        made._remove()


@contextmanager
def routed_path(*, rate: str, latency: str, one_in: int = 0) -> Iterator[Namespaces]:
    """Make hosts `a` (10.0.1.1) and `b` (10.0.2.2) joined by router `r`, slow and lossy towards `b`."""
    with namespaces("a", "r", "b") as hosts:
        hosts.join("a", "r", network="10.0.1")
        hosts.join("r", "b", network="10.0.2")
        hosts.route("a", via="10.0.1.2")
        hosts.route("b", via="10.0.2.1")
        hosts.sysctl("r", ip_forward=1)
        hosts.limit("r", "to-b", rate=rate, burst="128kb", latency=latency)
        if one_in:
            hosts.lose("r", one_in=one_in)
        yield hosts


def remove_stale() -> None:
    """Remove namespaces whose maker no longer lives."""
    for path in _NETNS_FOLDER.glob("mt*"):
        match = _NAME.fullmatch(path.name)
        if match and not Path(f"/proc/{match[1]}").exists():
            subprocess.run(["ip", "netns", "del", path.name], check=False, capture_output=True)


def stop(child: subprocess.Popen[str], *, patience_s: float = 10.0) -> int:
    """Ask a child to end (SIGTERM), then insist (SIGKILL); return its exit status."""
    if child.poll() is None:
        child.terminate()
    try:
        return child.wait(patience_s)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()


def _check(*argv: str, **options: Any) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(argv, check=False, capture_output=True, text=True, **options)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: exit {done.returncode}: {done.stderr.strip()}")
    return done
