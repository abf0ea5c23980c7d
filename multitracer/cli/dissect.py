"""`multitracer dissect`: Wireshark's description of packets that MultiTracer does not decode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from multitracer.cli._options import common_options, examples
from multitracer.cli._reading import forces_reading

if TYPE_CHECKING:
    from parsers._wireshark import WiresharkPacket

_MOST_FIELDS = 4


@click.command(
    "dissect", epilog=examples("multitracer dissect capture.pcap --filter dns", "multitracer dissect modem.pcap")
)
@click.argument("capture", metavar="INPUT", type=click.Path())
@click.option(
    "--filter", "display_filter", metavar="FILTER", help="Show only packets that match this Wireshark display filter."
)
@click.option(
    "--max-packets",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Stop after N packets of the capture.",
)
@forces_reading
@common_options
def command(capture: str, display_filter: str | None, max_packets: int) -> None:
    """Show how Wireshark's dissectors decode the packets of INPUT, one capture file.

    Use this command for packets that MultiTracer does not decode itself. It needs tshark and pyshark, and
    is slow: a few hundred packets per second.
    """
    from parsers._wireshark import dissect

    _refuse_log(capture)
    packets = 0
    for packet in dissect(capture, display_filter=display_filter, max_packets=max_packets):
        packets += 1
        click.echo(_line(packet))
    if not packets:
        click.echo("no packet" + (f" matches {display_filter}" if display_filter else "") + ".")


def _refuse_log(path: str) -> None:
    """Raise an error for a log of MultiTracer; Wireshark would guess a format and misread it."""
    from pathlib import Path

    import parsers
    from multitracer.errors import FormatError, InputError, UnknownFormatError

    if not Path(path).is_file():
        return
    try:
        fmt = parsers.detect(path)
    except (FormatError, UnknownFormatError):
        return
    if fmt.layer != "packet":
        raise InputError(f"{path}: this is {fmt.name} ({fmt.description}), not a packet capture; name a capture")


def _line(packet: WiresharkPacket) -> str:
    from multitracer.words import moment, portable

    fields = list(packet.fields.items())[:_MOST_FIELDS]
    shown = "  ".join(f"{name}={value}" for name, value in fields)
    return portable(f"{packet.frame:>7}  {moment(packet.time_ns)}  {':'.join(packet.protocols)}  {shown}")
