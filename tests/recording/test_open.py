from __future__ import annotations

import gzip
import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.analysis import parallel
from multitracer.analysis.streaming import StreamLimits
from multitracer.errors import FormatError, InputError, UnknownFormatError
from multitracer.manifest import CollectorRun, Manifest, write_manifest
from multitracer.native import VARIABLE
from multitracer.recording import read as way_in
from multitracer.recording.inputs import find_inputs, separate_inputs
from multitracer.recording.read import read
from multitracer.recording.recording import Recording
from tests.recording.captures import MS, START_NS, Conversation, write_conversations, write_pcap

if TYPE_CHECKING:
    from pathlib import Path

MINUTE_NS = 60_000 * MS


def packets_by_point(session: Recording) -> dict[str, int]:
    return {each.point.name: len(each.tables.segments) for each in session.captures}


@pytest.fixture
def ring(tmp_path: Path) -> list[Path]:
    """Return a ring buffer of three files, as tcpdump -C names them, that one connection runs through."""
    packets = Conversation(segments=20).packets
    cut = [packets[:10], packets[10:30], packets[30:]]
    return [write_pcap(tmp_path / f"ring.pcap{i or ''}", part) for i, part in enumerate(cut)]


def test_clocks_that_two_threads_ask_for_at_once_are_related_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [write_conversations(tmp_path / name, Conversation()) for name in ("a.pcap", "b.pcap")]
    recording, both, aligned = read(*paths), threading.Barrier(2), []

    def align(*_: object, **__: object) -> None:
        aligned.append(threading.get_ident())
        time.sleep(0.2)  # until the other one asks, too

    monkeypatch.setattr(Recording, "align", align)

    def ask() -> None:
        both.wait()
        assert recording.clocks is None

    with ThreadPoolExecutor(2) as threads:
        for each in [threads.submit(ask), threads.submit(ask)]:
            each.result()
    assert len(aligned) == 1


def test_one_capture(tmp_path: Path) -> None:
    path = write_conversations(tmp_path / "a.pcap", Conversation())
    session = read(path)
    assert session.name == "a.pcap"
    assert packets_by_point(session) == {str(path): 16}


def test_messages_of_a_collector_beside_its_log_are_no_unknown_file(tmp_path: Path) -> None:
    """Without a manifest the log beside them tells what they are; others are still named."""
    write_conversations(tmp_path / "tcp-0.pcap", Conversation())
    (tmp_path / "markers.jsonl").touch()
    for name in ("tcpdump.log", "markers.log", "other.log"):
        (tmp_path / name).write_text("listening on eth0\n")
    assert read(tmp_path).warnings == [f"{tmp_path}: no installed format knows other.log; not read"]


@pytest.mark.parametrize("shuffled", [[0, 1, 2], [2, 0, 1]])
def test_a_ring_buffer_is_one_capture_in_order_of_time(ring: list[Path], shuffled: list[int]) -> None:
    session = read(*(ring[i] for i in shuffled))
    (capture,) = session.captures
    assert [file.path for file in capture.tables.files] == [str(path) for path in ring]
    assert len(capture.tables.segments) == 46
    assert (np.diff(capture.tables.segments["time_ns"]) >= 0).all()


def test_a_folder_of_captures_is_one_capture_in_order_of_time(ring: list[Path]) -> None:
    (ring[0].parent / "notes.txt").write_text("not a capture")
    session = read(ring[0].parent)
    (capture,) = session.captures
    assert capture.point.paths == tuple(map(str, ring))
    assert len(capture.tables.segments) == 46
    assert session.warnings == [f"{ring[0].parent}: no installed format knows notes.txt; not read"]


def test_a_pattern_names_a_file_set(ring: list[Path]) -> None:
    assert len(find_inputs(f"{ring[0].parent}/ring.pcap*").points[0].paths) == 3
    with pytest.raises(InputError, match="no file matches"):
        read(f"{ring[0].parent}/ring.cap*")


def test_files_that_overlap_in_time_are_several_points(tmp_path: Path) -> None:
    sender = write_conversations(tmp_path / "sender.pcap", Conversation(segments=9))
    receiver = write_conversations(tmp_path / "receiver.pcap", Conversation(segments=9, start_ns=START_NS + 20 * MS))
    assert packets_by_point(read(sender, receiver)) == {str(sender): 24, str(receiver): 24}


