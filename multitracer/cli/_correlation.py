"""Input and output of `multitracer correlate`: peaks as text, all lags as JSON and CSV, the figure."""

from __future__ import annotations

import csv
import json
import math
from typing import TYPE_CHECKING, Literal, NamedTuple

import click
import numpy as np

from multitracer.cli._output import page, replacing, standard_output
from multitracer.cli._reading import load, one
from multitracer.errors import InputError
from multitracer.recording.correlated import correlate_sessions
from multitracer.recording.inputs import separate_inputs
from multitracer.recording.quantities import Quantities
from multitracer.recording.recording import cut_recording
from multitracer.recording.window import EVERYTHING
from multitracer.words import no_formula, portable

if TYPE_CHECKING:
    from multitracer.analysis.correlation import Settings
    from multitracer.cli._output import Page
    from multitracer.cli._reading import InputChoice
    from multitracer.figures.palette import ThemeName
    from multitracer.recording.correlated import Correlated
    from multitracer.tables import Document, Table

SCHEMA = "multitracer.correlate/1"
_HEADER = ("with", "of", "lag", "interval", "NMI", "95 % by chance", "p", "q", "rank corr.", "points")
_LEVEL = 0.05
"""Maximum false discovery rate at which a pair counts as dependent; a convention."""

_TOGETHER = 3
"""Maximum width of the lag's interval in bins, with 0 in it, for "change together". A convention."""


class Output(NamedTuple):
    """Destination and format of the result."""

    form: Literal["json", "csv"] | None
    figure: str | None
    theme: ThemeName


def run(reading: InputChoice, names: tuple[list[str], list[str], str], settings: Settings, output: Output) -> None:
    """Correlate quantities of the inputs and write the result.

    `names` has the quantities that predict (`--of`), those that are predicted (`--with`), and the
    third one (`--given`).
    """
    inputs = separate_inputs(reading.inputs)
    if reading.connection is not None and len(inputs) > 1:
        raise click.UsageError("--connection works with one session only; name one session, or omit --connection")
    sessions = [_quantities(reading, each, output.figure) for each in inputs]
    of, with_, given = names
    result = correlate_sessions(sessions, of, with_, given=given, settings=settings)
    if output.figure is not None:
        title = ", ".join(dict.fromkeys(session.recording.name for session in sessions))
        _draw(result.table, output, title=f"Which quantity predicts which: {title}")
    if output.form == "json":
        json.dump(_document(result), standard_output(), allow_nan=False)
        standard_output().write("\n")
    elif output.form == "csv":
        _write_csv(result.table)
    else:
        show(page(), result)
        if output.figure is not None:
            click.echo(output.figure)


def _quantities(reading: InputChoice, inputs: object, target: str | None) -> Quantities:
    recording = load(reading, inputs=inputs, output=target, cut=False)  # type: ignore[arg-type]
    number = None
    if reading.connection is not None:
        capture, connection = one(recording, reading.connection)
        number = capture.offset + connection
    if reading.window == EVERYTHING:
        return Quantities(recording, number)
    if number is not None:
        raise InputError(
            "correlate: --connection cannot be combined with --from or --to; omit --connection, or omit --from and --to"
        )
    cut, bounds_ns = cut_recording(recording, reading.window)
    return Quantities(cut, bounds_ns=bounds_ns)


def show(sheet: Page, result: Correlated) -> None:
    """Write the compared quantities, one line per pair, and the reason for each pair without a number."""
    for note in result.notes:
        sheet.line(portable(note))
    table = result.table
    peaks = np.flatnonzero(table["is_peak"])
    order = peaks[np.lexsort([-table["nmi"][peaks], table["p_corrected"][peaks]])]
    given = str(table["given"][0]) if len(table) else ""
    rows = [(*_line(table, row), *_known(table, row)[: 2 * bool(given)]) for row in order.tolist()]
    if rows:
        header = (*_HEADER, f"given {given}", "95 % by chance") if given else _HEADER
        sheet.line()
        sheet.table(header, rows, right=range(2, len(header)), dispensable=(8, 3, 6))
    for sentence in sentences(table, order.tolist()):
        sheet.line(sentence)
    for row in np.flatnonzero(np.isnan(table["lag_s"])).tolist():
        reason = portable(str(table["reason"][row]))
        sheet.line(f"{table['x'][row]} and {table['y'][row]}: not computed: {reason}")


