"""The GSM radio link protocol (3GPP TS 24.022), versions 0 and 1; begin with `entity.py`.

`RlpEntity` is one end of a link: in each slot of the channel it sends a frame and receives one, or None for
a frame that the radio destroyed. `RlpConfig` and `Parameters` are its options; `L2rEntity` is the relay for
characters above it. The frame format is in `multitracer.protocols.rlp`, the events of an entity in
`multitracer.protocols.link_events`.

What must hold: octets arrive in the order in which they were sent, none twice; only a reset or a
disconnection loses octets, and both ends report it. The slot is the clock: timers count slots, not time.
Received frames never raise an error.
"""
