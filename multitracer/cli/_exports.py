"""`export wireshark`, `export perfetto`, `export xplot`: a recording for the programs that people know."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from multitracer.cli._options import examples, named, target
from multitracer.cli._reading import Reading, reads_captures
from multitracer.errors import InputError

if TYPE_CHECKING:
    from multitracer.export.wireshark import Selection
    from multitracer.recording.recording import Recording
    from multitracer.recording.window import Bounds

_COLOURS = ".colorfilters"


@click.command(
    "wireshark",
    epilog=examples(
        "multitracer export wireshark sample_traces/fig8-resets-vj -o explained.pcapng",
        "multitracer export wireshark --snap 128 --from 10 --to 20 -o part.pcapng capture.pcap",
    ),
)
@click.option(
    "-o", "--output", type=target, metavar="FILE.pcapng", required=True, help="The capture to write."
)
@click.option(
    "--snap",
    type=click.IntRange(1, 262_144),
    metavar="BYTES",
    help="Keep so many bytes of each packet, as tcpdump -s does; 128 keep the headers.",
)
@reads_captures
def wireshark(reading: Reading, output: str, snap: int | None) -> None:
    """Write the packets once more, each with a comment that says what was concluded of it.

    Records are copied byte for byte; each capture point is an interface. Comments stand on packets that were
    lost or sent again, close the window, or belong to an incident; the comment of the file is the answer.
    Captures whose clocks are related are put onto one clock. Beside FILE.pcapng stands FILE.colorfilters:
    rules for View > Coloring Rules > Import. --from, --to and -c choose packets; what is said of them is said
    by all.
    """
    from multitracer.cli._output import check_output, replacing
    from multitracer.cli._reading import load, one
    from multitracer.export.explained import explained
    from multitracer.export.wireshark import colour_rules, write_pcapng

    if not output.endswith(".pcapng"):
        raise click.BadParameter("does not end in .pcapng, which is what it will be", param_hint="'-o'")
    recording = load(reading, output=output, cut=False)
    colours = str(Path(output).with_suffix(_COLOURS))
    check_output(colours, recording.inputs.paths)
    selection = _selection(recording, reading)
    diagnosis = explained(
        recording, None if reading.connection is None else one(recording, reading.connection)
    )
    with replacing(output) as path:
        with path.open("wb", buffering=1 << 20) as stream:
            write_pcapng(stream, recording, diagnosis, selection=selection, snap_bytes=snap)
        with replacing(colours) as rules:
            rules.write_text(colour_rules(), encoding="ascii")


def _selection(recording: Recording, reading: Reading) -> Selection:
    """Return which packets the options mean."""
    from multitracer.cli._reading import chosen
    from multitracer.export.wireshark import Selection
    from multitracer.recording.window import EVERYTHING, warn_of_empty

    connections: dict[int, list[int]] | None = None
    if reading.connection is not None:
        pairs = chosen(recording, reading.connection)
        places = {id(part): place for place, part in enumerate(recording.parts)}
        connections = {places[id(part)]: numbers or [] for part, numbers in pairs}
    bounds_ns: Bounds = (None, None)
    if reading.window != EVERYTHING:
        warn_of_empty(recording, reading.window)
        if not recording.parts:
            raise InputError(f"{recording.name}: holds no capture; name a capture, or a session with one")
        bounds_ns = reading.window.bounds_ns(
            (part.capture for part in recording.parts), speed=recording.speed
        )
    return Selection(bounds_ns, connections)


@click.command(
    "xplot",
    epilog=examples(
        "multitracer export xplot capture.pcap -o plots/",
        "multitracer export xplot --connection 2 capture.pcap -o plots/",
    ),
)
@click.option("-o", "--output", type=named, metavar="FOLDER", required=True, help="The folder for the files.")
@reads_captures
def xplot(reading: Reading, output: str) -> None:
    """Write the plots that tcptrace -G draws, for xplot: sequence numbers, flight, RTT, throughput, sizes.

    Names and points are those of tcptrace; what is sent again carries our verdict. Of more than 50
    connections the largest are drawn, unless -c names one. --from and --to draw only the packets in between.
    """
    from multitracer.cli._output import replacing_folder
    from multitracer.cli._reading import load, named_connections, tell_warnings
    from multitracer.export.xplot import write_plots

    recording = load(reading, output=output, files="*.xpl")
    chosen = None if reading.connection is None else named_connections(recording, reading.connection)
    with replacing_folder(output) as folder:
        write_plots(folder, recording, chosen)
    tell_warnings(recording)


@click.command(
    "perfetto",
    epilog=examples(
        "multitracer export perfetto sample_traces/cellular_upload -o upload.perfetto-trace",
        "multitracer export perfetto -c 2 --from 10 --to 20 -o part.perfetto-trace capture.pcap",
    ),
)
@click.option("-o", "--output", type=target, metavar="FILE", required=True, help="The trace to write.")
@reads_captures
def perfetto(reading: Reading, output: str) -> None:
    """Write a transfer as a trace for ui.perfetto.dev: limits, findings, packets, counters.

    A segment is a slice from when it was sent until its ACK; an arrow leads from a lost one to its repair and
    on to the ACK. Windows, round trips, rates and what was logged of the radio are counters. The default is
    the transfer that diagnose explains. --from and --to draw only the packets in between. Nothing is sent to
    anyone: the page reads the file in the browser.
    """
    from multitracer.cli._output import replacing
    from multitracer.cli._reading import load, one
    from multitracer.export.explained import explained
    from multitracer.export.perfetto import write_trace

    recording = load(reading, output=output)
    connection = None if reading.connection is None else one(recording, reading.connection)
    diagnosis = explained(recording, connection)
    if diagnosis is None:
        raise InputError(
            f"{recording.name}: holds no transfer that can be explained, so there is none to draw"
        )
    with replacing(output) as path, path.open("wb", buffering=1 << 20) as stream:
        write_trace(stream, recording, diagnosis)
