"""The GSM radio link protocol (3GPP TS 24.022), versions 0 and 1; begin with `entity.py`.

`RlpEntity` is one end of a link: once per slot of the channel it gives a frame and takes one, or None for a
frame that the radio destroyed. `RlpConfig` and `Parameters` are its options; `L2rEntity` is the relay for
characters above it. The frames themselves are in `multitracer.protocols.rlp`, what an entity reports in
`multitracer.protocols.link_events`.

What must hold: octets come out in the order in which they went in, none twice; a reset or a disconnection is
the only way to lose some, and both ends report it. The slot is the clock: timers count slots, not time. What
arrives never raises.
"""
