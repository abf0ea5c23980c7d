"""Reads an Android phone through adb: radio and cells, place, battery and Wi-Fi, and its clock. No root is needed.

Once a second it asks `dumpsys telephony.registry` and `dumpsys location`, less often the battery, Wi-Fi and whether
the phone is awake, all in one shell on the phone. `logcat` gives the changes of cell and of data state between these
rounds. The phone's clock is read between two readings of this host's clock, so that the difference of the two has a
known error. A phone that is unplugged, has not allowed USB debugging, or does not answer does not end the recording:
the time without an answer is a gap with its reason.

The log is JSON lines, times are those of this host's CLOCK_MONOTONIC. First a header, then in order of time:

- `phone`: opened or lost, its serial number, and what the phone says of itself,
- `answer`: what was asked (`of`), the two stamps around the answer, and its text `raw`; of the registry without
  Android's log of earlier events and without callers' numbers. `same` instead of `raw` names the `number` of an
  earlier answer with the same text. What is `shown` of registry and location is for people; readers decode `raw` again,
- `event`: a line of logcat, with the time at which this host read it; the line begins with the phone's time,
- `remote_clock`: the phone's CLOCK_REALTIME between two readings of this host's clock,
- `missed`: a round without an answer, and why; `clock`, each second, and `end`.

With `--packets` the phone's packets are recorded instead: TCP in the file of `-o`, UDP port 443 in a second one whose
name has `udp` for `tcp`. With root (`su`, or an adbd that runs as root) the phone's tcpdump runs, and adb writes its
octets to the files. Without, PCAPdroid is started and stopped by its intents, and sends each packet to this host
through `adb reverse`, or with `--exporter udp` to the phone's `nc`. With `--keys` it decrypts TLS, and its keys are a
file beside the packets. That run ends when the connection does; `--notes` gets the records `phone`, `missed`, `unable`.
"""

from __future__ import annotations

import math
import os
import re
import secrets
import select
import shlex
import shutil
import socket
import struct
import subprocess
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from collectors._collector import Collector
from collectors._log import Log
from collectors._options import header, number, parser, rate_hz, run
from collectors._ready import Schedule, ready
from collectors._shell import LineFollower, Shell, ShellEndedError
from collectors._stop import Stop, end_with_parent
from collectors.modem import ModemLog
from multitracer.errors import CollectorError, InputError, PreflightError
from multitracer.protocols.modem.android import location_of, serving_of
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from collectors._shell import Answer

ANY = "any"
"""Stands for the only phone that is connected."""


class Question(NamedTuple):
    """What the phone is asked."""

    name: str
    command: str
    every: int
    """Rounds between two questions."""


QUESTIONS = (
    Question("registry", "dumpsys telephony.registry", 1),
    Question("location", "cat /proc/uptime; dumpsys location | grep -E -i 'last.*location|Location\\['", 1),
    Question("power", "dumpsys power | grep -E 'mWakefulness='", 5),
    Question("wifi", "cmd wifi status", 5),
    Question("battery", "dumpsys battery", 30),
    Question("packages", "pm list packages -U", 3600),
    Question("apps", "dumpsys netstats detail | grep -E '^ *[0-9]+( [0-9]+){4} *$'", 30),
)
"""What is asked, in this order. `cmd wifi status` is of Android 11; earlier versions answer with an error."""
EVENTS = (
    "gsm_service_state_change", "gsm_data_state_change", "gsm_rat_switched", "gsm_rat_switched_new",
    "cdma_service_state_change", "cdma_data_state_change", "cdma_rat_switched", "pdp_setup_fail", "pdp_network_drop",
    "pdp_radio_reset", "pdp_context_reset", "data_network_registration_fail", "data_network_status_on_radio_off",
    "data_stall_recovery_get_data_call_list", "data_stall_recovery_cleanup", "data_stall_recovery_reregister",
    "data_stall_recovery_radio_restart", "call_drop", "bad_ip_address",
)  # fmt: skip
"""Tags of Android's event log that are recorded (EventLogTags.logtags of frameworks/opt/telephony)."""
_PROPERTIES = "getprop | grep -E '\\[ro\\.(product\\.(manufacturer|model)|build\\.version\\.(release|sdk))\\]'; id -u"
_CLOCK_ROUNDS = 5
_EVENT_ROUNDS = 10
"""Rounds between two looks whether logcat still runs."""
_LOOK_NS = 2 * NS_PER_S
"""Time between two searches for a phone that is not there: each starts a process."""
_ADB_S = 10.0
"""Time for adb to list the phones; it starts its server first if none runs."""
_LONGEST_LINE = 2000
_MOST_SERIALS = 64
_EARLIER_EVENTS = re.compile(rb"^\s*(?:\w+ )?(?:local )?logs:\s*$", re.IGNORECASE)
_STATES = re.compile(rb"^last known state", re.IGNORECASE)
_WHY = {
    "unauthorized": "unauthorized", "authorizing": "asks for permission", "offline": "offline",
    "no permissions": "port not permitted", "bootloader": "in its boot loader", "recovery": "in recovery",
    "sideload": "in recovery", "connecting": "connecting",
}  # fmt: skip
"""Reason of a gap by the state that adb gives."""
ADVICE = {
    "unauthorized": "unlock the phone, and allow USB debugging for this computer",
    "asks for permission": "unlock the phone, and allow USB debugging for this computer",
    "port not permitted": "add a udev rule for the phone (`apt install android-sdk-platform-tools-common`)",
    "unplugged": "connect the phone, and switch on USB debugging in its developer options",
    "several phones": "name one with `--phone SERIAL`",
}
"""What helps, by the reason of a gap."""


