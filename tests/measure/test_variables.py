"""A table of variables becomes all combinations of their levels, in an order that the seed decides."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.errors import FormatError, InputError, MultiTracerError
from multitracer.lab.scenario.library import load_scenario
from multitracer.measure.variables import MeasuredTuples, Product, parse_product

PAPER = Path(__file__).parents[2] / "docs" / "papers" / "data" / "experiments" / "plan.toml"
BLUETOOTH = PAPER.with_name("plan-bluetooth.toml")
LTE_NR = Path(__file__).parents[2] / "docs" / "plans" / "lte-nr.toml"
CSV = "size,location\n128,downtown\n1024,campus\n8192,\n"
GOLDEN = ["000002-1", "000006-1", "000001-1", "000005-1", "000004-1", "000003-1"]
"""The order of CSV with seed 1: whoever changes it breaks plans that are half measured."""
TOML = """
protocol = "tcp"
vary = "request"
sessions = 3
repetitions = 2
over = "cdpd"
[variables]
size = [128, 1024]
place = ["a", "b"]
[levels.place]
a = { link.signal.mean_dbm = -95, sessions = 4 }
b = { link.signal.mean_dbm = -75 }
"""


def test_the_plan_of_paper_000_has_288_tuples_that_the_program_sets_over_a_modelled_link() -> None:
    plan = parse_product(PAPER.read_text("utf-8"), path=str(PAPER), more={"over": "cdpd"})
    assert (plan.count, len(plan.variables)) == (288, 5)
    assert plan.by_hand(is_modelled=True) == []
    assert plan.by_hand(is_modelled=False) == ["time_of_day", "location", "mobility"]
    assert len({str(plan.plan_of(each)) for each in plan.ordered([])}) == 288


def test_its_plan_over_bluetooth_is_432_tuples_that_the_link_can_set() -> None:
    plan = parse_product(BLUETOOTH.read_text("utf-8"), path=str(BLUETOOTH), more={"over": "bluetooth"})
    assert (plan.count, len(plan.variables)) == (432, 5)
    assert plan.by_hand(is_modelled=True) == []
    assert len({str(plan.plan_of(each)) for each in plan.ordered([])}) == 432
    for each in plan.ordered([])[:20]:
        load_scenario("bluetooth", {key: value for key, value in plan.settings_of(each).items() if "." in key})


def test_the_plan_for_lte_and_nr_leaves_all_but_the_size_to_a_person() -> None:
    plan = parse_product(LTE_NR.read_text("utf-8"), path=str(LTE_NR), more={"server": "fixed.example:5100"})
    by_hand = ["operator", "band_lock", "location", "hour", "mobility"]
    assert plan.by_hand(is_modelled=False) == by_hand
    ordered = plan.ordered(by_hand)
    blocks = [tuple(each.levels[name] for name in by_hand) for each in ordered]
    changes = sum(before != after for before, after in pairwise(blocks))
    assert changes == len(set(blocks)) - 1, "the sizes of one place and hour are measured together"
    assert {plan.plan_of(each).protocol for each in ordered} == {"tcp"}


def test_a_csv_has_a_column_for_each_variable() -> None:
    plan = parse_product(CSV, path="drive.csv", more={"protocol": "tcp", "sessions": None})
    assert plan.variables == {"size": ("128", "1024", "8192"), "location": ("downtown", "campus")}
    assert plan.settings == {"protocol": "tcp"}
    assert plan.by_hand(is_modelled=True) == ["location"]


def test_levels_are_settings_and_labels() -> None:
    plan = parse_product(TOML, path="drive.toml", more={"vary": "reply"})
    (each,) = (t for t in plan.ordered([]) if t.name == "000003-2")
    assert each.levels == {"size": "1024", "place": "a"}
    assert plan.settings_of(each)["link.signal.mean_dbm"] == -95
    measured = plan.plan_of(each)
    assert measured.labels == {"size": "1024", "place": "a", "repetition": "2"}
    assert (measured.over, measured.server) == ("cdpd", "")
    assert [(t.size_bytes, t.vary) for t in measured.transactions()] == [(1024, "reply")] * 4


words = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1)
levels = st.lists(words, min_size=1, unique=True)


@given(
    st.dictionaries(st.sampled_from(["size_class", "place", "car", "hour"]), levels, min_size=1),
    st.integers(1, 3),
    st.integers(0, 5),
)
def test_each_repetition_has_every_tuple_once_and_blocks_stay_together(
    variables: dict[str, list[str]], repetitions: int, seed: int
) -> None:
    product = Product({name: tuple(each) for name, each in variables.items()}, {}, {}, repetitions, seed)
    if product.count > 2_000:
        return
    blocks = list(variables)[:1]
    order = product.ordered(blocks)
    assert [each.repetition for each in order] == sorted(each.repetition for each in order)
    assert Counter(each.name for each in order) == Counter({each.name: 1 for each in order})
    assert len(order) == product.count
    changes = sum(
        (before.repetition, before.levels[blocks[0]]) != (after.repetition, after.levels[blocks[0]])
        for before, after in pairwise(order)
    )
    assert changes == repetitions * len(variables[blocks[0]]) - 1


def test_the_order_is_that_of_the_seed() -> None:
    orders = [
        [each.name for each in parse_product(CSV, path="a.csv", more={"seed": seed}).ordered([])] for seed in (1, 1, 2)
    ]
    assert orders[0] == orders[1] != orders[2]
    assert orders[0] == GOLDEN


def test_the_order_does_not_depend_on_the_position() -> None:
    """The first tuple of an order is any of them: over many seeds each is first about equally often."""
    first = Counter(parse_product(CSV, path="a.csv", more={"seed": seed}).ordered([])[0].name for seed in range(1_200))
    assert set(first) == {f"{number:06d}-1" for number in range(1, 7)}
    assert max(first.values()) < 270, "200 are expected, with a deviation of 13"


@pytest.mark.parametrize(
    ("text", "name", "sentence"),
    [
        ("", "a.csv", "not a table of variables"),
        ("size\n128\n128\n", "a.csv", "each only once"),
        ("size,size\n1,2\n", "a.csv", 'the variable "size" is named twice'),
        ("size,\n1,2\n", "a.csv", "'' is not allowed as the name"),
        ("size\n1,2\n", "a.csv", "a.csv:2: the line has 2 cells, but there are 1 variables"),
        ("size\n", "a.csv", "must have 1 to"),
        ("seed\n1\n", "a.csv", "'seed' is not allowed as the name"),
        ("repetition\n1\n", "a.csv", "'repetition' is not allowed as the name"),
        ("size\nlarge\n", "a.csv", "size: each level must be of the type int, but one level is 'large'"),
        ("=cmd|'/c calc'!A1\n1\n", "a.csv", "is not allowed as the name"),
        ("size = [1]", "a.toml", "the table [variables] is missing"),
        ("[variables]\nsize = 1", "a.toml", "the table [variables] is missing"),
        ("[variables]\nsize = [[1]]", "a.toml", "must be text or a number"),
        ("speed = 1\n[variables]\nsize = [26]", "a.toml", "unknown key 'speed'"),
        ("sessions = true\n[variables]\nsize = [26]", "a.toml", "has the wrong type: 'True'"),
        ("[variables]\nsize = [26]\n[levels.size]\n27 = {}", "a.toml", "'27', which is not a level"),
        ("[variables]\nsize = [26]\n[levels.place]\na = {}", "a.toml", "does not belong to a variable"),
        ("[variables]\nplace = ['a']\n[levels.place]\na = 1", "a.toml", "the settings of a level are '1'"),
        ("[variables]\nplace = ['a']\n[levels.place]\na = { x = 1 }", "a.toml", "unknown key 'x'"),
        ("[variables]\nplace = ['a']\n[levels.place]\na = { link.x = 1979-05-27 }", "a.toml", "wrong type"),
        (
            "[variables]\nplace = ['a']\n[levels.place]\na = {" + "x." * 50 + "y = 1}",
            "a.toml",
            "the settings of a level are",
        ),
        ("repetitions = 200_000\n[variables]\nsize = [26]", "a.toml", "must be 1 to 100,000"),
        ("[variables", "a.toml", "not valid TOML"),
    ],
)
def test_a_table_that_is_none_is_one_sentence(text: str, name: str, sentence: str) -> None:
    with pytest.raises(MultiTracerError) as caught:
        parse_product(text, path=name)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_plan_that_lacks_a_setting_says_which() -> None:
    plan = parse_product("size\n128\n", path="a.csv")
    with pytest.raises(InputError, match="has no value for protocol, vary, server"):
        plan.plan_of(plan.ordered([])[0])


@given(st.text(max_size=300), st.sampled_from(["a.csv", "a.toml"]))
def test_any_text_is_a_table_or_an_error(text: str, name: str) -> None:
    try:
        plan = parse_product(text, path=name)
    except MultiTracerError:
        return
    assert plan.count >= 1


# --- what is done ---


def _plan(**more: object) -> Product:
    return parse_product(CSV, path="a.csv", more=more)


def test_what_is_done_is_known_after_a_crash(tmp_path: Path) -> None:
    with MeasuredTuples(tmp_path, _plan()) as measured:
        measured.add("000001-1", 100, 2)
        measured.add("000002-1", 100, 0)
    with (tmp_path / "done.jsonl").open("ab") as stream:
        stream.write(b'{"tuple": "000003-1", "trans')
    with MeasuredTuples(tmp_path, _plan()) as measured:
        assert measured.done == {"000001-1": (100, 2), "000002-1": (100, 0)}
        assert measured.transactions == (200, 2)
        measured.add("000003-1", 100, 1)
    with MeasuredTuples(tmp_path, _plan()) as measured:
        assert list(measured.done) == ["000001-1", "000002-1", "000003-1"]


def test_another_plan_is_refused_and_more_repetitions_are_not(tmp_path: Path) -> None:
    for repetitions in (1, 3, 2):
        with MeasuredTuples(tmp_path, _plan(repetitions=repetitions, server=f"host:{repetitions}")):
            pass
    for other in (_plan(seed=2), _plan(sessions=7), parse_product("size\n1\n", path="a.csv")):
        with pytest.raises(InputError, match="belongs to another plan"):
            MeasuredTuples(tmp_path, other)


def test_a_second_run_and_damaged_files_are_refused(tmp_path: Path) -> None:
    with MeasuredTuples(tmp_path, _plan()), pytest.raises(InputError, match="another run is writing to this file"):
        MeasuredTuples(tmp_path, _plan())
    (tmp_path / "done.jsonl").write_text("[]\n", "utf-8")
    with pytest.raises(FormatError, match=r"done\.jsonl:1: this line is damaged"):
        MeasuredTuples(tmp_path, _plan())
    (tmp_path / "plan.json").write_text("{}", "utf-8")
    with pytest.raises(FormatError, match="not a plan"):
        MeasuredTuples(tmp_path, _plan())
