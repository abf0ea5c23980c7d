"""Results of flent: what its runners write, and a real one where flent and fping are installed."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

import multitracer as mt
import parsers
from multitracer.errors import FormatError
from parsers import flent
from tests.narrowed import parsed, tables_of
from tests.parsers.damage import damaged, survives

if TYPE_CHECKING:
    from pathlib import Path

S = 1_000_000_000
PROGRAMS = [shutil.which(name) for name in ("flent", "fping")]
TEST = """
AGGREGATOR = 'timeseries'
DESCRIPTION = 'Ping of a test'
DEFAULTS = {'PLOT': 'ping'}
TOTAL_LENGTH = LENGTH
DATA_SETS = o([('Ping (ms) ICMP', {'ip_version': IP_VERSION, 'interval': STEP_SIZE, 'length': LENGTH,
    'host': HOST, 'units': 'ms', 'runner': 'ping'})])
PLOTS = o([('ping', {'description': 'Ping', 'type': 'timeseries', 'axis_labels': ['Latency (ms)'],
    'series': [{'data': 'Ping (ms) ICMP', 'label': 'ping'}]})])
"""
"""A test of flent that needs no netperf."""


def document() -> dict[str, Any]:
    """Return a result with the fields that flent 2.1.1 writes, cut to what is read."""
    upload = [
        {"dur": 0.25, "t": 1795418693.5, "val": 8.0},
        {"t": 1795418693.625, "tcp_cwnd": 20.0, "tcp_rtt": 31.5, "tcp_rtt_var": 2.0, "tcp_pacing_rate": 12.0,
         "tcp_delivery_rate": 9.5},
        {"dur": 0.25, "t": 1795418693.75, "val": 9.0},
    ]  # fmt: skip
    pings = [{"seq": float(n), "t": 1795418693.0 + n / 4, "val": 30.5 + n} for n in range(3)]
    units = {"TCP upload": "Mbits/s", "Ping (ms) ICMP": "ms"}
    return {
        "metadata": {
            "DATA_FILENAME": "tcp_1up.flent.gz",
            "FLENT_VERSION": "2.1.1",
            "T0": "2026-11-23T07:24:53.000000Z",
            "SERIES_META": {name: {"UNITS": unit} for name, unit in units.items()},
        },
        "raw_values": {"TCP upload": upload, "Ping (ms) ICMP": pings},
        "results": {"TCP upload": [None, 8.5], "Ping (ms) ICMP": [30.5, 31.5], "TCP totals": [None, 8.5]},
        "version": 4,
        "x_values": [0.0, 0.25],
    }  # fmt: skip


SAMPLE = json.dumps(document()).encode()


def test_rates_senders_and_pings_are_rows_at_their_own_times() -> None:
    assert parsers.recognise(SAMPLE, path="x").name == "flent"
    tables = parsed(flent.FORMAT, SAMPLE)
    rate, later, sender = sorted(tables["application_rate"].rows(), key=lambda row: row["rate_bps"] is None)
    assert (rate["time_ns"], rate["until_ns"]) == (1795418693 * S + S // 4, 1795418693 * S + S // 2)
    assert (rate["rate_bps"], rate["direction"], rate["series"]) == (8e6, "sent", "TCP upload")
    assert (later["rate_bps"], later["bytes"], later["cwnd_segments"]) == (9e6, None, None)
    assert (sender["cwnd_segments"], sender["rtt_s"], sender["rttvar_s"]) == (20, 0.0315, 0.002)
    assert (sender["pacing_bps"], sender["delivery_bps"], sender["until_ns"]) == (12e6, 9.5e6, None)
    pings = tables["pings"]
    assert pings["rtt_s"].tolist() == [0.0305, 0.0315, 0.0325]
    assert pings["time_ns"].tolist() == [1795418693 * S + n * S // 4 for n in range(3)]
    assert pings.provenance["warnings"] == []


def test_result_without_raw_values_gives_what_flent_interpolated_and_says_so() -> None:
    old = document() | {"raw_values": {}}
    tables = parsed(flent.FORMAT, json.dumps(old).encode())
    assert tables["application_rate"]["rate_bps"].tolist() == [8.5e6, 8.5e6], "TCP totals is a series, too"
    assert tables["pings"]["rtt_s"].tolist() == [0.0305, 0.0315]
    assert tables["pings"].provenance["warnings"] == [
        "the file contains no raw values, so the values that flent interpolated are used"
    ]


@pytest.mark.parametrize("values", [b"{}", b'{"x": [1]}', b"7", b""])
def test_result_without_a_value_is_an_error(values: bytes) -> None:
    with pytest.raises(FormatError):
        parsed(flent.FORMAT, b'{"raw_values": ' + values + b"}")


@pytest.mark.skipif(None in PROGRAMS, reason="flent or fping is not installed (apt-get install flent fping)")
def test_real_result_is_read_as_flent_sums_it_up(tmp_path: Path) -> None:
    (tmp_path / "loopback.conf").write_text(TEST)
    command = ["flent", str(tmp_path / "loopback"), "-H", "127.0.0.1", "-l", "2", "-D", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    (path,) = tmp_path.glob("*.flent.gz")
    theirs = json.loads(gzip.decompress(path.read_bytes()))
    tables = tables_of(path)
    assert len(tables["application_rate"]) == 0
    pings = tables["pings"]["rtt_s"] * 1000
    known = theirs["metadata"]["SERIES_META"]["Ping (ms) ICMP"]
    assert pings.tolist() == pytest.approx([each["val"] for each in theirs["raw_values"]["Ping (ms) ICMP"]])
    assert pings.max() == pytest.approx(known["MAX_VALUE"]), done.stdout
    (tmp_path / "loopback.conf").unlink()
    assert len(mt.open(tmp_path).table("application", "pings")) == len(pings)


@given(data=damaged(json.dumps(document(), indent=1).encode()))
def test_damaged_result_gives_tables_or_an_error(data: bytes) -> None:
    survives(flent.parse, data)
