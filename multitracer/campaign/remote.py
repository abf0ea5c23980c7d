"""Files behind a URL: the only module that uses fsspec, with our own timeouts and messages.

A client of a store (s3fs, gcsfs, …) takes keys, profile and endpoint from its own environment; this module
never reads them. `StoreError` means that a store does not answer properly: the cause is not a session.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from fsspec.asyn import AsyncFileSystem
from fsspec.core import url_to_fs

from multitracer.errors import InputError
from multitracer.words import portable, printable, without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from multitracer.tables import Row

Answer = TypeVar("Answer")

DEADLINE_S = 20.0
"""Time in s after which a request without an answer has failed.

A user of a hung server then knows it within 30 s, also on a busy machine: with 25 s, the program ended after
30.4 s there."""
LISTING_S = 120.0
"""Time limit of a listing in s: a million objects need a thousand requests of 0.1 s each. Not measured."""
CHUNK = 8 << 20
"""Maximum bytes of one read request: few enough for a link of 4 Mbit/s within the timeout."""
_SLOWEST = 250_000
"""Minimum rate in bytes per second: a slower link cannot write more than 5 MB at once. Not measured."""
_LONGEST = 200
"""Maximum number of characters of a store's message that are shown."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_LOCAL = re.compile(r"(file|local)://")
_MARKS = ("ETag", "etag", "md5Hash", "content_hash")
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "created")


class StoreError(InputError):
    """Error: the store cannot be reached or does not answer; the operation may be tried again later."""


class RefusedError(InputError):
    """Error: the store denies access to one object, or to all objects."""


class Item(NamedTuple):
    """Name, size and state of an object in a store."""

    name: str
    """Name relative to the listed URL, with slashes."""
    size: int
    mark: str
    """Value that changes with the content: the ETag, or else the modification time."""
    changed_s: float | None
    """Modification time in s since 1970; None if the store does not report it."""


def is_url(place: str) -> bool:
    """Return whether this is the URL of a store, and not a local path."""
    return _URL.match(place) is not None and _LOCAL.match(place) is None


def local_path(place: str) -> str:
    """Return the path in `file://PATH`; any other text is returned unchanged."""
    return _LOCAL.sub("", place, count=1)


