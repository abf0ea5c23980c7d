"""Two hosts: their network namespaces, TUN devices and TCP settings."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import signal
import subprocess
import threading
import time
from contextlib import contextmanager, suppress
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from multitracer.errors import PreflightError
from multitracer.lab.channel.shared.packet_link import FAR, SIDES
from multitracer.lab.testbed.privileges import CLONE_NEWNET, in_user_namespace, open_tun
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType, TracebackType
    from typing import Self

    from multitracer.lab.channel.shared.packet_link import Side
    from multitracer.lab.tcp.profile import TcpProfile

# Names that identify the maker: of namespaces by their name, of processes by an environment variable.
#
# A maker is a process number and when that process started, because numbers are used again.


VARIABLE = "MULTITRACER_TESTBED"
"""Environment variable of every process of a run; its value is the maker of the process."""
_MAKER = re.compile(r"(\d+)-(\d+)")
_NAMESPACE = re.compile(r"mt(\d+)-(\d+)-testbed-(?:mobile|fixed)")
_START_TIME_FIELD = 19  # of /proc/PID/stat behind the name, from 0: starttime in clock ticks
_NETWORK = int(IPv4Address("10.0.0.0"))
_PID_BITS = 22
"""Bits of a process number: 2^22 processes with networks of four addresses fill 10.0.0.0/8."""


class Maker(NamedTuple):
    """A process that makes namespaces and child processes: its number and start time."""

    pid: int
    start_time: int

    @classmethod
    def myself(cls) -> Maker:
        """Return this process."""
        started = start_time(os.getpid())
        assert started is not None
        return cls(os.getpid(), started)

    @classmethod
    def of_namespace(cls, name: str) -> Maker | None:
        """Return the process that made a namespace, by its name; None if it is not a testbed's namespace."""
        return cls._matched(_NAMESPACE.fullmatch(name))

    @classmethod
    def of_word(cls, word: str) -> Maker | None:
        """Return the maker that a value of the environment variable describes.

        None if the value is invalid.
        """
        return cls._matched(_MAKER.fullmatch(word))

    @classmethod
    def _matched(cls, match: re.Match[str] | None) -> Maker | None:
        return cls(int(match[1]), int(match[2])) if match else None

    def __str__(self) -> str:
        return f"{self.pid}-{self.start_time}"

    @property
    def lives(self) -> bool:
        """Whether the maker process still runs."""
        return start_time(self.pid) == self.start_time

    def namespace(self, side: Side) -> str:
        """Return the name of the namespace of one host."""
        return f"mt{self}-testbed-{side}"

    def address(self, side: Side) -> str:
        """Return a host's IP address.

        It is unique on this machine, because kernel tracing records all runs.
        """
        number = self.pid % (1 << _PID_BITS)
        return str(IPv4Address(_NETWORK + 4 * number + (1 if side == "mobile" else 2)))


def start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if it does not exist or is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[_START_TIME_FIELD])


# Ctrl-C, kill and a lost terminal: noted first, obeyed where the run can end without unfinished work.


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a run: from users, shells and lost terminals."""


class InterruptedRunError(BaseException):
    """The user interrupted the run; it is not an error, so `except Exception` must not catch it."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number


class Interruption:
    """Receives signals during the `with` block; the descriptor `wake` becomes readable when one arrives."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        """The first signal that arrived; None before."""
        self.count = 0
        self.wake = -1

    def __enter__(self) -> Self:
        self.wake, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        obeyed = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        self._before = [(number, signal.signal(number, self._note)) for number in obeyed]
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before:
            signal.signal(number, handler)
        os.close(self.wake)
        os.close(self._write)

    def _note(self, number: int, _: FrameType | None) -> None:
        self.signal = self.signal or signal.Signals(number)
        self.count += 1

    @property
    def reason(self) -> str:
        """Why the run is over, in the words of the manifest; empty if no signal has arrived."""
        return f"interrupted by {self.signal.name}" if self.signal is not None else ""

    def check(self) -> None:
        """Raise InterruptedRunError if a signal has arrived."""
        if self.signal is not None:
            raise InterruptedRunError(self.signal)


# A scenario's TcpProfile as settings of Linux: sysctls, route options, socket options.
#
# Times of a profile are link times; a kernel that runs `speed` times as fast gets them divided. What Linux
# cannot do is refused or, where it has its own way (RFC 3042, the RTO before any sample), left as it is.


_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_NAMES = {
    **dict.fromkeys(("reno", "newreno", "linux-reno"), "reno"),
    **dict.fromkeys(("cubic", "linux-cubic"), "cubic"),
    "vegas": "vegas",
}
"""The kernel's name of each congestion control.

