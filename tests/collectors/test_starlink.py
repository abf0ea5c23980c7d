"""The collector starlink, against a gRPC server with the dish's own description."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

import pytest

import parsers
from tests.collectors.running import end, records, run, running, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from multitracer.tables import Table
    from tests.collectors.dish import FakeDish

pytest.importorskip("starlink_grpc", reason="the extra starlink is not installed")
pytest.importorskip("grpc_reflection", reason="grpcio-reflection is not installed")

QUIET = (30.0, 0.0, 5e7, 3e6)


@pytest.fixture
def dish() -> Iterator[FakeDish]:
    from tests.collectors.dish import FakeDish  # it needs grpc

    made = FakeDish()
    made.samples = [QUIET] * 20
    yield made
    made.stop()


def tables(log: Path) -> dict[str, Table]:
    form, parsed = parsers.read(log)
    assert form.name == "starlink"
    assert isinstance(parsed, dict)
    return parsed


def options_of(dish: FakeDish) -> tuple[object, ...]:
    return ("--target", f"127.0.0.1:{dish.port}", "--hz", 5)


def test_each_second_of_the_dish_is_one_row_also_one_that_was_missed(dish: FakeDish, tmp_path: Path) -> None:
    log = tmp_path / "starlink.jsonl"
    with running("starlink", log, *options_of(dish)) as child:
        until(lambda: records(log, "history"))
        dish.samples = [*dish.samples, (41.0, 0.0, 6e7, 1e6), (None, 1.0, 0.0, 0.0), (43.0, 0.25, 7e7, 2e6)]
        until(lambda: len(records(log, "history")) > 1)
        assert end(child) == 0
    read = tables(log)
    seconds = read["dish"].take(~read["dish"].missing("loss_ratio"))
    seconds = seconds.take(seconds["line"] == seconds["line"].max())
    assert seconds["loss_ratio"].tolist() == [0.0, 1.0, 0.25]
    assert seconds["downlink_bps"].tolist() == [6e7, 0.0, 7e7]
    assert sorted(read["pings"]["rtt_s"].tolist()) == [0.03, 0.041, 0.043], "a second without an answer has no latency"
    later = seconds["time_ns"].tolist()
    assert [round((b - a) / 1e9, 3) for a, b in itertools.pairwise(later)] == [1, 1]
    assert abs(later[-1] - time.time_ns()) < 60 * 10**9


def test_obstruction_and_outage_are_told_with_their_cause(dish: FakeDish, tmp_path: Path) -> None:
    log = tmp_path / "starlink.jsonl"
    with running("starlink", log, *options_of(dish)) as child:
        until(lambda: records(log, "history"))  # outages of the first answer were before the recording
        dish.is_obstructed, dish.outages = True, [("OBSTRUCTED", 10**18, 2_500_000_000)]
        until(lambda: records(log, "outage") and "OBSTRUCTED" in {r["state"] for r in records(log, "status")})
        assert end(child) == 0
    read = tables(log)
    assert {"CONNECTED", "OBSTRUCTED"} <= set(read["dish"]["state"].tolist())
    (outage,) = read["dish_outages"].rows()
    assert (outage["cause"], outage["duration_ns"]) == ("OBSTRUCTED", 2_500_000_000)


def test_dish_that_is_not_there_is_a_gap_with_its_reason(tmp_path: Path) -> None:
    log = tmp_path / "starlink.jsonl"
    done = run("starlink", "--target", "127.0.0.1:9", "-o", log, "--duration", 2.5)
    assert (done.returncode, done.stderr) == (0, "")
    assert set(tables(log)["gaps"]["reason"].tolist()) == {"unreachable"}
    assert len(tables(log)["dish"]) == 0


def test_dish_that_starts_again_begins_its_history_anew(dish: FakeDish, tmp_path: Path) -> None:
    log = tmp_path / "starlink.jsonl"
    with running("starlink", log, *options_of(dish)) as child:
        until(lambda: records(log, "history"))
        dish.samples = [(50.0, 0.0, 1e6, 1e6)]
        until(lambda: records(log, "history")[-1]["counter"] == 1)
        assert end(child) == 0
    assert tables(log)["pings"]["rtt_s"].tolist() == [0.03, 0.05]
