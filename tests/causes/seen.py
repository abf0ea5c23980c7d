"""What is known of a transfer: its packets' fates, its programs' calls, its sender's kernel; nothing else.

Every time is CLOCK_REALTIME in ns; bytes count from 0, the first of payload.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from multitracer.protocols.sock_diag import decode_tcp_info
from tests.causes.path import DELIVERED, NO_WSCALE, WAYS, read_bytes, read_log
from tests.causes.scenario import CLIENT, Hosts
from tests.causes.spans import Steps

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from multitracer.tables import Mask, Times

_FIN, _SYN, _RST, _ACK = 1, 2, 4, 16
_POLLED = ("snd_cwnd", "snd_ssthresh", "unacked", "sacked", "lost", "retrans", "notsent_bytes", "ca_state", "snd_mss")
FULL_PACKET = 1500
_NEVER_NS = 2**62


@dataclass(frozen=True)
class Link:
    """One way of the path, as it was told."""

    settings: list[list[Any]]
    zero_ns: int

    def numbers(self, name: str) -> list[list[float]]:
        """Return the numbers of each setting of a name."""
        return [each[1:] for each in self.settings if each[0] == name]

    def _step(self, index: int, time_ns: int) -> float:
        steps = [step for step in self.numbers("step") if step[0] + self.zero_ns <= time_ns]
        return float((steps or self.numbers("step")[:1])[-1][index])

    def service_ns(self, time_ns: int, length: int = FULL_PACKET) -> float:
        """Return how long the slower serializer has a packet, at the mean rate where it varies."""
        rates = [self._step(1, time_ns), *(rate for rate, _ in self.numbers("second"))]
        return length * 8e9 / min(rates)

    def delay_ns(self, time_ns: int) -> float:
        """Return the delay after the serializer."""
        return self._step(2, time_ns)


class Recording:
    """The truth's side of a recording."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scenario = json.loads(read_bytes(folder / "truth" / "scenario.json"))
        self.log = read_log(folder / "truth" / "path.bin")
        self.journals = {role: self._journal(role) for role in ("client", "server")}

    def _journal(self, role: str) -> list[dict[str, Any]]:
        document = json.loads(read_bytes(self.folder / "truth" / f"{role}.json"))
        connections: list[dict[str, Any]] = document["connections"]
        return connections

    @property
    def client(self) -> str:
        """The client's address."""
        return self._hosts.address(CLIENT)

    @property
    def tick_ms(self) -> int:
        """How often the clock of the data sender's timestamps ticks, 0 if it has none."""
        sender = "mobile" if self.scenario["upload"] else "fixed"
        return self._hosts.ticks_ms.get(sender, 1) if self.scenario.get("timestamps", True) else 0

    @property
    def _hosts(self) -> Hosts:
        """The hosts as they were told; the first recordings were all of one sort."""
        return Hosts(**self.scenario.get("hosts", {}))

    def captured_until_ns(self, host: str) -> int:
        """Return when a host's capture was cut; far away if it is whole."""
        file = self.folder / "truth" / "damage.json"
        damage = json.loads(file.read_text()) if file.exists() else {}
        return int(damage.get("until_ns", _NEVER_NS)) if damage.get("host") == host else _NEVER_NS

    @property
    def beside(self) -> set[int]:
        """The client's ports of connections that were made to disturb the others."""
        planned = self.scenario["plan"].get("connections", [])
        made = zip(self.journals["client"], planned, strict=False)  # some may not have been begun
        return {journal["local_port"] for journal, plan in made if plan.get("beside")}

    @cached_property
    def polls(self) -> dict[str, list[dict[str, Any]]]:
        """Each host's kernel, poll by poll, each with its time and the client's port; none where it was not asked."""
        return {host: self._polled(host) for host in ("mobile", "fixed")}

    def _polled(self, host: str) -> list[dict[str, Any]]:
        file = self.folder / "session" / host / "tcp_info.jsonl"
        if not (file.exists() or file.with_name(f"{file.name}.gz").exists()):
            return []
        records = [json.loads(line) for line in read_bytes(file).splitlines()]
        clock = next(r for r in records if r["kind"] == "clock")
        to_realtime = clock["realtime_ns"] - (clock["monotonic_before_ns"] + clock["monotonic_after_ns"]) // 2
        here = "local_port" if host == "mobile" else "remote_port"
        polled = [self._poll(r, to_realtime, here) for r in records if r["kind"] == "reading" and r["raw"]]
        return sorted(polled, key=lambda poll: poll["time_ns"])

    def _poll(self, record: dict[str, Any], to_realtime: int, here: str) -> dict[str, Any]:
        fields = decode_tcp_info(base64.b64decode(record["raw"]))
        time_ns = (record["read_before_ns"] + record["read_after_ns"]) // 2 + to_realtime
        return fields | {"time_ns": time_ns, "client_port": record[here]}

    def transfers(self) -> Iterator[Transfer]:
        """Yield each direction of each connection: those with payload, else the one that was to have it."""
        ports = np.where(self.log["way"] == 0, self.log["source"], self.log["target"])
        for port in dict.fromkeys(ports[ports > 0].tolist()):
            of_it = self.log[ports == port]
            ways = [w for w in (0, 1) if np.any((of_it["way"] == w) & (of_it["payload"] > 0))]
            for way in ways or [WAYS.index("up" if self.scenario["upload"] else "down")]:
                yield Transfer(self, of_it, int(port), way)


