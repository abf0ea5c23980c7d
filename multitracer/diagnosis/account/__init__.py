"""The lost-time account: every moment of a transfer's link gets one class of use (docs/lost_time.md).

What comes in: a `Transfer` and, where its link was logged, the `Join`. What goes out: an `Account`, LINK_USE
intervals with class, cause and the row that tells it. `lost_time` chooses one of three ways: `by_slots` (the
link logs slots), `by_bursts` (it logs bursts), `by_packets` (no link log: inferred, and marked so).

By slots, each rule takes what the rules before it left: `outages` (1), `data_slots` (2), `silent_slots` with
`waiting_packets` (3), `idle_slots` (4), whose class is from `idle_reasons`: a gap is named by what ended it.
All hand over `Uses` (`use_rows`); their places are slots, which `link_time` turns into stamps at the end.

What must hold: intervals are in order of time, and their seconds sum to the duration of the transfer; what
shares a slot gets a part of its seconds. A moment that nothing explains is `unknown`, never shared out.
"""
