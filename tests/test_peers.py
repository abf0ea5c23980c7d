"""docs/peers.md says what the other tools say today of the bundled recordings."""

from __future__ import annotations

import shutil

import pytest

from docs.programs import peers

_TOOLS = ("tshark", "editcap", "tcptrace")
CHECKED = list(peers.CASES)[::4]
"""Each takes a second or two; `python -m docs.programs.peers` makes the whole page."""


@pytest.mark.skipif(not peers.RECORDINGS.is_dir(), reason="the recordings of known cause are not here")
@pytest.mark.skipif(not all(map(shutil.which, _TOOLS)), reason=f"not all of {', '.join(_TOOLS)} are installed")
@pytest.mark.parametrize("name", CHECKED)
def test_the_page_says_what_everyone_says(name: str) -> None:
    section = peers.case_section(name)
    assert section in peers.PAGE.read_text("utf-8"), "run python -m docs.programs.peers"


def test_every_case_is_on_the_page() -> None:
    said = peers.PAGE.read_text("utf-8")
    assert said.count("\n## ") == len(peers.CASES)
    assert all(case in said for case in peers.CASES.values())
