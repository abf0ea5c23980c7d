"""The netlink codec on answers of a real kernel (6.18), cut to what older kernels send, and damaged."""

from __future__ import annotations

import struct
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.errors import LocalProtocolError, RemoteProtocolError
from multitracer.protocols.sock_diag import (
    DiagSocket,
    DumpDone,
    Refused,
    TcpCaState,
    TcpState,
    decode,
    decode_tcp_info,
    dump_request,
    filter_bytecode,
    socket_request,
)

# Both were taken from transfers through a lossy 2 Mbit/s link; `ss -tinmoe` printed the expected values.
ANSWER_4 = bytes.fromhex(
    "b801000014000200070000009a43000002010100d54c13890a0001010000000000000000000000000a00020200000000"
    "00000000000000000000000003100000000000000803000000000000582b090000000000ee8500000500080000000000"
    "08000f00000000000c001500010000000000000006001600520000001c010200010300000007aa0080f60b0000000000"
    "a8050000180200001e0100007e0000004400000044000000000000000800000000000000bc0b000008000000dc050000"
    "58fa000029ab08009f0b00008c000000a0000000a8050000030000000000000090380000ce000000e90dac1000000000"
    "ffffffffffffffff81000a00000000000000000000000000b4030000fa010000a8d902001600000000000000b2030000"
    "26a603000000000060d62d000000000000000000000000000000000000000000470200000000000050de140000000000"
    "208c04000000000002000000000000000000000000700e0000fc00000000000000000000000000000000000000000000"
    "0000000000000000000000000000000000000000000000000800040062627200180010007e2ad7100000000016000000"
    "0001000000020000"
)
ANSWER_6 = bytes.fromhex(
    "b801000014000200070000009e4300000a010100afba1389fd000001000000000000000000000001fd00000200000000"
    "0000000000000002000000000800000000000000bc00000000000000fc33030000000000118600000500080000000000"
    "08000f00000000000c001500010000000000000006001600120000001c010200010000000007aa004084040000000000"
    "94050000180200000e000000000000000000000000000000000000000c00000000000000e822000008000000dc050000"
    "6cfa0000716b01004e050000100000001a000000940500000300000000000000c8370000010000001890030000000000"
    "ffffffffffffffff1df71f00000000000000000000000000cd05000001030000e4e50200d5bd000000000000c9050000"
    "f68f030000000000a04a88000000000000000000000000000000000000000000bc050000000000003445200000000000"
    "000000000000000000000000000000000000000000200300000001000100000001000100470100000000000000000000"
    "0000000000000000000000000000000000000000000000000800040062627200180010004e99030000000000d5bd0000"
    "0001000000020000"
)
# 104 bytes of another connection, of which the last 176 were not kept.
OLD_STRUCT = bytes.fromhex(
    "010000000007aa01e01c030000000000a80500001802000000000000000000000000000000000000000000003000000000"
    "000000401f000030000000dc05000058fa00007000000040000000080000000f000000a80500000300000000000000903800"
    "005d000000"
)


def only_socket(datagram: bytes) -> DiagSocket:
    (answer,) = decode(datagram)
    assert isinstance(answer, DiagSocket)
    return answer


def info(datagram: bytes) -> bytes:
    blob = only_socket(datagram).tcp_info
    assert blob is not None
    return blob


def test_socket_over_ipv4_is_what_ss_printed() -> None:
    socket = only_socket(ANSWER_4)
    assert (socket.ip_version, socket.state) == (4, TcpState.ESTABLISHED)
    assert (ip_address(socket.address_local), socket.port_local) == (ip_address("10.0.1.1"), 54604)
    assert (ip_address(socket.address_remote), socket.port_remote) == (ip_address("10.0.2.2"), 5001)
    assert (socket.cookie, socket.inode, socket.send_queue_bytes) == (0x1003, 34286, 600920)
    assert (socket.timer, socket.expires_ms) == (1, 776)
    assert socket.congestion_control == "bbr"


