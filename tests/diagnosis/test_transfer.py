"""A transfer brings together what every log of a session says of one direction of one connection."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.model.relation import Clock
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from multitracer.tables import NA
from tests.narrowed import known

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DOWN = """
[tcp]
mtu_bytes = 512
[[traffic]]
bytes = 5_000
direction = "down"
[clock]
offset_s = 0.8
skew_ppm = 30
"""


def test_an_upload_has_the_logs_of_both_hosts_on_their_sides(transfer_of: Callable[..., Transfer]) -> None:
    transfer = transfer_of("fig12-flow-control")
    assert known(transfer.near).host == "mobile"
    assert known(transfer.far).host == "fixed"
    assert transfer.is_complete
    assert transfer.is_sender_trace
    assert transfer.sender["payload_bytes"][transfer.data].sum() == 50_000
    assert len(transfer.state) > 0
    assert (transfer.speed, transfer.slot_ns) == (1.0, 20_000_000)


def test_a_download_turns_the_sides_and_its_time_begins_with_the_senders_own_syn(
    transfer_of: Callable[..., Transfer],
) -> None:
    transfer = transfer_of("down", DOWN)
    assert known(transfer.near).host == "fixed"
    assert known(transfer.far).host == "mobile"
    assert transfer.reverse
    first = transfer.sent[0]
    assert transfer.begin_ns == transfer.sender["time_ns"][first]
    assert transfer.sender["flags"][first] & 0x12 == 0x12


def test_the_receivers_stamps_come_onto_the_senders_clock_by_the_graph_of_clocks(
    transfer_of: Callable[..., Transfer],
) -> None:
    transfer = transfer_of("down", DOWN)  # the sender's clock is 0.8 s ahead
    stamps = known(transfer.receiver)["time_ns"]
    moved = transfer.receiver_time(stamps)
    assert np.abs(moved - stamps - 800_000_000).max() < 3_000_000
    clocks = known(known(transfer.recording).clocks)
    by_graph = clocks.place(stamps, Clock(transfer.receiver_host), Clock(transfer.sender_host))
    assert np.array_equal(moved, by_graph.time_ns)


def test_without_a_link_log_the_clock_comes_from_the_captures(session_of: Callable[..., Path], tmp_path: Path) -> None:
    folder = tmp_path / "no-link"
    shutil.copytree(session_of("down", DOWN), folder)
    for log in folder.glob("*/rlp.pcapng"):
        log.unlink()
    transfer = Transfer.of(read(folder))
    assert transfer.near is None
    assert transfer.far is None
    stamps = known(transfer.receiver)["time_ns"]
    clocks = known(known(transfer.recording).clocks)
    bound_ns = clocks.place(stamps, Clock(transfer.receiver_host), Clock(transfer.sender_host)).bound_ns
    off_by_ns = np.abs(transfer.receiver_time(stamps) - stamps - 800_000_000)
    assert (off_by_ns <= bound_ns + 1_000_000).all()
    assert bound_ns.max() < 1_000_000_000


def test_pairs_join_the_two_captures_row_by_row(transfer_of: Callable[..., Transfer]) -> None:
    transfer = transfer_of("down", DOWN)
    pairs, receiver = known(transfer.data_pairs), known(transfer.receiver)
    both = (pairs.sent != NA) & (pairs.arrived != NA)
    assert both.sum() == len(transfer.sent)
    assert np.array_equal(transfer.sender["ip_id"][pairs.sent[both]], receiver["ip_id"][pairs.arrived[both]])
    back = known(transfer.ack_pairs)
    assert np.array_equal(receiver["ip_id"][back.sent], transfer.sender["ip_id"][back.arrived])
