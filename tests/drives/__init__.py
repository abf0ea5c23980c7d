"""Rehearsed drives, recorded and judged: `python -m tests.drives`; too long for the suite."""
