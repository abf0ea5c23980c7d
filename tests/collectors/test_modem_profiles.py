"""What is asked of a modem: bundled profiles, and ModemManager's and libqmi's tools in place of a port."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

import parsers
from collectors._profiles import chosen_profile, matching, profiles
from multitracer.errors import InputError
from multitracer.lab.rehearsal.journey import LOOP_S, SetValues, place, radio
from multitracer.lab.rehearsal.modem import VOICES, answer
from multitracer.protocols.modem.decode import decode
from multitracer.schemas.radio import RADIO
from tests.collectors.running import PATIENCE_S, command, records, until

if TYPE_CHECKING:
    from pathlib import Path

MMCLI = (
    '{"modem":{"signal":{"5g":{"rsrp":"--"},"lte":{"error-rate":"--","rsrp":"-95.00","rsrq":"-12.00",'
    '"rssi":"-65.00","snr":"8.40"},"refresh":{"rate":"1"}}}}'
)
QMICLI = "[/dev/cdc-wdm0] Successfully got signal info\nLTE:\n\tRSSI: '-65 dBm'\n\tRSRP: '-95 dBm'\n\tSNR: '8.4 dB'"


@pytest.mark.parametrize("name", sorted(profiles()))
def test_every_profile_asks_only_what_the_decoders_read(name: str) -> None:
    profile = profiles()[name]
    assert profile.description
    assert profile.asks
    if name not in VOICES:
        return
    values = radio(10.0)
    told = [ask.command for ask in profile.asks if answer(name, ask.command, values)]
    assert told
    for asked in told:
        raw = "".join(f"\r\n{line}\r\n" for line in answer(name, asked, values) or []) + "\r\nOK\r\n"
        decoded = decode(asked, raw.encode())
        assert decoded.readings, asked
        assert decoded.refused == []


@pytest.mark.parametrize(
    ("says", "name"),
    [
        ("Quectel EC25 Revision: EC25EFAR06A01M4G", "quectel"),
        ("Manufacturer: Sierra Wireless, Incorporated Model: MC7455", "sierra"),
        ("Sierra Wireless AirCard 300", "cdpd"),
        ("u-blox SARA-R510S-00B", "ublox"),
        ("Telit LE910-EUG", "telit"),
        ("SIMCOM INCORPORATED SIMCOM_SIM7600E-H", "simcom"),
        ("huawei E3372", "3gpp"),
        ("", "3gpp"),
    ],
)
def test_profile_is_found_by_what_a_modem_says(says: str, name: str) -> None:
    assert matching(says).name == name


@pytest.mark.parametrize(
    "text",
    [
        'name = "x"',
        '[[ask]]\ncommand = "AT"',
        'name = "x"\n[[ask]]\ncommand = "rm -rf"',
        'name = "x"\n[[ask]]\ncommand = "AT"\nevery = 0',
        'name = "x"\n[[ask]]\ncommand = "AT"\ntimeout_s = 1e9',
        'name = "x"\nmatch = "("\n[[ask]]\ncommand = "AT"',
        "[[",
    ],
)
def test_profile_of_ones_own_that_is_wrong_is_told(text: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(InputError):
        chosen_profile(str(path))


def program(folder: Path, name: str, script: str) -> dict[str, str]:
    """Put a program into a folder of its own; return an environment in which it is found first."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(stat.S_IRWXU)
    return os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}


def collect(log: Path, environment: dict[str, str], condition: Any, *options: object) -> None:
    child = subprocess.Popen(command("modem", "-o", log, "--hz", 20, *options), env=environment, stderr=subprocess.PIPE)
    try:
        until(lambda: child.poll() is not None or (log.exists() and condition()))
        child.send_signal(signal.SIGTERM)
        assert child.wait(PATIENCE_S) == 0
    finally:
        child.kill()
        child.communicate()


@pytest.mark.parametrize(("tool", "said"), [("mmcli", f"echo '{MMCLI}'"), ("qmicli", f"printf '%b' \"{QMICLI}\\n\"")])
def test_tool_that_shares_the_port_is_asked(tool: str, said: str, tmp_path: Path) -> None:
    """A program prints what ModemManager's tool was recorded to print; the tool itself is not installed."""
    log = tmp_path / "radio.jsonl"
    environment = program(tmp_path / "bin", tool, said)
    collect(log, environment, lambda: len(records(log, "answer")) > 3, "--tool", tool)
    _, tables = parsers.read(log)
    assert isinstance(tables, dict)
    row = next(iter(tables["radio"].rows()))
    assert (row["source"], row["rat"], row["rsrp_dbm"], row["sinr_db"]) == (tool, "LTE", -95.0, 8.4)


def test_modem_of_modem_manager_is_asked_through_it_without_being_told(tmp_path: Path) -> None:
    listed = "/org/freedesktop/ModemManager1/Modem/0 [Quectel] EM12"
    script = f"case $1 in -L) echo '{listed}';; *) echo '{MMCLI}';; esac"
    log = tmp_path / "radio.jsonl"
    environment = program(tmp_path / "bin", "mmcli", script)
    collect(log, environment, lambda: records(log, "answer"))
    assert records(log, "header")[0]["tool"] == "mmcli"


@pytest.mark.parametrize(("script", "why"), [("exit 3", "tool failed"), ("exec sleep 60", None)])
def test_tool_that_fails_or_hangs_is_a_gap_and_never_holds_up_the_end(
    script: str, why: str | None, tmp_path: Path
) -> None:
    log = tmp_path / "radio.jsonl"
    environment = program(tmp_path / "bin", "mmcli", script)
    collect(log, environment, lambda: why is None or records(log, "missed"), "--tool", "mmcli")
    assert {record["why"] for record in records(log, "missed")} == ({why} if why else set())
    assert records(log)[-1]["reason"] == "SIGTERM"


def test_drive_is_a_loop_whose_values_are_columns_of_the_table() -> None:
    assert place(0.0) == place(LOOP_S)
    headings = {round(place(t).heading_deg) for t in range(int(LOOP_S))}
    assert headings == {0, 90, 180, 270}
    for second in range(int(LOOP_S)):
        values = radio(second)
        assert values.keys() <= set(RADIO.names)
        assert ("cell_id" in values) != place(second).in_tunnel
    told = SetValues()
    told.set({"rssi_dbm": -80, "cell_id": 5})
    told.set({"cell_id": None})
    assert told.values(0.0) == {"rssi_dbm": -80}
