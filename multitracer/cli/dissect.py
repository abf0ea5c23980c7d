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
    "dissect",
    epilog=examples(
        "multitracer dissect capture.pcap --filter dns",
        "multitracer dissect modem.pcap",
        "multitracer dissect attach.mi2log --message 46",
    ),
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
@click.option(
    "--message",
    "messages",
    type=click.IntRange(min=1),
    multiple=True,
    metavar="N",
    help="Print the content of this message of signalling: its number in the report, which is `frame` in the table "
    "signalling. INPUT is a diagnostic log, or a capture with GSMTAP packets. Repeatable.",
)
@forces_reading
@common_options
def command(capture: str, display_filter: str | None, max_packets: int, messages: tuple[int, ...]) -> None:
    """Show how Wireshark's dissectors decode the packets of INPUT, one capture file.

    Use this command for packets that MultiTracer does not decode itself. It needs tshark and pyshark, and
    is slow: a few hundred packets per second. With --message it prints messages of phone and network as trees, without
    what identifies a subscriber or a phone.
    """
    from parsers._wireshark import dissect

    if messages:
        if display_filter is not None:
            raise click.UsageError("--filter has no effect with --message; leave one of them out")
        _print_trees(capture, messages)
        return
    _refuse_log(capture)
    packets = 0
    for packet in dissect(capture, display_filter=display_filter, max_packets=max_packets):
        packets += 1
        click.echo(_line(packet))
    if not packets:
        click.echo("no packet" + (f" matches {display_filter}" if display_filter else "") + ".")


def _print_trees(path: str, messages: tuple[int, ...]) -> None:
    """Print the trees of messages in the order in which they were named.

    Raises
    ------
    InputError
        If the log does not have one of them.
    """
    from multitracer.errors import InputError
    from multitracer.words import portable
    from parsers._signalling.trees import message_trees

    trees = {tree.frame: tree for tree in message_trees(path, messages)}
    for number in dict.fromkeys(messages):
        if number not in trees:
            raise InputError(f"{path}: there is no message {number}; `export tables` lists the frames of all messages")
        click.echo("\n".join([f"message {number}", *map(portable, trees[number].text().split("\n"))]))


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
