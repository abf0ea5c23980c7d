"""The committer: merges spools into groups of parts and writes the snapshots; the only writer of a catalogue.

Rules of the file
-----------------
- Parts are written and synced before the snapshot that names them; spools are removed after it. So a crash
  leaves spools that are merged at the next start, or parts that no snapshot names and that are removed.
- The rows of a session are in one group. New rows of a session or an input replace the old ones: the old
  group is written again without them, in the same snapshot.
- A session in two inputs has its rows once, and a row of `inputs` for each.
"""

from __future__ import annotations

import hashlib
import io
import secrets
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from multitracer.campaign.catalogue import damages, read_part
from multitracer.campaign.schemas import ARROW, unpacked, up_to_date
from multitracer.campaign.store import (
    PARTS,
    SPOOLS,
    ParquetFile,
    StoreGroup,
    newest_snapshot,
    remove_dead_parts,
    write_snapshot,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from multitracer.campaign.store import Snapshot, Store

    Tables = dict[str, pa.Table]

ROW_GROUP = 100_000
"""Number of rows in a row group: few enough that a query for one day can skip most groups."""
_DICTIONARY = 64 << 10
"""Maximum size of a column's dictionary in bytes; columns with a larger one are stored without.

Numbers that rarely repeat then take 38 % less processor time to read, and 10 % less space."""
FOLD_SESSIONS = 300
"""Number of spools that are merged together: fewer would make too many files for a query. Not measured."""
FOLD_BYTES = 64 << 20
"""Maximum size of spools that are merged together, so that a merge needs a few hundred MB of memory."""


class KnownInput(NamedTuple):
    """What the catalogue knows about an input: its state when it was read, its session, and its group."""

    session: str | None
    """Session of the input; None if the input failed."""
    state: str
    group: int


class Committer:
    """Writes a campaign; its caller holds the lock of the store.

    Parameters
    ----------
    store : Store
        The store, locked by the caller.

    Attributes
    ----------
    snapshot : Snapshot
        The newest snapshot.
    known : dict of str to Known
        Inputs by their keys, without inputs whose rows are damaged.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.snapshot: Snapshot = newest_snapshot(store)
        store.remove_unfinished()
        remove_dead_parts(store, self.snapshot)
        self.damaged = list(damages(store, self.snapshot))
        self._unreadable = {each.part.name for each in self.damaged}
        self._broken = {each.group.number for each in self.damaged}
        self.known: dict[str, KnownInput] = {}
        self._group_of: dict[str, int] = {}
        self._index()

    def _index(self) -> None:
        """Read from the newest snapshot which session each input has, and in which group each session is."""
        self.known.clear()
        self._group_of.clear()
        for group in self.snapshot.groups:
            if (sessions := self._read(group, "sessions")) is not None:
                self._group_of.update(dict.fromkeys(sessions["session"].to_pylist(), group.number))
            if group.number in self._broken or (inputs := self._read(group, "inputs")) is None:
                continue
            columns = (inputs[name].to_pylist() for name in ("input", "session", "state"))
            for key, session, state in zip(*columns, strict=True):
                self.known[key] = KnownInput(session, state, group.number)
        complete = {session for session, number in self._group_of.items() if number not in self._broken}
        self.known = {key: each for key, each in self.known.items() if each.session is None or each.session in complete}

    def _read(self, group: StoreGroup, table: str) -> pa.Table | None:
        part = group.parts.get(table)
        if part is None or part.name in self._unreadable:
            return None
        return up_to_date(read_part(self._store, part), table)

    # --- spools ---

    def waiting(self) -> list[str]:
        """Return the names of the spools (files of one session) that are not in the catalogue yet."""
        return self._store.list(SPOOLS)

    def fold(self, names: Sequence[str]) -> int:
        """Add the rows of spools (files of one session) to the catalogue; return how many were damaged.

        The rows become a new group of Parquet files, which the next snapshot lists.

        Raises
        ------
        InputError
            If the disk is full or cannot be written; the last snapshot remains valid.
        """
        spools: dict[str, Tables] = {}
        cut = 0
        for name in names:
            try:
                tables = unpacked(self._store.read(name))
            except FileNotFoundError:  # another run over the same bucket folded it
                continue
            if tables is None:
                cut += 1
            else:  # of two of one input the later one counts
                spools[tables["inputs"]["input"][0].as_py()] = tables
        if spools:
            self._commit(_Batch.of(spools, self._is_complete))
        for name in names:
            self._store.remove(name)
        return cut

    def _is_complete(self, session: str) -> bool:
        """Return whether all rows of a session are in the catalogue and can be read."""
        return session in self._group_of and self._group_of[session] not in self._broken

    def _commit(self, batch: _Batch) -> None:
        replaced = self._replaced(batch)
        groups = self._without(replaced | batch.sessions, batch.inputs)
        number = 1 + max((group.number for group in self.snapshot.groups), default=0)
        self._finish([*groups, StoreGroup(number, self._written(batch.tables))])
        for session in replaced:
            self._group_of.pop(session, None)
        self._group_of.update(dict.fromkeys(batch.sessions, number))
        self.known.update({key: KnownInput(*each, number) for key, each in batch.inputs.items()})

    def _replaced(self, batch: _Batch) -> set[str]:
        """Return the sessions whose old rows must be removed.

        They have new rows, or all inputs that contain them have changed.
        """
        renewed = {session for session in batch.sessions if session in self._group_of}
        before = {self.known[key].session for key in batch.inputs if key in self.known}
        gone = {each for each in before if each is not None} - {each for each, _ in batch.inputs.values()}
        held = {each.session for key, each in self.known.items() if key not in batch.inputs} if gone else set()
        return renewed | (gone - held)

    def _finish(self, groups: Iterable[StoreGroup]) -> None:
        kept = [group for group in groups if group.parts]
        following = self.snapshot.followed(kept)
        write_snapshot(self._store, following)
        for name in self.snapshot.retired.keys() - following.retired.keys():
            self._store.remove(name)
        self.snapshot = following
        live = {part.name for part in following.parts()}
        self._unreadable &= live
        self._broken = {
            group.number
            for group in following.groups
            if any(part.name in self._unreadable for part in group.parts.values())
        }

    # --- groups ---

    def _without(self, sessions: Iterable[str], inputs: Iterable[str]) -> list[StoreGroup]:
        """Return the groups without the rows of these sessions and inputs.

        Only affected groups are written again.
        """
        sessions, inputs = set(sessions), set(inputs)
        touched = {self._group_of[each] for each in sessions if each in self._group_of}
        touched |= {self.known[key].group for key in inputs if key in self.known}
        touched |= self._broken
        return [
            self._less(group, sessions, inputs) if group.number in touched else group for group in self.snapshot.groups
        ]

    def _less(self, group: StoreGroup, sessions: set[str], inputs: set[str]) -> StoreGroup:
        parts: dict[str, ParquetFile] = {}
        for table, part in group.parts.items():
            rows = self._read(group, table)
            if rows is None:
                parts[table] = part  # it stays named as damaged while a session of its group is not redone
                continue
            column, gone = ("input", inputs) if table in ("inputs", "failures") else ("session", sessions)
            kept = rows.filter(pc.invert(pc.is_in(rows[column], pa.array(sorted(gone), pa.string()))))
            if len(kept) == len(rows):
                parts[table] = part
            elif len(kept):
                parts |= self._written({table: kept})
        readable = {each.name for each in parts.values()} - self._unreadable
        return StoreGroup(group.number, parts if readable else {})

    def _written(self, tables: Tables) -> dict[str, ParquetFile]:
        """Write each table that has rows as a Parquet file; return the entries of the files by table."""
        return {name: write_part(self._store, name, table) for name, table in tables.items() if len(table)}

    def forget(self, sessions: Iterable[str]) -> None:
        """Write a snapshot without these sessions and their inputs."""
        gone = set(sessions)
        self.forget_inputs({key for key, each in self.known.items() if each.session in gone})

    def forget_inputs(self, keys: Iterable[str]) -> None:
        """Write a snapshot without these inputs, and without sessions that no other input contains."""
        gone = set(keys)
        held = {each.session for key, each in self.known.items() if key not in gone}
        sessions = {self.known[key].session for key in gone if key in self.known} - held
        self._finish(self._without({each for each in sessions if each is not None}, gone))
        self._index()

    def compact(self) -> int:
        """Merge small groups that are neighbours; return how many groups fewer there are."""
        before = len(self.snapshot.groups)
        groups: list[StoreGroup] = []
        run: list[StoreGroup] = []
        for group in self.snapshot.groups:
            if group.number in self._broken or group.sessions >= FOLD_SESSIONS:
                groups.append(group)
                continue
            if run and sum(each.sessions for each in run) + group.sessions > FOLD_SESSIONS:
                groups.append(self._together(run))
                run = []
            run.append(group)
        if run:
            groups.append(self._together(run))
        if len(groups) < before:
            self._finish(sorted(groups, key=lambda group: group.number))
            self._index()
        return before - len(groups)

    def _together(self, groups: Sequence[StoreGroup]) -> StoreGroup:
        if len(groups) == 1:
            return groups[0]
        tables: Tables = {}
        for name in ARROW:
            chunks = [table for group in groups if (table := self._read(group, name)) is not None]
            tables[name] = pa.concat_tables([ARROW[name].empty_table(), *chunks])
        return StoreGroup(groups[0].number, self._written(tables))


class _Batch(NamedTuple):
    """The rows of several spools (files of one session) that are written together."""

    inputs: dict[str, tuple[str | None, str]]
    """Session and state of each input; the session is None if the input failed."""
    sessions: set[str]
    """Sessions whose rows are in the tables."""
    tables: Tables

    @classmethod
    def of(cls, spools: Mapping[str, Tables], is_complete: Callable[[str], bool]) -> _Batch:
        """Return the rows of some spools (files of one session) as one batch.

        Each session is included once, unless it is complete in the catalogue.
        """
        inputs: dict[str, tuple[str | None, str]] = {}
        sessions: set[str] = set()
        chunks: dict[str, list[pa.Table]] = {name: [schema.empty_table()] for name, schema in ARROW.items()}
        for key, tables in spools.items():
            row = tables["inputs"].to_pylist()[0]
            session = row["session"]
            inputs[key] = (session, row["state"])
            has_rows = bool(len(tables["sessions"]))
            is_new = has_rows and session not in sessions and not is_complete(session)
            if is_new:
                sessions.add(session)
            for name in ARROW:
                if is_new or name in ("inputs", "failures"):
                    chunks[name].append(tables[name])
        return cls(inputs, sessions, {name: pa.concat_tables(each) for name, each in chunks.items()})


def write_part(store: Store, table: str, rows: pa.Table) -> ParquetFile:
    """Write rows of a table as a Parquet file, and return its entry for a snapshot."""
    name = f"{PARTS}/{table}-{secrets.token_hex(8)}.parquet"
    stream = io.BytesIO()
    pq.write_table(rows, stream, row_group_size=ROW_GROUP, compression="snappy", dictionary_pagesize_limit=_DICTIONARY)
    content = stream.getbuffer()
    store.put(name, content)
    return ParquetFile(name, len(rows), len(content), hashlib.sha256(content).hexdigest())
