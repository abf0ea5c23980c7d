"""What a statement about two series rests on: bins, entropies, pairs at a lag, surrogates, stationarity.

Arrays in, arrays out. `mutual_information.py`, one floor above, puts them together.
"""
