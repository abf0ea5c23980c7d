"""`multitracer analyze`: the numbers of every TCP connection, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from multitracer.cli._options import Reading, examples, pool_option, reads_captures, target

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    from multitracer.cli._load import Chosen
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
    ),
)
@click.option("--json", "as_json", is_flag=True, help="As JSON, to a fixed and documented schema.")
@click.option("--csv", "as_csv", is_flag=True, help="As CSV, a line for each connection.")
@click.option("--parquet", "as_parquet", is_flag=True, help="As Parquet files in the folder that -o names.")
@click.option("-o", "--output", type=target, metavar="PATH", help="Write here instead of to standard output.")
@pool_option
@reads_captures
def command(
    reading: Reading, *, as_json: bool, as_csv: bool, as_parquet: bool, output: str | None, pool: bool
) -> None:
    """Analyse every TCP connection of INPUT.

    Without --json, --csv or --parquet: a summary for people, of all connections or of the one that
    --connection names. With --from or --to, only the packets in between are analysed, as if nothing else had
    been captured.
    """
    from multitracer.cli._load import chosen, load
    from multitracer.cli._transactions import measured_sessions

    if as_json + as_csv + as_parquet > 1:
        raise click.UsageError("--json, --csv and --parquet: choose one of them")
    if as_parquet and output in (None, "-"):
        raise click.UsageError("--parquet writes several files: name a folder for them with -o")
    if not as_parquet and (sessions := measured_sessions(reading.inputs)):
        form = "json" if as_json else "csv" if as_csv else ""
        _write_transactions(sessions, reading, output, form, pool=pool)
        return
    recording = load(reading, output=output, files="*.parquet" if as_parquet else None)
    connections = chosen(recording, reading.connection)
    if as_parquet:
        _write_parquet(output or "", recording, connections)
    else:
        _write_text(output, recording, connections, "json" if as_json else "csv" if as_csv else "summary")


def _write_transactions(
    sessions: Sequence[Inputs], reading: Reading, output: str | None, form: str, *, pool: bool
) -> None:
    from multitracer.cli import _transactions
    from multitracer.cli._output import check_output, text_output
    from multitracer.cli._page import page

    _transactions.refuse_capture_options(reading)
    check_output(output, [path for session in sessions for path in session.paths])
    arms, _ = _transactions.read_arms(sessions, pool=pool)
    with text_output(output) as stream:
        if form == "json":
            _transactions.write_transactions_json(stream, arms)
        elif form == "csv":
            _transactions.write_transactions_csv(stream, arms)
        else:
            _transactions.show_transactions(page(stream), arms)


def _write_parquet(output: str, recording: Recording, connections: Chosen) -> None:
    from multitracer.api.files import write_tables
    from multitracer.cli._output import replacing_folder

    with replacing_folder(output) as folder:
        write_tables(folder, connections)


def _write_text(output: str | None, recording: Recording, connections: Chosen, form: str) -> None:
    from multitracer.cli._output import text_output

    with text_output(output) as stream:
        if form == "summary":
            _write_summary(stream, recording, connections)
            return
        from multitracer.cli import _documents

        write = _documents.write_json if form == "json" else _documents.write_csv
        write(stream, recording, connections)


def _write_summary(stream: TextIO, recording: Recording, connections: Chosen) -> None:
    from multitracer.cli._page import page
    from multitracer.cli._summary import file_line, show_connection, show_connections, show_trust

    sheet = page(stream)
    for part in recording.parts:
        for file in part.capture.files:
            sheet.line(file_line(file))
    show_trust(sheet, recording)
    sheet.blank()
    only = [(part, n) for part, numbers in connections for n in numbers or ()]
    if not only:
        show_connections(sheet, recording)
    for part, n in only or ([(recording.parts[0], 1)] if len(recording) == 1 else []):
        show_connection(sheet, part, n)
