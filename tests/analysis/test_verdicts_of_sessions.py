"""Verdicts on the bundled data calls, held against what each sender's kernel and tcptrace counted."""

from __future__ import annotations

import gzip
import json
import lzma
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import parsers
from multitracer.analysis import analyse
from multitracer.analysis.sender_state import join_events
from multitracer.analysis.verdicts import OtherLogs, RetransmissionCause, judge
from multitracer.schemas.sender import TCP_EVENTS
from multitracer.tables import Table
from tests.analysis.reference_tools import tcptrace
from tests.narrowed import tables_of

if TYPE_CHECKING:
    from multitracer.analysis import Analysis

TRACES = Path(__file__).parents[2] / "sample_traces"
HOSTS = sorted(path.parent for path in TRACES.glob("*/*/nstat_after.json.xz"))
COUNTERS = {
    RetransmissionCause.TIMEOUT: "TcpExtTCPTimeouts",
    RetransmissionCause.FAST: "TcpExtTCPFastRetrans",
    RetransmissionCause.SLOW_START: "TcpExtTCPSlowStartRetrans",
    RetransmissionCause.TAIL_LOSS_PROBE: "TcpExtTCPLossProbes",
}


def counted(host: Path, name: str) -> int:
    """Return by how much a counter of the host's kernel grew during the recording."""
    after, before = (
        json.loads(lzma.decompress((host / f"nstat_{when}.json.xz").read_bytes()))["kernel"][name]
        for when in ("after", "before")
    )
    return int(after - before)


def capture_of(host: Path) -> Path:
    """Return the capture of a host, which is compressed with gzip or, where it is large, with xz."""
    (path,) = host.glob("tcp-0.pcap.*z")
    return path


def causes(host: Path, *, with_kernel: bool) -> Counter[RetransmissionCause]:
    """Return the causes of what this host resent, in all connections; it opens them if it is the mobile."""
    capture = parsers.read_capture([str(capture_of(host))])
    analysis, reverse = analyse(capture), host.name == "fixed"
    events = kernel_events(host, analysis) if with_kernel else None
    found: Counter[RetransmissionCause] = Counter()
    for number in range(1, len(analysis.connections) + 1):
        own = None if events is None else events.take(
            (events["connection"] == number) & (events["reverse"] == reverse)
        )  # fmt: skip
        segments, sacks = analysis.tcp_segments(number), analysis.sack_blocks(number)
        verdicts = judge(segments, sacks, reverse=reverse, vantage=1, logs=OtherLogs(events=own))
        found.update(RetransmissionCause(value) for value in verdicts["cause"].tolist())
    return found


def kernel_events(host: Path, analysis: Analysis) -> Table:
    logs = list(host.glob("tcp_probe.txt*"))
    tables = [tables_of(log)["tcp_events"] for log in logs]
    events = Table.concatenate(TCP_EVENTS, tables)
    return join_events(events, flows=analysis.capture.flows, connections=analysis.connections)


@pytest.mark.parametrize("with_kernel", [False, True], ids=["packets", "trace points"])
@pytest.mark.parametrize("host", HOSTS, ids=lambda host: f"{host.parent.name}-{host.name}")
def test_causes_are_as_many_as_the_kernel_counted(host: Path, with_kernel: bool) -> None:
    found = causes(host, with_kernel=with_kernel)
    assert found.total() - found[RetransmissionCause.LOCAL_DROP] == counted(host, "TcpRetransSegs")
    assert {cause: found[cause] for cause in COUNTERS} == {
        cause: counted(host, name) for cause, name in COUNTERS.items()
    }


def test_what_the_host_refused_is_a_local_drop() -> None:
    host = TRACES / "local-drop-ring" / "mobile"
    assert set(causes(host, with_kernel=False)) == {RetransmissionCause.LOCAL_DROP}
    assert counted(host, "TcpRetransSegs") == 0
    silent = TRACES / "local-drop-silent" / "mobile"
    assert set(causes(silent, with_kernel=False)) == {RetransmissionCause.FAST}


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: f"{host.parent.name}-{host.name}")
def test_segments_and_bytes_sent_again_are_those_of_tcptrace(host: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    opener = gzip.open if capture_of(host).suffix == ".gz" else lzma.open
    with opener(capture_of(host)) as packed, path.open("wb") as plain:
        shutil.copyfileobj(packed, plain)
    directions = analyse(parsers.read_capture([str(path)])).directions
    counts = [way for found in tcptrace(path) for way in found.counts]
    for name in ("retransmitted_segments", "retransmitted_bytes", "out_of_order"):
        assert sum(way[name] for way in counts) == int(directions[name].sum())


def kernel_table() -> str:
    """Return the table of docs/verdicts.md: ours = the kernel's, per host that resent anything."""
    lines = [
        "| session, host | resent | timeout | fast | slow start | tail loss probe | local drops |",
        "|---|---|---|---|---|---|---|",
    ]
    for host in HOSTS:
        found = causes(host, with_kernel=False)
        if found.total():
            both = [(found.total() - found[RetransmissionCause.LOCAL_DROP], "TcpRetransSegs")]
            both += [(found[cause], counter) for cause, counter in COUNTERS.items()]
            cells = [f"{ours} = {counted(host, name)}" for ours, name in both]
            name = f"`{host.parent.name}`, {host.name}"
            lines.append(f"| {' | '.join([name, *cells, str(found[RetransmissionCause.LOCAL_DROP])])} |")
    return "\n".join(lines)


def test_the_page_shows_what_both_counted() -> None:
    page = (TRACES.parent / "docs" / "verdicts.md").read_text("utf-8")
    shown = page.split("<!-- kernel -->\n", 1)[1].split("\n<!-- end of kernel -->", 1)[0]
    assert shown == kernel_table()
