"""`multitracer compare`: two sides of many sessions, and how surely they differ."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Literal

import click

from multitracer.cli._options import common_options, examples, named, named_page
from multitracer.cli._reading import forces_reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.campaign.compared import ComparedSides, JudgedSide
    from multitracer.campaign.conditions import Condition, JudgedCondition
    from multitracer.cli._output import Page


@click.command(
    "compare",
    epilog=examples(
        "multitracer compare before/ after/",
        "multitracer compare campaign --by operator -o operators.html",
        "multitracer compare campaign --by operator=a,b --json",
        "multitracer compare baseline/ today/ --fail-if 'goodput < -10%' --fail-if 'rtt.p95 > +20%' --junit junit.xml",
        "multitracer compare today/ --fail-if 'limit.link > 0.5'",
    ),
)
@click.argument("first", metavar="A", type=named)
@click.argument("second", metavar="B", type=named, required=False)
@click.option(
    "--by", metavar="LABEL[=A,B]",
    help="Compare the sessions of one campaign or folder by the value of a label; name two values if "
        "the label has more.",
)  # fmt: skip
@click.option(
    "--fail-if",
    "conditions",
    metavar="CONDITION",
    multiple=True,
    help="End with status 3 if this is true, with status 4 if the data cannot tell: 'goodput < -10%' (B differs from A "
    "by more than this), 'rtt.p95 > 200ms', 'limit.link > 0.5' (of B, or of A alone). May be given several times.",
)
@click.option("--junit", type=named, metavar="FILE", help="With --fail-if: write the outcomes to this JUnit XML file.")
@click.option(
    "--json",
    "form",
    flag_value="json",
    help="Write the result as JSON, with full precision; `multitracer schema compare` describes it.",
)
@click.option(
    "-o",
    "--output",
    type=named_page,
    metavar="FILE",
    help="Also draw the comparison and write the page to this .html file.",
)
@forces_reading
@common_options
def command(  # noqa: PLR0913  # one for each option
    *,
    first: str,
    second: str | None,
    by: str | None,
    conditions: tuple[str, ...],
    junit: str | None,
    form: Literal["json"] | None,
    output: str | None,
) -> None:
    """Compare two sets of sessions, A and B: difference of the means and its significance.

    A and B are campaigns, folders of sessions, sessions, or captures; inputs other than campaigns are analysed first.
    Each session has the same weight, regardless of its length. If both sides have data from the same places and hours,
    only these are compared. A alone is compared with the bounds of --fail-if. docs/compare.md explains the numbers and
    the conditions. Requires the pip extra `campaign`.
    """
    is_alone = second is None and by is None
    _check_usage(
        is_alone=is_alone,
        is_named_twice=second is not None and by is not None,
        conditions=conditions,
        targets=(output, junit),
    )
    from multitracer.campaign.compared import as_document, compared, comparison_page, judged_alone
    from multitracer.cli._campaign import CampaignProgressLine
    from multitracer.cli._output import check_output, page, standard_output
    from multitracer.report.page import write

    judged_conditions = [_condition(text, is_alone=is_alone) for text in conditions]
    for target in (output, junit):
        check_output(target, [first, *([] if second is None else [second])])
    result: ComparedSides | JudgedSide
    with CampaignProgressLine() as line:
        if is_alone:
            result = judged_alone(first, judged_conditions, shown=line)
        else:
            result = compared(first, second, by, shown=line, is_drawn=output is not None, conditions=judged_conditions)
            if output is not None:
                write(output, comparison_page(result))
    if junit is not None:
        _write_junit(junit, result)
    if form == "json":
        json.dump(as_document(result), standard_output(), allow_nan=False, indent=1)
        standard_output().write("\n")
    else:
        _show(page(), result)
        for path in filter(None, (output, junit)):
            click.echo(path)
    if status := _status(result.conditions):
        raise click.exceptions.Exit(status)


def _check_usage(
    *, is_alone: bool, is_named_twice: bool, conditions: tuple[str, ...], targets: tuple[str | None, str | None]
) -> None:
    page, junit = targets
    if is_named_twice or (is_alone and not conditions):
        raise click.UsageError("give two inputs A and B, or one input and --by LABEL or --fail-if CONDITION")
    if is_alone and page is not None:
        raise click.UsageError("-o draws two sides; give two inputs A and B, or one input and --by LABEL")
    if page is not None and junit is not None and os.path.realpath(page) == os.path.realpath(junit):
        raise click.UsageError("-o and --junit name one file; name two files")
    if junit is not None and not conditions:
        raise click.UsageError("--junit needs --fail-if CONDITION")


def _condition(text: str, *, is_alone: bool) -> Condition:
    from multitracer.campaign.conditions import condition_of
    from multitracer.errors import InputError

    try:
        condition = condition_of(text)
    except InputError as error:
        raise click.BadParameter(str(error), param_hint="'--fail-if'") from error
    if is_alone and condition.is_difference:
        raise click.BadParameter(
            f"{text!r} is a difference of two sides; give two inputs A and B, or write a value without a sign",
            param_hint="'--fail-if'",
        )
    return condition


def _status(conditions: Sequence[JudgedCondition]) -> int:
    """Return the exit status: 3 if a condition is true, else 4 if one cannot be told, else 0."""
    from multitracer.campaign.conditions import Outcome
    from multitracer.cli._program import Exit

    outcomes = {each.outcome for each in conditions}
    if Outcome.TRUE in outcomes:
        return Exit.CONDITION_TRUE
    return Exit.CONDITION_UNKNOWN if Outcome.UNKNOWN in outcomes else 0


def _write_junit(target: str, result: ComparedSides | JudgedSide) -> None:
    from multitracer.campaign.conditions import junit
    from multitracer.cli._output import text_output

    with text_output(target) as stream:
        stream.write(junit(result.conditions, " and ".join(result.names)))


def _show(sheet: Page, of: ComparedSides | JudgedSide) -> None:
    from multitracer.campaign.compared import ComparedSides, header, how, row

    sheet.line(of.headline, bold=True)
    sheet.line()
    for sentence in (*of.counts, *of.notes):
        sheet.line(sentence)
    if isinstance(of, ComparedSides):
        sheet.line()
        sheet.table(header(of), [row(each) for each in of.rows], right=range(1, 8), dispensable=(3, 4, 7))
        sheet.line(how(of.comparison.matching))
    if of.conditions:
        sheet.line()
        for each in of.conditions:
            sheet.line(each.sentence)
