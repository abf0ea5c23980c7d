"""The recorded sessions: an error put into one host's clock is found, and nothing in the others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.clock.model.edges import put_together
from multitracer.clock.model.relation import Clock, Relation
from multitracer.clock.session_clock import clocks_of
from multitracer.recording.read import read
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.clock.model.relation import ClockGraph

S, MS = 1_000_000_000, 1_000_000
MOBILE, FIXED = Clock("mobile"), Clock("fixed")
SHIFTED = SAMPLES / "clock-shift"
DRIVEN = (SAMPLES / "rehearsed-drive", SAMPLES / "measured-drive")
"""Recorded as in the field: only packets relate its two clocks, which are one, and each takes 50 ms."""
OFFSET_S, SKEW_PPM = 0.8, 30.0
SESSIONS = sorted(path.parent for path in SAMPLES.glob("*/manifest.json"))


@pytest.fixture(scope="module")
def shifted() -> ClockGraph:
    session = read(SHIFTED)
    return clocks_of(session, session.captures).graph


def begun_ns(folder: Path) -> int:
    return int(json.loads((folder / "manifest.json").read_text())["created_ns"])


def check(found: Relation) -> None:
    """Check a relation from the mobile's clock to the fixed host's against what the testbed put in."""
    (estimate,) = put_together((found,))
    begun = begun_ns(SHIFTED)
    error = int(estimate.offset_at(begun)) - round(OFFSET_S * S)
    assert abs(error) < 2 * MS  # the drift began within seconds of the folder: 30 us each
    assert abs(error) < estimate.bound_ns(begun)
    assert estimate.skew_ppm == pytest.approx(SKEW_PPM, abs=1)
    assert estimate.skew_ppm == pytest.approx(SKEW_PPM, abs=estimate.skew_uncertainty_ppm)


@pytest.mark.parametrize("method", ["two captures", "slots of the link"])
def test_an_error_put_into_a_real_recording_is_recovered_with_no_hint(shifted: ClockGraph, method: str) -> None:
    (relation,) = (r for r in shifted.relations if r.method == method)
    assert (relation.source, relation.target) == (MOBILE, FIXED)
    check(relation)


def test_both_ways_together_lead_from_host_to_host(shifted: ClockGraph) -> None:
    at = begun_ns(SHIFTED) + 100 * S
    placed = shifted.place(np.array([at]), FIXED, MOBILE)
    assert placed.bound_ns[0] < 2 * MS
    assert placed.time_ns[0] == pytest.approx(at - 800 * MS - 3 * MS, abs=2 * MS)


@pytest.mark.parametrize("folder", SESSIONS, ids=lambda path: path.name)
def test_the_clocks_of_the_recorded_sessions_are_sound(folder: Path) -> None:
    session = read(folder)
    found = clocks_of(session, session.captures)
    assert found.complaints == ()
    assert found.warnings == ()
    at_ns = begun_ns(folder) + 10 * S
    placed = found.place(np.array([at_ns]), FIXED, MOBILE)
    if folder in DRIVEN:
        assert abs(placed.time_ns[0] - at_ns) <= placed.bound_ns[0] < 5 * MS
        return
    assert placed.bound_ns[0] < 2 * MS
    if folder != SHIFTED:
        assert placed.bound_ns[0] == 0  # both hosts are namespaces of one machine
