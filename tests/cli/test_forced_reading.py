"""Options that say how captures are read are options of every command that reads one, and hold in it."""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import shutil
import struct
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import click
import pytest

import multitracer as mt
from multitracer.campaign.analysed import AnalysisTask, spool_alone
from multitracer.campaign.bucket import store_at
from multitracer.campaign.catalogue import Catalogue
from multitracer.campaign.discovery import candidate_of
from multitracer.campaign.query import query
from multitracer.campaign.report.write import _write_one
from multitracer.campaign.schemas import unpacked
from multitracer.cli._program import cli
from multitracer.cli._reading import FORCING
from multitracer.errors import InputError
from multitracer.native import kernel
from multitracer.report.write import Request
from parsers import _memory, force_reading, forced_reading, limit_memory, usable_memory_bytes
from tests.cli.program import call, run
from tests.conftest import SAMPLES
from tests.parsers import frames as build

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NO_CAPTURE = {
    "campaign compact", "campaign forget", "campaign query", "campaign status", "campaign verify", "capture",
    "completion", "doctor", "export errors", "formats", "measure plan", "measure run", "measure serve", "merge",
    "schema", "testbed channel", "testbed compare", "testbed doctor", "testbed list", "testbed run",
    "testbed table",
}  # fmt: skip
"""Commands that read no packets."""


def _commands(group: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    if not isinstance(group, click.Group):
        yield name.strip(), group
        return
    context = click.Context(group)
    for each in group.list_commands(context):
        inner = group.get_command(context, each)
        assert inner is not None
        yield from _commands(inner, f"{name} {each}")


def test_every_command_that_reads_captures_has_all_of_them() -> None:
    lacking = {
        name
        for name, command in _commands(cli)
        if not {*FORCING, "max_memory"} <= {each.name for each in command.params}
    }
    assert lacking == _NO_CAPTURE


def test_choices_add_up_and_end() -> None:
    assert forced_reading() == {}
    with force_reading(time_unit="us"):
        with force_reading(other=False):
            assert forced_reading() == {"time_unit": "us", "other": False}
        assert forced_reading() == {"time_unit": "us"}
    first, second = force_reading(time_unit="us"), force_reading(time_unit="us")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)  # of another thread of a worker
    assert forced_reading() == {"time_unit": "us"}
    second.__exit__(None, None, None)
    assert forced_reading() == {}


def _packet(number: int) -> build.Packet:
    segment = build.tcp(seq=1000 + 100 * number, ack=1, flags=0x10, payload=b"x" * 100)
    return build.Packet(build.ethernet(build.ipv4(segment)), build.EPOCH_S * 10**6 + 20 * number)


@pytest.fixture
def ticking(tmp_path: Path) -> Path:
    """Return a capture of which each record is 20 ticks behind the one before: 780 µs in all, or 780 ms."""
    path = tmp_path / "sessions" / "ticking.pcap"
    path.parent.mkdir()
    path.write_bytes(build.pcap_file(map(_packet, range(40))))
    return path


def _took_s(place: Path, *options: str) -> list[float]:
    """Add the sessions beside a campaign to it; return how long each of its sessions took."""
    call("campaign", "run", place.parent / "sessions", "-o", place, *options)
    rows = query(Catalogue(place), "SELECT begin_ns, end_ns FROM sessions").to_pylist()
    return [(row["end_ns"] - row["begin_ns"]).total_seconds() for row in rows]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_campaign_reads_in_the_forced_unit_also_in_its_workers(tmp_path: Path, ticking: Path, jobs: str) -> None:
    place = tmp_path / "campaign"
    assert _took_s(place, "--jobs", jobs) == [pytest.approx(780e-6)]
    assert _took_s(place, "--jobs", jobs, "--time-unit", "ms") == [pytest.approx(0.78)], "it is another reading"
    again = call("campaign", "run", ticking.parent, "-o", place, "--time-unit", "ms")
    assert "1 unchanged" in again.stdout
    assert _took_s(place, "--jobs", jobs) == [pytest.approx(780e-6)]


