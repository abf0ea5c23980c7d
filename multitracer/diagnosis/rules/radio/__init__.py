"""Rules about the radio, from its own log."""
