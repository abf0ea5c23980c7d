"""How long many messages take: a drive of two hours, 100,000 of them, is dissected in less than a minute."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from parsers._signalling.signalling import read_signalling
from tests.parsers.signalling_messages import MESSAGES, capture, version_2

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 20_000
LONGEST_S = 12.0
"""Of processor time, tshark's and ours, so that others on the machine do not count; some 3 here."""


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("tshark"), reason="needs tshark")
def test_a_fifth_of_the_messages_of_a_drive_takes_less_than_a_fifth_of_a_minute(tmp_path: Path) -> None:
    path = tmp_path / "many.pcap"
    datagrams = [version_2(name) for name in MESSAGES]
    path.write_bytes(capture(*(datagrams[n % len(datagrams)] for n in range(COUNT))))
    began_s = _processor_s()
    table = read_signalling(path)["signalling"]
    assert _processor_s() - began_s < LONGEST_S
    assert len(set(table["frame"].tolist())) == COUNT
    assert "" not in table["message"].tolist()


def _processor_s() -> float:
    """Return what this process has used, and the children that it has waited for."""
    return sum(os.times()[:4])
