"""The phones of a recording: legs beside the serving cell, and cards that are kept apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.recording.phones import Phone
from multitracer.recording.read import read
from multitracer.report.write import write_report
from multitracer.schemas.mobility import JUDGED_HANDOVERS
from multitracer.schemas.radio import RADIO
from multitracer.schemas.signalling import HANDOVERS, HandoverKind
from multitracer.tables import NA
from tests.report.test_route_map import START_NS, table

if TYPE_CHECKING:
    from pathlib import Path

S = 1_000_000_000


def phone() -> Phone:
    """Return a phone that changed its cell, and 10 s before that got a leg of NR."""
    orders = table(
        HANDOVERS,
        time_ns=START_NS + np.array([20, 10]) * S,
        complete_ns=START_NS + np.array([20, 10]) * S + 10_000_000,
        kind=np.array([HandoverKind.HANDOVER.value, HandoverKind.SECONDARY_ADDED.value], dtype="U20"),
        source_cell_id=np.array([1, NA]),
        target_cell_id=np.array([2, NA]),
        source_rat=np.array(["LTE", ""]),
        target_rat=np.array(["LTE", "NR"]),
        result=np.array(["complete", "complete"]),
        evidence=np.array(["signalling", "signalling"]),
    )
    radio = table(RADIO, time_ns=START_NS + np.arange(40) * S, role=np.full(40, "serving"))
    return Phone("phone", radio, orders, ("log",))


def test_a_leg_is_a_change_but_no_handover() -> None:
    both = phone()
    assert both.handovers["kind"].tolist() == ["handover"]
    changes = both.changes
    assert changes.schema == JUDGED_HANDOVERS
    assert changes["kind"].tolist() == ["secondary added", "handover"]
    leg = next(changes.rows())
    assert (leg["ping_pong"], leg["verdict"]) == (None, "")
    assert leg["verdict_reason"] == "no change of the serving cell"


def test_a_report_says_that_there_is_another_card(tmp_path: Path) -> None:
    """Two cards of one phone camp on cells of their own, which is no change of the cell."""
    lines = ["time_ns,source,role,rat,rsrp_dbm,cell_id,modem"]
    lines += [f"{START_NS + i * S},scat,serving,LTE,-90,{7 + i % 2},{i % 2}" for i in range(60)]
    (tmp_path / "radio.csv").write_text("\n".join(lines) + "\n")
    recording = read(tmp_path / "radio.csv")
    phones = recording.radio_context().phones
    assert [len(each.handovers) for each in phones] == [0, 0]
    write_report(recording, tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    assert "has 1 other radio, too" in html
    assert "What is shown is of card 0 of the phone; the logs hold 1 other radio, too" in html
    assert "1 serving cell" in html
