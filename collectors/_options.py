"""The options of all collectors, and the exit status and message after an error."""

from __future__ import annotations

import argparse
import math
import os
import sys
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer import __version__
from multitracer.errors import MultiTracerError
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MONOTONIC = {"clock": "CLOCK_MONOTONIC", "unit": "ns"}
"""Entry in the header of a log that gives the clock of its records."""


def parser(description: str | None, *, traffic: bool = True) -> argparse.ArgumentParser:
    """Return a parser with the common options and, if `traffic`, the options that select TCP traffic.

    `description` is the collector's module docstring.
    """
    options = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    options.add_argument(
        "-o", "--output", type=Path, metavar="LOG", help="output file, which must not exist; default: standard output"
    )
    options.add_argument(
        "--duration", type=_duration_ns, metavar="SECONDS", help="stop the recording after this time, in seconds"
    )
    options.add_argument(
        "--outlive-parent", action="store_true", help="continue the recording if the parent process ends"
    )
    options.add_argument(
        "--tags",
        action="store_true",
        help="read tags of sync probes from standard input and write them to the log; stop at end of file",
    )
    if not traffic:
        options.set_defaults(port=[], address=[])
        return options
    options.add_argument(
        "--port",
        type=_port,
        action="append",
        default=[],
        help="record only connections with this port at either endpoint; repeatable",
    )
    options.add_argument(
        "--address",
        type=_network,
        action="append",
        default=[],
        help="record only connections with this address or network (192.0.2.0/24) at either endpoint; repeatable",
    )
    return options


def header(name: str, chosen: argparse.Namespace, **more: object) -> dict[str, object]:
    """Return the first record of a log: program, host and options."""
    system = os.uname()
    return {
        "kind": "header",
        "format": name,
        "version": 1,
        **MONOTONIC,
        "host": system.nodename,
        "kernel": system.release,
        "byte_order": sys.byteorder,
        "pid": os.getpid(),
        "command": sys.orig_argv,
        "multitracer": __version__,
        "ports": chosen.port,
        "addresses": [str(network) for network in chosen.address],
        **more,
    }


def run(main: Callable[[Sequence[str]], None]) -> None:
    """Run a collector as a program; exit with status 0, or with 1 and a one-line message.

    As root, only its user may read the logs.
    """
    if os.geteuid() == 0:
        os.umask(0o077)
    try:
        main(sys.argv[1:])
    except MultiTracerError as error:
        sys.exit(f"Error: {error}")


def rate_hz(text: str) -> float:
    """Return a rate from 0.001 to 1000 per second."""
    return number(text, 0.001, 1000)


def _duration_ns(text: str) -> int:
    return round(number(text, 0.001, 1e9) * NS_PER_S)


def _port(text: str) -> int:
    return int(number(text, 1, 65535))


def number(text: str, minimum: float, most: float) -> float:
    """Return a number in a range, as a type for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not minimum <= value <= most:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number from {minimum:g} to {most:g}")
    return value


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
