"""Carries out a plan, transaction by transaction, and continues where an earlier run was interrupted."""

from __future__ import annotations

import contextlib
import csv
import fcntl
import io
import os
import secrets
import time
from typing import TYPE_CHECKING

from multitracer.errors import FormatError, InputError
from multitracer.manifest import (
    MANIFEST,
    RECORDED_AT,
    Host,
    LogFile,
    Manifest,
    Role,
    checksum,
    read_manifest,
    write_manifest,
)
from multitracer.measure.outcome import UnreachableError
from multitracer.schemas.transactions import LABEL, LOGGED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from multitracer.measure.iperf3 import LoadPlan
    from multitracer.measure.latency import LatencyPlan
    from multitracer.measure.live_logs import RunningRecording
    from multitracer.measure.outcome import Client, TransactionOutcome
    from multitracer.measure.plan import MeasurementPlan, Transaction

    Connect = Callable[[int], Client]
    """Function that returns a client for the number of a run."""
    Progress = Callable[[int, int, int], None]
    """Function called with the numbers of finished, dropped and planned transactions."""

# transactions.csv: one line for each finished transaction, on disk before the next transaction begins.
#
# A line that a crash cut is removed when the file is opened again; what is before it is never touched.


FILE = "transactions.csv"


class MeasureJournal:
    """The file transactions.csv of one session folder.

    Parameters
    ----------
    folder : Path
        The session folder.
    plan : MeasurementPlan
        What is measured; its labels are columns.
    lasting : bool
        Whether a line must survive a power failure; not needed for results in virtual time.

    Raises
    ------
    FormatError
        If the file exists and belongs to another plan.
    """

    def __init__(self, folder: Path, plan: MeasurementPlan, *, lasting: bool = True) -> None:
        self._plan = plan
        self._lasting = lasting
        self._columns = self._columns_of(LOGGED[0])
        self.path = folder / FILE
        self.outcomes: dict[int, str] = {}
        """Outcome of each transaction that is done, by its number."""
        self.rtts_s: dict[int, float] = {}
        try:
            self._stream = self.path.open("a+b")
        except OSError as error:
            raise InputError(f"{self.path}: cannot open this file: {error.strerror}; name another folder") from error
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._recover()
        except BlockingIOError as error:
            self.close()
            raise InputError(f"{self.path}: another run is writing to this file; wait until it ends") from error
        except FormatError:
            self.close()
            raise

    @property
    def dropped(self) -> int:
        """How many transactions were dropped."""
        return sum(outcome != "ok" for outcome in self.outcomes.values())

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def add(self, transaction: Transaction, outcome: TransactionOutcome) -> None:
        """Write a finished transaction to the disk."""
        self._write(self._row(transaction, outcome))
        self._note(transaction.number, outcome.outcome, outcome.seconds(outcome.rtt_ns))

    def _note(self, number: int, outcome: str, rtt_s: float | None) -> None:
        self.outcomes[number] = outcome
        if outcome == "ok" and rtt_s is not None:
            self.rtts_s[number] = rtt_s

    def _recover(self) -> None:
        self._stream.seek(0)
        text = self._stream.read()
        complete = text[: text.rfind(b"\n") + 1]
        if complete != text:
            self._stream.truncate(len(complete))
        if not complete:
            self._write(self._columns)
            return
        header, *rows = csv.reader(io.StringIO(complete.decode("utf-8", "replace")))
        if header not in [self._columns_of(known) for known in LOGGED]:
            raise FormatError(self.path, "this file belongs to another plan; give another folder")
        self._columns = header
        for line, row in enumerate(rows, start=2):
            self._recall(row, line)

    def _columns_of(self, known: tuple[str, ...]) -> list[str]:
        return [*known, *(LABEL + name for name in self._plan.label_names)]

    def _recall(self, row: list[str], line: int) -> None:
        values = dict(zip(self._columns, row, strict=False))
        try:
            rtt_s = float(values["rtt_s"]) if values["rtt_s"] else None
            self._note(int(values["transaction"]), values["outcome"], rtt_s)
        except (KeyError, ValueError) as error:
            raise FormatError(self.path, "this line is damaged; give another folder", line=line) from error

    def _write(self, row: Sequence[object]) -> None:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerow(["" if value is None else value for value in row])
        self._stream.write(out.getvalue().encode())
        self._stream.flush()
        if self._lasting:
            os.fsync(self._stream.fileno())

    def _row(self, each: Transaction, outcome: TransactionOutcome) -> list[object]:
        plan = self._plan
        values = {
            "transaction": each.number, "protocol": plan.protocol, "vary": each.vary, "size_bytes": each.size_bytes,
            "repetition": each.repetition, "request_bytes": each.request_bytes, "reply_bytes": each.reply_bytes,
            "connection": each.connection, "timeout_s": plan.timeout_s, "start_ns": outcome.start_ns,
            "connect_s": outcome.seconds(outcome.connect_ns), "rtt_s": outcome.seconds(outcome.rtt_ns),
            "server_rtt_s": outcome.seconds(outcome.server_rtt_ns),
            "retransmitted_client": outcome.retransmitted_client,
            "retransmitted_server": outcome.retransmitted_server,
            "bytes_up": outcome.bytes_up, "bytes_down": outcome.bytes_down, "efficiency": outcome.efficiency(each),
            "clock_offset_s": outcome.seconds(outcome.clock_offset_ns),
            "clock_uncertainty_s": outcome.seconds(outcome.clock_uncertainty_ns),
            "outcome": outcome.outcome, "why": outcome.why,
        } | (outcome.context or {}) | {LABEL + name: value for name, value in each.labels.items()}  # fmt: skip
        return [values.get(name) for name in self._columns]


