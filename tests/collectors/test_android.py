"""The collector android: Debian's adb, and a phone that speaks adb's protocol and has Android's tools as scripts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import multitracer as mt
import parsers
from collectors.android import QUESTIONS
from multitracer.recording.read import read
from tests.cli.program import ENVIRONMENT
from tests.cli.program import run as program
from tests.collectors.adbd import Phone
from tests.collectors.running import end, records, run, running, until
from tests.parsers.test_telephony_registry import DUMP, EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from multitracer.tables import Table

pytestmark = pytest.mark.skipif(shutil.which("adb") is None, reason="adb is not installed")

HZ = 10
CLOCK_AHEAD_NS = 37_250_000_000
UPTIME_S = 90_000
LOCATION = (
    "    last location=Location[gps 52.520008,13.404954 hAcc=4.5 et=+1d1h0m{second}s250ms alt=38.1 vAcc=3.0 "
    "vel=9.765625E-4 sAcc=0.4 bear=271.0 bAcc=2.0]\n"
    "    last coarse location=Location[gps 52.510000,13.410000 hAcc=2000.0 et=+1d0h50m0s0ms]\n"
)
WIFI = (
    'Wifi is enabled\n==== ClientModeManager instance: x ====\nWifi is connected to "Our home"\n'
    'WifiInfo: SSID: "Our, RSSI: -30, Frequency: 1MHz home", BSSID: 02:11:22:33:44:55, MAC: 02:00:00:00:00:00, '
    "Supplicant state: COMPLETED, "
    "Wi-Fi standard: 5, RSSI: -52, Link speed: 866Mbps, Tx Link speed: 866Mbps, Rx Link speed: 780Mbps, "
    "Frequency: 5180MHz\n"
)
BATTERY = "  AC powered: false\n  USB powered: true\n  level: 83\n  scale: 100\n  temperature: 287\n"
APPS = "  uid rxBytes rxPackets txBytes txPackets\n    10123 5000000 4000 200000 2100\n    0 42 1 43 1\n"
PACKAGES = "package:org.example.browser uid:10123\npackage:android uid:1000\n"
EVENT = "       1796082232.293890  1201  1450 I gsm_data_state_change: [CONNECTED,DISCONNECTED]\n"
SCRIPTS = {
    "date": f"/bin/date +%s%N | {{ read ns; echo $((ns + {CLOCK_AHEAD_NS})); }}",
    "cat": f'[ "$1" = /proc/uptime ] && echo "{UPTIME_S}.50 1234.00" || exec /bin/cat "$@"',
    "dumpsys": 'exec /bin/cat "$(dirname "$0")/$1.txt"',
    "cmd": 'exec /bin/cat "$(dirname "$0")/wifi.txt"',
    "pm": 'exec /bin/cat "$(dirname "$0")/packages.txt"',
    "getprop": "echo '[ro.product.manufacturer]: [Fake]'; echo '[ro.build.version.release]: [14]'",
    "logcat": 'exec tail -n +1 -f "$(dirname "$0")/events.txt"',
}
TEXTS = {
    "telephony.registry": DUMP + EVENTS, "location": LOCATION.format(second=0), "power": "  mWakefulness=Awake\n",
    "wifi": WIFI, "battery": BATTERY, "netstats": APPS, "packages": PACKAGES, "events": "",
}  # fmt: skip


def adb(*words: str) -> None:
    subprocess.run(["adb", *words], check=True, capture_output=True, timeout=90)


class Tools:
    """The scripts of a phone's shell, and the texts that they write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name, script in SCRIPTS.items():
            (folder / name).write_text(f"#!/bin/sh\n{script}\n")
            (folder / name).chmod(0o755)
        for name, text in TEXTS.items():
            self.write(name, text)

    def write(self, name: str, text: str) -> None:
        new = self.folder / f"{name}.new"
        new.write_text(text)
        new.rename(self.folder / f"{name}.txt")


