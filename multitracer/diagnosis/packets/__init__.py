"""What the packets of a transfer and the log of its sender's TCP tell, before any account or rule.

What comes in: a `Transfer`. What goes out: what the sender knew at a moment (`SenderView`); which
retransmissions its timer sent; how the connection was opened and ended; the dead times, in which nothing
came back though data were outstanding; of each packet how long it waited, or that it was lost; and whether a
policer lost them (`policing`).

What must hold: times are those of the sender's capture, and rows are its rows, unless a function says
otherwise. Nothing here needs a link log, so all of it holds on any network. One capture is enough; a second
makes an answer sharper, never different in kind. What neither capture can tell is NA or None, and which
direction was dead is told only if it is known. Account, limits and rules are built on this; it imports none.
"""
