"""`compare --fail-if`: a job in a pipeline fails if a condition is true, or if the data cannot tell."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from multitracer.campaign.run import run as run_campaign
from tests.campaign.sessions import HOUR_NS
from tests.cli.program import COMMAND, ENVIRONMENT, ROOT, call, run
from tests.recording.captures import START_NS, Conversation, write_conversations

if TYPE_CHECKING:
    from pathlib import Path

_TRUE, _CANNOT_TELL = 3, 4


def _sessions(folder: Path, count: int, *, lost: int, first: int) -> Path:
    """Make sessions of one transfer each; each loss delays it by 200 ms."""
    for number in range(first, first + count):
        host = folder / f"day{number}" / "phone"
        host.mkdir(parents=True)
        conversation = Conversation(
            client=f"10.1.{number}.1", start_ns=START_NS + number * HOUR_NS, segments=20 + number % 3,
            lost=tuple(range(lost)),
        )  # fmt: skip
        write_conversations(host / "capture.pcap", conversation)
        (folder / f"day{number}" / "manifest.json").write_text(
            json.dumps({"schema": "multitracer.session/1", "name": f"day {number}", "hosts": {"phone": {}}})
        )
    return folder


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Return campaigns: seven days without loss, seven days with ten losses each, and two of these."""
    folder = tmp_path_factory.mktemp("conditions")
    made = []
    for name, count, lost, first in (("before", 7, 0, 0), ("after", 7, 10, 20), ("few", 2, 10, 40)):
        run_campaign([str(_sessions(folder / f"{name}-days", count, lost=lost, first=first))], folder / name)
        made.append(folder / name)
    return made[0], made[1], made[2]


def _judged(*arguments: str | Path, status: int) -> list[dict[str, Any]]:
    document = json.loads(call("compare", *arguments, "--json", status=status).stdout)
    conditions: list[dict[str, Any]] = document["conditions"]
    return conditions


@pytest.mark.parametrize(
    ("condition", "outcome", "status"),
    [
        ("goodput < -10%", "true", _TRUE),
        ("goodput < -90%", "false", 0),
        ("goodput > +10%", "false", 0),
        ("completion > +20%", "true", _TRUE),
        ("rtt.p95 > +20%", "false", 0),
        ("goodput < 1Gbit/s", "true", _TRUE),
        ("rtt.median > 41ms", "false", 0),
        ("limit.link > 0.5", "false", 0),
        ("limit.handshake > +1%", "false", 0),
        ("finding.policer > +1%", "false", 0),
        ("sinr < 3dB", "unknown", _CANNOT_TELL),
        ("utilization < 50%", "unknown", _CANNOT_TELL),
        ("rsrp < -3dB", "unknown", _CANNOT_TELL),
    ],
)
def test_a_condition_decides_the_exit_status(
    sides: tuple[Path, Path, Path], condition: str, outcome: str, status: int
) -> None:
    before, after, _ = sides
    (judged,) = _judged(before, after, "--fail-if", condition, status=status)
    assert (judged["condition"], judged["outcome"]) == (condition, outcome), judged


def test_what_is_true_weighs_more_than_what_cannot_be_told(sides: tuple[Path, Path, Path]) -> None:
    before, after, _ = sides
    given = ("--fail-if", "sinr < 3dB", "--fail-if", "goodput < -10%")
    assert [each["outcome"] for each in _judged(before, after, *given, status=_TRUE)] == ["unknown", "true"]


def test_a_difference_has_its_interval_and_few_sessions_none(sides: tuple[Path, Path, Path]) -> None:
    before, after, few = sides
    (judged,) = _judged(before, after, "--fail-if", "goodput < -10%", status=_TRUE)
    assert judged["low"] <= judged["value"] <= judged["high"] < -0.1
    (told,) = _judged(before, few, "--fail-if", "goodput < -10%", status=_CANNOT_TELL)
    assert told["value"] < -0.1
    assert told["low"] is None
    assert "too few for an interval: it needs 6 a side" in told["reason"]


def test_one_side_is_held_against_bounds(sides: tuple[Path, Path, Path]) -> None:
    _, after, _ = sides
    done = call("compare", after, "--fail-if", "goodput < 1Mbit/s", "--fail-if", "goodput < 100bit/s", status=_TRUE)
    assert done.stdout.splitlines()[0] == "2 conditions of after: 1 true, 1 false."
    assert "goodput < 1Mbit/s: true; " in done.stdout
    assert "in 7 sessions of after" in done.stdout
    refused = call("compare", after, "--fail-if", "goodput < -10%", status=2).stderr
    assert "is a difference of two sides; give two inputs A and B" in refused