@pytest.fixture(scope="module", autouse=True)
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An adb server of this test's own, on a port below those of connections: a user's one is left alone."""
    patch = pytest.MonkeyPatch()
    patch.setenv("ANDROID_ADB_SERVER_PORT", str(20_000 + os.getpid() % 12_000))
    patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    adb("start-server")
    yield
    adb("kill-server")
    patch.undo()


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    return Tools(tmp_path / "tools")


@contextmanager
def plugged(tools: Tools, *, is_allowed: bool = True) -> Iterator[Phone]:
    phone = Phone(tools.folder, is_allowed=is_allowed)
    plug(phone)
    try:
        yield phone
    finally:
        unplug(phone)


def plug(phone: Phone) -> None:
    phone.plug()
    subprocess.run(["adb", "connect", phone.serial], check=True, capture_output=True, timeout=90)


def unplug(phone: Phone) -> None:
    phone.unplug()
    subprocess.run(["adb", "disconnect", phone.serial], check=False, capture_output=True, timeout=90)


def tables(log: Path) -> dict[str, Table]:
    form, parsed = parsers.read(log)
    assert form.name == "android"
    assert isinstance(parsed, dict)
    return parsed


def seen(table: Table, column: str) -> list[object]:
    """Return the values of a column that are there, each once, in order."""
    return list(dict.fromkeys(v for v, no in zip(table[column].tolist(), table.missing(column), strict=True) if not no))


def answers(log: Path, name: str = "registry") -> int:
    return len([r for r in records(log, "answer") if r["of"] == name]) if log.exists() else 0


def test_radio_place_and_state_of_the_phone_are_in_columns(tools: Tools, tmp_path: Path) -> None:
    log = tmp_path / "android.jsonl"
    with plugged(tools) as phone, running("android", log, "--serial", phone.serial, "--hz", HZ) as child:
        until(lambda: answers(log) > 3)
        tools.write("telephony.registry", DUMP.replace("rsrp=-65", "rsrp=-101"))
        tools.write("location", LOCATION.format(second=1))
        with (tools.folder / "events.txt").open("a") as events:
            events.write(EVENT)
        until(lambda: all(text in log.read_text() for text in ("rsrp=-101", "0m1s250ms", "gsm_data_state_change: ")))
        assert end(child) == 0
    read = tables(log)
    serving = read["radio"].take(read["radio"]["source"] == "mSignalStrength")
    assert seen(serving, "rsrp_dbm")[:1] == [-65.0]
    assert -101.0 in seen(serving, "rsrp_dbm")
    assert -140.0 not in seen(read["radio"], "rsrp_dbm"), "an event of Android's own log"
    assert seen(read["position"], "lat_deg") == [52.520008]
    assert len(read["position"]) == 2, "a location that the phone repeats is one location"
    assert seen(read["position"], "error_m") == [4.5]
    assert seen(read["position"], "speed_mps") == [9.765625e-4], "Java writes small numbers with an exponent"
    state = read["phone_state"]
    assert seen(state, "wifi_rssi_dbm") == [-52]
    assert (seen(state, "wifi_rx_bps"), seen(state, "wifi_tx_bps")) == ([780_000_000], [866_000_000])
    assert (seen(state, "battery_percent"), seen(state, "battery_celsius"), seen(state, "charging")) == (
        [83],
        [28.7],
        [1],
    )
    assert read["phone_events"]["event"].tolist() == ["gsm_data_state_change"]
    assert read["phone_events"]["text"].tolist() == ["[CONNECTED,DISCONNECTED]"]
    assert read["phone_events"]["phone_time_ns"].tolist() == [1796082232293890000]
    assert sorted(set(read["app_bytes"]["app"].tolist())) == ["", "org.example.browser"]
    assert "Our home" not in str([list(t.rows()) for t in read.values()])
    assert read["radio"].provenance["skipped"] == {}


def test_difference_of_the_clocks_is_inside_each_bracket(tools: Tools, tmp_path: Path) -> None:
    log = tmp_path / "android.jsonl"
    with plugged(tools) as phone, running("android", log, "--serial", phone.serial, "--hz", HZ) as child:
        until(lambda: len(records(log, "remote_clock")) > 3)
        assert end(child) == 0
    clock = tables(log)["remote_clock"]
    ahead = clock["remote_ns"] - CLOCK_AHEAD_NS
    assert ((clock["time_ns"] <= ahead) & (ahead <= clock["until_ns"])).all()
    assert set(clock["host"].tolist()) == {f"phone {phone.serial}"}


def test_location_stands_at_its_own_time_not_at_that_of_the_answer(tools: Tools, tmp_path: Path) -> None:
    log = tmp_path / "android.jsonl"
    tools.write("location", LOCATION.replace("1h0m{second}s250ms", "0h59m57s500ms"))  # 3 s before the uptime
    with plugged(tools) as phone:
        before_ns = time.time_ns()
        assert run("android", "--serial", phone.serial, "-o", log, "--duration", 1, "--hz", HZ).returncode == 0
        after_ns = time.time_ns()
    (placed,) = tables(log)["position"]["time_ns"].tolist()
    assert before_ns <= placed + 3_000_000_000 <= after_ns


def test_unplugged_and_plugged_in_again_is_a_gap_and_goes_on(tools: Tools, tmp_path: Path) -> None:
    log = tmp_path / "android.jsonl"
    with plugged(tools) as phone, running("android", log, "--serial", phone.serial, "--hz", HZ) as child:
        for _ in range(3):
            await_more(log, "answer", 3)
            unplug(phone)
            await_more(log, "missed", 1)
            plug(phone)
        await_more(log, "answer", 3)
        assert end(child) == 0
    gaps = tables(log)["gaps"]
    assert len(gaps) >= 3
    assert set(gaps["reason"].tolist()) <= {"unplugged", "offline"}
    radio = tables(log)["radio"]
    for begin, until_ns in zip(gaps["time_ns"].tolist(), gaps["until_ns"].tolist(), strict=True):
        assert not ((radio["asked_ns"] > begin) & (radio["answered_ns"] < until_ns)).any()


def await_more(log: Path, kind: str, more: int) -> None:
    """Wait until the log has so many records more of a kind."""
    wanted = len(records(log, kind)) + more
    until(lambda: len(records(log, kind)) >= wanted)


def test_phone_whose_owner_allowed_nothing_is_a_gap_with_that_reason(tools: Tools, tmp_path: Path) -> None:
    log = tmp_path / "android.jsonl"
    with plugged(tools, is_allowed=False) as phone:
        done = run("android", "--serial", phone.serial, "-o", log, "--duration", 1.5, "--hz", HZ)
    assert (done.returncode, done.stderr) == (0, "")
    assert set(tables(log)["gaps"]["reason"].tolist()) == {"unauthorized"}
    assert len(tables(log)["radio"]) == 0


def test_phone_that_no_longer_answers_is_silent_or_asleep(tools: Tools, tmp_path: Path) -> None:
    for state, reason in (("Awake", "silent"), ("Asleep", "asleep")):
        log = tmp_path / f"{state}.jsonl"
        tools.write("power", f"  mWakefulness={state}\n")
        with plugged(tools) as phone:
            options = ("--serial", phone.serial, "--hz", HZ, "--timeout", 0.5)
            with running("android", log, *options) as child:
                await_more(log, "answer", len(QUESTIONS))
                phone.freeze()
                await_more(log, "missed", 1)
                assert end(child) == 0
        assert tables(log)["gaps"]["reason"].tolist()[0] == reason


def test_several_phones_are_told_apart_by_serial_and_any_takes_none_of_them(tools: Tools, tmp_path: Path) -> None:
    log = tmp_path / "android.jsonl"
    with plugged(tools), plugged(tools):
        done = run("android", "-o", log, "--duration", 1, "--hz", HZ)
    assert done.returncode == 0
    assert set(tables(log)["gaps"]["reason"].tolist()) == {"several phones"}


def test_without_adb_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    done = run("android", "--adb", tmp_path / "adb", "-o", tmp_path / "log.jsonl")
    assert done.returncode == 1
    assert re.fullmatch(r"Error: .*/adb: not installed; run `apt install adb`, or .*\n", done.stderr)


def test_capture_records_two_phones_and_relates_their_clocks(tools: Tools, tmp_path: Path) -> None:
    second = Tools(tmp_path / "second")
    second.write("telephony.registry", DUMP.replace("rsrp=-65", "rsrp=-117").replace("mCi=8765432", "mCi=42"))
    folder = tmp_path / "drive"
    with plugged(tools) as one, plugged(second) as other:
        phones = ("--phone", one.serial, "--phone", other.serial)
        wait = "for n in 1 2; do until grep -q registry mobile/android-$n-0.jsonl; do sleep 0.1; done; done"
        capture = ("capture", "-o", folder, *phones, "--with", "android", "--with", "host_clock", "--ready", "30")
        environment = {**ENVIRONMENT, **os.environ}
        program(*capture, "--plain", "--", "sh", "-c", f"cd {folder}; {wait}", env=environment)
    session = mt.open(folder)
    assert {-65.0, -117.0} <= set(session.radio["rsrp_dbm"].dropna())
    (phone,) = read(folder, phone=other.serial).radio_context().phones
    serving = phone.radio["rsrp_dbm"][phone.radio["source"] == "mSignalStrength"].tolist()
    assert -117.0 in serving, "phones are told apart by their serial numbers, however few readings there are"
    assert -65.0 not in serving
    edges = session.align().edges
    ours = edges[edges["method"] == "remote clock between two readings"]
    assert set(ours["from_host"]) == {"phone-1", "phone-2"}
    wrong_ns = (ours["offset_ns"] + CLOCK_AHEAD_NS).abs()
    assert (wrong_ns <= ours["uncertainty_ns"]).all()
