"""Time stamps that cannot be: such a packet has no time, is counted with its reason, and trust says so."""

from __future__ import annotations

import random
import struct

import pytest

from multitracer.analysis.tcp import analyse
from multitracer.tables import NOT_A_TIME
from tests.parsers.frames import EPOCH_S, Packet, enhanced, frame, interface, option, pcap_file, read, section

UNITS = {"us": (0xA1B2C3D4, 10**6), "ns": (0xA1B23C4D, 10**9)}


def stamped(order: str, unit: str, stamps: list[tuple[int, int]]) -> bytes:
    """Return a pcap with packets of these seconds and fractions, as they are."""
    magic, _ = UNITS[unit]
    out = [pcap_file([], order=order, magic=magic)]
    for n, (seconds, fraction) in enumerate(stamps):
        data = frame(seq=n, payload=b"x")
        out.append(struct.pack(order + "IIII", seconds, fraction, len(data), len(data)) + data)
    return b"".join(out)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("unit", UNITS)
def test_a_fraction_of_a_second_that_is_a_second_or_more_is_no_time(order: str, unit: str) -> None:
    rng = random.Random(11)
    _, per_second = UNITS[unit]
    stamps = [(EPOCH_S + n, rng.randrange(per_second)) for n in range(200)]
    wrong = sorted(rng.sample(range(200), 20))
    for n in wrong:
        stamps[n] = stamps[n][0], rng.choice((per_second, per_second + 1, 2**31, 2**32 - 1))
    found = read(stamped(order, unit, stamps))
    times = found.segments["time_ns"].tolist()
    assert [n for n, time in enumerate(times) if time == NOT_A_TIME] == wrong
    facts = found.files[0]
    assert (facts.packets, facts.damaged, facts.without_time) == (200, None, 20)
    assert facts.untimed == "the fraction of the timestamp is not below one second: 20"
    note = next(note for note in analyse(found).trust.notes if note.code == "no-time")
    assert (note.count, "not below one second: 20" in note.sentence) == (20, True)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("bit", [30, 31])
def test_a_stamp_decades_from_the_others_is_no_time(order: str, bit: int) -> None:
    stamps = [(EPOCH_S + n, 5) for n in range(100)]
    stamps[40] = stamps[40][0] ^ 1 << bit, 5
    facts, times = (found := read(stamped(order, "us", stamps))).files[0], found.segments["time_ns"].tolist()
    assert [n for n, time in enumerate(times) if time == NOT_A_TIME] == [40]
    assert facts.without_time == 1
    assert "20 years from the others: 1" in facts.untimed
    assert ((facts.first_ns or 0) // 10**9, (facts.last_ns or 0) // 10**9) == (EPOCH_S, EPOCH_S + 99)
    assert facts.time_steps_back == 0
    (connection,) = analyse(found).connections.rows()
    assert connection["end_ns"] - connection["start_ns"] == 99 * 10**9


def test_the_era_with_most_packets_is_the_files() -> None:
    before = [(n, 0) for n in range(30)]  # the clock was not set yet
    facts = read(stamped("<", "us", [*before, *((EPOCH_S + n, 0) for n in range(31))])).files[0]
    assert (facts.without_time, facts.first_ns) == (30, EPOCH_S * 10**9)
    apart = [(EPOCH_S - 15 * 365 * 86_400, 0), (EPOCH_S, 0)]  # two captures merged
    assert read(stamped("<", "us", apart)).files[0].without_time == 0


def test_a_pcapng_time_beyond_64_bits_is_named_as_such() -> None:
    seconds = interface(options=option(9, b"\0"))
    packets = [enhanced(frame(seq=n), 2**40 if n == 2 else EPOCH_S) for n in range(5)]
    facts = read(b"".join([section(), seconds, *packets])).files[0]
    assert (facts.packets, facts.without_time) == (5, 1)
    assert facts.untimed == "a timestamp outside the range of 64-bit nanoseconds: 1"


def test_a_connection_takes_no_less_than_nothing_though_the_clock_went_back() -> None:
    stamps = [EPOCH_S * 10**6 + t for t in (5_000_000, 0, 2_000_000)]
    found = read(pcap_file([Packet(frame(seq=n, payload=b"x"), t) for n, t in enumerate(stamps)]))
    (connection,) = analyse(found).connections.rows()
    assert connection["end_ns"] - connection["start_ns"] == 5 * 10**9
