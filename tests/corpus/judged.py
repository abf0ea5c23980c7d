"""The corpus, judged: by us from the sender's capture, by us from both, by tshark and by tcptrace."""

from __future__ import annotations

import subprocess
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

import parsers
from multitracer.analysis import analyse
from multitracer.analysis.segments.segment_class import SegmentClass, classify
from multitracer.analysis.verdicts import Necessity, OtherLogs, RetransmissionCause, judge, word
from multitracer.schemas.tcp import Vantage
from tests.analysis.reference_tools import tcptrace
from tests.corpus.link import capture_file
from tests.corpus.transfers import transfer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from multitracer.analysis import Analysis
    from multitracer.tables import Table
    from tests.corpus.link import Transfer

TSHARK_LABELS = ("spurious_retransmission", "fast_retransmission", "out_of_order", "retransmission")
_SPURIOUS = "spurious"


@dataclass
class Score:
    """Retransmissions by their truth and by what somebody called them."""

    necessity: Counter[tuple[str, str]] = field(default_factory=Counter)
    cause: Counter[tuple[str, str]] = field(default_factory=Counter)
    out_of_order: int = 0
    out_of_order_timeouts: int = 0
    missed: int = 0
    """Retransmissions that were called nothing at all, and others that were called one."""

    @property
    def retransmissions(self) -> int:
        return self.necessity.total()

    @property
    def truly_spurious(self) -> int:
        return sum(n for (truth, _), n in self.necessity.items() if truth == _SPURIOUS)

    @property
    def recall(self) -> float:
        """Of the spurious ones, the share that was called so."""
        return self.necessity[_SPURIOUS, _SPURIOUS] / max(self.truly_spurious, 1)

    @property
    def precision(self) -> float:
        """Of those called spurious, the share that was; 1 if none was called so."""
        called = sum(n for (_, said), n in self.necessity.items() if said == _SPURIOUS)
        return self.necessity[_SPURIOUS, _SPURIOUS] / called if called else 1.0

    @property
    def right_causes(self) -> float:
        """The share whose cause is right, of those whose cause is known to the simulator."""
        known = {pair: n for pair, n in self.cause.items() if pair[0] != "unknown"}
        return sum(n for (truth, said), n in known.items() if truth == said) / max(sum(known.values()), 1)

    @property
    def wrong_necessities(self) -> float:
        """The share of which something else is said than what is true."""
        wrong = sum(n for (truth, said), n in self.necessity.items() if said not in (truth, "undecided"))
        return wrong / max(self.retransmissions, 1)

    @property
    def wrong_causes(self) -> float:
        """The same of causes."""
        wrong = sum(n for (truth, said), n in self.cause.items() if said not in (truth, "unknown"))
        return wrong / max(self.retransmissions, 1)

    def add(self, truth: tuple[str, str], cause: str, necessity: str) -> None:
        """Count one retransmission."""
        self.cause[truth[0], cause] += 1
        self.necessity[truth[1], necessity] += 1


@dataclass
class Corpus:
    """Some of the transfers, run, with their captures one after the other in a file for each end."""

    numbers: list[int]
    transfers: list[Transfer]
    sender: Path
    receiver: Path
    middle: Path

    @classmethod
    def of(cls, numbers: Iterable[int], folder: Path) -> Corpus:
        chosen = list(numbers)
        transfers = [transfer(number) for number in chosen]
        for each in transfers:
            each.run()
        paths = [
            capture_file(folder / f"{side}.pcap", (each.captures[side] for each in transfers))
            for side in ("mobile", "fixed", "middle")
        ]
        return cls(chosen, transfers, *paths)

    def truth(self, at: int, point: str = "mobile") -> dict[int, tuple[str, str]]:
        """Return (cause, necessity) of the retransmissions of the at-th transfer, by frame of the file."""
        before = sum(len(each.captures[point]) for each in self.transfers[:at])
        found = self.transfers[at].verdicts("mobile", point=point)
        return {before + frame: verdict for frame, verdict in found.items()}


