"""From what the user named and chose on the command line to a recording, and to connections in it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from multitracer.cli._output import check_output, warn
from multitracer.cli._progress import progress
from multitracer.errors import InputError, WindowError
from multitracer.recording.inputs import find_inputs
from multitracer.recording.open import read_recording
from multitracer.recording.window import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.cli._options import ConnectionChoice, Reading
    from multitracer.recording.inputs import Inputs
    from multitracer.recording.part import Part
    from multitracer.recording.recording import Recording
    from multitracer.recording.window import Bounds

    Chosen = list[tuple[Part, list[int] | None]]


def load(
    reading: Reading,
    *,
    inputs: Inputs | None = None,
    output: str | None = None,
    files: str | None = None,
    cut: bool = True,
) -> Recording:
    """Read and analyse what the user named; say on standard error what could not be used.

    Parameters
    ----------
    reading : Reading
        Inputs and options.
    inputs : Inputs, optional
        What the inputs name, if that is known already.
    output : str, optional
        Where the command will write; refused if that is one of the files that are read.
    files : str, optional
        Pattern of the names that it will write there, if that is a folder.
    cut : bool
        Analyse only the packets between --from and --to; otherwise everything is analysed, so that a figure
        can show a part of it with what came before known.
    """
    inputs = inputs or find_inputs(*reading.inputs)
    if not inputs.points:
        raise InputError(f"{inputs.folder}: holds no capture; name a capture or a session folder")
    check_output(output, inputs.paths, files=files)
    window = reading.window if cut else EVERYTHING
    with progress(path for point in inputs.points for path in point.paths) as shown, _one_window():
        recording = read_recording(inputs, window=window, max_packets=reading.max_packets, progress=shown)
    tell_warnings(recording)
    return recording


def tell_warnings(recording: Recording) -> None:
    """Write the warnings to standard error: what is known now at once, what is found later at the end."""
    written = recording.warnings
    for sentence in written:
        warn(sentence)

    def write_rest() -> None:
        for sentence in recording.warnings:
            if sentence not in written:
                warn(sentence)

    click.get_current_context().call_on_close(write_rest)


def axis_bounds_ns(
    recording: Recording, reading: Reading, part: Part | None = None, *, speed: float | None = None
) -> Bounds:
    """Return --from and --to on the axis of a figure.

    Their seconds count from the first packet of a part, else of all parts; by default in link time.
    """
    parts = recording.parts if part is None else [part]
    with _one_window():
        return reading.window.axis_bounds_ns(
            (part.capture for part in parts), speed=recording.speed if speed is None else speed
        )


@contextlib.contextmanager
def _one_window() -> Iterator[None]:
    """Report a window without a length as wrong usage."""
    try:
        yield
    except WindowError as error:
        raise click.BadParameter(str(error), param_hint="'--to'") from error


def chosen(recording: Recording, choice: ConnectionChoice | None) -> Chosen:
    """Return the connections to show, by part; None stands for all of a part."""
    if choice is None:
        return [(part, None) for part in recording.parts]
    return [(part, [n]) for part, n in _chosen(recording, choice)]


def one(recording: Recording, choice: ConnectionChoice | None) -> tuple[Part, int]:
    """Return the connection to draw: the chosen one, by default the one with the most unique bytes."""
    if choice is None:
        return recording.largest()
    return max(_chosen(recording, choice), key=lambda each: each[0].analysis.unique_bytes()[each[1] - 1])


def _chosen(recording: Recording, choice: ConnectionChoice) -> list[tuple[Part, int]]:
    if choice.number is not None:
        return [recording.numbered(choice.number)]
    return recording.with_endpoint(choice.host, choice.port)
