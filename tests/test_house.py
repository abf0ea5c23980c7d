"""docs/house.md: the picture is what the imports say, and the walks lead through files that are there."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter

import pytest

from docs.programs import house

PAGE = house.ROOT / "docs" / "house.md"


@pytest.fixture(scope="module")
def modules() -> dict[str, set[str]]:
    return house.modules()


@pytest.fixture(scope="module")
def imports(modules: dict[str, set[str]]) -> dict[str, set[str]]:
    return house.imports(modules)


def test_the_picture_shows_the_imports_of_today() -> None:
    assert house.PICTURE.read_text("utf-8") == house.drawing(), "run python -m docs.programs.house"


def test_every_room_has_a_place(imports: dict[str, set[str]]) -> None:
    assert set(imports) == set(house.HOUSE), "give the room a place in docs/programs/house.py"


def test_every_arrow_leads_down(imports: dict[str, set[str]]) -> None:
    floor = {name: place.floor for name, place in house.HOUSE.items()}
    assert [arrow for arrow in house.arrows(imports) if floor[arrow[0]] <= floor[arrow[1]]] == []


def test_no_module_imports_itself_by_way_of_others(modules: dict[str, set[str]]) -> None:
    """Neither behind `TYPE_CHECKING` nor inside functions."""
    assert len(modules) > 100
    TopologicalSorter(modules).prepare()  # raises the circle


def test_only_what_follows_from_other_arrows_is_left_out() -> None:
    direct = {"a": {"b", "c"}, "b": {"c"}, "c": set[str]()}
    assert house.arrows(direct) == [("a", "b"), ("b", "c")]


def test_the_walks_lead_through_files_that_are_there() -> None:
    named: list[str] = re.findall(r"`([\w/]+\.py)`", PAGE.read_text("utf-8"))
    assert len(named) > 30
    assert [path for path in named if "/" in path and not (house.ROOT / path).is_file()] == []
