"""Every packet in the page: the columns of a figure as short text, and the code that draws them.

`columns.py` writes a column (differences, zigzag, byte planes, gzip, base64), `fit.py` decides which points
and columns a page has room for. In the page, `decoder.js` reads the columns again and makes the blocks of 64
points (lowest, highest) that make far views quick, `loader.js` has it run in a worker, `table.js` answers
what is in a window, and `figure.js` on `plot.js` on `panel.js` draws it on a canvas.

What must hold: an overview is in the page itself, and drawn before the rest is read. A rare event is drawn
in every view. What a page leaves out, it says.
"""
