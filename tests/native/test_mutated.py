"""The long comparison of both paths, a moment of it: `python -m tests.native.mutated` runs it for longer."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest

from multitracer import native
from multitracer.capture import CaptureTables
from multitracer.recording.recording import look_inside
from parsers._capture.window import WINDOW_BYTES, StreamWindow
from tests.conftest import ROOT, SAMPLES
from tests.native import both, mutated
from tests.parsers.frames import pcap_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from multitracer.analysis import Analysis

pytestmark = pytest.mark.skipif(native.kernel() is None, reason=f"captures are read by {native.state()}")


@pytest.mark.parametrize(("make", "captures"), [(mutated.mutated, 60), (mutated.packets, 1)])
def test_none_differs(make: Callable[[int], bytes], captures: int) -> None:
    assert mutated.run(1, captures, make) == (1 + captures, [])
    assert (StreamWindow.__init__.__kwdefaults__ or {})["size"] == WINDOW_BYTES


def test_an_input_follows_from_its_seed_and_is_small() -> None:
    inputs = [mutated.mutated(seed) for seed in range(120)]
    assert inputs == [mutated.mutated(seed) for seed in range(120)]
    assert max(map(len, inputs)) <= mutated.MOST_BYTES
    assert mutated.packets(3) == mutated.packets(3)


def test_a_difference_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def differ(*_: object) -> None:
        raise AssertionError("they differ")

    monkeypatch.setattr(mutated, "_OUT", tmp_path)
    monkeypatch.setattr(both, "assert_equal", differ)
    assert mutated.run(50, 2, mutated.mutated) == (52, [50, 51])
    assert (tmp_path / "differs-51.bin").read_bytes() == mutated.mutated(51)


def test_what_is_counted_while_it_is_read_is_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def different(*arguments: object) -> Analysis | None:
        analysis = count(*arguments)
        if analysis is not None:
            analysis.directions["packets"][:] += 1
        return analysis

    first, captures = 3_000_151, 200
    monkeypatch.setattr(mutated, "_OUT", tmp_path)
    for name in ("counted", "_counted_of_file"):
        count = getattr(mutated, name)
        with monkeypatch.context() as patched:
            patched.setattr(mutated, name, different)
            assert mutated.run(first, captures, mutated.mutated)[1]


def test_processes_share_the_seeds_and_each_tells_of_its_own() -> None:
    command = [sys.executable, "-m", "tests.native.mutated", "--inputs", "31", "--seed", "100", "--jobs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    lines = sorted(line.partition(": ")[2] for line in done.stdout.splitlines())
    assert lines == [
        "15 captures from seed 100 on, 0 differ; next seed 115",
        "16 captures from seed 115 on, 0 differ; next seed 131",
    ]
    assert mutated.ranges(7, 2, 3) == [(7, 1), (8, 1)]


@pytest.mark.parametrize(("code", "said"), [("sys.exit(1)", ""), ("os.abort()", "died, status -6")])
def test_a_process_that_fails_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: str, said: str
) -> None:
    def command(first: int, *_: object) -> list[str]:
        return [sys.executable, "-c", f"import os, sys\nif {first} == 20: {code}"]

    monkeypatch.setattr(mutated, "_command", command)
    assert mutated.by_processes([(10, 10), (20, 10)], 1, []) == 1
    assert said in capsys.readouterr().out
    assert mutated.by_processes([(10, 10)], 1, []) == 0


def test_what_other_segments_would_tell_is_not_taken_from_those_met() -> None:
    data = (SAMPLES / "damaged" / "fixed" / "tcp-0.pcap").read_bytes()
    first = both.read_by_both(lambda: mutated._read(data))
    assert isinstance(first, CaptureTables)
    met = both.what_is_analysed(first)
    for name in ("seq", "time_ns"):
        first.segments.columns[name] = first.segments[name] + 1
        assert both.what_is_analysed(first) != met
        first.segments.columns[name] = first.segments[name] - 1
    first.files[0].without_time += 1
    assert both.what_is_analysed(first) != met


def test_the_kernel_reads_some_inputs_by_itself() -> None:
    told = 0
    for seed in range(70_000_000, 70_000_200):
        data = mutated.mutated(seed)
        capture = both.read_by_both(partial(mutated._read, data))
        if isinstance(capture, CaptureTables):
            mutated._file().write_bytes(data)
            capture.files[0].bytes = len(data)
            look_inside(capture.files)
            told += both.counted_alike(str(mutated._file()), capture, both.analyse_by_both(capture))
    assert told >= 20


def test_a_recording_is_cut_behind_a_whole_record() -> None:
    data = pcap_file([bytes(100)] * 50)
    complete = mutated.whole_records(data)
    assert (len(complete) - 24) % 116 == 0
    assert mutated.MOST_BYTES - 116 < len(complete) <= mutated.MOST_BYTES
    assert mutated.whole_records(data[:500]) == data[: 24 + 4 * 116]
    assert mutated.whole_records(bytes(5000)) == bytes(mutated.MOST_BYTES)
