"""Reports: analysed captures become one self-contained HTML file, or several files with an index.

A `Recording` comes in; a page goes out that needs no network and no server. Read `write.py` first (the order
of the sections), then `markup.py` (how text becomes HTML) and `embed.py` with `pack.py` (how series become
text in the page; `figure.js` unpacks and draws them). `screen/` opens the page with the answer;
`sentence.py` describes a direction, `limit_words.py` and `transaction_words.py` hold the other sentences.

What must hold: every text that comes from a capture is escaped, and the page's content security policy allows
only the scripts written here. Nothing is computed: numbers are those of the rooms below. The file appears
whole under its name or not at all (`beside.py`); its size is bounded, however long the capture was.
"""
