"""Procedures and states of a session: as DataFrames, in a window, as files, and in a campaign."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pandas as pd
import pytest

import multitracer as mt
from multitracer.campaign.session_tables import session_tables
from multitracer.errors import InputError
from multitracer.recording.read import read
from tests.cli.program import call
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


def _phone(tmp_path: Path, number: int, *, rejected: int) -> Path:
    """Write a capture with set-ups, of which some are rejected, two seconds apart."""
    names = [("request", "reject")] * rejected + [("request", "set-up", "set-up complete with service request")] * 3
    times, messages = list[int](), list[str]()
    for place, each in enumerate(names):
        start_ns = START_NS + (20 * place + 3_600 * number) * 10**9
        times += [start_ns + step * (place + 1) * 10**8 for step in range(len(each))]
        messages += each
    path = tmp_path / f"phone-{number}.pcap"
    path.write_bytes(capture(*map(version_2, messages), times_ns=times))
    return path


def test_statistics_of_a_session_and_a_campaign(tmp_path: Path) -> None:
    for number, rejected in ((1, 2), (2, 1)):
        (folder := tmp_path / "drives" / str(number)).mkdir(parents=True)
        _phone(folder, number, rejected=rejected)
    session = mt.open(tmp_path / "drives" / "1" / "phone-1.pcap")
    of_kind = session.procedure_statistics().set_index("kind")
    set_up = of_kind.loc["RRC set-up"]
    assert (set_up["count"], set_up["complete"], set_up["failures"], set_up["causes"]) == (5, 3, 2, "2 rejected")
    durations = [6 * 10**8, 8 * 10**8, 10**9]  # the third to the fifth, from request to complete
    assert set_up["duration_median_ns"] == durations[1]
    assert set_up["duration_p95_ns"] == pd.Series(durations).quantile(0.95)
    by_cell = session.procedure_statistics("cell", "hour")
    assert set(by_cell["channel"].dropna()) == {1350}
    assert set(by_cell["hour_ns"]) == {pd.Timestamp(START_NS + 3_600 * 10**9, tz="UTC").floor("h")}
    with pytest.raises(InputError, match="there is no 'place'; give some of cell, hour"):
        session.procedure_statistics("place")
    place = tmp_path / "campaign"
    assert call("campaign", "run", tmp_path / "drives", "-o", place).returncode == 0
    campaign = mt.open_campaign(place)
    whole = campaign.procedure_statistics().set_index("kind").loc["RRC set-up"]
    assert (whole["count"], whole["failures"]) == (9, 3)
    of_sessions = campaign.procedure_statistics("session").groupby("session")["count"].sum()
    assert sorted(of_sessions) == [6, 7]  # the service requests have no answer; the last one is cut
    compared = mt.compare(tmp_path / "drives" / "1", tmp_path / "drives" / "2").table
    means = compared.set_index("name")
    assert means.loc["failed procedures", "first_mean"] == pytest.approx(4 / 7)
    assert means.loc["connection set-up time", "second_mean"] == pytest.approx(0.6)
