"""The benchmark's own instruments measure what they say they measure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

import multitracer as mt
from tests.benchmarks import drive, goals, held_load, mutual_information
from tests.benchmarks.__main__ import rows_of, table
from tests.benchmarks.measure import ProgramFailedError, cost
from tests.benchmarks.record import Recipe, first_packets, merged, recorded
from tests.benchmarks.traffic import sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]


MEASURE = """
import sys
from tests.benchmarks.measure import cost
work = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"
burn = "b = b'x' * 80_000_000\\nimport time\\nwhile time.process_time() < 0.4: pass"
spent = cost([sys.executable, "-c", work, burn])
print(spent.wall_s, spent.cpu_s, spent.peak_bytes)
"""


def test_cost_sees_time_work_and_memory_of_children_too() -> None:
    argv = [sys.executable, "-c", MEASURE]  # a small process, as a child's peak begins at its parent's
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    wall_s, cpu_s, peak_bytes = map(float, done.stdout.split())
    assert wall_s >= 0.4
    assert cpu_s >= 0.4
    assert 80_000_000 < peak_bytes < 120_000_000


def test_cost_of_a_failing_command_is_an_error_with_its_words() -> None:
    with pytest.raises(ProgramFailedError, match="on purpose"):
        cost([sys.executable, "-c", "raise SystemExit('on purpose')"])


def test_sizes_are_repeatable_and_sum_up() -> None:
    once = sizes(connections=100, total_bytes=10_000_000)
    assert once == sizes(connections=100, total_bytes=10_000_000)
    assert sum(once) == pytest.approx(10_000_000, rel=1e-4)
    assert max(once) > 5 * min(once)


def test_table_shows_what_is_missed() -> None:
    row = goals.Row("a", "b", "1 s", "2 s", "2.0 ×", "≥ 10 ×", met=False)
    assert "**no**" in table([row])


@pytest.mark.root
def test_recorded_captures_are_whole_and_can_be_cut_and_merged(tmp_path: Path) -> None:
    recipe = Recipe("small", 10, 3_000_000, "400mbit", 5200)
    small = recorded(recipe, folder=tmp_path)
    count = goals.packets(small)
    assert count > 3_000_000 / 1448
    assert goals.packets(first_packets(small, 100, "first")) == 100
    assert goals.packets(merged([small, small], "both")) == 2 * count
    assert not list(tmp_path.glob("*.unfinished"))


def test_the_drive_that_is_measured_holds_what_it_says(tmp_path: Path) -> None:
    drive.write_capture(tmp_path / "tcp.pcap", 50_000)
    drive.write_log(tmp_path / "drive.csv")
    session = mt.open(tmp_path)
    assert len(session) == drive.CONNECTIONS
    assert session.directions.packets.sum() == pytest.approx(50_000, rel=0.05)
    records, seconds = drive.connection(10_000, 59.0)
    assert len(records) == pytest.approx(10_000, rel=0.01)
    assert seconds[-1] < drive.SECONDS / drive.CONNECTIONS  # one ends before the next begins
    assert len(session.radio) == len(session.position) == drive.SECONDS
    assert session.position.speed_mps.between(0, 25).all()


def test_an_hour_of_dependence_is_measured_on_pairs_that_have_a_value() -> None:
    cost(mutual_information.argv(points=200, variables=2, permutations=9))


def test_a_program_that_fails_is_a_row_with_its_last_words_and_those_before_stay() -> None:
    row = goals.Row("`analyze`", "tiny", "1 s", "", "1 s", "", met=True)

    def goal(*_: object, **__: object) -> Iterator[goals.Row]:
        yield row
        cost([sys.executable, "-c", "raise SystemExit('first\\nno | such column')"])

    before, failed = rows_of(goal, cast("goals.Captures", None), runs=1)
    assert before == row
    assert failed.result == "failed: no / such column"
    assert not failed.met


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 3])
def test_load_held_under_attack_counts_the_attack_and_the_transactions(number: int) -> None:
    name, protocol, attack = held_load.ROWS[number]
    held = held_load.measured(protocol, attack, 0.5)
    assert held.failed == 0
    assert 0 < held.longest_s < 60
    assert held.done_per_s > 1
    assert (held.attack_per_s > 1000) == ("flood" in name)
    assert held_load.row(name, [held], is_alone=False).count("|") == 5
