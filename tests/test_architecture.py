"""Rules that no single package can keep alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import parsers
from multitracer.errors import UnknownFormatError
from multitracer.native import kernel
from tests.parsers.frames import enhanced, frame, interface, section

ROOT = Path(__file__).parents[1]
MOST_FUNCTIONS, MOST_FILES = 31, 10
"""That `analyze FILE` may enter above analysis, clock and parsers, since a reader has to follow them all."""
HEAVY = {"numpy", "pandas", "plotly", "pyarrow", "scapy", "pyshark", "rich"}


@pytest.mark.parametrize("statement", ["import multitracer", "from multitracer.cli import main"])
def test_import_stays_light(statement: str) -> None:
    assert not _loaded(statement) & HEAVY


def test_help_loads_no_heavy_library() -> None:
    assert not _loaded("from multitracer.cli._program import run; run(['--help'])") & HEAVY


def test_analysis_needs_no_data_frames(sample_session: Path) -> None:
    statement = f"from multitracer.cli._program import run; run(['analyze', {str(sample_session)!r}])"
    assert not _loaded(statement) & (HEAVY - {"numpy", "rich"})


def test_a_capture_loads_no_other_format_and_no_package_that_makes_traffic(sample_sender: Path) -> None:
    modules = _modules(f"from multitracer.cli._program import run; run(['analyze', {str(sample_sender)!r}])")
    assert ("parsers.pcap" in modules) == (kernel() is None)  # the kernel needs not even that one
    others = ("lab", "protocols.wtcp", "protocols.modem")
    unused = {f"multitracer.{package}" for package in others} | {"parsers.tcp_info", "importlib.metadata"}
    unused |= {"parsers.pcapng", "parsers.erf", "parsers._signalling", "multitracer.manifest"}
    unused |= {"parsers._text.lines", "parsers._registry"}
    assert not modules & (unused | {"numpy.ma", "hashlib", "socket", "json", "concurrent.futures"})


def test_a_pcapng_file_loads_no_other_format(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(section() + interface() + enhanced(frame(flags=2)))
    modules = _modules(f"from multitracer.cli._program import run; run(['analyze', {str(path)!r}])")
    assert ("parsers.pcapng" in modules) == (kernel() is None)
    assert not modules & {"parsers.erf", "parsers.rlpdump", "parsers.tcp_info", "multitracer.protocols.rlp"}


def test_a_capture_passes_few_functions_on_its_way_to_the_answer() -> None:
    capture = ROOT / "sample_traces" / "typical-1450k" / "mobile" / "tcp-0.pcap.xz"
    done = subprocess.run(
        [sys.executable, "-m", "tests.entered", "analyze", capture],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    entered = done.stderr.splitlines()
    assert "cli/analyze.py command" in entered
    assert len(entered) <= MOST_FUNCTIONS, done.stderr
    assert len({line.split()[0] for line in entered}) <= MOST_FILES, done.stderr


def _loaded(statement: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter has after a statement."""
    return {name.partition(".")[0] for name in _modules(statement)}


def _modules(statement: str) -> set[str]:
    program = f"import sys\n{statement}\nprint()\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def test_packages_import_only_downwards() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_format_has_a_sample_or_tests_of_its_own() -> None:
    sampled = {_format_of(path) for path in (ROOT / "sample_traces").rglob("*") if path.is_file()}
    tested = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    for known in parsers.formats():
        assert known.name in sampled or f"test_{known.name.replace('-', '_')}" in tested, known.name


def _format_of(path: Path) -> str | None:
    try:
        return parsers.detect(str(path)).name
    except UnknownFormatError:
        return None
