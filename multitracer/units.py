"""Unit constants. The program computes with int64 nanoseconds; only input and output use seconds."""

from __future__ import annotations

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
BITS_PER_BYTE = 8

NOT_A_TIME = -(1 << 63)
"""The missing value of an int64 nanosecond column (the same bits as `numpy.datetime64('NaT')`)."""
