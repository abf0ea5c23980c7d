"""The account: every slot has a class, the classes sum to T, and its books agree with those of TCP."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.analysis import SegmentKind
from multitracer.diagnosis.account.link_account import LinkAccount, link_account
from multitracer.diagnosis.account.uses import Use, UseCause
from multitracer.lab.channel.gsm import LinkConfig
from multitracer.lab.scenario.library import bundled_names, load_scenario
from multitracer.tables import NA
from tests.diagnosis.rate import OFTEN_DEAD, by_rate
from tests.narrowed import known

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from multitracer.recording.transfer import Transfer

ONE_RESET = """
[tcp]
congestion = "newreno"
mtu_bytes = 512
timestamps = false
[link]
header_compression = "{compression}"
[[traffic]]
bytes = 230_000
[[event]]
kind = "reset"
at_s = 120
"""
BY_PROTOCOL = """
[tcp]
mtu_bytes = 576
[link]
error_control = "{error_control}"
[[traffic]]
bytes = 20_000
[[traffic]]
bytes = 8_000
transport = "wtcp"
"""
OWN = {
    "one-reset-vj": ONE_RESET.format(compression="vj-slot-id"),
    "one-reset-plain": ONE_RESET.format(compression="none"),
}
SLOW = {"typical-1450k"}  # half an hour of link; tested where it is recorded
CALLS = [name for name in bundled_names() if isinstance(load_scenario(name).link, LinkConfig)]
"""Contended links have another rule 2: test_contended.py."""
NAMES = [name for name in CALLS if name not in SLOW] + list(OWN)
ABORTED = {"aborted-download", "study-aborted"}


@pytest.fixture(scope="session")
def account_of(transfer_of: Callable[..., Transfer]) -> Callable[[str], LinkAccount]:
    done: dict[str, LinkAccount] = {}

    def compute(name: str) -> LinkAccount:
        if name not in done:
            done[name] = link_account(transfer_of(name, OWN.get(name)))
        return done[name]

    return compute


@pytest.mark.parametrize("name", NAMES)
def test_the_classes_sum_to_the_duration(name: str, account_of: Callable[[str], LinkAccount]) -> None:
    found = account_of(name)
    assert found.is_logged
    assert found.total_s == pytest.approx(found.transfer.total_s, abs=1e-6)
    assert sum(found.seconds.values()) == pytest.approx(found.transfer.total_s, abs=1e-6)
    assert found.seconds[Use.UNKNOWN] <= found.total_s / 1000
    uses = found.uses
    assert (uses["seconds"] > 0).all()
    assert (uses["end_ns"] >= uses["begin_ns"]).all()
    assert (np.diff(uses["begin_ns"]) >= 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_each_interval_links_to_what_began_it(name: str, account_of: Callable[[str], LinkAccount]) -> None:
    found = account_of(name)
    uses, transfer = found.uses, found.transfer
    tables = {
        "sender": transfer.sender,
        "near.frames": known(transfer.near).frames,
        "near.events": known(transfer.near).events,
        "far.frames": known(transfer.far).frames,
        "far.events": known(transfer.far).events,
    }
    linked = uses["row"] != NA
    assert linked[uses["use"] != Use.HANDSHAKE].all()  # before the first frame there is nothing to link to
    for source in np.unique(uses["source"][linked]):
        assert uses["row"][linked & (uses["source"] == source)].max() < len(tables[str(source)])
    resets = uses["row"][(uses["cause"] == UseCause.RESET) & (uses["use"] == Use.OUTAGE)]
    sources = uses["source"][(uses["cause"] == UseCause.RESET) & (uses["use"] == Use.OUTAGE)]
    for source, row in zip(sources.tolist(), resets.tolist(), strict=True):
        assert tables[source]["event"][row] == "reset_started"
    ended = uses["ended_row"][(uses["use"] == Use.IDLE_RTO) & (uses["ended_row"] != NA)]
    assert np.isin(ended, transfer.retransmitted).all()


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ABORTED])
def test_useful_payload_is_what_was_delivered(name: str, account_of: Callable[[str], LinkAccount]) -> None:
    found = account_of(name)
    transfer = found.transfer
    size = transfer.variables.parameters["traffic"][0]["bytes"]
    assert found.payload_bytes == size


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ABORTED])
def test_what_was_sent_again_was_dropped_wasted_or_redundant(
    name: str, account_of: Callable[[str], LinkAccount]
) -> None:
    found = account_of(name)
    transfer, joined = found.transfer, known(found.joined)
    dropped = joined.dropped[np.isin(joined.dropped, transfer.data)]
    carriages = joined.carriages.take(joined.carriages["segment_row"] != NA)
    in_vain = carriages["payload_bytes"] - carriages["new_bytes"]
    payload = transfer.sender["payload_bytes"]
    sent_again = payload[transfer.data].sum() - found.payload_bytes
    assert sent_again == payload[dropped].sum() + in_vain.sum()
    overlaps = (in_vain > 0) & (carriages["new_bytes"] > 0)
    if not overlaps.any():  # else one segment was sent again for two reasons
        assert len(transfer.retransmitted) == len(dropped) + (in_vain > 0).sum()


@pytest.mark.parametrize("name", NAMES)
def test_utilization_agrees_with_the_link_rate(name: str, account_of: Callable[[str], LinkAccount]) -> None:
    found = account_of(name)
    if found.seconds[Use.OUTAGE] > OFTEN_DEAD * found.total_s:
        pytest.skip("the radio was dead for so long that no backlog shows the link's rate")
    assert abs(found.utilization - by_rate(found)) < 0.025


def test_a_clean_transfer_uses_nearly_all(account_of: Callable[[str], LinkAccount]) -> None:
    found = account_of("clean-bulk")
    assert known(found.rounded_up_percent) >= 98
    assert found.seconds[Use.XOFF] > 40  # the 20 % by which the far end is slower
    assert found.seconds[Use.WASTED] == found.seconds[Use.REDUNDANT] == found.seconds[Use.IDLE_RTO] == 0


def test_a_reset_costs_a_window_and_a_timeout_only_with_header_compression(
    account_of: Callable[[str], LinkAccount],
) -> None:
    compressed, control = account_of("one-reset-vj"), account_of("one-reset-plain")
    assert known(compressed.rounded_up_percent) <= 95
    assert control.utilization > compressed.utilization + 0.03
    assert known(control.rounded_up_percent) >= 98
    assert 12 < compressed.lost_s - control.lost_s < 18
    by_cause = compressed.uses["cause"][compressed.uses["use"] == Use.WASTED]
    assert {UseCause.DECOMPRESSOR, UseCause.RESET} == set(by_cause.tolist())
    assert control.seconds[Use.IDLE_RTO] == 0


def test_two_resets_lie_where_they_were_worked_out_by_hand(account_of: Callable[[str], LinkAccount]) -> None:
    assert 0.77 <= account_of("fig8-resets-vj").utilization <= 0.80
    assert 0.955 <= account_of("fig8-resets-plain").utilization <= 0.98
    assert account_of("clean-bulk").utilization == pytest.approx(0.993, abs=0.003)


def test_a_poor_radio_lowers_the_throughput_not_the_utilization(
    session_of: Callable[..., Path], account_of: Callable[[str], LinkAccount]
) -> None:
    found = account_of("radio-poor")
    assert round(100 * found.utilization) == 99
    summary = json.loads((session_of("radio-poor") / "summary.json").read_text())
    assert round(summary["goodput_bytes_per_s"] * 8 / 1000, 1) == 7.0
    assert found.seconds[Use.ARQ] > 20


@pytest.mark.parametrize(
    ("name", "event"),
    [("one-reset-vj", "reset_started"), ("fig10-backoff", "reset_started"), ("slow-writer", "packet_dropped")],
)
def test_waiting_for_the_timer_links_to_what_lost_the_segment(
    name: str, event: str, account_of: Callable[[str], LinkAccount]
) -> None:
    found = account_of(name)
    waits = found.uses.take(found.uses["use"] == Use.IDLE_RTO)
    assert waits["source"][0] == "near.events"
    assert known(found.transfer.near).events["event"][waits["row"][0]] == event
    assert known(found.transfer.near).events["time_ns"][waits["row"][0]] <= waits["end_ns"][0]


def test_timeouts_of_figure_10_back_off(account_of: Callable[[str], LinkAccount]) -> None:
    found = account_of("fig10-backoff")
    waits = found.uses.take(found.uses["use"] == Use.IDLE_RTO)
    per_step = np.bincount(waits["back_off"], waits["seconds"])
    assert (np.diff(per_step[1:4]) > 0).all()
    assert found.seconds[Use.IDLE_RTO] > found.total_s / 2


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("slow-reader", Use.IDLE_RWND),
        ("small-sndbuf", Use.IDLE_SNDBUF),
        ("second-connection", Use.OTHER),
        ("fig11-fade", Use.OUTAGE),
        ("radio-poor", Use.ARQ),
        ("fig8-resets-vj", Use.REDUNDANT),
        ("fig8-resets-vj", Use.WASTED),
        ("fig7-overflow", Use.IDLE_CWND),
        ("aborted-download", Use.WASTED),
        ("clean-bulk", Use.HANDSHAKE),
        ("slow-writer", Use.IDLE_APP),
        ("fig10-backoff", Use.IDLE_RTO),
        ("clean-bulk", Use.XOFF),
        ("clean-bulk", Use.USEFUL),
    ],
)
def test_every_class_has_a_scenario(name: str, use: Use, account_of: Callable[[str], LinkAccount]) -> None:
    assert account_of(name).seconds[use] > 0.1


def test_a_segment_that_is_partly_new_is_split_by_bytes(account_of: Callable[[str], LinkAccount]) -> None:
    found = account_of("slow-writer")
    transfer = found.transfer
    partial = transfer.data[(transfer.sender["kind"][transfer.data] & SegmentKind.PARTIAL_RETRANSMISSION) != 0]
    carriages = known(found.joined).carriages
    again = known(found.joined).carriage_of[partial]
    both = (carriages["new_bytes"][again] > 0) & (carriages["new_bytes"][again] < carriages["payload_bytes"][again])
    assert both.any()
    row = int(partial[both][0])
    carriage = int(again[both][0])
    mine = (found.uses["source"] == "sender") & (found.uses["row"] == row)
    seconds = {
        use: found.uses["seconds"][mine & (found.uses["use"] == use)].sum() for use in (Use.USEFUL, Use.REDUNDANT)
    }
    share = carriages["new_bytes"][carriage] / carriages["payload_bytes"][carriage]
    assert seconds[Use.USEFUL] / sum(seconds.values()) == pytest.approx(share)


def test_waiting_before_a_loss_is_not_the_timers(account_of: Callable[[str], LinkAccount]) -> None:
    found = account_of("slow-writer")  # silence of the application, then a packet that the queue drops
    waits = found.uses.take(found.uses["use"] == Use.IDLE_RTO)
    (dropped_ns,) = found.transfer.sender["time_ns"][known(found.joined).dropped].tolist()
    assert 0 <= waits["begin_ns"][0] - dropped_ns <= found.transfer.slot_ns
    before = found.uses["use"][found.uses["end_ns"] == waits["begin_ns"][0]]
    assert before.tolist() == [Use.IDLE_APP]


def test_recovery_with_a_full_advertised_window_is_no_closed_window(account_of: Callable[[str], LinkAccount]) -> None:
    found = account_of("fig7-overflow")
    assert found.seconds[Use.IDLE_RWND] == 0
    recovering = account_of("fig8-resets-plain").uses
    assert UseCause.RECOVERY in recovering["cause"][recovering["use"] == Use.IDLE_CWND].tolist()


def test_without_a_link_log_there_is_no_account_of_it(account_of: Callable[[str], LinkAccount]) -> None:
    found = link_account(replace(account_of("clean-bulk").transfer, near=None, far=None))
    assert not found.is_logged
    assert len(found.uses) == 0
    assert math.isnan(found.total_s)
    assert math.isnan(found.utilization)
    assert set(found.document().values()) == {None}


def test_without_the_far_log_repeated_carriages_are_redundant_and_the_utilization_is_near(
    account_of: Callable[[str], LinkAccount],
) -> None:
    complete = account_of("one-reset-vj")
    near_only = link_account(replace(complete.transfer, far=None, receiver=None, at_receiver=None))
    assert near_only.is_logged
    assert near_only.seconds[Use.WASTED] == 0
    assert near_only.seconds[Use.REDUNDANT] == pytest.approx(
        complete.seconds[Use.REDUNDANT] + complete.seconds[Use.WASTED], rel=0.1
    )
    assert near_only.utilization == pytest.approx(complete.utilization, abs=0.015)


def test_frames_that_are_not_repeated_are_use_by_other_flows(transfer_of: Callable[..., Transfer]) -> None:
    """A datagram in UI frames has no place in the numbered stream; its slots are no repetition."""
    found = {
        how: link_account(transfer_of(how, BY_PROTOCOL.format(error_control=how))).seconds
        for how in ("reliable", "by-protocol")
    }
    assert found["by-protocol"][Use.OTHER] == pytest.approx(found["reliable"][Use.OTHER], rel=0.25)
    assert found["by-protocol"][Use.ARQ] < found["by-protocol"][Use.OTHER] / 3  # while the queue's last packet is out
