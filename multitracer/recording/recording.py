"""A recording: its captures and logs, the numbers of its connections, its clocks, its speed and its warnings.

Connections are numbered from 1 through all capture points, in the order of the points.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import attrgetter
from threading import RLock
from typing import TYPE_CHECKING

import parsers
from multitracer.captured import GSMTAP
from multitracer.endpoints import host_port
from multitracer.errors import InputError, PreflightError
from multitracer.logs import HostLog, ParsedLog
from multitracer.recording.capture import Capture
from multitracer.recording.inputs import STANDARD_INPUT, UNREADABLE, Inputs
from multitracer.recording.window import EVERYTHING, within_both
from multitracer.units import NOT_A_TIME, NS_PER_S
from multitracer.words import count, moment, portable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from multitracer.analysis import Analysis
    from multitracer.analysis.two_points import Counterparts
    from multitracer.capture import CaptureTables
    from multitracer.captured import SourceFile
    from multitracer.clock.session_clock import Clocks
    from multitracer.errors import MultiTracerError
    from multitracer.logs import Point
    from multitracer.manifest import Manifest
    from multitracer.recording.hosts import HostLogs
    from multitracer.recording.quic import QuicRecording
    from multitracer.recording.radio_context import RadioContext
    from multitracer.recording.window import Bounds, Window
    from multitracer.tables import Document, Table


MOST_SPEED = 1_000
"""Maximum speed of a link relative to real time: a recording that states a higher one is read with speed 1."""
NO_CAPTURE = "no packets were captured, so there is no number to trust"
_CANDIDATES = 10
_STATE = attrgetter("st_size", "st_mtime_ns")
"""File attributes that show a change of a file."""


def _forced(name: str) -> str | None:
    text = parsers.forced_reading().get(name)
    return text if isinstance(text, str) else None


@dataclass
class Recording:
    """The captures and logs of one recording.

    Attributes
    ----------
    inputs : Inputs
        The files of the recording.
    captures : list of Capture
        Its capture points; empty without a capture.
    sender_point : str or None
        The capture point that the user names as that of the sender of most data; the others are at the receiver.
    notes : list of str
        Sentences about what was skipped or is unknown; more are added while logs are parsed.
    bounds_ns : (int or None, int or None)
        Bounds to which the captures were cut; None leaves a side open.
    stated : dict
        What the user states of the times in its logs, as `parsers.force_reading` takes it: `zone` and `date`.
    phone : str or None
        The phone whose radio logs are used: its host, its log, or its serial number. None uses all.
    card : int or None
        The card of a phone with several that is shown, as the columns `modem` and `card` number it. None shows all.
    keylog : str or None
        A key log of TLS that opens QUIC, beside those of the session.
    """

    inputs: Inputs
    captures: list[Capture] = field(default_factory=list)
    sender_point: str | None = None
    notes: list[str] = field(default_factory=list)
    bounds_ns: Bounds = (None, None)
    stated: dict[str, str] = field(default_factory=parsers.forced_times)
    phone: str | None = field(default_factory=partial(_forced, "phone"))
    card: int | None = None
    keylog: str | None = field(default_factory=partial(_forced, "keylog"))
    _logs: dict[str, list[ParsedLog]] = field(default_factory=dict, repr=False)
    _losses: dict[str, list[str]] = field(default_factory=dict, repr=False)
    _radio_context: dict[str | None, RadioContext] = field(default_factory=dict, init=False, repr=False)
    _relating: RLock = field(default_factory=RLock, init=False, repr=False, compare=False)
    """Lock during the relation of clocks: since Python 3.12, two threads could otherwise compute a cached
    property twice."""

    def __post_init__(self) -> None:
        self.notes += self.inputs.warnings

    def add(self, point: Point, tables: CaptureTables, known: Analysis | None = None) -> Capture:
        """Add a capture point, whose connections are numbered after the existing ones; see `Capture`."""
        look_inside(tables.files)
        self.captures.append(Capture(point, tables, self.captures[-1] if self.captures else None, known))
        return self.captures[-1]

    def without_captures(self) -> Recording:
        """Return a recording of the same inputs with the same parsed logs, but without captures."""
        inputs = replace(self.inputs, warnings=[])
        notes = list(self.notes)
        return Recording(
            inputs,
            notes=notes,
            stated=self.stated,
            phone=self.phone,
            card=self.card,
            keylog=self.keylog,
            _logs=self._logs,
            _losses=self._losses,
        )

    def choose_card(self, card: int | None) -> None:
        """Show only one card of a phone with several, or all (None)."""
        if card != self.card:
            self.card = card
            self._radio_context.clear()

    def __len__(self) -> int:
        return sum(map(len, self.captures))

    @property
    def name(self) -> str:
        """The name in the manifest, else that of its folder or first file."""
        return self.inputs.name

    @property
    def folder(self) -> Path | None:
        """The session folder; None for single files."""
        return self.inputs.folder

    @property
    def is_one_capture(self) -> bool:
        """Whether the recording is one capture only: no other capture, no log, no manifest."""
        return self.folder is None and len(self.captures) == 1 and not self.inputs.listed

    @property
    def manifest(self) -> Manifest | None:
        """The manifest of the folder; None without one."""
        return self.inputs.manifest

    @property
    def warnings(self) -> list[str]:
        """The notes, and the problems of the files that were read."""
        sentences = list(self.notes)
        for file in (file for capture in self.captures for file in capture.tables.files):
            if file.damaged:
                packets = count(file.packets, "whole packet")
                read = f", {packets} read" if file.lost_ranges else f" after {packets}"
                sentences.append(f"{file.path}: damaged{read}: {file.damaged}")
            guessed = [each for each in (file.guessed_unit, file.guessed_link) if each]
            sentences += [f"{file.path}: {sentence}" for sentence in (*guessed, *file.warnings)]
        return sentences

    @property
    def trust(self) -> str:
        """The worst trust level of the captures: good, caution or poor."""
        from multitracer.analysis.trust import VERDICTS  # noqa: PLC0415  # it needs NumPy

        return max((capture.analysis.trust.verdict for capture in self.captures), key=VERDICTS.index, default="good")

    def trust_document(self) -> Document:
        """Return how far the captures can be trusted, as `analyze --json` and `diagnose --json` write it.

        These are the worst verdict, and the reasons, both as sentences and in parts with what each makes doubtful.
        Without a capture the verdict is null, and a sentence gives the reason.
        """
        notes = [(capture.point.name, note) for capture in self.captures for note in capture.analysis.trust.notes]
        return {
            "verdict": self.trust if self.captures else None,
            "verdict_absent": None if self.captures else NO_CAPTURE,
            "notes": [note.sentence for _, note in notes],
            "reasons": [
                {
                    "capture": portable(point),
                    "code": note.code,
                    "count": note.count,
                    "sentence": note.sentence,
                    "file": None if note.file is None else portable(note.file),
                    "severity": note.severity.name.lower(),
                    "affects": list(note.affects),
                }
                for point, note in notes
            ],
        }

    # --- logs ---

    def logs(self, layer: str) -> list[ParsedLog]:
        """Return the logs of a layer, parsed at the first call; a log that cannot be used adds a warning."""
        if layer not in self._logs:
            before, logs = len(self.notes), list[ParsedLog]()
            for log in self.inputs.listed:
                if log.layer != layer:
                    continue
                try:
                    with self.watched([log.path]), self._times_of(log):
                        _, parsed = parsers.read(log.path)
                except (*UNREADABLE, PreflightError) as error:
                    self.pass_over(error)
                    continue
                if isinstance(parsed, dict):
                    self.notes += _losses(log, parsed)
                    files = [file for capture in self.captures for file in capture.tables.files]
                    if sentence := _far_apart(parsed, files):
                        self.notes.append(f"{log.path}: {sentence}")
                    logs.append(ParsedLog(log, parsed))
            if layer == "radio":
                for each in _signalling_of(self.captures, self.warn_once):
                    self.notes += _losses(*each)
                    logs.append(each)
            self._logs[layer], self._losses[layer] = logs, self.notes[before:]
        for sentence in self._losses.get(layer, ()):  # a recording cut out of this one may have parsed it
            self.warn_once(sentence)
        return self._logs[layer]

    def _times_of(self, log: HostLog) -> contextlib.AbstractContextManager[None]:
        """Return a context in which times of a log without zone or date have those of the user, else of the manifest.

        The manifest of a session of several hosts can state both for each of them.
        """
        stated: dict[str, object] = dict(self.stated)
        if self.manifest is not None:
            host = self.manifest.hosts.get(log.host)
            for name, check in (("zone", parsers.zone_of), ("date", parsers.date_of)):
                text = (None if host is None else host.more.get(name)) or self.manifest.more.get(name)
                if name in stated or text is None:
                    continue
                try:
                    check(str(text))
                    stated[name] = str(text)
                except ValueError as error:
                    what = "time zone" if name == "zone" else name
                    self.warn_once(f"{self.name}: the {what} in the manifest is not used: {error}")
        return parsers.force_reading(**stated) if stated else contextlib.nullcontext()

    @property
    def has_radio_logs(self) -> bool:
        """Whether it holds a log of a radio or of signalling, which GSMTAP packets in a capture are, too."""
        if any(map(self.inputs.holds, ("radio", "signalling"))):
            return True
        return any(GSMTAP in file.protocols for capture in self.captures for file in capture.tables.files)

    def tables(self, layer: str, name: str) -> Iterator[tuple[HostLog, Table]]:
        """Yield a named table of each log of a layer that has it, with the log."""
        for log, tables in self.logs(layer):
            if name in tables:
                yield log, tables[name]

    @contextlib.contextmanager
    def watched(self, paths: Iterable[str], notes: list[str] | None = None) -> Iterator[None]:
        """Add a warning for each of these files that changes while the `with` statement runs.

        It is added to `notes`, or to the notes of the recording.
        """
        before = {path: _STATE(os.stat(path)) for path in paths if os.path.isfile(path)}  # noqa: PTH113, PTH116
        yield
        for path, state in before.items():
            if not os.path.isfile(path) or _STATE(os.stat(path)) != state:  # noqa: PTH113, PTH116
                (self.notes if notes is None else notes).append(
                    f"{path}: changed while it was read; its records up to that moment are used"
                )

    def warn_once(self, sentence: str) -> None:
        """Add a warning, unless it was added before."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def pass_over(self, error: MultiTracerError) -> None:
        """Add a note for a file in a folder that cannot be used.

        The error is raised instead if the user named the file.
        """
        if self.folder is None:
            raise error
        self.notes.append(f"{error}; skipped")

    @cached_property
    def hosts(self) -> HostLogs:
        """The logs of the hosts besides packets."""
        from multitracer.recording.hosts import HostLogs  # noqa: PLC0415  # a single capture needs none

        return HostLogs.of(self)

    @cached_property
    def quic(self) -> QuicRecording:
        """The QUIC connections of its captures and qlogs; the captures are read again for it."""
        from multitracer.recording.quic import quic_of  # noqa: PLC0415  # few recordings are asked for it

        collected = quic_of(self)
        for sentence in collected.notes:
            self.warn_once(sentence)
        return collected

    def radio_context(self, point: str | None = None) -> RadioContext:
        """Return the radio and position data, on the clock of a capture point or else of their hosts."""
        from multitracer.recording.radio_context import RadioContext  # noqa: PLC0415  # a capture needs none

        return self._radio_context.setdefault(point, RadioContext(self, point))

    def check_phone(self) -> None:
        """Raise InputError if the phone that the user chose is not in the recording."""
        self.radio_context().phones  # noqa: B018  # it raises

    # --- time ---

    @cached_property
    def speed(self) -> float:
        """Link seconds per recorded second: from the manifest, else from the link logs, else 1."""
        stated = self.manifest.variables.speed if self.manifest else None
        if stated is not None:
            if _speed(stated) is None:
                self.warn_once(f"{self.name}: no link has the speed {stated:g} of manifest.json; 1 is taken")
            return _speed(stated) or 1.0
        headers = (table.provenance.get("header", {}) for _, table in self.tables("link", "link_frames"))
        speeds = {_speed(header["speed"]) for header in headers if "speed" in header} - {None}
        if len(speeds) > 1:
            self.warn_once(f"{self.name}: its link logs state several speeds; 1 is taken")
        return next(iter(speeds)) or 1.0 if len(speeds) == 1 else 1.0

    def counterparts(self, near: Capture, far: Capture) -> Counterparts:
        """Return a search for the connections of capture `near` in capture `far`; it is cached."""
        from multitracer.analysis.two_points import Counterparts  # noqa: PLC0415  # needs two

        pair = near.offset, far.offset
        return self._counterparts.setdefault(pair, Counterparts(near.analysis, far.analysis))

    @cached_property
    def _counterparts(self) -> dict[tuple[int, int], Counterparts]:
        return {}

    @property
    def clocks(self) -> Clocks | None:
        """The relations of its clocks (docs/clock.md); None if there is only one capture."""
        with self._relating:
            return self._clocks

    @cached_property
    def _clocks(self) -> Clocks | None:
        if len(self.captures) < 2:
            return None
        return self.align(thorough=False)

    @property
    def all_clocks(self) -> Clocks:
        """All relations of its clocks, also of logs without a capture, and their faults: `align`, done once."""
        with self._relating:
            return self._all_clocks

    @cached_property
    def _all_clocks(self) -> Clocks:
        return self.align()

    def align(self, *, reference: str | None = None, thorough: bool = True, evidence: bool = False) -> Clocks:
        """Relate the clocks of the recording; see `multitracer.clock.session_clock.clocks_of`."""
        from multitracer.clock.session_clock import clocks_of  # noqa: PLC0415  # a single capture needs none

        return clocks_of(self, self._compared, reference=reference, thorough=thorough, evidence=evidence)

    @property
    def _compared(self) -> list[Capture]:
        """The captures as their clocks are compared: those without TCP by the datagrams of their QUIC."""
        if any(len(capture.tables.segments) for capture in self.captures):
            return self.captures
        from multitracer.recording.quic import may_hold_quic, with_datagrams  # noqa: PLC0415  # few hold QUIC

        return with_datagrams(self) if may_hold_quic(self) else self.captures

    # --- connections ---

    def numbered(self, number: int) -> tuple[Capture, int]:
        """Return the capture that holds connection `number`, and the connection's number in that capture.

        Raises
        ------
        InputError
            If there is no such connection.
        """
        for capture in self.captures:
            if 0 < number - capture.offset <= len(capture):
                return capture, number - capture.offset
        raise InputError(f"there is no connection {number}; the number of connections is {len(self)}")

    def with_endpoint(self, host: str, port: int) -> list[tuple[Capture, int]]:
        """Return the connection with this endpoint, once for each capture that holds it.

        Raises
        ------
        InputError
            If there is none, or several within one capture; the message lists them.
        """
        fitting = [(capture, n) for capture in self.captures for n in capture.analysis.with_endpoint(host, port)]
        if not fitting:
            raise InputError(
                f"no connection has the endpoint {host_port(host, port)}; `multitracer inspect` lists the connections"
            )
        if len({id(capture) for capture, _ in fitting}) < len(fitting):
            raise InputError(
                f"several connections have the endpoint {host_port(host, port)}: {_names(fitting)}; "
                "give the number of one of these connections"
            )
        return fitting

    def largest(self, count: int) -> list[tuple[Capture, int]]:
        """Return up to `count` connections with the most unique bytes, in order of their numbers."""
        candidates: list[tuple[int, Capture, int]] = []
        for capture in self.captures:
            both = capture.analysis.unique_bytes()
            candidates += [(int(both[i]), capture, int(i) + 1) for i in (-both).argsort(kind="stable")[:count]]
        candidates.sort(key=lambda each: -each[0])
        return sorted(((p, n) for _, p, n in candidates[:count]), key=lambda each: each[0].offset + each[1])

    @property
    def connections_in_words(self) -> str:
        """How many connections it holds: "1 TCP connection at 2 capture points" if all points have the same.

        Connections are taken for the same by their endpoints; numbers count each point on its own.
        """
        points = [capture for capture in self.captures if len(capture)]
        sizes = {len(capture) for capture in points}
        if len(points) > 1 and len(sizes) == 1 and max(sizes) <= _MOST_COMPARED:
            (size,) = sizes
            ends = {tuple(sorted(capture.analysis.endpoints(0, size))) for capture in points}
            if len(ends) == 1:
                return f"{count(size, 'TCP connection')} at {len(points)} capture points"
        return count(len(self), "TCP connection")

    def chosen(self, number: int | None) -> tuple[Capture, int]:
        """Return the connection with a number; for None, the connection with the most unique bytes.

        Raises
        ------
        InputError
            If there is no such connection, or none at all.
        """
        if number is not None:
            return self.numbered(number)
        if not (largest := self.largest(1)):
            here = (
                "; `multitracer report` shows the radio and position logs of this recording"
                if self.radio_context()
                else ""
            )
            raise InputError(f"{self.name}: {self._without_tcp()}{here}")
        return largest[0]

    def _without_tcp(self) -> str:
        """Return a clause on the absence of connections: what the captures hold that have packets."""
        notes = [note for capture in self.captures for note in capture.analysis.trust.notes]
        absent = "this recording contains no TCP connection"
        if self.captures and self.bounds_ns != (None, None):
            absent = "no TCP segment lies between begin and end"
        return next((note.sentence.rstrip(".") for note in notes if note.code == "no-tcp"), absent)


