"""A modem on a pseudo-terminal: `python -m multitracer.lab.rehearsal.modem --link PORT`.

It answers as slowly as a real modem, in the format of a vendor (`--profile`). Events come from `--script`, or from
standard input with `--control`: JSON objects, one per line; each is repeated on standard output when it is done.

- `{"set": {"rssi_dbm": -90, …}}`: the values from now on, in columns of the table `radio`; null for unknown,
- `{"do": "say", "text": "RING"}`: an unsolicited line, in the middle of an answer if one is being sent,
- `{"do": "garbage", "bytes": 300}`: noise,
- `{"do": "silent"}`, `{"do": "stall"}`, `{"do": "speak"}`: stops answering; delays answers; answers again,
- `{"do": "unplug"}`, `{"do": "plug", "link": "OTHER PORT"}`: the cable.

A script is a TOML file with the same events as `[[event]]`, each with `at_s`. The program ends with its standard input.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from collectors._options import parser, run
from collectors._stop import Stop
from multitracer.errors import InputError
from multitracer.lab.rehearsal._terminal import Terminal, remove_folder, say_back
from multitracer.lab.rehearsal.journey import BundledDrive, Journey, SetValues
from multitracer.units import BITS_PER_BYTE, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Values = Mapping[str, Any]
    Voice = Callable[[str, Values], list[str] | None]
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from multitracer.schemas.schema import Document

# How modems of different vendors report the same radio; the decoders of `protocols.modem` read it back.
#
# A command that a modem does not know is refused. Values that are missing are said as the vendor says them:
# 99, 255, a dash.


_PLMN = ("001", "01")
"""Country and network code of a test network (ITU-T E.212)."""


def _bin(values: Values, name: str, *, zero: float, step: float, most: int, missing: int) -> int:
    value = values.get(name)
    return missing if value is None else min(most, max(0, round((value - zero) / step)))


def _complete(values: Values, name: str, missing: str = "-") -> str:
    value = values.get(name)
    return missing if value is None else str(round(value))


def _hex(values: Values, name: str, missing: str = "-") -> str:
    value = values.get(name)
    return missing if value is None else f"{value:X}"


def _csq(values: Values) -> str:
    rssi = _bin(values, "rssi_dbm", zero=-113, step=2, most=31, missing=99)
    return f"+CSQ: {rssi},{values.get('rxqual', 99)}"


def _cesq(values: Values) -> str:
    rsrq = _bin(values, "rsrq_db", zero=-20, step=0.5, most=34, missing=255)
    rsrp = _bin(values, "rsrp_dbm", zero=-141, step=1, most=97, missing=255)
    return f"+CESQ: 99,99,255,255,{rsrq},{rsrp}"


def _registration(name: str, values: Values) -> str:
    stat = values.get("registration", 0)
    if "cell_id" not in values:
        return f"{name}: 2,{stat}"
    return f'{name}: 2,{stat},"{values.get("area_code", 0):04X}","{values["cell_id"]:08X}",7'


def standard(command: str, values: Values) -> list[str] | None:
    """Return the answer to a command of TS 27.007; None if the command is unknown."""
    if command == "AT+CSQ":
        return [_csq(values)]
    if command == "AT+CESQ":
        return [_cesq(values)]
    if command in ("AT+CREG?", "AT+CGREG?", "AT+CEREG?"):
        return [_registration(command[2:-1], values)]
    if command == "AT+COPS?":
        return ['+COPS: 0,0,"Rehearsal",7'] if "cell_id" in values else ["+COPS: 0"]
    return [] if command in ("AT+CREG=2", "AT+CGREG=2", "AT+CEREG=2", "AT+CSCON=1") else None


def quectel(command: str, values: Values) -> list[str] | None:
    """Return the lines that a Quectel RM500 answers to a command; None if the command is unknown."""
    if command == 'AT+QENG="servingcell"':
        if "cell_id" not in values:
            return ['+QENG: "servingcell","SEARCH"']
        cell, pci = _hex(values, "cell_id"), _complete(values, "physical_cell_id")
        area, channel = _hex(values, "area_code"), _complete(values, "channel")
        levels = ",".join(_complete(values, f"{n}") for n in ("rsrp_dbm", "rsrq_db", "rssi_dbm", "sinr_db"))
        network = f"{_PLMN[0]},{_PLMN[1]}"
        where = f"{network},{cell},{pci},{channel},3,5,5,{area}"
        state = values.get("connection", "NOCONN")
        return [f'+QENG: "servingcell","{state}","LTE","FDD",{where},{levels},9,-,20']
    if command == "AT+QCSQ":
        if "rsrp_dbm" not in values:
            return ['+QCSQ: "NOSERVICE"']
        sinr = _bin(values, "sinr_db", zero=-20, step=0.2, most=250, missing=0)
        rssi, rsrp, rsrq = (_complete(values, n) for n in ("rssi_dbm", "rsrp_dbm", "rsrq_db"))
        return [f'+QCSQ: "LTE",{rssi},{rsrp},{sinr},{rsrq}']
    return standard(command, values)


def sierra(command: str, values: Values) -> list[str] | None:
    """Return the lines that a Sierra MC7455 answers: names and values, separated by TABs.

    None if the command is unknown.
    """
    if command != "AT!GSTATUS?":
        return standard(command, values)
    page = ["!GSTATUS: ", "Current Time:  22016\t\tTemperature: 40"]
    if "cell_id" not in values:
        return [*page, "System mode:   None       \tPS state:    Not attached "]
    rssi, rsrp, rsrq = (_complete(values, name) for name in ("rssi_dbm", "rsrp_dbm", "rsrq_db"))
    return [
        *page,
        "System mode:   LTE        \tPS state:    Attached     ",
        f"LTE band:      B3     \t\tLTE bw:      10 MHz  \r\nLTE Rx chan:   {_complete(values, 'channel')}",
        f"PCC RxM RSSI:  {rssi}\t\tRSRP (dBm):  {rsrp}",
        f"Tx Power:      --\t\tTAC:         {values['area_code']:04X} ({values['area_code']})",
        f"RSRQ (dB):     {rsrq}\t\tCell ID:     {values['cell_id']:08X} ({values['cell_id']})",
        f"SINR (dB):     {values.get('sinr_db', 0.0):.1f}",
    ]


def ublox(command: str, values: Values) -> list[str] | None:
    """Return the lines that a u-blox SARA-R5 answers to a command; None if the command is unknown."""
    if command == "AT+UCGED=2":
        return []
    if command != "AT+UCGED?":
        return standard(command, values)
    if "cell_id" not in values:
        return ["+UCGED: 2"]
    rsrp = _bin(values, "rsrp_dbm", zero=-141, step=1, most=97, missing=255)
    rsrq = _bin(values, "rsrq_db", zero=-19.5, step=0.5, most=46, missing=255)
    cell = f"{_complete(values, 'channel')},3,50,50,{values['area_code']:x},{values['cell_id']:x}"
    rest = f"d60814d1,8001,01,{rsrp},{rsrq},{values.get('sinr_db', 0.0):.2f},3,1,10,28,-50,-6,0,255,255,0"
    return ["+UCGED: 2", f"6,4,{_PLMN[0]},{_PLMN[1]}", f"{cell},{_complete(values, 'physical_cell_id')},{rest}"]


def telit(command: str, values: Values) -> list[str] | None:
    """Return the lines that a Telit LE910 answers to a command; None if the command is unknown.

    The subscriber is that of a test card.
    """
    if command == "AT#MONI=7":
        return []
    if "cell_id" not in values or command not in ("AT#RFSTS", "AT#SERVINFO", "AT#MONI"):
        return standard(command, values)
    rsrp, rssi, rsrq = (_complete(values, name) for name in ("rsrp_dbm", "rssi_dbm", "rsrq_db"))
    area, cell, channel = _hex(values, "area_code"), _hex(values, "cell_id"), _complete(values, "channel")
    network = " ".join(_PLMN)
    if command == "AT#RFSTS":
        rest = f'255,-5,128,19,2,{cell},"001010123456789","Rehearsal",3,2'
        return [f'#RFSTS: "{network}",{channel},{rsrp},{rssi},{rsrq},{area},{rest}']
    if command == "AT#SERVINFO":
        return [f'#SERVINFO: {channel},{rssi},"Rehearsal","{"".join(_PLMN)}",{cell},{area},128,3,{rsrp}']
    name = f"RSRP:{rsrp} RSRQ:{rsrq} TAC:{area} Id:{cell} EARFCN:{channel} PWR:{rssi}dbm DRX:128"
    return [f"#MONI: Rehearsal {name}"]


def simcom(command: str, values: Values) -> list[str] | None:
    """Return the lines that a SIMCom SIM7600 answers to a command; None if the command is unknown."""
    if command != "AT+CPSI?":
        return standard(command, values)
    if "cell_id" not in values:
        return ["+CPSI: NO SERVICE,Online"]
    where = f"{'-'.join(_PLMN)},0x{values['area_code']:04X},{values['cell_id']}"
    tenths = ",".join(str(round(values[name] * 10)) for name in ("rsrq_db", "rsrp_dbm", "rssi_dbm"))
    channel = f"{_complete(values, 'physical_cell_id')},EUTRAN-BAND3,{_complete(values, 'channel')}"
    return [f"+CPSI: LTE,Online,{where},{channel},5,5,{tenths},15"]


def cdpd(command: str, values: Values) -> list[str] | None:
    """Return the lines that a Sierra AirCard for CDPD answers; None if the command is unknown.

    They also contain the busy time of the channel, which a real AirCard does not report.
    """
    if command == "AT+WPRSSI":
        registered = int(values.get("registration") == 1)
        state, channel = (3, values.get("channel", 0)) if registered else (1, 0)
        return [f"{_complete(values, 'rssi_dbm', '-113')},{state},{registered},{channel}"]
    if command == "ATS112?":
        return [f"{round(values['bler_pct']):03d}" if "bler_pct" in values else "-"]
    if command == "AT*MTBUSY":
        return [f"*MTBUSY: {values['cell_busy_pct']:.1f}" if "cell_busy_pct" in values else "*MTBUSY: -"]
    return None


def link(command: str, values: Values) -> list[str] | None:
    """Return one line with the radio values of the modelled link; None for any other command.

    No real modem has this command.
    """
    if command != "AT*MTLINK?":
        return standard(command, values)
    parts = (values.get(name) for name in ("rssi_dbm", "bler_pct", "cell_busy_pct"))
    levels = ",".join("-" if part is None else f"{part:.1f}" for part in parts)
    channel, registered = _complete(values, "channel"), _complete(values, "registration")
    ecio = values.get("ecio_db")
    pilot = "" if ecio is None else f",{ecio:.2f}"
    return [f"*MTLINK: {values.get('rat', '')},{levels},{channel},{registered}{pilot}"]


VOICES: dict[str, tuple[str, Voice]] = {
    "3gpp": ("Rehearsal\r\nPlain modem", standard),
    "quectel": ("Quectel\r\nRM500Q-GL", quectel),
    "sierra": ("Sierra Wireless, Incorporated\r\nMC7455", sierra),
    "ublox": ("u-blox\r\nSARA-R510S", ublox),
    "telit": ("Telit\r\nLE910C1-EUX", telit),
    "simcom": ("SIMCOM INCORPORATED\r\nSIMCOM_SIM7600E-H", simcom),
    "rehearsal_link": ("MultiTracer rehearsal link\r\nModem", link),
    "rehearsal_cdpd": ("MultiTracer rehearsal CDPD\r\nAirCard", cdpd),
}
"""Identification and answer function of each modem, by profile."""


def answer(profile: str, command: str, values: Values) -> list[str] | None:
    """Return the lines of an answer without its final result; None if the modem refuses the command."""
    identity, voice = VOICES[profile]
    maker, _, model = identity.partition("\r\n")
    if command in ("AT", "ATE0"):
        return []
    if command in ("ATI", "AT+CGMI", "AT+CGMM"):
        return {"ATI": [maker, model], "AT+CGMI": [maker], "AT+CGMM": [model]}[command]
    return voice(command, values)


_LONGEST_COMMAND = 512
_BITS_PER_OCTET = BITS_PER_BYTE + 2
"""Bits on the line per octet, with start and stop bit."""
_CHUNK_BYTES = 32
_STANDARD_INPUT = 0


class Provider(Protocol):
    """Interface of an object that returns the radio values at a time."""

    def values(self, elapsed_s: float) -> Mapping[str, object]:
        """Return the radio values after some seconds, by column of RADIO."""


class FakeModem:
    """A simulated modem: receives commands, and returns octets at the times at which a real modem sends them.

    Parameters
    ----------
    profile : str
        Name of a profile in VOICES.
    provider : Provider
        Provides the radio values at the time of an answer.
    seed : int
        Random seed of delays and noise.
    delay_s : tuple of float
        Minimum and maximum time until an answer begins, s.
    baud : int
        Bit rate of the line.
    chatter : float
        Probability of an unsolicited line between two lines of an answer.
    """

    def __init__(
        self,
        profile: str,
        provider: Provider,
        *,
        seed: int = 1,
        delay_s: tuple[float, float] = (0.02, 0.08),
        baud: int = 115_200,
        chatter: float = 0.0,
    ) -> None:
        self._profile = profile
        self._provider = provider
        self._random = random.Random(seed)  # noqa: S311  # a rehearsal is to be repeated
        self._delay_s = delay_s
        self._octet_ns = _BITS_PER_OCTET * NS_PER_S / baud
        self._chatter = chatter
        self._typed = b""
        self._echo = True
        self._to_say: list[tuple[float, bytes]] = []
        self._free_ns = 0.0
        self.mood = "speak"
        """Mode: speak, silent (commands are lost) or stall (commands are answered later, in mode speak)."""
        self._stalled: list[list[bytes]] = []

    def receive(self, data: bytes, now_ns: int, *, elapsed_s: float) -> None:
        """Process octets that a program wrote to the port."""
        *commands, rest = (self._typed + data).replace(b"\n", b"\r").split(b"\r")
        self._typed = rest[-_LONGEST_COMMAND:]
        for command in commands:
            text = command.decode("latin-1").strip()
            if not text or self.mood == "silent":
                continue
            parts = self._answer(text, elapsed_s)
            if self.mood == "stall":
                self._stalled.append(parts)
            else:
                self._begin(parts, now_ns)

    def speak(self, now_ns: int) -> None:
        """Answer again: send the answers to all commands that arrived since the event `stall`."""
        self.mood = "speak"
        stalled, self._stalled = self._stalled, []
        for parts in stalled:
            self._begin(parts, now_ns)

    def say(self, text: str, now_ns: int) -> None:
        """Send an unsolicited line now, also between two lines of an answer."""
        begins = [n for n, (_, chunk) in enumerate(self._to_say) if chunk.startswith(b"\r\n")]
        at = begins[0] if begins else len(self._to_say)
        due_ns = self._to_say[at][0] if begins else now_ns
        self._to_say.insert(at, (due_ns, f"\r\n{text}\r\n".encode("latin-1", "replace")))

    def noise(self, count: int, now_ns: int) -> None:
        """Send `count` random octets."""
        self._queue(self._random.randbytes(min(count, 1 << 20)), now_ns)

    def due(self, now_ns: int) -> Iterator[bytes]:
        """Yield the octets whose time of sending is not after `now_ns`."""
        while self._to_say and self._to_say[0][0] <= now_ns:
            yield self._to_say.pop(0)[1]

    @property
    def next_ns(self) -> float | None:
        """Time at which the next octets are due; None if none are queued."""
        return self._to_say[0][0] if self._to_say else None

    def _answer(self, command: str, elapsed_s: float) -> list[bytes]:
        """Return the chunks of the answer to a command: the echo, the lines, and the final result."""
        echo = f"{command}\r".encode("latin-1") if self._echo else b""
        lines = answer(self._profile, command, self._provider.values(elapsed_s))
        if command == "ATE0":
            self._echo = False
        body = [f"\r\n{line}\r\n".encode("latin-1") for line in lines or []]
        return [echo, *body, b"\r\nERROR\r\n" if lines is None else b"\r\nOK\r\n"]

    def _begin(self, parts: list[bytes], now_ns: int) -> None:
        """Schedule an answer after the modem's delay, which counts from the end of the previous answer."""
        begin_ns = max(now_ns, self._free_ns) + self._random.uniform(*self._delay_s) * NS_PER_S
        for part in parts:
            if len(parts) > 2 and self._random.random() < self._chatter:
                self._queue(b"\r\nRING\r\n", begin_ns)
            self._queue(part, begin_ns)

    def _queue(self, data: bytes, begin_ns: float) -> None:
        """Schedule octets from `begin_ns` on, at the bit rate of the line."""
        self._free_ns = max(self._free_ns, begin_ns)
        for at in range(0, len(data), _CHUNK_BYTES):
            chunk = data[at : at + _CHUNK_BYTES]
            self._free_ns += len(chunk) * self._octet_ns
            self._to_say.append((self._free_ns, chunk))


