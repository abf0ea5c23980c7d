"""A report on paper: the first page holds the answer and the figure, and a missing browser is named."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from multitracer.errors import InputError
from multitracer.report.page import browser, print_pdf
from tests.cli.program import call
from tests.conftest import SAMPLES
from tests.report.chromium import EXECUTABLE

if TYPE_CHECKING:
    from pathlib import Path

PDFTOTEXT = shutil.which("pdftotext")
SESSION = SAMPLES / "fig4-slow-start"


def test_without_a_browser_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match=r"Chromium is not installed; run apt-get install chromium"):
        browser()


@pytest.mark.browser
@pytest.mark.skipif(EXECUTABLE is None, reason="chromium is not installed")
def test_report_pdf_writes_both_and_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = call("report", "--pdf", "-o", "r.html", SESSION)
    assert done.stdout == "r.pdf\nr.html\n"
    assert (tmp_path / "r.pdf").read_bytes().startswith(b"%PDF-")
    assert (tmp_path / "r.pdf").stat().st_size > 20_000


@pytest.mark.browser
@pytest.mark.skipif(EXECUTABLE is None or PDFTOTEXT is None, reason="chromium or pdftotext is not installed")
def test_page_one_holds_the_longest_answer_and_its_figure(tmp_path: Path) -> None:
    """A first screen that was taller than the rest of page one once left a title there, and nothing else."""
    call("report", "--pdf", "-o", tmp_path / "r.html", SAMPLES / "fade-n2-20")
    command = [str(PDFTOTEXT), "-f", "1", "-l", "1", str(tmp_path / "r.pdf"), "-"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert all(words in said for words in ("The link limited it", "Round-trip time", "seen from the link's log"))


@pytest.mark.browser
@pytest.mark.skipif(EXECUTABLE is None, reason="chromium is not installed")
def test_a_pdf_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<p>page</p>")
    with pytest.raises(InputError, match="cannot write this file"):
        print_pdf(tmp_path / "page.html", tmp_path / "missing" / "r.pdf")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
