"""The material of the ten-second test: a recording of each kind, in an order that does not tell which."""

from __future__ import annotations

from tests.report.ten_seconds import CASES, draw, recordings


def test_each_kind_has_a_recording() -> None:
    for case in CASES:
        assert recordings(case), case.truth
        assert all(path.is_dir() for path in recordings(case)), case.truth


def test_a_seed_draws_the_same_twelve_and_another_one_others() -> None:
    one = draw(23)
    assert one == draw(23)
    assert len({path for _, path in one}) == len(CASES) == 12
    assert [case for case, _ in one] != [case for case, _ in draw(24)]
