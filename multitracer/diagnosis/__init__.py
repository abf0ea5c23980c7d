"""The diagnosis of a transfer: what limited it, how the time of its link was used, and the reasons.

The input is a `Transfer`, one direction of a connection in every log. The result is a `Diagnosis`: the limits, the
findings with their evidence, and the account of the link. Each of these modules imports only those listed before it:

- `packets/`: what packets and the sender's TCP variables show, for example dead times, delays and the
  handshake;
- `account/`: one class of use for each moment of the link; `limits/`: what limited the transfer at each
  moment;
- `service_times`: the time that the link needed for each segment;
- `finding`: the result of a rule; `held`: the total duration of one limit; `sentence`: the limits in words;
- `diagnosis`: the `Diagnosis`, with the measurements for the rules, and findings of one cause merged;
- `work_of_others`, `queue_at_losses` and `idle_gaps`: used by several rules; `rules/`: one kind of finding
  per file.

Rules: a finding names the table rows that support it. Nothing is concluded from a missing log.
`segment_verdicts` is independent: it computes the verdict on each retransmission of one capture, for tables
and printed output. `drive` explains a drive along its route.
"""
