"""What the commands say of packets that were captured more than once."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

import multitracer as mt
from tests.cli.program import call
from tests.parsers.copied import Path, Way, copied, file_of, later, transfer

if TYPE_CHECKING:
    from pathlib import Path as File

_SENTENCE = "Each packet was captured 3 times (interfaces eth0, eth1 and eth2)"


@pytest.fixture(name="capture")
def _capture(tmp_path: File) -> File:
    """Return a capture of a transfer that three interfaces saw."""
    alone = transfer(random.Random(1), Way(version=6), Path(loss=0.02))
    seen = copied(alone, lambda each: [later(each, 30_000 * place, place=place) for place in (1, 2)])
    path = tmp_path / "any.pcapng"
    path.write_bytes(file_of(seen, "interfaces", 6))
    return path


@pytest.mark.parametrize("command", ["inspect", "analyze", "diagnose"])
def test_each_command_says_how_many_copies_it_left_out_and_where_they_were_seen(command: str, capture: File) -> None:
    assert _SENTENCE in " ".join(call(command, capture).stdout.split())


def test_json_says_it_too(capture: File) -> None:
    analysis = json.loads(call("analyze", "--json", capture).stdout)
    (file,), (connection,) = analysis["files"], analysis["connections"]
    assert file["duplicates"]["where"] == "interfaces eth0, eth1 and eth2"
    assert (file["duplicates"]["times"], file["duplicates"]["are_of_all"]) == (3, True)
    packets = sum(connection[way]["packets"] for way in ("forward", "reverse"))
    assert packets * 3 == file["packets"] == packets + file["duplicates"]["packets"]
    assert [reason["code"] for reason in analysis["trust"]["reasons"]] == ["duplicates-left-out"]
    (sentence,) = json.loads(call("diagnose", "--json", capture).stdout)["duplicates"]
    assert sentence.startswith(_SENTENCE)


@pytest.mark.parametrize("arguments", [(), ("--stream",)], ids=["whole", "stream"])
def test_copies_are_kept_where_the_user_wants_to_compare_with_other_tools(
    arguments: tuple[str, ...], capture: File
) -> None:
    def packets(*options: str) -> tuple[int, str]:
        text = call("analyze", "--json", *arguments, *options, capture).stdout
        connections = json.loads(text)["connections"]
        return sum(each[way]["packets"] for each in connections for way in ("forward", "reverse")), text

    kept, said = packets("--keep-duplicates")
    assert mt.open(capture, keep_duplicates=True).connections.segments.sum() == kept
    assert kept > packets()[0]
    assert "duplicates-left-out" not in said
