"""However a measurement over a link ends, what was finished stays, nothing is done twice or left behind."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.cli.program import run as program
from tests.lab.rig.real import measuring, numbers, transactions
from tests.lab.testbed.running import document, finished, left_behind, until

if TYPE_CHECKING:
    from pathlib import Path

root = pytest.mark.root
FAST = ("--speed", "20")


@root
def test_a_killed_run_is_gone_on_with(tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    options = (*FAST, "--connection", "per-session")
    with measuring(folder, "bluetooth", *options, sessions=200) as child:
        until(lambda: len(transactions(folder)) > 5, child)
        child.kill()
        child.wait()
        before = transactions(folder)
        with measuring(folder, "bluetooth", *options, sessions=200) as second:
            finished(second)
        assert left_behind(child.pid) == left_behind(second.pid) == []
    rows = transactions(folder)
    assert 5 < len(before) < 400
    assert numbers(rows) == list(range(1, 401))
    assert [row["start_ns"] for row in rows[: len(before)]] == [row["start_ns"] for row in before]
    first, last = document(folder, "manifest.json")["variables"]["runs"]
    assert (first["ended"], last["ended"]) == (None, "all transactions are finished")
    assert first["seed"] != last["seed"]
    assert {path.name for path in (folder / "mobile").glob("radio*")} == {"radio.jsonl", "radio-1.jsonl"}
    with measuring(folder, "bluetooth", *options, sessions=200) as third:  # nothing is left to do
        finished(third)
    assert transactions(folder) == rows


@root
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_told_to_end_ends_in_order(number: signal.Signals, status: int, tmp_path: Path) -> None:
    folder = tmp_path / "ended"
    with measuring(folder, "cdpd", *FAST, protocol="centauruscomm", sessions=500) as child:
        until(lambda: len(transactions(folder)) > 1, child)
        child.send_signal(number)
        assert "start the same command again to continue" in finished(child, status=status)
        assert left_behind(child.pid) == []
    variables = document(folder, "manifest.json")["variables"]
    assert [run["ended"] for run in variables["runs"]] == [f"interrupted by {number.name}"]
    assert all(run["outcome"] for run in document(folder, "manifest.json")["collectors"])
    assert not list((folder / "mobile").glob(".modem"))
    assert any(row["rssi_dbm"] for row in transactions(folder))


@root
def test_a_server_that_cannot_record_ends_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "full"
    with measuring(folder, "bluetooth", *FAST, protocol="centauruscomm", sessions=500) as child:
        until(lambda: len(transactions(folder)) > 1, child)
        log = folder / "fixed" / "transactions.jsonl"
        log.unlink()
        log.symlink_to("/dev/full")
        assert "transactions.jsonl: cannot write the records" in finished(child, status=1)
        assert left_behind(child.pid) == []


@root
def test_an_end_before_the_first_transaction_is_gone_on_with_too(tmp_path: Path) -> None:
    folder = tmp_path / "early"
    with measuring(folder, "bluetooth", *FAST, sessions=1) as child:
        until((folder / "mobile").exists, child)
        child.terminate()
        finished(child, status=143)
        assert left_behind(child.pid) == []
    assert transactions(folder) == []
    with measuring(folder, "bluetooth", *FAST, sessions=1) as second:
        finished(second)
    assert numbers(transactions(folder)) == [1, 2]


@root
def test_runs_side_by_side_do_not_meet(tmp_path: Path) -> None:
    secret = tmp_path / "key"
    secret.write_text("a secret of two dozen letters")
    one, two = tmp_path / "one", tmp_path / "two"
    with (
        measuring(one, "bluetooth", *FAST, "--key-file", str(secret), protocol="centauruscomm") as first,
        measuring(two, "bluetooth", *FAST, sessions=100_000) as second,  # however late the third begins
    ):
        until(lambda: transactions(two), second)
        with measuring(two, "bluetooth", *FAST, sessions=100_000) as third:
            assert "another run is writing to this folder" in finished(third, status=1)
        finished(first)
        second.terminate()
        finished(second, status=143)
    assert [row["outcome"] for row in transactions(one)] == ["ok"] * 6
    done = transactions(two)
    assert numbers(done) == list(range(1, len(done) + 1))
    addresses = {document(each, "manifest.json")["hosts"]["mobile"]["addresses"][0] for each in (one, two)}
    assert len(addresses) == 2
    written = b"".join(path.read_bytes() for path in one.rglob("*") if path.is_file())
    assert secret.read_bytes() not in written
    assert secret.read_bytes().hex().encode() not in written


@root
def test_another_measurement_does_not_go_on_in_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with measuring(folder, "bluetooth", *FAST, sessions=1) as child:
        finished(child)
    with measuring(folder, "bluetooth", "--speed", "10", sessions=1) as other:
        assert "does not belong to this plan" in finished(other, status=1)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--server", "127.0.0.1:1", "--speed", "2"], "--speed can be used only with --over"),
        (["--server", "127.0.0.1:1", "--virtual"], "--virtual"),
        (["--server", "127.0.0.1:1", "--over", "cdpd"], "omit --server"),
        (["--over", "cdpd", "--virtual", "--speed", "2"], "omit one of these options"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: list[str], sentence: str, tmp_path: Path) -> None:
    words = ["--protocol", "tcp", "--vary", "reply", "--sizes", "64", "-o", str(tmp_path / "new")]
    assert sentence in program("measure", "run", *words, *options, status=2).stderr


def test_an_unknown_link_is_one_sentence(tmp_path: Path) -> None:
    words = ["--protocol", "tcp", "--vary", "reply", "--sizes", "64", "-o", str(tmp_path / "new")]
    said = program("measure", "run", *words, "--over", "carrier-pigeon", status=1).stderr
    assert "carrier-pigeon: no scenario has this name" in said
