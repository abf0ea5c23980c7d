"""A browser for the tests that need one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.report.chromium import EXECUTABLE, Browser

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def _chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if EXECUTABLE is None:
        pytest.skip("chromium is not installed")
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def browser(_chromium: Browser) -> Browser:
    """A desktop browser in light colours that has complained of nothing yet."""
    _chromium.complaints.clear()
    _chromium.requests.clear()
    _chromium.resize(1280, 900)
    _chromium.prefer("light")
    _chromium.call("Emulation.setTouchEmulationEnabled", enabled=False)
    return _chromium
