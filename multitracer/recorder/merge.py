"""Merges recordings of the endpoints and measurements into a session, or a session and logs of another device."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from multitracer.errors import FormatError, InputError
from multitracer.manifest import (
    MANIFEST,
    RECORDED_AT,
    LogFile,
    Manifest,
    Role,
    Variables,
    checksum,
    read_manifest,
    write_manifest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path


def merge(sources: Sequence[Path], into: Path, *, name: str, warn: Callable[[str], None]) -> Manifest:
    """Copy the hosts, the measurements and the logs beside them of several session folders into one empty folder.

    Parameters
    ----------
    sources : sequence of Path
        Session folders; no host may be in two of them. A measurement (the results of `measure run` with their manifest)
        becomes a folder of the new session, with the name of its folder.
    into : Path
        An empty folder that exists.
    name : str
        The new session's name.
    warn : callable
        Takes a sentence on each folder or log that is damaged, or is not copied.

    Returns
    -------
    Manifest
        Of the new session.

    Raises
    ------
    InputError
        If a folder is not a recording or holds nothing yet, or a host or the name of a measurement is in two of them.
    """
    manifests = [_manifest(source) for source in sources]
    owners: dict[str, Path] = {}
    measured = [_measurements(source, manifest, warn) for source, manifest in zip(sources, manifests, strict=True)]
    for source, manifest, folders in zip(sources, manifests, measured, strict=True):
        held = [*_hosts(source, manifest), *folders]
        if not held:
            raise InputError(f"{source}: this folder holds no logs and no results of a measurement yet; omit it")
        for folder in held:
            if folder.name in owners:
                what = "host" if folder.name in manifest.hosts else "measurement"
                raise InputError(
                    f"{source}: the {what} {folder.name!r} is also in {owners[folder.name].parent}; record the other "
                    "endpoint with another `--role`, or rename this folder"
                )
            owners[folder.name] = folder
    for folder_name, folder in owners.items():
        _copy(folder, into / folder_name)
    merged = _merged(sources, manifests, name)
    for source, manifest, folders in zip(sources, manifests, measured, strict=True):
        if not _is_measurement(source, manifest):
            copied = set(_copy_beside(source, into, warn))
            merged.files += [log for log in manifest.files if log.path in copied]
        for folder in folders:
            _finish_measurement(folder, source, into / folder.name, manifest)
            merged.files += _listed(into, folder.name, _results(into / folder.name))
    write_manifest(into, merged)
    return merged


TRANSACTIONS = "transactions.csv"
"""The results of a measurement of transactions, in its folder; those of a load have other names."""


def _manifest(source: Path) -> Manifest:
    try:
        manifest = read_manifest(source)
    except FormatError as error:
        raise InputError(f"{error}; only a recording with a valid manifest can be merged") from error
    if manifest is None:
        raise InputError(
            f"{source}: {MANIFEST} is missing; name a folder that `multitracer capture` or `measure run` wrote"
        )
    return manifest


def _hosts(source: Path, manifest: Manifest) -> list[Path]:
    """Return the host folders that the manifest names and that exist."""
    return [source / host for host in manifest.hosts if "/" not in host and _is_folder(source / host)]


def _measurements(source: Path, manifest: Manifest, warn: Callable[[str], None]) -> list[Path]:
    """Return the folders of measurements: the source itself, and folders in it that are no hosts."""
    inner = [folder for folder in _folders(source) if folder.name not in {*manifest.hosts, *_TAKEN}]
    own = [source.resolve()] if _is_measurement(source, manifest) else []
    return own + [folder for folder in inner if _is_inner_measurement(folder, warn)]


def _is_inner_measurement(folder: Path, warn: Callable[[str], None]) -> bool:
    """Return whether a folder in a session holds results; those of a damaged manifest are kept, with a warning."""
    try:
        is_measurement = _is_measurement(folder, read_manifest(folder))
    except FormatError as error:
        is_measurement = bool(_results(folder))
        warn(f"{error}; the folder is {'copied as it is' if is_measurement else 'not copied'}")
    else:
        if not is_measurement and _results(folder):
            warn(f"{folder}: this is neither a host nor a measurement by any manifest; the folder is not copied")
    return is_measurement


def _is_measurement(folder: Path, manifest: Manifest | None) -> bool:
    """Return whether a folder holds what `measure run` found: transactions, or logs of the plan in its manifest."""
    has_plan = manifest is not None and manifest.variables.measurement is not None
    return (folder / TRANSACTIONS).is_file() or (has_plan and bool(_results(folder)))


def _results(folder: Path) -> list[str]:
    """Return the names of the regular files of a measurement, without its manifest."""
    names = [path.name for path in sorted(folder.iterdir()) if path.is_file() and not path.is_symlink()]
    return [name for name in names if name not in (MANIFEST, f"{MANIFEST}.tmp")]


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and path.name not in ("", ".", "..")


def _copy(source: Path, target: Path) -> None:
    """Copy the regular files of a host or a measurement; symbolic links and their targets are not copied."""
    target.mkdir()
    for path in sorted(source.iterdir()):
        if path.is_file() and not path.is_symlink():
            shutil.copy2(path, target / path.name)


def _copy_beside(source: Path, into: Path, warn: Callable[[str], None]) -> Iterator[str]:
    """Copy the files beside the folders of a session; yield the names of those that were copied."""
    for name in _results(source):
        if name.startswith("."):
            continue
        if (into / name).exists():
            warn(f"{source / name}: the merged session has this name already; the file is not copied")
            continue
        shutil.copy2(source / name, into / name)
        yield name


def _finish_measurement(folder: Path, source: Path, target: Path, manifest: Manifest) -> None:
    """Write the manifest of a copied measurement, with the host of the merged session whose clock it has.

    The manifest of a source that is also a recording keeps its plan and loses what describes the recording.
    """
    if folder != source.resolve():
        return
    hosts = [host.name for host in _hosts(source, manifest)]
    at_host = [name for name in hosts if manifest.hosts[name].role is Role.CLIENT] or hosts[:1]
    more = {RECORDED_AT: at_host[0]} if at_host else {}
    own = replace(manifest, collectors=[], files=[], more=manifest.more | more)
    write_manifest(target, own)


def _merged(sources: Sequence[Path], manifests: Sequence[Manifest], name: str) -> Manifest:
    created = [m.created_ns for m in manifests if m.created_ns is not None]
    merged = Manifest(name, min(created, default=None))
    for source, manifest in zip(sources, manifests, strict=True):
        hosts = {host.name for host in _hosts(source, manifest)}
        is_plain = _is_measurement(source, manifest)  # its variables are those of its measurement
        variables = Variables(more=manifest.variables.more) if is_plain else manifest.variables
        merged.hosts |= {host: facts for host, facts in manifest.hosts.items() if host in hosts or not is_plain}
        merged.collectors += manifest.collectors
        merged.files += [log for log in manifest.files if log.path.partition("/")[0] in hosts]
        merged.variables = Variables.of(merged.variables.document() | variables.document())
        merged.more |= {key: value for key, value in manifest.more.items() if key not in ("ended_ns", "ended_by")}
    merged.more["merged"] = [_about(manifest) for manifest in manifests]
    return merged


def _about(manifest: Manifest) -> dict[str, object]:
    ended = {key: manifest.more.get(key) for key in ("ended_ns", "ended_by")}
    return {"name": manifest.name, "created_ns": manifest.created_ns, "hosts": list(manifest.hosts), **ended}


# Adds logs of one more device to a session: a copy of the session, with the device as a host of its own.
#
# The logs are copied byte by byte and the manifest lists them with their checksums. The device keeps its own
# clock: what relates it to the others is found later (`multitracer align`).


_FOLDER_NAME = re.compile(r"\w[\w.+-]{0,63}")
"""Pattern of names that are valid on all file systems; at most 64 characters, as for Linux host names."""
_TAKEN = frozenset({"truth", "tables"})
"""Folders of a session that are not hosts: the ground truth of a model, and the tables of `align`."""
_KEPT_TABLES = "tables"
"""Folder of the tables of `align`; not copied, because they describe the old session."""


def add_logs(
    session: Path, logs: Sequence[Path], into: Path, *, host: str, name: str, times: Mapping[str, str]
) -> Manifest:
    """Copy a session and logs of another device into one folder.

    Parameters
    ----------
    session : Path
        A session folder, with or without a manifest.
    logs : sequence of Path
        Regular files, with any other files that are needed to read them.
    into : Path
        An empty folder that exists.
    host : str
        The name of the device's folder.
    name : str
        The new session's name, if `session` has no manifest.
    times : mapping of str to str
        `zone` and `date` of times in the logs that name none, as far as they are known.

    Returns
    -------
    Manifest
        Of the new session.

    Raises
    ------
    InputError
        If the session has this host already, the name is not valid for a folder, the manifest cannot be read,
        or two logs have the same name.
    """
    manifest = _manifest_of(session, name)
    _check_host(session, manifest, host)
    _check_names(logs)
    _copy_session(session, into)
    (into / host).mkdir()
    for log in logs:
        shutil.copy2(log, into / host / log.name)
    manifest.host(host).more |= times
    manifest.files += _listed(into, host, [log.name for log in logs])
    write_manifest(into, manifest)
    return manifest


def _manifest_of(session: Path, name: str) -> Manifest:
    """Return the manifest of the session; if there is none, a new one that lists the host folders."""
    try:
        manifest = read_manifest(session)
    except FormatError as error:
        raise InputError(f"{error}; repair or remove the damaged file first") from error
    if manifest is None:
        manifest = Manifest(name)
        for folder in _folders(session):
            if folder.name not in _TAKEN:
                manifest.host(folder.name)
    return manifest


def _check_host(session: Path, manifest: Manifest, host: str) -> None:
    if not _FOLDER_NAME.fullmatch(host) or host in _TAKEN:
        raise InputError(
            f"--host {host!r}: not a valid name of a host; use letters, digits, '-', '_' and '.', such as phone"
        )
    if host in manifest.hosts or (session / host).exists():
        raise InputError(f"{session}: host {host!r} already exists; give the device another name with --host")


def _check_names(logs: Iterable[Path]) -> None:
    owners: dict[str, Path] = {}
    for log in logs:
        other = owners.setdefault(log.name, log)
        if other is not log:
            raise InputError(
                f"{log}: has the same file name as {other}; rename one of them, because both are copied into one folder"
            )


def _folders(session: Path) -> list[Path]:
    return [path for path in sorted(session.iterdir()) if path.is_dir() and _is_own(path)]


def _is_own(path: Path) -> bool:
    """Return whether an entry of the folder belongs to the session; hidden files and links do not."""
    return not path.is_symlink() and not path.name.startswith(".")


def _copy_session(session: Path, into: Path) -> None:
    """Copy the regular files of the session and of its folders, except the manifest."""
    _copy_files(session, into)
    (into / MANIFEST).unlink(missing_ok=True)
    for folder in _folders(session):
        if folder.name != _KEPT_TABLES:
            (into / folder.name).mkdir()
            _copy_files(folder, into / folder.name)


def _copy_files(source: Path, target: Path) -> None:
    for path in sorted(source.iterdir()):
        if path.is_file() and _is_own(path):
            shutil.copy2(path, target / path.name)


def _listed(into: Path, host: str, names: Iterable[str]) -> list[LogFile]:
    """Return the manifest entries of the copied files, with size and checksum."""
    files = [(f"{host}/{name}", into / host / name) for name in names]
    return [LogFile(path, host, file.stat().st_size, checksum(file)) for path, file in files]
