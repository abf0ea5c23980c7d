"""Bug reports of Android: the text and the zip, and hostile zips."""

from __future__ import annotations

import io
import resource
import struct
import zipfile
import zlib
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

import multitracer as mt
import parsers
from multitracer.errors import FormatError
from parsers import bugreport
from tests.examples import examples
from tests.narrowed import parsed
from tests.parsers.damage import damaged, survives
from tests.parsers.test_telephony_registry import DUMP, EVENTS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ZONE = ZoneInfo("Europe/Berlin")
STRENGTH = (
    "SignalStrength:{mCdma=Invalid,mGsm=Invalid,mWcdma=Invalid,mTdscdma=Invalid,mLte=CellSignalStrengthLte: rssi=-71 "
    "rsrp=-104 rsrq=-12 rssnr=6 cqiTableIndex=1 cqi=9 ta=2147483647 level=3 parametersUseForLevel=0,mNr=Invalid,"
    "primary=CellSignalStrengthLte}"
)
REPORT = f"""\
========================================================
== dumpstate: 2026-01-02 00:10:00
========================================================

Build: AB1C.123456
------ EVENT LOG (logcat -b events -v threadtime -v printable -v uid -d *:v) ------
--------- beginning of events
01-02 00:05:00.250 radio  2345  2399 I gsm_data_state_change: [CONNECTED,DISCONNECTED]
01-02 00:05:00.300  1000  1600  1644 I am_proc_start: [0,2233,1000,com.example,added]
------ RADIO LOG (logcat -b radio -v threadtime -v printable -v uid -d *:v) ------
--------- beginning of radio
12-31 23:59:58.500 radio  2345  2399 D RILJ    : [UNSL]< UNSOL_SIGNAL_STRENGTH {STRENGTH} [PHONE0]
01-02 00:06:00.000 radio  2345  2399 D RILJ    : [UNSL]< UNSOL_RESPONSE_NEW_SMS 07914400000000F0 [PHONE0]
01-02 00:07:00.000 radio  2345  2399 D RILJ    : [0123]> GET_IMSI 310150123456789 [PHONE0]
------ 0.020s was the duration of 'RADIO LOG' ------
------ SYSTEM PROPERTIES (getprop) ------
[persist.sys.timezone]: [Europe/Berlin]
-------------------------------------------------------------------------------
DUMP OF SERVICE telephony.registry:
{DUMP}{EVENTS}--------- 0.005s was the duration of dumpsys telephony.registry, ending at: 2026-01-02 00:10:12
-------------------------------------------------------------------------------
DUMP OF SERVICE tethering:
  mSignalStrength=SignalStrength:{{mLte=CellSignalStrengthLte: rsrp=-44}}
"""
NAME = "bugreport-fake-AB1C-2026-01-02-00-10-00.txt"


def ns(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZONE).timestamp()) * 1_000_000_000


def zipped(members: Mapping[str, str | bytes], method: int = zipfile.ZIP_DEFLATED, *, is_piped: bool = False) -> bytes:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return not is_piped

        def tell(self) -> int:
            if is_piped:
                raise io.UnsupportedOperation
            return super().tell()

    file = Pipe()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return file.getvalue()


def rows(data: bytes, table: str = "radio") -> list[dict[str, Any]]:
    assert parsers.recognise(data[:4096], path="x").name == "bugreport"
    return list(parsed(bugreport.FORMAT, data)[table].rows())


def test_registry_radio_log_and_events_are_in_the_tables_at_their_times() -> None:
    unsolicited, *registry = rows(REPORT.encode())
    assert (unsolicited["rsrp_dbm"], unsolicited["time_ns"]) == (-104.0, ns("2025-12-31T23:59:58") + 500_000_000)
    assert {row["time_ns"] for row in registry} == {ns("2026-01-02T00:10:12")}
    assert [row["rsrp_dbm"] for row in registry if row["source"] == "mSignalStrength"] == [-65.0, -88.0]
    assert {row["cell_id"] for row in registry} >= {8765432, 14567084500}
    assert -44.0 not in {row["rsrp_dbm"] for row in registry}, "of another service"
    change, message = rows(REPORT.encode(), "phone_events")
    assert (change["event"], change["text"]) == ("gsm_data_state_change", "[CONNECTED,DISCONNECTED]")
    assert (message["event"], message["text"]) == ("UNSOL_RESPONSE_NEW_SMS", ""), "no message, no number"


