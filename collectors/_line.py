"""A conversation with one modem over one port: asks, waits, and passes on unsolicited lines."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from multitracer.protocols.modem.conversation import Answer, Conversation, Unsolicited
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from collectors._ports import Port
    from collectors._stop import Stop

_QUIET_NS = 200 * NS_PER_MS
_PROBE_S = 1.0
_LONGEST_SETTLING_NS = 3 * NS_PER_S
_IDENTITY = ("ATI", "AT+CGMI", "AT+CGMM")


class Line:
    """One open port with one command at a time.

    Parameters
    ----------
    port : Port
    stop : Stop
        Waits with us; when it says so, an answer is not awaited any longer.
    on_unsolicited : callable
        Takes what came while nothing was asked.
    patience_s : float
        No answer is awaited longer.
    """

    def __init__(
        self,
        port: Port,
        stop: Stop,
        *,
        on_unsolicited: Callable[[Unsolicited], None],
        patience_s: float = math.inf,
    ) -> None:
        self.port = port
        self._patience_s = patience_s
        self._stop = stop
        self._on_unsolicited = on_unsolicited
        self._conversation = Conversation()
        self.is_settled = False
        """Whether nothing of an earlier answer can still come."""

    def ask(self, command: str, *, timeout_s: float) -> Answer:
        """Return the answer, or its beginning when the time is over: then its `result` is empty.

        Raises
        ------
        NoPortError
            If the port went away.
        """
        began_ns = time.monotonic_ns()
        self.port.write(self._conversation.ask(command, began_ns))
        for answer in self._events(began_ns + round(min(timeout_s, self._patience_s) * NS_PER_S)):
            return answer
        self.is_settled = False
        return self._conversation.give_up(time.monotonic_ns())

    def listen(self, until_ns: int) -> bool:
        """Take unsolicited lines until an instant; return whether to go on."""
        for _ in self._events(until_ns):
            pass
        return self._stop.reason is None

    def settle(self) -> bool:
        """Wait until the line is quiet and send AT; return whether the modem answered."""
        give_up_ns = time.monotonic_ns() + _LONGEST_SETTLING_NS
        while not self._conversation.is_quiet(time.monotonic_ns(), for_ns=_QUIET_NS):
            if time.monotonic_ns() >= give_up_ns or not self.listen(time.monotonic_ns() + _QUIET_NS):
                return False
        self.is_settled = self.ask("AT", timeout_s=_PROBE_S).result == "OK"
        return self.is_settled

    def introduce(self) -> Iterator[Answer]:
        """Yield the modem's answers about itself, after its echo was turned off."""
        for command in ("ATE0", *_IDENTITY):
            yield self.ask(command, timeout_s=_PROBE_S)

    def _events(self, until_ns: int) -> Iterator[Answer]:
        """Yield answers until an instant; unsolicited lines are passed on."""
        while self._stop.wait(until_ns, readable=[self.port.fileno()]):
            data = self.port.read()
            for event in self._conversation.receive(data, time.monotonic_ns()):
                if isinstance(event, Unsolicited):
                    self._on_unsolicited(event)
                else:
                    yield event
            if time.monotonic_ns() >= until_ns:
                return