class NoPhoneError(Exception):
    """There is no phone that can be asked; `why` is the reason of the gap."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def connected(adb: str, stop: Stop) -> dict[str, str]:
    """Return the state of each phone that adb knows, by serial number: `device` is one that can be asked.

    Raises
    ------
    NoPhoneError
        If adb does not answer.
    """
    until_ns = time.monotonic_ns() + round(_ADB_S * NS_PER_S)
    try:
        child = subprocess.Popen(
            [adb, "devices"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError as error:
        raise NoPhoneError(f"adb: {error.strerror}") from None
    assert child.stdout is not None
    output = b""
    try:
        while stop.wait(until_ns, readable=[child.stdout.fileno()]) and time.monotonic_ns() < until_ns:
            chunk = os.read(child.stdout.fileno(), 1 << 16)
            output = (output + chunk)[: 1 << 16]
            if not chunk:
                break
        else:
            raise NoPhoneError("adb is silent")
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    rows = [line.split("\t", 1) for line in output.decode("utf-8", "replace").splitlines() if "\t" in line]
    return {serial: state.strip() for serial, state in rows[:_MOST_SERIALS]}


def phone_of(serial: str, states: dict[str, str]) -> str:
    """Return the serial number of the phone to ask.

    Raises
    ------
    NoPhoneError
        If it is not there, or cannot be asked, or if `any` could be several.
    """
    if serial == ANY:
        if len(states) > 1:
            raise NoPhoneError("several phones")
        serial = next(iter(states), serial)
    state = states.get(serial, "unplugged")
    if state != "device":
        raise NoPhoneError(next((why for name, why in _WHY.items() if state.startswith(name)), state[:40]))
    return serial


def without_earlier_events(registry: bytes) -> bytes:
    """Return a dump of the registry without Android's logs of earlier events, which readers ignore, too.

    The numbers of callers are left out.
    """
    wanted, is_event = [], False
    for line in registry.splitlines(keepends=True):
        if _STATES.match(line):
            is_event = False
        elif _EARLIER_EVENTS.match(line):
            is_event = True
        if not is_event and b"IncomingNumber" not in line:
            wanted.append(line)
    return b"".join(wanted)


def _place(raw: str) -> dict[str, object]:
    """Return the phone's newest location for people; empty if it has none."""
    location = location_of(raw)
    return dict(location.values) if location else {}


_SHOWN: dict[str, Callable[[str], object]] = {"registry": serving_of, "location": _place}
"""What is shown of an answer, by its name."""


class AndroidLog(ModemLog):
    """The log of one run: answers, events, gaps, and the clocks."""

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self._before: dict[str, tuple[int, bytes | None]] = {}

    def store(self, name: str, answer: Answer) -> None:
        """Write an answer, or that it is the same as before."""
        raw = without_earlier_events(answer.raw) if name == "registry" else answer.raw
        last, before = self._before.get(name, (0, None))
        text: dict[str, object] = {"same": last}
        if before != raw or answer.lost_bytes:
            text = {"number": last + 1, "raw": raw.decode("utf-8", "replace")}
            self._before[name] = last + 1, raw
        self._answered_ns = answer.answered_ns
        more: dict[str, object] = {"lost_bytes": answer.lost_bytes} if answer.lost_bytes else {}
        if answer.status == 0 and name in _SHOWN:
            more["shown"] = _SHOWN[name](raw.decode("utf-8", "replace"))
        stamps = {"asked_ns": answer.asked_ns, "answered_ns": answer.answered_ns}
        self.record("answer", of=name, **stamps, status=answer.status, **text, **more)

    def forget(self) -> None:
        """Write the next answers in full: another phone may give them."""
        self._before = {name: (last, None) for name, (last, _) in self._before.items()}


def events_of(program: list[str]) -> LineFollower:
    """Return the lines of `logcat` on changes of cell and data state, from now on; `program` is adb with a serial."""
    chosen = ["-b", "radio", "-b", "events", "-v", "epoch", "-T", "1", *(f"{tag}:V" for tag in EVENTS), "*:S"]
    return LineFollower([*program, "logcat", *chosen])


