"""Several mobiles in one cell: hosts by name, a folder for each, and what they share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import multitracer as mt
from multitracer.errors import FormatError, InputError
from multitracer.lab.channel.shared.packet_link import host_address
from multitracer.lab.simulator.run import VirtualRun, record_virtual
from multitracer.lab.testbed.run import run_real
from multitracer.manifest import Role, read_manifest
from tests.cli.program import call
from tests.lab.rig.virtual import link, plan, run
from tests.lab.simulator.test_flows import traffic
from tests.lab.simulator.test_record import contents, truth

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.lab.scenario.summary import Summary

MOBILES = ("mobile-1", "mobile-2", "mobile-3")
BYTES = 15_000


def cell(*, mobiles: int = 3, transport: str = "newreno", direction: str = "up", limit_s: int = 600) -> str:
    """Return a cell in which each mobile has one flow; mobile k begins after 5 k seconds."""
    begin = f'limit_s = {limit_s}\n[tcp]\nmtu_bytes = 500\n[link]\nkind = "cdpd"\nmobiles = {mobiles}\n'
    names = (f"mobile-{number}" for number in range(1, mobiles + 1))
    flows = (
        traffic(host=name, bytes=BYTES, transport=transport, direction=direction, start_s=5 * place)
        for place, name in enumerate(names)
    )
    return begin + "".join(flows)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Summary]:
    """Return the session of three uploads over TCP, and its summary."""
    folder = tmp_path_factory.mktemp("cell") / "run"
    return folder, record_virtual(link(cell()), folder)


@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("transport", ["newreno", "wtcp"])
def test_the_flow_of_each_mobile_arrives_complete(transport: str, direction: str) -> None:
    summary = VirtualRun(link(cell(transport=transport, direction=direction))).run().document()
    flows = summary["flows"]
    assert [flow["delivered_bytes"] for flow in flows] == [BYTES] * 3
    assert sum(flow["share"] for flow in flows) == pytest.approx(1)
    ends = [flow["flow"].split(" > ") for flow in flows]
    assert [far if direction == "down" else near for near, far in ends] == [f"{m}:1025" for m in MOBILES]
    assert 1 / 3 < summary["jain_index"] <= 1
    assert summary["fairness_gap"] > 0


@pytest.mark.parametrize("direction", ["up", "down"])
def test_the_link_s_numbers_are_of_the_first_traffic_s_mobile(direction: str) -> None:
    text = cell(direction=direction).replace('"mobile-1"', '"mobile-0"')
    second_first = text.replace('"mobile-2"', '"mobile-1"').replace('"mobile-0"', '"mobile-2"')
    summary = VirtualRun(link(second_first)).run()
    assert 100 < (summary.rlp_slope_bytes_per_s or 0) < 19_200 / 8
    assert summary.rlp_retransmissions < 200


def test_each_host_has_its_folder_its_clock_and_its_address(recorded: tuple[Path, Summary]) -> None:
    folder, _ = recorded
    logs = {"tcp-0.pcap", "tcp_state.jsonl", "rlp.pcapng"}
    assert {path for path in contents(folder) if path.split("/")[0] in (*MOBILES, "fixed")} == {
        f"{host}/{log}" for host in (*MOBILES, "fixed") for log in logs
    }
    manifest = read_manifest(folder)
    assert manifest is not None
    assert {name: host.role for name, host in manifest.hosts.items()} == {
        **dict.fromkeys(MOBILES, Role.SENDER), "fixed": Role.RECEIVER
    }  # fmt: skip
    for name, host in manifest.hosts.items():
        assert host.addresses == [".".join(map(str, host_address(name)))]
    assert {log.host for log in manifest.files} == {*MOBILES, "fixed", ""}
    clocks = [json.loads(line) for line in (folder / "clocks.jsonl").read_text("utf-8").splitlines()]
    assert {clock["host"] for clock in clocks} == {*MOBILES, "fixed"}


def test_the_truth_follows_each_mobile_s_packets(recorded: tuple[Path, Summary]) -> None:
    folder, summary = recorded
    rows = truth(folder, "segments.csv")
    for mobile, flow in zip(MOBILES, summary.flows, strict=True):
        own = [row for row in rows if row["host"] == mobile]
        arrived = {row["seq"] for row in own if row["fate"] == "delivered" and int(row["payload_bytes"])}
        assert len(arrived) == flow.delivered_packets
        assert {row["port"] for row in own} == {"1025"}
    ports = {row["port"] for row in rows if row["host"] == "fixed"}
    assert ports == {"5001", "5002", "5003"}


def test_its_session_opens_and_every_connection_is_explained(recorded: tuple[Path, Summary]) -> None:
    folder, _ = recorded
    session = mt.open(folder)
    assert len(session.connections) == 6, "three, each at both of its ends"
    assert session.warnings == []
    for command in (["analyze"], ["diagnose", "-c", "10.64.0.5:1025"]):
        assert "10.64.0.5:1025" in call(*command, folder).stdout


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        record_virtual(link(cell(limit_s=60)), tmp_path / name, seed=seed)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert contents(tmp_path / "a")["fixed/tcp-0.pcap"] != contents(tmp_path / "c")["fixed/tcp-0.pcap"]


@pytest.mark.parametrize("protocol", ["tcp", "centauruscomm"])
def test_a_measurement_has_the_first_mobile_and_is_repeated_by_its_seed(protocol: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        found = run(plan(protocol, (64,), 4), tmp_path / name, link(cell()), capture=True)  # type: ignore[arg-type]
        assert [row["outcome"] for row in found] == ["ok"] * 4
    first, again = (contents(tmp_path / name) for name in "ab")
    assert first.pop("manifest.json") != again.pop("manifest.json"), "it has the folder's name"
    assert first == again
    assert {path.name for path in (tmp_path / "a").iterdir() if path.is_dir()} == {"mobile-1", "fixed"}


def test_thirty_mobiles_share_a_cell_and_one_more_does_not() -> None:
    summary = VirtualRun(link(cell(mobiles=30, limit_s=200))).run()
    assert len(summary.flows) == 30
    assert sum(flow.delivered_bytes > 0 for flow in summary.flows) > 20
    with pytest.raises(FormatError, match=r"test.toml: \[link\]: .*\"mobiles\" must be 1 to 30"):
        link(cell(mobiles=31))


def test_a_mobile_that_is_not_in_the_cell_is_refused() -> None:
    text = cell().replace('"mobile-3"', '"mobile-4"')
    with pytest.raises(FormatError, match=r'number 3: "host" must be one of .* \(mobile-1'):
        link(text)


def test_a_real_run_refuses_what_kernels_do_not_have(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"number 1: a real run uses only the TCP of the kernel, .*'wtcp'"):
        run_real(link(traffic(bytes=1, transport="wtcp")), tmp_path / "b")
    assert list(tmp_path.iterdir()) == []
