"""`multitracer diagnose`: why was it slow, with evidence."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import TYPE_CHECKING

import click

from multitracer.cli._options import examples, target
from multitracer.cli._reading import InputChoice, reads_captures
from multitracer.words import ends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.cli._output import Page
    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.drive import Drive
    from multitracer.diagnosis.finding import Incident
    from multitracer.recording.inputs import Inputs
    from multitracer.recording.recording import Recording
    from multitracer.tables import Document

_NEEDS, _NEEDS_OF_CLOCKS = (("multitracer.diagnosis.diagnose",), ("multitracer.clock.session_clock", "numpy.random"))
"""Modules that are loaded while the captures are read; two captures need those for clocks, too."""


@click.command(
    "diagnose",
    epilog=examples(
        "multitracer diagnose sample_traces/fig8-resets-vj",
        "multitracer diagnose --connection 2 --json capture.pcap",
        "multitracer diagnose drive.csv",
    ),
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Write limits, findings and link account as JSON; `multitracer schema diagnose` describes it.",
)
@click.option("--intervals", is_flag=True, help="With --json: also write the limit of each time interval.")
@click.option(
    "--direction",
    type=click.Choice(["forward", "reverse"]),
    help="Explain only the data that the initiator sent (forward) or the responder sent (reverse). Default: "
    "both, seen from the direction with more data.",
)
@click.option(
    "-o", "--output", type=target, metavar="FILE", help="Write the result to FILE instead of standard output."
)
@reads_captures
def command(reading: InputChoice, as_json: bool, intervals: bool, direction: str | None, output: str | None) -> None:
    """Show what limited a transfer and why: findings with their evidence, in descending order of cost.

    By default, the command explains the group of connections with the longest duration, and the longest connection of
    this group in detail. If the session has a log of the link, the command also shows how well the channel was used.
    Of a drive without captures (the log of a phone or a modem, with positions and throughput where it has them), it
    shows where it was bad, and why; `multitracer schema drive` describes its JSON.
    """
    from multitracer.cli._output import page, text_output
    from multitracer.cli._reading import keep_memory, load, one
    from multitracer.recording.inputs import find_inputs

    if intervals and not as_json:
        raise click.UsageError("--intervals needs --json; add --json, or omit --intervals")
    keep_memory()
    inputs = find_inputs(*reading.inputs)
    recording = load(reading, inputs=inputs, output=output, needs=_needs, cut=bool(inputs.points))
    if not inputs.points and reading.connection is None and direction is None and recording.radio_context().phones:
        if intervals:
            raise click.UsageError("--intervals are of a transfer, but no packets were captured; omit --intervals")
        _write_drive(recording, reading, output, as_json=as_json)
        return
    if _wrote_quic(recording, reading, (output, direction), as_json=as_json, intervals=intervals):
        return
    from multitracer.diagnosis.diagnose import explain

    if reading.connection is None and direction is None and len(recording) > 1:
        diagnosis = explain(recording)
    else:
        capture, number = one(recording, reading.connection)
        reverse = None if direction is None else direction == "reverse"
        diagnosis = explain(recording, capture.offset + number, reverse=reverse)
    with text_output(output) as stream:
        if as_json:
            stream.write(json.dumps(_document(diagnosis, intervals=intervals), indent=1, allow_nan=False) + "\n")
        else:
            _show(page(stream), diagnosis)


def _wrote_quic(
    recording: Recording,
    reading: InputChoice,
    choices: tuple[str | None, str | None],
    *,
    as_json: bool,
    intervals: bool,
) -> bool:
    """Write the answer for a QUIC connection if one is meant; return whether it is."""
    from multitracer.cli._quic import chosen_path

    path = chosen_path(recording, reading.connection)
    if path is None:
        return False
    from multitracer.cli._output import page, text_output
    from multitracer.cli._quic import show_answer
    from multitracer.diagnosis.quic import explain_quic

    output, direction = choices
    answer = explain_quic(recording, path, reverse=None if direction is None else direction == "reverse")
    with text_output(output) as stream:
        if as_json:
            stream.write(json.dumps(answer.document(intervals=intervals), indent=1, allow_nan=False) + "\n")
        else:
            show_answer(page(stream), recording, answer)
    return True


def _write_drive(recording: Recording, reading: InputChoice, output: str | None, *, as_json: bool) -> None:
    """Write where a drive without captures was bad, and why."""
    from multitracer.cli._output import page, text_output
    from multitracer.cli._reading import axis_bounds_ns
    from multitracer.diagnosis.drive import Drive, drive_document

    context = recording.radio_context()
    drive, origin_ns = Drive(context, shown_ns=axis_bounds_ns(recording, reading)), context.first_ns or 0
    document = drive_document(drive, origin_ns)
    with text_output(output) as stream:
        if as_json:
            stream.write(json.dumps(document, indent=1, allow_nan=False) + "\n")
        else:
            _show_drive(page(stream), drive, document)


def _show_drive(sheet: Page, drive: Drive, document: Document) -> None:
    from multitracer.diagnosis.drive import CAUSE_WORDS, evidence_of, length_s, place_of, span_of_the_cause
    from multitracer.units import NS_PER_S
    from multitracer.words import duration, interval

    sheet.line(document["answer"], bold=True)
    for sentence in document["caveats"]:
        sheet.line(sentence)
    sheet.line()
    rows, last_s = drive.stretches.rows(), length_s(drive, 1)
    for row, known in islice(zip(rows, document["stretches"], strict=True), _MOST_STRETCHES):
        when = interval(known["begin_s"], known["end_s"], last_s=last_s)
        lost_s = known["lost_s"] or 0
        cost = f", cost {lost_s:.1f} s" if lost_s >= _WORTH_PRINTING_S else ""
        cause = "cause not known" if row["cause"] == "unknown" else CAUSE_WORDS[row["cause"]]
        sheet.line(f"{cause}, {when} ({duration(row['seconds'] * NS_PER_S)}){cost}")
        for words in (place_of(row, drive.cell_names), evidence_of(row), span_of_the_cause(row)):
            if words:
                sheet.line(f"  {words}")
    if (left := len(document["stretches"]) - _MOST_STRETCHES) > 0:
        sheet.line(f"and {left:,} more (--json lists all)")
    if document["stretches"]:
        sheet.line()
    sheet.line(" ".join(filter(None, (document["rule"], document["throughput"]))))


def _needs(inputs: Inputs) -> Sequence[str]:
    return _NEEDS if len(inputs.points) < 2 else (*_NEEDS, *_NEEDS_OF_CLOCKS)


def _document(diagnosis: Diagnosis, *, intervals: bool = False, stages: bool = True) -> Document:
    transfer = diagnosis.transfer
    ends = transfer.at_sender.capture.analysis.ends(transfer.at_sender.connection)
    sender, receiver = (ends.source, ends.destination)[:: -1 if transfer.reverse else 1]
    files = transfer.at_sender.capture.tables.files
    duplicates = [file.duplicates.sentence for file in files if file.duplicates is not None]
    return {"connection": transfer.at_sender.number, "sender": sender, "receiver": receiver, "duplicates": duplicates,
            **diagnosis.document(intervals=intervals, stages=stages)}  # fmt: skip


def _show(sheet: Page, diagnosis: Diagnosis) -> None:
    from multitracer.diagnosis.diagnose import channel_use
    from multitracer.diagnosis.sentence import LIMIT_COLUMNS, rows_in_words

    document = _document(diagnosis, stages=False)  # no stage is shown
    if diagnosis.trust != "good":
        from multitracer.cli._summary import show_trust

        show_trust(sheet, diagnosis.transfer.recording, all_reasons=False)
    sheet.line(diagnosis.headline.sentence, bold=True)
    sheet.line(f"What would help: {diagnosis.headline.help}.")
    sheet.line()
    recording = diagnosis.transfer.recording
    many = len(recording.captures)
    of_all = f" of {len(recording):,}" + (f" in {many:,} captures" if many > 1 else "")
    sheet.line(f"Connection {document['connection']}{of_all}: {document['sender']} -> {document['receiver']}, "
               f"seen from {_SEEN_FROM[document['view']]}")  # fmt: skip
    if document["view"] in _OF_ONE_END and not _is_elsewhere(diagnosis):
        sheet.line("No other capture here holds this connection: a proxy, or an address translation, may be between.")
    for sentence in document["duplicates"]:
        sheet.line(sentence)
    limits = rows_in_words(diagnosis.limited)
    shown = len(LIMIT_COLUMNS) if any(numbers for *_, numbers in limits) else -1
    sheet.table(LIMIT_COLUMNS[:shown], [row[:shown] for row in limits], right=(1, 2))
    sheet.line()
    if used := channel_use(diagnosis):  # the link was logged
        account = diagnosis.account
        uses = sorted(account.seconds.items(), key=lambda item: -item[1])
        shares = [
            (use.label, f"{seconds:.2f}", f"{100 * (seconds / account.total_s):.1f} %")
            for use, seconds in uses
            if seconds > 0
        ]
        sheet.line(used)
        sheet.table((_ACCOUNT, "seconds", "share"), shares, right=(1, 2))
        sheet.line()
    if not diagnosis.listed:
        sheet.line(diagnosis.no_fault)
    elif diagnosis.unexplained_losses:
        sheet.line(diagnosis.unexplained_losses)
    for known, incident in zip(diagnosis.incidents, document["incidents"], strict=True):
        if known.is_listed:
            _show_incident(sheet, diagnosis, known, incident, document["findings"])


def _is_elsewhere(diagnosis: Diagnosis) -> bool:
    """Return whether another capture has the client's endpoint, or no other capture has TCP."""
    own = diagnosis.transfer.at_sender
    captures = diagnosis.transfer.recording.captures
    others = [each for each in captures if each is not own.capture and len(each.tables.segments)]
    ends = own.capture.analysis.ends(own.connection)
    return not others or any(each.analysis.with_endpoint(ends.src, ends.sport) for each in others)


