"""The clock doctor: what is wrong with the clocks of a recording, and what repair is proposed.

In go the stamps of each log (`Stamps`), the graph of the clocks, and which of them is the reference. Out
comes a `Complaint` for each fault: a stable code, a sentence that says how it is known, and
the stamps as they would be after the repair.

`examination.py` is the way in: first each log by itself, then each clock against the reference. It asks the
rules (`faults.py`) in their order.

What must hold: raw stamps are never changed. Rules go from the particular to the general; what one explains,
the next ones leave alone. A difference that is not known well enough names no fault.
"""
