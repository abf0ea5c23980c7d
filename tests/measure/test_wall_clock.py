"""The wall clock is set while transactions run, by NTP or by a user: their durations stay right."""

from __future__ import annotations

import csv
import threading
import time
from typing import TYPE_CHECKING

import pytest

from multitracer.measure.plan import Experiment, MeasurementPlan
from multitracer.measure.run import carry_out
from multitracer.measure.transports import TransportOptions, client, server

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.measure.plan import ProtocolName

HOUR_NS = 3600 * 10**9


@pytest.mark.parametrize("protocol", ["tcp", "centauruscomm", "wtcp"])
@pytest.mark.parametrize("step_ns", [-HOUR_NS, HOUR_NS])
def test_clock_that_is_set_during_a_run_changes_no_duration(
    protocol: ProtocolName, step_ns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of this machine is not set: what both ends read of it is."""
    wall_ns, steps, over = time.time_ns, [0], threading.Event()
    monkeypatch.setattr(time, "time_ns", lambda: wall_ns() + steps[0])
    monkeypatch.setattr(time, "time", lambda: (wall_ns() + steps[0]) / 1e9)
    serving, where = server(protocol, ["127.0.0.1:0"], folder=None, options=TransportOptions())

    def serve() -> None:
        while not over.is_set():
            serving.work(0.01)

    def set_clock(done: int, _: int, __: int) -> None:
        steps[0] = step_ns * (done % 2)

    plan = MeasurementPlan(protocol, where, (Experiment("reply", (64, 2048), sessions=5),), timeout_s=20)
    worker = threading.Thread(target=serve)
    begin_ns = time.time_ns()
    worker.start()
    try:
        carry_out(
            plan,
            tmp_path / "run",
            lambda run: client(protocol, where, run=run, timeout_s=plan.timeout_s, options=TransportOptions()),
            progress=set_clock,
        )
    finally:
        over.set()
        worker.join()
        serving.close()
    steps[0] = 0
    lasted_ns = time.time_ns() - begin_ns
    with (tmp_path / "run" / "transactions.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["outcome"] for row in rows] == ["ok"] * 10
    starts_ns = [int(row["start_ns"]) for row in rows]
    assert starts_ns == sorted(starts_ns)
    assert begin_ns <= starts_ns[0] <= starts_ns[-1] <= begin_ns + lasted_ns
    for column in ("rtt_s", "server_rtt_s"):
        assert all(0 <= float(row[column]) * 1e9 < lasted_ns for row in rows)
