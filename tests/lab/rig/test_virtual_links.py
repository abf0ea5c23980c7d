"""TCP and CentaurusComm over CDPD and Bluetooth in virtual time, and the radio that shaped them."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import parsers
from multitracer.errors import InputError
from multitracer.lab.channel.cdpd import CdpdLink
from multitracer.lab.rig.radios import with_tcp_profile
from multitracer.lab.rig.real import run_real
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.scenario.model import ProgramSetting
from multitracer.lab.simulator.network import EPOCH_NS, VirtualNetwork
from multitracer.lab.tcp.profile import LINUX22
from multitracer.measure.transports import TransportOptions
from multitracer.protocols.centaurus.messages import Extension
from multitracer.units import NS_PER_S
from tests.lab.rig.virtual import plan, run
from tests.narrowed import known

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.lab.channel.shared.packet_link import RadioReading
    from multitracer.lab.simulator.host import SimulatedHost

SIZES = (128, 2048)


def _medians_s(rows: list[dict[str, str]]) -> dict[int, float]:
    found: dict[int, list[float]] = {}
    for row in rows:
        if row["outcome"] == "ok":
            found.setdefault(int(row["size_bytes"]), []).append(float(row["rtt_s"]))
    return {size: statistics.median(rtts) for size, rtts in found.items()}


def test_over_cdpd_both_grow_with_the_size_and_centauruscomm_pays_for_its_offers(tmp_path: Path) -> None:
    """OBJ, PROCEED in both directions are two round trips that TCP does not make: paper 000's constant."""
    link = load_scenario("cdpd")
    tcp = run(plan("tcp", SIZES, 20), tmp_path / "tcp", link)
    centaurus = run(plan("centauruscomm", SIZES, 20), tmp_path / "cc", link)
    assert len(tcp) == len(centaurus) == 40
    assert sum(row["outcome"] == "ok" for row in tcp + centaurus) >= 76
    tcp_s, centaurus_s = _medians_s(tcp), _medians_s(centaurus)
    assert tcp_s[128] < tcp_s[2048]
    assert centaurus_s[128] < centaurus_s[2048]
    assert 1.5 * tcp_s[128] < centaurus_s[128] - tcp_s[128] < 3 * tcp_s[128]


def test_early_start_saves_about_a_round_trip(tmp_path: Path) -> None:
    link, what = load_scenario("cdpd"), plan("centauruscomm", (128,), 30)
    plain_s = _medians_s(run(what, tmp_path / "plain", link))[128]
    early = TransportOptions(extensions=Extension.EARLY_START)
    early_s = _medians_s(run(what, tmp_path / "early", link, options=early))[128]
    round_trip_s = _medians_s(run(plan("tcp", (128,), 30), tmp_path / "tcp", link))[128]
    assert 0.5 * round_trip_s < plain_s - early_s < 2.5 * round_trip_s


def test_nagle_s_algorithm_waits_for_the_delayed_ack_of_an_odd_segment(tmp_path: Path) -> None:
    """A full segment and a short one: the second leaves when the first is acknowledged, 200 ms later."""
    profile = replace(LINUX22, mtu_bytes=1500)
    link = replace(load_scenario("bluetooth"), mobile=profile, fixed=profile)
    what = plan("tcp", (1024, 2048), 5)
    prompt_s = _medians_s(run(what, tmp_path / "prompt", link))
    held_s = _medians_s(run(what, tmp_path / "held", replace(link, program=ProgramSetting(nodelay=False))))
    assert held_s[1024] == prompt_s[1024]
    assert 0.2 < held_s[2048] - prompt_s[2048] < 0.3


def test_only_virtual_time_models_the_programs(tmp_path: Path) -> None:
    link = load_scenario("bluetooth-linux22")
    with pytest.raises(InputError, match=r"\[program\].*--virtual"):
        run_real(plan("centauruscomm", (64,), 1), tmp_path / "real", link, progress=lambda *_: None)
    assert not (tmp_path / "real").exists()


def test_a_program_that_takes_time_for_each_octet_delays_large_messages_more(tmp_path: Path) -> None:
    link, what = load_scenario("bluetooth"), plan("centauruscomm", (64, 4096), 5)
    quick_s = _medians_s(run(what, tmp_path / "quick", link))
    slow = replace(link, program=ProgramSetting(octet_ns=100_000))
    slow_s = _medians_s(run(what, tmp_path / "slow", slow))
    assert 0.01 < slow_s[64] - quick_s[64] < 0.1
    assert 0.3 < slow_s[4096] - quick_s[4096] < 0.5  # 0.1 ms an octet, less what passes meanwhile


