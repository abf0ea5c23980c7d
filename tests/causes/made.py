"""Material of truths made by hand: a path's log and a journal, for transfers whose answer is known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.causes.path import FATES, RECORD

if TYPE_CHECKING:
    from pathlib import Path

PORT, SERVER_PORT = 40_000, 5001
ISN = (1000, 9000)
NS = 1_000_000_000
RATE_BPS, DELAY_S = 12_000_000, 0.05
"""A full packet takes 1 ms."""
MSS = 1460
WINDOW = 60_000
_FLAGS = {"S": 2, "SA": 18, "A": 16}


class Made:
    """An upload in the making; seconds are since its first SYN, bytes since its first of payload."""

    def __init__(
        self, folder: Path, *, upload: bool = True, control: bool = False, more: list[list[Any]] | None = None
    ) -> None:
        self.folder = folder
        self._upload = upload
        self._control = control
        self.path = [[way, "step", 0, RATE_BPS, int(DELAY_S * NS)] for way in ("up", "down")]
        self.path += more or []
        self.own: dict[str, int] = {}
        self._rows: list[tuple[Any, ...]] = []
        self._calls: list[list[Any]] = []

    def packet(
        self, way: int, at_s: float, *, first: int = 0, payload: int = 0, ack: int = 0, flags: str = "A",
        fate: str = "delivered", waits_s: float = 0.0, window: int = WINDOW,
    ) -> None:  # fmt: skip
        """Add a packet: 0 is up, with the data, 1 down."""
        length = payload + 40
        enter = NS + round(at_s * NS)
        served = enter + round(waits_s * NS) + length * 8 * NS // RATE_BPS
        due = served + round(DELAY_S * NS)
        seq = ISN[way] + ("S" not in flags) + first
        acknowledged = ISN[1 - way] + 1 + ack if flags != "S" else 0
        ports = (PORT, SERVER_PORT)[:: -1 if way else 1]
        arrives = due if fate == "delivered" else 0
        wscale = 0 if "S" in flags else 255
        self._rows.append((
            enter, served, due, arrives, seq, acknowledged, *ports, length, payload, 0, window,
            _FLAGS[flags], way, FATES.index(fate), 0, wscale, b"", 0,
        ))  # fmt: skip

    def handshake(self, window: int = WINDOW) -> float:
        """Add the handshake, and return when it is over at the client."""
        self.packet(0, 0, flags="S")
        self.packet(1, 0.051, flags="SA", window=window)
        self.packet(0, 0.102)
        return 0.102

    def call(self, name: str, begin_s: float, end_s: float, count: int = 0) -> None:
        """Add a call of the sending program."""
        self._calls.append([name, NS + round(begin_s * NS), NS + round(end_s * NS), count])

    def segment(self, at_s: float, number: int, *, answer: bool = True, **more: Any) -> None:
        """Add a full segment and, if it arrives, the ACK of all up to it."""
        self.packet(0, at_s, first=number * MSS, payload=MSS, **more)
        if answer and more.get("fate", "delivered") == "delivered":
            back_s = at_s + more.get("waits_s", 0.0) + 0.001 + DELAY_S
            self.packet(1, back_s, ack=(number + 1) * MSS, window=more.get("window", WINDOW))

    def save(self) -> Path:
        """Write the recording's files and return its folder."""
        for name in ("truth", "session/mobile", "session/fixed"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        rows = np.array(sorted(self._rows), RECORD)
        (self.folder / "truth/path.bin").write_bytes(rows.tobytes())
        mine = {"local_port": PORT, "peer_port": SERVER_PORT, "calls": self._calls, "tcp_info": ""}
        for role, connections in (("client", [mine]), ("server", [])):
            text = json.dumps({"role": role, "connections": connections})
            (self.folder / "truth" / f"{role}.json").write_text(text)
        (self.folder / "truth/scenario.json").write_text(json.dumps(self._scenario()))
        clock = {"kind": "clock", "monotonic_before_ns": 0, "realtime_ns": 0, "monotonic_after_ns": 0}
        for host in ("mobile", "fixed"):
            (self.folder / "session" / host / "tcp_info.jsonl").write_text(json.dumps(clock) + "\n")
        return self.folder

    def _scenario(self) -> dict[str, Any]:
        plan: dict[str, dict[str, Any]] = {"client": {}, "server": {}}
        told = {"kind": "made", "limit": "", "finding": None, "upload": self._upload}
        return told | {"control": self._control, "path": self.path, "plan": plan, "own": self.own}
