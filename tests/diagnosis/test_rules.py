"""Each diagnosis fires where its cause was put, names its evidence, and fires nowhere else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from multitracer.diagnosis import rules
from multitracer.diagnosis.account.uses import Use
from multitracer.diagnosis.diagnose import channel_use, diagnose
from multitracer.diagnosis.finding import Finding
from multitracer.diagnosis.limits.names import Limit, LimitSubtype
from multitracer.diagnosis.rules import RULES
from multitracer.diagnosis.rules.radio.signalling import SignallingRule
from multitracer.schemas.radio import RADIO
from multitracer.tables import NA, Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.recording.transfer import Transfer

    TransferOf = Callable[..., Transfer]

_HEAD = "[tcp]\nmtu_bytes = 512\n[[traffic]]\nbytes = {}\n"
OWN = {
    "spurious": _HEAD.format(30_000) + '[[event]]\nkind = "xoff"\nat_s = 4\nduration_s = 9\n',
    "competing": "[link]\nn2 = 60\n" + _HEAD.format(30_000) + '[[event]]\nkind = "fade"\nat_s = 3\nduration_s = 8\n',
    "blackout": "[link]\nn2 = 60\n" + _HEAD.format(30_000) + '[[event]]\nkind = "fade"\nat_s = 12\nduration_s = 14\n',
    "dropped": 'limit_s = 200\n[link]\nwhen_exhausted = "drop-call"\n'
    + _HEAD.format(60_000)
    + '[[event]]\nkind = "fade"\nat_s = 20\nduration_s = 60\n',
}
"""Runs that are built to have what the paper's have not."""

DEEP = {"link-flow-control", "overbuffered-link"}
"""Every transfer that keeps this link busy has these: the network drains it at 960 of 1200 bytes/s, and 8 KB
stand before a link whose capacity is 1 KB."""
QUEUES = {"bufferbloat"}
"""What the same queue is called on any network, by lower limits; a part of the incident."""
LOSSES = DEEP | {"local-buffer-overflow"}
RESET = DEEP | {"link-reset"}
EXPECTED = {
    "clean-bulk": DEEP,
    "download": LOSSES,
    "fig4-slow-start": LOSSES,
    "fig5-typical": LOSSES | {"rlp-retransmission-burst"},
    "fig7-overflow": LOSSES,
    "fig8-resets-plain": RESET,
    "fig8-resets-vj": RESET | {"header-decompressor-failure", "ack-loss"},
    "fig10-backoff": RESET | {"header-decompressor-failure", "ack-loss", "exponential-back-off"},
    "fig11-fade": {"overbuffered-link", "rlp-retransmission-burst"},
    "fig12-flow-control": DEEP,
    "fade-n2-20": DEEP | {"rlp-retransmission-burst"},
    "overbuffered": LOSSES,
    "radio-poor": DEEP | {"radio-limited", "rlp-retransmission-burst"},
    "aqm-ecn": {"link-flow-control", "ecn-marked"},
    "small-sndbuf": set(),
    "slow-reader": {"receiver-limited"},
    "aborted-download": DEEP | {"stale-data", "reset-by-peer"},
    "spurious": DEEP | {"spurious-timeout", "exponential-back-off"},
    "competing": DEEP
    | {"competing-retransmission", "spurious-timeout", "exponential-back-off", "rlp-retransmission-burst"},
    "blackout": DEEP | {"blackout", "competing-retransmission", "spurious-timeout", "rlp-retransmission-burst"},
    "dropped": {"overbuffered-link", "dropped-call"},
}


@pytest.fixture
def found(transfer_of: TransferOf) -> Callable[[str], Diagnosis]:
    return lambda name: diagnose(transfer_of(name, OWN.get(name)))


def _kinds(diagnosis: Diagnosis) -> set[str]:
    return {finding.kind for finding in diagnosis.findings}


def _of(diagnosis: Diagnosis, kind: str) -> list[Finding]:
    return [finding for finding in diagnosis.findings if finding.kind == kind]


@pytest.mark.parametrize("name", EXPECTED)
def test_each_diagnosis_fires_where_its_cause_is_and_nowhere_else(found: Callable[[str], Diagnosis], name: str) -> None:
    kinds = _kinds(found(name))
    assert kinds - QUEUES == EXPECTED[name]
    assert "bufferbloat" not in kinds or "overbuffered-link" in kinds


