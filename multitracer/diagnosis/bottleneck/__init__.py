"""What the packets tell of the slowest link of the path: its queue, its rate, others on it.

What comes in: a `Case`, with the delay of each packet and which of them were lost. What goes out, to the
rules: what lost the packets (`queue_at_losses`: a full queue, a managed one, or chance), how long the link
had each full segment and whether that changed (`service_times`), and what others put into its queue
(`work_of_others`).

What must hold: these are measures; which finding they make, if any, the rule decides. Few losses tell
nothing: with fewer than a threshold the answer is None. No link log is needed, so the path may be
anybody's; where one says what was lost, `losses_of` is None and the rules of the link speak.
"""
