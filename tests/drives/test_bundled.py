"""The bundled drive: what the program says of it is what was planted, to the second and to 10 m."""

from __future__ import annotations

import json

import numpy as np
import pytest

import multitracer as mt
from multitracer.manifest import changed_files, read_manifest
from multitracer.units import NS_PER_S
from tests.conftest import SAMPLES
from tests.drives.judge import Drive, judge

FOLDER = SAMPLES / "rehearsed-drive"
WITHIN_S = 1.0
"""A reading of the radio in a second, and 9 kB that the server's kernel still holds when a stall begins."""


@pytest.fixture(scope="module")
def judged() -> Drive:
    return judge(FOLDER)


def test_logs_are_as_they_were_recorded() -> None:
    manifest = read_manifest(FOLDER)
    assert manifest is not None
    assert list(changed_files(FOLDER, manifest)) == []
    assert {log.path for log in manifest.files} >= {"truth/drive.json", "fixed/tcp-0.pcap.xz"}
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 240_000


def test_each_planted_event_has_its_cause_and_nothing_else_is_said(judged: Drive) -> None:
    said = [(verdict.kind, verdict.cause) for verdict in judged.verdicts]
    assert said == [
        ("hole", "coverage"),
        ("handover", ""),  # a break of 0.15 s makes no second bad
        ("handover", "handover"),
        ("stall", "server"),
        ("hole", "coverage"),
        ("handover", ""),
    ]
    assert judged.is_right
    assert judged.false == []


def test_times_and_places_are_those_of_the_truth(judged: Drive) -> None:
    for verdict in judged.verdicts:
        bound = 0.1 if verdict.kind == "handover" else WITHIN_S
        assert max(abs(verdict.begin_error_s), abs(verdict.end_error_s)) < bound, verdict
        assert verdict.place_error_m < 10, verdict


def test_stretches_last_as_long_as_the_silence_at_the_phone(judged: Drive) -> None:
    effects = [
        (verdict.effect_begin_error_s, verdict.effect_end_error_s) for verdict in judged.verdicts if verdict.cause
    ]
    assert len(effects) == 4
    assert np.abs(effects).max() < 0.3, effects


def test_coverage_is_back_before_the_data(judged: Drive) -> None:
    stretches = mt.open(FOLDER).stretches
    holes = stretches[stretches["cause"] == "coverage"]
    waited_s = (holes["end_ns"] - holes["cause_end_ns"]).dt.total_seconds()
    assert (waited_s > 3).all(), "the sender waits for its timer, which doubled in the hole"
    assert (holes["cause_end_m"] < holes["end_m"]).all()


def test_nothing_arrives_in_a_hole_though_the_server_goes_on() -> None:
    truth = json.loads((FOLDER / "truth" / "drive.json").read_text())
    throughput = mt.open(FOLDER)._drive.throughput
    assert throughput is not None
    for event in truth["events"]:
        if event["kind"] == "hole":
            first, last = event["begin"]["time_ns"] // NS_PER_S + 2, event["end"]["time_ns"] // NS_PER_S - 1
            seconds = np.arange(first, last) * NS_PER_S
            mean, _ = throughput.mean(seconds, seconds + NS_PER_S)
            assert len(mean) > 3
            assert not mean.any()


def test_evidence_of_a_hole_tells_no_level_that_is_good() -> None:
    stretches = mt.open(FOLDER).stretches
    holes = stretches[stretches["cause"] == "coverage"]["evidence"]
    assert len(holes) == 2
    assert all(words.startswith("no service for ") and "dBm" not in words for words in holes), list(holes)


def test_lowest_rate_of_the_stretches_is_lower_than_the_typical_one() -> None:
    stretches = mt.open(FOLDER).stretches
    assert (stretches["throughput_bps"] < 0.2 * stretches["typical_bps"]).all()
    assert set(stretches["cause"]) == {"coverage", "handover", "server"}


def test_no_other_traffic_is_claimed_where_a_radio_changed_its_rate() -> None:
    kinds = set(mt.open(FOLDER).findings()["kind"])
    assert "competing-traffic" not in kinds
    assert {"blackout", "handover", "link-limited"} <= kinds
