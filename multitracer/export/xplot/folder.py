"""Which connections are drawn, and how their files are called: a2b_tsg.xpl, as tcptrace numbers them."""

from __future__ import annotations

from string import ascii_lowercase
from typing import TYPE_CHECKING

from multitracer.diagnosis.segment_verdicts import segment_verdicts
from multitracer.errors import InputError
from multitracer.export.xplot.curves import owin, rtt, ssize, tput
from multitracer.export.xplot.sequence import tsg
from multitracer.export.xplot.talk import Talk, without_time
from multitracer.export.xplot.timeline import tline
from multitracer.words import count

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from multitracer.diagnosis.segment_verdicts import SegmentVerdicts
    from multitracer.recording.part import Part
    from multitracer.recording.recording import Recording

MOST_CONNECTIONS = 50
"""Connections that are drawn without being named: 550 files; not measured."""
_PLOTS = {"tsg": tsg, "owin": owin, "rtt": rtt, "tput": tput, "ssize": ssize}


def write_plots(folder: Path, recording: Recording, chosen: Iterable[tuple[Part, int]] | None = None) -> None:
    """Write eleven plots of each connection into a folder.

    Parameters
    ----------
    folder : Path
        Exists.
    recording : Recording
    chosen : iterable of (Part, int), optional
        Connections by part and number there; by default all, of many those with the most unique bytes.

    Raises
    ------
    InputError
        If there is no connection.
    """
    if chosen is None:
        chosen = recording.largest(MOST_CONNECTIONS)
        if not chosen:
            raise InputError(f"{recording.name}: holds no TCP connection; name a capture that holds one")
        if len(recording) > MOST_CONNECTIONS:
            many = f"the {MOST_CONNECTIONS} largest of {count(len(recording), 'connection')}"
            recording.warn_once(f"{recording.name}: {many} are drawn; --connection draws another one")
    judged: tuple[Part, SegmentVerdicts] | None = None
    for part, number in chosen:
        if judged is None or judged[0] is not part:
            judged = part, segment_verdicts(recording, part)
        _write_connection(folder, recording, part, number, judged[1])


def _write_connection(
    folder: Path, recording: Recording, part: Part, number: int, verdicts: SegmentVerdicts
) -> None:
    segments = part.analysis.tcp_segments(number)
    both = Talk(part, number, False, segments, verdicts), Talk(part, number, True, segments, verdicts)
    ends = letters(2 * (part.offset + number - 1)), letters(2 * (part.offset + number - 1) + 1)
    for talk, (source, target) in zip(both, (ends, ends[::-1]), strict=True):
        for name, plot in _PLOTS.items():
            _write(folder / f"{source}2{target}_{name}.xpl", plot(talk))
    _write(folder / f"{ends[0]}_{ends[1]}_tline.xpl", tline(both))
    if untimed := without_time(both[0]):
        recording.warn_once(
            f"connection {part.offset + number}: {count(untimed, 'segment')} not drawn, for want of a time"
        )


def letters(place: int) -> str:
    """Return what tcptrace calls a host: a to z, then aa, ab, ..., from 0."""
    name = ""
    while place >= 0:
        name = ascii_lowercase[place % len(ascii_lowercase)] + name
        place = place // len(ascii_lowercase) - 1
    return name


def _write(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="ascii", errors="backslashreplace", buffering=1 << 20) as stream:
        stream.writelines(lines)
