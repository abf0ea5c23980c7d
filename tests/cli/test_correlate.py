"""`correlate` on the bundled drive: what it prints, its rows for programs, and wrong options."""

from __future__ import annotations

import csv
import io
import json
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

import multitracer as mt
from multitracer.schemas.findings import SESSIONS_NMI
from tests.cli.program import ROOT, call

if TYPE_CHECKING:
    from pathlib import Path

DRIVE = ROOT / "sample_traces" / "rehearsed-drive"
FAST = ("--lags", "-2:2", "--permutations", "99")


def test_text_says_what_was_compared_and_what_leads(tmp_path: Path) -> None:
    page = tmp_path / "drive.html"
    text = call("correlate", "--with", "rssi_dbm,ecio_db,cqi", *FAST, "-o", page, DRIVE).stdout
    lines = text.splitlines()
    assert lines[0] == "throughput is TcpSnd_goodput"
    assert "TcpSnd_goodput (bit/s): sum over a bin, per second" in text
    assert any(line.startswith("rssi_dbm  TcpSnd_goodput  +0 s") for line in lines)
    assert "ecio_db and TcpSnd_goodput: not computed: rehearsed-drive holds no value of radio.ecio_db" in text
    assert "cqi and TcpSnd_goodput: not computed: cqi is constant" in text
    assert lines[-1] == str(page)
    assert page.stat().st_size > 1_000_000, "the page holds plotly"


def test_what_is_left_when_a_third_quantity_is_known_stands_beside_it() -> None:
    text = call("correlate", "--with", "rsrp_dbm", "--given", "rssi_dbm", *FAST, DRIVE).stdout
    header, line = next(
        (one.split("  "), two.split()) for one, two in pairwise(text.splitlines()) if "given rssi_dbm" in one
    )
    assert header[-2:] == ["given rssi_dbm", "95 % by chance"]
    assert all(0 < float(each) < 1 for each in line[-2:])
    assert "given" not in call("correlate", "--with", "rsrp_dbm", *FAST, DRIVE).stdout


def test_rows_for_programs_are_those_of_python() -> None:
    options = ("--with", "rssi_dbm,rsrp_dbm,cqi", *FAST)
    document = json.loads(call("correlate", "--json", *options, DRIVE).stdout)
    assert document["schema"] == "multitracer.correlate/1"
    assert list(document["nmi"][0]) == list(SESSIONS_NMI.names)
    assert document["nmi"][-1]["lag_s"] is document["nmi"][-1]["nmi"] is None
    assert document["nmi"][-1]["reason"] == "cqi is constant"
    rows = list(csv.DictReader(io.StringIO(call("correlate", "--csv", *options, DRIVE).stdout)))
    assert [row["lag_s"] for row in rows] == ["-2.0", "-1.0", "0.0", "1.0", "2.0"] * 2 + [""]
    frame = mt.correlate(DRIVE, with_=["rssi_dbm", "rsrp_dbm", "cqi"], lags=(-2, 2), permutations=99).table
    assert frame["nmi"].dropna().tolist() == [row["nmi"] for row in document["nmi"] if row["nmi"] is not None]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--with", "rspr_dbm"), "the nearest names are rsrp_dbm"),
        (("--with", "rtt_ns"), "choose one of tcp_segments.rtt_ns and rtt_samples.rtt_ns"),
        (("--of", "nothing at all"), "no series or column has this name"),
        (("--with", "cqi", "--given", "nonsense"), "no series or column has this name"),
        (("--with", "cqi", "--from", "3", "-c", "1"), "cannot be combined"),
        (("--with", "cqi", "-o", str(DRIVE / "manifest.json")), "is also the input"),
    ],
)
def test_wrong_name_is_one_sentence(options: tuple[str, ...], words: str) -> None:
    assert words in call("correlate", *FAST, *options, DRIVE, status=1).stderr


@pytest.mark.parametrize(
    "options",
    [
        ("--lags", "10"), ("--lags", "5:1"), ("--lags", "nan:1"), ("--step", "0"), ("--step", "nan"),
        ("--permutations", "5"), ("--of", ","), ("--estimator", "mean"), ("-o", "picture.png"),
    ],
)  # fmt: skip
def test_wrong_option_is_wrong_usage(options: tuple[str, ...]) -> None:
    call("correlate", *options, DRIVE, status=2)


def test_part_of_the_time_has_fewer_points() -> None:
    options = ("--with", "rssi_dbm", "--difference", *FAST, "--json", DRIVE)
    complete, part = (
        json.loads(call("correlate", *window, *options).stdout)["nmi"][2]
        for window in ((), ("--from", "20", "--to", "110"))
    )
    assert part["n"] is not None
    assert 75 <= part["n"] <= 90 < complete["n"]


def test_the_assigned_rate_of_a_modem_log_has_its_plain_name() -> None:
    log = str(ROOT / "sample_traces" / "cdma2000" / "cait.csv")
    said = call("correlate", log, "--of", "rlp_resent_bytes", "--with", "rate_assigned").stdout
    assert "assigned_down_bps (bit/s): mean of the readings in a bin" in said
    assert "rlp_resent_bytes (bytes/s): sum over a bin, per second" in said
