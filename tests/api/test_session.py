"""The pandas way in: `import multitracer as mt; session = mt.open(path)`."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pandas as pd
import plotly.graph_objects as go
import pytest

import multitracer as mt
from multitracer.errors import InputError
from multitracer.lab.scenario.library import load_scenario
from tests.recording.captures import SS_LOG, START_NS, Conversation, write_conversations

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.shared_runs import SharedRuns


@pytest.fixture(scope="module")
def bundled(sample_session: Path) -> mt.Session:
    return mt.open(sample_session)


def test_each_answer_to_a_segment_is_one_sample(bundled: mt.Session) -> None:
    rtt = bundled.rtt()
    assert not rtt.duplicated(["row", "answer_row"]).any()
    assert set(rtt["provenance"]) == {"exact ack", "timestamp", "sack"}
    capture, number = bundled._chosen(None)
    every = capture.analysis.rtt_samples(number)
    assert len(rtt) == len(set(zip(every["row"].tolist(), every["answer_row"].tolist(), strict=True))) < len(every)


def test_import_loads_nothing_heavy() -> None:
    heavy = "{'numpy', 'pandas', 'plotly', 'click'}"
    program = f"import multitracer, sys; print({heavy} & set(sys.modules), dir(multitracer))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("set()")
    assert "'open'" in done.stdout


def test_unknown_names_are_attribute_errors() -> None:
    wrong = "opne"
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        getattr(mt, wrong)


def test_tables_are_data_frames_with_one_numbering(bundled: mt.Session) -> None:
    connections = bundled.connections
    assert len(bundled) == len(connections) == 6
    assert connections["connection"].tolist() == [1, 2, 3, 4, 5, 6]
    assert connections["host"].tolist() == ["mobile"] * 3 + ["fixed"] * 3
    assert connections["src"].eq("10.0.3.2").all()
    assert str(connections["start_ns"].dtype) == "datetime64[ns, UTC]"
    assert bundled.directions["connection"].tolist() == [n for n in range(1, 7) for _ in range(2)]
    assert len(bundled.segments) == bundled.connections["segments"].sum()
    assert bundled.files["packets"].sum() == len(bundled.segments)


def test_missing_values_are_na_not_numbers(bundled: mt.Session) -> None:
    no_payload = bundled.directions[bundled.directions["payload_bytes"] == 0]
    assert len(no_payload) == 2
    assert no_payload["first_payload_ns"].isna().all()
    assert bundled.tcp_segments(1)["ack_bytes"].isna().sum() >= 1
    assert (bundled.tcp_segments(1)["ack_bytes"].dropna() >= 0).all()


def test_segments_of_one_connection(bundled: mt.Session) -> None:
    largest = bundled.tcp_segments()
    assert len(largest) == bundled.connections.loc[0, "segments"]
    assert set(bundled.tcp_segments(5)["host"]) == {"fixed"}
    with pytest.raises(InputError, match="no connection 7; the number of connections is 6"):
        bundled.tcp_segments(7)


def test_round_trips_and_segments_of_a_download_are_those_at_its_sender(sample_session: Path) -> None:
    """The capture of the client, which comes first, has 4 RTT samples; that of the server has those of the data."""
    download = mt.open(sample_session.parent / "download")
    rtt, segments = download.rtt(), download.tcp_segments()
    assert rtt.attrs["connection"] == segments.attrs["connection"] == 2
    assert set(rtt["host"]) == set(segments["host"]) == {"fixed"}
    assert len(rtt) == len(download.rtt(2)) > 50 * len(download.rtt(1)) > 0
    assert set(download.tcp_segments(1)["host"]) == {"mobile"}, "a number chooses the capture, too"


def test_figure(bundled: mt.Session) -> None:
    figure = bundled.time_sequence()
    assert isinstance(figure, go.Figure)
    assert "TcpSnd_data" in {trace.meta for trace in figure.data}
    assert "TcpRcv_data" in {trace.meta for trace in bundled.time_sequence(4).data}


def test_trust_and_warnings(tmp_path: Path) -> None:
    path = write_conversations(tmp_path / "a.pcap", Conversation())
    path.write_bytes(path.read_bytes()[:-3])
    session = mt.open(path)
    assert isinstance(session.trust, pd.DataFrame)
    assert "damaged-file" in set(session.trust["code"])
    assert session.warnings[0].startswith(f"{path}: ")


def test_shown_as_html_without_running_what_a_name_says(tmp_path: Path) -> None:
    path = write_conversations(tmp_path / "<script>alert(1)<.pcap", Conversation())
    shown = mt.open(path)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "1 TCP connection" in repr(mt.open(path))


def test_capture_without_connections(tmp_path: Path) -> None:
    session = mt.open(write_conversations(tmp_path / "a.pcap"))
    assert len(session.connections) == len(session.segments) == 0
    assert "src" in session.connections
    assert session._repr_html_()
    with pytest.raises(InputError, match="no TCP connection"):
        session.tcp_segments()


def test_several_files_and_max_packets(tmp_path: Path) -> None:
    paths = [
        write_conversations(tmp_path / f"{i}.pcap", Conversation(start_ns=START_NS + i * 10**10)) for i in range(2)
    ]
    assert len(mt.open(*paths).files) == 2
    assert len(mt.open(*paths, max_packets=20).segments) == 20


def test_other_logs_of_a_session_are_tables_too(tmp_path: Path) -> None:
    (tmp_path / "mobile").mkdir()
    write_conversations(tmp_path / "mobile" / "tcp-0.pcap", Conversation())
    (tmp_path / "mobile" / "ss.log").write_text(SS_LOG)
    session = mt.open(tmp_path)
    assert session.tcp_state["cwnd_segments"].tolist() == [10, 12]
    assert set(session.tcp_state["host"]) == {"mobile"}
    assert session.tcp_state["read_before_ns"].iloc[0] == pd.Timestamp("2023-11-14T22:13:20Z")


def test_without_such_logs_the_table_is_empty(tmp_path: Path) -> None:
    (tmp_path / "mobile").mkdir()
    write_conversations(tmp_path / "mobile" / "tcp-0.pcap", Conversation())
    session = mt.open(tmp_path)
    assert session.tcp_state.empty
    assert "cwnd_bytes" in session.tcp_state


def test_layers_of_a_connection(bundled: mt.Session) -> None:
    assert {"TcpSnd_cwnd", "TcpRcv_data"} <= {trace.meta for trace in bundled.stacked().data}
    series = bundled.series()
    assert series["TcpSnd_cwnd"].attrs["unit"] == "bytes"
    assert series["TcpSnd_cwnd"]["value"].max() == pytest.approx(142_000, rel=0.01)
    assert {"phase", "begin_ns", "reconstructed"} <= set(bundled.phases())
    below = bundled.stacked(offset_bytes=500_000)
    assert min(next(t for t in below.data if t.meta == "TcpRcv_data").y) < -400_000


def test_series_have_goodput_and_throughput_at_both_ends(bundled: mt.Session, sample_session: Path) -> None:
    series = bundled.series()
    sent, arrived = series["TcpSnd_throughput"], series["TcpRcv_goodput"]
    assert sent.attrs["unit"] == arrived.attrs["unit"] == "bit/s"
    for label, payload_bytes in (("TcpSnd_throughput", 6_100_000), ("TcpRcv_goodput", 6_000_008)):
        duration_s = series[label]["time_ns"].diff().shift(-1).dt.total_seconds()
        delivered_bytes = (series[label]["value"] * duration_s).sum() / 8
        assert delivered_bytes == pytest.approx(payload_bytes, rel=0.02), label
    download = mt.open(sample_session.parent / "download").series()
    assert {"TcpSnd_goodput", "TcpRcv_goodput"} <= set(download)


def test_what_the_link_logged(shared_runs: SharedRuns) -> None:
    session = mt.open(shared_runs.session(load_scenario("fig11-fade")).folder)
    frames, events = session.link_frames, session.link_events
    assert set(frames["host"]) == set(events["host"]) == {"mobile", "fixed"}
    again = frames[(frames.host == "mobile") & (frames.attempt > 1) & (frames.offset_bytes >= 0)]
    assert len(again) == len(session.series()["RlpSnd_rexmt"]) == 24
    assert (events.event == "xoff_sent").sum() == 2
    assert {"RlpSnd_data", "RlpRcv_data"} <= {trace.meta for trace in session.stacked().data}
