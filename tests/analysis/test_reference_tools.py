"""The real tcptrace and tshark count what we count; where they do not, docs/differences.md says why."""

from __future__ import annotations

import csv
import gzip
import shutil
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.analysis import analyse
from multitracer.errors import MultiTracerError
from parsers import read_capture
from tests.analysis.pcap_file import write_pcap
from tests.analysis.reference_tools import Reference, end, tcptrace, tshark
from tests.analysis.traffic import ACK, FIN, Segment, handshake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from multitracer.analysis import Analysis

SEGMENTS_AND_BYTES = ("retransmitted_segments", "retransmitted_bytes", "out_of_order")
needs_tcptrace = pytest.mark.skipif(shutil.which("tcptrace") is None, reason="needs tcptrace")
needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")

_COPIES = "counts packets that were captured twice"
TCPTRACE_INTENDED = {
    "pcapplusplus/Pcap++Test/PcapExamples/one_tcp_stream.pcap": "a keep-alive of one byte",
    "zeek/ipv6-http-atomic-frag.pcap": "takes the fragment header for TCP",
    "suricata-verify/bug-5867-fp-drop-01/input.pcap": _COPIES,
    "tcpdump/pptp.pcap": _COPIES,
    "zeek/http/ctu-62604-80.pcap": _COPIES,
    "zeek/http/m57-long-49600-80.pcap": _COPIES,
    "zeek/http/vnd.ms-cab-compressed-multi-conn.pcap": _COPIES,
    "zeek/tcp/ssh-dups.pcap": _COPIES,
    "zeek/tls/ssl-to-http-server.pcap": _COPIES,
}
"""Captures of others in which a direction's retransmissions differ, and what tcptrace does there."""

TSHARK_INTENDED = {
    "suricata-verify/detect-ipopts/input.pcap": "takes the end of a source route for the destination",
    "suricata-verify/firewall/tcp-session-decode-malformed-ipv4/input.pcap": "believes an IPv4 header less",
    "tcpdump/bgp-bgp_capabilities_print-oobr-1.pcap": "counts no payload where lengths contradict",
    "tcpdump/bgp_pmsi_tunnel-oobr.pcap": "counts no payload where lengths contradict",
    "tcpdump/rpki-rtr-oobr.pcap": "counts no payload where lengths contradict",
}
"""Captures of others in which packets or payload differ, and what tshark does there."""


def paired(analysis: Analysis, references: list[Reference]) -> Iterator[tuple[str, int, dict[str, int]]]:
    """Yield a name, our direction and the other tool's counts of what both see once between two ends."""
    ours = defaultdict(list)
    for number in range(1, len(analysis.connections) + 1):
        ends = analysis.ends(number)
        source = end(ends.src, ends.sport)
        ours[frozenset((source, end(ends.dst, ends.dport)))].append((source, number))
    theirs = defaultdict(list)
    for reference in references:
        if reference.ends[0] != reference.ends[1]:  # a packet to its own sender has no direction
            theirs[frozenset(reference.ends)].append(reference)
    for ends_of, (reference, *more) in theirs.items():
        if more or len(ours[ends_of]) != 1:
            continue
        source, number = ours[ends_of][0]
        for sender, counts in zip(reference.ends, reference.counts, strict=True):
            yield f"{sender}", 2 * (number - 1) + (sender != source), counts


def differences(analysis: Analysis, references: list[Reference], names: tuple[str, ...]) -> list[str]:
    """Return where a count of ours is not the other tool's."""
    return [
        f"{sender} {name}: theirs {counts[name]}, ours {analysis.directions[name][direction]}"
        for sender, direction, counts in paired(analysis, references)
        for name in names
        if analysis.directions[name][direction] != counts[name]
    ]