@pytest.mark.parametrize(("method", "is_piped"), [(0, False), (8, False), (8, True)])
def test_zip_says_the_same_as_its_text(method: int, *, is_piped: bool) -> None:
    radio = "01-01 10:00:00.000  1001  2345  2399 I gsm_rat_switched_new: [0,0,13]\n"
    members = {"version.txt": "2.0", "FS/data/misc/logd/logcat.01": radio, "FS/data/anr/trace_0": "x" * 100_000,
               "main_entry.txt": NAME, NAME: REPORT, "dumpstate_log.txt": "x"}  # fmt: skip
    data = zipped(members, method, is_piped=is_piped)
    keys = ("time_ns", "rsrp_dbm", "cell_id", "source")
    assert [[row[key] for key in keys] for row in rows(data)] == [
        [row[key] for key in keys] for row in rows(REPORT.encode())
    ]
    assert [row["event"] for row in rows(data, "phone_events")].count("gsm_rat_switched_new") == 1


def test_report_in_a_folder_is_radio_of_the_session(tmp_path: Path) -> None:
    (tmp_path / "bugreport.zip").write_bytes(zipped({"version.txt": "2.0", NAME: REPORT}))
    assert -104.0 in set(mt.open(tmp_path).radio["rsrp_dbm"].dropna())


def refusal(data: bytes) -> str:
    with pytest.raises(FormatError) as caught:
        parsed(bugreport.FORMAT, data)
    return str(caught.value)


def test_bomb_is_given_up_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bugreport, "_MOST_UNPACKED", 12 << 20)
    for name in (NAME, "other.bin"):
        bomb = zipped({"version.txt": "2.0", name: b"\n" * 1000 + bytes(24 << 20)}, is_piped=True)
        assert len(bomb) < 100_000
        before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(FormatError, match=r"neither|unpacks to more than"):
            parsed(bugreport.FORMAT, bomb)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 10_000


def test_names_in_a_zip_are_no_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    hostile = dict.fromkeys(["version.txt", "../out.txt", "/tmp/absolute.txt", "FS/data/../../logcat", "a\0b"], "x")
    rows(zipped({**hostile, NAME: REPORT}))
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_read_is_one_sentence() -> None:
    good = zipped({"version.txt": "2.0", NAME: REPORT})
    encrypted = good.replace(b"PK\x03\x04\x14\0\0\0", b"PK\x03\x04\x14\0\x01\0")
    assert "encrypted" in refusal(encrypted)
    assert "neither a telephony registry nor a radio log" in refusal(zipped({"version.txt": "2.0"}))
    assert "truncated" in refusal(good[:60])
    endless = b"PK\x03\x04" + struct.pack("<5H3I2H", 20, 8, 8, 0, 0, 0, 0, 0, len(NAME), 0) + NAME.encode()
    stored = zlib.compressobj(wbits=-15)
    assert "truncated" in refusal(endless + stored.compress(b"x" * 99))


def test_members_that_cannot_be_found_are_noted() -> None:
    good = zipped({"version.txt": "2.0", NAME: REPORT, "FS/data/misc/logd/logcat.01": "x"})
    at = good.rindex(b"PK\x03\x04")
    lost = good[:at] + b"XXXX" + good[at + 4 :]
    table = parsed(bugreport.FORMAT, lost)["radio"]
    assert len(table) == len(rows(good))
    assert str(table.provenance["damaged"]).startswith("zip: neither a member nor the directory follows at byte")
    assert parsed(bugreport.FORMAT, good)["radio"].provenance["damaged"] is None


