"""Writes a run in virtual time as a session folder: the files of a real run, and the truth."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, BinaryIO, TextIO

from multitracer import __version__
from multitracer.lab.channel.shared.packet_link import host_address
from multitracer.lab.scenario.radio import check_up
from multitracer.lab.scenario.session_folder import (
    CAPTURE,
    FRAMES_HEADER,
    PILOT_HEADER,
    PILOT_LOG,
    RLPDUMP,
    SEGMENTS_HEADER,
    TCP_STATE,
    SegmentTruth,
    frame_line,
    has_pilot,
    log_files,
    make_folders,
    new_manifest,
    pilot_line,
    rlp_facts,
    snap_bytes,
    write_radio,
    write_summary,
)
from multitracer.lab.simulator.host_logs import HostLogWriter
from multitracer.lab.simulator.network import EPOCH_NS, NetworkObserver, host_clock
from multitracer.lab.simulator.run import VirtualRun
from multitracer.manifest import CollectorRun, write_manifest
from multitracer.protocols.link_events import PacketDropped
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from multitracer.lab.channel.gsm import OnAir
    from multitracer.lab.channel.shared.packet_link import HostName, PacketLink, RadioReading
    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.scenario.summary import Summary
    from multitracer.lab.simulator.host import SimulatedSocket
    from multitracer.lab.tcp.packet import TcpPacket
    from multitracer.manifest import Manifest
    from multitracer.protocols.link_events import LinkEvent


_COLLECTORS = {"tcpdump": CAPTURE, "tcp_info": TCP_STATE, "rlpdump": RLPDUMP}
"""Log file in a host's folder, by collector."""


class SessionRecorder(NetworkObserver):
    """Observer that writes a session folder; created before the run, closed by `end`.

    Parameters
    ----------
    folder : Path
        The folder; it must be absent or empty.
    scenario : Scenario
        The scenario of the run.
    seed : int
        The seed of the run.

    Raises
    ------
    InputError
        If the folder is not empty or cannot be made.
    """

    def __init__(self, folder: Path, scenario: Scenario, *, seed: int) -> None:
        self._folder = folder
        self._files = ExitStack()
        self._truth = SegmentTruth(scenario)
        self._clock_due_ns = 0
        make_folders(folder, scenario)
        self._manifest = _manifest(scenario, seed)
        write_manifest(folder, self._manifest)
        with ExitStack() as opening:
            self._hosts = {host: self._logs_of(host, scenario, opening) for host in scenario.hosts}
            self._clocks = self._text("clocks.jsonl", opening)
            mobiles = scenario.hosts[:-1] if has_pilot(scenario) else ()
            self._pilots = {host: self._text(f"{host}/{PILOT_LOG}", opening) for host in mobiles}
            self._frames = self._text("truth/frames.csv", opening)
            self._segments = self._text("truth/segments.csv", opening)
            self._files = opening.pop_all()
        for pilot in self._pilots.values():
            pilot.write(PILOT_HEADER)
        self._frames.write(FRAMES_HEADER)
        self._segments.write(SEGMENTS_HEADER)

    def _logs_of(self, host: HostName, scenario: Scenario, files: ExitStack) -> HostLogWriter:
        def opened(name: str) -> BinaryIO:
            return files.enter_context((self._folder / host / name).open("xb"))

        facts = rlp_facts(scenario, speed=1)
        clock, snap = host_clock(scenario, host), snap_bytes(scenario)
        logs = HostLogWriter(host, clock, opened=opened, snap_bytes=snap, facts=facts)
        logs.open_link_log()
        files.callback(logs.write)
        return logs

    def _text(self, name: str, files: ExitStack) -> TextIO:
        return files.enter_context((self._folder / name).open("x", encoding="utf-8", newline="\n"))

    # --- what it observes ---

    def packet(self, host: HostName, packet: TcpPacket | None, data: bytes, *, now_ns: int, outgoing: bool) -> None:
        """Write a packet into the host's capture."""
        if now_ns >= self._clock_due_ns:
            self._read_clocks(now_ns)
        self._hosts[host].packet(data, now_ns)
        if outgoing:
            self._truth.left(host, packet, data, now_ns=now_ns)
        else:
            self._segments.writelines(self._truth.arrived(host, packet, data, now_ns=now_ns))

    def state(self, host: HostName, socket: SimulatedSocket, *, now_ns: int) -> None:
        """Write a socket's variables into the host's log."""
        self._hosts[host].state(socket, now_ns)

    def reading(self, host: HostName, reading: RadioReading, *, now_ns: int) -> None:
        """Write the Ec/Io of the pilot that a mobile's modem reports."""
        self._pilots[host].write(pilot_line(reading, time_ns=self._hosts[host].clock.realtime_ns(now_ns)))

    def link_events(self, host: HostName, events: list[LinkEvent]) -> None:
        """Write events into the log of the host's end of the link."""
        self._hosts[host].link_events(events)
        for event in events:
            if type(event) is PacketDropped:
                self._segments.writelines(self._truth.noted(host, event))

    def on_air(self, frame: OnAir) -> None:
        """Write whether a frame was lost."""
        self._frames.write(frame_line(frame))

    def _read_clocks(self, now_ns: int) -> None:
        self._clock_due_ns = now_ns + NS_PER_S
        for name, host in self._hosts.items():
            self._clocks.write(json.dumps({"host": name, **host.clock.reading(now_ns)}) + "\n")

    # --- the end ---

    def end(self, summary: Summary, link: PacketLink, *, now_ns: int) -> None:
        """Write the summary and the error trace of the radio, close every log, and complete the manifest."""
        self._segments.writelines(self._truth.rest())
        self._read_clocks(now_ns)
        for host in self._hosts.values():
            host.end(now_ns)
        self.close()
        write_summary(self._folder, summary)
        write_radio(self._folder, link, now_ns=now_ns)
        for run in self._manifest.collectors:
            run.ended_ns, run.outcome = EPOCH_NS + now_ns, "ended"
        self._manifest.files = list(log_files(self._folder))
        write_manifest(self._folder, self._manifest)

    def close(self) -> None:
        """Close every log, even if the run failed."""
        self._files.close()


