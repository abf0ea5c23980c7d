"""The account of a long transfer costs in proportion to its length."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.diagnosis.account.link_account import LinkAccount, link_account
from multitracer.diagnosis.account.uses import Use
from multitracer.recording.hosts import LinkSide
from multitracer.tables import NOT_A_TIME, Table
from tests.narrowed import known

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.recording.transfer import Transfer

NAME = "fig8-resets-vj"
SEGMENTS = 50_000


def repeated(table: Table, times: int, **steps: int) -> Table:
    """Return a table many times over; the named columns grow by their step from one to the next."""
    columns = {name: np.tile(values, times) for name, values in table.columns.items()}
    number = np.repeat(np.arange(times), len(table))
    for name, step in steps.items():
        values = columns[name].astype(np.int64)
        known = (values != -1) & (values != NOT_A_TIME) if table[name].dtype.kind == "i" else True
        grown = np.where(known, values + number * step, values)
        wraps = {"seq": 1 << 32, "ip_id": 1 << 16}.get(name)
        columns[name] = np.where(known, grown % wraps, grown) if wraps else grown
        columns[name] = columns[name].astype(table[name].dtype)
    return Table(table.schema, columns)


def longer(transfer: Transfer, times: int) -> Transfer:
    """Return the transfer many times in a row, as if it were one."""
    sender, slot_ns = transfer.sender, transfer.slot_ns
    slots = int(np.ptp(sender["time_ns"])) // slot_ns + 50
    units, packets = int(sender["end_bytes"][transfer.sent].max()), len(transfer.sent)
    again = repeated(sender, times, time_ns=slots * slot_ns, seq=units, ip_id=packets)
    data = again["reverse"] == transfer.reverse
    for column, grows in (("seq_bytes", data), ("end_bytes", data), ("ack_bytes", ~data)):
        again.columns[column] += np.where(grows, np.repeat(np.arange(times), len(sender)) * units, 0)
    alone = replace(transfer, sender=again, receiver=None, state=transfer.state.take(slice(0, 0)))

    def side(log: LinkSide) -> LinkSide:
        octets, number = int(log.frames["offset_bytes"].max()) + 1000, int(log.frames["frame"].max()) + 1
        common = {"time_ns": slots * slot_ns, "tick": slots, "offset_bytes": octets, "frame": number}
        events = repeated(log.events, times, **common, seq=units, ip_id=packets)
        return LinkSide(log.host, repeated(log.frames, times, **common), events, log.facts)

    return replace(alone, near=side(known(transfer.near)), far=side(known(transfer.far)))


def measured_memory(transfer: Transfer) -> tuple[LinkAccount, int]:
    tracemalloc.start()
    try:
        return link_account(transfer), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_grows_with_the_transfer_and_no_faster(transfer_of: Callable[..., Transfer]) -> None:
    short, long = (longer(transfer_of(NAME), times) for times in (20, 40))
    (some, used), (more, used_more) = measured_memory(short), measured_memory(long)
    assert used_more < 2.2 * used
    for use in (Use.USEFUL, Use.WASTED, Use.OUTAGE):
        assert more.seconds[use] == pytest.approx(2 * some.seconds[use], rel=0.01)
    assert more.payload_bytes == 2 * some.payload_bytes == 40 * 100_000


def test_fifty_thousand_segments_are_accounted(transfer_of: Callable[..., Transfer]) -> None:
    transfer = transfer_of(NAME)
    times = -(-SEGMENTS // len(transfer.sender))
    found = link_account(longer(transfer, times))
    assert found.payload_bytes == times * 100_000
    assert sum(found.seconds.values()) == pytest.approx(found.transfer.total_s)
