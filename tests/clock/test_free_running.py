"""The clocks of TCP timestamps and of modems are in the graph, each at its host, with a true drift."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.model.relation import Clock
from multitracer.clock.session_clock import clocks_of
from multitracer.recording.read import read
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.clock.model.estimate import Estimate


def _estimate(folder: Path, clock: Clock) -> Estimate:
    session = read(folder)
    graph = clocks_of(session, session.captures).graph
    (relation,) = [each for each in graph.relations if clock in (each.source, each.target)]
    return relation.estimates[0]


def test_timestamps_tell_that_a_receiver_drifts() -> None:
    """In this session the receiver's logs, and only its logs, run 30 ppm fast."""
    drifting = _estimate(SAMPLES / "clock-shift", Clock("fixed", "tsval"))
    steady = _estimate(SAMPLES / "clock-shift", Clock("mobile", "tsval"))
    assert abs(drifting.skew_ppm + 30) < drifting.skew_uncertainty_ppm < 5
    assert abs(steady.skew_ppm) < steady.skew_uncertainty_ppm < 5


def test_a_stamp_goes_to_the_timestamps_clock_and_back() -> None:
    session = read(SAMPLES / "cellular_upload")
    captures = session.captures
    graph = clocks_of(session, captures).graph
    stamps = captures[0].tables.segments["time_ns"][100:200]
    there = graph.place(stamps, Clock("mobile"), Clock("mobile", "tsval"))
    back = graph.place(there.time_ns, Clock("mobile", "tsval"), Clock("mobile"))
    assert np.abs(back.time_ns - stamps).max() <= 1


def test_modem_that_tells_its_time_is_a_clock_of_its_host(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    shutil.copytree(SAMPLES / "cellular_upload", folder)
    begin, seconds = 1_795_252_742, range(300)
    rows = [f"{(begin + s) * 10**9},{(begin + s) * 10**9},{(begin + s) * 10**9 + 10**7},!GSTATUS,LTE,"
            f"{int(500.3 + s * 1.0002)}" for s in seconds]  # fmt: skip
    text = "\n".join(["time_ns,asked_ns,answered_ns,source,rat,modem_clock_s", *rows]) + "\n"
    (folder / "mobile" / "radio.csv").write_text(text)
    modem = _estimate(folder, Clock("mobile", "modem"))
    assert abs(modem.skew_ppm - 200) < modem.skew_uncertainty_ppm
    middle = (begin + 150) * 10**9
    assert abs(int(modem.at(np.array([middle]))[0]) - 650_330_000_000) < modem.bound_ns(np.array([middle]))[0]
