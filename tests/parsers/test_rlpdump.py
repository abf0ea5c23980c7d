"""rlpdump's log: what one side of a real link tells, written and read back; and logs that are damaged."""

from __future__ import annotations

import gzip
import io
import random
import shutil
import struct
import subprocess
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import parsers
from multitracer.errors import FormatError, LocalProtocolError
from multitracer.lab.rlp.entity import RlpEntity
from multitracer.lab.rlp.l2r import L2rEntity
from multitracer.lab.rlp.xid import RlpConfig
from multitracer.protocols import link_events as say
from multitracer.protocols.gsmtap import GsmtapType, encode
from multitracer.protocols.pcap_file import interface_block, packet_block, section_header
from multitracer.protocols.rlpdump import RlpdumpWriter
from multitracer.schemas.link import LINK_EVENTS, LINK_FRAMES
from parsers import rlpdump
from parsers._rlpdump.log import RlpTotals
from tests.lab.stack.rlp_talk import Radio
from tests.narrowed import tables_of

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.lab.rlp.xid import Role
    from multitracer.tables import Table

Keep = Literal["headers", "frames"]
SIDES: tuple[Role, Role] = ("mobile", "fixed")
START_NS = 1_600_000_000_000_000_000
SABM = bytes.fromhex("f91f0000000000000000000000000000000000000000000000000063b2f3")


def _read(octets: bytes) -> dict[str, Table]:
    return rlpdump.parse(io.BytesIO(octets), path="log")


def _log(*events: say.LinkEvent, side: Role = "mobile", keep: Keep = "headers", **facts: Any) -> bytes:
    writer = RlpdumpWriter(side=side, facts=facts, keep=keep)
    return writer.header() + writer.records(list(events))


def _row(table: Table, i: int = 0) -> dict[str, Any]:
    return {name: value for name, value in list(table.rows())[i].items() if value is not None}


class Session:
    """A call with a fade in it, and what either side said."""

    def __init__(self) -> None:
        dice = random.Random(4)
        ends = {side: L2rEntity(RlpEntity(RlpConfig(role=side))) for side in ("mobile", "fixed")}
        radio = Radio(ends["mobile"], ends["fixed"], loses=lambda _, slot: 150 < slot < 190 or dice.random() < 0.02)
        ends["mobile"].rlp.connect()
        self.events: dict[str, list[say.LinkEvent]] = {"mobile": [], "fixed": []}
        for slot in radio.run(1500):
            ends["mobile"].write(bytes(dice.randbytes(24)))
            if slot % 20 == 0:
                ends["fixed"].write(dice.randbytes(50))
            ends["fixed"].read(19)
            ends["mobile"].read()
            if slot == 1000:
                ends["fixed"].rlp.reset(now_ns=slot * 20_000_000)
            for side, end in ends.items():
                self.events[side] += end.events()
        for side, end in ends.items():
            end.rlp.journal.count_idle()
            self.events[side] += end.events()

    def log(self, side: Role, **options: Any) -> bytes:
        return _log(*self.events[side], side=side, **options)


@pytest.fixture(scope="module")
def session() -> Session:
    return Session()


@pytest.mark.parametrize("keep", ["headers", "frames"])
@pytest.mark.parametrize("side", ["mobile", "fixed"])
def test_every_event_comes_back(session: Session, side: Role, keep: Keep) -> None:
    tables = _read(session.log(side, keep=keep))
    frames, events = tables["link_frames"], tables["link_events"]
    framed = (say.FrameSent, say.FrameReceived, say.FrameLost)
    said = session.events[side]
    assert len(frames) == sum(isinstance(event, framed) for event in said)
    named = [say.event_name(type(event)) for event in said if not isinstance(event, framed)]
    assert events["event"].tolist() == named
    assert {"reset_started", "flushed", "reset_done", "idle_frames", "t1_expired"} <= set(named)
    assert frames.provenance["skipped"] == {}
    assert frames.provenance["damaged"] is None


