"""A plan as a product of variables: a table of variables and their levels, and the tuples in random order.

The table is CSV, a column for each variable, its levels below its name:

    size,connection,location 128,one,downtown 1024,per-session,campus 8192

or TOML, which may also hold the other settings:

    protocol = "tcp" vary = "reply" sessions = 100 [variables] size = [128, 1024, 8192] location = ["downtown",
    "campus"]
    [levels.location]                  # what a level stands for over a modelled link
    downtown = { link.signal.mean_dbm = -95 } campus = { link.signal.mean_dbm = -75 }
"""

from __future__ import annotations

import csv
import fcntl
import hashlib
import io
import json
import math
import os
import tomllib
from dataclasses import dataclass, field, fields
from itertools import product
from typing import TYPE_CHECKING, NamedTuple, Self

from multitracer.errors import FormatError, InputError
from multitracer.manifest import Variables
from multitracer.measure.plan import Experiment, MeasurementPlan, is_label
from multitracer.words import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from multitracer.tables import Document

SETTINGS = {
    "protocol": str, "server": str, "over": str, "tcp_profile": str, "vary": str, "size": int,
    "sessions": int, "other_bytes": int, "connection": str, "timeout_s": float,
    "repetitions": int, "seed": int,
}  # fmt: skip
"""Settings that a table may state for all tuples, and their types; the last two cannot be variables."""
_OF_THE_PLAN = ("repetitions", "seed")
REPETITION = "repetition"
"""Name of the label that holds the number of the repetition."""
_RESERVED = {each.name for each in fields(Variables)} - {"tcp_profile"} | {
    REPETITION, "tcp", "sealed", "capture", "nodelay",
}  # fmt: skip
"""Names that the manifest uses for other purposes; variables must not have them."""
_MOST_LEVELS = 1_000
"""Maximum levels of a variable; a person reads the table. Not measured."""
_MOST_TUPLES = 100_000
"""Maximum tuples, repetitions included: each is a folder, and a campaign of so many can be read. Not measured."""
_DEEPEST = 8
"""Maximum nesting depth of tables; a scenario has three levels."""
_SEPARATOR = "\0"


class Tuple(NamedTuple):
    """One combination of levels, which is measured once."""

    number: int
    """Position in the product, from 1; the last variable varies fastest."""
    repetition: int
    """Number of the repetition, from 1."""
    levels: dict[str, str]

    @property
    def name(self) -> str:
        """The name of its session, which neither seed nor order change."""
        return f"{self.number:06d}-{self.repetition}"


