"""`multitracer measure plan` as a user runs it: order, campaign, an end at any point, places to go to."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from multitracer.campaign.catalogue import Catalogue
from multitracer.campaign.query import query
from tests.campaign.sessions import count
from tests.cli.program import COMMAND, ENVIRONMENT, call
from tests.measure.test_measure_command import serving

if TYPE_CHECKING:
    from pathlib import Path

VIRTUAL = """
protocol = "tcp"
vary = "reply"
sessions = 2
over = "bluetooth"
[variables]
size = [64, 512]
connection = ["one", "per-session"]
radio = ["clean", "poor"]
[levels.radio]
clean = { link.errors.bad_ber = 1e-6 }
poor = { link.errors.bad_ber = 0.001 }
"""
BY_HAND = "size,place\n64,downtown\n128,campus\n"
PATIENCE_S = 120


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(VIRTUAL, "utf-8")
    return path


def _rows(place: Path, sql: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in query(Catalogue(place), sql).to_pylist()]


def _transactions(place: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in place.glob("sessions/*/transactions.csv")}


def test_a_dry_run_prints_the_order_and_writes_nothing(table: Path, tmp_path: Path) -> None:
    place = tmp_path / "campaign"
    words = call("measure", "plan", table, "--dry-run", "--repetitions", "2", "-o", place).stdout
    names = re.findall(r"\d{6}-\d$", words, re.MULTILINE)
    assert sorted(names) == [f"{number:06d}-{repetition}" for number in range(1, 9) for repetition in (1, 2)]
    assert [name[-1] for name in names] == ["1"] * 8 + ["2"] * 8
    assert "16 tuples of 16 in this order, from the random seed 1" in words
    assert call("measure", "plan", table, "--dry-run", "--repetitions", "2").stdout == words
    assert call("measure", "plan", table, "--dry-run", "--seed", "2").stdout != words
    assert not place.exists()


def test_the_results_are_a_campaign_that_can_be_grouped_by_the_variables(table: Path, tmp_path: Path) -> None:
    place = tmp_path / "campaign"
    words = call("measure", "plan", table, "--virtual", "-o", place).stdout
    assert words == f"{place}: 8 of 8 tuples measured, 0 of 16 transactions dropped\n"
    assert (count(place), count(place, "transactions"), count(place, "failures")) == (8, 16, 0)
    grouped = "FROM transactions JOIN sessions USING (session) GROUP BY ALL ORDER BY ALL"
    by_size = _rows(place, f"SELECT sessions.labels['size'] AS size, count(*), median(rtt_s) {grouped}")
    assert [row[:2] for row in by_size] == [("512", 8), ("64", 8)]
    assert float(str(by_size[0][2])) > float(str(by_size[1][2]))
    set_up = _rows(place, f"SELECT sessions.labels['connection'] AS mode, count(connect_s) {grouped}")
    assert set_up == [("one", 4), ("per-session", 8)]
    poor = (place / "sessions" / "000002-1" / "scenario.toml").read_text("utf-8")
    assert '"bad_ber" = 0.001' in poor


def test_a_plan_that_was_killed_goes_on_to_the_same_octets(table: Path, tmp_path: Path) -> None:
    undisturbed, place = tmp_path / "undisturbed", tmp_path / "campaign"
    call("measure", "plan", table, "--virtual", "-o", undisturbed)
    command = [*COMMAND, "measure", "plan", str(table), "--virtual", "-o", str(place)]
    for done in (1, 4):
        with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE) as process:
            ends_s = time.monotonic() + PATIENCE_S
            while process.poll() is None and not _is_done(place, done):
                assert time.monotonic() < ends_s
                time.sleep(0.005)
            process.kill()
        assert process.returncode == -signal.SIGKILL
    call(*command[len(COMMAND) :])
    assert _transactions(place) == _transactions(undisturbed)
    assert count(place) == 8
    before = {path: path.stat().st_mtime_ns for path in place.glob("sessions/*/*")}
    call(*command[len(COMMAND) :])
    assert {path: path.stat().st_mtime_ns for path in place.glob("sessions/*/*")} == before


def test_a_log_of_a_batch_job_shows_the_progress_of_the_whole_plan(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multitracer.cli._plan._EVERY_S", 0.0)
    command = ("measure", "plan", table, "--virtual", "-o", tmp_path / "campaign")
    first = _untimed(call(*command, "--at", "size=64").stderr)
    assert first[0] == "0 of 16 transactions, 0 dropped"
    assert first[-1].startswith("8 of 16 transactions, 0 dropped, expected end: ")
    rest = _untimed(call(*command).stderr)
    assert (rest[0], rest[-1]) == (first[0].replace("0 of", "8 of"), "16 of 16 transactions, 0 dropped")


def _untimed(progress: str) -> list[str]:
    """Return lines of progress without the time of day, which each begins with."""
    lines = progress.splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in lines), lines
    return [line[9:] for line in lines]


def _is_done(place: Path, tuples: int) -> bool:
    path = place / "done.jsonl"
    return path.exists() and path.read_bytes().count(b"\n") >= tuples


def test_who_measures_says_where_he_is_and_learns_where_to_go(tmp_path: Path) -> None:
    table, place = tmp_path / "plan.csv", tmp_path / "campaign"
    table.write_text(BY_HAND, "utf-8")
    with serving("tcp") as server:
        options = ("--protocol", "tcp", "--vary", "reply", "--sessions", "2", "--server", server, "-o", place)
        refused = call("measure", "plan", table, *options, status=1).stderr
        assert "place: no setting controls this variable" in refused
        assert "(downtown, campus)" in refused
        assert not place.exists()
        first = call("measure", "plan", table, *options, "--at", "place=campus").stdout
        assert first == (
            f"{place}: 2 of 4 tuples measured, 0 of 4 transactions dropped\nremaining at place=downtown: 2 tuples\n"
        )
        assert (count(place), count(place, "transactions")) == (2, 4)
        second = call("measure", "plan", table, *options, "--at", "place=downtown").stdout
        assert second == f"{place}: 4 of 4 tuples measured, 0 of 8 transactions dropped\n"
    places = "SELECT labels['place'], count(*) FROM sessions GROUP BY ALL ORDER BY ALL"
    assert _rows(place, places) == [("campus", 2), ("downtown", 2)]


def test_a_server_that_does_not_answer_leaves_what_is_done(tmp_path: Path) -> None:
    table, place = tmp_path / "plan.csv", tmp_path / "campaign"
    table.write_text(BY_HAND, "utf-8")
    at = ("--protocol", "tcp", "--vary", "reply", "--sessions", "1", "-o", place, "--at", "place=campus")
    with serving("tcp") as server:
        call("measure", "plan", table, *at, "--server", server, "--at", "size=64")
    assert "cannot be reached" in call("measure", "plan", table, *at, "--server", server, status=1).stderr
    assert count(place) == 1


def test_a_tuple_that_the_link_does_not_let_begin_is_named_and_stops_no_other(tmp_path: Path) -> None:
    table, place = tmp_path / "plan.toml", tmp_path / "campaign"
    radio = 'radio = ["some", "none"]\n[levels.radio]\nsome = { link.network.loss_up = 0.0 }\n'
    dead = "none = { link.network.loss_up = 0.999 }\n"
    head = 'protocol = "tcp"\nvary = "reply"\nsessions = 1\nover = "cdpd"\n[variables]\nsize = [64]\n'
    table.write_text(head + radio + dead, "utf-8")
    errors = call("measure", "plan", table, "--virtual", "-o", place, status=1).stderr
    assert "1 tuple could not be measured; the first is 000002-1: cdpd: no packet can pass the link" in errors
    assert count(place) == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--at", "radio=bad"), "--at radio=bad: the plan has no variable with this name and this level"),
        (("--at", "car=1"), "--at car=1: the plan has no variable with this name and this level"),
        (("--over", "nowhere"), "nowhere: no scenario has this name"),
        (("--over", "cdma2000"), "contains unknown keys: bad_ber"),
    ],
)
def test_a_mistake_is_one_sentence_before_anything_is_measured(
    options: tuple[str, ...], sentence: str, table: Path, tmp_path: Path
) -> None:
    place = tmp_path / "campaign"
    errors = call("measure", "plan", table, "--virtual", "-o", place, *options, status=1).stderr
    assert sentence in errors
    assert not place.exists()


def test_other_folders_are_refused(table: Path, tmp_path: Path) -> None:
    place = tmp_path / "campaign"
    call("measure", "plan", table, "--virtual", "--sessions", "1", "--at", "size=64", "-o", place)
    assert "belongs to another plan" in call("measure", "plan", table, "--virtual", "-o", place, status=1).stderr
    assert "contains files" in call("measure", "plan", table, "--virtual", "-o", tmp_path, status=1).stderr
    (place / "plan.json").unlink()
    errors = call("measure", "plan", table, "--virtual", "-o", place, status=1).stderr
    assert "holds another kind of campaign" in errors
    for missing in ((), ("-o", place, "--server", "127.0.0.1:1")):
        call("measure", "plan", table, "--virtual", *missing, status=2)
