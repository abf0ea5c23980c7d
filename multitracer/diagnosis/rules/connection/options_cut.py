"""The capture cut the options of the handshake: what they would tell is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.captured import CaptureMark
from multitracer.diagnosis.finding import Finding, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis

KIND = "options-cut"
HELP = "Capture more of each packet: `tcpdump -s 128`, or no limit."
WHEN = "cut_syns"


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding if options of a SYN were cut: no window is judged by an unknown scale."""
    table, syns = diagnosis.transfer.sender, diagnosis.cut_syns
    cut = int(np.count_nonzero(has(table["marks"], CaptureMark.HEADER_CUT)))
    sentence = (
        f"The capture cut the options of the SYN, and of {cut:,} of {len(table):,} packets in all (snap length): the "
        "scale of the windows is unknown, and a window may be larger than it looks; MSS, SACK and timestamps may be "
        "missing, too."
    )
    other = diagnosis.transfer.receiver
    if other is not None and not has(other["marks"], CaptureMark.HEADER_CUT).any():
        sentence = (
            f"The capture at the data's sender cut the options of the SYN, and of {cut:,} of {len(table):,} packets in "
            "all (snap length). The capture at the other end has them."
        )
    begin_ns, end_ns = (int(table["time_ns"][syns[i]]) for i in (0, -1))
    numbers = {"cut_packets": cut}
    yield Finding(KIND, begin_ns, end_ns, 0.0, None, rows("sender", syns), sentence, numbers=numbers)