def test_socket_over_ipv6_is_what_ss_printed() -> None:
    socket = only_socket(ANSWER_6)
    assert (socket.ip_version, socket.cookie) == (6, 8)
    assert (ip_address(socket.address_local), socket.port_local) == (ip_address("fd00:1::1"), 44986)
    assert (ip_address(socket.address_remote), socket.port_remote) == (ip_address("fd00:2::2"), 5001)


def test_ipv4_inside_an_ipv6_socket_counts_as_ipv4() -> None:
    ends = b"".join(bytes(10) + b"\xff\xff" + ip_address(a).packed for a in ("192.0.2.1", "192.0.2.2"))
    socket = only_socket(ANSWER_6[:24] + ends + ANSWER_6[56:])
    assert (socket.ip_version, socket.family_version) == (4, 6)
    assert ip_address(socket.address_local) == ip_address("192.0.2.1")
    assert ip_address(socket.address_remote) == ip_address("192.0.2.2")


def test_tcp_info_of_6_18_is_what_ss_printed() -> None:
    fields = decode_tcp_info(info(ANSWER_4), byte_order="little")
    assert len(info(ANSWER_4)) == 280
    expected = {
        "ca_state": TcpCaState.RECOVERY, "rto": 784_000, "rtt": 568_105, "rttvar": 2_975, "snd_mss": 1448,
        "snd_cwnd": 160, "snd_ssthresh": 140, "unacked": 286, "sacked": 126, "lost": 68, "retrans": 68,
        "total_retrans": 206, "bytes_acked": 655_489, "bytes_sent": 1_367_632, "bytes_retrans": 298_016,
        "dsack_dups": 2, "snd_wnd": 946_176, "min_rtt": 22, "notsent_bytes": 186_792, "pmtu": 1500,
        "snd_wscale": 10, "rcv_wscale": 10, "app_limited": 0, "delivered": 583, "busy_time": 3_004_000,
        "max_pacing_rate": 2**64 - 1, "delivery_rate": 239_142, "total_rto": 0, "accecn": 0,
    }  # fmt: skip
    assert {name: fields[name] for name in expected} == expected
    timeouts = decode_tcp_info(info(ANSWER_6), byte_order="little")
    assert [timeouts[f"total_rto{what}"] for what in ("", "_recoveries", "_time")] == [1, 1, 327]


@pytest.mark.parametrize(
    ("length", "last", "next_one"),
    [
        (104, "total_retrans", "pacing_rate"),
        (192, "sndbuf_limited", "delivered"),
        (232, "snd_wnd", "rcv_wnd"),
        (248, "total_rto_time", "received_ce"),
        (280, "accecn", None),
    ],
)
@pytest.mark.parametrize("answer", [ANSWER_4, ANSWER_6], ids=["IPv4", "IPv6"])
def test_struct_of_every_kernel_gives_the_fields_it_has(
    answer: bytes, length: int, last: str, next_one: str | None
) -> None:
    complete, cut = decode_tcp_info(info(answer)), decode_tcp_info(info(answer)[:length])
    assert last in cut
    assert next_one not in cut
    assert cut.items() <= complete.items()


def test_struct_of_104_bytes_decodes() -> None:
    fields = decode_tcp_info(OLD_STRUCT, byte_order="little")
    assert (fields["rto"], fields["rtt"], fields["rttvar"]) == (204_000, 112, 64)
    assert (fields["snd_cwnd"], fields["snd_ssthresh"], fields["total_retrans"]) == (15, 8, 93)
    assert (fields["snd_wscale"], fields["app_limited"]) == (10, 1)


def test_longer_struct_of_a_coming_kernel_gives_the_known_fields() -> None:
    assert decode_tcp_info(info(ANSWER_4) + b"\xee" * 16) == decode_tcp_info(info(ANSWER_4))