def test_a_session_analysed_alone_is_read_in_the_forced_unit(tmp_path: Path, ticking: Path) -> None:
    store = store_at(tmp_path / "campaign")
    store.make()
    forced = {"time_unit": "ms"}
    with force_reading(**forced):
        state = candidate_of((str(ticking),)).state()
    task = AnalysisTask(candidate_of((str(ticking),)), state, forced=tuple(forced.items()))
    assert spool_alone(store, task) == "done"
    tables = unpacked(store.read(task.spool))
    assert tables is not None
    (row,) = tables["sessions"].to_pylist()
    assert (row["end_ns"] - row["begin_ns"]).total_seconds() == pytest.approx(0.78)


def test_a_report_of_a_campaign_says_that_the_run_had_other_options(tmp_path: Path, ticking: Path) -> None:
    place = tmp_path / "campaign"
    call("campaign", "run", ticking.parent, "-o", place, "--time-unit", "ms")
    (row,) = query(Catalogue(place), "SELECT session, name, path FROM sessions").to_pylist()
    with pytest.raises(InputError, match="had other options on how captures are read"):
        _write_one(row, tmp_path / "report.html", Request())
    with force_reading(time_unit="ms"):
        _write_one(row, tmp_path / "report.html", Request())
    assert "780 ms" in (tmp_path / "report.html").read_text("utf-8")


def test_compare_reads_in_the_forced_unit(tmp_path: Path) -> None:
    """A packet each second, stamped in ms without saying so."""
    for name, count in (("before", 40), ("after", 41)):
        stamped = [(_packet(number).data, build.EPOCH_S * 1000 + 1000 * number) for number in range(count)]
        blocks = [build.section(), build.interface(), *(build.enhanced(data, ticks) for data, ticks in stamped)]
        (tmp_path / name).mkdir()
        (tmp_path / name / "capture.pcapng").write_bytes(b"".join(blocks))
    words = ("compare", tmp_path / "before", tmp_path / "after", "--json")
    documents = (json.loads(call(*words, "--time-unit", unit).stdout) for unit in ("ms", "us"))
    rates = [document["quantities"][0]["means"][0] for document in documents]
    assert rates == [pytest.approx(800), pytest.approx(32_000)], "bit/s in the seconds with data"


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
def test_dissect_shows_the_times_of_the_forced_unit(ticking: Path) -> None:
    plain = run("dissect", ticking, "--filter", "frame.number == 3").stdout
    forced = run("dissect", ticking, "--filter", "frame.number == 3", "--time-unit", "ms").stdout
    assert "22:13:20.000" in plain
    assert "22:13:20.040" in forced


DRIVE_S = 1_795_421_393
"""Begin of the bundled drive, which lasts three minutes, in seconds since 1970."""


@pytest.fixture
def local_log(tmp_path: Path) -> Path:
    """Return a folder with the packets of a drive in November, and a log in Berlin's time without a zone."""
    folder = tmp_path / "drive"
    folder.mkdir()
    shutil.copy(SAMPLES / "rehearsed-drive" / "mobile" / "tcp-0.pcap.xz", folder)
    times = [datetime.fromtimestamp(DRIVE_S + second, ZoneInfo("Europe/Berlin")) for second in range(190)]
    lines = ["time;rsrp;cell", *(f"{time:%Y-%m-%d %H:%M:%S};-90;5" for time in times)]
    (folder / "log.csv").write_text("\n".join(lines) + "\n")
    _map(folder)
    return folder


def _map(folder: Path, zone: str = "") -> None:
    text = f'delimiter = ";"\n[time]\ncolumn = "time"\n{zone}\n[radio]\nrsrp_dbm = "rsrp"\ncell_id = "cell"\n'
    (folder / "log.csv.toml").write_text(text)


def _headline(folder: Path, *options: str) -> tuple[str | None, str]:
    headline = json.loads(call("diagnose", "--json", folder, *options).stdout)["headline"]
    return headline["cause"], headline["sentence"]


def test_a_log_without_a_zone_is_read_as_utc_and_the_zone_that_fits_is_proposed(local_log: Path) -> None:
    cause, sentence = _headline(local_log)
    assert cause is None
    assert sentence.endswith("With `--zone +01:00` its readings would lie in the time of the packets.")


@pytest.mark.parametrize("zone", ["+01:00", "Europe/Berlin"])
def test_a_log_without_a_zone_is_read_in_that_of_the_option(local_log: Path, zone: str) -> None:
    cause, sentence = _headline(local_log, "--zone", zone)
    assert cause == "radio-normal"
    assert "zone" not in sentence


