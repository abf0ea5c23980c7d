"""The folder of a plan of many tuples: the plan itself, a session for each tuple, and which are done.

DIR/plan.json     the plan, written before the first tuple
DIR/done.jsonl    a line for each tuple that is measured whole, on the disk before the next one begins
DIR/sessions/     a session folder for each tuple and repetition
"""

from __future__ import annotations

import fcntl
import json
import os
from typing import TYPE_CHECKING, Self

from multitracer.errors import FormatError, InputError

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.measure.variables import Product
    from multitracer.tables import Document

PLAN, DONE, SESSIONS = "plan.json", "done.jsonl", "sessions"
_SCHEMA = "multitracer.plan/1"
_MAX_BYTES = 64 << 20
"""Of either file; 100,000 tuples have 10 MB."""
_MAY_GROW = "repetitions"


class Measured:
    """Which tuples of a plan are measured.

    Parameters
    ----------
    folder : Path
        That of the plan; it exists.
    plan : Product

    Attributes
    ----------
    done : dict of str to (int, int)
        Name of a tuple -> its transactions, and how many of them were dropped.

    Raises
    ------
    InputError
        If the folder is another plan's, or another program measures there.
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
            raise InputError(f"{path}: another run is writing it; wait for its end") from error
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}; name another folder") from error
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
        """All transactions of the tuples that are done, and how many of them were dropped."""
        return sum(each[0] for each in self.done.values()), sum(each[1] for each in self.done.values())

    def session(self, name: str) -> Path:
        """Return the session folder of a tuple."""
        return self._folder / SESSIONS / name

    def add(self, name: str, transactions: int, dropped: int) -> None:
        """Note that a tuple is measured whole."""
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
                    f"{path}: is another plan; name another folder, or give the same table and options"
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
        whole = text[: text.rfind(b"\n") + 1]
        if whole != text:  # a crash cut the last line
            self._stream.truncate(len(whole))
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                each = json.loads(line)
                self.done[str(each["tuple"])] = (int(each["transactions"]), int(each["dropped"]))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise FormatError(
                    self._folder / DONE, "a line is damaged; name another folder", line=number
                ) from error


def kept_plan(folder: Path) -> Document:
    """Return the plan that a folder holds.

    Raises
    ------
    FormatError
        If it is damaged.
    """
    path = folder / PLAN
    try:
        with path.open("rb") as stream:
            document = json.loads(stream.read(_MAX_BYTES))
        if document["schema"] != _SCHEMA or int(document[_MAY_GROW]) < 1:
            raise ValueError(document["schema"])  # noqa: TRY301
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(path, "is no plan of measurements; name another folder") from error
    plan: Document = document
    return plan
