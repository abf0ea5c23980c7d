"""A configuration of WTCP, and calls, that cannot be: one sentence with the key and its range."""

from __future__ import annotations

import random
from dataclasses import fields, replace

import pytest

from multitracer.errors import LocalProtocolError
from multitracer.protocols.wtcp.connection import WtcpConnection
from multitracer.protocols.wtcp.state import WtcpConfig


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"min_rate_bps": 0.0}, '"min_rate_bps" must be a number from 1 to 1e+09'),
        ({"max_rate_bps": float("nan")}, '"max_rate_bps" must be a number'),
        ({"max_rate_bps": float("inf")}, '"max_rate_bps" must be a number'),
        ({"initial_rate_packets_per_s": 0}, '"initial_rate_packets_per_s" must be a number'),
        ({"delta": 0.0}, '"delta" must be a number'),
        ({"delta": 1.0}, '"delta" must be a number'),
        ({"delta": -0.2}, '"delta" must be a number'),
        ({"delta": True}, '"delta" must be a number'),
        ({"delta": "0.2"}, '"delta" must be a number'),
        ({"packet_bytes": 500.5}, '"packet_bytes" must be a whole number from 128 to 1500'),
        ({"alpha_minus": 0.99}, '"alpha_minus" must be at most "alpha_plus"'),
        ({"beta_minus": 0.95}, '"beta_minus" must be at most "beta_plus"'),
        ({"alpha_plus": 1.2}, '"alpha_plus" must be a number from 1e-06 to 1'),
        ({"min_rate_bps": 3e6}, '"min_rate_bps" must be at most "max_rate_bps"'),
    ],
)
def test_a_configuration_that_cannot_be_names_key_and_range(change: dict[str, object], words: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        replace(WtcpConfig(), **change)  # type: ignore[arg-type]
    assert str(caught.value).startswith(words)


def test_every_parameter_has_a_range() -> None:
    for each in fields(WtcpConfig):
        with pytest.raises(LocalProtocolError, match=f'^"{each.name}" must be '):
            replace(WtcpConfig(), **{each.name: -1})


def _end(*, initiator: bool) -> WtcpConnection:
    return WtcpConnection(initiator=initiator, random_bytes=random.Random(1).randbytes)


def test_only_an_initiator_opens_and_only_once() -> None:
    with pytest.raises(LocalProtocolError, match="LISTEN: cannot open"):
        _end(initiator=False).open(0)
    end = _end(initiator=True)
    end.open(0)
    with pytest.raises(LocalProtocolError, match="SYN-SENT: cannot open"):
        end.open(1)


def test_nothing_is_written_after_the_end() -> None:
    closed, aborted = _end(initiator=True), _end(initiator=True)
    closed.open(0)
    closed.close()
    aborted.open(0)
    aborted.abort()
    for end in (closed, aborted):
        with pytest.raises(LocalProtocolError, match="cannot write in this state, because the sending side is closed"):
            end.write(b"x")
