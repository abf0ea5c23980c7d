"""A TCP option that one end offered is missing in the other SYN, or was removed on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.captured import Flag
from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.limits.names import Limit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.packets.options import MissingOption

KIND = "options-stripped"
HELP = "Let the firewall pass the option."
WHEN = "missing_options"
_WORDS = {
    "mss": ("the MSS", "so that segments of 536 bytes must do (RFC 9293, section 3.7.1)"),
    "window-scale": ("window scaling", "so that no window exceeds 65,535 bytes"),
    "sack": ("SACK", "so that one loss is repaired in each round trip"),
    "timestamps": ("timestamps", "so that round trips are measured once in a flight"),
}
_HELP = {
    "mss": "Look for the device that removes the option: a firewall or a VPN gateway.",
    "window-scale": "Switch window scaling on at both ends (tcp_window_scaling), or let the firewall pass the option; "
    "a larger buffer cannot help.",
    "sack": "Switch SACK on at both ends (tcp_sack), or let the firewall pass the option.",
    "timestamps": HELP,
}
_LIMIT = {"window-scale": Limit.RECEIVER_WINDOW, "sack": Limit.RECOVERY}
"""What an option that is missing makes worse."""
_MIN = 0.01
"""Minimum share of the time that this limit has, if only one capture shows the SYNs: a host may do without. Not
measured."""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding for each missing option.

    With one capture, a missing option is told only where it does harm: many hosts use no timestamps.
    """
    for missing in diagnosis.missing_options:
        limit = _LIMIT.get(missing.name)
        cost_s = 0.0 if limit is None else diagnosis.limited_s(limit)
        does_harm = missing.name == "mss" or (limit is not None and cost_s >= _MIN * diagnosis.limited.total_s)
        if missing.on_the_way or does_harm:
            yield _finding(diagnosis, missing, cost_s)


def _finding(diagnosis: Diagnosis, missing: MissingOption, cost_s: float) -> Finding:
    table = diagnosis.transfer.sender
    syns = np.flatnonzero(has(table["flags"], Flag.SYN))
    names = ("initiator", "responder")
    what, therefore = _WORDS[missing.name]
    if missing.on_the_way:
        how = f"The SYN of the {names[missing.reverse]} left with {what}, and arrived without: a device removed it"
    else:
        how = (
            f"The {names[not missing.reverse]} offered {what}, but the SYN of the {names[missing.reverse]} has none: "
            "that host does without, or a device on the path removed it"
        )
    sentence = f"{how}, {therefore}."
    begin_ns, end_ns = (int(table["time_ns"][syns[i]]) for i in (0, -1))
    evidence = rows("sender", syns)
    return Finding(KIND, begin_ns, end_ns, cost_s, None, evidence, sentence, _HELP[missing.name])
