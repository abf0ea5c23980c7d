"""Whose data a sentence and its remedy are about: of which direction, of which end, of which connection."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.diagnosis.diagnose import explain
from multitracer.diagnosis.finding import Finding
from multitracer.diagnosis.group_sentence import _apart, _noun_of_all, headline_of_group
from multitracer.diagnosis.limits.gaps import outages
from multitracer.diagnosis.limits.group import ConnectionGroup, GroupConnection, group_of
from multitracer.diagnosis.limits.names import Confidence, Limit, LimitShare, LimitSubtype
from multitracer.diagnosis.limits.partition import Cells
from multitracer.diagnosis.sentence import _helps_of_others, _if_lost, _of_outages, facts_here, facts_of
from multitracer.recording.read import read
from multitracer.units import NS_PER_S
from tests.analysis.pcap_file import write_pcap
from tests.diagnosis.exchange import Exchange

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.limited import Limited

_RECORDINGS = Path(__file__).parents[1] / "causes" / "recordings"
_OTHERS = bytes([10, 0, 0, 7]), bytes([10, 0, 0, 8])


def _row(
    limit: Limit, share: float, part: LimitSubtype = LimitSubtype.NONE, *, reverse: bool = False, weak: bool = False
) -> LimitShare:
    sure = Confidence.WEAK if weak else Confidence.MEASURED
    return LimitShare(limit, part, 10 * share, share, share, share, sure, reverse)


def _limited(folder: Path, *rows: LimitShare) -> Limited:
    """Return the limits of one upload, with these rows for its time."""
    exchange = Exchange().opened()
    exchange.round_trips(51, 0, count=5)
    limited = replace(exchange.diagnosed(folder).limited)
    vars(limited)["shares"] = list(rows)
    return limited


@pytest.mark.parametrize(("late_s", "ends", "words"), [
    (0.3, _OTHERS, "carried the same number of bytes (20,000) at the same time; a proxy may be between"),
    (0.3, (bytes([10, 0, 0, 2]), _OTHERS[1]), "carried the same 20,000 bytes, probably for a proxy between both"),
    (3600.0, _OTHERS, ""),
    (3600.0, (bytes([10, 0, 0, 2]), _OTHERS[1]), ""),
])  # fmt: skip
def test_a_connection_of_equal_size_is_a_proxys_only_if_both_are_open(
    tmp_path: Path, late_s: float, ends: tuple[bytes, bytes], words: str
) -> None:
    """A file that is loaded again an hour later, from and to anywhere else, is no proxy."""
    exchange = Exchange().opened()
    exchange.round_trips(51, 0, count=20, flight=1)
    path = write_pcap(tmp_path / "both.pcap", exchange.segments)
    octets, copies, at = path.read_bytes(), b"", 24
    own = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
    while at < len(octets):
        seconds, fraction, length, original = struct.unpack_from("<IIII", octets, at)
        packet = octets[at + 16 : at + 16 + length]
        source, target = (ends[own.index(packet[first : first + 4])] for first in (12, 16))
        moved_ns = seconds * 10**9 + fraction + round(late_s * 1e9)
        copies += struct.pack("<IIII", *divmod(moved_ns, 10**9), length, original)
        copies += packet[:12] + source + target + packet[20:]
        at += 16 + length
    path.write_bytes(octets + copies)
    told = explain(read(path), 1).headline.sentence
    assert words in told
    assert ("proxy" in told) is bool(words)


def test_the_remedy_for_losses_is_by_what_was_found_in_their_direction(tmp_path: Path) -> None:
    """Lost ACKs of the client's data, and random losses among the server's."""
    limited = _limited(tmp_path, _row(Limit.RECOVERY, 1.0))
    found = [
        Finding("ack-loss", 0, 1, 1.0, None, (), ""),
        Finding("random-loss", 0, 1, 1.0, None, (), "", reverse=True),
        Finding("idle-timeout", 0, 1, 1.0, None, (), "", reverse=True),
    ]
    facts = facts_of(limited, found, ())
    ours = facts_here(facts, limited, _row(Limit.RECOVERY, 1.0))
    theirs = facts_here(facts, limited, _row(Limit.RECOVERY, 1.0, reverse=True))
    assert {"ack-loss", "idle-timeout"} <= ours
    assert "random-loss" not in ours
    assert {"random-loss", "idle-timeout"} <= theirs
    assert "ack-loss" not in theirs
    both = facts_of(limited, [*found, found[0]._replace(reverse=True)], ())
    assert "ack-loss" in facts_here(both, limited, _row(Limit.RECOVERY, 1.0, reverse=True))


def test_an_outage_of_acks_is_one_of_the_other_direction(tmp_path: Path) -> None:
    """The client's data arrived, and nothing came back; later nothing at all arrived."""
    rows = [
        _row(Limit.OUTAGE, 0.4, LimitSubtype.ACKS),
        _row(Limit.OUTAGE, 0.2, LimitSubtype.DATA, reverse=True),
        _row(Limit.OUTAGE, 0.3, LimitSubtype.BOTH),
        _row(Limit.OUTAGE, 0.1, LimitSubtype.DATA),
    ]
    told = _of_outages(_limited(tmp_path, *rows))
    assert told == (
        "nothing arrived for 6.0 s from server to client, and for 3.0 s in both directions, and for 1.0 s from client "
        "to server"
    )


