"""The collector gps on a real pseudo-terminal and a real TCP connection: what it writes and survives."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import parsers
from multitracer.lab.rehearsal.journey import LOOP_S, place
from tests.collectors.rehearsal import device
from tests.collectors.running import end, records, run, running, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.tables import Table

TPV = (
    b'{"class":"TPV","device":"/dev/ttyACM0","mode":3,"time":"2026-11-20T10:15:%02d.000Z","lat":40.1,"lon":-83.2,'
    b'"altMSL":250.0,"track":12.5,"speed":13.9,"eph":4.2}\n'
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "gps.jsonl"


@pytest.fixture
def port(tmp_path: Path) -> Path:
    return tmp_path / "ttyACM0"


def tables(log: Path) -> dict[str, Table]:
    _, parsed = parsers.read(log)
    assert isinstance(parsed, dict)
    return parsed


def count(log: Path, kind: str) -> int:
    return len(records(log, kind))


def test_route_is_recorded_and_the_tunnel_is_no_fix(port: Path, log: Path) -> None:
    """Forty times as fast as a car: the loop with its tunnel is driven in three seconds."""
    with device("gps", port, "--hz", 20, "--speed", 40), running("gps", log, "--device", port) as child:
        until(lambda: count(log, "sentence") > 3 * 80)
        assert end(child) == 0
    position = tables(log)["position"]
    fixed, lat = position["fix"] == 3, position["lat_deg"]
    assert fixed.sum() > 50
    assert 0 < (~fixed).sum() < 20
    assert position.missing("lat_deg")[~fixed].all()
    assert lat[fixed].max() - lat[fixed].min() == pytest.approx(0.003, abs=0.0005)
    assert set(position["speed_mps"][fixed].round(1)) == {round(place(0).speed_mps, 1)}
    apart = position["fix_time_ns"] - position["time_ns"]
    assert abs(apart).max() < 2_000_000_000
    assert tables(log)["position"].provenance["skipped"] == {}
    assert LOOP_S == 120


def test_unplugged_silent_and_damaged_are_gaps_with_their_reasons(port: Path, log: Path) -> None:
    ports = str(port.with_name("tty*"))
    with device("gps", port, "--hz", 20) as fake, running("gps", log, "--device", ports) as child:
        until(lambda: count(log, "sentence") > 10)
        fake.do("unplug")
        until(lambda: [r for r in records(log, "missed") if r["why"] == "unplugged"])
        fake.do("plug", link=str(port.with_name("ttyACM5")))
        until(lambda: count(log, "port") == 3)
        fake.do("damage")
        fake.do("garbage")
        until(lambda: count(log, "bad") > 10)
        fake.do("silent")
        until(lambda: [r for r in records(log, "missed") if r["why"] == "silent"])
        fake.do("speak")
        before = count(log, "sentence")
        until(lambda: count(log, "sentence") > before + 9)
        assert end(child) == 0
    found = tables(log)
    assert [row["reason"] for row in found["gaps"].rows()] == ["unplugged", "silent"]
    assert found["position"].provenance["bad_lines"] > 10
    for gap in found["gaps"].rows():
        inside = (found["position"]["time_ns"] > gap["time_ns"]) & (found["position"]["time_ns"] < gap["until_ns"])
        assert inside.sum() <= 1  # the epoch that was being said when the cable was pulled
    assert [Path(r["port"]).name for r in records(log, "port")] == ["ttyACM0", "ttyACM0", "ttyACM5"]


class Server:
    """What gpsd is to a client: it wants to be told to watch, then it reports."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.heard = b""
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        client, _ = self._listener.accept()
        with client:
            client.sendall(b'{"class":"VERSION","release":"3.25","proto_major":3,"proto_minor":15}\n')
            self.heard = client.recv(4096)
            for second in range(10):
                client.sendall(TPV % second + b'{"class":"SKY","uSat":9}\n')


@contextmanager
def gpsd() -> Iterator[tuple[Server, str]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(listener)
        yield server, f"127.0.0.1:{listener.getsockname()[1]}"
        server.thread.join(20)


def test_gpsd_is_asked_to_report_and_lost_when_it_goes(log: Path) -> None:
    with gpsd() as (server, address), running("gps", log, "--gpsd", address) as child:
        until(lambda: count(log, "port") > 1)
        assert end(child) == 0
    assert server.heard == b'?WATCH={"enable":true,"json":true};\n'
    position = tables(log)["position"]
    assert len(position) == 10
    first = next(iter(position.rows()))
    known = {"source": "gpsd", "lat_deg": 40.1, "lon_deg": -83.2, "speed_mps": 13.9, "fix": 3, "error_m": 4.2}
    assert {k: first[k] for k in known} == known
    assert [r["state"] for r in records(log, "port")][:2] == ["opened", "lost"]


def shown(log: Path) -> list[Any]:
    return [r["shown"] for r in records(log, "sentence", "report") if "shown" in r]


def test_newest_position_is_shown_in_the_log_for_people(port: Path, log: Path) -> None:
    with device("gps", port, "--hz", 20), running("gps", log, "--device", port) as child:
        until(lambda: len(shown(log)) > 3)
        assert end(child) == 0
    assert {"lat_deg", "lon_deg", "speed_mps", "fix"} <= shown(log)[-1].keys()


def test_wrong_address_is_told_in_one_sentence(log: Path) -> None:
    done = run("gps", "-o", log, "--gpsd", "localhost")
    assert done.returncode == 1
    assert "HOST:PORT" in done.stderr
    assert not done.stderr.count("\n") > 1


def test_port_that_nobody_chose_and_that_says_nothing_is_left_to_others(tmp_path: Path) -> None:
    """A modem's port must not be held by who looks for a receiver, and the other way round."""
    from collectors import gps, modem
    from collectors._log import Log
    from collectors._stop import Stop

    with Log(tmp_path / "log") as log, Stop() as stop:
        chosen = gps._options([])
        receiver = gps.GpsRun(chosen, log)
        assert receiver._is_chosen is False
        chosen = modem._options([])
        asked = modem.SerialModem(chosen, profile=None, log=modem.ModemLog(log), stop=stop)
        asked._names = (str(tmp_path / "tty*"),)
        with device("gps", tmp_path / "ttyUSB0", "--hz", 5):
            assert asked.ask_all() == "silent"
            assert asked._line is None
            assert asked.ask_all() == "no modem"
