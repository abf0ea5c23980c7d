"""The account of a transfer's link: each moment of the link has one class of use (docs/lost_time.md).

The input is a `Transfer` whose link was logged, and the `Join`. The result is a `LinkAccount`: LINK_USE
intervals with class, cause and the log row that shows them. `by_slots` computes it for a link that logs
slots, `by_bursts` for a link that logs bursts. `uses` defines the classes and the table of uses, and
classifies idle gaps by the segment that ended them.

Rules: intervals are in order of time, and their seconds sum to the duration of the transfer. Packets that
share a slot share its seconds. A moment without an explanation is `unknown`. This package does not decide
what limited the transfer: `limits/` uses the account as evidence.
"""
