"""The native kernel follows the bucket of a policer as NumPy does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer import native
from multitracer.diagnosis.packets import policing as token_bucket
from multitracer.diagnosis.packets.policing import ArrivedStream, bucket

pytestmark = pytest.mark.skipif(native.kernel() is None, reason=f"captures are read by {native.state()}")

packets = st.lists(st.tuples(st.floats(0, 0.01), st.integers(40, 1500), st.booleans()), min_size=2, max_size=90)


def _levels(stream: ArrivedStream, rate: float, *, many: int) -> tuple[bytes, int]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_bucket, "_MANY", many)
        most, short = token_bucket._levels(stream, rate)
    return most.tobytes(), short


@given(packets, st.floats(1, 1e7), st.booleans())
def test_levels_are_the_same(sent: list[tuple[float, int, bool]], rate: float, is_first_lost: bool) -> None:
    gaps, sizes, lost = (np.array(column) for column in zip(*sent, strict=True))
    lost[0] |= is_first_lost
    lost[-1] = True
    stream = ArrivedStream(np.cumsum(gaps), sizes.astype(np.float64), lost)
    assert _levels(stream, rate, many=0) == _levels(stream, rate, many=1 << 40)


def test_the_same_bucket_is_found() -> None:
    random = np.random.default_rng(5)
    stream = ArrivedStream(
        np.cumsum(random.exponential(0.001, 5_000)), np.full(5_000, 1500.0), random.random(5_000) < 0.02
    )
    found = []
    for many in (0, 1 << 40):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(token_bucket, "_MANY", many)
            found.append(bucket(stream))
    assert found[0] is not None
    assert found[0] == found[1]
