"""What each study of studies.md varies: its arms, each a scenario made from a bundled one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from multitracer.lab.channel.shared.frame_errors import ErrorConfig
from multitracer.lab.scenario.library import load_scenario, read_error_trace
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.lab.channel.gsm import CodeName
    from multitracer.lab.scenario.model import Scenario
    from multitracer.protocols.error_trace import ErrorTrace, Runs

FOLDER: Path = Path(__file__).parents[1] / "data" / "studies"
SEEDS = 20

Arms = dict[str, "Callable[[int], Scenario]"]
"""Name of an arm -> its scenario for a seed."""

N2 = (1, 3, 6, 20)
"""Retransmissions of a frame before the link is reset: 6 is the standard's, 20 outlasts 9.6 s."""


BITS_IN_20_MS: dict[CodeName, int] = {"9.6": 240, "14.4": 288, "3/4": 336, "none": 448}
"""What RLP's frames have of the 456 bits that 20 ms carry: 12.0 and 14.4 kb/s are the standard's, the others
leave 8 bits for the tail."""
FRAME_BITS = (240, 576, 1152)
RADIOS = {
    "good": ErrorConfig(kind="bits", good_s=20.0, good_ber=0.0014, bad_s=0.06, bad_ber=0.0905),
    "poor": ErrorConfig(kind="bits", good_s=2.2, good_ber=0.0113, bad_s=0.3, bad_ber=0.0905),
}
"""Times of the bundled good and poor radio; bit error rates are those that TS 45.008 (from memory) assumes of
RXQUAL 0, 3 and 6."""
_UNDER_WAY_MS = 160
"""Interleaving and network of the bundled call: its 9 slots without the frame's own time."""
_T1_SLOTS = 6
"""T1 is the round trip and so many slots, as 480 ms are for 240 bits."""


def _changed(name: str, *, link: dict[str, Any] | None = None, tcp: dict[str, Any] | None = None) -> Scenario:
    base = load_scenario(name)
    mobile, fixed = (replace(profile, **(tcp or {})) for profile in (base.mobile, base.fixed))
    return replace(base, mobile=mobile, fixed=fixed, link=replace(base.gsm, **(link or {})))


def _same(scenario: Scenario) -> Callable[[int], Scenario]:
    return lambda _seed: scenario


def persistence() -> Arms:
    """Return N2 from 1 to 40, with header compression and without."""
    transports: Arms = {}
    for compression, words in (("vj-slot-id", "VJ"), ("none", "plain")):
        for n2 in N2:
            link = {"n2": n2, "header_compression": compression}
            transports[f"{words}, N2 {n2}"] = _same(_changed("study-persistence", link=link))
    return transports


