"""What Android's texts state of the radio and the place: `dumpsys telephony.registry`, `dumpsys location`.

Source: frameworks/base of Android, telephony/java/android/telephony/CellSignalStrength*.java, CellIdentity*.java,
SignalStrength.java; location/java/android/location/Location.java (toString).
"""

from __future__ import annotations

import re
from itertools import takewhile
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.protocols.modem.grammar import Reading

_UNAVAILABLE = {2147483647, -2147483648, 9223372036854775807}
"""Numbers that mean a missing value: CellInfo.UNAVAILABLE and UNAVAILABLE_LONG."""
_MOST_CELLS = 256
"""Cells of one statement; a phone lists a few dozen. It bounds memory."""
_STRENGTH = re.compile(r"CellSignalStrength(Lte|Nr|Gsm|Wcdma|Cdma|Tdscdma):")
_CELL = re.compile(r"CellInfo(Lte|Nr|Gsm|Wcdma|Cdma|Tdscdma):")
_REGISTERED = re.compile(r"\bmRegistered ?= ?(?:YES|true)\b")
_PRIMARY = re.compile(r"primary=CellSignalStrength(\w{2,8})")
_PAIR = re.compile(r"\b(\w{1,40}) ?= ?(-?\d+)(?=[\s,}\]]|$)")
_BANDS = re.compile(r"\bmBands ?= ?\[([\d, ]{1,40})\]")
_TEXT = re.compile(r"\b(mAlphaLong|m(?:Data|Voice)?OperatorAlphaLong) ?= ?([^,={}\[\]]{1,64}?)(?= \w+ ?=|[,}]|$)")
_DIGITS = re.compile(r"\b(mMcc|mMnc) ?= ?(\d{2,3})\b")
_STATE = re.compile(r"\bmDataRegState=\d+\((\w{1,24})\)")
_TECHNOLOGY = re.compile(r"\bgetRilDataRadioTechnology=\d+\((\w{1,16})\)")
_OLD_STATE = re.compile(r"(\d) (\d) voice \w+ data \w+ (.{0,300}?) +(\w{1,16}) (\w{1,16}) CSS (?:not )?supported")
_OLD_STATES = ("IN_SERVICE", "OUT_OF_SERVICE", "EMERGENCY_ONLY", "POWER_OFF")
_OLD_OPERATOR = re.compile(r"(?P<voice>.+ \d{5,6}) (?P<long>.{1,64}) (?P=long) (?P<plmn>\d{5,6})")
_LEGACY = re.compile(r"SignalStrength: (-?\d+(?: -?\d+){11,})")
_RAT = {"Lte": "LTE", "Nr": "NR", "Gsm": "GSM", "Wcdma": "UMTS", "Cdma": "CDMA"}
_RIL_RAT = {
    "LTE": "LTE", "LTE_CA": "LTE", "NR": "NR", "NR_SA": "NR", "UMTS": "UMTS", "HSPA": "HSPA", "HSPAP": "HSPA",
    "HSDPA": "HSPA", "HSUPA": "HSPA", "EDGE": "EDGE", "GPRS": "GSM", "GSM": "GSM", "1xRTT": "CDMA",
}  # fmt: skip
"""Technology by the names of ServiceState.rilRadioTechnologyToString."""
_LEVELS: dict[str, dict[str, tuple[str, float]]] = {
    "Lte": {
        "rssi_dbm": ("rssi", 1), "rsrp_dbm": ("rsrp", 1), "rsrq_db": ("rsrq", 1), "sinr_raw": ("rssnr", 1),
        "cqi": ("cqi", 1), "timing_advance": ("ta", 1),
    },
    "Nr": {"rsrp_dbm": ("ssRsrp", 1), "rsrq_db": ("ssRsrq", 1), "sinr_db": ("ssSinr", 1)},
    "Gsm": {"rssi_dbm": ("rssi", 1), "rxqual": ("ber", 1), "timing_advance": ("mTa", 1)},
    "Wcdma": {"rssi_dbm": ("ss", 1), "rscp_dbm": ("rscp", 1), "ecio_db": ("ecno", 1)},
    "Cdma": {"rssi_dbm": ("cdmaDbm", 1), "ecio_db": ("cdmaEcio", 0.1)},
}  # fmt: skip
"""Field of Android and its factor, by technology and table column."""
_IDENTITY = {
    "Lte": {"cell_id": "mCi", "physical_cell_id": "mPci", "area_code": "mTac", "channel": "mEarfcn"},
    "Nr": {"cell_id": "mNci", "physical_cell_id": "mPci", "area_code": "mTac", "channel": "mNrArfcn"},
    "Gsm": {"cell_id": "mCid", "physical_cell_id": "mBsic", "area_code": "mLac", "channel": "mArfcn"},
    "Wcdma": {"cell_id": "mCid", "physical_cell_id": "mPsc", "area_code": "mLac", "channel": "mUarfcn"},
    "Cdma": {"cell_id": "mBasestationId"},
}
_LARGEST_ASU = 31
"""Largest RSSI as Android 9 and earlier write it under the name ss: -113 dBm + 2 dB of each (TS 27.007, 8.5)."""
_FLOORS = {"rssi_dbm": -113, "rscp_dbm": -120, "ecio_db": -24}
"""Levels that some modems give for a technology that they do not use: the least that can be reported."""
_CODED = "codes of NR"
"""Stands in `unsigned` of `signed` for a phone that writes NR as the network's reports have it."""
_LARGEST_UNSIGNED_RSRQ = 43
"""SS-RSRQ is -43 to 20 dB (CellSignalStrengthNr); a larger one is a code."""
_NR_CODES = {"rsrp_dbm": (-156.0, 1.0), "rsrq_db": (-43.5, 0.5), "sinr_db": (-23.0, 0.5)}
"""Value of code 0 and of a step (TS 38.331, RSRP-Range, RSRQ-Range, SINR-Range)."""
_UNSIGNED_DBM = (31, 156)
"""RSRP without its sign: SS-RSRP is -156 to -31 dBm (CellSignalStrengthNr), RSRP of LTE -140 to -43 dBm."""
_NO_BER = 99
"""Value of the BER for "not known or not detectable" (TS 27.007, section 8.5)."""
_STATEMENT = re.compile(r"^ *(mSignalStrength=|mCellInfo=|mServiceState=|Phone Id=)", re.MULTILINE)
_BEYOND = 1 << 64
"""Stands for a number that no column can hold."""
_MOST_CHARACTERS = 1 << 20
"""Characters of a dump that are read; a dump has some 100 kB. It bounds memory."""
_OLDEST_FIX_NS = 10 * NS_PER_S
"""A location older than this is that of another place; it is the last one that any program of the phone asked for."""
_UPTIME = re.compile(r"(\d{1,9})\.(\d{1,9}) \d")
_LOCATION = re.compile(r"Location\[(gps|fused) (-?\d{1,2}\.\d{1,9}),(-?\d{1,3}\.\d{1,9})([^\]]{0,300})")
_ELAPSED = re.compile(r"\bet=\+?(?:(\d{1,4})d)?(?:(\d{1,2})h)?(?:(\d{1,2})m)?(?:(\d{1,2})s)?(?:(\d{1,3})ms)?(?= |$)")
_FIELD = re.compile(r"\b(hAcc|acc|alt|vel|bear)=(-?\d{1,6}(?:\.\d{1,20})?(?:E-?\d{1,3})?)(?= |$)")
_OF_LOCATION = {"hAcc": "error_m", "acc": "error_m", "alt": "altitude_m", "vel": "speed_mps", "bear": "heading_deg"}
_UNITS_NS = (86_400 * NS_PER_S, 3600 * NS_PER_S, 60 * NS_PER_S, NS_PER_S, NS_PER_MS)
"""Units in the order in which Android writes a duration: days, hours, minutes, seconds, milliseconds."""


