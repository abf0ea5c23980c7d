"""What `help()` and completion show of the public names: a summary, columns or units, and an example."""

from __future__ import annotations

import ast
import inspect
import pydoc
import rlcompleter
from typing import Any

import pytest

import multitracer as mt
from multitracer.api.alignment import Alignment
from multitracer.api.campaign import Campaign, Comparison
from multitracer.api.correlate import Correlation
from multitracer.api.frames import schemas
from multitracer.diagnosis.diagnosis import Diagnosis
from tests.conftest import ROOT, SAMPLES

CLASSES = (mt.Session, Alignment, Campaign, Comparison, Correlation)
NAMES = [name for name in mt.__all__ if name != "__version__"]
MEMBERS = [(kind, name) for kind in CLASSES for name, _ in inspect.getmembers(kind) if not name.startswith("_")]
_COLUMNS = ("mt.columns(", 'attrs["columns"]')


def summary_of(thing: object) -> str:
    """Return the first paragraph of a docstring as one line."""
    return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())


def help_of(thing: object) -> str:
    """Return what `help()` prints."""
    return pydoc.plain(pydoc.render_doc(thing))


@pytest.mark.parametrize("name", NAMES)
def test_help_of_a_public_name_has_a_summary_and_an_example(name: str) -> None:
    thing = getattr(mt, name)
    shown = help_of(thing)
    assert summary_of(thing).endswith(".")
    assert summary_of(thing)[:60] in " ".join(shown.split())
    assert ">>> " in inspect.getdoc(thing)  # type: ignore[operator]  # tests/api/test_docstrings.py runs them


@pytest.mark.parametrize(("kind", "name"), MEMBERS, ids=lambda value: getattr(value, "__name__", value))
def test_help_of_a_member_has_a_summary_and_an_example(kind: type, name: str) -> None:
    member: Any = inspect.getattr_static(kind, name)
    assert summary_of(member).endswith(".")
    assert ">>> " in inspect.getdoc(member)  # type: ignore[operator]
    shown = " ".join(help_of(kind).split())
    assert summary_of(member)[:60] in shown.replace("| ", "")
    returned = str(inspect.signature(getattr(member, "fget", None) or member).return_annotation)
    if kind is mt.Session and returned == "pd.DataFrame":
        doc = inspect.getdoc(member) or ""
        named = [part.partition('"')[0] for part in doc.split('mt.columns("')[1:]]
        assert any(words in doc for words in _COLUMNS), "columns with units and meanings"
        assert set(named) <= set(schemas())


def test_what_a_diagnosis_has_is_summarized() -> None:
    members = [member for name, member in inspect.getmembers(Diagnosis) if not name.startswith("_")]
    assert [member for member in members if not summary_of(member).endswith(".")] == []


def test_completion_lists_all_names_and_computes_none() -> None:
    """It took 20 s of a drive, whose every table was computed to learn whether it can be called."""
    session = mt.open(SAMPLES / "rehearsed-drive")
    assert completed("mt.", mt=mt) >= {f"mt.{name}" for name in NAMES}
    assert completed("session.", session=session) >= {f"session.{name}" for kind, name in MEMBERS if kind is mt.Session}
    assert completed("session.sec", session=session) == {"session.seconds"}
    assert completed("mt.SegmentKind.RE", mt=mt) == {"mt.SegmentKind.RETRANSMISSION"}
    assert not {"segments", "radio", "stretches"} & set(session.__dict__)


def completed(text: str, **names: object) -> set[str]:
    """Return what the Python prompt completes a text to."""
    completer, found = rlcompleter.Completer(names), set[str]()
    while (word := completer.complete(text, len(found))) is not None:
        found.add(word.partition("(")[0])
    return found


def test_type_checkers_know_the_same_names() -> None:
    tree = ast.parse((ROOT / "multitracer" / "__init__.pyi").read_text("utf-8"))
    known = {alias.asname for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert set(NAMES) <= known