def frame_link(code: CodeName, bits: int, radio: str) -> dict[str, Any]:
    """Return the changes of the link for frames of `bits` behind a code: its slot, delay and T1 follow."""
    slot_ns = 20 * NS_PER_MS * bits // BITS_IN_20_MS[code]
    pipe_slots = 1 + -(-_UNDER_WAY_MS * NS_PER_MS // slot_ns)
    t1_ms = -(-(2 * pipe_slots + _T1_SLOTS) * slot_ns // NS_PER_MS)
    errors = RADIOS[radio]
    return {
        "frame_bits": bits,
        "code": code,
        "slot_ns": slot_ns,
        "pipe_slots": pipe_slots,
        "t1_ms": -(-t1_ms // 10) * 10,
        "up": errors,
        "down": errors,
    }


def frames() -> Arms:
    """Return every code with every frame size under both radios; none at its best place alone."""
    return {
        f"{radio}, {code}, {bits}": _same(_changed("study-frames", link=frame_link(code, bits, radio)))
        for radio in RADIOS
        for code in BITS_IN_20_MS
        for bits in FRAME_BITS
        if code != "none" or (radio, bits) == ("good", FRAME_BITS[0])
    }


_SAMPLES: dict[str, dict[str, Any]] = {
    "one a window": {},
    "every segment": {"sample_every_ack": True},
    "timestamps": {"timestamps": True},
}
_TIMERS: dict[str, dict[str, Any]] = {
    "BSD": {},
    "fine": {"timer_tick_ns": NS_PER_MS, "min_rto_ns": 200 * NS_PER_MS, "initial_rto_ns": 3000 * NS_PER_MS},
}
"""BSD: ticks of 500 ms, at least 1 s. Fine: 1 ms, at least 200 ms ("more aggressive", section 5.4)."""
_WINDOWS = {"1 KB": 1024, "16 KB": 16_384}


def timing() -> Arms:
    """Return three ways to time segments, with two timers and two windows."""
    return {
        f"{timer}, {window}, {samples}": _same(_timed(timer, window, samples))
        for timer in _TIMERS
        for window in _WINDOWS
        for samples in _SAMPLES
    }


def _timed(timer: str, window: str, samples: str) -> Scenario:
    buffers = dict.fromkeys(("receive_buffer_bytes", "send_buffer_bytes"), _WINDOWS[window])
    return _changed("study-timing", tcp={**_SAMPLES[samples], **_TIMERS[timer], **buffers})


_CODEL = {"policy": "codel", "target_ns": 540 * NS_PER_MS, "interval_ns": 600 * NS_PER_MS}
"""A packet's time at 960 B/s (RFC 8289, section 4.4), as the scenario aqm-ecn."""
QUEUES: dict[str, dict[str, Any]] = {
    "50 packets": {},
    "4 packets": {"limit_packets": 4},
    "CoDel": _CODEL,
    "CoDel, ECN": {**_CODEL, "ecn": True},
}
"""The control; 4 packets, which are 2 s at this rate (footnote 7: 3 to 4); managed queues."""


def _queued(name: str, queue: str, *, window: int = 65_535) -> Scenario:
    config = replace(load_scenario(name).gsm.queue, **QUEUES[queue])
    tcp = {"receive_buffer_bytes": window, "send_buffer_bytes": window}
    return _changed(name, link={"queue": config}, tcp=tcp)


def buffers() -> Arms:
    """Return the queues, each at both ends of the link, and the last of them at one end alone."""
    transports = {queue: _same(_queued("study-buffers", queue)) for queue in QUEUES}
    managed = _queued("study-buffers", "CoDel, ECN")
    at_mobile, at_fixed = (
        replace(managed, link=replace(managed.gsm, queue_at="mobile")),
        replace(managed, link=replace(managed.gsm, queue_at="fixed")),
    )
    transports["CoDel, ECN at the mobile alone"] = _same(at_mobile)
    transports["CoDel, ECN at the fixed end alone"] = _same(at_fixed)
    return transports


def _aborted(queue: str, window: int, seed: int) -> Scenario:
    """Return a download that is given up at another time for each seed: 50.5 to 60 s, the next 1 s later."""
    scenario = _queued("study-aborted", queue, window=window)
    first, second = scenario.traffic
    at_s = 50 + seed / 2
    traffic = replace(first, aborts_after_s=at_s), replace(second, start_s=at_s + 1)
    return replace(scenario, traffic=traffic)


def _alone(seed: int) -> Scenario:
    """Return the second download without the first: the control."""
    scenario = _aborted("50 packets", 65_535, seed)
    nothing = replace(scenario.traffic[0], bytes=1, aborts_after_s=0.0)
    return replace(scenario, traffic=(nothing, replace(scenario.traffic[1], start_s=20.0)))


ABORTED_QUEUES = ("50 packets", "4 packets", "CoDel, ECN")


def aborted() -> Arms:
    """Return the second download alone, and behind what is left of the first, by window and queue."""
    transports: Arms = {"alone": _alone}
    for window, size in (("8 KB", 8192), ("64 KB", 65_535)):
        for queue in ABORTED_QUEUES:
            transports[f"{window}, {queue}"] = partial(_aborted, queue, size)
    return transports


def adaptive() -> Arms:
    """Return one error control for all packets, with two persistences, and one that is chosen by their protocol."""
    links: dict[str, dict[str, Any]] = {
        "all repeated, N2 6": {"n2": 6},
        "all repeated, N2 20": {"n2": 20},
        "by protocol, N2 20": {"n2": 20, "error_control": "by-protocol"},
    }
    return {name: _same(_changed("study-persistence", link=link)) for name, link in links.items()}


_NO_ERRORS = ErrorConfig()
TRACE: Path = FOLDER / "radio.txt"
"""The radio of the recorded session typical-1450k, as `multitracer export errors` writes it."""


@cache
def recorded() -> ErrorTrace:
    """Return the recorded radio."""
    return read_error_trace(TRACE)


def _from(runs: Runs, slot: int) -> Runs:
    """Return the failed slots from `slot` on, counted from there."""
    later = ((max(first - slot, 0), first + count - max(first, slot)) for first, count in runs)
    return tuple((first, count) for first, count in later if count > 0)


Recovery = Literal["srej", "rej", "am"]


def _replayed(link: Literal["gsm", "umts"], seed: int, recovery: Recovery = "srej") -> Scenario:
    """Return the link under the recording from part `seed` of twenty on."""
    trace = recorded()
    slot = trace.slots * (seed - 1) // SEEDS
    up, down = (
        ErrorConfig(kind="replay", replayed=_from(runs, slot), replayed_slot_ns=trace.slot_ns)
        for runs in (trace.up, trace.down)
    )
    return _over(link, up, down, recovery)


def _over(
    link: Literal["gsm", "umts"],
    up: ErrorConfig = _NO_ERRORS,
    down: ErrorConfig = _NO_ERRORS,
    recovery: Recovery = "srej",
) -> Scenario:
    name = "study-umts" if link == "umts" else "clean-bulk"
    config = replace(load_scenario(name).gsm, up=up, down=down)
    if recovery != "srej":
        ends: dict[str, Any] = {"when_exhausted": "drop-call"} if recovery == "am" else {}
        config = replace(config, recovery=recovery, **ends)
    return replace(load_scenario("study-umts"), link=config)


_TENTH_LOST = ErrorConfig(kind="independent", rate=0.1)
"""One frame in ten: the most that power control of UMTS is set to for data (from memory)."""


def umts() -> Arms:
    """Return today's link and the future one without errors, under the recorded radio and under a poor one."""
    return {
        "GSM, no errors": _same(_over("gsm")),
        "GSM, recorded": partial(_replayed, "gsm"),
        "UMTS, no errors": _same(_over("umts")),
        "UMTS, recorded": partial(_replayed, "umts"),
        "UMTS, recorded, go-back-N": partial(_replayed, "umts", recovery="rej"),
        "UMTS, RLC AM, no errors": _same(_over("umts", recovery="am")),
        "UMTS, RLC AM, recorded": partial(_replayed, "umts", recovery="am"),
        "UMTS, 10 % lost": _same(_over("umts", _TENTH_LOST, _TENTH_LOST)),
        "UMTS, RLC AM, 10 % lost": _same(_over("umts", _TENTH_LOST, _TENTH_LOST, "am")),
    }


STUDIES: dict[str, Callable[[], Arms]] = {
    "persistence": persistence,
    "frames": frames,
    "timing": timing,
    "buffers": buffers,
    "aborted": aborted,
    "umts": umts,
    "adaptive": adaptive,
}
"""Study -> its arms, the order of the page."""
