"""Radio readings of modems: AT commands, and the decoding of their answers.

Input: bytes of a serial line. `conversation.py` matches answers to commands and stores unsolicited lines.
`decode.py` turns an answer into values of the table `radio`, in the units of 3GPP (dBm, dB, %). Read these
two first. One module per vendor decodes its commands; `standard.py` those of TS 27.007; `tools.py`
and `routers.py` the output of mmcli, qmicli and others, and of routers; `android.py` that of dumpsys. The profiles in
collectors/profiles state which commands each kind of modem gets.

What must hold: a modem may answer anything. The size of an answer is bounded. A value that is not understood
or is impossible is NA, never 0, and its raw text stays in the log.
"""
