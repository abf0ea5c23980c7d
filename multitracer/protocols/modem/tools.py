"""Output of `mmcli --signal-get`, `ubus call modemmanager dump`, `uqmi`, `mbimcli`, `qmicli`, and of routers.

Source: cli/mmcli-modem-signal.c of ModemManager, qmicli-nas.c of libqmi, mbimcli-basic-connect.c of libmbim, uqmi's
commands-nas.c; 3ginfo.sh of luci-app-3ginfo-lite (OpenWrt); `gsmctl -q` of RUTOS, as scripts on such routers parse it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from multitracer.protocols.modem.grammar import AnswerError, reported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.protocols.modem.grammar import Reading


_SECTIONS = {
    "gsm": "GSM", "umts": "UMTS", "wcdma": "UMTS", "tdma": "GSM", "td-scdma": "UMTS", "lte": "LTE",
    "5g": "NR", "5gnr": "NR", "cdma1x": "CDMA", "cdma": "CDMA", "evdo": "EVDO", "hdr": "EVDO",
}  # fmt: skip
_COLUMNS = {
    "rssi": "rssi_dbm", "signal": "rssi_dbm", "rsrp": "rsrp_dbm", "rsrq": "rsrq_db", "snr": "sinr_db",
    "sinr": "sinr_db", "rscp": "rscp_dbm", "ecio": "ecio_db",
}  # fmt: skip
_RANGES = {"rssi_dbm": (-150, 0), "rsrp_dbm": (-160, 0), "rscp_dbm": (-130, 0)}
_MODES = {
    "LTE": "LTE", "LTE_A": "LTE", "LTE-A": "LTE", "UMTS": "UMTS", "HSPA": "HSPA", "HSPA+": "HSPA",
    "HSDPA": "HSPA", "HSUPA": "HSPA", "EDGE": "EDGE", "GPRS": "GSM", "GSM": "GSM",
}  # fmt: skip
"""Technology by the first word of `mode` of 3ginfo.