def readings_of(statement: str) -> list[tuple[str, Reading]]:
    """Return the readings of `mSignalStrength=`, `mCellInfo=` or `mServiceState=`, each with the statement's name."""
    name, equals, text = statement.partition("=")
    read = {"mSignalStrength": _signal_strength, "mCellInfo": _cell_info, "mServiceState": _service_state}.get(name)
    return [(name, reading) for reading in read(text)] if equals and read else []


def signed(reading: Reading, unsigned: set[str]) -> Reading:
    """Return a reading with RSRP and RSRQ negative, where the phone writes them without a sign, or in codes.

    `unsigned` holds the technologies of which it does, and gets those that the reading shows.
    """
    if reading.get("rat") == "NR" and (_CODED in unsigned or _is_coded(reading.get("rsrq_db"))):
        unsigned.add(_CODED)
        return reading | {
            name: zero + step * code
            for name, (zero, step) in _NR_CODES.items()
            if isinstance(code := reading.get(name), int | float)
        }
    rat, rsrp, rsrq = str(reading.get("rat", "")), reading.get("rsrp_dbm"), reading.get("rsrq_db")
    minimum, most = _UNSIGNED_DBM
    is_signed = isinstance(rsrq, int | float) and rsrq < 0
    if isinstance(rsrp, int | float) and minimum <= rsrp <= most and not is_signed:
        unsigned.add(rat)
        reading = reading | {"rsrp_dbm": -rsrp}
        rsrp = None
    if rsrp is None and rat in unsigned and isinstance(rsrq, int | float) and rsrq > 0:
        reading = reading | {"rsrq_db": -rsrq}
    return reading


