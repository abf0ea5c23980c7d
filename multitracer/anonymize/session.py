"""Anonymizes a session; each kind of log is changed as follows.

=============  ==========================================================================================
packet         pcap of IP headers, `packets.py`; packets of GSMTAP are left out and counted
link           as it is; left out if its frames hold what users sent
tcp, clock     JSON lines and text with every address mapped
radio          the readings as a table, cells mapped; raw answers and diagnostic logs are left out; its
               positions become a table beside it; of a dish CSV of starlink-grpc-tools, without its identity
signalling     messages and handovers of diagnostic logs and GSMTAP as tables in `tables/`, cells mapped
position       the fixes as a table, rounded to a hundredth of a degree (about a kilometre), without heading
               and altitude, which with the speed would tell the road
transactions   transactions.csv with cells mapped and positions rounded, and the manifest of its folder; labels stay
claps          as they are, their destination mapped
manifest.json  addresses, names of machines and servers, and command lines mapped; a modelled link without its folder;
               labels stay: they are the engineer's own
file names     addresses and long numbers in them mapped
anything else  left out, markers too: their notes are free text
=============  ==========================================================================================
"""

from __future__ import annotations

import re
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from multitracer.anonymize import logs
from multitracer.anonymize.pseudonyms import Pseudonyms
from multitracer.errors import InputError, MultiTracerError
from multitracer.manifest import (
    MANIFEST,
    CollectorRun,
    Host,
    LogFile,
    Manifest,
    Variables,
    checksum,
    read_manifest,
    write_manifest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.recording.inputs import Inputs
    from multitracer.tables import Document

    Writer = Callable[[Path, Path, Pseudonyms], logs.Written]

_WRITERS: dict[str, Writer] = {
    "packet": logs.packets,
    "link": logs.link,
    "tcp": logs.lines,
    "clock": logs.lines,
    "radio": logs.radio,
    "position": logs.position,
    "transactions": logs.transactions,
}
_OTHER_LINES = ("claps.jsonl", "summary.json", "nstat_before.json", "nstat_after.json")


def anonymize(session: Inputs, into: Path, *, key: bytes | None = None) -> dict[str, str]:
    """Write a copy of a session that can be shared.

    Parameters
    ----------
    session : Inputs
        A session folder.
    into : Path
        An empty folder that exists.
    key : bytes, optional
        Key of the mapping; by default a random one, which is not stored.

    Returns
    -------
    dict
        Reason why a log was omitted, or the parts that its copy lacks, by the relative path of the log.

    Raises
    ------
    InputError
        If `session` is not a session folder.
    """
    if session.folder is None:
        raise InputError(
            f"{session.name}: only a session folder can be anonymized; put the capture into a session folder"
        )
    pseudonyms = Pseudonyms(key)
    left_out_files: dict[str, str] = {}
    for layer, path in _logs(session):
        place = into / pseudonyms.in_words(path.parent.relative_to(session.folder).as_posix())
        place.mkdir(parents=True, exist_ok=True)
        written = _written(layer, path, place, pseudonyms)
        if written.name:
            name = pseudonyms.in_words(written.name)
            if name != written.name:
                (place / written.name).rename(place / logs.free_name(place, name))
        _apart(place, into)
        if written.why:
            left_out_files[path.relative_to(session.folder).as_posix()] = written.why
    others = dict.fromkeys(_others(session), "not copied: this kind of file cannot be anonymized")
    left_out = {pseudonyms.in_words(name): why for name, why in left_out_files.items()}
    if others:  # their names may tell whose they are
        left_out["other files"] = f"{len(others)} not copied"
    for folder in {path.parent for layer, path in _logs(session) if layer == "transactions"} - {session.folder}:
        if (own := read_manifest(folder)) is not None:
            place = into / pseudonyms.in_words(folder.relative_to(session.folder).as_posix())
            write_manifest(place, _manifest(own, place, pseudonyms, {}))
    manifest = session.manifest or Manifest(session.name)
    write_manifest(into, _manifest(manifest, into, pseudonyms, left_out))
    return left_out_files | others


def _apart(place: Path, into: Path) -> None:
    """Move signalling tables out of the host folders, where a reader would take them for logs."""
    if (place / logs.TABLES).is_dir() and place != into:
        target = into / logs.TABLES / place.relative_to(into)
        target.mkdir(parents=True, exist_ok=True)
        for table in (place / logs.TABLES).iterdir():
            table.rename(target / logs.free_name(target, table.name))
        (place / logs.TABLES).rmdir()


def _logs(session: Inputs) -> Iterator[tuple[str, Path]]:
    """Yield the layer and the path of each log to copy."""
    assert session.folder is not None
    for point in session.points:
        yield from (("packet", Path(path)) for path in point.paths)
    for log in session.listed:
        if log.layer in _WRITERS:
            yield log.layer, Path(log.path)
    known = {Path(path) for path in session.paths}
    for path in sorted(session.folder.rglob("*")):
        if path.name in _OTHER_LINES and path not in known and path.is_file() and not path.is_symlink():
            yield "clock", path


def _others(session: Inputs) -> Iterator[str]:
    assert session.folder is not None
    copied = {path for _, path in _logs(session)}
    for path in sorted(session.folder.rglob("*")):
        if path.is_file() and path.name != MANIFEST and path not in copied:
            yield path.relative_to(session.folder).as_posix()


def _written(layer: str, path: Path, place: Path, pseudonyms: Pseudonyms) -> logs.Written:
    try:
        return _WRITERS[layer](path, place, pseudonyms)
    except MultiTracerError as error:
        return logs.Written("", f"not copied: {error}")


def _manifest(manifest: Manifest, into: Path, pseudonyms: Pseudonyms, left_out_files: dict[str, str]) -> Manifest:
    """Return the manifest of the copy, or of a measurement in it."""
    files = [path for path in sorted(into.rglob("*")) if path.is_file() and path.name != MANIFEST]
    hosts = {name: _host(host, pseudonyms) for name, host in manifest.hosts.items()}
    return Manifest(
        manifest.name,
        manifest.created_ns,
        hosts=hosts,
        collectors=[_run(run, pseudonyms) for run in manifest.collectors],
        variables=_variables(manifest.variables, pseudonyms),
        files=[_file(path, into) for path in files],
        more=_more(manifest, pseudonyms) | ({"anonymized": left_out_files} if left_out_files else {}),
    )


def _variables(variables: Variables, pseudonyms: Pseudonyms) -> Variables:
    """Return the variables without the address of the measurement's server, and folders of a link; labels stay."""
    measurement = variables.measurement
    if measurement is None:
        return variables
    server = measurement.server and _server(measurement.server, pseudonyms)
    over = measurement.over and pseudonyms.in_words(PurePath(measurement.over).name)
    return replace(variables, measurement=replace(measurement, server=server, over=over))


def _server(server: str, pseudonyms: Pseudonyms) -> str:
    """Return the pseudonym of HOST:PORT or HOST, with its port; a serial line stays."""
    if server.startswith("serial:"):
        return server
    endpoint = None if _is_address(server) else _HOST_PORT.fullmatch(server)
    host, port = endpoint.groups() if endpoint else (server, "")
    return f"{pseudonyms.in_words(host) if _is_address(host) else pseudonyms.name(host, kind='server')}{port}"


_HOST_PORT = re.compile(r"(.+)(:\d{1,5})", re.ASCII | re.DOTALL)


def _is_address(host: str) -> bool:
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _host(host: Host, pseudonyms: Pseudonyms) -> Host:
    renamed = Host(role=host.role)
    mapped = logs.in_document({k: v for k, v in host.document().items() if k != "role"}, pseudonyms)
    assert isinstance(mapped, dict)
    renamed.add(mapped)
    return renamed


def _more(manifest: Manifest, pseudonyms: Pseudonyms) -> Document:
    mapped = logs.in_document(manifest.more, pseudonyms)
    assert isinstance(mapped, dict)
    return mapped


def _run(run: CollectorRun, pseudonyms: Pseudonyms) -> CollectorRun:
    command = [word for word in run.command if word.startswith("collectors.")]
    outcome = None if run.outcome is None else pseudonyms.in_words(run.outcome)
    return replace(run, command=command, outcome=outcome)


def _file(path: Path, into: Path) -> LogFile:
    host = path.parent.name if path.parent != into else ""
    return LogFile(path.relative_to(into).as_posix(), host, path.stat().st_size, checksum(path))
