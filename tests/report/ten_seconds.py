"""Makes the pictures of the ten-second test: twelve sessions of known cause, and only their first screens.

    python -m tests.report.ten_seconds FOLDER [SEED]

A reader who has not seen the project gets FOLDER/01.png to 12.png, and names the cause of each with a
certainty; FOLDER/answers.txt holds the truth. The seed draws one recording of each kind, and their order.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from multitracer.recording.read import read
from multitracer.report.write import Request, write_report
from tests.conftest import SAMPLES
from tests.report.chromium import Browser

RECORDINGS = SAMPLES.parent / "tests" / "causes" / "recordings"
_WIDE_PX, _HIGH_PX = 1440, 900


class _Case(NamedTuple):
    """A kind of session: what is true of it, and which recordings show it."""

    truth: str
    kinds: tuple[str, ...]
    part: str = "session"
    """The folder below the recording: a single host's, where only its captures are to be seen."""


CASES = (
    _Case("nothing is wrong: the link was used to the full", ("short-queue", "bbr", "wifi-jitter")),
    _Case("the link, with a long queue before it (bufferbloat)", ("deep-queue",)),
    _Case("a policer dropped what was above its rate", ("policer",)),
    _Case("an outage: nothing came through either way", ("outage-both",)),
    _Case("an outage in which only the data were lost", ("outage-data",)),
    _Case("the send buffer was too small", ("small-sndbuf", "small-sndbuf-far", "small-wmem")),
    _Case("the receiver: it read slowly, or its window was small",
          ("slow-reader", "pausing-reader", "small-rcvbuf")),
    _Case("the server took long to begin its answers", ("server-think",)),
    _Case("random loss, not of a full queue", ("random-loss", "heavy-loss", "loss-by-size")),
    _Case("a congested link whose router set ECN marks", ("ecn",)),
    # The truth is what held for most of the time by the link's own log, counted apart from the page: frames
    # with payload fill 73 and 75 % of the time (frames sent times 20 ms); the scenarios' fades last 1.2 s of
    # 26 s and 4 s of 76 s. So the slow link goes first: who names the fade alone is wrong.
    _Case("a slow GSM link of 9.6 kbit/s, whose radio faded, too: it repeated frames, reset, or was dead",
          ("fig11-fade", "fade-n2-20"), ""),
    _Case("a download, seen at the phone alone: the link with a queue", ("download",), "mobile"),
)  # fmt: skip


def recordings(case: _Case) -> list[Path]:
    """Return the sessions of a kind, in the order of their names."""
    named = [path for path in sorted(RECORDINGS.iterdir()) if path.name.partition("-")[2] in case.kinds]
    return [path / case.part for path in named or [SAMPLES / kind for kind in case.kinds]]


def draw(seed: int) -> list[tuple[_Case, Path]]:
    """Return one session of each kind, in an order of chance."""
    chance = random.Random(seed)
    chosen = [(case, chance.choice(recordings(case))) for case in CASES]
    chance.shuffle(chosen)
    return chosen


def main(folder: Path, seed: int) -> None:
    """Write the pictures and the answers."""
    folder.mkdir(parents=True, exist_ok=True)
    answers = []
    with tempfile.TemporaryDirectory() as temporary, Browser(Path(temporary) / "profile") as browser:
        browser.resize(_WIDE_PX, _HIGH_PX)
        for number, (case, session) in enumerate(draw(seed), 1):
            page = Path(temporary) / f"{number:02}.html"
            write_report(read(session), page, Request(title=f"session {number:02}"))
            browser.open(page)
            browser.screenshot(folder / f"{number:02}.png")
            answers.append(f"{number:02} {session.relative_to(SAMPLES.parent)}: {case.truth}\n")
    (folder / "answers.txt").write_text("".join(answers), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
