"""Results of programs that send traffic over a path: rates of streams, sums, and pings.

The programs measured these values: bytes that they wrote or read, not bytes on the path. Times are those of
the host on which the program ran.
"""

from __future__ import annotations

from multitracer.schemas.schema import Column, Schema

LAYER = "application"
"""Layer of logs with these tables."""

_RUN = Column("run", "int64", "which test of the log, from 1")
_SOURCE = Column("source", "U8", "the program: iperf3, flent, ookla, ping, irtt, gnettrk, ...")
_SERIES = Column("series", "U64", "which of its streams, by its own name: a socket's number, TCP upload")
_ENDS = (
    Column("local", "U56", "end at the host that the program ran on, HOST:PORT; empty if it is not named"),
    Column("remote", "U56", "the other end"),
)


def _numbers(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, "int64", doc, unit, na=True) for name, doc, unit in rows)


def _reals(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, "float64", doc, unit) for name, doc, unit in rows)


APPLICATION_RATE = Schema(
    "application_rate",
    (
        Column("time_ns", "int64", "begin of the interval, or the instant of the sample", "ns since 1970"),
        Column("until_ns", "int64", "end of the interval", "ns since 1970"),
        _RUN,
        _SOURCE,
        _SERIES,
        Column("direction", "U8", "sent or received by the host that it ran on; empty if unknown"),
        *_ENDS,
        *_numbers(
            ("bytes", "that the stream carried in the interval", "bytes"),
            ("retransmitted_segments", "in the interval, as the sender's kernel counts", ""),
            ("cwnd_bytes", "congestion window at its end", "bytes"),
            ("cwnd_segments", "congestion window at the instant", ""),
            ("packets", "datagrams of UDP that were due in the interval, as the receiver counts", ""),
            ("lost_packets", "of these, the ones that did not arrive", ""),
            ("omitted", "1 if the program leaves the interval out of its sums (warming up)", ""),
        ),
        *_reals(
            ("rate_bps", "of the application", "bit/s"),
            ("rtt_s", "smoothed round-trip time of the sender's kernel", "s"),
            ("rttvar_s", "its deviation", "s"),
            ("pacing_bps", "rate at which the kernel paces", "bit/s"),
            ("delivery_bps", "rate of delivery as the kernel estimates it", "bit/s"),
            ("jitter_s", "of the datagrams, as the receiver smooths it (RFC 3550, 6.4.1)", "s"),
        ),
    ),
)
"""Rate of one stream in one interval, or a reading of its sender's kernel; one per row."""

APPLICATION_SUMS = Schema(
    "application_sums",
    (
        Column("time_ns", "int64", "begin of the stream", "ns since 1970"),
        Column("until_ns", "int64", "its end", "ns since 1970"),
        _RUN,
        _SOURCE,
        _SERIES,
        Column("reporter", "U8", "whose count it is: sender or receiver"),
        Column("direction", "U8", "sent or received by the host that it ran on; empty if unknown"),
        *_ENDS,
        *_numbers(
            ("bytes", "written by the sender, or read by the receiver", "bytes"),
            ("retransmitted_segments", "as the sender's kernel counts", ""),
            ("packets", "datagrams of UDP", ""),
            ("lost_packets", "of these, the ones that did not arrive", ""),
        ),
        *_reals(
            ("rate_bps", "of the application over the whole stream", "bit/s"),
            ("jitter_s", "of the datagrams, as the receiver smooths it (RFC 3550, 6.4.1)", "s"),
        ),
    ),
)
"""Count of one stream at one endpoint; one per row."""

PINGS = Schema(
    "pings",
    (
        Column("time_ns", "int64", "when the program stamped it", "ns since 1970"),
        _RUN,
        _SOURCE,
        _SERIES,
        *_reals(("rtt_s", "round-trip time", "s")),
    ),
)
"""Replies, or requests with their answers, of ping programs; one per row."""
