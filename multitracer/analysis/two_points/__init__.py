"""The same connection at two capture points: which packets are the same, and what happened in between."""
