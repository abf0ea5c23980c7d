"""Records QUIC transfers with random parameters and judges the answer of each view: how often right, wrong, unknown.

`python -m tests.quic.judge record FOLDER SEED` records; `python -m tests.quic.judge FOLDER [tuned|judged]` judges. The
link's own log tells whether what was planted happened: a recording of which it does not is left out, and said so.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tests.quic.exchange import Plan, record

if TYPE_CHECKING:
    from collections.abc import Iterator

CAUSES = {
    "link": {"link"},
    "loss": {"congestion-window", "recovery"},
    "stall": {"outage"},
    "connection": {"receiver-window"},
    "stream": {"receiver-window"},
    "pauses": {"application"},
    "handshake": {"handshake"},
    "start": {"slow-start", "congestion-window"},
}
"""What is planted, and which main limits are right."""
VIEWS = {
    "both with keys": ("mobile", "fixed", "keys.txt"),
    "sender with keys": ("fixed", "keys.txt"),
    "receiver with keys": ("mobile", "keys.txt"),
    "qlog of the sender": ("qlog-s.qlog",),
    "both, sealed": ("mobile", "fixed"),
    "one, sealed": ("mobile",),
}
_LATE_S, _LATE_TRIPS = 0.005, 0.25  # a link that is later than both at the median is not the one that was planned


def plan_of(cause: str, dice: random.Random) -> Plan:
    """Return a transfer in which a cause prevails."""
    delay = dice.uniform(0.008, 0.04)
    fast = dice.uniform(15e6, 30e6)
    plan = Plan(delay_s=delay, rate_bps=fast, queue_bytes=250_000, seed=dice.randrange(1 << 30))
    if cause == "link":
        plan.rate_bps = dice.uniform(2e6, 9e6)
        plan.size = int(plan.rate_bps / 8 * dice.uniform(3, 6))
        plan.queue_bytes = int(max(plan.rate_bps / 8 * 2 * delay, 15_000) * dice.uniform(1.2, 3))
    elif cause == "loss":
        plan.loss, plan.size = dice.uniform(0.015, 0.05), dice.randrange(600_000, 1_200_000)
    elif cause == "stall":
        plan.size = dice.randrange(400_000, 1_500_000)
        plan.stall = (dice.uniform(0.15, 0.4), dice.uniform(2.0, 4.0))
    elif cause in ("connection", "stream"):
        held = max(int(fast / 8 * 2 * delay * dice.uniform(0.15, 0.4)), 9_000)
        plan.size = dice.randrange(500_000, 1_000_000)
        plan.window, plan.stream_window = (held, 0) if cause == "connection" else (0, held)
    elif cause == "pauses":
        plan.pauses = (dice.randrange(6_000, 30_000), dice.uniform(0.15, 0.4))
        plan.size = plan.pauses[0] * dice.randrange(12, 20)
    elif cause == "handshake":
        plan.size, plan.retry, plan.delay_s = dice.randrange(500, 6_000), True, dice.uniform(0.03, 0.12)
    elif cause == "start":
        plan.size, plan.delay_s = dice.randrange(100_000, 220_000), dice.uniform(0.06, 0.12)
        plan.rate_bps = 40e6
    plan.version = dice.choice((1, 1, 2))
    plan.cipher = dice.choice(("AES_128_GCM_SHA256", "AES_256_GCM_SHA384", "CHACHA20_POLY1305_SHA256"))
    plan.control = dice.choice(("reno", "cubic"))
    plan.snaplen = dice.choice((192, 1600))
    plan.upload = cause not in ("handshake", "connection", "stream") and dice.random() < 0.25
    return plan


def record_all(into: Path, seed: int, times: int) -> None:
    """Record each cause some times."""
    dice = random.Random(seed)
    for turn in range(times):
        for cause in CAUSES:
            folder = into / f"{turn}-{cause}"
            record(folder, plan_of(cause, dice))
            _say(f"{folder.name}: {doubt(folder) or 'as planned'}")


def doubt(folder: Path) -> str | None:
    """Return why what was planted did not happen, by the link's own log; None if it did."""
    plan, cause = Plan(**json.loads((folder / "plan.json").read_text())), folder.name.split("-")[1]
    passed = np.array(json.loads((folder / "passed.json").read_text()), np.float64).reshape(-1, 5)
    passed = passed[np.argsort(passed[:, 0])]
    late = float(np.median(passed[:, 3] - passed[:, 1]))
    if late > max(_LATE_S, _LATE_TRIPS * 2 * plan.delay_s):
        return f"the link was {late * 1e3:.1f} ms late at the median"
    total = passed[:, 3].max() - passed[:, 0].min()
    data = passed[passed[:, 2] == 1]
    busy = float((data[:, 4] + 28).sum() * 8 / plan.rate_bps / total)
    came = np.sort(passed[:, 3])
    silent = float(np.diff(came).max(initial=0) / total)
    if cause == "link" and busy < 0.7:
        return f"the link was busy for {busy:.0%} only"
    if cause not in ("link", "handshake") and busy > 0.4:
        return f"the link was busy for {busy:.0%}"
    if cause == "stall" and silent < 0.5:
        return f"the stall was {silent:.0%} of the time only"
    if cause in ("loss", "connection", "stream", "start") and silent > 0.3:
        return f"nothing passed for {silent:.0%} of the time"
    return None


