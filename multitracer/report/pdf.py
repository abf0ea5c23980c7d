"""Prints a report to PDF with an installed browser; the page's print style sets the layout."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from multitracer.errors import InputError
from multitracer.report.replacing import replacing

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
_PATIENCE_S = 180
"""Timeout of the browser in seconds; it prints a page of 8 MB in some seconds. Not measured."""


def browser() -> str:
    """Return the path of an installed browser that can print to PDF.

    Raises
    ------
    InputError
        If no such browser is installed.
    """
    path = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if path is None:
        raise InputError("report --pdf: Chromium is not installed; run apt-get install chromium")
    return path


def print_pdf(page: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Print a page of this package to a PDF file; the file appears only when it is complete.

    Parameters
    ----------
    page : path
        Path of the HTML file.
    path : path
        Path of the PDF file.

    Raises
    ------
    InputError
        If no browser is installed, printing fails, or the file cannot be written.
    """
    executable = browser()
    with tempfile.TemporaryDirectory() as folder:
        printed = Path(folder) / "report.pdf"
        _run([executable, *_arguments(Path(folder)), f"--print-to-pdf={printed}", Path(page).resolve().as_uri()])
        if not printed.is_file():
            raise InputError(f"{path}: {executable} did not write this PDF file; print the page from a browser instead")
        with replacing(path) as temporary:
            shutil.copyfile(printed, temporary)


def _arguments(profile: Path) -> list[str]:
    """Return the arguments for printing without a window, and without the browser's header and footer."""
    sandbox = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []  # root has none
    return [
        "--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--no-pdf-header-footer", f"--user-data-dir={profile / 'profile'}", *sandbox,
    ]  # fmt: skip


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=False, capture_output=True, timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired as late:
        raise InputError(
            f"{command[0]} did not write the PDF file within {_PATIENCE_S} s; print the page from a browser instead"
        ) from late
