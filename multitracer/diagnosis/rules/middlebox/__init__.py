"""Rules about devices on the path that change, or make, segments."""
