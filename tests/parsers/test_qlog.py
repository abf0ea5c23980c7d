"""qlog in its dialects, cut, and as no qlog."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import parsers
from multitracer.errors import MultiTracerError

if TYPE_CHECKING:
    from pathlib import Path

_SENT = {"header": {"packet_number": 5, "packet_type": "1RTT"}, "raw": {"length": 1200},
         "frames": [{"frame_type": "stream", "stream_id": 0, "offset": 100, "length": 1165}]}  # fmt: skip
_ACKED = {"header": {"packet_number": 2, "packet_type": "1RTT"}, "raw": {"length": 40},
          "frames": [{"frame_type": "ack", "ack_delay": 1.5, "acked_ranges": [[0, 3], [5, 5]]},
                     {"frame_type": "max_data", "maximum": 9000}]}  # fmt: skip
_METRICS = {"cwnd": 12000, "bytes_in_flight": 1200, "smoothed_rtt": 50.5}
_EPOCH_MS = 1_795_886_825_000


def of_aioquic() -> str:
    events = [
        {"time": _EPOCH_MS + 1, "name": "transport:packet_sent", "data": _SENT},
        {"time": _EPOCH_MS + 51.5, "name": "transport:packet_received", "data": _ACKED},
        {"time": _EPOCH_MS + 52, "name": "recovery:metrics_updated", "data": _METRICS},
    ]
    trace = {"common_fields": {"ODCID": "4479f15ba83d189a"}, "events": events,
             "vantage_point": {"name": "aioquic", "type": "server"}}  # fmt: skip
    return json.dumps({"qlog_format": "JSON", "qlog_version": "0.3", "traces": [trace]})


def of_quiche() -> str:
    header = {"file_schema": "urn:ietf:params:qlog:file:sequential", "serialization_format": "json-seq",
              "trace": {"vantage_point": {"type": "server", "name": "quiche"},
                        "common_fields": {"reference_time": {"clock_type": "system",
                                                             "epoch": "2026-11-28T17:27:05+00:00"}}}}  # fmt: skip
    events = [
        {"time": 1.0, "name": "quic:packet_sent", "data": _SENT},
        {"time": 51.5, "name": "quic:packet_received", "data": _ACKED},
        {"time": 52.0, "name": "quic:recovery_metrics_updated", "data": {**_METRICS, "congestion_window": 12000}},
    ]
    return "".join(f"\x1e{json.dumps(each)}\n" for each in (header, *events))


def of_draft_01() -> str:
    sent = {"packet_type": "1RTT", "header": {"packet_number": "5", "packet_size": 1200},
            "frames": [{"frame_type": "stream", "stream_id": "0", "offset": "100", "length": "1165"}]}  # fmt: skip
    acked = {"packet_type": "1RTT", "header": {"packet_number": "2", "packet_size": 40},
             "frames": [{"frame_type": "ack", "ack_delay": "1.5", "acked_ranges": [["0", "3"], ["5"]]},
                        {"frame_type": "max_data", "maximum": "9000"}]}  # fmt: skip
    trace = {"vantage_point": {"type": "SERVER".lower()}, "common_fields": {"reference_time": str(_EPOCH_MS)},
             "event_fields": ["relative_time", "category", "event", "data"],
             "events": [[1, "transport", "packet_sent", sent], [51.5, "transport", "packet_received", acked],
                        [52, "recovery", "metrics_updated", {**_METRICS, "smoothed_rtt": "50.5"}]]}  # fmt: skip
    return json.dumps({"qlog_version": "draft-01", "traces": [trace]})


def _tables(path: Path, text: str) -> Any:
    path.write_text(text)
    assert parsers.detect(str(path)).name == "qlog"
    return parsers.read(str(path))[1]


@pytest.mark.parametrize("made", [of_aioquic, of_quiche, of_draft_01])
def test_dialects_say_the_same(tmp_path: Path, made: Any) -> None:
    tables = _tables(tmp_path / "log", made())
    sent, received = tables["qlog_packets"].rows()
    assert (sent["sent"], sent["packet_number"], sent["bytes"], sent["ack_eliciting"]) == (True, 5, 1200, True)
    assert (received["sent"], received["packet_number"], received["bytes"]) == (False, 2, 40)
    assert received["time_ns"] - sent["time_ns"] == 50_500_000
    assert sent["time_ns"] // 10**9 == _EPOCH_MS // 1000
    frames = [tuple(row.values()) for row in tables["quic_frames"].rows()]
    assert frames == [(0, 8, 0, 100, 1165), (1, 2, 5, 5, 1_500_000), (1, 2, 0, 3, None), (1, 0x10, 9000, 9000, None)]
    (state,) = tables["quic_state"].rows()
    assert (state["cwnd_bytes"], state["flight_bytes"], state["srtt_ns"]) == (12000, 1200, 50_500_000)
    (trace,) = tables["qlog_traces"].rows()
    assert trace["vantage"] == "server"
    assert trace["clock_known"]


def test_a_log_that_ends_in_the_middle_gives_what_precedes(tmp_path: Path) -> None:
    text = of_aioquic()
    tables = _tables(tmp_path / "log", text[: text.rindex('{"time"') + 10])
    assert len(tables["qlog_packets"]) == 2
    (trace,) = tables["qlog_traces"].rows()
    assert "ends" in trace["damage"]


@pytest.mark.parametrize("text", ['{"qlog_version": "0.3"}', '{"qlog_version": "qlog", "events": 5}'])
def test_a_log_without_events_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "log").write_text(text)
    with pytest.raises(MultiTracerError):
        parsers.read(str(tmp_path / "log"))
