"""What messages between phone and network mean: procedures with their results, and states in time.

`messages.py` puts the rows of `signalling` in order, by card and by the clock of the log. `procedures.py` and
`states.py` go through them once; the latter has the same states as far as a phone or a modem says them without a
diagnostic log. Messages in, rows out: no files, no clock. Nothing is guessed: a state begins with the message that
proves it, and a procedure without its begin or end in the log is cut, not failed.
"""
