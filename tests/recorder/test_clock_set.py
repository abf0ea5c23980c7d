"""A clock that is really set: a capture in a Linux of its own (User Mode Linux), whose clock is not ours."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from multitracer.recording.read import read
from tests.collectors.running import records
from tests.recorder.capturing import manifest, until

S = 1_000_000_000
ROOT = Path(__file__).parents[2]
INIT = """\
#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PYTHONDONTWRITEBYTECODE=1 HOME={room} TMPDIR={room}
mount -t proc none /proc && mount -t sysfs none /sys && mount -t devpts none /dev/pts
mount -t tmpfs none {room} && mkdir {room}/out && mount -t hostfs none {room}/out -o {out}
echo >{room}/out/booted
cd {root} && ip link set lo up
{python} -m multitracer capture -o {room}/out/drive --plain --rehearse --clap-every 1 \\
    --with host_clock --with modem --with tcp_info 2>{room}/out/said &
capture=$!
logs={room}/out/drive/mobile
count() {{ cat $logs/$2-0.jsonl 2>/dev/null | grep -c "$1"; }}
seen() {{ echo $(count '"tag"' clocks) $(count '"kind":"clock"' radio) $(count '"kind":"clock"' tcp_state); }}
each_log_has_read_the_clock() {{
    before="$1 $2 $3"
    until set -- $before $(seen) && [ $4 -gt $1 ] && [ $5 -gt $2 ] && [ $6 -gt $3 ]; do sleep 0.1; done
}}
each_log_has_read_the_clock 0 0 0
for step in +37 -2; do
    before=$(seen)
    date -s "$step seconds"
    each_log_has_read_the_clock $before
done
until [ "$(count '"event":"step"' clocks)" = 2 ]; do sleep 0.1; done
kill -TERM $capture
wait $capture
echo $? >{room}/out/status
{python} -c '
import subprocess
from collectors._stop import SetAlarm
alarm = SetAlarm()
told = [alarm.take()]
subprocess.run(["date", "-s", "+1 seconds"])
told += [alarm.take(), alarm.take()]
open("{room}/out/alarm", "w").write(repr(told))
'
poweroff -f
"""


def room() -> str:
    """Return a folder that can be written over in a Linux of its own: it hides nothing that runs there."""
    needed = [ROOT, Path(sys.executable), Path(sys.base_prefix)]
    for name in ("/mnt", "/media", "/srv", "/tmp"):
        if Path(name).is_dir() and not any(each.is_relative_to(name) for each in needed):
            return name
    pytest.skip("no folder to write over: the program lies in all of them")


def boot(folder: Path, init: Path, booted: Path) -> str:
    """Run a Linux in this one's files, which it may only read, until it is off; return what it said.

    Its memory is a file in `folder`: containers have little room in /dev/shm, and may execute nothing there.
    """
    argv = [
        "linux.uml", "mem=512M", "rootfstype=hostfs", "rootflags=/", "ro", "con=null", "con0=fd:0,fd:1",
        f"init={init}", f"uml_dir={folder}",
    ]  # fmt: skip
    said = folder / "console"
    with said.open("wb") as console:
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT, start_new_session=True,
            env=os.environ | {"TMPDIR": str(folder)},
        )  # fmt: skip
    try:
        until(lambda: booted.exists() or child.poll() is not None, patience_s=60)
        child.wait(180)
    except (AssertionError, subprocess.TimeoutExpired):
        pass  # whoever called sees how far it came
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    return said.read_text(errors="replace")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("linux.uml") is None, reason="needs linux.uml (user-mode-linux)")
def test_clock_set_by_37_and_minus_2_seconds_is_noticed_recorded_and_survived(tmp_path: Path) -> None:
    out, init = tmp_path / "out", tmp_path / "init"
    out.mkdir()
    init.write_text(INIT.format(out=out, room=room(), root=ROOT, python=sys.executable))
    init.chmod(0o755)
    said = boot(tmp_path, init, out / "booted")
    if not (out / "booted").exists():  # ptrace may be forbidden, or what is in /tmp may not be executed
        pytest.skip(f"User Mode Linux does not boot here: {' '.join(said.split())[-300:]}")
    assert (out / "status").exists(), said[-2000:]
    assert (out / "status").read_text() == "0\n", (out / "said").read_text()
    assert (out / "alarm").read_text() == "[False, True, False]", "the kernel says at once that it was set"
    shown = re.findall(r"the clock was stepped by (\S+) s", (out / "said").read_text())
    assert [round(float(value)) for value in dict.fromkeys(shown)] == [37, -2]
    folder = out / "drive"
    assert {run["outcome"] for run in manifest(folder)["collectors"]} == {"ended"}
    session = read(folder)
    clocks = [t["clock_readings"] for log, t in session.logs("clock") if log.format == "clocks"]
    (rows,) = ([row for row in table.rows() if row["event"] == "step"] for table in clocks)
    assert [row["step_ns"] / S for row in rows] == pytest.approx([37, -2], abs=0.5)
    (radio,) = (t["radio"] for _, t in session.logs("radio"))
    log = folder / "mobile" / "radio-0.jsonl"
    pairs, lines = records(log, "clock"), log.read_text().splitlines()
    offsets = [pair["realtime_ns"] - pair["monotonic_after_ns"] for pair in pairs]
    assert [round((b - a) / S) for a, b in pairwise(offsets) if abs(b - a) > S] == [37, -2]
    placed = [row["answered_ns"] - json.loads(lines[row["line"] - 1])["answered_ns"] for row in radio.rows()]
    far = [min(abs(offset - told) for told in offsets) for offset in placed]
    assert max(far) < S // 100, "readings stand where the wall clock stood, not between"
