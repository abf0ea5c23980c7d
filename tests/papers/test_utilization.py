"""The runs of figure 6 are the same for everybody, and the page shows what they came to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docs.papers.programs import figure6, figure6_page
from multitracer.lab.simulator.record import record_virtual
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from tests.narrowed import call_of

if TYPE_CHECKING:
    from pathlib import Path


def test_a_run_is_drawn_from_its_number_and_every_third_radio_is_poor() -> None:
    runs = [figure6.scenario(number) for number in range(figure6.HOW_MANY)]
    assert runs == [figure6.scenario(number) for number in range(figure6.HOW_MANY)]
    poor = [call_of(run).up.good_s < 10 for run in runs]
    assert sum(poor) * 3 == len(runs)
    sizes = [run.traffic[0].bytes for run in runs]
    assert 230_000 <= min(sizes) < 300_000
    assert 1_200_000 < max(sizes) <= 1_500_000
    assert {call_of(run).header_compression for run in runs} == {"none", "vj-slot-id"}
    assert {call_of(run).when_exhausted for run in runs} == {"reset", "drop-call"}


def test_a_run_comes_to_what_the_table_says(tmp_path: Path) -> None:
    rows = [row for row in figure6.read_rows() if row["run"].startswith("virtual")]
    smallest = min(rows, key=lambda row: int(row["bytes"]))
    number = int(smallest["run"].split()[1])
    record_virtual(figure6.scenario(number), tmp_path / "session")
    transfer = Transfer.of(read(tmp_path / "session"))
    made = figure6.row_of(smallest["run"], smallest["radio"], transfer)
    for name in ("bytes", "outcome", "utilization", "throughput_kbps", "resets", "lost_s"):
        assert str(made[name]) == smallest[name], name


def test_the_page_shows_what_the_runs_came_to() -> None:
    text = figure6_page.PAGE.read_text("utf-8")
    assert figure6_page.filled(text) == text
