"""A scenario's TOML with other values: what a level of a variable stands for."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING

from multitracer.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.tables import Document


def changed_text(text: str, changes: Mapping[str, object], *, path: str) -> str:
    """Return a scenario's TOML text with other values, a line for each table and key at its top.

    Parameters
    ----------
    text : str
        TOML.
    changes : mapping of str to object
        By key: `link.cell.busy_percent`. A table that the text does not have is added.
    path : str
        For messages.

    Raises
    ------
    FormatError
        If it is not TOML, or a key lies below one that is no table.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FormatError(path, f"not TOML: {error}") from error
    for key, value in changes.items():
        *tables, last = key.split(".")
        inner: Document = document
        for name in tables:
            inner = inner.setdefault(name, {})
            if not isinstance(inner, dict):
                raise FormatError(path, f"cannot set {key}: {name} is no table")
        inner[last] = value
    return "".join(f"{json.dumps(key)} = {_value(value)}\n" for key, value in document.items())


def _value(value: object) -> str:
    """Return a value as TOML on one line; what a JSON string escapes, TOML escapes alike."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool | float) else str(value)
