"""Merges two recordings of one session, each made at one end, into one session folder.

The logs are copied byte by byte; the manifests become one. Each host keeps its own clocks: what relates them
is found later (`multitracer align`), from the packets and the claps that both recorded.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from multitracer.errors import FormatError, InputError
from multitracer.manifest import MANIFEST, Manifest, Variables, read_manifest, write_manifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


def merge(sources: Sequence[Path], into: Path, *, name: str) -> Manifest:
    """Copy the hosts of several session folders into one, which is new or empty.

    Parameters
    ----------
    sources : sequence of Path
        Session folders; no host is in two of them.
    into : Path
        An empty folder that exists.
    name : str
        The new session's name.

    Returns
    -------
    Manifest
        Of the new session.

    Raises
    ------
    InputError
        If a folder is no recording, or a host is in two of them.
    """
    manifests = [_manifest(source) for source in sources]
    owners: dict[str, Path] = {}
    for source, manifest in zip(sources, manifests, strict=True):
        for host in _hosts(source, manifest):
            if host in owners:
                raise InputError(
                    f"{source}: has the host {host!r}, as {owners[host]} has; record the other end with "
                    "`--role`, or rename its folder"
                )
            owners[host] = source
    for host, source in owners.items():
        _copy(source / host, into / host)
    merged = _merged(manifests, name)
    write_manifest(into, merged)
    return merged


def _manifest(source: Path) -> Manifest:
    try:
        manifest = read_manifest(source)
    except FormatError as error:
        raise InputError(f"{error}; a recording that is merged needs its manifest") from error
    if manifest is None:
        raise InputError(f"{source}: has no {MANIFEST}; name the folder that `multitracer capture` wrote")
    return manifest


def _hosts(source: Path, manifest: Manifest) -> Iterable[str]:
    """Return the host folders that the manifest names and that exist."""
    return [host for host in manifest.hosts if "/" not in host and _is_folder(source / host)]


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and path.name not in ("", ".", "..")


def _copy(source: Path, target: Path) -> None:
    """Copy the regular files of a host; symbolic links and their targets are not copied."""
    target.mkdir()
    for path in sorted(source.iterdir()):
        if path.is_file() and not path.is_symlink():
            shutil.copy2(path, target / path.name)


def _merged(manifests: Sequence[Manifest], name: str) -> Manifest:
    created = [m.created_ns for m in manifests if m.created_ns is not None]
    merged = Manifest(name, min(created, default=None))
    for manifest in manifests:
        merged.hosts |= manifest.hosts
        merged.collectors += manifest.collectors
        merged.files += [log for log in manifest.files if log.host in manifest.hosts]
        merged.variables = Variables.of(merged.variables.document() | manifest.variables.document())
        merged.more |= {
            key: value for key, value in manifest.more.items() if key not in ("ended_ns", "ended_by")
        }
    merged.more["merged"] = [_about(manifest) for manifest in manifests]
    return merged


def _about(manifest: Manifest) -> dict[str, object]:
    ended = {key: manifest.more.get(key) for key in ("ended_ns", "ended_by")}
    return {"name": manifest.name, "created_ns": manifest.created_ns, "hosts": list(manifest.hosts), **ended}
