"""What happens in a recording, drawn from its seed alone: the kind by turns, everything else at random.

`scenario(seed)` is the same for ever on every machine; a kind is a function in `kinds_path.py` or
`kinds_hosts.py`.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PORT = 5001
CLIENT = "10.0.3.2"
SERVER = "10.0.1.2"
NOBODY = "10.0.1.99"
MSS = 1448
PACKET = 1500
LEAST_BYTES, MOST_BYTES = 10_000, 50_000_000
_LEAST_QUEUE = 6 * PACKET
_LONGEST_QUEUE_S = 4.0

Operation = list[Any]
Setting = list[Any]


@dataclass
class Scenario:
    """One recording: the path, the hosts' TCP, the programs; and which cause was built in."""

    seed: int
    kind: str
    limit: str
    """What it was built to be limited by; the truth may say otherwise."""
    finding: str | None
    """The kind of finding that names the injected fault, if there is one."""
    control: bool
    """Whether nothing is wrong with it."""
    upload: bool
    rate_bps: int
    rtt_ns: int
    queue_bytes: int
    congestion_control: str
    timestamps: bool
    path: list[Setting] = field(default_factory=list)
    sysctls: dict[str, Any] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)


class Draw:
    """Chance, and what all kinds share: rate, RTT, direction, congestion control."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.upload = self.random.random() < 0.5
        self.congestion_control = self.random.choice(("reno", "cubic", "cubic", "bbr"))
        self.timestamps = self.random.random() < 0.75
        self.rate_bps = self.log(0.2e6, 100e6)
        self.rtt_s = self.log(0.005, 0.6)
        self.queue_bdp = self.log(0.3, 3)
        self.seconds = self.random.uniform(3, 12)
        self.data: list[Setting] = []
        """Settings of the way that the data take."""
        self.acks: list[Setting] = []
        self.sender: dict[str, Any] = {}
        self.receiver: dict[str, Any] = {}
        self.sysctls: dict[str, Any] = {}
        self.plan: dict[str, Any] = {}
        self.finding: str | None = None

    def log(self, least: float, most: float) -> float:
        """Return a number whose logarithm is uniform."""
        return math.exp(self.random.uniform(math.log(least), math.log(most)))

    def again(
        self, *, rate: tuple[float, float] | None = None, rtt: tuple[float, float] | None = None
    ) -> None:
        """Draw rate (bit/s) or RTT (s) from a narrower range, where the kind makes sense."""
        if rate:
            self.rate_bps = self.log(*rate)
        if rtt:
            self.rtt_s = self.log(*rtt)

    @property
    def bdp_bytes(self) -> float:
        return self.rate_bps / 8 * self.rtt_s

    @property
    def queue_bytes(self) -> int:
        longest = self.rate_bps / 8 * _LONGEST_QUEUE_S
        return int(max(_LEAST_QUEUE, min(longest, self.bdp_bytes * self.queue_bdp)))

    def size(self, bytes_per_s: float | None = None) -> int:
        """Return how much is sent in the drawn time, at the link's rate if no other is given."""
        most = (bytes_per_s or self.rate_bps / 8) * max(self.seconds, 10 * self.rtt_s)
        return int(max(LEAST_BYTES, min(MOST_BYTES, most)))

    def bulk(self, size: int | None = None) -> None:
        """Let the sender send all at once."""
        size = size or self.size()
        ending: list[Operation] = [["acked"]] if self.random.random() < 0.5 else []
        self.programs([["send", size], *ending, ["close"]], [["drain"], ["close"]])

    def programs(self, sender: list[Operation], receiver: list[Operation]) -> None:
        """Give both ends their operations; in a download the client asks first."""
        if self.upload:
            client, server = sender, receiver
        else:
            client, server = [["send", 200], *receiver], [["recv", 200], *sender]
        self.plan["connections"] = [{"client": client, "server": server}]

    def finish(self, seed: int, kind: str, limit: str, *, control: bool) -> Scenario:
        """Return the scenario."""
        return Scenario(
            seed=seed, kind=kind, limit=limit, finding=self.finding, control=control, upload=self.upload,
            rate_bps=int(self.rate_bps), rtt_ns=int(self.rtt_s * 1e9), queue_bytes=self.queue_bytes,
            congestion_control=self.congestion_control, timestamps=self.timestamps,
            path=self._path(seed), sysctls=self._sysctls(), plan=self._plan(),
        )  # fmt: skip

    def _path(self, seed: int) -> list[Setting]:
        data, acks = ("up", "down") if self.upload else ("down", "up")
        back_bps = max(200_000, self.rate_bps * self.log(0.3, 3))
        settings: list[Setting] = []
        for way, rate_bps, queue in ((data, self.rate_bps, self.queue_bytes), (acks, back_bps, 200_000)):
            settings += [[way, "seed", seed * 2 + (way == "up")], [way, "queue", queue]]
            settings.append([way, "step", 0, int(rate_bps), int(self.rtt_s * 5e8)])
        own = [[data, *each] for each in self.data] + [[acks, *each] for each in self.acks]
        return settings + own

    def _sysctls(self) -> dict[str, Any]:
        most = 64 << 20
        return {
            "tcp_no_metrics_save": 1,
            "tcp_timestamps": int(self.timestamps),
            "tcp_ecn": 0,
            "tcp_rmem": f"4096 131072 {most}",
            "tcp_wmem": f"4096 16384 {most}",
        } | self.sysctls

    def _plan(self) -> dict[str, Any]:
        cc = {"congestion_control": self.congestion_control}
        sender, receiver = cc | self.sender, cc | self.receiver
        client, server = (sender, receiver) if self.upload else (receiver, sender)
        plan = {
            "address": SERVER, "port": PORT, "listens": True, "lanes": 1, "most_s": 18.0, "patience_s": 32.0,
            "client": client, "server": server,
        }  # fmt: skip
        return plan | self.plan


@dataclass(frozen=True)
class Kind:
    """One kind of recording: what it should be limited by, and how it is drawn."""

    name: str
    limit: str
    control: bool
    draw: Callable[[Draw], None]


def adding_to(kinds: list[Kind]) -> Callable[..., Any]:
    """Return a decorator that adds a function to a list of kinds, under its name."""

    def kind(limit: str, *, control: bool = False) -> Callable[..., Any]:
        def add(draw: Callable[[Draw], None]) -> Callable[[Draw], None]:
            kinds.append(Kind(draw.__name__.replace("_", "-"), limit, control, draw))
            return draw

        return add

    return kind


def scenario(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    from tests.causes.kinds import KINDS

    kind = KINDS[seed % len(KINDS)]
    draw = Draw(seed)
    kind.draw(draw)
    return draw.finish(seed, kind.name, kind.limit, control=kind.control)
