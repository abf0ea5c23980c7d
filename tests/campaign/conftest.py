"""What a test with a Dask scheduler leaves behind, so that no other test is blamed for it."""

from __future__ import annotations

import gc
import warnings
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def lost_connections() -> Iterator[None]:
    """Collect the sockets that Dask's client leaves open where its scheduler was killed."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
