"""What the columns of an unknown CSV may hold: guessed by their names, units and values."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from parsers._text.column_map import RANGES, SCHEMAS, ColumnMap
from parsers._text.technology import RAT, WORDS
from parsers._text.units import factor, is_unit, split_unit, value_of, without_unit

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
    "speed_mps": (("speed",), ("velocity",), ("geschwindigkeit",), ("tempo",), ("vitesse",), ("velocidad",),
                  ("kmh",), ("kph",), ("mph",)),
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
    "cell_id": (("cell", "id"), ("cellid",), ("cell", "identity"), ("cellidentity",), ("eci",), ("nci",),
                ("cid",), ("ci",), ("zellen", "id"), ("zell", "id")),
    "area_code": (("tac",), ("lac",)),
    "band": (("band",),),
    "operator": (("operator",), ("carrier",), ("provider",), ("operatorname",)),
    "rat": (("technology",), ("tech",), ("rat",), ("network", "type"), ("network", "mode"), ("networktype",),
            ("networkmode",), ("networktech",), ("nettype",), ("technologie",), ("tecnologia",),
            ("tecnología",), ("funkstandard",), ("netztyp",)),
    "role": (("role",), ("cell", "type"), ("celltype",), ("cell", "role"), ("serving",), ("registered",),
             ("cell", "status"), ("cellstatus",)),
}  # fmt: skip
"""Column of ours -> words of which one group stands in the name; the first that fits takes the column."""
_OTHERS = {
    "neighbour",
    "neighbor",
    "neigh",
    "nbr",
    "nachbar",
    "voisin",
    "voisine",
    "vecina",
    "nb",
    "ncell",
    "secondary",
    "second",
    "scell",
    "secondcell",
    "nrxlev",
} | {
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
_TOKEN = re.compile(r"[A-ZÀ-Þ]+(?![a-zß-ÿ])|[A-ZÀ-Þ]?[a-zß-ÿ]+|\d+")
_UNIT_AT_END = re.compile(r"(?P<name>.*[^_ ])[_ ](?P<unit>[A-Za-z%]{1,5}(?:/[a-z]{1,2})?)")
_HEX = re.compile(r"(?:0[xX])?[0-9A-Fa-f]{1,9}")
_MOSTLY = 0.9
"""So many of a column's values must be possible for a guess; not measured."""
_ROLES = {
    "serving": ("serving", "serving cell", "servingcell", "primary", "pcell", "registered"),
    "secondary": ("secondary", "secondary cell", "scell"),
    "neighbour": (
        "neighbour",
        "neighbor",
        "neighbouring",
        "neighboring",
        "neighbour cell",
        "neighbor cell",
        "ncell",
    ),
}
"""Words by which logs with a line for each cell say which one serves."""
_IS_SERVING = {"true": "serving", "yes": "serving", "1": "serving"} | dict.fromkeys(
    ("false", "no", "0"), "neighbour"
)
_NODES = {"enb", "enbid", "enodeb", "enodebid", "enodebnumber"}
_SECTORS = {"sector", "sectorid", "sektor", "sektorid", "localcellid", "lcid", "localcell"}
SECTOR_BITS = 8
"""Of a cell below its eNodeB (TS 36.413, 9.2.1.38)."""
_FLOORS = {"rsrp_dbm": 20.0, "rscp_dbm": 20.0, "rssi_dbm": 20.0, "sinr_db": 10.0}
"""A value that repeats, so far from all others, stands for none: levels of one drive have no such gap. Not
measured."""
_LEAST_FLOORS, _LEAST_OTHERS = 3, 10
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
    above: str = ""
    """Name of the column of the base station, whose sector this is."""
    hemisphere: str = ""
    """Name of the column with N, S, E or W."""
    missing: str = ""
    """What seems to stand for no value in this column."""


def tokens(name: str) -> list[str]:
    """Return the words of a column's name in small letters: DL_Bitrate is dl, bitrate."""
    parts = _TOKEN.findall(name)
    joined = [f"{a}{b}" for a, b in pairwise(parts) if a.isdigit() or b.isdigit()]
    return [part.casefold() for part in (*parts, *joined)]


def named_unit(name: str) -> tuple[str, str]:
    """Return a column's name without its unit, which stands in brackets, behind its last blank, or alone."""
    bare, unit = without_unit(name)
    if not unit and (match := _UNIT_AT_END.fullmatch(name)) and is_unit(match["unit"]):
        return match["name"], match["unit"]
    return bare, unit or (name if is_unit(name) else "")


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
        for at, guess in _of(column, groups, [(at, names[at], values[at]) for at in sorted(left)]):
            if guess.technology not in seen:
                seen.add(guess.technology)
                left.discard(at)
                likely.append(guess)
    likely = [_with_hemisphere(guess, names, values) for guess in likely]
    if all(guess.column != "cell_id" for guess in likely):
        likely += _sector(names, values)
    return likely