@dataclass(frozen=True, slots=True)
class Product:
    """A plan whose tuples are all combinations of levels, each measured the same number of times."""

    variables: dict[str, tuple[str, ...]]
    """Levels of each variable as text, by its name."""
    effects: dict[str, dict[str, Document]] = field(default_factory=dict)
    """Settings that a level stands for, by variable and level; `link.…` are keys of the link's scenario."""
    settings: Document = field(default_factory=dict)
    """Settings of all tuples."""
    repetitions: int = 1
    seed: int = 1
    """Random seed of the order; over a modelled link also that of the radio in the first repetition."""

    @property
    def count(self) -> int:
        """Tuples, repetitions included."""
        return self.repetitions * math.prod(map(len, self.variables.values()))

    def by_hand(self, *, is_modelled: bool) -> list[str]:
        """Return the variables that a person must change by hand, because no setting changes them.

        Parameters
        ----------
        is_modelled : bool
            Whether there is a modelled link, which levels can change.
        """
        return [name for name in self.variables if not self._is_set(name, is_modelled=is_modelled)]

    def _is_set(self, name: str, *, is_modelled: bool) -> bool:
        if name in SETTINGS or "." in name:
            return True
        effects = self.effects.get(name, {})
        keys = {key for each in effects.values() for key in each}
        complete = all(effects.get(level) for level in self.variables[name])
        return complete and (is_modelled or not any("." in key for key in keys))

    def ordered(self, blocks: list[str]) -> list[Tuple]:
        """Return the tuples in the order in which they are measured: by repetition, then by block.

        Parameters
        ----------
        blocks : list of str
            Variables that are hard to change: the tuples that share their levels stay together. The order of
            the blocks is random, and so is that within each.

        Notes
        -----
        The random order comes from the SHA-256 of seed, repetition and levels: every version and machine
        gives the same order, and tuples that are already measured do not change the order of the others.
        """
        return sorted(self._tuples(), key=lambda each: self._place(each, blocks))

    def _tuples(self) -> Iterator[Tuple]:
        for number, levels in enumerate(product(*self.variables.values()), start=1):
            for repetition in range(1, self.repetitions + 1):
                yield Tuple(number, repetition, dict(zip(self.variables, levels, strict=True)))

    def _place(self, each: Tuple, blocks: list[str]) -> tuple[int, bytes, bytes]:
        block = [each.levels[name] for name in blocks]
        complete = list(each.levels.values())
        return each.repetition, self._draw(each.repetition, block), self._draw(each.repetition, complete)

    def _draw(self, repetition: int, words: list[str]) -> bytes:
        text = _SEPARATOR.join((str(self.seed), str(repetition), *words))
        return hashlib.sha256(text.encode()).digest()

    def settings_of(self, each: Tuple) -> Document:
        """Return the settings of a tuple: the common settings, changed by the settings of its levels."""
        settings = dict(self.settings)
        for name, level in each.levels.items():
            if name in SETTINGS or "." in name:
                settings[name] = _converted(name, level)
            settings |= self.effects.get(name, {}).get(level, {})
        return settings

    def plan_of(self, each: Tuple) -> MeasurementPlan:
        """Return the measurement plan of a tuple; its levels become labels.

        Raises
        ------
        InputError
            If a setting is missing, or impossible.
        """
        stated = self.settings_of(each)
        lacking = [name for name in ("protocol", "vary", "size") if name not in stated]
        if "server" not in stated and "over" not in stated:
            lacking.append("server")
        if lacking:
            raise InputError(
                f"the plan has no value for {', '.join(lacking)}; add the value to the table, or give the option"
            )
        own = {name: stated[name] for name in ("sessions", "other_bytes", "connection") if name in stated}
        experiment = Experiment(stated["vary"], (stated["size"],), **own)
        labels = each.levels | ({REPETITION: str(each.repetition)} if self.repetitions > 1 else {})
        limit = {"timeout_s": float(stated["timeout_s"])} if "timeout_s" in stated else {}
        over = stated.get("over")
        server = "" if over else stated["server"]
        return MeasurementPlan(stated["protocol"], server, (experiment,), labels=labels, over=over, **limit)

    def document(self) -> Document:
        """Return the plan as a JSON object; the server is not part of it, its address may change."""
        return {
            "seed": self.seed, "repetitions": self.repetitions,
            "settings": {key: value for key, value in self.settings.items() if key != "server"},
            "variables": {name: list(levels) for name, levels in self.variables.items()},
            "effects": self.effects,
        }  # fmt: skip


def parse_product(text: str, *, path: str, more: Mapping[str, object] | None = None) -> Product:
    """Return the plan that a table holds.

    Parameters
    ----------
    text : str
        TOML if `path` ends in .toml, else CSV.
    path : str
        Path of the file, for messages and to determine the format.
    more : mapping, optional
        Settings that replace those of the table; None stands for one that is not stated.

    Raises
    ------
    FormatError
        If the text is not a valid table of variables.
    """
    read = _of_toml if path.lower().endswith(".toml") else _of_csv
    document = read(text, path)
    settings = document["settings"] | {key: value for key, value in (more or {}).items() if value is not None}
    own = {key: settings.pop(key) for key in _OF_THE_PLAN if key in settings}
    made = Product(document["variables"], document["effects"], settings, **own)
    _check(made, path)
    return made


def _of_csv(text: str, path: str) -> Document:
    try:
        names, *rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if any(row)]
    except (ValueError, csv.Error) as error:
        raise FormatError(
            path, "the file is not a table of variables; write the names in the first line and the levels below"
        ) from error
    variables: dict[str, tuple[str, ...]] = {}
    for line, row in enumerate(rows, start=2):
        if len(row) > len(names):
            raise FormatError(path, f"the line has {len(row)} cells, but there are {len(names)} variables", line=line)
    for at, name in enumerate(names):
        if name.strip() in variables:
            raise FormatError(path, f'the variable "{printable(name.strip())}" is named twice; name each variable once')
        cells = (row[at].strip() if at < len(row) else "" for row in rows)
        variables[name.strip()] = tuple(cell for cell in cells if cell)
    return {"variables": variables, "effects": {}, "settings": {}}


