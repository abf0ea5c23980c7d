"""The catalogue as a reader has it: the parts that the newest snapshot names, as Arrow datasets."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from multitracer.campaign.schemas import ARROW
from multitracer.campaign.snapshot import newest
from multitracer.campaign.store import Store
from multitracer.errors import InputError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from multitracer.campaign.snapshot import Group, Part, Snapshot

_DAMAGED = (OSError, pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowTypeError, pa.ArrowNotImplementedError)
"""What pyarrow raises of a Parquet file that is none, or was changed."""


class Catalogue:
    """The tables of a campaign as they were when this was made.

    Parameters
    ----------
    place : str, path or Store
        The campaign.

    Raises
    ------
    InputError
        If there is no campaign, or a newer MultiTracer wrote it.
    """

    def __init__(self, place: str | os.PathLike[str] | Store) -> None:
        self.store = place if isinstance(place, Store) else Store(place)
        self.snapshot: Snapshot = newest(self.store)

    def dataset(self, table: str) -> ds.Dataset:
        """Return a table as a dataset: columns and row groups are read when they are needed.

        A column that an older part lacks is null there.
        """
        paths = [str(self.store.path(part.name)) for part in self.snapshot.parts(table)]
        if not paths:
            return ds.dataset(ARROW[table].empty_table())
        return ds.dataset(paths, schema=ARROW[table], format="parquet")

    def read(self, part: Part) -> pa.Table:
        """Return a part whole.

        Raises
        ------
        InputError
            If it is gone or damaged.
        """
        if (damage := damage_of(self.store, part)) is not None:
            raise InputError(
                f"{self.store.name}/{part.name}: {damage}; `campaign run` analyses its sessions anew"
            )
        return pq.ParquetFile(self.store.path(part.name)).read()


class Damage(NamedTuple):
    """A part that is not as it was written."""

    group: Group
    table: str
    part: Part
    sentence: str


def damages(store: Store, snapshot: Snapshot) -> Iterator[Damage]:
    """Yield the parts of a snapshot that are not as they were written, by reading all of them."""
    for group in snapshot.groups:
        for table, part in group.parts.items():
            if (sentence := damage_of(store, part)) is not None:
                yield Damage(group, table, part, sentence)


def damage_of(store: Store, part: Part) -> str | None:
    """Return what is wrong with a part; None if it is as it was written."""
    path = store.path(part.name)
    try:
        if path.stat().st_size != part.bytes:
            return f"has {path.stat().st_size:,} bytes, {part.bytes:,} when it was written"
        with path.open("rb") as stream:
            total = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if total != part.sha256:
        return "its content is not what was written (SHA-256 differs)"
    try:
        rows = pq.ParquetFile(path).metadata.num_rows
    except _DAMAGED as error:
        return f"is no Parquet file: {error}"
    return None if rows == part.rows else f"holds {rows:,} rows, {part.rows:,} when it was written"
