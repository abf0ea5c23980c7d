"""The main loop of a recording: starts, monitors and ends the collectors, and monitors disk and terminal.

A recording ends at a signal, at the end of its duration, at the end of the command, or if the disk is nearly
full. A second signal kills the collectors without waiting; the manifest is still completed. If the supervisor
itself is killed, the collectors notice the end of their standard input, flush and end.

The command starts when the collectors are ready, and ends before them, so that they record all of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import socket
import struct
import time
from typing import TYPE_CHECKING, Protocol

from multitracer.recorder.child import CollectorProcess, Work
from multitracer.recorder.folder import Disk
from multitracer.recorder.status import RecordingStatus, watchers_of
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import FrameType, TracebackType
    from typing import Self

    from multitracer.manifest import CollectorRun
    from multitracer.recorder.folder import SessionFolder
    from multitracer.recorder.plan import RecordingPlan

# The signals that end a recording, in a form that a loop can wait for.


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """Catches SIGINT, SIGTERM and, unless `nohup` ignores it, SIGHUP; wakes also when a child ends."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        """Names of the received signals, in order."""

    def __enter__(self) -> Self:
        self._wake, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._pipe = (self._wake, wake)
        taken = [n for n in _ENDING if n != signal.SIGHUP or signal.getsignal(n) != signal.SIG_IGN]
        self._handlers = [(number, signal.signal(number, self._take)) for number in taken]
        self._handlers.append((signal.SIGCHLD, signal.signal(signal.SIGCHLD, _nothing)))
        self._before = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(self._before)
        for number, handler in self._handlers:
            signal.signal(number, handler)
        for descriptor in self._pipe:
            os.close(descriptor)

    def _take(self, number: int, _: FrameType | None) -> None:
        self.taken.append(signal.Signals(number).name)

    def wait(self, timeout_ns: int, sources: Sequence[int] = ()) -> list[int]:
        """Wait for a signal, a readable source, or the timeout; return the readable sources."""
        ready, _, _ = select.select([self._wake, *sources], [], [], max(0, timeout_ns) / NS_PER_S)
        if self._wake in ready:
            while _drain(self._wake):
                pass
        return [source for source in ready if source != self._wake]


def _nothing(_: int, __: FrameType | None) -> None:
    """Do nothing: the handler only makes SIGCHLD write to the wake-up pipe."""


def _drain(descriptor: int) -> bool:
    try:
        return bool(os.read(descriptor, 512))
    except BlockingIOError:
        return False


# The sync probe: one tag at one instant in every log, and in a packet on the network.
#
# Each probe has a random tag. It is sent as a small UDP packet, so that the captures of both ends hold it,
# and passed to every collector, which writes it with its own clock. Alignment can then be exact, and check
# itself.


MAGIC = b"MultiTracer clap "
"""First bytes of a sync probe's payload; the tag follows as 16 hexadecimal digits."""

_PCAP_HEADER_BYTES = 24
_RECORD = struct.Struct("=4I")
"""Header of a packet in a file that this machine wrote; the third number is the length of what follows."""
_LONGEST_PROBE_BYTES = 1000
_FIRST_NS = 3 * NS_PER_S
"""Time before the first sync probe in ns, so that the collectors can start."""


def has_packets(capture: Path) -> bool:
    """Return whether a pcap file that this machine's packet collector wrote holds more than sync probes."""
    with contextlib.suppress(OSError), capture.open("rb") as file:
        file.seek(_PCAP_HEADER_BYTES)
        while len(header := file.read(_RECORD.size)) == _RECORD.size:
            captured_bytes = _RECORD.unpack(header)[2]
            if captured_bytes > _LONGEST_PROBE_BYTES or MAGIC not in file.read(captured_bytes):
                return True
    return False


