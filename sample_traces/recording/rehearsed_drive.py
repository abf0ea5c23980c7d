"""Records the bundled drive: `python -m sample_traces.recording.rehearsed_drive FOLDER` (root, Linux).

It is what `multitracer capture --rehearse --seed 42 --duration 185` records, with the truth about it, without
what the name of a machine tells, and compressed. The phone's own TCP state is left out, as it receives only;
the server's is there.
"""

from __future__ import annotations

import lzma
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from multitracer.manifest import LogFile, checksum, read_manifest, write_manifest
from sample_traces.recording.finish import leave_out_places

SEED = 42
SECONDS = 185
LEFT_OUT = ("tcp_probe", "tcp_info", "rlp")
_LEAST_BYTES = 5_000
_PORTS = re.compile(rf"{tempfile.gettempdir()}/multitracer-rehearsal-\w+/")
"""The folder in which the ports of the modem and the receiver were."""


def record(folder: Path) -> None:
    """Drive, and record the drive."""
    argv = [sys.executable, "-m", "multitracer", "capture", "-o", str(folder), "--plain", "--rehearse"]
    argv += ["--seed", str(SEED), "--duration", str(SECONDS)]
    subprocess.run([*argv, *(word for name in LEFT_OUT for word in ("--without", name))], check=True)


def finish(folder: Path) -> None:
    """Take out where it was recorded, compress, and write the manifest anew."""
    logs = [path for path in folder.rglob("*.json*") if path.is_file()]
    leave_out_places(folder, logs)
    for path in logs:
        path.write_text(_PORTS.sub("", path.read_text()))
    for path in [path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".json", ".csv")]:
        if path.stat().st_size >= _LEAST_BYTES:
            path.with_name(f"{path.name}.xz").write_bytes(lzma.compress(path.read_bytes(), preset=9))
            path.unlink()
    manifest = read_manifest(folder)
    assert manifest is not None, "capture wrote one"
    for host in manifest.hosts.values():
        host.more.pop("node", None)
    logs = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json")
    manifest.files = [
        LogFile(p.relative_to(folder).as_posix(), p.parent.name, p.stat().st_size, checksum(p)) for p in logs
    ]
    write_manifest(folder, manifest)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    record(target)
    finish(target)
