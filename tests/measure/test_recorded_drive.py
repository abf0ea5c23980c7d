"""`measure run` records the drive itself: modem, GPS receiver, packets, and what they were during each transaction."""

from __future__ import annotations

import contextlib
import csv
import json
import re
import signal
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from multitracer.manifest import RECORDED_AT, changed_files, read_manifest
from multitracer.readings import MOST_AGE_S
from multitracer.recording.inputs import find_inputs
from multitracer.recording.recording import Recording
from multitracer.recording.transactions import transactions_of
from multitracer.schemas.radio import POSITION, RADIO
from multitracer.schemas.transactions import TRANSACTIONS
from multitracer.tables import Table
from tests.cli.program import COMMAND, ENVIRONMENT, call, run
from tests.collectors.rehearsal import device
from tests.measure.test_measure_command import serving
from tests.netns import routed_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.collectors.rehearsal import Fake
    from tests.netns import Namespaces

pytestmark = pytest.mark.realtime
PATIENCE_S = 90.0
JOURNEY = ("--journey", "0")  # without incidents: a slow machine reaches those of another


@contextlib.contextmanager
def devices(folder: Path) -> Iterator[tuple[tuple[str, ...], Fake]]:
    """Run a rehearsed modem and GPS receiver; yield the options that name them, and the modem."""
    folder.mkdir(exist_ok=True)
    with (
        device("modem", folder / "modem", "--profile", "quectel", *JOURNEY) as played,
        device("gps", folder / "gps", *JOURNEY),
    ):
        yield ("--modem", str(folder / "modem"), "--gps", str(folder / "gps")), played


def _plan(protocol: str, server: str, folder: Path, sessions: int) -> list[str]:
    plan = ["--protocol", protocol, "--server", server, "--vary", "reply", "--sizes", "64,2048"]
    return ["measure", "run", *plan, "--sessions", str(sessions), "-o", str(folder)]


def _rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "transactions.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def _said(folder: Path) -> list[dict[str, Any]]:
    """Return the records of a server."""
    return [json.loads(line) for line in (folder / "transactions.jsonl").read_text().splitlines()]


def _table(folder: Path) -> Table:
    """Return all transactions of a session."""
    tables = [table for _, table in transactions_of(Recording(find_inputs(folder)))]
    return Table.concatenate(TRANSACTIONS, tables)


def check_nearest(folder: Path, column: str = "rssi_dbm", logged: str = "") -> int:
    """Check that each transaction has the reading of the modem's log that is nearest to it; return how many have one.

    The log is read apart from the program that joins it. `logged` is the column of the log if it has another name.
    """
    logged = logged or column
    radio = Table.concatenate(RADIO, [table for _, table in Recording(find_inputs(folder)).tables("radio", "radio")])
    sources = Counter(radio["source"][np.isfinite(radio[logged])].tolist())
    used = (radio["source"] == min(sources, key=lambda name: (-sources[name], name))) & np.isfinite(radio[logged])
    times, values = radio["time_ns"][used], radio[logged][used]
    nearest = 0
    for table in [table for _, table in transactions_of(Recording(find_inputs(folder)))]:
        following = np.append(table["start_ns"][1:], 1 << 62)
        for row, begin in enumerate(table["start_ns"].tolist()):
            lasted_s = table["rtt_s" if table["outcome"][row] == "ok" else "timeout_s"][row]
            end = min(begin + round(lasted_s * 1e9), int(following[row]))
            far = np.maximum(np.maximum(begin - times, times - end), 0)
            joined = table[column][row]
            if far.min() > MOST_AGE_S * 1e9:
                assert np.isnan(joined)
            elif (far == 0).any():
                assert joined == pytest.approx(values[far == 0].mean(), abs=1e-9)
            else:
                assert joined in values[far == far.min()]
            nearest += bool(np.isfinite(joined))
    return nearest


