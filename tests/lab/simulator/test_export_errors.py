"""`multitracer export errors`: from a recorded link to the radio of another run."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from multitracer.lab.scenario.library import load_scenario
from multitracer.protocols.error_trace import parse_error_trace
from tests.cli.program import call

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.shared_runs import SharedRuns


@pytest.fixture(scope="module")
def folder(shared_runs: SharedRuns) -> Path:
    return shared_runs.session(load_scenario("fig5-typical")).folder


@pytest.mark.slow
def test_the_exported_radio_repeats_the_run(folder: Path, tmp_path: Path) -> None:
    call("export", "errors", folder, "-o", tmp_path / "radio.txt")
    errors = ("--errors", tmp_path / "radio.txt")
    call("testbed", "run", "fig5-typical", "--virtual", *errors, "-o", tmp_path / "again")
    assert (tmp_path / "again/summary.json").read_text() == (folder / "summary.json").read_text()
    assert (tmp_path / "again/truth/frames.csv").read_text() == (folder / "truth/frames.csv").read_text()


def test_the_trace_goes_to_standard_output(folder: Path) -> None:
    trace = parse_error_trace(call("export", "errors", folder).stdout, path="-")
    assert trace.slot_ns == 20_000_000
    assert len(trace.up) > 3
    assert sum(count for _, count in trace.up) >= 60  # the fade of 1.2 s


def test_a_direction_without_a_log_is_said_to_be_unknown(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "half")
    (tmp_path / "half/fixed/rlp.pcapng").unlink()
    done = call("export", "errors", tmp_path / "half")
    assert "no link log of the fixed side" in done.stderr
    assert parse_error_trace(done.stdout, path="-").up == ()


def test_a_session_without_link_logs_is_an_error(sample_session: Path) -> None:
    assert "no link log" in call("export", "errors", sample_session, status=1).stderr
