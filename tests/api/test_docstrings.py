"""The examples in the docstrings of what is public run, and every public name has one."""

from __future__ import annotations

import doctest
import inspect
import shutil
from typing import TYPE_CHECKING

import pandas as pd
import pytest

import multitracer as mt
from docs.programs import tables as tables_page
from multitracer import plugins
from multitracer.api import alignment, campaign, correlate, events, figures, frames, session, tables
from multitracer.campaign.run import run
from multitracer.lab import received_power
from tests.campaign.sessions import make_session, make_sessions
from tests.conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODULES = (alignment, campaign, correlate, events, figures, frames, received_power, session, tables)
_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def _documented() -> Iterator[tuple[str, str]]:
    """Yield name and docstring of every public thing; doctest's own finder passes over cached properties."""
    here = {module.__name__ for module in MODULES}
    for name in mt.__all__:
        if getattr(getattr(mt, name), "__module__", "") not in here:
            yield f"multitracer.{name}", getattr(mt, name).__doc__ or ""
    for module in MODULES:
        for name, thing in vars(module).items():
            if name.startswith("_") or getattr(thing, "__module__", "") != module.__name__:
                continue
            yield f"{module.__name__}.{name}", thing.__doc__ or ""
            for inner, member in vars(thing).items() if inspect.isclass(thing) else ():
                yield f"{module.__name__}.{name}.{inner}", getattr(member, "__doc__", "") or ""


_EXAMPLES = [
    doctest.DocTestParser().get_doctest(text, {}, name, name, 0) for name, text in _documented() if ">>>" in text
]


@pytest.fixture(scope="module")
def opened(sample_session: Path) -> mt.Session:
    return mt.open(sample_session)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, mt.Session]:
    """Return what `measure run` recorded over CDPD, by the names that examples give it."""
    names = {"over_tcp": "cdpd-tcp1999", "over_centauruscomm": "cdpd-cc"}
    folder = tmp_path_factory.mktemp("measured")
    for name, recorded in names.items():
        (folder / name).mkdir()
        shutil.copy(
            ROOT / "docs" / "papers" / "data" / "experiments" / f"{recorded}.csv.gz",
            folder / name / "transactions.csv.gz",
        )
    return {name: mt.open(folder / name) for name in names}


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Return a campaign of one small session, and a folder of one session of each of two operators."""
    folder = tmp_path_factory.mktemp("campaign")
    make_session(folder / "drive")
    run([str(folder / "drive")], folder / "campaign")
    return {
        "place": folder / "campaign",
        "campaign": mt.open_campaign(folder / "campaign"),
        "operators": make_sessions(folder / "operators", 2),
    }


@pytest.mark.parametrize("example", _EXAMPLES, ids=lambda example: example.name)
def test_the_example_runs(
    example: doctest.DocTest,
    opened: mt.Session,
    measured: dict[str, mt.Session],
    campaigns: dict[str, object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    example.globs = {"mt": mt, "pd": pd, "session": opened, "folder": tmp_path, **measured, **campaigns}
    printed: list[str] = []
    failed, tried = doctest.DocTestRunner(optionflags=_OPTIONS).run(example, out=printed.append)
    assert not failed, "".join(printed)
    assert tried


def test_every_public_member_has_an_example() -> None:
    members = inspect.getmembers(mt.Session, lambda member: not inspect.isclass(member))
    public = {name: getattr(m, "func", m) for name, m in members if not name.startswith("_")}
    assert [name for name, member in public.items() if ">>>" not in (inspect.getdoc(member) or "")] == []


def test_public_names_are_listed_and_lead_somewhere() -> None:
    for module in (mt, plugins):
        for name in module.__all__:
            assert getattr(module, name) is not None
    assert {"open", "Session", "columns", "epochs", "join_nearest"} <= set(mt.__all__)


def test_the_old_name_is_a_deprecated_alias() -> None:
    with pytest.warns(mt.MultiTracerDeprecationWarning, match=r"now multitracer\.Session, and goes in version 0\.3"):
        assert mt.Notebook is mt.Session


def test_the_page_of_tables_is_as_the_schemas_are() -> None:
    assert tables_page.PAGE.read_text("utf-8") == tables_page.page(), "run `python -m docs.programs.tables`"
