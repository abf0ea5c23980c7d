"""The diagnosis of a recording, and its texts, for an export."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from multitracer.diagnosis.diagnose import explain
from multitracer.diagnosis.sentence import rows_in_words
from multitracer.errors import InputError
from multitracer.words import portable, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.recording.capture import Capture
    from multitracer.recording.recording import Recording

_LONGEST_NAME = 200
"""Maximum characters of a name from the input; file systems allow 255 bytes."""


def explained(recording: Recording, connection: tuple[Capture, int] | None = None) -> Diagnosis | None:
    """Return the diagnosis of a connection; by default that of the longest group of connections.

    Parameters
    ----------
    recording : Recording
    connection : tuple of Capture and int, optional
        A capture, and the number of a connection in it.

    Returns
    -------
    Diagnosis or None
        None if there is no connection, or its packets have no times; the function then adds a warning to the recording.
    """
    if not len(recording):
        recording.warn_once(
            f"{recording.name}: this recording contains no TCP connection, so there is nothing to explain"
        )
        return None
    try:
        if connection is None:
            return explain(recording)
        capture, number = connection
        return explain(recording, capture.offset + number)
    except InputError as error:
        recording.warn_once(f"{recording.name}: not explained: {error}")
        return None


def answer(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield the diagnosis as lines of text: headline, remedy, connection, limits."""
    transfer = diagnosis.transfer
    ends = transfer.at_sender.capture.analysis.ends(transfer.at_sender.connection)
    sender, receiver = (ends.source, ends.destination)[:: -1 if transfer.reverse else 1]
    yield printable(diagnosis.headline.sentence)
    yield printable(f"What would help: {diagnosis.headline.help}.")
    yield f"Connection {transfer.at_sender.number}: {sender} -> {receiver}"
    for limit, seconds, share, confidence, _ in rows_in_words(diagnosis.limited):
        yield f"  {limit}: {seconds} s ({share}, {confidence})"


def short_name(text: str) -> str:
    """Return a name from the input as printable text of bounded length."""
    return printable(portable(text))[:_LONGEST_NAME]


def file_name(path: str) -> str:
    """Return the name of a file without its folders, as printable text of bounded length."""
    return short_name(PurePath(path).name)
