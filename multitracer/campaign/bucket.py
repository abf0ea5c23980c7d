"""A campaign in a bucket: the files of a `Store` as objects behind a URL.

Object stores cannot rename or lock: an object appears complete, and a snapshot is written on the condition that its
number is not used. If two committers write, one succeeds; the other one gets an error and starts again.
"""

from __future__ import annotations

import contextlib
import io
import os
import time
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow.fs import FSSpecHandler, PyFileSystem

from multitracer.campaign.remote import Remote, is_url, local_path
from multitracer.campaign.store import GRACE_NS, SNAPSHOTS, Store
from multitracer.errors import InputError
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_MARKER = f"{SNAPSHOTS}/.campaign"
"""An empty object that marks a campaign, because a bucket has no folders."""


def store_at(place: str | os.PathLike[str], options: Mapping[str, object] | None = None) -> Store:
    """Return the store of a campaign, for a local folder or for a URL.

    Parameters
    ----------
    place : str or path
        A folder, or a URL that fsspec knows.
    options : mapping, optional
        Options for the client of a URL, as fsspec's `storage_options`.

    Raises
    ------
    InputError
        If the URL cannot be used.
    """
    name = os.fspath(place)
    return ObjectStore(name, options) if is_url(name) else Store(local_path(name))


class ObjectStore(Store):
    """The objects of one campaign below a URL; `Store` documents the methods."""

    def __init__(self, url: str, options: Mapping[str, object] | None = None) -> None:
        self._remote = Remote(url, options)
        self.address = url
        self.name = self._remote.name

    def make(self) -> None:
        """Mark the place as a campaign.

        Raises
        ------
        InputError
            If the place contains other objects and no campaign, or cannot be written.
        """
        if self.is_campaign:
            return
        if not self._remote.is_empty:
            raise InputError(f"{self.name}: this folder contains files, but no campaign; name a new or empty folder")
        self.put(_MARKER, b"")

    @property
    def is_campaign(self) -> bool:
        """Whether the place contains a campaign."""
        return self.has(_MARKER)

    def list(self, folder: str) -> list[str]:
        """Return the names of the objects in a folder of the campaign, sorted."""
        return [f"{folder}/{each.name}" for each in self._remote.inside(folder) if each.name[:1] not in ("", ".")]

    def abandoned(self, folder: str) -> Sequence[str]:
        """Return the names of the objects in a folder that no run needs: those older than an hour."""
        latest_s = time.time() - GRACE_NS / NS_PER_S
        return [
            f"{folder}/{each.name}"
            for each in self._remote.inside(folder)
            if each.changed_s is not None and each.changed_s < latest_s
        ]

    def has(self, name: str) -> bool:
        """Return whether the object exists."""
        with contextlib.suppress(FileNotFoundError):
            self._remote.item(name)
            return True
        return False

    def size(self, name: str) -> int:
        """Return the size of an object in bytes."""
        return self._remote.item(name).size

    def read(self, name: str) -> bytes:
        """Return the content of an object."""
        return self._remote.read(name, 0, self.size(name))

    def open(self, name: str) -> io.BufferedIOBase:
        """Open an object as a file."""
        return io.BytesIO(self.read(name))

    def put(self, name: str, content: bytes | memoryview, *, lasting: bool = True) -> None:
        """Write an object; a confirmed write is durable, so `lasting` has no effect."""
        del lasting
        with self._named():
            self._remote.put(name, bytes(content))

    def put_new(self, name: str, content: bytes) -> None:
        """Write an object on the condition that its name is not used."""
        with self._named():
            if not self._remote.put_new(name, content):
                raise self.conflict()

    def remove(self, name: str) -> None:
        """Remove an object if it exists."""
        self._remote.remove(name)

    def remove_unfinished(self) -> None:
        """Do nothing: an incomplete object does not appear in a bucket."""

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Do nothing during the `with` block: of two writers, only one can write the next snapshot number."""
        yield

    def arrow(self, sizes: Mapping[str, int]) -> tuple[Sequence[str], PyFileSystem]:
        """Return the paths of some Parquet files, and the file system with which Arrow reads them.

        `sizes` are their sizes in bytes, by name.
        """
        return list(sizes), PyFileSystem(_Parts(self._remote, sizes))

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """During the `with` block, add advice to the error of a missing bucket."""
        try:
            yield
        except FileNotFoundError as error:
            raise InputError(
                f"{self.name}: this bucket does not exist; create the bucket, or name another bucket"
            ) from error


class _Parts(FSSpecHandler):  # type: ignore[misc]  # pyarrow has no types
    """File system for Arrow that opens Parquet files of a bucket; Arrow needs no other method."""

    def __init__(self, remote: Remote, sizes: Mapping[str, int]) -> None:
        super().__init__(remote.client)
        self._remote = remote
        self._sizes = sizes

    def open_input_file(self, path: str) -> pa.PythonFile:
        """Return an object as a file; Arrow's reads fetch only the bytes that they need."""
        return pa.PythonFile(_Reader(self._remote, path, self._sizes[path]), mode="r")


class _Reader(io.RawIOBase):
    """A file object that reads an object of a bucket in chunks, with our timeout."""

    def __init__(self, remote: Remote, name: str, size: int) -> None:
        super().__init__()
        self._remote = remote
        self._name = name
        self._size = size
        self._at = 0

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes, at most `size`; with a negative `size` all remaining bytes."""
        end = self._size if size < 0 else min(self._at + size, self._size)
        content = self._remote.read(self._name, self._at, end)
        self._at += len(content)
        return content

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Set the position as `io.IOBase.seek` does, and return it."""
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        """Return the position, in bytes from the start."""
        return self._at

    def readable(self) -> bool:
        """Return True: the object is readable."""
        return True

    def seekable(self) -> bool:
        """Return True: the position can be set."""
        return True
