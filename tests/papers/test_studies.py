"""studies.md: its numbers are those of the kept runs, which anybody makes again, and its shapes hold."""

from __future__ import annotations

from functools import cache
from statistics import median

import pytest

from docs.papers.programs.studies import columns_of, kept, made
from docs.papers.programs.studies_arms import N2, SEEDS, STUDIES
from docs.papers.programs.studies_figures import figures
from docs.papers.programs.studies_page import IMAGES, PAGE, part, parts, runs_of

TEXT = PAGE.read_text("utf-8")
_LARGEST_PICTURE = 150_000


@pytest.mark.parametrize("name", list(parts()))
def test_each_generated_part_is_what_the_runs_say(name: str) -> None:
    assert part(TEXT, name) == parts()[name](), "run: python -m docs.papers.programs.studies tables"


@pytest.mark.parametrize("study", list(STUDIES))
def test_each_arm_has_every_seed_once(study: str) -> None:
    for transport, runs in runs_of(study).items():
        assert [int(run["seed"]) for run in runs] == list(range(1, SEEDS + 1)), transport
    assert tuple(kept(study)[0]) == columns_of(study)


def test_the_pictures_are_on_the_page() -> None:
    for name in figures(runs_of):
        picture = IMAGES / f"{name}.png"
        assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        assert picture.stat().st_size < _LARGEST_PICTURE
        assert f"images/{picture.name}" in TEXT


@pytest.mark.parametrize(
    ("study", "transport", "seed"),
    [
        ("persistence", "VJ, N2 3", 4),
        ("frames", "good, 14.4, 1152", 1),
        ("timing", "BSD, 16 KB, one a window", 2),
        ("buffers", "4 packets", 3),
        ("aborted", "64 KB, 50 packets", 5),
        ("umts", "UMTS, recorded", 7),
        ("umts", "UMTS, RLC AM, 10 % lost", 2),
        ("adaptive", "by protocol, N2 20", 3),
    ],
)
def test_a_run_of_now_is_the_kept_one(study: str, transport: str, seed: int) -> None:
    (line,) = (run for run in kept(study) if run["arm"] == transport and int(run["seed"]) == seed)
    now = made(study, transport, seed)
    assert {name: "" if value is None else str(value) for name, value in now.items()} == line


# --- the shapes, from the kept runs ---


@cache
def middle(study: str, transport: str, column: str) -> float:
    """Return the median over the seeds."""
    return median(float(run[column]) for run in runs_of(study)[transport] if run[column] != "")


def total(study: str, transport: str, column: str) -> float:
    """Return the sum over the seeds."""
    return sum(float(run[column]) for run in runs_of(study)[transport])


@pytest.mark.parametrize("words", ["VJ", "plain"])
def test_more_persistence_means_fewer_resets_and_more_goodput(words: str) -> None:
    """Section 5.3: N2 = 6 is too low; a higher one costs nothing."""
    transports = [f"{words}, N2 {n2}" for n2 in N2]
    resets = [total("persistence", transport, "link_resets") for transport in transports]
    assert resets == sorted(set(resets), reverse=True)
    assert resets[-1] == 0
    goodput = {transport: middle("persistence", transport, "goodput_bytes_per_s") for transport in transports}
    assert 1.25 < goodput[transports[-1]] / goodput[transports[0]] < 2.5
    assert goodput[transports[-1]] > goodput[f"{words}, N2 6"]
    holes = [middle("persistence", transport, "hole_s") for transport in transports]
    assert holes[-1] < holes[0] / 3


def test_persistence_brings_no_competing_recovery_and_spares_the_decompressor() -> None:
    spurious = {n2: total("persistence", f"VJ, N2 {n2}", "spurious_timeouts") for n2 in N2}
    timeouts = {n2: total("persistence", f"VJ, N2 {n2}", "timeouts") for n2 in N2}
    assert spurious[20] <= SEEDS  # one a run at most, in the mean
    assert timeouts[20] < timeouts[6] < timeouts[1]
    assert total("persistence", "VJ, N2 6", "checksum_errors") > 0
    assert total("persistence", "VJ, N2 20", "checksum_errors") == 0
    assert all(total("persistence", f"plain, N2 {n2}", "checksum_errors") == 0 for n2 in N2)


