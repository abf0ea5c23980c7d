"""A report as PDF, printed by an installed browser with the print style of the page; nothing is redrawn."""

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
"""A page of 8 MB is printed in some seconds; a busy machine takes longer. Not measured."""


def browser() -> str:
    """Return the path of an installed browser that can print to PDF.

    Raises
    ------
    InputError
        If there is none.
    """
    path = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if path is None:
        raise InputError("report --pdf: Chromium is not installed; run apt-get install chromium")
    return path


def print_pdf(page: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Print one of our pages to a PDF file, which appears complete or not at all.

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
        _run(
            [
                executable,
                *_arguments(Path(folder)),
                f"--print-to-pdf={printed}",
                Path(page).resolve().as_uri(),
            ]
        )
        if not printed.is_file():
            raise InputError(
                f"{path}: {executable} did not write this PDF file; print the page from a browser instead"
            )
        with replacing(path) as temporary:
            shutil.copyfile(printed, temporary)


def _arguments(profile: Path) -> list[str]:
    """Return what makes a browser print without a window and without a trace of itself on the paper."""
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
            f"{command[0]} did not write the PDF file within {_PATIENCE_S} s; print the page from a "
            "browser instead"
        ) from late
