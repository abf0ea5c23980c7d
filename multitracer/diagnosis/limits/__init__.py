"""What limited a transfer, instant by instant, on any network (docs/limits.md)."""
