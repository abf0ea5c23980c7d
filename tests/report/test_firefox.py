"""A report in another browser engine: Firefox ESR draws it, and complains of nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from multitracer.recording.read import read
from multitracer.report.figure_section import figure_section
from multitracer.report.page import Assets, document, write
from multitracer.report.write import Request, write_report
from tests.conftest import SAMPLES
from tests.report.figure_pages import figure, long_panels
from tests.report.firefox import EXECUTABLE, Firefox

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(EXECUTABLE is None, reason="firefox is not installed (apt-get install firefox-esr)"),
]

INK = """(() => {
  const canvas = document.querySelector(".plot canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size;
})()"""
"""How many colours the figure has."""


@pytest.fixture(scope="module")
def firefox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    with Firefox(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.mark.parametrize("shared", [False, True])
def test_a_report_draws_its_figure(firefox: Firefox, tmp_path: Path, *, shared: bool) -> None:
    assets = Assets(tmp_path / "assets") if shared else None
    write_report(read(SAMPLES / "download"), tmp_path / "r.html", Request(assets=assets))
    firefox.complaints.clear()
    firefox.requests.clear()
    firefox.open(tmp_path / "r.html")
    firefox.wait("window.report ? window.report.then(() => true) : false")
    firefox.evaluate("document.getElementById('figure').open = true")
    assert firefox.wait(f"{INK} > 10")
    assert firefox.evaluate("document.querySelector('.lead').textContent.length") > 20
    assert firefox.evaluate("getComputedStyle(document.querySelector('.tracks')).display") == "grid"
    assert firefox.complaints == []
    assert all(url.startswith(("blob:", "data:", tmp_path.as_uri())) for url in firefox.requests)


def test_a_worker_reads_all_points(firefox: Firefox, tmp_path: Path) -> None:
    write(tmp_path / "long.html", document("long", figure_section(["one"]), figures=[figure(long_panels())]))
    firefox.complaints.clear()
    firefox.open(tmp_path / "long.html")
    firefox.wait("window.report ? window.report.then(() => true) : false")
    assert firefox.wait("!/reading/i.test(document.querySelector('.status').textContent)")
    assert firefox.wait(f"{INK} > 10")
    assert firefox.complaints == []
