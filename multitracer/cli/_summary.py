"""Text output of `inspect` and `analyze`: files, quality, connections, and logs other than captures."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.analysis.not_tcp import tunnel_words
from multitracer.captured import GSMTAP, WTCP_SYN
from multitracer.logs import ParsedLog
from multitracer.schemas.tcp import DIRECTIONS, Close, GoodputBy, Initiator, RoundTrips, Vantage, WindowScaleBy
from multitracer.units import BITS_PER_BYTE, NOT_A_TIME, NS_PER_S
from multitracer.words import count, duration, moment, portable, rate, share, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from multitracer.captured import CaptureInterface, SourceFile
    from multitracer.cli._output import Page
    from multitracer.recording.application import Counted
    from multitracer.recording.capture import Capture
    from multitracer.recording.recording import Recording
    from multitracer.recording.window import Bounds
    from multitracer.tables import Document, Table

LISTED = 20
"""Maximum number of connections, and of a file's interfaces, in a summary; JSON and CSV have all of them."""
_COMMENTS = 20
_HEADER = ("#", "start", "initiator", "responder", "bytes ->", "bytes <-", "rexmt", "RTT p50", "took")
"""Column heads. The RTT is that of the direction where it is larger; near its receiver a direction has none."""
_APART = {"rtt_absent", "window_shift_by", "goodput_bytes_per_s", "goodput_ns", "goodput_by"}
"""Values that are shown in words below the other values of a direction."""
_DIRECTION_LABELS = {
    column.name: column.name.removesuffix("_ns").replace("_", " ")
    for column in DIRECTIONS
    if column.name not in {"connection", "reverse", "first_ns", "last_ns", *_APART}
}
_CLOSES = {
    Close.OPEN: "open",
    Close.FIN_ONE_WAY: "closed by one side (FIN)",
    Close.FIN_BOTH_WAYS: "closed by both sides (FIN)",
    Close.RESET: "reset (RST)",
}
_INITIATORS = {by: "by the handshake" if by is Initiator.HANDSHAKE else f"assumed by {by.words}" for by in Initiator}
_SHIFTS = {
    WindowScaleBy.SYN: "",
    WindowScaleBy.SENT: ", inferred from the sent data",
    WindowScaleBy.UNKNOWN: ", not known",
}
_VANTAGES = {
    Vantage.UNKNOWN: "unknown",
    Vantage.NEAR_SENDER: "near the sender",
    Vantage.NEAR_RECEIVER: "near the receiver",
    Vantage.BETWEEN: "between sender and receiver",
}


def show_summary(sheet: Page, recording: Recording, only: Sequence[tuple[Capture, int]] = ()) -> None:
    """Write the files and their quality, then the connections, flows of WTCP and logs.

    There is a line for each connection, and details if it is the only one; or only details of those in `only`.
    """
    for file in (file for capture in recording.captures for file in capture.tables.files):
        took = ""
        if file.first_ns is not None and file.last_ns is not None:
            took = f" in {duration(file.last_ns - file.first_ns)} from {moment(file.first_ns)}"
        left_out = sum(file.not_decoded.values())
        rest = f", {left_out:,} not decoded ({_counts(file.not_decoded)})" if left_out else ""
        sheet.line(f"{portable(file.path)}: {file.format}, {count(file.packets, 'packet')}{took}{rest}")
    if recording.captures:
        show_connections(sheet, recording, only)
    if not only:
        if any(WTCP_SYN in file.protocols for capture in recording.captures for file in capture.tables.files):
            from multitracer.cli._flows import show_wtcp  # few recordings hold any

            show_wtcp(sheet, recording)
        if len(recording) == 1:
            show_connection(sheet, next(capture for capture in recording.captures if len(capture)), 1)
    if not recording.captures:
        from multitracer.cli._quic import show_quic  # few recordings hold any

        if not show_quic(sheet, recording):
            sheet.line(NO_PACKETS)
        show_logs(sheet, recording)
    if not recording.captures or recording.inputs.listed:
        show_streams(sheet, recording)


