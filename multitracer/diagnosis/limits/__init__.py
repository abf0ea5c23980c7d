"""The limit of a transfer at each instant, on any network (docs/limits.md)."""
