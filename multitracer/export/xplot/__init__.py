"""The plots that `tcptrace -G` draws, from our tables and verdicts, for Tim Shepard's xplot (xplot.org).

`folder.py` names the files and chooses the connections, `talk.py` is what a plot needs of one connection,
`sequence.py` (tsg), `curves.py` (owin, rtt, tput, ssize) and `timeline.py` (tline) write the commands, and
`commands.py` knows how a command is written.

What must hold: a file is a heading, commands and `go`, as xplot's own demo.0 lists them, in printable ASCII.
Points of what was sent and acknowledged are those of tcptrace; docs/export.md lists what is meant to differ.
"""