def show_connections(sheet: Page, recording: Recording, only: Sequence[tuple[Capture, int]] = ()) -> None:
    """Write the quality of the captures with its reasons, then the details of the connections `only`.

    If `only` is empty, write a line for each of the connections with the most unique bytes.
    """
    several = len(recording.captures) > 1
    show_trust(sheet, recording)
    if only:
        for capture, n in only:
            show_connection(sheet, capture, n)
        return
    connections = len(recording)
    files = [file for capture in recording.captures for file in capture.tables.files]
    if recording.inputs.listed or any("udp" in file.protocols for file in files):
        from multitracer.cli._quic import show_quic  # most captures hold none

        if show_quic(sheet, recording) and not connections:
            return
    sheet.line(recording.connections_in_words if several else count(connections, "TCP connection"), bold=True)
    rows = [_cells(capture, n, several=several) for capture, n in recording.largest(LISTED)]
    if rows:
        header = (*_HEADER, "captured at") if several else _HEADER
        sheet.table(header, rows, right=(0, 1, 4, 5, 6, 7, 8), dispensable=(8, 1, 5, 7))
    if connections > len(rows):
        sheet.line(f"{connections - len(rows):,} connections with fewer bytes are not shown; --json and --csv list all")
    for capture in recording.captures:
        if capture.analysis.directions["mptcp"].any():
            _show_multipath(sheet, capture)


def show_trust(sheet: Page, recording: Recording, *, all_reasons: bool = True) -> None:
    """Write the quality of the captures and its reasons, or only those that lower it."""
    several = len(recording.captures) > 1
    notes = [
        (capture.point.name, note)
        for capture in recording.captures
        for note in capture.analysis.trust.notes
        if note.severity or all_reasons
    ]
    rest = "" if notes else ". No measurement problem was found."
    sheet.line(f"Trust: {recording.trust}{rest}", verdict=recording.trust)
    for point, note in notes:
        sheet.line(f"  - {f'{portable(point)}: ' if several else ''}{note.sentence}")
    sheet.line()


def _show_multipath(sheet: Page, capture: Capture) -> None:
    """Write which connections are subflows of one MPTCP connection."""
    from multitracer.recording.mptcp import multipath_connections  # few captures hold any

    for each in multipath_connections(capture):
        version = "" if each.version is None else f", version {each.version}"
        paths = [capture.analysis.ends(number - capture.offset) for number in each.subflows]
        subflows = ", ".join(
            f"{number} ({ends.source})" for number, ends in zip(each.subflows[:LISTED], paths, strict=False)
        )
        more = len(each.subflows) - LISTED
        rest = f" and {more:,} more" if more > 0 else ""
        token = f"token {each.token:#010x}{version}"
        sheet.line(f"One MPTCP connection, {len(each.subflows):,} subflows ({token}): {subflows}{rest}")


def _cells(capture: Capture, n: int, *, several: bool) -> tuple[str, ...]:
    """Return the table cells of connection `n`; its RTT is the larger median of the two directions.

    With `several`, the first cell names the capture point.
    """
    table, both = capture.analysis.connections, capture.analysis.directions
    ends, first_ns, ways = capture.analysis.ends(n), capture.tables.first_ns, slice(2 * (n - 1), 2 * n)
    start_ns, end_ns = (int(table[name][n - 1]) for name in ("start_ns", "end_ns"))
    sent, data = (int(both[name][ways].sum()) for name in ("retransmitted_segments", "data_segments"))
    rtts = zip(both["rtt_p50_ns"][ways].tolist(), both["rtt_absent"][ways].tolist(), strict=True)
    medians = [rtt for rtt, absent in rtts if not absent and not isnan(rtt)]
    timed = start_ns != NOT_A_TIME
    return (
        str(capture.offset + n),
        f"{(start_ns - first_ns) / NS_PER_S:.3f} s" if first_ns is not None and timed else "-",
        ends.source,
        ends.destination,
        *map(size, both["unique_bytes"][ways].tolist()),
        f"{sent:,} ({share(sent, data)})" if sent else "0",
        duration(max(medians)) if medians else "-",
        duration(end_ns - start_ns) if timed else "-",
        *([portable(capture.point.name)] if several else []),
    )


