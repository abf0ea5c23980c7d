"""`multitracer compare`: two sides of many sessions, and how surely they differ."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

import click

from multitracer.cli._options import common_options, examples, named, named_page
from multitracer.cli._reading import forces_reading

if TYPE_CHECKING:
    from multitracer.campaign.compared import ComparedSides


@click.command(
    "compare",
    epilog=examples(
        "multitracer compare before/ after/",
        "multitracer compare campaign --by operator -o operators.html",
        "multitracer compare campaign --by operator=a,b --json",
    ),
)
@click.argument("first", metavar="A", type=named)
@click.argument("second", metavar="B", type=named, required=False)
@click.option(
    "--by", metavar="LABEL[=A,B]",
    help="Compare the sessions of one campaign or folder by the value of a label; name two values if "
        "the label has more.",
)  # fmt: skip
@click.option("--json", "form", flag_value="json", help="Write the comparison as JSON, with full precision.")
@click.option(
    "-o",
    "--output",
    type=named_page,
    metavar="FILE",
    help="Also draw the comparison and write the page to this .html file.",
)
@forces_reading
@common_options
def command(first: str, second: str | None, by: str | None, form: Literal["json"] | None, output: str | None) -> None:
    """Compare two sets of sessions, A and B: difference of the means and its significance.

    A and B are campaigns, folders of sessions, sessions, or captures; inputs other than campaigns are analysed first.
    Each session has the same weight, regardless of its length. If both sides have data from the same places and hours,
    only these are compared. docs/compare.md explains the numbers. Requires the pip extra `campaign`.
    """
    if (second is None) == (by is None):
        raise click.UsageError("give two inputs A and B, or one input and --by LABEL")
    from multitracer.campaign.compared import as_document, compared, comparison_page
    from multitracer.cli._campaign import CampaignProgressLine
    from multitracer.cli._output import check_output, standard_output
    from multitracer.report.page import write

    check_output(output, [first, *([] if second is None else [second])])
    with CampaignProgressLine() as line:
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


def _show(of: ComparedSides) -> None:
    from multitracer.campaign.compared import header, how, row
    from multitracer.cli._output import page

    sheet = page()
    sheet.line(of.headline, bold=True)
    sheet.line()
    for sentence in (*of.counts, *of.notes):
        sheet.line(sentence)
    sheet.line()
    sheet.table(header(of.names), [row(each) for each in of.rows], right=range(1, 8), dispensable=(3, 4, 7))
    sheet.line(how())
