"""Make the pictures of wtcp.md: `python -m docs.papers.programs.wtcp_pictures` in a clone, with chromium.

Each is drawn by the command that the page shows, from sessions of seed 1 in virtual time. `make -C
docs/papers wtcp` runs this after the tables.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path

from multitracer.cli._program import run
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.simulator.run import record_virtual
from tests.report.chromium import Browser

IMAGES = Path(__file__).parents[1] / "images"
ALL = ("wtcp", "newreno", "vegas")
_WIDTH_PX = 860
_HIDE = "for (const each of document.querySelectorAll('.modebar-container, h1')) each.remove()"


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: the figure of the paper, what is drawn, and the transports."""

    figure: str
    kind: str
    transports: tuple[str, ...]

    @property
    def name(self) -> str:
        """Of its file, without the ending."""
        return f"wtcp_fig{self.figure}"

    @property
    def arguments(self) -> list[str]:
        """What follows `multitracer` to draw it."""
        sessions = [f"fig{self.figure}-{transport}" for transport in self.transports]
        return ["plot", "--figure", self.kind, "-o", f"{self.name}.html", *sessions]

    def shown(self) -> str:
        """Return the commands as the page shows them."""
        runs = [
            f"multitracer testbed run wtcp-fig{self.figure} --virtual --seed 1 --transport {transport} "
            f"-o fig{self.figure}-{transport}\n"
            for transport in self.transports
        ]
        return "".join(runs) + shlex.join(["multitracer", *self.arguments]) + "\n"


PICTURES = (
    *(Picture(figure, "delivered", ALL) for figure in ("1", "3a", "3b", "4a", "4b")),
    *(Picture(figure, "rates", ("wtcp",)) for figure in ("5", "6")),
)


def main() -> None:
    """Record the sessions and draw."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for picture in PICTURES:
            draw(picture)
        with Browser(Path(folder) / "profile") as browser:
            browser.prefer("light")
            browser.resize(_WIDTH_PX, 700)
            for picture in PICTURES:
                _save(browser, Path(folder), picture)


def draw(picture: Picture) -> None:
    """Record the sessions of a picture in the current folder, and draw the page of it."""
    for transport in picture.transports:
        scenario = load_scenario(f"wtcp-fig{picture.figure}").with_transport(transport)
        record_virtual(scenario, Path(f"fig{picture.figure}-{transport}"), seed=1)
    with contextlib.redirect_stdout(io.StringIO()):
        status = run(picture.arguments)
    if status:
        raise ChildProcessError(f"figure {picture.figure}: exit status {status}")


def _save(browser: Browser, folder: Path, picture: Picture) -> None:
    browser.open(folder / f"{picture.name}.html")
    browser.evaluate("window.plot.then(() => true)")
    browser.evaluate(_HIDE)
    box = browser.evaluate("document.querySelector('#plot').getBoundingClientRect().toJSON()")
    clip = {"x": 0, "y": box["y"] + browser.evaluate("scrollY"), "width": _WIDTH_PX, "height": box["height"]}
    path = IMAGES / f"{picture.name}.png"
    browser.screenshot(path, clip=clip | {"scale": 1}, captureBeyondViewport=True)


if __name__ == "__main__":
    os.environ.setdefault("COLUMNS", "110")
    main()