def _of_toml(text: str, path: str) -> Document:
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise FormatError(path, f"the file is not valid TOML: {error}") from error
    variables, levels = document.pop("variables", None), document.pop("levels", {})
    if not isinstance(variables, dict) or not all(isinstance(each, list) for each in variables.values()):
        raise FormatError(path, "the table [variables] is missing, or a variable is not a list of levels")
    if not isinstance(levels, dict) or not all(isinstance(each, dict) for each in levels.values()):
        raise FormatError(path, "[levels.VARIABLE] must be a TOML table with one line per level: name = <value>")
    effects = {name: {level: _flat(values, path) for level, values in each.items()} for name, each in levels.items()}
    named = {name: tuple(_level(each, path) for each in values) for name, values in variables.items()}
    return {"variables": named, "effects": effects, "settings": _flat(document, path)}


def _level(value: object, path: str) -> str:
    if isinstance(value, str | int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    raise FormatError(path, f"the level {printable(value)[:60]!r} must be text or a number")


def _flat(values: object, path: str, before: str = "") -> Document:
    """Return nested tables as one: `link.cell.busy_percent`."""
    if not isinstance(values, dict) or before.count(".") > _DEEPEST:
        raise FormatError(path, f"the settings of a level are {printable(values)[:60]!r}; write a table of settings")
    flat: Document = {}
    for key, value in values.items():
        flat |= _flat(value, path, f"{before}{key}.") if isinstance(value, dict) else {before + key: value}
    return flat


def _converted(name: str, level: str) -> object:
    """Return a level as the value of a setting; of a key of the scenario as TOML would read it."""
    kind = SETTINGS.get(name)
    try:
        if kind is not None:
            return kind(level)
        return tomllib.loads(f"value = {level}")["value"]
    except (ValueError, RecursionError) as error:
        if kind is None:
            return level
        raise InputError(
            f"{name}: each level must be of the type {kind.__name__}, but one level is {printable(level)[:60]!r}"
        ) from error


def _check(made: Product, path: str) -> None:
    if not made.variables:
        raise FormatError(path, "no variable is defined; define at least one")
    for name, levels in made.variables.items():
        shown = printable(name)[:60]
        if not is_label(name) or name in _RESERVED or name in _OF_THE_PLAN:
            raise FormatError(path, f"{shown!r} is not allowed as the name of a variable; choose another name")
        if not levels or len(levels) > _MOST_LEVELS or len(set(levels)) < len(levels):
            raise FormatError(path, f'the variable "{shown}" must have 1 to {_MOST_LEVELS:,} levels, each only once')
        for level in made.effects.get(name, {}).keys() - set(levels):
            raise FormatError(
                path, f"[levels.{shown}] has {printable(level)[:60]!r}, which is not a level of this variable"
            )
        for level in levels:
            _converted(name, level)
    for name in made.effects.keys() - made.variables.keys():
        raise FormatError(path, f"[levels.{printable(name)[:60]}] does not belong to a variable")
    for values in (made.settings, *(each for level in made.effects.values() for each in level.values())):
        _check_settings(values, path)
    if made.seed < 0 or made.repetitions < 1 or made.count > _MOST_TUPLES:
        raise FormatError(
            path,
            f"the plan has {made.count:,} tuples; the number must be 1 to {_MOST_TUPLES:,} (and "
            '"seed" and "repetitions" must be valid)',
        )


def _check_settings(values: Document, path: str) -> None:
    for key, value in values.items():
        kind = SETTINGS.get(key)
        if kind is None and "." not in key:
            known = ", ".join(SETTINGS)
            raise FormatError(path, f"unknown key {printable(key)[:60]!r}; the valid keys are {known}, and link.…")
        fits = (int, float) if kind is float else kind or (str, int, float)
        if not isinstance(value, fits) or (isinstance(value, bool) and kind is not None):
            raise FormatError(path, f'the value of "{key}" has the wrong type: {printable(value)[:60]!r}')


# The folder of a plan of many tuples: the plan itself, a session for each tuple, and which are done.
#
# DIR/plan.json     the plan, written before the first tuple DIR/done.jsonl    a line for each tuple that is
# measured whole, on the disk before the next one begins DIR/sessions/     a session folder for each tuple and
# repetition


PLAN, DONE, SESSIONS = "plan.json", "done.jsonl", "sessions"
_SCHEMA = "multitracer.plan/1"
_MAX_BYTES = 64 << 20
"""Maximum size of either file; 100,000 tuples take 10 MB."""
_MAY_GROW = "repetitions"


class MeasuredTuples:
    """The list of measured tuples of a plan.

    Parameters
    ----------
    folder : Path
        Folder of the plan; it must exist.
    plan : Product

    Attributes
    ----------
    done : dict of str to (int, int)
        Numbers of transactions and of dropped transactions of each measured tuple, by name.

    Raises
    ------
    InputError
        If the folder belongs to another plan, or another process measures into it.
    """

    def __init__(self, folder: Path, plan: Product) -> None:
        self._folder = folder
        self._plan = plan
        self.done: dict[str, tuple[int, int]] = {}
        path = folder / DONE
        try:
            self._stream = path.open("a+b")
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._stream.close()
            raise InputError(f"{path}: another run is writing to this file; wait until it ends") from error
        except OSError as error:
            raise InputError(f"{path}: cannot open this file: {error.strerror}; name another folder") from error
        try:
            self._keep_plan()
            self._recover()
        except BaseException:
            self._stream.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    @property
    def transactions(self) -> tuple[int, int]:
        """Number of all transactions and number of dropped ones, summed over the measured combinations of settings."""
        return sum(each[0] for each in self.done.values()), sum(each[1] for each in self.done.values())

    def session(self, name: str) -> Path:
        """Return the session folder of a tuple."""
        return self._folder / SESSIONS / name

    def add(self, name: str, transactions: int, dropped: int) -> None:
        """Record that a tuple was measured completely."""
        line = json.dumps({"tuple": name, "transactions": transactions, "dropped": dropped})
        self._stream.write(line.encode() + b"\n")
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self.done[name] = (transactions, dropped)

    def _keep_plan(self) -> None:
        path, plan = self._folder / PLAN, self._plan.document()
        if path.exists():
            kept = kept_plan(self._folder)
            if [key for key in plan if key != _MAY_GROW and kept.get(key) != plan[key]]:
                raise InputError(
                    f"{path}: this folder belongs to another plan; name another folder, or give "
                    "the same table and options"
                )
            if int(kept[_MAY_GROW]) >= plan[_MAY_GROW]:
                return
        temporary = path.with_suffix(".tmp")
        with temporary.open("w", encoding="utf-8") as stream:
            json.dump({"schema": _SCHEMA, **plan}, stream, indent=1)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)

    def _recover(self) -> None:
        self._stream.seek(0)
        text = self._stream.read(_MAX_BYTES)
        complete = text[: text.rfind(b"\n") + 1]
        if complete != text:  # a crash cut the last line
            self._stream.truncate(len(complete))
        for number, line in enumerate(complete.splitlines(), start=1):
            try:
                each = json.loads(line)
                self.done[str(each["tuple"])] = (int(each["transactions"]), int(each["dropped"]))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise FormatError(
                    self._folder / DONE, "this line is damaged; name another folder", line=number
                ) from error


def kept_plan(folder: Path) -> Document:
    """Return the plan in a folder.

    Raises
    ------
    FormatError
        If the file of the plan is damaged.
    """
    path = folder / PLAN
    try:
        with path.open("rb") as stream:
            document = json.loads(stream.read(_MAX_BYTES))
        if document["schema"] != _SCHEMA or int(document[_MAY_GROW]) < 1:
            raise ValueError(document["schema"])  # noqa: TRY301
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(path, "this file is not a plan of measurements; name another folder") from error
    plan: Document = document
    return plan