def show_connection(sheet: Page, capture: Capture, n: int) -> None:
    """Write all results about connection `n`, with both directions side by side."""
    row = next(capture.analysis.connections.take(slice(n - 1, n)).rows())
    ends = capture.analysis.ends(n)
    sheet.line(f"Connection {capture.offset + n}: {ends.source} -> {ends.destination}", bold=True)
    start_ns, end_ns = row["start_ns"], row["end_ns"]
    sheet.facts(
        [
            ("file", portable(capture.tables.files[row["file"]].path)),
            ("begin", moment(start_ns)),
            ("took", duration(end_ns - start_ns) if start_ns is not None else "unknown"),
            ("SYN", "captured" if row["syn_seen"] else "not captured"),
            ("initiator", _INITIATORS[row["initiator_by"]]),
            ("handshake", "captured" if row["handshake_seen"] else "not completely captured"),
            ("end", _CLOSES[row["close"]]),
        ]
    )
    ways = list(capture.analysis.directions.take(slice(2 * n - 2, 2 * n)).rows())
    sheet.line()
    rows = zip((*_DIRECTION_LABELS.values(), "goodput", "goodput over"), *map(_values, ways), strict=True)
    sheet.table(("", "from initiator", "from responder"), list(rows), right=(1, 2))
    for whose, way in zip(("initiator", "responder"), ways, strict=True):
        absent, by = RoundTrips(way["rtt_absent"]), GoodputBy(way["goodput_by"])
        if absent and way["data_segments"]:
            sheet.line(f"No round-trip times from {whose}: {absent.words}.")
        if not by.is_known and way["data_segments"]:
            sheet.line(f"No goodput from {whose}: {by.words}.")


def _values(way: Document) -> Iterator[str]:
    """Yield the values of one direction as text, then its goodput and the duration of the goodput."""
    for name in _DIRECTION_LABELS:
        value = way[name]
        if value is None or (name.startswith("rtt_") and way["rtt_absent"]):
            yield "-"
        elif name == "vantage":
            yield _VANTAGES[value]
        elif name == "window_shift":
            yield f"{value}{_SHIFTS[WindowScaleBy(way['window_shift_by'])]}"
        elif isinstance(value, bool):
            yield "yes" if value else "no"
        elif name.endswith("_ns"):
            yield moment(value) if name.endswith("payload_ns") else duration(value)
        else:
            yield f"{value:,}"
    by = GoodputBy(way["goodput_by"])
    yield f"{rate(way['goodput_bytes_per_s'] * BITS_PER_BYTE)}, {by.words}" if by.is_known else "-"
    yield duration(way["goodput_ns"]) if by.is_known else "-"


def show_file(sheet: Page, file: SourceFile) -> None:
    """Write size, format, times and counts of one input file."""
    sheet.line(portable(file.path), bold=True)
    sheet.facts([(name, value) for name, value in _file_facts(file) if value])


