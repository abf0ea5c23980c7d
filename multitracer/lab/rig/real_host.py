"""`python -m multitracer.lab.rig.real_host client|server`: the measuring program of one namespace.

The task is a line of JSON on standard input, because it includes a key. The program writes a line to standard
error when it is ready. The client then waits for another line, runs the remaining transactions, and writes
its progress to standard output, a line for each transaction; the server answers until it is stopped. Both get
the scheduling priority of the link if possible, so that other load of the machine is not measured.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.errors import InputError, MultiTracerError
from multitracer.lab.testbed.privileges import take_real_time_priority
from multitracer.measure.plan import MeasurementPlan
from multitracer.measure.run import MeasureJournal, do_all
from multitracer.measure.transports import TransportOptions, client, server
from multitracer.protocols.centaurus.messages import Extension

if TYPE_CHECKING:
    from types import FrameType

    from multitracer.measure.outcome import Client, TransactionOutcome
    from multitracer.measure.plan import Transaction
    from multitracer.schemas.schema import Document

READY = "ready"
"""Line on standard error when the server listens, or the client can begin."""
_WAIT_S = 1.0


@dataclass(frozen=True, slots=True)
class HostTask:
    """The task of a host.

    Parameters
    ----------
    plan : MeasurementPlan
        Plan with times in link time.
    folder : str
        Client: the session folder. Server: the folder of its log.
    address : str
        HOST:PORT of the server.
    options : TransportOptions
        Options of the transport; their `speed` is that of the link.
    """

    plan: MeasurementPlan
    folder: str
    address: str
    options: TransportOptions

    def line(self) -> bytes:
        """Return the task as a line for standard input."""
        options = self.options
        document = {
            "plan": self.plan.document(),
            "folder": self.folder,
            "address": self.address,
            "extensions": int(options.extensions),
            "key": None if options.key is None else options.key.hex(),
            "speed": options.speed,
        }
        return json.dumps(document).encode() + b"\n"

    @classmethod
    def parse(cls, line: str) -> HostTask:
        """Return the task that a line contains."""
        document: Document = json.loads(line)
        key = document["key"]
        options = TransportOptions(
            Extension(document["extensions"]), None if key is None else bytes.fromhex(key), speed=document["speed"]
        )
        plan = MeasurementPlan.of_document(document["plan"])
        return cls(plan, document["folder"], document["address"], options)


class LinkTimeClient:
    """A client whose results are in link time; link time runs `speed` times as fast as real time."""

    def __init__(self, client: Client, speed: float) -> None:
        self._client = client
        self._speed = speed

    def reach(self) -> None:
        """Wait until the server has answered."""
        self._client.reach()

    def transact(self, transaction: Transaction) -> TransactionOutcome:
        """Run one transaction and return its outcome."""
        return self._client.transact(transaction).in_link_time(self._speed)

    def close(self) -> None:
        """Close the connection and release its resources."""
        self._client.close()


def _measure(task: HostTask) -> None:
    """Run the remaining transactions once the server answers; if it never answers, they are dropped."""
    plan, options = task.plan, task.options
    timeout_s = plan.timeout_s / options.speed
    made = client(plan.protocol, task.address, run=secrets.randbits(64), timeout_s=timeout_s, options=options)
    with contextlib.closing(made), contextlib.closing(MeasureJournal(Path(task.folder), plan)) as journal:
        _say_ready()
        if sys.stdin.readline():
            do_all(plan, journal, LinkTimeClient(made, options.speed), progress=_tell)


def _tell(done: int, dropped: int, total: int) -> None:
    print(done, dropped, total, flush=True)  # noqa: T201  # the parent reads it


def _serve(task: HostTask) -> None:
    signal.signal(signal.SIGTERM, _end)
    folder = Path(task.folder)
    made, _ = server(task.plan.protocol, [task.address], folder=folder, options=task.options)
    with contextlib.closing(made):
        _say_ready()
        while not made.warnings:
            made.work(_WAIT_S)
        raise InputError(made.warnings[0])  # here nobody could read a warning: the run must not look complete


def _end(_: int, __: FrameType | None) -> None:
    raise SystemExit


def _say_ready() -> None:
    print(READY, file=sys.stderr, flush=True)  # noqa: T201  # the parent reads it


def main() -> None:
    """Run the measuring program of the client or of the server, as the command line says."""
    task = HostTask.parse(sys.stdin.readline())
    with contextlib.suppress(PermissionError):
        take_real_time_priority()
    try:
        {"client": _measure, "server": _serve}[sys.argv[1]](task)
    except MultiTracerError as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
