"""A pcapng whose packets say what was concluded of them, and the colours that show it.

`remarks.py` says what there is to say of each packet, `records.py` reads the records again in the order of
time, `pcapng.py` writes both, and `colours.py` the colour rules that find the remarks.

What must hold: each record is written byte for byte with its original length; what cannot be written is
counted with its reason. A remark is printable text of ours; names in it are cut.
"""
