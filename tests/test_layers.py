"""docs/architecture.md: the picture is that of the imports, and the walks name files that are there."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

import pytest

from docs.programs import architecture

if TYPE_CHECKING:
    from pathlib import Path

REMAKE = "run python -m docs.programs.architecture"
PAGE = architecture.ROOT / "docs" / "architecture.md"


@pytest.fixture(scope="module")
def modules() -> dict[str, set[str]]:
    return architecture.modules()


@pytest.fixture(scope="module")
def imports(modules: dict[str, set[str]]) -> dict[str, set[str]]:
    return architecture.imports(modules)


def test_the_picture_shows_the_imports_of_today() -> None:
    assert architecture.PICTURE.read_text("utf-8") == architecture.drawing(), REMAKE


def test_every_package_has_a_place(imports: dict[str, set[str]]) -> None:
    assert set(imports) == set(architecture.PLACES), "a package has no place in architecture.py"


def test_every_arrow_leads_down(imports: dict[str, set[str]]) -> None:
    layer = {name: place.layer for name, place in architecture.PLACES.items()}
    assert [arrow for arrow in architecture.arrows(imports) if layer[arrow[0]] <= layer[arrow[1]]] == []


def test_no_module_imports_itself_by_way_of_others(modules: dict[str, set[str]]) -> None:
    """Neither behind `TYPE_CHECKING` nor inside functions."""
    assert len(modules) > 100
    TopologicalSorter(modules).prepare()  # raises the circle


def test_only_what_follows_from_other_arrows_is_left_out() -> None:
    direct = {"a": {"b", "c"}, "b": {"c"}, "c": set[str]()}
    assert architecture.arrows(direct) == [("a", "b"), ("b", "c")]


@pytest.mark.parametrize(("page", "minimum"), [(PAGE, 30), (architecture.ROOT / "CONTRIBUTING.md", 10)])
def test_the_files_that_a_page_names_are_there(page: Path, minimum: int) -> None:
    named: set[str] = set(re.findall(r"`([\w/]+\.py)`", page.read_text("utf-8")))
    paths = {name for name in named if name.startswith(("multitracer/", "parsers/", "collectors/"))}
    assert len(paths) > minimum
    made_up = {"parsers/acme_rlp.py"}
    assert {path for path in paths - made_up if not (architecture.ROOT / path).is_file()} == set()
