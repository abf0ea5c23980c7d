"""The five panels of paper 002's figures 3 to 7, of our runs: `python -m docs.papers.programs.ray_pictures`.

Each of ray-1 to ray-5 is run with Tahoe, and drawn by `plot --figure channel`; needs chromium.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path

from multitracer.cli._program import run
from tests.report.chromium import Browser

IMAGES = Path(__file__).parents[1] / "images"
SCENARIOS = (1, 2, 3, 4, 5)
_WIDTH_PX, _HEIGHT_PX = 900, 960


def main() -> None:
    """Draw the pictures."""
    with tempfile.TemporaryDirectory() as folder, Browser(Path(folder) / "profile") as browser:
        browser.resize(_WIDTH_PX, _HEIGHT_PX)
        browser.prefer("light")
        for number in SCENARIOS:
            _draw(browser, number, Path(folder))


def _draw(browser: Browser, number: int, folder: Path) -> None:
    session = folder / f"ray-{number}"
    _call("testbed", "run", f"ray-{number}", "--virtual", "-o", str(session))
    page = folder / "plot.html"
    _call("plot", "--figure", "channel", str(session), "-o", str(page))
    browser.open(page)
    browser.evaluate("window.plot.then(() => true)")
    browser.evaluate("document.querySelector('.modebar-container').remove()")
    browser.screenshot(IMAGES / f"ray_{number}.png")


def _call(*arguments: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        status = run(list(arguments))
    if status:
        raise ChildProcessError(f"{arguments}: exit status {status}")


if __name__ == "__main__":
    main()
