"""A measurement in virtual time: determined by its seed, true in its sums, gone on with as if never ended."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

import multitracer as mt
from multitracer.errors import InputError
from multitracer.lab.rig.radios import profile_name, with_tcp_profile
from multitracer.lab.rig.virtual import VirtualTcp
from multitracer.lab.simulator.network import EPOCH_NS, VirtualNetwork
from multitracer.lab.tcp.profile import tcp_profile
from multitracer.manifest import changed_files, read_manifest
from multitracer.measure.transports import TransportOptions
from multitracer.protocols.centaurus.messages import Extension
from multitracer.units import NS_PER_S
from tests.lab.rig.virtual import CLEAN, LOSSY, link, plan, rows, run

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.lab.scenario.model import Scenario
    from multitracer.measure.plan import MeasurementPlan, ProtocolName

PROTOCOLS: list[ProtocolName] = ["tcp", "centauruscomm", "wtcp"]
BLACKOUT = """
[link]
n2 = 255
[[event]]
kind = "fade"
after = "first-packet"
at_s = 20
duration_s = 100
[[traffic]]
bytes = 1
"""


def _bytes(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_run_is_determined_by_its_seed(protocol: ProtocolName, tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        run(plan(protocol), tmp_path / name, link(LOSSY), seed=seed, capture=True)
    first, again, other = (_bytes(tmp_path / name) for name in "abc")
    assert first == again
    assert first["transactions.csv"] != other["transactions.csv"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_times_follow_each_other_and_begin_at_the_epoch(protocol: ProtocolName, tmp_path: Path) -> None:
    found = run(plan(protocol), tmp_path / "run", link(LOSSY))
    starts = [int(row["start_ns"]) for row in found]
    assert EPOCH_NS < starts[0] < EPOCH_NS + 30 * NS_PER_S
    for before, after in pairwise(found):
        assert int(after["start_ns"]) >= int(before["start_ns"]) + float(before["rtt_s"]) * NS_PER_S
    assert {row["outcome"] for row in found} == {"ok"}
    assert {row["label_where"] for row in found} == {"here"}


def test_what_tcp_sent_is_the_messages_and_what_was_sent_again(tmp_path: Path) -> None:
    found = run(plan("tcp", (64, 6000), 6), tmp_path / "run", link(LOSSY))
    for row in found:
        for sent, length, again in (
            ("bytes_up", "request_bytes", "retransmitted_client"),
            ("bytes_down", "reply_bytes", "retransmitted_server"),
        ):
            assert int(row[sent]) >= int(row[length])
            assert (int(row[sent]) > int(row[length])) == (int(row[again]) > 0)
        assert float(row["server_rtt_s"]) > 0
        assert row["efficiency"] == row["clock_offset_s"] == ""
    assert any(int(row["retransmitted_client"]) for row in found), "a queue of four holds no window of eight"
    assert [bool(row["connect_s"]) for row in found] == [True] + [False] * (len(found) - 1)


def test_a_connection_for_each_session_is_set_up_each_time(tmp_path: Path) -> None:
    found = run(plan("tcp", (64,), 5, connection="per-session"), tmp_path / "run", link())
    one = run(plan("tcp", (64,), 5), tmp_path / "one", link())
    assert all(float(row["connect_s"]) > 0.3 for row in found)
    assert float(found[-1]["rtt_s"]) >= float(one[-1]["rtt_s"])
    assert int(found[-1]["start_ns"]) > int(one[-1]["start_ns"])


def test_centauruscomm_accounts_and_compares_the_clocks(tmp_path: Path) -> None:
    found = run(plan("centauruscomm", (64, 6000), 6), tmp_path / "run", link(LOSSY))
    for row in found:
        assert int(row["bytes_up"]) > int(row["request_bytes"])
        assert 0 < float(row["efficiency"]) <= 1
        off_s = float(row["clock_offset_s"]) - 0.25
        assert abs(off_s) <= float(row["clock_uncertainty_s"]) + 0.05, "the fixed host's clock is 0.25 s ahead"
        assert row["connect_s"] == ""


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_blackout_drops_what_it_hits_and_nothing_after(protocol: ProtocolName, tmp_path: Path) -> None:
    """30 s of patience, 100 s without a frame: some are dropped, those after it are not."""
    found = run(plan(protocol, (64,), 40, timeout_s=30.0), tmp_path / "run", link(BLACKOUT))
    dropped = [n for n, row in enumerate(found) if row["outcome"] == "dropped"]
    assert 2 <= len(dropped) <= 6
    assert dropped == list(range(dropped[0], dropped[-1] + 1))
    assert dropped[0] > 0
    assert dropped[-1] < len(found) - 1
    for n in dropped:
        assert found[n]["why"] in ("connect", "request", "reply", "goodbye")
        waited_s = (int(found[n + 1]["start_ns"]) - int(found[n]["start_ns"])) / NS_PER_S
        assert waited_s >= 30.0
        assert found[n]["efficiency"] == found[n]["server_rtt_s"] == ""


def test_a_link_that_is_dead_from_the_start_is_said(tmp_path: Path) -> None:
    dead = BLACKOUT.replace("at_s = 20", "at_s = 0")
    for protocol in PROTOCOLS:
        with pytest.raises(InputError, match="test: no packet can pass the link at the start"):
            run(plan(protocol), tmp_path / protocol, link(dead))


def test_a_tcp_that_gave_up_says_so_each_time_it_is_told_to_send() -> None:
    scenario = link(BLACKOUT.replace("duration_s = 100", "duration_s = 4000"))
    impatient = replace(tcp_profile("bsd"), max_retransmissions=2)
    network = VirtualNetwork(replace(scenario, mobile=impatient, fixed=impatient), seed=1, link_first=True)
    ends = VirtualTcp(network, "mobile")
    connection = ends.dial(60.0)
    network.wait(30 * NS_PER_S, lambda: False)  # the blackout has begun
    connection.settimeout(3000.0)
    for octets in (b"x" * 100_000, b"x", b"x"):
        with pytest.raises(OSError, match="timed out"):
            connection.sendall(octets)
    connection.close()


# --- interruption ---

_KILLED = """
import os, signal, sys
from pathlib import Path
from tests.lab.rig.virtual import LOSSY, link, plan
from multitracer.lab.rig.virtual import run_virtual

