"""A capture that begins in the middle of a connection: who began it is assumed, and that is said."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.analysis import analyse
from multitracer.captured import Flag
from multitracer.recording.read import read
from multitracer.schemas.tcp import Initiator
from tests.analysis.pcap_file import write_pcap
from tests.analysis.traffic import ACK, SYN, Segment, capture, handshake

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.analysis.tcp import Analysis
    from multitracer.capture import CaptureTables


def late(segments: list[Segment], *ports: tuple[int, int]) -> Analysis:
    """Analyse segments between ports of 10.0.0.1 and 10.0.0.2, a pair for each connection."""
    made = capture(segments)
    for name, values in zip(("port_a", "port_b"), zip(*ports, strict=True), strict=True):
        made.flows.columns[name][:] = values
    return analyse(made)


def _answer(client_bytes: int, server_bytes: int) -> list[Segment]:
    """Return the middle of a connection in which side 1, the server, is seen first."""
    return [Segment(1, 7000, server_bytes, ack=300), Segment(0, 300, client_bytes, ack=7000 + server_bytes)]


@pytest.mark.parametrize(
    ("client", "server"),
    [(40000, 443), (40000, 5201), (40000, 9999), (1026, 5002), (60000, 1500), (6001, 8080), (20, 40000)],
)
def test_server_that_is_seen_first_is_told_by_its_port(client: int, server: int) -> None:
    for sizes in ((500, 10), (10, 500), (0, 0)):
        analysis = late(_answer(*sizes), (client, server))
        assert analysis.ends(1).dport == server
        assert analysis.connections["initiator_by"].tolist() == [Initiator.PORTS]


def test_server_of_another_connection_is_one_whatever_its_port() -> None:
    answered = [*handshake(pair=1), *(s for s in _answer(10, 500))]
    analysis = late(answered, (80, 45000), (46000, 45000))
    assert [analysis.ends(n).dport for n in (1, 2)] == [45000, 45000]
    assert analysis.connections["initiator_by"].tolist() == [Initiator.HANDSHAKE, Initiator.OTHER_CONNECTIONS]


def test_port_that_was_asked_and_never_answered_is_no_server() -> None:
    asked = [Segment(0, 1, flags=SYN, pair=1), *_answer(10, 500)]
    analysis = late(asked, (40000, 443), (46000, 40000))
    assert analysis.connections["initiator_by"].tolist() == [Initiator.HANDSHAKE, Initiator.PORTS]


def test_where_ports_tell_nothing_who_sent_more_answered() -> None:
    analysis = late(_answer(10, 500), (45000, 46000))
    assert analysis.ends(1).dport == 46000
    assert analysis.connections["initiator_by"].tolist() == [Initiator.DATA]


def test_where_nothing_tells_the_first_sender_is_taken() -> None:
    analysis = late(_answer(5, 5), (45000, 46000))
    assert analysis.ends(1).dport == 45000
    assert analysis.connections["initiator_by"].tolist() == [Initiator.FIRST_SENDER]


@pytest.mark.parametrize(
    "begin", [[Segment(0, 1, flags=SYN)], [Segment(1, 500, flags=SYN | ACK, ack=101)]], ids=["SYN", "SYN-ACK alone"]
)
def test_handshake_counts_more_than_any_port(begin: list[Segment]) -> None:
    analysis = late(begin, (80, 45000))
    assert analysis.ends(1).sport == 80
    assert analysis.connections["initiator_by"].tolist() == [Initiator.HANDSHAKE]
    assert "initiator-assumed" not in {note.code for note in analysis.trust.notes}


def test_trust_says_in_plain_words_what_is_assumed_and_by_what() -> None:
    segments = [*handshake(), *(Segment(1, 7, 500, pair=pair) for pair in (1, 2))]
    analysis = late(segments, (40000, 80), (40001, 443), (45000, 46000))
    (note,) = (note for note in analysis.trust.notes if note.code == "initiator-assumed")
    assert note.count == 2
    assert note.sentence == (
        "Who began 2 of 3 connections is assumed (1 by the port numbers, 1 as who sent less data), for "
        "neither SYN nor SYN-ACK was captured: initiator and responder may be the other way round."
    )


def _without_beginning(complete: CaptureTables) -> CaptureTables:
    """Return the second half of a capture, and no SYN."""
    chosen = (complete.segments["flags"] & Flag.SYN) == 0
    chosen[: len(chosen) // 2] = False
    return complete.where(chosen)


def test_real_session_that_is_captured_late_keeps_its_direction(sample_session: Path) -> None:
    for each in read(sample_session).captures:
        begun = each.analysis.connections
        cut = analyse(_without_beginning(each.tables))
        assert len(cut.connections)
        flows = dict(zip((begun["forward_flow"] >> 1).tolist(), begun["forward_flow"].tolist(), strict=True))
        assert [flows[f >> 1] for f in cut.connections["forward_flow"].tolist()] == cut.connections[
            "forward_flow"
        ].tolist()
        assert (cut.connections["initiator_by"] != Initiator.HANDSHAKE).all()
        assert np.isin(cut.connections["initiator_by"], list(Initiator)).all()


def test_page_of_a_connection_says_that_its_initiator_is_assumed(tmp_path: Path) -> None:
    path = tmp_path / "late.pcap"
    write_pcap(path, _answer(10, 500))
    argv = [sys.executable, "-m", "multitracer", "inspect", str(path), "--connection", "1"]
    said = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120).stdout
    assert re.search(r"initiator +assumed by ports", said)