class SyncProber:
    """Generates the tags of sync probes, sends the probes, and logs them.

    Parameters
    ----------
    log : Path
        JSON lines, one for each sync probe.
    to : (str, int)
        Host and port to which the probes are sent.
    every_ns : int
        Time between two sync probes; 0 for none.
    """

    def __init__(self, log: Path, *, to: tuple[str, int], every_ns: int) -> None:
        self._path = log
        self._to = to
        self._every_ns = every_ns
        self._due_ns: int | None = None
        self.sync_probes = 0
        """Number of sync probes so far."""

    def __enter__(self) -> Self:
        family = socket.AF_INET6 if ":" in self._to[0] else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._log = self._path.open("a", encoding="utf-8")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
        with contextlib.suppress(OSError):  # the disk is full: what was written stays
            self._log.close()

    def bring_forward(self, now_ns: int) -> None:
        """Make the next sync probe due now, because the collectors are ready."""
        if self._every_ns:
            self._due_ns = now_ns

    def sync_probe(self, now_ns: int) -> str | None:
        """Send a sync probe if it is due; return its tag, or None."""
        if self._every_ns and self._due_ns is None:
            self._due_ns = now_ns + min(_FIRST_NS, self._every_ns)
        if self._due_ns is None or now_ns < self._due_ns:
            return None
        self._due_ns = now_ns + self._every_ns
        self.sync_probes += 1
        tag = secrets.token_hex(8)
        before_ns, realtime_ns = time.monotonic_ns(), time.time_ns()
        error = self._send(tag)
        record = {
            "kind": "clap", "tag": tag, "monotonic_before_ns": before_ns, "realtime_ns": realtime_ns,
            "monotonic_after_ns": time.monotonic_ns(), "to": f"{self._to[0]}:{self._to[1]}", "error": error,
        }  # fmt: skip
        with contextlib.suppress(OSError):
            self._log.write(json.dumps(record) + "\n")
            self._log.flush()
        return tag

    def _send(self, tag: str) -> str | None:
        try:
            self._socket.sendto(MAGIC + tag.encode(), self._to)
        except OSError as error:
            return error.strerror
        return None


_REPAIR = "`multitracer doctor` shows how to repair this"
_ROUND_NS = 200 * NS_PER_MS
_LOOK_NS = NS_PER_S
_PATIENCE_NS = 5 * NS_PER_S
_LONGEST_NOTE = 500
_CAPTURE = ".pcap"
"""Part of the suffix of every capture: .pcap, .pcapng, and .pcap1 of a ring buffer."""


class StatusView(Protocol):
    """Shows the state of the recording."""

    @property
    def source(self) -> int | None:
        """Return the file descriptor of the keyboard input; None if there is none."""

    def typed(self) -> str | None:
        """Read the typed keys; return the note of a marker when it is complete."""

    def show(self, status: RecordingStatus) -> None:
        """Show the status; called once a second."""

    def warn(self, sentence: str) -> None:
        """Show a warning for the engineer, which stays visible."""


