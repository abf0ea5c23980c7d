"""One transfer as it was recorded, and the join of TCP and the link: which frames carried which segment.

What comes in: a connection at its capture points and in every log (`recording.layers`), and the link logs of
its two hosts. What goes out: `Recorded`, all of that as tables of one direction; `Delivery`, which octets
came out at the link's far end, and when; `Join`, for each segment the frames that carried it, how often, and
its `Fate`.

What must hold: times of the near end are of the clock of the sender's host, those of the far end and of the
receiver are of the receiver's, and only `clock` maps them. Both link logs number the slots of one call. What
arrived is told by the link, in its order, never by sequence numbers. A log that is missing gives None or an
empty table, never a guess; a row number stays that of the table as recorded. Nothing here knows the account
or a finding.
"""
