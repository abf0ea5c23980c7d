"""The segments behind the sweep of experiments_sweep.md, with the verdict on each that was sent again.

`python -m docs.papers.programs.experiment_segments` runs some transactions at small and at the largest cap of
the Palm's timeout, captures them at both ends, and writes data/experiments/segments.csv.gz: every segment
with data that the Palm sent within a transaction, when it arrived, and what `multitracer` says of it if it is
a copy; and every acknowledgment when it reached the Palm.
"""

from __future__ import annotations

import csv
import gzip
import io
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import multitracer as mt
from docs.papers.programs.experiment_sweep import DATA, LOSS, SEED, Cell
from multitracer.lab.rig.virtual import run_virtual
from multitracer.measure.plan import Experiment
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

FILE = DATA / "segments.csv.gz"
SIZES = (2048, 4096)
"""Where the authors saw the step."""
SESSIONS = 10
"""Of each size: a thousand segments a cell, which is enough to count what most of them are."""
CELLS = tuple(
    Cell("request", "palm", cap, busy, LOSS) for busy, caps in ((20, (1, 64)), (60, (1, 2, 64))) for cap in caps
)
"""Where little is amiss, and where it collapses; with the largest cap nothing else is different."""
_SEQUENCE_NUMBERS = 1 << 32


class Segment(NamedTuple):
    """A line of the file; times in s since the transaction began, bytes since its first one."""

    cap_s: int
    busy_percent: int
    size_bytes: int
    transaction: int
    rtt_s: str
    """Of the transaction; empty if it was dropped."""
    time_s: float
    """When the Palm sent it; of an acknowledgment when the Palm received it."""
    arrived_s: str
    """When it arrived; empty if it did not, and of an acknowledgment."""
    begin: int
    """First byte; of an acknowledgment the byte that is expected next."""
    length: int
    """Of the data; 0 is an acknowledgment."""
    cause: str
    """Why it was sent again; empty if it was not."""
    necessity: str


class _Captured:
    """What the Palm's capture holds, and when the other end's saw the same.

    Parameters
    ----------
    session : Session
        A run with captures at both ends.
    """

    def __init__(self, session: mt.Session) -> None:
        packets, verdicts = session.segments, session.verdicts()
        self.transactions = _records(session.transactions)
        self._arrived = {_key(each): each["time_ns"].value for each in _with_data(packets, "fixed")}
        self._packets = _records(packets[packets["host"] == "mobile"])
        judged = _records(verdicts[verdicts["host"] == "mobile"])
        self._verdicts = {each["frame"]: (each["cause"], each["necessity"]) for each in judged}
        connections = session.connections
        self._forward = set(connections[connections["host"] == "mobile"]["forward_flow"])

    def segments(self, cell: Cell, transaction: dict[str, Any]) -> Iterator[Segment]:
        """Yield the segments of a transaction's connection and the acknowledgments, in order of time."""
        ended = transaction["outcome"] == "ok"
        begin_ns = transaction["start_ns"].value
        lasted_s = transaction["rtt_s"] if ended else cell.patience_s
        within = [p for p in self._packets if 0 <= p["time_ns"].value - begin_ns <= lasted_s * NS_PER_S]
        sent = [p for p in within if p["flow"] in self._forward and p["payload_bytes"]]
        flow = max(p["flow"] for p in sent)
        first = next(p["seq"] for p in sent if p["flow"] == flow and p["frame"] not in self._verdicts)
        about = (
            cell.cap_s,
            cell.busy_percent,
            transaction["size_bytes"],
            transaction["transaction"],
            f"{lasted_s:.2f}" if ended else "",
        )
        for packet in within:
            time_s = _seconds(packet["time_ns"].value - begin_ns)
            if packet["flow"] == flow + 1:
                yield Segment(*about, time_s, "", _after(first, packet["ack"]), 0, "", "")
            elif packet["flow"] == flow and packet["payload_bytes"]:
                arrived_ns = self._arrived.get(_key(packet))
                arrived = "" if arrived_ns is None else f"{_seconds(arrived_ns - begin_ns)}"
                verdict = self._verdicts.get(packet["frame"], ("", ""))
                begin, length = _after(first, packet["seq"]), packet["payload_bytes"]
                yield Segment(*about, time_s, arrived, begin, length, *verdict)


def _with_data(packets: pd.DataFrame, host: str) -> list[dict[str, Any]]:
    chosen = packets[(packets["host"] == host) & (packets["payload_bytes"] > 0)]
    return _records(chosen)


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): value for key, value in line.items()} for line in table.to_dict("records")]


def _key(packet: dict[str, Any]) -> tuple[int, int, int]:
    """Return what tells a packet with data from all others of a run."""
    return packet["ip_id"], packet["seq"], packet["payload_bytes"]


def _after(first: int, seq: int) -> int:
    """Return how far a sequence number is behind the first; before it, negative."""
    half = _SEQUENCE_NUMBERS // 2
    return (int(seq) - int(first) + half) % _SEQUENCE_NUMBERS - half


def _seconds(duration_ns: int) -> float:
    return round(duration_ns / NS_PER_S, 3)


def measured(cell: Cell) -> Iterator[Segment]:
    """Run some transactions of a cell; yield the segments of each."""
    plan = replace(cell.plan, experiments=(Experiment(cell.vary, SIZES, SESSIONS),))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        run_virtual(plan, folder, cell.scenario, seed=SEED, capture=True, progress=lambda *_: None)
        captured = _Captured(mt.open(folder))
        for transaction in captured.transactions:
            yield from captured.segments(cell, transaction)


def make() -> None:
    """Write the file, whose bytes depend on the runs alone."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Segment._fields)
    for cell in CELLS:
        writer.writerows(measured(cell))
    FILE.write_bytes(gzip.compress(text.getvalue().encode(), 9, mtime=0))


def segments() -> list[Segment]:
    """Return all that is in the file."""
    with gzip.open(FILE, "rt", encoding="utf-8", newline="") as stream:
        return [_parsed(line) for line in csv.DictReader(stream)]


def _parsed(line: dict[str, str]) -> Segment:
    return Segment(
        cap_s=int(line["cap_s"]),
        busy_percent=int(line["busy_percent"]),
        size_bytes=int(line["size_bytes"]),
        transaction=int(line["transaction"]),
        rtt_s=line["rtt_s"],
        time_s=float(line["time_s"]),
        arrived_s=line["arrived_s"],
        begin=int(line["begin"]),
        length=int(line["length"]),
        cause=line["cause"],
        necessity=line["necessity"],
    )


if __name__ == "__main__":
    make()
