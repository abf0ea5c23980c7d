"""The account where logs are cut, one-sided or end with the call."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.diagnosis.account.link_account import link_account
from multitracer.diagnosis.account.uses import Use, UseCause
from multitracer.recording.hosts import LinkSide
from tests.narrowed import known

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.recording.transfer import Transfer

FADE = """
[tcp]
mtu_bytes = 512
[link]
when_exhausted = "{when}"
[[traffic]]
bytes = 40_000
[[event]]
kind = "fade"
at_s = 20
duration_s = 4
direction = "both"
"""


def test_a_dropped_call_ends_the_account_with_the_last_packet(transfer_of: Callable[..., Transfer]) -> None:
    found = link_account(transfer_of("dropped", FADE.format(when="drop-call")))
    assert found.outcome == "dropped"
    assert sum(found.seconds.values()) == pytest.approx(found.transfer.total_s, abs=1e-6)
    assert found.seconds[Use.UNKNOWN] == 0
    assert found.transfer.end_ns == found.transfer.sender["time_ns"].max()
    assert 0 < found.payload_bytes < 40_000


def test_a_fade_is_the_radios_until_it_resets_the_link(transfer_of: Callable[..., Transfer]) -> None:
    found = link_account(transfer_of("reset-by-fade", FADE.format(when="reset")))
    assert found.outcome == "complete"
    out = found.uses.take(found.uses["use"] == Use.OUTAGE)
    assert out["cause"].tolist() == [UseCause.RADIO, UseCause.RESET]
    assert out["begin_ns"][1] == out["end_ns"][0]
    assert 3.5 < out["seconds"].sum() < 5.5
    recovery = (found.uses["use"] == Use.IDLE_RTO) | (found.uses["cause"] == UseCause.RECOVERY)
    source, row = (found.uses[name][recovery][0] for name in ("source", "row"))
    assert (source, known(found.transfer.near).events["event"][row]) == ("near.events", "reset_started")
    assert found.payload_bytes == 40_000


def test_beyond_the_end_of_a_cut_link_log_nothing_is_claimed(transfer_of: Callable[..., Transfer]) -> None:
    transfer = transfer_of("reset-by-fade", FADE.format(when="reset"))
    cut_ns = transfer.begin_ns + 30_000_000_000

    def cut(side: LinkSide) -> LinkSide:
        frames, events = (t.take(t["time_ns"] < cut_ns) for t in (side.frames, side.events))
        return LinkSide(side.host, frames, events, side.facts)

    found = link_account(replace(transfer, near=cut(known(transfer.near)), far=cut(known(transfer.far))))
    assert sum(found.seconds.values()) == pytest.approx(transfer.total_s, abs=1e-6)
    assert found.seconds[Use.UNKNOWN] == pytest.approx(transfer.total_s - 30, abs=0.1)


def test_a_log_without_slot_numbers_is_no_link_log(transfer_of: Callable[..., Transfer]) -> None:
    transfer = transfer_of("reset-by-fade", FADE.format(when="reset"))
    near = known(transfer.near)
    frames = near.frames.take(np.arange(len(near.frames)))
    frames.columns["tick"] = np.full(len(frames), -1)
    found = link_account(replace(transfer, near=LinkSide("mobile", frames, near.events)))
    assert not found.is_logged


def test_a_direction_that_was_not_captured_has_no_account(transfer_of: Callable[..., Transfer]) -> None:
    transfer = transfer_of("reset-by-fade", FADE.format(when="reset"))
    only_acks = transfer.sender.take(transfer.acks)
    one_sided = replace(transfer, sender=only_acks, near=None, far=None, receiver=None, at_receiver=None)
    found = link_account(one_sided)
    assert not found.is_logged
    assert found.outcome == "dropped"
