"""Which socket and which connection a reading belongs to, and what readings need before they are drawn."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.analysis.sender_state import applied, in_bytes, join, join_events, number_sockets, with_ca_state
from multitracer.protocols.sock_diag import ReadBy, TcpCaState, TcpEvent, TcpState
from multitracer.schemas.sender import TCP_EVENTS, TCP_STATE
from multitracer.schemas.tcp import CONNECTIONS, DIRECTIONS
from multitracer.tables import FLOWS, NA, NOT_A_TIME, Schema, Table

S = 1_000_000_000
HERE, THERE = ("10.0.0.1", 40000), ("10.0.0.2", 80)


def missing(schema: Schema) -> dict[str, Any]:
    """Return a row of which nothing is known."""
    return {c.name: NOT_A_TIME if c.unit.startswith("ns") else NA if c.na else None for c in schema}


def packed(address: str) -> bytes:
    return ip_address(address).packed.ljust(16, b"\0")


def table(schema: Schema, rows: list[dict[str, Any]]) -> Table:
    columns = {}
    for column in schema:
        zero = b"" if column.dtype[0] == "V" else np.zeros((), column.dtype).item()
        values = [zero if (v := (missing(schema) | row)[column.name]) is None else v for row in rows]
        columns[column.name] = np.array(values, dtype=column.dtype)
    return Table(schema, columns)


def ends(local: tuple[str, int], remote: tuple[str, int]) -> dict[str, Any]:
    return {
        "ip_version": ip_address(local[0]).version, "address_local": packed(local[0]),
        "address_remote": packed(remote[0]), "port_local": local[1], "port_remote": remote[1],
    }  # fmt: skip


def reading(
    at_s: float, *, method: ReadBy = ReadBy.TCP_INFO, local: Any = HERE, remote: Any = THERE, **known: Any
) -> dict[str, Any]:
    at = round(at_s * S)
    stamps = {"time_ns": at, "read_before_ns": at - 1000, "read_after_ns": at + 1000}
    return stamps | {"method": method} | ends(local, remote) | known


def probe(at_s: float, **known: Any) -> dict[str, Any]:
    return reading(at_s, method=ReadBy.TCP_PROBE, cookie=7, **known)


def change(at_s: float, ca_state: TcpCaState) -> dict[str, Any]:
    known = {"time_ns": round(at_s * S), "event": TcpEvent.CA_STATE, "ca_state": ca_state}
    return known | ends(HERE, THERE)


def capture(*connections: tuple[float, float], initiator: int = 0, mss: int = 1460) -> dict[str, Table]:
    """Return the tables of a capture of HERE and THERE (and a stranger), connections given by their times."""
    pairs = [(("10.9.9.9", 1), THERE), (HERE, THERE)]
    flows = [
        {"ip_version": 4, "address_a": packed(a), "port_a": m, "address_b": packed(b), "port_b": n}
        for (a, m), (b, n) in pairs
    ]
    rows = [
        {"connection": n, "forward_flow": 2 + initiator, "start_ns": round(a * S), "end_ns": round(b * S)}
        for n, (a, b) in enumerate(connections, start=1)
    ]
    own = {"mss_bytes": mss, "timestamps": True}
    directions = [{"connection": row["connection"], **own} for row in rows for _ in (0, 1)]
    return {
        "flows": table(FLOWS, flows),
        "connections": table(CONNECTIONS, rows),
        "directions": table(DIRECTIONS, directions),
    }


def joined(rows: list[dict[str, Any]], tables: dict[str, Table]) -> Table:
    return join(table(TCP_STATE, rows), flows=tables["flows"], connections=tables["connections"])


def numbers(*rows: dict[str, Any]) -> list[int]:
    return number_sockets(table(TCP_STATE, list(rows))).tolist()


def test_another_cookie_is_another_socket() -> None:
    assert numbers(reading(1, cookie=5), reading(2, cookie=5), reading(3, cookie=6)) == [1, 1, 2]


def test_one_cookie_is_one_socket_whoever_read_it() -> None:
    assert numbers(reading(1, cookie=7), probe(1.5), reading(2, cookie=7)) == [1, 1, 1]


def test_another_inode_is_another_socket_but_a_socket_without_process_is_not() -> None:
    inodes = [9, NA, 9, 11]
    rows = [reading(at, inode=inode, method=ReadBy.SS) for at, inode in enumerate(inodes)]
    assert numbers(*rows) == [1, 1, 1, 2]


@pytest.mark.parametrize("name", ["total_sent_bytes", "total_acked_bytes", "total_retransmitted_segments"])
def test_counter_that_falls_is_another_socket(name: str) -> None:
    counters: list[dict[str, Any]] = [{name: value} for value in (10, 10, 500, 20, 30)]
    rows = [reading(at, **counter) for at, counter in enumerate(counters)]
    assert numbers(*rows) == [1, 1, 1, 2, 2]


def test_counter_that_ss_leaves_out_has_fallen_to_zero() -> None:
    ss: dict[str, Any] = {"method": ReadBy.SS, "cwnd_segments": 10}
    rows = [reading(1, total_sent_bytes=900, **ss), reading(2, **ss), reading(3, total_sent_bytes=5, **ss)]
    assert numbers(*rows) == [1, 2, 2]
    unread = reading(2, method=ReadBy.SS)
    assert numbers(rows[0], unread, reading(3, total_sent_bytes=901, **ss)) == [1, 1, 1]


def test_handshake_after_data_is_another_socket() -> None:
    states = [TcpState.SYN_SENT, TcpState.ESTABLISHED, TcpState.FIN_WAIT1, TcpState.SYN_SENT, 1]
    assert numbers(*(reading(at, state=state) for at, state in enumerate(states))) == [1, 1, 1, 2, 2]


def test_both_ends_of_a_connection_are_two_sockets() -> None:
    assert numbers(reading(1), reading(1.1, local=THERE, remote=HERE), reading(2)) == [1, 2, 1]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 40)), max_size=30), st.randoms())
def test_numbers_do_not_depend_on_the_order_of_rows(facts: list[tuple[int, int, int]], random: Any) -> None:
    rows = [
        reading(i, cookie=cookie, local=("10.0.0.1", 100 + port), total_sent_bytes=sent)
        for i, (cookie, port, sent) in enumerate(facts)
    ]
    shuffled = list(range(len(rows)))
    random.shuffle(shuffled)
    straight, mixed = numbers(*rows), numbers(*(rows[i] for i in shuffled))
    pairs = set(zip((straight[i] for i in shuffled), mixed, strict=True))
    assert len(pairs) == len(set(straight)) == len(set(mixed))


def test_readings_join_the_connection_of_their_ends() -> None:
    rows = [reading(1.5), reading(1.5, local=THERE, remote=HERE), reading(1.5, remote=("10.0.0.3", 80))]
    state = joined(rows, capture((1, 2)))
    assert state["connection"].tolist() == [1, 1, NA]
    assert state["reverse"].tolist() == [False, True, False]
    assert state.provenance["sockets_without_connection"] == 1


def test_who_began_decides_the_direction() -> None:
    assert joined([reading(1.5)], capture((1, 2), initiator=1))["reverse"].tolist() == [True]


def test_ports_that_were_used_again_are_told_apart_by_time() -> None:
    rows = [
        reading(1.5, cookie=1),
        reading(9, cookie=1),
        reading(10.5, cookie=2),
        reading(12, cookie=2),
        reading(30, cookie=3),
    ]
    state = joined(rows, capture((1, 9.5), (10, 13)))
    assert state["connection"].tolist() == [1, 1, 2, 2, NA]


def test_socket_with_a_cookie_keeps_its_connection_beyond_the_others_start() -> None:
    rows = [reading(1.5, cookie=1), reading(10.2, cookie=1)]  # it lingers while the next one begins
    assert joined(rows, capture((1, 9.5), (10, 13)))["connection"].tolist() == [1, 1]


def test_rows_without_a_cookie_belong_to_the_connection_that_had_begun() -> None:
    rows = [reading(at) for at in (0.5, 1.5, 9.7, 10.5, 40)]
    assert joined(rows, capture((1, 9.5), (10, 13)))["connection"].tolist() == [1, 1, 1, 2, NA]


def test_rows_without_time_join_where_there_is_no_choice() -> None:
    unknown = {"time_ns": NOT_A_TIME, "read_before_ns": NOT_A_TIME, "read_after_ns": NOT_A_TIME}
    for cookie in (0, 4):
        row = reading(0, cookie=cookie) | unknown
        assert joined([row], capture((1, 2)))["connection"].tolist() == [1]
        assert joined([row], capture((1, 2), (5, 6)))["connection"].tolist() == [NA]


@pytest.mark.parametrize(("bulk", "receives"), [(0, False), (1, False), (0, True), (1, True)])
def test_readings_without_ends_are_those_of_the_connection_with_most_segments(bulk: int, receives: bool) -> None:
    nameless: dict[str, Any] = dict.fromkeys(("ip_version", "port_local", "port_remote"), 0)
    nameless |= {"address_local": bytes(16), "address_remote": bytes(16)}
    known = {"total_sent_bytes": 10 if receives else 900, "total_received_bytes": 900 if receives else 10}
    rows = [reading(t, method=ReadBy.SS) | nameless | known for t in (2, 3)]
    seen: dict[str, Any] = dict(capture((0, 5), (1, 9)))
    del seen["directions"]
    seen["connections"].columns["segments"][:] = [40, 60]
    seen["connections"].columns["bulk_direction"][:] = bulk
    found = join(table(TCP_STATE, rows), **seen)
    assert found["connection"].tolist() == [2, 2]
    assert found["reverse"].tolist() == [bool(bulk) != receives] * 2
    seen["connections"].columns["segments"][:] = [50, 50]
    assert join(table(TCP_STATE, rows), **seen)["connection"].tolist() == [NA, NA]


def test_no_rows_and_no_connections() -> None:
    assert len(joined([], capture((1, 2)))) == 0
    assert joined([reading(1)], capture())["connection"].tolist() == [NA]


def test_events_join_too() -> None:
    tables = capture((1, 9.5), (10, 13))
    events = table(TCP_EVENTS, [change(2, TcpCaState.LOSS), change(11, TcpCaState.OPEN), change(50, TcpCaState.OPEN)])
    found = join_events(events, flows=tables["flows"], connections=tables["connections"])
    assert found["connection"].tolist() == [1, 2, NA]


def test_windows_become_bytes_by_the_nearest_reading() -> None:
    tables = capture((1, 9))
    rows = [
        reading(2, cookie=7, snd_mss_bytes=1000, cwnd_segments=1, cwnd_bytes=1000),
        probe(2.1, cwnd_segments=3),
        probe(5.9, cwnd_segments=4, ssthresh_segments=2),
        reading(6, cookie=7, snd_mss_bytes=500, cwnd_segments=1, cwnd_bytes=500),
    ]
    state = in_bytes(joined(rows, tables), directions=tables["directions"])
    assert state["cwnd_bytes"].tolist() == [1000, 3000, 2000, 500]
    assert state["ssthresh_bytes"].tolist() == [NA, NA, 1000, NA]
    assert state.provenance["mss_taken_from"] == {"reading": 2, "handshake": 0}


def test_windows_become_bytes_by_the_handshake_else_not_at_all() -> None:
    tables = capture((1, 9))
    rows = [probe(2, cwnd_segments=10), probe(3, remote=("10.0.0.9", 9), cwnd_segments=10)]
    state = in_bytes(joined(rows, tables), directions=tables["directions"])
    assert state["cwnd_bytes"].tolist() == [10 * 1448, NA]
    unseen = capture((1, 9), mss=NA)
    assert in_bytes(joined(rows, unseen), directions=unseen["directions"])["cwnd_bytes"].tolist() == [NA, NA]


def test_window_that_was_logged_in_bytes_stays() -> None:
    tables = capture((1, 9))
    rows = [reading(2, method=ReadBy.SIFTR, cwnd_bytes=172_312, snd_mss_bytes=1448)]
    assert in_bytes(joined(rows, tables), directions=tables["directions"])["cwnd_bytes"].tolist() == [172_312]


def events_of(tables: dict[str, Table], *rows: dict[str, Any]) -> Table:
    return join_events(table(TCP_EVENTS, list(rows)), flows=tables["flows"], connections=tables["connections"])


def test_congestion_state_of_probes_comes_from_the_changes_before_them() -> None:
    tables = capture((1, 9))
    state = joined([probe(at) for at in (2, 3, 4, 5)], tables)
    events = events_of(tables, change(2.5, TcpCaState.RECOVERY), change(4, TcpCaState.OPEN))
    assert with_ca_state(state, events)["ca_state"].tolist() == [0, 3, 3, 0], "a change at a probe comes after it"
    began_later = events_of(tables, change(3.5, TcpCaState.OPEN))
    assert with_ca_state(state, began_later)["ca_state"].tolist() == [NA, NA, 0, 0]


def test_without_recorded_changes_the_congestion_state_is_unknown() -> None:
    tables = capture((1, 9))
    state, events = joined([probe(2), probe(3)], tables), events_of(tables)
    assert with_ca_state(state, events)["ca_state"].tolist() == [NA, NA]
    events.provenance["header"] = {"events": ["tcp_probe", "tcp_cong_state_set"]}
    assert with_ca_state(state, events)["ca_state"].tolist() == [0, 0], "it was recorded, and did not change"


def test_value_stands_at_the_segment_before_the_record_that_shows_it() -> None:
    tables = capture((1, 9))
    state = joined([probe(at, cwnd_segments=w, snd_una=100 * w) for at, w in ((2, 10), (3, 11), (4, 12))], tables)
    moved = applied(state)
    assert moved["time_ns"].tolist() == [2 * S, 3 * S]
    assert moved["cwnd_segments"].tolist() == [11, 12]
    assert moved["snd_una"].tolist() == [1000, 1100], "what the segment found stays with it"
    assert (moved["read_before_ns"] == moved["time_ns"]).all()
    assert moved["read_after_ns"].tolist() == [3 * S, 4 * S]


def test_value_that_the_timer_made_stands_at_the_timer() -> None:
    tables = capture((1, 9))
    state = joined([probe(2, cwnd_segments=20), probe(3, cwnd_segments=21), probe(6, cwnd_segments=1)], tables)
    moved = applied(state, events=events_of(tables, change(5, TcpCaState.LOSS), change(5.5, TcpCaState.LOSS)))
    assert list(zip(moved["time_ns"] // S, moved["cwnd_segments"], strict=True)) == [(2, 21), (5, 1)]


def test_sockets_do_not_lend_each_other_values() -> None:
    tables = capture((1, 9))
    rows = [probe(2, cwnd_segments=1), probe(3, cwnd_segments=2)]
    rows += [r | {"cookie": 8, "cwnd_segments": 90} for r in (probe(2.5), probe(3.5))]
    moved = applied(joined(rows, tables))
    assert sorted(moved["cwnd_segments"].tolist()) == [2, 90]
    assert len(applied(joined([reading(1)], tables))) == 0
