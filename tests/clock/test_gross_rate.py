"""A rate that no quartz has is found and named, its error holds, and a clock that steps has no such rate."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.clock.captures.directions import both_ways
from multitracer.clock.captures.intervals import gross_rates
from multitracer.clock.captures.two_captures import relate
from tests.clock.altered import one
from tests.clock.paths import Case, Clock, Path, captures, run, true_offset_ns
from tests.clock.restamp import S, restamp, stamps_of
from tests.clock.test_faults_in_files import FIXED, MOBILE, complaints
from tests.narrowed import known

if TYPE_CHECKING:
    import pathlib

    from multitracer.clock.model.estimate import Estimate
    from multitracer.tables import Times

UPLOAD = Case(
    up=Path(rate_bps=64_000, jitter_s=0.02),
    down=Path(rate_bps=256_000, jitter_s=0.02),
    transfer_bytes=150_000,
    directions=(0, 1),
    duration_s=150,
    seed=5,
)
PACKETS_OF_IT = run(UPLOAD)


def check(e: Estimate, case: Case) -> None:
    for at in np.linspace(e.first_ns, e.last_ns, 7).astype(np.int64):
        assert abs(int(e.offset_at(at)) - true_offset_ns(case, int(at))) < e.bound_ns(at) < 20e6
    assert known(e.lower_ns) < true_offset_ns(case, e.first_ns) < known(e.upper_ns)


BOTH_HOSTS = [("mobile", 1_300), ("fixed", 1_300), ("mobile", -45_000), ("fixed", -45_000)]


@pytest.mark.slow
@pytest.mark.parametrize(("host", "skew_ppm"), [*BOTH_HOSTS, ("fixed", -4_600), ("mobile", 9_000), ("fixed", 30_000)])
def test_a_rate_that_no_quartz_has_is_found_within_its_error(host: str, skew_ppm: float) -> None:
    clock = Clock(offset_s=-3.0, skew_ppm=skew_ppm)
    case = replace(UPLOAD, fixed=clock) if host == "fixed" else replace(UPLOAD, mobile=clock)
    (e,) = relate(*captures(case, PACKETS_OF_IT))
    truth = skew_ppm if host == "fixed" else (1 / (1 + skew_ppm * 1e-6) - 1) * 1e6
    assert abs(e.skew_ppm - truth) < e.skew_uncertainty_ppm < 50
    check(e, case)


@pytest.mark.parametrize("jump_s", [-2.0, 2.0])
def test_a_clock_that_steps_is_not_taken_for_one_that_runs_fast(jump_s: float) -> None:
    case = replace(UPLOAD, fixed=Clock(steps=((70.0, jump_s),)))
    near, far = captures(case, PACKETS_OF_IT)
    assert gross_rates(both_ways(near, far))  # a line through both levels seems to fit
    estimates = relate(near, far)
    assert len(estimates) == 2
    assert max(abs(e.skew_ppm) for e in estimates) < 50


def files(folder: pathlib.Path, change: object) -> list[dict[str, object]]:
    """Return what the doctor says of the sample whose fixed host stamped as `change` does."""
    near = restamp(MOBILE, folder / "mobile.pcap", lambda t: t)
    far = restamp(FIXED, folder / "fixed.pcap", change)  # type: ignore[arg-type]
    return complaints(near, far)


def test_the_doctor_names_a_clock_that_runs_three_percent_fast(tmp_path: pathlib.Path) -> None:
    begin = int(stamps_of(FIXED)[0])
    (found,) = files(tmp_path, lambda t: t + (t - begin) * 3 // 100)
    assert found["code"] == "rate"
    assert " runs 3.00" in str(found["sentence"]) or " runs 2.91" in str(found["sentence"])


@pytest.mark.slow
def test_the_doctor_names_a_clock_that_stood_still(tmp_path: pathlib.Path) -> None:
    begin = int(stamps_of(FIXED)[0])

    def stood(t: Times) -> Times:
        return np.where((t > begin + 5 * S) & (t < begin + 8 * S), begin + 5 * S, t)

    (found,) = files(tmp_path, stood)
    assert found["code"] == "effect-first"
    assert "before they are sent" in str(found["sentence"])


@pytest.mark.parametrize("step_ns", [S // 100, S // 10])
def test_the_error_holds_that_of_stamps_cut_to_a_decimal(tmp_path: pathlib.Path, step_ns: int) -> None:
    near = restamp(MOBILE, tmp_path / "mobile.pcap", lambda t: t)
    far = restamp(FIXED, tmp_path / "fixed.pcap", lambda t: t // step_ns * step_ns)
    for e in relate(one(near), one(far)):
        at = np.linspace(e.first_ns, e.last_ns, 50).astype(np.int64)
        assert (np.abs(at // step_ns * step_ns - e.at(at)) <= e.bound_ns(at)).all()
