"""Reads a modem once a second: signal, cell, technology, and the values of its vendor's commands.

The serial port is locked for this program. The commands come from a profile (collectors/profiles), which is
found by the identification of the modem. Where ModemManager owns the port, `--tool mmcli` or `--tool qmicli`
asks through it. A modem that is silent, busy, unplugged or answers nonsense does not end the recording: the
time without an answer is a gap with its reason, and the port is searched again under all its possible names.

The log is JSON lines, times are those of CLOCK_MONOTONIC. First a header, then in order of time:

- `answer`: a command, the two stamps around its answer, the answer `raw` (one character for each octet) with
  its final `result`, and what is `shown` of it for people; readers decode `raw` again,
- `unsolicited`: lines that the modem sent by itself, such as RING or a change of its cell,
- `port`: opened or lost; `modem`: its identification, and the profile that fits,
- `missed`: a round of commands that had no answer, and why,
- `clock`, each second and at the end: the two clocks, and how many rounds were made and missed so far,
- `end`: why it ended. A log without it was cut off.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from collectors._collector import Collector
from collectors._line import ANYWHERE, BAUD, CommandPort, NoPortError, Port, candidates, check_pyserial
from collectors._log import Log, clock_reading
from collectors._options import header, parser, rate_hz, run
from collectors._profiles import chosen_profile, matching, profiles
from collectors._ready import Schedule, ready
from collectors._stop import Stop
from multitracer.errors import PreflightError
from multitracer.protocols.modem.conversation import CommandAnswer
from multitracer.protocols.modem.decode import decode, tells
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from collectors._profiles import Ask, Profile
    from multitracer.protocols.modem.conversation import Unsolicited


# Reads a modem with the tools of ModemManager or libqmi, which share the port with other programs.


TOOLS = ("mmcli", "qmicli")
_PATIENCE_NS = 5 * NS_PER_S
_MOST_BYTES = 1 << 16
_LIST_S = 3.0
_OBJECT = re.compile(rb"/org/freedesktop/ModemManager1/Modem/\d+")


class AnswerLog(Protocol):
    """The log to which answers are written."""

    def answer(self, answer: CommandAnswer) -> None:
        """Write an answer."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A command-line tool, and the modem that it reads."""

    name: str
    modem: str

    def commands(self) -> tuple[list[str], list[str]]:
        """Return the commands that run once at the start, and those that run in each round."""
        if self.name == "mmcli":
            about = ["mmcli", "-m", self.modem]
            return [*about, "--signal-setup=1"], [*about, "--signal-get", "-J"]
        device = "/dev/cdc-wdm0" if self.modem == "any" else self.modem
        about = ["qmicli", "-d", device, "--device-open-proxy"]
        return [*about, "--get-service-version-info"], [*about, "--nas-get-signal-info"]


class PolledModem(Protocol):
    """What `record` polls: a modem at a port, behind a tool, or of another machine."""

    def ask_all(self) -> str | None:
        """Ask the questions of a round; return the reason if there was no answer, else None."""

    def listen(self, until_ns: int) -> bool:
        """Wait until a time; return False if the collector must end."""


class ToolModem:
    """A modem that a tool reads; it has the methods of a SerialModem.

    Raises
    ------
    PreflightError
        If the tool is not installed.
    """

    def __init__(self, tool: Tool, log: AnswerLog, stop: Stop) -> None:
        if shutil.which(tool.name) is None:
            package = {"mmcli": "modemmanager", "qmicli": "libqmi-utils"}[tool.name]
            raise PreflightError(f"{tool.name} is not installed; run `apt install {package}`")
        self._first, self._each = tool.commands()
        self._log = log
        self._stop = stop
        self._is_ready = False

    def ask_all(self) -> str | None:
        """Run the tool; return the reason if there was no answer, else None."""
        if not self._is_ready:
            self._is_ready = self._run(self._first) is None
        why = self._run(self._each)
        if why is None:
            ready()
        return why

    def listen(self, until_ns: int) -> bool:
        """Wait until a time; return False if the collector must end."""
        return self._stop.wait(until_ns)

    def _run(self, command: list[str]) -> str | None:
        asked_ns = time.monotonic_ns()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            output, is_complete = self._output_of(child, asked_ns + _PATIENCE_NS)
        finally:
            child.kill()
            child.wait()
            assert child.stdout is not None
            child.stdout.close()
        result = "OK" if is_complete and child.returncode == 0 else ""
        if output:
            answer = CommandAnswer(" ".join(command), output, result, asked_ns, time.monotonic_ns())
            self._log.answer(answer)
        if not is_complete:
            return "silent"
        return None if result else "tool failed"

    def _output_of(self, child: subprocess.Popen[bytes], until_ns: int) -> tuple[bytes, bool]:
        """Return the output of the tool, and whether it is complete."""
        assert child.stdout is not None
        output = b""
        while self._stop.wait(until_ns, readable=[child.stdout.fileno()]) and time.monotonic_ns() < until_ns:
            chunk = os.read(child.stdout.fileno(), _MOST_BYTES)
            if not chunk:
                return output, _has_ended(child)
            output = (output + chunk)[:_MOST_BYTES]
        return output, False


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    try:
        child.wait(1.0)
    except subprocess.TimeoutExpired:
        return False
    return True


