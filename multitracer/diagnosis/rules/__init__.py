"""One diagnosis, one file: `KIND`, and `find(case)`, which yields a `Finding` for each time that it happened.

A rule reads only what `Transfer` and `Account` hold, concludes nothing from a log that is missing, and names
the rows it rests on. A new one is a new file and a line in `RULES`.
"""

from __future__ import annotations

from multitracer.diagnosis.rules import (
    ack_loss,
    blackout,
    competing_retransmission,
    dropped_call,
    exponential_back_off,
    handover,
    header_decompressor_failure,
    link_flow_control,
    link_reset,
    local_buffer_overflow,
    overbuffered_link,
    radio_limited,
    rlp_retransmission_burst,
    spurious_timeout,
    stale_data,
)

RULES = (
    dropped_call,
    blackout,
    link_reset,
    header_decompressor_failure,
    ack_loss,
    exponential_back_off,
    spurious_timeout,
    competing_retransmission,
    local_buffer_overflow,
    rlp_retransmission_burst,
    radio_limited,
    handover,
    link_flow_control,
    overbuffered_link,
    stale_data,
)
"""In the order in which findings of equal cost are shown."""
