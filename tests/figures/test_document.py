"""A page holds what plotly writes of a figure, though plotly is not asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import plotly.graph_objects as go
import pytest

from multitracer.analysis import parallel
from multitracer.figures.direction import FigureDirection
from multitracer.figures.time_sequence import plain_time_sequence
from multitracer.report.plot_page import document
from multitracer.schemas.tcp import RTT_SAMPLES, TCP_SACK_BLOCKS, TCP_SEGMENTS
from multitracer.tables import Table
from tests.figures.traffic import transfer

if TYPE_CHECKING:
    from multitracer.figures.palette import ThemeName

NOTHING = FigureDirection(Table.empty(TCP_SEGMENTS), Table.empty(TCP_SACK_BLOCKS), Table.empty(RTT_SAMPLES))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("direction", [transfer(lost=(5, 50)), NOTHING], ids=["losses", "nothing"])
def test_the_document_of_a_figure_is_what_plotly_writes(direction: FigureDirection, theme: ThemeName) -> None:
    plain = plain_time_sequence(direction, theme=theme)
    written = json.loads(go.Figure(plain).to_json())
    assert json.dumps(document(plain)) == json.dumps(written)
    assert document(go.Figure(plain)) == written


def test_a_figure_made_by_two_threads_is_the_figure_made_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = document(plain_time_sequence(transfer(lost=(5, 50))))
    monkeypatch.setattr(parallel, "FEWEST_ROWS", 0)
    assert document(plain_time_sequence(transfer(lost=(5, 50)))) == alone