def progress(done, dropped, total):
    if done == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)

run_virtual(plan(sys.argv[1]), Path(sys.argv[2]), link(LOSSY), progress=progress, seed=3)
"""


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_killed_run_goes_on_as_if_it_had_not_been(protocol: ProtocolName, tmp_path: Path) -> None:
    run(plan(protocol), tmp_path / "whole", link(LOSSY), seed=3)
    folder = tmp_path / "killed"
    for after in (2, 5):  # twice, the second time while it goes on
        command = [sys.executable, "-c", _KILLED, protocol, str(folder), str(after)]
        assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
        assert [row["transaction"] for row in rows(folder)] == [str(n + 1) for n in range(after)]
    with (folder / "transactions.csv").open("ab") as stream:
        stream.write(b"6,tcp,requ")  # as a crash of the machine cuts a line
    run(plan(protocol), folder, link(LOSSY), seed=3)
    assert _bytes(folder) == _bytes(tmp_path / "whole")


def test_a_finished_run_is_left_as_it_is(tmp_path: Path) -> None:
    run(plan("tcp"), tmp_path, link(LOSSY))
    before = _bytes(tmp_path)
    run(plan("tcp"), tmp_path, link(LOSSY))
    assert _bytes(tmp_path) == before


def test_a_folder_is_gone_on_with_by_the_same_run_only(tmp_path: Path) -> None:
    run(plan("tcp"), tmp_path, link(LOSSY))
    others: tuple[tuple[MeasurementPlan, Scenario, dict[str, Any]], ...] = (
        (plan("tcp", (65,)), link(LOSSY), {}),
        (plan("tcp"), link(CLEAN), {}),
        (plan("tcp"), link(LOSSY), {"seed": 2}),
        (plan("tcp"), link(LOSSY), {"options": TransportOptions(extensions=Extension.EARLY_START)}),
        (plan("tcp"), with_tcp_profile(link(LOSSY), "today"), {}),
    )
    for what, scenario, more in others:
        with pytest.raises(InputError, match="does not belong to this plan"):
            run(what, tmp_path, scenario, **more)


def test_a_record_that_cannot_be_computed_again_is_not_mixed_with_another(tmp_path: Path) -> None:
    run(plan("tcp"), tmp_path, link(LOSSY))
    path = tmp_path / "transactions.csv"
    header, first, second, *_ = path.read_text("utf-8").splitlines(keepends=True)
    start_ns = second.split(",")[9]
    path.write_text(header + first + second.replace(start_ns, str(int(start_ns) + 1)), "utf-8")
    before = _bytes(tmp_path)
    with pytest.raises(InputError, match="transaction 2 now has another result"):
        run(plan("tcp"), tmp_path, link(LOSSY))
    after = _bytes(tmp_path)
    assert {name: after[name] for name in before} == before, "the radio log of the older run is not lost"


# --- what it says of itself ---


def test_the_manifest_says_what_the_run_was(tmp_path: Path) -> None:
    scenario = with_tcp_profile(link(LOSSY), "today")
    run(plan("tcp"), tmp_path, scenario, seed=9)
    manifest = read_manifest(tmp_path)
    assert manifest is not None
    said = manifest.variables
    assert (said.seed, said.virtual, said.speed, said.tcp_profile) == (9, True, 1, "today")
    assert said.scenario == LOSSY
    assert said.measurement == plan("tcp").measurement()
    assert {log.path for log in manifest.files} >= {"transactions.csv", "mobile/modem-0.jsonl"}
    assert list(changed_files(tmp_path, manifest)) == []


def test_profiles_keep_the_mtu() -> None:
    scenario = link()
    small = replace(scenario, mobile=replace(scenario.mobile, mtu_bytes=576))
    for name in ("1999", "today"):
        chosen = with_tcp_profile(small, name)
        assert (chosen.mobile.mtu_bytes, chosen.fixed.mtu_bytes) == (576, small.fixed.mtu_bytes)
        assert profile_name(chosen) == name
    assert profile_name(replace(small, mobile=replace(small.mobile, nagle=False))) == "scenario"
    with pytest.raises(InputError, match="choose one of 1999, today"):
        with_tcp_profile(small, "2001")


def test_captures_and_variables_of_both_ends_agree_with_the_transactions(tmp_path: Path) -> None:
    found = run(plan("tcp", (3000,), 3, connection="per-session"), tmp_path, link(LOSSY), capture=True)
    session = mt.open(tmp_path)
    assert len(session.connections) == 2 * (1 + len(found)), "one more to see whether the server is there"
    states = session.tcp_state.query("host == 'mobile'").groupby("cookie")
    again = states.total_retransmitted_segments.max().tolist()[1:]
    told = [int(row["retransmitted_client"]) for row in found]  # of the request; a good-bye may add to it
    assert sum(told) > 0
    assert all(most >= some for most, some in zip(again, told, strict=True))
    assert set(session.link_events.host) == {"mobile", "fixed"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_capture_changes_nothing(protocol: ProtocolName, tmp_path: Path) -> None:
    for name, capture in (("with", True), ("without", False)):
        run(plan(protocol), tmp_path / name, link(LOSSY), capture=capture)
    captured, plain = (_bytes(tmp_path / name) for name in ("with", "without"))
    assert plain.keys() < captured.keys()
    assert {name: captured[name] for name in plain} == plain