@pytest.mark.parametrize("keep", ["headers", "frames"])
def test_what_a_sender_knows_of_its_frames_comes_back(session: Session, keep: Keep) -> None:
    frames = _read(session.log("mobile", keep=keep))["link_frames"]
    sent = [event for event in session.events["mobile"] if isinstance(event, say.FrameSent)]
    ours = frames.take(frames["sent"])
    assert ours["tick"].tolist() == [event.tick for event in sent]
    assert ours["time_ns"].tolist() == [event.time_ns for event in sent]
    assert ours["attempt"].tolist() == [event.attempt for event in sent]
    assert ours["cause"].tolist() == [event.cause for event in sent]
    assert ours["offset_bytes"].tolist() == [-1 if e.offset_bytes is None else e.offset_bytes for e in sent]
    assert {"srej", "checkpoint", "t1", ""} == set(ours["cause"].tolist())
    carried = ours["payload_bytes"][ours["kind"] == "IS"]
    assert set(carried.tolist()) <= set(range(25))
    assert carried.max() == 24


def _with_a_flag_on_each_packet(log: bytes) -> bytes:
    """Return the log with an option that says nothing (epb_flags 0) in front of each packet's comment."""
    out, at = [], 0
    while at < len(log):
        kind, length = struct.unpack_from("<II", log, at)
        block, at = log[at : at + length], at + length
        if kind == 6:
            options = 28 + (int.from_bytes(block[20:24], "little") + 3 & ~3)
            body = block[8:options] + struct.pack("<HHI", 2, 4, 0) + (block[options:-4] or bytes(4))
            size = struct.pack("<I", len(body) + 12)
            block = block[:4] + size + body + size
        out.append(block)
    return b"".join(out)