def test_junit_has_a_test_case_for_each_condition(sides: tuple[Path, Path, Path], tmp_path: Path) -> None:
    before, after, _ = sides
    target = tmp_path / "junit.xml"
    given = [each for text in ("goodput < -10%", "sinr < 3dB", "rtt > +20%") for each in ("--fail-if", text)]
    run("compare", before, after, *given, "--junit", target, status=_TRUE)
    suite = ET.parse(target).getroot()[0]
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3", "failures": "1", "errors": "1", "skipped": "0"
    }  # fmt: skip
    assert [[child.tag for child in case] for case in suite] == [["failure"], ["error"], ["system-out"]]
    assert suite[0].get("name") == "goodput < -10%"
    assert "95 % interval" in suite[0][0].get("message", "")


def test_a_difference_is_that_of_the_table(sides: tuple[Path, Path, Path]) -> None:
    before, after, _ = sides
    names = {"throughput > +1%": "throughput", "goodput < -1%": "goodput of transfers"}
    given = [each for text in names for each in ("--fail-if", text)]
    document = json.loads(call("compare", before, after, "--json", *given, status=_TRUE).stdout)
    of = {each["name"]: each for each in document["quantities"]}
    for each in document["conditions"]:
        row = of[names[each["condition"]]]
        assert (each["value"], each["low"], each["high"]) == (row["value"], row["low"], row["high"])


def test_the_completion_is_that_of_the_direction_with_the_data(tmp_path: Path) -> None:
    folder = _sessions(tmp_path / "days", 1, lost=0, first=0)
    (judged,) = _judged(folder, "--fail-if", "completion > 2s", status=0)
    assert judged["value"] == pytest.approx(0.9, abs=0.1)  # 20 segments, one after the other, and the handshake


def test_a_page_and_junit_are_two_files(sides: tuple[Path, Path, Path], tmp_path: Path) -> None:
    one = tmp_path / "x.html"
    given = ("--fail-if", "goodput < -10%", "-o", one, "--junit", one)
    assert "name two files" in call("compare", *sides[:2], *given, status=2).stderr
    assert not one.exists()


def test_without_conditions_nothing_fails(sides: tuple[Path, Path, Path], tmp_path: Path) -> None:
    before, after, _ = sides
    assert "conditions" in json.loads(call("compare", before, after, "--json").stdout)
    call("compare", before, status=2)
    call("compare", before, after, "--junit", tmp_path / "junit.xml", status=2)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("today", "status"), [("after", _TRUE), ("again", 0)])
def test_the_job_of_the_page_fails_and_passes_as_it_should(today: str, status: int, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "compare.md").read_text("utf-8")
    job = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])["jobs"]["compare"]
    (command,) = [step["run"] for step in job["steps"] if "multitracer compare" in step.get("run", "")]
    _sessions(tmp_path / "baseline", 7, lost=0, first=0)
    _sessions(tmp_path / "today", 7, lost=10 if today == "after" else 0, first=20)
    program = tmp_path / "bin" / "multitracer"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
    program.chmod(0o755)
    environment = ENVIRONMENT | {"PATH": f"{program.parent}:{ENVIRONMENT['PATH']}"}
    done = subprocess.run(["bash", "-e", "-c", command], cwd=tmp_path, env=environment, check=False, text=True,
                          capture_output=True)  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    assert not done.stderr
    assert ET.parse(tmp_path / "compare.xml").getroot()[0].get("failures") == ("1" if status else "0")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("goodput", "is not a condition"),
        ("goodput < -10", "is written in bit/s, kbit/s, Mbit/s, Gbit/s"),
        ("goodput < 10%", "a difference of two sides has a sign and %"),
        ("goodput.p95.p50 < 3bit/s", "is not a condition"),
        ("throughput < nan", "is not a condition"),
        ("speed > 3", "there is no quantity speed; the quantities are throughput, rtt, goodput"),
        ("limit.wires > 0.5", "there is no quantity limit.wires"),
        ("finding.no-such > 0.5", "there is no quantity finding.no-such"),
        ("loss.p95 > 0.5", "loss has one value in a session; omit .p95"),
        ("rsrp < -10%", "a level has no percent"),
        ("goodput < 1e400Mbit/s", "the bound is too large"),
        ("finding.x' OR 1=1 -- > 1", "is not a condition"),
        ("rtt >\x1b[2J 3s", "is not a condition"),
    ],
)
def test_what_is_no_condition_is_refused_before_anything_is_read(text: str, sentence: str) -> None:
    refused = call("compare", "nowhere", "nothing", "--fail-if", text, status=2).stderr
    assert sentence in refused
    assert "\x1b" not in refused
