"""How surely `dependence` finds what is there, and how rarely what is not."""
