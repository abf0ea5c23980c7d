"""Record the sample session: `python -m sample_traces.recording.cellular_upload FOLDER` (root, Linux).

A phone (`mobile`) uploads a file over a cellular link to a server (`fixed`), and fetches two small pages
meanwhile. Real kernel TCP at both ends, in network namespaces of one machine; tcpdump at both ends; the
link between them is `link.py`. FOLDER becomes a session folder: a manifest with everything that is needed
to judge or repeat the recording, and the numbers that tcptrace and the kernels say it holds.

`--collect FILE=COMMAND` starts one more recorder beside the phone's tcpdump. The bundled session has
`--collect "tcp_info.jsonl=python -m collectors.tcp_info --port 5001 --output {}"` and
`--collect "tcp_probe.txt=python -m collectors.tcp_probe --address 10.0.3.2 --output {}"`.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import shlex
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multitracer.manifest import CollectorRun, Host, LogFile, Manifest, Role, Variables, checksum, write_manifest
from sample_traces.recording import link
from sample_traces.recording.finish import captured, compress, leave_out_places, tcptrace
from tests.netns import Namespaces, namespaces, stop

if TYPE_CHECKING:
    from collections.abc import Callable

PORT = 5001
SERVER = "10.0.1.2"
UPLOAD_BYTES = 6_000_000
DOWNLOAD_BYTES = 40_000
DOWNLOAD_AFTER_S = (6, 20)
CONGESTION_CONTROL = "cubic"
SYSCTLS = {"tcp_no_metrics_save": 1, "tcp_sack": 1, "tcp_timestamps": 1, "tcp_ecn": 0}
_PYTHON = sys.executable
_KERNEL_COUNTERS = (
    "TcpOutSegs", "TcpRetransSegs", "TcpExtTCPTimeouts", "TcpExtTCPFastRetrans", "TcpExtTCPSlowStartRetrans",
    "TcpExtTCPLossProbes", "TcpExtTCPSackRecovery", "TcpExtTCPDSACKRecv", "TcpExtTCPLostRetransmit",
    "TcpExtTCPSpuriousRTOs",
)  # fmt: skip


class Recording:
    """A session folder in the making: what was started in it, and how that ended."""

    def __init__(self, folder: Path, hosts: Namespaces) -> None:
        self.folder = folder
        self.hosts = hosts
        self.manifest = Manifest(name=folder.name, created_ns=time.time_ns())
        self._running: list[tuple[CollectorRun, subprocess.Popen[str]]] = []

    def collect(self, name: str, host: str, argv: list[str], *, ready: str, version: str) -> None:
        """Start a collector, wait until it prints `ready`, and enter it in the manifest."""
        words = self.folder / host / f"{name}.log"
        with words.open("w") as log:
            child = self.hosts.start(host, *argv, stdout=log, stderr=subprocess.STDOUT)
        command = ["python" if a == _PYTHON else a.replace(f"{self.folder}/", "") for a in argv]
        run = CollectorRun(name, host, command, version, started_ns=time.time_ns())
        self.manifest.collectors.append(run)
        self._running.append((run, child))
        _wait_until(lambda: ready in words.read_text(), f"{name} to say {ready!r}")

    def stop(self) -> None:
        """Stop the collectors, the last started first, and note how each ended."""
        for run, child in reversed(self._running):
            status = stop(child, patience_s=20)
            run.ended_ns = time.time_ns()
            run.outcome = "ended" if status in (0, -15) else f"exit status {status}"

    def save(self) -> None:
        """Enter the logs with their checksums, and write the manifest."""
        logs = sorted(p for p in self.folder.rglob("*") if p.is_file() and p.name != "manifest.json")
        self.manifest.files = [self._entry(path) for path in logs]
        write_manifest(self.folder, self.manifest)

    def _entry(self, path: Path) -> LogFile:
        relative = path.relative_to(self.folder)
        host = relative.parts[0] if len(relative.parts) > 1 else ""
        return LogFile(relative.as_posix(), host, path.stat().st_size, checksum(path))


def record(folder: Path, *, extra: list[str], upload_bytes: int = UPLOAD_BYTES, faster: int = 1) -> None:
    """Record into `folder`, which must not exist yet, over a link of so many times the rate."""
    for host in ("mobile", "core", "fixed"):
        (folder / host).mkdir(parents=True)
    with namespaces("mobile", "core", "fixed") as hosts, ExitStack() as ending:
        recording = Recording(folder, hosts)
        ending.callback(recording.stop)
        _build_path(recording, faster)
        recording.manifest.variables = _variables(upload_bytes, faster)
        write_manifest(folder, recording.manifest)
        _start_collectors(recording, extra)
        recording.manifest.hosts = {host: _facts(hosts, host) for host in ("mobile", "fixed")}
        ending.enter_context(ClockLog(folder / "clocks.jsonl", ("mobile", "fixed")))
        _run_traffic(hosts, upload_bytes)
        time.sleep(1)
        ending.close()
        recording.manifest.variables.more["expected"] = _expected(recording)
        leave_out_places(folder, [*folder.rglob("*.jsonl"), *folder.rglob("*.txt")])
        compress(folder)
        recording.save()


def _build_path(recording: Recording, faster: int) -> None:
    """Lay mobile -- wwan0 (link.py) core0 -- core -- cable -- fixed."""
    hosts = recording.hosts
    hosts.join("core", "fixed", network="10.0.1")
    hosts.route("fixed", via="10.0.1.1")
    hosts.sysctl("core", ip_forward=1)
    log = str(recording.folder / "core" / "link.jsonl")
    program = [_PYTHON, "-m", "sample_traces.recording.link", "--faster", str(faster), "--log", log]
    recording.collect(
        "link", "core", program,
        ready="ready", version=platform.python_version(),
    )  # fmt: skip
    _ip(hosts, "core", "link", "set", "wwan0", "netns", hosts["mobile"])
    for host, device, here, there in (
        ("mobile", "wwan0", "10.0.3.2", "10.0.3.1"),
        ("core", "core0", "10.0.3.1", "10.0.3.2"),
    ):
        _ip(hosts, host, "address", "add", here, "peer", there, "dev", device)
        # One packet at a time, as on the air; and a ring that never drops behind the capture's back.
        _ip(hosts, host, "link", "set", device, "gso_max_segs", "1", "txqueuelen", "10000", "up")
    hosts.route("mobile", via="10.0.3.1")
    for host in ("mobile", "fixed"):
        hosts.sysctl(host, **SYSCTLS)


def _ip(hosts: Namespaces, label: str, *words: str) -> None:
    hosts.run(label, "ip", *words)


def _start_collectors(recording: Recording, extra: list[str]) -> None:
    version = _first_line("tcpdump", "--version")
    for host, device in (("mobile", "wwan0"), ("fixed", "to-core")):
        argv = [
            "tcpdump", "-i", device, "-s", "96", "-U", "--immediate-mode", "-j", "host", "-Z", "root",
            "--time-stamp-precision", "nano", "-w", str(recording.folder / host / "tcp-0.pcap"), "tcp",
        ]  # fmt: skip
        recording.collect("tcpdump", host, argv, ready="listening on", version=version)
    for wanted in extra:
        name, _, command = wanted.partition("=")
        path = recording.folder / "mobile" / name
        argv = [_PYTHON if w == "python" else w.replace("{}", str(path)) for w in shlex.split(command)]
        recording.collect(path.stem, "mobile", argv, ready="", version=platform.python_version())
        _wait_until(partial(_has_begun, path), f"{name} to begin")


def _has_begun(log: Path) -> bool:
    return log.exists() and log.stat().st_size > 0


def _run_traffic(hosts: Namespaces, upload_bytes: int) -> None:
    program = [_PYTHON, "-m", "sample_traces.recording.traffic"]
    hosts.start("fixed", *program, "serve", "--port", str(PORT))
    _wait_until(lambda: bool(hosts.run("fixed", "ss", "-Htln").stdout), "the server to listen")
    pauses = [word for after in DOWNLOAD_AFTER_S for word in ("--download-after", str(after))]
    hosts.run(
        "mobile", *program, "upload", "--host", SERVER, "--port", str(PORT), "--bytes", str(upload_bytes),
        "--download-bytes", str(DOWNLOAD_BYTES), "--congestion-control", CONGESTION_CONTROL, *pauses,
    )  # fmt: skip


class ClockLog:
    """Writes what the host's clocks say, every second: the reading of one between two of another."""

    def __init__(self, path: Path, hosts: tuple[str, ...]) -> None:
        self._file = path.open("w", buffering=1)
        self._hosts = hosts
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clocks")

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._file.close()

    def _run(self) -> None:
        while True:
            reading = _read_clocks()
            for host in self._hosts:
                self._file.write(json.dumps({"host": host, **reading}) + "\n")
            if self._ended.wait(1):
                return