def look_inside(files: Sequence[SourceFile]) -> None:
    """Add to capture files with few segments, or none, what they hold instead, if they can be read again."""
    tcp = sum(file.protocols.get("tcp", 0) for file in files)
    if tcp >= _LITTLE * sum(file.packets for file in files) > 0:
        return
    for file in files:
        if file.packets and not file.contents and os.path.isfile(file.path):  # noqa: PTH113  # a name may hold NUL
            with contextlib.suppress(*UNREADABLE):
                file.contents = parsers.contents_of(file.path, has_tcp=tcp > 0)


_MOST_COMPARED = 10_000
"""Maximum number of connections of a capture whose endpoints are compared: some 0.1 s. Not measured."""
_LITTLE = 0.1
"""Share of TCP in the packets below which the others are looked at; as the note `little-tcp` of trust."""


def _names(candidates: list[tuple[Capture, int]]) -> str:
    """Return a text that lists the connections that the user can choose from."""
    words = []
    for capture, n in candidates[:_CANDIDATES]:
        ends = capture.analysis.ends(n)
        words.append(f"{capture.offset + n} ({ends.source} -> {ends.destination})")
    more = f" and {len(candidates) - _CANDIDATES} more" if len(candidates) > _CANDIDATES else ""
    return f"{', '.join(words)}{more}; choose one by its number"


