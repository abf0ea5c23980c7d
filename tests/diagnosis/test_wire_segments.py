"""What devices cut or joined is told apart into the segments that the path carried."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from multitracer.diagnosis.diagnose import diagnose
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from multitracer.tables import NA
from tests.causes.path import DELIVERED
from tests.causes.seen import Recording
from tests.diagnosis.path import ROAD, diagnosed

_CORPUS = Path(__file__).parents[1] / "causes" / "recordings"
_OFFLOADED = ("20002-rate-step-up", "20121-competing-tcp", "30020-rate-step", "30080-server-think")


@pytest.mark.parametrize("name", _OFFLOADED)
def test_segments_are_those_that_the_path_carried_and_lost(name: str) -> None:
    """The path logs each packet of a real kernel's TCP; both captures show segments of up to 2,896 bytes."""
    folder = _CORPUS / name
    truth = json.loads((folder / "truth" / "truth.json").read_text())["transfers"][0]
    (path,) = (
        each
        for each in Recording(folder).transfers()
        if each.port == truth["client_port"] and each.way == ["up", "down"].index(truth["way"])
    )
    recording = read(folder / "session")
    found = diagnose(Transfer.of(recording, 1, reverse=path.way == 1))
    segments = found.segments
    assert found.transfer.sender["payload_bytes"].max() == 2896
    assert len(segments) == len(path.packets)
    assert np.array_equal(segments.lost, path.packets["fate"] != DELIVERED)
    assert np.array_equal(np.sort(segments.payload_bytes), np.sort(path.packets["payload"]))
    assert (segments.arrived[~segments.lost] != NA).all()
    assert not (segments.closes & segments.lost).any()


def test_without_offload_a_segment_is_a_packet(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, ROAD, size=200_000)
    assert np.array_equal(found.segments.row, found.transfer.data)
    assert np.array_equal(found.segments.closes, found.segments.arrived != NA)


def test_one_end_alone_knows_only_what_had_to_be_sent_again(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, replace(ROAD, queue_packets=15), both=False)
    assert found.segments.lost.any()
    assert not found.segments.closes.any()
    assert (found.segments.arrived == NA).all()
