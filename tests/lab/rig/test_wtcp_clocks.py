"""WTCP measured over modelled links: one core, in virtual time and under real kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import pytest

import multitracer as mt
from multitracer.errors import InputError
from multitracer.lab.channel.links import LINK_KINDS
from multitracer.lab.rig import virtual
from multitracer.lab.rig.real import run_real
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.scenario.model import WTCP_PACKET_BYTES
from multitracer.lab.simulator.network import VirtualNetwork
from multitracer.measure.plan import ProtocolName
from tests.lab.rig.real import measuring, transactions
from tests.lab.rig.virtual import link, plan, run
from tests.lab.testbed.running import document, finished

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.simulator.host import SimulatedHost

KINDS = tuple(LINK_KINDS)
CALL = '[tcp]\nmtu_bytes = 576\n[link]\nkind = "gsm"\n[[traffic]]\nbytes = 1\n'
"""A data call without errors."""
SPEED = 5


TRACE = "".join(f"{ms}\n" for ms in range(200, 10_001, 200))
"""Five packets each second, for ten seconds, over and over: a capacity of 60 kbit/s."""


def of_kind(kind: str, folder: Path) -> Scenario:
    """Return a scenario of one kind of link."""
    more = {"gsm": "[[traffic]]\nbytes = 1\n", "capacity": '[link.down]\ntrace = "down"\n'}
    (folder / "down").write_text(TRACE)
    (folder / "test.toml").write_text(f'[tcp]\nmtu_bytes = 576\n[link]\nkind = "{kind}"\n{more.get(kind, "")}')
    return load_scenario(str(folder / "test.toml"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_link_carries_long_messages(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []
    offer = VirtualNetwork.transmit

    def noted(self: VirtualNetwork, host: SimulatedHost, data: bytes) -> bool:
        lengths.append(len(data))
        return offer(self, host, data)

    monkeypatch.setattr(VirtualNetwork, "transmit", noted)
    over = of_kind(kind, tmp_path)
    found = run(plan("wtcp", (64, 100_000), 2, timeout_s=600.0), tmp_path / "run", over)
    assert [row["outcome"] for row in found] == ["ok"] * 4
    assert max(lengths) == WTCP_PACKET_BYTES
    for row in found:
        assert int(row["bytes_up"]) >= int(row["request_bytes"])
        assert int(row["bytes_down"]) >= int(row["reply_bytes"])
        assert float(row["server_rtt_s"]) > 0


def test_a_session_of_its_own_for_each_transaction_connects_each_time(tmp_path: Path) -> None:
    found = run(plan("wtcp", (64,), 40, connection="per-session"), tmp_path, link(CALL), capture=True)
    assert [row["outcome"] for row in found] == ["ok"] * 40
    assert all(float(row["connect_s"]) > 0.3 for row in found)
    assert mt.open(tmp_path).warnings == []


@pytest.mark.parametrize("runs", [virtual.run_virtual, run_real])
def test_a_link_whose_packets_are_too_short_is_refused(runs: Callable[..., Any], tmp_path: Path) -> None:
    words = "test: transport wtcp sends packets of 500 bytes, .* mtu_bytes = 296 does not carry; choose 500"
    short = link('[tcp]\nmtu_bytes = 296\n[link]\nkind = "cdpd"\n')
    with pytest.raises(InputError, match=words):
        runs(plan("wtcp"), tmp_path / "new", short, progress=print)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_transport_is_refused_in_both_times(tmp_path: Path) -> None:
    unknown = plan("tcp")
    object.__setattr__(unknown, "protocol", "sctp")
    for runs in (virtual.run_virtual, run_real):
        with pytest.raises(InputError, match="sctp: unknown transport; choose one of tcp"):
            runs(unknown, tmp_path / "new", link(CALL), progress=lambda *_: None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("protocol", get_args(ProtocolName))
def test_virtual_time_has_every_transport_of_a_plan(protocol: ProtocolName, tmp_path: Path) -> None:
    assert [row["outcome"] for row in run(plan(protocol, (64,), 1), tmp_path, link(CALL))] == ["ok"]


@pytest.mark.root
@pytest.mark.realtime
def test_real_time_over_namespaces_takes_as_long_as_virtual_time(tmp_path: Path) -> None:
    """Within 3 %, and what the machine was late by."""
    scenario, real = tmp_path / "call.toml", tmp_path / "real"
    scenario.write_text(CALL)
    words = ("--speed", str(SPEED), "--seed", "1")
    with measuring(real, str(scenario), *words, protocol="wtcp", sizes="20000", sessions=3) as child:
        finished(child)
    expected = run(plan("wtcp", (20_000,), 3, vary="reply"), tmp_path / "virtual", link(CALL), seed=1)
    (done,) = document(real, "manifest.json")["variables"]["runs"]
    late_s = done["latest_ms"] / 1000 * SPEED
    real_s, virtual_s = (sum(float(row["rtt_s"]) for row in rows) for rows in (transactions(real), expected))
    assert real_s == pytest.approx(virtual_s, rel=0.03 + 2 * late_s / virtual_s)