def _manifest(scenario: Scenario, seed: int) -> Manifest:
    manifest = new_manifest(scenario, seed=seed, created_ns=EPOCH_NS, virtual=True, speed=1)
    for host in scenario.hosts:
        address = ".".join(map(str, host_address(host)))
        manifest.hosts[host].add({"kernel": "virtual", "addresses": [address]})
        manifest.collectors += [
            CollectorRun(name, host, ["multitracer.simulator", log], __version__, EPOCH_NS)
            for name, log in _COLLECTORS.items()
        ]
    return manifest


def record_virtual(
    scenario: Scenario, folder: Path, *, seed: int | None = None, observers: Sequence[NetworkObserver] = ()
) -> Summary:
    """Run a scenario in virtual time and write a session folder.

    Parameters
    ----------
    scenario : Scenario
        The scenario to run.
    folder : Path
        The folder; it must be absent or empty.
    seed : int, optional
        Random seed; by default that of the scenario.
    observers : sequence of NetworkObserver
        Further observers of the run.

    Returns
    -------
    Summary
        The content of `summary.json`.

    Raises
    ------
    InputError
        If the folder is not empty or cannot be made, or the scenario has no traffic, or its link is not up
        before the end.
    LocalProtocolError
        If the scenario's link is impossible; nothing is written then.
    """
    scenario.check_traffic()
    used = scenario.seed if seed is None else seed
    check_up(scenario, seed=used)  # before any folder
    recorder = SessionRecorder(folder, scenario, seed=used)
    try:
        run = VirtualRun(scenario, seed=used, observers=[recorder, *observers])
        summary = run.run()
        recorder.end(summary, run.network.link, now_ns=run.network.now_ns)
    finally:
        recorder.close()
    return summary
