"""Encodes a figure for `points/figure.js`: panels, styles in both themes, an overview and all points.

The module also has the names of the series (in words, and the label of docs/figures.md), and details of
single packets: their files, and the verdicts on retransmissions.
"""

from __future__ import annotations

import shlex
from dataclasses import asdict, replace
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.verdicts import Necessity, RetransmissionCause, evidence_words, word
from multitracer.figures.palette import LOOKS, THEMES
from multitracer.figures.series import RARE_LIMIT, names, seconds_since, thin
from multitracer.figures.stack import TIME_AXIS
from multitracer.figures.zooms import TITLES
from multitracer.report.packed_columns import Fitted, columns_of, common_tick_ns, fitted, pack_columns
from multitracer.units import NS_PER_S
from multitracer.words import printable

if TYPE_CHECKING:
    from multitracer.figures.stack import Panel, SharedAxis
    from multitracer.figures.zooms import NamedInterval
    from multitracer.recording.capture import Capture
    from multitracer.recording.transfer import Transfer
    from multitracer.tables import Document

OVERVIEW_BINS = 1_400
"""Bins of the overview, which is drawn before all points are read: one for each pixel of a wide screen."""

VIEW_MARGIN = 0.01
"""Room before and after all data in the widest view of a figure, as a share of their length."""
_MIN_OVERVIEW_BINS = 64
_PACKETS = ("sequence",)
"""Panels whose points are packets or frames; the values of other panels can be derived from them."""


def embed(
    panels: list[Panel],
    places: list[NamedInterval],
    *,
    identity: str,
    origin_ns: int,
    budget_bytes: int,
    x_axis: SharedAxis = TIME_AXIS,
) -> Document:
    """Return a figure as JSON for `points/figure.js`.

    Parameters
    ----------
    panels : list of Panel
    places : list of NamedInterval
        Notable intervals; the page has a button for each.
    identity : str
        Identifier of the figure within the page.
    origin_ns : int
        Origin of the time axis, ns.
    budget_bytes : int
        Maximum total length of the texts of the series, overview and all points.
    x_axis : SharedAxis
        The shared axis: time, or the distance along a route.

    Returns
    -------
    dict
        "lines" holds the texts of the columns, which `page.document` writes behind the code.
    """
    drawn = [series for panel in panels for series in panel.drawn]
    first = min((int(series.time_ns[0]) for series in drawn), default=origin_ns)
    last = max((int(series.time_ns[-1]) for series in drawn), default=origin_ns)
    ends = [(first, last), *((each.from_ns, each.to_ns) for each in places)]
    (begin_s, end_s), *intervals = (seconds_since(np.array(each), origin_ns).tolist() for each in ends)
    room_s = max((end_s - begin_s) * VIEW_MARGIN, 1e-6)
    described, points = _packed(panels, budget_bytes, origin_ns)
    return {
        "id": identity,
        "unit": x_axis.unit,
        "axis": x_axis.title,
        "span": [begin_s, end_s],
        "view": [begin_s - room_s, end_s + room_s],
        "themes": {name: asdict(theme) for name, theme in THEMES.items()},
        "panels": [
            {
                "key": panel.key,
                "title": panel.title,
                "short": panel.short_title,
                "unit": panel.unit.suffix,
                "from_zero": panel.from_zero,
                "shades": panel.shades,
                "share": panel.share,
                "empty": panel.empty,
            }
            for panel in panels
        ],
        "places": [
            {"title": TITLES[each.key], "from": begin, "to": end}
            for each, (begin, end) in zip(places, intervals, strict=True)
        ],
        "series": described,
        "reduced": points.reduced,
        "lines": points.lines,
    }


def _packed(panels: list[Panel], budget_bytes: int, origin_ns: int) -> tuple[list[Document], Fitted]:
    """Return a description of each series (overview, and index of its points), and the encoded points.

    All points of a series are written only if its overview omits some. An overview contains all rare events,
    unless they exceed the budget.
    """
    drawn = [(series, panel) for panel in panels for series in panel.drawn]
    bins = OVERVIEW_BINS
    while True:
        most_rare = RARE_LIMIT * bins // OVERVIEW_BINS
        overview = [thin(replace(s, rare=s.rare and len(s) <= most_rare), bins=bins) for s, _ in drawn]
        tick_ns = common_tick_ns(overview, origin_ns)
        entries = [pack_columns(columns_of(series, origin_ns, tick_ns)) for series in overview]
        spent = sum(len(entry["data"]) for entry in entries)
        if spent <= budget_bytes // 2 or bins <= _MIN_OVERVIEW_BINS:
            break
        bins //= 2
    more = [i for i, (series, _) in enumerate(drawn) if len(overview[i]) < len(series)]
    points = fitted(
        [drawn[i][0] for i in more],
        max(budget_bytes - spent, 0),
        origin_ns=origin_ns,
        packets=[drawn[i][1].key in _PACKETS for i in more],
    )
    for entry in entries:
        entry["tick_s"] = tick_ns / NS_PER_S
    for i, stored in zip(more, points.entries, strict=True):
        entries[i]["stored"] = stored | {"tick_s": points.tick_ns / NS_PER_S}
    called = [name for panel in panels for name in names(panel.drawn)]
    described: list[Document] = []
    for (series, panel), name, entry in zip(drawn, called, entries, strict=True):
        look = LOOKS[series.role]
        described.append(
            {
                "key": f"{panel.key} {series.label}",
                "label": series.label,
                "doc": series.doc,
                "bound": series.bound,
                "rare": series.rare,
                "panel": panel.key,
                "scale": panel.unit.scale,
                "look": {
                    "mark": look.mark,
                    "light": look.light,
                    "dark": look.dark,
                    "size": look.size_px,
                    "symbol": look.symbol,
                    "dash": look.dash,
                    "readings": series.role.startswith("radio_"),
                },
                "name": name,
            }
            | entry
            | {"of": len(series)}
        )
    return described, points


def packet_facts(capture: Capture, transfer: Transfer | None) -> Document:
    """Return details of single packets as JSON for `points/hover.js`.

    Parameters
    ----------
    capture : Capture
        The capture whose packets a figure draws.
    transfer : Transfer, optional
        The diagnosed transfer, if the figure draws it; other transfers have no verdicts.

    Returns
    -------
    dict
        "files": the name of each file, also quoted for a shell. "verdicts": for each retransmission its
        cause, whether it was necessary, and the evidence; the key is "FILE FRAME" (index of the file, frame
        number). At most `RARE_LIMIT` verdicts.
    """
    names = [printable(PurePath(file.path).name) for file in capture.tables.files]
    verdicts: dict[str, str] = {}
    if transfer is not None:
        judged, segments = transfer.verdicts, transfer.sender
        rows = judged["row"][:RARE_LIMIT]
        packets = zip(segments["file"][rows].tolist(), segments["frame"][rows].tolist(), strict=True)
        columns = (judged[name][:RARE_LIMIT].tolist() for name in ("cause", "necessity", "evidence"))
        for (file, frame), cause, necessity, evidence in zip(packets, *columns, strict=True):
            known = evidence_words(evidence)
            verdict = f"{word(RetransmissionCause(cause))}, {word(Necessity(necessity))}"
            verdicts[f"{file} {frame}"] = f"{verdict}; evidence: {known}" if known else verdict
    return {"files": [{"name": name, "quoted": shlex.quote(name)} for name in names], "verdicts": verdicts}
