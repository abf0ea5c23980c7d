"""What the packets of a transfer and its sender's TCP variables show, before the account and the rules.

The input is a `Transfer`. The results are: what the sender knew at a moment (`SenderView`); which retransmissions its
timer sent; how the connection was opened and ended; the dead times, in which nothing arrived although data were
outstanding; the delay or loss of each packet; and whether a policer lost packets (`policing`).

Rules: times and rows are those of the sender's capture, unless a function says otherwise. Nothing here needs
a link log, so it works on any network. One capture is enough; a second one only adds precision. What no
capture shows is NA or None. The direction of a dead time is set only if it is known. Account, limits and
rules use this package; it imports none of them.
"""
