"""`multitracer export`: data for other programs, and recordings for those that people know."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from multitracer.cli._options import CommandGroup, FiniteRange, common_options, examples, named, target
from multitracer.cli._reading import InputChoice, forces_reading, reads_captures
from multitracer.errors import InputError

if TYPE_CHECKING:
    from multitracer.analysis.link_capacity import DeliveredCapacity, Mapped
    from multitracer.export.wireshark import Selection
    from multitracer.recording.recording import Recording
    from multitracer.recording.window import Bounds
    from multitracer.tables import Table

_COLOURS = ".colorfilters"


@click.command(
    "wireshark",
    epilog=examples(
        "multitracer export wireshark sample_traces/fig8-resets-vj -o explained.pcapng",
        "multitracer export wireshark --snap 128 --from 10 --to 20 -o part.pcapng capture.pcap",
    ),
)
@click.option(
    "-o", "--output", type=target, metavar="FILE.pcapng", required=True, help="Capture file to write (.pcapng)."
)
@click.option(
    "--snap",
    type=click.IntRange(1, 262_144),
    metavar="BYTES",
    help="Keep only the first BYTES bytes of each packet, as tcpdump -s does; 128 bytes keep the headers.",
)
@reads_captures
def wireshark(reading: InputChoice, output: str, snap: int | None) -> None:
    """Write the packets to a new pcapng file, with the results of the analysis as comments.

    Records are copied byte for byte; each capture point is an interface. Packets that were lost or retransmitted, that
    close the window, or that belong to an incident get a comment; the comment of the file is the diagnosis. Captures
    whose clocks are related are converted to one clock. FILE.colorfilters beside FILE.pcapng has rules for View >
    Coloring Rules > Import. --from, --to and -c select packets; the analysis always uses all packets.
    """
    from multitracer.cli._output import check_output, replacing
    from multitracer.cli._reading import load, one
    from multitracer.export.explained import explained
    from multitracer.export.wireshark import colour_rules, write_pcapng

    if not output.endswith(".pcapng"):
        raise click.BadParameter("the file name must end in .pcapng", param_hint="'-o'")
    recording = load(reading, output=output, cut=False)
    colours = str(Path(output).with_suffix(_COLOURS))
    check_output(colours, recording.inputs.paths)
    selection = _selection(recording, reading)
    diagnosis = explained(recording, None if reading.connection is None else one(recording, reading.connection))
    with replacing(output) as path:
        with path.open("wb", buffering=1 << 20) as stream:
            write_pcapng(stream, recording, diagnosis, selection=selection, snap_bytes=snap)
        with replacing(colours) as rules:
            rules.write_text(colour_rules(), encoding="ascii")


def _selection(recording: Recording, reading: InputChoice) -> Selection:
    """Return which packets the options select."""
    from multitracer.cli._reading import chosen
    from multitracer.export.wireshark import Selection
    from multitracer.recording.recording import warn_of_empty
    from multitracer.recording.window import EVERYTHING

    connections: dict[int, list[int]] | None = None
    if reading.connection is not None:
        pairs = chosen(recording, reading.connection)
        places = {id(capture): place for place, capture in enumerate(recording.captures)}
        connections = {places[id(capture)]: numbers or [] for capture, numbers in pairs}
    bounds_ns: Bounds = (None, None)
    if reading.window != EVERYTHING:
        warn_of_empty(recording, reading.window)
        if not recording.captures:
            raise InputError(
                f"{recording.name}: this session contains no capture; name a capture, or a session with a capture"
            )
        bounds_ns = reading.window.bounds_ns((capture.tables for capture in recording.captures), speed=recording.speed)
    return Selection(bounds_ns, connections)


@click.command(
    "xplot",
    epilog=examples(
        "multitracer export xplot capture.pcap -o plots/",
        "multitracer export xplot --connection 2 capture.pcap -o plots/",
    ),
)
@click.option("-o", "--output", type=named, metavar="FOLDER", required=True, help="Folder for the files to write.")
@reads_captures
def xplot(reading: InputChoice, output: str) -> None:
    """Write the plots of tcptrace -G for xplot: sequence numbers, flight, RTT, throughput, sizes.

    File names and points are those of tcptrace. Retransmissions also show MultiTracer's verdict. If there
    are more than 50 connections, only the 50 largest are drawn, unless -c selects one. --from and --to
    limit the plots to the packets in between.
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
@click.option("-o", "--output", type=target, metavar="FILE", required=True, help="Perfetto trace file to write.")
@reads_captures
def perfetto(reading: InputChoice, output: str) -> None:
    """Write a transfer as a trace for ui.perfetto.dev: limits, findings, packets, counters.

    Each segment is a slice from its transmission to its ACK. An arrow leads from a lost segment to its
    retransmission and to the ACK. Windows, round-trip times, rates and radio readings are counters. The
    default is the transfer that `diagnose` explains. --from and --to limit the trace to the packets in
    between. The page ui.perfetto.dev reads the file in the browser and sends no data to a server.
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
            f"{recording.name}: this recording contains no transfer that can be explained, so no "
            "trace was written; name a capture with TCP data"
        )
    with replacing(output) as path, path.open("wb", buffering=1 << 20) as stream:
        write_trace(stream, recording, diagnosis)


@click.group(
    "export",
    cls=CommandGroup,
    epilog=examples(
        "multitracer export tables -o tables/ capture.pcap",
        "multitracer export series -o series/ sample_traces/cellular_upload",
    ),
)
@common_options
def command() -> None:
    """Write tables, series, traces and sessions for other programs."""


command.add_command(wireshark)
command.add_command(perfetto)
command.add_command(xplot)


@command.command(
    "tables",
    epilog=examples(
        "multitracer export tables -o tables/ capture.pcap",
        "multitracer export tables --format csv --connection 1 -o tables/ capture.pcap",
        "multitracer export tables -o tables/ sample_traces/rehearsal",
    ),
)
@click.option("-o", "--output", type=named, metavar="DIR", required=True, help="Folder for the files to write.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["parquet", "csv"]),
    default="parquet",
    show_default=True,
    help="File format of the tables. Parquet stores units and types.",
)
@reads_captures
def tables(reading: InputChoice, output: str, form: Literal["parquet", "csv"]) -> None:
    """Write the tables of connections, directions and segments with the results of the analysis.

    For a drive, also write radio, position, signalling, procedures, signalling_states, handovers, cells and
    stretches if they are not empty.
    """
    from multitracer.api.files import write_logged, write_tables
    from multitracer.api.session import Session
    from multitracer.cli._output import replacing_folder
    from multitracer.cli._reading import chosen, load, tell_warnings
    from multitracer.recording.recording import cut_recording
    from multitracer.recording.window import EVERYTHING

    recording = load(reading, output=output, files=f"*.{form}", cut=False)
    session = Session(recording)
    if reading.window != EVERYTHING:
        recording, bounds_ns = cut_recording(recording, reading.window)
        session = Session(recording, bounds_ns)
    connections = chosen(recording, reading.connection)
    drive = session.drive_tables
    tell_warnings(recording)
    with replacing_folder(output) as folder:
        write_tables(folder, connections, form=form)
        write_logged(folder, drive, form=form)


@command.command(
    "segments",
    epilog=examples(
        "multitracer export segments sender.pcap --csv",
        "multitracer export segments sender.pcap --receiver receiver.pcap --csv",
        "multitracer export segments sample_traces/cellular_upload --csv",
    ),
)
@click.argument("file", type=target, metavar="FILE")
@click.option(
    "--receiver", type=target, metavar="FILE", help="Capture of the same packets, recorded at the receiver of the data."
)
@click.option("--csv", "form", flag_value="csv", default="csv", help="Write the segments as CSV (the default).")
@forces_reading
@common_options
def segments(file: str, receiver: str | None, form: str) -> None:
    """Write the TCP segments of a capture to standard output, with a verdict on each retransmission.

    FILE is a capture made at the sender of the data, or a session folder. For a session, the rows are those
    of the capture nearest to the sender, and the other capture, the sender's TCP state and the link's log
    are used as evidence. For each retransmission, the row gives the cause, whether the retransmission was
    needed, and the evidence for both.
    """
    from multitracer.cli._output import standard_output
    from multitracer.cli._reading import load
    from multitracer.cli._segments import both_captures, write_segments

    del form
    recording = load(InputChoice((file,)))
    if receiver is not None:
        recording = both_captures(recording, load(InputChoice((receiver,))))
    write_segments(standard_output(), recording)


@command.command("errors", epilog=examples("multitracer export errors session/ -o radio.txt"))
@click.argument("session", metavar="SESSION", type=click.Path(exists=True, file_okay=False))
@click.option("-o", "--output", type=target, metavar="FILE", help="Write the trace to FILE instead of standard output.")
@common_options
def errors(session: str, output: str | None) -> None:
    """Write an error trace (which frames of a session's link failed) for `testbed run --errors`.

    The errors of each direction come from the log of its receiver. If the log of a side is missing, the errors of that
    direction are unknown. For CDPD and Bluetooth, the errors come from truth/radio.txt, which their runs write.
    """
    from multitracer.analysis.link_capacity import link_error_trace
    from multitracer.cli._messages import warn
    from multitracer.cli._output import check_output, text_output
    from multitracer.cli._reading import tell_warnings
    from multitracer.protocols.error_trace import RADIO, parse_error_trace
    from multitracer.recording.inputs import find_inputs
    from multitracer.recording.recording import Recording
    from parsers._stream import small_text

    recording = Recording(find_inputs(session))
    check_output(output, recording.inputs.paths)
    radio = Path(session) / RADIO
    if radio.is_file():
        if radio.with_stem(f"{radio.stem}-1").is_file():
            warn(f"{session}: the session was continued by later runs; the trace has the errors of the first run only")
        with text_output(output) as stream:
            stream.write(parse_error_trace(small_text(radio), path=str(radio)).text())
        return
    frames = {log.host: table for log, table in recording.tables("link", "link_frames")}
    trace = link_error_trace(frames)
    tell_warnings(recording)
    for side, direction in (("fixed", "up"), ("mobile", "down")):
        if side not in frames:
            warn(
                f"{session}: the session has no link log of the {side} side, so the trace has no "
                f"errors in its direction ({direction})"
            )
    with text_output(output) as stream:
        stream.write(trace.text())


@command.command(
    "capacity",
    epilog=examples(
        "multitracer export capacity receiver.pcap -o drive.down",
        "multitracer export capacity sample_traces/cellular_upload -o upload.up",
        "multitracer export capacity drive/ --map drive/truth/drive.json -o drive.down",
    ),
)
@click.option("-o", "--output", type=target, metavar="FILE", help="Write the trace to FILE instead of standard output.")
@click.option(
    "--direction",
    type=click.Choice(["forward", "reverse"]),
    help="Use the data that reached the responder (forward) or the initiator (reverse). Default: the "
    "direction with more data.",
)
@click.option(
    "--map",
    "stated",
    type=target,
    metavar="FILE.json",
    help="Use the SINR of a drive's radio log instead of packets; this file maps SINR to bit/s and Hz.",
)
@click.option(
    "--busy",
    type=FiniteRange(0, 100, max_open=True),
    metavar="PERCENT",
    help="With --map: share of the cell that other users take if the modem does not report the load. Default: 0.",
)
@reads_captures
def capacity(
    reading: InputChoice,
    output: str | None,
    direction: Literal["forward", "reverse"] | None,
    stated: str | None,
    busy: float | None,
) -> None:
    """Write a capacity trace of a link in Mahimahi's format, for modelled links of kind "capacity".

    INPUT is a capture made at the receiver of the data, or a session with such a capture. Each line is the
    time of an opportunity to deliver 1504 octets, in ms since the first packet. Such a trace is derived:
    the capacity of the link while the sender was idle is not known. TCP segments of all connections to that
    host count. With --map, INPUT is a drive with a log of the radio, and the trace is modelled.
    """
    from multitracer.cli._messages import warn
    from multitracer.cli._output import check_output, text_output
    from multitracer.cli._reading import load, one
    from multitracer.recording.capacity import mapped_capacity, recorded_capacity

    if stated is None and busy is not None:
        raise click.UsageError("--busy needs --map; add --map, or omit --busy")
    check_output(output, [] if stated is None else [stated])
    recording = load(reading, output=output)
    delivered: DeliveredCapacity | Mapped
    if stated is not None:
        delivered = mapped_capacity(recording, Path(stated), busy_percent=busy or 0.0)
    else:
        reverse = None if direction is None else direction == "reverse"
        delivered = recorded_capacity(recording, *one(recording, reading.connection), reverse=reverse)
    warn(f"{recording.name}: {delivered.sentence}")
    with text_output(output) as stream:
        stream.write(delivered.trace.text())


@command.command(
    "series",
    epilog=examples(
        "multitracer export series -o series/ sample_traces/cellular_upload",
        "multitracer export series --connection 10.0.0.1:80 --direction reverse -o series/ capture.pcap",
        "multitracer export series -o series/ sample_traces/rehearsal",
    ),
)
@click.option("-o", "--output", type=named, metavar="DIR", required=True, help="Folder for the files to write.")
@click.option(
    "--direction",
    type=click.Choice(["forward", "reverse"]),
    help="Write the series of the data from the initiator (forward) or from the responder (reverse). "
    "Default: the direction with more data.",
)
@reads_captures
def series(reading: InputChoice, output: str, direction: Literal["forward", "reverse"] | None) -> None:
    """Write each labelled series of one connection to its own file, such as TcpSnd_cwnd.csv.

    The default is the connection with the most unique bytes. A session folder gives the series of both
    captures, of the sender's TCP variables, of the link, of the radio and of the position; without a
    capture, only of radio and position. A file begins with label, unit, source and meaning of the series.
    --from and --to select an interval, but the values are computed from the complete connection.
    """
    from multitracer.cli._messages import warn
    from multitracer.cli._output import replacing_folder
    from multitracer.cli._reading import axis_bounds_ns, load, one
    from multitracer.recording.recording import warn_of_empty
    from multitracer.recording.transfer import Transfer

    recording = load(reading, output=output, files="*.csv", cut=False)
    warn_of_empty(recording, reading.window)
    if recording.captures or reading.connection is not None:
        capture, number = one(recording, reading.connection)
        reverse = None if direction is None else direction == "reverse"
        transfer = Transfer.of(recording, capture.offset + number, reverse=reverse)
        series, origin_ns = transfer.series, transfer.at_sender.capture.tables.first_ns or 0
        bounds = axis_bounds_ns(recording, reading, transfer.at_sender.capture)
    else:
        radio_context = recording.radio_context()
        series, origin_ns = radio_context.series, radio_context.first_ns or 0
        bounds = reading.window.bounds_from(origin_ns)
    if not any(map(len, series.values())):
        raise InputError(
            f"{recording.name}: no series can be written, because the logs have no TCP segment with a time, and no "
            "reading of a radio or a position; `multitracer inspect` shows what they hold"
        )
    with replacing_folder(output) as folder:
        if not [table for table in series.values() if _write_series(folder, table, origin_ns, *bounds)]:
            warn(f"{recording.name}: no file was written, because no series has a point between --from and --to")


def _write_series(folder: Path, series: Table, origin_ns: int, begin_ns: int | None, end_ns: int | None) -> bool:
    """Write a series to `LABEL.csv`; return whether it has a point within the bounds, the end not included.

    Comments have label, unit, source and meaning; then come a line of column names, and a row per point. The
    file name is our label (paper 004, section 4.5); no part of it comes from a capture. The column `seconds`
    counts from `origin_ns`.
    """
    from multitracer.units import NS_PER_S
    from multitracer.words import no_formula, printable

    kept = series if begin_ns is None else series.take(series["time_ns"] >= begin_ns)
    kept = kept if end_ns is None else kept.take(kept["time_ns"] < end_ns)
    if not len(kept):
        return False
    about = kept.provenance
    path = folder / f"{about['label']}.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        stream.writelines(f"# {name}: {printable(about[name])}\n" for name in ("label", "unit", "source", "doc"))
        stream.write(f"time_ns,seconds,value_{no_formula(about['unit'])}\n")
        for time_ns, value in zip(kept["time_ns"].tolist(), kept["value"].tolist(), strict=True):
            since_ns = time_ns - origin_ns  # all its digits: a float of such a time would lose some
            sign, (complete_s, rest_ns) = "-" if since_ns < 0 else "", divmod(abs(since_ns), NS_PER_S)
            stream.write(f"{time_ns},{sign}{complete_s}.{rest_ns:09d},{value:.15g}\n")
    return True


@command.command(
    "route",
    epilog=examples(
        "multitracer export route sample_traces/rehearsal -o drive.geojson",
        "multitracer export route drive.csv -o drive.kml --colour rsrp_dbm",
        "multitracer export route drive.csv -o drive.gpx --colour none",
    ),
)
@click.argument("session", metavar="SESSION...", nargs=-1, required=True, type=target)
@click.option(
    "-o",
    "--output",
    type=target,
    metavar="FILE",
    required=True,
    help="File to write: FILE.geojson (QGIS, MapInfo), FILE.kml (Google Earth) or FILE.gpx.",
)
@click.option(
    "--colour",
    metavar="COLUMN",
    help="Quantity that colours the route: a column of the table radio, speed_mps, or none. Default: "
    "RSRP, else the first signal level that was recorded.",
)
@forces_reading
@common_options
def route(session: tuple[str, ...], output: str, colour: str | None) -> None:
    """Write the route of a drive for map programs, coloured by a quantity.

    SESSION is a session folder, or radio and position logs of one phone or car. Colours and limits are
    those of the map in the report; missing values are grey. Cell changes, bad segments of the route with
    their causes, and the engineer's markers are points.
    """
    from multitracer.cli._messages import warn
    from multitracer.cli._output import check_output, text_output
    from multitracer.cli._reading import tell_warnings
    from multitracer.geo.route_files import recorded_track, writer_of
    from multitracer.recording.inputs import find_inputs
    from multitracer.recording.read import read

    write = writer_of(output)
    recording = read(find_inputs(*session))
    check_output(output, recording.inputs.paths)
    track = recorded_track(recording, colour)
    tell_warnings(recording)
    if track.unplaced:
        warn(
            f"{recording.name}: {track.unplaced} points of the route are omitted, because the "
            "position at their time is not known"
        )
    with text_output(output) as stream:
        stream.write(write(track))


@command.command("session", epilog=examples("multitracer export session --anonymize drive/ -o shared/"))
@click.argument("session", metavar="SESSION", type=click.Path(exists=True, file_okay=False))
@click.option(
    "-o",
    "--output",
    type=named,
    metavar="DIR",
    required=True,
    help="Folder for the anonymized copy; the folder must be new or empty.",
)
@click.option(
    "--anonymize",
    is_flag=True,
    required=True,
    help="Replace addresses and names, round positions, and remove payload (required).",
)
@forces_reading
@common_options
def session(session: str, output: str, anonymize: bool) -> None:
    """Write a copy of a session that can be shared.

    Addresses are replaced; addresses with a common prefix still have a common prefix in the copy. Names of
    machines, modems and cells are replaced, positions are rounded to a kilometre, and packets keep only
    their headers. The mapping is not stored.
    """
    from multitracer.cli._output import page

    lacks = _write_anonymous_copy(session, output)
    sheet = page()
    sheet.facts(list(lacks.items()))
    sheet.line(output)


def _write_anonymous_copy(name: str, output: str) -> dict[str, str]:
    """Write the copy to a new or empty folder.

    Return why logs were left out or changed, by name of the log.
    """
    from multitracer.anonymize.session import anonymize
    from multitracer.cli._messages import warn
    from multitracer.cli._output import replacing_folder
    from multitracer.recording.inputs import find_inputs

    place = Path(output)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise InputError(f"{output}: the folder is not empty; give a new folder")
    if place.resolve().is_relative_to(Path(name).resolve()):
        raise InputError(f"{output}: this folder is inside the session; give a folder outside the session")
    session = find_inputs(name)
    with replacing_folder(output) as folder:
        lacks = anonymize(session, folder)
    for sentence in session.warnings:
        warn(sentence)
    return lacks
