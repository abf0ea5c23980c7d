"""`multitracer merge`: make one session of the recordings of its two ends, or of a session and more logs."""

from __future__ import annotations

from pathlib import Path

import click

from multitracer.cli._options import common_options, examples, named
from multitracer.cli._reading import date, zone

_Given = click.Path(exists=True, path_type=Path)


@click.command(
    "merge",
    epilog=examples(
        "multitracer merge mobile-drive fixed-drive -o drive",
        "multitracer merge mobile-drive measured-tcp measured-centauruscomm -o drive",
        "multitracer merge drive scanner.csv walk.gpx --host phone --zone Europe/Berlin -o drive-with-phone",
    ),
)
@click.argument("session", type=_Given, metavar="SESSION")
@click.argument("others", type=_Given, nargs=-1, required=True, metavar="FOLDER|LOG...")
@click.option(
    "-o",
    "--output",
    type=named,
    metavar="SESSION",
    required=True,
    help="Folder of the merged session, which is created.",
)
@click.option("--host", metavar="NAME", help="Add LOGs of another device to SESSION, in a folder with this name.")
@click.option(
    "--zone",
    type=zone,
    metavar="ZONE",
    help="With --host: time zone of times in LOGs that name none, for the manifest: UTC, an offset (+01:00), or an "
    "IANA name (Europe/Berlin).",
)
@click.option(
    "--date",
    type=date,
    metavar="DATE",
    help="With --host: date (2026-11-30) of the first time in LOGs that name no date, or no year, for the manifest.",
)
@common_options
def command(session: Path, others: tuple[Path, ...], output: str, host: str | None, **stated: str | None) -> None:
    """Merge the recordings of `multitracer capture` at both endpoints, and measurements, into one session.

    A folder that `measure run` wrote becomes a folder of the session, with its transactions.csv or its logs.

    With --host, the command adds LOGs of another device to SESSION. Each LOG is a file of a format that
    `multitracer formats` lists. The column map of a CSV file is copied too.

    All logs are copied unchanged, each with its own clock; `multitracer align` relates the clocks.
    """
    from multitracer.cli._output import page, replacing_folder
    from multitracer.errors import InputError
    from multitracer.manifest import private_recording

    _check_folder(session)
    times = {name: text for name, text in stated.items() if text is not None}
    if times and host is None:
        raise click.UsageError(f"--{next(iter(times))} describes the LOGs of another device, whose name --host gives")
    place = Path(output)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise InputError(f"{output}: the folder is not empty, and logs are never overwritten; give a new folder")
    if host is not None and place.resolve().is_relative_to(session.resolve()):
        raise InputError(f"{output}: this folder is inside {session}, which must not change; give another folder")
    with private_recording(place), replacing_folder(output) as folder:
        if host is None:
            hosts = _of_both_sides(session, others, folder, name=place.resolve().name)
        else:
            hosts = _with_logs(session, others, folder, host=host, name=place.resolve().name, times=times)
    page().line(f"{output}: {', '.join(hosts)}")


def _check_folder(session: Path) -> None:
    if not session.is_dir():
        raise click.UsageError(f"{session} is a file; the first argument must be a session folder")


def _of_both_sides(session: Path, others: tuple[Path, ...], folder: Path, *, name: str) -> list[str]:
    from multitracer.cli._messages import warn
    from multitracer.recorder.merge import merge

    for other in others:
        if not other.is_dir():
            raise click.UsageError(
                f"{other} is a file; to add logs of another device, give the device's name with --host"
            )
    merge([session, *others], folder, name=name, warn=warn)
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


def _with_logs(
    session: Path, others: tuple[Path, ...], folder: Path, *, host: str, name: str, times: dict[str, str]
) -> list[str]:
    from multitracer.recorder.merge import add_logs

    logs = list(dict.fromkeys(others))
    for log in logs:
        _check_log(log)
    maps = [path for log in logs if (path := _map_of(log)) is not None and path not in logs]
    manifest = add_logs(session, [*logs, *maps], folder, host=host, name=name, times=times)
    _check_read(folder / host, logs)
    return list(manifest.hosts)


def _check_log(log: Path) -> None:
    """Raise an error if no parser reads the format of a file, because a session has only readable files."""
    import parsers
    from multitracer.errors import InputError

    if not log.is_file():
        raise InputError(f"{log}: not a regular file; name each log file of the device")
    parsers.detect(str(log))


def _map_of(log: Path) -> Path | None:
    """Return the path of a CSV file's column map; None if there is none."""
    from parsers._stream import has_map, map_of

    return Path(map_of(log)) if has_map(log) else None


def _check_read(place: Path, logs: list[Path]) -> None:
    """Raise an error if a log has a name that sessions reserve for other files."""
    from multitracer.errors import InputError
    from multitracer.recording.inputs import find_inputs

    inputs = find_inputs(place.parent)
    known = {Path(path).name for path in inputs.paths if Path(path).parent == place}
    for log in logs:
        if log.name not in known:
            raise InputError(f"{log}: this name is reserved for another file of a session; rename the log")
