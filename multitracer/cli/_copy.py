"""What `export session` writes and says."""

from __future__ import annotations

from pathlib import Path

from multitracer.anonymize.session import anonymize
from multitracer.cli._output import replacing_folder, warn
from multitracer.cli._page import page
from multitracer.errors import InputError
from multitracer.recording.inputs import find_inputs


def write_anonymous_copy(name: str, output: str) -> None:
    """Write the copy to a new or empty folder, and say what it lacks."""
    place = Path(output)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise InputError(f"{output}: is not empty; give a new folder")
    if place.resolve().is_relative_to(Path(name).resolve()):
        raise InputError(f"{output}: lies inside the session; give a place outside it")
    session = find_inputs(name)
    with replacing_folder(output) as folder:
        said = anonymize(session, folder)
    for sentence in session.warnings:
        warn(sentence)
    sheet = page()
    sheet.facts(list(said.items()))
    sheet.line(output)
