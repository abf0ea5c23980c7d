"""`multitracer inspect`: shows the contents of a capture or a session folder."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import TYPE_CHECKING

import click

from multitracer.cli._options import examples
from multitracer.cli._reading import InputChoice, reads_captures

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from multitracer.cli._output import Page
    from multitracer.manifest import CollectorRun, Manifest
    from multitracer.recording.inputs import Inputs
    from multitracer.recording.recording import Recording
    from multitracer.tables import Document

_LONGEST = 200
"""Characters of a value of the manifest that are shown."""
_LONGEST_KEY = 40
_MOST = 20
"""Hosts, variables and collectors of a manifest that are shown."""


SCHEMA = "multitracer.inspect/1"


@click.command(
    "inspect",
    epilog=examples(
        "multitracer inspect capture.pcap",
        "multitracer inspect sample_traces/cellular_upload",
        "multitracer inspect --json sample_traces/cellular_upload",
    ),
)
@click.option(
    "--json", "as_json", is_flag=True, help="Write the result as JSON; `multitracer schema inspect` describes it."
)
@reads_captures
def command(reading: InputChoice, *, as_json: bool) -> None:
    """Show the contents of INPUT: formats, hosts, clocks, connections, and how trustworthy the data are.

    For a session folder, the command also compares each log with its checksum in the manifest.
    """
    from multitracer.cli._output import page
    from multitracer.cli._reading import load
    from multitracer.recording.inputs import find_inputs

    session = find_inputs(*reading.inputs)
    recording = load(reading, inputs=session) if session.points or session.listed else None
    if as_json:
        _write_json(session, recording)
        return
    _show(page(), session, recording, reading)


def _show(sheet: Page, session: Inputs, recording: Recording | None, reading: InputChoice) -> None:
    from multitracer.cli._quic import show_quic
    from multitracer.cli._summary import show_logs, show_streams
    from multitracer.cli._transactions import read_transports, show_transactions
    from multitracer.recording.transactions import LAYER

    _show_session(sheet, session)
    if session.holds(LAYER):
        show_transactions(sheet, read_transports([session], some=False)[0])
    if recording is None:
        return
    if recording.captures or reading.connection is not None:
        _show_captures(sheet, recording, reading)
        sheet.line()
    elif show_quic(sheet, recording):  # of qlogs alone
        sheet.line()
    show_logs(sheet, recording)
    show_streams(sheet, recording)


def _write_json(session: Inputs, recording: Recording | None) -> None:
    import json

    from multitracer.cli._documents import file_record
    from multitracer.cli._output import standard_output
    from multitracer.cli._quic import quic_records
    from multitracer.cli._summary import log_records
    from multitracer.words import portable

    captures = [] if recording is None else recording.captures
    document = {
        "schema": SCHEMA,
        "name": portable(session.name),
        "folder": None if session.folder is None else portable(str(session.folder)),
        "manifest": _manifest_record(session),
        "trust": recording.trust_document() if recording else None,  # false without captures
        "captures": [
            {
                "host": portable(capture.point.name),
                "connections": len(capture),
                "files": [file_record(file) for file in capture.tables.files],
            }
            for capture in captures
        ],
        "quic": [] if recording is None else quic_records(recording),
        "logs": [] if recording is None else list(log_records(recording)),
        "warnings": [portable(each) for each in (session if recording is None else recording).warnings],
    }
    json.dump(document, standard_output(), allow_nan=False, indent=1)
    standard_output().write("\n")


def _manifest_record(session: Inputs) -> Document | None:
    """Return what the manifest states, and whether the logs are those of the recording; None without a manifest."""
    if session.folder is None or session.manifest is None:
        return None
    from multitracer.manifest import changed_files

    manifest = session.manifest
    return {
        "recorded_ns": manifest.created_ns,
        "hosts": {name: facts.document() for name, facts in manifest.hosts.items()},
        "variables": manifest.variables.document(),
        "collectors": [
            {"name": run.name, "host": run.host, "outcome": run.outcome, "ended_ns": run.ended_ns}
            for run in manifest.collectors
        ],
        "files": len(manifest.files),
        "changed": list(changed_files(session.folder, manifest)),
    }


def _show_captures(sheet: Page, recording: Recording, reading: InputChoice) -> None:
    from multitracer.cli._reading import named_connections
    from multitracer.cli._summary import show_connections, show_file

    only = named_connections(recording, reading.connection) if reading.connection else []
    for capture in recording.captures:
        for file in capture.tables.files:
            show_file(sheet, file)
    show_connections(sheet, recording, only)


def _show_session(sheet: Page, session: Inputs) -> None:
    if session.folder is None:
        return
    from pathlib import Path

    from multitracer.words import count, portable

    sheet.line(f"Session {_short(session.name)}", bold=True)
    hosts = [(point.name, f"capture of {count(len(point.paths), 'file')}") for point in session.points]
    hosts += [(log.host, f"{log.layer}: {log.format}, {portable(Path(log.path).name)}") for log in session.listed]
    if session.manifest is None:
        sheet.facts([*hosts, ("manifest", "missing: details of the recording are not known")])
        return
    sheet.facts(
        [*hosts, *_manifest_facts(session.folder, session.manifest), *_checksum_facts(session.folder, session.manifest)]
    )
    sheet.line()


def _manifest_facts(folder: Path, manifest: Manifest) -> Iterator[tuple[str, str]]:
    from multitracer.words import moment

    yield "recorded", moment(manifest.created_ns)
    for host, facts in islice(manifest.hosts.items(), _MOST):
        shown = ", ".join(f"{_key(name)} {_short(value)}" for name, value in islice(facts.document().items(), _MOST))
        yield f"host {_key(host)}", shown
    variables = manifest.variables.document()
    for name, value in islice(variables.items(), _MOST):
        yield _key(name), _short(value)
    for run in manifest.collectors[:_MOST]:
        yield _key(run.name), f"on {_key(run.host)}, {_ending(folder, run)}"
    for name, entries in (("hosts", manifest.hosts), ("variables", variables),
                          ("collectors", manifest.collectors)):  # fmt: skip
        if len(entries) > _MOST:
            yield name, f"{len(entries) - _MOST:,} more in manifest.json"


def _ending(folder: Path, run: CollectorRun) -> str:
    """Return a text about how and when a collector ended; empty if it ended regularly."""
    from multitracer.words import moment

    if run.outcome is not None:
        is_early = run.outcome != "ended" and run.ended_ns is not None
        return f"{_short(run.outcome)}, at {moment(run.ended_ns)}" if is_early else _short(run.outcome)
    written_ns = _last_written_ns(folder, run)
    when = "" if written_ns is None else f"; last write to its log at {moment(written_ns)}"
    return f"how this collector ended is not recorded{when}"


def _last_written_ns(folder: Path, run: CollectorRun) -> int | None:
    """Return the modification time of a collector's log in ns.

    None if it is not where `capture` writes it.
    """
    import stat
    from pathlib import Path

    outputs = [log for option, log in pairwise(run.command) if option == "-o"]
    if not outputs or run.host not in {path.name for path in folder.iterdir() if not path.is_symlink()}:
        return None
    try:
        status = (folder / run.host / Path(outputs[0]).name).lstat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns if stat.S_ISREG(status.st_mode) else None


def _key(name: str) -> str:
    return name if len(name) <= _LONGEST_KEY else f"{name[:_LONGEST_KEY]}…"


def _short(value: object) -> str:
    """Return a value of the manifest as text; of a deeply nested value only its size."""
    if isinstance(value, dict | list):
        members = list(value.items() if isinstance(value, dict) else enumerate(value))
        if any(isinstance(member, dict | list) for _, member in members):
            return f"({len(value)} entries)"
        value = ", ".join(f"{key} {each}" if isinstance(value, dict) else str(each) for key, each in members)
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _checksum_facts(folder: Path, manifest: Manifest) -> Iterator[tuple[str, str]]:
    from multitracer.manifest import changed_files

    changed = list(changed_files(folder, manifest))
    yield from (("changed", sentence) for sentence in changed)
    if manifest.files and not changed:
        yield "checksums", f"all {len(manifest.files)} logs are unchanged since the recording (SHA-256)"
