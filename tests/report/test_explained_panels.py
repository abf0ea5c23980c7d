"""What the explanation adds to the figure: the link's rate above the throughput, and one-way delay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.diagnosis.diagnose import explain
from multitracer.figures.series import Series
from multitracer.figures.stack import BIT_RATE, Panel, axis_origin_ns
from multitracer.recording.read import read
from multitracer.report.explained_panels import explained_panels
from multitracer.units import NS_PER_S
from tests.conftest import SAMPLES
from tests.report.ten_seconds import RECORDINGS

if TYPE_CHECKING:
    from pathlib import Path

ONE_END = RECORDINGS / "00191-deep-queue" / "session" / "fixed"


def panels(session: Path) -> dict[str, Panel]:
    """Return the panels of a figure that had nothing but a rate, with what its explanation adds."""
    found = explain(read(session))
    zero = axis_origin_ns(found.transfer.at_sender.capture)
    rates = Series("TcpSnd_goodput", "goodput", np.array([zero, zero + NS_PER_S]), np.array([1_000, 2_000]))
    drawn = [Panel("throughput", "Throughput", BIT_RATE, 1.2, [rates])]
    return {panel.key: panel for panel in explained_panels(drawn, found, origin_ns=zero)}


@pytest.mark.parametrize(
    ("session", "bits", "words"),
    [
        (SAMPLES / "cellular_upload", 1_930_000, "the link carried 1.92 Mbit/s to 1.93 Mbit/s, median 1.93 Mbit/s"),
        (RECORDINGS / "00004-policer" / "session", 1_087_000, "a policer let 1.09 Mbit/s through"),
        (SAMPLES / "fade-n2-20", 9_590, "the link can carry 9.59 kbit/s by its log"),
    ],
)
def test_the_rate_of_the_link_stands_above_the_throughput(session: Path, bits: int, words: str) -> None:
    panel = panels(session)["throughput"]
    line = next(series for series in panel.drawn if series.role == "capacity")
    assert line.value == pytest.approx(bits, rel=0.01)
    assert panel.title == f"Throughput; {words}"


def test_a_link_that_was_never_full_has_no_line_and_a_reason() -> None:
    panel = panels(RECORDINGS / "00027-small-sndbuf" / "session")["throughput"]
    assert [series.role for series in panel.drawn] == ["goodput"]
    assert panel.title.endswith("the link's rate is not known: nothing shows that the link was full")


@pytest.mark.parametrize(
    ("session", "most_s", "words"),
    [
        (SAMPLES / "cellular_upload", 0.476, "(by one clock)"),
        (SAMPLES / "rehearsed-drive", 1.295, "(clocks ± 2.76 ms)"),
        (SAMPLES / "fade-n2-20", 11.82, "(by one clock)"),
        (SAMPLES / "download" / "mobile", 7.66, "(its variation only, from the sender's timestamps, TSval)"),
    ],
)
def test_one_way_delay_says_how_far_its_clocks_are_known(session: Path, most_s: float, words: str) -> None:
    panel = panels(session)["one_way"]
    (delays,) = panel.drawn
    assert delays.value.min() == 0
    assert delays.value.max() / NS_PER_S == pytest.approx(most_s, abs=0.01)
    assert panel.title.endswith(words)
    assert delays.frame is not None


def test_one_end_alone_has_no_one_way_delay_and_says_what_would_help() -> None:
    panel = panels(ONE_END)["one_way"]
    assert not panel.drawn
    assert "A one-way delay needs captures at both endpoints" in panel.empty
