"""Procedures and states of a table of messages: repeats, cuts, ciphers, times out of order, other sources."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.analysis.signalling.procedures import procedures_of
from multitracer.analysis.signalling.states import states_of
from multitracer.schemas.radio import GAPS, PHONE_EVENTS, RADIO
from multitracer.schemas.signalling import SIGNALLING
from tests.analysis.mobility.tables import BEGIN_NS, at_ns, table_of
from tests.examples import examples

if TYPE_CHECKING:
    from multitracer.tables import Row, Table

CHANNELS = {
    "RRCConnectionRequest": "UL-CCCH", "RRCConnectionSetup": "DL-CCCH", "RRCConnectionSetupComplete": "UL-DCCH",
    "RRCConnectionReject": "DL-CCCH", "RRCConnectionReconfiguration": "DL-DCCH", "MeasurementReport": "UL-DCCH",
    "RRCConnectionReconfigurationComplete": "UL-DCCH", "RRCConnectionRelease": "DL-DCCH", "Paging": "PCCH",
    "RRCConnectionReestablishmentRequest": "UL-CCCH", "RRCResumeRequest": "UL-CCCH", "RRCRelease": "DL-DCCH",
    "RRCReject": "DL-CCCH", "RRCSetup": "DL-CCCH", "RRCReconfiguration": "DL-DCCH", "SecurityModeCommand": "DL-DCCH",
}  # fmt: skip
NAS = (
    "Attach request", "Attach accept", "Attach complete", "Attach reject", "Detach request", "Detach accept",
    "Service request", "Service reject", "Tracking area update request", "Tracking area update accept",
    "Tracking area update reject", "PDN connectivity request", "PDN connectivity reject", "EMM information",
    "Activate default EPS bearer context request", "Activate default EPS bearer context accept", "",
)  # fmt: skip


def message(at: float, name: str, **more: object) -> Row:
    """Return a row of SIGNALLING; `at` are seconds after the begin."""
    rat = "NR" if name.startswith(("RRCRe", "RRCS")) else "LTE"
    layer = "rrc" if name in CHANNELS else "nas"
    row = {"at": at, "message": name, "rat": rat, "layer": layer, "logical_channel": CHANNELS.get(name, ""), "clock": 0}
    return row | {"modem": 0, "encrypted": 0, "frame": 1} | more


def messages(*rows: Row) -> dict[str, Table]:
    numbered = [row | {"frame": number} for number, row in enumerate(rows, start=1)]
    return {"signalling": table_of(SIGNALLING, numbered)}


def procedures(*rows: Row) -> list[Row]:
    return list(procedures_of(messages(*rows)).rows())


def states(tables: dict[str, Table], machine: str) -> list[tuple[str, float, float]]:
    rows = [row for row in states_of(tables).rows() if row["machine"] == machine]
    return [(row["state"], *((row[f"{end}_ns"] - BEGIN_NS) / 10**9 for end in ("begin", "end"))) for row in rows]


# --- procedures ---


def test_both_copies_of_a_message_are_of_one_procedure() -> None:
    rows = procedures(
        message(0, "Attach request"),
        message(0.1, "Attach request", logical_channel="UL-DCCH"),
        message(0.2, "Attach accept", logical_channel="DL-DCCH"),
        message(0.21, "Attach accept"),
        message(0.3, "Attach complete"),
        message(0.31, "Attach complete", logical_channel="UL-DCCH"),
    )
    assert [(row["kind"], row["result"], row["duration_ns"]) for row in rows] == [("attach", "complete", 3 * 10**8)]
    assert rows[0]["frames"] == "1 2 3 4 5"


def test_a_request_of_rrc_that_is_repeated_was_not_answered() -> None:
    rows = procedures(
        message(0, "RRCConnectionRequest"), message(2, "RRCConnectionRequest"), message(2.1, "RRCConnectionSetup"),
        message(2.2, "RRCConnectionSetupComplete"),
    )  # fmt: skip
    assert [(row["result"], row["reason"]) for row in rows] == [
        ("unanswered", "the request was repeated"),
        ("complete", ""),
    ]


def test_a_request_without_reply_is_unanswered_unreadable_or_cut() -> None:
    request, later = message(0, "Tracking area update request"), message(20, "MeasurementReport")
    (lost,) = procedures(request, later)
    assert (lost["result"], lost["reason"], lost["end_ns"]) == ("unanswered", "no reply in 15 s", None)
    (ciphered,) = procedures(request, message(1, "", encrypted=1), later)
    assert (ciphered["result"], ciphered["reason"]) == (
        "unreadable", "1 message after it cannot be read (ciphered)"
    )  # fmt: skip
    (cut,) = procedures(request, message(5, "MeasurementReport"))
    assert (cut["result"], cut["reason"]) == ("cut", "the log ends within it")


def test_a_reply_without_request_is_cut_at_the_begin_of_the_log_alone() -> None:
    (row,) = procedures(message(0, "MeasurementReport"), message(1, "Attach accept"), message(1.1, "Attach complete"))
    assert (row["result"], row["begin_ns"], row["end_ns"]) == ("cut", None, at_ns(1.1))
    assert row["reason"] == "the log begins within it"
    assert procedures(message(0, "MeasurementReport"), message(60, "Attach complete")) == []


@pytest.mark.parametrize("answer", ["RRCSetup", "RRCReject"])
def test_the_answer_of_a_resume_is_no_set_up_without_request(answer: str) -> None:
    complete = message(2, "RRCSetupComplete", rat="NR", layer="rrc", logical_channel="UL-DCCH")
    rows = procedures(message(0, "RRCResumeRequest"), message(1, answer), complete)
    assert [row["kind"] for row in rows] == ["resume"]


def test_many_clocks_and_many_repetitions_take_no_square_of_their_number() -> None:
    clocks = messages(*(message(each % 2 * 100, "MeasurementReport", clock=each) for each in range(3_000)))
    assert len(procedures_of(clocks)) == 0
    copies = [message(each / 1000, name) for each, name in enumerate(["Attach request", "Attach accept"] * 3_000)]
    (row,) = procedures(*copies)
    assert row["frames"] == " ".join(map(str, range(1, 17)))


def test_transactions_are_answered_by_their_number() -> None:
    rows = procedures(
        message(0, "PDN connectivity request", transaction=1), message(1, "PDN connectivity request", transaction=2),
        message(2, "Activate default EPS bearer context request", transaction=2),
        message(3, "PDN connectivity reject", transaction=1, cause="Unknown", cause_number=27),
    )  # fmt: skip
    assert [(row["result"], row["duration_ns"]) for row in rows] == [("rejected", 3 * 10**9), ("complete", 10**9)]


def test_a_detach_ends_all_requests_for_connections_and_one_from_circuits_none() -> None:
    begin = (
        message(0, "PDN connectivity request", transaction=1),
        message(1, "PDN connectivity request", transaction=2),
    )
    rows = procedures(*begin, message(2, "Detach request"))
    assert [(row["result"], row["end_frame"]) for row in rows] == [("replaced", 3), ("replaced", 3)]
    rows = procedures(*begin, message(2, "Detach request", elements="imsiDetach"), message(30, "EMM information"))
    assert [row["result"] for row in rows] == ["unanswered", "unanswered"]


def test_the_last_paging_before_a_called_set_up_begins_it() -> None:
    rows = procedures(
        message(0, "Paging"), message(0.5, "Paging"), message(0.7, "RRCConnectionRequest", cause="mt-Access"),
        message(0.8, "RRCConnectionSetup"), message(0.9, "RRCConnectionSetupComplete"),
    )  # fmt: skip
    assert [(row["kind"], row["duration_ns"]) for row in rows] == [
        ("paging to set-up", 4 * 10**8),
        ("RRC set-up", 2 * 10**8),
    ]


def test_times_out_of_order_are_the_error_and_give_no_negative_duration() -> None:
    rows = procedures(
        message(1, "RRCConnectionRequest"), message(0.4, "RRCConnectionSetup"),
        message(0.5, "RRCConnectionSetupComplete"),
    )  # fmt: skip
    assert (rows[0]["result"], rows[0]["duration_ns"], rows[0]["error_ns"]) == ("complete", None, 6 * 10**8 + 1000)
    assert rows[0]["end_ns"] == rows[0]["begin_ns"]


def test_states_follow_each_other_also_where_times_do_not() -> None:
    tables = messages(
        message(1, "RRCConnectionRequest"), message(0.4, "RRCConnectionSetup"), message(2, "RRCConnectionRelease"),
    )  # fmt: skip
    assert states(tables, "RRC") == [("connected", 1, 2), ("idle", 2, 2)]


def test_a_clock_that_is_set_cuts_what_is_in_progress() -> None:
    set_back = {"clock": 1}
    log = (
        message(100, "Tracking area update request"), message(101, "RRCConnectionRequest"),
        message(0, "RRCConnectionSetupComplete", **set_back), message(1, "Tracking area update accept", **set_back),
    )  # fmt: skip
    rows = procedures(*log)
    assert [(row["kind"], row["begin_ns"] is None) for row in rows] == [
        ("RRC set-up", True), ("tracking area update", True), ("tracking area update", False), ("RRC set-up", False)
    ]  # fmt: skip
    assert {(row["result"], row["reason"]) for row in rows} == {("cut", "the clock was set within it")}
    assert states(messages(*log), "RRC") == [("connected", 0, 1), ("idle", 101, 101)]


# --- states ---


def test_nothing_is_known_before_the_first_proof() -> None:
    tables = messages(message(0, "Paging"), message(5, "MeasurementReport"), message(6, "RRCConnectionRequest"))
    assert states(tables, "RRC") == [("connected", 5, 6), ("idle", 6, 6)]
    assert [row["error_ns"] for row in states_of(tables).rows() if row["machine"] == "RRC"] == [None, 10**9 + 1000]
    assert states(tables, "EMM") == []


def test_messages_of_the_leg_do_not_prove_a_connection_of_nr() -> None:
    assert states(messages(message(0, "RRCReconfiguration"), message(1, "RRCReconfiguration")), "RRC") == []


def test_dual_connectivity_ends_with_a_handover_to_lte_and_is_unknown_without_the_set_up() -> None:
    handed_over = messages(
        message(0, "RRCSetup"),
        message(1, "MobilityFromNRCommand", rat="NR", layer="rrc", logical_channel="DL-DCCH"),
        message(2, "RRCConnectionReconfigurationComplete"), message(9, "RRCConnectionRelease"),
    )  # fmt: skip
    assert states(handed_over, "DC") == [("NR", 0, 2), ("LTE only", 2, 9), ("none", 9, 9)]
    without = messages(message(0, "RRCConnectionRelease"), message(3, "RRCConnectionReconfiguration"))
    assert states(without, "DC") == [("none", 0, 3)]


def test_a_connection_of_lte_ends_where_the_phone_is_in_gsm() -> None:
    tables = messages(
        message(0, "RRCConnectionSetupComplete"),
        message(5, "MobilityFromEUTRACommand", layer="rrc", logical_channel="DL-DCCH"),
        message(6, "Handover Complete", layer="rr", rat="GSM"),
        message(60, "Measurement Report", layer="rr", rat="GSM"),
    )
    assert states(tables, "RRC") == [("connected", 0, 6)]


def test_an_inactive_phone_of_lte_stays_inactive_while_it_asks_to_resume() -> None:
    tables = messages(
        message(0, "RRCConnectionRelease", elements="rrc-InactiveConfig"),
        message(1, "RRCConnectionResumeRequest", layer="rrc", logical_channel="UL-CCCH"),
        message(2, "RRCConnectionSetup"),
    )  # fmt: skip
    assert states(tables, "RRC") == [("inactive", 0, 2), ("connected", 2, 2)]


def test_a_release_ends_a_service_request_and_not_the_registration() -> None:
    tables = messages(
        message(0, "Attach complete"), message(1, "Extended service request"), message(2, "RRCConnectionRelease"),
        message(60, "MeasurementReport"),
    )  # fmt: skip
    assert states(tables, "EMM") == [("registered", 0, 1), ("service-request-initiated", 1, 2), ("registered", 2, 60)]


def test_who_attaches_has_no_bearer() -> None:
    tables = messages(
        message(0, "Attach request"), message(1, "Activate default EPS bearer context accept", bearer=5),
        message(2, "Tracking area update reject", cause_number=42), message(3, "Attach request"),
        message(4, "MeasurementReport"),
    )  # fmt: skip
    assert states(tables, "session") == [("active", 1, 3), ("none", 3, 4)]
    assert ("deregistered", 2, 3) in states(tables, "EMM")


def test_sessions_of_another_core_network_are_forgotten_with_the_registration_here() -> None:
    """A session of 5GS has another number in EPS: it would stay active for ever."""
    session = message(1, "PDU session establishment accept", bearer=1, rat="NR", layer="nas")
    tables = messages(
        session, message(3, "Tracking area update accept"),
        message(4, "Activate default EPS bearer context accept", bearer=5),
        message(5, "Deactivate EPS bearer context accept", bearer=5), message(6, "MeasurementReport"),
    )  # fmt: skip
    assert states(tables, "session") == [("active", 1, 3), ("active", 4, 5)]


def test_messages_of_the_leg_do_not_change_the_carriers_of_lte() -> None:
    leg = {"rat": "NR", "logical_channel": "UL-DCCH", "layer": "rrc"}
    tables = messages(
        message(0, "RRCConnectionSetup"), message(1, "RRCReconfiguration", elements="sCell+1", transaction=1, **leg),
        message(2, "RRCReconfigurationComplete", transaction=1, **leg), message(3, "MeasurementReport"),
    )  # fmt: skip
    assert states(tables, "CA") == [("none", 0, 3)]


def test_switching_off_deregisters_at_once() -> None:
    tables = messages(message(0, "EMM information"), message(1, "Detach request", elements="switchOff"))
    assert states(tables, "EMM") == [("registered", 0, 1), ("deregistered", 1, 1)]


def test_a_request_whose_answer_is_lost_holds_no_longer_than_its_timer() -> None:
    tables = messages(message(0, "Tracking area update request"), message(30, "Paging"), message(40, "Paging"))
    assert states(tables, "EMM") == [("tracking-area-updating-initiated", 0, 30)]


# --- without a diagnostic log ---


def answer(at: float, source: str, **more: object) -> Row:
    polled = {"asked_ns": at_ns(at - 0.01), "answered_ns": at_ns(at)}
    return {"at": at, "source": source, "role": "serving", **polled} | more


def test_answers_of_a_modem_give_states_with_the_interval_as_their_error() -> None:
    rows = [
        answer(at, "+CEREG", registration=stat, rat="LTE") for at, stat in ((0, 1), (5, 1), (10, 2), (15, 5), (20, 4))
    ]
    rows += [answer(at, "+QENG", state=word) for at, word in ((1, "NOCONN"), (6, "CONNECT"), (11, "LIMSRV"))]
    unasked = {"at": 12.0, "source": "+CSCON", "state": "IDLE", "asked_ns": at_ns(12), "answered_ns": at_ns(12)}
    tables = {"radio": table_of(RADIO, [*rows, unasked])}
    assert states(tables, "EMM") == [("registered", 0, 10), ("deregistered", 10, 15), ("registered", 15, 20)]
    assert states(tables, "RRC") == [("idle", 1, 6), ("connected", 6, 6), ("idle", 12, 12)]
    errors = [(row["source"], row["error_ns"]) for row in states_of(tables).rows() if row["begin_ns"] > at_ns(2)]
    assert errors == [
        ("+QENG", 5 * 10**9), ("+CEREG", 5 * 10**9), ("+CSCON", None), ("+CEREG", 5 * 10**9)
    ]  # fmt: skip


def test_a_gap_of_the_log_ends_what_is_known() -> None:
    radio = table_of(RADIO, [answer(at, "mServiceState", state="IN_SERVICE", rat="LTE") for at in (0, 1, 60, 61)])
    gaps = table_of(GAPS, [{"at": 2, "until_ns": at_ns(59), "count": 50, "reason": "unplugged"}])
    assert states({"radio": radio, "gaps": gaps}, "registration") == [("registered", 0, 1), ("registered", 60, 61)]


def test_the_log_of_android_gives_service_and_data() -> None:
    events = table_of(
        PHONE_EVENTS,
        [
            {"at": 0, "event": "gsm_service_state_change", "text": "[0,0,1,1]"},
            {"at": 5, "event": "gsm_service_state_change", "text": "[1,1,0,0]"},
            {"at": 6, "event": "gsm_data_state_change", "text": "[DISCONNECTED,CONNECTED]"},
            {"at": 7, "event": "gsm_data_state_change", "text": "[a,b" + "\x1b]0;" * 20},
            {"at": 9, "event": "call_drop", "text": "[CONNECTED]"},
        ],
    )
    tables = {"phone_events": events}
    assert states(tables, "registration") == [("deregistered", 0, 5), ("registered", 5, 5)]
    assert states(tables, "session") == [("active", 6, 6)]


# --- any log ---


ELEMENTS = st.sampled_from(["", "sCell+1", "sCell+2 sCell-1", "sCell-9x", "switchOff", "suspendConfig"])


@st.composite
def logs(draw: st.DrawFn) -> dict[str, Table]:
    """Return any messages of two cards, with clocks that are set and times out of order."""
    names = st.sampled_from([*CHANNELS, *NAS]) | st.text(max_size=8)
    rows, clock, at = [], 0, 0.0
    for _ in range(draw(st.integers(0, 30))):
        at += draw(st.floats(-0.5, 0.5) | st.floats(0, 20))
        if draw(st.integers(0, 9)) == 0:
            clock, at = clock + 1, draw(st.floats(0, 1e5))
        more = {
            "modem": draw(st.integers(-1, 1)), "clock": clock, "transaction": draw(st.integers(-1, 2)),
            "encrypted": draw(st.integers(0, 1)), "elements": draw(ELEMENTS),
            "cause_number": draw(st.integers(-1, 20)), "bearer": draw(st.integers(-1, 7)),
        }  # fmt: skip
        rows.append(message(at, draw(names), **more))
    return messages(*rows)


@given(logs())
@examples(30)
def test_any_log_gives_ordered_states_and_procedures_of_one_card(tables: dict[str, Table]) -> None:
    signalling = tables["signalling"]
    card_of = dict(zip(signalling["frame"].tolist(), signalling["modem"].tolist(), strict=True))
    made = procedures_of(tables)
    for row in made.rows():
        card = -1 if row["card"] is None else row["card"]
        assert {card_of[int(frame)] for frame in row["frames"].split()} <= {card}
        assert row["duration_ns"] is None or row["duration_ns"] >= 0
        assert row["result"] != "cut" or row["duration_ns"] is None
        assert None in (row["begin_ns"], row["end_ns"]) or row["begin_ns"] <= row["end_ns"]
        assert (row["begin_ns"] is None) <= (row["reason"] != "")
    for _, rows in _chains(states_of(tables)):
        for before, after in pairwise(rows):
            assert before["begin_ns"] <= before["end_ns"] <= after["begin_ns"]
            assert before["end_frame"] is None or before["end_frame"] <= after["begin_frame"]


@given(logs(), st.integers(0, 30))
@examples(40)
def test_a_card_alone_and_the_begin_of_a_log_give_the_same(tables: dict[str, Table], frames: int) -> None:
    signalling = tables["signalling"]
    both = [row for row in procedures_of(tables).rows() if row["card"] == 0]
    alone = {"signalling": signalling.take(signalling["modem"] == 0)}
    of_one = list(procedures_of(alone).rows())
    for row in (*both, *of_one):  # whether the log ends there, or its clock was set, depends on the other card
        row["reason"] = row["reason"] if row["result"] != "cut" else ""
    assert of_one == both
    begin = {"signalling": signalling.take(signalling["frame"] <= frames)}
    ended = [row for row in procedures_of(begin).rows() if row["result"] in ("rejected", "failed", "replaced")]
    frames_of = {(row["kind"], row["begin_frame"], row["end_frame"]) for row in procedures_of(tables).rows()}
    assert {(row["kind"], row["begin_frame"], row["end_frame"]) for row in ended} <= frames_of


def _chains(states: Table) -> list[tuple[object, list[Row]]]:
    """Return the states of each card and machine within one clock: those from one end of the log to the next."""
    chains: dict[object, list[Row]] = {}
    rows = sorted(states.rows(), key=lambda row: row["begin_frame"])
    closed: dict[object, int] = {}
    for row in rows:
        key = row["card"], row["machine"]
        chains.setdefault((*key, closed.get(key, 0)), []).append(row)
        closed[key] = closed.get(key, 0) + (row["end_frame"] is None)
    return list(chains.items())


@pytest.mark.parametrize("text", ["'; rm -rf /", "=1+1", "<script>", "\u202eevil", "x" * 500])
def test_hostile_texts_stay_text(text: str) -> None:
    (row,) = procedures(message(0, "RRCConnectionRequest", cause=text), message(1, "RRCConnectionReject", cause=text))
    assert text.startswith(row["cause"]) and text.startswith(row["purpose"])  # noqa: PT018
    assert procedures(message(0, text)) == []
    assert len(states_of(messages(message(0, text)))) == 0


def test_no_messages_are_no_rows() -> None:
    assert len(procedures_of({})) == len(states_of({})) == 0
    nameless = messages(message(0, "RRCConnectionRequest") | {"time_ns": np.iinfo(np.int64).min})
    assert len(procedures_of(nameless)) == 0