class AndroidPhone:
    """A phone that may come and go.

    Parameters
    ----------
    chosen : Namespace
        The options: serial, host, adb, timeout.
    log, stop
        The log, and the condition that ends the run.
    """

    def __init__(self, chosen: argparse.Namespace, *, log: AndroidLog, stop: Stop) -> None:
        self._adb = chosen.adb
        self._host = chosen.host
        self._wanted = chosen.serial
        self._timeout_s = chosen.timeout
        self._log = log
        self._stop = stop
        self._serial = ""
        self._shell: Shell | None = None
        self._events: LineFollower | None = None
        self._look_ns = 0
        self._why = ""
        self._round = 0
        self._is_asleep = False

    def ask_all(self) -> str | None:
        """Ask the questions of this round; return the reason if there was no answer, else None."""
        try:
            shell = self._shell or self._connect()
            due = [question for question in QUESTIONS if self._round % question.every == 0]
            if self._round % _CLOCK_ROUNDS == 0 and (reading := shell.clock(timeout_s=self._timeout_s)):
                self._log.record("remote_clock", host=self._host or f"phone {self._serial}", **reading)
            if self._events is not None and not self._events.descriptors and self._round % _EVENT_ROUNDS == 0:
                self._restart_events()
            self._round += 1
            for question in due:
                if self._stop.reason is None:
                    self._ask(shell, question)
        except NoPhoneError as error:
            return error.why
        except ShellEndedError as error:
            if self._stop.reason is not None:
                return None
            return self._lost(error.why)
        self._write_events()
        ready()
        return None

    def listen(self, until_ns: int) -> bool:
        """Store events until an instant; return whether to go on."""
        while self._stop.wait(until_ns, readable=self._events.descriptors if self._events else []):
            self._write_events()
            if time.monotonic_ns() >= until_ns:
                return True
        return False

    def close(self) -> None:
        """End the processes that were started."""
        for child in (self._shell, self._events):
            if child is not None:
                child.close()
        self._shell = self._events = None

    def _ask(self, shell: Shell, question: Question) -> None:
        answer = shell.ask(question.command, timeout_s=self._timeout_s)
        self._log.store(question.name, answer)
        if question.name == "power":
            self._is_asleep = b"mWakefulness=Awake" not in answer.raw and b"mWakefulness=" in answer.raw

    def _connect(self) -> Shell:
        """Return a shell on the phone.

        Raises
        ------
        NoPhoneError
            If there is none.
        """
        if time.monotonic_ns() < self._look_ns:
            raise NoPhoneError(self._why)
        self._look_ns = time.monotonic_ns() + _LOOK_NS
        try:
            self._serial = phone_of(self._wanted, connected(self._adb, self._stop))
        except NoPhoneError as error:
            self._why = error.why
            raise
        program = [self._adb, "-s", self._serial]
        shell = Shell([*program, "shell", "-T", "sh"], self._stop)
        try:
            about = shell.ask(_PROPERTIES, timeout_s=self._timeout_s)
        except ShellEndedError as error:
            shell.close()
            self._why = error.why
            raise NoPhoneError(error.why) from None
        self._shell, self._events = shell, events_of(program)
        self._round, self._is_asleep = 0, False
        self._log.forget()
        says = about.raw.decode("utf-8", "replace")[:_LONGEST_LINE]
        self._log.record("phone", at_ns=time.monotonic_ns(), state="opened", serial=self._serial, says=says)
        return shell

    def _lost(self, words: str) -> str:
        """Close the connection; return why it was lost."""
        self.close()
        self._look_ns = 0
        try:
            phone_of(self._serial, connected(self._adb, self._stop))
        except NoPhoneError as error:
            why = error.why
        else:
            why = "asleep" if self._is_asleep else "silent"
        self._why = why
        at_ns = time.monotonic_ns()
        self._log.record("phone", at_ns=at_ns, state="lost", serial=self._serial, why=why, says=words)
        return why

    def _restart_events(self) -> None:
        """Start logcat again, which has ended by itself; the events of this time may be missing."""
        if self._events is not None:
            self._events.close()
        self._events = events_of([self._adb, "-s", self._serial])
        self._log.record("event", at_ns=time.monotonic_ns(), raw="--------- logcat had ended, and was started again")

    def _write_events(self) -> None:
        for line in self._events.take() if self._events else ():
            if line.startswith(b"-"):  # "--------- beginning of radio"
                continue
            self._log.record("event", at_ns=time.monotonic_ns(), raw=line.decode("utf-8", "replace"))


