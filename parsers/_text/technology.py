"""Words by which loggers name radio technologies, and ours for each."""

from __future__ import annotations

RAT = {
    "LTE": "LTE", "LTE-CA": "LTE", "LTE_CA": "LTE", "LTE-A": "LTE", "LTE+": "LTE", "4G": "LTE", "4G+": "LTE",
    "5G": "NR", "NR": "NR", "5G SA": "NR", "5G NSA": "NR", "NR_SA": "NR", "NR_NSA": "NR", "NR-SA": "NR",
    "NR-NSA": "NR", "UMTS": "UMTS", "WCDMA": "UMTS", "3G": "UMTS", "HSPA": "HSPA", "HSPA+": "HSPA",
    "HSPAP": "HSPA", "HSDPA": "HSPA", "HSUPA": "HSPA", "EDGE": "EDGE", "GPRS": "GSM", "GSM": "GSM",
    "2G": "GSM", "CDMA": "CDMA", "1XRTT": "CDMA", "EVDO": "EVDO",
}  # fmt: skip
WORDS = RAT | {word.lower(): rat for word, rat in RAT.items()}
"""In capital and in small letters."""