def _of(
    column: str, groups: Iterable[tuple[str, ...]], there: Iterable[tuple[int, str, Sequence[str]]]
) -> list[tuple[int, Guess]]:
    """Return the guesses of a column, the likeliest first: whose values can be, in the fewest words."""
    readings = [
        (at, guess)
        for at, name, texts in there
        if not _OTHERS & set(tokens(name)) and (guess := _guess(column, groups, name, texts)) is not None
    ]
    return sorted(
        readings, key=lambda each: (not each[1].is_possible, len(tokens(named_unit(each[1].name)[0])))
    )


def _with_hemisphere(guess: Guess, names: Sequence[str], values: Sequence[Sequence[str]]) -> Guess:
    """Return the guess of a latitude or longitude without a sign, with the column that has it in a letter."""
    letters = {"lat_deg": {"N", "S"}, "lon_deg": {"E", "W"}}.get(guess.column, set())
    texts = [{text.upper() for text in column} for column in values]
    at = next((at for at, each in enumerate(texts) if each and each <= letters), None)
    return guess if at is None else replace(guess, hemisphere=names[at])


def _sector(names: Sequence[str], values: Sequence[Sequence[str]]) -> list[Guess]:
    """Return the guess of a cell that is numbered below its base station, if both columns are there."""
    compact = {"".join(_TOKEN.findall(name)).casefold(): at for at, name in reversed(list(enumerate(names)))}
    nodes, sectors = ([at for word, at in compact.items() if word in words] for words in (_NODES, _SECTORS))
    if not nodes or not sectors:
        return []
    below = [text for text in values[sectors[0]] if text.isdecimal() and int(text) >> SECTOR_BITS == 0]
    if not below or len(below) < _MOSTLY * len(values[sectors[0]]):
        return []
    return [Guess("radio", "cell_id", names[sectors[0]], above=names[nodes[0]])]


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
    if column in ("rat", "role"):
        return _technology(guess, texts) if column == "rat" else _role(guess, texts)
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


def _role(guess: Guess, texts: Sequence[str]) -> Guess | None:
    """Return the guess of which cell serves; None if a text is no word for it, or all say the same."""
    named = {word: role for role, each in _ROLES.items() for word in each}
    for words, doubt in ((named, ""), (_IS_SERVING, "what does not serve is taken for a neighbour")):
        there = {text: words.get(text.casefold(), "") for text in dict.fromkeys(texts)}
        if len(set(there.values())) > 1 and all(there.values()):
            everything = {**there, **words}  # later lines may hold others
            return replace(guess, technology="", words=tuple(everything.items()), doubt=doubt)
    return None


def _floor(own: Column, texts: Sequence[str], numbers: Sequence[float | None]) -> tuple[str, str]:
    """Return the text that seems to stand for no value, by a gap to all others, and why; empty if none."""
    known = sorted(number for number in numbers if number is not None)
    if own.name not in _FLOORS or not known:
        return "", ""
    for extreme in (known[0], known[-1]):
        others = [number for number in known if number != extreme]
        repeats, gap = len(known) - len(others), min((abs(extreme - each) for each in others), default=0.0)
        if repeats >= _LEAST_FLOORS and len(set(others)) >= _LEAST_OTHERS and gap >= _FLOORS[own.name]:
            text = texts[list(numbers).index(extreme)]
            return text, f"{text} repeats, {gap:.3g} {own.unit} from all others: taken for no value"
    return "", ""


def _number(guess: Guess, own: Column, unit: str, texts: Sequence[str]) -> Guess:
    """Return the guess of a column with numbers: its unit, and whether its values are possible.

    A rate without a unit is no guess: it may be a thousand times off.
    """
    scale = factor(unit, own.unit) if unit else None
    doubt = ""
    if unit and scale is None and own.unit:
        doubt, unit = f"the unit {unit!r} is not known", ""
    has_units = bool(texts) and all(split_unit(text)[1] for text in texts)
    is_open = scale is None and own.name in ("downlink_bps", "uplink_bps") and not has_units
    unit = unit if scale is not None else ""
    is_hex = own.name in ("cell_id", "area_code") and _is_hexadecimal(texts)
    numbers = [int(text, 16) if is_hex else value_of(text, own.unit) for text in texts]
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
    missing, why = _floor(own, texts, numbers)
    base = 16 if is_hex else 10
    return replace(guess, unit=unit, base=base, doubt=doubt or why, is_possible=possible, missing=missing)


def _is_hexadecimal(texts: Sequence[str]) -> bool:
    """Return whether all texts are hexadecimal numbers, and at least one is no decimal number."""
    return all(map(_HEX.fullmatch, texts)) and not all(text.isdigit() for text in texts)
