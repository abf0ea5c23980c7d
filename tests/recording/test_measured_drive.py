"""The bundled drive with transactions: captures at both ends, modem, GPS receiver, two protocols in turn."""

from __future__ import annotations

import json
import lzma
from collections import Counter
from pathlib import Path

import numpy as np

import multitracer as mt
from multitracer.manifest import changed_files, read_manifest
from multitracer.recording.inputs import find_inputs
from multitracer.recording.recording import Recording
from multitracer.recording.transactions import client_of, sources_of, transactions_of
from tests.conftest import SAMPLES
from tests.measure.test_recorded_drive import check_nearest

DRIVE = SAMPLES / "measured-drive"
COUNT = 144


def test_it_is_small_complete_and_names_no_machine() -> None:
    files = [path for path in DRIVE.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 2_000_000
    manifest = read_manifest(DRIVE)
    assert manifest is not None
    assert not list(changed_files(DRIVE, manifest))
    assert all("node" not in host.more for host in manifest.hosts.values())
    assert not find_inputs(DRIVE).warnings


def test_both_protocols_measured_in_turn_on_the_clock_of_the_phone() -> None:
    recording = Recording(find_inputs(DRIVE))
    (content,) = sources_of(recording)
    assert Counter(content.table["protocol"].tolist()) == {"tcp": COUNT // 2, "centauruscomm": COUNT // 2}
    blocks = sorted(transactions_of(recording), key=lambda block: block[1]["start_ns"][0])
    assert [Path(log.path).parent.name for log, _ in blocks] == [
        f"{protocol}-{block}" for block in (1, 2, 3) for protocol in ("tcp", "centauruscomm")
    ]
    assert {client_of(log, recording.inputs) for log, _ in blocks} == {"mobile"}


def test_every_transaction_has_the_nearest_reading_of_the_modem() -> None:
    assert check_nearest(DRIVE) == check_nearest(DRIVE, "cell_busy_percent", "cell_busy_pct") == COUNT


def test_radio_and_place_follow_the_planted_events() -> None:
    truth = json.loads((DRIVE / "truth" / "drive.json").read_text())
    (load,) = [each for each in truth["events"] if each["kind"] == "load"][:1]
    table = mt.open(DRIVE).transactions
    start_ns = table["start_ns"].astype("int64")
    busy = (start_ns >= load["begin"]["time_ns"]) & (start_ns <= load["end"]["time_ns"])
    assert busy.any()
    assert table["cell_busy_percent"][busy].min() > 80 > table["cell_busy_percent"].median()
    assert table["place_absent"].eq("").mean() > 0.95
    route = np.array(truth["route_from_begin_each_second"])
    second = (start_ns - truth["began_ns"]) // 1_000_000_000
    placed = table["place_absent"] == ""
    apart_deg = np.abs(table.loc[placed, ["lat_deg", "lon_deg"]].to_numpy() - route[second[placed]])
    assert apart_deg.max() < 0.002, "as far as a car comes in some seconds"


def test_the_server_knew_the_radio_of_most_transactions() -> None:
    lines = lzma.decompress((DRIVE / "fixed" / "transactions.jsonl.xz").read_bytes()).splitlines()
    recorded = [json.loads(line)["recorded"] for line in lines]
    assert len(recorded) == COUNT
    assert sum("rssi_dbm" in said for said in recorded) > 0.95 * COUNT
    assert all(said["rsrp_absent"] == "the modem has not reported it" for said in recorded[5:])
