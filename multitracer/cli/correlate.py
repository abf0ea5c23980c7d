"""`multitracer correlate`: which quantity predicts another, at which lag, and with which confidence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import click

from multitracer.cli._options import FiniteRange, examples, named_page
from multitracer.cli._reading import InputChoice, reads_captures

if TYPE_CHECKING:
    from multitracer.analysis.statistics.entropy import Estimator, Normaliser
    from multitracer.analysis.statistics.surrogates import Baseline
    from multitracer.cli._correlation import Output
    from multitracer.figures.palette import ThemeName

_ESTIMATORS = ("equal-count", "freedman-diaconis", "miller-madow", "ksg")
_NORMALISERS = ("min", "max", "mean", "sqrt", "joint")
_BASELINES = ("shift", "block", "plain")


def lags(text: str) -> tuple[float, float]:
    """Return the first and the last lag that `--lags FROM:TO` states, in seconds."""
    try:
        low, high = (float(number) for number in text.split(":"))
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no range; write seconds as -10:10") from error
    if not (math.isfinite(low) and math.isfinite(high)) or low > high:
        raise click.BadParameter(f"{text!r}: the last lag is below the first, or endless")
    return low, high


def names(text: str) -> list[str]:
    """Return the names that an option states, with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


@click.command(
    "correlate",
    epilog=examples(
        "multitracer correlate sample_traces/rehearsed-drive",
        "multitracer correlate drive/ --of throughput --with ecio_db,rsrp_dbm --lags=-10:10",
        "multitracer correlate --of TcpSnd_rtt --with sinr_db --given speed_mps --json drive/",
        "multitracer correlate --difference --baseline block -o drives.html monday/ tuesday/",
    ),
)
@click.option(
    "--of",
    type=names,
    metavar="NAME,...",
    default="throughput",
    show_default=True,
    help="Of which quantity the others may tell: a series' label, TABLE.COLUMN, a column that one table has, "
    "or throughput (TcpSnd_goodput, else downlink_bps).",
)
@click.option(
    "--with",
    "with_",
    type=names,
    metavar="NAME,...",
    default="",
    help="The quantities to compare with.  [default: every series of the radio and the road]",
)
@click.option(
    "--lags",
    type=lags,
    metavar="FROM:TO",
    default="-10:10",
    show_default=True,
    help="Lags in seconds; by a positive one --of follows --with.",
)
@click.option(
    "--step",
    "step_s",
    type=FiniteRange(0.001, 86_400),
    metavar="SECONDS",
    help="Width of the bins of time.  [default: that of the slower quantity of a pair]",
)
@click.option("--given", default="", metavar="NAME", help="A third quantity: what is left when it is known.")
@click.option("--difference", is_flag=True, help="Compare changes from bin to bin, for what wanders.")
@click.option("--estimator", type=click.Choice(_ESTIMATORS), default="equal-count", show_default=True,
              help="How mutual information is estimated.")  # fmt: skip
@click.option("--normaliser", type=click.Choice(_NORMALISERS), default="min", show_default=True,
              help="By what it is divided: the smaller of both entropies, the larger, ...")  # fmt: skip
@click.option("--baseline", type=click.Choice(_BASELINES), default="shift", show_default=True,
              help="How chance is simulated; plain takes neighbours for independent, and is far too "
              "optimistic.")  # fmt: skip
@click.option("--permutations", type=click.IntRange(19, 100_000), default=999, show_default=True, metavar="N",
              help="Surrogates that simulate chance.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N",
              help="Of the surrogates: the same seed gives the same numbers.")  # fmt: skip
@click.option("--json", "form", flag_value="json", help="As JSON, a row for each pair and lag.")
@click.option(
    "--csv", "form", flag_value="csv", help="As comma-separated values, a row for each pair and lag."
)
@click.option(
    "-o",
    "--output",
    type=named_page,
    metavar="FILE",
    help="Draw the peaks and the curves into this .html file.",
)
@click.option("--theme", type=click.Choice(["light", "dark"]), default="light", show_default=True)
@reads_captures
def command(  # noqa: PLR0913  # each is an option
    reading: InputChoice,
    *,
    of: list[str],
    with_: list[str],
    given: str,
    lags: tuple[float, float],
    step_s: float | None,
    difference: bool,
    estimator: Estimator,
    normaliser: Normaliser,
    baseline: Baseline,
    permutations: int,
    seed: int,
    form: Literal["json", "csv"] | None,
    output: str | None,
    theme: ThemeName,
) -> None:
    """Find which quantity of a session predicts another, at which lag, and with which confidence.

    Prints for each pair the lag with the most significant mutual information, the level that chance reaches,
    and the false discovery rate over all pairs. Each input is a session; several are pooled. A pair that
    cannot be compared is a row with the reason. docs/correlate.md explains the numbers.
    """
    from multitracer.analysis.correlation import Settings
    from multitracer.cli._correlation import Output, run

    if not of:
        raise click.BadParameter("names no quantity; the usual one is throughput", param_hint="'--of'")
    settings = Settings(lags, step_s, difference, estimator, normaliser, baseline, permutations, seed)
    out: Output = Output(form, output, theme)
    run(reading, (of, with_, given), settings, out)
