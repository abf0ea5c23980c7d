"""What limited a transfer: a partition of its time, from every view of the bundled recordings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from multitracer.diagnosis.diagnose import diagnose, explain
from multitracer.diagnosis.limits.limited import Limited, limited
from multitracer.diagnosis.limits.names import Confidence, Limit, LimitSubtype, Viewpoint, by_limit
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from tests.conftest import SAMPLES
from tests.parsers.frames import EPOCH_S, Packet, ethernet, ipv4, pcap_file, tcp

if TYPE_CHECKING:
    from pathlib import Path

UPLOAD = SAMPLES / "cellular_upload"
CALLS = ("fig8-resets-vj", "fig10-backoff", "sack-modern", "download", "overbuffered", "typical-1450k")


def found_in(*path: Path) -> Limited:
    return diagnose(Transfer.of(read(*path))).limited


def test_an_outage_of_a_fast_link_is_one_and_the_rest_is_the_links() -> None:
    found = found_in(UPLOAD)
    assert found.view is Viewpoint.BOTH_ENDS
    sums = by_limit(found.shares)
    assert next(iter(sums)) is Limit.LINK
    assert 1.4 <= sums[Limit.OUTAGE] * found.total_s <= 2.6, "the link was dead for 1.4 s"
    assert [row.part for row in found.shares if row.limit is Limit.OUTAGE] == [LimitSubtype.BOTH]


@pytest.mark.parametrize("host", ["mobile", "fixed"])
def test_one_end_alone_says_the_same(host: str) -> None:
    complete, one = found_in(UPLOAD), found_in(UPLOAD / host / "tcp-0.pcap.gz")
    assert one.view is (Viewpoint.SENDER if host == "mobile" else Viewpoint.RECEIVER)
    ours, theirs = by_limit(one.shares), by_limit(complete.shares)
    assert sum(min(ours.get(limit, 0.0), share) for limit, share in theirs.items()) > 0.95


@pytest.mark.parametrize("name", CALLS)
def test_intervals_partition_the_time_from_the_first_syn_to_the_last_acknowledged_byte(name: str) -> None:
    found = found_in(SAMPLES / name)
    assert found.view is Viewpoint.LINK_LOG
    table = found.table
    np.testing.assert_array_equal(table["begin_ns"][1:], table["end_ns"][:-1])
    assert (table["end_ns"] > table["begin_ns"]).all()
    transfer = found.transfer
    assert table["begin_ns"][0] == transfer.sender["time_ns"].min()
    assert table["end_ns"][-1] <= transfer.end_ns
    assert table["seconds"].sum() == pytest.approx(found.total_s)


@pytest.mark.parametrize("name", CALLS)
def test_a_link_log_keeps_its_account(name: str) -> None:
    """The account's link time, by class, is what the limits say, but for the FIN behind the payload."""
    transfer = Transfer.of(read(SAMPLES / name))
    found = diagnose(transfer)
    sums = by_limit(found.limited.shares)
    seconds = {use.label: value for use, value in found.account.seconds.items()}
    link = sum(seconds[each] for each in ("useful", "other", "arq", "access", "xoff"))
    assert sums[Limit.LINK] * found.limited.total_s == pytest.approx(link, abs=0.01 * found.account.total_s)
    waited = seconds["idle:rto"]
    timer = sum(row.seconds for row in found.limited.shares if row.part is LimitSubtype.TIMER)
    assert timer == pytest.approx(waited, abs=0.01 * found.account.total_s + 0.1)


def test_shares_lie_between_their_bounds_and_weak_ones_are_ranges() -> None:
    rows = found_in(UPLOAD / "mobile" / "tcp-0.pcap.gz").shares
    assert sum(row.share for row in rows) == pytest.approx(1.0)
    for row in rows:
        assert 0 <= row.share_low <= row.share + 1e-9
        assert row.share <= row.share_high + 1e-9 <= 1 + 2e-9
        assert row.confidence is not Confidence.WEAK or row.share_low < row.share


def _asked(sport: int, begin_ms: float, step_ms: float) -> list[Packet]:
    """Return a handshake and two segments with their ACKs, so long after each other."""
    up: dict[str, Any] = {"source": "10.0.0.1", "destination": "10.0.0.2"}
    down: dict[str, Any] = {"source": "10.0.0.2", "destination": "10.0.0.1"}
    to: dict[str, Any] = {"sport": sport, "dport": 80}
    back: dict[str, Any] = {"sport": 80, "dport": sport}
    segments = [
        ipv4(tcp(**to, seq=0, ack=0, flags=2), **up),
        ipv4(tcp(**back, seq=0, ack=1, flags=0x12), **down),
        ipv4(tcp(**to, seq=1, ack=1, payload=bytes(1000)), **up),
        ipv4(tcp(**back, seq=1, ack=1001), **down),
        ipv4(tcp(**to, seq=1001, ack=1, payload=bytes(1000)), **up),
        ipv4(tcp(**back, seq=1, ack=2001), **down),
    ]
    begin = EPOCH_S * 1000 + begin_ms
    return [Packet(ethernet(each), round((begin + i * step_ms) * 1000)) for i, each in enumerate(segments)]


def test_connections_that_took_no_time_do_not_wait_for_each_other(tmp_path: Path) -> None:
    packets = [*_asked(1000, 0, 10), *_asked(1001, 100, 0), *_asked(1002, 100, 0), *_asked(1003, 200, 50)]
    (tmp_path / "a.pcap").write_bytes(pcap_file(packets))
    chain = explain(read(tmp_path / "a.pcap")).document()["group"]["chain"]
    assert [stage["connection"] for stage in chain if stage["stage"] == "transfer"] == [1, 3, 2, 4]


def test_the_document_has_what_its_readers_rely_on() -> None:
    document = explain(read(UPLOAD)).document(intervals=True)
    assert document["schema"] == "multitracer.diagnose/2"
    assert sum(row["seconds"] for row in document["limits"]) == pytest.approx(document["limits_total_s"])
    assert [row["share"] for row in document["limits"]] == sorted(
        (row["share"] for row in document["limits"]), reverse=True
    )
    assert document["headline"]["limit"] == "link"
    assert document["group"]["connections"] == [1, 2, 3]
    assert document["intervals"][0]["begin_s"] == 0
    assert {stage["stage"] for stage in document["group"]["chain"]} >= {"handshake", "transfer"}
    assert "intervals" not in explain(read(UPLOAD)).document()


def test_a_connection_that_is_asked_for_is_alone() -> None:
    found = explain(read(UPLOAD), 2)
    assert found.group.longest is found.limited
    assert len(found.group.numbers) == 1
    assert found.headline.sentence == diagnose(Transfer.of(read(UPLOAD), 2)).headline.sentence


def test_the_way_without_data_is_unknown_with_its_reason() -> None:
    found = limited(Transfer.of(read(SAMPLES / "fig8-resets-vj"), reverse=True))
    assert list(by_limit(found.shares)) == [Limit.UNKNOWN]
    assert found.reason == "no data were sent in this direction"