def _losses(log: HostLog, tables: dict[str, Table]) -> Iterator[str]:
    """Yield sentences about data that could not be read or were assumed, from the tables' provenance."""
    provenances = [table.provenance for table in tables.values()]
    for warning in dict.fromkeys(warning for provenance in provenances for warning in provenance.get("warnings") or ()):
        yield f"{log.path}: {warning}"
    reasons = [provenance.get("damaged") for provenance in provenances]
    for reason in dict.fromkeys(reason for reason in reasons if reason):
        yield f"{log.path}: damaged: {reason}; the part before it is used"


def _speed(stated: object) -> float | None:
    """Return the speed in a manifest or log; None if it is not a possible speed of a link."""
    try:
        speed = float(stated) if isinstance(stated, str | int | float) else 0.0
    except ValueError:
        return None
    return speed if 0 < speed <= MOST_SPEED else None


# Cuts a recording to an interval of time, and warns if the interval holds no data.


def is_emptied(complete: Sequence[CaptureTables], parts: Sequence[CaptureTables]) -> bool:
    """Return whether a time window removed all segments, although the complete captures had some."""
    held, kept = (sum(len(tables.segments) for tables in each) for each in (complete, parts))
    return held > 0 and not kept


def cut_recording(recording: Recording, window: Window) -> tuple[Recording, Bounds]:
    """Return the recording with its captures cut to a time window, and the bounds of the window in ns.

    Logs that are parsed already stay parsed, and are not cut.

    Raises
    ------
    WindowError
        If the end is not after the start.
    InputError
        If the window is given in seconds, and no packet or reading exists to count them from.
    """
    bounds_ns = bounds_of(recording, window)
    cut = recording.without_captures()
    cut.bounds_ns = within_both(recording.bounds_ns, bounds_ns)
    parts = [capture.tables.between(*bounds_ns) for capture in recording.captures]
    for capture, tables in zip(recording.captures, parts, strict=True):
        cut.add(capture.point, tables)
    if is_emptied([capture.tables for capture in recording.captures], parts):
        cut.notes.append("no TCP segment lies between begin and end; all numbers are of an empty capture")
    return cut, bounds_ns


