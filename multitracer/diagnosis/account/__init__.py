"""The account of a transfer's link: every moment of it gets one class of use (docs/lost_time.md).

What comes in: a `Transfer` whose link was logged, and the `Join`. What goes out: a `LinkAccount`, LINK_USE
intervals with class, cause and the row that shows it: `by_slots` where the link logs slots, `by_bursts` where
it logs bursts. `uses` has the classes, their rows while the account is made, and what names a gap: that which
ended it.

What must hold: intervals are in order of time, and their seconds sum to the duration of the transfer; what
shares a slot gets a part of its seconds. A moment that nothing explains is `unknown`, never shared out. What
limited the transfer is no question of this package: `limits/` takes the account as evidence.
"""
