"""The five panels of paper 002's figures 3 to 7, of our runs: `python -m docs.papers.programs.ray_pictures`.

Each calibrated scenario is run with Tahoe, and drawn by `plot --figure channel`; needs chromium.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from importlib.resources import files
from pathlib import Path

from multitracer.cli._program import run
from tests.report.chromium import Browser

IMAGES = Path(__file__).parents[1] / "images"
CHANGES = {
    1: (
        ("threshold_dbm = -75", "threshold_dbm = -70"),
        ("speed_m_per_s = 6 ", "height_m = 2\nspeed_m_per_s = 6 "),
        ("[link.fixed]\n", "[link.fixed]\nheight_m = 2\n"),
    ),
    2: (("threshold_dbm = -75", "threshold_dbm = -68"),),
    3: (("y_m = 10 ", "y_m = 10.5 "), ("most_gap_m = 30", "most_gap_m = 200")),
    4: (("threshold_dbm = -78", "threshold_dbm = -69"),),
    5: (("threshold_dbm = -50", "threshold_dbm = -44.5"),),
}
"""What calibrates a scenario's file: `CALIBRATED` of `ray.py`, as text."""
_WIDTH_PX, _HEIGHT_PX = 900, 960


def calibrated(number: int) -> str:
    """Return the text of a scenario's file, calibrated."""
    entry = files("multitracer.lab.scenario") / "bundled" / f"ray-{number}.toml"
    text = entry.read_text("utf-8")
    for stated, changed in CHANGES[number]:
        assert text.count(stated) == 1, f"ray-{number}.toml: {stated}"
        text = text.replace(stated, changed)
    return text


def main() -> None:
    """Draw the pictures."""
    with tempfile.TemporaryDirectory() as folder, Browser(Path(folder) / "profile") as browser:
        browser.resize(_WIDTH_PX, _HEIGHT_PX)
        browser.prefer("light")
        for number in CHANGES:
            _draw(browser, number, Path(folder))


def _draw(browser: Browser, number: int, folder: Path) -> None:
    scenario, session = folder / f"ray-{number}-calibrated.toml", folder / f"ray-{number}"
    scenario.write_text(calibrated(number), "utf-8")
    _call("testbed", "run", str(scenario), "--virtual", "-o", str(session))
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
