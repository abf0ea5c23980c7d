"""Statistics of two series: bins, entropies, pairs at a lag, surrogates, test for stationarity.

Arrays in, arrays out. `analysis/correlation.py`, in the layer above, combines them.
"""
