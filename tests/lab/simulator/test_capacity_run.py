"""Runs over a capacity trace: from a scenario's file to a session, and from a session to a trace again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.errors import FormatError, InputError
from multitracer.lab.scenario.library import load_scenario, read_capacity_trace
from multitracer.lab.scenario.radio import realism_of
from multitracer.lab.simulator.run import record_virtual
from multitracer.protocols.capacity_trace import CapacityTrace
from multitracer.recording.capacity import recorded_capacity
from multitracer.recording.inputs import find_inputs
from multitracer.recording.read import read
from multitracer.units import NS_PER_S
from tests.cli.program import call
from tests.conftest import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = """
limit_s = 20
[tcp]
profile = "modern"
mtu_bytes = 1500
send_buffer_bytes = 4_000_000
receive_buffer_bytes = 4_000_000
[link]
kind = "capacity"
delay_ms = 15
[link.queue]
limit_packets = 5_000
[link.down]
trace = "radio.down"
[[traffic]]
direction = "down"
bytes = 50_000_000
"""


@pytest.fixture(scope="module")
def uneven() -> CapacityTrace:
    """Four seconds with 0 to 4 opportunities in a ms, a pause of 300 ms, 2.4 Mbit/s in the mean."""
    luck = np.random.default_rng(5)
    stamps = np.sort(luck.integers(0, 4_000, 800))
    stamps = stamps[(stamps < 1_000) | (stamps > 1_300)]
    return CapacityTrace(np.append(stamps, 4_000))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, uneven: CapacityTrace) -> Path:
    path = tmp_path_factory.mktemp("capacity")
    (path / "radio.down").write_text(uneven.text())
    (path / "drive.toml").write_text(SCENARIO)
    return path


@pytest.fixture(scope="module")
def session(folder: Path) -> Path:
    record_virtual(load_scenario(str(folder / "drive.toml")), folder / "run")
    return folder / "run"


def test_a_full_link_is_exported_as_the_trace_that_it_followed(session: Path, uneven: CapacityTrace) -> None:
    """From two seconds on packets always wait; of each opportunity then the stamp comes out, shifted."""
    recording = read(find_inputs(str(session)))
    delivered = recorded_capacity(recording, *recording.chosen(None))
    rounds = np.arange(6)[:, None] * uneven.lasts_ms
    followed = (rounds + uneven.stamps_ms).ravel()
    first_arrival_ms = _first_arrival_ms(followed)
    out = delivered.trace.stamps_ms + first_arrival_ms
    late = out[out > 2_000]
    assert len(late) > 2_000
    expected = followed[(followed > 2_000) & (followed <= late[-1])]
    assert np.array_equal(late, expected)


def _first_arrival_ms(followed: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> int:
    """Return the opportunity of the first packet: SYN-ACK, 15 ms after the SYN left."""
    return int(followed[followed > 15][0])


def test_the_command_exports_and_says_what_is_not_known(session: Path, tmp_path: Path) -> None:
    done = call("export", "capacity", session, "-o", tmp_path / "out.down")
    trace = read_capacity_trace(tmp_path / "out.down")
    assert "derived from" in done.stderr
    assert "it could have carried more" in done.stderr
    assert f"{len(trace):,} opportunities" in done.stderr
    again = call("export", "capacity", session / "mobile/tcp-0.pcap")
    assert again.stdout == trace.text()
    at_sender = call("export", "capacity", session / "fixed/tcp-0.pcap", status=1)
    assert "recorded at the sender of the data" in at_sender.stderr


def test_too_little_is_no_trace(session: Path, tmp_path: Path) -> None:
    few = call("export", "capacity", "--max-packets", "2", session / "mobile/tcp-0.pcap", status=1)
    assert "the receiver must have received at least 1504 octets" in few.stderr


def test_the_end_of_the_trace_is_said_and_can_be_chosen(folder: Path, tmp_path: Path) -> None:
    virtual = ("testbed", "run", folder / "drive.toml", "--virtual")
    again = call(*virtual, "-o", tmp_path / "again")
    assert "radio derived: capacity from delivery opportunities" in again.stdout
    assert "the trace lasts 4.0 s, the run took 20.0 s: the trace began 5 times" in again.stdout
    once = call(*virtual, "--at-end", "stop", "-o", tmp_path / "once")
    assert "the run stops at the end of the trace" in once.stdout
    assert (tmp_path / "once/scenario.toml").read_text("utf-8").endswith("\n# repeat it with --at-end stop\n")
    manifest = json.loads((tmp_path / "once/manifest.json").read_text())
    assert manifest["variables"]["parameters"]["link"]["down"]["trace"] == {
        "opportunities": len(read_capacity_trace(folder / "radio.down")),
        "lasts_ms": 4_000,
    }
    new = ("-o", tmp_path / "x")
    assert "can only be repeated or the run stops" in call(*virtual, "--at-end", "clear", *new, status=1).stderr
    lone = call("testbed", "run", "clean-bulk", "--virtual", "--at-end", "stop", *new, status=1)
    assert "the link of this scenario has no trace" in lone.stderr


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_and_linux_runs_too(folder: Path, session: Path) -> None:
    scenario = load_scenario(str(folder / "drive.toml"))
    record_virtual(scenario, folder / "same")
    for name in ("mobile/tcp-0.pcap", "fixed/rlp.pcapng", "truth/segments.csv"):
        assert (folder / "same" / name).read_bytes() == (session / name).read_bytes()
    linux = record_virtual(scenario.as_linux(), folder / "linux")
    ours = json.loads((session / "summary.json").read_text())
    assert linux.goodput_bytes_per_s == pytest.approx(ours["goodput_bytes_per_s"], rel=0.05)


def test_a_measurement_over_it_meets_no_radio(folder: Path, tmp_path: Path) -> None:
    (folder / "plain.toml").write_text('[link]\nkind = "capacity"\n[link.down]\ntrace = "radio.down"\n')
    what = ("--protocol", "tcp", "--vary", "reply", "--sizes", "2000", "--sessions", "3")
    call("measure", "run", *what, "--over", folder / "plain.toml", "--virtual", "-o", tmp_path / "m")
    lines = (tmp_path / "m/transactions.csv").read_text().splitlines()
    assert [line.split(",")[20] for line in lines[1:]] == ["ok"] * 3
    told = (tmp_path / "m/mobile/modem-0.jsonl").read_text()
    assert "*MTLINK: ,-,-,-,-,1" in told, "of no technology"


def test_hours_without_capacity_take_no_time(folder: Path) -> None:
    (folder / "radio.long").write_text("1000\n2000\n14400000\n")
    text = SCENARIO.replace("radio.down", "radio.long").replace("limit_s = 20", "limit_s = 10_000")
    (folder / "long.toml").write_text(text)
    scenario = load_scenario(str(folder / "long.toml"))
    assert realism_of(scenario.link).lasts_ns == 14_400 * NS_PER_S
    summary = record_virtual(scenario, folder / "long")
    assert summary.tcp_retransmissions < 100


@pytest.mark.parametrize(
    ("link", "says"),
    [
        ('[link]\nkind = "capacity"', 'kind "capacity" needs a trace; name a trace in'),
        ('[link]\nkind = "capacity"\n[link.up]\ntrace = 3', '[link.up] "trace" must be the name of a capacity trace'),
        ('[link]\nkind = "capacity"\n[link.up]', '[link.up] "trace" must be the name of a capacity trace'),
        ('[link]\nkind = "capacity"\n[link.up]\nkind = "replay"', "[link.up] contains unknown keys: kind"),
        (
            '[link]\nkind = "capacity"\nat_end = "clear"\n[link.up]\ntrace = "good"',
            "at_end must be one of ('repeat', 'stop'), but is 'clear'",
        ),
        ('[link]\nkind = "capacity"\n[link.up]\ntrace = "back"', "the time decreases from 5 to 4 ms"),
        ('[link]\nkind = "capacity"\n[link.up]\ntrace = "absent"', "cannot read this file"),
        ('[link]\nkind = "capacity"\n[link.up]\ntrace = "../good"', "leads out"),
        ('[link]\nkind = "capacity"\n[link.queue]\nlimit_bytes = -1\n[link.up]\ntrace = "good"', "limit_bytes"),
    ],
)
def test_a_wrong_scenario_is_one_sentence(link: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "good").write_text("5\n")
    (tmp_path / "back").write_text("5\n4\n")
    (tmp_path / "mine.toml").write_text(f"{link}\n[[traffic]]\nbytes = 1000\n")
    with pytest.raises((FormatError, InputError)) as refused:
        load_scenario(str(tmp_path / "mine.toml"))
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.fixtures
def test_a_recorded_lte_drive_is_followed(tmp_path: Path) -> None:
    for way in ("up", "down"):
        recorded = FIXTURES / f"mahimahi/ATT-LTE-driving-2016.{way}"
        assert read_capacity_trace(recorded).text() == recorded.read_text()
        (tmp_path / f"lte.{way}").write_text(recorded.read_text())
    both = '[link.up]\ntrace = "lte.up"\n[link.down]\ntrace = "lte.down"'
    (tmp_path / "lte.toml").write_text(SCENARIO.replace('[link.down]\ntrace = "radio.down"', both))
    summary = record_virtual(load_scenario(str(tmp_path / "lte.toml")), tmp_path / "run")
    capacity = read_capacity_trace(tmp_path / "lte.down")
    within = np.count_nonzero(capacity.stamps_ms < 20_000) * 1500 / 20
    assert 0.5 < (summary.goodput_bytes_per_s or 0) / within < 1
