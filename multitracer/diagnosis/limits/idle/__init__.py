"""When nothing is sent, or nothing arrives: the application's pauses, quiet receivers, outages."""
