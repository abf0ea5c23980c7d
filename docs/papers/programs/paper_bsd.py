"""Figures 4 and 7 a second time: a BSD of 1998 in virtual time beside the kernel, on the same axes.

The kernel does not learn of drops behind its device; BSD's interface reports them to TCP. So the same
scenario runs in virtual time with its own profile, as the commands on the page do, and both figures become
one picture.
"""

from __future__ import annotations

import atexit
import functools
import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from docs.papers.programs.paper_numbers import MSS_BYTES, Trace, overflow, slow_start, trace
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.scenario.model import Scenario
from multitracer.lab.simulator.run import record_virtual

Document = dict[str, Any]
_GAP = 0.07
"""Between left and right, of the width: the labels of an axis need as much."""
_NAMES = ("Linux, recorded", "BSD, virtual time")


@dataclass(frozen=True, slots=True)
class Beside:
    """What stands beside a figure: which scenario, and which seconds of both."""

    scenario: str
    span_s: tuple[float, float]


BESIDE = {4: Beside("fig4-slow-start", (0.0, 50.0)), 7: Beside("fig5-typical", (10.0, 34.0))}
"""Figure -> its right half: the same scenario, and the same seconds of it."""


@functools.cache
def bsd_session(scenario: str) -> Path:
    """Return the session folder of a bundled scenario in virtual time, made once and removed at the end."""
    folder = tempfile.TemporaryDirectory(prefix="multitracer-paper-")
    atexit.register(folder.cleanup)
    session = Path(folder.name) / scenario
    record_virtual(load_scenario(scenario), session)
    return session


@functools.cache
def bsd_trace(scenario: str) -> Trace:
    """Return the connection of `bsd_session`."""
    return Trace(bsd_session(scenario))


def reports() -> list[tuple[str, ...]]:
    """Return what BSD and Linux do in Figure 4 if the interface reports its drop to TCP, and if it does not."""
    base = load_scenario("fig4-slow-start")
    found: list[tuple[str, ...]] = []
    for name, of_tcp in (("BSD", lambda scenario: scenario), ("Linux", Scenario.as_linux)):
        for reported in ("told", "silent"):
            queue = replace(base.gsm.queue, local_drops=reported)
            seen = _virtual(of_tcp(replace(base, link=replace(base.gsm, queue=queue))))
            dropped, again = float(seen.drops()[0]), float(seen.resent().seconds[0])
            begin, end = seen.new_data().between(dropped - 0.01, again + 1).idle_gaps()[0]
            window = seen.series("TcpSnd_cwnd").between(dropped, again).value.min() / MSS_BYTES
            cells = (f"{window:.0f}", f"{end - begin:.1f} s, from {begin:.1f} s", f"{again:.1f} s")
            found.append((name, "yes" if reported == "told" else "no", *cells))
    return found


def _virtual(scenario: Scenario) -> Trace:
    with tempfile.TemporaryDirectory(prefix="multitracer-paper-") as folder:
        record_virtual(scenario, Path(folder) / "session")
        return Trace(Path(folder) / "session")


def rows(number: int) -> list[tuple[str, ...]]:
    """Return a figure's table with a last column for BSD."""
    beside = BESIDE[number]
    left, right = trace(beside.scenario), bsd_trace(beside.scenario)
    kernel, bsd = (
        (slow_start(left), slow_start(right))
        if number == 4
        else (overflow(left, beside.span_s), overflow(right, beside.span_s))
    )
    return [(*row, other[-1]) for row, other in zip(kernel, bsd, strict=True)]


def side_by_side(number: int, kernel: Path, bsd: Path) -> Document:
    """Return one figure of two that `plot` wrote as JSON: the kernel's left, BSD's right, on equal axes."""
    left, right = (json.loads(path.read_text("utf-8")) for path in (kernel, bsd))
    panels = [key for key in left["layout"] if key.startswith("yaxis")]
    layout = {key: left["layout"][key] for key in ("template", "height", "legend", *panels)}
    layout["margin"] = left["layout"]["margin"] | {"t": 28}
    layout["annotations"] = _titles(left, 0) + _titles(right, len(panels))
    for side, figure in enumerate((left, right)):
        name = _moved("xaxis", side)
        layout[name] = _time_axis(figure, side, len(panels)) | {"range": BESIDE[number].span_s}
    for key in panels:
        begins, ends = zip(*(figure["layout"][key]["range"] for figure in (left, right)), strict=True)
        axis = left["layout"][key] | {"range": [min(begins), max(ends)]}
        for side in (0, 1):
            layout[_moved(key, side * len(panels))] = axis | {"anchor": _moved("x", side)}
    return {"data": left["data"] + [_on_the_right(each, len(panels)) for each in right["data"]], "layout": layout}


def _moved(axis: str, by: int) -> str:
    """Return the name of the axis `by` places further: y2 of y, yaxis4 of yaxis2."""
    stem = axis.rstrip("0123456789")
    number = int(axis[len(stem) :] or 1) + by
    return stem if number == 1 else f"{stem}{number}"


def _time_axis(figure: Document, side: int, panels: int) -> Document:
    axis: Document = figure["layout"]["xaxis"]
    domain = (0.5 + _GAP / 2, 1.0) if side else (0.0, 0.5 - _GAP / 2)
    return axis | {"domain": domain, "anchor": _moved(axis["anchor"], side * panels)}


def _titles(figure: Document, panels: int) -> list[Document]:
    """Return the titles of the panels; a right panel's axis is `panels` further."""
    begin, name = (0.5 + _GAP / 2, _NAMES[1]) if panels else (0.0, _NAMES[0])
    return [
        each
        | {"x": begin, "text": f"<b>{name}</b>: {each['text']}"}
        | {"yref": f"{_moved(each['yref'].removesuffix(' domain'), panels)} domain"}
        for each in figure["layout"]["annotations"]
    ]


def _on_the_right(drawn: Document, panels: int) -> Document:
    """Return a series of the right half, which the legend has from the left one."""
    return drawn | {"xaxis": "x2", "yaxis": _moved(drawn["yaxis"], panels), "showlegend": False}