5G NSA is absent, because its levels may belong to either cell."""
_CELL = {"pci": "physical_cell_id", "earfcn": "channel", "cid_dec": "cell_id", "tac_dec": "area_code"}
_NUMBER = re.compile(r"[1-9]\d{0,10}")
_MOST = 1e6
"""Largest number that may be a level in some unit."""
_MOST_MODEMS = 16  # bounds the rows of one output: no host has so many
_MMCLI_KEY = re.compile(r"modem\.signal\.([a-z0-9]{2,8})\.([a-z-]{2,12})\s*:\s*(\S{1,16})")
_MMCLI_ROW = re.compile(r"\s*([A-Za-z0-9]{0,12})\s*\|\s*([a-z/ -]{2,16}):\s*(.{1,24})")
_MBIM_VALUE = re.compile(r"\s*(RSSI|Error rate) \[[^\]]{1,12}\]: '(\d{1,3})'")
_GSMCTL = re.compile(r"\s*(RSSI|RSRP|RSRQ|SINR):\s*(-?\d{1,3}(?:\.\d{1,2})?)(?:\s*dBm?)?\s*")
_QMI_SECTION = re.compile(r"([A-Za-z0-9-]{2,8}):")
_QMI_VALUE = re.compile(r"\s+([A-Za-z]{2,5})(?: \(\d+\))?: '(-?\d{1,4}(?:\.\d{1,3})?) dBm?'")


def mmcli(document: object) -> list[Reading]:
    """Decode the parsed JSON of `mmcli -m N --signal-get -J`, or of `ubus call modemmanager dump`.

    The latter has a list of modems, which are numbered if there are several; `--` is a missing value.

    Raises
    ------
    AnswerError
        If the document has another structure.
    """
    modem = document.get("modem") if isinstance(document, dict) else None
    modems = modem if isinstance(modem, list) else [modem]
    signals = [each.get("signal") for each in modems[:_MOST_MODEMS] if isinstance(each, dict)]
    readings: list[Reading] = []
    for number, signal in enumerate(signals):
        if isinstance(signal, dict):
            own = {"modem": number} if len(signals) > 1 else {}
            readings += [reading | own for reading in _sections(signal)]
    if not any(isinstance(signal, dict) for signal in signals):
        raise AnswerError('the key "modem.signal" is missing; give the output of `mmcli -m N --signal-get -J`')
    return readings or [{}]


def mmcli_text(lines: list[str]) -> list[Reading]:
    """Decode `mmcli -m N --signal-get` as it prints by default, or with `-K`.

    Raises
    ------
    AnswerError
        If there is no section of a known technology.
    """
    signal: dict[str, dict[str, str]] = {}
    section = ""
    for line in lines:
        if match := _MMCLI_KEY.fullmatch(line.strip()):
            signal.setdefault(match[1], {})[match[2]] = match[3]
        elif match := _MMCLI_ROW.fullmatch(line.rstrip()):
            section = match[1].strip().lower() or section
            value = re.sub(r"\s*dBm?$", "", match[3])
            signal.setdefault(section, {})[match[2].strip().replace("s/n", "snr")] = value
    if not signal.keys() & _SECTIONS.keys():
        raise AnswerError("the output contains no section of a known technology; set `mmcli --signal-setup`")
    return _sections(signal) or [{}]


def _sections(signal: Mapping[str, object]) -> list[Reading]:
    readings = [_levels(_SECTIONS[name], pairs) for name, pairs in signal.items() if name in _SECTIONS]
    known = [reading for reading in readings if len(reading) > 1]
    return sorted(known, key=lambda reading: reading["rat"] == "NR")  # the anchor first, as others print it


def uqmi(document: object) -> list[Reading]:
    """Decode the parsed JSON of `uqmi --get-signal-info`: an object, or a list of them.

    Raises
    ------
    AnswerError
        If the document has another structure.
    """
    parts = document if isinstance(document, list) else [document]
    readings = [
        _levels(_SECTIONS[part["type"]], part)
        for part in parts[:16]
        if isinstance(part, dict) and isinstance(part.get("type"), str) and part["type"] in _SECTIONS
    ]
    if not readings:
        raise AnswerError("the output contains no signal of a known type; give the output of `uqmi --get-signal-info`")
    return readings


def _levels(rat: str, pairs: object) -> Reading:
    if not isinstance(pairs, dict):
        return {"rat": rat}
    known = {_COLUMNS[name]: _real(value) for name, value in pairs.items() if name in _COLUMNS}
    return {"rat": rat, **reported(**{name: _possible(name, value) for name, value in known.items()})}


def _possible(column: str, value: float | None) -> float | None:
    minimum, most = _RANGES.get(column, (-60, 60))
    return value if value is not None and minimum <= value <= most else None


def _real(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if abs(value) <= _MOST else None
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,4}(\.\d{1,4})?", value):
        return float(value)
    return None


def qmicli(lines: list[str]) -> list[Reading]:
    """Decode `qmicli --nas-get-signal-info`: a section for each technology, one value per line.

    Raises
    ------
    AnswerError
        If there is no section.
    """
    sections: list[Reading] = []
    for line in lines:
        if (match := _QMI_SECTION.fullmatch(line.strip())) and match[1].lower() in _SECTIONS:
            sections.append({"rat": _SECTIONS[match[1].lower()]})
        elif (value := _QMI_VALUE.fullmatch(line.rstrip())) and sections and value[1].lower() in _COLUMNS:
            column = _COLUMNS[value[1].lower()]
            sections[-1] |= reported(**{column: _possible(column, float(value[2]))})
    if not sections:
        raise AnswerError(
            "the output contains no section of a known technology; give the output of `qmicli --nas-get-signal-info`"
        )
    return sections


def mbimcli(lines: list[str]) -> list[Reading]:
    """Decode `mbimcli --query-signal-state`: indexes of +CSQ.

    Raises
    ------
    AnswerError
        If there is no signal strength.
    """
    values = {m[1]: int(m[2]) for line in lines if (m := _MBIM_VALUE.fullmatch(line.rstrip()))}
    if "RSSI" not in values:
        raise AnswerError("the output contains no RSSI; give the output of `mbimcli --query-signal-state`")
    index, quality = values["RSSI"], values.get("Error rate")
    return [
        reported(
            rssi_dbm=2.0 * index - 113 if index <= _LAST_RSSI else None,
            rxqual=quality if quality is not None and quality <= _LAST_RXQUAL else None,
        )
    ]


_LAST_RSSI = 31  # TS 27.007, 8.5; 99 is unknown
_LAST_RXQUAL = 7  # the same


def info3g(document: object) -> list[Reading]:
    """Decode the parsed JSON of 3ginfo.sh, which writes 0 for an unknown level.

    Raises
    ------
    AnswerError
        If the document has another structure.
    """
    if not isinstance(document, dict) or not {"conn_time", "mode", "rsrp"} <= document.keys():
        raise AnswerError('the keys "mode" and "rsrp" are missing; give the output of 3ginfo.sh')
    known = {column: _real(document.get(name)) for name, column in _COLUMNS.items() if name not in ("snr", "signal")}
    levels = {column: _possible(column, value) for column, value in known.items() if value}
    cell = {column: _NUMBER.fullmatch(str(document.get(name))) for name, column in _CELL.items()}
    mode = str(document["mode"])[:64].split(" ")[0].split("|")[0]
    return [
        reported(rat=_MODES.get(mode), **levels) | {column: int(match[0]) for column, match in cell.items() if match}
    ]


def gsmctl(lines: list[str]) -> list[Reading]:
    """Decode `gsmctl -q` of RUTOS: one level per line.

    Raises
    ------
    AnswerError
        If no line is a level.
    """
    pairs = [match.groups() for line in lines if (match := _GSMCTL.fullmatch(line))]
    levels = {_COLUMNS[name.lower()]: float(value) for name, value in pairs}
    if not levels:
        raise AnswerError("the output contains no signal level; give the output of `gsmctl -q`")
    return [reported(**{name: _possible(name, value) for name, value in levels.items()})]


def loads(text: str) -> object:
    """Return the value of a JSON text.

    Raises
    ------
    AnswerError
        If it is not valid JSON, or is nested too deeply.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise AnswerError("the output is not a JSON document; skip this output") from None


