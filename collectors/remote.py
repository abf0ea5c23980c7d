"""Reads a router or another machine through ssh: its modem by the tools that it has, its clock, and its packets.

OpenSSH's own client runs with the user's keys and configuration, and asks for no password. The commands come from a
profile (collectors/profiles, `kind = "remote"`), which is found by what the machine says of itself; all run in one
shell there. A command that is refused three times is sent thirty times less often. A machine that cannot be reached
does not end the recording: the time without an answer is a gap with its reason. What runs there until it is stopped
(`logread -f`, tcpdump) ends with the connection, or after a minute in which nothing came.

The log has the format of `collectors.modem`, with two records more: `remote_clock`, the machine's CLOCK_REALTIME
between two readings of this host's CLOCK_MONOTONIC, and `event`, a line of the machine's own log (`logread`) when this
host read it. With `--packets` the machine's tcpdump runs instead, without the packets
of our own ssh, and its file goes to `-o`; that run ends when the connection does.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from collectors._collector import Collector
from collectors._log import Log
from collectors._options import header, number, parser, rate_hz, run
from collectors._profiles import chosen_profile, matching, profiles
from collectors._ready import ready
from collectors._shell import BEAT_NS, LineFollower, Shell, ShellEndedError, beat, bound_to_input
from collectors._stop import Stop, end_with_parent
from collectors.modem import ModemLog, record
from multitracer.errors import CollectorError, InputError, PreflightError
from multitracer.protocols.modem.conversation import CommandAnswer
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from collectors._profiles import Ask, Profile
    from collectors._shell import Answer

_TARGET = re.compile(r"[A-Za-z0-9_][\w.@%:\[\]-]{0,200}")
"""Names that ssh takes for a host, with or without a user: none begins as an option does."""
_OPTIONS = ("-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5",
            "-o", "ServerAliveCountMax=2", "-o", "ControlMaster=no", "-o", "ControlPath=none")  # fmt: skip
_IDENTIFY = "cat /etc/openwrt_release /etc/os-release /etc/version 2>/dev/null; uname -a"
_MOST_IDENTITY = 500
_REFUSALS = 3
_SELDOM = 30
_INIT_S = 5.0
_CLOCK_ROUNDS = 5
_FOLLOW_ROUNDS = 60
"""Rounds between two starts of the program that follows the machine's log, if it ends by itself."""
_RETRY_NS = 5 * NS_PER_S
_EARLIER_NS = NS_PER_S
"""From the first line of a log on: `logread` and `journalctl` begin with lines that are there already."""
_LOOK_NS = NS_PER_S // 5
_CAPTURE = (
    "set -- $SSH_CONNECTION; exec tcpdump -i {interface} -s {snap} -n -U -w - "
    '"(tcp or udp port 443) and not (host $1 and tcp port $4)"'
)
"""tcpdump of the other machine, without our own connection: SSH_CONNECTION has both its addresses and ports."""
_INTERFACE = re.compile(r"[A-Za-z0-9][\w.-]{0,30}")
_REASONS = (
    ("permission denied", "not permitted"), ("host key verification failed", "unknown host key"),
    ("could not resolve", "unknown name"), ("refused", "refused"), ("timed out", "unreachable"),
    ("no route", "unreachable"), ("unreachable", "unreachable"), ("closed", "connection lost"),
    ("reset", "connection lost"), ("broken pipe", "connection lost"), ("not responding", "connection lost"),
)  # fmt: skip
"""Reason of a gap, by what ssh writes."""


def reason_of(words: str) -> str:
    """Return the reason of a gap for the last words of ssh."""
    return next((reason for part, reason in _REASONS if part in words.lower()), words[:60])


