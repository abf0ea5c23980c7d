"""How the connection was opened, and how it ended."""
