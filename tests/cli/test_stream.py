"""`analyze --stream`: captures of any size, and pipes without an end."""

from __future__ import annotations

import csv
import io
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from multitracer.recording import inputs
from tests.cli.program import ROOT, analyze, call, run, start
from tests.recording.captures import MS, START_NS, Conversation, write_conversations

if TYPE_CHECKING:
    from subprocess import Popen

SESSION = ROOT / "sample_traces" / "cellular_upload"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Return a capture of two connections."""
    later = Conversation(sport=40001, start_ns=START_NS + 500 * MS)
    return write_conversations(tmp_path / "a.pcap", Conversation(lost=(2,)), later)


@pytest.mark.parametrize("form", [(), ("--json",), ("--csv",), ("-c", "2"), ("--from", "2", "--to", "9")])
def test_stream_of_a_session_says_what_the_whole_says(form: tuple[str, ...]) -> None:
    complete, stream = (call("analyze", *each, *form, SESSION) for each in ((), ("--stream",)))
    assert without_link_use(stream.stdout) == without_link_use(complete.stdout)
    assert stream.stderr == complete.stderr


def without_link_use(output: str) -> str:
    """Return JSON or CSV without how the link was used: only segments in memory tell it."""
    output = re.sub(r', "utilization": [^,}]*, "link_limited_share": [^,}]*', "", output)
    if not output.startswith("connection,"):
        return output
    rows = list(csv.DictReader(io.StringIO(output)))
    return str([{key: cell for key, cell in row.items() if "link_limited" not in key} for row in rows])


def test_stream_of_a_pipe(capture: Path) -> None:
    with capture.open("rb") as stream:
        done = run("analyze", "--stream", "--json", "-", stdin=stream)
    complete = json.dumps([{**record, "file": "-"} for record in analyze(capture)["connections"]])
    assert without_link_use(json.dumps(json.loads(done.stdout)["connections"])) == without_link_use(complete)


def test_interrupt_ends_a_pipe_with_the_summary(capture: Path) -> None:
    with start(["analyze", "--stream", "--json", "-"]) as child:
        assert isinstance(child.stdin, io.TextIOWrapper)
        assert child.stdout is not None
        child.stdin.buffer.write(capture.read_bytes()[:-10])
        child.stdin.flush()
        _wait_until_reading(child)
        child.send_signal(signal.SIGINT)
        document = json.load(child.stdout)
        assert child.wait(30) == 0
    assert len(document["connections"]) == 2
    assert document["files"][0]["damaged"] is None
    assert [reason["code"] for reason in document["trust"]["reasons"]] == ["stopped"]


def test_second_interrupt_ends_it_at_once(capture: Path) -> None:
    with start(["analyze", "--stream", "-"]) as child:
        assert isinstance(child.stdin, io.TextIOWrapper)
        child.stdin.buffer.write(capture.read_bytes())
        child.stdin.flush()
        _wait_until_reading(child)
        for _ in range(2):
            child.send_signal(signal.SIGINT)
            time.sleep(0.5)
        assert child.wait(30) == 130


def test_a_writer_that_goes_on_shortly_after_the_interrupt_is_heard(capture: Path) -> None:
    content = capture.read_bytes()
    with start(["analyze", "--stream", "--json", "-"]) as child:
        assert isinstance(child.stdin, io.TextIOWrapper)
        child.stdin.buffer.write(content[:300])
        child.stdin.flush()
        _wait_until_reading(child)
        child.send_signal(signal.SIGINT)
        time.sleep(0.3)
        child.stdin.buffer.write(content[300:])
        child.stdin.close()
        assert child.stdout is not None
        assert len(json.load(child.stdout)["connections"]) == 2


def _wait_until_reading(child: Popen[str]) -> None:
    """Wait until the program has taken what was written, and waits for more."""
    before = -1.0
    while (now := _cpu_s(child)) != before or now < 0.1:
        before = now
        time.sleep(1)


def _cpu_s(child: Popen[str]) -> float:
    assert child.poll() is None
    fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@pytest.mark.slow
def test_memory_does_not_grow_with_the_stream() -> None:
    # Linux counts into a child's peak what its parent held: a process of tests may hold a gigabyte.
    argv = [sys.executable, "-m", "tests.benchmarks.stream", "180", "540"]
    printed = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    small, large = (int(mebibytes) for mebibytes in re.findall(r"(\d+) MiB", printed))
    assert large < small + 8  # MiB; under 180 MB of input the buffers are not all full yet
    assert large < 140


def test_a_capture_larger_than_half_of_the_memory_is_a_stream(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    complete = call("analyze", capture)
    monkeypatch.setattr(inputs, "MOST_OF_MEMORY", 0)
    done = call("analyze", capture)
    assert done.stdout == complete.stdout
    assert "more than half of the memory" in done.stderr
    assert not call("analyze", "--no-stream", capture).stderr
    assert not call("analyze", "--fairness", capture).stderr


@pytest.mark.parametrize("option", [("--parquet", "-o", "tables"), ("--fairness",)])
def test_what_needs_every_segment_is_refused(capture: Path, option: tuple[str, ...]) -> None:
    assert "omit --stream" in call("analyze", "--stream", *option, capture, status=2).stderr


def test_what_is_no_capture_is_refused_as_ever(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(b"no capture at all")
    complete, stream = (call("analyze", *each, tmp_path / "a.pcap", status=1) for each in ((), ("--stream",)))
    assert stream.stderr == complete.stderr