class RemoteModem:
    """The modem of a machine behind ssh; it has the methods of a SerialModem.

    Parameters
    ----------
    program : list of str
        ssh, its options, and the machine.
    host : str
        Name of the machine in the session.
    profile : Profile, optional
        The commands; by default found by what the machine says of itself.
    log, stop
        The log, and the condition that ends the run.
    """

    def __init__(self, program: list[str], *, host: str, profile: Profile | None, log: ModemLog, stop: Stop) -> None:
        self._program = program
        self._host = host
        self._given = profile
        self._log = log
        self._stop = stop
        self._shell: Shell | None = None
        self._events: LineFollower | None = None
        self._first_ns = 0
        """When the first line of the machine's log came; 0 before."""
        self._profile: Profile | None = None
        self._refused: dict[str, int] = {}
        self._round = 0
        self._retry_ns = 0
        self._why = ""
        self._tools: str | None = None
        """Why the last round with commands had no answer; None if it had one."""

    def ask_all(self) -> str | None:
        """Run the commands of this round; return the reason if there was no answer, else None."""
        if self._shell is None and time.monotonic_ns() < self._retry_ns:
            return self._why
        try:
            shell = self._shell or self._connect()
            return self._ask_due(shell)
        except ShellEndedError as error:
            self.close()
            self._why = reason_of(error.why)
            self._retry_ns = time.monotonic_ns() + _RETRY_NS
            if self._stop.reason is None:
                self._log.port("lost", self._program[-2], why=self._why)
            return self._why

    def listen(self, until_ns: int) -> bool:
        """Store lines of the machine's log until a time; return False if the collector must end."""
        while self._stop.wait(self._look_ns(until_ns), readable=self._events.descriptors if self._events else []):
            if self._events is not None:
                self._events.beat()
            for line in self._events.take() if self._events else ():
                self._event(line.decode("utf-8", "replace"))
            if time.monotonic_ns() >= until_ns:
                return True
        return False

    def close(self) -> None:
        """End the connections."""
        for child in (self._shell, self._events):
            if child is not None:
                child.close()
        self._shell = self._events = None

    def _look_ns(self, until_ns: int) -> int:
        """Return when to look again: rounds may be further apart than the machine waits for us."""
        return until_ns if self._events is None else min(until_ns, time.monotonic_ns() + BEAT_NS)

    def _event(self, raw: str) -> None:
        """Store a line of the machine's log; what comes with the first line was written before the connection."""
        now_ns = time.monotonic_ns()
        self._first_ns = self._first_ns or now_ns
        earlier = {"earlier": True} if now_ns - self._first_ns < _EARLIER_NS else {}
        self._log.record("event", at_ns=now_ns, raw=raw, **earlier)

    def _follow(self) -> None:
        """Start the program that follows the machine's log, unless it runs."""
        assert self._profile is not None
        if not self._profile.follow or (self._events is not None and self._events.descriptors):
            return
        if self._events is not None:
            self._events.close()
        self._events, self._first_ns = (LineFollower([*self._program[:-1], bound_to_input(self._profile.follow)]), 0)

    def _connect(self) -> Shell:
        """Return a shell on the machine, whose profile is known then."""
        self._shell = shell = Shell(self._program, self._stop)
        identity = " ".join(shell.ask(_IDENTIFY, timeout_s=15.0).raw.decode("utf-8", "replace").split())
        self._profile = self._given or matching(identity, "remote")
        self._refused, self._round, self._tools = {}, 0, None
        for command in self._profile.init:
            self._store(shell.ask(command, timeout_s=_INIT_S))
        self._log.port("opened", self._program[-2])
        facts = {"port": self._program[-2], "says": identity[:_MOST_IDENTITY], "profile": self._profile.name}
        self._log.record("modem", at_ns=time.monotonic_ns(), **facts)
        return shell

    def _ask_due(self, shell: Shell) -> str | None:
        assert self._profile is not None
        if self._round % _CLOCK_ROUNDS == 0 and (reading := shell.clock(timeout_s=5.0)):
            self._log.record("remote_clock", host=self._host, **reading)
        if self._round % _FOLLOW_ROUNDS == 0:
            self._follow()
        due = [ask for ask in self._profile.asks if self._round % self._every(ask) == 0]
        self._round += 1
        has_answer = False
        for ask in due:
            if self._stop.reason is not None:
                return None
            answer = shell.ask(ask.command, timeout_s=ask.timeout_s)
            self._refused[ask.command] = 0 if answer.status == 0 else self._refused.get(ask.command, 0) + 1
            has_answer |= answer.status == 0
            self._store(answer)
        if due:
            self._tools = None if has_answer else "tool failed"
        ready()
        return self._tools

    def _store(self, answer: Answer) -> None:
        """Write an answer; what a tool that failed wrote is no complete one."""
        result = "OK" if answer.status == 0 else ""
        stamps = (answer.asked_ns, answer.answered_ns)
        self._log.answer(CommandAnswer(answer.command, answer.raw, result, *stamps, answer.lost_bytes))

    def _every(self, ask: Ask) -> int:
        return ask.every if self._refused.get(ask.command, 0) < _REFUSALS else _SELDOM * ask.every


