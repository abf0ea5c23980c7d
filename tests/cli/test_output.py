"""What a command writes never replaces a log, follows no link to another folder, and leaves nothing when killed."""

from __future__ import annotations

import gzip
import lzma
import os
import signal
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import parsers
from multitracer.errors import InputError, UnknownFormatError
from multitracer.report.replacing import check_replaceable, replacing, replacing_folder
from tests.cli.program import call
from tests.conftest import SAMPLES
from tests.parsers.frames import block, ethernet, interface, ipv4, section, tcp
from tests.recording.captures import Conversation, write_conversations

if TYPE_CHECKING:
    from collections.abc import Callable

HOLD = """
import sys, time
from multitracer.report.replacing import replacing, replacing_folder
with (replacing_folder if sys.argv[2] == "folder" else replacing)(sys.argv[1]) as path:
    (path / "part.csv" if path.is_dir() else path).write_text("half")
    print(path, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Return a capture of one connection."""
    return write_conversations(tmp_path / "a.pcap", Conversation())


@pytest.mark.parametrize("command", ["report", "plot", "analyze", "align"])
@pytest.mark.parametrize("name", ["other.pcap", "page.html"])
def test_output_never_replaces_another_capture(command: str, name: str, capture: Path, tmp_path: Path) -> None:
    other = tmp_path / name
    other.write_bytes(capture.read_bytes())
    assert "is a capture" in call(command, "-o", other, capture, status=1).stderr
    assert other.read_bytes() == capture.read_bytes()


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_capture_of_packets_that_name_this_program_is_kept(order: str, capture: Path, tmp_path: Path) -> None:
    packet = ethernet(ipv4(tcp(payload=b"MultiTracer")))
    header = struct.pack(f"{order}5I", 0, 0, 1, len(packet), len(packet))
    other = tmp_path / "other.pcapng"
    other.write_bytes(section(order) + interface(order=order) + block(6, header + packet, order))
    kept = other.read_bytes()
    assert "1 packet" in call("analyze", other).stdout
    assert "is a capture" in call("report", "-o", other, capture, status=1).stderr
    assert other.read_bytes() == kept


