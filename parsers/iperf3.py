"""Output of `iperf3 --json` and `--json-stream`: rates of each stream in each interval, and sums.

Times are the start of the test, which iperf3 gives in whole seconds, plus its own seconds since: so all times
are uncertain by about one second. Several tests may follow each other in one log. Source:
iperf_api.c of iperf3; the fields of `--json-stream` are those of the same objects, an event a line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

from multitracer.endpoints import host_port, host_text
from multitracer.errors import FormatError
from multitracer.schemas.application import APPLICATION_RATE, APPLICATION_SUMS, LAYER
from multitracer.units import BITS_PER_BYTE, NS_PER_S
from parsers._format import Format, Match
from parsers._text.collector_log import Sparse
from parsers._text.json_log import documents, members, section, words
from parsers._text.lines import LogLines
from parsers._text.times import address, complete, real

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from multitracer.tables import Document, Table

_SNIFFED = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\[?\s*\{\s*"(?:start"\s*:\s*\{|event"\s*:\s*"start")')
_OWN = (b'"connected"', b'"cookie"', b'"system_info"')
_US_PER_S, _MS_PER_S = 1e6, 1e3
_LONGEST_S = 1e8
"""Maximum duration: three years; iperf3 refuses tests longer than a day."""
_LATE = 1.01
"""Maximum ratio of the two stated lengths of an interval; in valid files they differ by less than 0.1 %."""
_LATEST_S = 1 << 33
_COUNTS = ("bytes", "retransmits", "packets", "lost_packets")
"""Numbers of an interval that add up to those of the stream."""
_MOST_PORT = 0xFFFF


def _tests(objects: Sequence[Document]) -> Iterator[Document]:
    """Yield each test as one document: `--json` writes them so, `--json-stream` as events."""
    test: Document | None = None
    for document in objects:
        event, data = document.get("event"), document.get("data")
        if "start" in document:
            yield document
        elif event == "start":
            if test is not None:
                yield test
            test = {"start": data, "intervals": []}
        elif test is not None and event == "interval":
            test["intervals"].append(data)
        elif test is not None and event in ("end", "error"):
            test[event] = data
    if test is not None:
        yield test


class Iperf3Log:
    """The rows read so far."""

    def __init__(self, lines: LogLines) -> None:
        self._lines = lines
        self.rates = Sparse(APPLICATION_RATE)
        self.sums = Sparse(APPLICATION_SUMS)
        self.errors: list[str] = []

    def take(self, run: int, test: Document) -> None:
        """Use one test."""
        self._run = run
        start = section(test, "start")
        begin_s = self._lines.real(section(start, "timestamp"), "timesecs", most=_LATEST_S)
        self._begin_ns = None if begin_s is None else int(begin_s) * NS_PER_S
        self._ends = {str(each.get("socket")): _endpoints(each) for each in members(start, "connected")}
        options = section(start, "test_start")
        self._reverse = bool(options.get("reverse"))
        self._omit_s = self._lines.real(options, "omit", most=_LONGEST_S) or 0.0
        if begin_s is None:
            self._lines.warn("an iperf3 test in this file has no start time, so its rows have no times")
        if error := words(test.get("error"), 200):
            self.errors.append(error)
        carried: dict[str, Document] = {}
        for interval in members(test, "intervals"):
            for stream in members(interval, "streams"):
                self._rate(stream)
                _carry(carried, stream)
        ended = members(section(test, "end"), "streams")
        for stream in ended:
            self._sum(stream, "sender")
            self._sum(stream, "receiver")
            if "udp" in stream:
                self._of_udp(section(stream, "udp"), carried)
        if not ended and carried:
            self._lines.warn("an iperf3 test has no end, so its sums are those of its intervals")
            for stream in carried.values():
                is_sent = self._direction(stream.get("sender")) == "sent"
                self._sum({"own": stream}, "own", "sender" if is_sent else "receiver")

    def _of_udp(self, udp: Document, carried: dict[str, Document]) -> None:
        """Use the count of a stream of UDP: `bytes` are those sent, the others are of the receiver."""
        sent, packets, lost = (complete(udp.get(name)) for name in ("bytes", "packets", "lost_packets"))
        own = carried.get(words(udp.get("socket"), 64), {})
        received = None
        if self._direction(udp.get("sender")) == "received" and own:
            received = complete(own.get("bytes"))
        elif sent and packets and lost is not None and lost <= packets:
            received = round(sent / packets) * (packets - lost)
        seconds = real(udp.get("seconds"), most=_LONGEST_S)
        rate_bps = received * BITS_PER_BYTE / seconds if received is not None and seconds else None
        counts = {"packets": packets, "lost_packets": lost, "jitter_ms": udp.get("jitter_ms")}
        if sent or not received:  # a server does not know what the client sent
            self._sum({"sender": {**udp, **dict.fromkeys(counts)}}, "sender")
        self._sum({"receiver": {**udp, "bytes": received, "bits_per_second": rate_bps}}, "receiver")

    def tables(self, path: str, name: str, *, tests: int) -> dict[str, Table]:
        """Return the tables.

        Raises
        ------
        FormatError
            If no test has an interval or a sum.
        """
        why = f"; error of iperf3: {self.errors[0]}" if self.errors else ""
        why += f"; {self._lines.damage}" if self._lines.damage else ""
        if not len(self.rates) and not len(self.sums):
            raise FormatError(path, f"the file contains neither intervals nor sums of an iperf3 test{why}")
        for error in self.errors:
            self._lines.warn(f"iperf3 reported an error: {error}")
        facts = self._lines.provenance(path, name, tests=tests, begin_known_to_s=1)
        return {"application_rate": self.rates.table(facts), "application_sums": self.sums.table(facts)}

    def _rate(self, stream: Document) -> None:
        omitted = bool(stream.get("omitted"))
        stream = stream if omitted else _counted_anew(stream)
        stamps = self._stamps(stream, from_s=0.0 if omitted else self._omit_s)
        if stamps is None:
            self._lines.skip("an interval has no times")
            return
        rtt, rttvar = (self._lines.real(stream, name) for name in ("rtt", "rttvar"))
        self.rates.append(
            {
                **stamps,
                "direction": self._direction(stream.get("sender")),
                "bytes": self._lines.complete(stream, "bytes"),
                "rate_bps": self._lines.real(stream, "bits_per_second"),
                "retransmitted_segments": self._lines.complete(stream, "retransmits"),
                **self._of_datagrams(stream),
                "cwnd_bytes": self._lines.complete(stream, "snd_cwnd"),
                "rtt_s": rtt / _US_PER_S if rtt else None,  # 0: the kernel has measured none
                "rttvar_s": rttvar / _US_PER_S if rtt and rttvar is not None else None,
                "omitted": int(omitted),
            }
        )

    def _sum(self, stream: Document, key: str, reporter: str = "") -> None:
        count = section(stream, key)
        stamps = self._stamps(count, from_s=self._omit_s) if count else None
        if stamps is None:
            return
        self.sums.append(
            {
                **stamps,
                "reporter": reporter or key,
                "direction": self._direction(count.get("sender")),
                "bytes": self._lines.complete(count, "bytes"),
                "rate_bps": self._lines.real(count, "bits_per_second"),
                "retransmitted_segments": self._lines.complete(count, "retransmits"),
                **self._of_datagrams(count),
            }
        )

    def _direction(self, sender: object) -> str:
        """Return the direction of a stream; versions before 3.7 state it only for the whole test."""
        is_sender = sender if isinstance(sender, bool) else not self._reverse
        return "sent" if is_sender else "received"

    def _stamps(self, stream: Document, *, from_s: float) -> Document | None:
        """Return the times of a count, in seconds after these: what is omitted is not counted."""
        since, until = (self._lines.real(stream, name, most=_LONGEST_S) for name in ("start", "end"))
        if since is None or until is None or until < since:
            return None
        since, until = from_s + since, from_s + until
        series = words(stream.get("socket"), 64)
        local, remote = self._ends.get(series, ("", ""))
        begin_ns = self._begin_ns
        return {
            "time_ns": None if begin_ns is None else begin_ns + round(since * NS_PER_S),
            "until_ns": None if begin_ns is None else begin_ns + round(until * NS_PER_S),
            "run": self._run, "source": "iperf3", "series": series, "local": local, "remote": remote,
        }  # fmt: skip

    def _of_datagrams(self, count: Document) -> Document:
        """Return what the receiver of UDP counts: datagrams, those lost, and the jitter."""
        jitter_ms = self._lines.real(count, "jitter_ms")
        return {
            "packets": self._lines.complete(count, "packets"),
            "lost_packets": self._lines.complete(count, "lost_packets"),
            "jitter_s": None if jitter_ms is None else jitter_ms / _MS_PER_S,
        }


def _carry(carried: dict[str, Document], stream: Document) -> None:
    """Add an interval that counts to the sums of its stream, by the stream's name."""
    since, until = (real(stream.get(name), most=_LONGEST_S) for name in ("start", "end"))
    if stream.get("omitted") or since is None or until is None:
        return
    nothing = dict.fromkeys((*_COUNTS, "bits_per_second"))
    known = carried.setdefault(words(stream.get("socket"), 64), {**stream, **nothing})
    known |= {"start": min(known["start"], since), "end": until, "jitter_ms": stream.get("jitter_ms")}
    for name in _COUNTS:
        if (value := complete(stream.get(name))) is not None:
            known[name] = (known[name] or 0) + value
    if known["bytes"] and until > known["start"]:
        known["bits_per_second"] = known["bytes"] * BITS_PER_BYTE / (until - known["start"])