def _read_clocks() -> dict[str, int]:
    return {
        "monotonic_before_ns": time.monotonic_ns(),
        "realtime_ns": time.time_ns(),
        "boottime_ns": time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        "monotonic_after_ns": time.monotonic_ns(),
    }


def _facts(hosts: Namespaces, host: str) -> Host:
    return Host(
        role={"mobile": Role.SENDER, "fixed": Role.RECEIVER}[host],
        kernel=f"{platform.system()} {platform.release().partition('-')[0]}",
        machine=platform.machine(),
        addresses=re.findall(r"inet ([\d.]+)", hosts.run(host, "ip", "address").stdout),
        more={"sysctls": {key: _sysctl(hosts, host, key) for key in (*SYSCTLS, "tcp_rmem", "tcp_wmem")}},
    )


def _sysctl(hosts: Namespaces, host: str, key: str) -> str:
    return hosts.run(host, "sysctl", "-n", f"net.ipv4.{key}").stdout.strip()


def _variables(upload_bytes: int, faster: int) -> Variables:
    return Variables.of({
        "scenario": "cellular upload: deep queue, rare loss, one outage",
        "direction": "uplink",
        "congestion_control": CONGESTION_CONTROL,
        "upload_bytes": upload_bytes,
        "download_bytes": DOWNLOAD_BYTES,
        "download_after_s": list(DOWNLOAD_AFTER_S),
        "one_clock": "both hosts are namespaces of one machine",
        "link": {
            "uplink": asdict(link.UPLINK.faster(faster)), "downlink": asdict(link.DOWNLINK.faster(faster)),
        },
    })  # fmt: skip


