"""Writes what `ss -tinO` of iproute2 6.1 prints of a struct tcp_info: a variable only if it is not 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_COUNTS = {
    "pmtu": "pmtu", "rcvmss": "rcv_mss", "advmss": "advmss", "cwnd": "snd_cwnd",
}  # fmt: skip
_BYTES = {
    "bytes_sent": "bytes_sent", "bytes_retrans": "bytes_retrans", "bytes_acked": "bytes_acked",
    "bytes_received": "bytes_received", "segs_out": "segs_out", "segs_in": "segs_in",
    "data_segs_out": "data_segs_out", "data_segs_in": "data_segs_in",
}  # fmt: skip
_REST = {"rcv_space": "rcv_space", "rcv_ssthresh": "rcv_ssthresh", "notsent": "notsent_bytes"}


def details(info: Mapping[str, int]) -> str:
    """Return the part of a line that comes from the struct."""
    words = ["ts sack cubic wscale:7,7"]
    words += [f"rto:{info['rto'] / 1000:g}"] if info["rto"] != 3_000_000 else []
    words += [f"backoff:{info['backoff']}"] if info["backoff"] else []
    words += [f"rtt:{info['rtt'] / 1000:g}/{info['rttvar'] / 1000:g}"] if info["rtt"] else []
    words += [f"mss:{info['snd_mss']}"]
    words += _of(info, _COUNTS)
    words += [f"ssthresh:{info['snd_ssthresh']}"] if info["snd_ssthresh"] < 0xFFFF else []
    words += _of(info, _BYTES)
    words += [f"delivery_rate {info['delivery_rate'] * 8}bps"] if info["delivery_rate"] else []
    words += _of(info, {"delivered": "delivered"})
    words += ["app_limited"] if info["app_limited"] else []
    words += [f"busy:{info['busy_time'] // 1000}ms"] if info["busy_time"] else []
    for name in ("rwnd_limited", "sndbuf_limited"):
        share = 100 * info[name] / max(info["busy_time"], 1)
        words += [f"{name}:{info[name] // 1000}ms({share:.1f}%)"] if info["busy_time"] and info[name] else []
    words += _of(info, {"unacked": "unacked"})
    if info["retrans"] or info["total_retrans"]:
        words.append(f"retrans:{info['retrans']}/{info['total_retrans']}")
    words += _of(info, {"lost": "lost", "sacked": "sacked"})
    words += _of(info, _REST)
    words += [f"minrtt:{info['min_rtt'] / 1000:g}"] if info["min_rtt"] not in (0, 0xFFFFFFFF) else []
    return " ".join([*words, *_of(info, {"snd_wnd": "snd_wnd"})])


def _of(info: Mapping[str, int], names: Mapping[str, str]) -> list[str]:
    return [f"{word}:{info[name]}" for word, name in names.items() if info[name]]