def bounds_of(recording: Recording, window: Window) -> Bounds:
    """Return the bounds of a window in ns; its seconds count from the first packet or reading."""
    if any(capture.tables.first_ns is not None for capture in recording.captures):
        return window.bounds_ns((capture.tables for capture in recording.captures), speed=recording.speed)
    first_ns = None if recording.captures else recording.radio_context().first_ns
    if window.is_relative and first_ns is None:
        raise InputError(
            f"{recording.name}: this recording contains no packet or reading, from which seconds "
            "could be counted; give ISO 8601 times"
        )
    return window.bounds_from(first_ns or 0, recording.speed)


def warn_of_empty(recording: Recording, window: Window) -> None:
    """Add a warning to the recording if the window contains no segment and no reading.

    The recording is not cut.
    """
    if window == EVERYTHING:
        return
    if not recording.captures:
        if not recording.radio_context().shown(bounds_of(recording, window)):
            recording.notes.append("no reading lies between --from and --to; what shows that time is empty")
        return
    complete = [capture.tables for capture in recording.captures]
    bounds_ns = window.bounds_ns(complete, speed=recording.speed)
    if is_emptied(complete, [tables.between(*bounds_ns) for tables in complete]):
        recording.notes.append("no TCP segment lies between --from and --to; what shows that time is empty")


