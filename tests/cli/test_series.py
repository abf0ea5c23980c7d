"""Each labelled series in a file of its own, for whoever plots elsewhere."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import numpy as np
import pytest

import multitracer as mt
from tests.cli.program import call
from tests.recording.captures import Conversation, write_conversations

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, sample_session: Path) -> Path:
    target = tmp_path_factory.mktemp("series") / "out"
    done = call("export", "series", "-o", target, sample_session)
    assert (done.stdout, done.stderr) == ("", "")
    return target


def rows(path: Path) -> tuple[dict[str, str], list[list[str]]]:
    """Return the comments by name, and the rows with their heading."""
    lines = path.read_text("utf-8").splitlines()
    comments = [line[2:].partition(": ") for line in lines if line.startswith("# ")]
    return {name: said for name, _, said in comments}, list(csv.reader(lines[len(comments) :]))


def test_a_file_for_each_label(folder: Path) -> None:
    assert {path.stem for path in folder.iterdir()} >= {
        "TcpSnd_data", "TcpSnd_ack", "TcpSnd_cwnd", "TcpSnd_ssthresh", "TcpSnd_rto", "TcpSnd_srtt",
        "TcpSnd_rtt", "TcpSnd_flight", "TcpSnd_rwnd", "TcpRcv_data", "TcpRcv_ack",
    }  # fmt: skip
    assert {path.suffix for path in folder.iterdir()} == {".csv"}


def test_a_file_says_what_it_holds(folder: Path) -> None:
    said, table = rows(folder / "TcpSnd_cwnd.csv")
    assert said == {
        "label": "TcpSnd_cwnd",
        "unit": "bytes",
        "source": "tcp_info, tcp_probe",
        "doc": "congestion window",
    }
    assert table[0] == ["time_ns", "seconds", "value_bytes"]
    assert rows(folder / "TcpSnd_rto.csv")[1][0] == ["time_ns", "seconds", "value_ns"]


def test_no_digit_is_lost(folder: Path, sample_session: Path) -> None:
    series = mt.open(sample_session).series()
    for label in ("TcpSnd_cwnd", "TcpRcv_data", "TcpSnd_rtt"):
        _, table = rows(folder / f"{label}.csv")
        times = [int(row[0]) for row in table[1:]]
        assert times == series[label]["time_ns"].astype("int64").tolist()
        np.testing.assert_array_equal([float(row[2]) for row in table[1:]], series[label]["value"])
    assert table[1][1] == f"{(int(table[1][0]) - 1795252742144988755) / 1e9:.9f}"


def test_every_file_is_numbers_that_no_spreadsheet_runs(folder: Path) -> None:
    for path in folder.iterdir():
        _, table = rows(path)
        assert all(float(cell) is not None for row in table[1:] for cell in row)
        assert not any(cell.startswith(("=", "+", "@")) for row in table for cell in row)


def test_a_capture_alone_gives_what_it_shows(tmp_path: Path) -> None:
    capture = tmp_path / "=cmd().pcap"
    write_conversations(capture, Conversation())
    call("export", "series", "-o", tmp_path / "out", capture)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names & {"TcpSnd_data.csv", "TcpRcv_data.csv"}
    assert not any("cwnd" in name or "cmd" in name for name in names)


def test_receiver_alone_gives_receiver_series(tmp_path: Path, sample_session: Path) -> None:
    call("export", "series", "-o", tmp_path / "out", sample_session / "fixed" / "tcp-0.pcap.gz")
    assert {path.stem for path in (tmp_path / "out").iterdir()} == {"TcpRcv_data", "TcpRcv_ack"}


def test_an_interval_cuts_every_series_and_keeps_its_numbers(
    tmp_path: Path, folder: Path, sample_session: Path
) -> None:
    call("export", "series", "-o", tmp_path / "out", sample_session, "--from", "10", "--to", "12")
    for label in ("TcpSnd_data", "TcpSnd_cwnd", "TcpRcv_ack"):
        complete, cut = (rows(where / f"{label}.csv")[1][1:] for where in (folder, tmp_path / "out"))
        assert cut == [row for row in complete if 10 <= float(row[1]) < 12]
        assert cut
    none = call("export", "series", "-o", tmp_path / "none", sample_session, "--from", "100", "--to", "101")
    assert list((tmp_path / "none").iterdir()) == []
    assert "no file was written, because no series has a point between --from and --to" in none.stderr


def test_logs_without_any_series_are_an_error_and_no_empty_folder(tmp_path: Path) -> None:
    """The exit status was 0, and the folder empty, without a word."""
    log = tmp_path / "iperf3.txt"
    lines = (
        "Connecting to host 192.0.2.1, port 5201",
        "[  5] local 10.0.0.2 port 40772 connected to 192.0.2.1 port 5201",
        "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd",
        "[  5]   0.00-1.00   sec  3.38 MBytes  28.4 Mbits/sec    0    224 KBytes",
    )
    log.write_text("\n".join(lines) + "\n")
    assert "no series can be written" in call("export", "series", "-o", tmp_path / "out", log, status=1).stderr
    assert not (tmp_path / "out").exists()
