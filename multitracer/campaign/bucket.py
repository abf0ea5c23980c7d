"""A campaign in a bucket: the files of a `Store` as objects behind a URL.

Object stores cannot rename or lock: an object appears complete, and a snapshot is written on the condition
that its number is not used. Of two committers one succeeds; the other one is refused and starts again.
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
    """Return the store of a campaign: a folder of this machine, or what a URL names.

    Parameters
    ----------
    place : str or path
        A folder, or a URL that fsspec knows.
    options : mapping, optional
        For the client of a URL, as fsspec's `storage_options`.

    Raises
    ------
    InputError
        If the URL cannot be used.
    """
    name = os.fspath(place)
    return ObjectStore(name, options) if is_url(name) else Store(local_path(name))


class ObjectStore(Store):
    """The objects of one campaign below a URL; see `Store` for what each method does."""

    def __init__(self, url: str, options: Mapping[str, object] | None = None) -> None:
        self._remote = Remote(url, options)
        self.address = url
        self.name = self._remote.name

    def make(self) -> None:
        """Mark the place as a campaign.

        Raises
        ------
        InputError
            If it holds other objects and no campaign, or cannot be written.
        """
        if self.is_campaign:
            return
        if not self._remote.is_empty:
            raise InputError(f"{self.name}: holds files, but no campaign; name a new or an empty folder")
        self.put(_MARKER, b"")

    @property
    def is_campaign(self) -> bool:
        """Whether there is a campaign."""
        return self.has(_MARKER)

    def list(self, folder: str) -> list[str]:
        """Return the names of the objects in a folder of the campaign, sorted."""
        return [
            f"{folder}/{each.name}" for each in self._remote.inside(folder) if each.name[:1] not in ("", ".")
        ]

    def abandoned(self, folder: str) -> Sequence[str]:
        """Return the objects of a folder that are older than an hour: younger ones another run may need."""
        latest_s = time.time() - GRACE_NS / NS_PER_S
        return [
            f"{folder}/{each.name}"
            for each in self._remote.inside(folder)
            if each.changed_s is not None and each.changed_s < latest_s
        ]

    def has(self, name: str) -> bool:
        """Return whether there is such an object."""
        with contextlib.suppress(FileNotFoundError):
            self._remote.item(name)
            return True
        return False

    def size(self, name: str) -> int:
        """Return the bytes of an object."""
        return self._remote.item(name).size

    def read(self, name: str) -> bytes:
        """Return the bytes of an object."""
        return self._remote.read(name, 0, self.size(name))

    def open(self, name: str) -> io.BufferedIOBase:
        """Return an object's bytes as a file."""
        return io.BytesIO(self.read(name))

    def put(self, name: str, content: bytes | memoryview, *, lasting: bool = True) -> None:
        """Write an object; a store keeps what it has confirmed, so all are `lasting`."""
        del lasting
        with self._named():
            self._remote.put(name, bytes(content))

    def put_new(self, name: str, content: bytes) -> None:
        """Write an object on the condition that none has its name."""
        with self._named():
            if not self._remote.put_new(name, content):
                raise self.conflict()

    def remove(self, name: str) -> None:
        """Remove an object, if it is there."""
        self._remote.remove(name)

    def remove_unfinished(self) -> None:
        """Do nothing: an incomplete object does not appear in a bucket."""

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Do not lock: the numbers of the snapshots decide which writer succeeds."""
        yield

    def arrow(self, sizes: Mapping[str, int]) -> tuple[Sequence[str], PyFileSystem]:
        """Return parts, by name with their bytes, as Arrow opens them: their paths, and who reads them."""
        return list(sizes), PyFileSystem(_Parts(self._remote, sizes))

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Say of a bucket that is missing that it has to be made."""
        try:
            yield
        except FileNotFoundError as error:
            raise InputError(f"{self.name}: there is no such bucket; make it, or name another one") from error


class _Parts(FSSpecHandler):  # type: ignore[misc]  # pyarrow has no types
    """Opens parts for Arrow, which asks for nothing else here."""

    def __init__(self, remote: Remote, sizes: Mapping[str, int]) -> None:
        super().__init__(remote.client)
        self._remote = remote
        self._sizes = sizes

    def open_input_file(self, path: str) -> pa.PythonFile:
        """Return a part as a file whose bytes are fetched when Arrow reads them."""
        return pa.PythonFile(_Reader(self._remote, path, self._sizes[path]), mode="r")


class _Reader(io.RawIOBase):
    """An object that is read in chunks, by requests with our timeout."""

    def __init__(self, remote: Remote, name: str, size: int) -> None:
        super().__init__()
        self._remote = remote
        self._name = name
        self._size = size
        self._at = 0

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes."""
        end = self._size if size < 0 else min(self._at + size, self._size)
        content = self._remote.read(self._name, self._at, end)
        self._at += len(content)
        return content

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to a byte."""
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        """Return the number of the next byte."""
        return self._at

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def seekable(self) -> bool:
        """Return that any byte can be read next."""
        return True
