"""Finds scenarios, bundled ones by name, others by path, and reads them.

Tables and keys are those of the dataclasses; unknown ones raise an error. A key `…_ns` may be written as `…_s`,
`…_ms` or `…_us`. `[tcp]` applies to both hosts, `[tcp.mobile]` and `[tcp.fixed]` to one; `profile` is the base that
the other keys change. `[link]` has a `kind` ("gsm" by default) and a table for each part of that link's
configuration; walls are several tables, `[[link.wall]]`. `[[event]]` is the script. The error trace of `[link.up]`
or `[link.down]` with `kind = "replay"` is a file beside the scenario, named by `trace`; so is the capacity trace of
these tables in a link of kind "capacity". `[link] power` of kind "switched" names a power trace.
"""

from __future__ import annotations

import json
import tomllib
from contextlib import suppress
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Never, TypeVar, get_args, get_origin, get_type_hints

from multitracer.errors import FormatError, InputError, LocalProtocolError
from multitracer.lab.channel.bluetooth_piconet import BitErrorConfig
from multitracer.lab.channel.capacity import CapacityConfig, TracedConfig
from multitracer.lab.channel.links import LINK_KINDS, AnyLinkConfig
from multitracer.lab.channel.shared.frame_errors import ErrorConfig
from multitracer.lab.channel.shared.scheduler import ScriptEvent
from multitracer.lab.channel.switched import MOST_POWER_BYTES, PowerTrace, SwitchedConfig, parse_power_trace
from multitracer.lab.scenario.model import ClockSetting, ProgramSetting, Scenario, ScenarioTraffic
from multitracer.lab.tcp.profile import TcpProfile, tcp_profile
from multitracer.manifest import inside
from multitracer.protocols.capacity_trace import CapacityTrace, parse_capacity_trace
from multitracer.protocols.error_trace import ErrorTrace, parse_error_trace
from multitracer.units import NS_PER_MS, NS_PER_S, NS_PER_US
from parsers._stream import SMALL_BYTES, small_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from multitracer.lab.channel.switched import PowerTrace
    from multitracer.protocols.capacity_trace import CapacityTrace
    from multitracer.protocols.error_trace import ErrorTrace
    from multitracer.schemas.schema import Document

    ReadTrace = Callable[[str], ErrorTrace]
    ReadCapacity = Callable[[str], CapacityTrace]
    ReadPower = Callable[[str], PowerTrace]


T = TypeVar("T")
_UNITS = {"_s": NS_PER_S, "_ms": NS_PER_MS, "_us": NS_PER_US}
_HOSTS = ("mobile", "fixed")
_MOST = (1 << 63) - 1
"""Maximum number: times are int64 ns, and all other numbers are far smaller."""
_PLAIN = {"title", "figure", "limit_s", "seed"}


