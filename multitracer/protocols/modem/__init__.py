"""Modems' reports of their radio: a conversation in AT commands, and the decoding of its answers.

Bytes of a serial line come in; `conversation.py` pairs questions with answers and keeps what comes unasked.
`decode.py` turns an answer into values of the table `radio`, in the units of 3GPP (dBm, dB, %). Read these
two first. One module per vendor decodes its commands; `standard.py` those of TS 27.007, `tools.py` the output
of mmcli and qmicli. Which commands are asked of which modem is data (collectors/profiles).

What must hold: a modem may answer anything. Answers are bounded; a value that is not understood or cannot be
is NA, never 0, and its raw text stays in the log.
"""