def test_an_outage_in_which_the_data_of_both_ends_waited_is_one(tmp_path: Path) -> None:
    """First the answer was lost, then the next request: nothing arrived in between."""
    both = int(LimitSubtype.BOTH)
    limited = _limited(
        tmp_path, _row(Limit.OUTAGE, 0.4, LimitSubtype.BOTH), _row(Limit.OUTAGE, 0.4, LimitSubtype.BOTH, reverse=True)
    )
    edges = limited.begin_ns + np.array([0, 4, 5, 8]) * NS_PER_S
    cells = Cells(edges[:-1], edges[1:], np.full(3, Limit.OUTAGE), np.full(3, both), np.array([False, True, False]))
    joined = replace(limited, cells=cells, theirs=np.array([False, False, True]))
    vars(joined)["shares"] = limited.shares
    assert _of_outages(joined) == "nothing arrived for 8.0 s in both directions, from 0.0 s to 8.0 s"


def test_lost_data_and_lost_acks_of_one_time_are_one_outage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = _limited(tmp_path).seen
    assert seen is not None
    begin, part = seen.opened_ns, int(LimitSubtype.ACKS)
    holes = [(begin, begin + 50, begin + 20, 0), (begin + 10, begin + 40, begin + 30, part)]
    holes.append((begin + 45, begin + 60, 0, part))
    monkeypatch.setattr("multitracer.diagnosis.limits.gaps._at_sender", lambda _: holes)
    found = outages(seen).spans
    assert (found.begin - begin).tolist() == [0, 50]
    assert (found.end - begin).tolist() == [50, 60]


def test_each_end_that_is_named_beside_the_largest_limit_has_its_remedy(tmp_path: Path) -> None:
    rows = [
        _row(Limit.LINK, 0.6),
        _row(Limit.APPLICATION, 0.2, LimitSubtype.THINK),
        _row(Limit.APPLICATION, 0.15, LimitSubtype.LATENCY),
        _row(Limit.APPLICATION, 0.05, LimitSubtype.PEER),
    ]
    helps = _helps_of_others(_limited(tmp_path, *rows), {(Limit.APPLICATION, False): 0.4}, frozenset())
    assert [(share, noun) for share, noun, _ in helps] == [(0.2, "the client"), (0.15, "the path's latency")]
    told = explain(read(_RECORDINGS / "3000106-small-messages-outage" / "session")).headline
    assert "For the client (12 %): " in told.help
    assert "For the path's latency (11 %): fewer round trips" in told.help


def test_what_a_client_waited_for_is_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multitracer.diagnosis.limits.limited.is_asked_in_vain", lambda _: True)
    for reverse, noun in ((False, "answers"), (True, "requests")):
        rows = [_row(Limit.APPLICATION, 0.6, LimitSubtype.PEER, reverse=reverse), _row(Limit.RECOVERY, 0.4)]
        told = _if_lost(_limited(tmp_path, *rows), rows[:1])
        assert told == f"If these {noun} were lost, lost packets cost 100 % in all."


def test_what_was_outstanding_when_an_outage_began_was_lost_in_it(tmp_path: Path) -> None:
    """The receiver asks for it again after the outage."""
    exchange = Exchange().opened()
    at_ms = exchange.round_trips(51, 0, count=10)
    exchange.data(at_ms + 0.1, 40, count=4)
    exchange.data(at_ms + 10, 44, count=2)
    for wait_ms in (300, 900, 2100, 4500):
        exchange.data(at_ms + wait_ms, 40)
    exchange.ack(at_ms + 4550, 41)
    exchange.data(at_ms + 4550.1, 41, count=2)
    exchange.ack(at_ms + 4600, 43)
    exchange.data(at_ms + 4600.1, 43, count=3)
    exchange.ack(at_ms + 4650, 46)
    exchange.round_trips(at_ms + 4650.1, 46, count=10)
    found = exchange.diagnosed(tmp_path)
    assert "outage" in [each.kind for each in found.findings]
    assert sum(row.share for row in found.limited.shares if row.limit is Limit.RECOVERY) > 0.01
    assert found._lost_in_outages


def test_the_largest_limit_of_each_connection_is_named_if_it_is_not_that_of_all() -> None:
    group = group_of(read(_RECORDINGS / "2000040-own-several" / "session"))
    assert group is not None
    noun = "the sender's own interface"
    assert _apart(group, noun, is_together=False) == "That was the largest limit of each connection."
    told = _apart(group, "slow start", is_together=False)
    assert told == f"The largest limit of each connection was {noun}."


def test_a_limit_of_data_of_both_directions_names_both(tmp_path: Path) -> None:
    up, down = _row(Limit.LINK, 0.5), _row(Limit.LINK, 0.3, reverse=True, weak=True)
    limited = _limited(tmp_path, up)
    assert _noun_of_all(limited, [up, down], Limit.LINK, reverse=False) == "the link in both directions"
    assert _noun_of_all(limited, [up], Limit.LINK, reverse=False) == "the link"
    more = up._replace(share=0.6)
    told = _noun_of_all(limited, [more, down], Limit.LINK, reverse=False)
    assert told == "the link in both directions, more from client to server"
    acks = down._replace(part=LimitSubtype.ACKS)
    assert _noun_of_all(limited, [acks, up], Limit.LINK, reverse=True) == "the link", "the upload's, in which they wait"
    window = [each._replace(limit=Limit.RECEIVER_WINDOW) for each in (up, down)]
    told = _noun_of_all(limited, window, Limit.RECEIVER_WINDOW, reverse=False)
    assert told == "the receiver's window (data of both directions)"
    group = ConnectionGroup([1, 2], [GroupConnection(n, limited.begin_ns, limited) for n in (1, 2)])
    for rows, sure in (([up, down], Confidence.WEAK), ([up, down._replace(share=0.04)], Confidence.MEASURED)):
        vars(group)["shares"] = rows
        assert headline_of_group(group).confidence is sure
    assert "the link (54 %, measured)" in headline_of_group(group).sentence
