"""What a page knows of single packets beside their points: their files, and the verdicts on copies."""

from __future__ import annotations

import shlex
from pathlib import PurePath
from typing import TYPE_CHECKING

from multitracer.analysis.verdicts import Cause, Necessity, evidence_words, word
from multitracer.figures.series import RARE_LIMIT
from multitracer.words import printable

if TYPE_CHECKING:
    from multitracer.diagnosis.transfer import Transfer
    from multitracer.recording.part import Part
    from multitracer.tables import Document


def packet_facts(part: Part, transfer: Transfer | None) -> Document:
    """Return the facts as JSON for `points/hover.js`.

    Parameters
    ----------
    part : Part
        Whose packets a figure draws.
    transfer : Transfer, optional
        The explained one, if it is what the figure draws; of others no verdict is known here.

    Returns
    -------
    dict
        "files": of each file its name, and the same as one word of a shell. "verdicts": by "FILE FRAME" (the
        file's index) why a copy was sent, whether it was needed, and the evidence; at most `RARE_LIMIT`.
    """
    names = [printable(PurePath(file.path).name) for file in part.capture.files]
    return {
        "files": [{"name": name, "quoted": shlex.quote(name)} for name in names],
        "verdicts": {} if transfer is None else _verdicts(transfer),
    }


def _verdicts(transfer: Transfer) -> dict[str, str]:
    judged, segments = transfer.verdicts, transfer.layers.segments
    rows = judged["row"][:RARE_LIMIT]
    facts = zip(
        segments["file"][rows].tolist(),
        segments["frame"][rows].tolist(),
        judged["cause"].tolist(),
        judged["necessity"].tolist(),
        judged["evidence"].tolist(),
        strict=False,
    )
    return {f"{file} {frame}": _words(cause, need, bits) for file, frame, cause, need, bits in facts}


def _words(cause: int, necessity: int, evidence: int) -> str:
    known = evidence_words(evidence)
    verdict = f"{word(Cause(cause))}, {word(Necessity(necessity))}"
    return f"{verdict}; evidence: {known}" if known else verdict