# Output of `qmicli --nas-get-cell-location-info`: the serving cell and its neighbours.
# Source: qmicli-nas.c of libqmi, recorded output.


_VALUE = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9 ()-]{1,60}?): '([^']{1,40})'.{0,60}")
_CELL_OF_QMI_CELLS = re.compile(r"\s+Cell \[\d{1,3}\]:")
_FREQUENCY = re.compile(r"\s+(?:Frequency \[\d{1,3}\]|Neighboring \w+ Cell \[\d{1,3}\]):")
_NUMBER_OF_QMI_CELLS = re.compile(r"-?\d{1,10}(?:\.\d{1,3})?")
_SECTIONS_OF_QMI_CELLS = (
    ("Intrafrequency LTE", "LTE"), ("Interfrequency LTE", "LTE"), ("UMTS Info", "UMTS"), ("5GNR", "NR"),
)  # fmt: skip
_COLUMNS_OF_QMI_CELLS = {
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
        rat = next((rat for title, rat in _SECTIONS_OF_QMI_CELLS if line.startswith(title)), "")
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
        elif _CELL_OF_QMI_CELLS.fullmatch(line):
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
    for name, (column, minimum, most) in _COLUMNS_OF_QMI_CELLS.items():
        match = _NUMBER_OF_QMI_CELLS.match(values.get(name, ""))
        if match and minimum <= float(match[0]) <= most:
            known[column] = float(match[0]) if column.endswith(("_dbm", "_db")) else int(float(match[0]))
    return known | reported(plmn=plmn if plmn.isdigit() and len(plmn) in (5, 6) else "")
