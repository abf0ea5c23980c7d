"""The rows of `signalling`: messages with their standard names, from tshark's description."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from multitracer.tables import NA
from parsers._signalling.gsmtap import LTE_NAS, LTE_RRC, NAS_5GS, NR_RRC, UMTS_RRC

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from parsers._signalling.dissection import DissectedMessage

_VERSION = re.compile(r"-[rv]\d+$")
_ABBREVIATION = re.compile(r"^(rrc|ue|ul|dl|scg|mcg|csfb|mbms|rn|wlan|ura|utran|etws|pur)(?=[A-Z])")
_TOKEN = re.compile(r"[A-Za-z][\w-]*")
_NEXT = re.compile(",(?! )")
"""Between two values; in the text of a value, such as "Request rejected, unspecified", a blank follows the comma."""
_NOT_PRINTABLE = re.compile(r"[^ -~]")
_CIPHERED = "Ciphered message"
"""tshark's text for a NAS message whose content is encrypted."""
_WITHOUT_TYPE = "Service request"
"""The only NAS message without a type (TS 24.301, 8.2.25); its security header identifies it."""
_RATS = {
    1: "GSM",
    2: "GSM",
    3: "GSM",
    8: "GSM",
    9: "GSM",
    LTE_RRC: "LTE",
    LTE_NAS: "LTE",
    NR_RRC: "NR",
    NAS_5GS: "NR",
    UMTS_RRC: "UMTS",
}
"""Technology by GSMTAP type: UM, ABIS, bursts, LLC and SNDCP belong to GSM."""
_RRC = {LTE_RRC: "LTE", NR_RRC: "NR", UMTS_RRC: "UMTS"}
_CONTAINED = {"LTE": "lte", "NR": "nr", "UMTS": "umts"}
_LONGEST_NAME = 64
_MOST_CELLS = 32
"""Maximum number of secondary cells (TS 38.331, 6.4: maxNrofSCells 31)."""
_TRUE = ("1", "T")
"""Begin of a true value in the output of tshark, by its version."""
_ELEMENTS = {
    "mobility_control": ("LTE", "mobilityControlInfo"),
    "lte_inactive": ("LTE", "rrc-InactiveConfig"),
    "with_sync": ("NR", "reconfigurationWithSync"),
    "nr_suspended": ("NR", "suspendConfig"),
}
"""Parts of a message that change a state, by the name of their field: technology, name in the standard."""


class Named(NamedTuple):
    """One message of a packet with its standard name."""

    rat: str
    layer: str
    name: str
    """Name in the standard; "" if it is not known."""
    cause: str
    transaction: int
    """NA without one."""
    encrypted: int
    contained: bool
    """Whether another RRC message of another technology carries it."""
    cause_number: int = NA
    bearer: int = NA
    elements: str = ""


def names(dissected: DissectedMessage, unknown: Counter[str]) -> Iterator[Named]:
    """Yield the messages in one packet, RRC before NAS (a packet can have both).

    Parameters
    ----------
    dissected : DissectedMessage
    unknown : Counter of str
        Counts the packets that tshark did not dissect, by their GSMTAP type.
    """
    kind = dissected.numbered.message.type
    count = 0
    for named in (*_rrc(dissected, kind), *_nas(dissected, _RATS.get(kind, ""))):
        count += 1
        yield named
    if not count:
        if is_undissected(dissected):
            unknown[dissected.numbered.message.type_name] += 1
        layer = "rrc" if kind in _RRC else ""
        yield Named(_RATS.get(kind, ""), layer, "", "", NA, NA, contained=False)


def is_undissected(dissected: DissectedMessage) -> bool:
    """Return whether tshark could not dissect the payload, and shows only its octets."""
    protocols = dissected.values.get("protocols", "").split(":")
    return not protocols[0] or protocols[-1] in ("data", "gsmtap", "exported_pdu", "udp")


def _rrc(dissected: DissectedMessage, kind: int) -> Iterator[Named]:
    values = dissected.values
    outer = _RRC.get(kind)
    if outer is None:
        return
    name = _rrc_name(dissected, outer) or _first_word(values.get("info", ""))
    if name:
        cause = values.get("scg_failure") if name.startswith("SCGFailure") else values.get("rrc_cause")
        elements = _elements(dissected, outer)
        yield Named(
            outer, "rrc", name, _word(cause), _transaction(dissected, outer), 0, contained=False, elements=elements
        )
    for rat, column in _CONTAINED.items():
        if rat == outer:
            continue
        inner = _rrc_name(dissected, rat) if column in values else ""
        if rat == "NR" and not inner:
            inner = "RRCReconfiguration" if "nr_reconfiguration" in values else ""
            inner = "RRCReconfigurationComplete" if "nr_complete" in values else inner
        if inner:
            elements = _elements(dissected, rat)
            yield Named(rat, "rrc", inner, "", _transaction(dissected, rat), 0, contained=True, elements=elements)


