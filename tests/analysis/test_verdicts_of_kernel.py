"""Verdicts on a real kernel's retransmissions, held against the kernel's own counters (nstat)."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

import parsers
from multitracer.analysis import analyse
from multitracer.analysis.sender_state import join_events
from multitracer.analysis.verdicts import Necessity, OtherLogs, RetransmissionCause, VerdictEvidence, judge
from multitracer.schemas.tcp import Vantage
from tests.analysis.reference_tools import tcptrace
from tests.collectors.transfer import Recorded, recorders, sending
from tests.narrowed import tables_of
from tests.netns import routed_path

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.tables import Table

pytestmark = [pytest.mark.root, pytest.mark.realtime]  # what a late host sends late is told otherwise
COUNTERS = {
    RetransmissionCause.TIMEOUT: "TcpExtTCPTimeouts",
    RetransmissionCause.FAST: "TcpExtTCPFastRetrans",
    RetransmissionCause.SLOW_START: "TcpExtTCPSlowStartRetrans",
}
SETTINGS = {
    "modern": {"tcp_sack": 1, "tcp_timestamps": 1},
    "old": {"tcp_sack": 0, "tcp_timestamps": 0, "tcp_recovery": 0, "tcp_frto": 0},
}
SECONDS = 4


class Run(NamedTuple):
    """One transfer as its sender's kernel counted it, and as we judge it."""

    counted: dict[str, int]
    by_packets: Table
    by_kernel: Table
    capture: Path
    retransmitted_bytes: int


@pytest.fixture(scope="module", params=SETTINGS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    logs, counted = recorded(tmp_path_factory.mktemp(request.param), SETTINGS[request.param])
    capture = parsers.read_capture([logs.pcap])
    analysis = analyse(capture)
    assert len(analysis.connections) == 1
    events = tables_of(logs.tcp_probe)["tcp_events"]
    joined = join_events(events, flows=capture.flows, connections=analysis.connections)
    own = joined.take((joined["connection"] == 1) & ~joined["reverse"])
    segments, sacks = analysis.tcp_segments(1), analysis.sack_blocks(1)
    by_packets, by_kernel = (
        judge(segments, sacks, reverse=False, vantage=Vantage.NEAR_SENDER, logs=beside)
        for beside in (OtherLogs(), OtherLogs(events=own))
    )
    again = int(analysis.directions["retransmitted_bytes"][0])
    return Run(counted, by_packets, by_kernel, logs.pcap, again)


def recorded(folder: Path, settings: dict[str, int]) -> tuple[Recorded, dict[str, int]]:
    """Send over a slow and lossy path that passes nothing for a second; return logs and counters."""
    logs = Recorded(folder / "tcp.pcap", folder / "tcp_info.jsonl", folder / "tcp_probe.ftrace")
    with routed_path(rate="4mbit", latency="60ms", one_in=150) as hosts:
        for host in "ab":
            hosts.sysctl(host, **settings)
        with recorders(hosts, logs, hz=20), sending(hosts, "cubic"):
            time.sleep(SECONDS / 2)
            hosts.run("r", "nft", "flush", "table", "ip", "loss")
            hosts.lose("r", one_in=1)
            time.sleep(1)
            hosts.run("r", "nft", "delete", "table", "ip", "loss")
            time.sleep(SECONDS / 2 - 1)
        said = hosts.run("a", "nstat", "-asz", "--json").stdout
    return logs, json.loads(said)["kernel"]


def causes(verdicts: Table) -> Counter[RetransmissionCause]:
    return Counter(RetransmissionCause(value) for value in verdicts["cause"].tolist())


def test_as_many_retransmissions_as_the_kernel_counted(run: Run) -> None:
    for verdicts in (run.by_packets, run.by_kernel):
        dropped = causes(verdicts)[RetransmissionCause.LOCAL_DROP]
        assert len(verdicts) - dropped == run.counted["TcpRetransSegs"] - run.counted["TcpExtTCPRetransFail"]
    assert run.counted["TcpExtTCPTimeouts"] >= 1
    assert run.counted["TcpExtTCPFastRetrans"] >= 1


def test_causes_are_as_many_as_the_kernel_counted(run: Run) -> None:
    found = causes(run.by_kernel)
    assert {cause: found[cause] for cause in COUNTERS} == {cause: run.counted[name] for cause, name in COUNTERS.items()}
    assert found[RetransmissionCause.TAIL_LOSS_PROBE] <= run.counted["TcpExtTCPLossProbes"]  # some carry new data
    assert found[RetransmissionCause.UNKNOWN] == 0


def test_packets_alone_tell_all_but_whether_a_timeout_was_undone(run: Run) -> None:
    """After that the kernel is in recovery again, where packets still show the slow start of a loss.

    While its program holds the socket and does not run, a kernel keeps ACKs for later: what it then sends again all at
    once, long after the capture shows why, is left open, not wrong. That happens to one burst, if to any.
    """
    known, found = run.by_kernel["cause"], run.by_packets["cause"]
    resent_on_acks = [RetransmissionCause.SLOW_START, RetransmissionCause.FAST]
    undone = np.isin(known, resent_on_acks) & np.isin(found, resent_on_acks)
    is_open = found == RetransmissionCause.UNKNOWN
    assert ((known == found) | undone | is_open).all()
    assert np.count_nonzero(np.diff(is_open, prepend=False) & is_open) <= 1, "bursts"


def test_segments_lost_at_random_were_needed_or_the_receiver_says_otherwise(run: Run) -> None:
    """A busy machine may deliver out of order; what was resent for that comes back as a D-SACK.

    Behind a timeout that was too early all is sent twice, and what the receiver says of the second copies
    looks like a loss to a sender without D-SACK: then its ACKs show that the first copies arrived.
    """
    fast = run.by_packets["cause"] == RetransmissionCause.FAST
    assert fast.any()
    spurious = fast & (run.by_packets["necessity"] == Necessity.SPURIOUS)
    told = (run.by_packets["evidence"] & np.uint32(VerdictEvidence.D_SACK | VerdictEvidence.F_RTO)) != 0
    assert told[spurious].all()


def test_tcptrace_counts_as_many_segments_and_bytes(run: Run) -> None:
    (found,) = tcptrace(run.capture)
    counts = found.counts[found.ends[0][0] != "10.0.1.1"]
    assert (counts["retransmitted_segments"], counts["retransmitted_bytes"]) == (
        len(run.by_packets),
        run.retransmitted_bytes,
    )