class JourneyAndSet:
    """The radio values of a journey, and over them those that events set."""

    def __init__(self, journey: Journey, over: SetValues) -> None:
        self._journey, self._over = journey, over

    def values(self, elapsed_s: float) -> Mapping[str, object]:
        """Return the radio values after some seconds, by column of RADIO."""
        return {**self._journey.values(elapsed_s), **self._over.values(elapsed_s)}


class RehearsedModem:
    """A simulated modem with its port; it executes events for the modem and for the port."""

    def __init__(
        self,
        modem: FakeModem,
        values: SetValues,
        link: Path,
        stop: Stop,
        *,
        zero_ns: int | None = None,
        states: Path | None = None,
    ) -> None:
        self._modem = modem
        self._values = values
        self._link = link
        self._stop = stop
        self._terminal: Terminal | None = Terminal(link)
        self._began_ns = time.monotonic_ns() if zero_ns is None else zero_ns
        self._control = b""
        self._states, self._pipe = states, None if states is None else _opened_pipe(states)

    def run(self, events: list[Document], *, control: bool) -> None:
        """Answer commands until `stop` returns true, or until the end of standard input."""
        if control:
            say_back(link=str(self._link))
        while self._wait(events, control=control):
            now = time.monotonic_ns()
            while events and float(events[0].get("at_s", 0)) <= self._elapsed_s():
                self.happen(events.pop(0))
            if self._terminal is None:
                continue
            self._modem.receive(self._terminal.read(), now, elapsed_s=self._elapsed_s())
            for chunk in self._modem.due(time.monotonic_ns()):
                self._terminal.write(chunk)

    def close(self) -> None:
        """Remove the port."""
        if self._terminal is not None:
            self._terminal.unplug()
            self._terminal = None
        if self._states is not None and self._pipe is not None:
            self._states.unlink(missing_ok=True)
            os.close(self._pipe)
            self._pipe = None

    def happen(self, event: Document) -> None:
        """Execute an event."""
        now, what = time.monotonic_ns(), event.get("do")
        if isinstance(event.get("set"), dict):
            self._values.set(event["set"])
        if what == "say":
            self._modem.say(str(event.get("text", "RING")), now)
        elif what == "garbage":
            self._modem.noise(int(event.get("bytes", 200)), now)
        elif what in ("silent", "stall"):
            self._modem.mood = what
        elif what == "speak":
            self._modem.speak(now)
        elif what == "unplug":
            self.close()
        elif what == "plug" and self._terminal is None:
            self._terminal = Terminal(Path(event.get("link") or self._link))

    def _elapsed_s(self) -> float:
        return (time.monotonic_ns() - self._began_ns) / NS_PER_S

    def _wait(self, events: list[Document], *, control: bool) -> bool:
        due = [time.monotonic_ns() + NS_PER_S]
        if self._terminal is not None and self._modem.next_ns is not None:
            due.append(int(self._modem.next_ns))
        if events:
            due.append(self._began_ns + round(float(events[0].get("at_s", 0)) * NS_PER_S))
        sources = [self._terminal.fileno()] if self._terminal is not None else []
        if self._pipe is not None:
            return self._stop.wait(min(due), readable=[*sources, self._pipe]) and self._take_states(self._pipe)
        if not control:
            return self._stop.wait(min(due), readable=sources)
        return self._stop.wait(min(due), readable=[*sources, _STANDARD_INPUT]) and self._take_control()

    def _take_states(self, pipe: int) -> bool:
        """Execute the events in the pipe, which the path of a rehearsal writes; return True."""
        with contextlib.suppress(BlockingIOError):
            *lines, self._control = (self._control + os.read(pipe, 1 << 16)).split(b"\n")
            for line in lines:
                self.happen(json.loads(line))
        return True

    def _take_control(self) -> bool:
        """Execute the events that standard input contains; return False at its end."""
        os.set_blocking(_STANDARD_INPUT, False)
        try:
            control = os.read(_STANDARD_INPUT, 1 << 16)
        except BlockingIOError:
            return True
        *lines, self._control = (self._control + control).split(b"\n")
        for line in lines:
            self.happen(json.loads(line))
            say_back(did=json.loads(line))
        return bool(control)


