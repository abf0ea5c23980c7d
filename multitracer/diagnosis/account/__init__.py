"""The lost-time account: every moment of a transfer's link gets one class of use (docs/lost_time.md).

What comes in: a `Transfer` and, where its link was logged, the `Join`. What goes out: an `Account`,
LINK_USE intervals with class, cause and the row that tells it. `lost_time` chooses one of three ways:
`by_slots` (the link logs slots), `by_bursts` (it logs bursts), `by_packets` (no link log: inferred, and
marked so). `uses` has the classes, their rows while the account is made, and what names a gap: that which
ended it.

What must hold: intervals are in order of time, and their seconds sum to the duration of the transfer; what
shares a slot gets a part of its seconds. A moment that nothing explains is `unknown`, never shared out.
"""
