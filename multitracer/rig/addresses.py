"""Where the server of a measurement over a modelled link is."""

from __future__ import annotations

from ipaddress import IPv4Address

from multitracer.simulator.run import ADDRESSES

SERVER_PORT = 5100
SERVER = f"{IPv4Address(ADDRESSES['fixed'])}:{SERVER_PORT}"
