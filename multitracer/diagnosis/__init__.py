"""What limited a transfer, where its link's time went, and why: limits, account, findings.

What comes in: a `Transfer`, one direction of a connection in every log. What goes out: a `Diagnosis`: the
limits, the findings with their evidence, the account. On the way, each step imports only those before it:

- `packets/` what packets and the sender's TCP show: dead times, delays, how it was opened;
- `account/` each moment of the link gets a class of use; `limits/` what limited the transfer at each
  instant;
- `service_times` how long the link had each segment;
- `finding` what a rule concludes, `held` a limit as one; `sentence` the limits in words;
- `diagnosis` the `Diagnosis`: all of it, what rules ask of packets, and findings of one cause made one;
- `work_of_others`, `queue_at_losses` and `idle_gaps` what several rules share; `rules/` one finding a file.

What must hold: a finding names the rows that it rests on, and a log that is missing concludes nothing.
`segment_verdicts` stands apart: the verdict on each retransmission of one capture, for tables and printing;
`drive` explains a drive along its route.
"""
