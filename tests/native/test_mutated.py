"""The long comparison of both paths, a moment of it: `python -m tests.native.mutated` runs it for longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from multitracer import native
from parsers._capture.window import WINDOW_BYTES, Window
from tests.native import both, mutated

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from multitracer.analysis import Analysis

pytestmark = pytest.mark.skipif(native.kernel() is None, reason=f"captures are read by {native.state()}")


@pytest.mark.parametrize(("make", "captures"), [(mutated.mutated, 60), (mutated.packets, 1)])
def test_none_differs(make: Callable[[int], bytes], captures: int) -> None:
    assert mutated.run(1, captures, make) == (1 + captures, [])
    assert (Window.__init__.__kwdefaults__ or {})["size"] == WINDOW_BYTES


def test_an_input_follows_from_its_seed_and_is_small() -> None:
    inputs = [mutated.mutated(seed) for seed in range(120)]
    assert inputs == [mutated.mutated(seed) for seed in range(120)]
    assert max(map(len, inputs)) <= mutated.MOST_BYTES
    assert mutated.packets(3) == mutated.packets(3)


def test_a_difference_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def differ(*_: object) -> None:
        raise AssertionError("they differ")

    monkeypatch.setattr(mutated, "_OUT", tmp_path)
    monkeypatch.setattr(both, "assert_equal", differ)
    assert mutated.run(50, 2, mutated.mutated) == (52, [50, 51])
    assert (tmp_path / "differs-51.bin").read_bytes() == mutated.mutated(51)


def test_what_is_counted_while_it_is_read_is_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def different(*arguments: object) -> Analysis | None:
        analysis = count(*arguments)
        if analysis is not None:
            analysis.directions["packets"][:] += 1
        return analysis

    first, captures = 3_000_051, 100
    monkeypatch.setattr(mutated, "_OUT", tmp_path)
    for name in ("counted", "_counted_of_file"):
        count = getattr(mutated, name)
        with monkeypatch.context() as patched:
            patched.setattr(mutated, name, different)
            assert mutated.run(first, captures, mutated.mutated)[1]