# A log whose times are days or years away from those of the packets.


_DAY_NS = 86_400 * NS_PER_S
_YEAR_NS = round(365.25 * _DAY_NS)
_MIN_APART_NS = _DAY_NS
"""Minimum distance that is said here: less may be a time zone, which `align` and the clock check examine."""
_ROLLOVER_NS = 1024 * 7 * _DAY_NS
"""The week number of GPS has 10 bits (IS-GPS-200, 20.3.3.3.1.1)."""
_NOT_SET_NS = round(10.1 * _YEAR_NS)
"""End of January 1980: clocks that nobody set begin in 1970, or on 1980-01-01 or -06."""


def _far_apart(tables: Mapping[str, Table], files: Iterable[SourceFile]) -> str:
    """Return a sentence if all times of a log are more than a day from all packets; else an empty text.

    Parameters
    ----------
    tables : mapping of str to Table
        The tables of the log.
    files : iterable of SourceFile
        The files of all captures.
    """
    packets = [time for file in files for time in (file.first_ns, file.last_ns) if time is not None]
    stamps = [table["time_ns"] for table in tables.values() if "time_ns" in table.columns]
    known = [times[times != NOT_A_TIME] for times in stamps]
    ends = [int(end) for times in known if len(times) for end in (times.min(), times.max())]
    if not packets or not ends:
        return ""
    first_ns, last_ns = min(packets), max(packets)
    before_ns, after_ns = first_ns - max(ends), min(ends) - last_ns
    apart_ns = max(before_ns, after_ns)
    if apart_ns < _MIN_APART_NS:
        return ""
    side = "before" if before_ns > after_ns else "after"
    undated = any(table.provenance.get("date") == "unknown" for table in tables.values())
    return (
        f"its times ({moment(min(ends))}) are {_long(apart_ns)} {side} those of the packets "
        f"({moment(first_ns)}), so nothing of it is at the time of a packet{_why(min(ends), first_ns, undated=undated)}"
    )


