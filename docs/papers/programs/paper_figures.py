"""Make the pictures and tables of paper_figures.md: `python -m docs.papers.programs.paper_figures`.

Each figure is drawn by the command that the page shows, from a session in sample_traces, which takes
chromium; each number is measured in that session. `python -m docs.papers.programs.paper_figures --tables`
writes the tables alone.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import shlex
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from docs.papers.programs.paper_bsd import BESIDE, Document, bsd_session, reports, rows, side_by_side
from docs.papers.programs.paper_numbers import FIGURE_NUMBERS, SAMPLES, beside_virtual
from multitracer.cli._program import run
from tests.report.chromium import Browser

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "papers" / "paper_figures.md"
IMAGES = ROOT / "docs" / "papers" / "images"
_END = "<!-- end -->"
_WIDTH_PX = 860
_SENDER = ("TcpSnd_data", "TcpSnd_rexmt", "TcpSnd_ack")
_RECEIVER = ("TcpRcv_data", "TcpRcv_ack")
_LINK = ("RlpSnd_data", "RlpSnd_rexmt", "RlpSnd_rst")
_HIDE = "for (const each of document.querySelectorAll('.modebar-container, h1')) each.remove()"
_DRAWN = "new Promise((done) => setTimeout(() => done(true), 500))"
_NO_BUTTONS = "Plotly.relayout('plot', {updatemenus: [], 'margin.t': 28}).then(() => true)"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the paper: which session, which series, what else `plot` is told."""

    number: int
    session: str
    series: tuple[str, ...]
    options: tuple[str, ...] = ()

    @property
    def arguments(self) -> list[str]:
        """What follows `multitracer` to draw it."""
        return self.drawn_to(f"figure{self.number}.html")

    def drawn_to(self, output: str) -> list[str]:
        """Return the arguments that draw it into another file."""
        return self._drawn(f"sample_traces/{self.session}", output, self.options)

    def beside_to(self, session: str, output: str) -> list[str]:
        """Return the arguments that draw BSD's half from its session."""
        return self._drawn(session, output, self.options)

    def _drawn(self, session: str, output: str, options: tuple[str, ...]) -> list[str]:
        return ["plot", session, "-o", output, "--series", ",".join(self.series), *options]

    def shown(self) -> str:
        """Return the command lines as the page shows them."""
        commands = [self.arguments]
        if self.number in BESIDE:
            folder = f"bsd{self.number}"
            commands.append(["testbed", "run", BESIDE[self.number].scenario, "--virtual", "-o", folder])
            commands.append(self.beside_to(folder, f"{folder}.html"))
        lines = "".join(f"{shlex.join(['multitracer', *words])}\n" for words in commands)
        return f"```sh\n{lines}```\n"


FIGURES = (
    Figure(4, "fig4-slow-start", (*_SENDER, "TcpSnd_dupack", "TcpSnd_cwnd"), ("--to", "50")),
    Figure(
        5,
        "fig5-typical",
        (*_LINK, *_SENDER, *_RECEIVER, "TcpSnd_cwnd"),
        (
            *("--to", "130", "--mark", "Figure 11=0:10", "--mark", "Figure 12=50:72"),
            *("--mark", "Figure 7=10:34", "--trend", "RlpSnd_data=0:300", "--trend", "TcpRcv_data=0:300"),
        ),
    ),
    Figure(7, "fig5-typical", (*_SENDER, "TcpSnd_dupack", *_RECEIVER, "TcpSnd_cwnd"), ("--from", "10", "--to", "34")),
    Figure(8, "fig8-resets-vj", ("TcpRcv_ack", "RlpSnd_rst"), ("--to", "100")),
    Figure(9, "fig8-resets-vj", (*_SENDER, *_RECEIVER, "RlpSnd_rst"), ("--from", "20", "--to", "60")),
    Figure(10, "fig10-exhaustion", (*_SENDER, "RlpSnd_rst", "TcpSnd_rto")),
    Figure(11, "fig5-typical", (*_LINK, *_SENDER, *_RECEIVER), ("--to", "10")),
    Figure(
        12,
        "fig5-typical",
        ("RlpSnd_data", "RlpSnd_xoff", "RlpSnd_xon"),
        ("--from", "50", "--to", "72", "--trend", "RlpSnd_data", "--trend", "RlpSnd_data=56:59.5"),
    ),
)


