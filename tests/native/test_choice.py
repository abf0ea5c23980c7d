"""Whether the native kernel is used, and what is said of it; these need no kernel."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import multitracer
from multitracer import native
from tests.parsers.frames import frame, pcap_file

ROOT = Path(__file__).parents[2]


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "capture.pcap"
    path.write_bytes(pcap_file([frame(seq=n) for n in range(3)]))
    return path


def run(*words: str | Path, root: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(ROOT)]), **variables}
    environment = {name: value for name, value in environment.items() if value}
    command = [sys.executable, "-m", "multitracer", *map(str, words)]
    return subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=False)


def installed(folder: Path, name: str = "", text: str = "") -> Path:
    """Return a folder with MultiTracer as it is, but one more file in place of its kernel."""
    package = folder / "installed" / "multitracer"
    package.mkdir(parents=True)
    for each in (ROOT / "multitracer").iterdir():
        if not each.name.startswith(("_native", "__pycache__")):
            (package / each.name).symlink_to(each)
    if name:
        (package / name).write_text(text)
    return package.parent


def test_a_kernel_of_older_sources_is_ignored_with_a_warning(tmp_path: Path, capture: Path) -> None:
    older = installed(tmp_path, "_native.py")
    done = run("analyze", capture, root=older, MULTITRACER_NATIVE="")
    assert (done.returncode, done.stdout) == (0, run("analyze", capture, MULTITRACER_NATIVE="0").stdout)
    assert re.search(
        r"^Warning: the native kernel is not used, because it was compiled from older sources and lacks \w+; "
        r"compile it again \(make native\), or set MULTITRACER_NATIVE=0$",
        done.stderr,
        re.MULTILINE,
    )
    shown = run("doctor", root=older, MULTITRACER_NATIVE="").stdout
    assert "the native kernel is not used: it was compiled from older sources and lacks" in shown


COMPLETE = """
SOURCES = {sources!r}
Fault = ArithmeticError
def __getattr__(name):
    if name == "__path__":
        raise AttributeError(name)
"""


def test_a_kernel_of_other_sources_than_those_beside_it_is_ignored_with_a_warning(
    tmp_path: Path, capture: Path
) -> None:
    """As after `git pull` in a clone, if a function is another but has its old name."""
    checksum = native.sources_checksum(ROOT / "native")
    root = installed(tmp_path, "_native.py", COMPLETE.format(sources=checksum))
    shutil.copytree(ROOT / "native", root / "native", ignore=shutil.ignore_patterns("target"))
    used = "captures are read by the native kernel"
    assert run("--version", "-v", root=root, MULTITRACER_NATIVE="").stdout.splitlines()[1] == used
    with (root / "native" / "core" / "src" / "tcp.rs").open("a") as stream:
        stream.write("// pulled\n")
    done = run("analyze", capture, root=root, MULTITRACER_NATIVE="")
    assert (done.returncode, done.stdout) == (0, run("analyze", capture, MULTITRACER_NATIVE="0").stdout)
    assert re.search(
        r"^Warning: the native kernel is not used, because it was compiled from other sources; "
        r"compile it again \(make native\), or set MULTITRACER_NATIVE=0$",
        done.stderr,
        re.MULTILINE,
    )
    (root / "native" / "Cargo.toml").unlink()  # as in a wheel: nothing lies beside
    assert run("--version", "-v", root=root, MULTITRACER_NATIVE="").stdout.splitlines()[1] == used


@pytest.mark.parametrize("part", ["decode", "same_packets"])
def test_a_kernel_that_lacks_one_part_is_ignored(tmp_path: Path, capture: Path, part: str) -> None:
    source = f"""
def __getattr__(name):
    if name in ({part!r}, "__path__"):
        raise AttributeError(name)
"""
    done = run("analyze", capture, root=installed(tmp_path, "_native.py", source), MULTITRACER_NATIVE="")
    assert (done.returncode, done.stdout) == (0, run("analyze", capture, MULTITRACER_NATIVE="0").stdout)
    assert f"lacks {part};" in done.stderr


def test_a_kernel_that_does_not_load_is_as_none(tmp_path: Path, capture: Path) -> None:
    other = installed(tmp_path, "_native.py", "raise ImportError('wrong machine')\n")
    assert "Warning" not in run("analyze", capture, root=other, MULTITRACER_NATIVE="").stderr
    shown = run("--version", "-v", root=other, MULTITRACER_NATIVE="").stdout
    assert shown.splitlines() == [
        f"multitracer {multitracer.__version__}",
        "captures are read by Python (the native kernel cannot be loaded: wrong machine)",
    ]


@pytest.mark.parametrize(
    ("noted", "why"), [("cargo was not found\n", "was not compiled: cargo was not found"), ("", "was not compiled")]
)
def test_without_a_kernel_it_says_why(tmp_path: Path, capture: Path, noted: str, why: str) -> None:
    none = installed(tmp_path, "_native.txt" if noted else "", noted)
    done = run("analyze", capture, root=none, MULTITRACER_NATIVE="")
    assert (done.returncode, "Warning" in done.stderr) == (0, False)
    shown = run("--version", "-v", root=none, MULTITRACER_NATIVE="").stdout
    assert shown.splitlines()[1] == f"captures are read by Python (the native kernel {why})"
    found = json.loads(run("doctor", "--json", root=none, MULTITRACER_NATIVE="").stdout)["components"]
    (kernel,) = (each for each in found if each["name"] == "native kernel")
    assert (kernel["works"], why in kernel["found"]) == (False, True)
    pip = f"{sys.executable} -m pip install --force-reinstall --no-deps"
    assert kernel["fix"] == (
        f"install Rust (cargo), then in a clone: {pip} . (or without Rust: {pip} WHEEL, a release's wheel)"
    )


def test_in_a_clone_make_compiles_the_kernel(tmp_path: Path) -> None:
    none = installed(tmp_path)
    (none / "native").symlink_to(ROOT / "native")
    found = json.loads(run("doctor", "--json", root=none, MULTITRACER_NATIVE="").stdout)["components"]
    (kernel,) = (each for each in found if each["name"] == "native kernel")
    assert kernel["fix"] == "install Rust (cargo), then: make native"


def test_the_variable_turns_it_off(tmp_path: Path, capture: Path) -> None:
    other = installed(tmp_path, "_native.py", "raise RuntimeError('imported')\n")
    assert run("analyze", capture, root=other, MULTITRACER_NATIVE="0").returncode == 0
    shown = run("--version", "-v", root=other, MULTITRACER_NATIVE="0").stdout
    assert "captures are read by Python (MULTITRACER_NATIVE is 0)" in shown


def test_the_version_alone_says_no_more() -> None:
    assert run("--version").stdout == f"multitracer {multitracer.__version__}\n"


@pytest.mark.skipif(native.kernel() is None, reason=f"captures are read by {native.state()}")
def test_it_says_that_it_is_used() -> None:
    assert run("-v", "-V").stdout.splitlines()[1] == "captures are read by the native kernel"
