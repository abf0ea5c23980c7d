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
        raise click.BadParameter(
            f"{text!r} is not a range; write first and last lag in seconds, for example -10:10"
        ) from error
    if not (math.isfinite(low) and math.isfinite(high)) or low > high:
        raise click.BadParameter(
            f"{text!r}: both lags must be finite, and the last lag must not be below the first lag"
        )
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
    help="Target quantities to predict. Each is the label of a series, TABLE.COLUMN, a unique column "
    "name, or throughput (TcpSnd_goodput, else downlink_bps).",
)
@click.option(
    "--with",
    "with_",
    type=names,
    metavar="NAME,...",
    default="",
    help="Quantities to test as predictors of the target quantities.  [default: all radio and position series]",
)
@click.option(
    "--lags",
    type=lags,
    metavar="FROM:TO",
    default="-10:10",
    show_default=True,
    help="First and last lag in seconds; at a positive lag, the quantity of --of follows the quantity of --with.",
)
@click.option(
    "--step",
    "step_s",
    type=FiniteRange(0.001, 86_400),
    metavar="SECONDS",
    help="Width of the time bins.  [default: the sampling interval of the slower quantity of each pair]",
)
@click.option(
    "--given",
    default="",
    metavar="NAME",
    help="Third quantity to control for: also compute the dependence that remains when this quantity is known.",
)
@click.option(
    "--difference",
    is_flag=True,
    help="Compare the changes from bin to bin instead of the values. Use this option for quantities that drift.",
)
@click.option("--estimator", type=click.Choice(_ESTIMATORS), default="equal-count", show_default=True,
              help="Method that estimates the mutual information.")  # fmt: skip
@click.option("--normaliser", type=click.Choice(_NORMALISERS), default="min", show_default=True,
              help="Value by which the mutual information is divided: the smaller of both entropies, "
                   "...")  # fmt: skip
@click.option("--baseline", type=click.Choice(_BASELINES), default="shift", show_default=True,
              help="Method that makes the random comparison series. \"plain\" assumes independent "
                   "samples, and gives much too small p-values.")  # fmt: skip
@click.option("--permutations", type=click.IntRange(19, 100_000), default=999, show_default=True, metavar="N",
              help="Number of random comparison series (series without dependence) for the "
                   "significance test.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N",
              help="Random seed of the random comparison series; the same seed gives the same "
                   "numbers.")  # fmt: skip
@click.option(
    "--json", "form", flag_value="json", help="Write the result as JSON; `multitracer schema correlate` describes it."
)
@click.option("--csv", "form", flag_value="csv", help="Write the result as CSV, with one row per pair and lag.")
@click.option(
    "-o", "--output", type=named_page, metavar="FILE", help="Draw the peaks and the curves to this .html file."
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
    """Find which quantities of a session predict another quantity, at which lag, and how significantly.

    For each pair, the command prints the lag with the most significant mutual information, the 95th percentile of the
    random comparison series, and the false discovery rate over all pairs. Each input is a session; several sessions are
    pooled. For a pair that cannot be compared, the row gives the reason. docs/correlate.md explains the numbers.
    """
    from multitracer.analysis.correlation import Settings
    from multitracer.cli._correlation import Output, run

    if not of:
        raise click.BadParameter(
            "no quantity was given; name at least one quantity, for example throughput", param_hint="'--of'"
        )
    settings = Settings(lags, step_s, difference, estimator, normaliser, baseline, permutations, seed)
    out: Output = Output(form, output, theme)
    run(reading, (of, with_, given), settings, out)