Linux' reno without SACK stays in recovery until all is acknowledged, so it serves as NewReno (RFC 6582)."""
_LOWEST_RTO_MIN_MS = 4
"""Minimum retransmission timeout: a tick of the kernel's timers at 250 Hz."""
_RTO_MAX_MS = 1_000, 120_000
"""Range of net.ipv4.tcp_rto_max_ms."""


def sysctls(profile: TcpProfile, *, speed: float) -> dict[str, int]:
    """Return the settings under net.ipv4 for a profile, by name.

    For a profile without SACK they include those that make a present TCP act like that of 1999.
    """
    minimum, most = _RTO_MAX_MS
    settings: dict[str, int] = {
        "tcp_timestamps": int(profile.timestamps),
        "tcp_sack": int(profile.sack),
        "tcp_dsack": int(profile.sack),
        "tcp_window_scaling": int(profile.window_scaling),
        "tcp_ecn": int(profile.ecn),
        "tcp_no_metrics_save": 1,
        "tcp_rto_max_ms": min(max(round(profile.max_rto_ns / speed / NS_PER_MS), minimum), most),
    }
    if not profile.sack:
        settings |= {"tcp_recovery": 0, "tcp_early_retrans": 0, "tcp_frto": 0}
    return settings


def route_options(profile: TcpProfile, *, speed: float) -> list[str]:
    """Return the arguments of `ip route` for a profile.

    At speed 1 a segment takes over half a second, so a receiver sends each ACK at its timer. In a
    faster run it would wait for a second segment; therefore the route then requests ACKs at once.
    """
    rto_min_ms = max(round(profile.min_rto_ns / speed / NS_PER_MS), _LOWEST_RTO_MIN_MS)
    quick = ["quickack", "1"] if speed > 1 else []
    return ["initcwnd", str(profile.initial_window_segments), "rto_min", f"{rto_min_ms}ms", *quick]


def for_every_socket(profile: TcpProfile) -> list[str]:
    """Return the arguments of `ip route` that give every socket the profile's congestion control and window.

    A route is used because the sysctl of a namespace does not accept a congestion control that the machine restricts.
    Without window scaling no socket offers more than the profile's window; otherwise the kernel chooses.
    """
    window = [] if profile.window_scaling else ["window", str(profile.receive_buffer_bytes)]
    return ["congctl", congestion_control(profile), *window]


def congestion_control(profile: TcpProfile) -> str:
    """Return the kernel's name of the profile's congestion control.

    Raises
    ------
    PreflightError
        If this kernel has no such congestion control.
    """
    name = _NAMES.get(profile.congestion, "")
    if name in _AVAILABLE.read_text().split():
        return name
    raise PreflightError(
        f'this kernel does not have the congestion control "{profile.congestion}"; choose another '
        "congestion control in [tcp], or run with --virtual"
    )


# Removes processes and namespaces of killed runs: those whose maker no longer lives.
#
# Nothing is touched that does not carry a maker's name. (The collectors remove stale tracing instances of
# their own when they start.)


_MARK = f"{VARIABLE}=".encode()
_PATIENCE_S = 5.0
_LOOK_EVERY_S = 0.02


def remove_stale() -> None:
    """End the processes of runs whose maker is dead, then remove their namespaces."""
    orphans = list(_orphans())
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid, started in orphans:
            _send(pid, started, number)
        _wait_for_end(orphans)
    for path in FOLDER.glob("mt*"):
        maker = Maker.of_namespace(path.name)
        if maker is not None and not maker.lives:
            remove_namespace(path.name)