@contextlib.contextmanager
def _served(hosts: Namespaces, protocol: str, folder: Path) -> Iterator[str]:
    """Run a server at the host b; yield its address."""
    listen = ["--listen", "10.0.2.2:5100", "-o", str(folder)]
    command = [*COMMAND, "measure", "serve", "--protocol", protocol, *listen]
    server = hosts.start("b", *command, stdout=subprocess.PIPE, env=ENVIRONMENT)
    assert server.stdout is not None
    assert "listens" in server.stdout.readline()
    try:
        yield "10.0.2.2:5100"
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=PATIENCE_S)


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["tcp", "centauruscomm"])
def test_one_command_records_a_drive_over_a_shaped_path(protocol: str, tmp_path: Path) -> None:
    folder, served = tmp_path / "drive", tmp_path / "served"
    with (
        routed_path(rate="300kbit", latency="500ms") as hosts,
        devices(tmp_path / "ports") as (ports, _),
        _served(hosts, protocol, served) as server,
    ):
        argv = _plan(protocol, server, folder, 120)
        run(*argv, *ports, "--capture", "-i", "to-r", before=hosts.command("a"), timeout=PATIENCE_S)
    assert check_nearest(folder) == check_nearest(folder, "sinr_db") > 200  # not those before the first answer
    rows = _rows(folder)
    table = _table(folder)
    written = [float(row["rssi_dbm"] or "nan") for row in rows]
    assert written == pytest.approx(table["rssi_dbm"], abs=5e-4, nan_ok=True), "as in the file"
    assert np.count_nonzero(table["place_absent"] == "") > 200
    assert all(re.fullmatch(r"cell \d+", cell) for cell in table["cell"][-200:].tolist())
    assert set(table["bler_absent"][-200:]) == {"the modem did not report it"}

    recorded = [record["recorded"] for record in _said(served)]
    assert len(recorded) == 240
    for said, start_ns in zip(recorded, table["start_ns"].tolist(), strict=True):
        assert said["start_ns"] == start_ns
    for said in recorded[-20:]:  # the first may be before the first answer of the modem, or the first fix
        assert said["bler_absent"] == "the modem has not reported it"
        assert -110 < said["rssi_dbm"] < -40
        assert said["cell"].startswith("cell ")
        assert 0 <= said["rssi_age_s"] <= MOST_AGE_S, "a good-bye knows no later reading"
    placed = [said for said in recorded if "lat_deg" in said]
    assert all(said["lat_deg"] == pytest.approx(40.0, abs=0.01) for said in placed)
    assert len(placed) == len(recorded) - next((n for n, said in enumerate(recorded) if "lat_deg" in said), 240)
    logged = [table for _, table in Recording(find_inputs(folder)).tables("position", "position")]
    fixed_ns = Table.concatenate(POSITION, logged)["time_ns"].min()  # a busy machine starts the receiver late
    assert sum(said["start_ns"] > fixed_ns + MOST_AGE_S * 1e9 for said in recorded) <= len(placed)

    shown = call("inspect", str(folder)).stdout
    assert re.search(r"reply +64 B +120 ", shown)
    assert "240 transactions" in shown or "transactions 240" in shown
    for log in ("radio-0.jsonl", "gps-0.jsonl", "clocks-0.jsonl", "tcp-0.pcap"):
        assert log in shown
    manifest = read_manifest(folder)
    assert manifest is not None
    assert [run.outcome for run in manifest.collectors] == ["ended"] * 5
    assert not list(changed_files(folder, manifest))
    with (folder / "mobile" / "tcp-0.pcap").open("rb") as capture:
        assert len(capture.read()) > 240 * 100


