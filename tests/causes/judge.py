"""Holds the program's answer to a recording against the truth: each view of it, limits and findings.

The program is asked as a user asks it, `diagnose --json --intervals`, in this process. What is compared is
one transfer: the one that carried most bytes.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.causes.scenario import CLIENT
from tests.causes.spans import overlap_ns, spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VIEWS = ("both", "sender-state", "sender", "receiver")
GROUP = "group"
"""The whole session, where several connections are one piece of work."""
_FILE_HEADER_BYTES = 24
"""Of a pcap without packets."""
NEAR = 0.05
"""Limits whose true shares are so near to the largest count as primary, too."""

Document = dict[str, Any]


class NoAnswerError(Exception):
    """The program gave no limits; its words say why."""


@dataclass
class Judged:
    """One view of one recording."""

    name: str
    view: str
    kind: str
    true: dict[str, float]
    ours: dict[str, float] = field(default_factory=dict)
    confidence: str = ""
    """Of the largest limit."""
    seconds: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Limit -> (seconds said, of these seconds right)."""
    findings: list[str] = field(default_factory=list)
    error: str = ""
    cpu_s: float = 0.0
    also: str = ""
    """A limit that counts as right, too, as this view cannot know better."""
    tick_ms: int | None = None
    """Between ticks of the sender's timestamps, 0 if it has none; None in verdicts of before."""

    @property
    def primaries(self) -> list[str]:
        """The true largest limits, the very largest first."""
        most = max(self.true.values())
        return sorted((k for k, v in self.true.items() if v >= most - NEAR), key=lambda k: -self.true[k])

    @property
    def answer(self) -> str:
        """The largest limit of the program's answer."""
        return max(self.ours, key=lambda limit: self.ours[limit]) if self.ours else "no answer"

    @property
    def right(self) -> bool:
        return self.answer in [*self.primaries, self.also]

    @property
    def overlap(self) -> float:
        """The sum of the smaller of our and the true share of each limit."""
        return sum(min(share, self.ours.get(limit, 0.0)) for limit, share in self.true.items())


@contextmanager
def seen(folder: Path, view: str, *, upload: bool) -> Iterator[Path]:
    """Give the file or the folder that a view consists of."""
    if view in ("both", GROUP):
        yield folder / "session"
    elif view == "sender-state":
        host = _capture(folder, view, upload=upload).parent
        with tempfile.TemporaryDirectory() as place:
            yield Path(shutil.copytree(host, Path(place) / host.name)).parent
    else:
        yield _capture(folder, view, upload=upload)


def _capture(folder: Path, view: str, *, upload: bool) -> Path:
    """Return the capture of the end that a view sees, the sender's if it sees both."""
    host = "mobile" if upload == (view != "receiver") else "fixed"
    (capture,) = (folder / "session" / host).glob("tcp-0.pcap*")
    return capture


def _is_empty(capture: Path) -> bool:
    """Return whether a host was sent nothing: a router on its side knew no such address."""
    return capture.suffix != ".gz" and capture.stat().st_size <= _FILE_HEADER_BYTES


def asked_for(transfer: Document) -> list[str]:
    """Return the options that ask for one transfer."""
    client = transfer.get("client", CLIENT)
    host = f"[{client}]" if ":" in client else client
    options = ["-c", f"{host}:{transfer['client_port']}"]
    if not transfer["bytes"] or "joint" in transfer:
        return options
    return [*options, "--direction", "forward" if transfer["way"] == "up" else "reverse"]


def ask(seen: Path, options: list[str]) -> Document:
    """Return the program's answer, about what the options ask for.

    Raises
    ------
    NoAnswerError
        If it ends with an error, or says nothing of limits.
    """
    from click.testing import CliRunner

    from multitracer.cli._program import cli

    with tempfile.TemporaryDirectory() as place:
        output = Path(place) / "answer.json"
        asked = ["--json", "--intervals", *options, "-o", str(output)]
        done = CliRunner().invoke(cli, ["diagnose", *asked, str(seen)])
        if done.exit_code:
            raise NoAnswerError(f"{done.output.strip()} {done.exception!r}"[-400:])
        document: Document = json.loads(output.read_text())
    if "limits" not in document:
        raise NoAnswerError("this version of the program tells no limits")
    return document


