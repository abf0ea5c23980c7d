"""The relay's information fields, both ways, and its buffers and flow control over a link."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.errors import LocalProtocolError
from multitracer.lab.rlp.entity import RlpEntity
from multitracer.lab.rlp.l2r import L2rConfig, L2rEntity
from multitracer.lab.rlp.xid import RlpConfig
from multitracer.protocols.l2r import SA, L2rCharacters, L2rError, X, pack, unpack, usable, user_octets
from multitracer.protocols.link_events import FrameReceived, PeerBusy
from tests.lab.stack.rlp_talk import SLOT_NS, Radio

if TYPE_CHECKING:
    from tests.lab.stack.rlp_talk import Loses

FIELDS = {
    "status only": ("1f", [L2rCharacters(0)]),
    "one character, fill ff": ("01661f" + "ff" * 22, [L2rCharacters(0, b"f"), L2rCharacters(0)]),
    "24 characters": ("1e" + b"abcdefghijklmnopqrstuvwx".hex(), [L2rCharacters(0, b"abcdefghijklmnopqrstuvwx")]),
    "hello": ("0568656c6c6f1f", [L2rCharacters(0, b"hello"), L2rCharacters(0)]),
    "stop": ("3f", [L2rCharacters(X)]),
    "status changes between characters": (
        "2141" + "8142" + "1f",
        [L2rCharacters(X, b"A"), L2rCharacters(SA, b"B"), L2rCharacters(0)],
    ),
    "break": ("1d", [L2rCharacters(0, signal="break")]),
    "characters, then a break": ("02" + "6869" + "1d", [L2rCharacters(0, b"hi"), L2rCharacters(0, signal="break")]),
    "answer to a break": ("1c", [L2rCharacters(0, signal="break-ack")]),
    "23 characters": ("17" + "61" * 23 + "1f", [L2rCharacters(0, b"a" * 23), L2rCharacters(0)]),
}


@pytest.mark.parametrize(("field", "meaning"), FIELDS.values(), ids=FIELDS)
def test_field_reads(field: str, meaning: list[L2rCharacters]) -> None:
    assert unpack(bytes.fromhex(field).ljust(25, b"\0")) == meaning


@pytest.mark.parametrize(
    ("data", "status", "field"),
    [
        (b"", 0, "1f"),
        (b"", X, "3f"),
        (b"f", 0, "01661f"),
        (b"hello", X, "2568656c6c6f3f"),
        (b"a" * 23, 0, "17" + "61" * 23 + "1f"),
        (b"a" * 24, 0, "1e" + "61" * 24),
        (b"a" * 24, X | SA, "be" + "61" * 24),
    ],
)
def test_field_writes(data: bytes, status: int, field: str) -> None:
    assert pack(data, status=status) == bytes.fromhex(field).ljust(25, b"\0")


def test_long_fields_count_in_two_octets() -> None:
    assert pack(b"a" * 30, octets=67) == bytes.fromhex("1b1e" + "61" * 30 + "1f").ljust(67, b"\0")
    assert pack(b"a" * 66, octets=67) == b"\x1e" + b"a" * 66
    assert unpack(pack(b"a" * 63, octets=67)) == [L2rCharacters(0, b"a" * 63), L2rCharacters(0)]
    assert [usable(n, octets=67) for n in (10, 63, 64, 65, 66, 900)] == [10, 63, 63, 63, 66, 66]


@pytest.mark.parametrize("field", ["", "00", "19" + "61" * 24, "1b", "1b00", "1b3f61"])
def test_a_field_that_no_relay_writes_is_refused(field: str) -> None:
    with pytest.raises(L2rError):
        unpack(bytes.fromhex(field))
    assert user_octets(bytes.fromhex(field)) == 0


def test_more_characters_than_fit_are_a_local_error() -> None:
    with pytest.raises(LocalProtocolError, match="at most 24"):
        pack(b"a" * 25)
    with pytest.raises(LocalProtocolError, match="at most 63"):
        pack(b"a" * 64, octets=67)


@given(st.binary(max_size=100), st.sampled_from([25, 67]), st.sampled_from([0, X, SA | X]))
def test_what_is_packed_unpacks(data: bytes, octets: int, status: int) -> None:
    taken = data[: usable(len(data), octets=octets)]
    field = pack(taken, status=status, octets=octets)
    chunks = unpack(field)
    assert len(field) == octets
    assert b"".join(chunk.data for chunk in chunks) == taken
    assert {chunk.status for chunk in chunks} == {status}
    assert user_octets(field) == len(taken)


@given(st.binary(max_size=67))
def test_random_fields_are_pieces_or_an_error(field: bytes) -> None:
    try:
        chunks = unpack(field)
    except L2rError:
        return
    assert sum(len(chunk.data) for chunk in chunks) < len(field)


# -- two relays over a link ----------------------------------------------------------------------------


class Call:
    """Two relays, connected."""

    def __init__(self, *, loses: Loses = lambda *_: False, **options: Any) -> None:
        config = L2rConfig(**options)
        self.mobile = L2rEntity(RlpEntity(RlpConfig()), config)
        self.fixed = L2rEntity(RlpEntity(RlpConfig(role="fixed")), config)
        self.radio = Radio(self.mobile, self.fixed, loses=loses)
        self.mobile.rlp.connect()
        self.run(60)
        self.mobile.events()
        self.fixed.events()

    def run(self, slots: int) -> None:
        for _ in self.radio.run(slots):
            pass

    def names(self, side: L2rEntity) -> list[str]:
        frames = ("FrameSent", "FrameReceived", "FrameLost")
        return [name for event in side.events() if (name := type(event).__name__) not in frames]


TEXT = bytes(range(32, 127)) * 40


def test_characters_come_through_in_order_24_a_frame() -> None:
    call = Call(transmit_bytes=4000, xoff_at_bytes=9000)
    assert call.mobile.write(TEXT) == len(TEXT) == 3800
    call.run(9 + 3800 // 24)
    got = call.fixed.read()
    assert len(got) == 3800 // 24 * 24
    call.run(1)
    assert got + call.fixed.read() == TEXT


def test_write_takes_what_fits() -> None:
    call = Call(transmit_bytes=100)
    assert call.mobile.write(TEXT) == 100
    assert call.mobile.write(TEXT) == 0
    assert call.mobile.unsent_bytes == 100
    assert call.mobile.written_bytes == 100


@pytest.mark.parametrize("stop_by", ["x-bit", "rnr"])
def test_a_slow_reader_stops_the_sender_and_loses_nothing(stop_by: str) -> None:
    call = Call(stop_by=stop_by, xoff_at_bytes=1300, xon_at_bytes=480)
    sent, got, most, rest = b"", b"", 0, TEXT * 8
    for _ in range(1200):
        taken = call.mobile.write(rest)
        sent, rest = sent + rest[:taken], rest[taken:]
        call.run(1)
        most = max(most, call.fixed.unread_bytes)
        got += call.fixed.read(19)
    assert got == sent[: len(got)]
    assert len(got) > 0.95 * 19 * 1200 - 1300
    assert 1300 < most < 1300 + 30 * 24
    assert call.names(call.fixed)[:4] == ["XoffSent", "XonSent"] * 2
    told = ["XoffReceived", "XonReceived"] if stop_by == "x-bit" else ["PeerBusy", "PeerReady"]
    assert call.names(call.mobile)[:4] == told * 2


def test_a_peer_that_ignores_flow_control_is_refused_in_the_end() -> None:
    call = Call(transmit_bytes=100_000)
    call.mobile.write(TEXT * 20)
    for _ in call.radio.run(1500):
        call.mobile.stopped = False
    limit = 1300 + 2 * 61 * 66 + 2 * 24
    assert 1300 < call.fixed.unread_bytes <= limit + 124 * 24
    fates = {event.fate for event in call.fixed.events() if isinstance(event, FrameReceived)}
    assert fates <= {"delivered", "stored", "duplicate", "refused", ""}
    assert any(isinstance(event, PeerBusy) for event in call.mobile.events())
    got = call.fixed.read()
    call.run(50)
    got += call.fixed.read()
    assert got == (TEXT * 20)[: len(got)]


def test_a_reset_flushes_what_waits_and_frees_who_was_stopped() -> None:
    call = Call(transmit_bytes=1000, xoff_at_bytes=100, xon_at_bytes=50)
    call.mobile.write(TEXT[:1000])
    call.run(30)
    stopped = [call.mobile.stopped]
    call.mobile.rlp.reset(now_ns=call.radio.slot * SLOT_NS)
    call.run(1)
    assert call.mobile.unsent_bytes == 0
    stopped.append(call.mobile.stopped)
    assert stopped == [True, False]
    assert call.mobile.written_bytes == 1000
    assert call.names(call.mobile)[-2:] == ["ResetStarted", "Flushed"]
    call.run(60)
    assert call.mobile.stopped, "the far end is still full and says so again"
    assert TEXT.startswith(call.fixed.read())
    call.run(30)
    call.mobile.write(b"after the reset")
    call.run(20)
    assert call.fixed.read().endswith(b"after the reset")


def test_in_band_xoff_of_a_terminal_stops_the_other_terminal() -> None:
    call = Call(in_band=True)
    call.fixed.write(b"a\x13b")
    call.run(15)
    assert call.mobile.stopped
    assert call.mobile.read() == b"\x13ab"
    call.fixed.write(b"\x11")
    call.run(15)
    assert call.mobile.read() == b"\x11"


def test_a_terminal_that_said_xoff_gets_nothing_until_xon() -> None:
    call = Call(in_band=True)
    call.fixed.write(b"\x13")
    call.mobile.write(b"waits")
    call.run(15)
    assert call.fixed.read() == b""
    call.fixed.write(b"\x11")
    call.run(40)
    assert call.fixed.read() == b"waits"


def test_fields_without_sense_are_counted_and_passed_over() -> None:
    call = Call()
    call.mobile.rlp.write(bytes(25))
    call.run(10)
    call.mobile.write(b"sense")
    call.run(15)
    assert call.fixed.violations == 1
    assert call.fixed.read() == b"sense"


def test_thresholds_without_sense_are_refused() -> None:
    with pytest.raises(LocalProtocolError, match='"xon_at" <= "xoff_at"'):
        L2rConfig(xon_at_bytes=10, xoff_at_bytes=5)


@given(st.sets(st.integers(60, 160)), st.sets(st.integers(60, 160)))
def test_characters_survive_lost_frames(up: set[int], down: set[int]) -> None:
    lost = {"up": up, "down": down}
    call = Call(loses=lambda way, slot: slot in lost[way])
    call.mobile.write(TEXT[:1000])
    call.fixed.write(TEXT[:500])
    call.run(600)
    assert call.fixed.read() == TEXT[:1000]
    assert call.mobile.read() == TEXT[:500]