def test_bit_fields_of_a_big_endian_machine() -> None:
    fields = decode_tcp_info(bytes([1, 0, 0, 0, 0, 0, 0xA7, 0x80]), byte_order="big")
    assert (fields["snd_wscale"], fields["rcv_wscale"], fields["app_limited"]) == (0xA, 0x7, 1)


def test_end_of_a_dump_and_refusals_are_told_apart() -> None:
    done = struct.pack("=IHHIIi", 20, 3, 2, 7, 0, 0)
    interrupted = struct.pack("=IHHIIi", 20, 3, 0x12, 7, 0, 0)
    gone = struct.pack("=IHHIIi", 20, 2, 0, 7, 0, -2)
    failed = struct.pack("=IHHIIi", 20, 3, 2, 7, 0, -22)
    answers = list(decode(done + interrupted + gone + failed))
    assert answers == [DumpDone(), DumpDone(interrupted=True), Refused(2), Refused(22)]


def test_late_answer_to_an_earlier_question_is_passed_over() -> None:
    assert list(decode(ANSWER_4, sequence=8)) == []
    assert len(list(decode(ANSWER_4, sequence=7))) == 1


@pytest.mark.parametrize(
    "datagram",
    [
        ANSWER_4[:10],
        ANSWER_4[:-4],
        struct.pack("=IHHII", 15, 20, 0, 0, 0),
        struct.pack("=IHHII", 16, 20, 0, 0, 0),
        struct.pack("=IHHII", 16, 99, 0, 0, 0),
        struct.pack("=IHHII", 16, 2, 0, 0, 0),
        struct.pack("=IHHII", 16, 4, 0, 0, 0),
        ANSWER_4[:16] + b"\x63" + ANSWER_4[17:],
        ANSWER_4[:88] + b"\xff\xff" + ANSWER_4[90:],
    ],
)
def test_contradictory_answer_is_refused(datagram: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        list(decode(datagram))


@given(st.sampled_from([ANSWER_4, ANSWER_6]), st.data())
def test_damaged_answer_gives_values_or_our_error(answer: bytes, data: st.DataObject) -> None:
    damaged = bytearray(answer)
    for _ in range(data.draw(st.integers(1, 6))):
        damaged[data.draw(st.integers(0, len(answer) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(damaged[: data.draw(st.integers(0, len(answer)))])
    try:
        for answered in decode(cut):
            if isinstance(answered, DiagSocket):
                decode_tcp_info(answered.tcp_info or b"")
                assert len(answered.address_local) == (4 if answered.ip_version == 4 else 16)
                assert answered.congestion_control is None or answered.cookie >= 0
    except RemoteProtocolError:
        pass


def test_every_cut_of_an_answer_is_refused() -> None:
    for length in range(1, len(ANSWER_6)):
        with pytest.raises(RemoteProtocolError):
            list(decode(ANSWER_6[:length]))


def test_question_about_one_socket_names_it_exactly() -> None:
    question = socket_request(only_socket(ANSWER_6), sequence=9)
    assert struct.unpack_from("=IHHI", question) == (72, 20, 1, 9)
    assert question[16:18] == bytes([10, 6])
    assert question[24:72] == only_socket(ANSWER_6).identity


def test_dump_asks_for_the_states_in_which_data_flows() -> None:
    question = dump_request(ip_version=4)
    (mask,) = struct.unpack_from("=I", question, 20)
    assert mask >> TcpState.ESTABLISHED & 1
    assert mask >> TcpState.FIN_WAIT1 & 1
    assert not mask >> TcpState.LISTEN & 1
    assert not mask >> TcpState.TIME_WAIT & 1


def test_filter_without_conditions_is_no_program() -> None:
    assert filter_bytecode() == b""


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_filter_refuses_what_is_no_port(port: int) -> None:
    with pytest.raises(LocalProtocolError, match="must be 1 to 65535"):
        filter_bytecode(ports=[port])


def test_filter_too_long_for_the_kernel_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="fewer"):
        filter_bytecode(ports=range(1, 5000))