def _send(pid: int, started: int, number: signal.Signals) -> None:
    """Send a signal to a process if its start time is still `started`."""
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            if start_time(pid) == started:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def _orphans() -> Iterator[tuple[int, int]]:
    """Yield the process number and the start time of each child process whose maker has ended."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (maker := _maker(entry)) is not None and not maker.lives:
            started = start_time(int(entry.name))
            if started is not None:
                yield int(entry.name), started


def _maker(process: Path) -> Maker | None:
    try:
        words = (process / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is another user's
        return None
    named = [word.removeprefix(_MARK).decode("ascii", "replace") for word in words if word.startswith(_MARK)]
    return Maker.of_word(named[0]) if named else None


def _wait_for_end(processes: Iterable[tuple[int, int]]) -> None:
    deadline_s = time.monotonic() + _PATIENCE_S
    while any(start_time(pid) == started for pid, started in processes) and time.monotonic() < deadline_s:
        time.sleep(_LOOK_EVERY_S)


T = TypeVar("T")
DEVICE = "tun0"
FOLDER = Path("/run/netns")
_OURS = FOLDER / ".multitracer"
"""Marker file in a private /run, to recognise it later."""
_IPV4, _IPV6 = Path("/proc/sys/net/ipv4"), Path("/proc/sys/net/ipv6/conf")
_ROOMY_QUEUE_PACKETS = 1_000
"""Queue of a device whose packets are read at once: it never overflows."""


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
        """Descriptors of the devices, in non-blocking mode."""
        self.devices: dict[Side, list[str]] = {}
        """Arguments that describe each device."""
        self.settings: dict[Side, dict[str, int]] = {}
        """Sysctls that were set."""
        self.routes: dict[Side, list[str]] = {}
        """Arguments that describe each route."""

    def facts(self, side: Side) -> dict[str, object]:
        """Return a host's entry in the manifest; `lay_link` must have been called for it."""
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
        """Make a host's device and route, and set its TCP parameters.

        Parameters
        ----------
        side : {"mobile", "fixed"}
        profile : TcpProfile
        speed : float
            Link seconds per second.
        queue_packets : int, optional
            Length of the device's own queue, if that queue must be the one that overflows.
        every_socket : bool
            Whether all sockets get the profile's congestion control and window by default.
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
        """Call a function in a host's namespace, in a separate thread; return its result."""
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
        """Return the command line that runs `argv` at a host; the command ends when this process ends."""
        path = FOLDER / self._maker.namespace(side)
        return ["setpriv", "--pdeathsig", "TERM", "nsenter", f"--net={path}", *argv]

    def output(self, side: Side, *argv: str) -> str:
        """Run a command at a host; return its standard output."""
        return check(*self.command(side, *argv))

    def remove(self) -> None:
        """Close the devices and remove the namespaces."""
        for descriptor in self.tuns.values():
            os.close(descriptor)
        self.tuns = {}
        for side in SIDES:
            remove_namespace(self._maker.namespace(side))


def remove_namespace(name: str) -> None:
    """Remove a namespace if it exists; another run may remove it at the same time."""
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
    """In a user namespace, mount an empty file system on /run.

    The directory /run itself belongs to the system outside.
    """
    if not in_user_namespace() or _OURS.exists():
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", b"/run", b"tmpfs", 0, None) != 0:
        why = os.strerror(ctypes.get_errno())
        raise PreflightError(
            f"cannot make the mount point /run private ({why}); start multitracer with `unshare -Urnm`"
        )
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
    """Block signals in programs that start during the `with` block: Ctrl-C must reach only this process."""
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
        If the command fails, with its error message.
    """
    try:
        with _undisturbed():
            done = subprocess.run(argv, check=False, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise PreflightError(
            f"{argv[0]} is not installed; `multitracer testbed doctor` shows how to install it"
        ) from error
    if done.returncode:
        words = done.stderr.strip() or f"exit status {done.returncode}"
        raise PreflightError(
            f"the command `{' '.join(argv)}` failed: {words}; `multitracer testbed doctor` shows what is missing"
        )
    return done.stdout
