"""The plan of a measurement: which transactions, in which order, over which transport; also as TOML.

protocol = "centauruscomm"        # or "tcp", "wtcp"
server = "127.0.0.1:5100"         # or "serial:/dev/ttyUSB0"
timeout_s = 60 [labels] location = "downtown" [[experiment]]
vary = "request"                  # or "reply"; the other message has other_bytes
sizes = [128, 256, 512] sessions = 100
connection = "one"                # or "per-session"
labels = { mobility = "still" }
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from multitracer.errors import FormatError, InputError
from multitracer.manifest import Measurement
from multitracer.measure.exchange import HEADER_BYTES, MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.tables import Document

ProtocolName = Literal["tcp", "centauruscomm", "wtcp"]
Varied = Literal["request", "reply"]
Connection = Literal["per-session", "one"]
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_MOST_LABEL = 200
_MAX_TRANSACTIONS = 10_000_000


@dataclass(frozen=True, slots=True)
class Transaction:
    """One planned transaction: request, reply and good-bye."""

    number: int
    """Position in the plan, from 1."""
    vary: Varied
    size_bytes: int
    """Size of the message whose size is varied."""
    repetition: int
    """Number of the repetition, from 1."""
    request_bytes: int
    reply_bytes: int
    connection: Connection
    labels: dict[str, str]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A series of transactions; only the size of one message differs between them."""

    vary: Varied
    sizes: tuple[int, ...]
    sessions: int = 100
    """Number of transactions for each size."""
    other_bytes: int = 64
    """Length of the message that is not varied."""
    connection: Connection = "one"
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MeasurementPlan:
    """A measurement plan: its transactions, transport and server."""

    protocol: ProtocolName
    server: str
    """HOST:PORT or serial:PATH; empty over a modelled link."""
    experiments: tuple[Experiment, ...]
    timeout_s: float = 120.0
    """A transaction is dropped if its reply is not complete after this time."""
    labels: dict[str, str] = field(default_factory=dict)
    over: str | None = None
    """The modelled link between client and server; None for a real server."""

    def __post_init__(self) -> None:
        _check(self.protocol in get_args(ProtocolName), "protocol", self.protocol)
        _check(0 < self.timeout_s <= 86_400, "timeout_s", self.timeout_s)
        _check(bool(self.experiments), "experiment", "none")
        for each in self.experiments:
            _check(each.vary in get_args(Varied), "vary", each.vary)
            _check(each.connection in get_args(Connection), "connection", each.connection)
            _check(bool(each.sizes), "sizes", "none")
            for size in (*each.sizes, each.other_bytes):
                _check(HEADER_BYTES <= size <= MAX_MESSAGE_BYTES, "message size", size)
            _check(each.sessions > 0, "sessions", each.sessions)
        _check(self.count <= _MAX_TRANSACTIONS, "number of transactions", self.count)
        for name in self.label_names:
            _check(is_label(name), "label", name)
        for labels in (self.labels, *(each.labels for each in self.experiments)):
            for value in labels.values():
                _check(value.isprintable() and len(value) <= _MOST_LABEL, "value of a label", value)

    @property
    def count(self) -> int:
        """The number of transactions."""
        return sum(len(each.sizes) * each.sessions for each in self.experiments)

    @property
    def label_names(self) -> list[str]:
        """Names of all labels that any transaction has."""
        return sorted({*self.labels, *(name for each in self.experiments for name in each.labels)})

    def document(self) -> Document:
        """Return the plan as a JSON object."""
        document = asdict(self)
        document["experiments"] = [{**each, "sizes": list(each["sizes"])} for each in document["experiments"]]
        return document

    def measurement(self) -> Measurement:
        """Return the plan in the form of the manifest."""
        rest = self.document()
        protocol, server, over = (rest.pop(name) for name in ("protocol", "server", "over"))
        return Measurement(protocol, server or None, over, rest)

    @classmethod
    def of_document(cls, document: Document) -> MeasurementPlan:
        """Return the plan from which `document` was made."""
        experiments = [Experiment(**{**each, "sizes": tuple(each["sizes"])}) for each in document["experiments"]]
        return cls(**{**document, "experiments": tuple(experiments)})

    def transactions(self) -> Iterator[Transaction]:
        """Yield the transactions in order: the sizes as given, each repeated `sessions` times."""
        number = 0
        for each in self.experiments:
            for size in each.sizes:
                request, reply = (size, each.other_bytes)[:: 1 if each.vary == "request" else -1]
                for repetition in range(1, each.sessions + 1):
                    number += 1
                    labels = self.labels | each.labels
                    yield Transaction(number, each.vary, size, repetition, request, reply, each.connection, labels)


def is_label(name: str) -> bool:
    """Return whether a text can be the name of a label."""
    return _LABEL.fullmatch(name) is not None


def _check(holds: bool, what: str, value: object) -> None:
    if not holds:
        raise InputError(f"{what}: {str(value)[:60]!r} is not a valid value; see `multitracer measure run --help`")


def parse_plan(text: str, *, path: str, server: str | None = None) -> MeasurementPlan:
    """Return the plan from a TOML text; `server` replaces the server in the text.

    Raises
    ------
    FormatError
        If the text is not TOML, or has invalid keys or values.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FormatError(path, f"the file is not valid TOML: {error}") from error
    experiments = document.pop("experiment", [])
    if not isinstance(experiments, list):
        raise FormatError(path, '"experiment" must be a list of tables; write [[experiment]]')
    if server is not None:
        document["server"] = server
    kinds = {"protocol": str, "server": str, "timeout_s": (int, float), "labels": dict}
    made = tuple(_experiment(each, path) for each in experiments)
    try:
        return MeasurementPlan(**_typed(document, kinds, path), experiments=made)
    except TypeError as error:
        raise FormatError(path, f"a required key is missing in the plan ({error})") from error


def _experiment(document: object, path: str) -> Experiment:
    if not isinstance(document, dict):
        raise FormatError(path, 'each "experiment" must be a table; write [[experiment]]')
    kinds = {"vary": str, "sizes": list, "sessions": int, "other_bytes": int, "connection": str, "labels": dict}
    values = _typed(document, kinds, path)
    if not all(type(size) is int for size in values.get("sizes", [])):
        raise FormatError(path, "all sizes must be whole numbers")
    try:
        return Experiment(**{**values, "sizes": tuple(values.get("sizes", ()))})
    except TypeError as error:
        raise FormatError(path, f"a required key is missing in an experiment ({error})") from error


def _typed(document: Document, kinds: Document, path: str) -> Document:
    for key, value in document.items():
        if key not in kinds:
            raise FormatError(path, f"unknown key {key!r}; the valid keys are {', '.join(sorted(kinds))}")
        if not isinstance(value, kinds[key]) or isinstance(value, bool):
            raise FormatError(path, f'the value of "{key}" has the wrong type: {str(value)[:60]!r}')
    for name, value in document.get("labels", {}).items():
        if isinstance(value, list | dict):
            several = f"label {name} has several values"
            raise FormatError(path, f"{several}; write an [[experiment]] with labels for each of them")
    if "labels" in document:
        return document | {"labels": {name: str(value) for name, value in document["labels"].items()}}
    return document