@pytest.mark.parametrize(
    ("transport", "minimum", "most"),
    [
        ("good, 9.6, 576", 1.05, 1.2),
        ("good, 14.4, 240", 1.1, 1.25),
        ("good, 14.4, 576", 1.25, 1.45),
        ("good, 3/4, 576", 1.4, 1.65),
        ("good, none, 240", 0.02, 0.3),
        ("poor, 9.6, 576", 1.0, 1.25),
        ("poor, 9.6, 1152", 0.7, 1.0),
        ("poor, 14.4, 1152", 0.3, 0.6),
        ("poor, 3/4, 240", 0.0, 0.1),
    ],
)
def test_what_codes_and_frames_bring_against_the_control(transport: str, minimum: float, most: float) -> None:
    """Section 6: weaker codes and larger frames pay where the channel is over-protected, and only there."""
    control = middle("frames", f"{transport.partition(',')[0]}, 9.6, 240", "goodput_bytes_per_s")
    assert minimum < middle("frames", transport, "goodput_bytes_per_s") / control < most


def test_the_queues_order_delay_and_what_others_wait() -> None:
    """Section 5.2: a buffer by the rate, or a managed one, shortens every wait; it takes both ends."""
    delay = {transport: middle("buffers", transport, "delay_median_s") for transport in STUDIES["buffers"]()}
    request = {transport: middle("buffers", transport, "second_s") for transport in delay}
    assert delay["4 packets"] < delay["CoDel, ECN"] < delay["50 packets"] / 3
    assert request["4 packets"] < request["CoDel, ECN"] < request["50 packets"] / 2
    for end in ("the mobile", "the fixed end"):
        assert request["CoDel, ECN"] < request[f"CoDel, ECN at {end} alone"] < request["50 packets"]


def test_stale_data_cost_what_the_queue_held() -> None:
    wait = {transport: middle("aborted", transport, "second_s") for transport in STUDIES["aborted"]()}
    assert wait["64 KB, 50 packets"] > 2 * wait["alone"] > wait["8 KB, 50 packets"] > 1.3 * wait["alone"]
    for window in ("8 KB", "64 KB"):
        for queue in ("4 packets", "CoDel, ECN"):
            assert wait[f"{window}, {queue}"] < 1.25 * wait["alone"]
    stale = {transport: middle("aborted", transport, "stale_bytes") for transport in wait}
    assert stale["64 KB, 50 packets"] > 2 * stale["8 KB, 50 packets"] > 4 * stale["8 KB, CoDel, ECN"]


def test_the_recorded_radio_costs_the_future_link_next_to_nothing() -> None:
    goodput = {transport: middle("umts", transport, "goodput_bytes_per_s") for transport in STUDIES["umts"]()}
    for link in ("GSM", "UMTS"):
        assert 0.97 < goodput[f"{link}, recorded"] / goodput[f"{link}, no errors"] <= 1
    back = goodput["UMTS, recorded, go-back-N"]
    assert 0.99 * goodput["UMTS, no errors"] < back <= goodput["UMTS, recorded"], "no recovery can matter much"
    assert 6.5 < goodput["UMTS, recorded"] / goodput["GSM, recorded"] < 8
    assert 0.98 < goodput["UMTS, RLC AM, recorded"] / goodput["UMTS, RLC AM, no errors"] <= 1
    calm = [transport for transport in goodput if "lost" not in transport]
    assert all(total("umts", transport, "timeouts") == 0 for transport in calm)


def test_the_recovery_of_the_future_link_decides_in_a_poor_radio() -> None:
    goodput = {transport: middle("umts", transport, "goodput_bytes_per_s") for transport in STUDIES["umts"]()}
    assert 1.3 < goodput["UMTS, RLC AM, 10 % lost"] / goodput["UMTS, 10 % lost"] < 1.7


def test_error_control_by_protocol_serves_both_flows() -> None:
    """Section 5.3: persistence for TCP, none for what cannot wait."""
    all6, all20, chosen = STUDIES["adaptive"]()
    goodput = {transport: middle("adaptive", transport, "goodput_bytes_per_s") for transport in (all6, all20, chosen)}
    latest_s = {transport: middle("adaptive", transport, "datagram_most_s") for transport in goodput}
    assert goodput[all6] < 0.9 * goodput[all20]
    assert abs(goodput[chosen] / goodput[all20] - 1) < 0.02
    assert latest_s[chosen] < 0.5 < latest_s[all6] < latest_s[all20]
    assert total("adaptive", all20, "datagrams_arrived") == total("adaptive", all20, "datagrams")