class Supervisor:
    """One recording.

    Parameters
    ----------
    plan : RecordingPlan
    folder : SessionFolder
    view : StatusView
    """

    def __init__(self, plan: RecordingPlan, folder: SessionFolder, view: StatusView) -> None:
        self._plan = plan
        self._folder = folder
        self._view = view
        self._children = [CollectorProcess(source, folder.folder_of(source.host)) for source in plan.sources]
        self._watchers = watchers_of(self._children)
        self._disk = Disk(folder.folder)
        self._status = RecordingStatus()
        self._work = Work(plan.command, plan.traffic, umask=plan.umask, host=folder.host)
        self._began_ns = 0
        self._look_ns = 0
        self._signals: list[str] = []

    def run(self) -> str:
        """Record until something ends the recording; return the reason.

        Raises
        ------
        InputError
            If the command cannot be run.
        CollectorError
            If the manifest cannot be completed.
        """
        sync_prober = SyncProber(
            self._folder.host / "claps.jsonl", to=self._plan.sync_probe_to, every_ns=self._plan.sync_probe_every_ns
        )
        with Signals() as signals, sync_prober:
            self._signals = signals.taken
            self._began_ns = time.monotonic_ns()
            try:
                reason = self._loop(signals, sync_prober)
                self._end_work(signals, sync_prober)
            finally:
                self._work.insist()
                self._end(signals)
                self._warn_of_the_end()
        self._folder.add(ended_ns=time.time_ns(), ended_by=reason)
        self._folder.complete(self._runs())
        return reason

    @property
    def lack_of_packets(self) -> str | None:
        """Return why a required capture is missing, and what helps; None if it exists or is not required."""
        if not self._plan.wants_packets:
            return None
        capturing = [child for child in self._children if child.source.packets and not child.source.host]
        captures = [path for child in capturing for path in child.logs if _CAPTURE in path.suffix]
        if any(map(has_packets, captures)):
            return None
        reasons = [child.last_words.removeprefix("Error: ") for child in capturing if child.last_words]
        if captures and not reasons:
            return "nothing but sync probes passed the interface; name the one that the transfer uses with -i"
        return f"{reasons[0] if reasons else 'no packet collector works on this machine'}; {_REPAIR}"

    @property
    def status(self) -> int:
        """Return the exit status of COMMAND (128 + n after signal n); 0 without COMMAND.

        If signal n ended the recording before COMMAND started, the result is 128 + n.
        """
        if not self._plan.command:
            return 0
        if self._work.status is not None:
            return self._work.status
        return 128 + signal.Signals[self._signals[0]] if self._signals else 1

    def _loop(self, signals: Signals, sync_prober: SyncProber) -> str:
        while True:
            now_ns = time.monotonic_ns()
            self._round(now_ns, sync_prober)
            self._begin_work(now_ns, sync_prober)
            if reason := self._why_to_end(signals, now_ns):
                self._look(now_ns)  # what was logged since the last look, such as a step of the clock, is told, too
                return reason
            self._wait(signals, _ROUND_NS)

    def _round(self, now_ns: int, sync_prober: SyncProber) -> None:
        """Run the due tasks of the collectors and of the screen."""
        changed = [child.has_changed(now_ns) for child in self._children]
        if any(changed):
            self._folder.note(self._runs())
        self._sync_probe(sync_prober, now_ns)
        if now_ns >= self._look_ns:
            self._look(now_ns)

    def _sync_probe(self, sync_prober: SyncProber, now_ns: int) -> None:
        if tag := sync_prober.sync_probe(now_ns):
            for child in self._children:
                child.say(tag)
        self._status.sync_probes = sync_prober.sync_probes

    def _wait(self, signals: Signals, timeout_ns: int) -> None:
        """Wait until something happens; read what the engineer typed."""
        typing = [] if self._view.source is None else [self._view.source]
        speaking = [source for child in self._children for source in child.sources]
        ready = signals.wait(timeout_ns, (*typing, *speaking))
        if set(typing).intersection(ready) and (note := self._view.typed()):
            self._mark(note)

    def _begin_work(self, now_ns: int, sync_prober: SyncProber) -> None:
        """Start COMMAND when all running collectors are ready, or after the longest wait for them."""
        waited_ns = now_ns - self._began_ns
        is_early = waited_ns < self._plan.ready_ns and any(child.is_awaited for child in self._children)
        if not self._work.is_due or is_early:
            return
        if late := [child for child in self._children if not child.is_ready]:
            self._folder.add(not_ready=[child.source.name for child in late])
            self._view.warn(
                f"{', '.join(map(_with_reason, late))}: these collectors are not ready after "
                f"{waited_ns / NS_PER_S:.1f} s; {self._work.name} starts now, so the logs of these "
                "collectors may not contain the begin"
            )
        sync_prober.bring_forward(now_ns)
        self._sync_probe(sync_prober, now_ns)  # so that the shortest recording has a clap
        self._work.begin(time.monotonic_ns())

    def _look(self, now_ns: int) -> None:
        """Update the screen, once a second."""
        self._look_ns = now_ns + _LOOK_NS
        status = self._status
        status.elapsed_s = (now_ns - self._began_ns) / NS_PER_S
        status.lines = [watcher.look(status.series, now_ns) for watcher in self._watchers]
        status.room = self._disk.look(self._folder.bytes(), now_ns=now_ns)
        alerts = [f"{line.name}: {line.alert}" for line in status.lines if line.alert]
        status.message = "; ".join([*(["the disk is nearly full"] if status.room.is_short else []), *alerts])
        self._view.show(status)

    def _warn_of_the_end(self) -> None:
        """State what the collectors wrote as they ended, such as that a VPN stays on the phone."""
        before = {line.name: line.alert for line in self._status.lines}
        for watcher in self._watchers:
            line = watcher.look(self._status.series, time.monotonic_ns())
            if line.alert and line.alert != before.get(line.name):
                self._view.warn(f"{line.name}: {line.alert}")

    def _why_to_end(self, signals: Signals, now_ns: int) -> str | None:
        if signals.taken:
            return signals.taken[0]
        if self._work.end is not None:
            return self._work.end
        if self._is_time_over(now_ns):
            return "duration"
        return "the disk is full" if self._is_disk_full else None

    def _is_time_over(self, now_ns: int) -> bool:
        """Return whether the given duration is over; it counts from the start of COMMAND, if any."""
        if self._plan.duration_ns is None or self._work.is_due:
            return False
        return now_ns - (self._work.began_ns or self._began_ns) >= self._plan.duration_ns

    @property
    def _is_disk_full(self) -> bool:
        return self._status.room is not None and self._status.room.is_out

    def _mark(self, note: str) -> None:
        """Write a marker with the engineer's note and the clocks of this instant."""
        before_ns, realtime_ns = time.monotonic_ns(), time.time_ns()
        record = {
            "kind": "marker", "note": note[:_LONGEST_NOTE], "monotonic_before_ns": before_ns,
            "realtime_ns": realtime_ns, "monotonic_after_ns": time.monotonic_ns(),
        }  # fmt: skip
        try:
            with (self._folder.host / "markers.jsonl").open("a", encoding="utf-8") as log:
                log.write(json.dumps(record) + "\n")
            self._status.markers += 1
        except OSError as error:
            self._status.message = f"the marker was not saved: {error.strerror}"

    def _runs(self) -> list[CollectorRun]:
        runs = [run for child in self._children for run in child.runs]
        return sorted(runs, key=lambda run: run.started_ns or 0)

    # --- the end ---

    def _end_work(self, signals: Signals, sync_prober: SyncProber) -> None:
        """End COMMAND before the collectors, and record its last packets unless another signal comes."""
        if self._work.began_ns is None:
            return
        before = len(signals.taken)
        self._work.ask_to_end()
        until_ns = time.monotonic_ns() + _PATIENCE_NS
        while self._work.is_running and (left_ns := self._left_ns(signals, before, until_ns)):
            self._round(time.monotonic_ns(), sync_prober)
            self._wait(signals, min(_ROUND_NS, left_ns))
        self._work.insist()
        until_ns = time.monotonic_ns() + self._plan.tail_ns
        while left_ns := self._left_ns(signals, before, until_ns):
            self._round(time.monotonic_ns(), sync_prober)
            self._wait(signals, min(_ROUND_NS, left_ns))

    def _left_ns(self, signals: Signals, before: int, until_ns: int) -> int:
        """Return the remaining time in ns; 0 after a further signal, or if the disk is full."""
        if len(signals.taken) > before or self._is_disk_full:
            return 0
        return max(0, until_ns - time.monotonic_ns())

    def _end(self, signals: Signals) -> None:
        """End all child processes: in order, or immediately after a further signal."""
        for child in self._children:
            child.ask_to_end()
        asked_ns = time.monotonic_ns()
        before = len(signals.taken)
        while any(c.is_running and time.monotonic_ns() < asked_ns + c.source.end_ns for c in self._children):
            for child in self._children:
                child.has_changed(time.monotonic_ns())
            if len(signals.taken) > before:
                break
            signals.wait(_ROUND_NS // 4)
        for child in self._children:
            child.wait(time.monotonic_ns())


def _with_reason(child: CollectorProcess) -> str:
    """Return the name of a collector and, if it has ended, the outcome."""
    outcome = child.runs[-1].outcome if child.runs and not child.is_running else None
    return f"{child.source.name} ({outcome})" if outcome else child.source.name
