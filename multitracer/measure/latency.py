"""A test of latency under load: round trips while the path is idle, and while a load fills it in each direction.

The method is that of draft-ietf-ippm-responsiveness (`responsiveness.py` has its statistics), over plain TCP and with
the server of `latency_server.py`. Probes on connections of their own give the round trips; probes among the load
give, with them, the responsiveness. Everything is one line of latency.jsonl, which is written while the test runs.

What the server sends is not trusted: a message that no test has ends the test, and memory is bounded.
"""

from __future__ import annotations

import errno
import json
import os
import random
import selectors
import socket
import statistics
from dataclasses import asdict, dataclass, field, replace
from typing import IO, TYPE_CHECKING, Literal

from multitracer.errors import InputError, RemoteProtocolError
from multitracer.manifest import Measurement
from multitracer.measure.endpoint import SteadyClock, resolved, socket_address
from multitracer.measure.exchange import ECHO, FILL, LOAD, PROBE, MessageReader, Words, encode, tcp_info
from multitracer.measure.latency_server import LONGEST_S, fill, shorten_buffer
from multitracer.measure.responsiveness import INTERVAL_NS, MAX_CONNECTIONS, Probe, WorkingConditions, probes_per_s
from multitracer.measure.transports import host_port
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from multitracer.measure.iperf3 import Direction
    from multitracer.measure.responsiveness import Confidence, ProbeKind
    from multitracer.tables import Document

LOG = "latency.jsonl"
DURATION_S = 20
MAX_DURATION_S = LONGEST_S - 10
"""Longest time of a direction: the server, to which the first connection may come late, ends it after `LONGEST_S`."""
_FORMAT_VERSION = 1
_CHUNK_BYTES = 262_144
_IDLE_NS = 3 * NS_PER_S
_IDLE_GAP_NS = NS_PER_S // 10
_IDLE_PROBES = 5
"""Round trips that an idle path is given time for, however long they are."""
_ANSWER_NS = 10 * NS_PER_S
"""Time in which the server must answer on an idle path."""
_P95 = 0.95
_MOST_OPEN_PROBES = 40
"""Connections of probes at a time: with those of the load fewer than the 64 that a server allows a host."""
_OVER_NS = 30 * NS_PER_S
"""Time without a byte of the load after which the server, or the path, is gone."""

Phase = Literal["idle", "up", "down"]


@dataclass(frozen=True, slots=True)
class LatencyPlan:
    """A test of the idle path and of each direction, one after the other."""

    server: str
    """HOST:PORT of `measure serve --latency`."""
    duration_s: int = DURATION_S
    """Longest time for which a direction is loaded."""
    directions: tuple[Direction, ...] = ("up", "down")
    labels: dict[str, str] = field(default_factory=dict)

    def measurement(self) -> Measurement:
        """Return the plan in the form of the manifest."""
        rest = asdict(self) | {"directions": list(self.directions)}
        return Measurement("latency", rest.pop("server"), None, rest)


@dataclass(frozen=True, slots=True)
class LatencyResult:
    """What was found in one phase; None where it is unknown."""

    phase: Phase
    rtt_s: float | None
    """Median of the round trips: handshakes and requests on connections of their own."""
    rtt_p95_s: float | None
    round_trips: int
    lost_probes: int
    """Probes whose connection failed."""
    goodput_bps: float | None = None
    """Of the load, mean of four intervals: when it became stable, else at the end."""
    responsiveness_rpm: float | None = None
    confidence: Confidence | None = None
    connections: int = 0
    """Connections that carried the load in the end."""