def _show_incident(
    sheet: Page, diagnosis: Diagnosis, known: Incident, incident: Document, findings: list[Document]
) -> None:
    """Write an incident as its first cause, with what else belongs to it."""
    from multitracer.diagnosis.finding import cost_of
    from multitracer.diagnosis.limits.names import Viewpoint
    from multitracer.diagnosis.sentence import whose_data

    lasts = ends(*(f"{diagnosis.at_s(incident[name]):.1f} s" for name in ("begin_ns", "end_ns")))
    parts = [findings[part] for part in incident["parts"]]
    times = f"{incident['count']} times, " if incident["count"] > 1 else ""
    whose = whose_data(diagnosis.transfer, reverse=known.reverse)
    took = cost_of(f"{known.cost_s:.1f} s", is_weak=known.is_weak)
    cost = f", cost {took}" if known.cost_s >= _WORTH_PRINTING_S else ""
    sheet.line(f"{incident['kind']}{whose}, {times}{lasts}{cost}")
    sheet.line(f"  {incident['sentence']}")
    others = dict.fromkeys(part["kind"] for part in parts if part["kind"] != incident["kind"])
    if others:
        sheet.line(f"  with it: {', '.join(others)}")
    if incident["help"]:
        sheet.line(f"  what would help: {incident['help']}")
    evidence = parts[0]["evidence"]
    if diagnosis.limited.side(reverse=known.reverse).view is Viewpoint.RECEIVER:  # the one capture
        evidence = [re.sub("^sender:", "receiver:", place) for place in evidence]
    sheet.line(f"  evidence: {', '.join(evidence) or _ACCOUNT}")


_MOST_STRETCHES = 20
"""Bad segments of a drive that are printed, those with the highest cost."""
_WORTH_PRINTING_S = 0.05
"""Minimum cost of an incident that is printed, in s: less is 0.0; what it cost is then in the limits above."""
_OF_ONE_END = ("sender-state", "sender", "receiver")
_SEEN_FROM = {
    "link-log": "the link's log",
    "both-ends": "both endpoints",
    "sender-state": "the sender, with the state of its TCP",
    "sender": "the sender's packets",
    "receiver": "the receiver's packets",
    "nowhere": "no suitable capture point",
}
_ACCOUNT = "the link's account"