def test_a_part_of_a_file_set_reads_as_if_it_were_alone(tmp_path: Path) -> None:
    kinds = {"sender.pcap": Conversation(segments=9), "receiver.pcap": Conversation(client="fd00::1", server="fd00::2")}
    paths = [write_conversations(tmp_path / name, each) for name, each in kinds.items()]
    for capture, path in zip(read(*paths).captures, paths, strict=True):
        together, alone = capture.tables, read(path).captures[0].tables
        assert together.files == alone.files
        assert len(together.syn_options) == len(alone.syn_options) == 2
        for name in set(alone.segments.schema.names) - {"flow"}:
            np.testing.assert_array_equal(together.segments[name], alone.segments[name])
        for name in alone.syn_options.schema.names:
            np.testing.assert_array_equal(together.syn_options[name], alone.syn_options[name])


def test_a_small_overlap_is_still_one_capture(tmp_path: Path) -> None:
    packets = Conversation(segments=200).packets
    paths = [write_pcap(tmp_path / "0.pcap", packets[:202]), write_pcap(tmp_path / "1.pcap", packets[200:])]
    assert len(packets_by_point(read(*paths))) == 1


def test_ring_buffers_are_recognised_by_name_and_others_stand_alone(tmp_path: Path, ring: list[Path]) -> None:
    names = ["a_00001_20261120101500.pcapng.gz", "a_00002_20261120102500.pcapng.gz", "b.pcap", "c.pcap", "c.pcap3.gz"]
    for name in names:
        shutil.copy(ring[0], tmp_path / name)
    found = separate_inputs([str(tmp_path / name) for name in names])
    assert [len(session.points[0].paths) for session in found] == [2, 1, 2]


def test_session_folder(tmp_path: Path) -> None:
    write_manifest(tmp_path, Manifest("drive", collectors=[CollectorRun("tcpdump", "mobile")]))
    for host in ("mobile", "fixed"):
        (tmp_path / host).mkdir()
        plain = write_conversations(tmp_path / host / "tcp-0.pcap", Conversation())
        later = Conversation(start_ns=START_NS + MINUTE_NS)
        last = write_conversations(tmp_path / host / "tcp-1.pcap", later)
        (tmp_path / host / "tcp-1.pcap.gz").write_bytes(gzip.compress(last.read_bytes()))
        last.unlink()
        assert plain.is_file()
        (tmp_path / host / "tcpdump.err").touch()
    session = read(tmp_path)
    assert session.name == "drive"
    assert packets_by_point(session) == {"fixed": 32, "mobile": 32}
    assert session.warnings == []


def test_session_folder_that_died_at_its_start_opens(tmp_path: Path) -> None:
    """A crash leaves half a manifest, an empty log, a header without a packet, a cut record."""
    (tmp_path / "manifest.json").write_text('{"name": "dri')
    (tmp_path / "mobile").mkdir()
    complete = write_conversations(tmp_path / "mobile" / "tcp-0.pcap", Conversation())
    (tmp_path / "mobile" / "tcp-1.pcap").write_bytes(complete.read_bytes()[:-7])
    (tmp_path / "mobile" / "tcp-2.pcap").write_bytes(b"")
    (tmp_path / "mobile" / "tcp-3.pcap").write_bytes(complete.read_bytes()[:10])
    session = read(tmp_path)
    captures = session.captures
    assert sum(len(each.tables.segments) for each in captures) == 16 + 15
    passed_over = ("manifest.json", "mobile/tcp-2.pcap", "mobile/tcp-3.pcap")
    for warning, name in zip(session.notes, passed_over, strict=True):
        assert warning.startswith(str(tmp_path / name))


