"""The figure of pairs: a field of the matrix for each, a curve for each with a number, words for the rest."""

from __future__ import annotations

import numpy as np
import pytest

from multitracer.analysis.correlation import Pair, Settings, Together, correlated
from multitracer.figures.correlation_matrix import correlation_figure
from tests.analysis.test_correlation import noise, pair, planted, quantity

SETTINGS = Settings((-5.0, 5.0), permutations=99)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_matrix_has_each_pair_and_its_lag(theme: str) -> None:
    constant = Together(quantity("cqi", np.full(400, 9.0)), planted().y)
    table = correlated([pair(planted()), Pair("cqi", "throughput", [constant])], SETTINGS)
    figure = correlation_figure(table, theme=theme)  # type: ignore[arg-type]  # one of the two
    matrix = figure.data[0]
    assert (matrix.type, list(matrix.x), list(matrix.y)) == ("heatmap", ["throughput"], ["rsrp_dbm", "cqi"])
    assert matrix.z[0][0] > 0.2
    assert np.isnan(matrix.z[1][0])
    assert "no number: cqi is constant" in matrix.customdata[1][0]
    texts = [each.text for each in figure.layout.annotations]
    assert any("at +3 s</b>" in text for text in texts), "bold: it stands out"
    assert "–" in texts
    assert texts[-2].endswith("cqi and throughput: cqi is constant"), "paper has nothing to point at"


def test_a_pair_within_chance_has_no_lag_in_the_matrix() -> None:
    apart = Together(quantity("rsrp_dbm", noise(1)), quantity("throughput", noise(2)))
    table = correlated([pair(apart)], SETTINGS)
    assert table["q_value"][table["is_peak"]] > 0.05
    (text,) = (note.text for note in correlation_figure(table).layout.annotations if note.x == "throughput")
    assert text == f"{table['nmi'][table['is_peak']][0]:.2f}"


def test_lag_stands_below_the_number_where_fields_are_narrow() -> None:
    pairs = [Pair("rsrp_dbm", f"y{number}", [planted()]) for number in range(3)]
    notes = correlation_figure(correlated(pairs, SETTINGS)).layout.annotations
    assert sum("<br>+3 s</b>" in each.text for each in notes) == 3


def test_curve_shows_chance_and_where_the_lag_may_lie() -> None:
    apart = planted(host="phone", bound_ns=0.3e9)
    figure = correlation_figure(correlated([pair(apart)], SETTINGS))
    band, curve, peak = figure.data[1:]
    assert list(curve.x) == list(range(-5, 6))
    assert max(curve.y) == peak.y[0] > max(band.y)
    assert (peak.x[0], peak.error_x.array[0]) == (3.0, pytest.approx(0.8))
    assert figure.layout.xaxis2.title.text == "lag, s (above 0 throughput follows)"


def test_nothing_to_draw_says_so_and_names_are_escaped() -> None:
    table = correlated([Pair("<b>x", "y", reason="<script>")], SETTINGS)
    figure = correlation_figure(table)
    assert "&lt;script&gt;" in figure.data[0].customdata[0][0]
    assert figure.layout.yaxis.ticktext == ("&lt;b&gt;x",)
    assert not any("<script>" in each.text for each in figure.layout.annotations)
    assert correlation_figure(correlated([], SETTINGS)).layout.annotations
