"""Scenario files: the bundled ones, one's own, and every way in which one can be wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.errors import FormatError, InputError, MultiTracerError
from multitracer.lab.channel.cdpd_config import CdpdConfig
from multitracer.lab.scenario.library import bundled_names, load_scenario, parse_scenario
from multitracer.lab.tcp.profile import BSD, MODERN
from tests.narrowed import call_of

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.lab.scenario.model import Scenario

CONTRACT = {
    "clean-bulk", "fig4-slow-start", "fig5-typical", "fig7-overflow", "fig8-resets-vj", "fig8-resets-plain",
    "fig10-backoff", "fig10-exhaustion", "fig11-fade", "fig11-opening", "fig12-flow-control", "overbuffered",
    "sack-modern", "download",
    "second-connection", "fade-n2-20", "slow-reader", "small-sndbuf", "radio-poor", "aqm-ecn",
    "aborted-download", "local-drop-ring", "local-drop-silent", "typical-1450k", "clock-shift",
    "slow-writer", "cdpd-contended", "wtcp-fig1", "wtcp-fig3a", "wtcp-fig3b", "wtcp-fig4a", "wtcp-fig4b",
    "wtcp-fig5", "wtcp-fig6", "ray-1", "ray-2", "ray-3", "ray-4", "ray-5",
    "ray-1-stated", "ray-2-stated", "ray-3-stated", "ray-4-stated", "ray-5-stated", "study-persistence",
    "study-frames", "study-timing", "study-buffers", "study-aborted", "study-umts", "cdma2000-download",
    "cdma2000-sector",
}  # fmt: skip
TRAFFIC = "[[traffic]]\nbytes = 10\n"


def parsed(text: str) -> Scenario:
    def no_trace(name: str) -> None:
        raise InputError(name)

    return parse_scenario(text, name="mine", path="mine.toml", read_trace=no_trace)  # type: ignore[arg-type]


def test_every_scenario_of_the_contract_is_bundled_and_has_a_title() -> None:
    assert set(bundled_names()) == CONTRACT
    assert all(load_scenario(name).title for name in CONTRACT)


def test_the_least_scenario_is_a_transfer_between_two_old_hosts() -> None:
    scenario = parsed(TRAFFIC)
    assert (scenario.name, scenario.mobile, scenario.fixed) == ("mine", BSD, BSD)
    assert scenario.traffic[0].bytes == 10


def test_hosts_share_settings_and_may_differ() -> None:
    scenario = parsed(f"[tcp]\nprofile = 'modern'\nsack = false\n[tcp.fixed]\nmin_rto_ms = 300\n{TRAFFIC}")
    assert scenario.mobile == replace(MODERN, sack=False)
    assert scenario.fixed == replace(MODERN, sack=False, min_rto_ns=300_000_000)


def test_times_are_written_as_people_do() -> None:
    queue = parsed(f"[link.queue]\ntarget_ms = 5.5\ninterval_s = 1\n{TRAFFIC}").link.queue
    assert (queue.target_ns, queue.interval_ns) == (5_500_000, 1_000_000_000)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "traffic"),
        ("[traffic]\nbytes = 1", r"\[\[traffic\]\]"),
        ("[[traffic]]\n", "required keys: bytes"),
        ("[[traffic]]\nbytes = 0", "at least 1"),
        ("[[traffic]]\nbytes = 1\nstart_s = nan", "start_s must be a number from"),
        ("[[traffic]]\nbytes = 1\nstart_s = -1", '"start_s" must be 0 to 86,400'),
        ("[[traffic]]\nbytes = 1\naborts_after_s = 1e9", '"aborts_after_s" must be 0 to 86,400'),
        (f"{TRAFFIC}[clock]\noffset_s = 1e10", '"offset_s" must be -900,000,000 to'),
        (f"{TRAFFIC}[clock]\nskew_ppm = -1e6", '"skew_ppm" must be -100,000 to 100,000'),
        ("[[traffic]]\nbytes = 'many'", "of the type int"),
        ("[[traffic]]\nbytes = true", "of the type int"),
        (f"color = 1\n{TRAFFIC}", "unknown keys: color"),
        (f"limit_s = -1\n{TRAFFIC}", "limit_s"),
        (f"[tcp]\nsak = true\n{TRAFFIC}", "unknown keys: sak"),
        (f"[tcp]\nprofile = 'plan9'\n{TRAFFIC}", "bsd, modern"),
        (f"[tcp]\nmtu_bytes = 0\n{TRAFFIC}", r"\[tcp\] \"mtu_bytes\" must be 68 to 65,535"),
        (f"tcp = 1\n{TRAFFIC}", r"write \[tcp\]"),
        (f"[link]\nstop_by = 'shouting'\n{TRAFFIC}", "x-bit"),
        (f"[link.queue]\npolicy = 'red'\n{TRAFFIC}", "drop-tail"),
        (f"[link.queue]\nlimit_packets = 0\n{TRAFFIC}", "packet"),
        (f"[link.up]\ntrace = 'radio.txt'\n{TRAFFIC}", "radio.txt"),
        (f"[[event]]\nkind = 'meteor'\nat_s = 1\n{TRAFFIC}", "fade"),
        (f"[[event]]\nkind = 'fade'\n{TRAFFIC}", "required keys: at_s"),
        ("[link]\nkind = 'pigeon'", "gsm, cdpd, bluetooth"),
        ("[link]\nkind = []", "gsm, cdpd, bluetooth"),
        ("[link]\nkind = 'cdpd'\nn2 = 6", "unknown keys: n2"),
        ("[link]\nkind = 'cdpd'\n[link.cell]\nbusy = 6", "unknown keys: busy"),
        ("[link]\nkind = 'cdpd'\n[link.cell]\nbusy_percent = 95", "at most 90"),
        ("[link]\nkind = 'bluetooth'\nup = 'DH7'", "DH5"),
        ("[link]\nkind = 'cdma2000'\nrate = 'fastest'", "scheduled"),
        ("not toml", "not valid TOML"),
    ],
)
def test_a_wrong_scenario_says_what_and_where(text: str, reason: str) -> None:
    with pytest.raises(MultiTracerError, match=reason) as caught:
        parsed(text)
    if isinstance(caught.value, FormatError):
        assert str(caught.value).startswith("mine.toml")


@given(st.text(max_size=100))
def test_any_text_is_a_scenario_or_a_documented_error(text: str) -> None:
    for complete in (text, f"{text}\n{TRAFFIC}", f"[link]\n{text}\n{TRAFFIC}"):
        try:
            parsed(complete)
        except MultiTracerError:
            continue


def test_a_file_is_found_by_path_and_its_trace_beside_it(tmp_path: Path) -> None:
    trace = "# multitracer error-trace 1\n# slot_ns 20000000\n# slots 100\nup 7 2\n"
    (tmp_path / "radio.txt").write_text(trace)
    (tmp_path / "mine.toml").write_text(f"[link.up]\nkind = 'replay'\ntrace = 'radio.txt'\n{TRAFFIC}")
    scenario = load_scenario(str(tmp_path / "mine.toml"))
    assert scenario.name == "mine"
    assert call_of(scenario).up.replayed == ((7, 2),)


def test_a_trace_outside_the_scenarios_folder_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("# multitracer error-trace 1\n# slot_ns 1\n# slots 1\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/mine.toml").write_text(f"[link.up]\nkind = 'replay'\ntrace = '../secret.txt'\n{TRAFFIC}")
    with pytest.raises(InputError, match="leads out"):
        load_scenario(str(tmp_path / "mine/mine.toml"))


def test_a_link_to_measure_over_needs_no_traffic_and_does_not_run_by_itself() -> None:
    scenario = parsed("[link]\nkind = 'cdpd'\n[link.network]\nbackhaul_ms = 5.5\n[link.down]\nkind = 'none'\n")
    assert isinstance(scenario.link, CdpdConfig)
    assert scenario.link.network.backhaul_ns == 5_500_000
    assert scenario.link.down.kind == "none"
    assert scenario.link.up == CdpdConfig().up
    with pytest.raises(InputError, match="--over mine"):
        scenario.check_traffic()


def test_a_recorded_error_trace_is_for_data_calls() -> None:
    scenario = load_scenario("cdpd-contended")
    with pytest.raises(InputError, match=r"only with a GSM data call, .*omit --errors"):
        _ = scenario.gsm


def test_an_unknown_name_lists_the_bundled_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"aqm-ecn, .*clean-bulk, .*bluetooth, .*cdma2000, cdpd"):
        load_scenario("clean")
    with pytest.raises(InputError, match="cannot read this file"):
        load_scenario(str(tmp_path / "absent.toml"))