def _expected(recording: Recording) -> dict[str, Any]:
    """Return what other tools say of the recording, for tests to hold ours against."""
    folder = recording.folder
    drops = [json.loads(line) for line in (folder / "core" / "link.jsonl").read_text().splitlines()]
    reasons = sorted({(d["direction"], d["dropped"]) for d in drops})
    return {
        "kernel": {host: _kernel_counters(recording.hosts, host) for host in ("mobile", "fixed")},
        "link_drops": {" ".join(r): sum((d["direction"], d["dropped"]) == r for d in drops) for r in reasons},
        "tcptrace": {host: tcptrace(folder / host / "tcp-0.pcap") for host in ("mobile", "fixed")},
        "captured_packets": {host: captured(folder / host / "tcpdump.log") for host in ("mobile", "fixed")},
    }


def _kernel_counters(hosts: Namespaces, host: str) -> dict[str, int]:
    """Return what the namespace counted since it was made."""
    counters = json.loads(hosts.run(host, "nstat", "-asj").stdout)["kernel"]
    return {name: counters.get(name, 0) for name in _KERNEL_COUNTERS}


def _first_line(*argv: str) -> str:
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return (done.stdout or done.stderr).splitlines()[0]


def _wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited 20 s in vain for {what}")
        time.sleep(0.05)


def main() -> None:
    """Record into the folder that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--collect", action="append", default=[], metavar="FILE=COMMAND")
    parser.add_argument("--bytes", type=int, default=UPLOAD_BYTES, help="of the upload")
    parser.add_argument("--faster", type=int, default=1, help="times the rate of the bundled session")
    options = parser.parse_args()
    record(options.folder.resolve(), extra=options.collect, upload_bytes=options.bytes, faster=options.faster)


if __name__ == "__main__":
    main()
