"""experiments_sweep.md: its numbers are those of the bundled runs, which come out the same again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from docs.papers.programs import experiment_bluetooth, experiment_segments, experiment_sweep
from docs.papers.programs.experiment_page import IMAGES, part
from docs.papers.programs.experiment_sweep import BUSY, BUSY_PERCENT, LOSS, OF_EACH, ROUNDS, SIZES, Cell, cells, rows
from docs.papers.programs.experiment_sweep_page import PAGE, beside, known, palm, parts, ratio
from docs.papers.programs.experiment_sweep_pictures import figures
from multitracer.lab.scenario.library import load_scenario
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from pathlib import Path

TEXT = PAGE.read_text("utf-8")
_LARGEST_PICTURE = 150_000
_LARGEST_DATA = 1 << 20


@pytest.mark.parametrize("name", list(parts()))
def test_each_generated_part_is_what_the_runs_say(name: str) -> None:
    assert part(TEXT, name) == parts()[name](), "run: python -m docs.papers.programs.experiments tables"


def test_every_cell_is_there_whole_and_no_other() -> None:
    assert set(known()) == {(cell, size) for cell in cells() for size in cell.sizes}
    assert {row.begun for row in rows()} == {ROUNDS * OF_EACH}


def test_a_cell_comes_out_as_it_is_bundled() -> None:
    cell = Cell("request", "palm", 64, BUSY_PERCENT[0], LOSS)
    assert experiment_sweep.measured(cell) == [known()[cell, size] for size in SIZES]


def test_the_segments_come_out_as_they_are_bundled(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = experiment_segments.CELLS[0]
    kept = [s for s in experiment_segments.segments() if (s.cap_s, s.busy_percent) == (cell.cap_s, BUSY)]
    sessions = 2
    monkeypatch.setattr(experiment_segments, "SESSIONS", sessions)
    monkeypatch.setattr(experiment_segments, "SIZES", experiment_segments.SIZES[:1])
    assert list(experiment_segments.measured(cell)) == [s for s in kept if s.transaction <= sessions]


def test_a_row_of_the_steps_over_bluetooth_comes_out_as_it_is_bundled(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = experiment_bluetooth.TRANSPORTS[-1]
    monkeypatch.setattr(experiment_bluetooth, "SIZES", (64,))
    (row,) = experiment_bluetooth.measured(transport)
    assert row in experiment_bluetooth.rows()


def test_the_file_depends_on_the_rows_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = rows()
    complete = experiment_sweep.FILE.read_bytes()
    monkeypatch.setattr(experiment_sweep, "FILE", tmp_path / "sweep.csv.gz")
    experiment_sweep.keep(reversed(found))
    assert experiment_sweep.FILE.read_bytes() == complete
    assert sorted(rows()) == sorted(found)


def test_a_sweep_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done, lacking = rows()[: len(SIZES)], rows()[len(SIZES) : 2 * len(SIZES)]
    made: list[Cell] = []

    def remade(cell: Cell) -> list[experiment_sweep.Row]:
        made.append(cell)
        return lacking

    monkeypatch.setattr(experiment_sweep, "FILE", tmp_path / "sweep.csv.gz")
    monkeypatch.setattr(experiment_sweep, "cells", lambda: iter([done[0].cell, lacking[0].cell]))
    monkeypatch.setattr(experiment_sweep, "measured", remade)
    experiment_sweep.keep(done)
    experiment_sweep.run_missing()
    assert made == [lacking[0].cell]
    assert sorted(rows()) == sorted(done + lacking)


def test_the_scenario_is_the_bundled_link_but_for_what_the_page_names() -> None:
    ours, bundled = load_scenario(experiment_sweep.SCENARIO), load_scenario("cdpd")
    assert (ours.mobile.mtu_bytes, ours.fixed.mtu_bytes) == (576, 576)
    assert (ours.mobile.max_rto_ns, ours.fixed.max_rto_ns) == (NS_PER_S, 120 * NS_PER_S)
    changed = Cell("reply", "palm", 64, BUSY, LOSS).scenario
    assert changed.mobile.max_rto_ns == 64 * NS_PER_S
    assert changed.link != bundled.link
    assert ours.source in TEXT, "the page shows it"


def test_pictures_are_on_the_page_and_the_data_is_small() -> None:
    files = (experiment_sweep.FILE, experiment_segments.FILE, experiment_bluetooth.FILE)
    assert sum(file.stat().st_size for file in files) < _LARGEST_DATA
    for name in figures():
        picture = IMAGES / f"{name}.png"
        assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        assert picture.stat().st_size < _LARGEST_PICTURE
        assert f"images/{picture.name}" in TEXT


# --- what the page claims ---


def test_a_palm_whose_timer_may_grow_does_not_collapse() -> None:
    for busy in BUSY_PERCENT[:4]:
        assert ended(palm(64, busy), 8192) == 1
        assert (ratio(palm(64, busy), 4096) or 9) < 1


def test_a_palm_with_a_small_cap_collapses_in_a_busy_cell_and_centauruscomm_does_not() -> None:
    for cell, size in ((palm(1, 60), 4096), (palm(2, 60), 8192)):
        assert ended(cell, size) < 0.5
        assert ended(beside(cell), size) == 1
    assert (ratio(palm(2, 60), 4096) or 0) > 2
    assert (ratio(palm(2, 20), 4096) or 9) < 1


def ended(cell: Cell, size: int) -> float:
    """Return the share of the transactions that ended."""
    row = known()[cell, size]
    return len(row.rtts_s) / row.begun


def test_what_a_small_cap_sends_again_is_needless_and_most_of_it_is_the_timer_s() -> None:
    found = [s for s in experiment_segments.segments() if s.length and s.cap_s < 64 and s.busy_percent == 60]
    again = [s for s in found if s.cause]
    assert len(again) > len(found) / 2
    assert sum(s.necessity in ("spurious", "ack-lost") for s in again) > 0.95 * len(again)
    assert sum(s.cause == "timeout" for s in again) > 0.8 * len(again)


def test_nagle_s_algorithm_makes_steps_in_the_paper_s_two_places() -> None:
    found = [r for r in experiment_bluetooth.rows() if r.nagle and r.mtu_bytes == 1500]
    medians_s = {row.size_bytes: row.median_s for row in found}
    assert medians_s[1024] - medians_s[64] < 0.03
    assert 0.2 < medians_s[2048] - medians_s[1024] < 0.3
    assert 0.3 < medians_s[8192] - medians_s[4096] < 0.4
    assert medians_s[4096] < medians_s[2048], "not as in the paper"


def test_a_short_queue_costs_centauruscomm_a_watchdog_at_8192_bytes_alone() -> None:
    for row in experiment_bluetooth.rows():
        if row.protocol != "tcp":
            late = row.size_bytes == 8192 and row.queue_packets < 16
            assert row.waited == (row.begun if late else 0)
