"""Makes the table of docs/correlate.md about real radios: which variable leads, with which lag, how surely.

`python -m docs.programs.correlate_drives` runs `mt.correlate` on the bundled drive and, where
MULTITRACER_FIXTURES names them, on the three drives of UCC's 5G set, as values and as changes. It keeps the
peaks in docs/correlate/drives.csv and writes the table between the marks of the page. Drives that are absent
keep their rows. Some minutes.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import TYPE_CHECKING

import multitracer as mt

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "correlate.md"
RESULTS = ROOT / "docs" / "correlate" / "drives.csv"
BEGIN = "<!-- drives: made by `python -m docs.programs.correlate_drives` -->"
END = "<!-- end of drives -->"
WITH = ("rssi_dbm", "rsrp_dbm", "rscp_dbm", "rsrq_db", "ecio_db", "sinr_db", "cqi", "speed_mps")
BUNDLED = "rehearsed-drive"
_UCC = "ucc-5g/give/Download"
DRIVES = {
    BUNDLED: "the bundled drive: real TCP over a link that follows the radio",
    f"{_UCC}/Driving/B_2019.12.14_10.16.30.csv": "UCC, in a car, 2019-12-14",
    f"{_UCC}/Driving/B_2019.12.16_11.49.59.csv": "UCC, in a car, 2019-12-16",
    f"{_UCC}/Static/B_2020.01.16_10.43.34.csv": "UCC, at rest, 2020-01-16",
}
"""Session, below sample_traces or the fixtures, and what it is."""
COLUMNS = (
    "drive", "differenced", "y", "x", "lag_s", "lag_low_s", "lag_high_s", "nmi", "p95_permuted",
    "p_corrected", "q_value", "spearman", "n", "step_s", "reason",
)  # fmt: skip
Line = dict[str, str]


def path_of(drive: str) -> Path | None:
    """Return where a drive is; None if it is not here."""
    fixtures = Path(os.environ.get("MULTITRACER_FIXTURES", "/none"))
    folder = ROOT / "sample_traces" if drive == BUNDLED else fixtures
    return folder / drive if (folder / drive).exists() else None


def peaks_of(drive: str, path: Path, *, difference: bool) -> Iterator[Line]:
    """Yield a line for each pair of a drive, in the order of its quantities."""
    result = mt.correlate(path, with_=WITH, difference=difference).peaks
    by_name = {row["x"]: row for row in result.to_dict("records")}
    for name in WITH:
        row = by_name[name] | {"drive": drive, "differenced": int(difference)}
        if " holds no value of " not in row["reason"]:
            yield {column: _cell(row[column]) for column in COLUMNS}


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.4g}"  # noqa: PLR0124  # NaN
    return str(value)


def kept() -> list[Line]:
    """Return the lines of the file of results."""
    with RESULTS.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def made() -> list[Line]:
    """Return the lines of today, of drives that are absent those that were kept."""
    lines = []
    for drive in DRIVES:
        path = path_of(drive)
        if path is None:
            lines += [line for line in kept() if line["drive"] == drive]
            continue
        for difference in (False, True):
            lines += peaks_of(drive, path, difference=difference)
    return lines


_HEAD = (
    "| with | lag | may be | NMI | by chance | p | q | rank corr. | points |\n|---|---|---|---|---|---|---|---|---|\n"
)


def section(lines: list[Line]) -> str:
    """Return the table."""
    parts = []
    for drive, words in DRIVES.items():
        for differenced, kind in (("0", ""), ("1", ", changes")):
            own = [line for line in lines if (line["drive"], line["differenced"]) == (drive, differenced)]
            if own:
                rows = "".join(map(_row, own))
                parts.append(f"**{words}{kind}** (`{own[0]['y']}`, {own[0]['step_s']} s)\n\n{_HEAD}{rows}")
    return "\n".join(parts)


def _row(line: Line) -> str:
    if line["reason"]:
        return f"| `{line['x']}` | | | | | | | | {line['reason']} |\n"
    mark = "**" if float(line["q_value"]) <= 0.05 else ""
    cells = (
        f"{mark}{float(line['lag_s']):+g} s{mark}", f"{line['lag_low_s']} to {line['lag_high_s']}",
        f"{mark}{float(line['nmi']):.3f}{mark}", f"{float(line['p95_permuted']):.3f}", line["p_corrected"],
        line["q_value"], f"{float(line['spearman']):+.2f}", line["n"],
    )  # fmt: skip
    return f"| `{line['x']}` | {' | '.join(cells)} |\n"


def with_section(page: str, lines: list[Line]) -> str:
    """Return a page with the table between its marks."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n\n{section(lines)}\n{END}{after}"


def main() -> None:
    """Write the results and the page."""
    lines = made()
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    PAGE.write_text(with_section(PAGE.read_text("utf-8"), lines), "utf-8")


if __name__ == "__main__":
    main()
