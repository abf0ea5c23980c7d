"""What cannot be a radio, as a user types it: one sentence and exit status 1, or a run that ends soon."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.program import call

RAYS = '[link]\nkind = "switched"\n'
TRAFFIC = '[[traffic]]\ndirection = "down"\nbytes = 300_000\n'
SCENARIOS = {
    "a node in a wall": (
        f"{RAYS}[[link.wall]]\nfrom_x_m = 10\nfrom_y_m = -5\nto_x_m = 10\nto_y_m = 5\n",
        "the mobile node is in a wall at 0 s, at x = 10, y = 0 m; move the path of the node",
    ),
    "a node in a house": (
        f"{RAYS}[[link.building]]\nx_m = 9\ny_m = -1\nlength_m = 2\nwidth_m = 2\n",
        "the mobile node is inside a building at 0 s",
    ),
    "distance 0": (
        f"{RAYS}[link.mobile]\nx_m = 0\n",
        "the nodes are 0 m apart at 0 s; their distance must be at least one wavelength",
    ),
    "never up": (f"{RAYS}threshold_dbm = -40\n", "the link is never up: the maximum power is -46.9 dBm, below"),
    "off the street": (
        f"{RAYS}[link.street]\nwidth_m = 12\nbuildings = 1\n[link.mobile]\nx_m = 10\nspeed_m_per_s = 10\n",
        "the mobile node is outside its street at 6 s",
    ),
    "power never up": (f'{RAYS}power = "low.csv"\n', "the link is never up: the maximum power is -90.0 dBm"),
    "power backwards": (f'{RAYS}power = "back.csv"\n', "back.csv:4: time decreases from 0.2 to 0.1 s; sort"),
    "power empty": (f'{RAYS}power = "empty.csv"\n', "empty.csv:1: does not begin with the line time_s,power_dbm"),
    "power NaN": (
        f'{RAYS}power = "nan.csv"\n',
        "nan.csv:3: each line must have two numbers (time in s, received power in dBm): b'0.1,nan'",
    ),
    "capacity backwards": (
        '[link]\nkind = "capacity"\n[link.down]\ntrace = "back.down"\n',
        "back.down:3: the time decreases from 9 to 8 ms; sort the trace",
    ),
    "errors backwards": (
        '[link.down]\nkind = "replay"\ntrace = "back.txt"\n',
        "back.txt:5: the run at slot 7 of the direction down must begin after",
    ),
}
FILES = {
    "low.csv": "time_s,power_dbm\n0,-90\n0.1,-91\n",
    "back.csv": "time_s,power_dbm\n0,-60\n0.2,-60\n0.1,-60\n",
    "empty.csv": "",
    "nan.csv": "time_s,power_dbm\n0,-60\n0.1,nan\n",
    "back.down": "5\n9\n8\n",
    "back.txt": "# multitracer error-trace 1\n# slot_ns 20000000\n# slots 50\ndown 9 1\ndown 7 1\n",
}
PLAN = ("--protocol", "tcp", "--vary", "reply", "--sizes", "700")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text)


@pytest.mark.parametrize("what", SCENARIOS)
def test_a_scenario_that_cannot_be_is_one_sentence_before_the_run(what: str) -> None:
    link, says = SCENARIOS[what]
    Path("mine.toml").write_text(f"{link}{TRAFFIC}")
    for command in (
        ("testbed", "run", "mine.toml", "--virtual", "-o", "out"),
        ("testbed", "compare", "mine.toml", "--transports", "reno", "--csv", "out"),
        ("measure", "run", *PLAN, "--over", "mine.toml", "--virtual", "-o", "out"),
    ):
        assert says in call(*command, status=1).stderr
        assert not Path("out").exists()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("low.csv", "the link is never up: the maximum power is -90.0 dBm, below"),
        ("back.csv", "back.csv:4: time decreases from 0.2 to 0.1 s"),
        ("empty.csv", "no delivery opportunity; write one line for each opportunity"),
        ("nan.csv", "nan.csv:3: each line must have two numbers"),
        ("back.down", "back.down:3: the time decreases from 9 to 8 ms"),
        ("back.txt", "back.txt:5: the run at slot 7 of the direction down must begin after"),
    ],
)
def test_a_trace_that_cannot_be_a_radio_is_one_sentence(name: str, says: str) -> None:
    assert says in call("testbed", "compare", name, "--transports", "reno", status=1).stderr
    run = ("testbed", "run", "clean-bulk", "--virtual", "--errors", name, "-o", "out")
    assert name in call(*run, status=1).stderr, "none but a good error trace is one"
    assert not Path("out").exists()


def test_a_link_that_is_up_after_the_run_only_is_said() -> None:
    Path("late.csv").write_text("time_s,power_dbm\n0,-90\n70,-60\n")
    says = 'the link is down until 70 s, but the run already ends at 60 s; increase "limit_s", or choose'
    assert says in call("testbed", "compare", "late.csv", "--transports", "reno", status=1).stderr
    Path("mine.toml").write_text(f'limit_s = 60\n{RAYS}power = "late.csv"\n{TRAFFIC}')
    assert says in call("testbed", "run", "mine.toml", "--virtual", "-o", "out", status=1).stderr
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hours.down", "1\n36000000\n"),
        ("many.down", "5\n" * 300_000 + "9\n"),
        ("hours.csv", "time_s,power_dbm\n0,-60\n36000,-90\n72000,-90\n"),
        ("fast.csv", "time_s,power_dbm\n0,-60\n0.0001,-90\n"),
    ],
)
def test_a_run_over_an_odd_trace_is_bounded(name: str, text: str) -> None:
    """Ten hours without capacity, very many opportunities in a ms, a link that flaps each 0.1 ms."""
    Path(name).write_text(text)
    shown = call("testbed", "compare", name, "--transports", "reno", "--runs", "1", "--seconds", "20").stdout
    assert "reno" in shown