def _counted_anew(stream: Document) -> Document:
    """Return the first interval after the omitted ones as it was.

    Where iperf3 (seen with 3.12) puts its clock back to 0 after it noted the begin of this interval, it
    writes that begin, and a length and a rate that hold the omitted interval, too: it is longer than its end.
    """
    until, length = (real(stream.get(name), most=_LONGEST_S) for name in ("end", "seconds"))
    if not until or not length or length <= until * _LATE:
        return stream
    carried = complete(stream.get("bytes"))
    rate_bps = None if carried is None else carried * BITS_PER_BYTE / until
    return {**stream, "start": 0.0, "bits_per_second": rate_bps}


def _endpoints(connected: Document) -> tuple[str, str]:
    """Return the local and the remote end of a stream; each empty if it is not named."""
    texts = []
    for side in ("local", "remote"):
        host, port = words(connected.get(f"{side}_host"), 64), complete(connected.get(f"{side}_port"))
        try:
            text = host_text(*address(host))
        except ValueError:  # a name, or damage
            text = ""
        texts.append(host_port(text, port) if text and port is not None and port <= _MOST_PORT else "")
    return texts[0], texts[1]


def sniff(head: bytes) -> Match:
    """Return "yes" for a document that begins as iperf3's do."""
    return "yes" if _SNIFFED.match(head) and any(name in head for name in _OWN) else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `application_rate` and `application_sums`.

    Raises
    ------
    FormatError
        If there is no complete test, or no test has an interval or a sum.
    """
    objects, damage = documents(stream, path)
    lines = LogLines(stream)
    log = Iperf3Log(lines)
    tests = list(_tests(objects))
    for run, test in enumerate(tests, 1):
        log.take(run, test)
    lines.damage = damage
    return log.tables(path, FORMAT.name, tests=len(tests))


FORMAT = Format(
    name="iperf3",
    layer=LAYER,
    description="rates and sums of iperf3 --json and --json-stream",
    source="iperf3, iperf_api.c; iperf3(1)",
    sniff=sniff,
    parse=parse,
)
