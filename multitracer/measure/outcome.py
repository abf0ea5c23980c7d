"""The results of a transaction, and the interface of a client over any transport."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Protocol

from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.measure.exchange import Receipt
    from multitracer.measure.plan import Transaction
    from multitracer.tables import Document

    ContextOf = Callable[[int], Document]
    """Function that returns radio and place of the time from some ns ago until now, by column of transactions.csv."""


_MOST_REASON = 120
_DURATIONS = ("connect_ns", "rtt_ns", "server_rtt_ns", "clock_offset_ns", "clock_uncertainty_ns")


@dataclass(slots=True)
class TransactionOutcome:
    """The results of one transaction; an unknown value is None, never 0."""

    start_ns: int
    """Time immediately before the request was passed to the transport, ns since 1970."""
    connect_ns: int | None = None
    """Time to set up the connection; None if this transaction used an existing one."""
    rtt_ns: int | None = None
    """Time from passing the request to the transport to the last byte of the reply."""
    server_rtt_ns: int | None = None
    retransmitted_client: int | None = None
    """Segments that the client sent again, of the request."""
    retransmitted_server: int | None = None
    """Segments that the server sent again, of the reply."""
    bytes_up: int | None = None
    """Bytes that the client's transport sent until the reply was complete, including retransmissions."""
    bytes_down: int | None = None
    """Bytes that the server's transport sent until the good-bye arrived, including retransmissions."""
    request_payload_bytes: int | None = None
    """Payload that reached the server for the request, duplicates included."""
    reply_payload_bytes: int | None = None
    clock_offset_ns: int | None = None
    """Server's clock minus client's clock, from the most exact comparison in this transaction."""
    clock_uncertainty_ns: int | None = None
    outcome: str = "ok"
    """Outcome: "ok" or "dropped"."""
    context: Document | None = None
    """Radio and place during the transaction, by column of transactions.csv; None if nothing records them."""
    why: str = ""
    """Phase in which the transaction was dropped: connect, request, reply, goodbye, closed; else ""."""

    def drop(self, why: str) -> TransactionOutcome:
        """Note that the transaction failed."""
        self.outcome, self.why = "dropped", " ".join(why.split())[:_MOST_REASON]
        return self

    def surround(self, context_of: ContextOf | None, now_ns: int) -> None:
        """Note radio and place from the begin until now, a time of the clock of `start_ns`."""
        if context_of is not None and self.context is None:
            self.context = context_of(now_ns - self.start_ns)

    def follow(self, receipt: Receipt) -> None:
        """Add the values of the server's receipt."""
        self.server_rtt_ns = receipt.rtt_ns
        self.retransmitted_server = receipt.retransmitted_segments
        self.bytes_down = receipt.sent_bytes
        self.request_payload_bytes = receipt.request_payload_bytes

    def compare(self, offset_ns: int, uncertainty_ns: int) -> None:
        """Store a comparison of the clocks if it is more exact than the stored one."""
        if self.clock_uncertainty_ns is None or uncertainty_ns < self.clock_uncertainty_ns:
            self.clock_offset_ns, self.clock_uncertainty_ns = offset_ns, uncertainty_ns

    def recorded(self) -> dict[str, object]:
        """Return the client's recorded values, which the good-bye carries."""
        kept = ("start_ns", "connect_ns", "rtt_ns", "retransmitted_client", "bytes_up", "reply_payload_bytes")
        return {name: value for name, value in asdict(self).items() if name in kept} | (self.context or {})

    def efficiency(self, transaction: Transaction) -> float | None:
        """Return the ratio of application bytes to received payload bytes (including duplicates).

        The result is None if unknown.
        """
        if self.outcome != "ok" or self.request_payload_bytes is None or self.reply_payload_bytes is None:
            return None
        received = self.request_payload_bytes + self.reply_payload_bytes
        return (transaction.request_bytes + transaction.reply_bytes) / received

    def in_link_time(self, speed: float) -> TransactionOutcome:
        """Return the outcome in link time, for a link that ran `speed` times as fast as a real one.

        `start_ns` is not converted: it stays the time that the clock showed, as in every log.
        """
        durations = {name: getattr(self, name) for name in _DURATIONS}
        return replace(self, **{name: value and round(value * speed) for name, value in durations.items()})

    def seconds(self, value_ns: int | None) -> float | None:
        """Return a duration in seconds."""
        return None if value_ns is None else value_ns / NS_PER_S


REACH_S = 30.0
"""Timeout for the first answer of a server in s: three watchdog intervals of CentaurusComm."""


class UnreachableError(Exception):
    """The server did not answer; the message states how this was noticed."""


class Client(Protocol):
    """A client of one transport."""

    def reach(self) -> None:
        """Wait for an answer of the server; raise `UnreachableError` if there is none."""

    def transact(self, transaction: Transaction) -> TransactionOutcome:
        """Do one transaction."""

    def close(self) -> None:
        """Close all that is open."""