def test_a_modem_that_dies_in_the_middle_leaves_its_reason(tmp_path: Path) -> None:
    """The transactions go on; those after it have no value, and say why."""
    folder = tmp_path / "drive"
    with serving("tcp", "-o", str(tmp_path / "served")) as server, devices(tmp_path / "ports") as (ports, played):
        argv = [*_plan("tcp", server, folder, 100_000), *ports]
        with _started(argv) as child:
            _until(lambda: len(_lines(folder)) > 200)
            played.do("unplug")
            time.sleep(2 * MOST_AGE_S)
            enough = len(_lines(folder)) + 250
            _until(lambda: len(_lines(folder)) > enough)
            child.send_signal(signal.SIGINT)
            child.communicate(timeout=PATIENCE_S)
    table = _table(folder)
    assert set(table["outcome"]) == {"ok"}
    known = np.isfinite(table["rssi_dbm"])
    first = int(known.argmax())  # a busy machine starts the modem late
    assert known[first : first + 50].all()
    assert not known[-200:].any(), "the run was too short: every transaction was near the last reading"
    assert known.sum() == known[first:].argmin(), "none after the last reading"
    reasons = {"no reading within 2 s: unplugged", "no reading within 2 s"}
    assert set(table["rssi_absent"][first:][~known[first:]]) <= reasons
    assert "no reading within 2 s: unplugged" in table["rssi_absent"]
    assert (table["rssi_age_s"][first:][~known[first:]] > MOST_AGE_S).all()
    last = _said(tmp_path / "served")[-1]["recorded"]
    assert last["rssi_absent"] == "no reading within 2 s"
    assert "rssi_dbm" not in last
    assert check_nearest(folder) == known.sum()


