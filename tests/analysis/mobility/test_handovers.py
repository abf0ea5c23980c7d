"""Handovers: from readings alone, from signalling, ping-pongs, and the verdicts of the standards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.analysis.mobility.cells import cell_visits_of
from multitracer.analysis.mobility.handovers import changes_of, handovers_of
from multitracer.analysis.series.labelled import radio_series
from multitracer.schemas.radio import RADIO
from multitracer.schemas.signalling import HANDOVERS
from multitracer.tables import NOT_A_TIME
from tests.analysis.mobility.tables import BEGIN_NS, at_ns, table_of

if TYPE_CHECKING:
    from multitracer.tables import Row, Table


def lte(at: float, cell: int | None = None, **more: object) -> Row:
    row: Row = {"at": at, "role": "serving", "rat": "LTE", **more}
    return row if cell is None else row | {"cell_id": cell}


def ordered(at: float, old: int, new: int, **more: object) -> Row:
    """Return a handover that signalling shows, complete 50 ms after its command."""
    row: Row = {
        "at": at, "complete_ns": at_ns(at + 0.05), "kind": "handover", "result": "complete",
        "evidence": "signalling", "source_physical_cell_id": old, "target_physical_cell_id": new,
        "source_rat": "LTE", "target_rat": "LTE", "source_channel": 1300, "target_channel": 1300,
    }  # fmt: skip
    return row | more


def attempt(at: float, old: int, new: int, **more: object) -> Row:
    return ordered(at, old, new, kind="re-establishment", **more)


def seconds(table: Table, name: str) -> list[float]:
    return [round((each - BEGIN_NS) / 1e9, 3) for each in table[name].tolist()]


def test_change_lies_between_two_readings() -> None:
    changes = changes_of(table_of(RADIO, [lte(t, 1 if t < 5 else 2, line=t + 2) for t in range(10)]))
    assert (seconds(changes, "earliest_ns"), seconds(changes, "latest_ns")) == ([4.0], [5.0])
    assert seconds(changes, "time_ns") == [5.0]
    (row,) = changes.rows()
    assert (row["source_cell_id"], row["target_cell_id"], row["evidence"]) == (1, 2, "cell id")
    assert (row["command_line"], row["complete_line"], row["kind"]) == (6, 7, "change")


def test_report_of_several_cells_does_not_say_which_serves() -> None:
    """UMTS reports all cells of the active set, none with a role; one cell alone is the one that serves."""
    reports = [
        {"at": t, "line": t, "source": "RRC report", "rat": "UMTS", "physical_cell_id": cell, "rscp_dbm": -80.0 - cell}
        for t in range(60)
        for cell in ((448,) if t < 20 else (203,) if t >= 40 else (448, 203))
    ]
    radio = table_of(RADIO, reports)
    changes = changes_of(radio)
    assert (seconds(changes, "earliest_ns"), seconds(changes, "latest_ns")) == ([19.0], [40.0])
    assert len(radio_series(radio, source="log")["Radio_rscp"]) == 40


def test_a_restarted_collector_shows_no_handover_with_its_first_reading() -> None:
    """Nothing is known of the cells in the gap, which 10 s separate from lost readings."""
    rows = [lte(t, 1 if t < 30 else 2, line=t + 2) for t in range(60) if not 20 <= t < 40]
    changes = handovers_of(table_of(RADIO, rows))
    assert len(changes) == 0
    assert changes.provenance["left_out"] == {"cell changed in a gap of the log": 1}
    visits = cell_visits_of(table_of(RADIO, rows), changes)
    assert visits.table["cell_id"].tolist() == [1, 2]
    assert visits.entered.tolist() == [False, False]
    assert len(handovers_of(table_of(RADIO, [row for row in rows if row["at"] < 20 or row["at"] >= 50]))) == 0


def test_a_modem_that_is_asked_once_a_minute_still_shows_handovers() -> None:
    changes = handovers_of(table_of(RADIO, [lte(60 * t, 1 if t < 5 else 2, line=t + 2) for t in range(10)]))
    assert (seconds(changes, "earliest_ns"), seconds(changes, "latest_ns")) == ([240.0], [300.0])


@pytest.mark.parametrize("announced_first", [True, False])
def test_announcement_within_an_answer_of_the_old_cell_is_one_change(*, announced_first: bool) -> None:
    """The modem had begun its answer before it said +CEREG: both have the window of the answer."""
    pair = [lte(3, 2, source="+CEREG"), lte(3, 1, source="+QENG")]
    pair = pair if announced_first else pair[::-1]
    rows = [lte(1, 1, source="+QENG"), lte(2, 1, source="+QENG"), *pair, lte(4, 2, source="+QENG")]
    changes = changes_of(table_of(RADIO, rows))
    assert (changes["source_cell_id"].tolist(), changes["target_cell_id"].tolist()) == ([1], [2])


def test_missing_readings_are_no_change() -> None:
    rows = [lte(t, None if t in {3, 4, 5} else 1) for t in range(10)]
    assert not len(changes_of(table_of(RADIO, rows)))
    rows = [lte(t, None if t in {3, 4, 5} else 1 + (t > 5)) for t in range(10)]
    changes = changes_of(table_of(RADIO, rows))
    assert (seconds(changes, "earliest_ns"), seconds(changes, "latest_ns")) == ([2.0], [6.0])


@pytest.mark.parametrize("word", [0x0FFFFFFF, 0x7FFFFFFF])
def test_words_for_an_unknown_cell_are_missing(word: int) -> None:
    assert not len(changes_of(table_of(RADIO, [lte(t, word if t == 4 else 1) for t in range(10)])))


def test_secondary_and_neighbour_cells_never_count() -> None:
    rows = [lte(t, 1) for t in range(6)]
    rows += [lte(t + 0.1, 7 + t, role="secondary", rat="NR") for t in range(6)]
    rows += [lte(t + 0.2, 20 + t, role="neighbour") for t in range(6)]
    assert not len(changes_of(table_of(RADIO, rows)))


def test_physical_cell_counts_where_no_identity_was_read() -> None:
    rows = [lte(t, physical_cell_id=100 + (t >= 5), channel=1300) for t in range(10)]
    changes = changes_of(table_of(RADIO, rows))
    assert changes["evidence"].tolist() == ["PCI"]


def test_same_identity_overrules_another_physical_cell() -> None:
    rows = [lte(t, 1, physical_cell_id=100 + (t == 5), channel=1300) for t in range(10)]
    changes = changes_of(table_of(RADIO, rows))
    assert not len(changes)
    assert changes.provenance["left_out"] == {"PCI changed, cell id did not": 2}


def test_frequent_physical_cell_bounds_a_rare_identity() -> None:
    rows = [lte(t, physical_cell_id=100 + (t >= 17), channel=1300) for t in range(31)]
    rows += [lte(t + 0.5, 1 + (t >= 17)) for t in range(0, 31, 10)]
    changes = changes_of(table_of(RADIO, rows))
    assert changes["evidence"].tolist() == ["cell id"]
    assert (seconds(changes, "earliest_ns"), seconds(changes, "latest_ns")) == ([16.0], [17.0])
    (row,) = changes.rows()
    assert (row["source_physical_cell_id"], row["target_physical_cell_id"]) == (100, 101)


def test_rare_identity_does_not_hide_a_short_stay_elsewhere() -> None:
    rows = [lte(t, physical_cell_id=100 + (14 <= t < 17), channel=1300) for t in range(31)]
    rows += [lte(t + 0.5, 1) for t in (0, 30)]
    changes = changes_of(table_of(RADIO, rows))
    assert seconds(changes, "latest_ns") == [14.0, 17.0]


def test_leg_of_a_dual_connection_is_no_handover() -> None:
    rows = [lte(t, 1, rat="NR" if 3 <= t < 6 else "LTE") for t in range(10)]
    assert not len(changes_of(table_of(RADIO, rows)))
    changes = changes_of(table_of(RADIO, [row | {"cell_id": -1} for row in rows]))
    assert not len(changes)
    assert changes.provenance["left_out"] == {"LTE to NR or back without a cell, perhaps a leg": 2}


def test_technology_alone_counts_between_generations() -> None:
    rows = [lte(t, rat="LTE" if t < 4 else "UMTS" if t < 6 else "HSPA") for t in range(9)]
    changes = changes_of(table_of(RADIO, rows))
    assert changes["evidence"].tolist() == ["technology"]
    assert (changes["source_rat"].tolist(), changes["target_rat"].tolist()) == (["LTE"], ["UMTS"])


def test_two_commands_that_disagree_on_the_technology_are_no_change() -> None:
    rows = [lte(t, source="+QENG") for t in range(9)] + [lte(4.5, rat="UMTS", source="+CREG")]
    assert not len(changes_of(table_of(RADIO, rows)))


def test_rows_of_one_second_count_once() -> None:
    rows = [lte(5, 1, physical_cell_id=100, channel=7), lte(5, 2, physical_cell_id=200, channel=7)]
    assert len(changes_of(table_of(RADIO, rows))) == 1


def test_readings_of_an_ordered_handover_are_absorbed() -> None:
    radio = table_of(RADIO, [lte(t, 1 + (t >= 5), physical_cell_id=100 + (t >= 5)) for t in range(10)])
    signalling = table_of(HANDOVERS, [ordered(4.3, 100, 101)])
    judged = handovers_of(radio, signalling)
    assert judged["evidence"].tolist() == ["signalling"]
    (row,) = judged.rows()
    assert (row["source_cell_id"], row["target_cell_id"]) == (1, 2)
    assert (row["verdict"], row["ping_pong"]) == ("none", 0)


def test_secondary_legs_of_signalling_are_counted_and_left_out() -> None:
    rows = [ordered(1, 1, 2), ordered(3, 2, 3, kind="secondary added")]
    judged = handovers_of(None, table_of(HANDOVERS, rows))
    assert len(judged) == 1
    assert judged.provenance["left_out"] == {"leg of a dual connection or active set": 1}


@pytest.mark.parametrize(("stay_s", "minimum_s", "expected"), [(0.5, 1.0, 1), (1.5, 1.0, 0), (1.5, 2.0, 1)])
def test_ping_pong_is_a_return_within_the_minimum_stay(stay_s: float, minimum_s: float, expected: int) -> None:
    rows = [ordered(10, 1, 2), ordered(10 + stay_s, 2, 1)]
    judged = handovers_of(None, table_of(HANDOVERS, rows), minimum_stay_s=minimum_s)
    assert judged["ping_pong"].tolist() == [-1, expected]


def test_move_on_to_a_third_cell_is_no_ping_pong() -> None:
    judged = handovers_of(None, table_of(HANDOVERS, [ordered(10, 1, 2), ordered(10.4, 2, 3)]))
    assert judged["ping_pong"].tolist() == [-1, 0]


def test_readings_a_second_apart_cannot_decide_a_stay_of_a_second() -> None:
    cells = [1, 1, 1, 2, 1, 1, 1]
    judged = handovers_of(table_of(RADIO, [lte(t, cell) for t, cell in enumerate(cells)]))
    assert judged["ping_pong"].tolist() == [0, -1]
    assert (judged["stay_least_s"][1], judged["stay_most_s"][1]) == (0.0, 2.0)
    judged = handovers_of(table_of(RADIO, [lte(t, cell) for t, cell in enumerate(cells)]), minimum_stay_s=3)
    assert judged["ping_pong"].tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([ordered(10, 1, 2), attempt(12, 2, 1)], ["too early", ""]),
        ([ordered(10, 1, 2), attempt(12, 2, 3)], ["wrong cell", ""]),
        ([ordered(10, 1, 2), attempt(12, 2, 2)], ["", ""]),
        ([ordered(10, 1, 2), attempt(60, 2, 3)], ["none", "too late"]),
        ([ordered(10, 1, 2), attempt(60, 2, 2)], ["none", "none"]),
        ([ordered(10, 1, 2, result="failed"), attempt(10.9, 1, 1)], ["too early", ""]),
        ([ordered(10, 1, 2, result="re-established"), attempt(10.9, 1, 3)], ["wrong cell", ""]),
        ([ordered(10, 1, 2, result="failed")], [""]),
        ([ordered(10, 1, 2, result="unknown")], [""]),
        ([attempt(12, 2, 1)], ["too late"]),
        ([attempt(12, 2, -1)], [""]),
        ([attempt(12, 2, 1, cause="reconfigurationFailure")], [""]),
        ([ordered(10, 1, 2), attempt(12, 2, -1)], ["", ""]),
        ([ordered(10, 1, 2), ordered(30, 2, 9)], ["none", "none"]),
        ([ordered(10, 1, 2, kind="reselection", evidence="cell id")], [""]),
    ],
)
def test_verdicts_of_ts_36_300(rows: list[Row], expected: list[str]) -> None:
    judged = handovers_of(None, table_of(HANDOVERS, rows))
    assert judged["verdict"].tolist() == expected
    assert all(judged["verdict_reason"] != "")


def test_readings_alone_have_no_verdict() -> None:
    judged = handovers_of(table_of(RADIO, [lte(t, 1 + (t >= 5)) for t in range(9)]))
    assert judged["verdict"].tolist() == [""]
    assert judged["verdict_reason"].tolist() == ["only readings of the radio show it"]


@given(
    st.lists(
        st.tuples(
            st.floats(0, 100),
            st.sampled_from([-1, 1, 2, 3]),
            st.sampled_from([-1, 10, 11]),
            st.sampled_from([-1, 1300, 1400]),
            st.sampled_from(["", "LTE", "NR", "GSM", "HSPA"]),
            st.sampled_from(["serving", "", "neighbour", "secondary"]),
        ),
        max_size=25,
    )
)
def test_any_readings_give_ordered_changes(drawn: list[tuple[float, int, int, int, str, str]]) -> None:
    names = ("at", "cell_id", "physical_cell_id", "channel", "rat", "role")
    radio = table_of(RADIO, [dict(zip(names, row, strict=True)) for row in drawn])
    judged = handovers_of(radio)
    assert (judged["earliest_ns"] <= judged["latest_ns"]).all()
    assert (np.diff(judged["time_ns"]) >= 0).all()
    assert (judged["earliest_ns"][1:] >= judged["latest_ns"][:-1]).all()
    for row in judged.rows():
        if row["evidence"] == "cell id":
            assert row["source_cell_id"] != row["target_cell_id"]


def test_no_readings_give_no_handovers() -> None:
    assert not len(handovers_of(None))
    assert not len(handovers_of(table_of(RADIO, [{"role": "serving", "time_ns": NOT_A_TIME}])))


def test_answer_of_the_old_cell_in_which_the_new_one_is_announced_is_no_ping_pong() -> None:
    """Both lines have one time: +CEREG announces cell 2, and +CREG answers AT+CREG? of before with cell 1."""
    rows = [
        lte(0, 1, source="+QENG"),
        lte(1, 1, source="+QENG"),
        lte(2, 2, source="+CEREG"),
        lte(2, 1, source="+CREG"),
        lte(3, 2, source="+QENG"),
        lte(4, 2, source="+CREG"),
        lte(4, 3, source="+CEREG"),
        lte(5, 3, source="+QENG"),
    ]
    changes = handovers_of(table_of(RADIO, rows))
    assert changes["target_cell_id"].tolist() == [2, 3]
    assert changes["ping_pong"].tolist() == [0, 0]