@pytest.mark.parametrize("name", EXPECTED)
def test_each_finding_rests_on_rows_that_are_there(found: Callable[[str], Diagnosis], name: str) -> None:
    diagnosis = found(name)
    tables = _tables(diagnosis.transfer)
    for finding in diagnosis.findings:
        assert finding.evidence, finding
        for place in finding.evidence:
            table, _, row = place.rpartition(":")
            assert 0 <= int(row) < len(tables[table]), finding
        assert finding.begin_ns <= finding.end_ns
        assert 0 <= finding.cost_s <= diagnosis.account.total_s + 1e-9
        assert len(finding.sentence) <= 400


def _tables(transfer: Transfer) -> dict[str, Any]:
    tables: dict[str, Any] = {"sender": transfer.sender, "receiver": transfer.receiver}
    for name, side in (("near", transfer.near), ("far", transfer.far)):
        if side is not None:
            tables |= {f"{name}.events": side.events, f"{name}.frames": side.frames}
    return tables


def test_every_rule_fires_here_or_has_tests_of_its_own() -> None:
    fired = set().union(*EXPECTED.values()) | {"handover"}
    others = [path.read_text() for path in Path(__file__).parent.glob("test_*.py") if path != Path(__file__)]
    kinds = {rule.KIND for rule in RULES}
    assert fired <= kinds
    assert kinds - fired <= {kind for kind in kinds if any(f'"{kind}"' in text for text in others)}


def test_every_rule_is_named_as_its_file_and_says_what_would_help() -> None:
    assert len(RULES) > 15, "found in the folders, too"
    for rule in RULES:
        if not isinstance(rule, SignallingRule):  # one module has the rules of one log
            assert rule.__name__.rpartition(".")[2].replace("_", "-") == rule.KIND  # type: ignore[attr-defined]
        assert rule.HELP.endswith(".")  # type: ignore[attr-defined]


def test_a_rule_without_help_and_one_beside_the_folders_still_work(
    found: Callable[[str], Diagnosis], monkeypatch: pytest.MonkeyPatch
) -> None:
    diagnosis = found("clean-bulk")
    plug_in = SimpleNamespace(
        KIND="own",
        find=lambda found: [Finding("own", found.transfer.begin_ns, found.transfer.end_ns, 999.0, None, (), "")],
    )
    monkeypatch.setattr(rules, "RULES", (*rules.RULES, plug_in))
    first = diagnose(diagnosis.transfer).incidents[0]
    assert (first.kind, first.help, first.count) == ("own", "", 1)


# --- what single findings say ---


def test_paper_finds_no_spurious_timeouts_and_no_competing_retransmissions(found: Callable[[str], Diagnosis]) -> None:
    paper = [name for name in EXPECTED if name.startswith("fig")]
    assert len(paper) >= 8
    for name in paper:
        assert not _kinds(found(name)) & {"spurious-timeout", "competing-retransmission"}


def test_reset_with_header_compression_costs_what_the_paper_says(found: Callable[[str], Diagnosis]) -> None:
    """About 14 to 18 s for each: damaged segments, then a timeout that a deep queue has inflated."""
    failures = _of(found("fig8-resets-vj"), "header-decompressor-failure")
    assert len(failures) == 2
    assert all(10 < failure.cost_s < 20 for failure in failures)
    assert all(any(place.startswith("near.events:") for place in each.evidence) for each in failures)
    resets = _of(found("fig8-resets-vj"), "link-reset")
    named = {place for failure in failures for place in failure.evidence}
    assert {reset.evidence[0] for reset in resets} <= named, "the reset is the evidence"


@pytest.mark.parametrize(("at_s", "lasts_s"), [(10, 3.5), (11, 3.6), (12, 3.5), (13, 8)])
def test_reset_that_both_ends_ask_for_is_one(transfer_of: TransferOf, at_s: int, lasts_s: float) -> None:
    """A fade of both directions exhausts N2 at both ends; the other end's SABM may come when ours is done."""
    fade = f'[[event]]\nkind = "fade"\nat_s = {at_s}\nduration_s = {lasts_s}\ndirection = "both"\n'
    transfer = transfer_of(f"both-{at_s}", "[link]\nn2 = 6\n" + _HEAD.format(20_000) + fade)
    assert transfer.near is not None
    (reset,) = _of(diagnose(transfer), "link-reset")
    assert len(reset.evidence) == len(transfer.near.rows("reset_done"))
    assert ("the other end asked for one, too" in reset.sentence) == (len(reset.evidence) > 1)
    assert len(reset.evidence) == 2 or at_s > 10


def test_back_off_doubles(found: Callable[[str], Diagnosis]) -> None:
    (row,) = _of(found("fig10-backoff"), "exponential-back-off")
    assert "3 timeouts in a row" in row.sentence
    assert row.cost_s > 60