def _file_facts(file: SourceFile) -> Iterator[tuple[str, str]]:
    yield "format", ", ".join(filter(None, (file.format, file.variant, file.compression)))
    yield "packets", f"{count(file.packets, 'packet')}, {size(file.bytes)}"
    yield "link types", _counts(file.link_types)
    yield "protocols", _counts(file.protocols)
    yield "not decoded", _counts(file.not_decoded)
    yield "frames", file.guessed_link
    for name, tunnel in file.tunnels.items():
        yield "tunnel", tunnel_words(name, tunnel)
    yield (
        "duplicates",
        "" if file.duplicates is None else f"{file.duplicates.packets:,}, left out ({file.duplicates.where})",
    )
    if GSMTAP in file.protocols:
        yield (
            "signalling",
            ("in GSMTAP; `multitracer report` and `export tables` show the signalling if tshark is installed"),
        )
    if file.first_ns is not None and file.last_ns is not None:
        yield "first packet", moment(file.first_ns)
        yield "last packet", f"{moment(file.last_ns)}, {duration(file.last_ns - file.first_ns)} later"
    yield "clock", _clock(file)
    for interface in file.interfaces[:LISTED]:
        yield "interface", _interface(interface)
    if len(file.interfaces) > LISTED:
        yield "interface", f"and {len(file.interfaces) - LISTED:,} more"
    yield "hardware", file.hardware or ""
    yield "system", file.operating_system or ""
    yield "written by", file.application or ""
    yield "VPN", f"{file.vpn}: the packets are not those of the radio" if file.vpn else ""
    programs = sorted({file.program_of(*flow) for flow in file.users_of_flows})
    left = f" and {len(programs) - LISTED:,} more" if len(programs) > LISTED else ""
    yield "programs", ", ".join(programs[:LISTED]) + left
    yield "secrets", f"{count(file.secrets, 'block')} for decryption; those of QUIC are used" if file.secrets else ""
    for number, text in file.comments[:_COMMENTS]:
        yield "comment", text if number is None else f"packet {number}: {text}"
    if len(file.comments) > _COMMENTS:
        yield "comment", f"and {len(file.comments) - _COMMENTS:,} more"
    yield "damaged", file.damaged or ""


def _counts(counted: Mapping[str, int] | Mapping[int, int]) -> str:
    ordered = sorted(counted.items(), key=lambda item: -item[1])
    return ", ".join(f"{name}: {number:,}" for name, number in ordered)


def _clock(file: SourceFile) -> str:
    facts = [f"{count(file.without_time, 'packet')} without a timestamp"] if file.without_time else []
    if file.time_steps_back:
        steps = count(file.time_steps_back, "step")
        facts.append(f"{steps} backwards, the largest {duration(file.largest_step_back_ns)}")
    return "; ".join(facts) or "never steps backwards"


def _interface(interface: CaptureInterface) -> str:
    facts = [interface.name, interface.description, f"link type {interface.link_type}"]
    if interface.snap_length:
        facts.append(f"first {interface.snap_length} bytes of each packet")
    if interface.filter:
        facts.append(f"filter {interface.filter}")
    if interface.dropped_packets:
        facts.append(f"{count(interface.dropped_packets, 'packet')} dropped")
    return ", ".join(filter(None, facts))


_MOST_LOGS = 40
"""Maximum number of listed logs; a session in a car has about ten."""
_LOG_HEADER = ("host", "log", "format", "rows", "begin", "took")
_OF_DATAGRAMS = ("lost", "jitter")
_STREAMS = ("stream", "path", "connection", "at sender", "at receiver", "captured")
_EVERY = (*_STREAMS, "rate", *_OF_DATAGRAMS)
NO_PACKETS = "No packets were captured. The other logs follow."


def show_logs(sheet: Page, recording: Recording) -> None:
    """Write a line for each log of a recording: number of rows by table, first time, and duration.

    Only rows between --from and --to count.
    """
    complete = [log for layer in _layers(recording) for log in recording.logs(layer)]
    logs = [_within(log, recording.bounds_ns) for log in complete]
    if not logs:
        return
    part = "" if recording.bounds_ns == (None, None) else ", between --from and --to"
    sheet.line(f"{count(len(logs), 'log')}{part}", bold=True)
    sheet.table(_LOG_HEADER, [_log_cells(log) for log in logs[:_MOST_LOGS]], dispensable=(5, 0))
    if len(logs) > _MOST_LOGS:
        sheet.line(f"and {len(logs) - _MOST_LOGS:,} more")