def is_coded(unsigned: set[str]) -> bool:
    """Return whether the phone writes NR in codes; `unsigned` is that of `signed`."""
    return _CODED in unsigned


def _is_coded(rsrq: object) -> bool:
    return isinstance(rsrq, int | float) and rsrq > _LARGEST_UNSIGNED_RSRQ


def serving_of(registry: str) -> list[Reading]:
    """Return what a dump of the registry states of the first card's serving cells, for people."""
    matches = list(_STATEMENT.finditer(registry[:_MOST_CHARACTERS]))
    ends = [*(match.start() for match in matches[1:]), len(registry)]
    statements = [registry[match.start(1) : end] for match, end in zip(matches, ends, strict=False)]
    if statements and statements[0].startswith("Phone Id="):
        statements = [statements[0], *takewhile(lambda each: not each.startswith("Phone Id="), statements[1:])]
    unsigned: set[str] = set()
    readings = [
        signed(reading, unsigned)
        for each in statements
        if not each.startswith("mCellInfo=")
        for _, reading in readings_of(" ".join(each.split()))
    ]
    return [reading for reading in readings if reading.get("role") == "serving"]


class Location(NamedTuple):
    """The newest location in `cat /proc/uptime; dumpsys location`."""

    fix_ns: int
    """Time of the location since the phone's boot."""
    age_ns: int
    """Age at the time of the answer; below 0 by up to a second, because the phone rounds."""
    source: str
    values: Reading
    """lat_deg, lon_deg, and where known error_m, altitude_m, speed_mps, heading_deg."""


def location_of(raw: str) -> Location | None:
    """Return the newest location of the phone; None if there is none, or it is older than 10 s."""
    uptime = _UPTIME.match(raw)
    fixes = [(_elapsed_ns(match[4]), match) for match in _LOCATION.finditer(raw)]
    known = [(ns, match) for ns, match in fixes if ns is not None]
    if uptime is None or not known:
        return None
    boot_ns = int(uptime[1]) * NS_PER_S + int(uptime[2].ljust(9, "0"))
    fix_ns, match = max(known, key=lambda fix: (fix[0], fix[1][1] == "gps"))
    if not -NS_PER_S < (age_ns := boot_ns - fix_ns) < _OLDEST_FIX_NS:
        return None
    fields = {_OF_LOCATION[name]: number for name, text in _FIELD.findall(match[4]) if isfinite(number := float(text))}
    return Location(fix_ns, age_ns, match[1], {"lat_deg": float(match[2]), "lon_deg": float(match[3])} | fields)


def _elapsed_ns(text: str) -> int | None:
    """Return the time since the phone's boot of a location, as Android's TimeUtils.formatDuration writes it."""
    elapsed = _ELAPSED.search(text)
    if elapsed is None or not any(elapsed.groups()):
        return None
    return sum(int(number or 0) * unit for number, unit in zip(elapsed.groups(), _UNITS_NS, strict=True))


def _integer(text: str) -> int:
    """Return the whole number in a text of digits; one that no column can hold if it is longer."""
    return int(text) if text.isascii() and len(text) <= len("-9223372036854775808") else _BEYOND


def _signal_strength(text: str) -> Iterator[Reading]:
    if legacy := _LEGACY.search(text):
        yield from _old_signal_strength([_integer(number) for number in legacy[1].split()])
        return
    found_primary = _PRIMARY.search(text)
    primary = found_primary[1] if found_primary else ""
    for technology, part in _parts(text, _STRENGTH):
        values = _levels(technology, part) if technology in _RAT else {}
        if _is_filler(technology, primary, values):
            continue
        role = "secondary" if technology == "Nr" and primary == "Lte" else "serving"
        if values:
            yield {"role": role, "rat": _RAT[technology], **values}


def _is_filler(technology: str, primary: str, values: Reading) -> bool:
    """Return whether levels are those of GSM, WCDMA or CDMA that some modems give while another technology is used."""
    if technology not in ("Gsm", "Wcdma", "Cdma") or primary in ("", technology):
        return False
    numbers = {name: value for name, value in values.items() if isinstance(value, int | float) and value}
    return all(value <= _FLOORS.get(name, 0) for name, value in numbers.items())


