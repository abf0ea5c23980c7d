"""The clock doctor: faults of the clocks of a recording, with a proposed repair for each.

The input is the times of each log (`Stamps`), the graph of the clocks, and the reference clock. The output is
a `Complaint` for each fault: a stable code, a sentence with the evidence, and the times after the repair.

`examination.py` is the entry point: first each log alone, then each clock against the reference. It applies
the rules of `faults.py` in their order.

Rules: original times are never changed. Specific rules come before general ones; a fault that one rule
explains is not reported by later ones. A difference with too much uncertainty is not reported as a fault.
"""
