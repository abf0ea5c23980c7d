"""An idle phone of a rehearsal: its first packet waits for the promotion, and what a modem says beside it is kept."""

from __future__ import annotations

import os
import pty
import threading
import tty
from itertools import islice
from typing import TYPE_CHECKING

from collectors._line import CommandPort, Port
from collectors._stop import Stop
from multitracer.lab.rehearsal.idle import IdleGate, idle_times_s, timer_s
from multitracer.lab.rehearsal.relay import RelayQueue
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.protocols.modem.conversation import Unsolicited
    from multitracer.schemas.schema import Document

_PACKET = bytes(100)


def test_the_first_packet_after_an_idle_time_waits_for_the_promotion() -> None:
    said: list[Document] = []
    gate = IdleGate(7, said.append)
    up, down = (RelayQueue(lambda _: 1e9, gate) for _ in range(2))
    assert up.accept(_PACKET, now_ns=NS_PER_S) is None
    arrives_ns = up.next_ns()
    gate.tick(arrives_ns or 0)
    (promotion,) = said
    assert (promotion["rrc"], promotion["began_ns"]) == ("connected", NS_PER_S)
    took_ns = promotion["ended_ns"] - NS_PER_S
    assert 0.15 * NS_PER_S <= took_ns <= 1.5 * NS_PER_S
    assert arrives_ns is not None
    assert 0 < arrives_ns - promotion["ended_ns"] < 40 * NS_PER_MS
    assert up.arrived(arrives_ns) == [_PACKET]
    down.accept(_PACKET, now_ns=arrives_ns)
    assert (down.next_ns() or 0) - arrives_ns < 40 * NS_PER_MS, "a connected phone waits for nothing"
    last_ns = gate.next_ns
    assert last_ns is not None
    gate.tick(last_ns)
    assert said[1] == {"rrc": "idle", "at_ns": last_ns}
    assert abs(last_ns - arrives_ns - timer_s(7) * NS_PER_S) < 40 * NS_PER_MS
    down.accept(_PACKET, now_ns=last_ns + NS_PER_S)
    assert gate.next_ns is not None
    assert gate.next_ns > last_ns + NS_PER_S, "a packet from the network waits, too"


def test_idle_times_are_shorter_or_longer_than_the_timer_and_those_of_a_seed_are_the_same() -> None:
    times_s = list(islice(idle_times_s(3), 100))
    assert times_s == list(islice(idle_times_s(3), 100))
    assert {each > timer_s(3) for each in times_s} == {True, False}


def test_a_line_that_comes_behind_the_final_result_in_one_read_is_not_lost() -> None:
    device, port = pty.openpty()
    tty.setraw(device)
    tty.setraw(port)
    heard: list[Unsolicited] = []

    def answers() -> None:
        os.read(device, 64)
        os.write(device, b"\r\n+CSQ: 20,99\r\n\r\nOK\r\n\r\n+CSCON: 1\r\n")

    thread = threading.Thread(target=answers)
    thread.start()
    with Stop() as stop:
        line = CommandPort(Port(os.ttyname(port)), stop, on_unsolicited=heard.append)
        answer = line.ask("AT+CSQ", timeout_s=30.0)
        thread.join()
        line.port.close()
    os.close(device)
    os.close(port)
    assert answer.result == "OK"
    assert [each.raw.strip() for each in heard] == [b"+CSCON: 1"]
