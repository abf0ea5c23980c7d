"""The catalogue for readers: the parts of the newest snapshot, as Arrow datasets."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from multitracer.campaign.bucket import store_at
from multitracer.campaign.schemas import ARROW
from multitracer.campaign.store import Store, newest_snapshot
from multitracer.errors import InputError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from multitracer.campaign.store import ParquetFile, Snapshot, StoreGroup

_DAMAGED = (pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowTypeError, pa.ArrowNotImplementedError)
"""Errors of pyarrow for a file that is not Parquet, or is damaged."""


class Catalogue:
    """The tables of a campaign at the time when this object was made.

    Parameters
    ----------
    place : str, path or Store
        The campaign: a folder, or a URL that fsspec knows.
    options : mapping, optional
        Options for the client of a URL, as fsspec's `storage_options`.

    Raises
    ------
    InputError
        If there is no campaign, or a newer MultiTracer wrote it.
    """

    def __init__(self, place: str | os.PathLike[str] | Store, options: Mapping[str, object] | None = None) -> None:
        self.store = place if isinstance(place, Store) else store_at(place, options)
        self.snapshot: Snapshot = newest_snapshot(self.store)

    def dataset(self, table: str, *, coded: str = "") -> ds.Dataset:
        """Return a table as a dataset, which reads columns and row groups when they are needed.

        A column that an older part lacks is null in its rows.

        Parameters
        ----------
        table : str
        coded : str
            Name of a text column to return as a dictionary array of Arrow; empty for none.

        Raises
        ------
        InputError
            If a part is missing.
        """
        sizes = {part.name: part.bytes for part in self.snapshot.parts(table)}
        if not sizes:
            return ds.dataset(ARROW[table].empty_table())
        paths, files = self.store.arrow(sizes)
        try:
            form = ds.ParquetFileFormat(dictionary_columns={coded} if coded else None)
            return ds.dataset(paths, schema=_coded(ARROW[table], coded), format=form, filesystem=files)
        except FileNotFoundError as error:
            raise InputError(
                f"{error}: this file no longer exists; run `campaign run` to analyse its sessions again"
            ) from error

    def read(self, part: ParquetFile) -> pa.Table:
        """Return all rows of a part.

        Raises
        ------
        InputError
            If the part is missing or damaged.
        """
        if (damage := damage_of(self.store, part)) is not None:
            raise InputError(
                f"{self.store.name}/{part.name}: {damage}; run `campaign run` to analyse its sessions again"
            )
        return read_part(self.store, part)


def _coded(schema: pa.Schema, column: str) -> pa.Schema:
    at = schema.get_field_index(column)
    return schema if at < 0 else schema.set(at, schema.field(at).with_type(pa.dictionary(pa.int32(), pa.string())))


def read_part(store: Store, part: ParquetFile) -> pa.Table:
    """Return all rows of a Parquet file of the campaign, after checking that the file is not damaged."""
    with store.open(part.name) as stream:
        return pq.ParquetFile(stream).read()


class DamagedFile(NamedTuple):
    """A Parquet file whose content is not what was written, and how it differs."""

    group: StoreGroup
    table: str
    part: ParquetFile
    sentence: str


def damages(store: Store, snapshot: Snapshot) -> Iterator[DamagedFile]:
    """Yield the damaged Parquet files of a snapshot; each file is read completely."""
    for group in snapshot.groups:
        for table, part in group.parts.items():
            if (sentence := damage_of(store, part)) is not None:
                yield DamagedFile(group, table, part, sentence)


def damage_of(store: Store, part: ParquetFile) -> str | None:
    """Return a text about the damage of a Parquet file; None if the file is not damaged."""
    try:
        if (size := store.size(part.name)) != part.bytes:
            return f"the file has {size:,} bytes, but {part.bytes:,} bytes were written"
        with store.open(part.name) as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != part.sha256:
                return "the content has changed since it was written (SHA-256 differs)"
            rows = pq.ParquetFile(stream).metadata.num_rows
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    except _DAMAGED as error:
        return f"not a Parquet file: {error}"
    return None if rows == part.rows else f"the file has {rows:,} rows, but {part.rows:,} rows were written"
