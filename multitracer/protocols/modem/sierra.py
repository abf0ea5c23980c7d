"""Answers of Sierra Wireless modems: AT!GSTATUS? of LTE modules, and the AirCards for CDPD.

Source: recorded MC7455, EM7590, EM9190 and EM9191 answers; the AT manuals of DART 200, DART 300 and SB300. No
command of a CDPD modem reports the share of time for which its channel was busy.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from multitracer.protocols.modem.grammar import AnswerError, LineFields, fields_of, reported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.protocols.modem.grammar import Reading

_BETWEEN_PAIRS = re.compile(r"\t+|(?<![:\s]) {3,}(?=[A-Z][^:]{0,40}:)")
_NUMBER = re.compile(r"-?\d{1,9}(?:\.\d{1,3})?")
_IN_PARENTHESES = re.compile(r"\((\d{1,12})\)")
_DIAGNOSTIC = {"LTE": "LTE", "WCDMA": "UMTS", "GSM": "GSM", "ENDC": "LTE", "NR5G": "NR", "UMTS": "UMTS"}


def gstatus(lines: Sequence[str]) -> list[Reading]:
    """Decode the lines of AT!GSTATUS?, or of AT!NRINFO? (EM919x), which has the part of NR alone.

    A level without the name of a receiver belongs to the receiver that was named last.
    """
    values: dict[str, str] = {}
    for line in lines:
        left = ""
        for pair in _BETWEEN_PAIRS.split(line):
            key, colon, value = (part.strip() for part in pair.partition(":"))
            if not (colon and value):
                continue
            name = f"{left} {key}" if key == "RSRP (dBm)" and left else key
            left = key.rpartition(" ")[0] if key.endswith("RSSI") else ""
            values.setdefault(name, value)
    if not values:
        raise AnswerError("the answer has no pair of name and value; skip the answer")
    legs = _secondary(values)
    if legs and "System mode" not in values:
        return legs  # of AT!NRINFO? beside an anchor in LTE
    return [_serving(values), *legs]


def _serving(pairs: dict[str, str]) -> Reading:
    """Decode the cell that serves; of NR alone (no anchor in LTE), all its names begin with NR5G."""
    mode = pairs.get("System mode", pairs.get("Connectivity Mode", "")).strip()
    if mode in ("NR5G", "SA"):
        return {"role": "serving", "rat": "NR", **_new_radio(pairs), **_common(pairs)}
    kind = "WCDMA" if mode in ("WCDMA", "UMTS") else mode
    kind = "LTE" if mode == "ENDC" else kind
    rsrp = pairs.get("PCC RxM RSRP (dBm)") or pairs.get("PCC RxM RSRP") or pairs.get("RSRP (dBm)")
    return reported(
        role="serving",
        rat=_DIAGNOSTIC.get(mode, ""),
        band=pairs.get(f"{kind} band", "")[:16],
        channel=_integer(pairs.get("LTE Rx chan") or pairs.get(f"{kind} channel")),
        rssi_dbm=_level(pairs.get("PCC RxM RSSI") or pairs.get("RxM RSSI C0") or pairs.get("RSSI (dBm)")),
        rsrp_dbm=_level(rsrp),
        rsrq_db=_real(pairs.get("RSRQ (dB)")),
        sinr_db=_real(pairs.get("SINR (dB)")),
        tx_power_dbm=_real(pairs.get("Tx Power")),
        area_code=_in_parentheses(pairs.get("TAC") or pairs.get("LAC")),
        cell_id=_in_parentheses(pairs.get("Cell ID")),
    ) | _common(pairs)


def _common(pairs: dict[str, str]) -> Reading:
    return reported(
        state=pairs.get("RRC state", "")[:16],
        modem_clock_s=_real(pairs.get("Current Time") or pairs.get("Bootup Time")),
    )


def _new_radio(pairs: dict[str, str]) -> Reading:
    """Return band, channel, identities and levels of NR; the module writes `---` for a missing value."""
    band = pairs.get("NR5G band", "")
    network = LineFields(pairs.get("NR5G MCC-MNC", "").split("-"))
    return reported(
        band=band[:16] if any(c.isdigit() for c in band) else "",
        channel=_integer(pairs.get("NR5G Rx chan")),
        plmn=network.plmn(0, 1) if len(network) == 2 and pairs["NR5G MCC-MNC"][:1].isdigit() else "",
        area_code=_hexadecimal(pairs.get("NR5G TAC")),
        cell_id=_in_parentheses(pairs.get("NR5G Cell ID")),
        physical_cell_id=_integer(pairs.get("NR5G PCI")),
        tx_power_dbm=_real(pairs.get("NR5G Tx Power")),
        rsrp_dbm=_level(_of_new_radio(pairs, "RSRP")),
        rsrq_db=_real(_of_new_radio(pairs, "RSRQ")),
        sinr_db=_real(_of_new_radio(pairs, "SINR")),
    )


def _of_new_radio(pairs: dict[str, str], name: str) -> str | None:
    """Return a level of the cell, not of one receiver (`NR5G(sub6) Rx0 RSSI`)."""
    return next((value for key, value in pairs.items() if key.startswith(f"NR5G {name}")), None)


def _secondary(pairs: dict[str, str]) -> list[Reading]:
    """Return the NR leg; an empty list if the answer has none."""
    if pairs.get("System mode", pairs.get("Connectivity Mode", "")).strip() in ("NR5G", "SA"):
        return []
    known = _new_radio(pairs)
    return [{"role": "secondary", "rat": "NR", **known}] if known else []


def _level(text: str | None) -> float | None:
    value = _real(text)
    return value if value is not None and -160 <= value < 0 else None


def _hexadecimal(text: str | None) -> int | None:
    match = re.match(r"[0-9A-Fa-f]{1,6}(?![0-9A-Za-z])", text or "")
    return int(match[0], 16) if match else None


def _real(text: str | None) -> float | None:
    match = _NUMBER.match(text or "")
    return float(match[0]) if match else None


def _integer(text: str | None) -> int | None:
    value = _real(text)
    return None if value is None else int(value)


def _in_parentheses(text: str | None) -> int | None:
    match = _IN_PARENTHESES.search(text or "")
    return int(match[1]) if match else None


def wprssi(lines: Sequence[str]) -> list[Reading]:
    """Decode AT+WPRSSI of a CDPD modem: RSSI in dBm, state, registered, channel."""
    fields = _bare(lines)
    state = fields.integer(1)
    channel = fields.integer(3, 1, 1023)
    return [
        reported(
            rat="CDPD",
            rssi_dbm=fields.real(0, -113.0, -30.0),
            state={1: "scanning", 3: "acquired", 4: "sleeping"}.get(state or 0, ""),
            registration=fields.integer(2, 0, 1),
            channel=channel,
        )
    ]


def ws50(lines: Sequence[str]) -> list[Reading]:
    """Decode register WS50: RSSI from 0 to 100, in steps of 0.5 dB from -113 dBm."""
    level = _bare(lines).integer(0, 0, 100)
    return [reported(rat="CDPD", rssi_dbm=None if level is None else level / 2 - 113)]


def s112(lines: Sequence[str]) -> list[Reading]:
    """Decode S-register 112: the block error rate of transmission in %."""
    return [reported(rat="CDPD", bler_pct=_bare(lines).real(0, 0.0, 100.0))]


def mtbusy(fields: LineFields) -> list[Reading]:
    """Decode *MTBUSY of MultiTracer's simulated modem: the share of busy time in %."""
    return [reported(rat="CDPD", cell_busy_pct=fields.real(0, 0.0, 100.0))]


def mtlink(fields: LineFields) -> list[Reading]:
    """Decode *MTLINK of MultiTracer's simulated modem.

    Fields: technology, RSSI in dBm, block errors and busy time in %, channel; Ec/Io in dB if the link has a pilot.
    """
    return [
        reported(
            rat=fields.text(0, most=8),
            rssi_dbm=fields.real(1, -150.0, 0.0),
            bler_pct=fields.real(2, 0.0, 100.0),
            cell_busy_pct=fields.real(3, 0.0, 100.0),
            channel=fields.integer(4, 0),
            registration=fields.integer(5, 0, 1),
            ecio_db=fields.real(6, -60.0, 0.0),
        )
    ]


def _bare(lines: Sequence[str]) -> LineFields:
    """Return the fields of the only line that is a list of numbers.

    The name of the command may precede them.
    """
    for line in lines:
        text = line.rpartition(":")[2]
        if re.fullmatch(r"[-+.,\d\s]{1,80}", text) and any(c.isdigit() for c in text):
            return LineFields([field for field, _ in fields_of(text)])
    raise AnswerError("the line does not contain the expected numbers; skip the line")
