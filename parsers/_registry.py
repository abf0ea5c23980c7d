"""Finds formats: every public module of `parsers`, then the entry points `multitracer.formats`.

A module of ours that does not load is a bug and raises what it raises. A third party's that does not load,
that binds no FORMAT, or that repeats a name is left out, and `installed().broken` says why: one bad package
must not make every session folder unreadable.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, get_args

from multitracer.capture import Capture
from multitracer.errors import FormatError, MultiTracerError, PluginError, UnknownFormatError
from multitracer.tables import Table
from parsers._format import Format, Match
from parsers._plug_ins import entry_points

if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from types import ModuleType

    from parsers._format import Parsed
    from parsers._text.bundled import BundledMap

_ANSWERS: tuple[Match, ...] = get_args(Match)
_LONGEST_SHOWN = 60


class Installed(NamedTuple):
    """The formats that can be used, and why others cannot."""

    formats: dict[str, Format]
    """By name."""
    broken: list[PluginError]
    """One for each plug-in that was left out."""


@functools.cache
def installed() -> Installed:
    """Return every installed format.

    Raises
    ------
    PluginError
        If a public module of this package binds no FORMAT, or repeats a name.
    """
    registry = Installed({}, [])
    for module in _own_modules():
        fmt = _bound(module, module.__name__, taken=registry.formats)
        registry.formats[fmt.name] = fmt
    for point in entry_points():
        try:
            fmt = _bound(point.load(), point.value, taken=registry.formats)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # a plug-in may raise anything in its import
            registry.broken.append(
                PluginError(f"format plug-in {point.name} ({point.value}): {_words(error)}; it is left out")
            )
        else:
            registry.formats[fmt.name] = _guarded(fmt, registry.broken)
    return registry


def _bound(module: object, name: str, *, taken: Container[str]) -> Format:
    fmt = getattr(module, "FORMAT", None)
    if not isinstance(fmt, Format):
        raise PluginError(f"{name}: no FORMAT of type parsers.Format; add one as its last line")
    if fmt.name in taken:
        raise PluginError(f"{name}: a format named {fmt.name!r} exists already; rename one")
    return fmt


def _guarded(fmt: Format, broken: list[PluginError]) -> Format:
    """Return a plug-in's format that contains its faults: it then claims nothing, or its log is damaged."""

    def sniff(head: bytes, /) -> Match:
        try:
            return _checked(fmt.sniff(head))
        except Exception as error:  # noqa: BLE001  # see `Format.sniff`: it never raises, if it is right
            sentence = f"format plug-in {fmt.name}: its sniff failed: {_words(error)}"
            if sentence not in map(str, broken):  # once, though it is asked for each file
                broken.append(PluginError(sentence))
            return "no"

    def parse(stream: BinaryIO, *, path: str) -> Parsed:
        try:
            parsed = fmt.parse(stream, path=path)
        except MultiTracerError:
            raise
        except Exception as error:
            raise FormatError(path, f"the format plug-in {fmt.name} failed: {_words(error)}") from error
        if not _holds_tables(parsed) and not isinstance(parsed, Capture):
            raise FormatError(path, f"the format plug-in {fmt.name} returned no tables by their names")
        return parsed

    return replace(fmt, sniff=sniff, parse=parse, blocks=None)


def _checked(answer: Match) -> Match:
    if answer not in _ANSWERS:
        raise PluginError(f"it answered {str(answer)[:_LONGEST_SHOWN]!r}, none of {', '.join(_ANSWERS)}")
    return answer


def _holds_tables(parsed: object) -> bool:
    return isinstance(parsed, dict) and all(
        isinstance(table, Table) and name == table.schema.name for name, table in parsed.items()
    )


def _own_modules() -> Iterator[ModuleType]:
    package = importlib.import_module("parsers")
    names = sorted(m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_"))
    for name in names:
        yield importlib.import_module(f"parsers.{name}")


def _words(error: BaseException) -> str:
    return str(error) if isinstance(error, PluginError) else f"{type(error).__name__}: {error}"


def formats() -> list[Format]:
    """Return every installed format that can be used, by name."""
    return [fmt for _, fmt in sorted(installed().formats.items())]


def left_out() -> list[PluginError]:
    """Return why plug-ins cannot be used; without any plug-in no format is loaded to know that."""
    return installed().broken if entry_points() else []


def bundled_maps() -> tuple[BundledMap, ...]:
    """Return the maps of CSV columns that come with MultiTracer, by name."""
    from parsers._text import bundled  # noqa: PLC0415  reading a capture does not need it

    return bundled.bundled_maps()


def recognise(head: bytes, *, path: str) -> Format:
    """Return the one format that claims `head`: exactly one "yes", else exactly one "maybe".

    Raises
    ------
    UnknownFormatError
        If none or several claim it; the message lists the candidates.
    """
    answers = {fmt.name: fmt.sniff(head) for fmt in formats()}
    for level in ("yes", "maybe"):
        claims = [name for name, answer in answers.items() if answer == level]
        if len(claims) == 1:
            return installed().formats[claims[0]]
        if claims:
            raise UnknownFormatError(f"{path}: could be any of {', '.join(claims)}; say which")
    raise UnknownFormatError(f"{path}: {_unknown(head, path)}")


def _unknown(head: bytes, path: str) -> str:
    from parsers._unread_formats import kind_of, looks_like_columns, named  # noqa: PLC0415  of no capture

    if head and (message := named(head, path=path)):
        return message
    known = ", ".join(installed().formats)
    what = f"no known format begins with {head[:8]!r}, it looks like {kind_of(head)}"
    if looks_like_columns(head):
        command = f"multitracer formats --propose {path} > {path}.toml"
        what += f"; for a CSV log, `{command}` proposes a map of its columns"
    return f"{what if head else 'the file is empty'}; installed formats: {known}"