@pytest.mark.parametrize("keep", ["headers", "frames"])
@pytest.mark.parametrize("side", ["mobile", "fixed"])
def test_records_read_at_once_and_one_by_one_give_the_same_tables(
    session: Session, side: Role, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = session.log(side, keep=keep)
    one_by_one: list[None] = []
    read_one = RlpTotals.packet
    monkeypatch.setattr(RlpTotals, "packet", lambda *args: one_by_one.append(read_one(*args)))
    at_once = _read(log)
    assert one_by_one == [], "all of rlpdump's own records are read at once"
    each = _read(_with_a_flag_on_each_packet(log))
    assert len(one_by_one) == at_once["link_frames"].provenance["packets"]
    for name, table in at_once.items():
        assert table.provenance == each[name].provenance
        for column in table.columns:
            assert table[column].dtype == each[name][column].dtype
            np.testing.assert_array_equal(table[column], each[name][column], err_msg=f"{name}.{column}")


@given(st.data())
def test_odd_frames_and_comments_are_read_alike_in_both_ways(data: st.DataObject) -> None:
    """Whatever octets a frame has and whatever is said of it, and whether or not that is usual."""
    octets = bytes(data.draw(st.sampled_from([30, 72, 29])))
    octets = bytes(data.draw(st.binary(min_size=5, max_size=5))) + octets[5:]
    octets = data.draw(st.sampled_from([octets, octets[:3], octets[:1], SABM, SABM[:-1] + b"\0"]))
    said = st.text("of=t ry12c9ause\0é\t", max_size=70) | st.sampled_from(
        ["off=7 off=9", "off=0012 try=2 cause=srej", "off=9007199254740993", "fate=lost", "fate=stored off=1",
         "off=5\0", "off=5 ", "xoff=3", "off=12345678901234567", "try=40000", "cause=morethantwelveletters"]
    )  # fmt: skip
    packet = encode(GsmtapType.GSM_RLP, octets.ljust(30, b"\0"), uplink=True, frame_number=3)
    packet = packet[: len(packet) - max(0, 30 - len(octets))]
    side: Role = data.draw(st.sampled_from(SIDES))
    source: dict[str, Any] = data.draw(st.sampled_from([{}, {"source": "gsmtap"}]))
    log = _log(side=side, **source) + packet_block(packet, time_ns=START_NS, comment=data.draw(said))
    at_once, each = _read(log), _read(_with_a_flag_on_each_packet(log))
    for name, table in at_once.items():
        assert list(table.rows()) == list(each[name].rows())
        assert table.provenance == each[name].provenance


def test_a_log_whose_compression_is_cut_gives_what_precedes_the_cut(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "rlp.pcapng.gz"
    path.write_bytes(gzip.compress(session.log("mobile"))[:-5_000])
    tables = tables_of(path)
    complete = _read(session.log("mobile"))["link_frames"]
    frames = tables["link_frames"]
    assert 0 < len(frames) < len(complete)
    assert np.array_equal(np.sort(frames["frame"]), np.sort(complete["frame"])[: len(frames)])
    assert "the file is truncated" in frames.provenance["damaged"]


def test_a_log_longer_than_a_window_is_read_whole(session: Session) -> None:
    records = session.log("mobile")[len(_log(side="mobile")) :]
    times = (3 << 20) // len(records)
    frames = _read(_log(side="mobile") + records * times)["link_frames"]
    once = _read(_log(side="mobile") + records)["link_frames"]
    assert frames.provenance["damaged"] is None
    assert len(frames) == times * len(once)
    assert len(np.unique(frames["frame"])) == len(frames), "packets are numbered through"
    assert (frames["offset_bytes"].sum(), frames["n_s"].sum()) == (
        times * once["offset_bytes"].sum(),
        times * once["n_s"].astype(int).sum(),
    )


def test_both_sides_tell_the_same_story(session: Session) -> None:
    mobile, fixed = (_read(session.log(side))["link_frames"] for side in SIDES)
    heard = fixed.take(~fixed["sent"] & fixed["fcs_ok"])
    said = mobile.take(mobile["sent"])
    key = ("tick", "kind", "function", "n_s", "n_r", "payload_bytes")
    told = {tuple(row[name] for name in key): row for row in said.rows()}
    for row in heard.take(heard["kind"] == "IS").rows():
        assert (row["tick"] - 9, *(row[name] for name in key[1:])) in told
        assert row["uplink"]
    assert (fixed["fate"] == "lost").sum() == (~fixed["fcs_ok"]).sum() > 39


def test_logs_that_keep_frames_hold_them_whole(session: Session) -> None:
    short, complete = session.log("mobile"), session.log("mobile", keep="frames")
    assert len(complete) - len(short) > 24 * 1000
    sent = next(e for e in session.events["mobile"] if isinstance(e, say.FrameSent) and e.offset_bytes == 240)
    assert sent.octets in complete
    assert sent.octets not in short
    assert sent.octets[5:27] not in short, "users' data stay out of the log"


def test_the_log_of_a_busy_link_stays_below_1_kb_a_second_compressed(session: Session) -> None:
    for side in SIDES:
        assert len(gzip.compress(session.log(side))) / 30 < 1000


@pytest.mark.slow
def test_a_cut_log_keeps_what_precedes_the_cut(session: Session) -> None:
    """Cut at each byte near the ends of records, and at some bytes within them."""
    log = session.log("fixed")
    first = log.index(b"\x06\x00\x00\x00")
    ends = [first]
    while ends[-1] < first + 2_000:
        ends.append(ends[-1] + int.from_bytes(log[ends[-1] + 4 : ends[-1] + 8], "little"))
    near = {end + by for end in ends[:-1] for by in range(-2, 9) if end + by >= first}
    within = set(random.Random(1).sample(range(first, ends[-1]), 100))
    assert len(ends) > 10
    for size in sorted(near | within):
        tables = _read(log[:size])
        assert len(tables["link_frames"]) + len(tables["link_events"]) == bisect_right(ends, size) - 1
        damage = tables["link_frames"].provenance["damaged"]
        assert (damage is None) == (size in ends)
        assert damage is None or "truncated at byte" in damage


def test_the_facts_of_the_header_are_provenance() -> None:
    tables = _read(_log(side="fixed", slot_ns=20_000_000, speed=1.5, clock="realtime"))
    header = tables["link_events"].provenance["header"]
    assert header == {"side": "fixed", "slot_ns": "20000000", "speed": "1.5", "clock": "realtime"}


EVENTS: dict[str, say.LinkEvent] = {
    "connected": say.Connected(START_NS, 1, 0, 61, 480, 6),
    "reset": say.ResetStarted(START_NS, 2, "n2", 17, 7),
    "reset by the peer": say.ResetStarted(START_NS, 2, "peer"),
    "flushed": say.Flushed(START_NS, 3, 1464, 1229, 4),
    "xoff": say.XoffSent(START_NS, 4, 1303),
    "dropped": say.PacketDropped(START_NS, 5, 8, 512, 77, 4_294_967_295, "full"),
    "sent": say.PppSent(START_NS, 6, 0x2F, 512, 520, 123_456, 77, 0),
    "received": say.PppReceived(START_NS, 7, 0x2D, None, 471),
    "damaged": say.PppDamaged(START_NS, 8, "fcs", 300),
    "idle": say.IdleFrames(START_NS, 9, 100, 200),
}


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_an_event_comes_back_field_by_field(event: say.LinkEvent) -> None:
    table = _read(_log(event))["link_events"]
    want = {name: value for name, value in event._asdict().items() if value is not None}
    row = _row(table)
    assert row.pop("event") == say.event_name(type(event))
    assert row.pop("frame") == 1
    assert row.pop("cause") == want.pop("cause", "")
    assert row == want


def test_every_field_of_the_vocabulary_has_a_column() -> None:
    framed = {say.FrameSent, say.FrameReceived, say.FrameLost}
    for kind in set(get_args(say.LinkEvent)) - framed:
        assert set(kind._fields) <= set(LINK_EVENTS.names), kind
        assert len(say.event_name(kind)) <= 24
    assert say.LINK_EVENTS["reset_started"] is say.ResetStarted


def test_lost_slots_are_rows_without_a_frame() -> None:
    heard = say.FrameLost(START_NS, 5, SABM[:-1] + b"\0")
    frames = _read(_log(say.FrameLost(START_NS, 4), heard))["link_frames"]
    assert frames["fcs_ok"].tolist() == [False, False]
    assert frames["fate"].tolist() == ["lost", "lost"]
    assert frames["sent"].tolist() == [False, False]
    assert frames["uplink"].tolist() == [False, False]
    assert frames["kind"].tolist() == ["", ""]


def test_times_before_and_after_a_nanosecond_survive() -> None:
    stamps = [START_NS, START_NS + 1, START_NS + 999_999_999]
    frames = _read(_log(*(say.FrameSent(stamp, 1, SABM) for stamp in stamps)))["link_frames"]
    assert frames["time_ns"].tolist() == stamps


def test_facts_and_causes_with_spaces_are_refused() -> None:
    with pytest.raises(LocalProtocolError, match="spaces"):
        _log(clock="two words")
    with pytest.raises(LocalProtocolError, match="spaces"):
        _log(say.Disconnected(START_NS, 1, "no\nanswer"))


# -- detection, damage, hostility ----------------------------------------------------------------------


def test_the_format_is_recognised_by_content_and_other_pcapng_is_not(tmp_path: Path) -> None:
    ours, other = tmp_path / "a", tmp_path / "b"
    ours.write_bytes(_log())
    other.write_bytes(section_header(comment="about rlpdump 1") + interface_block())
    assert parsers.detect(ours).name == "rlpdump"
    assert parsers.detect(other).name == "pcapng"
    fmt, tables = parsers.read(ours)
    assert isinstance(tables, dict)
    assert (fmt.layer, set(tables)) == ("link", {"link_frames", "link_events"})


@pytest.mark.parametrize("octets", [b"", b"\n\r\r\n", bytes(100), section_header(comment="rlpdump 1 slot_ns=1")])
def test_what_is_no_log_is_refused(octets: bytes) -> None:
    with pytest.raises(FormatError, match=r"not a log of rlpdump|does not begin with a section"):
        _read(octets)


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (b"", "no GSMTAP packet"),
        (b"\x45" + bytes(60), "no GSMTAP packet"),
        (encode(GsmtapType.GSM_RLP, b"", uplink=True, frame_number=1)[:30], "no GSMTAP packet"),
        (encode(GsmtapType.GSM_RLP, bytes(29), uplink=True, frame_number=1), "no RLP frame"),
        (encode(GsmtapType.LOG, bytes(20), uplink=True, frame_number=1), "truncated log line"),
        (encode(GsmtapType.LOG, bytes(84) + b"Not An Event", uplink=True, frame_number=1), "log line without an event"),
    ],
)
def test_a_packet_that_makes_no_sense_is_counted(packet: bytes, reason: str) -> None:
    tables = _read(_log() + packet_block(packet, time_ns=START_NS) + _log(say.FrameSent(START_NS, 1, SABM)))
    assert tables["link_frames"].provenance["skipped"] == {reason: 1}
    assert len(tables["link_frames"]) == 1