def run_latency(plan: LatencyPlan, folder: Path) -> Iterator[LatencyResult]:
    """Test the idle path and each direction; yield the result of each phase, and write all to latency.jsonl.

    A test that the folder has whole is not done again; one that was interrupted begins anew.

    Parameters
    ----------
    plan : LatencyPlan
        What to do.
    folder : Path
        The session folder; it exists.

    Raises
    ------
    InputError
        If the server does not answer, is another program, or ends the test.
    """
    if done := _finished(folder / LOG):
        yield from done
        return
    address = resolved(*host_port(plan.server))
    with (folder / LOG).open("w", encoding="utf-8") as log:
        tester = _Tester(plan, address, log)
        tester.note({"latency": _FORMAT_VERSION, "server": plan.server, "time_ns": tester.clock()})
        try:
            yield tester.idle()
            for direction in plan.directions:
                yield tester.working(direction)
        except (OSError, RemoteProtocolError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            tester.note({"ended": reason})
            raise InputError(
                f"{plan.server}: the test of latency failed ({reason}); check that "
                f"`multitracer measure serve --latency --listen {plan.server}` is running"
            ) from error
        finally:
            tester.close()
        tester.note({"ended": None})


def _finished(path: Path) -> list[LatencyResult]:
    """Return the results of a complete log; none if there is no such log."""
    try:
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        results = [LatencyResult(**line["result"]) for line in lines if "result" in line]
    except (OSError, ValueError, TypeError):
        return []
    return results if lines and lines[-1] == {"ended": None} else []


class _Connection:
    """A TCP connection that does not block: it probes by itself, or carries a load and probes.

    Parameters
    ----------
    address : (host, port)
        The server.
    direction : str or None
        Of the load; None for a probe on a connection of its own.
    """

    def __init__(
        self, address: tuple[str, int], direction: Direction | None, load: bytes, clock: Callable[[], int]
    ) -> None:
        self._clock = clock
        self._direction = direction
        self._load = load
        self._reader = MessageReader()
        self._asked_ns: dict[int, int] = {}
        """When each open question was sent, by its number."""
        self._numbers = 0
        self._unsent = b""
        self._acked_bytes = 0
        self.carried_bytes = 0
        """Of the load, since the last look."""
        self.probes: list[Probe] = []
        """Round trips that have ended since the last look."""
        self.is_connected = False
        self.began_ns = clock()
        self.socket = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        shorten_buffer(self.socket)
        if (number := self.socket.connect_ex(socket_address(address))) not in (0, errno.EINPROGRESS):
            self.socket.close()
            raise OSError(number, os.strerror(number))

    @property
    def wants(self) -> int:
        """What to wait for, as a mask of selectors."""
        if not self.is_connected:
            return selectors.EVENT_WRITE
        writes = bool(self._unsent) or self._direction == "up"
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if writes else 0)

    @property
    def open_questions(self) -> int:
        """How many questions have no answer yet."""
        return len(self._asked_ns)

    @property
    def is_done(self) -> bool:
        """Whether its only probe has ended."""
        return self._direction is None and self.is_connected and not self._asked_ns

    def ask(self) -> None:
        """Send a question, after what is waiting."""
        self._numbers += 1
        self._asked_ns[self._numbers] = self._clock()
        self._unsent += encode(Words(PROBE, 0, self._numbers, 0, 0, b""))

    def work(self, mask: int) -> None:
        """Do what is possible.

        Raises
        ------
        OSError
            If the connection failed, or the server closed it.
        RemoteProtocolError
            If the server sends something else.
        """
        if mask & selectors.EVENT_WRITE:
            self._write()
        if mask & selectors.EVENT_READ:
            self._read()

    def _write(self) -> None:
        if not self.is_connected:
            self._connected()
        if not self._unsent and self._direction == "up":
            self._unsent = self._load
        if self._unsent:
            self._unsent = self._unsent[self.socket.send(self._unsent) :]

    def _connected(self) -> None:
        if number := self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(number, os.strerror(number))
        self.is_connected = True
        if self._direction is None:
            self.probes.append(Probe("connect", self.began_ns, self._clock() - self.began_ns))
            self.ask()
        elif self._direction == "down":
            self._unsent = encode(Words(LOAD, 0, 0, 0, 0, b""))

    def _read(self) -> None:
        octets = self.socket.recv(_CHUNK_BYTES)
        if not octets:
            raise RemoteProtocolError("the server closed a connection")
        if self._direction == "down":
            self.carried_bytes += len(octets)
        for words in self._reader.feed(octets):
            if words.letters == ECHO and (asked_ns := self._asked_ns.pop(words.number, None)) is not None:
                kind: ProbeKind = "request" if self._direction is None else "loaded"
                self.probes.append(Probe(kind, asked_ns, self._clock() - asked_ns))
            elif words.letters != FILL or self._direction != "down":
                raise RemoteProtocolError("it is not the server of this test")

    def look(self) -> int:
        """Return how many bytes of the load arrived since the last look; the own kernel knows what was acknowledged."""
        if self._direction == "up":
            acked_bytes = tcp_info(self.socket).get("bytes_acked", 0)
            self.carried_bytes += acked_bytes - self._acked_bytes
            self._acked_bytes = acked_bytes
        carried_bytes, self.carried_bytes = self.carried_bytes, 0
        return carried_bytes


