"""Findings of one cause are one entry, those that repeat themselves are counted, and no wait costs twice."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from multitracer.diagnosis.diagnose import diagnose
from multitracer.diagnosis.finding import Finding
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from multitracer.units import NS_PER_S
from tests.cli.program import call
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.finding import Incident


@pytest.fixture(scope="module")
def found() -> Callable[[str], Diagnosis]:
    """`found(name)`: the diagnosis of a bundled recording."""
    return cache(lambda name: diagnose(Transfer.of(read(SAMPLES / name))))


@pytest.fixture
def of(found: Callable[[str], Diagnosis]) -> Callable[..., list[Incident]]:
    """`of(finding, …)`: the incidents of findings within a run of some 100 s."""
    diagnosis = found("fig8-resets-vj")

    def at_ns(second: float) -> int:
        return diagnosis.transfer.begin_ns + round(second * NS_PER_S)

    def made(*some: tuple[str, float, float, float]) -> list[Incident]:
        findings = [Finding(kind, at_ns(begin), at_ns(end), cost, None, (), kind) for kind, begin, end, cost in some]
        return replace(diagnosis, find=lambda _: findings).incidents

    return made


def test_each_finding_is_part_of_exactly_one_incident(found: Callable[[str], Diagnosis]) -> None:
    for name in ("fig8-resets-vj", "typical-1450k", "overbuffered"):
        diagnosis = found(name)
        parts = sorted(part for each in diagnosis.incidents for part in each.parts)
        assert parts == list(range(len(diagnosis.findings)))
        assert all(each.cost_s <= diagnosis.account.total_s for each in diagnosis.incidents)


def test_what_a_reset_brought_about_is_one_incident_named_by_the_reset(found: Callable[[str], Diagnosis]) -> None:
    diagnosis = found("fig8-resets-vj")
    holes = [each for each in diagnosis.incidents if each.kind == "link-reset"]
    assert len(holes) == 2
    for each in holes:
        kinds = [diagnosis.findings[part].kind for part in each.parts]
        assert kinds[:2] == ["link-reset", "header-decompressor-failure"]
        costs = [diagnosis.findings[part].cost_s for part in each.parts]
        assert max(costs) <= each.cost_s < sum(costs), "the timer's wait is that of two findings"


def test_overflows_of_one_queue_are_one_entry_with_their_number(found: Callable[[str], Diagnosis]) -> None:
    diagnosis = found("typical-1450k")
    (aggregated,) = [each for each in diagnosis.incidents if each.kind == "local-buffer-overflow"]
    assert aggregated.count == len(aggregated.parts) == 26
    assert "happened 26 times" in aggregated.sentence
    assert aggregated.cost_s == pytest.approx(sum(diagnosis.findings[part].cost_s for part in aggregated.parts))


def test_holes_apart_are_incidents_apart(of: Callable[..., list[Incident]]) -> None:
    apart = of(("outage", 10, 12, 2.0), ("exponential-back-off", 11, 13, 2.0), ("outage", 20, 25, 5.0))
    assert [(each.kind, each.parts) for each in apart] == [("outage", (2,)), ("outage", (0, 1))]


def test_the_handover_is_the_first_cause_of_an_outage(of: Callable[..., list[Incident]]) -> None:
    (only,) = of(("ack-loss", 11, 12, 1.0), ("outage", 10.2, 12, 1.8), ("handover", 10, 11, 1.0))
    assert (only.kind, only.parts) == ("handover", (2, 1, 0))
    assert only.cost_s == pytest.approx(1.8, abs=0.2)


def test_a_dear_one_is_not_hidden_among_many_cheap_ones(of: Callable[..., list[Incident]]) -> None:
    cheap = [("congestion-loss", at, at + 1, 0.1) for at in range(0, 40, 2)]
    dear, many = of(*cheap, ("congestion-loss", 50, 80, 30.0))
    assert (dear.count, dear.cost_s) == (1, 30.0)
    assert many.count == 20
    assert many.cost_s == pytest.approx(2.0)


def test_a_condition_of_the_whole_transfer_swallows_no_hole(of: Callable[..., list[Incident]]) -> None:
    assert len(of(("link-flow-control", 0, 100, 9.0), ("outage", 10, 12, 2.0))) == 2


def test_the_program_lists_incidents_and_keeps_findings_in_json() -> None:
    told = call("diagnose", str(SAMPLES / "cellular_upload")).stdout
    assert "outage, 16.0 s to 18.3 s" in told
    assert "with it: exponential-back-off" in told
    assert "what would help: " in told
    assert "\nexponential-back-off" not in told


def test_a_cost_that_rests_on_weak_time_is_an_upper_bound(found: Callable[[str], Diagnosis]) -> None:
    session = Path(__file__).parents[1] / "causes" / "recordings" / "00013-loss-by-size" / "session"
    diagnosis = diagnose(Transfer.of(read(session)))
    (loss,) = [each for each in diagnosis.incidents if each.kind == "random-loss"]
    assert loss.cost_s > 0
    assert loss.is_weak
    assert "at most" in diagnosis._repr_html_()
    logged = found("fig8-resets-vj")  # the link's log measures what each reset cost
    assert not any(each.is_weak for each in logged.incidents)