def ours(corpus: Corpus, *, with_receiver: bool = False) -> dict[bool, Score]:
    """Return how we do, of transfers with timestamps (True) and without."""
    near = analyse(parsers.read_capture([str(corpus.sender)]))
    far = analyse(parsers.read_capture([str(corpus.receiver)])) if with_receiver else None
    scores = {True: Score(), False: Score()}
    for at, each in enumerate(corpus.transfers):
        _score(scores[each.profile.timestamps], corpus.truth(at), near, at + 1, far)
    return scores


def _score(score: Score, truth: dict[int, tuple[str, str]], near: Analysis, number: int, far: Analysis | None) -> None:
    segments = near.tcp_segments(number)
    beside = OtherLogs(receiver=far.tcp_segments(number) if far else None)
    vantage = int(near.directions["vantage"][2 * (number - 1)])
    verdicts = judge(segments, near.sack_blocks(number), reverse=False, vantage=vantage, logs=beside)
    score.out_of_order += _called_out_of_order(segments, vantage)
    said = dict(zip(segments["frame"][verdicts["row"]].tolist(), verdicts.rows(), strict=True))
    score.missed += len(said.keys() ^ truth.keys())
    for frame in said.keys() & truth.keys():
        row = said[frame]
        score.add(truth[frame], word(RetransmissionCause(row["cause"])), word(Necessity(row["necessity"])))


def away(corpus: Corpus, point: str) -> dict[bool, Score]:
    """Return how we do by a capture that was not made at the sender: "middle", or "fixed" for the receiver's.

    Only what is a retransmission there: of those whose first copy did not pass nothing is said.
    """
    path = {"middle": corpus.middle, "fixed": corpus.receiver}[point]
    found = analyse(parsers.read_capture([str(path)]))
    vantage = {"middle": Vantage.BETWEEN, "fixed": Vantage.NEAR_RECEIVER}[point]
    scores = {True: Score(), False: Score()}
    for at, each in enumerate(corpus.transfers):
        segments, truth = found.tcp_segments(at + 1), corpus.truth(at, point)
        again = classify(segments, at_sender=(False, False)) == SegmentClass.RETRANSMISSION
        verdicts = judge(segments, found.sack_blocks(at + 1), reverse=False, vantage=vantage)
        for row in verdicts.rows():
            frame = int(segments["frame"][row["row"]])
            if again[row["row"]] and frame in truth:
                verdict = word(RetransmissionCause(row["cause"])), word(Necessity(row["necessity"]))
                scores[each.profile.timestamps].add(truth[frame], *verdict)
    return scores


def _called_out_of_order(segments: Table, vantage: int) -> int:
    kind = classify(segments, at_sender=(vantage == 1, False))
    return int(np.count_nonzero((kind == SegmentClass.OUT_OF_ORDER) & ~segments["reverse"]))


def by_tshark(corpus: Corpus) -> dict[bool, Score]:
    """Return how tshark's labels (tcp.analysis.*) do."""
    command = ["tshark", "-n", "-r", str(corpus.sender), "-T", "fields", "-e", "frame.number"]
    for label in TSHARK_LABELS:
        command += ["-e", f"tcp.analysis.{label}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    called = {}
    for line in done.stdout.splitlines():
        frame, *cells = line.split("\t")
        called[int(frame)] = next((n for n, cell in zip(TSHARK_LABELS, cells, strict=True) if cell), "")
    scores = {True: Score(), False: Score()}
    for at, each in enumerate(corpus.transfers):
        _score_labels(scores[each.profile.timestamps], corpus.truth(at), called)
    return scores


def _score_labels(score: Score, truth: dict[int, tuple[str, str]], called: dict[int, str]) -> None:
    for frame, verdict in truth.items():
        label = called[frame]
        fast = "fast" if label == "fast_retransmission" else "unknown"
        score.add(verdict, fast, _SPURIOUS if label == "spurious_retransmission" else "undecided")
        score.out_of_order += label == "out_of_order"
        score.out_of_order_timeouts += label == "out_of_order" and verdict[0] == "timeout"
        score.missed += not label


def by_tcptrace(corpus: Corpus) -> tuple[int, int]:
    """Return how many segments of the data senders tcptrace calls retransmitted, and out of order."""
    counts = [each.counts[each.ends[0][0] != "10.1.1.1"] for each in tcptrace(corpus.sender)]
    return sum(c["retransmitted_segments"] for c in counts), sum(c["out_of_order"] for c in counts)
