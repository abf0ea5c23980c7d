"""What `multitracer compare` prints: the headline and a table, JSON, and the page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

import click

from multitracer.campaign.compared import as_document, compared, comparison_page, header, how, row
from multitracer.cli._campaign import Line
from multitracer.cli._output import check_output
from multitracer.cli._page import page, standard_output
from multitracer.report.page import write

if TYPE_CHECKING:
    from multitracer.campaign.compared import Compared


def run(
    first: str, second: str | None, by: str | None, *, form: Literal["json"] | None, output: str | None
) -> None:
    """Compare two sides and write the result."""
    check_output(output, [first, *([] if second is None else [second])])
    with Line() as line:
        result = compared(first, second, by, shown=line, is_drawn=output is not None)
    if output is not None:
        write(output, comparison_page(result))
    if form == "json":
        json.dump(as_document(result), standard_output(), allow_nan=False, indent=1)
        standard_output().write("\n")
        return
    _show(result)
    if output is not None:
        click.echo(output)


def _show(of: Compared) -> None:
    sheet = page()
    sheet.line(of.headline, bold=True)
    sheet.line()
    for sentence in (*of.counts, *of.notes):
        sheet.line(sentence)
    sheet.line()
    sheet.table(header(of.names), [row(each) for each in of.rows], right=range(1, 8), dispensable=(3, 4, 7))
    sheet.line(how())
