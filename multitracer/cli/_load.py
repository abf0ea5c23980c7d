"""From what the user named to analysed captures, and from what the user chose to connections in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.analysis import analyse
from multitracer.cli._options import Window
from multitracer.cli._output import check_output, warn
from multitracer.cli._progress import progress
from multitracer.recording import Part, Recording
from multitracer.report.words import count
from multitracer.session import open_session

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from multitracer.capture import Capture, SourceFile
    from multitracer.cli._options import ConnectionChoice, Reading
    from multitracer.session import Point, Session

    Chosen = list[tuple[Part, list[int] | None]]


def load(
    reading: Reading, *, output: str | None = None, files: str | None = None, cut: bool = True
) -> Recording:
    """Read and analyse what the user named; say on standard error what was damaged or passed over.

    Parameters
    ----------
    reading : Reading
        Inputs and options.
    output : str, optional
        Where the command will write; refused if that is one of the files that are read.
    files : str, optional
        Pattern of the names that it will write there, if that is a folder.
    cut : bool
        Analyse only the packets between --from and --to; otherwise everything is analysed, so that a figure
        can show a part of it with what came before known.
    """
    return load_session(open_session(*reading.inputs), reading, output=output, files=files, cut=cut)


def load_session(
    session: Session,
    reading: Reading,
    *,
    output: str | None = None,
    files: str | None = None,
    cut: bool = True,
) -> Recording:
    """Do the same for a session that is already open."""
    check_output(output, session.paths, files=files)
    parts: list[Part] = []
    with progress(path for point in session.points for path in point.paths) as state:
        found = session.captures(max_packets=reading.max_packets, progress=state)
        for point, capture in _between(found, reading.window, session.speed) if cut else found:
            state.phase = "analysing"
            parts.append(Part(point, analyse(capture), sum(map(len, parts))))
            state.phase = "reading"
    for sentence in _warnings(session, parts):
        warn(sentence)
    return Recording(session, parts)


def bounds_ns(
    captures: Iterable[Capture], window: Window, *, speed: float = 1
) -> tuple[int | None, int | None]:
    """Return begin and end in nanoseconds since 1970; seconds count from the first packet of all captures."""
    starts = (capture.first_ns for capture in captures)
    return window.bounds_ns(min((ns for ns in starts if ns is not None), default=0), speed=speed)


def axis_bounds_ns(
    captures: Iterable[Capture], window: Window, *, speed: float
) -> tuple[int | None, int | None]:
    """Return begin and end as `bounds_ns` does, in link time: the first packet's time is kept."""
    starts = (capture.first_ns for capture in captures)
    start_ns = min((ns for ns in starts if ns is not None), default=0)
    begin, end = window.bounds_ns(start_ns, speed=speed)
    return _stretched(begin, start_ns, speed), _stretched(end, start_ns, speed)


def _stretched(ns: int | None, start_ns: int, speed: float) -> int | None:
    return ns if ns is None or speed == 1 else start_ns + round((ns - start_ns) * speed)


def _between(
    found: Iterable[tuple[Point, Capture]], window: Window, speed: float
) -> Iterator[tuple[Point, Capture]]:
    """Yield the captures cut to the window; all are read first, for the begin of the earliest."""
    if window == Window():
        yield from found
        return
    read = list(found)
    begin_ns, end_ns = bounds_ns((capture for _, capture in read), window, speed=speed)
    for point, capture in read:
        yield point, capture.between(begin_ns, end_ns)


def _warnings(session: Session, parts: list[Part]) -> Iterator[str]:
    yield from session.warnings
    for part in parts:
        for file in part.capture.files:
            yield from _file_warnings(file)


def _file_warnings(file: SourceFile) -> Iterator[str]:
    if file.damaged:
        yield f"{file.path}: damaged after {count(file.packets, 'whole packet')}: {file.damaged}"
    for sentence in file.warnings:
        yield f"{file.path}: {sentence}"


def chosen(recording: Recording, choice: ConnectionChoice | None) -> Chosen:
    """Return the connections to show, by part; None stands for all of a part."""
    if choice is None:
        return [(part, None) for part in recording.parts]
    return [(part, [n]) for part, n in _found(recording, choice)]


def one(recording: Recording, choice: ConnectionChoice | None) -> tuple[Part, int]:
    """Return the connection to draw: the chosen one, by default the one with the most unique bytes."""
    if choice is None:
        return recording.largest()
    return max(_found(recording, choice), key=lambda found: found[0].unique_bytes()[found[1] - 1])


def _found(recording: Recording, choice: ConnectionChoice) -> list[tuple[Part, int]]:
    if choice.number is not None:
        return [recording.numbered(choice.number)]
    return recording.with_endpoint(choice.host, choice.port)
