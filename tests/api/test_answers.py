"""What a cell of a notebook may end with, and the functions for tables with times."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import multitracer as mt
from multitracer.errors import InputError
from tests.recording.captures import Conversation, write_conversations

if TYPE_CHECKING:
    from pathlib import Path

_MOST_HTML = 50_000


@pytest.fixture(scope="module")
def call(sample_session: Path) -> mt.Session:
    return mt.open(sample_session.parent / "typical-1450k")


def test_everything_that_a_cell_ends_with_is_short(call: mt.Session) -> None:
    shown: list[Any] = [call, call.diagnose(), call.align()]
    for each in shown:
        html = each._repr_html_()
        assert 100 < len(html) < _MOST_HTML
        assert len(re.findall(r"<table", html)) >= 1
        assert len(repr(each)) < 500
    assert "more in <code>.findings</code>" in call.diagnose()._repr_html_()


def test_a_diagnosis_in_a_notebook_names_the_connection_of_its_numbers(sample_session: Path) -> None:
    """The sentence told 83 % of three connections, and the row below it 89.9 % of nobody knew which."""
    html = mt.open(sample_session).diagnose()._repr_html_()
    assert "(83 %, measured)" in html
    assert "<p>What would help: a faster link" in html
    assert "<p>Connection 1, 10.0.3.2 → 10.0.1.2:</p>" in html


def test_every_column_of_every_table_says_what_it_means(call: mt.Session) -> None:
    tables = (
        "files segments connections directions trust tcp_state tcp_events link_frames link_events radio "
        "position gaps markers transactions clock_edges"
    )
    frames = [getattr(call, name) for name in tables.split()]
    frames += [call.tcp_segments(), call.rtt(), call.verdicts(), call.findings(), call.phases(), call.account()]
    for frame in frames:
        explained = frame.attrs["columns"]
        assert set(frame.columns) <= set(explained)
        assert all(explained[name]["meaning"] for name in frame.columns)
    assert call.link_frames.attrs["columns"]["n_s"]["source"].count("rlp.pcapng") == 2


def test_a_second_answer_is_the_same_and_a_figure_is_new(call: mt.Session) -> None:
    assert call.diagnose() is call.diagnose()
    assert call.stacked() is not call.stacked()
    one, other = call.series(), call.series()
    one["TcpSnd_data"]["value"] = 0
    assert other["TcpSnd_data"]["value"].max() > 0, "what a user does to a frame stays his own"
    assert call.series()["TcpSnd_data"]["value"].max() > 0


def test_a_stretch_is_as_if_nothing_else_had_been_recorded(sample_session: Path) -> None:
    complete = mt.open(sample_session)
    part = complete.between(10, 12)
    start = complete.segments["time_ns"].min()
    assert part.segments["time_ns"].min() >= start + pd.Timedelta(seconds=10)
    assert part.segments["time_ns"].max() < start + pd.Timedelta(seconds=12)
    assert part.tcp_state["time_ns"].between(start + pd.Timedelta(10, "s"), start + pd.Timedelta(12, "s")).all()
    assert len(part.connections) < len(complete.connections)
    assert len(mt.open(sample_session, begin=10, end=12).segments) == len(part.segments)
    assert len(complete.between(str(start + pd.Timedelta(10, "s")), 12).segments) == len(part.segments)
    with pytest.raises(InputError, match="must be after the begin"):
        complete.between(12, 10)


def test_no_such_table_is_one_sentence(call: mt.Session) -> None:
    with pytest.raises(InputError, match=r"no table .segmants.; did you mean segments.*\?; the tables are"):
        mt.columns("segmants")
    with pytest.raises(
        InputError, match="no log of the layer \"link\" contains the table 'radio'; the tables are: link_events"
    ):
        call.table("link", "radio")


def test_a_capture_alone_has_every_table(tmp_path: Path) -> None:
    session = mt.open(write_conversations(tmp_path / "a.pcap", Conversation(lost=(2,))))
    assert session.verdicts()[["cause", "necessity"]].iloc[0].tolist() == ["timeout", "undecided"]
    for frame in (session.radio, session.markers, session.gaps, session.link_frames):
        assert frame.empty
        assert "host" in frame
    assert session.account()["seconds"].isna().all(), "no log of a link"


# --- beside each other in time ---

_TIMES = st.lists(st.integers(0, 10_000), max_size=30)


def _frame(milliseconds: list[int], name: str) -> pd.DataFrame:
    times = pd.to_datetime(np.array(milliseconds, dtype="i8") * 1_000_000, utc=True)
    return pd.DataFrame({"time_ns": times, name: np.arange(len(milliseconds)), "both": 1})


@given(left=_TIMES, right=_TIMES, within_ms=st.integers(0, 2_000))
def test_the_nearest_row_is_the_nearest(left: list[int], right: list[int], within_ms: int) -> None:
    joined = mt.join_nearest(_frame(left, "a"), _frame(right, "b"), within=f"{within_ms}ms")
    assert joined["a"].tolist() == list(range(len(left))), "every row stays, in its order"
    for at, found, distance_s in zip(left, joined["b"], joined["distance_s"], strict=True):
        nearest = min((abs(at - there) for there in right), default=None)
        if nearest is None or nearest > within_ms:
            assert pd.isna(found)
            assert pd.isna(distance_s)
        else:
            assert abs(right[int(found)] - at) == nearest
            assert distance_s * 1000 == pytest.approx(right[int(found)] - at)
    assert "both_nearest" in joined


@given(rows=_TIMES, events=_TIMES, before_ms=st.integers(0, 3_000), after_ms=st.integers(0, 3_000))
def test_a_window_holds_what_lies_in_it(rows: list[int], events: list[int], before_ms: int, after_ms: int) -> None:
    cut = mt.epochs(_frame(rows, "a"), _frame(events, "e"), before=f"{before_ms}ms", after=f"{after_ms}ms")
    wanted = sorted(
        (number, rows[row], row)
        for number, event in enumerate(events)
        for row in range(len(rows))
        if event - before_ms <= rows[row] <= event + after_ms
    )
    found = zip(cut["event"], cut["since_event_s"], cut["a"], strict=True)
    assert [(n, row) for n, _, row in wanted] == sorted(
        ((n, row) for n, _, row in found), key=lambda each: (each[0], rows[each[1]], each[1])
    )


def test_a_window_of_nonsense_is_refused(call: mt.Session) -> None:
    rtt = call.rtt()
    with pytest.raises(InputError, match="not a duration"):
        mt.epochs(rtt, rtt.head(1), before="soon")
    with pytest.raises(InputError, match="negative"):
        mt.join_nearest(rtt, rtt, within=-1)
    with pytest.raises(InputError, match="no column 'time'"):
        mt.join_nearest(rtt, rtt, on="time")


def test_labels_that_repeat_make_no_further_rows(call: mt.Session) -> None:
    rtt = call.rtt().head(5)
    twice = pd.concat([rtt, rtt])
    joined = mt.join_nearest(twice, call.rtt())
    assert joined.index.tolist() == twice.index.tolist()
    assert joined["distance_s"].tolist() == [0.0] * 10
    explained = mt.join_nearest(rtt, call.tcp_state).attrs["columns"]
    assert explained["host"]["source"] != explained["host_nearest"]["source"]
    assert explained["distance_s"]["unit"] == "s"


def test_nothing_is_near_an_event_without_a_time(call: mt.Session) -> None:
    rtt = call.rtt()
    around = mt.epochs(rtt, [pd.NaT, rtt["time_ns"].iloc[3]], before=0, after="1ms")
    assert set(around["event"]) == {1}
    assert set(around.columns) <= set(around.attrs["columns"])
    assert len(mt.epochs(rtt, rtt["time_ns"].iloc[3], before=0, after="1ms")) == len(around)
    for nothing in (None, float("nan"), "NaT"):
        with pytest.raises(InputError, match="not a duration"):
            mt.join_nearest(rtt, rtt, within=nothing)  # type: ignore[arg-type]


@pytest.mark.parametrize("figure", ["rtt_size", "rtt_distribution", "environment"])
def test_a_session_without_transactions_says_that_it_has_none(sample_session: Path, figure: str) -> None:
    with pytest.raises(mt.MultiTracerError, match="contains no finished transaction"):
        getattr(mt.open(sample_session), figure)()
