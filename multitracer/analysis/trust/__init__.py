"""How far a capture can be trusted, before any number of it is read."""