class _Tester:
    """The connections of a test, and the log of what they find."""

    def __init__(self, plan: LatencyPlan, address: tuple[str, int], log: IO[str]) -> None:
        self.clock = SteadyClock()
        self._plan = plan
        self._address = address
        self._log = log
        self._load = fill()
        self._selector = selectors.DefaultSelector()
        self._probing: set[_Connection] = set()
        self._loading: list[_Connection] = []
        self._ended: list[Probe] = []
        """Round trips on connections that are closed, since the last look."""
        self._lost = 0
        self._failure: Exception | None = None
        """Why the last probe was lost."""

    def close(self) -> None:
        """Close all connections."""
        for each in (*self._probing, *self._loading):
            self._drop(each)
        self._probing.clear()
        self._loading.clear()

    def note(self, document: Document) -> None:
        """Write a line of the log."""
        self._log.write(json.dumps(document) + "\n")
        self._log.flush()

    def idle(self) -> LatencyResult:
        """Probe the idle path, one connection at a time."""
        begin_ns = self.clock()
        probes: list[Probe] = []
        while self.clock() < begin_ns + _IDLE_NS or len(probes) < _IDLE_PROBES:
            self._probing.add(self._connected(None))
            self._work_until(self.clock() + _ANSWER_NS, lambda: not self._probing)
            if self._probing:
                raise ConnectionError(f"the server did not answer within {_ANSWER_NS // NS_PER_S} s")
            if self._failure is not None:
                raise self._failure
            probes += self._taken("idle")
            self._work_until(self.clock() + _IDLE_GAP_NS)
        return self._result("idle", probes)

    def working(self, direction: Direction) -> LatencyResult:
        """Load a direction with more and more connections, until it is stable or its time is over."""
        conditions = WorkingConditions()
        self._lost = 0
        tick_ns = self.clock()
        ends_ns = tick_ns + self._plan.duration_s * NS_PER_S
        carried_ns = tick_ns
        while not conditions.is_stable and tick_ns < ends_ns:
            if len(self._loading) < MAX_CONNECTIONS:
                self._loading.append(self._connected(direction))
            self._probe_until(tick_ns + INTERVAL_NS, probes_per_s(conditions.goodput_bps))
            carried_bytes = sum(each.look() for each in self._loading)
            conditions.add(carried_bytes, self._taken(direction))
            self._note_interval(direction, tick_ns, carried_bytes, conditions)
            tick_ns += INTERVAL_NS
            if carried_bytes:
                carried_ns = tick_ns
            elif tick_ns - carried_ns >= _OVER_NS:
                raise ConnectionError(f"nothing of the load arrived for {_OVER_NS // NS_PER_S} s")
        result = self._result(direction, conditions.newest_probes, conditions)
        self.close()
        self._taken(direction)  # handshakes whose request has no answer yet: they are none of the next direction
        if not result.round_trips:
            raise ConnectionError("no round trip ended while the path was loaded")
        return result

    def _note_interval(self, phase: Phase, begin_ns: int, carried_bytes: int, conditions: WorkingConditions) -> None:
        self.note(
            {
                "interval": phase,
                "time_ns": begin_ns,
                "until_ns": begin_ns + INTERVAL_NS,
                "bytes": carried_bytes,
                "connections": len(self._loading),
                "goodput_bps": round(conditions.goodput_bps),
                "is_saturated": conditions.saturated_bps is not None,
                "responsiveness_rpm": conditions.rpm,
            }
        )

    def _result(self, phase: Phase, probes: list[Probe], conditions: WorkingConditions | None = None) -> LatencyResult:
        rtts_s = sorted(each.rtt_ns / NS_PER_S for each in probes if each.kind != "loaded")
        result = LatencyResult(
            phase,
            statistics.median(rtts_s) if rtts_s else None,
            rtts_s[min(len(rtts_s) - 1, round(_P95 * len(rtts_s)))] if rtts_s else None,
            len(rtts_s),
            self._lost,
        )
        if conditions is not None:
            result = replace(
                result,
                goodput_bps=conditions.saturated_bps or conditions.goodput_bps,
                responsiveness_rpm=conditions.rpm,
                confidence=conditions.confidence,
                connections=len(self._loading),
            )
        self.note({"result": asdict(result)})
        return result

    # -- connections and probes ------------------------------------------------------------------------

    def _connected(self, direction: Direction | None) -> _Connection:
        made = _Connection(self._address, direction, self._load, self.clock)
        self._selector.register(made.socket, made.wants, made)
        return made

    def _drop(self, connection: _Connection) -> None:
        self._ended += connection.probes
        self._selector.unregister(connection.socket)
        connection.socket.close()

    def _probe_until(self, until_ns: int, pairs_per_s: float) -> None:
        """Send pairs of probes, those on new connections and those among the load in turn."""
        gap_ns = round(NS_PER_S / pairs_per_s / 2)
        is_apart = True
        while (now_ns := self.clock()) < until_ns:
            if is_apart:
                self._probe_apart()
            else:
                self._probe_in_load()
            is_apart = not is_apart
            self._work_until(min(until_ns, now_ns + gap_ns))

    def _probe_apart(self) -> None:
        if len(self._probing) >= _MOST_OPEN_PROBES:
            return
        try:
            self._probing.add(self._connected(None))
        except OSError:
            self._lost += 1

    def _probe_in_load(self) -> None:
        carrying = [each for each in self._loading if each.is_connected]
        if carrying and sum(each.open_questions for each in carrying) < _MOST_OPEN_PROBES:
            random.choice(carrying).ask()  # noqa: S311  # no secret

    def _taken(self, phase: Phase) -> list[Probe]:
        """Return and log the round trips that have ended since the last look."""
        taken, self._ended = self._ended, []
        for each in self._loading:
            taken += each.probes
            each.probes = []
        for probe in taken:
            self.note({"probe": probe.kind, "phase": phase, "time_ns": probe.time_ns, "rtt_ns": probe.rtt_ns})
        return taken

    def _work_until(self, until_ns: int, is_over: Callable[[], bool] = lambda: False) -> None:
        """Let all connections work until a time, or until something holds."""
        while (left_ns := until_ns - self.clock()) > 0 and not is_over():
            for each in (*self._loading, *self._probing):
                self._selector.modify(each.socket, each.wants, each)
            for key, mask in self._selector.select(left_ns / NS_PER_S):
                self._work(key.data, mask)

    def _work(self, connection: _Connection, mask: int) -> None:
        try:
            connection.work(mask)
        except BlockingIOError:
            return
        except (OSError, RemoteProtocolError) as error:
            if connection not in self._probing:
                raise  # the draft, "Final Algorithm": a connection of the load that fails ends the test
            self._lost += 1
            self._failure = error
            self._leave(connection)
            return
        if connection in self._probing and connection.is_done:
            self._leave(connection)

    def _leave(self, connection: _Connection) -> None:
        self._probing.discard(connection)
        self._drop(connection)
