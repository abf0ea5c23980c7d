"""The loop of a recording: starts the collectors, watches them, the disk and the terminal, and ends in order.

What ends it: a signal, the end of its time, the end of the command, a disk that is nearly full. A second
signal does not wait for the collectors, but kills them; the manifest is completed all the same. If the
supervisor itself is killed, the collectors notice the end of their standard input, flush and end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Protocol

from multitracer.errors import InputError
from multitracer.recorder.child import Child
from multitracer.recorder.clapperboard import Clapperboard
from multitracer.recorder.disk import Disk
from multitracer.recorder.signals import Signals
from multitracer.recorder.status import Status, Watcher
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.manifest import CollectorRun
    from multitracer.recorder.folder import SessionFolder
    from multitracer.recorder.plan import Plan

_ROUND_NS = 200 * NS_PER_MS
_LOOK_NS = NS_PER_S
_PATIENCE_NS = 5 * NS_PER_S
_LONGEST_NOTE = 500
_CAPTURE = ".pcap"
"""In the suffix of every capture: .pcap, .pcapng, and .pcap1 of a ring buffer."""


class View(Protocol):
    """What shows how the recording fares."""

    @property
    def source(self) -> int | None:
        """A descriptor that can be read when the engineer typed something, or None."""

    def typed(self) -> str | None:
        """Read what was typed; return the note of a marker when one is complete."""

    def show(self, status: Status) -> None:
        """Show it; called once a second."""


class Supervisor:
    """One recording.

    Parameters
    ----------
    plan : Plan
    folder : SessionFolder
    view : View
    """

    def __init__(self, plan: Plan, folder: SessionFolder, view: View) -> None:
        self._plan = plan
        self._folder = folder
        self._view = view
        self._children = [Child(source, folder.host) for source in plan.sources]
        self._watchers = [Watcher(child) for child in self._children]
        self._disk = Disk(folder.folder)
        self._status = Status()
        self._command: subprocess.Popen[bytes] | None = None
        self._look_ns = 0

    def run(self) -> str:
        """Record until something ends it; return what did.

        Raises
        ------
        InputError
            If the command cannot be run.
        CollectorError
            If the manifest cannot be completed.
        """
        clapperboard = Clapperboard(
            self._folder.host / "claps.jsonl", to=self._plan.clap_to, every_ns=self._plan.clap_every_ns
        )
        with Signals() as signals, clapperboard:
            began_ns = time.monotonic_ns()
            try:
                self._start_command()
                reason = self._loop(signals, clapperboard, began_ns)
            finally:
                self._end(signals)
        self._folder.add(ended_ns=time.time_ns(), ended_by=reason)
        self._folder.complete(self._runs())
        return reason

    @property
    def lack_of_packets(self) -> str | None:
        """Why no capture was begun although packets are wanted; None if one was, or none is wanted."""
        if not self._plan.wants_packets:
            return None
        capturing = [child for child in self._children if child.source.packets]
        if any(_CAPTURE in path.suffix for child in capturing for path in child.logs):
            return None
        said = [child.last_words.removeprefix("Error: ") for child in capturing if child.last_words]
        return said[0] if said else "no collector of packets works here"

    def _start_command(self) -> None:
        if not self._plan.command:
            return
        try:
            self._command = subprocess.Popen(
                self._plan.command, stdin=subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            raise InputError(
                f"{self._plan.command[0]}: {error.strerror}; check the command after --"
            ) from error

    def _loop(self, signals: Signals, clapperboard: Clapperboard, began_ns: int) -> str:
        while True:
            now_ns = time.monotonic_ns()
            changed = [child.has_changed(now_ns) for child in self._children]
            if any(changed):
                self._folder.note(self._runs())
            if tag := clapperboard.clap(now_ns):
                for child in self._children:
                    child.say(tag)
            self._status.claps = clapperboard.claps
            if now_ns >= self._look_ns:
                self._look(now_ns, began_ns)
            if reason := self._why_to_end(signals, now_ns - began_ns):
                return reason
            source = self._view.source
            if signals.wait(_ROUND_NS, () if source is None else (source,)) and (note := self._view.typed()):
                self._mark(note)

    def _look(self, now_ns: int, began_ns: int) -> None:
        """Bring the screen up to date, once a second."""
        self._look_ns = now_ns + _LOOK_NS
        status = self._status
        status.elapsed_s = (now_ns - began_ns) / NS_PER_S
        status.lines = [watcher.look(status.series, now_ns) for watcher in self._watchers]
        status.room = self._disk.look(self._folder.bytes(), now_ns=now_ns)
        alerts = [f"{line.name}: {line.alert}" for line in status.lines if line.alert]
        status.message = "; ".join([*(["the disk is nearly full"] if status.room.is_short else []), *alerts])
        self._view.show(status)

    def _why_to_end(self, signals: Signals, elapsed_ns: int) -> str | None:
        if signals.taken:
            return signals.taken[0]
        if self._plan.duration_ns is not None and elapsed_ns >= self._plan.duration_ns:
            return "duration"
        if self._command is not None and (status := self._command.poll()) is not None:
            return f"the command ended with status {status}"
        if self._status.room is not None and self._status.room.is_out:
            return "the disk is full"
        return None

    def _mark(self, note: str) -> None:
        """Keep what the engineer noticed, with the clocks of this instant."""
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
            self._status.message = f"the marker was not kept: {error.strerror}"

    def _runs(self) -> list[CollectorRun]:
        runs = [run for child in self._children for run in child.runs]
        return sorted(runs, key=lambda run: run.started_ns or 0)

    # --- the end ---

    def _end(self, signals: Signals) -> None:
        """End every child: in order, or at once if another signal comes."""
        for child in self._children:
            child.ask_to_end()
        self._end_command()
        until_ns = time.monotonic_ns() + _PATIENCE_NS
        before = len(signals.taken)
        while any(child.is_running for child in self._children) and time.monotonic_ns() < until_ns:
            for child in self._children:
                child.has_changed(time.monotonic_ns())
            if len(signals.taken) > before:
                break
            signals.wait(_ROUND_NS // 4)
        for child in self._children:
            child.wait(time.monotonic_ns())

    def _end_command(self) -> None:
        if self._command is None:
            return
        if self._command.poll() is None:
            os.killpg(self._command.pid, signal.SIGTERM)
        try:
            self._command.wait(_PATIENCE_NS / NS_PER_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._command.pid, signal.SIGKILL)
            self._command.wait()
