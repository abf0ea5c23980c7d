"""Where the time of a transfer went, and why: the join of TCP and the link, the account, the diagnoses.

What comes in: a Recording, and which connection. What goes out: a `Diagnosis` (`diagnose`): the limits, the
findings with their evidence, the account. On the way, each step imports only those before it:

- `join/` what was recorded of one transfer, and which frames carried which segment; `transfer` adds what the
  logs say together;
- `packets/` what packets and the sender's TCP tell: dead times, delays, how it was opened;
- `account/` each moment of the link gets a class of `use`; `limits/` what limited the transfer at each
  instant;
- `case` everything a rule works on; `held` a limit as a finding; `bottleneck/` and `silences/` what several
  rules share;
- `rules/` one diagnosis a file; `incidents` findings of one cause made one; `sentence` the limits in words.

What must hold: a finding names the rows that it rests on, and a log that is missing concludes nothing.
`segment_verdicts` stands apart: the verdict on each retransmission of one capture, for tables and printing.
"""
