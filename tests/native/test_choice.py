"""Whether the native kernel is used, and what is said of it; these need no kernel."""

from __future__ import annotations

import os
import re
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


def run(*words: str | Path, package: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    paths = [str(path) for path in (package, ROOT) if path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **variables}
    environment = {name: value for name, value in environment.items() if value}
    command = [sys.executable, "-m", "multitracer", *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def package(folder: Path, source: str) -> Path:
    """Write a package that takes the kernel's place; return the folder to import it from."""
    place = folder / "packages"
    place.mkdir()
    (place / "multitracer_native.py").write_text(source)
    return place


def test_another_version_is_ignored_with_a_warning(tmp_path: Path, capture: Path) -> None:
    other = package(tmp_path, "__version__ = '0.0.9'\n")
    done = run("analyze", capture, package=other, MULTITRACER_NATIVE="")
    assert done.returncode == 0
    ours = multitracer.__version__
    assert done.stderr == (
        f"Warning: multitracer-native 0.0.9 is not used, because it does not match multitracer {ours}; "
        f"install multitracer-native=={ours}, or set MULTITRACER_NATIVE=0\n"
    )
    assert done.stdout == run("analyze", capture, MULTITRACER_NATIVE="0").stdout
    shown = run("doctor", package=other, MULTITRACER_NATIVE="").stdout
    assert "multitracer-native 0.0.9 is not used" in shown


def test_a_kernel_of_older_sources_is_ignored_with_a_warning(tmp_path: Path, capture: Path) -> None:
    older = package(tmp_path, f"__version__ = {multitracer.__version__!r}\n")
    done = run("analyze", capture, package=older, MULTITRACER_NATIVE="")
    assert (done.returncode, done.stdout) == (0, run("analyze", capture, MULTITRACER_NATIVE="0").stdout)
    older_words = r"was built from older sources and lacks \w+; build it again \(make native\)"
    assert re.search(older_words, done.stderr)


@pytest.mark.parametrize("part", ["decode", "same_packets"])
def test_a_kernel_that_lacks_one_part_is_ignored(tmp_path: Path, capture: Path, part: str) -> None:
    source = f"""
__version__ = {multitracer.__version__!r}
def __getattr__(name):
    if name in ({part!r}, "__path__"):
        raise AttributeError(name)
"""
    done = run("analyze", capture, package=package(tmp_path, source), MULTITRACER_NATIVE="")
    assert (done.returncode, done.stdout) == (0, run("analyze", capture, MULTITRACER_NATIVE="0").stdout)
    assert f"lacks {part};" in done.stderr


def test_without_a_version_it_is_ignored_too(tmp_path: Path, capture: Path) -> None:
    other = package(tmp_path, "")
    assert "Warning: " in run("analyze", capture, package=other, MULTITRACER_NATIVE="").stderr


def test_a_package_that_does_not_load_is_as_none(tmp_path: Path, capture: Path) -> None:
    other = package(tmp_path, "raise ImportError('wrong machine')\n")
    assert run("analyze", capture, package=other, MULTITRACER_NATIVE="").stderr == ""
    shown = run("--version", "-v", package=other, MULTITRACER_NATIVE="").stdout
    assert shown.splitlines() == [
        f"multitracer {multitracer.__version__}",
        "captures are read by Python (multitracer-native cannot be loaded: wrong machine)",
    ]


def test_the_variable_turns_it_off(tmp_path: Path, capture: Path) -> None:
    other = package(tmp_path, "__version__ = '0.0.9'\n")
    assert run("analyze", capture, package=other, MULTITRACER_NATIVE="0").stderr == ""
    shown = run("--version", "-v", package=other, MULTITRACER_NATIVE="0").stdout
    assert "captures are read by Python (MULTITRACER_NATIVE is 0)" in shown


def test_the_version_alone_says_no_more() -> None:
    assert run("--version").stdout == f"multitracer {multitracer.__version__}\n"


def test_the_crate_has_the_version_of_the_package() -> None:
    lines = (ROOT / "native" / "Cargo.toml").read_text().splitlines()
    assert f'version = "{multitracer.__version__}"' in lines


@pytest.mark.skipif(native.kernel() is None, reason=f"captures are read by {native.state()}")
def test_it_says_that_it_is_used() -> None:
    shown = run("-v", "-V").stdout
    assert shown.splitlines()[1] == f"captures are read by the native kernel {multitracer.__version__}"
