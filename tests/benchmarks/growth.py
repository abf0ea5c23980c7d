"""How time and memory grow with the number of packets, for orders of packets that are bad for an analyser.

`python -m tests.benchmarks.growth [--commands analyze,diagnose] [--packets 20000,200000,1000000] [--python] [ORDER…]`
writes a capture of each order and size, runs the commands as processes of their own, and prints a line for each order:
the processor time and the peak memory of each size, what a packet more costs, and its growth: how much more a packet
costs from the second size to the third than from the first to the second. It exits with 1 if that is more than 1.5.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tests.benchmarks.measure import cost

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.tables import Array
    from tests.benchmarks.measure import Cost

SYN, PSH, ACK = 2, 8, 16
MSS = 1000
_START_S = 1_700_000_000
_MOST_GROWTH = 1.5
_LEAST_US = 0.2
"""Time for a packet below which growth is noise."""
COMMANDS = {"analyze": ("analyze", "--csv"), "diagnose": ("diagnose",)}


class Packets(NamedTuple):
    """Columns of packets; a number stands for all of them."""

    backwards: Array | int = 0
    port: Array | int = 2000
    host: Array | int = 0
    seq: Array | int = 1000
    ack: Array | int = 5000
    flags: Array | int = ACK
    window: Array | int = 65_000
    payload_bytes: Array | int = 0
    sack: tuple[Array | int, Array | int] | None = None
    fragment: Array | int = 0x4000
    """Flags and offset of the IPv4 header; do not fragment."""
    at_us: Array | None = None
    """Time, by default 10 µs after the one before."""


def one_connection(number: Array) -> Packets:
    """A segment, its ACK, and so on."""
    sent = number // 2 * MSS + 1000
    back = number & 1
    return Packets(back, seq=np.where(back, 5000, sent), ack=np.where(back, sent + MSS, 5000),
                   payload_bytes=np.where(back, 0, MSS))  # fmt: skip


def all_different(number: Array) -> Packets:
    """A SYN of a connection of its own each."""
    return Packets(port=2000 + number % 40_000, host=number // 40_000, flags=SYN)


def reversed_time(number: Array) -> Packets:
    """One connection, whose times run backwards."""
    return one_connection(number)._replace(at_us=10 * (len(number) - number))


def interleaved(number: Array) -> Packets:
    """A thousand connections in turn."""
    of_each = one_connection(number // 1000)
    return of_each._replace(port=2000 + number % 1000)


def all_retransmissions(number: Array) -> Packets:
    """One segment again and again."""
    return Packets(seq=np.where(number == 0, 1000, 1001), flags=np.where(number == 0, SYN, ACK),
                   payload_bytes=np.where(number == 0, 0, MSS))  # fmt: skip


def sack_holes(number: Array) -> Packets:
    """Every second segment is lost and never repaired: each ACK reports one island more."""
    back = number & 1
    sent = number // 2 * 2 * MSS + 1000 + MSS
    return Packets(back, seq=np.where(back, 5000, sent), ack=np.where(back, 1000, 5000),
                   payload_bytes=np.where(back, 0, MSS), sack=(sent, sent + MSS))  # fmt: skip


def alternating_directions(number: Array) -> Packets:
    """Both sides send data in turn, and each acknowledges the other."""
    back, turn = number & 1, number // 2 * MSS
    return Packets(back, seq=np.where(back, 5000, 1000) + turn, ack=np.where(back, 1000 + MSS, 5000) + turn,
                   flags=ACK | PSH, payload_bytes=MSS)  # fmt: skip


def zero_windows(number: Array) -> Packets:
    """The window closes after each segment, and opens again."""
    step = number % 3
    sent = number // 3 * MSS + 1000
    back = (step > 0).astype(np.int64)
    return Packets(back, seq=np.where(back, 5000, sent), ack=np.where(back, sent + MSS, 5000),
                   payload_bytes=np.where(back, 0, MSS), window=np.where(step == 1, 0, MSS))  # fmt: skip


def fragments(number: Array) -> Packets:
    """First fragments of datagrams, whose other fragments never come."""
    return one_connection(number)._replace(fragment=0x2000)


ORDERS: dict[str, Callable[[Array], Packets]] = {
    each.__name__: each
    for each in (
        one_connection, all_different, reversed_time, interleaved, all_retransmissions, sack_holes,
        alternating_directions, zero_windows, fragments,
    )
}  # fmt: skip


def write_order(path: str, name: str, packets: int) -> None:
    """Write a capture (raw IPv4, nanoseconds, headers only) of one order."""
    number = np.arange(packets, dtype=np.int64)
    of = ORDERS[name](number)
    options = 12 if of.sack is not None else 0
    header = np.dtype([
        ("s", "<u4"), ("ns", "<u4"), ("stored", "<u4"), ("length", "<u4"),
        ("version", "u1"), ("tos", "u1"), ("total", ">u2"), ("id", ">u2"), ("fragment", ">u2"), ("ttl", "u1"),
        ("protocol", "u1"), ("sum", ">u2"), ("src", ">u4"), ("dst", ">u4"),
        ("sport", ">u2"), ("dport", ">u2"), ("seq", ">u4"), ("ack", ">u4"), ("offset", "u1"), ("flags", "u1"),
        ("window", ">u2"), ("tcp_sum", ">u2"), ("urgent", ">u2"),
        *([("nop", ">u2"), ("kind", ">u2"), ("left", ">u4"), ("right", ">u4")] if options else []),
    ])  # fmt: skip
    rows = np.zeros(packets, dtype=header)
    at_us = 10 * number if of.at_us is None else of.at_us
    total = 40 + options + of.payload_bytes + 0 * number
    back = np.asarray(of.backwards, dtype=bool)
    client, server = 0x0A000001 + of.host + 0 * number, 0x0A640001
    values = {
        "s": _START_S + at_us // 10**6, "ns": at_us % 10**6 * 1000, "stored": 40 + options, "length": total,
        "version": 0x45, "total": total, "id": number & 0xFFFF, "fragment": of.fragment, "ttl": 64, "protocol": 6,
        "src": np.where(back, server, client), "dst": np.where(back, client, server),
        "sport": np.where(back, 80, of.port), "dport": np.where(back, of.port, 80),
        "seq": of.seq + 0 * number & 0xFFFFFFFF, "ack": of.ack + 0 * number & 0xFFFFFFFF,
        "offset": (20 + options) << 2, "flags": of.flags, "window": of.window,
    }  # fmt: skip
    if of.sack is not None:
        left, right = of.sack
        values |= {"nop": 0x0101, "kind": 0x050A, "left": left & 0xFFFFFFFF, "right": right & 0xFFFFFFFF}
    for column, value in values.items():
        rows[column] = value
    with Path(path).open("wb") as file:
        np.array([0xA1B23C4D, 0x00040002, 0, 0, 65535, 101], dtype="<u4").tofile(file)
        rows.tofile(file)


def main() -> int:
    """Measure the orders that the command line names, by default all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("orders", nargs="*", default=[*ORDERS], metavar="ORDER")
    parser.add_argument("--commands", default=",".join(COMMANDS))
    parser.add_argument("--packets", default="20000,200000,1000000", help="three sizes")
    parser.add_argument("--python", action="store_true", help="without the native kernel")
    chosen = parser.parse_args()
    if chosen.python:
        os.environ["MULTITRACER_NATIVE"] = "0"
    sizes = [int(each) for each in chosen.packets.split(",")]
    heads = " | ".join(f"{size:,} packets" for size in sizes)
    print(
        f"| order | command | {heads} | a packet more, from the second size on | growth |\n|{'---|' * (len(sizes) + 4)}"
    )
    has_grown = False
    with tempfile.TemporaryDirectory() as folder:
        for order in chosen.orders:
            captures = [str(Path(folder) / f"{size}.pcap") for size in sizes]
            for size, path in zip(sizes, captures, strict=True):  # by a process of its own: see `measure`
                program = f"from tests.benchmarks.growth import write_order; write_order({path!r}, {order!r}, {size})"
                subprocess.run([sys.executable, "-c", program], check=True)
            for command in chosen.commands.split(","):
                costs = [cost([sys.executable, "-m", "multitracer", *COMMANDS[command], path]) for path in captures]
                has_grown |= _show(order, command, sizes, costs) > _MOST_GROWTH
    return int(has_grown)


def _show(order: str, command: str, sizes: list[int], costs: list[Cost]) -> float:
    """Print a line; return how much more the time for a packet more is at the end than at the beginning."""
    us = [1e6 * (b.cpu_s - a.cpu_s) for a, b in pairwise(costs)]
    slopes = [each / (b - a) for each, (a, b) in zip(us, pairwise(sizes), strict=True)]
    more_bytes = (costs[-1].peak_bytes - costs[-2].peak_bytes) / (sizes[-1] - sizes[-2])
    growth = slopes[-1] / max(slopes[0], _LEAST_US)
    cells = " | ".join(f"{each.cpu_s:.2f} s, {each.peak_bytes / 2**20:.0f} MiB" for each in costs)
    name = order.replace("_", " ")
    print(f"| {name} | `{command}` | {cells} | {slopes[-1]:.2f} µs, {more_bytes:.0f} B | {growth:.1f} |", flush=True)
    return growth


if __name__ == "__main__":
    sys.exit(main())
