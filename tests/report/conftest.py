"""A browser for the tests that need one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from multitracer.figures.time_sequence import time_sequence_panels
from multitracer.figures.zooms import places
from multitracer.report.embed import embed
from multitracer.report.figure_section import figure_section
from multitracer.report.page import document, write
from tests.figures.traffic import START_NS, transfer
from tests.report.chromium import EXECUTABLE, Browser
from tests.report.figure_pages import figure, long_panels

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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


@pytest.fixture(scope="session")
def long_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "long.html"
    write(path, document("long </script>", figure_section(["one"]), figures=[figure(long_panels())]))
    return path


@pytest.fixture(scope="session")
def short_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "short.html"
    direction = transfer(lost=(20, 21, 150))
    panels = time_sequence_panels(direction)
    first = figure(panels) | embed(
        panels, places(direction), identity="first", origin_ns=START_NS, budget_bytes=200_000
    )
    write(path, document("short", figure_section(["1: a", "2: b"]), figures=[first, figure(long_panels())]))
    return path
