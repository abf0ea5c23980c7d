"""Two cards of one phone are followed apart: that both name their cells in turn is no handover."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from multitracer.protocols.pcap_file import pcap_header, pcap_record
from multitracer.recording.inputs import find_inputs
from multitracer.recording.phones import radios_of
from multitracer.recording.radio_context import RadioContext
from multitracer.recording.read import read
from tests.parsers.signalling_messages import START_NS, packet, serving, version_2
from tests.parsers.test_diag import needs_programs

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def two_cards(tmp_path: Path) -> Path:
    """Return a capture in which two cards stay in a cell each, and tell of them in turn for a minute."""
    steps = []
    for second in range(60):
        steps.append((0, second * 10**9, serving(1350, 305, 7)))
        steps.append((0, second * 10**9 + 10**8, version_2("report")))
        steps.append((1, second * 10**9 + 5 * 10**8, serving(40_936, 212, 8)))
    path = tmp_path / "two.pcap"
    records = [pcap_record(packet(d, modem=m), time_ns=START_NS + at) for m, at, d in steps]
    path.write_bytes(pcap_header() + b"".join(records))
    return path


@needs_programs
def test_two_cards_that_stay_change_nothing(two_cards: Path) -> None:
    recording = read(find_inputs(str(two_cards)))
    radio_context = RadioContext(recording)
    first, second = radio_context.phones
    assert len(first.changes) == len(second.changes) == 0
    assert radios_of(first.radio) == [0]
    assert radios_of(second.radio) == [1]
    assert set(first.radio["cell_id"].tolist()) == {7, -1}
    assert set(radio_context.series["Radio_rsrp"]["value"].tolist()) == {-85.0}
