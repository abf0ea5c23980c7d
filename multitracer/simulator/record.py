"""A run in virtual time as a session folder: the files of a real run, and the ground truth."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, BinaryIO, TextIO

from multitracer import __version__
from multitracer.channel.gsm.link import SIDES
from multitracer.manifest import CollectorRun, write_manifest
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from multitracer.protocols.rlpdump import RlpdumpWriter
from multitracer.scenario.session_folder import (
    CAPTURE,
    RLPDUMP,
    TCP_STATE,
    log_files,
    make_folders,
    new_manifest,
    rlp_facts,
    snap_bytes,
    write_summary,
)
from multitracer.scenario.truth import FRAMES_HEADER, SEGMENTS_HEADER, SegmentTruth, frame_line
from multitracer.simulator.clock import EPOCH_NS, HostClock
from multitracer.simulator.run import ADDRESSES, VirtualRun
from multitracer.simulator.tcp_state_log import TcpStateLog
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.channel.gsm.link import OnAir, Side
    from multitracer.manifest import Manifest
    from multitracer.protocols.link_events import LinkEvent
    from multitracer.protocols.tcp import Packet
    from multitracer.scenario.model import Scenario
    from multitracer.scenario.summary import Summary
    from multitracer.simulator.host import Socket

_BOOTED_NS = {"mobile": 1_000 * NS_PER_S, "fixed": 86_400 * NS_PER_S}
_LOGS = {"tcpdump": CAPTURE, "tcp_info": TCP_STATE, "rlpdump": RLPDUMP}
"""Collector -> the log that a host's folder has of it."""


class _HostLogs:
    """The open logs of one host."""

    def __init__(self, side: Side, folder: Path, scenario: Scenario, files: ExitStack) -> None:
        self.clock = host_clock(scenario, side)
        self._snap = snap_bytes(scenario)
        self._state = TcpStateLog(side, self.clock)
        self._rlp = RlpdumpWriter(side=side, facts=rlp_facts(scenario, speed=1))
        self._pcap_file, self._state_file, self._rlp_file = (
            _opened(folder / side / name, files) for name in _LOGS.values()
        )
        self._pcap_file.write(pcap_header(snap_bytes=self._snap))
        self._state_file.write(self._state.header())
        self._rlp_file.write(self._rlp.header())

    def packet(self, data: bytes, now_ns: int) -> None:
        time_ns = self.clock.realtime_ns(now_ns)
        self._pcap_file.write(pcap_record(data, time_ns=time_ns, snap_bytes=self._snap))

    def state(self, socket: Socket, now_ns: int) -> None:
        self._state_file.write(self._state.reading(socket, now_ns))

    def link_event(self, event: LinkEvent) -> None:
        stamped = event._replace(time_ns=self.clock.realtime_ns(event.time_ns))
        self._rlp_file.write(self._rlp.record(stamped))

    def end(self, now_ns: int) -> None:
        self._state_file.write(self._state.end(now_ns))


def _opened(path: Path, files: ExitStack) -> BinaryIO:
    return files.enter_context(path.open("xb"))


def host_clock(scenario: Scenario, side: Side) -> HostClock:
    """Return a host's clocks; those of the fixed host have the scenario's error."""
    if side == "mobile":
        return HostClock(_BOOTED_NS[side])
    offset_ns = round(scenario.clock.offset_s * NS_PER_S)
    return HostClock(_BOOTED_NS[side], offset_ns, scenario.clock.skew_ppm)


