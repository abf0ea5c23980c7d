"""What happens in a recording, drawn from its seed alone: the kind by turns, everything else at random.

`scenario(seed)` is the same for ever on every machine; a kind is a function in `kinds_path.py`,
`kinds_hosts.py` or `kinds_several.py`. What every kind may have (`Hosts`: IPv6, segmentation offload, coarse
timestamps) comes from a second stream of chance, so that it changes nothing else that is drawn.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

PORT = 5001
CLIENT = "10.0.3.2"
SERVER = "10.0.1.2"
NOBODY = "10.0.1.99"
ORIGIN, BEHIND = "10.0.9.2", "10.0.9"
"""The server behind a proxy, and the network between these."""
IN_IPV6 = {CLIENT: "fd00:3::2", SERVER: "fd00:1::2", NOBODY: "fd00:1::99"}
MSS = 1448
PACKET = 1500
MIN_BYTES, MOST_BYTES = 10_000, 50_000_000
_LEAST_QUEUE = 6 * PACKET
_LONGEST_QUEUE_S, _LONGEST_HEALTHY_QUEUE_S = 4.0, 0.15
_BACK_QUEUE = 200_000

Operation = list[Any]
_Narrows: TypeAlias = "Callable[[Draw], None]"
Setting = list[Any]


@dataclass(frozen=True)
class Hosts:
    """How the hosts' stacks and devices are."""

    ip_version: int = 4
    offload: bool = False
    """Whether the devices segment and join: captures show segments of up to 64 kB, the path none of them."""
    gro_ns: int = 0
    """How long a device waits for more to join."""
    ticks_ms: dict[str, int] = field(default_factory=dict)
    """Host -> time between ticks of its timestamps' clock, written into the captures afterwards (`ticks`).
    What is left out ticks each millisecond."""

    def address(self, of: str) -> str:
        """Return an address in the version that is spoken."""
        return IN_IPV6[of] if self.ip_version == 6 else of

    @classmethod
    def draw(cls, seed: int, *, upload: bool, timestamps: bool) -> Hosts:
        """Draw IPv6 in a fifth, offload in a fifth, coarse timestamps in 15 % of those with any."""
        chance = random.Random(f"hosts {seed}")
        ip_version = 6 if chance.random() < 0.2 else 4
        offload = chance.random() < 0.2
        gro_ns = int(math.exp(chance.uniform(math.log(100e3), math.log(1.5e6))))
        coarse, both = chance.random() < 0.15, chance.random() < 0.5
        mine, peers = chance.choice((4, 10)), chance.choice((4, 10))
        sender, receiver = ("mobile", "fixed") if upload else ("fixed", "mobile")
        ticks = {sender: mine} | ({receiver: peers} if both else {}) if coarse and timestamps else {}
        return cls(ip_version, offload, gro_ns if offload else 0, ticks)


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
    hosts: Hosts = field(default_factory=Hosts)
    own: dict[str, int] = field(default_factory=dict)
    """The shaper on the data sender's own interface, if there is one: `rate_bps`, `burst_bytes`, `queue_bytes`."""
    whole: bool = False
    """Whether the connection as a whole is judged, not its larger direction alone."""
    receiver_clock: dict[str, float] = field(default_factory=dict)
    """How the clock of the data's receiver is, written into its capture afterwards: `offset_ns` and `ppm`."""
    proxy: dict[str, int] = field(default_factory=dict)
    """A proxy that splits the connection: the server is behind it, at `rate_bps`, and captured there."""
    damage: dict[str, float] = field(default_factory=dict)
    """What was done to one capture afterwards: `at_sender` (else the receiver's), and `lost` with `run`,
    `options` (bytes kept of each packet's) or `cut` (`damage`)."""


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
        self.back_bps: float | None = None
        """Rate of the way back, if a kind tells it."""
        self.back_queue = _BACK_QUEUE
        self.own: dict[str, int] = {}
        self.whole = False
        self.receiver_clock: dict[str, float] = {}
        self.proxy: dict[str, int] = {}
        self.damage: dict[str, float] = {}

    def log(self, minimum: float, most: float) -> float:
        """Return a number whose logarithm is uniform."""
        return math.exp(self.random.uniform(math.log(minimum), math.log(most)))

    def again(self, *, rate: tuple[float, float] | None = None, rtt: tuple[float, float] | None = None) -> None:
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
        return self._queue(_LONGEST_QUEUE_S)

    def _queue(self, longest_s: float) -> int:
        longest = self.rate_bps / 8 * longest_s
        return int(max(_LEAST_QUEUE, min(longest, self.bdp_bytes * self.queue_bdp)))

    def size(self, bytes_per_s: float | None = None) -> int:
        """Return how much is sent in the drawn time, at the link's rate if no other is given."""
        most = (bytes_per_s or self.rate_bps / 8) * max(self.seconds, 10 * self.rtt_s)
        return int(max(MIN_BYTES, min(MOST_BYTES, most)))

    def bulk(self, size: int | None = None) -> None:
        """Let the sender send all at once."""
        size = size or self.size()
        ending: list[Operation] = [["acked"]] if self.random.random() < 0.5 else []
        self.programs([["send", size], *ending, ["close"]], [["drain"], ["close"]])

    def programs(self, sender: list[Operation], receiver: list[Operation]) -> None:
        """Give both ends their operations; in a download the client asks first."""
        self.plan["connections"] = [self.pair(sender, receiver)]

    def pair(self, sender: list[Operation], receiver: list[Operation]) -> dict[str, Any]:
        """Return what client and server do on one connection."""
        if self.upload:
            return {"client": sender, "server": receiver}
        return {"client": [["send", 200], *receiver], "server": [["recv", 200], *sender]}

    def finish(self, seed: int, kind: str, limit: str, *, control: bool) -> Scenario:
        """Return the scenario; a control is healthy, so its queue is no longer than a healthy one."""
        hosts = Hosts() if self.proxy else Hosts.draw(seed, upload=self.upload, timestamps=self.timestamps)
        queue_bytes = self._queue(_LONGEST_HEALTHY_QUEUE_S) if control else self.queue_bytes
        return Scenario(
            seed=seed, kind=kind, limit=limit, finding=self.finding, control=control, upload=self.upload,
            rate_bps=int(self.rate_bps), rtt_ns=int(self.rtt_s * 1e9), queue_bytes=queue_bytes,
            congestion_control=self.congestion_control, timestamps=self.timestamps,
            path=self._path(seed, queue_bytes), sysctls=self._sysctls(), plan=self._plan(hosts), hosts=hosts,
            own=self.own, whole=self.whole, receiver_clock=self.receiver_clock,
            proxy=self.proxy, damage=self.damage,
        )  # fmt: skip

    def _path(self, seed: int, queue_bytes: int) -> list[Setting]:
        data, acks = ("up", "down") if self.upload else ("down", "up")
        usual_bps = max(200_000, self.rate_bps * self.log(0.3, 3))
        back = (acks, self.back_bps or usual_bps, self.back_queue)
        settings: list[Setting] = []
        for way, rate_bps, queue in ((data, self.rate_bps, queue_bytes), back):
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

    def _plan(self, hosts: Hosts) -> dict[str, Any]:
        cc = {"congestion_control": self.congestion_control}
        sender, receiver = cc | self.sender, cc | self.receiver
        client, server = (sender, receiver) if self.upload else (receiver, sender)
        plan: dict[str, Any] = {
            "address": SERVER, "port": PORT, "listens": True, "lanes": 1, "most_s": 18.0, "patience_s": 32.0,
            "client": client, "server": server,
        }  # fmt: skip
        plan |= self.plan
        return plan | {"address": hosts.address(plan["address"])}


@dataclass(frozen=True)
class Kind:
    """One kind of recording: what it should be limited by, and how it is drawn."""

    name: str
    limit: str
    control: bool
    draw: Callable[[Draw], None]


class _Adding(Protocol):
    """`@kind(limit)` on a function that narrows a draw."""

    def __call__(self, limit: str, *, control: bool = False) -> Callable[[_Narrows], _Narrows]: ...


def adding_to(kinds: list[Kind]) -> _Adding:
    """Return a decorator that adds a function to a list of kinds, under its name."""

    def kind(limit: str, *, control: bool = False) -> Callable[[_Narrows], _Narrows]:
        def add(draw: _Narrows) -> _Narrows:
            kinds.append(Kind(draw.__name__.replace("_", "-"), limit, control, draw))
            return draw

        return add

    return kind


def scenario(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    from tests.causes.kinds import kind_of

    kind = kind_of(seed)
    draw = Draw(seed)
    kind.draw(draw)
    return draw.finish(seed, kind.name, kind.limit, control=kind.control)