def test_a_folder_leads_nowhere_else(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    secret = write_conversations(outside / "secret.pcap", Conversation())
    folder = tmp_path / "session"
    (folder / "fixed").mkdir(parents=True)
    write_conversations(folder / "fixed" / "tcp-0.pcap", Conversation())
    (folder / "fixed" / "tcp-1.pcap").symlink_to(secret)
    (folder / "mobile").symlink_to(outside)
    os.mkfifo(folder / "fixed" / "tcp-2.pcap")  # reading it would wait for ever
    session = read(folder)
    points = session.inputs.points
    assert [point.name for point in points] == ["fixed"]
    assert points[0].paths == (str(folder / "fixed" / "tcp-0.pcap"),)
    reasons = ("link that leads out of the folder", "neither a file nor a folder", "a link to a folder")
    told = sorted(session.warnings, key=lambda sentence: [reason in sentence for reason in reasons])
    assert all(reason in sentence for reason, sentence in zip(reasons[::-1], told, strict=True))


def test_nothing_to_read_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(InputError, match="contains no capture"):
        read(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        read(tmp_path / "absent.pcap")
    with pytest.raises(InputError, match="give only this folder"):
        read(tmp_path, tmp_path / "notes.txt")
    with pytest.raises(InputError, match="no input"):
        read()
    with pytest.raises(InputError, match="null"):
        read("a\0b")


def test_a_file_that_the_user_named_must_be_readable(tmp_path: Path) -> None:
    complete = write_conversations(tmp_path / "a.pcap", Conversation())
    (tmp_path / "b.pcap").write_text("no capture")
    (tmp_path / "c.pcap").write_bytes(complete.read_bytes()[:10])
    with pytest.raises(UnknownFormatError, match=r"b\.pcap"):
        list(read(complete, tmp_path / "b.pcap").captures)
    with pytest.raises(FormatError, match=r"c\.pcap"):
        list(read(complete, tmp_path / "c.pcap").captures)


def test_max_packets_bounds_each_point(sample_session: Path) -> None:
    captures = read(sample_session, max_packets=100).captures
    assert [sum(file.packets for file in each.tables.files) for each in captures] == [100, 100]


@pytest.fixture(params=["", "0"], ids=["kernel", "python"])
def two_points(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two captures: the kernel, where it is built, reads them beside each other, though they are small."""
    monkeypatch.setenv(VARIABLE, request.param)
    monkeypatch.setattr(way_in, "_MIN_BYTES", 0)
    monkeypatch.setattr(parallel, "FEWEST_ROWS", 0)
    for host, sport in (("client", 40_000), ("server", 40_001)):
        (tmp_path / host).mkdir()
        write_conversations(tmp_path / host / "tcp-0.pcap", Conversation(sport=sport))
    return tmp_path


@pytest.mark.parametrize("limits", [None, StreamLimits()], ids=["whole", "stream"])
def test_captures_come_in_order_and_progress_counts_the_bytes_of_all(
    two_points: Path, limits: StreamLimits | None
) -> None:
    known: list[int] = []
    recording = read(two_points, progress=_Noting(known), limits=limits)
    packets = [(capture.point.name, capture.tables.files[0].packets) for capture in recording.captures]
    assert packets == [("client", 16), ("server", 16)]
    assert [capture.analysis.ends(1).source for capture in recording.captures] == ["10.0.0.1:40000", "10.0.0.1:40001"]
    assert known == sorted(known)
    assert known[-1] == sum(path.stat().st_size for path in two_points.rglob("*.pcap"))


def test_a_capture_that_is_none_is_passed_over_beside_one_that_is(two_points: Path) -> None:
    (two_points / "client" / "tcp-0.pcap").write_bytes(b"\xd4\xc3\xb2\xa1")
    recording = read(two_points)
    assert packets_by_point(recording) == {"server": 16}
    (warning,) = recording.warnings
    assert warning.startswith(str(two_points / "client" / "tcp-0.pcap"))


class _Noting:
    """Progress that is written down."""

    phase = "reading"

    def __init__(self, known: list[int]) -> None:
        self._known = known

    def __call__(self, stored_bytes: int) -> None:
        self._known.append(stored_bytes)


def test_bundled_session(sample_session: Path) -> None:
    session = read(sample_session)
    assert session.manifest is not None
    assert {capture.point.name for capture in session.captures} == {"mobile", "fixed"}
    assert all(packets > 6000 for packets in packets_by_point(session).values())
