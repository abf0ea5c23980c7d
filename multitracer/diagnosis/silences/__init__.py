"""Silences: times in which nothing came through, and what the packets allow to be said of their reason.

What comes in: a `Case`, with its dead times (sender's capture) or the outages among its limits (a receiver's
capture alone). What goes out, to the rules: the dead times in which only segments of full size vanished
(`mtu_hole`), the silences of a receiver that chance does not explain (`receiver_silences`), and of all others
the findings that `outage` and `blackout` share (`dead_link`): how long, which way, how many tries failed.

What must hold: one silence has one name; a dead time of an MTU hole, or of a connection that the other end
forgot, is no outage. What chance explains at the rate of the other losses is none either. Which direction was
dead is said only where a capture shows it. Where the link was logged, its log tells instead of `dead_link`.
"""
