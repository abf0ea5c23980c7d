"""What a test knows of a value and its type does not say: each function asserts it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, TypeVar

import parsers
from multitracer.lab.channel.gsm import LinkConfig

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from multitracer.lab.scenario.model import Scenario
    from multitracer.tables import Table
    from parsers._format import Format

_T = TypeVar("_T")


def known(value: _T | None) -> _T:
    """Return a value that is there."""
    assert value is not None
    return value


def of_kind(kind: type[_T], values: Iterable[object]) -> list[_T]:
    """Return the values of a class, in order."""
    return [value for value in values if isinstance(value, kind)]


def tables_of(path: Path | str) -> dict[str, Table]:
    """Return the tables of a log that is no capture."""
    _, tables = parsers.read(path)
    assert isinstance(tables, dict)
    return tables


def parsed(fmt: Format, octets: bytes) -> dict[str, Table]:
    """Return the tables that a format makes of a log, given as its octets."""
    tables = fmt.parse(io.BytesIO(octets), path="x")
    assert isinstance(tables, dict)
    return tables


def call_of(scenario: Scenario) -> LinkConfig:
    """Return the link of a scenario that is a GSM data call."""
    assert isinstance(scenario.link, LinkConfig)
    return scenario.link