def test_an_export_for_wireshark_may_be_written_again(sample_session: Path, tmp_path: Path) -> None:
    for _ in range(2):
        call("export", "wireshark", sample_session, "-o", tmp_path / "packets.pcapng")


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_log_of_each_recorded_format_is_kept(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    unpack = {".gz": gzip.decompress, ".xz": lzma.decompress}
    output, seen = tmp_path / "report.html", set()
    for log in sorted(SAMPLES.glob("*/**/*.*")):
        with suppress(InputError, UnknownFormatError):  # a folder, or no log
            name = parsers.detect(log).name
            if name not in seen:
                seen.add(name)
                output.write_bytes(pack(unpack.get(log.suffix, bytes)(log.read_bytes())))
                before = output.read_bytes()
                with pytest.raises(InputError, match=r"html: this file is a (log|capture)"), replacing(output) as path:
                    path.write_text("lost")
                assert output.read_bytes() == before, name
    assert seen >= {"clocks", "claps", "gps", "modem", "pcap", "rlpdump", "tcp-info"}


@pytest.mark.parametrize("command", ["analyze", "report"])
def test_a_command_says_that_its_output_is_a_log(command: str, capture: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes((SAMPLES / "rehearsal" / "clocks.jsonl").read_bytes())
    before = log.read_bytes()
    assert "this file is a log (clocks); choose another name" in call(command, "-o", log, capture, status=1).stderr
    assert log.read_bytes() == before


def test_a_csv_with_a_column_map_is_kept(capture: Path, tmp_path: Path) -> None:
    log = tmp_path / "drive.csv"
    log.write_text("t,rsrp\n1,-90\n")
    log.with_name("drive.csv.toml").write_text('time = "t"\n')
    assert "a log with a column map" in call("analyze", "--csv", "-o", log, capture, status=1).stderr
    assert log.read_text() == "t,rsrp\n1,-90\n"


def test_a_table_never_replaces_a_log_in_its_folder(capture: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    log = folder / "connections.csv"
    log.write_bytes((SAMPLES / "rehearsal" / "clocks.jsonl").read_bytes())
    before = log.read_bytes()
    assert (
        "connections.csv: this file is a log"
        in call("export", "tables", "--format", "csv", "-o", folder, capture, status=1).stderr
    )
    assert (log.read_bytes(), [*folder.iterdir()]) == (before, [log])


def test_a_route_may_be_written_again_and_that_of_another_program_is_kept(tmp_path: Path) -> None:
    route = tmp_path / "drive.gpx"
    for _ in range(2):
        call("export", "route", SAMPLES / "rehearsal", "-o", route)
    route.write_text(route.read_text().replace('creator="MultiTracer', 'creator="a receiver'))
    assert "this file is a log (gpx)" in call("export", "route", SAMPLES / "rehearsal", "-o", route, status=1).stderr


# --- links ---


@pytest.mark.parametrize("target", ["file", "folder", "nothing"])
def test_a_link_to_another_folder_is_not_followed(target: str, capture: Path, tmp_path: Path) -> None:
    session, elsewhere = tmp_path / "session", tmp_path / "elsewhere"
    session.mkdir()
    elsewhere.mkdir()
    precious = elsewhere / "precious"
    precious.write_text("mine")
    (session / "out").symlink_to({"file": precious, "folder": elsewhere, "nothing": elsewhere / "new"}[target])
    for command in (["analyze"], ["export", "tables"]):
        assert "this is a link to" in call(*command, "-o", session / "out", capture, status=1).stderr
    assert (precious.read_text(), [*elsewhere.iterdir()]) == ("mine", [precious])


def test_a_link_within_its_folder_is_followed(capture: Path, tmp_path: Path) -> None:
    latest, dated = tmp_path / "latest.txt", tmp_path / "dated.txt"
    latest.symlink_to(dated.name)
    call("analyze", "-o", latest, capture)
    assert latest.is_symlink()
    assert "packets" in dated.read_text()


def test_the_other_name_of_a_hard_link_keeps_its_content(capture: Path, tmp_path: Path) -> None:
    precious, output = tmp_path / "precious", tmp_path / "out.txt"
    precious.write_text("mine")
    output.hardlink_to(precious)
    call("analyze", "-o", output, capture)
    assert (precious.read_text(), output.read_text() == "mine") == ("mine", False)


def test_standard_output_by_its_name_is_written_to(capture: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "multitracer", "analyze", "-o", "/dev/stdout", str(capture)]
    piped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    with (tmp_path / "file").open("w") as stream:
        subprocess.run(command, stdout=stream, check=True)
    assert piped == (tmp_path / "file").read_text() == call("analyze", capture).stdout


# --- temporary files ---


def _holding(output: Path, kind: str) -> tuple[subprocess.Popen[str], Path]:
    """Start a program that has half of an output; return it, and the temporary path."""
    child = subprocess.Popen([sys.executable, "-c", HOLD, output, kind], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    return child, Path(child.stdout.readline().strip())


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_the_next_run_removes_what_a_killed_one_left_and_only_that(kind: str, tmp_path: Path) -> None:
    output = tmp_path / "out"
    dead, left = _holding(output, kind)
    other, of_other = _holding(tmp_path / "other", kind)
    alive, in_use = _holding(output, kind)
    try:
        for child in (dead, other):
            child.send_signal(signal.SIGKILL)
            child.communicate()
        reused = left.rename(left.with_name(f".out.{os.getpid()}.tmp"))  # the number of a process that lives
        with replacing_folder(output) if kind == "folder" else replacing(output) as path:
            (path / "all.csv" if kind == "folder" else path).write_text("all")
        assert not reused.exists()
        assert in_use.exists(), "its program lives"
        assert of_other.exists(), "another output"
    finally:
        alive.kill()
        alive.communicate()


def test_a_link_with_the_name_of_a_temporary_file_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    link = tmp_path / ".out.1-ab.tmp"
    link.symlink_to(precious)
    with replacing(tmp_path / "out") as path:
        path.write_text("all")
    assert precious.read_text() == "mine"
    assert check_replaceable(tmp_path / "out").read_text() == "all"
