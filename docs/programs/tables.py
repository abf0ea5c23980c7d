"""Writes docs/tables.md, which lists every table and column: `python -m docs.programs.tables`."""

from __future__ import annotations

from pathlib import Path

from multitracer.api.frames import schemas

PAGE = Path(__file__).parents[1] / "tables.md"
_HEAD = """# Every table and column

What `multitracer.open(…)` hands out as DataFrames, `export` and `align` write as files, and formats
of other packages may give. `multitracer.columns("segments")` is the same as a DataFrame;
`frame.attrs["columns"]` says of every column of a session's table also which file it came from. The
first column of a session's table is `host`, the capture point or host. Times are int64 nanoseconds
since 1970 inside, datetime64[ns, UTC] in DataFrames; a missing value is NA, never 0.
`python -m docs.programs.tables` makes this page.
"""
_TABLE = "| column | type | unit | meaning |\n|---|---|---|---|\n"


def page() -> str:
    """Return the text of the page."""
    tables = []
    for name, schema in sorted(schemas().items()):
        rows = "".join(f"| `{c.name}` | {c.dtype} | {c.unit} | {_cell(c.doc)} |\n" for c in schema)
        tables.append(f"## {name}\n\n{_TABLE}{rows}")
    return "\n".join([_HEAD, *tables])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
