"""Our own TCP over a path in virtual time that does one thing to packets, and what is concluded of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from multitracer.diagnosis.diagnose import diagnose
from multitracer.lab.tcp.profile import MODERN
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer as Recorded
from multitracer.units import NS_PER_MS, NS_PER_S
from tests.corpus.link import Drive, Transfer, capture_file

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.lab.simulator.host import SimulatedHost

ROAD = Drive(
    rate_bps=4_000_000, delay_ns=20 * NS_PER_MS, queue_packets=50, loss=0, ack_loss=0, stalls=(), handshake_ns=0
)
"""4 Mbit/s, 43 ms with a full segment: 13 packets are on their way, the queue holds the rest of the 50."""


@dataclass
class MarredTransfer(Transfer):
    """A transfer whose data meet what `drive` cannot do."""

    largest_bytes: int = 65_535
    """Packets of data that are longer vanish."""
    policed_bps: int = 0
    bucket_bytes: int = 15_000
    every: int = 0
    """The data packet that takes `late_ns` longer, and is overtaken."""
    late_ns: int = 8 * NS_PER_MS
    longer_from_ns: int = 0
    longer_ns: int = 0
    """From when on the way of the data takes longer."""
    dead_from_ns: int = 0
    dead_until_ns: int = 3600 * NS_PER_S
    """Between these no data come through ..."""
    no_acks: bool = False
    """... or, instead, no ACKs."""
    slower_from_ns: int = 0
    slower_bps: int = 0
    """The link's rate from then on."""
    others_bps: int = 0
    others_from_ns: int = 0
    others_until_ns: int = 0
    """What others send through the same queue meanwhile."""
    vanish: frozenset[int] = frozenset()
    """Which packets of the data's sender do, counted from its SYN, which is 1 ..."""
    is_served: bool = False
    """... and whether the link spends its time on them before."""
    acks_bps: int = 0
    """The rate of the way of the ACKs, if it has one of its own ..."""
    acks_queue_packets: int = 10
    """... and what waits there."""
    _tokens: float = field(default=15_000, init=False)
    _seen_ns: int = field(default=0, init=False)
    _count: int = field(default=0, init=False)
    _told_ns: int = field(default=0, init=False)

    def transmit(self, host: SimulatedHost, data: bytes) -> bool:
        is_dead = self.dead_from_ns and self.dead_from_ns <= self.now_ns < self.dead_until_ns
        if is_dead and (host.name != "mobile") == self.no_acks:
            return True
        if host.name != "mobile":
            return self._answer(host, data)
        if len(data) > self.largest_bytes or (self.policed_bps and not self._passes(len(data))):
            return True
        if self.longer_from_ns and self.now_ns >= self.longer_from_ns and self.path.delay_ns == ROAD.delay_ns:
            self.path = replace(self.path, delay_ns=self.path.delay_ns + self.longer_ns)
        if self.slower_from_ns and self.now_ns >= self.slower_from_ns:
            self.path = replace(self.path, rate_bps=self.slower_bps)
        self._queue_others()
        self._count += 1
        if self._count in self.vanish:
            free_ns = max(self.now_ns, self._free_ns["mobile"])
            took_ns = len(data) * 8 * NS_PER_S // self.path.rate_bps
            self._free_ns["mobile"] = free_ns + self.is_served * took_ns
            return True
        if self.every and self._count % self.every == 0:
            self.at(self.now_ns + self.late_ns, lambda: self._late(host, data))
            return True
        return super().transmit(host, data)

    def _answer(self, host: SimulatedHost, data: bytes) -> bool:
        if not self.acks_bps:
            return super().transmit(host, data)
        of_data = self.path
        self.path = replace(of_data, rate_bps=self.acks_bps, queue_packets=self.acks_queue_packets)
        is_sent = super().transmit(host, data)
        self.path = of_data
        return is_sent

    def _queue_others(self) -> None:
        """Let what others sent since the last packet of ours stand before this one."""
        begin_ns, self._told_ns = max(self._told_ns, self.others_from_ns), self.now_ns
        if self.others_bps and begin_ns < self.now_ns < self.others_until_ns:
            work_ns = (self.now_ns - begin_ns) * self.others_bps // self.path.rate_bps
            self._free_ns["mobile"] = max(self._free_ns["mobile"], begin_ns) + work_ns

    def _late(self, host: SimulatedHost, data: bytes) -> None:
        super().transmit(host, data)

    def _passes(self, octets: int) -> bool:
        gone_ns, self._seen_ns = self.now_ns - self._seen_ns, self.now_ns
        gained = gone_ns * self.policed_bps / 8 / NS_PER_S
        self._tokens = min(self.bucket_bytes, self._tokens + gained)
        if octets > self._tokens:
            return False
        self._tokens -= octets
        return True


def diagnosed(
    folder: Path,
    drive: Drive = ROAD,
    *,
    size: int = 2_000_000,
    both: bool = True,
    host: str = "mobile",
    timestamps: bool = True,
    **does: int | frozenset[int],
) -> Diagnosis:
    """Return the diagnosis of an upload over a path, from both ends' captures or one host's alone."""
    profile = replace(MODERN, congestion="reno", timestamps=timestamps)
    run = MarredTransfer(drive, profile, size, 1, **does)  # type: ignore[arg-type]
    run.run()
    for name in ("mobile", "fixed"):
        (folder / name).mkdir()
        capture_file(folder / name / "tcp-0.pcap", [run.captures[name]])
    return diagnose(Recorded.of(read(folder if both else folder / host / "tcp-0.pcap")))