def _why(log_ns: int, packets_ns: int, *, undated: bool) -> str:
    if undated:
        return f"; its lines name no date: give that of the first line, such as --date {moment(packets_ns)[:10]}"
    weeks = round((packets_ns - log_ns) / _ROLLOVER_NS)
    if weeks and abs(packets_ns - log_ns - weeks * _ROLLOVER_NS) < 7 * _DAY_NS:
        return "; 1,024 weeks are a rollover of the week number of GPS: correct the dates of the log"
    if log_ns < _NOT_SET_NS:
        return "; its clock was not set: record it again, with a clock that is set"
    if packets_ns < _NOT_SET_NS:
        return "; the clock of the capture was not set"
    return "; check whether it belongs to this recording"


def _long(apart_ns: int) -> str:
    if apart_ns >= _YEAR_NS:
        return f"{apart_ns / _YEAR_NS:.1f} years"
    return f"{apart_ns / _DAY_NS:.1f} days"


# Signalling messages in the captures: GSMTAP packets from SCAT or QCSuper.


def _signalling_of(captures: Iterable[Capture], warn: Callable[[str], None]) -> Iterator[ParsedLog]:
    """Yield `signalling`, `radio` and `handovers` of each capture file that holds GSMTAP packets.

    A file whose packets cannot be dissected adds a warning; its TCP packets are still used.
    """
    from parsers._packets.decode import GSMTAP_LINKTYPES  # noqa: PLC0415  # few ask

    for capture in captures:
        for file in capture.tables.files:
            if GSMTAP not in file.protocols and GSMTAP_LINKTYPES.isdisjoint(file.link_types):
                continue  # no packets of it by their port or by their link type
            from parsers._signalling.signalling import read_signalling  # noqa: PLC0415  # few captures hold any

            if file.path == STANDARD_INPUT:
                warn(
                    "standard input: the signalling in this capture is not read, because the "
                    "capture would have to be read twice; name a file"
                )
                continue
            try:
                tables = read_signalling(file.path)
            except (PreflightError, *UNREADABLE) as error:
                warn(f"{file.path}: the signalling in this capture is not read: {error}")
                continue
            yield ParsedLog(HostLog(capture.point.name, file.path, GSMTAP, "radio"), tables)
