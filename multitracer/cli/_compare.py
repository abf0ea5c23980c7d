"""What `multitracer compare` prints: the headline and a table, JSON, and the page."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Literal

import click

from multitracer.analysis.comparison.sides import compare
from multitracer.campaign.comparison.inputs import by_label, two_groups
from multitracer.campaign.comparison.page import Picture, comparison_page, header
from multitracer.campaign.comparison.sentences import Names, headline, how, notes, row
from multitracer.campaign.comparison.sums import distribution, sums_of
from multitracer.cli._campaign import Line
from multitracer.cli._output import check_output
from multitracer.cli._page import page, standard_output
from multitracer.report.page import write
from multitracer.words import count, printable

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from multitracer.analysis.comparison.sides import Comparison, Judged
    from multitracer.campaign.comparison.inputs import Group
    from multitracer.tables import Document

SCHEMA = "multitracer.compare/1"


def run(
    first: str, second: str | None, by: str | None, *, form: Literal["json"] | None, output: str | None
) -> None:
    """Compare two sides and write the result."""
    check_output(output, [first, *([] if second is None else [second])])
    with Line() as line, _groups(first, second, by, line) as groups:
        sides, quantities = sums_of(groups)
        comparison = compare(sides, quantities)
        names = Names(*(printable(group.name) for group in groups))
        if output is not None:
            _write_page(output, names, groups, comparison)
        if form == "json":
            json.dump(_document(names, groups, comparison), standard_output(), allow_nan=False, indent=1)
            standard_output().write("\n")
        else:
            _show(names, groups, comparison)
            if output is not None:
                click.echo(output)


def _groups(
    first: str, second: str | None, by: str | None, line: Line
) -> AbstractContextManager[tuple[Group, Group]]:
    if second is not None:
        return two_groups(first, second, line)
    label, _, values = str(by).partition("=")
    return by_label(first, label, tuple(values.split(",")) if values else (), line)


def _show(names: Names, groups: tuple[Group, Group], comparison: Comparison) -> None:
    sheet = page()
    sheet.line(headline(comparison, names), bold=True)
    sheet.line()
    for name, group in zip(names, groups, strict=True):
        sheet.line(f"{name}: {count(len(group.sessions), 'session')}")
    for sentence in notes(comparison, groups):
        sheet.line(sentence)
    sheet.line()
    sheet.table(
        header(names), [row(each) for each in _present(comparison)], right=range(1, 8), dispensable=(3, 4, 7)
    )
    sheet.line(how())


def _present(comparison: Comparison) -> list[Judged]:
    """Return the quantities that a side has."""
    return [each for each in comparison.judged if any(each.sessions)]


def _write_page(output: str, names: Names, groups: tuple[Group, Group], comparison: Comparison) -> None:
    pictures = [
        Picture(title, is_rate, (distribution(groups[0], column), distribution(groups[1], column)))
        for title, is_rate, column in (("Throughput", True, "throughput_bps"), ("RTT", False, "rtt_ns"))
    ]
    write(
        output,
        comparison_page(
            names, groups, _present(comparison), pictures,
            says=headline(comparison, names), remarks=notes(comparison, groups),
        ),
    )  # fmt: skip


def _document(names: Names, groups: tuple[Group, Group], comparison: Comparison) -> Document:
    matching = comparison.matching
    return {
        "schema": SCHEMA,
        "headline": headline(comparison, names),
        "sides": [
            {"name": name, "sessions": len(group.sessions)} for name, group in zip(names, groups, strict=True)
        ],
        "matched_by": matching.by or None,
        "kept": matching.kept,
        "quantities": [_record(each) for each in _present(comparison)],
        "notes": notes(comparison, groups),
    }


def _record(judged: Judged) -> Document:
    return {
        "name": judged.quantity.name,
        "difference_is": "relative" if judged.quantity.relative else "absolute",
        "sessions": list(judged.sessions),
        "means": [_known(each) for each in judged.means],
        "medians": [_known(each) for each in judged.medians],
        **{name: _known(value) for name, value in judged.difference._asdict().items()},
        "shown": judged.is_shown,
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