HOST = "client"


def carry_out(  # noqa: PLR0913  # as `run_virtual`
    plan: MeasurementPlan,
    folder: Path,
    connect: Connect,
    *,
    progress: Progress,
    about: Manifest | None = None,
    lasting: bool = True,
    recording: RunningRecording | None = None,
) -> MeasureJournal:
    """Do every transaction of a plan that is not done yet.

    Parameters
    ----------
    plan : MeasurementPlan
        What to do.
    folder : Path
        The session folder: new, empty, or of an earlier run of the same plan.
    connect : callable
        Makes the client.
    progress : callable
        Called after each transaction.
    about : Manifest, optional
        Further content of the manifest of a new folder. If an earlier run is continued, the variables must
        equal those of the folder.
    lasting : bool
        As `MeasureJournal`.
    recording : RunningRecording, optional
        The recording that this run is part of. If it writes the manifest of `folder`, this run does not.

    Returns
    -------
    MeasureJournal
        The outcome of each transaction; already closed.

    Raises
    ------
    InputError
        If the folder belongs to another session, or the server does not answer.
    """
    manifest = opened(plan, folder, about or client_manifest(folder, recording=recording))
    with contextlib.closing(MeasureJournal(folder, plan, lasting=lasting)) as journal:
        if is_left(plan, journal):
            with contextlib.closing(connect(secrets.randbits(64))) as client:
                _reach(client, plan)
                do_all(plan, journal, client, progress=_checked(progress, recording, folder))
    if recording is None or not recording.writes(folder):
        note_files(manifest, folder, [FILE])
    return journal


def _checked(progress: Progress, recording: RunningRecording | None, folder: Path) -> Progress:
    """Return `progress`, which also ends the run if the recording of `folder` was killed."""

    def checked(done: int, dropped: int, total: int) -> None:
        progress(done, dropped, total)
        if recording is not None:
            recording.check(folder)

    return checked


def _reach(client: Client, plan: MeasurementPlan) -> None:
    try:
        client.reach()
    except UnreachableError as error:
        start = f"multitracer measure serve --protocol {plan.protocol} --listen {plan.server}"
        raise InputError(
            f"{plan.server}: the server cannot be reached ({error}); check that `{start}` is running"
        ) from error


def is_left(plan: MeasurementPlan, journal: MeasureJournal) -> bool:
    """Return whether a transaction of the plan is not done yet."""
    return len(journal.outcomes) < plan.count


def do_all(plan: MeasurementPlan, journal: MeasureJournal, client: Client, *, progress: Progress) -> None:
    """Do every transaction that is not in the journal yet; report the progress before and after each one."""
    for each in plan.transactions():
        if each.number not in journal.outcomes:
            tell(journal, plan, progress)
            journal.add(each, client.transact(each))
    tell(journal, plan, progress)


def tell(journal: MeasureJournal, plan: MeasurementPlan, progress: Progress) -> None:
    """Report how many transactions of a plan are done."""
    progress(len(journal.outcomes), journal.dropped, plan.count)


def opened(plan: MeasurementPlan | LoadPlan | LatencyPlan, folder: Path, about: Manifest) -> Manifest:
    """Return the folder's manifest; make folder and manifest if they do not exist.

    Raises
    ------
    InputError
        If the folder is another session's.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        entries = {entry.name for entry in folder.iterdir()} - {f"{MANIFEST}.tmp"}
    except OSError as error:
        raise InputError(f"{folder}: cannot use this folder: {error.strerror}; name another folder") from error
    about.variables.measurement = plan.measurement()
    about.variables.more |= plan.labels
    if not entries:
        write_manifest(folder, about)
        return about
    manifest = read_manifest(folder) or Manifest("")
    there = manifest.variables.document()
    if any(there.get(name) != value for name, value in about.variables.document().items()):
        raise InputError(f"{folder}: this folder is not empty and does not belong to this plan; name another folder")
    return manifest


def client_manifest(folder: Path, host: str = HOST, *, recording: RunningRecording | None = None) -> Manifest:
    """Return the manifest of a new measurement whose client is a host with this name.

    `recording` is the recording during which it runs, whose host the manifest names.
    """
    more = {} if recording is None else {RECORDED_AT: recording.host.name}
    hosts = {host: Host(role=Role.CLIENT)}
    return Manifest(folder.resolve().name, created_ns=time.time_ns(), hosts=hosts, more=more)


def note_files(manifest: Manifest, folder: Path, names: list[str]) -> None:
    """Write the sizes and checksums of the client's files into the manifest."""
    others = [log for log in manifest.files if log.path not in names]
    paths = [(name, folder / name) for name in names]
    manifest.files = [*others, *(LogFile(name, HOST, path.stat().st_size, checksum(path)) for name, path in paths)]
    write_manifest(folder, manifest)
