"""Signalling messages in the captures of a recording: GSMTAP packets from SCAT or QCSuper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.captured import GSMTAP
from multitracer.errors import PreflightError
from multitracer.logs import HostLog, ParsedLog
from multitracer.recording.inputs import STANDARD_INPUT, UNREADABLE
from parsers._packets.decode import GSMTAP_LINKTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from multitracer.recording.capture import Capture


def signalling_of_captures(captures: Iterable[Capture], warn: Callable[[str], None]) -> Iterator[ParsedLog]:
    """Yield `signalling`, `radio` and `handovers` of each capture file that holds GSMTAP packets.

    A file whose packets cannot be dissected adds a warning; its TCP packets are still used.
    """
    for capture in captures:
        for file in capture.tables.files:
            if GSMTAP not in file.protocols and GSMTAP_LINKTYPES.isdisjoint(file.link_types):
                continue  # no packets of it by their port or by their link type
            from parsers._signalling.signalling import read_signalling  # noqa: PLC0415  # few captures hold any

            if file.path == STANDARD_INPUT:
                warn(
                    "standard input: the signalling in this capture is not read, because the "
                    "capture would have to be read twice; name a file"
                )
                continue
            try:
                tables = read_signalling(file.path)
            except (PreflightError, *UNREADABLE) as error:
                warn(f"{file.path}: the signalling in this capture is not read: {error}")
                continue
            yield ParsedLog(HostLog(capture.point.name, file.path, GSMTAP, "radio"), tables)
