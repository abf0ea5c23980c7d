"""Records a scenario: NAME/session is what the program gets to see, NAME/truth what it does not.

    session/  manifest.json, clocks.jsonl, mobile/ and fixed/ with tcp-0.pcap, tcp_info.jsonl at the sender,
              at both where the connection as a whole is judged
    truth/    scenario.json, path.bin, client.json and server.json (journals), counters.json, damage.json if
              a capture was damaged

A recording has a temporary name until it is whole. One that the machine disturbed is given up, with why.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from ipaddress import ip_address
from typing import TYPE_CHECKING

from multitracer.manifest import Host, Role, Variables
from sample_traces.recording.cellular_upload import ClockLog, Recording
from sample_traces.recording.finish import captured, compress, leave_out_places
from tests.causes import damage, path
from tests.causes.lay import DEVICES, PROXY, device_of, header_bytes, idle_gap, labels, lay
from tests.causes.scenario import CLIENT, ORIGIN, PORT, SERVER, Scenario, scenario
from tests.causes.ticks import coarsen, shift
from tests.causes.tls import CERTIFICATE, make_certificate
from tests.netns import Namespaces, namespaces, stop

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MOST_LATE_NS = 2_000_000
_TRIES = 3
_HZ = "100"
_SETTLE_S = 1.3
"""Of tcpdump: it hands packets on in blocks, at the latest after a second."""
_PYTHON = sys.executable
_ADDRESSES = {"mobile": CLIENT, "fixed": SERVER}
_ONE_CLOCK = "both hosts are namespaces of one machine"


class DisturbedError(Exception):
    """The machine was too busy: what was recorded is not what the scenario says."""


def record(seed: int, into: Path) -> Path:
    """Record a seed's scenario into its own folder of `into`; return it.

    Raises
    ------
    DisturbedError
        If the path was late (99th percentile over 2 ms) or tcpdump lost packets.
    """
    told = scenario(seed)
    program = path.build(into / ".build")
    target = into / f"{seed:05d}-{told.kind}"
    beside = into / f".{target.name}"
    shutil.rmtree(beside, ignore_errors=True)
    try:
        make(told, program, beside)
        _check(beside)
        beside.rename(target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return target


def make(told: Scenario, program: Path, folder: Path) -> None:
    """Record a scenario into `folder`, which does not exist yet, over the path that was built."""
    session, truth = folder / "session", folder / "truth"
    for made in (truth, session / "mobile", session / "fixed"):
        made.mkdir(parents=True)
    _write_told(told, truth)
    with namespaces(*labels(told)) as hosts, ExitStack() as ending:
        recording = Recording(session, hosts)
        recording.manifest.name = folder.name.lstrip(".")
        ending.callback(recording.stop)
        relay = _begin_path(hosts, program, truth)
        lay(hosts, told)
        recording.manifest.hosts = {name: _facts(told, name) for name in ("mobile", "fixed")}
        recording.manifest.variables = Variables(more={"one_clock": _ONE_CLOCK})
        _start_collectors(recording, told)
        ending.enter_context(ClockLog(session / "clocks.jsonl", ("mobile", "fixed")))
        _run_programs(hosts, truth, told)
        idle_gap(hosts, told)
        time.sleep(_SETTLE_S)
        stop(relay)
        ending.close()
        (truth / CERTIFICATE).unlink(missing_ok=True)
        (truth / "counters.json").write_text(json.dumps({h: _counters(hosts, h) for h in DEVICES}))
    _coarsen(session, told)
    _set_apart(recording, told)
    _damage(folder, told)
    leave_out_places(session, session.rglob("*.jsonl"))
    compress(folder)
    recording.save()


def _write_told(told: Scenario, truth: Path) -> None:
    (truth / "scenario.json").write_text(json.dumps(asdict(told), indent=1))
    (truth / "plan.json").write_text(json.dumps(told.plan))
    if told.plan.get("tls"):
        make_certificate(truth / CERTIFICATE)
    lines = (" ".join(map(str, setting)) for setting in told.path)
    (truth / "path.config").write_text("\n".join(lines) + "\n")


def _coarsen(session: Path, told: Scenario) -> None:
    """Give the captures the timestamps of the hosts that were told."""
    if told.hosts.ticks_ms:
        addresses = {ip_address(told.hosts.address(a)).packed: host for host, a in _ADDRESSES.items()}
        coarsen({host: session / host / "tcp-0.pcap" for host in DEVICES}, addresses, told.hosts.ticks_ms)


def _set_apart(recording: Recording, told: Scenario) -> None:
    """Give the receiver's capture a clock of its own, and take away what relates it to the sender's."""
    if told.receiver_clock:
        capture = recording.folder / ("fixed" if told.upload else "mobile") / "tcp-0.pcap"
        shift(capture, offset_ns=int(told.receiver_clock["offset_ns"]), ppm=told.receiver_clock["ppm"])
        (recording.folder / "clocks.jsonl").unlink()
        recording.manifest.variables = Variables()


def _damage(folder: Path, told: Scenario) -> None:
    """Damage one capture as it was told, and enter what the truth has to know of it."""
    if not told.damage:
        return
    host = "mobile" if told.upload == bool(told.damage["at_sender"]) else "fixed"
    capture = folder / "session" / host / "tcp-0.pcap"
    entered: dict[str, str | int] = {"host": host}
    if "lost" in told.damage:
        entered["lost"] = damage.lose(capture, told.damage["lost"], run=told.damage["run"], seed=told.seed)
    if "options" in told.damage:
        damage.snap(capture, header_bytes(told) + int(told.damage["options"]))
    if "cut" in told.damage:
        entered["until_ns"] = damage.cut(capture, told.damage["cut"])
    (folder / "truth" / "damage.json").write_text(json.dumps(entered))


def _begin_path(hosts: Namespaces, program: Path, truth: Path) -> subprocess.Popen[str]:
    config, log = str(truth / "path.config"), str(truth / "path.bin")
    relay = hosts.start("core", str(program), config, log, stdout=subprocess.PIPE)
    _await_ready(relay, "the path")
    return relay


def _await_ready(child: subprocess.Popen[str], what: str) -> None:
    assert child.stdout is not None
    with child.stdout as words:
        if words.readline() != "ready\n":
            raise RuntimeError(f"{what} did not begin")


def _facts(told: Scenario, host: str) -> Host:
    sends = told.upload == (host == "mobile")
    facts = Host(role=Role.SENDER if sends else Role.RECEIVER)
    facts.kernel = f"{platform.system()} {platform.release().partition('-')[0]}"
    facts.machine = platform.machine()
    facts.addresses = [ORIGIN if told.proxy and host == "fixed" else told.hosts.address(_ADDRESSES[host])]
    return facts


def _start_collectors(recording: Recording, told: Scenario) -> None:
    done = subprocess.run(["tcpdump", "--version"], check=True, capture_output=True, text=True)
    version = (done.stdout or done.stderr).splitlines()[0]
    for host in DEVICES:
        argv = [
            "tcpdump", "-i", device_of(told, host), "-s", "96", "-B", "16384", "-j", "host", "-Z", "root",
            "--time-stamp-precision", "nano", "-w", str(recording.folder / host / "tcp-0.pcap"), "tcp",
        ]  # fmt: skip
        recording.collect("tcpdump", host, argv, ready="listening on", version=version)
    for host in DEVICES:
        if told.whole or told.upload == (host == "mobile"):
            log = recording.folder / host / "tcp_info.jsonl"
            argv = [_PYTHON, "-m", "collectors.tcp_info", "--port", str(PORT), "--hz", _HZ, "--look", _HZ]
            recording.collect("tcp_info", host, [*argv, "--output", str(log)], ready="", version="")
            _wait_for(log)


def _wait_for(log: Path) -> None:
    end = time.monotonic() + 20
    while not (log.exists() and log.stat().st_size):
        if time.monotonic() > end:
            raise RuntimeError(f"{log.name} did not begin in 20 s")
        time.sleep(0.02)


def _run_programs(hosts: Namespaces, truth: Path, told: Scenario) -> None:
    def argv(role: str) -> list[str]:
        journal = truth / f"{'server' if role == 'proxy' else role}.json"  # the proxy is the path's server
        return [_PYTHON, "-m", "tests.causes.app", role, str(truth / "plan.json"), str(journal)]

    programs = {"fixed": "origin", PROXY: "proxy"} if told.proxy else {"fixed": "server"}
    servers = [hosts.start(host, *argv(role), stdout=subprocess.PIPE) for host, role in programs.items()]
    for server in servers:
        _await_ready(server, "the server")
    hosts.run("mobile", *argv("client"), timeout=told.plan["patience_s"] + 20)
    time.sleep(min(1.0, 3 * told.rtt_ns / 1e9))  # the last packets are still on their way
    for server in servers:
        stop(server)


def _counters(hosts: Namespaces, host: str) -> dict[str, int]:
    """Return what the namespace's kernel counted since it was made, zeros left out."""
    counters: dict[str, int] = json.loads(hosts.run(host, "nstat", "-asj").stdout)["kernel"]
    return {name: count for name, count in counters.items() if count}


def _check(folder: Path) -> None:
    late_ns = path.lateness_p99_ns(path.read_log(folder / "truth" / "path.bin"))
    if late_ns > MOST_LATE_NS:
        raise DisturbedError(f"path late: {late_ns / 1e6:.1f} ms at p99")
    for host in DEVICES:
        lost = captured(folder / "session" / host / "tcpdump.log").get("dropped by kernel", 0)
        if lost:
            raise DisturbedError(f"capture lost {lost} packets at {host}")


def record_all(seeds: Iterable[int], into: Path) -> list[str]:
    """Record the seeds that are not there yet; return what was given up, and why."""
    into.mkdir(parents=True, exist_ok=True)
    given_up: list[str] = []
    for seed in seeds:
        if any(into.glob(f"{seed:05d}-*")):
            continue
        for _ in range(_TRIES):
            try:
                print(record(seed, into).name, flush=True)
            except DisturbedError as error:
                given_up.append(f"{seed:05d}: {error}")
                print(f"{given_up[-1]}; given up", flush=True)
            else:
                break
    return given_up
