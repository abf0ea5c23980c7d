"""Figures of several sessions beside each other: `flows.py` has what each flow delivered, and its rate."""
