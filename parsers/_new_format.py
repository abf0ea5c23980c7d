"""Writes a package that reads one more log format: what its author changes, with a sample and a test that pass."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from pathlib import Path

from multitracer.errors import InputError
from parsers._registry import installed

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST_NAME = 40
"""Maximum length of a name, in characters: two columns of `multitracer formats` stand beside it. Not measured."""
_EXAMPLE = "acme-signal"
"""Name in the texts below, in place of which the name of the user is written."""

_PROJECT = """\
[build-system]
requires = ["setuptools>=61"]
build-backend = "setuptools.build_meta"

[project]
name = "acme-signal"
version = "0.1.0"
description = "Reads logs of acme-signal in MultiTracer"
requires-python = ">=3.11"
dependencies = ["multitracer"]

[project.optional-dependencies]
test = ["multitracer[tables]", "pytest>=8"]

[project.entry-points."multitracer.formats"]
acme-signal = "acme_signal"

[tool.setuptools]
py-modules = ["acme_signal"]
"""

_MODULE = '''\
"""Reads logs of acme-signal: one line for each reading, SECONDS,DBM."""

from multitracer.plugins import RADIO, Format, LogLines, Rows, decimal_ns

COLUMNS = ("time_ns", "line", "source", "rssi_dbm")  # of the table radio; all others are missing


def sniff(head):
    """Return whether a file that begins with these bytes is such a log."""
    return "yes" if head.startswith(b"#acme-signal 1\\n") else "no"


def parse(stream, *, path):
    """Return the tables of a log; a line that is no reading is counted."""
    lines, rows = LogLines(stream), Rows(RADIO, COLUMNS)
    for text in lines:
        if text.startswith("#"):
            continue
        try:
            seconds, rssi_dbm = text.split(",")
            rows.append(decimal_ns(*seconds.split(".")), lines.number, "csv", float(rssi_dbm))
        except (TypeError, ValueError):
            lines.skip("not SECONDS,DBM")
    return {"radio": rows.table(lines.provenance(path, FORMAT.name))}


FORMAT = Format(
    name="acme-signal",
    layer="radio",
    description="received power by acme-signal, one line per reading",
    source="the manual of acme-signal, with revision and section",
    sniff=sniff,
    parse=parse,
)
'''

_SAMPLE = """\
#acme-signal 1
1700000000.5,-97
1700000001.5,-95
1700000002.5,-101
"""

_TEST = '''\
"""The sample is recognised and read, and lines that are no readings are counted."""

import io
from pathlib import Path

import acme_signal as plug_in
import multitracer as mt

SAMPLE = Path(__file__).with_name("sample.log")


def test_the_sample_is_the_radio_of_a_session():
    radio = mt.open(SAMPLE).radio
    assert radio["rssi_dbm"].tolist() == [-97.0, -95.0, -101.0]


def test_what_is_no_reading_is_counted():
    damaged = b"inf,1\\n1;2\\n1,2,3\\n1.2.3,4\\n-1,x\\n\\xff\\n\\n"
    table = plug_in.parse(io.BytesIO(SAMPLE.read_bytes() + damaged), path="damaged.log")["radio"]
    assert len(table) == 3
    assert table.provenance["skipped"] == {"not SECONDS,DBM": 7}
'''


def new_format(name: str) -> list[Path]:
    """Write the package `name` into a new folder of that name in the working folder; return its files.

    Raises
    ------
    InputError
        If the name is none for a package, or is taken; or if the folder exists or cannot be written.
    """
    module = _checked(name)
    texts = {
        "pyproject.toml": _PROJECT,
        f"{module}.py": _MODULE,
        "tests/sample.log": _SAMPLE,
        f"tests/test_{module}.py": _TEST,
    }
    folder = Path(name)
    try:
        folder.mkdir()
        (folder / "tests").mkdir()
        for path, text in texts.items():
            with (folder / path).open("x", encoding="utf-8") as stream:
                stream.write(text.replace(_EXAMPLE, name).replace(_module_of(_EXAMPLE), module))
    except FileExistsError as error:
        raise InputError(f"{folder}: this exists already; choose another name, or another working folder") from error
    except OSError as error:
        raise InputError(f"{folder}: cannot write this folder: {error.strerror}; choose another folder") from error
    return [folder / path for path in texts]


def _module_of(name: str) -> str:
    return name.replace("-", "_")


def _checked(name: str) -> str:
    """Return the module of a package with this name; raise InputError if there can be none."""
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise InputError(
            f"{name[:_LONGEST_NAME]!r}: the name of a format must be up to {_LONGEST_NAME} small letters and digits, "
            "words joined by hyphens, such as acme-signal"
        )
    module = _module_of(name)
    if name in installed().formats:
        raise InputError(f"{name}: a format of this name is installed; choose another name")
    is_of_python = keyword.iskeyword(module) or module in sys.stdlib_module_names
    if is_of_python or module == "setup" or importlib.util.find_spec(module) is not None:
        raise InputError(f"{name}: Python or an installed package has the name {module} already; choose another name")
    return module