class SessionRecorder:
    """Writes the events that it observes; created when the run begins, closed by `end`.

    Parameters
    ----------
    folder : Path
        Does not exist yet, or is empty.
    scenario : Scenario
        What is run.
    seed : int
        The seed that is used.

    Raises
    ------
    InputError
        If the folder has something in it or cannot be made.
    """

    def __init__(self, folder: Path, scenario: Scenario, *, seed: int) -> None:
        self._folder = folder
        self._files = ExitStack()
        self._truth = SegmentTruth()
        self._clock_due_ns = 0
        make_folders(folder, scenario)
        self._manifest = _manifest(scenario, seed)
        write_manifest(folder, self._manifest)
        with ExitStack() as opening:
            self._hosts = {side: _HostLogs(side, folder, scenario, opening) for side in SIDES}
            self._clocks = self._text("clocks.jsonl", opening)
            self._frames = self._text("truth/frames.csv", opening)
            self._segments = self._text("truth/segments.csv", opening)
            self._files = opening.pop_all()
        self._frames.write(FRAMES_HEADER)
        self._segments.write(SEGMENTS_HEADER)

    def _text(self, name: str, files: ExitStack) -> TextIO:
        return files.enter_context((self._folder / name).open("x", encoding="utf-8", newline="\n"))

    # --- what it observes ---

    def packet(self, side: Side, packet: Packet, data: bytes, *, now_ns: int, outgoing: bool) -> None:
        """Write a packet into the host's capture."""
        self._read_clocks(now_ns)
        self._hosts[side].packet(data, now_ns)
        if outgoing:
            self._truth.left(side, packet, data, now_ns=now_ns)
        else:
            self._segments.writelines(self._truth.arrived(side, packet, data, now_ns=now_ns))

    def state(self, side: Side, socket: Socket, *, now_ns: int) -> None:
        """Write a socket's variables into the host's log."""
        self._hosts[side].state(socket, now_ns)

    def link_event(self, side: Side, event: LinkEvent) -> None:
        """Write an event into the side's rlpdump."""
        self._hosts[side].link_event(event)
        self._segments.writelines(self._truth.noted(side, event))

    def on_air(self, frame: OnAir) -> None:
        """Write whether a frame was lost."""
        self._frames.write(frame_line(frame))

    def _read_clocks(self, now_ns: int) -> None:
        if now_ns < self._clock_due_ns:
            return
        self._clock_due_ns = now_ns + NS_PER_S
        for side, host in self._hosts.items():
            self._clocks.write(json.dumps({"host": side, **host.clock.reading(now_ns)}) + "\n")

    # --- the end ---

    def end(self, summary: Summary, *, now_ns: int) -> None:
        """Write the summary, close every log and complete the manifest."""
        self._segments.writelines(self._truth.rest())
        self._clock_due_ns = 0
        self._read_clocks(now_ns)
        for host in self._hosts.values():
            host.end(now_ns)
        self.close()
        write_summary(self._folder, summary)
        for run in self._manifest.collectors:
            run.ended_ns, run.outcome = EPOCH_NS + now_ns, "ended"
        self._manifest.files = list(log_files(self._folder))
        write_manifest(self._folder, self._manifest)

    def close(self) -> None:
        """Close every log, whether the run succeeded or not."""
        self._files.close()


def _manifest(scenario: Scenario, seed: int) -> Manifest:
    manifest = new_manifest(scenario, seed=seed, created_ns=EPOCH_NS, virtual=True, speed=1)
    for side in SIDES:
        address = ".".join(map(str, ADDRESSES[side]))
        manifest.hosts[side].add({"kernel": "virtual", "addresses": [address]})
        manifest.collectors += [
            CollectorRun(name, side, ["multitracer.simulator", log], __version__, EPOCH_NS)
            for name, log in _LOGS.items()
        ]
    return manifest


def record_virtual(scenario: Scenario, folder: Path, *, seed: int | None = None) -> Summary:
    """Run a scenario in virtual time and write a session folder.

    Parameters
    ----------
    scenario : Scenario
        What happens.
    folder : Path
        Does not exist yet, or is empty.
    seed : int, optional
        Another one than the scenario's.

    Returns
    -------
    Summary
        What `summary.json` holds.

    Raises
    ------
    InputError
        If the folder has something in it or cannot be made.
    """
    used = scenario.seed if seed is None else seed
    recorder = SessionRecorder(folder, scenario, seed=used)
    try:
        run = VirtualRun(scenario, seed=used, observers=[recorder])
        summary = run.run()
        recorder.end(summary, now_ns=run.now_ns)
    finally:
        recorder.close()
    return summary