class Judgement(NamedTuple):
    """How one view did on one recording."""

    name: str
    view: str
    limit: str
    confidence: str
    share: float
    sentence: str

    @property
    def verdict(self) -> str:
        """right, unknown, wrong, or wrong and sure."""
        if self.limit in CAUSES[self.name.split("-")[1]]:
            return "right"
        if self.limit == "unknown":
            return "unknown"
        return "wrong" if self.confidence == "weak" else "wrong and sure"


def judge(folder: Path) -> Iterator[Judgement]:
    """Yield the judgement of each view of a recording."""
    from multitracer.diagnosis.quic import explain_quic
    from multitracer.recording.read import read

    plan = Plan(**json.loads((folder / "plan.json").read_text()))
    for view, named in VIEWS.items():
        files = named
        if plan.upload:  # the sender is the client
            swap = {"mobile": "fixed", "fixed": "mobile", "qlog-s.qlog": "qlog-c.qlog"}
            files = tuple(swap.get(each, each) for each in files)
        with tempfile.TemporaryDirectory() as name:
            for file in files:
                copy = shutil.copytree if (folder / file).is_dir() else shutil.copy
                copy(folder / file, Path(name) / file)
            recording = read(Path(name))
            path = recording.quic.chosen()
            assert path is not None
            answer = explain_quic(recording, path)
        main = answer.main
        share = answer.by_limit[main.limit]
        yield Judgement(folder.name, view, main.limit.label, main.confidence.label, share, answer.sentence)


def table(judgements: list[Judgement]) -> str:
    """Return the table of documentation."""
    verdicts = ("right", "wrong", "wrong and sure", "unknown")
    lines = ["| view | right | wrong (weak) | wrong and sure | unknown |", "|---|---|---|---|---|"]
    for view in VIEWS:
        counts = Counter(each.verdict for each in judgements if each.view == view)
        lines.append(f"| {view} | " + " | ".join(str(counts[each]) for each in verdicts) + " |")
    return "\n".join(lines)


def _say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> None:
    """Record, or judge."""
    if arguments[0] == "record":
        record_all(Path(arguments[1]), int(arguments[2]), int(arguments[3]))
        return
    folders = sorted(Path(arguments[0]).iterdir())
    half = arguments[1] if len(arguments) > 1 else None
    judgements: list[Judgement] = []
    for folder in folders:
        is_judged = int(folder.name.split("-")[0]) % 2 == 1
        if half is not None and is_judged != (half == "judged"):
            continue
        why = doubt(folder)
        if why is not None:
            _say(f"{folder.name}: left out, {why}")
            continue
        for each in judge(folder):
            judgements.append(each)
            _say(f"{each.name:14} {each.view:20} {each.verdict:15} {each.limit} {each.share:.0%} {each.confidence}")
    _say(table(judgements))


if __name__ == "__main__":
    main(sys.argv[1:])