class Remote:
    """The objects below a URL.

    Parameters
    ----------
    url : str
        URL of any protocol that fsspec supports: `s3://BUCKET/FOLDER`.
    options : mapping, optional
        Options for the client, as fsspec's `storage_options`.

    Attributes
    ----------
    client : fsspec.AbstractFileSystem
    name : str
        The URL as text.
    url : str
        The URL as fsspec writes it, so that each place has only one.

    Raises
    ------
    InputError
        If the URL contains a key or a password, or its protocol is not known.
    """

    def __init__(self, url: str, options: Mapping[str, object] | None = None) -> None:
        _refuse_secrets(url)
        self.name = portable(url).rstrip("/")
        try:
            self.client, root = url_to_fs(url, **{"use_listings_cache": False, **(options or {})})
        except (ValueError, ImportError) as error:
            raise InputError(f"{self.name}: this kind of address is not supported here ({_reason(error)})") from error
        self._secrets = [value for name, value in (options or {}).items() if name in _SECRET_OPTIONS]
        self._root = root.rstrip("/")
        self.url: str = self.client.unstrip_protocol(self._root)
        self._limits = isinstance(self.client, AsyncFileSystem)

    def at(self, name: str) -> str:
        """Return the path of an object for the client; the name "" means the URL itself."""
        return f"{self._root}/{name}" if name else self._root

    def inside(self, folder: str) -> list[Item]:
        """Return the objects and folders directly in a folder, by name; empty if there is no such folder."""
        try:
            entries = self._request(self.client.ls, self.at(folder), detail=True)
        except FileNotFoundError:
            return []
        return self._items(self.at(folder), entries)

    @property
    def is_empty(self) -> bool:
        """Whether there is no object below the URL."""
        try:
            return not self._request(self.client.ls, self._root, detail=False)
        except FileNotFoundError:
            return True

    def below(self, limit_s: float = DEADLINE_S) -> list[Item]:
        """Return all objects below the URL, by name; the object at the URL itself has the name ""."""
        try:
            entries = self._request(self.client.find, self._root, detail=True, limit_s=limit_s)
        except FileNotFoundError:
            return []
        if entries.keys() == {self._root}:
            return [self.item()]
        return self._items(self._root, entries.values())

    def _items(self, folder: str, entries: Iterable[Row]) -> list[Item]:
        items = []
        for each in entries:
            path = each["name"]
            if each["type"] == "file" and (path == folder or path.startswith(f"{folder}/")):
                items.append(_item(path[len(folder) + 1 :], each))
        return sorted(items)

    def item(self, name: str = "") -> Item:
        """Return the entry of an object.

        Raises
        ------
        FileNotFoundError
            If the object does not exist.
        """
        return _item(name, self._request(self.client.info, self.at(name)))

    def read(self, name: str, begin: int, end: int) -> bytes:
        """Return the bytes from `begin` to `end` of an object, in requests of at most `CHUNK` bytes."""
        chunks = [
            self._request(self.client.cat_file, self.at(name), start=at, end=min(at + CHUNK, end))
            for at in range(begin, end, CHUNK)
        ]
        return b"".join(chunks)

    def fetch(self, item: Item, target: str) -> None:
        """Copy an object to a new local file; stop with an error if it is longer than the listed size."""
        with open(target, "xb") as stream:  # noqa: PTH123
            for at in range(0, item.size, CHUNK):
                stream.write(self.read(item.name, at, min(at + CHUNK, item.size)))

    def put(self, name: str, content: bytes) -> None:
        """Write an object, completely or not at all."""
        limit_s = max(DEADLINE_S, len(content) / _SLOWEST)
        self._request(self.client.pipe_file, self.at(name), content, limit_s=limit_s)

    def put_new(self, name: str, content: bytes) -> bool:
        """Write an object if its name is not used yet; return whether the stored object is this one."""
        limit_s = max(DEADLINE_S, len(content) / _SLOWEST)
        try:
            self._request(self.client.pipe_file, self.at(name), content, mode="create", limit_s=limit_s)
        except (FileExistsError, StoreError, RefusedError) as error:  # also if it was written and the answer was lost
            if isinstance(error.__cause__, TimeoutError):
                raise
            with contextlib.suppress(FileNotFoundError):
                return self.read(name, 0, self.item(name).size) == content
            raise
        return True

    def remove(self, name: str) -> None:
        """Remove an object if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self._request(self.client.rm_file, self.at(name))

    # --- requests ---

    def _request(
        self, call: Callable[..., Answer], path: str, *args: object, limit_s: float = DEADLINE_S, **named: object
    ) -> Answer:
        """Call a method of the client and return its result.

        The deadline `limit_s` is passed as `timeout` to clients that use the network.
        """
        limit = {"timeout": limit_s} if self._limits else {}
        with self._sentences(limit_s):
            return call(path, *args, **named, **limit)

    @contextlib.contextmanager
    def _sentences(self, limit_s: float = DEADLINE_S) -> Iterator[None]:
        """Convert errors of the client in the `with` block to errors with our messages.

        FileNotFoundError and FileExistsError are not converted.
        """
        try:
            yield
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.name) from error
        except FileExistsError:
            raise
        except TimeoutError as error:
            raise StoreError(f"{self.name}: the store has not answered for {limit_s:g} s; {_AGAIN}") from error
        except Exception as error:  # clients of stores raise errors of many libraries
            if type(error).__name__ in _NO_KEY:
                raise RefusedError(f"{self.name}: no access key for this store was found; {_KEYS}") from error
            if isinstance(error, PermissionError) or _status(error) in _REFUSED:
                sentence = f"{self.name}: the store refused access ({_reason(error, self._secrets)}); {_KEYS}"
                raise RefusedError(sentence) from error
            reason = _reason(error, self._secrets)
            raise StoreError(f"{self.name}: access to the store failed ({reason}); {_AGAIN}") from error


_AGAIN = "check that the server is running, then start the same command again"
_KEYS = "check the access key or the profile in the environment variables (docs/campaigns.md, Buckets)"
_REFUSED = range(400, 500)
"""HTTP status codes of an error in the request (RFC 9110, section 15.5)."""
_SECRET_OPTIONS = ("key", "secret", "token", "password", "username", "sas_token", "account_key", "connection_string")
"""Options of fsspec's clients that hold keys."""
_NO_KEY = ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound")


def _refuse_secrets(url: str) -> None:
    scheme, _, rest = url.partition("://")
    if "@" in rest.partition("/")[0] or "::" in url or (scheme.startswith("http") and "?" in rest):
        raise InputError(
            f"{portable(scheme)}://…: the URL must not contain keys or options; set them in "
            "environment variables (docs/campaigns.md, Buckets)"
        )


def _status(error: Exception) -> int | None:
    """Return the HTTP status in an error of boto (the S3 client); None if it has none."""
    response = getattr(error.__cause__, "response", None)
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode") if isinstance(response, dict) else None
    return status if isinstance(status, int) else None


def _reason(error: Exception, secrets: Iterable[object] = ()) -> str:
    """Return the start of a client's error message as one line, without keys: a server may repeat them."""
    words = printable(" ".join(without_secrets(str(error), secrets).split())) or type(error).__name__
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"


def _item(name: str, facts: Row) -> Item:
    times = [facts[key] for key in _TIMES if facts.get(key) is not None]
    marks = [facts[key] for key in _MARKS if facts.get(key)] + times
    return Item(name, int(facts["size"] or 0), str(marks[0]) if marks else "", _seconds(*times[:1]))


def _seconds(when: object = None) -> float | None:
    if isinstance(when, str):
        with contextlib.suppress(ValueError):
            when = datetime.fromisoformat(when)
    if isinstance(when, datetime):
        return when.timestamp()
    return float(when) if isinstance(when, int | float) else None
