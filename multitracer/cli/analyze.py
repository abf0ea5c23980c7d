"""`multitracer analyze`: the numbers of every TCP connection, for people and for programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from multitracer.cli._options import examples, pool_option, target
from multitracer.cli._reading import InputChoice, reads_captures

if TYPE_CHECKING:
    from typing import TextIO

    from multitracer.recording.inputs import Inputs
    from multitracer.recording.recording import Recording


@click.command(
    "analyze",
    epilog=examples(
        "multitracer analyze capture.pcap",
        "multitracer analyze --json capture.pcap | jq '.connections[0].forward.rtt_ms'",
        "multitracer analyze --csv --from 10 --to 20 -o part.csv capture.pcap",
        "multitracer analyze --parquet -o tables/ sample_traces/cellular_upload",
        "multitracer analyze cdpd-tcp/ cdpd-cc/",
        "tcpdump -i eth0 -w - tcp | multitracer analyze --stream -",
    ),
)
@click.option(
    "--json", "as_json", is_flag=True, help="Write the result as JSON; `multitracer schema analyze` describes it."
)
@click.option("--csv", "as_csv", is_flag=True, help="Write the result as CSV, with one line per connection.")
@click.option(
    "--parquet", "as_parquet", is_flag=True, help="Write the result as Parquet files into the folder that -o names."
)
@click.option(
    "--fairness",
    is_flag=True,
    help="Also show how fairly the flows (TCP and WTCP) share the link while all of them are active, and in the "
    "last third of that time; not with --csv or --parquet.",
)
@click.option(
    "-o",
    "--output",
    type=target,
    metavar="PATH",
    help="Write the result to this file (with --parquet: to this folder) instead of standard output.",
)
@click.option(
    "--stream/--no-stream",
    "stream",
    default=None,
    help="Keep only the open connections in memory. Use this option for captures of any size, and "
    "for endless pipes (Ctrl-C prints the summary). Default for captures larger than half of "
    "the memory (docs/large_captures.md lists the differences).",
)
@pool_option
@reads_captures
def command(  # noqa: PLR0913  # each is an option
    reading: InputChoice,
    *,
    as_json: bool,
    as_csv: bool,
    as_parquet: bool,
    fairness: bool,
    output: str | None,
    stream: bool | None,
    pool: bool,
) -> None:
    """Analyse every TCP connection of INPUT.

    Without --json, --csv and --parquet, print a summary of all connections, or of the one that --connection
    selects. With --from or --to, analyse only the packets of this interval and ignore all other packets.
    """
    from multitracer.cli._output import page, text_output
    from multitracer.cli._reading import load, named_connections
    from multitracer.recording.inputs import find_inputs
    from multitracer.recording.read import Need

    if as_json + as_csv + as_parquet > 1:
        raise click.UsageError("--json, --csv and --parquet cannot be combined; choose one of them")
    if as_parquet and output in (None, "-"):
        raise click.UsageError("--parquet writes several files; name a folder with -o")
    if fairness and (as_csv or as_parquet):
        raise click.UsageError(
            "--fairness cannot be combined with --csv or --parquet; omit --fairness, or omit the format"
        )
    if stream and (as_parquet or fairness):
        raise click.UsageError("--parquet and --fairness need every segment in memory; omit --stream")
    form = "json" if as_json else "csv" if as_csv else "summary"
    if reading.of_folders and not as_parquet and _wrote_transactions(reading, output, form, pool=pool):
        return
    if as_parquet:
        _write_parquet(output or "", reading)
        return
    inputs = find_inputs(*reading.inputs)
    need = (
        Need.SEGMENTS
        if fairness or ((as_json or as_csv) and not stream and _is_small(inputs, reading.max_packets))
        else Need.NUMBERS
    )
    recording = load(reading, inputs=inputs, output=output, stream=False if fairness else stream, need=need)
    with text_output(output) as out:
        if form != "summary":
            _write(out, recording, reading, form, fairness=fairness)
            return
        from multitracer.cli._summary import show_summary

        choice = reading.connection
        show_summary(page(out), recording, named_connections(recording, choice) if choice else [])
        if fairness:
            from multitracer.cli._documents import show_fairness

            show_fairness(page(out), recording)


def _is_small(inputs: Inputs, max_packets: int | None) -> bool:
    """Return whether the captures may have few enough packets to say how each transfer used its link."""
    import parsers
    from multitracer.cli._documents import LINK_USE_PACKETS

    files = [path for point in inputs.points for path in point.paths]
    if not all(Path(file).is_file() for file in files):
        return False
    # a capture of a plug-in has no blocks to count in
    packets = sum(parsers.packets_about([file]) or Path(file).stat().st_size // _UNCOUNTED_BYTES for file in files)
    most = packets if max_packets is None else max_packets * len(inputs.points)
    return min(packets, most) <= _SLACK * LINK_USE_PACKETS


_SLACK = 2
"""Factor by which packets after the first block of a capture may be larger than in it. Not measured."""
_UNCOUNTED_BYTES = 64
"""Size of a packet in a capture whose packets cannot be counted: less than that of an Ethernet frame without payload,
so that no large capture is taken for a small one."""


def _wrote_transactions(reading: InputChoice, output: str | None, form: str, *, pool: bool) -> bool:
    """Write the results of transactions if the inputs contain some to show; return whether they do."""
    from multitracer.cli import _transactions
    from multitracer.cli._output import check_output, page, text_output

    sessions = _transactions.measured_sessions(reading.inputs)
    if not sessions:
        return False
    _transactions.refuse_capture_options(reading)
    check_output(output, [path for session in sessions for path in session.paths])
    transports, _ = _transactions.read_transports(sessions, pool=pool)
    with text_output(output) as stream:
        if form == "json":
            _transactions.write_transactions_json(stream, transports)
        elif form == "csv":
            _transactions.write_transactions_csv(stream, transports)
        else:
            _transactions.show_transactions(page(stream), transports)
    return True


def _write_parquet(output: str, reading: InputChoice) -> None:
    from multitracer.cli._reading import chosen, load, return_memory, share_memory

    share_memory()
    connections = chosen(load(reading, output=output, files="*.parquet"), reading.connection)
    return_memory()
    from multitracer.api.files import write_tables
    from multitracer.cli._output import replacing_folder

    with replacing_folder(output) as folder:
        write_tables(folder, connections)


def _write(stream: TextIO, recording: Recording, reading: InputChoice, form: str, *, fairness: bool) -> None:
    from multitracer.cli import _documents
    from multitracer.cli._reading import chosen

    connections = chosen(recording, reading.connection)
    if form == "csv":
        _documents.write_csv(stream, recording, connections)
        return
    further = {}
    if fairness:
        from multitracer.cli._documents import fairness_document

        further["fairness"] = fairness_document(recording)
    _documents.write_json(stream, recording, connections, further)
