"""Driving measurements: real sockets and serial lines, and request / reply / good-bye over them (paper 000).

Read `exchange.py` for what client and server say, `endpoint.py` for how CentaurusComm meets the kernel, and
`run.py` for how a plan is carried out and resumed.
"""