def test_more_lines_than_any_phone_writes_are_counted_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bugreport, "_MOST_ROWS", 2)
    events = "01-02 00:05:00.000 radio  2345  2399 I call_drop: [1]\n" * 5
    levels = f"01-02 00:05:00.000 radio  2345  2399 D RILJ    : [UNSL]< UNSOL_SIGNAL_STRENGTH {STRENGTH} [PHONE0]\n" * 5
    report = parsed(bugreport.FORMAT, (REPORT[:170] + "\n" + events + levels + REPORT[170:]).encode())
    assert {name: len(table) for name, table in report.items()} == {"radio": 2, "phone_events": 2}
    (skipped,) = report["radio"].provenance["skipped"].items()
    assert skipped == ("the report has more than 2 such lines", 10)


def test_year_of_a_report_without_a_date_is_that_of_the_user() -> None:
    undated = REPORT.replace("== dumpstate: 2026-01-02 00:10:00", "== dumpstate: unknown").encode()
    stated = parsed(bugreport.FORMAT, undated)["phone_events"]
    assert any("the year is not given" in text for text in stated.provenance["warnings"])
    with parsers.force_reading(date="2026-01-02"):
        stated = parsed(bugreport.FORMAT, undated)["phone_events"]
    assert stated["time_ns"].tolist()[0] == ns("2026-01-02T00:05:00") + 250_000_000
    assert not [text for text in stated.provenance["warnings"] if "year" in text]


@examples(20)
@given(data=damaged(REPORT.encode()))
def test_damaged_text_gives_tables_or_an_error(data: bytes) -> None:
    survives(bugreport.parse, data)


@given(data=damaged(zipped({"version.txt": "2.0", NAME: REPORT})))
def test_damaged_zip_gives_tables_or_an_error(data: bytes) -> None:
    survives(bugreport.parse, data)


@examples(15)
@given(date=st.from_regex(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", fullmatch=True))
def test_any_date_gives_tables(date: str) -> None:
    rows(REPORT.replace("2026-01-02 00:10:00", date).encode())


def radio_log(*lines: tuple[str, str]) -> bytes:
    """Return a report with lines of the radio log, each with levels and the words that end it."""
    said = "".join(
        f"01-02 00:05:0{n}.000 radio  2345  2399 D RILJ    : {begin} {STRENGTH}{end}\n"
        for n, (begin, end) in enumerate(lines)
    )
    return REPORT.replace("01-02 00:06:00.000 radio", f"{said}01-02 00:06:00.000 radio", 1).encode()


UNSOLICITED = "[UNSL]< UNSOL_SIGNAL_STRENGTH"


@pytest.mark.parametrize(("end", "card"), [(" [PHONE1]", 1), (" [SUB1]", 1), ("", None), (" [PHONE1] and more", None)])
def test_card_of_a_line_of_the_radio_log_is_what_the_line_says(end: str, card: int | None) -> None:
    data = radio_log((UNSOLICITED, end), (UNSOLICITED, " [PHONE1]"))
    made = parsed(bugreport.FORMAT, data)["radio"]
    (row,) = [row for row in made.rows() if row["time_ns"] == ns("2026-01-02T00:05:00")]
    assert (row["rsrp_dbm"], row["modem"]) == (-104.0, card)
    warned = [each for each in made.provenance["warnings"] if "name no SIM card" in each]
    assert len(warned) == (card is None)


def test_line_without_a_card_of_a_phone_with_one_card_is_that_of_the_phone() -> None:
    data = radio_log((UNSOLICITED, ""))
    made = parsed(bugreport.FORMAT, data)["radio"]
    assert made.missing("modem").all()
    assert not [each for each in made.provenance["warnings"] if "SIM card" in each]


@pytest.mark.parametrize("name", ["SIGNAL_STRENGTH", "RIL_REQUEST_SIGNAL_STRENGTH", "GET_CELL_INFO_LIST"])
def test_answers_to_androids_own_questions_are_levels_unless_they_are_errors(name: str) -> None:
    data = radio_log((f"[0649]< {name}", " [PHONE0]"), (f"[0650]< {name} error 66", " [PHONE0]"))
    times = [row["time_ns"] for row in rows(data) if row["rsrp_dbm"] == -104.0]
    assert times.count(ns("2026-01-02T00:05:00")) == 1
    assert ns("2026-01-02T00:05:01") not in times
