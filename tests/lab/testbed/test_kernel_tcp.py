"""What a scenario says of TCP, in the words of Linux."""

from __future__ import annotations

import pytest

from multitracer.errors import PreflightError
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.tcp.profile import tcp_profile
from multitracer.lab.testbed.namespaces import congestion_control, route_options, sysctls
from multitracer.lab.testbed.run import plan
from multitracer.lab.testbed.traffic import TrafficPlan

BSD, MODERN = tcp_profile("bsd"), tcp_profile("modern")


def test_a_tcp_of_1999_has_nothing_that_hides_its_timeouts() -> None:
    settings = sysctls(BSD, speed=1)
    off = ("tcp_sack", "tcp_dsack", "tcp_recovery", "tcp_early_retrans", "tcp_frto", "tcp_ecn", "tcp_window_scaling")
    assert [settings[name] for name in off] == [0] * len(off)
    assert settings["tcp_no_metrics_save"] == 1


def test_a_present_tcp_keeps_its_defaults() -> None:
    assert not {"tcp_recovery", "tcp_early_retrans", "tcp_frto"} & sysctls(MODERN, speed=1).keys()
    assert sysctls(MODERN, speed=1)["tcp_sack"] == 1


@pytest.mark.parametrize(
    ("profile", "speed", "rto_min", "rto_max"),
    [(BSD, 1, "1000ms", 64_000), (BSD, 20, "50ms", 3_200), (MODERN, 50, "4ms", 1_200), (BSD, 50, "20ms", 1_280)],
)
def test_timers_run_as_fast_as_the_link(profile: object, speed: float, rto_min: str, rto_max: int) -> None:
    words = route_options(profile, speed=speed)  # type: ignore[arg-type]
    assert words[words.index("rto_min") + 1] == rto_min
    assert sysctls(profile, speed=speed)["tcp_rto_max_ms"] == rto_max  # type: ignore[arg-type]
    assert ("quickack" in words) == (speed > 1)


def test_linux_has_no_tahoe() -> None:
    assert congestion_control(BSD) == "reno"
    with pytest.raises(PreflightError, match="--virtual"):
        congestion_control(tcp_profile("bsd", congestion="tahoe"))


def test_each_host_is_told_its_part() -> None:
    addresses = {"mobile": "10.0.0.1", "fixed": "10.0.0.2"}
    scenario = load_scenario("second-connection")
    mobile, fixed = (plan(scenario, side, addresses=addresses, speed=4) for side in ("mobile", "fixed"))  # type: ignore[arg-type]
    assert [t.role for t in (*mobile.transfers, *fixed.transfers)] == ["connect"] * 2 + ["accept"] * 2
    assert [t.sends for t in (*mobile.transfers, *fixed.transfers)] == [True] * 2 + [False] * 2
    assert [t.port for t in mobile.transfers] == [t.port for t in fixed.transfers] == [5001, 5002]
    assert mobile.transfers[1].start_s == 40
    assert (mobile.local, mobile.remote) == (fixed.remote, fixed.local) == ("10.0.0.1", "10.0.0.2")
    assert TrafficPlan.parse(mobile.text()) == mobile


def test_only_a_small_send_buffer_is_set() -> None:
    addresses = {"mobile": "10.0.0.1", "fixed": "10.0.0.2"}
    small, typical = (
        plan(load_scenario(name), "mobile", addresses=addresses, speed=1)  # type: ignore[arg-type]
        for name in ("small-sndbuf", "clean-bulk")
    )
    assert (small.send_buffer_bytes, typical.send_buffer_bytes) == (1_024, 0)
