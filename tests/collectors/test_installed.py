"""Collectors of other packages: installed ones are found, started, read; a broken one costs only itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import zipfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from collectors import _collector, collectors
from multitracer.errors import PreflightError
from multitracer.recording.read import read
from tests.recorder.capturing import command, end, manifest, until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PAGE = Path(__file__).parents[2] / "docs" / "collectors.md"
WIRELESS = """\
Inter-| sta-|   Quality        |   Discarded packets               | Missed | WE
 face | tus | link level noise |  nwid  crypt   frag  retry   misc | beacon | 22
wlan0: 0000   58.  -52.  -256        0      0      0      0     10        0
"""
"""As `cat /proc/net/wireless` prints it; its form: net/wireless/wext-proc.c."""
GOOD = """
from collectors import Collector, run
COLLECTOR = Collector("{name}", "clock", "made for a test", "clocks", "{suffix}", lambda: None)
"""


def install(place: Path, name: str, entry_points: str, modules: Mapping[str, str]) -> dict[str, str]:
    """Let pip install a wheel into a folder; return the environment that has it."""
    wheel = place.with_name(f"{name}-1-py3-none-any.whl")
    about = f"{name}-1.dist-info"
    files = {f"{module}.py": text for module, text in modules.items()} | {
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": entry_points,
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in (files | {f"{about}/RECORD": "".join(f"{path},,\n" for path in files)}).items():
            archive.writestr(path, text)
    pip = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(place), str(wheel)]
    done = subprocess.run([sys.executable, *pip], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return os.environ | {"PYTHONPATH": f"{place}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}


@contextmanager
def capturing(folder: Path, environment: dict[str, str], *options: str) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        command(folder, *options), env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def blocks(language: str) -> list[str]:
    section = PAGE.read_text().partition("## Write your own collector")[2].partition("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


def test_collector_of_the_page_is_installed_recorded_with_and_read(tmp_path: Path) -> None:
    wireless = tmp_path / "wireless"
    wireless.write_text(WIRELESS)
    (program,), (project,) = blocks("python"), blocks("toml")
    (points,) = re.findall(r'\[project\.entry-points\."(.*?)"\]\nwifi = "(.*?)"', project)
    environment = install(
        tmp_path / "site", "multitracer_wifi", f"[{points[0]}]\nwifi = {points[1]}\n",
        {"wifi_collector": program.replace("/proc/net/wireless", str(wireless))},
    )  # fmt: skip
    folder = tmp_path / "drive"
    log = folder / "mobile" / "wifi-0.csv"
    with capturing(folder, environment, "--with", "wifi", "--with", "host_clock") as child:
        until(lambda: child.poll() is not None or (log.exists() and log.read_bytes().count(b"\n") > 2))
        status, _, said = end(child)
    assert status == 0, said
    (run,) = (run for run in manifest(folder)["collectors"] if run["name"] == "wifi")
    assert (run["outcome"], run["command"][1:4]) == ("ended", ["-m", "wifi_collector", "-o"])
    (radio,) = (tables["radio"] for _, tables in read(folder).logs("radio"))
    assert set(radio["rssi_dbm"].tolist()) == {-52.0}
    doctor = subprocess.run(
        [sys.executable, "-m", "multitracer", "doctor"], env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert re.search(r"ok +collector wifi +can record here", doctor.stdout)


@pytest.fixture
def broken(tmp_path: Path) -> dict[str, str]:
    modules = {
        "acme_broken": "raise RuntimeError('no\\nfirmware')",
        "acme_exit": "raise SystemExit('I am a script')",
        "acme_none": "COLLECTOR = 7",
        "acme_taken": GOOD.format(name="gps", suffix=".jsonl"),
        "acme_escape": GOOD.format(name="escape", suffix="/../../owned"),
        "acme_check": GOOD.format(name="check", suffix=".jsonl").replace("lambda: None", "lambda: 1 / 0"),
        "acme_dies": GOOD.format(name="dies", suffix=".jsonl") + "import sys; sys.exit('it rained')",
    }
    names = {"acme_taken": "gps", "acme_escape": "escape", "acme_check": "check", "acme_dies": "dies"}
    lines = [f"{names.get(module, module)} = {module}" for module in modules if module != "acme_dies"]
    modules["acme_dies"] = modules["acme_dies"].replace("import sys", "if __name__ == '__main__':\n import sys")
    points = "\n".join(["[multitracer.collectors]", *lines, "dies = acme_dies", "gone = acme_gone", ""])
    return install(tmp_path / "site", "acme", points, modules)


NO_COLLECTOR = "the module has no COLLECTOR with the name 'acme_none'; add COLLECTOR as its last line"
ESCAPE = "the name 'escape' or the file suffix '/../../owned' of this collector is not allowed; use letters and digits"
TAKEN = "a collector with this name already exists; rename one of the two collectors"
WARNINGS = [
    r"Warning: collector plug-in acme_broken (acme_broken): no\nfirmware; the collector is not used",
    "Warning: collector plug-in acme_exit (acme_exit): I am a script; the collector is not used",
    f"Warning: collector plug-in acme_none (acme_none): acme_none: {NO_COLLECTOR}; the collector is not used",
    f"Warning: collector plug-in escape (acme_escape): {ESCAPE}; the collector is not used",
    "Warning: collector plug-in gone (acme_gone): No module named 'acme_gone'; the collector is not used",
    f"Warning: collector plug-in gps (acme_taken): {TAKEN}; the collector is not used",
    "Warning: the collector check is not used: check: the check of this collector failed: division by zero",
]


def test_broken_collectors_are_one_warning_each_and_the_rest_is_recorded(
    broken: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "drive"
    others = [
        word for name in ("tcpdump", "sniffer", "tcp_probe", "rlp", "modem", "gps") for word in ("--without", name)
    ]
    with capturing(folder, broken, *others) as child:
        until(lambda: child.poll() is not None or _ends(folder, "dies") > 1)
        status, _, said = end(child)
    assert status == 0, said
    assert [line for line in said.splitlines() if line.startswith("Warning: ")] == WARNINGS
    outcomes = {run["name"]: run["outcome"] for run in manifest(folder)["collectors"]}
    assert outcomes.pop("dies") == "failed with status 1: it rained"
    assert outcomes == {"tcp_info": "ended", "host_clock": "ended"}
    assert not list(tmp_path.rglob("owned*"))


def _ends(folder: Path, name: str) -> int:
    runs = manifest(folder).get("collectors", [])
    return sum(run["name"] == name and run["outcome"] is not None for run in runs)


def test_a_check_that_hangs_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_collector, "_CHECK_S", 0.1)
    hanging = replace(collectors()["gps"], check=lambda: time.sleep(600))
    with pytest.raises(PreflightError, match=r"gps: the check of this collector failed: no answer within 0\.1 s"):
        _collector._check(hanging)
