"""What polling a sender's variables costs, beside pyroute2 in the same run.

`python -m tests.benchmarks.tcp_info`

Both read one connection of this host 100 times a second and write a JSON line each time. Runs of two lengths
alternate; their difference is the cost of reading, without that of starting. pyroute2 is fetched with pip
into a folder that goes away again.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.measure import cost
from tests.collectors.running import command, connection

if TYPE_CHECKING:
    from collections.abc import Iterator

HZ = 100
SHORT_S = 2
PEER = """
import json, sys, time
from socket import AF_INET
from pyroute2 import DiagSocket
hz, port, seconds = float(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
start = due = time.monotonic()
with DiagSocket() as diag, open("/dev/null", "w") as log:
    diag.bind()
    while due < start + seconds:
        before = time.monotonic_ns()
        for answer in diag.get_sock_stats(family=AF_INET, states=1 << 1, extensions=1 << 1 | 1 << 3):
            if port in (answer["idiag_sport"], answer["idiag_dport"]):
                info = dict(answer.get_attr("INET_DIAG_INFO"))
                log.write(json.dumps([before, time.monotonic_ns(), answer["idiag_inode"], info]) + "\\n")
        due += 1 / hz
        time.sleep(max(0, due - time.monotonic()))
"""


def share_of_a_core(argv: list[str], *, seconds: int) -> float:
    """Return CPU time per second of reading, in percent; `argv` ends with an option for the duration."""
    short, long = (cost([*argv, str(length)]).cpu_s for length in (SHORT_S, seconds))
    return 100 * (long - short) / (seconds - SHORT_S)


@contextmanager
def traffic() -> Iterator[int]:
    """Keep one connection of this host busy; give its port."""
    with connection() as (client, server):
        done = threading.Event()

        def send() -> None:
            while not done.wait(0.005):
                client.send(b"x" * 1000)
                server.recv(1 << 16)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            yield client.getsockname()[1]
        finally:
            done.set()
            sender.join()


def main() -> None:
    """Print the cost of both in percent of a core."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--seconds", type=int, default=12)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, traffic() as port:
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder, "pyroute2"]
        subprocess.run(pip, check=True)
        os.environ["PYTHONPATH"] = os.pathsep.join([str(Path.cwd()), folder])
        ours = [*command("tcp_info", "-o", "/dev/null", "--hz", HZ, "--port", port), "--duration"]
        peer = [sys.executable, "-c", PEER, str(HZ), str(port)]
        pairs = [
            tuple(share_of_a_core(argv, seconds=chosen.seconds) for argv in (ours, peer)) for _ in range(chosen.runs)
        ]
    mine, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    met = mine < 4 or mine < theirs / 2
    sys.stdout.write(
        f"tcp_info at {HZ} Hz: {mine:.2f} % of a core; pyroute2: {theirs:.2f} %; "
        f"goal (under 4 %, or half of pyroute2): {'met' if met else 'missed'}\n"
    )


if __name__ == "__main__":
    main()
