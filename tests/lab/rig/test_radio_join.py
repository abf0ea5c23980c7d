"""The radio of a transaction is that of the modem's readings in its time."""

from __future__ import annotations

import contextlib
import csv
import fcntl
import json
import os
import resource
from typing import TYPE_CHECKING, Any

import pytest

from multitracer.errors import FormatError, InputError, MultiTracerError
from multitracer.lab.rig.radio_join import join_radio
from multitracer.manifest import LogFile, Manifest, Variables, changed_files, read_manifest, write_manifest
from multitracer.measure.outcome import TransactionOutcome
from multitracer.measure.plan import Experiment, MeasurementPlan
from multitracer.measure.run import MeasureJournal
from multitracer.schemas.transactions import LOGGED
from multitracer.units import NS_PER_S
from tests.narrowed import tables_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BEGAN_NS = 1_700_000_000 * NS_PER_S
BOOTED_NS = 77 * NS_PER_S
PLAN = MeasurementPlan(
    "tcp", "127.0.0.1:1", (Experiment("request", (64,), 5),), timeout_s=3.0, labels={"where": 'a "b"'}
)


def _modem_log(path: Path, readings: list[tuple[float, float, float]]) -> None:
    """Write what the collector writes: RSSI and cell busy of each time, asked 10 ms apart."""
    records: list[dict[str, Any]] = [{"kind": "header", "format": "multitracer-modem", "version": 1}]
    for at_s, rssi_dbm, busy in readings:
        asked_ns = BOOTED_NS + round(at_s * NS_PER_S)
        clock = {"monotonic_before_ns": asked_ns, "realtime_ns": BEGAN_NS + asked_ns - BOOTED_NS}
        records.append({"kind": "clock", **clock, "monotonic_after_ns": asked_ns})
        said = {"AT+WPRSSI": f"{rssi_dbm:.0f},3,1,512", "AT*MTBUSY": f"*MTBUSY: {busy}"}
        for number, (command, line) in enumerate(said.items()):
            stamp_ns = asked_ns + number * 10_000_000
            times = {"asked_ns": stamp_ns, "answered_ns": stamp_ns}
            answer = {"kind": "answer", "command": command, "result": "OK", "raw": f"\r\n{line}\r\n\r\nOK\r\n"}
            records.append(answer | times)
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(each, separators=(",", ":")) + "\n" for each in records), "utf-8")


def _folder(folder: Path, lasted: list[tuple[float, float | None]], *, speed: float = 1.0) -> Path:
    """Write transactions: when each began, and its RTT, None if it was dropped."""
    folder.mkdir(exist_ok=True)
    write_manifest(folder, Manifest(folder.name, variables=Variables(speed=speed)))
    with contextlib.closing(MeasureJournal(folder, PLAN)) as journal:
        for each, (at_s, rtt_s) in zip(PLAN.transactions(), lasted, strict=False):
            outcome = TransactionOutcome(BEGAN_NS + round(at_s * NS_PER_S))
            if rtt_s is None:
                outcome.drop("reply")
            else:
                outcome.rtt_ns = round(rtt_s * NS_PER_S)
            journal.add(each, outcome)
    return folder


def _rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "transactions.csv").open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def _said(folder: Path) -> list[tuple[str, str, str]]:
    return [(row["rssi_dbm"], row["cell_busy_percent"], row["radio_readings"]) for row in _rows(folder)]


def test_means_of_the_readings_in_each_transaction(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "run", [(0.5, 2.0), (4.5, 0.1), (20.0, 1.0), (30.0, None), (32.0, 1.5)])
    _modem_log(
        folder / "mobile" / "modem-0.jsonl",
        [(0, -60, 1), (1, -70, 10), (2, -80, 20), (3, -90, 30), (4, -100, 40), (31, -113, 90), (32.5, -50, 5)],
    )
    assert join_radio(folder) == 4
    assert _said(folder) == [
        ("-75.0", "15.0", "2"),  # at 1 and 2 s
        ("-100.0", "40.0", "0"),  # none within: that half a second before
        ("", "", ""),  # the last one is too old
        ("-113.0", "90.0", "1"),  # dropped: until the next began, not for the whole patience
        ("-50.0", "5.0", "1"),
    ]
    assert all(row["bler_percent"] == "" for row in _rows(folder)), "this modem does not tell it"


def test_nothing_else_is_changed_and_a_second_time_gives_the_same(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "run", [(0.5, 2.0), (4.5, None)])
    before = _rows(folder)
    _modem_log(folder / "modem-0.jsonl", [(1, -70, 10)])
    manifest = Manifest(folder.name)
    manifest.files = [LogFile("transactions.csv", "client", 1, "0" * 64)]
    write_manifest(folder, manifest)
    join_radio(folder)
    joined = (folder / "transactions.csv").read_bytes()
    kept = [*LOGGED[1][: LOGGED[1].index("rssi_dbm")], "label_where"]
    assert [[row[name] for name in kept] for row in _rows(folder)] == [[row[name] for name in kept] for row in before]
    join_radio(folder)
    assert (folder / "transactions.csv").read_bytes() == joined
    assert not list(folder.glob("*.tmp"))
    found = read_manifest(folder)
    assert found is not None
    assert not list(changed_files(folder, found))


