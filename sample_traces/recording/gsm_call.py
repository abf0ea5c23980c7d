"""Make a sample of a testbed run: `python -m sample_traces.recording.gsm_call RUN SAMPLE`.

RUN is the folder of `multitracer testbed run SCENARIO -o RUN`, at the real link's speed, for which the
bundled samples were recorded by nothing else. SAMPLE becomes a session folder with what is needed to
show and to judge it: all logs of the sender's host, captures and rlpdump of the receiver's, and
`expected.json`, the numbers that the link itself, the kernels, tcpdump and tcptrace say it holds.
The manifest names what is left out: `truth/`, and the receiver's own TCP variables, unless it sends too.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from multitracer.lab.scenario.session_folder import log_files
from multitracer.manifest import MANIFEST, read_manifest, write_manifest
from sample_traces.recording.finish import captured, compress_more, leave_out_places, tcptrace

HOSTS = ("mobile", "fixed")
_FAR = {"mobile": "fixed", "fixed": "mobile"}
_SENT_BY = {"up": "mobile", "down": "fixed"}
_LEAST_BYTES = 4_000
_COUNTERS = (
    "TcpOutSegs", "TcpRetransSegs", "TcpInCsumErrors", "TcpExtTCPTimeouts", "TcpExtTCPRenoRecovery",
    "TcpExtTCPSackRecovery", "TcpExtTCPFastRetrans", "TcpExtTCPSlowStartRetrans", "TcpExtTCPLossProbes",
    "TcpExtTCPSpuriousRTOs", "TcpExtTCPDSACKRecv",
)  # fmt: skip


def make_sample(run: Path, sample: Path) -> None:
    """Copy a run, without what is left out, and say what it holds."""
    manifest = read_manifest(run)
    assert manifest is not None
    assert manifest.variables.ended in ("all data were sent and received", "limit_s was reached"), run
    left_out = _left_out(manifest.variables.parameters)
    shutil.copytree(run, sample, ignore=lambda folder, names: _ignored(run, Path(folder), names, left_out))
    text = json.dumps(_expected(run), indent=1) + "\n"
    (sample / "expected.json").write_text(text)
    leave_out_places(sample, [*sample.rglob("*.jsonl"), *sample.rglob("*.txt")])
    for words in sample.rglob("*.log"):
        if not words.stat().st_size:
            words.unlink()
    compress_more(sample, least_bytes=_LEAST_BYTES)
    manifest.name = sample.name
    manifest.variables.more["left_out"] = [name for name in left_out if name != MANIFEST]
    manifest.files = list(log_files(sample))
    write_manifest(sample, manifest)


def _left_out(parameters: dict[str, Any]) -> list[str]:
    directions = {traffic["direction"] for traffic in parameters["traffic"]}
    receivers = [_FAR[_SENT_BY[direction]] for direction in directions] if len(directions) == 1 else []
    return ["truth", MANIFEST, *(f"{host}/tcp_state.jsonl" for host in receivers)]


def _ignored(run: Path, folder: Path, names: list[str], left_out: list[str]) -> list[str]:
    return [name for name in names if (folder / name).relative_to(run).as_posix() in left_out]


def _expected(run: Path) -> dict[str, Any]:
    """Return what others than our readers say of the recording."""
    return {
        "kernel": {host: _counted(run / host) for host in HOSTS},
        "captured_packets": {host: captured(run / host / "tcpdump.log")["captured"] for host in HOSTS},
        "dropped_by_capture": {host: captured(run / host / "tcpdump.log")["dropped by kernel"] for host in HOSTS},
        "tcptrace": {host: tcptrace(run / host / "tcp-0.pcap") for host in HOSTS},
        "lost_frames": _lost_frames(run / "truth" / "frames.csv"),
        "packet_fates": {host: _fates(run / "truth" / "segments.csv", host) for host in HOSTS},
    }


def _counted(host: Path) -> dict[str, int]:
    """Return what a kernel counted during the run."""
    before, after = (json.loads((host / f"nstat_{when}.json").read_text())["kernel"] for when in ("before", "after"))
    return {name: after.get(name, 0) - before.get(name, 0) for name in _COUNTERS}


def _lost_frames(truth: Path) -> dict[str, int]:
    """Return how many frames the radio destroyed, by direction."""
    with truth.open(newline="") as file:
        lost = Counter(row["direction"] for row in csv.DictReader(file) if row["lost"] == "1")
    return {direction: lost[direction] for direction in _SENT_BY}


def _fates(truth: Path, host: str) -> dict[str, int]:
    """Return what became of the packets that left a host."""
    with truth.open(newline="") as file:
        return dict(sorted(Counter(row["fate"] for row in csv.DictReader(file) if row["host"] == host).items()))


def main() -> None:
    """Make the sample that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("sample", type=Path)
    options = parser.parse_args()
    make_sample(options.run, options.sample)


if __name__ == "__main__":
    main()