def test_flow_control_tells_effective_and_nominal_rate(found: Callable[[str], Diagnosis]) -> None:
    (only,) = _of(found("clean-bulk"), "link-flow-control")
    assert "7.71 kbit/s of the 9.6 kbit/s" in only.sentence
    assert only.cost_s == pytest.approx(found("clean-bulk").account.seconds[Use.XOFF])


def test_stale_data_is_what_the_queue_still_held(found: Callable[[str], Diagnosis]) -> None:
    (stale,) = _of(found("aborted-download"), "stale-data")
    assert stale.cost_bytes == 17 * 460
    assert 5 < stale.cost_s < 12


def test_what_the_receiver_no_longer_wanted_was_not_lost(found: Callable[[str], Diagnosis]) -> None:
    limited = found("aborted-download").limited
    seconds = {share.limit: share.seconds for share in limited.shares if share.part is LimitSubtype.NONE}
    assert Limit.RECOVERY not in seconds, "nothing was repaired"
    assert seconds[Limit.LINK] > 35, "it carried what was queued to the end"


def test_dropped_call_comes_first(found: Callable[[str], Diagnosis]) -> None:
    diagnosis = found("dropped")
    assert diagnosis.findings[0].kind == "dropped-call"
    assert diagnosis.account.outcome == "dropped"
    assert "never completed" in channel_use(diagnosis)


def test_headline_names_the_lost_time_that_no_finding_explains(found: Callable[[str], Diagnosis]) -> None:
    assert "he receiver's window" in channel_use(found("slow-reader"))


# --- the radio's own readings ---


def _radio(transfer: Transfer, **columns: list[Any]) -> Transfer:
    """Return the transfer with a radio log that has one reading a second."""
    count = len(next(iter(columns.values())))
    table = Table.empty(RADIO)
    values: dict[str, Any] = {}
    for column in RADIO:
        array = table[column.name]
        missing: Any = {"f": np.nan, "i": NA}.get(array.dtype.kind, array.dtype.type())
        values[column.name] = np.full(count, missing, dtype=array.dtype)
    values["time_ns"] = transfer.begin_ns + np.arange(count) * NS_PER_S
    values["role"][:] = "serving"
    for name, given in columns.items():
        values[name] = np.array(given, dtype=table[name].dtype)
    with_radio = replace(transfer)
    vars(with_radio)["radio"] = (("mobile", Table(RADIO, values)),)
    return with_radio


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"rssi_dbm": [-113.0] * 30 + [-90.0] * 30}, "no signal"),
        ({"bler_pct": [20.0] * 20 + [1.0] * 40}, "blocks failed"),
        ({"cell_busy_pct": [80.0] * 60}, "kept the cell busy"),
    ],
)
def test_radio_limits_by_its_readings(transfer_of: TransferOf, columns: dict[str, list[Any]], words: str) -> None:
    (only,) = _of(diagnose(_radio(transfer_of("clean-bulk"), **columns)), "radio-limited")
    assert words in only.sentence


def test_good_radio_limits_nothing(transfer_of: TransferOf) -> None:
    good = _radio(transfer_of("clean-bulk"), rssi_dbm=[-80.0] * 60, bler_pct=[1.0] * 60, cell_busy_pct=[10.0] * 60)
    assert "radio-limited" not in _kinds(diagnose(good))


def test_missing_readings_are_no_bad_radio(transfer_of: TransferOf) -> None:
    silent = _radio(transfer_of("clean-bulk"), rssi_dbm=[np.nan] * 60)
    assert "radio-limited" not in _kinds(diagnose(silent))


def test_change_of_cell_is_a_handover_and_neighbours_are_not(transfer_of: TransferOf) -> None:
    moved = _radio(transfer_of("clean-bulk"), cell_id=[7] * 30 + [9] * 30)
    (handover,) = _of(diagnose(moved), "handover")
    assert "7 before, 9 after" in handover.sentence
    assert handover.evidence == ("radio:29", "radio:30")
    beside = _radio(transfer_of("clean-bulk"), cell_id=[7, 9] * 30, role=["serving", "neighbour"] * 30)
    assert "handover" not in _kinds(diagnose(beside))


# --- what is handed over ---


def test_table_and_document_say_the_same_dearest_first(found: Callable[[str], Diagnosis]) -> None:
    diagnosis = found("fig8-resets-vj")
    table, document = diagnosis.table(), diagnosis.document()
    assert [each["kind"] for each in document["findings"]] == table["kind"].tolist()
    assert all(each["help"] and isinstance(each["numbers"], dict) for each in document["findings"])
    costs = table["cost_s"].tolist()
    assert costs == sorted(costs, reverse=True)
    account = document["account"]
    assert sum(account["seconds"].values()) == pytest.approx(account["total_s"], abs=1e-3)
    assert 0 < account["utilization"] < 1
