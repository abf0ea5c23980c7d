"""What a page calls each series: words first, the label of the paper (docs/figures.md) as the second name."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.figures.series import Series

_NAMES = {
    "data": "sent",
    "ack": "acknowledged",
    "window_edge": "window's end",
    "retransmission": "sent again",
    "out_of_order": "filled a hole",
    "capture_duplicate": "captured twice",
    "duplicate_ack": "duplicate ACK",
    "sack": "arrived behind a hole",
    "dsack": "arrived twice",
    "zero_window": "window closed",
    "probe": "window asked for",
    "handshake": "begin and end",
    "reset": "reset",
    "flight": "in flight",
    "flight_sack": "in flight, less SACKed",
    "window": "window offered",
    "rtt": "round trip",
    "rtt_timestamp": "round trip by timestamp",
    "rtt_sack": "round trip by SACK",
    "srtt": "smoothed round trip",
    "rto": "timeout",
    "goodput": "got through",
    "throughput": "sent, every copy",
    "capacity": "link's rate",
    "one_way": "delay of a segment",
    "cwnd": "congestion window",
    "ssthresh": "slow-start threshold",
    "received": "arrived",
    "received_band": "arrived, error of the clock",
    "receiver_ack": "acknowledged, at the receiver",
    "link_data": "link frames",
    "link_received": "link frames arrived",
    "link_again": "link frames again",
    "link_lost": "link frames lost",
    "link_request": "link frames asked for",
    "link_stop": "link: stop",
    "link_go": "link: go on",
    "link_reset": "link reset",
    "radio_rssi": "RSSI",
    "radio_rsrp": "RSRP",
    "radio_rscp": "RSCP",
    "radio_rsrq": "RSRQ",
    "radio_sinr": "SINR",
    "radio_ecio": "Ec/Io",
    "radio_bler": "lost blocks",
    "radio_busy": "busy cell",
    "radio_cqi": "CQI",
    "zero_level": "no signal",
    "rate_down": "download",
    "rate_up": "upload",
    "speed": "speed",
    "travelled": "distance",
}
"""By role; a role without an entry keeps its label."""

_AT_RECEIVER = {"data": "arrived", "ack": "acknowledged, leaving", "retransmission": "arrived again"}


def names(panel: Sequence[Series]) -> list[str]:
    """Return the name of each series of a panel; two of the same kind get their labels behind it."""
    words = [_words(series) for series in panel]
    count = Counter(words)
    return [
        name if count[name] == 1 or name == series.label else f"{name} ({series.label})"
        for name, series in zip(words, panel, strict=True)
    ]


def _words(series: Series) -> str:
    if series.label.startswith("TcpRcv") and series.role in _AT_RECEIVER:
        return _AT_RECEIVER[series.role]
    return _NAMES.get(series.role, series.label)
