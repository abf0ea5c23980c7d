"""The labelled series: which rows they take, on which scale, and where they come from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.analysis import analyse
from multitracer.analysis.sender_state import in_bytes
from multitracer.analysis.series.labelled import packet_series, receiver_series, rtt_series, state_series, stretched
from multitracer.protocols.sock_diag import ReadBy
from tests.analysis.test_phases import MSS, ack, data, rounds
from tests.analysis.test_tcp_state import S, capture, joined, probe, reading
from tests.analysis.traffic import MS, START_NS, Segment, handshake
from tests.analysis.traffic import capture as traffic

if TYPE_CHECKING:
    from multitracer.tables import Table


def segments_of(*segments: Segment) -> Table:
    return analyse(traffic(list(segments))).tcp_segments(1)


def opened(*segments: Segment) -> list[Segment]:
    opening = [replace(segment, time_ns=START_NS - MS) for segment in handshake()]
    return [*opening, *segments]


def test_series_of_the_sender() -> None:
    segments = segments_of(*opened(data(0, 0), data(1, 1), ack(100, 1), data(101, 1), ack(200, 2)))
    series = packet_series(segments, reverse=False, at="Snd")
    assert set(series) == {"TcpSnd_data", "TcpSnd_ack", "TcpSnd_flight", "TcpSnd_rwnd"}
    sent = series["TcpSnd_data"]
    assert sent["value"].tolist() == [1, 1 + MSS, 1 + MSS], "every copy, the SYN is 0"
    assert ((sent["time_ns"] - START_NS) / MS).tolist() == [0, 1, 101]
    assert series["TcpSnd_ack"]["value"].tolist()[-2:] == [1 + MSS, 1 + 2 * MSS]
    assert series["TcpSnd_flight"]["value"].tolist()[-5:] == [MSS, 2 * MSS, MSS, MSS, 0]
    assert sent.provenance == {
        "label": "TcpSnd_data", "unit": "bytes", "source": "packets",
        "doc": "first byte of each data segment leaving",
    }  # fmt: skip


def test_receiver_is_on_the_senders_scale_also_without_the_handshake() -> None:
    sender = segments_of(*opened(*rounds(4)))
    receiver = segments_of(*rounds(4))
    alone = receiver_series(receiver, sender=None, reverse=False)
    both = receiver_series(receiver, sender=sender, reverse=False)
    assert set(both) == {"TcpRcv_data", "TcpRcv_ack"}
    sent = packet_series(sender, reverse=False, at="Snd")["TcpSnd_data"]
    assert both["TcpRcv_data"]["value"].tolist() == sent["value"].tolist()
    assert both["TcpRcv_ack"]["value"].max() == 1 + 4 * MSS
    assert len(alone["TcpRcv_data"]) == len(both["TcpRcv_data"])
    assert both["TcpRcv_data"].provenance["doc"] == "first byte of each data segment arriving"


def test_receiver_scale_over_the_wrap_of_the_numbers() -> None:
    isn = 2**32 - 150
    shifted = [
        Segment(s.side, (s.seq + isn - 1000) % 2**32 if s.side == 0 else s.seq, s.payload,
                ack=(s.ack + isn - 1000) % 2**32 if s.side else s.ack, time_ns=s.time_ns)
        for s in rounds(4)
    ]  # fmt: skip
    complete, tail = segments_of(*shifted), segments_of(*shifted[4:])
    ends = receiver_series(tail, sender=complete, reverse=False)["TcpRcv_data"]["value"][-1]
    assert ends == packet_series(complete, reverse=False, at="Snd")["TcpSnd_data"]["value"][-1]


def test_round_trip_times_and_what_is_reconstructed_from_them() -> None:
    analysis = analyse(traffic(opened(*rounds(2, 2))))
    series = rtt_series(analysis.rtt_samples(1), reverse=False)
    assert set(series) == {"TcpSnd_rtt", "TcpSnd_srtt_rfc6298", "TcpSnd_rto_rfc6298"}
    assert series["TcpSnd_rtt"]["value"][-1] == pytest.approx(99 * MS, rel=0.01)
    assert "reconstructed" in series["TcpSnd_srtt_rfc6298"].provenance["doc"]
    assert rtt_series(analysis.rtt_samples(1).take(np.array([], dtype=int)), reverse=False) == {}


def test_state_is_what_was_recorded_and_nothing_else() -> None:
    tables = capture((1, 99))
    rows = [
        reading(1, cookie=7, snd_mss_bytes=100, cwnd_segments=10, cwnd_bytes=1000, rto_ns=5, ssthresh_bytes=800),
        probe(2, cwnd_segments=10, ssthresh_segments=8, srtt_ns=70),
        probe(3, cwnd_segments=11, ssthresh_segments=8, srtt_ns=71),
    ]
    series = state_series(in_bytes(joined(rows, tables), directions=tables["directions"]))
    assert set(series) == {"TcpSnd_cwnd", "TcpSnd_ssthresh", "TcpSnd_srtt", "TcpSnd_rto"}
    cwnd = series["TcpSnd_cwnd"]
    assert list(zip(cwnd["time_ns"] // S, cwnd["value"], strict=True)) == [(1, 1000), (2, 1100)]
    assert cwnd.provenance["source"] == "tcp_info, tcp_probe"
    assert series["TcpSnd_ssthresh"].provenance["source"] == "tcp_info", "tcp_probe's is another threshold"
    assert series["TcpSnd_rto"]["value"].tolist() == [5]


def test_threshold_of_tcp_probe_serves_where_there_is_no_other() -> None:
    tables = capture((1, 99))
    rows = [probe(at, cwnd_segments=10, ssthresh_segments=8) for at in (2, 3)]
    series = state_series(in_bytes(joined(rows, tables), directions=tables["directions"]))
    assert series["TcpSnd_ssthresh"]["value"].tolist() == [8 * 1448]
    assert "TcpSnd_rto" not in series


def test_readings_without_time_are_left_out() -> None:
    tables = capture((1, 99))
    row = reading(1, method=ReadBy.SS, cwnd_bytes=1000) | {"time_ns": np.iinfo(np.int64).min}
    assert state_series(joined([row], tables)) == {}


@pytest.mark.parametrize("speed", [1.0, 20.0, 1000.0])
def test_times_in_link_time_stay_times(speed: float) -> None:
    times = np.array([START_NS, START_NS + 1, START_NS + S, 2**63 - 1, -(2**63)])
    link = stretched(times, speed=speed, origin_ns=START_NS)
    assert (link[:3] - START_NS).tolist() == [0, speed, speed * S]
    assert link[3] > START_NS + S
    assert link.dtype == np.int64
