"""Results about all flows of a session: how equally they share the link, by intervals."""

from __future__ import annotations

from multitracer.schemas.schema import Column, Schema


def _reals(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, "float64", doc, unit) for name, doc, unit in rows)


FAIRNESS = Schema(
    "fairness",
    (
        Column("begin_ns", "int64", "begin of the interval", "ns since 1970"),
        Column("end_ns", "int64", "its end", "ns since 1970"),
        Column("flows", "int64", "flows that were running in all of it"),
        *_reals(
            ("rate_bps", "of all of them together", "bit/s"),
            ("gap", "(largest - smallest rate) / smallest, 0 is even (paper 003, equation 2)", ""),
            ("jain", "Jain's index: 1 is even, 1 / flows if one has everything", ""),
        ),
        Column("reason", "U96", "why the gap is missing, or both are; empty if none is"),
    ),
)
"""How equally the flows of a session share the link, one row per interval."""

SHARES = Schema(
    "shares",
    (
        Column("begin_ns", "int64", "begin of the interval", "ns since 1970"),
        Column("end_ns", "int64", "its end", "ns since 1970"),
        Column("flow", "U128", "HOST:PORT > HOST:PORT, the data's sender first; by names where known"),
        *_reals(
            ("rate_bps", "payload that got through, each byte once", "bit/s"),
            ("share", "part of what all flows of the interval carried", ""),
        ),
    ),
)
"""Share of the link of each flow, per interval; a flow has no row while it is inactive."""
