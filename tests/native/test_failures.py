"""What the native kernel does where it cannot go on: a MemoryError, or the report of a bug."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from multitracer import native
from multitracer.analysis.segments.compiled import source_of
from multitracer.capture import CaptureTables
from multitracer.captured import CaptureMark
from parsers._chunks import read_capture
from tests.parsers.frames import frame, pcap_file

pytestmark = pytest.mark.skipif(native.kernel() is None, reason=f"captures are read by {native.state()}")
ROOT = Path(__file__).parents[2]


def _panic(kernel: native.Kernel) -> None:
    """Ask for a row that there is not, as only a bug would."""
    none = CaptureTables([])
    kernel.EachSegment(np.zeros(1, np.uint32), source_of(none, np.zeros(1, np.int32)))


@pytest.mark.parametrize(("name", "most"), [("CaptureFile", None), ("decode", 5)])
def test_a_panic_is_the_report_of_a_bug_with_the_hash_of_the_file(
    name: str, most: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes(pcap_file([frame()]))
    kernel = native.kernel()
    assert kernel is not None
    monkeypatch.setattr(kernel, name, lambda *_, **__: _panic(kernel))
    with pytest.raises(native.NativeFaultError) as caught:
        read_capture([path], max_packets=most)
    words = str(caught.value)
    assert words.startswith(f"{path} (SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()}): ")
    assert "src/pass/connection.rs" in words
    assert "index out of bounds" in words
    assert "MULTITRACER_NATIVE=0" in words


_STARVED = """
import resource, sys
import numpy as np
from multitracer.native import kernel
n = 2_000_000
data = np.zeros(100, np.uint8)
columns = [np.zeros(n, np.int64) for _ in range(3)]
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (48 << 20), resource.RLIM_INFINITY))
try:
    DECODE
except MemoryError as error:
    print(error)
"""


def _says_out_of_memory(program: str, *words: str) -> None:
    argv = [sys.executable, "-c", program, *words]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "out of memory" in done.stdout


@pytest.mark.parametrize(
    "decode", ["kernel().decode(data, *columns, np.array([1]))", "kernel().CountingPass((0, 1_000_000))"]
)
def test_without_memory_python_gets_an_exception(decode: str) -> None:
    _says_out_of_memory(_STARVED.replace("DECODE", decode))


def test_without_memory_for_all_segments_python_gets_an_exception(tmp_path: Path) -> None:
    path, one = tmp_path / "long.pcap", pcap_file([frame(seq=0xABCDEF01)])
    records = np.tile(np.frombuffer(one[24:], np.uint8), (1_500_000, 1))
    at = one[24:].index(b"\xab\xcd\xef\x01")  # equal segments would be copies, which Python looks for
    records[:, at : at + 4] = np.arange(len(records), dtype=">u4").view(np.uint8).reshape(-1, 4)
    path.write_bytes(one[:24] + records.tobytes())
    reads = f"complete_capture(kernel(), {str(path)!r}, None)"
    loads = "from parsers._chunks import complete_capture"
    _says_out_of_memory(f"{loads}\n{_STARVED.replace('DECODE', reads)}")


_MANY = """
import resource, sys
from multitracer.native import kernel
from parsers._complete import complete_file
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (int(sys.argv[2]) << 20), resource.RLIM_INFINITY))
try:
    complete_file(kernel(), sys.argv[1], limits=(1 << 30, 1, 1 << 30, 1), look=lambda whole: None)
except MemoryError as error:
    print(error)
"""


def test_without_memory_for_one_more_connection_python_gets_an_exception(tmp_path: Path) -> None:
    ports = [(1024 + i % 60_000, 80 + i // 60_000) for i in range(100_000)]  # each takes two kilobytes
    path = tmp_path / "many.pcap"
    path.write_bytes(pcap_file([frame(sport=one, dport=other, flags=2, seq=one << 16 | other) for one, other in ports]))
    for mebibytes in (30, 42, 102, 135, 198):
        _says_out_of_memory(_MANY, str(path), str(mebibytes))


@pytest.mark.parametrize(("start", "captured"), [(-1, 4), (90, 20), (2**62, 2**62), (0, -5), (2**63 - 1, 2**63 - 1)])
def test_records_outside_of_the_data_are_left_to_python(start: int, captured: int) -> None:
    kernel = native.kernel()
    assert kernel is not None
    columns = [np.array([value], np.int64) for value in (start, captured, captured, 1)]
    (part,) = kernel.decode(np.zeros(100, np.uint8), *columns)
    assert part["rest"].tolist() == [0]


def test_marks_of_the_crate_are_those_of_the_package() -> None:
    lines = (ROOT / "native" / "core" / "src" / "mark.rs").read_text().splitlines()
    values = [line.removesuffix(";").split() for line in lines if line.startswith("pub const")]
    assert {name.rstrip(":"): int(value, 16) for _, _, name, _, _, value in values}.items() <= {
        mark.name: mark.value for mark in CaptureMark
    }.items()
    assert len(values) == 8
