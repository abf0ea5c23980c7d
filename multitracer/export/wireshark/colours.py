"""How remarks begin, and the colour rules for Wireshark that find them.

The rules are a file `colorfilters`, as a profile of Wireshark holds it. Source: Wireshark User's Guide,
"Packet colorization".
"""

from __future__ import annotations

SENT_AGAIN, LOST, CLOSED, INCIDENT, EVIDENCE = "sent again", "lost", "window closed", "incident", "evidence"
"""What a remark begins with; colours and display filters look for these words."""
_RULES = (
    ("incident", INCIDENT, "#7a1f6d", "#ffffff"),
    ("lost", LOST, "#8f2c00", "#ffffff"),
    ("sent again", SENT_AGAIN, "#ffd9c7", "#1c2430"),
    ("window closed", CLOSED, "#ffe7a8", "#1c2430"),
    ("evidence", EVIDENCE, "#f0d7ec", "#1c2430"),
)
"""Name, word of the remark, background, text: the hues of `figures/palette.py`, each text with a contrast of
7 : 1 or more (WCAG 2.2, 1.4.6). The first rule that fits decides."""


def colour_rules() -> str:
    """Return the text of the file: a line for each rule, colours as 16 bits a channel."""
    lines = [
        f'@MultiTracer: {name}@frame.comment matches "(^|\\n){word}:"@{_channels(back)}{_channels(ink)}'
        for name, word, back, ink in _RULES
    ]
    return "# Colour rules of MultiTracer, for View > Coloring Rules > Import.\n" + "\n".join(lines) + "\n"


def _channels(colour: str) -> str:
    """Return #rrggbb as Wireshark writes it: [65535,0,0]."""
    return f"[{','.join(str(257 * int(colour[i : i + 2], 16)) for i in (1, 3, 5))}]"
