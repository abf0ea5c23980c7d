"""transactions.csv: what a measurement wrote is what is read."""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import multitracer as mt
import parsers
from multitracer.errors import FormatError
from multitracer.measure.outcome import TransactionOutcome
from multitracer.measure.plan import Experiment, MeasurementPlan
from multitracer.measure.run import MeasureJournal
from multitracer.schemas.transactions import TRANSACTIONS
from parsers.transactions import FORMAT
from tests.narrowed import parsed

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = TRANSACTIONS.names[:-1]
PLAN = MeasurementPlan(
    "tcp",
    "127.0.0.1:1",
    (Experiment("request", (64, 128), 2, labels={"mobility": 'walk, "slow"'}), Experiment("reply", (256,), 1)),
    labels={"location": "downtown"},
)


def _written(folder: Path) -> Path:
    with contextlib.closing(MeasureJournal(folder, PLAN)) as journal:
        for each in PLAN.transactions():
            outcome = TransactionOutcome(1_700_000_000_000_000_000 + each.number, rtt_ns=250_000_001 * each.number)
            outcome.bytes_up = each.request_bytes
            if each.number == 3:
                outcome = TransactionOutcome(1_700_000_000_000_000_003).drop("reply: closed\nby the, server")
            journal.add(each, outcome)
    return journal.path


def test_what_was_written_is_read(tmp_path: Path) -> None:
    fmt, tables = parsers.read(str(_written(tmp_path)))
    assert fmt.name == "transactions"
    assert isinstance(tables, dict)
    rows = list(tables["transactions"].rows())
    assert [row["transaction"] for row in rows] == [1, 2, 3, 4, 5]
    assert [row["size_bytes"] for row in rows] == [64, 64, 128, 128, 256]
    assert [row["request_bytes"] for row in rows] == [64, 64, 128, 128, 64]
    assert [row["rtt_s"] for row in rows] == [0.250000001, 0.500000002, None, 1.000000004, 1.250000005]
    assert [row["bytes_up"] for row in rows] == [64, 64, None, 128, 64]
    assert [row["outcome"] for row in rows] == ["ok", "ok", "dropped", "ok", "ok"]
    assert rows[2]["why"] == "reply: closed by the, server"
    assert rows[0]["labels"] == 'location=downtown;mobility=walk, "slow"'
    assert rows[4]["labels"] == "location=downtown"
    assert rows[0]["start_ns"] == 1_700_000_000_000_000_001


def test_cut_and_damaged_lines_are_counted(tmp_path: Path) -> None:
    lines = _written(tmp_path).read_bytes().splitlines(keepends=True)
    lines[2] = b"two,tcp,request\n"
    lines[-1] = lines[-1][:20]
    table = parsed(FORMAT, b"".join(lines))["transactions"]
    assert table["transaction"].tolist() == [1, 3, 4]
    assert table.provenance["skipped"] == {"no transaction": 1}
    assert "truncated after 20 bytes" in table.provenance["damaged"]


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        *(("efficiency", cell) for cell in ("1e-300", "-0.5", "0", "1.5", "nan", "inf", "1" * 400)),
        ("rtt_s", "1e300"), ("rtt_s", "-inf"), ("timeout_s", "-1"), ("bytes_up", "-1"), ("bytes_down", "9" * 30),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_is_missing_and_said(tmp_path: Path, column: str, cell: str) -> None:
    path = _written(tmp_path)
    header, *lines = path.read_text().splitlines()
    cells = lines[0].split(",")
    cells[header.split(",").index(column)] = cell
    path.write_text("\n".join([header, ",".join(cells), *lines[1:], ""]))
    session = mt.open(tmp_path)
    assert session.transactions[column].isna()[0]
    assert f"{path}: {column}: 1 value is impossible: set to missing" in session.warnings
    assert session.efficiency()["efficiency"].isna().all()


def test_other_header_is_refused() -> None:
    with pytest.raises(FormatError, match="not the header"):
        FORMAT.parse(io.BytesIO(b"transaction,protocol\n1,tcp\n"), path="x.csv")


@given(st.lists(st.tuples(st.integers(0, 23), st.text(max_size=30)), max_size=6))
def test_hostile_cells_give_a_row_or_a_count(changes: list[tuple[int, str]]) -> None:
    header = ",".join(COLUMNS)
    cells = "1 tcp request 64 1 64 64 one 120.0 5 - 0.5 - 0 0 64 64 - - - ok - - - - -"
    row = cells.replace("-", "").split(" ")
    for at, text in changes:
        row[at % len(row)] = text
    data = (header + "\n" + ",".join(row) + "\n").encode("utf-8", "replace")
    table = parsed(FORMAT, data)["transactions"]
    assert len(table) <= 1 or any("\n" in text or "\r" in text for _, text in changes)
    assert not np.isinf(table["rtt_s"]).any()