def test_the_map_decides_before_the_option_and_the_option_before_the_manifest(local_log: Path) -> None:
    manifest = {"schema": "multitracer.session/1", "zone": "Europe/Berlin"}
    (local_log / "manifest.json").write_text(json.dumps(manifest))
    assert _headline(local_log)[0] == "radio-normal"
    assert _headline(local_log, "--zone", "UTC")[0] is None
    assert mt.open(local_log, zone="UTC").diagnose().headline.cause.label is None
    _map(local_log, 'zone = "Europe/Berlin"')
    assert _headline(local_log, "--zone", "UTC")[0] == "radio-normal"


def test_a_manifest_that_names_no_zone_is_passed_over(local_log: Path) -> None:
    for wrong in ("../Mars", 5):
        (local_log / "manifest.json").write_text(json.dumps({"schema": "multitracer.session/1", "zone": wrong}))
        assert "the time zone in the manifest is not used" in call("diagnose", local_log).stderr


def test_a_zone_that_does_not_exist_is_refused(local_log: Path) -> None:
    done = run("diagnose", local_log, "--zone", "Mars/Olympus", status=2)
    assert "'Mars/Olympus' is not a time zone" in done.stderr


# --- memory ---


@pytest.fixture(scope="module")
def packets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200,000 packets of 40,000 connections."""
    path = tmp_path_factory.mktemp("memory") / "a.pcap"
    record = struct.Struct("<IIII")
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 101))
        for number in range(200_000):
            connection, step = divmod(number, 5)
            segment = build.tcp(seq=1000 + step, ack=1, flags=0x18 if step else 0x02, sport=2000 + connection)
            packet = build.ipv4(segment)
            file.write(record.pack(build.EPOCH_S, 1000 * number, len(packet), len(packet)) + packet)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("command", ["diagnose", "report", "analyze --fairness", "plot", "export xplot"])
def test_what_will_not_fit_into_the_memory_is_not_begun(command: str, packets: Path, tmp_path: Path) -> None:
    output = () if command == "diagnose" else ("-o", tmp_path / "out")
    done = run(*command.split(), packets, "--max-memory", "130M", *output, status=1)
    assert done.stderr == (
        f"Error: {packets}: some 200,000 packets need about 200 MB of memory, but 130 MB may be used; read fewer with "
        "--max-packets N, raise --max-memory, or use analyze --stream\n"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_what_was_not_foreseen_ends_at_the_limit_with_a_sentence(packets: Path, tmp_path: Path) -> None:
    squeezed = tmp_path / "a.pcap.gz"
    squeezed.write_bytes(gzip.compress(packets.read_bytes() + bytes(400_000_000), 1))  # zeros are no packets
    words = ("analyze", "--no-stream", squeezed, "-o", tmp_path / "a.txt")
    done = run(*words, "--max-memory", "70M", status=1)
    # the kernel needs no segments, so nothing is planned; Python foresees more than there is
    expected = "some .* packets need about" if kernel() is None else "Error: out of memory; read fewer packets"
    assert re.search(expected, done.stderr)
    assert list(tmp_path.iterdir()) == [squeezed]
    run("diagnose", packets, "--max-memory", "1G")
    done = run("diagnose", packets, "--max-memory", "1K", status=2)
    assert "'1K' is less than the 64M that the program itself needs" in done.stderr


def test_the_limit_of_memory_ends_with_the_command(packets: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with limit_memory(3_000_000_000):
        assert resource.getrlimit(resource.RLIMIT_DATA)[0] == usable_memory_bytes() == 3_000_000_000
        with limit_memory(None):
            assert resource.getrlimit(resource.RLIMIT_DATA)[0] <= 3_000_000_000
    call("inspect", packets)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    usable = usable_memory_bytes()
    assert usable is not None
    assert 0 < usable < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_free_memory_is_that_of_the_control_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_memory, "_CGROUP", tmp_path)
    machine = _memory.free_memory_bytes()
    assert machine is not None
    (tmp_path / "memory.max").write_text("60000000\n")
    (tmp_path / "memory.current").write_text("20000000\n")
    assert _memory.free_memory_bytes() == 40_000_000
    assert usable_memory_bytes() == 32_000_000
    (tmp_path / "memory.max").write_text("max\n")
    again = _memory.free_memory_bytes()
    assert again is not None
    assert again > 40_000_000
