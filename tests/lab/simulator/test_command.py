"""`multitracer testbed`, as a user runs it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from multitracer.lab.scenario.library import bundled_names
from tests.cli.program import call, run

if TYPE_CHECKING:
    from pathlib import Path


def test_list_shows_every_scenario_with_its_title() -> None:
    shown = call("testbed", "list").stdout
    assert all(name in shown for name in bundled_names())
    assert "CoDel marks" in shown


def test_run_writes_a_session_and_shows_its_numbers(tmp_path: Path) -> None:
    folder = tmp_path / "fade"
    shown = run("testbed", "run", "fig11-fade", "--virtual", "--seed", "3", "-o", folder).stdout
    summary = json.loads((folder / "summary.json").read_text())
    assert f"{summary['goodput_bytes_per_s']:.1f}" in shown
    assert str(folder) in shown
    assert json.loads((folder / "manifest.json").read_text())["variables"]["seed"] == 3
    run("analyze", folder)


def test_run_takes_a_file_and_a_recorded_radio(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[[traffic]]\nbytes = 3000\n")
    (tmp_path / "radio.txt").write_text("# multitracer error-trace 1\n# slot_ns 20000000\n# slots 100\nup 60 30\n")
    call("testbed", "run", tmp_path / "mine.toml", "--virtual", "-o", tmp_path / "plain")
    errors = ("--errors", tmp_path / "radio.txt")
    call("testbed", "run", tmp_path / "mine.toml", "--virtual", *errors, "-o", tmp_path / "faded")
    resent = [
        json.loads((tmp_path / name / "summary.json").read_text())["rlp_retransmissions"] for name in ("plain", "faded")
    ]
    assert resent[0] == 0 < resent[1]


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (("no-such", "--virtual"), 1, "clean-bulk"),
        (("clean-bulk", "--virtual", "--speed", "3"), 2, "--speed"),
        (("clean-bulk", "--speed", "51"), 2, "--speed"),
        (("clean-bulk", "--virtual", "--errors", "absent.txt"), 1, "absent.txt"),
        (("clean-bulk", "--virtual", "--seed", "-1"), 2, "seed"),
    ],
)
def test_a_wrong_call_says_what_to_do(tmp_path: Path, args: tuple[str, ...], status: int, words: str) -> None:
    done = call("testbed", "run", *args, "-o", tmp_path / "new", status=status)
    assert words in done.stderr
    assert not (tmp_path / "new").exists()


def test_a_trace_is_replayed_by_its_times_whatever_the_slots_of_the_link(tmp_path: Path) -> None:
    """A radio that fails from 10 to 12 s, recorded in slots of 20 ms or of 500 ms, is the same one."""
    summaries = []
    for slot_ms, first, count in ((20, 500, 100), (500, 20, 4)):
        text = f"# multitracer error-trace 1\n# slot_ns {slot_ms}000000\n# slots 9000\nup {first} {count}\n"
        (tmp_path / "radio.txt").write_text(text)
        folder = tmp_path / f"of-{slot_ms}"
        call("testbed", "run", "fig11-fade", "--virtual", "--errors", tmp_path / "radio.txt", "-o", folder)
        summaries.append((folder / "summary.json").read_bytes())
    assert summaries[0] == summaries[1]
    umts = tmp_path / "umts"
    call("testbed", "run", "study-umts", "--virtual", "--errors", tmp_path / "radio.txt", "-o", umts)
    assert json.loads((umts / "summary.json").read_text())["rlp_retransmissions"] >= 30


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "note").touch()
    assert "not empty" in call("testbed", "run", "fig11-fade", "--virtual", "-o", tmp_path, status=1).stderr
