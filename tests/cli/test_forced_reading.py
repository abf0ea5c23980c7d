"""Options that say how captures are read are options of every command that reads one, and hold in it."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import click
import pytest

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
from multitracer.report.write import Request
from parsers import force_reading, forced_reading
from tests.cli.program import call, run
from tests.parsers import frames as build

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NO_CAPTURE = {
    "campaign compact", "campaign forget", "campaign query", "campaign status", "campaign verify", "capture",
    "completion", "doctor", "export errors", "formats", "measure plan", "measure run", "measure serve", "merge",
    "testbed channel", "testbed compare", "testbed doctor", "testbed list", "testbed run",
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
    lacking = {name for name, command in _commands(cli) if not {*FORCING} <= {each.name for each in command.params}}
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