@pytest.mark.parametrize("words", ["off=99999999999999999999999", "try=-1 off=x", "off=1e9 try=40000", "off=²"])
def test_numbers_that_make_no_sense_are_missing(words: str) -> None:
    packet = encode(GsmtapType.GSM_RLP, SABM, uplink=True, frame_number=1)
    row = _row(_read(_log() + packet_block(packet, time_ns=START_NS, comment=words))["link_frames"])
    assert "offset_bytes" not in row
    assert row["function"] == "SABM"


def test_lengths_that_make_no_sense_end_the_log() -> None:
    log = _log(say.FrameSent(START_NS, 1, SABM), say.FrameSent(START_NS, 2, SABM))
    end = log.rindex(b"\x06\x00\x00\x00")
    for length in (0, 8, 13, 0xFFFFFFFC):
        damaged = log[:end] + b"\x06\0\0\0" + length.to_bytes(4, "little") + log[end + 8 :]
        tables = _read(damaged)
        assert len(tables["link_frames"]) == 1
        assert f"byte {end}" in tables["link_frames"].provenance["damaged"]


@given(st.data())
def test_a_damaged_log_gives_tables_or_a_format_error(data: st.DataObject) -> None:
    sent, lost = say.FrameSent(START_NS, 1, SABM, 24, 2, "srej"), say.FrameLost(START_NS, 3)
    log = bytearray(_log(sent, *EVENTS.values(), lost))
    for _ in range(data.draw(st.integers(1, 8))):
        log[data.draw(st.integers(0, len(log) - 1))] = data.draw(st.integers(0, 255))
    try:
        tables = _read(bytes(log))
    except FormatError:
        return
    assert len(tables["link_frames"]) <= 2
    assert tables["link_frames"].schema is LINK_FRAMES


@given(st.binary(max_size=400))
def test_random_octets_after_the_header_raise_nothing(noise: bytes) -> None:
    _read(_log() + noise)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
@pytest.mark.parametrize("keep", ["headers", "frames"])
def test_wireshark_opens_the_log_without_damage(session: Session, tmp_path: Path, keep: Keep) -> None:
    path = tmp_path / "rlp.pcapng"
    path.write_bytes(session.log("mobile", keep=keep))
    fields = ["-T", "fields", "-e", "gsmtap.frame_nr", "-e", "frame.comment", "-e", "gsmtap_log.string"]
    done = subprocess.run(["tshark", "-r", path, *fields], capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    tables = _read(path.read_bytes())
    assert len(rows) == tables["link_frames"].provenance["packets"]
    assert any(row[2].startswith("reset_started cause=peer") for row in rows)
    assert any(row[1].endswith("try=2 cause=checkpoint") for row in rows)
    bad = subprocess.run(["tshark", "-r", path, "-Y", "_ws.malformed"], capture_output=True, check=True)
    assert bad.stdout == b""
