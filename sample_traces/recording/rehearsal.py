"""Records the bundled rehearsal: `python -m sample_traces.recording.rehearsal FOLDER`, without root or modem.

A modem and a satellite receiver on pseudo-terminals drive twice as fast as a car through the loop of
`multitracer/lab/rehearsal/journey.py`; on the way the modem is silent, speaks nonsense, and is plugged in
again under another name. The collectors `modem`, `gps` and `host_clock` record it as they would a real drive.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS = 60
SCRIPT = """
[[event]]
at_s = 8
do = "say"
text = '+CREG: 1,"2A01","01A2D001",7'
[[event]]
at_s = 14
do = "silent"
[[event]]
at_s = 20
do = "speak"
[[event]]
at_s = 24
do = "garbage"
bytes = 120
[[event]]
at_s = 40
do = "unplug"
[[event]]
at_s = 44
do = "plug"
link = "ports/ttyUSB1"
"""


def start(folder: Path, module: str, *options: object) -> subprocess.Popen[bytes]:
    """Start a module as a program in a folder; logs tell command lines, so they name no place outside."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    return subprocess.Popen(["python", "-m", module, *map(str, options)], cwd=folder, env=environment)


def record(folder: Path) -> None:
    """Drive, and record the drive."""
    ports = folder / "ports"
    ports.mkdir()
    (ports / "script.toml").write_text(SCRIPT)
    drive = "--speed", 2, "--duration", SECONDS + 3
    script = "--script", "ports/script.toml"
    devices = [
        start(folder, "multitracer.lab.rehearsal.modem", "--link", "ports/ttyUSB0", *script, *drive),
        start(folder, "multitracer.lab.rehearsal.gps", "--link", "ports/ttyACM0", *drive),
    ]
    while not all((ports / name).is_symlink() for name in ("ttyUSB0", "ttyACM0")):
        assert all(device.poll() is None for device in devices)
    run = "--duration", SECONDS
    collectors = [
        start(folder, "collectors.modem", "-o", "radio.jsonl", "--device", "ports/ttyUSB*", *run),
        start(folder, "collectors.gps", "-o", "gps.jsonl", "--device", "ports/ttyACM0", *run),
        start(folder, "collectors.host_clock", "-o", "clocks.jsonl", "--host", "mobile", "--every", 10, *run),
    ]
    for child in (*collectors, *devices):
        assert child.wait() == 0
    shutil.rmtree(ports)


def shrink(path: Path) -> None:
    """Compress a log without the time of doing so."""
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    path.unlink()


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True)
    record(target)
    for name in ("radio.jsonl", "gps.jsonl"):
        shrink(target / name)
