"""The account of real recordings: its books agree with the kernels' own counters."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

import parsers
from multitracer.analysis.verdicts import RetransmissionCause as Why
from multitracer.diagnosis.account.link_account import link_account
from multitracer.diagnosis.account.uses import Use
from multitracer.diagnosis.diagnose import channel_use, diagnose
from multitracer.recording.join import Fate
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from multitracer.tables import NA
from tests.conftest import SAMPLES
from tests.diagnosis.rate import OFTEN_DEAD, by_rate
from tests.narrowed import known

if TYPE_CHECKING:
    from pathlib import Path

DEEP = {"link-flow-control", "overbuffered-link"}
RESET = DEEP | {"link-reset", "header-decompressor-failure"}
EXPECTED = {
    "clock-shift": DEEP,
    "download": DEEP | {"local-buffer-overflow"},
    "fade-n2-20": DEEP | {"rlp-retransmission-burst"},
    "fig10-backoff": RESET | {"ack-loss", "exponential-back-off"},
    "fig10-exhaustion": RESET | {"ack-loss", "exponential-back-off", "rlp-retransmission-burst"},
    "fig11-fade": {"overbuffered-link", "rlp-retransmission-burst"},
    "fig5-typical": DEEP | {"local-buffer-overflow", "rlp-retransmission-burst"},
    "fig4-slow-start": DEEP | {"local-buffer-overflow"},
    "fig8-resets-plain": DEEP | {"link-reset"},
    "fig8-resets-vj": RESET | {"ack-loss"},
    "local-drop-ring": DEEP | {"local-buffer-overflow"},
    "local-drop-silent": DEEP | {"local-buffer-overflow"},
    "overbuffered": DEEP | {"local-buffer-overflow"},
    "sack-modern": RESET,
    "second-connection": DEEP,
    "typical-1450k": DEEP | {"local-buffer-overflow", "rlp-retransmission-burst"},
}
"""What each recording was made to have: no more and no less is found."""
RUNS = sorted(folder for folder in SAMPLES.iterdir() if (folder / "scenario.toml").is_file())


@pytest.fixture(scope="module", params=RUNS, ids=lambda folder: folder.name)
def transfer(request: pytest.FixtureRequest) -> Transfer:
    folder: Path = request.param
    return Transfer.of(read(folder))


def test_the_books_of_a_real_run_are_even(transfer: Transfer) -> None:
    found = link_account(transfer)
    assert found.is_logged
    assert found.outcome == "complete"
    assert sum(found.seconds.values()) == pytest.approx(found.total_s, abs=1e-6)
    assert found.total_s == pytest.approx(transfer.total_s, abs=0.05)  # slots are served late, never lost
    assert found.seconds[Use.UNKNOWN] <= found.total_s / 1000
    assert found.payload_bytes == transfer.variables.parameters["traffic"][0]["bytes"]

    joined = known(found.joined)
    carriages = joined.carriages.take(joined.carriages["segment_row"] != NA)
    in_vain = (carriages["new_bytes"] < carriages["payload_bytes"]).sum()
    dropped = np.isin(joined.dropped, transfer.data).sum()
    refused = (transfer.verdicts["cause"] == Why.LOCAL_DROP).sum()  # never entered the queue
    assert len(transfer.retransmitted) == dropped + refused + in_vain


def test_the_utilization_of_a_real_run_agrees_with_the_rate_of_its_link(transfer: Transfer) -> None:
    found = link_account(transfer)
    if found.seconds[Use.OUTAGE] > OFTEN_DEAD * found.total_s:
        pytest.skip("the radio was dead for so long that no backlog shows the link's rate")
    assert abs(found.utilization - by_rate(found)) < 0.025


def test_each_diagnosis_fires_on_its_recording_and_on_no_other(transfer: Transfer) -> None:
    found = diagnose(transfer)
    kinds = {finding.kind for finding in found.findings}
    assert kinds - {"bufferbloat"} == EXPECTED[known(transfer.variables.scenario)]
    (queue,) = [each for each in found.incidents if each.kind in {"bufferbloat", "overbuffered-link"}]
    assert queue.cost_s == 0
    for failure in (each for each in found.findings if each.kind == "header-decompressor-failure"):
        assert failure.evidence[0].startswith("near.events:"), "the reset"
        assert 5 < failure.cost_s < (20 if transfer.variables.scenario != "fig10-exhaustion" else 45), (
            "there the retransmission with the whole header is lost with the next reset"
        )


def test_damaged_segments_are_those_that_the_kernel_refused(transfer: Transfer) -> None:
    damaged = (known(transfer.joined).carriages["fate"] == Fate.DAMAGED).sum()
    host = known(transfer.recording.folder) / transfer.receiver_host
    before, after = (
        json.loads("".join(parsers.read_lines(str(host / f"nstat_{when}.json.xz"))))["kernel"]
        for when in ("before", "after")
    )
    assert damaged == after["TcpInCsumErrors"] - before.get("TcpInCsumErrors", 0)


def test_the_first_sentence_names_what_lowered_the_utilization() -> None:
    """Being stopped by the far end cost more time, but that is no loss."""
    found = diagnose(Transfer.of(read(SAMPLES / "sack-modern")))
    assert found.findings[0].kind == "link-flow-control"
    assert "the header decompressor was out of step" in channel_use(found)


def test_a_set_up_slower_than_the_first_timer_is_one_finding() -> None:
    # it opens behind the queue of another
    transfer = Transfer.of(read(SAMPLES / "second-connection"), 2)
    (only,) = [each for each in diagnose(transfer).findings if each.kind == "spurious-timeout"]
    assert "its first segment was sent" in only.sentence
    assert "nothing was lost" in only.sentence
    again = (transfer.verdicts["cause"] == Why.TIMEOUT).sum()
    assert f"{again} times more" in only.sentence
    assert len(only.evidence) == again + 1, "each of them, and the answer"