@pytest.fixture(params=["sample_sender", "sample_receiver"])
def plain_sample(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a bundled capture, not compressed: a real transfer with losses and an outage."""
    packed = request.getfixturevalue(request.param)
    plain = tmp_path / "sample.pcap"
    plain.write_bytes(gzip.decompress(packed.read_bytes()))
    return plain


@needs_tcptrace
def test_tcptrace_counts_the_bundled_session_as_we_do(plain_sample: Path) -> None:
    analysis, references = analyse(read_capture([plain_sample])), tcptrace(plain_sample)
    assert len(references) == len(analysis.connections)
    everything = (*SEGMENTS_AND_BYTES, "packets", "data_segments", "payload_bytes")
    assert differences(analysis, references, everything) == []
    assert analysis.directions["data_segments"].sum() > 4000


@needs_tshark
def test_tshark_counts_the_bundled_session_as_we_do(plain_sample: Path) -> None:
    analysis, references = analyse(read_capture([plain_sample])), tshark(plain_sample)
    assert len(references) == len(analysis.connections)
    assert differences(analysis, references, ("packets", "payload_bytes")) == []


def rough_transfer(pair: int, generator: np.random.Generator) -> list[Segment]:
    """Return a transfer with holes, fills, overlaps, resent FINs and a wrap of the sequence space."""
    isn = int(generator.integers(2**32 - 3000, 2**32))
    segments = handshake(isn, 5000, pair=pair)
    sent = acked = 0
    for _ in range(int(generator.integers(5, 120))):
        choice = generator.random()
        size = int(generator.integers(1, 60))
        if choice < 0.3:
            acked = int(generator.integers(acked, sent + 1))
            segments.append(Segment(1, 5001, ack=isn + 1 + acked, pair=pair))
            continue
        begins = sent
        if choice > 0.85:
            begins = int(generator.integers(0, sent + 1))
        elif choice > 0.75:
            begins = sent + int(generator.integers(1, 80))
        flags = FIN | ACK if choice > 0.97 else ACK
        segments.append(Segment(0, isn + 1 + begins, size, flags, 5001, pair=pair))
        sent = max(sent, begins + size)
    return segments


def rough_capture(seed: int) -> list[Segment]:
    generator = np.random.default_rng(seed)
    parts = [rough_transfer(pair, generator) for pair in range(60)]
    order = generator.permutation(np.repeat(np.arange(60), [len(part) for part in parts]))
    remaining = [iter(part) for part in parts]
    return [next(remaining[p]) for p in order.tolist()]


@needs_tcptrace
@pytest.mark.parametrize("seed", range(5))
def test_tcptrace_counts_rough_transfers_as_we_do(seed: int, tmp_path: Path) -> None:
    """tcptrace knows no keep-alives of one byte; for it, what is partly resent may be out of order too."""
    path = write_pcap(tmp_path / "rough.pcap", rough_capture(seed))
    analysis, references = analyse(read_capture([path])), tcptrace(path)
    assert len(references) == len(analysis.connections) == 60
    for name in ("retransmitted_segments", "retransmitted_bytes"):
        analysis.directions[name][:] += analysis.directions["keep_alives"]
    assert differences(analysis, references, ("retransmitted_segments", "retransmitted_bytes")) == []
    ours, partly = (analysis.directions[name] for name in ("out_of_order", "partial_retransmissions"))
    for _, direction, counts in paired(analysis, references):
        assert ours[direction] <= counts["out_of_order"] <= ours[direction] + partly[direction]
    assert analysis.directions["partial_retransmissions"].sum() > 100


@needs_tshark
def test_tshark_tells_rough_transfers_apart_as_we_do(tmp_path: Path) -> None:
    path = write_pcap(tmp_path / "rough.pcap", rough_capture(9))
    analysis, references = analyse(read_capture([path])), tshark(path)
    assert len(references) == len(analysis.connections) == 60
    assert differences(analysis, references, ("packets", "payload_bytes")) == []


def answered(folder: Path) -> list[dict[str, str]]:
    """Return the reference answers for captures that hold TCP."""
    path = folder / "answers" / "gold_packets.csv"
    with path.open(newline="") as lines:
        return [row for row in csv.DictReader(lines) if row["tcp_connections_tshark"] not in ("", "0")]


def opened(path: Path) -> Analysis | None:
    try:
        return analyse(read_capture([path]))
    except MultiTracerError:
        return None


@needs_tcptrace
@pytest.mark.fixtures
def test_tcptrace_counts_captures_of_others_as_we_do(fixture_folder: Path) -> None:
    differing, compared = {}, 0
    for row in answered(fixture_folder):
        path = fixture_folder / row["file"]
        if not row["tcp_connections_tcptrace"] or (analysis := opened(path)) is None:
            continue
        references = tcptrace(path)
        compared += sum(1 for _ in paired(analysis, references))
        if found := differences(analysis, references, SEGMENTS_AND_BYTES):
            differing[row["file"]] = found
    assert set(differing) == set(TCPTRACE_INTENDED), differing
    assert compared > 1000


@pytest.mark.fixtures
def test_connections_are_counted_as_the_reference_answers_say(fixture_folder: Path) -> None:
    wrong = {}
    for row in answered(fixture_folder):
        if not row["tcp_connections"] or (analysis := opened(fixture_folder / row["file"])) is None:
            continue
        if len(analysis.connections) != int(row["tcp_connections"]):
            wrong[row["file"]] = (row["tcp_connections"], len(analysis.connections))
    assert wrong == {}


@needs_tshark
@pytest.mark.fixtures
def test_tshark_counts_some_captures_of_others_as_we_do(fixture_folder: Path) -> None:
    """Every 50th; tshark starts slowly."""
    differing = {}
    for row in answered(fixture_folder)[::50]:
        analysis = opened(fixture_folder / row["file"])
        references = tshark(fixture_folder / row["file"])
        if analysis and analysis.capture.files[0].duplicates:
            continue  # tshark counts copies
        if analysis is not None and (found := differences(analysis, references, ("packets", "payload_bytes"))):
            differing[row["file"]] = found
    assert set(differing) <= set(TSHARK_INTENDED), differing
