"""Logs of a Starlink dish of other programs: CSV of starlink-grpc-tools, JSON of grpcurl and of dish_grpc_mqtt.py."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

import multitracer as mt
import parsers
from multitracer.errors import FormatError
from multitracer.tables import NOT_A_TIME
from parsers import starlink
from tests.examples import examples
from tests.narrowed import parsed
from tests.parsers.damage import damaged, survives

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.tables import Table

S = 1_000_000_000
NOON_NS = 1_767_268_800 * S  # 2026-01-01 12:00 UTC
STATUS = (
    "datetimestamp_utc,id,hardware_version,software_version,state,uptime,snr,seconds_to_first_nonempty_slot,"
    "pop_ping_drop_rate,downlink_throughput_bps,uplink_throughput_bps,pop_ping_latency_ms,alerts,fraction_obstructed,"
    "currently_obstructed,seconds_obstructed,obstruction_duration,obstruction_interval,direction_azimuth,"
    "direction_elevation,is_snr_above_noise_floor,gps_ready,gps_enabled,gps_sats\n"
    "2026-01-01T12:00:00,ut01000000-secret,rev3_proto2,abc.uterm,CONNECTED,86400,,0.0,0.05,52000000.5,3100000.0,31.5,0,"
    "0.0125,False,,,,-3.5,64.25,True,True,True,14\n"
    "2026-01-01T12:00:01,,,,DISH_UNREACHABLE\n"
    "2026-01-01T12:00:02.500000,ut01000000-secret,rev3_proto2,abc.uterm,OBSTRUCTED,86402,,0.0,1.0,0.0,0.0,-1.0,0,"
    "0.0125,True,,,,nan,64.25,True,True,True,14\n"
)
BULK = (
    "datetimestamp_utc,pop_ping_drop_rate,pop_ping_latency_ms,downlink_throughput_bps,uplink_throughput_bps,snr,"
    "scheduled,obstructed,power_w\n"
    "2026-01-01T12:00:01,0.0,30.25,5e7,3e6,,,,71.5\n"
    "2026-01-01T12:00:02,1.0,,0.0,0.0,,,1,70.0\n"
)


def ring(values: list[float], counter: int, size: int = 10) -> list[float]:
    """Return the values of the last seconds where a dish with a ring of some seconds has them."""
    made = [0.0] * size
    for at, value in enumerate(values):
        made[(counter - len(values) + at) % size] = value
    return made


def history(counter: int, latencies: list[float], **more: Any) -> str:
    lists = {"popPingDropRate": ring([0.0] * len(latencies), counter), "popPingLatencyMs": ring(latencies, counter),
             "downlinkThroughputBps": ring([6e7] * len(latencies), counter),
             "uplinkThroughputBps": ring([1e6] * len(latencies), counter)}  # fmt: skip
    answer = {"apiVersion": "21", "dishGetHistory": {"current": str(counter), **lists, **more}}
    return json.dumps(answer, indent=2) + "\n"


JSON = json.dumps(
    {
        "apiVersion": "21",
        "dishGetStatus": {
            "deviceInfo": {"id": "ut01000000-secret"}, "deviceState": {"uptimeS": "86400"}, "popPingLatencyMs": 31.5,
            "obstructionStats": {"fractionObstructed": 0.0125, "currentlyObstructed": True}, "popPingDropRate": 0.25,
            "outage": {"cause": "OBSTRUCTED"}, "downlinkThroughputBps": 52e6, "boresightElevationDeg": 64.25,
        },
    },
    indent=2,
)  # fmt: skip
LOOP = f"1767268800\n{JSON}\n" + "1767268801\n" + history(3, [30.0, 31.0, 32.0]) + "1767268803\n" + history(
    5, [30.0, 31.0, 32.0, 33.0, 34.0], outages=[{"cause": "NO_SATS", "startTimestampNs": "1450000000000000000",
                                                 "durationNs": "1500000000"}],
)  # fmt: skip
MQTT = json.dumps({"dish_status": {"state": "CONNECTED", "uptime": 5, "pop_ping_latency_ms": 28.5,
                                   "pop_ping_drop_rate": 0.0, "currently_obstructed": False}}) + "\n"  # fmt: skip


def test_what_json_leaves_out_because_it_is_zero_is_zero() -> None:
    status = json.loads(JSON)
    del status["dishGetStatus"]["popPingDropRate"], status["dishGetStatus"]["obstructionStats"]["currentlyObstructed"]
    rows = list(tables(json.dumps(status) + "\n")["dish"].rows())
    assert [row["loss_ratio"] for row in rows if row["loss_ratio"] is not None] == [0.0]
    assert [row["obstructed"] for row in rows if row["obstructed"] is not None] == [0]


def test_one_date_is_the_time_of_one_answer_of_a_kind() -> None:
    stamps = tables(f"1767268800\n{JSON}\n{JSON}\n1767268802\n{JSON}\n")["dish"]["time_ns"]
    assert sorted({*stamps.tolist()} - {NOT_A_TIME}) == [1767268800 * S, 1767268802 * S]
    assert NOT_A_TIME in stamps


def tables(text: str) -> dict[str, Table]:
    data = text.encode()
    assert parsers.recognise(data[:4096], path="x").name == "starlink"
    return parsed(starlink.FORMAT, data)


def test_csv_of_the_status_mode_is_in_columns() -> None:
    read = tables(STATUS)
    first, unreachable, last = read["dish"].rows()
    assert (first["time_ns"], first["state"], first["uptime_s"]) == (NOON_NS, "CONNECTED", 86400.0)
    assert (first["loss_ratio"], first["downlink_bps"], first["uplink_bps"]) == (0.05, 52000000.5, 3100000.0)
    assert (first["obstructed_ratio"], first["obstructed"], first["azimuth_deg"]) == (0.0125, 0, -3.5)
    assert (unreachable["state"], unreachable["loss_ratio"], unreachable["obstructed"]) == (
        "DISH_UNREACHABLE", None, None,
    )  # fmt: skip
    assert (last["time_ns"], last["obstructed"], last["azimuth_deg"]) == (NOON_NS + 5 * S // 2, 1, None)
    assert read["pings"]["rtt_s"].tolist() == [0.0315], "where all pings were lost there is no latency"
    assert "secret" not in str([list(table.rows()) for table in read.values()])
    assert read["dish"].provenance["skipped"] == {}


def test_csv_of_the_bulk_mode_has_a_row_for_each_second() -> None:
    read = tables(BULK + BULK.split("\n", maxsplit=1)[0] + "\n2026-01-01T12:00:03,0.5,40.0,1e6,1e5,,,,70.0\n")
    assert read["dish"]["loss_ratio"].tolist() == [0.0, 1.0, 0.5]
    assert [row["obstructed"] for row in read["dish"].rows()] == [None, 1, None]
    assert read["pings"]["rtt_s"].tolist() == [0.03025, 0.04]


def test_json_in_a_loop_has_each_second_once_and_its_outages() -> None:
    read = tables(LOOP)
    status = [row for row in read["dish"].rows() if row["state"]]
    assert [(row["time_ns"], row["state"], row["obstructed"]) for row in status] == [(NOON_NS, "OBSTRUCTED", 1)]
    assert read["pings"]["rtt_s"].tolist() == [0.030, 0.0315, 0.031, 0.032, 0.033, 0.034]
    assert read["pings"]["time_ns"].tolist() == [NOON_NS + n * S for n in (-1, 0, 0, 1, 2, 3)]
    (outage,) = read["dish_outages"].rows()
    assert (outage["cause"], outage["duration_ns"]) == ("NO_SATS", 1_500_000_000)


def test_outage_with_a_cause_that_is_no_text_is_kept() -> None:
    read = tables(history(1, [30.0], outages=[{"cause": ["NO_SATS"], "durationNs": "5"}, {"cause": {}}]))
    assert read["dish_outages"]["duration_ns"].tolist() == [5]


def test_json_without_a_time_has_values_and_a_warning() -> None:
    read = tables(JSON + "\n" + MQTT)
    assert read["dish"]["uptime_s"].tolist()[0] == 86400.0
    assert read["dish"].missing("time_ns").all()
    assert any("has no time" in text for text in read["dish"].provenance["warnings"])


def test_answer_without_its_end_is_counted() -> None:
    dish = tables(LOOP + "1767268806\n" + "\n".join(JSON.splitlines()[:5]) + "\n")["dish"]
    assert len(dish) == len(tables(LOOP)["dish"])
    assert dish.provenance["skipped"] == {"an object without its end": 5}


def test_such_a_log_in_a_folder_is_read_with_the_session(tmp_path: Path) -> None:
    (tmp_path / "dish.csv").write_text(BULK)
    assert mt.open(tmp_path).table("radio", "dish")["loss_ratio"].tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    "text",
    ['{"dishGetStatus": 5}\n', '{"dishGetHistory": {"current": "9"}}\n', '{"dishGetDiagnostics": {"id": "x"}}\n'],
)
def test_json_without_an_answer_is_one_sentence(text: str) -> None:
    with pytest.raises(FormatError, match="no answer of a Starlink dish"):
        tables(f"{{{text}}}\n")


def test_carriage_return_in_the_header_is_one_sentence() -> None:
    with pytest.raises(FormatError, match="does not name the columns"):
        tables(BULK.replace("utc,pop", "utc,\r,pop"))


@examples(20)
@given(data=damaged((STATUS + BULK).encode()))
def test_damaged_csv_gives_tables_or_an_error(data: bytes) -> None:
    survives(starlink.parse, data)


@examples(20)
@given(data=damaged((LOOP + MQTT).encode()))
def test_damaged_json_gives_tables_or_an_error(data: bytes) -> None:
    survives(starlink.parse, data)
