"""Procedures and states of a session: as DataFrames, in a window, as files, and in a campaign."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pandas as pd
import pytest

import multitracer as mt
from multitracer.campaign.session_tables import session_tables
from multitracer.recording.read import read
from tests.parsers.signalling_messages import START_NS, capture, nas, version_2

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(not shutil.which("tshark"), reason="needs tshark")


def test_procedures_and_states_of_a_session(tmp_path: Path) -> None:
    names = ("request", "set-up", "set-up complete with service request", "complete 1", "release")
    path = tmp_path / "phone.pcap"
    path.write_bytes(capture(*map(version_2, names), nas("update request"), nas("update reject 9")))
    session = mt.open(path)
    procedures, states = session.procedures, session.signalling_states
    assert procedures["kind"].tolist() == ["RRC set-up", "service request", "release", "tracking area update"]
    assert procedures["duration_ns"].fillna(0).tolist() == [200_000_000, 100_000_000, 0, 100_000_000]
    assert states.loc[states["machine"] == "RRC", "state"].tolist() == ["idle", "connected", "idle"]
    assert procedures.attrs["columns"]["cause"]["meaning"].startswith("why the network")
    assert {"procedures", "signalling_states"} <= session.drive_tables.keys()
    late = session.between(pd.Timestamp(START_NS + 250_000_000, tz="UTC"), None)
    assert late.procedures["kind"].tolist() == ["service request", "release", "tracking area update"]
    assert late.signalling_states.loc[late.signalling_states["machine"] == "RRC", "state"].tolist() == [
        "connected",
        "idle",
    ]
    table = session_tables(read(path), "0" * 16, str(path), "0" * 64)["procedures"]
    assert table["result"].to_pylist() == ["complete", "complete", "complete", "rejected"]
    assert table["cause_number"].to_pylist() == [None, None, None, 9]