def _opened_pipe(path: Path) -> int:
    """Make a named pipe and return its descriptor; open for writing, too, or it would be readable without a writer."""
    os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def _events(path: Path | None) -> list[Document]:
    if path is None:
        return []
    try:
        events = tomllib.loads(path.read_text("utf-8")).get("event", [])
        return sorted(events, key=lambda event: float(event["at_s"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f'{path}: {error}; each [[event]] must have the key "at_s", and the key "do" or "set"'
        ) from error


def _options(argv: Sequence[str]) -> argparse.Namespace:
    options = parser(__doc__, traffic=False)
    options.add_argument("--link", type=Path, required=True, help="path of the simulated serial port (a symbolic link)")
    options.add_argument(
        "--profile", choices=sorted(VOICES), default="rehearsal_cdpd", help="kind of modem to simulate"
    )
    options.add_argument("--script", type=Path, help="TOML file that contains events and their times")
    options.add_argument("--own-folder", action="store_true", help="remove the folder of the port if it is empty then")
    options.add_argument("--control", action="store_true", help="read events and values from standard input")
    options.add_argument(
        "--told", dest="fixed", action="store_true", help="do not simulate a drive: use only values that events set"
    )
    options.add_argument(
        "--speed", type=float, default=1.0, help="simulated seconds of the drive per real second; default 1"
    )
    options.add_argument(
        "--journey", type=int, metavar="SEED", help="use the random drive with this seed instead of the bundled drive"
    )
    options.add_argument("--states", type=Path, metavar="PIPE", help="make this named pipe, and read events from it")
    options.add_argument(
        "--began", type=int, metavar="NS", help="start of the random drive, CLOCK_MONOTONIC in ns; default now"
    )
    options.add_argument(
        "--delay",
        type=float,
        nargs=2,
        default=(0.02, 0.08),
        help="minimum and maximum response time of the modem, in seconds",
    )
    options.add_argument(
        "--baud", type=int, default=115_200, help="bit rate of the serial line, in bit/s; default 115200"
    )
    options.add_argument(
        "--chatter", type=float, default=0.0, help="probability that the modem sends an unsolicited line"
    )
    options.add_argument("--seed", type=int, default=1, help="random seed of the delays and the noise; default 1")
    return options.parse_args(argv)


def main(argv: Sequence[str]) -> None:
    """Run the simulated modem until stopped."""
    chosen = _options(argv)
    values = SetValues()
    provider: Provider = values if chosen.fixed else BundledDrive(speed=chosen.speed)
    events = _events(chosen.script)
    if chosen.journey is not None:
        journey = Journey(chosen.journey)
        provider = JourneyAndSet(journey, values)
        events = sorted([*events, *journey.calls()], key=lambda event: float(event["at_s"]))
    modem = FakeModem(
        chosen.profile,
        provider,
        seed=chosen.seed,
        delay_s=tuple(chosen.delay),
        baud=chosen.baud,
        chatter=chosen.chatter,
    )
    with Stop(duration_ns=chosen.duration, outlive_parent=chosen.outlive_parent, tags=chosen.tags) as stop:
        rehearsal = RehearsedModem(modem, values, chosen.link, stop, zero_ns=chosen.began, states=chosen.states)
        try:
            rehearsal.run(events, control=chosen.control)
        finally:
            rehearsal.close()
            if chosen.own_folder:
                remove_folder(chosen.link)


if __name__ == "__main__":
    run(main)
