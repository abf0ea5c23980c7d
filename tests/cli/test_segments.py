"""`export segments`: columns, kinds and verdicts as lines, and what a reader may rely on."""

from __future__ import annotations

import csv
import io
import subprocess
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.analysis.pcap_file import write_pcap
from tests.analysis.traffic import ACK, FIN, MS, SYN, Segment
from tests.cli.program import COMMAND, ENVIRONMENT, call
from tests.corpus.judged import Corpus

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "frame,time_ns,src,dst,sport,dport,seq,seq_rel,payload_bytes,kind,cause,necessity,evidence"
KINDS = {
    "data", "retransmission", "ack", "duplicate-ack", "syn", "fin", "rst", "keep-alive", "zero-window-probe",
    "window-update", "out-of-order", "capture-duplicate",
}  # fmt: skip
CAUSES = {"timeout", "slow-start", "fast", "tail-loss-probe", "local-drop", "unknown"}
NECESSITIES = {"necessary", "spurious", "ack-lost", "undecided"}


def lines(*args: str | Path) -> list[dict[str, str]]:
    done = call("export", "segments", *args, "--csv")
    assert done.stderr == ""
    assert done.stdout.splitlines()[0] == HEADER
    return list(csv.DictReader(io.StringIO(done.stdout)))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus.of([1, 2, 6, 8, 9, 16], tmp_path_factory.mktemp("corpus"))


def test_one_line_for_each_segment_of_the_capture(sample_session: Path) -> None:
    found = lines(sample_session / "mobile" / "tcp-0.pcap.gz")
    assert len(found) == sum(count for count in Counter(row["frame"] for row in found).values())
    assert [int(row["frame"]) for row in found] == sorted(int(row["frame"]) for row in found)
    assert found[0]["frame"] == "1"
    for row in found:
        assert row["kind"] in KINDS
        if row["kind"] == "retransmission":
            assert row["cause"] in CAUSES
            assert row["necessity"] in NECESSITIES
        else:
            assert (row["cause"], row["necessity"], row["evidence"]) == ("", "", "")


def test_numbers_are_those_of_the_wire_and_unwrapped(tmp_path: Path) -> None:
    isn = 2**32 - 1000
    segments = [
        Segment(0, isn, flags=SYN, time_ns=MS),
        Segment(1, 7, flags=SYN | ACK, ack=isn + 1, time_ns=2 * MS),
        Segment(0, isn + 1, 900, ack=8, time_ns=3 * MS),
        Segment(0, isn + 901, 900, ack=8, time_ns=4 * MS),
        Segment(0, isn + 1801, flags=FIN | ACK, ack=8, time_ns=5 * MS),
    ]
    rows = lines(write_pcap(tmp_path / "a.pcap", segments))
    assert [row["seq_rel"] for row in rows] == ["-1", "-1", "0", "900", "1800"]
    assert [int(row["seq"]) for row in rows] == [s.seq % 2**32 for s in segments]
    assert [int(row["time_ns"]) for row in rows] == [s.time_ns for s in segments]
    assert [row["kind"] for row in rows] == ["syn", "syn", "data", "data", "fin"]
    assert (rows[0]["src"], rows[0]["dst"], rows[0]["sport"], rows[0]["dport"]) == (
        "10.0.0.1", "10.0.0.2", "40000", "80",
    )  # fmt: skip


def test_without_a_syn_the_first_data_byte_is_zero(tmp_path: Path) -> None:
    segments = [Segment(0, 5000, 100, ack=9), Segment(1, 9, ack=5100), Segment(0, 5100, 50, ack=9)]
    assert [row["seq_rel"] for row in lines(write_pcap(tmp_path / "a.pcap", segments))] == ["0", "0", "100"]


def test_a_syn_sent_again_is_a_retransmission(tmp_path: Path) -> None:
    segments = [Segment(0, 100, flags=SYN, time_ns=n * 1000 * MS) for n in (1, 2, 4)]
    rows = lines(write_pcap(tmp_path / "a.pcap", segments))
    assert [(row["kind"], row["cause"]) for row in rows] == [
        ("syn", ""), ("retransmission", "timeout"), ("retransmission", "timeout"),
    ]  # fmt: skip


def test_verdicts_of_the_sender_s_capture(corpus: Corpus) -> None:
    rows = {int(row["frame"]): row for row in lines(corpus.sender)}
    truth = {frame: verdict for at in range(6) for frame, verdict in corpus.truth(at).items()}
    resent = {f for f, row in rows.items() if row["kind"] == "retransmission" and row["src"] == "10.1.1.1"}
    assert resent == truth.keys()
    spurious = {f for f in resent if rows[f]["necessity"] == "spurious"}
    truly = {f for f, (_, necessity) in truth.items() if necessity == "spurious"}
    assert len(spurious & truly) >= 0.9 * len(truly) > 10
    assert "out-of-order" not in {row["kind"] for row in rows.values() if row["src"] == "10.1.1.1"}


def test_the_receiver_s_capture_makes_them_certain(corpus: Corpus) -> None:
    rows = {int(row["frame"]): row for row in lines(corpus.sender, "--receiver", corpus.receiver)}
    for at in range(6):
        for frame, (_, necessity) in corpus.truth(at).items():
            assert rows[frame]["necessity"] == necessity
            assert rows[frame]["evidence"].startswith("receiver")


def test_a_capture_at_the_receiver_tells_what_order_proves(corpus: Corpus) -> None:
    rows = [r for r in lines(corpus.receiver) if r["kind"] == "retransmission" and r["src"] == "10.1.1.1"]
    truth = {frame: verdict for at in range(6) for frame, verdict in corpus.truth(at, "fixed").items()}
    right = [r for r in rows if r["necessity"] == truth[int(r["frame"])][1]]
    assert len(right) >= 0.9 * len(rows) > 10
    unknown = {r["frame"] for r in rows if r["cause"] == "unknown" or r["necessity"] == "undecided"}
    assert unknown == {r["frame"] for r in rows if "not-at-sender" in r["evidence"]}


def test_a_session_adds_what_its_logs_know(sample_session: Path) -> None:
    alone = lines(sample_session / "mobile" / "tcp-0.pcap.gz")
    known = lines(sample_session)
    assert [row["frame"] for row in known] == [row["frame"] for row in alone]
    evidence = [row["evidence"] for row in known if row["kind"] == "retransmission"]
    assert evidence
    assert all(words.startswith("receiver+") and "ca-state" in words for words in evidence)
    assert not any("receiver" in row["evidence"] for row in alone)


def test_a_reader_that_goes_away_ends_it_quietly(corpus: Corpus) -> None:
    with subprocess.Popen(
        [*COMMAND, "export", "segments", str(corpus.sender), "--csv"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT, text=True,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.readline()
        child.stdout.close()
        assert child.stderr.read() == ""
    assert child.returncode in {0, 141}


def test_captures_that_share_nothing_are_refused(corpus: Corpus, sample_session: Path) -> None:
    other = sample_session / "mobile" / "tcp-0.pcap.gz"
    done = call("export", "segments", other, "--receiver", corpus.receiver, "--csv", status=1)
    assert "no packet in common" in done.stderr
    call("export", "segments", other.with_name("none.pcap"), "--csv", status=1)
