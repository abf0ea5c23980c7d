"""What a change of a serving cell is while it is followed: two cells, a command, a reply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from multitracer.signalling import Kind, Result
from multitracer.tables import NA, NOT_A_TIME

if TYPE_CHECKING:
    from parsers._signalling.dissection import Dissected
    from parsers._signalling.messages import Named


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell as far as it is known; NA where it is not."""

    rat: str = ""
    physical_cell_id: int = NA
    channel: int = NA
    cell_id: int = NA

    def columns(self, which: str) -> dict[str, object]:
        """Return the columns of one end of a change."""
        return {f"{which}_{name}": getattr(self, name) for name in Cell.__slots__}

    def may_be(self, other: Cell) -> bool:
        """Return whether nothing that is known of both contradicts that they are one cell."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in Cell.__slots__)
        return all(a == b for a, b in pairs if a not in ("", NA) and b not in ("", NA))

    def completed(self, other: Cell) -> Cell:
        """Return this cell with what only the other knows of it."""
        known = {name: getattr(self, name) for name in Cell.__slots__}
        return Cell(**{n: getattr(other, n) if v in ("", NA) else v for n, v in known.items()})


@dataclass(slots=True)
class Change:
    """A change of a serving cell that is under way, or done."""

    kind: Kind
    time_ns: int
    line: int
    source: Cell
    target: Cell
    cause: str = ""
    transaction: int = NA
    trigger: int = NA
    result: Result = Result.UNKNOWN
    complete_ns: int = NOT_A_TIME
    complete_line: int = NA
    evidence: str = "signalling"

    def end(self, at: Seen, result: Result, cause: str = "") -> None:
        """Take note of its end."""
        self.result, self.complete_ns, self.complete_line = result, at.time_ns, at.frame
        self.cause = cause or self.cause

    def row(self, modem: int) -> dict[str, object]:
        """Return the columns of `handovers`."""
        served = self.complete_ns if self.result == Result.COMPLETE else NOT_A_TIME
        return {
            "time_ns": self.time_ns,
            "complete_ns": self.complete_ns,
            "earliest_ns": self.time_ns,
            "latest_ns": served,
            "modem": modem,
            "kind": str(self.kind),
            **self.source.columns("source"),
            **self.target.columns("target"),
            "cause": self.cause,
            "result": str(self.result),
            "evidence": self.evidence,
            "command_line": self.line,
            "complete_line": self.complete_line,
            "trigger_line": self.trigger,
        }


@dataclass(frozen=True, slots=True)
class Seen:
    """A message, when and where it was seen."""

    time_ns: int
    frame: int
    named: Named
    dissected: Dissected

    @property
    def channel(self) -> int:
        """Of the cell that it was exchanged with, NA if that is not known."""
        return self.dissected.numbered.message.channel

    @property
    def cell(self) -> int:
        """Its physical identity."""
        return self.dissected.numbered.message.physical_cell_id

    def first(self, name: str) -> int:
        """Return the first value of a field, NA if it has none."""
        value = self.dissected.first(name)
        return NA if value is None else value
