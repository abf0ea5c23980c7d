"""What `diagnose` calls the rows that its findings rest on, and what its text costs."""

from __future__ import annotations

import io
import json
import tracemalloc
from pathlib import Path

from multitracer.cli._output import Page
from multitracer.cli.diagnose import _show
from multitracer.diagnosis.diagnose import explain
from multitracer.recording.read import read
from tests.benchmarks.growth import write_order
from tests.cli.program import call

_RECORDINGS = Path(__file__).parents[1] / "causes" / "recordings"


def test_rows_of_the_only_capture_are_named_after_its_end(sample_sender: Path, sample_receiver: Path) -> None:
    for capture, end in ((sample_sender, "sender"), (sample_receiver, "receiver")):
        assert json.loads(call("diagnose", "--json", capture).stdout)["view"] == end
        lines = [line for line in call("diagnose", capture).stdout.splitlines() if "evidence:" in line]
        assert lines
        assert all(place.startswith(f"{end}:") for line in lines for place in line.split()[1:])


def test_a_connection_is_missing_elsewhere_only_if_no_other_capture_has_it(
    sample_sender: Path, sample_receiver: Path, tmp_path: Path
) -> None:
    (tmp_path / "start.pcap").write_bytes(sample_receiver.read_bytes()[:600])  # its first packets: of no use beside
    proxied = _RECORDINGS / "4020032-proxy-slow-server" / "session"
    words = "No other capture here holds this connection"
    assert words in call("diagnose", "-c", "1", proxied).stdout
    for others in ([], [sample_sender], [tmp_path / "start.pcap"]):
        assert words not in call("diagnose", "-c", "1", sample_sender, *others).stdout


def test_the_text_of_many_exchanges_takes_no_memory_for_each(tmp_path: Path) -> None:
    """Each packet answers the one before: the stages of the chain took 330 bytes a packet, and none is shown."""
    write_order(str(tmp_path / "a.pcap"), "alternating_directions", 20_000)
    diagnosis, shown = explain(read(tmp_path / "a.pcap")), io.StringIO()
    assert diagnosis.headline
    tracemalloc.start()
    try:
        _show(Page(shown), diagnosis)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "what limited it" in shown.getvalue()
    assert peak_bytes < 200 * 20_000
    assert len(diagnosis.document()["group"]["chain"]) > 10_000
