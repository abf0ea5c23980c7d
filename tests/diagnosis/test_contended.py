"""The account of a link with bursts, CDPD: waiting for a contended channel is `access`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.diagnosis.account.link_account import link_account
from multitracer.diagnosis.account.uses import Use, UseCause
from multitracer.diagnosis.diagnose import channel_use, diagnose
from multitracer.lab.simulator.run import record_virtual
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from multitracer.tables import NA
from tests.lab.rig.virtual import link
from tests.narrowed import known

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from multitracer.diagnosis.account.link_account import LinkAccount
    from multitracer.diagnosis.finding import Finding

CDPD = """
[tcp]
mtu_bytes = 576
timestamps = false
[link]
kind = "cdpd"
[link.cell]
busy_percent = {busy}
spread_percent = 0
[link.outages]
hop_every_s = 0
ejection_every_s = 0
blackout_every_s = 0
[[traffic]]
bytes = 20_000
direction = "{direction}"
"""
RUNS = {
    "cdpd-contended": None,
    "cdpd-alone": CDPD.format(busy=0, direction="up"),
    "cdpd-down": CDPD.format(busy=60, direction="down"),
    "cdpd-hop": CDPD.format(busy=0, direction="up") + '[[event]]\nkind = "hop"\nat_s = 10\nduration_s = 6\n',
}


@pytest.fixture(scope="module")
def account_of(transfer_of: Callable[..., Transfer]) -> Callable[[str], LinkAccount]:
    done = {}

    def compute(name: str) -> LinkAccount:
        if name not in done:
            done[name] = link_account(transfer_of(name, RUNS[name]))
        return done[name]

    return compute


@pytest.mark.parametrize("name", RUNS)
def test_the_classes_sum_to_the_duration(name: str, account_of: Callable[[str], LinkAccount]) -> None:
    found = account_of(name)
    assert found.is_logged
    assert sum(found.seconds.values()) == pytest.approx(found.transfer.total_s, abs=1e-6)
    assert found.seconds[Use.UNKNOWN] <= found.total_s / 1000
    uses = found.uses
    assert (uses["seconds"] >= 0).all()
    assert (np.diff(uses["begin_ns"]) >= 0).all()
    assert (uses["row"][uses["source"] == "near.events"] < len(known(found.transfer.near).events)).all()


@pytest.mark.parametrize("name", RUNS)
def test_useful_payload_is_what_was_delivered(name: str, account_of: Callable[[str], LinkAccount]) -> None:
    found = account_of(name)
    assert found.payload_bytes == found.transfer.variables.parameters["traffic"][0]["bytes"]


def test_waiting_for_a_contended_channel_is_access(account_of: Callable[[str], LinkAccount]) -> None:
    found = account_of("cdpd-contended")
    near = known(found.transfer.near)
    waited_s = near.events["waited_us"][near.rows("access_wait_ended")].sum() / 1e6
    assert found.seconds[Use.ACCESS] > found.total_s / 2
    assert waited_s * 0.9 < found.seconds[Use.ACCESS] <= waited_s
    waits = found.uses.take(found.uses["use"] == Use.ACCESS)
    assert set(near.events["event"][waits["row"]].tolist()) == {"access_wait_started"}
    assert found.utilization > 0.85, "the cell's other users are no loss of TCP's"


def test_the_first_sentence_says_that_the_channel_was_waited_for(transfer_of: Callable[[str], Transfer]) -> None:
    assert channel_use(diagnose(transfer_of("cdpd-contended"))).endswith("its turn on a shared channel.")


def test_alone_in_the_cell_a_burst_waits_for_its_turn_only_after_its_own(
    account_of: Callable[[str], LinkAccount],
) -> None:
    alone, contended = account_of("cdpd-alone"), account_of("cdpd-contended")
    assert alone.seconds[Use.ACCESS] / alone.total_s < 0.1 < contended.seconds[Use.ACCESS] / contended.total_s


def test_the_forward_channel_is_not_contended(account_of: Callable[[str], LinkAccount]) -> None:
    found = account_of("cdpd-down")
    assert known(found.transfer.near).host == "fixed"
    assert found.seconds[Use.ACCESS] == 0
    assert found.seconds[Use.USEFUL] > 5


def test_a_hop_is_an_outage(account_of: Callable[[str], LinkAccount]) -> None:
    found = account_of("cdpd-hop")
    outages = found.uses.take(found.uses["use"] == Use.OUTAGE)
    assert 6 <= outages["seconds"].sum() < 6.5
    assert set(outages["cause"].tolist()) == {UseCause.RADIO}
    near = known(found.transfer.near)
    assert near.events["cause"][outages["row"][0]] == "hop"


def test_what_is_lost_behind_the_link_was_carried_in_vain(account_of: Callable[[str], LinkAccount]) -> None:
    found = account_of("cdpd-contended")
    far = known(found.transfer.far)
    lost = far.events["cause"] == "network"
    dropped = set(zip(far.events["ip_id"][lost].tolist(), far.events["seq"][lost].tolist(), strict=True))
    wasted = found.uses.take(found.uses["cause"] == UseCause.NETWORK)
    rows, sender = np.unique(wasted["row"]), found.transfer.sender
    in_vain = set(zip(sender["ip_id"][rows].tolist(), sender["seq"][rows].tolist(), strict=True))
    assert len(in_vain) == 3
    assert in_vain < dropped, "the others are ACKs on their way back"
    flushed = found.uses["cause"][found.uses["use"] == Use.WASTED] == UseCause.RESET
    assert flushed.any(), "the data link was set up anew once"


def test_findings_of_such_a_link_rest_on_rows_that_are_there(transfer_of: Callable[..., Transfer]) -> None:
    transfer = transfer_of("cdpd-contended")
    found = diagnose(transfer)
    tables = {"sender": transfer.sender, "near.events": known(transfer.near).events}
    for finding in found.findings:
        for place in finding.evidence:
            table, _, row = place.rpartition(":")
            assert NA < int(row) < len(tables[table])


CELL = """
limit_s = 400
[tcp]
mtu_bytes = 576
[link]
kind = "cdpd"
mobiles = 3
"""
DOWN = '[[traffic]]\nbytes = 20_000\ntransport = "newreno"\ndirection = "down"\nhost = "mobile-{}"\n'


def findings_of(folder: Path, text: str) -> dict[str, Finding]:
    """Run a scenario; return the findings of its first connection at the data's sender by kind."""
    record_virtual(link(text), folder)
    recording = read(folder)
    (fixed,) = (capture for capture in recording.captures if capture.point.name == "fixed")
    found = diagnose(Transfer.of(recording, fixed.offset + 1)).findings
    return {finding.kind: finding for finding in found}


def test_other_mobiles_on_the_forward_channel_are_competing_traffic(tmp_path: Path) -> None:
    found = findings_of(tmp_path / "cell", CELL + "".join(map(DOWN.format, (1, 2, 3))))
    finding = found["competing-traffic"]
    assert 0.4 < finding.numbers["others_share"] < 0.75, "two of three mobiles"
    assert finding.sentence.startswith("Other mobiles of the cell used its channel for ")
    assert all(each.startswith("near.events:") for each in finding.evidence)


def test_other_flows_of_one_mobile_are_no_other_mobiles(tmp_path: Path) -> None:
    assert "competing-traffic" not in findings_of(tmp_path / "cell", CELL + 2 * DOWN.format(1))
