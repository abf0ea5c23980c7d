"""Reports: analysed captures to one self-contained HTML file. Read `write.py` first."""
