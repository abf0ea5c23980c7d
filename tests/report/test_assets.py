"""Pages that share script and style: from a disk and from a server, and only what the page names runs."""

from __future__ import annotations

import functools
import http.server
import shutil
import threading
from typing import TYPE_CHECKING

import pytest

from multitracer.campaign.run import run
from multitracer.recording.read import read
from multitracer.report.index import Input, write_reports
from multitracer.report.page import Assets, document
from tests.cli.program import call
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.report.chromium import Browser

NAMES = ("download", "fig4-slow-start")


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("week") / "out"
    inputs = [Input(name, read(SAMPLES / name)) for name in NAMES]
    write_reports(inputs, folder, assets=Assets(folder / "assets"))
    return folder


@pytest.fixture
def served(week: Path) -> Iterator[str]:
    handler = functools.partial(_Silent, directory=str(week))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class _Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def test_many_pages_share_one_copy(week: Path, tmp_path: Path) -> None:
    shared = sorted((week / "assets").iterdir())
    assert sorted(each.suffix for each in shared) == [".css", ".css", ".js", ".js"], "reports, and the index"
    alone = tmp_path / "alone.html"
    alone.write_text(document("alone"), "utf-8")
    assert "<link" not in alone.read_text("utf-8")
    assert "no network" in (week / "index.html").read_text("utf-8")
    again = Assets(week / "assets")
    document("again", assets=again)
    assert sorted((week / "assets").iterdir()) == shared, "a file is named by what it holds"


@pytest.mark.browser
@pytest.mark.parametrize("server", [False, True])
def test_a_page_beside_its_assets_draws(week: Path, served: str, browser: Browser, *, server: bool) -> None:
    base = served if server else week.as_uri()
    browser.open(f"{base}/download.html")
    browser.wait("window.report && window.report.then(() => true)")
    browser.evaluate("document.getElementById('figure').open = true")
    assert browser.wait("document.querySelector('.plot canvas').width > 300")
    assert browser.evaluate("getComputedStyle(document.querySelector('.tracks')).display") == "grid"
    assert browser.complaints == []
    asked = [url for url in browser.requests if not url.startswith(("blob:", "data:"))]
    assert all(url.startswith(f"{base}/") and not url.endswith(".ico") for url in asked), asked
    browser.open(f"{base}/index.html")
    browser.wait("document.documentElement.dataset.theme")
    browser.evaluate("document.querySelector('th button').click()")
    assert browser.evaluate("document.querySelector('th[aria-sort]').textContent") == "Report"


@pytest.mark.browser
def test_no_other_script_runs(week: Path, browser: Browser, tmp_path: Path) -> None:
    folder = shutil.copytree(week, tmp_path / "copy")
    (folder / "assets" / "evil.js").write_text("window.ran = 1")
    page = folder / "download.html"
    evil = '<script src="assets/evil.js"></script><script>window.ran = 2</script>'
    evil += '<img src=x onerror="window.ran=3">'
    page.write_text(page.read_text("utf-8").replace("<main>", f"<main>{evil}"), "utf-8")
    browser.open(page)
    browser.wait("window.report && window.report.then(() => true)")
    assert browser.evaluate("window.ran ?? 0") == 0
    assert len(browser.complaints) >= 3


@pytest.mark.browser
def test_a_server_cannot_change_the_script(week: Path, served: str, browser: Browser) -> None:
    script = max((week / "assets").glob("*.js"), key=lambda each: each.stat().st_size)
    complete = script.read_text("utf-8")
    try:
        script.write_text(f"window.ran = 1;\n{complete}", "utf-8")
        browser.open(f"{served}/download.html?changed")
        assert browser.wait("document.querySelector('.lost')?.textContent").startswith("This page lacks assets/")
        assert browser.evaluate("window.ran ?? 0") == 0
    finally:
        script.write_text(complete, "utf-8")


@pytest.mark.browser
def test_a_page_without_its_folder_says_so(week: Path, browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "moved.html"
    shutil.copyfile(week / "download.html", page)
    browser.open(page)
    assert "keep its folder beside it" in browser.wait("document.querySelector('.lost')?.textContent")
    assert browser.evaluate("document.querySelector('.lead').textContent.length") > 20


def test_the_command_shares_only_if_asked(tmp_path: Path) -> None:
    call("report", SAMPLES / "download", "-o", tmp_path / "a.html")
    assert not (tmp_path / "assets").exists()
    call("report", SAMPLES / "download", "-o", tmp_path / "b.html", "--assets", "shared")
    assert len(list((tmp_path / "assets").iterdir())) == 2
    assert (tmp_path / "b.html").stat().st_size < (tmp_path / "a.html").stat().st_size - 60_000


@pytest.mark.slow
def test_a_campaign_and_its_reports_share(tmp_path: Path) -> None:
    run([str(SAMPLES / "rehearsed-drive")], tmp_path / "campaign")
    out = tmp_path / "out"
    call("campaign", "report", tmp_path / "campaign", "-o", out, "--with-reports", "--assets", "shared")
    pages = [out / "index.html", *(out / "reports").glob("*.html")]
    assert len(pages) > 1
    for page in pages:
        text = page.read_text("utf-8")
        (address,) = [part.split('"')[0] for part in text.split('rel="stylesheet" href="')[1:]]
        assert (page.parent / address).is_file()
        assert "color-scheme" not in text, "the style is in the folder alone"
