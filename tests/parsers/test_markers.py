"""markers.jsonl: what the engineer noted is read; a line that is no marker is passed over and counted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import parsers
from multitracer.errors import FormatError
from parsers.markers import FORMAT
from tests.narrowed import tables_of

if TYPE_CHECKING:
    from pathlib import Path

BEGIN_NS = 1_700_000_000_000_000_000


def _written(folder: Path, *records: object) -> str:
    path = folder / "markers.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return str(path)


def _marker(note: object, second: int = 0) -> dict[str, object]:
    return {"kind": "marker", "note": note, "realtime_ns": BEGIN_NS + second * 1_000_000_000}


def test_each_note_is_a_row_at_its_time(tmp_path: Path) -> None:
    fmt, tables = parsers.read(_written(tmp_path, _marker("tunnel"), _marker('"out", <b>again</b>', 3)))
    assert isinstance(tables, dict)
    rows = list(tables["markers"].rows())
    assert fmt is FORMAT
    assert [row["note"] for row in rows] == ["tunnel", '"out", <b>again</b>']
    assert list(tables["markers"]["time_ns"] - BEGIN_NS) == [0, 3_000_000_000]


@pytest.mark.parametrize("broken", [_marker(7), _marker("", 1 << 60), {"kind": "marker"}, ["marker"], "x"])
def test_line_that_is_no_marker_is_passed_over_and_counted(tmp_path: Path, broken: object) -> None:
    tables = tables_of(_written(tmp_path, _marker("first"), broken, _marker("last", 1)))
    assert [row["note"] for row in tables["markers"].rows()] == ["first", "last"]
    assert tables["markers"].provenance["skipped"] == {"no marker": 1}


def test_log_without_a_marker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no line of the file is a marker"):
        parsers.read(_written(tmp_path, {"kind": "marker", "note": "when?"}))