def capture(program: list[str], chosen: argparse.Namespace, stop: Stop) -> None:
    """Write what the machine's tcpdump captures to `-o`, until stopped.

    Raises
    ------
    CollectorError
        If the connection or tcpdump ends by itself.
    """
    if not _INTERFACE.fullmatch(chosen.interface):
        raise InputError(f"--interface {chosen.interface}: this is no name of an interface; correct it")
    command = _CAPTURE.format(interface=chosen.interface, snap=chosen.snap)
    with Log(chosen.output):  # created here: an existing file is never overwritten
        pass
    with open(chosen.output, "ab") as file:  # noqa: PTH123  # of a path that may be a pipe
        child = subprocess.Popen(
            [*program[:-1], bound_to_input(command)], stdin=subprocess.PIPE, stdout=file, stderr=subprocess.PIPE,
            preexec_fn=end_with_parent,  # noqa: PLW1509  # this process has one thread
        )  # fmt: skip
    assert child.stdin is not None
    assert child.stderr is not None
    os.set_blocking(child.stdin.fileno(), False)
    os.set_blocking(child.stderr.fileno(), False)
    beat_ns = time.monotonic_ns() + BEAT_NS
    is_file = stat.S_ISREG(os.stat(chosen.output).st_mode)  # noqa: PTH116
    try:
        while stop.wait(time.monotonic_ns() + _LOOK_NS):
            if not is_file or os.stat(chosen.output).st_size:  # noqa: PTH116
                ready()
            if child.poll() is not None:
                words = (child.stderr.read(1 << 16) or b"").decode("utf-8", "replace").strip().splitlines()
                raise CollectorError(f"{program[-2]}: the capture ended: {words[-1][:200] if words else 'no reason'}")
            if time.monotonic_ns() >= beat_ns:
                beat_ns = time.monotonic_ns() + BEAT_NS
                beat(child.stdin)
    finally:
        child.terminate()
        child.wait()
        with suppress(OSError):  # what was buffered is of no use to a child that has ended
            child.stdin.close()
        if is_file and not os.stat(chosen.output).st_size:  # noqa: PTH116
            chosen.output.unlink()  # not even the header of a capture came
        child.stderr.close()


def _options(argv: Sequence[str]) -> argparse.Namespace:
    options = parser(__doc__, traffic=False)
    options.add_argument("--to", required=True, metavar="HOST", help="the machine, as ssh takes it: root@192.168.1.1")
    options.add_argument("--ssh", default="ssh", metavar="PATH", help="the program ssh; default: that of PATH")
    options.add_argument("--host", default="", metavar="NAME", help="its name in the session; default: its address")
    options.add_argument("--hz", type=rate_hz, default=1.0, help="number of rounds per second; default 1")
    known = ", ".join(profiles("remote"))
    options.add_argument("--profile", help=f"profile of the machine: {known}, or a .toml file; default: detected")
    options.add_argument("--packets", action="store_true", help="capture packets there, instead of reading the modem")
    options.add_argument("--interface", default="any", help="with --packets: interface to capture on; default: any")
    options.add_argument("--snap", type=_snap, default=192, help="with --packets: bytes of each packet; default 192")
    return options.parse_args(argv)


def _snap(text: str) -> int:
    return int(number(text, 64, 65535))


def main(argv: Sequence[str]) -> None:
    """Record until stopped."""
    chosen = _options(argv)
    if not _TARGET.fullmatch(chosen.to):
        raise InputError(f"--to {chosen.to}: this is no host for ssh; give HOST or USER@HOST")
    check_ssh(chosen.ssh)
    program = [chosen.ssh, *_OPTIONS, "--", chosen.to.replace("[", "").replace("]", ""), "sh"]
    stopping = Stop(duration_ns=chosen.duration, outlive_parent=chosen.outlive_parent, tags=chosen.tags)
    if chosen.packets:
        if chosen.output is None:
            raise InputError("remote: no output file was given; give -o FILE with --packets")
        with stopping as stop:
            capture(program, chosen, stop)
        return
    profile = chosen_profile(chosen.profile, "remote") if chosen.profile else None
    with stopping as stop, Log(chosen.output) as log:
        log.record(**header("multitracer-modem", chosen, hz=chosen.hz, devices=[chosen.to], tool="ssh"))
        stop.on_tag = log.sync_probe
        modem_log = ModemLog(log)
        modem_log.clock()
        modem = RemoteModem(
            program, host=chosen.host or chosen.to.rpartition("@")[2], profile=profile, log=modem_log, stop=stop
        )
        try:
            record(modem, modem_log, stop, hz=chosen.hz)
        finally:
            modem.close()


def check_ssh(ssh: str = "ssh") -> None:
    """Raise PreflightError if the program is not there."""
    if shutil.which(ssh) is None:
        raise PreflightError(f"{ssh}: not installed; run `apt install openssh-client`")


COLLECTOR = Collector(
    name="remote",
    layer="radio",
    description="a router or another machine through ssh: its modem, its clock, its packets",
    log_format="modem",
    suffix=".jsonl",
    check=check_ssh,
)

if __name__ == "__main__":
    run(main)
