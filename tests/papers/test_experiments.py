"""docs/papers/experiments.md: its numbers are those of the bundled transactions, its pictures are there."""

from __future__ import annotations

import csv
import gzip
import re
from typing import TYPE_CHECKING

import pytest

from docs.papers.programs import experiments
from docs.papers.programs.experiment_page import IMAGES, PAGE, figures, named, part, parts
from docs.papers.programs.experiments import RUNS, SESSIONS, SIZES, Run, keep, take, transactions
from multitracer.analysis.transports import size_statistics
from tests.cli.program import call

if TYPE_CHECKING:
    from pathlib import Path

TEXT = PAGE.read_text("utf-8")
_LARGEST_PICTURE = 150_000
_LARGEST_DATA = 4 << 20


@pytest.mark.parametrize("name", list(parts()))
def test_each_generated_part_is_what_the_transactions_say(name: str) -> None:
    assert part(TEXT, name) == parts()[name](), "run: python -m docs.papers.programs.experiments tables"


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_each_run_is_whole(run: Run) -> None:
    table = transactions(run)
    counts = {size: int((table["size_bytes"] == size).sum()) for size in _sizes(run)}
    assert sum(counts.values()) == len(table), "no size but those of the plan"
    if run.each:
        assert min(counts.values()) >= 15
    else:
        assert counts == dict.fromkeys(_sizes(run), SESSIONS[run.link])
    assert set(table["vary"].tolist()) == {run.vary}


def _sizes(run: Run) -> list[int]:
    return list(map(int, SIZES[run.link].split(",")))


def test_the_data_is_small_and_the_pictures_are_on_the_page() -> None:
    assert sum(run.path.stat().st_size for run in RUNS) < _LARGEST_DATA
    for name in figures():
        picture = IMAGES / f"{name}.png"
        assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        assert picture.stat().st_size < _LARGEST_PICTURE
        assert f"images/{picture.name}" in TEXT


_COMMANDS = re.findall(r"^multitracer (measure run .*)$", TEXT, re.MULTILINE)


@pytest.mark.parametrize("command", _COMMANDS, ids=lambda command: command.split()[-1])
def test_a_command_of_the_page_measures_over_the_bundled_link(command: str, tmp_path: Path) -> None:
    """The page's own commands, with two transactions of the smallest size."""
    words = command.split()
    words[words.index("--sizes") + 1] = "128"
    call(*words[:-1], tmp_path / "run", "--sessions", "2")
    assert len((tmp_path / "run" / "transactions.csv").read_text().splitlines()) == 3


def test_over_the_bundled_cell_tcp_collapses_and_centauruscomm_does_not() -> None:
    both = named("cdpd-palm", real=False, vary="request")
    tcp, centaurus = ({row["size_bytes"]: row for row in size_statistics(both[key]).rows()} for key in ("tcp", "cc"))
    assert sum(row["dropped"] for row in centaurus.values()) == 0
    assert 4 < tcp[4096]["mean_s"] / centaurus[4096]["mean_s"] < 7
    assert tcp[4096]["median_s"] > 4 * tcp[2048]["median_s"]
    assert tcp[8192]["dropped"] > 0.9 * tcp[8192]["count"]


def test_over_the_bundled_bluetooth_both_have_the_papers_times() -> None:
    both = named("bluetooth-linux22", real=False)
    tcp, centaurus = ({row["size_bytes"]: row for row in size_statistics(both[key]).rows()} for key in ("tcp", "cc"))
    assert 0.2 < tcp[2048]["median_s"] - tcp[1024]["median_s"] < 0.3
    assert 0.3 < tcp[8192]["median_s"] - tcp[4096]["median_s"] < 0.4
    assert centaurus[4096]["mean_s"] == pytest.approx(0.6, rel=0.1)
    assert centaurus[8192]["mean_s"] == pytest.approx(3.5, rel=0.3)


def test_a_run_in_several_parts_becomes_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "DATA", tmp_path / "data")
    run = next(run for run in RUNS if run.name == "cdpd-cc")
    for n, rtt in enumerate(("1.25", "2.123456789", "3.5")):
        folder = tmp_path / "runs" / f"cdpd-cc-{n}"
        folder.mkdir(parents=True)
        (folder / "transactions.csv").write_text(f"transaction,rtt_s\n{n + 1},{rtt}\n")
    (tmp_path / "runs" / "cdpd-cc-old").mkdir()
    take(tmp_path / "runs")
    with gzip.open(run.path, "rt", newline="") as stream:
        rows = list(csv.reader(stream))
    assert rows == [["transaction", "rtt_s"], ["1", "1.25"], ["2", "2.123457"], ["3", "3.5"]]
    first = run.path.read_bytes()
    keep(run, [tmp_path / "runs" / f"cdpd-cc-{n}" for n in range(3)])
    assert run.path.read_bytes() == first, "the same transactions make the same octets"