def main() -> None:
    """Write the tables, and the pictures unless only the tables are asked for."""
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")
    if sys.argv[1:] != ["--tables"]:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            Path("sample_traces").symlink_to(SAMPLES)
            _draw(Path(folder))


def parts() -> dict[str, Callable[[], str]]:
    """Return every generated part of the page by its name."""
    numbers = (*FIGURE_NUMBERS, *BESIDE)
    found: dict[str, Callable[[], str]] = {f"numbers {n}": functools.partial(table, n) for n in sorted(numbers)}
    found["reports 4"] = report_table
    found |= {f"command {figure.number}": figure.shown for figure in FIGURES}
    for name, as_linux in (("beside virtual", True), ("beside its profile", False)):
        found[name] = functools.partial(beside_virtual, as_linux=as_linux)
    return found


def part(text: str, name: str) -> str:
    """Return a generated part of the page as it is written there."""
    return text.partition(_begin(name))[2].partition(_END)[0]


def filled(text: str) -> str:
    """Return the page's text with every generated part as it is to be."""
    for name, made in parts().items():
        before, marked, rest = text.partition(_begin(name))
        if not marked:
            raise LookupError(f"{PAGE}: no {_begin(name).strip()}")
        text = f"{before}{marked}{made()}{_END}{rest.partition(_END)[2]}"
    return text


def _begin(name: str) -> str:
    return f"<!-- {name} -->\n"


def table(number: int) -> str:
    """Return the table of a figure: what the paper says, what our sessions show."""
    if number in BESIDE:
        return _table(("paper", "Linux, recorded", "BSD, virtual"), rows(number))
    return _table(("paper", "here"), FIGURE_NUMBERS[number]())


def report_table() -> str:
    """Return what the report of a drop does to either TCP."""
    head = ("drop reported", "smallest window, segments", "longest pause of new segments", "sent again at")
    return _table(head, reports())


def _table(head: tuple[str, ...], cells: Sequence[tuple[str, ...]]) -> str:
    lines = "".join(f"| {' | '.join(row)} |\n" for row in cells)
    return f"| | {' | '.join(head)} |\n|{'---|' * (len(head) + 1)}\n{lines}"


def _draw(folder: Path) -> None:
    with Browser(folder / "profile") as browser:
        browser.prefer("light")
        browser.resize(_WIDTH_PX, 700)
        for figure in FIGURES:
            if figure.number in BESIDE:
                _both(browser, folder, figure)
            else:
                plot(figure)
                browser.open(folder / f"figure{figure.number}.html")
                browser.evaluate("window.plot.then(() => true)")
                browser.evaluate(_HIDE)
                browser.evaluate(_NO_BUTTONS)
                _picture(browser, figure)


def plot(figure: Figure, output: str | None = None) -> None:
    """Run the figure's command in the current folder."""
    _run(figure, figure.drawn_to(output) if output else figure.arguments)


def _run(figure: Figure, arguments: list[str]) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        status = run(arguments)
    if status:
        raise ChildProcessError(f"figure {figure.number}: exit status {status}")


def both(figure: Figure, folder: Path) -> Document:
    """Return the picture of a figure with BSD beside it; `plot` writes its halves into `folder`."""
    kernel, bsd = (str(folder / f"{name}{figure.number}.json") for name in ("kernel", "bsd"))
    plot(figure, kernel)
    _run(figure, figure.beside_to(str(bsd_session(BESIDE[figure.number].scenario)), bsd))
    return side_by_side(figure.number, Path(kernel), Path(bsd))


def _both(browser: Browser, folder: Path, figure: Figure) -> None:
    import plotly.graph_objects as go  # noqa: PLC0415  slow to import

    page = folder / "both.html"
    go.Figure(both(figure, folder)).write_html(page, div_id="plot", config={"displayModeBar": False})
    browser.open(page)
    browser.evaluate(_DRAWN)
    _picture(browser, figure)


def _picture(browser: Browser, figure: Figure) -> None:
    box = browser.evaluate("document.querySelector('#plot').getBoundingClientRect().toJSON()")
    clip = {"x": 0, "y": box["y"] + browser.evaluate("scrollY"), "width": _WIDTH_PX, "height": box["height"]}
    browser.screenshot(
        IMAGES / f"paper_figure{figure.number}.png", clip=clip | {"scale": 1}, captureBeyondViewport=True
    )


if __name__ == "__main__":
    os.environ.setdefault("COLUMNS", "110")
    main()