def _line(table: Table, row: int) -> tuple[str, ...]:
    low, high = float(table["lag_low_s"][row]), float(table["lag_high_s"][row])
    p_value, q_value = float(table["p_corrected"][row]), float(table["q_value"][row])
    return (
        str(table["x"][row]), str(table["y"][row]), f"{table['lag_s'][row]:+g} s",
        f"{low:+.4g} to {high:+.4g}",
        f"{table['nmi'][row]:.3f}", f"{table['p95_permuted'][row]:.3f}", f"{p_value:.3g}", f"{q_value:.3g}",
        f"{table['spearman'][row]:+.2f}", f"{table['n'][row]:,}",
    )  # fmt: skip


def _known(table: Table, row: int) -> tuple[str, str]:
    """Return two texts: the dependence that remains for a given third quantity, and its chance level.

    Both are a dash if there is no third quantity.
    """
    value, chance = (float(table[name][row]) for name in ("conditional_nmi", "conditional_p95"))
    return ("–", "–") if math.isnan(value) else (f"{value:.3f}", f"{chance:.3f}")


def sentences(table: Table, peaks: list[int]) -> list[str]:
    """Return sentences on the most significant peak, and on whether any pair exceeds the chance level."""
    sure = [row for row in peaks if float(table["q_value"][row]) <= _LEVEL]
    if not peaks:
        return ["No pair could be compared."]
    if not sure:
        return ["No pair is significant (the false discovery rate of each pair is above 5 %)."]
    return [_sentence(table, max(sure, key=lambda row: float(table["nmi"][row])))]


def _sentence(table: Table, row: int) -> str:
    x, y = str(table["x"][row]), str(table["y"][row])
    lag, low, high = (float(table[name][row]) for name in ("lag_s", "lag_low_s", "lag_high_s"))
    if low <= 0 <= high and high - low > _TOGETHER * float(table["step_s"][row]):
        order = f"the data do not show which of the two changes first (lag {low:+.3g} to {high:+.3g} s)"
    elif low <= 0 <= high:
        order = f"{x} and {y} change at the same time, within the resolution of data, bins and clocks"
    else:
        first, second = (x, y) if lag > 0 else (y, x)
        minimum, most = sorted((abs(low), abs(high)))
        order = f"{second} follows {first} by {abs(lag):g} s ({minimum:.3g} to {most:.3g} s)"
    return f"The strongest relation is between {x} and {y}: {order}."


def _document(result: Correlated) -> Document:
    rows = [
        {name: portable(value) if isinstance(value, str) else value for name, value in row.items()}
        for row in result.table.rows()
    ]
    return {"schema": SCHEMA, "nmi": rows, "notes": [portable(note) for note in result.notes]}


def _write_csv(table: Table) -> None:
    writer = csv.writer(standard_output(), lineterminator="\n")
    writer.writerow(table.schema.names)
    for row in table.rows():
        writer.writerow([no_formula(cell) if isinstance(cell, str) else cell for cell in row.values()])


def _draw(table: Table, output: Output, *, title: str) -> None:
    from multitracer.cli._plotting import write
    from multitracer.figures.correlation_matrix import correlation_figure

    figure = correlation_figure(table, theme=output.theme)
    target = str(output.figure)
    with replacing(target) as temporary:
        write(figure, temporary, title=title, theme=output.theme, as_json=target.endswith(".json"))
