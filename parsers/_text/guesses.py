"""What the columns of an unknown CSV may hold: guessed by their names, units and values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from parsers._text.column_map import RANGES, SCHEMAS, ColumnMap
from parsers._text.technology import RAT, WORDS
from parsers._text.units import decimal_of, factor, is_unit, split_unit, without_unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from multitracer.tables import Column

_RATE_WORDS = ("throughput", "bitrate", "rate", "thrpt", "thr", "tput", "thp", "speed", "datarate")
_DOWN, _UP = ("dl", "downlink", "download", "down"), ("ul", "uplink", "upload", "up")
_QUANTITIES: dict[str, tuple[tuple[str, ...], ...]] = {
    "downlink_bps": tuple((way, word) for way in _DOWN for word in _RATE_WORDS),
    "uplink_bps": tuple((way, word) for way in _UP for word in _RATE_WORDS),
    "lat_deg": (("latitude",), ("lat",), ("breite",), ("breitengrad",), ("latitud",)),
    "lon_deg": (("longitude",), ("lon",), ("lng",), ("long",), ("länge",), ("längengrad",), ("longitud",)),
    "error_m": (("accuracy",), ("hacc",)),
    "speed_mps": (("speed",), ("velocity",), ("geschwindigkeit",)),
    "altitude_m": (("altitude",), ("alt",), ("elevation",), ("ele",)),
    "heading_deg": (("heading",), ("bearing",), ("course",)),
    "hdop": (("hdop",),),
    "satellites": (("satellites",), ("sats",)),
    "rsrp_dbm": (("rsrp",),),
    "rsrq_db": (("rsrq",),),
    "sinr_db": (("sinr",), ("snr",), ("rssnr",)),
    "rscp_dbm": (("rscp",),),
    "ecio_db": (("ecno",), ("ecio",), ("ec", "no"), ("ec", "io")),
    "rssi_dbm": (("rssi",), ("rxlev",)),
    "bler_pct": (("bler",),),
    "cqi": (("cqi",),),
    "channel": (("earfcn",), ("arfcn",), ("uarfcn",), ("narfcn",), ("nrarfcn",)),
    "physical_cell_id": (("pci",), ("psc",), ("physical", "cell", "id")),
    "cell_id": (("cell", "id"), ("cellid",), ("eci",), ("nci",), ("cid",), ("ci",)),
    "area_code": (("tac",), ("lac",)),
    "band": (("band",),),
    "operator": (("operator",), ("carrier",), ("provider",), ("operatorname",)),
    "rat": (("technology",), ("tech",), ("rat",), ("network", "type"), ("network", "mode"), ("networktype",),
            ("networkmode",), ("networktech",), ("nettype",)),
}  # fmt: skip
"""Column of ours -> words of which one group stands in the name; the first that fits takes the column."""
_OTHERS = {"neighbour", "neighbor", "nb", "ncell", "secondary", "second", "scell", "secondcell", "nrxlev"} | {
    "avg",
    "min",
    "max",
    "mean",
    "std",
    "target",
}
"""Words of columns about another cell, or about several lines."""
_NOT = {
    "speed_mps": {"accuracy", "dl", "ul", "wind", "fan", "download", "upload"},
    "heading_deg": {"accuracy"},
    "altitude_m": {"accuracy"},
    "error_m": {"speed", "bearing", "vertical", "heading", "course"},
    "cell_id": {"physical"},
}
_TOKEN = re.compile(r"[A-ZÄÖÜ]+(?![a-zäöü])|[A-ZÄÖÜ]?[a-zäöü]+|\d+")
_UNIT_AT_END = re.compile(r"(?P<name>.*[^_ ])[_ ](?P<unit>[A-Za-z%]{1,5}(?:/[a-z]{1,2})?)")
_HEX = re.compile(r"(?:0[xX])?[0-9A-Fa-f]{1,9}")
_MOSTLY = 0.9
"""So many of a column's values must be possible for a guess; not measured."""
_NR, _LTE = {"nr", "5g", "ss"}, {"lte", "4g"}
DEFAULT_MISSING = ColumnMap((), "iso", None, ()).missing


@dataclass(frozen=True, slots=True)
class Guess:
    """A guess that a column of the log holds the values of a column of ours."""

    table: str
    column: str
    """Of the table."""
    name: str
    """Of the column of the log."""
    unit: str = ""
    base: int = 10
    words: tuple[tuple[str, str], ...] = ()
    technology: str = ""
    """LTE or NR, if the name says so."""
    doubt: str = ""
    """Why it may be wrong; empty if nothing speaks against it."""
    is_possible: bool = True
    """Whether most values can be; if not, the line is only a comment."""


def tokens(name: str) -> list[str]:
    """Return the words of a column's name in small letters: DL_Bitrate is dl, bitrate."""
    parts = _TOKEN.findall(name)
    joined = [f"{a}{b}" for a, b in pairwise(parts) if a.isdigit() or b.isdigit()]
    return [part.casefold() for part in (*parts, *joined)]


