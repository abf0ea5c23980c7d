"""WTCP in virtual time: carried in UDP over every kind of link, beside TCP, determined by the seed."""

from __future__ import annotations

from collections import Counter
from socket import IPPROTO_TCP
from typing import TYPE_CHECKING

import pytest

import multitracer as mt
from multitracer.lab.scenario.model import WTCP_PACKET_BYTES
from multitracer.lab.simulator.network import NetworkObserver
from multitracer.lab.simulator.run import VirtualRun, record_virtual
from tests.lab.rig.virtual import link
from tests.lab.simulator.test_flows import traffic
from tests.lab.simulator.test_record import contents, truth

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.lab.tcp.packet import TcpPacket

KINDS = ("gsm", "cdpd", "bluetooth")
BESIDE_TCP = 'limit_s = 300\n[tcp]\nmtu_bytes = 576\n[link]\nkind = "cdpd"\n' + "".join((
    traffic(bytes=20_000, transport="wtcp"),
    traffic(bytes=20_000, transport="vegas", direction="down", start_s=5),
))  # fmt: skip


class _Lengths(NetworkObserver):
    """Lengths of the packets that leave hosts."""

    def __init__(self) -> None:
        self.bytes: list[int] = []

    def packet(self, host: str, packet: TcpPacket | None, data: bytes, *, now_ns: int, outgoing: bool) -> None:
        del host, packet, now_ns
        if outgoing:
            self.bytes.append(len(data))


@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_link_carries_it_both_ways(kind: str, direction: str) -> None:
    text = f'limit_s = 600\n[tcp]\nmtu_bytes = 576\n[link]\nkind = "{kind}"\n'
    lengths = _Lengths()
    run = VirtualRun(link(text + traffic(bytes=30_000, transport="wtcp", direction=direction)), observers=[lengths])
    summary = run.run()
    (flow,) = summary.flows
    assert (flow.transport, flow.delivered_bytes) == ("wtcp", 30_000)
    assert max(lengths.bytes) == WTCP_PACKET_BYTES
    assert flow.delivered_packets >= 30_000 / WTCP_PACKET_BYTES
    assert run.network.now_ns < 600e9, "both ends come to their end"
    assert summary.goodput_bytes_per_s == pytest.approx((flow.rate_bps or 0) / 8, rel=0.01)
    assert summary.tcp_retransmissions == 0


def test_a_run_beside_tcp_is_determined_by_its_seed(tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        record_virtual(link(BESIDE_TCP), tmp_path / name, seed=seed)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert contents(tmp_path / "a")["mobile/tcp-0.pcap"] != contents(tmp_path / "c")["mobile/tcp-0.pcap"]


def test_its_session_opens_and_its_packets_have_fates(tmp_path: Path) -> None:
    summary = record_virtual(link(BESIDE_TCP), tmp_path / "run")
    assert [flow.delivered_bytes for flow in summary.flows] == [20_000, 20_000]
    session = mt.open(tmp_path / "run")
    assert len(session.connections) > 0
    datagrams = [row for row in truth(tmp_path / "run", "segments.csv") if row["seq"] == ""]
    arrived = [row for row in datagrams if row["fate"] == "delivered"]
    assert len(arrived) > 0.8 * len(datagrams)
    assert all(int(row["arrived_ns"]) > int(row["left_ns"]) for row in arrived)
    data = [row for row in arrived if row["host"] == "mobile" and int(row["payload_bytes"]) > 100]
    assert len(data) >= summary.flows[0].delivered_packets


def test_a_traffic_that_the_user_gives_up_ends(tmp_path: Path) -> None:
    run = VirtualRun(link("limit_s = 600\n" + traffic(bytes=100_000, transport="wtcp", aborts_after_s=20)))
    (flow,) = run.run().flows
    assert 0 < flow.delivered_bytes < 100_000
    assert run.network.now_ns < 60e9


BY_PROTOCOL = """
[link]
n2 = 20
error_control = "by-protocol"
[link.up]
kind = "gilbert-elliott"
good_s = 10
bad_s = 1
[link.down]
kind = "gilbert-elliott"
good_s = 10
bad_s = 1
[[traffic]]
bytes = 20_000
[[traffic]]
bytes = 20_000
transport = "wtcp"
"""


def _captured_ids(path: Path) -> Counter[tuple[bool, int]]:
    """Return how often each packet is in a capture of raw IP: whether it is TCP, and its IP identification."""
    octets, at, found = path.read_bytes(), 24, Counter[tuple[bool, int]]()
    while at < len(octets):
        length = int.from_bytes(octets[at + 8 : at + 12], "little")
        packet = octets[at + 16 : at + 16 + length]
        found[packet[9] == IPPROTO_TCP, int.from_bytes(packet[4:6], "big")] += 1
        at += 16 + length
    return found


def test_the_truth_holds_where_the_link_keeps_no_order(tmp_path: Path) -> None:
    """What reached the other host by its capture is delivered by the truth, and nothing else is."""
    folder = tmp_path / "run"
    record_virtual(link(BY_PROTOCOL), folder, seed=1)
    rows = truth(folder, "segments.csv")
    captured = sum((_captured_ids(folder / host / "tcp-0.pcap") for host in ("mobile", "fixed")), Counter())
    stated: Counter[tuple[bool, int]] = Counter()
    for row in rows:
        stated[bool(row["seq"]), int(row["ip_id"])] += 1 + (row["fate"] == "delivered")
    assert captured == stated
    fates = {is_tcp: Counter(row["fate"] for row in rows if bool(row["seq"]) == is_tcp) for is_tcp in (False, True)}
    assert fates[False]["lost"] > 3
    assert set(fates[True]) <= {"delivered", "dropped"}, "RLP repeats all of TCP's packets"
    for row in rows:
        if row["fate"] == "delivered":
            assert int(row["arrived_ns"]) > int(row["left_ns"])
