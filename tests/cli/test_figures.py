"""`plot` and `report`: the files they write, and what is in them."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go
import pytest

from tests.cli.program import call
from tests.recording.captures import START_NS, Conversation, write_conversations, write_pcap

if TYPE_CHECKING:
    from pathlib import Path

SECOND_NS = 1_000_000_000


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a capture of a small and of a large connection, one second apart."""
    large = Conversation(sport=40001, start_ns=START_NS + SECOND_NS, segments=50, lost=(10, 20))
    return write_conversations(tmp_path_factory.mktemp("captures") / "a.pcap", Conversation(), large)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def series(path: Path) -> dict[str, tuple[Any, Any]]:
    """Return the points of each trace of a .json file that plotly takes for a figure."""
    document = json.loads(path.read_text("utf-8"))
    go.Figure(document)
    return {
        trace["meta"]: (_numbers(trace.get("x")), _numbers(trace.get("y")))
        for trace in document["data"]
        if trace.get("meta")
    }


def _numbers(column: Any) -> Any:
    if isinstance(column, dict):
        return np.frombuffer(base64.b64decode(column["bdata"]), dtype=column["dtype"])
    return np.array([np.nan if value is None else value for value in column or []], dtype=float)


def test_plot_draws_the_largest_connection(tmp_path: Path, capture: Path) -> None:
    done = call("plot", capture, "-o", "f.json")
    assert done.stdout == "f.json\n"
    traces = series(tmp_path / "f.json")
    assert len(traces["TcpSnd_data"][0]) == 50
    assert traces["TcpSnd_data"][0].min() > 1
    assert len(traces["TcpSnd_rexmt"][0]) == 2


def test_plot_of_a_chosen_connection(tmp_path: Path, capture: Path) -> None:
    call("plot", capture, "--connection", "1", "-o", "f.json")
    assert max(series(tmp_path / "f.json")["TcpSnd_data"][0]) < 1


def test_plot_of_an_interval_keeps_the_sequence_numbers(tmp_path: Path, capture: Path) -> None:
    call("plot", capture, "-o", "whole.json")
    call("plot", capture, "-o", "part.json", "--from", "2", "--to", "2.5")
    complete, part = (series(tmp_path / f"{name}.json")["TcpSnd_data"] for name in ("whole", "part"))
    inside = (complete[0] >= 2) & (complete[0] < 2.5)
    assert 5 < inside.sum() < 20
    for axis in (0, 1):
        np.testing.assert_array_equal(part[axis], complete[axis][inside])


def test_plot_of_the_other_direction(tmp_path: Path, capture: Path) -> None:
    """The responder sends no data, so its direction has no data points."""
    call("plot", capture, "--direction", "reverse", "-o", "f.json")
    traces = series(tmp_path / "f.json")
    assert sum(len(x) for name, (x, _) in traces.items() if name.endswith("_data")) == 0


def test_plot_names_its_file_after_the_input(tmp_path: Path, capture: Path) -> None:
    assert call("plot", capture).stdout == "a.html\n"
    assert "<script" in (tmp_path / "a.html").read_text("utf-8")


@pytest.mark.parametrize("name", ["a.png", "A.SVG"])
def test_no_page_is_written_under_the_name_of_a_picture(tmp_path: Path, capture: Path, name: str) -> None:
    call("plot", capture, "-o", name, status=2)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("name", ["../../<b>$(x).pcap.gz", ".pcap", "--x.pcap"])
def test_default_file_names_are_tame(name: str) -> None:
    from multitracer.cli._output import output_name

    made = output_name(name, ".html")
    assert made in {"_b___x_.html", "capture.html", "x.html"}


def test_report(tmp_path: Path, capture: Path) -> None:
    done = call("report", capture)
    assert done.stdout == "report.html\n"
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "10.0.0.1:40001" in page
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_report_of_several_inputs_and_an_index(tmp_path: Path, capture: Path, sample_session: Path) -> None:
    other = write_conversations(tmp_path / "b.pcap", Conversation())
    done = call("report", capture, other, sample_session, "-o", "reports")
    assert done.stdout == "reports/index.html\n"
    pages = {path.name for path in (tmp_path / "reports").iterdir()}
    assert pages == {"index.html", "a.pcap.html", "b.pcap.html", "cellular_upload.html"}
    index = (tmp_path / "reports" / "index.html").read_text("utf-8")
    assert all(name in index for name in pages - {"index.html"})


def test_report_of_a_ring_buffer_is_one(tmp_path: Path) -> None:
    packets = Conversation(segments=20).packets
    for i in range(3):
        write_pcap(tmp_path / f"ring.pcap{i or ''}", packets[i * 15 : (i + 1) * 15 if i < 2 else None])
    done = call("report", *sorted(tmp_path.iterdir()), "-o", tmp_path / "r.html")
    assert done.stdout == f"{tmp_path}/r.html\n"


def test_inputs_that_cannot_be_read_do_not_stop_the_others(tmp_path: Path, capture: Path) -> None:
    (tmp_path / "bad.pcap").write_text("no capture at all")
    done = call("report", tmp_path / "bad.pcap", capture, "-o", tmp_path / "reports", status=1)
    assert "Warning: cannot write a report of this input: " in done.stderr
    assert "1 of 2 inputs have no report" in done.stderr
    assert {path.name for path in (tmp_path / "reports").iterdir()} == {"index.html", "a.pcap.html"}


def test_report_of_a_chosen_connection_by_endpoint(tmp_path: Path, capture: Path) -> None:
    call("report", capture, "-c", "10.0.0.1:40000", "-o", "r.html")
    assert "10.0.0.1:40000 sent 5.0 kB" in (tmp_path / "r.html").read_text("utf-8")


def test_plot_of_a_session_is_stacked_unless_told_otherwise(tmp_path: Path, sample_session: Path) -> None:
    call("plot", sample_session, "-o", "stacked.json", "--from", "5", "--to", "9")
    call("plot", sample_session, "-o", "plain.json", "--time-sequence")
    stacked, plain = (series(tmp_path / f"{name}.json") for name in ("stacked", "plain"))
    assert {"TcpSnd_cwnd", "TcpRcv_data", "congestion avoidance"} <= set(stacked)
    assert not {"TcpSnd_cwnd", "TcpRcv_data", "congestion avoidance"} & set(plain)
    assert 5 <= stacked["TcpSnd_cwnd"][0].min() <= stacked["TcpSnd_cwnd"][0].max() < 9


def test_plot_of_a_capture_is_stacked_when_told(tmp_path: Path, capture: Path) -> None:
    call("plot", capture, "-o", "f.json", "--stacked")
    notes = json.loads((tmp_path / "f.json").read_text("utf-8"))["layout"]["annotations"]
    assert any("reconstructed (no sender state was recorded)" in note["text"] for note in notes)
    assert "TcpSnd_cwnd" not in series(tmp_path / "f.json")


def test_report_of_a_session_shows_the_senders_state(tmp_path: Path, sample_session: Path) -> None:
    call("report", sample_session, "-o", "r.html")
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "TCP phase, as the sender" in page
    assert "TcpSnd_cwnd" in page
