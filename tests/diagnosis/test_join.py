"""The join tells of each packet which frames carried it and what became of it, as the truth does."""

from __future__ import annotations

import csv
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.recording.join import Fate, Join, join
from multitracer.tables import NA, NOT_A_TIME
from tests.narrowed import known

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from multitracer.recording.transfer import Transfer

TRUE_FATE = {
    "delivered": {Fate.DELIVERED, Fate.REFUSED},
    "damaged": {Fate.DAMAGED},
    "lost": {Fate.BROKEN, Fate.TOSSED},
    "queued": {Fate.QUEUED},
}
STAGES = ("queue_ns", "sending_ns", "recovery_ns", "air_ns", "far_buffer_ns")

TOSS = """
[tcp]
mtu_bytes = 512
timestamps = false
[link]
header_compression = "vj"
[[traffic]]
bytes = 40_000
[[event]]
kind = "reset"
at_s = 30
"""
ONLY_RADIO = """
[tcp]
mtu_bytes = 512
[link]
n2 = 20
[link.up]
kind = "independent"
rate = 0.1
[link.down]
kind = "independent"
rate = 0.05
[[traffic]]
bytes = 20_000
"""
BESIDE_THE_STREAM = """
[tcp]
mtu_bytes = 576
[link]
error_control = "by-protocol"
[[traffic]]
bytes = 20_000
[[traffic]]
bytes = 8_000
transport = "wtcp"
"""
"""The second transfer's packets go in UI frames: both logs name them, and no numbered frame carries them."""
OWN = {"toss": TOSS, "lossy": ONLY_RADIO}


def truth_of(folder: Path, host: str) -> dict[tuple[int, int], str]:
    with (folder / "truth" / "segments.csv").open(newline="") as stream:
        lines = [line for line in csv.DictReader(stream) if line["host"] == host]
    return {(int(line["ip_id"]), int(line["seq"])): line["fate"] for line in lines}


def joined(transfer: Transfer) -> Join:
    found = join(transfer)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "name",
    ["fig8-resets-vj", "fig8-resets-plain", "fig10-backoff", "fig5-typical", "second-connection", "download", *OWN],
)
def test_the_fate_of_every_packet_is_the_truth(
    name: str, session_of: Callable[..., Path], transfer_of: Callable[..., Transfer]
) -> None:
    transfer = transfer_of(name, OWN.get(name))
    found = joined(transfer)
    truth = truth_of(session_of(name, OWN.get(name)), known(transfer.near).host)
    events, carriages = known(transfer.near).events, found.carriages
    for row, fate in zip(carriages["event_row"], carriages["fate"], strict=True):
        true = truth[int(events["ip_id"][row]), int(events["seq"][row])]
        assert Fate(fate) in TRUE_FATE[true]
    sender = transfer.sender
    own = set(zip(sender["ip_id"].tolist(), sender["seq"].tolist(), strict=True))
    dropped = {(int(sender["ip_id"][row]), int(sender["seq"][row])) for row in found.dropped}
    assert dropped == {key for key, fate in truth.items() if fate == "dropped" and key in own}


def test_packets_beside_the_numbered_stream_take_no_place_in_it(transfer_of: Callable[..., Transfer]) -> None:
    transfer = transfer_of("beside", BESIDE_THE_STREAM)
    events, carriages = known(transfer.near).events, joined(transfer).carriages
    beside = (events["event"] == "ppp_sent") & (events["offset_bytes"] == NA)
    assert beside.sum() > 10
    assert (events["seq"][beside] == NA).all()
    assert (carriages["segment_row"] != NA).all()
    assert set(carriages["fate"].tolist()) == {Fate.DELIVERED}, "no frame is lost"
    assert len(carriages) == len(transfer.sent)


def test_each_way_to_lose_a_header_is_told_apart(transfer_of: Callable[..., Transfer]) -> None:
    damaged = Counter(joined(transfer_of("fig8-resets-vj")).carriages["fate"].tolist())
    tossed = Counter(joined(transfer_of("toss", TOSS)).carriages["fate"].tolist())
    assert (damaged[Fate.DAMAGED], damaged[Fate.TOSSED]) == (20, 0)
    assert tossed[Fate.DAMAGED] == 0
    assert tossed[Fate.TOSSED] > 0


@pytest.mark.parametrize("name", ["clean-bulk", "lossy", "fig8-resets-vj"])
def test_frames_carry_every_octet_of_what_arrived(name: str, transfer_of: Callable[..., Transfer]) -> None:
    transfer = transfer_of(name, OWN.get(name))
    found = joined(transfer)
    frames, chunks, carriages = known(transfer.near).frames, found.chunks, found.carriages
    first = frames["attempt"][chunks["frame_row"]] == 1
    carried = np.bincount(chunks["carriage"][first], chunks["bytes"][first], len(carriages))
    arrived = carriages["fate"] == Fate.DELIVERED
    assert np.array_equal(carried[arrived], carriages["wire_bytes"][arrived])
    per_frame = np.bincount(chunks["frame_row"], chunks["share"])
    assert np.allclose(per_frame[np.unique(chunks["frame_row"])], 1)


def test_frames_of_a_segment_say_how_often_each_was_sent(transfer_of: Callable[..., Transfer]) -> None:
    transfer = transfer_of("lossy", ONLY_RADIO)
    found = joined(transfer)
    worst = int(np.argmax(found.carriages["transmissions"] - found.carriages["frames"]))
    rows = found.frames_of(worst)
    offsets: Counter[int] = Counter(known(transfer.near).frames["offset_bytes"][rows].tolist())
    assert len(offsets) == found.carriages["frames"][worst]
    assert sum(offsets.values()) == found.carriages["transmissions"][worst]
    assert max(offsets.values()) > 1
    segment = int(found.carriages["segment_row"][worst])
    assert worst in found.of_segment(segment)
    assert found.carriage_of[segment] == worst


@pytest.mark.parametrize("name", ["clean-bulk", "lossy", "fig5-typical"])
def test_the_five_stages_add_up_to_the_way_from_queue_to_host(name: str, transfer_of: Callable[..., Transfer]) -> None:
    transfer = transfer_of(name, OWN.get(name))
    carriages = joined(transfer).carriages
    arrived = (carriages["fate"] == Fate.DELIVERED) & (carriages["queued_tick"] != NA)
    total = sum(carriages[stage][arrived] for stage in STAGES)
    way = (carriages["arrived_tick"] - carriages["queued_tick"])[arrived] * transfer.slot_ns
    assert np.array_equal(total, way)
    for stage in STAGES:
        assert (carriages[stage][arrived] >= 0).all()
    recovered = carriages["recovery_ns"][arrived].max()
    assert (recovered > 0) == (name != "clean-bulk")


def test_payload_is_new_once(transfer_of: Callable[..., Transfer]) -> None:
    for name, size in (("fig8-resets-vj", 100_000), ("fig10-backoff", 60_000), ("download", 100_000)):
        assert joined(transfer_of(name)).carriages["new_bytes"].sum() == size


def test_without_the_far_log_the_last_carriage_counts(transfer_of: Callable[..., Transfer]) -> None:
    from dataclasses import replace

    transfer = transfer_of("fig8-resets-vj")
    found = joined(replace(transfer, far=None))
    assert set(found.carriages["fate"].tolist()) == {Fate.UNKNOWN}
    assert found.carriages["new_bytes"].sum() == 100_000
    assert (found.carriages["recovery_ns"] == NOT_A_TIME).all()
    segments = found.carriages["segment_row"]
    again = np.isin(segments, transfer.retransmitted)
    assert (found.carriages["new_bytes"][again] > 0).all()
