"""A cellular link in miniature: two TUN devices and, between them, a slow modem with a deep queue.

`python -m sample_traces.recording.link --log FILE` moves IP packets between the devices it makes, `wwan0`
(the phone's modem) and `core0` (the operator's side), in real time: a queue that drops at the tail, a
serializer, a constant delay, seeded random loss, and outages in which whatever is sent is lost. Each packet
that it drops is a line of the log, so that a recording comes with the truth about its losses.

A user-space link is used because the kernel's own (tc-netem) is not built everywhere, and because a queue
inside the sender's kernel would hold TCP back (small queues), as a modem's does not. The loop that carries
the packets is that of a rehearsal (`multitracer/lab/rehearsal/relay.py`).
"""

from __future__ import annotations

import argparse
import json
import random
import select
import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from multitracer.lab.rehearsal.relay import Pipe, Relay, open_tun

NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Conditions:
    """What one direction of the link does to packets."""

    rate_bps: int
    queue_bytes: int
    """The queue drops what would make it longer."""
    delay_ns: int
    """Constant, after the last bit has been sent."""
    loss_probability: float
    seed: int
    outages_ns: tuple[tuple[int, int], ...]
    """Begin and end since the first packet; what is sent meanwhile is lost."""

    def faster(self, times: int) -> Conditions:
        """Return a link of so many times the rate and queue.

        Losses become rarer by the square, so that the rate and not they limit a transfer: a window grows with
        the root of one over the loss rate.
        """
        return replace(
            self,
            rate_bps=self.rate_bps * times,
            queue_bytes=self.queue_bytes * times,
            loss_probability=self.loss_probability / times**2,
        )


OUTAGES_NS = ((16_000_000_000, 17_400_000_000),)
UPLINK = Conditions(2_000_000, 120_000, 35_000_000, 0.0006, 5, OUTAGES_NS)
DOWNLINK = Conditions(8_000_000, 120_000, 35_000_000, 0.0, 6, OUTAGES_NS)


class Direction(Pipe):
    """One direction: packets in, and out when their time has come. Reads no clock."""

    def __init__(self, conditions: Conditions) -> None:
        super().__init__()
        self.conditions = conditions
        self._random = random.Random(conditions.seed)

    def accept(self, packet: bytes, *, now_ns: int) -> str | None:
        """Take a packet at `now_ns` after the first one; return why it is dropped, None if it is not."""
        self._leave_queue(now_ns)
        if self._queued_bytes + len(packet) > self.conditions.queue_bytes:
            return "queue"
        bits = len(packet) * 8
        self._free_ns = max(now_ns, self._free_ns) + bits * NS_PER_S // self.conditions.rate_bps
        self._join_queue(self._free_ns, len(packet))
        lost = self._random.random() < self.conditions.loss_probability
        if any(begin <= self._free_ns < end for begin, end in self.conditions.outages_ns):
            return "outage"
        if lost:
            return "loss"
        self._flying.append((self._free_ns + self.conditions.delay_ns, packet))
        return None


class Link:
    """The two directions, and the log of what they drop."""

    def __init__(self, log: Path, *, faster: int = 1) -> None:
        phone, core = open_tun("wwan0"), open_tun("core0")
        self._ways = {phone: Direction(UPLINK.faster(faster)), core: Direction(DOWNLINK.faster(faster))}
        self._name = {phone: "uplink", core: "downlink"}
        self._log = log.open("w", buffering=1)

    def run(self) -> None:
        """Carry packets until the process is ended."""
        Relay(self._ways, _wait, self._write_drop).run()

    def _write_drop(self, descriptor: int, reason: str, packet: bytes) -> None:
        record = {
            "entered_realtime_ns": time.time_ns(),
            "direction": self._name[descriptor],
            "dropped": reason,
            "bytes": len(packet),
            "ip_id": int.from_bytes(packet[4:6]),
        }
        self._log.write(json.dumps(record) + "\n")


def _wait(until_ns: int, readable: list[int]) -> bool:
    select.select(readable, [], [], max(0, until_ns - time.monotonic_ns()) / NS_PER_S)
    return True


def main() -> None:
    """Run the link until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--faster", type=int, default=1, help="times the rate of the bundled session")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    link = Link(options.log, faster=options.faster)
    print("ready", flush=True)
    link.run()


if __name__ == "__main__":
    main()