def named_unit(name: str) -> tuple[str, str]:
    """Return a column's name without its unit, and the unit in brackets or behind its last blank."""
    bare, unit = without_unit(name)
    if not unit and (match := _UNIT_AT_END.fullmatch(name)) and is_unit(match["unit"]):
        return match["name"], match["unit"]
    return bare, unit


def guesses(names: Sequence[str], values: Sequence[Sequence[str]], taken: Iterable[int]) -> list[Guess]:
    """Return what columns may hold.

    Parameters
    ----------
    names : sequence of str
        Of the columns.
    values : sequence of sequence of str
        For each column its texts in the first lines, without those that stand for no value.
    taken : iterable of int
        Columns that hold the time.
    """
    left = {at for at, name in enumerate(names) if name and names.index(name) == at} - set(taken)
    likely: list[Guess] = []
    for column, groups in _QUANTITIES.items():
        seen: set[str] = set()
        for at in sorted(left, key=lambda at: (bool(_OTHERS & set(tokens(names[at]))), at)):
            guess = _guess(column, groups, names[at], values[at])
            if guess is None or guess.technology in seen or _OTHERS & set(tokens(names[at])):
                continue
            seen.add(guess.technology)
            left.discard(at)
            likely.append(guess)
    return likely


def _guess(column: str, groups: Iterable[tuple[str, ...]], name: str, texts: Sequence[str]) -> Guess | None:
    bare, unit = named_unit(name)
    words = set(tokens(bare))
    compact = "".join(tokens(bare))
    fits = any(set(group) <= words or "".join(group) == compact for group in groups)
    fits = fits or _is_rate(column, compact if not unit else "", words, unit)
    if not fits or words & _NOT.get(column, set()):
        return None
    table = "radio" if column in SCHEMAS["radio"].names else "position"
    own = next(each for each in SCHEMAS[table] if each.name == column)
    technology = ("NR" if words & _NR else "LTE" if words & _LTE else "") if table == "radio" else ""
    guess = Guess(table, column, name, technology=technology)
    if column == "rat":
        return _technology(guess, texts)
    return guess if own.dtype.startswith("U") else _number(guess, own, unit, texts)


def _is_rate(column: str, compact: str, words: set[str], unit: str) -> bool:
    """Return whether a name is a direction alone (DL), or one with the unit of a rate (DL_kbps)."""
    way = {"downlink_bps": _DOWN, "uplink_bps": _UP}.get(column, ())
    return compact in way or bool(words & set(way) and unit and factor(unit, "bit/s") is not None)


def why_not(name: str) -> str:
    """Return why a column of a log is no guess, by its name."""
    others = sorted(_OTHERS & set(tokens(name)))
    if others:
        return f"{others[0]!r} is a word of another cell, or of several lines"
    if any(_guess(column, groups, name, ()) for column, groups in _QUANTITIES.items()):
        return "another column is taken for the same"
    return "its name tells of no quantity that is known"


def _technology(guess: Guess, texts: Sequence[str]) -> Guess | None:
    """Return the guess with the words that are known; None if none is."""
    there = [text for text in dict.fromkeys(texts) if text in WORDS]
    words = tuple(
        (text, WORDS[text]) for text in dict.fromkeys([*there, *RAT])
    )  # later lines may hold others
    return Guess(guess.table, guess.column, guess.name, words=words) if there else None


def _number(guess: Guess, own: Column, unit: str, texts: Sequence[str]) -> Guess:
    """Return the guess of a column with numbers: its unit, and whether its values are possible.

    A rate without a unit is no guess: it may be a thousand times off.
    """
    scale = factor(unit, own.unit) if unit else None
    doubt = ""
    if unit and scale is None and own.unit:
        doubt, unit = f"the unit {unit!r} is not known", ""
    is_open = scale is None and own.name in ("downlink_bps", "uplink_bps")
    unit = unit if scale is not None else ""
    is_hex = own.name in ("cell_id", "area_code") and _is_hexadecimal(texts)
    numbers = [int(text, 16) if is_hex else _decimal(text, own) for text in texts]
    least, most = RANGES[own.name]
    can_be = [number for number in numbers if number is not None and least <= number * (scale or 1.0) <= most]
    possible = len(can_be) >= _MOSTLY * len(texts) and not is_open
    if is_open:
        doubt = 'no unit is named; write { column = ..., unit = "kbit/s" } or the like'
    elif not possible:
        doubt = f"values such as {texts[0][:16]!r} cannot be: {least} to {most} {own.unit} can".replace(
            "  ", " "
        )
    elif not texts:
        doubt = "it has no value in these lines"
    return Guess(
        guess.table,
        guess.column,
        guess.name,
        unit,
        16 if is_hex else 10,
        (),
        guess.technology,
        doubt,
        possible,
    )


def _decimal(text: str, own: Column) -> float | None:
    bare, unit = split_unit(text)
    number = decimal_of(bare)
    by_unit = factor(unit, own.unit) if unit else 1.0
    return None if number is None or by_unit is None else number * by_unit


def _is_hexadecimal(texts: Sequence[str]) -> bool:
    """Return whether all texts are hexadecimal numbers, and at least one is no decimal number."""
    return all(map(_HEX.fullmatch, texts)) and not all(text.isdigit() for text in texts)