def _rrc_name(dissected: DissectedMessage, rat: str) -> str:
    """Return the name of the RRC message in a packet; of nested messages, the outermost."""
    column = _CONTAINED[rat]
    extended = f"{column}_extended" if f"{column}_extension" in dissected.values else ""
    text = dissected.values.get(extended) or dissected.values.get(column)
    if not text:
        return ""
    plain = [_VERSION.sub("", each) for each in text.split(",") if each and not each.startswith("spare")]
    different = list(dict.fromkeys(plain))
    if len(different) > 1:  # tshark's order depends on its version; its summary begins with the outermost
        summary = _bare(dissected.values.get("info", ""))
        fitting = [each for each in different if summary.startswith(_bare(each))]
        different = sorted(fitting, key=len)[-1:] or different
    return standard_name(different[0]) if different else ""


def _bare(text: str) -> str:
    return re.sub("[^a-z0-9]", "", text.lower())


def standard_name(field: str) -> str:
    """Return the name of a message in the standard, from the name of its ASN.1 field.

    Examples
    --------
    >>> standard_name("rrcConnectionReconfiguration")
    'RRCConnectionReconfiguration'
    >>> standard_name("measurementReport")
    'MeasurementReport'
    """
    name = _ABBREVIATION.sub(lambda match: match[1].upper(), _VERSION.sub("", field))
    return (name[:1].upper() + name[1:])[:_LONGEST_NAME]


def _first_word(text: str) -> str:
    match = _TOKEN.match(text)
    return _VERSION.sub("", match[0])[:_LONGEST_NAME] if match else ""


def _transaction(dissected: DissectedMessage, rat: str) -> int:
    number = dissected.first(f"{_CONTAINED[rat]}_transaction")
    return NA if number is None else number


def _elements(dissected: DissectedMessage, rat: str) -> str:
    """Return the optional parts of an RRC message that change a state, in one word each."""
    words = [word for field, (of, word) in _ELEMENTS.items() if of == rat and field in dissected.values]
    for sign, action in (("+", "added"), ("-", "released")):
        field = f"{_CONTAINED[rat]}_secondary_{action}"
        number = sum(dissected.integers(field))  # other elements have indexes of such cells, too
        words += [f"sCell{sign}{index}" for index in dissected.integers(f"{field}_index")[: min(number, _MOST_CELLS)]]
    return " ".join(words)


_CAUSES_5GMM = {
    72: "Non-3GPP access to 5GCN not allowed",
    73: "Serving network not authorized",
    74: "Temporarily not authorized for this SNPN",
    75: "Permanently not authorized for this SNPN",
    76: "Not authorized for this CAG or authorized for CAG cells only",
    77: "Wireline access area not allowed",
    78: "PLMN not allowed to operate at the present UE location",
}
"""Texts of TS 24.501, table 9.11.3.2.1, that tshark 4.0 does not have."""
_IMSI_DETACH = {"detach_up": 2, "detach_down": 3}
"""Detach types of TS 24.301, 9.9.3.7, that end services of circuits alone: the phone stays registered."""


def _elements_of_nas(dissected: DissectedMessage, column: str) -> str:
    words = ["switchOff"] if dissected.values.get(f"{column}_switch_off", "")[:1] in _TRUE else []
    if any(dissected.first(f"{column}_{name}") == number for name, number in _IMSI_DETACH.items()):
        words.append("imsiDetach")
    return " ".join(words)


def _nas(dissected: DissectedMessage, rat: str) -> Iterator[Named]:
    values = dissected.values
    layers = (
        ("nas", "LTE", "emm"),
        ("nas", "LTE", "esm"),
        ("nas", "NR", "mm_5g"),
        ("nas", "NR", "sm_5g"),
        ("nas", rat, "dtap"),
        ("sms", rat, "sms"),
        ("rr", rat, "rr"),
        ("rlc/mac", rat, "rlc_mac"),
    )
    count = 0
    for layer, technology, column in layers:
        if column not in values:  # most of them are absent
            continue
        for name in filter(None, values[column].split(",")):
            count += 1
            cause = values.get("rrc_cause" if layer == "rr" else f"{column}_cause")
            numbers = (dissected.first(f"{column}_{each}") for each in ("transaction", "cause_number", "bearer"))
            transaction, cause_number, bearer = (NA if number is None else number for number in numbers)
            if column == "mm_5g":
                cause = _CAUSES_5GMM.get(cause_number, cause)
            yield Named(
                technology, layer, _word(name), _word(cause), transaction, 0, contained=False,
                cause_number=cause_number, bearer=bearer, elements=_elements_of_nas(dissected, column),
            )  # fmt: skip
    info = values.get("info", "")
    if not count and info.rpartition(", ")[2].startswith(_WITHOUT_TYPE):
        yield Named(rat, "nas", _WITHOUT_TYPE, "", NA, 0, contained=False)
    elif not count and _CIPHERED in info:
        yield Named(rat, "nas", "", "", NA, 1, contained=False)


def _word(text: str | None) -> str:
    """Return a name in tshark's output without invalid characters; of several names the first."""
    return _NOT_PRINTABLE.sub("", _NEXT.split(text or "", maxsplit=1)[0])[:_LONGEST_NAME]
