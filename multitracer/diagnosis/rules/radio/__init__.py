"""What the radio did, by its own log."""
