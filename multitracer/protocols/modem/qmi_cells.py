"""Output of `qmicli --nas-get-cell-location-info`: the serving cell and its neighbours.

Source: qmicli-nas.c of libqmi, recorded output. An indented line is a name and a value in quotation marks;
the unit is within the marks or after them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from multitracer.protocols.modem.grammar import AnswerError, reported

if TYPE_CHECKING:
    from multitracer.protocols.modem.grammar import Reading

_VALUE = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9 ()-]{1,60}?): '([^']{1,40})'.{0,60}")
_CELL = re.compile(r"\s+Cell \[\d{1,3}\]:")
_FREQUENCY = re.compile(r"\s+(?:Frequency \[\d{1,3}\]|Neighboring \w+ Cell \[\d{1,3}\]):")
_NUMBER = re.compile(r"-?\d{1,10}(?:\.\d{1,3})?")
_SECTIONS = (
    ("Intrafrequency LTE", "LTE"), ("Interfrequency LTE", "LTE"), ("UMTS Info", "UMTS"), ("5GNR", "NR"),
)  # fmt: skip
_COLUMNS = {
    "RSRP": ("rsrp_dbm", -160, -1), "RSRQ": ("rsrq_db", -50, 20), "RSSI": ("rssi_dbm", -150, -1),
    "SNR": ("sinr_db", -50, 60), "RSCP": ("rscp_dbm", -130, -1), "ECIO": ("ecio_db", -50, 10),
    "Physical Cell ID": ("physical_cell_id", 0, 1007),
    "Primary Scrambling Code": ("physical_cell_id", 0, 511),
    "EUTRA Absolute RF Channel Number": ("channel", 0, 262_143),
    "UTRA Absolute RF Channel Number": ("channel", 0, 16_383), "5GNR ARFCN": ("channel", 0, 3_279_165),
    "Tracking Area Code": ("area_code", 1, 0xFFFFFE), "Location Area Code": ("area_code", 1, 0xFFFD),
    "Global Cell ID": ("cell_id", 1, (1 << 36) - 1), "Cell ID": ("cell_id", 1, (1 << 28) - 2),
}  # fmt: skip
"""Column and range of valid values, by the name in the output."""


def cells(lines: list[str]) -> list[Reading]:
    """Decode all sections of LTE, UMTS and NR.

    Raises
    ------
    AnswerError
        If there is no such section.
    """
    sections: list[tuple[str, list[str]]] = []
    for line in lines:
        rat = next((rat for title, rat in _SECTIONS if line.startswith(title)), "")
        if rat == "NR" and sections and sections[-1][0] == "NR":
            sections[-1][1].append(line)  # the channel of NR has a line of its own
        elif rat:
            sections.append((rat, [line]))
        elif sections and line[:1].isspace():
            sections[-1][1].append(line)
        elif line.strip() and sections:
            sections.append(("", []))
    if not any(rat for rat, _ in sections):
        raise AnswerError("the output contains no cell of LTE, UMTS or NR; skip this output")
    return [reading for rat, own in sections if rat for reading in _section(rat, own)]


def _section(rat: str, lines: list[str]) -> list[Reading]:
    """Return the serving cell, whose values are those before the first cell or in the cell of its PCI."""
    head: dict[str, str] = {}
    blocks: list[dict[str, str]] = []
    frequency: dict[str, str] = {}
    target = head
    for line in lines:
        if _FREQUENCY.fullmatch(line):
            target = frequency = {}
        elif _CELL.fullmatch(line):
            target = dict(frequency)
            blocks.append(target)
        elif match := _VALUE.fullmatch(line):
            target[match[1]] = match[2]
    return [reading for reading in _readings(rat, head, blocks) if len(reading) > 2]


def _readings(rat: str, head: dict[str, str], blocks: list[dict[str, str]]) -> list[Reading]:
    serving_pci = head.pop("Serving Cell ID", None)
    own = next((cell for cell in blocks if serving_pci and cell.get("Physical Cell ID") == serving_pci), {})
    channel = {k: v for k, v in head.items() if k == "EUTRA Absolute RF Channel Number"}
    readings = [_reading(rat, "serving", head | own)] if "PLMN" in head or own or rat == "NR" else []
    others = [cell for cell in blocks if cell is not own]
    return readings + [_reading(rat, "neighbour", channel | cell) for cell in others]


def _reading(rat: str, role: str, values: dict[str, str]) -> Reading:
    plmn = values.get("PLMN", "")
    known: Reading = {"role": role, "rat": rat}
    for name, (column, minimum, most) in _COLUMNS.items():
        match = _NUMBER.match(values.get(name, ""))
        if match and minimum <= float(match[0]) <= most:
            known[column] = float(match[0]) if column.endswith(("_dbm", "_db")) else int(float(match[0]))
    return known | reported(plmn=plmn if plmn.isdigit() and len(plmn) in (5, 6) else "")