def test_a_server_that_vanishes_ends_no_recording(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    serve = [*COMMAND, "measure", "serve", "--protocol", "tcp", "--listen", "127.0.0.1:0"]
    with (
        devices(tmp_path / "ports") as (ports, _),
        subprocess.Popen(serve, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as server,
    ):
        assert server.stdout is not None
        address = server.stdout.readline().split(" at ")[1].strip()
        with _started([*_plan("tcp", address, folder, 1_500), "--timeout", "0.5", *ports]) as child:
            _until(lambda: len(_lines(folder)) > 100)
            server.kill()
            child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 0, "dropped transactions are no error"
    table = _table(folder)
    assert len(table) == 3_000
    assert (table["outcome"] == "dropped").sum() > 1_000
    assert str(table["why"][-1]).startswith("connect")
    known = np.isfinite(table["rssi_dbm"])
    assert known[table["outcome"] == "dropped"].mean() > 0.9, "a dropped transaction has its radio, too"
    assert check_nearest(folder) == known.sum()


def test_a_recorded_plan_that_was_interrupted_is_continued(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    with serving("centauruscomm") as server, devices(tmp_path / "ports") as (ports, _):
        argv = [*_plan("centauruscomm", server, folder, 600), *ports]
        for number in (signal.SIGINT, signal.SIGKILL):
            enough = len(_lines(folder)) + 30
            with _started(argv) as child:
                _until(lambda enough=enough: len(_lines(folder)) > enough)
                child.send_signal(number)
                child.communicate(timeout=PATIENCE_S)
            assert child.returncode in (128 + signal.SIGTERM, -signal.SIGKILL)
            _until(lambda: not _is_written(folder))
        run(*argv, timeout=PATIENCE_S)
        again = run(*argv, timeout=PATIENCE_S)
    rows = _rows(folder)
    assert [int(row["transaction"]) for row in rows] == list(range(1, 1_201))
    assert {path.name for path in (folder / "mobile").glob("radio-*.jsonl")} >= {f"radio-{n}.jsonl" for n in range(3)}
    manifest = read_manifest(folder)
    assert manifest is not None
    assert {run.command[run.command.index("-o") + 1].rpartition("/")[2] for run in manifest.collectors} >= {
        "radio-0.jsonl", "radio-1.jsonl", "radio-2.jsonl",
    }  # fmt: skip
    assert not list(changed_files(folder, manifest))
    assert check_nearest(folder) > 1_000  # not those before the modem's first answer
    assert re.search(r"reply +64 B +600 ", again.stdout)


@pytest.mark.parametrize("capture", [(), pytest.param(("--capture", "-i", "lo"), marks=pytest.mark.root)])
def test_a_drive_over_a_line_is_recorded(capture: tuple[str, ...], tmp_path: Path) -> None:
    folder, line = tmp_path / "drive", f"unix:{tmp_path / 'line'}"
    with serving("centauruscomm", listen=line), devices(tmp_path / "ports") as (ports, _):
        run(*_plan("centauruscomm", line, folder, 5), *ports, *capture, timeout=PATIENCE_S)
    assert [row["outcome"] for row in _rows(folder)] == ["ok"] * 10
    assert (folder / "mobile" / "radio-0.jsonl").exists()
    assert (folder / "mobile" / "tcp-0.pcap").exists() == bool(capture)


def test_two_measurements_do_not_share_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    with serving("tcp") as server, devices(tmp_path / "ports") as (ports, _):
        with _started([*_plan("tcp", server, folder, 3_000), *ports]) as child:
            _until(lambda: len(_lines(folder)) > 10)
            while_it_runs = run(*_plan("tcp", server, folder, 3_000), *ports, status=1)
            assert "another recording writes to this folder" in while_it_runs.stderr
            child.send_signal(signal.SIGINT)
            child.communicate(timeout=PATIENCE_S)
        other = run(*_plan("tcp", server, folder, 4), *ports, status=1)
    assert "does not belong to this plan; name another folder" in other.stderr
    assert sorted(path.name for path in (folder / "mobile").glob("radio-*")) == ["radio-0.jsonl"]


def test_measurements_inside_a_recording_have_folders_of_their_own(tmp_path: Path) -> None:
    """`capture -- measure run …`, twice: the session holds captures, logs and the transactions of both."""
    folder = tmp_path / "drive"
    with serving("tcp") as tcp, serving("centauruscomm") as centaurus, devices(tmp_path / "ports") as (ports, _):
        runs = [_plan("tcp", tcp, folder / "tcp", 30), _plan("centauruscomm", centaurus, folder / "centauruscomm", 30)]
        script = " && ".join(" ".join([*COMMAND, *argv]) for argv in runs)
        capture = ["capture", "-o", str(folder), "--plain", *ports, "--with", "modem", "--with", "gps"]
        run(*capture, "--with", "host_clock", "--", "sh", "-c", script, timeout=PATIENCE_S)
        inside = ["sh", "-c", " ".join([*COMMAND, *_plan("tcp", tcp, folder / "two", 2), "--modem", "/dev/null"])]
        refused = run(
            "capture", "-o", str(tmp_path / "two"), "--plain", "--with", "host_clock", "--", *inside, status=2
        )
    assert "already recorded by `multitracer capture`; give --modem to that command" in refused.stderr
    assert not find_inputs(folder).warnings
    assert Counter(_table(folder)["protocol"].tolist()) == {"centauruscomm": 60, "tcp": 60}
    assert check_nearest(folder) == 120
    own = read_manifest(folder / "tcp")
    assert own is not None
    assert own.more[RECORDED_AT] == "mobile"
    figure = call("plot", "--figure", "environment", "--size", "64", str(folder), "-o", str(tmp_path / "radio.json"))
    assert figure.returncode == 0
    drawn = (tmp_path / "radio.json").read_text()
    assert "no modem" not in drawn
    assert "the modem did not report it" in drawn


@contextlib.contextmanager
def _started(argv: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Start the program in a process group of its own, as a shell does."""
    child = subprocess.Popen(
        [*COMMAND, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def _lines(folder: Path) -> list[str]:
    path = folder / "transactions.csv"
    return path.read_text().splitlines()[1:] if path.exists() else []


def _is_written(folder: Path) -> bool:
    """Return whether a process of a killed recording still writes: the measurement ends with its parent."""
    before = len(_lines(folder))
    time.sleep(1.0)
    return len(_lines(folder)) != before


def _until(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
