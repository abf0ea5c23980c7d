"""The radios of CDPD and Bluetooth: recorded, exported and replayed, and how real each is said to be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from multitracer.errors import InputError, LocalProtocolError
from multitracer.lab.channel.bluetooth_piconet import BitErrorConfig, BluetoothConfig
from multitracer.lab.channel.cdpd_config import CdpdConfig
from multitracer.lab.channel.shared.frame_errors import ErrorConfig, ReplayedErrors
from multitracer.lab.scenario.library import load_scenario, read_error_trace
from multitracer.lab.scenario.model import Scenario, ScenarioTraffic
from multitracer.lab.scenario.radio import realism_of, under_errors
from multitracer.lab.simulator.run import record_virtual
from multitracer.protocols.error_trace import ErrorTrace, LostRuns, parse_error_trace
from tests.cli.program import call

BLUETOOTH = BluetoothConfig(errors=BitErrorConfig(good_s=2, bad_s=1, good_ber=1e-6, bad_ber=1e-4))
"""At 1e-4 one header in two million is not decoded; a trace does not tell that from a payload that fails."""
LINKS: dict[str, Any] = {"cdpd": CdpdConfig(), "bluetooth": BLUETOOTH}
LOGS = ("mobile/tcp-0.pcap", "fixed/tcp-0.pcap", "mobile/rlp.pcapng", "truth/segments.csv", "summary.json")


def over(kind: str) -> Scenario:
    traffic = ScenarioTraffic(bytes=60_000 if kind == "cdpd" else 1_500_000, direction="down")
    return Scenario(name=kind, link=LINKS[kind], traffic=(traffic,), limit_s=200)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LINKS)
def test_the_exported_radio_repeats_the_run(kind: str, tmp_path: Path) -> None:
    scenario = over(kind)
    record_virtual(scenario, tmp_path / "first", seed=3)
    text = call("export", "errors", tmp_path / "first").stdout
    trace = parse_error_trace(text, path="-")
    assert trace.text() == text
    assert sum(count for _, count in trace.down) > 20
    under, realism = under_errors(scenario, trace, path="radio.txt")
    assert realism.kind == ("recorded" if kind == "cdpd" else "derived")
    record_virtual(under, tmp_path / "again", seed=3)
    for name in LOGS:
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "first" / name).read_bytes(), name
    clear, _ = under_errors(scenario, replace(trace, up=(), down=()), path="clear.txt")
    record_virtual(clear, tmp_path / "clear", seed=3)
    assert (tmp_path / "clear/summary.json").read_text() != (tmp_path / "first/summary.json").read_text()


def test_the_slots_of_each_direction_are_those_of_its_blocks(tmp_path: Path) -> None:
    record_virtual(over("cdpd"), tmp_path / "run", seed=1)
    trace = read_error_trace(tmp_path / "run/truth/radio.txt")
    assert (trace.slot_ns_of("up"), trace.slot_ns_of("down")) == (20_052_083, 21_875_000)
    ended = json.loads((tmp_path / "run/manifest.json").read_text())["collectors"][0]["ended_ns"]
    assert trace.lasts_ns == pytest.approx(ended - 946_684_800 * 10**9, abs=21_875_000)
    assert trace.slots_of("down") < trace.slots


def test_errors_come_from_the_command_line_for_every_kind_of_link(tmp_path: Path) -> None:
    record_virtual(over("cdpd"), tmp_path / "first", seed=3)
    call("export", "errors", tmp_path / "first", "-o", tmp_path / "radio.txt")
    errors = ("--virtual", "--errors", tmp_path / "radio.txt")
    done = call("testbed", "run", "cdpd-contended", *errors, "--at-end", "repeat", "-o", tmp_path / "again")
    assert "radio recorded: which blocks the radio destroyed is a recording" in done.stdout
    assert "s: the trace began" in done.stdout
    refused = call("testbed", "run", "clean-bulk", *errors, "-o", tmp_path / "other", status=1)
    assert "the slots of this trace are 20052083 ns up and 21875000 ns down" in refused.stderr


def test_a_measurement_runs_under_recorded_errors(tmp_path: Path) -> None:
    trace = "# multitracer error-trace 1\n# slot_ns 20052083\n# down_slot_ns 21875000\n# slots 999\ndown 30 700\n"
    (tmp_path / "radio.txt").write_text(trace)
    what = ("--vary", "request", "--sizes", "128", "--sessions", "3")
    plan = ("measure", "run", "--protocol", "tcp", *what, "--over", "cdpd")
    free = call(*plan, "--virtual", "-o", tmp_path / "free")
    under = call(*plan, "--virtual", "--errors", tmp_path / "radio.txt", "-o", tmp_path / "under")
    assert "radio recorded: which blocks" in under.stderr
    assert "radio" not in free.stderr
    one, other = ((tmp_path / name / "transactions.csv").read_text() for name in ("free", "under"))
    assert one != other
    again = call(*plan, "--virtual", "-o", tmp_path / "under", status=1)
    assert "another" in again.stderr
    errors = ("--errors", tmp_path / "radio.txt", "-o", tmp_path / "lone")
    lone = call("measure", "run", "--protocol", "tcp", "--server", "localhost:1", *errors, status=2)
    assert "--errors can be used only with --over" in lone.stderr


def test_a_file_without_an_end_is_refused() -> None:
    with pytest.raises(InputError, match="/dev/zero: the file is longer than 16 MiB"):
        read_error_trace(Path("/dev/zero"))


def test_a_link_without_frames_takes_no_error_trace() -> None:
    trace = ErrorTrace(20_000_000, 10, (), ())
    plain = replace(over("cdpd"), link=CdpdConfig(recovery="none"))
    with pytest.raises(InputError, match="an error trace cannot be used with the link"):
        under_errors(plain, trace, path="radio.txt")


def test_a_run_ends_with_its_trace_if_that_is_wanted() -> None:
    scenario = load_scenario("clean-bulk")
    trace = ErrorTrace(20_000_000, 500, ((3, 2),), ())
    stopped, realism = under_errors(scenario, trace, path="t", at_end="stop")
    assert stopped.limit_s == 10
    assert realism.end(10_000_000_001).endswith("the run stops at the end of the trace")
    _, clear = under_errors(scenario, trace, path="t")
    assert clear.end(5_000_000_000) == "the trace lasts 10.0 s, the run took 5.0 s"
    assert clear.end(25_000_000_000).endswith("after the end of the trace the radio has no errors")
    again, repeated = under_errors(scenario, trace, path="t", at_end="repeat")
    assert again.gsm.up.repeat_slots == 500
    assert repeated.end(25_000_000_000).endswith("the trace began 3 times")


def test_a_recording_repeats_after_its_length() -> None:
    errors = ReplayedErrors(((1, 2), (6, 1)), repeat_slots=8)
    assert [slot for slot in range(24) if errors.lost(slot)] == [1, 2, 6, 9, 10, 14, 17, 18, 22]
    once = ReplayedErrors(((1, 2), (6, 1)))
    assert [slot for slot in range(24) if once.lost(slot)] == [1, 2, 6]
    for wrong in (6, -1):
        with pytest.raises(LocalProtocolError, match="repeat_slots"):
            ErrorConfig(kind="replay", replayed=((1, 2), (6, 1)), repeat_slots=wrong)
        with pytest.raises(LocalProtocolError, match="repeat_slots"):
            BitErrorConfig(kind="replay", replayed_up=((1, 2), (6, 1)), repeat_slots=wrong)


def test_failed_slots_are_joined_to_runs() -> None:
    lost = LostRuns()
    for first, count in ((3, 1), (4, 2), (9, 5), (9, 3), (12, 4)):
        lost.add(first, count)
    assert lost.runs == ((3, 3), (9, 7))


def test_a_scenario_names_its_trace(tmp_path: Path) -> None:
    (tmp_path / "radio.txt").write_text("# multitracer error-trace 1\n# slot_ns 625000\n# slots 90\nup 7 2\n")
    link = '[link]\nkind = "bluetooth"\n[link.errors]\nkind = "replay"\ntrace = "radio.txt"\n'
    (tmp_path / "mine.toml").write_text(f"{link}[[traffic]]\nbytes = 1000\n")
    scenario = load_scenario(str(tmp_path / "mine.toml"))
    assert isinstance(scenario.link, BluetoothConfig)
    assert scenario.link.errors.replayed_up == ((7, 2),)
    assert realism_of(scenario.link).kind == "derived"
    assert realism_of(BLUETOOTH).kind == realism_of(CdpdConfig()).kind == "modelled"
    record_virtual(scenario, tmp_path / "run")
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    assert manifest["variables"]["parameters"]["link"]["errors"]["replayed_up_runs"] == 1