def manages_a_modem() -> str | None:
    """Return "mmcli" if ModemManager runs and has a modem, otherwise None."""
    if shutil.which("mmcli") is None:
        return None
    try:
        done = subprocess.run(["mmcli", "-L"], capture_output=True, check=False, timeout=_LIST_S)
    except subprocess.TimeoutExpired:
        return None
    return "mmcli" if _OBJECT.search(done.stdout) else None


_REFUSALS = 3
"""Consecutive refusals after which a command is sent less often."""
_SELDOM = 30
_CLOCK_NS = NS_PER_S * 9 // 10
"""Interval of clock records: shorter than a round, so that each second has one."""
_MOST_IDENTITY = 500
_KNOCK_NS = 10 * NS_PER_S


class ModemLog:
    """The log of one run: answers, gaps, and the clocks."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.reads = 0
        self.missed = 0
        self._clock_ns = 0
        self._answered_ns = 0

    def record(self, kind: str, **fields: object) -> None:
        """Write one record."""
        self._log.record(kind=kind, **fields)

    def answer(self, answer: CommandAnswer) -> None:
        """Write an answer, complete or not, unless it is empty."""
        if not answer.raw and not answer.result:
            return
        if answer.result:
            self._answered_ns = answer.answered_ns
        more = {"lost_bytes": answer.lost_bytes} if answer.lost_bytes else {}
        self._log.record(
            kind="answer",
            read=self.reads,
            command=answer.command,
            asked_ns=answer.asked_ns,
            answered_ns=answer.answered_ns,
            result=answer.result,
            raw=answer.raw.decode("latin-1"),
            shown=decode(answer.command, answer.raw).readings if answer.result else [],
            **more,
        )

    def unsolicited(self, unsolicited: Unsolicited) -> None:
        """Write an unsolicited line."""
        self._log.record(kind="unasked", at_ns=unsolicited.at_ns, raw=unsolicited.raw.decode("latin-1"))

    def port(self, state: str, path: str, **more: str) -> None:
        """Write that a port was opened or lost."""
        self._log.record(kind="port", at_ns=time.monotonic_ns(), state=state, port=path, **more)

    def miss(self, count: int, *, since_ns: float, why: str) -> None:
        """Write a record on rounds that had no answer, or only an incomplete answer."""
        self.missed += count
        since = max(round(since_ns), self._answered_ns)
        until_ns = time.monotonic_ns()
        self._log.record(kind="missed", count=count, since_ns=since, until_ns=until_ns, why=why)

    def clock(self, *, at_once: bool = False) -> None:
        """Write both clocks, once a second."""
        if at_once or time.monotonic_ns() >= self._clock_ns:
            self._clock_ns = time.monotonic_ns() + _CLOCK_NS
            self._log.record(kind="clock", **clock_reading(), reads=self.reads, missed=self.missed)


class SerialModem:
    """A modem at one of several ports; the port may change.

    Parameters
    ----------
    chosen : Namespace
        The options: device, baud, timeout.
    profile : Profile, optional
        The commands; by default found by the identification of the modem.
    log, stop
        The log, and the condition that ends the run.
    """

    def __init__(self, chosen: argparse.Namespace, *, profile: Profile | None, log: ModemLog, stop: Stop) -> None:
        self._names = tuple(chosen.device or ANYWHERE)
        self._baud = chosen.baud or (profile and profile.baud) or BAUD
        self._patience_s = chosen.timeout
        self._given = profile
        self._log = log
        self._stop = stop
        self._is_chosen = bool(chosen.device)
        self._line: CommandPort | None = None
        self._last_path = ""
        self._look_ns = 0
        self._identity = ""
        self._profile = profile
        self._refused: dict[str, int] = {}
        self._round = 0

    def ask_all(self) -> str | None:
        """Send the commands of this round; return the reason if there was no answer, else None."""
        try:
            line = self._line or self._connect()
            if not line.is_settled and not line.settle():
                return "silent"
            if self._profile is None or not self._identity:
                self._meet(line)
            return self._ask_due(line)
        except NoPortError as error:
            if self._line is not None:
                self._log.record("port", at_ns=time.monotonic_ns(), state="lost", port=error.path, why=error.why)
            self.close()
            return error.why

    def listen(self, until_ns: int) -> bool:
        """Take unsolicited lines until an instant; return whether to go on."""
        try:
            return self._line.listen(until_ns) if self._line else self._stop.wait(until_ns)
        except NoPortError:
            return self._stop.wait(until_ns)  # the next round says so

    def close(self) -> None:
        """Close the port, so that other programs can use it."""
        if self._line is not None:
            self._line.port.close()
        self._line = None
        self._identity = ""
        self._profile = self._given

    def _connect(self) -> CommandPort:
        """Return a connection to the first port that answers; a single given port need not answer."""
        if time.monotonic_ns() < self._look_ns:
            raise NoPortError(self._names[0], "no modem")
        paths = candidates(self._names)
        paths.sort(key=lambda path: path != self._last_path)
        failure = NoPortError(self._names[0], "unplugged")
        for path in paths:
            try:
                line = self._open(path)
            except NoPortError as error:
                failure = error
                continue
            if not (self._is_chosen and len(paths) == 1) and not _answers(line):
                line.port.close()
                failure = NoPortError(path, "silent")
                continue
            self._line, self._last_path = line, path
            self._log.port("opened", path)
            ready()
            return line
        if not self._is_chosen:  # they may be others' ports; do not keep knocking
            self._look_ns = time.monotonic_ns() + _KNOCK_NS
        raise failure

    def _open(self, path: str) -> CommandPort:
        port = Port(path, baud=self._baud)
        return CommandPort(port, self._stop, on_unsolicited=self._log.unsolicited, patience_s=self._patience_s)

    def _meet(self, line: CommandPort) -> None:
        """Identify the modem, select its profile, and send the initial commands."""
        identity = []
        for answer in line.introduce():
            self._log.answer(answer)
            if answer.command != "ATE0":
                identity.append(answer.raw.decode("latin-1"))
        self._identity = " ".join(" ".join(identity).split())[:_MOST_IDENTITY] or "unknown"
        self._profile = self._given or matching(self._identity)
        self._refused = {}
        self._round = 0
        facts = {"port": line.port.path, "says": self._identity, "profile": self._profile.name}
        self._log.record("modem", at_ns=time.monotonic_ns(), **facts)
        for command in self._profile.init:
            self._log.answer(line.ask(command, timeout_s=2.0))

    def _ask_due(self, line: CommandPort) -> str | None:
        assert self._profile is not None
        due = [ask for ask in self._profile.asks if self._is_due(ask)]
        self._round += 1
        for ask in due:
            if self._stop.reason is not None:
                return None
            answer = line.ask(ask.command, timeout_s=ask.timeout_s)
            self._log.answer(answer)
            if not answer.result:
                return "unintelligible" if answer.raw.strip() else "silent"
            if ask is due[0] and not tells(answer):  # the end of an answer to something asked long ago
                line.is_settled = False
                return "unintelligible"
            refused = answer.result != "OK"
            self._refused[ask.command] = self._refused.get(ask.command, 0) + 1 if refused else 0
        return None

    def _is_due(self, ask: Ask) -> bool:
        every = ask.every if self._refused.get(ask.command, 0) < _REFUSALS else _SELDOM * ask.every
        return self._round % every == 0


def _answers(line: CommandPort) -> bool:
    """Return whether the modem answers one of two attempts; False if the port disappears."""
    try:
        return line.settle() or line.settle()
    except NoPortError:
        return False


def record(modem: PolledModem, log: ModemLog, stop: Stop, *, hz: float) -> None:
    """Poll the modem at the times of the schedule, until `stop` ends the run."""
    schedule = Schedule(hz=hz, poisson=False, start_ns=time.monotonic_ns())
    stop.on_set = partial(log.clock, at_once=True)
    while modem.listen(math.ceil(schedule.due_ns)):
        due_ns = schedule.due_ns
        log.reads += 1
        why = modem.ask_all()
        late = schedule.advance(time.monotonic_ns())
        if stop.reason is not None:
            break
        if why is not None:
            log.miss(1 + late, since_ns=due_ns, why=why)
        elif late:
            log.miss(late, since_ns=due_ns, why="late")
        log.clock()
    log.clock(at_once=True)
    log.record("end", reason=stop.reason, reads=log.reads, missed=log.missed)


def _options(argv: Sequence[str]) -> argparse.Namespace:
    options = parser(__doc__, traffic=False)
    options.add_argument("--hz", type=rate_hz, default=1.0, help="number of polls of the modem per second; default 1")
    options.add_argument(
        "--device",
        action="append",
        metavar="PORT",
        help="serial port of the modem, a pattern of ports, or usb:SERIALNUMBER; repeatable, the "
        f"first port that answers is used; default {' '.join(ANYWHERE)}",
    )
    options.add_argument("--baud", type=int, help=f"speed of the serial line, in baud; default {BAUD}")
    options.add_argument(
        "--profile",
        metavar="NAME",
        help=f"profile of the modem: {', '.join(profiles())}, or a .toml file; default: detected",
    )
    options.add_argument(
        "--timeout",
        type=float,
        default=math.inf,
        metavar="SECONDS",
        help="wait at most this time for an answer of the modem, in seconds; default: from the profile, else 2",
    )
    options.add_argument("--tool", choices=TOOLS, help="query the modem with this tool instead of a serial port")
    options.add_argument("--modem", default="any", help="with --tool: modem number for mmcli, or device for qmicli")
    return options.parse_args(argv)


def main(argv: Sequence[str]) -> None:
    """Record until stopped."""
    chosen = _options(argv)
    profile = chosen_profile(chosen.profile) if chosen.profile else None
    tool = chosen.tool or (None if chosen.device else manages_a_modem())
    if tool is None:
        check_pyserial()
    with (
        Stop(duration_ns=chosen.duration, outlive_parent=chosen.outlive_parent, tags=chosen.tags) as stop,
        Log(chosen.output) as log,
    ):
        log.record(**header("multitracer-modem", chosen, hz=chosen.hz, devices=chosen.device, tool=tool))
        stop.on_tag = log.sync_probe
        modem_log = ModemLog(log)
        modem_log.clock()
        if tool is not None:
            record(ToolModem(Tool(tool, chosen.modem), modem_log, stop), modem_log, stop, hz=chosen.hz)
            return
        modem = SerialModem(chosen, profile=profile, log=modem_log, stop=stop)
        try:
            record(modem, modem_log, stop, hz=chosen.hz)
        finally:
            modem.close()


def check() -> None:
    """Raise PreflightError if there is no modem, or the user has no permission to use it."""
    if manages_a_modem():
        return
    check_pyserial()
    paths = candidates(ANYWHERE)
    if not paths:
        raise PreflightError(f"no modem found: no serial port matches {' '.join(ANYWHERE)}; connect the modem")
    for path in paths:
        try:
            Port(path).close()
        except NoPortError as error:
            hint = "; `sudo usermod -aG dialout $USER`, then log in again" if "permitted" in error.why else ""
            raise PreflightError(f"{path}: cannot open this serial port: {error.why}{hint}") from error


COLLECTOR = Collector(
    name="modem",
    layer="radio",
    description="radio of a modem: RSSI, BLER, RSRP, RSRQ, SINR, cell, technology",
    log_format="modem",
    suffix=".jsonl",
    check=check,
)

if __name__ == "__main__":
    run(main)