def test_a_run_goes_on_behind_what_was_joined(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "run", [(0.5, 2.0)])
    _modem_log(folder / "modem-0.jsonl", [(1, -70, 10), (11, -71, 11)])
    join_radio(folder)
    with contextlib.closing(MeasureJournal(folder, PLAN)) as journal:
        assert list(journal.outcomes) == [1]
        second = list(PLAN.transactions())[1]
        journal.add(second, TransactionOutcome(BEGAN_NS + 10 * NS_PER_S, rtt_ns=2 * NS_PER_S))
    assert join_radio(folder) == 2
    assert _said(folder) == [("-70.0", "10.0", "1"), ("-71.0", "11.0", "1")]
    table = tables_of(folder / "transactions.csv")["transactions"]
    assert table["rssi_dbm"].tolist() == [-70.0, -71.0]
    assert table["radio_readings"].tolist() == [1, 1]


def test_seconds_of_a_transaction_are_those_of_the_link(tmp_path: Path) -> None:
    """start_ns is the clock's, durations and the age of a reading are the link's."""
    for speed, said in ((1.0, ["-70.0", "-80.0"]), (10.0, ["", "-85.0"])):
        folder = _folder(tmp_path / f"at{speed:.0f}", [(2.0, 0.5), (4.0, 5.0)], speed=speed)
        _modem_log(folder / "modem-0.jsonl", [(1, -70, 10), (4.4, -85, 10), (4.6, -75, 10)])
        join_radio(folder)
        assert [row["rssi_dbm"] for row in _rows(folder)] == said


def test_without_a_modem_the_cells_are_empty(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "run", [(0.5, 2.0)])
    assert join_radio(folder) == 0
    assert _said(folder) == [("", "", "")]
    empty = _folder(tmp_path / "interrupted", [])
    assert join_radio(empty) == 0
    assert _rows(empty) == []


def test_the_client_is_the_host_called_mobile(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "run", [(0.5, 2.0)])
    _modem_log(folder / "van" / "modem-0.jsonl", [(1, -50, 10)])
    _modem_log(folder / "base" / "modem-0.jsonl", [(1, -60, 10)])
    assert join_radio(folder) == 0
    assert _rows(folder)[0]["rssi_absent"] == "several hosts have such logs, and none is the client"
    _modem_log(folder / "mobile" / "modem-0.jsonl", [(1, -70, 10)])
    join_radio(folder)
    assert _rows(folder)[0]["rssi_dbm"] == "-70.0"


def test_what_cannot_be_joined_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("", "utf-8")
    write_manifest(tmp_path, Manifest("x"))
    with pytest.raises(InputError, match="this folder does not exist; name a folder that"):
        join_radio(tmp_path)
    folder = _folder(tmp_path / "run", [(0.5, 2.0)])
    path = folder / "transactions.csv"
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="a measurement is still writing to this folder"):
            join_radio(folder)
    complete = path.read_text("utf-8")
    path.write_text(complete.replace(str(BEGAN_NS)[:6], "soon", 1), "utf-8")
    with pytest.raises(FormatError, match="csv:2: this line is damaged"):
        join_radio(folder)
    path.write_text(complete + "1,tcp\n", "utf-8")
    with pytest.raises(FormatError, match="csv:3: this line is damaged"):
        join_radio(folder)


def _as_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere.csv"))
    path.symlink_to("elsewhere.csv")


def _as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _with_column(path: Path) -> None:
    path.write_text("".join(f"{line},more\n" for line in path.read_text("utf-8").splitlines()), "utf-8")


def _with_empty_line(path: Path) -> None:
    path.write_text(path.read_text("utf-8") + "\n", "utf-8")


def _with_long_cell(path: Path) -> None:
    path.write_text(path.read_text("utf-8") + "x" * 200_000 + "\n", "utf-8")


def test_a_file_that_cannot_be_opened_is_refused_with_the_reason(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "run", [(0.5, 2.0)])
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = os.open(folder, os.O_RDONLY)
    os.close(highest)  # the number that the next file would get
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest, limits[1]))
    try:
        with pytest.raises(InputError, match="cannot read this file: Too many open files"):
            join_radio(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_as_link, "this is not a file that can be replaced"),
        (_as_folder, "this is not a file that can be replaced"),
        (_as_pipe, "this is not a file that can be replaced"),
        (_with_column, "csv:1: the first line is not the header"),
        (_with_empty_line, "csv:3: this line is damaged"),
        (_with_long_cell, "csv:3: this line is damaged"),
    ],
)
def test_a_file_of_another_form_is_refused_in_one_sentence(
    tmp_path: Path, change: Callable[[Path], None], sentence: str
) -> None:
    folder = _folder(tmp_path / "run", [(0.5, 2.0)])
    change(folder / "transactions.csv")
    with pytest.raises(MultiTracerError, match=sentence):
        join_radio(folder)