class Transfer:
    """One direction of one connection."""

    def __init__(self, recording: Recording, log: NDArray[np.void], port: int, way: int) -> None:
        self.recording = recording
        self.log = log
        self.port = port
        self.way = way
        self.zero_ns = int(recording.log["enter_ns"][0])
        mine = log["way"] == way
        self.packets = log[mine & (log["payload"] > 0)]
        self.back = log[~mine & (log["fate"] == DELIVERED)]
        self.back = self.back[np.argsort(self.back["written_ns"], kind="stable")]
        self.answers = log[~mine]

    def link(self, way: int) -> Link:
        """Return one way of the path."""
        settings = [each[1:] for each in self.recording.scenario["path"] if each[0] == WAYS[way]]
        return Link(settings, self.zero_ns)

    @cached_property
    def data_link(self) -> Link:
        return self.link(self.way)

    def floor_rtt_ns(self, time_ns: int) -> float:
        """Return the round trip of one full segment with nothing else on the path."""
        there, back = self.data_link, self.link(1 - self.way)
        return (
            there.service_ns(time_ns) + there.delay_ns(time_ns)
            + back.service_ns(time_ns, 60) + back.delay_ns(time_ns)
        )  # fmt: skip

    # --- sequence numbers ---

    @cached_property
    def _origin(self) -> int:
        """The sequence number of the first byte of payload."""
        mine = self.log[self.log["way"] == self.way]
        syns = mine[(mine["flags"] & _SYN) > 0]
        if len(syns):
            return int(syns["seq"][0]) + 1
        return int(mine["seq"][0]) if len(mine) else 0

    def _relative(self, numbers: NDArray[np.uint32]) -> Times:
        """Unwrap: what lies a little before the first byte is negative."""
        return (numbers.astype(np.int64) - self._origin + 2**31) % 2**32 - 2**31

    @cached_property
    def first(self) -> Times:
        """Of each data packet, its first byte."""
        return self._relative(self.packets["seq"])

    @cached_property
    def last(self) -> Times:
        """Of each data packet, the byte after its last."""
        return self.first + self.packets["payload"]

    @cached_property
    def enter_ns(self) -> Times:
        return self.packets["enter_ns"].astype(np.int64)

    @cached_property
    def sent(self) -> Steps:
        """The highest byte sent."""
        return Steps.growing(self.enter_ns, self.last)

    @cached_property
    def is_new(self) -> Mask:
        """Of each data packet, whether it carries bytes never sent before."""
        before = np.concatenate(([0], np.maximum.accumulate(self.last)[:-1])) if len(self.last) else self.last
        return self.last > before

    @cached_property
    def _acks(self) -> NDArray[np.void]:
        return self.back[(self.back["flags"] & _ACK) > 0]

    @cached_property
    def ack_ns(self) -> Times:
        return self._acks["written_ns"].astype(np.int64)

    @cached_property
    def acked(self) -> Steps:
        """What the sender knows to have arrived."""
        return Steps.growing(self.ack_ns, self._relative(self._acks["ack"]))

    @cached_property
    def offered(self) -> Steps:
        """The right edge of the window that the sender knows of."""
        syns = self.log[(self.log["flags"] & _SYN) > 0]
        scales = [syns["wscale"][syns["way"] == way] for way in (0, 1)]
        both = all(len(s) and s[0] != NO_WSCALE for s in scales)
        scale = int(scales[1 - self.way][0]) if both else 0
        shift = np.where(self._acks["flags"] & _SYN, 0, scale)
        window = self._acks["window"].astype(np.int64) << shift
        return Steps.growing(self.ack_ns, self._relative(self._acks["ack"]) + window)

    # --- begin and end ---

    @cached_property
    def segment(self) -> int:
        """The largest payload of a packet that the sender would send."""
        largest = int(self.packets["payload"].max())
        return max(largest, int(self.polls["snd_mss"].max())) if len(self.polls["time_ns"]) else largest

    @property
    def begin_ns(self) -> int:
        return int(self.log["enter_ns"][0])

    @cached_property
    def _sender_ns(self) -> Times:
        """Return when each packet left the data sender or reached it."""
        left = self.log["enter_ns"][self.log["way"] == self.way]
        return np.sort(np.concatenate((left, self.back["written_ns"]))).astype(np.int64)

    @cached_property
    def end_ns(self) -> int:
        """When the sender knew that all had arrived; else the last packet that it sent or got."""
        last = int(self._sender_ns[-1]) if len(self._sender_ns) else int(self.log["enter_ns"].max())
        if not len(self.packets):
            return max(last, int(self.log["enter_ns"].max()))
        done = self.acked.first_ns(int(self.last.max()))
        return last if done is None else done

    @property
    def at_sender_ns(self) -> tuple[int, int] | None:
        """Return begin and end of what the sender sees of it, None if it is nothing."""
        return self._captured(int(self._sender_ns[0]), self.end_ns, self.way) if len(self._sender_ns) else None

    def _captured(self, begin_ns: int, end_ns: int, way: int) -> tuple[int, int] | None:
        """Return what a capture that may have been cut has of a time; data of a way leave at its host."""
        until_ns = min(end_ns, self.recording.captured_until_ns("mobile" if way == 0 else "fixed"))
        return (begin_ns, until_ns) if begin_ns < until_ns else None

    @cached_property
    def at_receiver_ns(self) -> tuple[int, int] | None:
        """Return begin and end of what the receiver sees of it, in the sender's time; None if it is nothing.

        It begins with the first packet that came or left there, and ends with the last data to arrive. Where
        the receiver asked for the data its own clock runs from before the request to after the arrival.
        """
        came = self.log[(self.log["way"] != self.way) | (self.log["fate"] == DELIVERED)]
        if not len(came):
            return None
        arrived = self.packets[self.packets["fate"] == DELIVERED]
        ends = arrived["written_ns" if self.way == 1 else "served_ns"] if len(arrived) else came["enter_ns"]
        return self._captured(int(came["enter_ns"].min()), int(ends.max()), 1 - self.way)

    @cached_property
    def handshake_end_ns(self) -> int:
        """When the sender of the data was free to send; the end if it never was."""
        if not len(self.packets):
            return self.end_ns
        peers = self.back
        wanted = peers[(peers["flags"] & _SYN) > 0] if self.way == 0 else peers[(peers["flags"] & _SYN) == 0]
        return int(wanted["written_ns"][0]) if len(wanted) else self.begin_ns

    # --- the program and the kernel of the sender ---

    @cached_property
    def calls(self) -> list[tuple[str, int, int, int]]:
        """The sending program's calls: name, begin, end, bytes."""
        role, key = ("client", "local_port") if self.way == 0 else ("server", "peer_port")
        mine = [c for c in self.recording.journals[role] if c[key] == self.port]
        return self._with_unfinished([tuple(call) for call in mine[0]["calls"]]) if mine else []

    def _with_unfinished(self, calls: list[tuple[str, int, int, int]]) -> list[tuple[str, int, int, int]]:
        """Add the send() in which the program was ended: packets tell of it, the journal doesn't."""
        written = sum(count for name, *_, count in calls if name == "send")
        beyond = np.flatnonzero(self.last > written)
        if not len(beyond):
            return calls
        first_ns = int(self.enter_ns[beyond[0]])
        begin_ns = max((end for _, _, end, _ in calls if end <= first_ns), default=first_ns)
        return [*calls, ("send", begin_ns, self.end_ns, int(self.last.max()) - written)]

    @cached_property
    def polls(self) -> dict[str, Times]:
        """The kernel's variables, an array for each, empty if it was not this sender that was polled."""
        polls = self.recording.polls["mobile" if self.way == 0 else "fixed"]
        mine = [p for p in polls if p["client_port"] == self.port and p["state"] not in (2, 3)]
        return {name: np.array([p[name] for p in mine], np.int64) for name in ("time_ns", *_POLLED)}
