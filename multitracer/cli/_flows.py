"""Output of commands about flows: their curves, and the lines of WTCP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from multitracer.cli._messages import warn
from multitracer.cli._output import replacing
from multitracer.cli._plotting import write
from multitracer.cli._reading import load
from multitracer.cli._transactions import title_of
from multitracer.diagnosis.largest import explain_largest, utilization_table
from multitracer.figures.delivered import delivered_figure, rates_figure
from multitracer.figures.efficiency import efficiency_figure
from multitracer.figures.utilization import utilization_figure
from multitracer.recording.deliveries import flow_curves, wtcp_flows
from multitracer.recording.efficiency import efficiency_table
from multitracer.recording.inputs import separate_inputs
from multitracer.words import count, rate, size

if TYPE_CHECKING:
    from multitracer.cli._output import Page
    from multitracer.cli._reading import InputChoice
    from multitracer.figures.palette import ThemeName
    from multitracer.recording.recording import Recording

KINDS = ("delivered", "rates")
_LISTED = 20
"""Flows of WTCP that a summary lists; the machine format lists all."""
_HEADER = ("flow", "delivered", "packets", "retransmitted", "rate", "captured at")


def plot_flows(reading: InputChoice, kind: str, target: str, *, window_s: float | None, theme: ThemeName) -> None:
    """Write a figure of the flows of one or several recordings to a file.

    `kind` selects the quantity; `window_s` is the averaging window of rates in s.
    """
    if reading.connection is not None:
        raise click.UsageError(
            f"--connection cannot be used with --figure {kind}, which draws every flow; omit --connection"
        )
    if window_s is not None and kind != "rates":
        raise click.UsageError("--window can be used only with --figure rates; add --figure rates, or omit --window")
    sessions, why, names = [], [], []
    for inputs in separate_inputs(reading.inputs):
        recording = load(reading, inputs=inputs, output=target)
        curves, without = flow_curves(recording)
        sessions.append(curves)
        why += without
        names.append(recording.name)
    for sentence in why:
        warn(sentence)
    empty = "; ".join(why[:1])
    if kind == "rates":
        figure = rates_figure(sessions, window_s=window_s, empty=empty, theme=theme)
    else:
        figure = delivered_figure(sessions, empty=empty, theme=theme)
    title = f"{kind}: {', '.join(dict.fromkeys(names))}"
    with replacing(target) as temporary:
        write(figure, temporary, title=title, theme=theme, as_json=target.endswith(".json"))


def plot_use(reading: InputChoice, kind: str, target: str, *, size: int | None, theme: ThemeName) -> None:
    """Write the figure of efficiency or utilization of one or several sessions to a file.

    `size` selects transactions by the length of the message that is varied, in bytes.
    """
    if reading.connection is not None:
        raise click.UsageError(
            f"--connection cannot be used with --figure {kind}, which draws every transfer; omit --connection"
        )
    sessions, chosen = [], separate_inputs(reading.inputs)
    for inputs in chosen:
        recording = load(reading, inputs=inputs, output=target)
        table = efficiency_table(recording) if kind == "efficiency" else utilization_table(explain_largest(recording))
        sessions.append((recording.name, table.within(*recording.bounds_ns, column="begin_ns")))
    if kind == "efficiency":
        figure = efficiency_figure(sessions, size, theme=theme)
    else:
        figure = utilization_figure(sessions, theme=theme)
    with replacing(target) as temporary:
        write(figure, temporary, title=f"{kind}: {title_of(chosen)}", theme=theme, as_json=target.endswith(".json"))


def show_wtcp(sheet: Page, recording: Recording) -> None:
    """Write a line for each flow of WTCP, and nothing if there is none."""
    flows = wtcp_flows(recording)
    if not flows:
        return
    sheet.line(count(len(flows), "WTCP flow"), bold=True)
    rows = [
        (
            flow.name,
            "-" if flow.delivered_bytes is None else size(flow.delivered_bytes),
            "-" if flow.delivered_packets is None else f"{flow.delivered_packets:,}",
            "-" if flow.repeated_packets is None else f"{flow.repeated_packets:,}",
            "-" if flow.rate_bps is None else rate(flow.rate_bps),
            flow.point or "-",
        )
        for flow in flows[:_LISTED]
    ]
    sheet.table(_HEADER, rows, right=range(1, 5), dispensable=(5,))
    if len(flows) > _LISTED:
        sheet.line(f"{len(flows) - _LISTED:,} more flows are not shown; --json lists all flows")
