"""transactions.csv: one line for each finished transaction, on disk before the next transaction begins.

A line that a crash cut is removed when the file is opened again; what is before it is never touched.
"""

from __future__ import annotations

import csv
import fcntl
import io
import os
from typing import TYPE_CHECKING

from multitracer.errors import FormatError, InputError
from multitracer.transactions import LABEL, RADIO_COLUMNS, TRANSACTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from multitracer.measure.outcome import Outcome
    from multitracer.measure.plan import Plan, Transaction

FILE = "transactions.csv"


class Journal:
    """The file of one session folder.

    Parameters
    ----------
    folder : Path
        The session folder.
    plan : Plan
        What is measured; its labels are columns.
    lasting : bool
        Whether a line has to survive a power failure: what virtual time computed can be computed again.

    Raises
    ------
    FormatError
        If the file is there and is not one of this plan.
    """

    def __init__(self, folder: Path, plan: Plan, *, lasting: bool = True) -> None:
        self._plan = plan
        self._lasting = lasting
        self._columns = [*TRANSACTIONS.names[:-1], *(LABEL + name for name in plan.label_names)]
        self.path = folder / FILE
        self.outcomes: dict[int, str] = {}
        """What became of the transactions that are done, by their numbers."""
        self.rtts_s: dict[int, float] = {}
        try:
            self._stream = self.path.open("a+b")
        except OSError as error:
            raise InputError(f"{self.path}: {error.strerror}; name another folder") from error
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._recover()
        except BlockingIOError as error:
            self.close()
            raise InputError(f"{self.path}: another run is writing it; wait for its end") from error
        except FormatError:
            self.close()
            raise

    @property
    def dropped(self) -> int:
        """How many transactions were dropped."""
        return sum(outcome != "ok" for outcome in self.outcomes.values())

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def add(self, transaction: Transaction, outcome: Outcome) -> None:
        """Write a finished transaction to the disk."""
        self._write(self._row(transaction, outcome))
        self._note(transaction.number, outcome.outcome, outcome.seconds(outcome.rtt_ns))

    def _note(self, number: int, outcome: str, rtt_s: float | None) -> None:
        self.outcomes[number] = outcome
        if outcome == "ok" and rtt_s is not None:
            self.rtts_s[number] = rtt_s

    def _recover(self) -> None:
        self._stream.seek(0)
        text = self._stream.read()
        whole = text[: text.rfind(b"\n") + 1]
        if whole != text:
            self._stream.truncate(len(whole))
        if not whole:
            self._write(self._columns)
            return
        header, *rows = csv.reader(io.StringIO(whole.decode("utf-8", "replace")))
        if header != self._columns:
            raise FormatError(self.path, "is not of this plan; give another folder")
        for line, row in enumerate(rows, start=2):
            self._recall(row, line)

    def _recall(self, row: list[str], line: int) -> None:
        values = dict(zip(self._columns, row, strict=False))
        try:
            rtt_s = float(values["rtt_s"]) if values["rtt_s"] else None
            self._note(int(values["transaction"]), values["outcome"], rtt_s)
        except (KeyError, ValueError) as error:
            raise FormatError(self.path, "a line is damaged; give another folder", line=line) from error

    def _write(self, row: Sequence[object]) -> None:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerow(["" if value is None else value for value in row])
        self._stream.write(out.getvalue().encode())
        self._stream.flush()
        if self._lasting:
            os.fsync(self._stream.fileno())

    def _row(self, each: Transaction, outcome: Outcome) -> list[object]:
        plan = self._plan
        labels = [each.labels.get(name) for name in plan.label_names]
        return [
            each.number, plan.protocol, each.vary, each.size_bytes, each.repetition, each.request_bytes,
            each.reply_bytes, each.connection, plan.timeout_s, outcome.start_ns,
            *map(outcome.seconds, (outcome.connect_ns, outcome.rtt_ns, outcome.server_rtt_ns)),
            outcome.retransmitted_client, outcome.retransmitted_server, outcome.bytes_up, outcome.bytes_down,
            outcome.efficiency(each),
            *map(outcome.seconds, (outcome.clock_offset_ns, outcome.clock_uncertainty_ns)),
            outcome.outcome, outcome.why, *(None for _ in RADIO_COLUMNS), *labels,
        ]  # fmt: skip