def log_records(recording: Recording) -> Iterator[Document]:
    """Yield a record for each log of a recording, for JSON; only rows between --from and --to count."""
    for layer in _layers(recording):
        for complete in recording.logs(layer):
            log, tables = _within(complete, recording.bounds_ns)
            begin_ns, end_ns = _first_and_last(list(tables.values()))
            yield {
                "host": None if log.host == log.path else portable(log.host),
                "path": portable(log.path),
                "format": log.format,
                "layer": layer,
                "rows": {name: len(table) for name, table in tables.items()},
                "first_ns": begin_ns,
                "last_ns": end_ns,
            }


def show_streams(sheet: Page, recording: Recording) -> None:
    """Write the counts of a load program for each of its streams, and the same data from the captures."""
    from multitracer.recording.application import counted_streams, pings_of

    streams = counted_streams(recording)
    for sentence in pings_of(recording):
        sheet.line(sentence)
    if not streams:
        return
    sheet.line()
    sheet.line(f"{count(len(streams), 'stream')} of a traffic generator, in bytes", bold=True)
    has_loss = any(each.lost_packets is not None for each in streams)
    is_uncounted = any(each.sender_bytes is None is each.receiver_bytes for each in streams)
    heads = _STREAMS + (("rate",) if is_uncounted else ()) + (_OF_DATAGRAMS if has_loss else ())
    cells = [dict(zip(_EVERY, _stream_cells(each), strict=True)) for each in streams[:_MOST_LOGS]]
    rows = [[each[head] for head in heads] for each in cells]
    sheet.table(heads, rows, right=range(3, len(heads)), dispensable=(1,))
    if len(streams) > _MOST_LOGS:
        sheet.line(f"and {len(streams) - _MOST_LOGS:,} more")


def _stream_cells(each: Counted) -> tuple[str, ...]:
    from multitracer.recording.application import shown_loss

    counts = (each.sender_bytes, each.receiver_bytes, each.captured_bytes)
    shown = ("-" if number is None else f"{number:,}" for number in counts)
    carried_by = "-" if each.connection is None else f"{each.connection}"
    path = f"{each.sender} -> {each.receiver}" if each.sender and each.receiver else each.direction or "-"
    rate_bps = each.receiver_rate_bps if each.receiver_rate_bps is not None else each.sender_rate_bps
    shown_rate = "-" if rate_bps is None else rate(rate_bps)
    jitter = "-" if each.jitter_s is None else duration(round(each.jitter_s * NS_PER_S))
    return each.title, path, carried_by, *shown, shown_rate, shown_loss(each) or "-", jitter


def _layers(recording: Recording) -> Sequence[str]:
    return list(dict.fromkeys(log.layer for log in recording.inputs.listed))


def _within(parsed: ParsedLog, bounds_ns: Bounds) -> ParsedLog:
    """Return the rows of a log in a time interval; tables without times remain complete."""
    log, tables = parsed
    timed = {name: "time_ns" in table.columns for name, table in tables.items()}
    return ParsedLog(log, {name: table.within(*bounds_ns) if timed[name] else table for name, table in tables.items()})


_TIMES = ("time_ns", "start_ns")
"""Columns with the time of a row: of a reading, and of a transaction."""


def _log_cells(parsed: ParsedLog) -> tuple[str, ...]:
    log, tables = parsed
    rows = ", ".join(f"{name} {len(table):,}" for name, table in tables.items() if len(table)) or "none"
    begin_ns, end_ns = _first_and_last(list(tables.values()))
    took_ns = None if begin_ns is None or end_ns is None else end_ns - begin_ns
    name = portable(Path(log.path).name)
    host = "" if log.host == log.path else portable(log.host)
    return host, name, log.format, rows, moment(begin_ns), duration(took_ns)


def _first_and_last(tables: Sequence[Table]) -> tuple[int | None, int | None]:
    """Return the first and the last time of the tables; None if there is none."""
    columns = [table[name] for table in tables for name in _TIMES if name in table.columns]
    timed = [kept for times in columns if len(kept := times[times != NOT_A_TIME])]
    if not timed:
        return None, None
    return min(int(times.min()) for times in timed), max(int(times.max()) for times in timed)