@pytest.mark.parametrize("octet_s", [0.16, 1.0])
def test_a_program_that_is_too_slow_to_answer_is_said(octet_s: float, tmp_path: Path) -> None:
    slow = replace(load_scenario("bluetooth"), program=ProgramSetting(octet_ns=round(octet_s * NS_PER_S)))
    with pytest.raises(InputError, match=rf"30 s, because a program takes {octet_s:g} s for each octet; .*octet_us"):
        run(plan("centauruscomm", (64,), 1), tmp_path / "slow", slow)


def test_the_seed_determines_the_time_of_a_program(tmp_path: Path) -> None:
    """The link's own delays are complete half slots, so that what remains of an RTT is the programs' time."""
    slow, half_slot_ns = replace(load_scenario("bluetooth"), program=ProgramSetting(octet_ns=100_000)), 312_500
    what, seeds = plan("centauruscomm", (64,), 3), {"one": 1, "again": 1, "other": 2}
    rests = {}
    for name, seed in seeds.items():
        rows = run(what, tmp_path / name, replace(slow, seed=seed))
        rests[name] = [round(float(row["rtt_s"]) * NS_PER_S) % half_slot_ns for row in rows]
    assert rests["one"] == rests["again"]
    assert rests["one"] != rests["other"]


def test_a_short_inbox_before_a_slow_program_costs_a_watchdog(tmp_path: Path) -> None:
    link, what = load_scenario("bluetooth"), plan("centauruscomm", (4096, 8192), 5)
    short = replace(link, program=ProgramSetting(octet_ns=100_000, most_datagrams=10))
    held_s = _medians_s(run(what, tmp_path / "short", short))
    assert held_s[4096] < 1
    assert held_s[8192] > 9.5


def test_segments_of_the_path_s_size_fill_the_mtu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: dict[Extension, list[int]] = {Extension.NONE: [], Extension.PATH_MTU: []}
    offer = VirtualNetwork.transmit
    for extensions, seen in lengths.items():

        def noted(self: VirtualNetwork, host: SimulatedHost, data: bytes, seen: list[int] = seen) -> bool:
            seen.append(len(data))
            return offer(self, host, data)

        monkeypatch.setattr(VirtualNetwork, "transmit", noted)
        options = TransportOptions(extensions=extensions)
        run(
            plan("centauruscomm", (3000,), 2), tmp_path / known(extensions.name), load_scenario("cdpd"), options=options
        )
    assert max(lengths[Extension.NONE]) == 28 + 17 + 8 + 512
    assert max(lengths[Extension.PATH_MTU]) == 576


@pytest.mark.parametrize("profile", ["1999", "today"])
def test_both_tcp_profiles_cross_cdpd(profile: str, tmp_path: Path) -> None:
    link = with_tcp_profile(load_scenario("cdpd"), profile)
    found = run(plan("tcp", (8192,), 5), tmp_path, link)
    assert sum(row["outcome"] == "ok" for row in found) >= 4


def test_the_radio_of_a_transaction_is_the_one_that_the_link_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth: dict[int, RadioReading] = {}
    answer = CdpdLink.reading

    def noted(self: CdpdLink, now_ns: int, *, host: str) -> RadioReading:
        truth[now_ns] = answer(self, now_ns, host=host)
        return truth[now_ns]

    monkeypatch.setattr(CdpdLink, "reading", noted)
    found = run(plan("tcp", (2048,), 30), tmp_path, load_scenario("cdpd"))
    assert list(truth) == [n * NS_PER_S for n in range(len(truth))]
    for row in found:
        begin_ns = int(row["start_ns"]) - EPOCH_NS
        end_ns = begin_ns + round(float(row["rtt_s"]) * NS_PER_S)
        inside = [reading for now_ns, reading in truth.items() if begin_ns <= now_ns <= end_ns]
        assert row["radio_readings"] == str(len(inside))
        for column, steps in (("rssi_dbm", 1.0), ("bler_percent", 1.0), ("cell_busy_percent", 0.1)):
            values = [getattr(reading, column) for reading in inside]
            if values and None not in values:
                assert float(row[column]) == pytest.approx(statistics.fmean(values), abs=steps / 2 + 1e-3)
    busy = [float(row["cell_busy_percent"]) for row in found]
    assert max(busy) > min(busy)


def test_the_modem_log_is_one_that_the_reader_knows(tmp_path: Path) -> None:
    run(plan("tcp", (128,), 5), tmp_path, load_scenario("cdpd"))
    fmt, tables = parsers.read(str(tmp_path / "mobile" / "modem-0.jsonl"))
    assert fmt.name == "modem"
    assert isinstance(tables, dict)
    radio = tables["radio"]
    assert set(radio["rat"].tolist()) == {"CDPD"}
    seconds = sorted(set(radio["time_ns"].tolist()))
    assert seconds == [EPOCH_NS + n * NS_PER_S for n in range(len(seconds))]
    assert len(tables["gaps"]) == 0
    assert radio.provenance["ended"] == "the run is over"
