"""Words by which loggers name radio technologies, and ours for each."""

from __future__ import annotations

RAT = {
    "LTE": "LTE", "LTE-CA": "LTE", "LTE_CA": "LTE", "LTE-A": "LTE", "LTE+": "LTE", "4G": "LTE", "4G+": "LTE",
    "5G": "NR", "NR": "NR", "5G SA": "NR", "5G NSA": "NR", "NR_SA": "NR", "NR_NSA": "NR", "NR-SA": "NR",
    "NR-NSA": "NR", "UMTS": "UMTS", "WCDMA": "UMTS", "3G": "UMTS", "HSPA": "HSPA", "HSPA+": "HSPA",
    "HSPAP": "HSPA", "HSDPA": "HSPA", "HSUPA": "HSPA", "EDGE": "EDGE", "GPRS": "GSM", "GSM": "GSM",
    "2G": "GSM", "CDMA": "CDMA", "1XRTT": "CDMA", "EVDO": "EVDO",
}  # fmt: skip
_MORE = {
    "LTE FDD": "LTE", "LTE TDD": "LTE", "LTE-FDD": "LTE", "LTE-TDD": "LTE", "LTE_FDD": "LTE",
    "LTE_TDD": "LTE", "E-UTRAN": "LTE", "EUTRAN": "LTE", "E-UTRA": "LTE", "EUTRA": "LTE", "4G/LTE": "LTE",
    "LTE/4G": "LTE", "4G LTE": "LTE", "Lte": "LTE", "5G NR": "NR", "5G-NR": "NR", "5GNR": "NR", "NR5G": "NR",
    "NR5G-SA": "NR", "NR5G-NSA": "NR", "UTRAN": "UMTS", "UTRA": "UMTS", "Umts": "UMTS", "Wcdma": "UMTS",
    "GERAN": "GSM", "Gsm": "GSM",
}  # fmt: skip
"""Words that a proposed map has only where the log has them."""
WORDS = RAT | _MORE | {word.lower(): rat for word, rat in (RAT | _MORE).items()}
"""In capital and in small letters."""
