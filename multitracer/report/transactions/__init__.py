"""The page of a measurement: arms of transactions in; a comparison with sentences, tables and pictures out.

`section.py` has the order of the page, `words.py` its sentences; `../still_sheet.py` draws. What must hold:
the numbers are those of `analysis/transactions`, and a page draws the same cells and traces as a notebook.
"""
