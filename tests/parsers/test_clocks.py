"""clocks.jsonl: readings of the clocks of a session's hosts."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

import parsers
from multitracer.errors import FormatError
from multitracer.tables import NOT_A_TIME
from parsers import clocks
from tests.conftest import SAMPLES

READING = {
    "host": "mobile", "monotonic_before_ns": 10, "realtime_ns": 1_795_252_741_992_841_972,
    "monotonic_after_ns": 30,
}  # fmt: skip


def parse(*lines: str) -> dict[str, Any]:
    text = "".join(f"{line}\n" for line in lines).encode()
    table = clocks.parse(io.BytesIO(text), path="clocks.jsonl")["clock_readings"]
    return {"rows": list(table.rows()), **table.provenance}


def test_the_sample_is_recognised_and_read() -> None:
    fmt, tables = parsers.read(SAMPLES / "cellular_upload" / "clocks.jsonl")
    assert fmt.name == "clocks"
    assert isinstance(tables, dict)
    table = tables["clock_readings"]
    assert len(table) == 58
    assert set(table["host"].tolist()) == {"mobile", "fixed"}
    assert (table["monotonic_after_ns"] >= table["monotonic_before_ns"]).all()
    assert (table["boottime_ns"] != NOT_A_TIME).all()


def test_what_a_reading_says_beside_the_clocks_is_kept_and_what_makes_no_sense_is_missing() -> None:
    state = {"synchronized": True, "max_error_ns": 5, "frequency_ppm": -12.5, "tai_offset_s": 37}
    unexpected = {"boottime_ns": "soon", "offset_ns": 1 << 70, "frequency_ppm": 1e9, "synchronized": None}
    first, second = parse(json.dumps(READING | state), json.dumps(READING | unexpected))["rows"]
    assert (first["synchronized"], first["max_error_ns"], first["frequency_ppm"]) == (1, 5, -12.5)
    assert (first["tai_offset_s"], first["boottime_ns"]) == (37, None)
    assert [second[name] for name in ("boottime_ns", "offset_ns", "frequency_ppm", "synchronized")] == [None] * 4


def test_chrony_vouches_where_the_kernel_does_not() -> None:
    said = "A9FEA97B,169.254.169.123,4,1795291231.5,{},0.000001,0.00002,-8.3,0.0,0.1,0.0004,0.0003,16.1,Normal"
    rows = [
        READING | {"synchronized": 0, "max_error_ns": 16_000_000_000, "chrony": said.format("-0.000010")},
        READING | {"synchronized": 1, "max_error_ns": 7, "chrony": said.format("0.1")},
        READING | {"synchronized": 0, "chrony": said.format("0.1").replace("Normal", "Not synchronised")},
        READING | {"synchronized": 0, "chrony": "one,two"},
    ]
    found = parse(*map(json.dumps, rows))["rows"]
    assert [(row["synchronized"], row["max_error_ns"]) for row in found] == [
        (1, 510_000), (1, 7), (0, None), (0, None),
    ]  # fmt: skip


def test_a_kernel_that_ptp_corrects_claims_no_less_than_what_is_left_to_the_master() -> None:
    """linuxptp sets the kernel's own bound to 0 at each correction; it is asked for its own once a minute."""
    said = "TIME_STATUS_NP master_offset {} ingress_time 5 gmPresent {} gmIdentity 3a7f98.fffe.8138a6"
    sure = READING | {"synchronized": 1, "max_error_ns": 500}
    rows = [
        sure,
        sure | {"ptp": said.format(-48_100, "true")},
        sure,
        sure | {"ptp": said.format(20, "true")},
        sure | {"ptp": said.format(9_999, "false")},
        READING | {"synchronized": 0, "max_error_ns": 16_000_000_000, "ptp": said.format(7, "true")},
        sure | {"ptp": ["no text"]},
    ]
    found = parse(*map(json.dumps, rows))["rows"]
    assert [(row["synchronized"], row["max_error_ns"]) for row in found] == [
        (1, 500), (1, 48_600), (1, 48_600), (1, 520), (1, 520), (0, 16_000_000_000), (1, 507),
    ]  # fmt: skip


def test_tags_of_the_clapperboard_stand_beside_their_readings() -> None:
    found = parse(json.dumps(READING), json.dumps(READING | {"tag": "0aff"}), json.dumps(READING | {"tag": "x"}))
    assert found["tags"] == ["", "0aff", ""]


@pytest.mark.parametrize(
    "change",
    [
        {"realtime_ns": None}, {"realtime_ns": 1.5}, {"realtime_ns": -1}, {"monotonic_after_ns": 5},
        {"host": 7}, {"host": "x" * 65}, {"monotonic_before_ns": True}, {"realtime_ns": 1 << 63},
    ],
)  # fmt: skip
def test_a_record_that_makes_no_sense_is_skipped(change: dict[str, object]) -> None:
    found = parse(json.dumps(READING), json.dumps(READING | change))
    assert len(found["rows"]) == 1
    assert found["skipped"] == {"not a clock reading": 1}
    assert found["first_skipped_line"] == {"not a clock reading": 2}


def test_readings_stay_in_the_order_of_the_log_though_the_clock_was_set_back() -> None:
    later = READING | {"realtime_ns": 5, "monotonic_before_ns": 40, "monotonic_after_ns": 41}
    rows = parse(json.dumps(READING), json.dumps(later))["rows"]
    assert [row["line"] for row in rows] == [1, 2]


def test_a_log_without_a_reading_is_refused() -> None:
    with pytest.raises(FormatError, match="no line of the file is a clock reading"):
        parse("{}", "[]")


def test_only_our_records_are_claimed() -> None:
    line = json.dumps(READING).encode()
    assert clocks.sniff(line) == "yes"
    for other in (b"", line[:20], line[1:], b'{"host": "a"}', b'{"kind":"header"}' + line):
        assert clocks.sniff(other) == "no"
