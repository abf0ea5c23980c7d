"""docs/peers_reports.md says what everyone says today of the captures that its program builds."""

from __future__ import annotations

import shutil
import struct

import pytest

from docs.programs import peers_reports

_TOOLS = ("tshark", "tcptrace")
CHECKED = list(peers_reports.KINDS)[1::4]
"""Each takes a second or two; `python -m docs.programs.peers_reports` makes the whole page."""


@pytest.mark.skipif(not all(map(shutil.which, _TOOLS)), reason=f"not all of {', '.join(_TOOLS)} are installed")
@pytest.mark.parametrize("name", CHECKED)
def test_the_page_says_what_everyone_says(name: str) -> None:
    section = peers_reports.section(name)
    assert section in peers_reports.PAGE.read_text("utf-8"), "run python -m docs.programs.peers_reports"


def test_every_kind_is_on_the_page() -> None:
    said = peers_reports.PAGE.read_text("utf-8")
    assert said.count("\n## ") == len(peers_reports.KINDS)
    assert said.startswith("# Comparison with other tools, by kinds of reports")


@pytest.mark.parametrize("name", peers_reports.KINDS)
def test_captures_are_whole_and_the_same_each_time(name: str) -> None:
    data = peers_reports.KINDS[name]()
    assert data == peers_reports.KINDS[name]()
    at = 24
    while at < len(data):
        at += 16 + struct.unpack_from("<I", data, at + 8)[0]
    assert at == len(data)