def record(phone: AndroidPhone, log: AndroidLog, stop: Stop, *, hz: float) -> None:
    """Ask the phone at the times of the schedule, until `stop` ends the run; a last round without an answer counts."""
    schedule = Schedule(hz=hz, poisson=False, start_ns=time.monotonic_ns())
    stop.on_set = partial(log.clock, at_once=True)
    while phone.listen(math.ceil(schedule.due_ns)):
        due_ns = schedule.due_ns
        log.reads += 1
        why = phone.ask_all()
        late = schedule.advance(time.monotonic_ns())
        if why is not None:
            log.miss(1 + late, since_ns=due_ns, why=why)
        if stop.reason is not None:
            break
        if late and why is None:
            log.miss(late, since_ns=due_ns, why="late")
        log.clock()
    log.clock(at_once=True)
    log.record("end", reason=stop.reason, reads=log.reads, missed=log.missed)


# --- the packets of the phone ---

SNAP_BYTES, SNAP_UDP_BYTES = 128, 192
"""Stored octets of each TCP packet and of each packet of UDP port 443, as of a laptop's."""
_ROOTS = ("sh -c", "su -c", "su 0 sh -c")
"""How a command runs as root: adbd of root itself, Magisk and others, and userdebug builds of Android."""
_ROOT_S = 15.0
"""Time for the owner to allow `su` on the phone's screen."""
_OWN_PORTS = "getprop service.adb.tcp.port; getprop service.adb.tls.port"
_PORT = re.compile(r"(?:^|:)(\d{1,5})$")
PCAPDROID = "com.emanuelef.remote_capture"
_CONTROL = f"am start -n {PCAPDROID}/.activities.CaptureCtrl"
_KEY_VARIABLE = "PCAPDROID_API_KEY"
"""Environment variable with PCAPdroid's key, with which it asks its owner nothing."""
_NO_WAY = (
    "no packets of this phone are recorded: it has no root with tcpdump, and PCAPdroid is not installed; install "
    "PCAPdroid (1.8.6 or later)"
)
_ASKS = "PCAPdroid waits for its owner"
_UDP_PORTS = range(20_000, 30_000)
_UDP_SNAP_BYTES = 4000
"""PCAPdroid puts neither header nor trailer around a packet that does not fit with them (pcap_dump.c)."""
_NO_UDP = "the phone's nc takes no UDP; leave the exporter tcp"
_CONNECTED = "it is still connected"
_NO_KEYS = "PCAPdroid wrote no keys of TLS; it needs its mitm addon with its CA on the phone, and version 1.8.8"
_KEYS_OF_ROOT = "no keys of TLS are saved: this phone has root, and its tcpdump records, which knows none"
_KEYS_FOLDER = "/sdcard/Download/PCAPdroid"
_MOST_OUTPUT = 1 << 25
"""Longest output of adb that is taken, in octets; a connection's keys are up to a thousand."""
_NC_NS = NS_PER_S // 2
"""Time in which the phone's nc listens, or has ended because it knows no UDP."""
_FLUSH_S = 2.5
"""Time for PCAPdroid to send its last packets: it stores them for up to a second."""
_LONGEST_FLUSH_S = 2 * _FLUSH_S
"""Of a PCAPdroid that goes on, since it could not be stopped."""
_PCAP_HEADER, _RECORD = 24, 16
_ORDERS = {b"\xd4\xc3\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">", b"\x4d\x3c\xb2\xa1": "<", b"\xa1\xb2\x3c\x4d": ">"}
_MOST_PACKET = 1 << 18
_ETHERNET, _TRAILER = 14, 36
"""Octets that PCAPdroid puts before and behind a packet: a header without addresses; program and padding."""
_TCP, _UDP, _QUIC = 6, 17, 443
_LOOK_CAPTURE_NS = NS_PER_S // 5
"""Time between two looks whether a capture still runs."""


class PacketSplitter:
    """Writes the packets of PCAPdroid's stream (pcap) to two files: TCP, and UDP port 443; drops all others.

    A long packet is cut; a short one keeps the trailer that names its program.
    """

    def __init__(self, tcp: Log, udp: Log) -> None:
        self._logs = {_TCP: tcp, _UDP: udp}
        self._rest = b""
        self._order = ""

    @property
    def has_begun(self) -> bool:
        """Whether the header of the stream has come."""
        return bool(self._order)

    def feed(self, chunk: bytes) -> None:
        """Take octets of the stream.

        Raises
        ------
        CollectorError
            If they are no pcap.
        """
        data, at = self._rest + chunk, 0
        if not self._order and len(data) >= _PCAP_HEADER:
            self._order = _ORDERS.get(data[:4], "")
            if not self._order:
                raise CollectorError("PCAPdroid sent no pcap; switch its format PCAPNG off")
            for log in self._logs.values():
                log.write(data[:_PCAP_HEADER])
            (link_type,) = struct.unpack_from(f"{self._order}I", data, 20)
            self._before = _ETHERNET if link_type == 1 else 0
            at = _PCAP_HEADER
        written: dict[int, list[bytes]] = {_TCP: [], _UDP: []}
        while self._order and len(data) - at >= _RECORD:
            seconds, fraction, captured, original = struct.unpack_from(f"{self._order}4I", data, at)
            if captured > _MOST_PACKET:
                raise CollectorError("PCAPdroid sent what is no packet")
            if len(data) - at < _RECORD + captured:
                break
            packet, at = data[at + _RECORD : at + _RECORD + captured], at + _RECORD + captured
            packet, original = _with_header(packet, original) if self._before else (packet, original)
            if (kind := _wanted(packet[self._before : self._before + 64])) is None:
                continue
            most = self._before + (SNAP_BYTES if kind == _TCP else SNAP_UDP_BYTES)
            stored = packet if len(packet) <= most + _TRAILER else packet[:most]
            written[kind] += [struct.pack(f"{self._order}4I", seconds, fraction, len(stored), original), stored]
        self._rest = data[at:]
        for kind, parts in written.items():
            if parts:
                self._logs[kind].write(b"".join(parts))


def _with_header(packet: bytes, original: int) -> tuple[bytes, int]:
    """Return a frame and its length; PCAPdroid writes no header of Ethernet where that does not fit."""
    if not packet[:12].strip(b"\0"):  # its addresses are 0
        return packet, original
    return bytes(12) + (b"\x08\x00" if packet[:1] < b"\x60" else b"\x86\xdd") + packet, original + _ETHERNET


def _wanted(head: bytes) -> int | None:
    """Return the protocol of a packet that is recorded, by its first octets; None for others."""
    is_4 = len(head) >= 24 and head[0] >> 4 == 4
    if not is_4 and (len(head) < 44 or head[0] >> 4 != 6):
        return None
    protocol, at = (head[9], (head[0] & 15) * 4) if is_4 else (head[6], 40)
    if protocol == _TCP:
        return _TCP
    is_quic = protocol == _UDP and len(head) >= at + 4 and _QUIC in struct.unpack_from(">2H", head, at)
    return _UDP if is_quic else None


Source = socket.socket | IO[bytes]
"""What PCAPdroid's packets are read from."""


class PhonePackets:
    """The packets of a phone, until stopped or until the connection ends.

    Parameters
    ----------
    chosen : Namespace
        The options: output, serial, adb, exporter, keys.
    notes, stop
        The log of messages, and the condition that ends the run.
    """

    def __init__(self, chosen: argparse.Namespace, *, notes: AndroidLog, stop: Stop) -> None:
        self._chosen = chosen
        self._notes = notes
        self._stop = stop
        self._serial = ""
        self._has_started = False
        self._paths = (chosen.output, chosen.output.with_name(_udp_name(chosen.output.name)))

    def record(self) -> None:
        """Record until stopped.

        Raises
        ------
        CollectorError
            If the connection, tcpdump or PCAPdroid ends by itself.
        """
        if not self._find():
            return
        root, own_ports = self._root(), self._own_ports()
        has_pcapdroid = not root and self._says(f"pm path {PCAPDROID}").startswith("package:")
        if self._stop.reason is not None:
            return
        way = "tcpdump" if root else "PCAPdroid" if has_pcapdroid else ""
        self._notes.record("phone", at_ns=time.monotonic_ns(), state="opened", serial=self._serial, packets=way)
        try:
            if root:
                if self._chosen.keys:
                    self._unable(_KEYS_OF_ROOT)
                self._by_tcpdump(root, own_ports)
            elif has_pcapdroid:
                self._by_pcapdroid()
            else:
                self._unable(_NO_WAY)
                ready()  # nothing has to wait for it
                while self._tick():
                    pass
        finally:
            for path in self._paths:  # without even the header of a capture
                if path.is_file() and not path.stat().st_size:
                    path.unlink()

    def _find(self) -> bool:
        """Wait for the phone; return False if stopped before."""
        while True:
            since_ns = time.monotonic_ns()
            try:
                self._serial = phone_of(self._chosen.serial, connected(self._chosen.adb, self._stop))
            except NoPhoneError as error:
                while time.monotonic_ns() < since_ns + _LOOK_NS:
                    if not self._tick():
                        return False
                self._notes.miss(1, since_ns=since_ns, why=error.why)
            else:
                return self._stop.reason is None

    @property
    def _program(self) -> list[str]:
        return [self._chosen.adb, "-s", self._serial]

    def _root(self) -> str:
        """Return how a command runs as root where tcpdump is; empty if it cannot."""
        for root in _ROOTS:
            user, *tcpdump = self._says(f"{root} 'id -u; command -v tcpdump'").split() or [""]
            if user == "0" and tcpdump and tcpdump[0].endswith("tcpdump"):
                return root
        return ""

    def _own_ports(self) -> list[str]:
        """Return the ports of adb itself, if it comes by the network: its packets would record themselves."""
        words = [self._serial, *self._says(_OWN_PORTS).split()]
        ports = [match[1] for word in words if (match := _PORT.search(word))]
        return sorted({port for port in ports if 0 < int(port) < 1 << 16})

    def _says(self, command: str) -> str:
        """Return the output of a command on the phone; empty if it does not end in time.

        Each has a shell of its own: of one whose `su` waits for the owner, the answer comes after later questions.
        """
        with suppress(ShellEndedError), Shell([*self._program, "shell", "-T", "sh"], self._stop) as shell:
            return shell.ask(command, timeout_s=_ROOT_S).raw.decode("utf-8", "replace").strip()
        return ""

    def _by_tcpdump(self, root: str, own_ports: list[str]) -> None:
        tcp = " and ".join(["tcp", *(f"not tcp port {port}" for port in own_ports)])
        filters = ((tcp, SNAP_BYTES), (f"udp port {_QUIC}", SNAP_UDP_BYTES))
        children = []
        try:
            for path, (expression, snap) in zip(self._paths, filters, strict=True):
                command = f'exec tcpdump -i any -s {snap} -n -U -w - "{expression}" 2>/dev/null'
                with Log(path):  # created here: an existing file is never overwritten
                    pass
                with path.open("ab") as file:
                    children.append(
                        subprocess.Popen(
                            [*self._program, "exec-out", f"exec {root} {shlex.quote(command)}"],
                            stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.DEVNULL,
                            preexec_fn=end_with_parent,  # noqa: PLW1509  # this process has one thread
                        )
                    )  # fmt: skip
            while self._tick():
                if self._paths[0].stat().st_size:
                    ready()
                if any(child.poll() is not None for child in children):
                    raise CollectorError(f"{self._serial}: the capture on the phone ended; {self._why()}")
        finally:
            for child in children:
                child.kill()
                child.wait()

    def _by_pcapdroid(self) -> None:
        """Start PCAPdroid, take what it sends, stop it, and take the keys if they are wanted.

        Raises
        ------
        CollectorError
            If it ends by itself.
        """
        settings = {"collector_ip_address": "127.0.0.1", "pcapdroid_trailer": "true"}
        keys = f"multitracer-{secrets.token_hex(8)}.txt" if self._chosen.keys else ""
        if keys:
            settings |= {"tls_decryption": "true", "sslkeylog_name": keys}
        with Log(self._paths[0]) as tcp, Log(self._paths[1]) as udp:
            take = self._by_udp if self._chosen.exporter == "udp" else self._by_tcp
            splitter = PacketSplitter(tcp, udp)
            try:
                take(splitter, settings)
            finally:
                if keys and splitter.has_begun:
                    self._save_keys(keys)

    def _by_tcp(self, splitter: PacketSplitter, settings: dict[str, str]) -> None:
        """Take PCAPdroid's connection, which `adb reverse` carries."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = self._adb("reverse", "tcp:0", f"tcp:{server.getsockname()[1]}")
            if port is None or not port.isascii() or not port.isdigit():
                raise CollectorError(f"{self._serial}: adb reverse failed; {self._why()}")
            try:
                self._start(settings | {"pcap_dump_mode": "tcp_exporter", "collector_port": port})
                if self._wait(server):
                    connection, _ = server.accept()
                    with connection:
                        self._take(connection, splitter)
            finally:
                self._end_pcapdroid()
                self._adb("reverse", "--remove", f"tcp:{port}")

    def _by_udp(self, splitter: PacketSplitter, settings: dict[str, str]) -> None:
        """Take PCAPdroid's datagrams: the phone's `nc` writes them one after the other, and adb carries its output."""
        port = str(secrets.choice(_UDP_PORTS))
        # It ends a second after its input, which is that of adb; of a longer datagram it reads 4096 octets.
        receive = [*self._program, "exec-out", f"exec nc -q 1 -u -l -s 127.0.0.1 -p {port} 2>/dev/null"]
        with subprocess.Popen(
            receive, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            preexec_fn=end_with_parent,  # noqa: PLW1509  # this process has one thread
        ) as child:  # fmt: skip
            assert child.stdout is not None
            try:
                self._stop.wait(time.monotonic_ns() + _NC_NS, readable=[child.stdout.fileno()])
                if self._stop.reason is None and _is_readable(child.stdout):  # nobody sends yet: it has ended
                    raise self._nc_ended()
                more = {"pcap_dump_mode": "udp_exporter", "collector_port": port, "snaplen": str(_UDP_SNAP_BYTES)}
                self._start(settings | more)
                if self._wait(child.stdout):
                    self._take(child.stdout, splitter)
            finally:
                self._end_pcapdroid()
                child.kill()

    def _start(self, settings: dict[str, str]) -> None:
        self._has_started = True
        if self._adb("shell", self._intent("start", settings), timeout_s=_ADB_S) is None:
            raise CollectorError(f"{self._serial}: PCAPdroid could not be started; {self._why()}")

    def _wait(self, source: Source) -> bool:
        """Wait for PCAPdroid, whose owner may have to allow it; return False if stopped before."""
        since_ns = time.monotonic_ns()
        while self._tick(source) and not _is_readable(source):
            if time.monotonic_ns() >= since_ns + _LOOK_NS:
                self._notes.miss(1, since_ns=since_ns, why=_ASKS)
                since_ns = time.monotonic_ns()
                states = self._states()
                if self._stop.reason is None and self._serial not in states:  # a look that was ended finds no phone
                    raise CollectorError(f"{self._serial}: the phone was lost; {self._why()}")
        return self._stop.reason is None

    def _take(self, source: Source, splitter: PacketSplitter) -> None:
        """Take what PCAPdroid sends until stopped, then what it still has."""
        while self._tick(source):
            if not _is_readable(source):
                continue
            if not (chunk := _received(source)):
                self._has_started = not splitter.has_begun
                if self._chosen.exporter == "udp" and not splitter.has_begun:
                    raise self._nc_ended()
                raise CollectorError(f"{self._serial}: PCAPdroid ended its capture; {self._why()}")
            splitter.feed(chunk)
            ready()
        self._end_pcapdroid()
        until_s = time.monotonic() + _LONGEST_FLUSH_S
        while time.monotonic() < until_s and _is_readable(source, _FLUSH_S) and (chunk := _received(source)):
            splitter.feed(chunk)

    def _nc_ended(self) -> CollectorError:
        why = self._why()
        says = _NO_UDP if why == _CONNECTED else f"the phone was lost; {why}"
        return CollectorError(f"{self._serial}: {says}")

    def _save_keys(self, name: str) -> None:
        """Move the keys of TLS that PCAPdroid wrote at its end into a file beside the packets; removed when saved."""
        where = f"{_KEYS_FOLDER}/{name}"
        command = f"for i in 1 2 3 4 5 6 7 8 9 10; do [ -s {where} ] && break; sleep 0.2; done; cat {where} 2>/dev/null"
        output = self._adb("exec-out", f'{command}; echo "# status $?"', timeout_s=_ADB_S) or ""
        text, is_complete, status = output.rpartition("# status ")
        if not is_complete:
            self._unable(f"the keys of TLS could not be taken: {self._why()}; look on the phone in {_KEYS_FOLDER}")
        elif status != "0" or not text:
            self._unable(_NO_KEYS)
        else:
            path = self._paths[0].with_name(_keys_name(self._paths[0].name))
            with Log(path) as log:
                log.write(text.encode())
            self._notes.record("keys", at_ns=time.monotonic_ns(), path=path.name, lines=text.count("\n"))
            if self._adb("shell", f"rm {where}") is None:
                self._unable(f"the keys of TLS are saved, and still on the phone; remove them there: {where}")

    def _end_pcapdroid(self) -> None:
        """Stop PCAPdroid, once: else its VPN stays on the phone, also if its owner allows the start only later."""
        if self._has_started:
            self._has_started = False
            if self._adb("shell", self._intent("stop", {})) is None:
                self._unable("PCAPdroid could not be stopped; stop it on the phone, else its VPN stays")

    def _unable(self, says: str) -> None:
        self._notes.record("unable", at_ns=time.monotonic_ns(), says=says)

    def _intent(self, action: str, settings: dict[str, str]) -> str:
        key = os.environ.get(_KEY_VARIABLE, "")
        extras = {"action": action, **settings, **({"api_key": key} if key else {})}
        return " ".join([_CONTROL, *(f"-e {name} {shlex.quote(value)}" for name, value in extras.items())])

    def _adb(self, *words: str, timeout_s: float = _FLUSH_S) -> str | None:
        """Run adb for this phone; return its output, None if it fails, or writes without an end."""
        until_s = time.monotonic() + timeout_s
        with suppress(OSError, subprocess.TimeoutExpired):
            child = subprocess.Popen(
                [*self._program, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            try:
                output = _output(child, until_s)
                status = child.wait(max(0.0, until_s - time.monotonic()))
            finally:
                child.kill()
                child.wait()
                if child.stdout is not None:
                    child.stdout.close()
            return output.decode("utf-8", "replace").strip() if status == 0 else None
        return None

    def _states(self) -> dict[str, str]:
        try:
            return connected(self._chosen.adb, self._stop)
        except NoPhoneError:
            return {}

    def _why(self) -> str:
        """Return the state of the phone in words, for the end of a sentence."""
        try:
            phone_of(self._serial, self._states())
        except NoPhoneError as error:
            return error.why
        return _CONNECTED

    def _tick(self, source: Source | None = None) -> bool:
        """Wait for a moment, or until a source can be read; return False if the collector must end."""
        self._notes.clock()
        readable = [] if source is None else [source.fileno()]
        return self._stop.wait(time.monotonic_ns() + _LOOK_CAPTURE_NS, readable=readable)


def _is_readable(source: Source, timeout_s: float = 0) -> bool:
    return bool(select.select([source], [], [], timeout_s)[0])


def _output(child: subprocess.Popen[bytes], until_s: float) -> bytes:
    """Return what a program writes until its end; the error is that of its time, also if it writes too much."""
    assert child.stdout is not None
    output = bytearray()
    while len(output) <= _MOST_OUTPUT and _is_readable(child.stdout, max(0.0, until_s - time.monotonic())):
        if not (chunk := os.read(child.stdout.fileno(), 1 << 16)):
            return bytes(output)
        output += chunk
    raise subprocess.TimeoutExpired(child.args, 0)


def _received(source: Source) -> bytes:
    try:
        return os.read(source.fileno(), 1 << 16)
    except OSError:
        return b""


def _keys_name(name: str) -> str:
    """Return the name of the file with the keys beside that with TCP."""
    stem = name.partition(".")[0]
    return f"{stem.replace('tcp', 'keylog', 1) if stem.startswith('tcp') else f'keylog-{stem}'}.txt"


def _udp_name(name: str) -> str:
    """Return the name of the file with UDP port 443 beside that with TCP."""
    return name.replace("tcp", "udp", 1) if name.startswith("tcp") else f"udp-{name}"


def _options(argv: Sequence[str]) -> argparse.Namespace:
    options = parser(__doc__, traffic=False)
    options.add_argument("--hz", type=rate_hz, default=1.0, help="number of rounds per second; default 1")
    options.add_argument(
        "--serial",
        default=ANY,
        help='serial number of the phone as `adb devices` lists it; default "any": the only one',
    )
    options.add_argument(
        "--host", default="", metavar="NAME", help="its name in the session; default: its serial number"
    )
    options.add_argument("--adb", default="adb", metavar="PATH", help="the program adb; default: that of PATH")
    options.add_argument("--packets", action="store_true", help="record packets there, instead of asking the phone")
    options.add_argument(
        "--exporter", choices=("tcp", "udp"), default="tcp", help="how PCAPdroid sends its packets; default tcp"
    )
    options.add_argument(
        "--keys", action="store_true", help="with PCAPdroid: decrypt TLS on the phone, and save its keys (keylog-0.txt)"
    )
    options.add_argument("--notes", type=Path, metavar="LOG", help="with --packets: file for messages; default: output")
    options.add_argument(
        "--timeout", type=partial(number, minimum=0.1, most=60), default=5.0, metavar="SECONDS",
        help="wait at most this time for an answer of the phone, in seconds; default 5",
    )  # fmt: skip
    return options.parse_args(argv)


def main(argv: Sequence[str]) -> None:
    """Record until stopped."""
    chosen = _options(argv)
    check_adb(chosen.adb)
    stopping = Stop(duration_ns=chosen.duration, outlive_parent=chosen.outlive_parent, tags=chosen.tags)
    if chosen.packets:
        if chosen.output is None:
            raise InputError("android: no output file was given; give -o FILE with --packets")
        with stopping as stop, Log(chosen.notes) as log:
            log.record(**header("multitracer-android-packets", chosen, serial=chosen.serial))
            notes = AndroidLog(log)
            PhonePackets(chosen, notes=notes, stop=stop).record()
            notes.record("end", reason=stop.reason)
        return
    with stopping as stop, Log(chosen.output) as log:
        log.record(**header("multitracer-android", chosen, hz=chosen.hz, serial=chosen.serial))
        stop.on_tag = log.sync_probe
        phone_log = AndroidLog(log)
        phone_log.clock()
        phone = AndroidPhone(chosen, log=phone_log, stop=stop)
        try:
            record(phone, phone_log, stop, hz=chosen.hz)
        finally:
            phone.close()


def check_adb(adb: str) -> None:
    """Raise PreflightError if the program is not there."""
    if shutil.which(adb) is None:
        raise PreflightError(f"{adb}: not installed; run `apt install adb`, or name the program with --adb PATH")


def check() -> None:
    """Raise PreflightError if adb is not installed, or knows no phone that can be asked."""
    check_adb("adb")
    try:
        with Stop(outlive_parent=True) as stop:
            states = connected("adb", stop)
        phone_of(ANY if len(states) < 2 else next(iter(states)), states)
    except NoPhoneError as error:
        advice = ADVICE.get(error.why, "look at the phone's screen, and run `adb devices`")
        raise PreflightError(f"no Android phone can be asked: {error.why}; {advice}") from None


COLLECTOR = Collector(
    name="android",
    layer="radio",
    description="an Android phone through adb: radio, cells, place, battery, Wi-Fi, its clock",
    log_format="android",
    suffix=".jsonl",
    check=check,
)

if __name__ == "__main__":
    run(main)
