"""A run adds every session once, passes over what is done, and is stopped by none that fails."""

from __future__ import annotations

import itertools
import os
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multitracer.campaign.analysed import spool_session
from multitracer.campaign.catalogue import Catalogue
from multitracer.campaign.committer import write_part
from multitracer.campaign.query import query
from multitracer.campaign.report.questions import Engine, reasons
from multitracer.campaign.run import run
from multitracer.campaign.schemas import ARROW, TABLES, up_to_date
from multitracer.campaign.store import Store
from multitracer.diagnosis import largest
from multitracer.errors import InputError
from multitracer.manifest import Host, Manifest, write_manifest
from tests.campaign.sessions import count, make_session, make_sessions, rows_of
from tests.cli.program import call
from tests.conftest import SAMPLES
from tests.recording.captures import MS, START_NS, Conversation, write_conversations, write_pcap

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.campaign.analysed import AnalysisTask


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "campaign"


@pytest.fixture
def drives(tmp_path: Path) -> Path:
    return make_sessions(tmp_path / "drives", 4)


def _answer(place: Path, sql: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = query(Catalogue(place), sql).to_pylist()
    return rows


def test_sessions_below_a_folder_become_rows_of_every_table(place: Path, drives: Path) -> None:
    progress = run([str(drives)], place)
    assert (progress.done, progress.failed, progress.unchanged) == (4, 0, 0)
    assert {count(place, name) for name in ("inputs", "sessions", "connections", "transfers")} == {4}
    assert count(place, "seconds") >= 4
    first = _answer(place, "FROM sessions ORDER BY begin_ns")[0]
    assert first["name"] == "drive 0"
    assert dict(first["labels"]) == {"operator": "a"}  # type: ignore[call-overload]
    assert (first["captures"], first["connections"], first["packets"]) == (1, 1, 16)


def test_the_seconds_hold_what_was_sent(place: Path, drives: Path) -> None:
    run([str(drives)], place)
    rows = _answer(
        place,
        "SELECT sum(throughput_bps) / 8 AS bytes, any_value(labels['operator']) AS operator "
        "FROM seconds JOIN sessions USING (session) GROUP BY session ORDER BY min(time_ns)",
    )
    repeated = [number % 3 for number in range(4)]
    assert [round(float(str(row["bytes"]))) for row in rows] == [5000 + 1000 * each for each in repeated]
    assert [row["operator"] for row in rows] == ["a", "b", "a", "b"]


def test_limits_partition_the_time_of_a_transfer(place: Path, drives: Path) -> None:
    run([str(drives)], place)
    for row in _answer(place, "FROM transfers"):
        parts = [value for name, value in row.items() if name.endswith("_s") and name not in _OTHER_TIMES]
        assert sum(map(float, map(str, parts))) == pytest.approx(float(str(row["limits_total_s"])))
        assert row["limited_by"]


_OTHER_TIMES = ("limits_total_s", "lost_time_s")


def test_a_transfer_tells_how_it_used_its_link(place: Path) -> None:
    run([str(SAMPLES / "fig4-slow-start"), str(SAMPLES / "cellular_upload")], place)
    columns = ("utilization", "link_limited_share", "efficiency", "efficiency_sent")
    rounded = ", ".join(f"round({name}, 4) AS {name}" for name in columns)
    rows = _answer(place, f"SELECT {rounded} FROM transfers WHERE unique_bytes > 30000 ORDER BY unique_bytes")
    (call,) = [row for row in rows if row["utilization"] is not None]
    assert list(call.values()) == [0.7087, 0.7081, 1.0, 0.9667]
    assert list(rows[-1].values()) == [None, 0.8987, 0.9998, 0.9804]


def test_efficiency_is_that_of_each_capture_beyond_the_transfers_that_are_explained(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(largest, "MOST", 1)
    calls = [Conversation(sport=40000 + n, start_ns=START_NS + n * MS, segments=9 - n, lost=(0,)) for n in range(4)]
    for host, packets in (("phone", [c.packets for c in calls]), ("server", [c.at_receiver() for c in calls])):
        write_pcap(_made(tmp_path / "drive" / host) / "a.pcap", sorted(itertools.chain.from_iterable(packets)))
    write_manifest(tmp_path / "drive", Manifest("drive", hosts={"phone": Host(), "server": Host()}))
    run([str(tmp_path / "drive")], place)
    rows = _answer(place, "SELECT host, efficiency AS e, efficiency_sent AS s FROM transfers WHERE unique_bytes < 8000")
    assert len(rows) == 4
    assert {(row["host"], row["e"] is not None, row["s"] is not None) for row in rows} == {
        ("phone", False, True), ("server", True, False),
    }  # fmt: skip


def test_a_host_without_a_name_is_called_after_its_folder(place: Path, tmp_path: Path) -> None:
    """The path of this machine stood in a page that is sent to others."""
    for name in ("load", "rehearsal"):
        shutil.copytree(SAMPLES / name, tmp_path / "drives" / name)
    run([str(tmp_path / "drives")], place)
    told = _answer(place, "SELECT hosts FROM sessions ORDER BY hosts")
    assert told == [{"hosts": "load"}, {"hosts": "rehearsal"}]


def test_what_is_done_is_passed_over(place: Path, drives: Path) -> None:
    run([str(drives)], place)
    before = rows_of(place)
    snapshot = Catalogue(place).snapshot.number
    progress = run([str(drives)], place)
    assert (progress.done, progress.unchanged) == (0, 4)
    assert Catalogue(place).snapshot.number == snapshot
    assert rows_of(place) == before


def test_a_touched_session_is_hashed_and_its_rows_stay(place: Path, drives: Path) -> None:
    run([str(drives)], place)
    before = _without(rows_of(place), "inputs")
    os.utime(drives / "car0" / "day000" / "phone" / "capture.pcap", (1, 1))
    assert run([str(drives)], place).done == 1
    assert _without(rows_of(place), "inputs") == before
    assert run([str(drives)], place).done == 0


def _without(rows: dict[str, list[str]], table: str) -> dict[str, list[str]]:
    return {name: each for name, each in rows.items() if name != table}


def test_a_changed_session_replaces_its_rows(place: Path, drives: Path) -> None:
    run([str(drives)], place)
    shutil.rmtree(drives / "car1" / "day001")
    make_session(drives / "car1" / "day001", 1, segments=9)
    assert run([str(drives)], place).done == 1
    assert [count(place, name) for name in ("inputs", "sessions", "transfers")] == [4, 4, 4]
    assert _answer(place, "SELECT max(unique_bytes) AS most FROM transfers") == [{"most": 9000}]


def test_a_failing_session_is_a_row_with_its_sentence_and_stops_no_other(place: Path, drives: Path) -> None:
    bad = drives / "car0" / "bad"
    make_session(bad, 9)
    (bad / "phone" / "capture.pcap").write_text("not a capture", "utf-8")
    progress = run([str(drives)], place)
    assert (progress.done, progress.failed) == (5, 1)
    (row,) = _answer(place, "FROM failures")
    assert str(bad) in str(row["path"])
    assert "capture.pcap" in str(row["sentence"])
    assert count(place) == 4
    assert run([str(drives)], place).done == 0, "it did not change, so it is not tried again"
    assert run([str(drives)], place, retry=True).failed == 1
    assert count(place, "failures") == 1


def test_a_session_that_is_mended_is_no_failure_any_more(place: Path, drives: Path) -> None:
    bad = drives / "bad"
    bad.mkdir()
    (bad / "manifest.json").write_text("{}", "utf-8")
    assert run([str(drives)], place).failed == 1
    shutil.rmtree(bad)
    make_session(bad, 9)
    assert run([str(drives)], place).failed == 0
    assert [count(place, name) for name in ("failures", "sessions", "inputs")] == [0, 5, 5]


def test_two_sessions_of_one_name_are_both_kept(place: Path, tmp_path: Path) -> None:
    make_session(tmp_path / "a" / "drive", 1)
    make_session(tmp_path / "b" / "drive", 2)
    run([str(tmp_path / "a"), str(tmp_path / "b")], place)
    rows = _answer(place, "SELECT session, name FROM sessions")
    assert [row["name"] for row in rows] == ["drive", "drive"]
    assert len({row["session"] for row in rows}) == 2


def test_a_session_that_two_paths_hold_has_its_rows_once(place: Path, drives: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(drives)
    shutil.copytree(drives / "car0" / "day000", tmp_path / "copy")
    progress = run([str(drives), str(tmp_path / "link"), str(drives / "car0"), str(tmp_path / "copy")], place)
    assert progress.done == 5, "the link is the same path, the copy is not"
    assert [count(place, name) for name in ("sessions", "transfers", "inputs")] == [4, 4, 5]
    assert run([str(tmp_path / "copy")], place).unchanged == 1


def test_a_session_that_changes_while_it_is_read_is_read_again_later(
    place: Path, drives: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = drives / "car0" / "day000" / "phone" / "capture.pcap"

    def growing(store: Store, task: AnalysisTask) -> str:
        with log.open("ab") as stream:
            stream.write(b"\0" * 16)
        return spool_session(store, task)

    with monkeypatch.context() as patched:
        patched.setattr("multitracer.campaign.run.spool_session", growing)
        assert run([str(log.parents[1])], place).failed == 1
    assert "the files changed during the analysis" in str(_answer(place, "FROM failures"))
    assert run([str(log.parents[1])], place).failed == 0
    assert [count(place, name) for name in ("sessions", "failures")] == [1, 0]


def test_a_loose_capture_is_a_session(place: Path, drives: Path) -> None:
    captures = sorted(drives.rglob("*.pcap"))
    assert run(list(map(str, captures)), place).done == 4
    assert count(place) == 4


def test_a_capture_by_its_name_alone_is_passed_over_and_said(tmp_path: Path) -> None:
    broken = tmp_path / "drives" / "day"
    broken.mkdir(parents=True)
    (broken / "wlan0.pcap").write_bytes(bytes(range(256)))
    (broken / "empty.pcapng.gz").touch()
    (broken / "README.txt").write_text("rain", "utf-8")
    progress = run([str(tmp_path / "drives")], tmp_path / "campaign")
    assert (progress.sessions, progress.done) == (0, 0)
    assert progress.passed_over == [
        f"{broken}/empty.pcapng.gz: the file name is that of a capture, but the content is not a capture",
        f"{broken}/wlan0.pcap: the file name is that of a capture, but the content is not a capture",
    ]


def test_a_campaign_among_its_inputs_is_passed_over(drives: Path) -> None:
    place = drives / "campaign"
    run([str(drives)], place)
    assert run([str(drives)], place).unchanged == 4
    named = run([str(place)], drives / "another")
    assert (named.sessions, named.passed_over) == (
        0, [f"{place}: a campaign is not searched; name the folders of its sessions"]
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_can_be_no_campaign_is_refused(tmp_path: Path, drives: Path, kind: str) -> None:
    place = {"file": tmp_path / "file", "folder": drives}[kind]
    (tmp_path / "file").write_text("mine", "utf-8")
    with pytest.raises(InputError, match="name a"):
        run([str(drives)], place)
    assert not (drives / "parts").exists()


def test_an_input_that_is_missing_is_refused(place: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        run([str(place / "nothing")], place)


def test_a_pipe_is_refused(place: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a regular file"):
        run([str(tmp_path / "pipe")], place)


def test_every_file_says_what_its_columns_mean(place: Path, drives: Path) -> None:
    import pyarrow.parquet as pq

    run([str(drives)], place)
    for path in sorted((place / "parts").iterdir()):
        schema = pq.read_schema(path)
        name = schema.metadata[b"multitracer.schema"].decode()
        assert name in TABLES
        assert schema.metadata[b"multitracer.catalogue"] == b"1"
        assert all(field.metadata[b"doc"] for field in schema)


def test_numbers_that_hardly_repeat_are_stored_as_they_are(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.make()
    rows = 50_000
    columns = {"session": ["0" * 16] * rows, "throughput_bps": [1e6 + 0.5 * row for row in range(rows)]}
    empty = ARROW["seconds"].empty_table()
    table = pa.concat_tables([empty, pa.table(columns)], promote_options="default").select(empty.column_names)
    part = write_part(store, "seconds", table.cast(ARROW["seconds"]))
    group = pq.ParquetFile(tmp_path / part.name).metadata.row_group(0)
    sizes = {c.path_in_schema: c.total_uncompressed_size for c in map(group.column, range(group.num_columns))}
    assert sizes["session"] < 1_000
    assert sizes["throughput_bps"] < 9.5 * rows  # a dictionary adds two bytes to each


def test_a_second_without_packets_is_judged_by_its_rate_where_a_program_loaded(tmp_path: Path) -> None:
    """A drive whose report says that 10 s were bad was good for all of its time in a campaign."""
    lines = ["Timestamp,Longitude,Latitude,Speed,NetworkMode,RSRP,SNR,DL_bitrate,UL_bitrate,State"]
    for at in range(60):
        rate, state = (100 if 20 <= at < 30 else 20_000), ("I" if at >= 50 else "D")
        lines.append(f"2026.11.20_10.00.{at:02},8.4,51.9,0,LTE,-80,20,{rate},0,{state}")
    (tmp_path / "drive.csv").write_text("\n".join(lines) + "\n")
    run([str(tmp_path / "drive.csv")], tmp_path / "campaign")
    with Engine(Catalogue(tmp_path / "campaign")) as engine:
        (row,) = engine.rows(
            "SELECT count(*) FILTER (by_rate) AS by_rate, count(*) FILTER (bad AND by_rate) AS bad "
            f"FROM {engine.judged}"
        )
        assert row == {"by_rate": 50, "bad": 10}
        assert [tuple(each) for each in reasons(engine)] == [("unknown", 10)]


def test_a_part_of_an_earlier_version_lacks_a_column_and_is_null_there() -> None:
    old = ARROW["seconds"].empty_table().drop_columns(["wanted"])
    assert up_to_date(old, "seconds").schema.equals(ARROW["seconds"])


def _stray(folder: Path) -> Path:
    return write_conversations(folder / "stray.pcap", Conversation(client="10.9.9.9"))


def test_a_capture_beside_folders_that_are_sessions_is_a_session_and_a_warning(place: Path, tmp_path: Path) -> None:
    drives = tmp_path / "drives"
    for number in range(3):
        make_session(drives / f"day{number}", number, name=f"drive {number}")
    assert run([str(drives)], place).passed_over == []
    _stray(drives)
    progress = run([str(drives)], place)
    assert (progress.done, progress.failed, progress.unchanged) == (1, 0, 3)
    assert progress.passed_over == [
        f"{drives}: 1 file lies beside folders that are sessions of their own; it is a session of its own, too"
    ]
    assert {row["name"] for row in _answer(place, "FROM sessions")} == {"drive 0", "drive 1", "drive 2", "stray.pcap"}
    assert run([str(drives)], place).unchanged == 4


def test_a_folder_whose_name_is_a_date_is_no_host(place: Path, tmp_path: Path) -> None:
    drives = tmp_path / "drives"
    for day in ("2026-11-01", "car 20261102", "phone"):
        write_conversations(_made(drives / day) / "capture.pcap", Conversation(client=f"10.1.1.{len(day)}"))
    _stray(drives)
    run([str(drives)], place)
    names = {row["name"] for row in _answer(place, "FROM sessions")}
    assert names == {"2026-11-01", "car 20261102", "phone", "stray.pcap"}


def test_a_session_that_was_of_several_is_divided_when_a_manifest_arrives(place: Path, tmp_path: Path) -> None:
    drives = tmp_path / "drives"
    make_session(drives / "day", 1, name="day")
    (drives / "day" / "manifest.json").rename(tmp_path / "manifest.json")
    shutil.move(drives / "day" / "phone" / "capture.pcap", drives / "day" / "capture.pcap")
    _stray(drives)
    run([str(drives)], place)
    assert [row["name"] for row in _answer(place, "FROM sessions")] == ["drives"], "its folder is a host"
    (tmp_path / "manifest.json").rename(drives / "day" / "manifest.json")
    run([str(drives)], place)
    assert {row["name"] for row in _answer(place, "FROM sessions")} == {"day", "stray.pcap"}


def test_a_folder_below_one_with_a_manifest_is_a_host_of_it(place: Path, tmp_path: Path) -> None:
    """As `capture -o DRIVE -- measure run -o DRIVE/tcp` leaves it: the drive has a manifest, and so has the run."""
    drive = make_session(tmp_path / "drives" / "day", 1, name="day")
    make_session(drive / "tcp", 2, name="tcp")
    progress = run([str(tmp_path / "drives")], place)
    assert ([row["name"] for row in _answer(place, "FROM sessions")], progress.passed_over) == (["day"], [])


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def test_strict_is_an_error_for_failures_and_warnings(place: Path, tmp_path: Path) -> None:
    drives = make_sessions(tmp_path / "drives", 2)
    call("campaign", "run", drives, "-o", place, "--strict")
    (broken := _made(drives / "car9" / "day9") / "phone.pcap").write_bytes(b"\xd4\xc3\xb2\xa1" + bytes(20) + b"x" * 50)
    make_session(broken.parent / "own", 7)
    assert "1 warning above; without --strict this is no error" in " ".join(
        call("campaign", "run", drives, "-o", place, "--strict", status=1).stderr.split()
    )
    (line,) = call("campaign", "run", drives, "-o", place, "--strict", "--quiet", status=1).stderr.splitlines()
    assert "1 warning, of which the first is:" in line
    assert "lies beside folders that are sessions of their own" in line
    assert "above" not in line
    call("campaign", "run", drives, "-o", place)