def judge(folder: Path, truth: Document, view: str) -> Judged | None:
    """Return the verdict on one view of a recording, None if nothing of the transfer is in that view.

    Where a proxy is between, the server's side has another connection, of which the path's log tells nothing.
    """
    if view == GROUP:
        return _judge_group(folder, truth)
    transfer = truth["transfers"][0]
    true = None if truth.get("proxied") and view.startswith("sender") else _in_view(transfer, view)
    if true is None or (view != "both" and _is_empty(_capture(folder, view, upload=truth["upload"]))):
        return None
    judged = Judged(folder.name, view, truth["kind"], _shares(transfer, true, view))
    judged.tick_ms = truth.get("tick_ms")
    judged.also = _also(transfer, true, view) if "joint" in transfer else ""
    answer = _answer(judged, folder, truth, asked_for(transfer))
    if answer is None:
        return judged
    _enter_limits(judged, answer["limits"])
    if answer["headline"]["limit"] == judged.answer:
        judged.confidence = answer["headline"]["confidence"]  # where it is the largest by a weak part, it says so
    late_ns = round(transfer["delay_s"] * 1e9) if view == "receiver" else 0
    if not truth.get("apart") or view in ("sender-state", "sender"):  # else they are on another clock
        judged.seconds = _agreed(answer.get("intervals", []), true, late_ns)
    judged.findings = sorted({finding["kind"] for finding in answer["findings"]})
    return judged


def _judge_group(folder: Path, truth: Document) -> Judged | None:
    """Return the verdict on what is said of several connections, None where only one is to be explained."""
    group = truth.get("group")
    if group is None or len(group["client_ports"]) == 1:
        return None
    judged = Judged(folder.name, GROUP, truth["kind"], group["shares"])
    answer = _answer(judged, folder, truth, [])
    if answer is not None:
        _enter_limits(judged, answer["group"]["limits"])
    return judged


def _answer(judged: Judged, folder: Path, truth: Document, options: list[str]) -> Document | None:
    """Return what the program says, and enter what that cost; None, and why, if it says nothing."""
    before = time.process_time()
    try:
        with seen(folder, judged.view, upload=truth["upload"]) as given:
            answer = ask(given, options)
    except NoAnswerError as error:
        judged.error = str(error)
        return None
    judged.cpu_s = time.process_time() - before
    return answer


def _in_view(transfer: Document, view: str) -> list[Any] | None:
    """Return the true intervals of a view: an end sees its first packet to its last.

    Where the connection as a whole is judged, an end sees what either direction brings there.
    """
    told = transfer.get("joint", transfer)
    if view == "both":
        return list(told["intervals"])
    seen = told["at_receiver_ns" if view == "receiver" else "at_sender_ns"]
    if seen is None:
        return None
    clipped = [(max(begin, seen[0]), min(end, seen[1]), *rest) for begin, end, *rest in told["intervals"]]
    return [each for each in clipped if each[0] < each[1]] or None


def _shares(transfer: Document, intervals: list[Any], view: str) -> dict[str, float]:
    """Return the share of each limit; where no data arrived, a receiver cannot know."""
    if view == "receiver" and transfer["bytes"] and not transfer["fates"]["data"].get("delivered"):
        return {"unknown": 1.0}
    total = sum(end - begin for begin, end, *_ in intervals)
    found: dict[str, float] = {}
    for begin, end, limit, *_ in intervals:
        found[limit] = found.get(limit, 0.0) + (end - begin) / total
    return found


def _also(transfer: Document, intervals: list[Any], view: str) -> str:
    """Return the largest limit if what got lost on its way to a view is told as silence of the other program."""
    if view not in ("sender-state", "sender"):
        return ""
    unseen = [
        (begin, end, "application" if way != transfer["way"] and limit in ("recovery", "outage") else limit, part)
        for begin, end, limit, part, way in intervals
    ]
    shares = _shares(transfer, unseen, view)
    return max(shares, key=lambda limit: shares[limit])


def _enter_limits(judged: Judged, limits: list[Document]) -> None:
    for row in limits:
        judged.ours[row["limit"]] = judged.ours.get(row["limit"], 0.0) + row["share"]
    mine = [row for row in limits if row["limit"] == judged.answer]
    judged.confidence = mine[0]["confidence"] if mine else ""


def _agreed(ours: list[Document], true: list[Any], late_ns: int) -> dict[str, tuple[float, float]]:
    """Return of each limit the seconds said and the seconds right; a receiver sees all `late_ns` later."""
    found: dict[str, tuple[float, float]] = {}
    for limit in {interval["limit"] for interval in ours}:
        said = [(i["begin_ns"], i["end_ns"]) for i in ours if i["limit"] == limit]
        held = spans([(begin, end) for begin, end, name, *_ in true if name == limit])
        right = max(_shared_ns(said, held, shift) for shift in {0, late_ns})
        found[limit] = (sum(end - begin for begin, end in said) / 1e9, right / 1e9)
    return found


def _shared_ns(said: Iterable[tuple[int, int]], held: Any, shift_ns: int) -> int:
    moved = np.asarray(held) + shift_ns
    return sum(overlap_ns(moved, begin, end) for begin, end in said) if len(held) else 0