def parse_scenario(
    text: str,
    *,
    name: str,
    path: str,
    read_trace: ReadTrace,
    read_capacity: ReadCapacity | None = None,
    read_power: ReadPower | None = None,
) -> Scenario:
    """Return the scenario in `text`.

    Parameters
    ----------
    text : str
        The complete TOML file.
    name : str
        Name of the scenario.
    path : str
        The file's name, for messages.
    read_trace : callable
        Returns the error trace for a name in `trace`.
    read_capacity : callable, optional
        Returns the capacity trace for a name in `trace`; by default capacity traces raise an error.
    read_power : callable, optional
        Returns the power trace for a name in `power`; by default power traces raise an error.

    Raises
    ------
    FormatError
        If the text is not TOML, or a table, key or value is not valid in a scenario.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FormatError(path, f"the file is not valid TOML: {error}") from error
    return _Reader(path, read_trace, read_capacity, read_power).scenario(document, name, text)


class _Reader:
    """Builds the dataclasses of one scenario from its tables; `path` is for messages."""

    def __init__(
        self, path: str, read_trace: ReadTrace, read_capacity: ReadCapacity | None, read_power: ReadPower | None
    ) -> None:
        self._path = path
        self._read_trace = read_trace
        self._read_capacity = read_capacity
        self._read_power = read_power

    def scenario(self, document: Document, name: str, text: str) -> Scenario:
        known = _PLAIN | {"tcp", "link", "traffic", "event", "clock", "program"}
        self._refuse(document.keys() - known, "the scenario")
        plain = {key: value for key, value in document.items() if key in _PLAIN}
        tcp = self._table(document, "tcp")
        return self._build(
            Scenario,
            plain,
            "the scenario",
            name=name,
            source=text,
            mobile=self._profile(tcp, "mobile"),
            fixed=self._profile(tcp, "fixed"),
            link=self._link(self._table(document, "link")),
            traffic=self._list(ScenarioTraffic, document, "traffic"),
            events=self._list(ScriptEvent, document, "event"),
            clock=self._build(ClockSetting, self._table(document, "clock"), "[clock]"),
            program=self._build(ProgramSetting, self._table(document, "program"), "[program]"),
        )

    def _profile(self, tcp: Document, host: str) -> TcpProfile:
        both = {key: value for key, value in tcp.items() if key not in _HOSTS}
        changes = both | self._table(tcp, host)
        where = f"[tcp.{host}]"
        base = changes.pop("profile", "bsd")
        converted = self._values(TcpProfile, changes, where)
        return self._checked(lambda: tcp_profile(str(base), **converted), where)

    def _link(self, table: Document) -> AnyLinkConfig:
        kind = table.get("kind", "gsm")
        if not isinstance(kind, str) or kind not in LINK_KINDS:
            raise FormatError(self._path, f'[link] "kind" must be one of {", ".join(LINK_KINDS)}, but is {kind!r}')
        config = LINK_KINDS[kind]
        parts = {f.name: f.default_factory() for f in fields(config) if callable(f.default_factory)}
        lists: dict[str, type] = getattr(config, "LISTS", {})
        plain = {key: value for key, value in table.items() if key != "kind" and key not in {*parts, *lists}}
        built = {name: self._part(type(default), table, name) for name, default in parts.items() if name in table}
        built |= {name: self._list(each, table, name) for name, each in lists.items()}
        if config is SwitchedConfig and "power" in plain:
            built["power"] = self._power(plain.pop("power"))
        link = self._build(config, plain, "[link]", **built)
        if isinstance(link, CapacityConfig) and not link.traces:
            raise FormatError(
                self._path, 'a [link] of the kind "capacity" needs a trace; name a trace in [link.up] or [link.down]'
            )
        return link

    def _part(self, kind: type, link: Document, name: str) -> object:
        if kind is ErrorConfig:
            return self._errors(link, name)
        if kind is TracedConfig:
            return self._traced(link, name)
        if kind is BitErrorConfig:
            return self._bit_errors(link, name)
        return self._build(kind, self._table(link, name), f"[link.{name}]")

    def _power(self, name: object) -> PowerTrace:
        if not isinstance(name, str) or self._read_power is None:
            raise FormatError(
                self._path,
                f'[link] "power" must be the name of a power trace in the folder of this file, but is {name!r}',
            )
        return self._read_power(name)

    def _traced(self, link: Document, direction: str) -> TracedConfig:
        table = self._table(link, direction)
        self._refuse(table.keys() - {"trace"}, f"[link.{direction}]")
        name = table.get("trace")
        if not isinstance(name, str) or self._read_capacity is None:
            raise FormatError(
                self._path,
                f'[link.{direction}] "trace" must be the name of a capacity trace in '
                f"the folder of this file, but is {name!r}",
            )
        return TracedConfig(trace=self._read_capacity(name))

    def _errors(self, link: Document, direction: str) -> ErrorConfig:
        table = dict(self._table(link, direction))
        trace = table.pop("trace", None)
        more: Document = {}
        if trace is not None:
            recorded = self._read_trace(str(trace))
            more["replayed"] = recorded.up if direction == "up" else recorded.down
            more["replayed_slot_ns"] = recorded.slot_ns
        return self._build(ErrorConfig, table, f"[link.{direction}]", **more)

    def _bit_errors(self, link: Document, name: str) -> BitErrorConfig:
        table = dict(self._table(link, name))
        trace = table.pop("trace", None)
        more: Document = {}
        if trace is not None:
            recorded = self._read_trace(str(trace))
            more = {"replayed_up": recorded.up, "replayed_down": recorded.down}
        return self._build(BitErrorConfig, table, f"[link.{name}]", **more)

    def _list(self, kind: type[T], document: Document, key: str) -> tuple[T, ...]:
        tables = document.get(key, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise FormatError(self._path, f'"{key}" must be a list of tables; write [[{key}]]')
        return tuple(self._build(kind, table, f"[[{key}]]") for table in tables)

    def _table(self, document: Document, key: str) -> Document:
        table = document.get(key, {})
        if not isinstance(table, dict):
            raise FormatError(self._path, f'"{key}" must be a table; write [{key}]')
        return table

    def _build(self, kind: type[T], table: Document, where: str, **more: object) -> T:
        values = self._values(kind, table, where)
        return self._checked(lambda: kind(**values, **more), where)

    def _checked(self, make: Callable[[], T], where: str) -> T:
        try:
            return make()
        except LocalProtocolError as error:
            raise FormatError(self._path, f"{where}: {error}") from error

    def _values(self, kind: type, table: Document, where: str) -> Document:
        """Return the checked values for the fields of the dataclass `kind`, in the units of the fields.

        `where` names the table in messages.
        """
        assert is_dataclass(kind)
        known = {field.name: field for field in fields(kind)}
        hints = get_type_hints(kind, localns=globals())
        values: Document = {}
        unknown = set()
        for key, value in table.items():
            name, factor = _field_of(key, known)
            if name is None:
                unknown.add(key)
            else:
                values[name] = self._value(value, hints[name], f"{where} {key}", factor)
        self._refuse(unknown, where)
        lacking = [n for n, field in known.items() if _is_required(field) and n not in values and n != "name"]
        if lacking:
            raise FormatError(self._path, f"{where} does not have these required keys: {', '.join(sorted(lacking))}")
        return values

    def _value(self, value: object, hint: object, where: str, factor: int) -> object:
        if isinstance(value, int | float) and not (-_MOST <= value * factor <= _MOST):  # true of NaN, too
            most = f"{_MOST // factor:,}"
            raise FormatError(self._path, f"{where} must be a number from -{most} to {most}, but is {_shown(value)}")
        if factor != 1 and isinstance(value, int | float) and not isinstance(value, bool):
            return round(value * factor)
        if get_origin(hint) is Literal:
            if value in get_args(hint):
                return value
            raise FormatError(self._path, f"{where} must be one of {get_args(hint)}, but is {value!r}")
        if hint is float and type(value) is int:
            return float(value)
        if type(value) is not hint:
            raise FormatError(
                self._path, f"{where} must be of the type {getattr(hint, '__name__', hint)}, but is {value!r}"
            )
        return value

    def _refuse(self, unknown: set[str], where: str) -> None:
        if unknown:
            raise FormatError(
                self._path, f"{where} contains unknown keys: {', '.join(sorted(unknown))}; correct or remove them"
            )


def _field_of(key: str, known: dict[str, Field[object]]) -> tuple[str | None, int]:
    if key in known:
        return key, 1
    for suffix, factor in _UNITS.items():
        name = key.removesuffix(suffix) + "_ns"
        if key.endswith(suffix) and name in known:
            return name, factor
    return None, 1


def _shown(number: object) -> str:
    """Return a number as text of limited length, for messages."""
    return "too large" if isinstance(number, int) else str(number)


def _is_required(field: Field[object]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


SCENARIO = "scenario.toml"
"""Name of the scenario file in the folder of a run."""
KEPT_TRACES = "truth/traces"
"""Folder for the traces of the scenario in the folder of a run; each file has its original name."""
_SUFFIX = ".toml"
_LINKS = ("bluetooth", "bluetooth-linux22", "cdma2000", "cdpd", "cdpd-palm")


def bundled_names() -> list[str]:
    """Return the sorted names of the bundled scenarios that can be run alone."""
    folder = files("multitracer.lab.scenario") / "bundled"
    names = [entry.name.removesuffix(_SUFFIX) for entry in folder.iterdir() if _is_scenario(entry.name)]
    return sorted(set(names) - set(_LINKS))


def bundled_links() -> list[str]:
    """Return the sorted names of the bundled links for measurements; `load_scenario` accepts these names."""
    return list(_LINKS)


def _is_scenario(name: str) -> bool:
    return name.endswith(_SUFFIX)


def load_scenario(name: str, changes: Mapping[str, object] | None = None) -> Scenario:
    """Return a scenario: a bundled one by its name, or any other by the path of its TOML file.

    Parameters
    ----------
    name : str
    changes : mapping of str to object, optional
        Values that replace those of the file, by key such as `link.cell.busy_percent`.

    Raises
    ------
    InputError
        If there is no such scenario or file.
    FormatError
        If the file is not a valid scenario.
    """
    if name in bundled_names() or name in _LINKS:
        entry = files("multitracer.lab.scenario") / "bundled" / f"{name}{_SUFFIX}"
        return parse_scenario(
            _changed(entry.read_text("utf-8"), changes, name),
            name=name,
            path=name,
            read_trace=_no_trace,
            read_capacity=_no_trace,
            read_power=_no_trace,
        )
    if not _is_scenario(name):
        known = ", ".join((*bundled_names(), *_LINKS))
        raise InputError(f"{name}: no scenario has this name; give a .toml file or one of {known}")
    path = Path(name)
    named = _TraceFiles(path)
    scenario = parse_scenario(
        _changed(small_text(path), changes, name),
        name=path.stem,
        path=name,
        read_trace=lambda relative: parse_error_trace(**named.text(relative)),
        read_capacity=lambda relative: parse_capacity_trace(**named.text(relative)),
        read_power=lambda relative: parse_power_trace(**named.text(relative, MOST_POWER_BYTES)),
    )
    return replace(scenario, traces=tuple(named.texts.items()))


def _changed(text: str, changes: Mapping[str, object] | None, path: str) -> str:
    return changed_text(text, changes, path=path) if changes else text


class _TraceFiles:
    """Reads the trace files that a scenario names; in the folder of a run, the copies in that folder."""

    def __init__(self, scenario: Path) -> None:
        self._folder = scenario.parent
        self._is_kept = scenario.name == SCENARIO
        self.texts: dict[str, str] = {}

    def text(self, relative: str, most_bytes: int = SMALL_BYTES) -> dict[str, str]:
        """Return the text and the path of a trace file; raise the errors of `inside` and `small_text`."""
        path = inside(self._folder, relative)
        if self._is_kept:
            kept = inside(self._folder / KEPT_TRACES, relative)
            with suppress(OSError):  # a name that is too long
                path = kept if kept.is_file() else path
        self.texts[relative] = small_text(path, most_bytes=most_bytes)
        return {"text": self.texts[relative], "path": str(path)}


def _no_trace(name: str) -> Never:
    raise InputError(f"{name}: a bundled scenario must not name a trace file")


def read_error_trace(path: Path) -> ErrorTrace:
    """Return the error trace in a file.

    Raises
    ------
    InputError
        If the file cannot be read.
    FormatError
        If the file is not an error trace.
    """
    return parse_error_trace(small_text(path), path=str(path))


def read_capacity_trace(path: Path) -> CapacityTrace:
    """Return the capacity trace in a file of Mahimahi's format.

    Raises
    ------
    InputError
        If the file cannot be read.
    FormatError
        If the file is not a capacity trace.
    """
    return parse_capacity_trace(small_text(path), path=str(path))


def read_power_trace(path: Path) -> PowerTrace:
    """Return the power trace in a file that `testbed channel` wrote.

    Raises
    ------
    InputError
        If the file cannot be read.
    FormatError
        If the file is not a power trace.
    """
    return parse_power_trace(small_text(path, most_bytes=MOST_POWER_BYTES), path=str(path))


# A scenario's TOML with other values: what a level of a variable stands for.


def changed_text(text: str, changes: Mapping[str, object], *, path: str) -> str:
    """Return a scenario's TOML text with some values changed; new keys are added at the start of their table.

    Parameters
    ----------
    text : str
        TOML.
    changes : mapping of str to object
        Values by key, such as `link.cell.busy_percent`. A table that the text does not have is added.
    path : str
        Path of the file, for messages.

    Raises
    ------
    FormatError
        If the text is not TOML, or a key is below another key that is not a table.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FormatError(path, f"the file is not valid TOML: {error}") from error
    for key, value in changes.items():
        *tables, last = key.split(".")
        inner: Document = document
        for name in tables:
            inner = inner.setdefault(name, {})
            if not isinstance(inner, dict):
                raise FormatError(path, f'cannot set the key "{key}", because "{name}" is not a table')
        inner[last] = value
    return "".join(f"{json.dumps(key)} = {_value(value)}\n" for key, value in document.items())


def _value(value: object) -> str:
    """Return a value as TOML on one line; TOML uses the escapes of JSON strings."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool | float) else str(value)
