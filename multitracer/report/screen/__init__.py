"""The first screen of a report: the answer, three numbers, lanes of time, and the figure that shows it.

In: a `Diagnosis` and the panels of its connection. Out: markup that needs neither JavaScript nor colour to be
read; scripts add a mark and a cursor. All rows of the screen share one `TimeAxis`.
"""
