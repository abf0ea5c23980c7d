"""Two hosts: network namespaces, the TUN device of each, and their TCP settings."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from multitracer.errors import PreflightError
from multitracer.lab.channel.gsm.link import FAR, SIDES
from multitracer.lab.testbed.interruption import SIGNALS
from multitracer.lab.testbed.kernel_tcp import for_every_socket, route_options, sysctls
from multitracer.lab.testbed.privileges import CLONE_NEWNET, in_user_namespace, open_tun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.lab.channel.gsm.link import Side
    from multitracer.lab.tcp import TcpProfile
    from multitracer.lab.testbed.names import Maker

T = TypeVar("T")
DEVICE = "tun0"
FOLDER = Path("/run/netns")
_OURS = FOLDER / ".multitracer"
"""In a private /run, to know it again."""
_IPV4, _IPV6 = Path("/proc/sys/net/ipv4"), Path("/proc/sys/net/ipv6/conf")
_ROOMY_QUEUE_PACKETS = 1_000
"""Of a device whose packets are taken at once: it never overflows."""


class Hosts:
    """The namespaces of one run; call `remove` at the end in any case.

    Parameters
    ----------
    maker : Maker
        This process.
    """

    def __init__(self, maker: Maker) -> None:
        self._maker = maker
        self.addresses: dict[Side, str] = {side: maker.address(side) for side in SIDES}
        self.tuns: dict[Side, int] = {}
        """Descriptors of the devices, not blocking."""
        self.devices: dict[Side, list[str]] = {}
        """The words that describe each device."""
        self.settings: dict[Side, dict[str, int]] = {}
        """The sysctls that were set."""
        self.routes: dict[Side, list[str]] = {}
        """The words that describe each route."""

    def facts(self, side: Side) -> dict[str, object]:
        """Return a host's entry in the manifest, once its link is set up."""
        return {
            "kernel": f"{platform.system()} {platform.release().partition('-')[0]}",
            "machine": platform.machine(),
            "addresses": [self.addresses[side]],
            "device": " ".join(self.devices[side]),
            "route": " ".join(self.routes[side]),
            "sysctls": self.settings[side],
        }

    def make(self) -> None:
        """Make both namespaces, without IPv6: its neighbour discovery would add traffic."""
        _ensure_folder()
        for side in SIDES:
            check("ip", "netns", "add", self._maker.namespace(side))
            self.within(side, _switch_off_ipv6)

    def lay_link(
        self,
        side: Side,
        profile: TcpProfile,
        *,
        speed: float,
        queue_packets: int | None = None,
        every_socket: bool = False,
    ) -> None:
        """Make a host's device and route, and tune its TCP.

        Parameters
        ----------
        side : {"mobile", "fixed"}
        profile : TcpProfile
        speed : float
            How many link seconds pass in a second.
        queue_packets : int, optional
            Length of the device's own queue, if that is the one that is to overflow.
        every_socket : bool
            Whether sockets have the profile's congestion control and window without asking for them.
        """
        name, queue = self._maker.namespace(side), queue_packets or _ROOMY_QUEUE_PACKETS
        self.tuns[side] = self.within(side, lambda: open_tun(DEVICE))
        self.settings[side] = sysctls(profile, speed=speed)
        self.within(side, lambda: _set(self.settings[side]))
        mtu = str(profile.mtu_bytes)
        self.devices[side] = [DEVICE, "mtu", mtu, "gso_max_segs", "1", "txqueuelen", str(queue)]
        check("ip", "-n", name, "link", "set", *self.devices[side])
        # No queueing discipline: it would hide from TCP that the device's queue is full.
        check("tc", "-n", name, "qdisc", "replace", "dev", DEVICE, "root", "noqueue")
        check("ip", "-n", name, "address", "add", f"{self.addresses[side]}/32", "dev", DEVICE)
        check("ip", "-n", name, "link", "set", DEVICE, "up")
        self.routes[side] = [self.addresses[FAR[side]], "dev", DEVICE, *route_options(profile, speed=speed)]
        if every_socket:
            self.routes[side] += for_every_socket(profile)
        check("ip", "-n", name, "route", "add", *self.routes[side])

    def within(self, side: Side, call: Callable[[], T]) -> T:
        """Call a function in a host's namespace, in a thread of its own."""
        path = FOLDER / self._maker.namespace(side)
        results: list[T] = []
        errors: list[OSError] = []

        def run() -> None:
            try:
                _enter(path)
                results.append(call())
            except OSError as error:
                errors.append(error)

        thread = threading.Thread(target=run, name=f"in {side}")
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return results[0]

    def command(self, side: Side, *argv: str) -> list[str]:
        """Return the command line that runs `argv` at a host; it ends when this process does."""
        path = FOLDER / self._maker.namespace(side)
        return ["setpriv", "--pdeathsig", "TERM", "nsenter", f"--net={path}", *argv]

    def output(self, side: Side, *argv: str) -> str:
        """Return the output of a command that runs at a host."""
        return check(*self.command(side, *argv))

    def remove(self) -> None:
        """Close the devices and remove the namespaces."""
        for descriptor in self.tuns.values():
            os.close(descriptor)
        self.tuns = {}
        for side in SIDES:
            remove_namespace(self._maker.namespace(side))


def remove_namespace(name: str) -> None:
    """Remove a namespace if it exists; another run may do the same at this moment."""
    try:
        check("ip", "netns", "delete", name)
    except PreflightError:
        if (FOLDER / name).exists():
            raise


def _enter(path: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(descriptor, CLONE_NEWNET) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(path))
    finally:
        os.close(descriptor)


def _ensure_folder() -> None:
    """In a user namespace, mount an empty file system over /run, which belongs to the system."""
    if not in_user_namespace() or _OURS.exists():
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", b"/run", b"tmpfs", 0, None) != 0:
        why = os.strerror(ctypes.get_errno())
        raise PreflightError(f"/run: cannot be made private ({why}); start me with `unshare -Urnm`")
    FOLDER.mkdir()
    _OURS.touch()


def _switch_off_ipv6() -> None:
    for which in ("all", "default"):
        path = _IPV6 / which / "disable_ipv6"
        if path.exists():
            path.write_text("1\n")


def _set(values: dict[str, int]) -> None:
    for name, value in values.items():
        path = _IPV4 / name
        if path.exists():  # tcp_rto_max_ms came with Linux 6.15
            path.write_text(f"{value}\n")


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Block signals in programs started meanwhile: a terminal's Ctrl-C shall reach only this process."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def check(*argv: str) -> str:
    """Run a command; return its output.

    Raises
    ------
    PreflightError
        If it fails, with its own words.
    """
    try:
        with _undisturbed():
            done = subprocess.run(argv, check=False, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise PreflightError(f"{argv[0]}: not installed; `multitracer testbed doctor` says how") from error
    if done.returncode:
        words = done.stderr.strip() or f"exit status {done.returncode}"
        raise PreflightError(f"{' '.join(argv)}: {words}; `multitracer testbed doctor` says what is missing")
    return done.stdout