def _old_signal_strength(numbers: list[int]) -> Iterator[Reading]:
    """Read the blank-separated numbers of Android 9 and earlier."""
    gsm, ber = numbers[:2]
    if 0 <= gsm < _NO_BER:
        quality = {"rxqual": ber} if 0 <= ber < _NO_BER else {}
        yield {"role": "serving", "rssi_dbm": 2.0 * gsm - 113, **quality}
    rsrp, rsrq, snr, cqi = (None if n in _UNAVAILABLE else n for n in numbers[8:12])
    if rsrp is not None and rsrp < 0:
        levels = {"rsrp_dbm": rsrp, "rsrq_db": rsrq, "sinr_db": None if snr is None else snr / 10}
        known = {k: float(v) for k, v in levels.items() if v is not None}
        more = {"cqi": cqi} if cqi is not None and cqi >= 0 else {}
        yield {"role": "serving", "rat": "LTE", **known, **more}


def _cell_info(text: str) -> Iterator[Reading]:
    for technology, part in _parts(text, _CELL):
        if technology not in _RAT:
            continue
        strength = _STRENGTH.search(part)
        identity = part[: strength.start()] if strength else part
        numbers = _numbers(identity)
        values: Reading = {ours: numbers[theirs] for ours, theirs in _IDENTITY[technology].items() if theirs in numbers}
        values |= _levels(technology, part[strength.end() :]) if strength else {}
        values |= _names(identity)
        role = "serving" if _REGISTERED.search(part[:64]) else "neighbour"
        yield {"role": role, "rat": _RAT[technology], **values}


def _service_state(text: str) -> Iterator[Reading]:
    values = _old_service_state(text)
    if state := _STATE.search(text):
        values["state"] = state[1][:16]
    if technology := _TECHNOLOGY.search(text):
        values["rat"] = _RIL_RAT.get(technology[1], "")
    if operator := next((match[2] for match in _TEXT.finditer(text)), ""):
        values["operator"] = _printable(operator)
    yield {"role": "serving", **values}


def _old_service_state(text: str) -> Reading:
    """Return what Android 8 and earlier wrote: state of voice and data, names and technology of both."""
    old = _OLD_STATE.match(text)
    if old is None:
        return {}
    number = int(old[2])
    values: Reading = {"rat": _RIL_RAT.get(old[5], "")}
    values |= {"state": _OLD_STATES[number]} if number < len(_OLD_STATES) else {}
    if operator := _OLD_OPERATOR.fullmatch(old[3]):  # of a long and a short name that differ, the border is not known
        values |= {"plmn": operator["plmn"], "operator": _printable(operator["long"])}
    return values


def _parts(text: str, start: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield technology and text of each object; the text ends at the next match of `start`."""
    matches = list(start.finditer(text))[:_MOST_CELLS]
    ends = [*(match.start() for match in matches[1:]), len(text)]
    for match, end in zip(matches, ends, strict=False):  # without a match there is but the end
        yield match[1], text[match.end() : end]


def _numbers(text: str) -> dict[str, int]:
    """Return the numeric fields that have a value; if a name occurs twice, the first one."""
    pairs = [(match[1], _integer(match[2])) for match in _PAIR.finditer(text)]
    return {name: number for name, number in reversed(pairs) if number not in _UNAVAILABLE}


def _levels(technology: str, text: str) -> Reading:
    numbers = _numbers(text)
    values: Reading = {}
    for ours, (theirs, scale) in _LEVELS[technology].items():
        if theirs in numbers and not (ours == "rxqual" and numbers[theirs] == _NO_BER):
            values[ours] = numbers[theirs] * scale
    if "rssi_dbm" in _LEVELS[technology] and 0 <= (asu := numbers.get("ss", -1)) <= _LARGEST_ASU:
        values["rssi_dbm"] = 2.0 * asu - 113
    if "rsrp_dbm" in _LEVELS[technology] and "rsrp_dbm" not in values:  # then zeros are no levels
        values = {name: value for name, value in values.items() if value}
    if "sinr_raw" in values and "cqiTableIndex" in text:  # a field of Android 12 and later
        values["sinr_db"] = float(values.pop("sinr_raw"))
    return values


def _names(text: str) -> Reading:
    values: Reading = {}
    digits = {match[1]: match[2] for match in _DIGITS.finditer(text)}
    if len(digits) == 2:
        values["plmn"] = digits["mMcc"] + digits["mMnc"]
    if bands := _BANDS.search(text):
        values["band"] = "/".join(dict.fromkeys(bands[1].replace(" ", "").split(",")))[:16]
    if operator := _TEXT.search(text):
        values["operator"] = _printable(operator[2])
    return values


def _printable(text: str) -> str:
    return "".join(c for c in text.strip() if c.isprintable())[:32]
