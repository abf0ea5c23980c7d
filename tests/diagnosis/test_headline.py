"""What a diagnosis says first, also of captures that cannot tell why a transfer was slow."""

from __future__ import annotations

import gzip
import math
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from multitracer.diagnosis.account.uses import Use
from multitracer.diagnosis.diagnose import channel_use, diagnose, explain, headline
from multitracer.diagnosis.limits.names import Confidence, Limit, Viewpoint
from multitracer.diagnosis.sentence import rows_in_words
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from tests.conftest import SAMPLES
from tests.diagnosis.exchange import FULL, Exchange

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.diagnosis.diagnosis import Diagnosis

_FILE_HEADER = 24
_RECORD = struct.Struct("<IIII")
CALL = SAMPLES / "fig8-resets-vj"
RECORDINGS = Path(__file__).parents[1] / "causes" / "recordings"


def one_way(path: Path, *, reverse: bool) -> Path:
    """Write the packets of one direction of the sender's capture."""
    data = gzip.decompress((CALL / "mobile" / "tcp-0.pcap.gz").read_bytes())
    wanted = (Transfer.of(read(CALL)).sender["reverse"] == reverse).tolist()
    kept, at = [data[:_FILE_HEADER]], _FILE_HEADER
    for keep in wanted:
        end = at + _RECORD.size + _RECORD.unpack_from(data, at)[2]
        kept += [data[at:end]] if keep else []
        at = end
    path.write_bytes(b"".join(kept))
    return path


def explained(path: Path, *, reverse: bool | None = None) -> Diagnosis:
    return diagnose(Transfer.of(read(path), reverse=reverse))


def test_data_without_their_acks_tell_no_utilization(tmp_path: Path) -> None:
    found = explained(one_way(tmp_path / "data.pcap", reverse=False))
    assert math.isnan(found.account.utilization)
    assert found.document()["account"]["utilization"] is None
    assert "only one direction was captured" in headline(found)
    assert found.limited.total_s > 100


def test_acks_alone_are_no_data(tmp_path: Path) -> None:
    found = explained(one_way(tmp_path / "acks.pcap", reverse=True))
    assert math.isnan(found.account.utilization)
    assert "only one direction was captured" in headline(found)


def test_the_receivers_capture_alone_does_not_tell_what_the_sender_waited_for() -> None:
    found = explained(CALL / "fixed" / "tcp-0.pcap.gz")
    assert math.isnan(found.account.utilization)
    assert channel_use(found) == ""
    assert found.limited.view is Viewpoint.RECEIVER
    assert {row.confidence for row in found.limited.shares if row.limit is not Limit.HANDSHAKE} == {Confidence.WEAK}, (
        "there are no timestamps"
    )


def test_the_senders_capture_alone_does() -> None:
    found = explained(CALL / "mobile" / "tcp-0.pcap.gz")
    assert headline(found).startswith("Mostly the link")
    assert channel_use(found) == "", "without the link's log nobody knows"
    assert math.isnan(found.account.utilization)


def test_the_way_without_data_says_so() -> None:
    assert "no data were sent in this direction" in headline(explained(CALL, reverse=True))


@pytest.mark.parametrize(("name", "end"), [("00090-outage-both", "mobile"), ("3000110-lost-requests", "fixed")])
def test_the_first_sentence_and_the_table_have_one_confidence(name: str, end: str) -> None:
    """The outage is the largest limit by what may have been another one; requests may have been lost."""
    found = explained(RECORDINGS / name / "session" / end)
    rows = [row for row in found.limited.shares if row.limit is found.headline.limit]
    assert rows[0].confidence is found.headline.confidence is Confidence.WEAK
    assert next(row[3] for row in rows_in_words(found.limited)) == "weak"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("00017-mtu-hole", "Mostly a path MTU black hole: segments of 1,460 bytes vanished, and smaller packets"),
        ("25131-mtu-hole", "A path MTU black hole was the limit for 24 % (weak), from 0.2 s to 4.6 s."),
    ],
)
def test_an_outage_of_large_segments_alone_is_a_black_hole(name: str, words: str) -> None:
    found = explained(RECORDINGS / name / "session")
    assert words in headline(found)
    assert "outage" not in headline(found)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("2042675-own-bursts", "The sender's own interface was the limit for 24 % (measured)."),
        ("3000020-posts-read-slowly", "For 34 % the window had no room for one segment (measured)."),
    ],
)
def test_each_large_subtype_is_named(name: str, words: str) -> None:
    assert words in headline(explain(read(RECORDINGS / name / "session")))


def test_the_headline_names_the_kind_that_cost_most_in_all() -> None:
    """Two failures together, not the single flow control that cost more than each."""
    found = explained(CALL)
    assert found.findings[0].kind == "link-flow-control"
    assert "header decompressor was out of step" in channel_use(found)
    assert "happened 2 times" in channel_use(found)
    assert headline(found).startswith("Mostly the link")
    assert "The repair of lost data was the limit for 21 % (measured)." in headline(found)


def test_acks_with_wrong_headers_are_not_called_lost() -> None:
    damaged = [each for each in explained(CALL).findings if each.kind == "ack-loss"]
    assert damaged
    assert all("arrived with wrong headers" in each.sentence for each in damaged)


def test_what_was_wasted_says_whether_it_arrived_broken_or_was_lost() -> None:
    call = explained(CALL).account
    assert call.says(Use.WASTED).startswith("data were sent that arrived broken, with wrong headers")
    plain = explained(SAMPLES / "fig8-resets-plain").account
    assert plain.says(Use.WASTED) == "data were sent that were lost in a reset of the link"
    fade = explained(SAMPLES / "overbuffered").account
    assert fade.says(Use.WASTED) == "data were sent that were lost or arrived broken", "there was none"


def test_a_full_window_was_read_at_once_only_where_that_was_seen(
    tmp_path: Path, transfer_of: Callable[..., Transfer]
) -> None:
    """The log of a link shows that a slow reader's window was full, and nothing of when its data were read."""
    logged = diagnose(transfer_of("slow-reader")).headline
    assert "SO_RCVBUF" in logged.help
    assert "read in time" not in logged.sentence
    exchange = Exchange().opened()
    for turn in range(20):
        exchange.data(50.2 + 50 * turn, 4 * turn, count=4)
        exchange.note(100 + 50 * turn, 1, seq=5_001, ack=1_001 + 4 * (turn + 1) * FULL, window=4 * FULL)
    assert ", although the receiving program read in time" in exchange.diagnosed(tmp_path).headline.sentence


def test_where_packets_do_not_part_an_interface_from_a_pacer_the_remedy_names_both(tmp_path: Path) -> None:
    exchange = Exchange(rtt_ms=30).opened()
    for number in range(400):
        exchange.data(31 + 3 * number, number)
        exchange.ack(31 + 3 * number + 28.4, number + 1)
    headline = exchange.diagnosed(tmp_path).headline
    assert "sender's own interface or a pacer" in headline.sentence
    assert "no pacer" in headline.help
