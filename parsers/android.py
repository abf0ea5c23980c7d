"""The log of `collectors.android`: what a phone answered through adb, each answer between two time stamps.

Texts are decoded here again. The registry gives `radio`, as in `telephony_registry`; the last locations `position`;
battery, Wi-Fi and power `phone_state`; logcat `phone_events`; the data counters of Android 13 and later `app_bytes`.
`remote_clock` has the phone's clock beside this host's. Names of Wi-Fi networks and addresses of access points are
not in the tables. Source: collectors/android.py for the records; Android, frameworks/base, for the texts:
location/java/android/location/Location.java (toString), services BatteryService and WifiShellCommand (status),
and EventLogTags.logtags of frameworks/opt/telephony.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from multitracer.protocols.modem.android import location_of
from multitracer.schemas.radio import APP_BYTES, PHONE_EVENTS, PHONE_STATE, POSITION
from parsers._format import Format, Match
from parsers._text.collector_log import CollectorLog, Nowhere, RemoteClocks, Sparse, header_of, is_time
from parsers._text.lines import LogLines
from parsers._text.times import decimal_ns, decimal_of, integer, noted
from parsers.telephony_registry import RegistryDumps, radio_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.tables import Document, Table

_LONGEST_RAW = 1 << 20
_MOST_SAID = 200
_MOST_PHONES = 1000
_MOST_APPS = 10_000
_BATTERY = re.compile(r"^\s*(AC powered|USB powered|Wireless powered|level|temperature): (true|false|-?\d{1,6})$", re.M)
_AWAKE = re.compile(r"\bmWakefulness=(\w{1,16})")
_WIFI = re.compile(r"\b(RSSI|Rx Link speed|Tx Link speed|Link speed|Frequency): (-?\d{1,6})(?:Mbps|MHz)?")
_OF_WIFI: dict[str, tuple[str, int]] = {
    "RSSI": ("wifi_rssi_dbm", 1), "Rx Link speed": ("wifi_rx_bps", 10**6), "Tx Link speed": ("wifi_tx_bps", 10**6),
    "Link speed": ("wifi_tx_bps", 10**6), "Frequency": ("wifi_frequency_hz", 10**6),
}  # fmt: skip
_NAMES = re.compile(r'SSID: .*?(?=, BSSID)|"[^"\n]*"')
"""Names of networks, which others choose: they may hold what looks like a value."""
_WIFI_STATE = re.compile(r"Wifi is (connected|not connected|disabled)")
_NO_RSSI = -127
"""WifiInfo.INVALID_RSSI."""
_FULL = 100
_EVENT = re.compile(r"\s*(\d{9,10})\.(\d{3,9})\s+\d+\s+\d+ [VDIWEF] (\w{1,48})\s*: (.{0,200})")
_APP = re.compile(r"^ *(\d{1,10}) (\d{1,18}) (\d{1,18}) (\d{1,18}) (\d{1,18}) *$", re.M)
_PACKAGE = re.compile(r"^package:([\w.]{1,128}) uid:(\d{1,10})", re.M)


class _Log(CollectorLog):
    """Reads the records of a log, and collects the rows."""

    def __init__(self, path: str, lines: LogLines) -> None:
        super().__init__(path, lines, name="android")
        self.dumps = RegistryDumps(lines)
        self.positions, self.states = Sparse(POSITION), Sparse(PHONE_STATE)
        self.events, self.apps, self.clocks = Sparse(PHONE_EVENTS), Sparse(APP_BYTES), RemoteClocks()
        self.nowhere = Nowhere()
        self.phones: list[Document] = []
        self._serial = ""
        self._packages: dict[int, str] = {}
        self._before: dict[str, tuple[object, object]] = {}
        self._fix_ns = 0
        self._readers: dict[str, Callable[[str, Document], None]] = {
            "registry": self._registry, "location": self._location, "power": self._power, "wifi": self._wifi,
            "battery": self._battery, "apps": self._app_bytes, "packages": self._names,
        }  # fmt: skip

    def take(self, text: str) -> None:
        """Read one line, or count it as unusable by reason."""
        record = self.record(text)
        if record is None:
            return
        kinds = {"answer": self._answer, "event": self._event, "remote_clock": self._clock, "phone": self._phone}
        use = kinds.get(str(record.get("kind")))
        if use is None or not use(record):
            self.lines.skip("not a record of this format")

    def _answer(self, record: Document) -> bool:
        name, asked_ns, answered_ns = record.get("of"), record.get("asked_ns"), record.get("answered_ns")
        reader = self._readers.get(name) if isinstance(name, str) else None
        raw = self._text_of(str(name), record)
        if reader is None or not isinstance(raw, str) or len(raw) > _LONGEST_RAW:
            return False
        if not (is_time(asked_ns) and is_time(answered_ns) and asked_ns <= answered_ns):
            return False
        if record.get("status") == 0:
            reader(raw, {"asked_ns": asked_ns, "answered_ns": answered_ns, "line": self.lines.number})
        self.answered()
        return True

    def _text_of(self, name: str, record: Document) -> object:
        """Return the text of an answer, or of the earlier one that it names as the same."""
        if "raw" in record:
            self._before[name] = record.get("number"), record["raw"]
            return record["raw"]
        number, raw = self._before.get(name, (None, None))
        return raw if number is not None and record.get("same") == number else None

    def _registry(self, raw: str, stamps: Document) -> None:
        self.dumps.stamps = {name: stamps[name] for name in ("asked_ns", "answered_ns")}
        for line in raw.splitlines():
            self.dumps.take(line)
        self.dumps.flush()

    def _location(self, raw: str, stamps: Document) -> None:
        """Store the newest location, if it is a new one."""
        location = location_of(raw)
        if location is None or location.fix_ns <= self._fix_ns:
            return
        self._fix_ns = location.fix_ns
        row = {"time_ns": _middle(stamps) - max(location.age_ns, 0), "line": stamps["line"], "source": location.source}
        self.positions.append({**row, **self.nowhere.drop(location.values), "fix": 1})

    def _power(self, raw: str, stamps: Document) -> None:
        if awake := _AWAKE.search(raw):
            self._state(stamps, wakefulness=awake[1])

    def _wifi(self, raw: str, stamps: Document) -> None:
        state = _WIFI_STATE.search(raw)
        values: Document = {"wifi": state[1].replace("not connected", "disconnected")} if state else {}
        for name, value in _WIFI.findall(_NAMES.sub("", raw)):
            column, factor = _OF_WIFI[name]
            number = integer(value)
            if number > 0 if factor > 1 else _NO_RSSI < number < 0:
                values[column] = values.get(column, number * factor)
        if values:
            self._state(stamps, **values)

    def _battery(self, raw: str, stamps: Document) -> None:
        fields = dict(_BATTERY.findall(raw))
        powered = [value for name, value in fields.items() if name.endswith("powered")]
        values: Document = {"charging": int("true" in powered)} if powered else {}
        if (level := decimal_of(fields.get("level", ""))) is not None and 0 <= level <= _FULL:
            values["battery_percent"] = int(level)
        if (tenths := decimal_of(fields.get("temperature", ""))) is not None:
            values["battery_celsius"] = tenths / 10
        if values:
            self._state(stamps, **values)

    def _state(self, stamps: Document, **values: object) -> None:
        self.states.append({"time_ns": _middle(stamps), "line": stamps["line"], **values})

    def _names(self, raw: str, _: Document) -> None:
        for name, uid in _PACKAGE.findall(raw)[:_MOST_APPS]:
            self._packages[int(uid)] = name

    def _app_bytes(self, raw: str, stamps: Document) -> None:
        for numbers in _APP.findall(raw)[:_MOST_APPS]:
            uid, rx_bytes, rx_packets, tx_bytes, tx_packets = map(int, numbers)
            counts = {"rx_bytes": rx_bytes, "rx_packets": rx_packets, "tx_bytes": tx_bytes, "tx_packets": tx_packets}
            own = {"time_ns": _middle(stamps), "line": stamps["line"], "uid": uid}
            self.apps.append({**own, "app": self._packages.get(uid, ""), **counts})

    def _event(self, record: Document) -> bool:
        raw, at_ns = record.get("raw"), record.get("at_ns")
        if not isinstance(raw, str) or not is_time(at_ns):
            return False
        if event := _EVENT.match(raw):
            text = "".join(c for c in event[4] if c.isprintable())
            phone_ns = self._time_ns(event[1], event[2])
            own = {"time_ns": at_ns, "line": self.lines.number, "phone_time_ns": phone_ns}
            self.events.append({**own, "event": event[3], "text": text})
        else:
            self.lines.skip("not a line of logcat")
        return True

    def _time_ns(self, seconds: str, fraction: str) -> int | None:
        """Return a time of the phone; None, counted, if it cannot be."""
        try:
            return decimal_ns(seconds, fraction)
        except ValueError:
            self.lines.drop("phone_time_ns")
            return None

    def _clock(self, record: Document) -> bool:
        return self.clocks.take(record, self.lines.number)

    def _phone(self, record: Document) -> bool:
        """Store a phone for the provenance; return whether the record is valid."""
        if not is_time(record.get("at_ns")):
            return False
        serial = str(record.get("serial", ""))[:_MOST_SAID]
        if self._serial not in ("", serial):
            self.lines.warn("another phone answered later; its values follow those of the first phone")
        self._serial, self._fix_ns = serial, 0
        if len(self.phones) < _MOST_PHONES:
            known = ("at_ns", "state", "serial", "why", "says")
            self.phones.append({key: str(record[key])[:_MOST_SAID] for key in known if key in record})
        return True

    def radio(self) -> Table:
        """Return the readings; times are wall-clock times, converted with the clock records of the log."""
        columns = self.dumps.rows.columns()
        begin_ns, end_ns = (self.pairs.place(columns[f"{end}_ns"]) for end in ("asked", "answered"))
        placed = {"asked_ns": begin_ns, "answered_ns": end_ns, "time_ns": begin_ns + (end_ns - begin_ns) // 2}
        table = radio_of(self.dumps, self.lines, {}, {name: np.asarray(values) for name, values in placed.items()})
        missing = table.provenance.get("missing", {})
        table.provenance = noted(self.provenance() | {"phones": self.phones}, missing)
        return table

    def placed(self, rows: Sparse) -> Table:
        """Return rows as a table, with their times as wall-clock times."""
        return rows.table(self.provenance(), {"time_ns": self.pairs.place(rows.columns()["time_ns"])})


def _middle(stamps: Document) -> int:
    return int(stamps["asked_ns"] + (stamps["answered_ns"] - stamps["asked_ns"]) // 2)


def sniff(head: bytes) -> Match:
    """Return "yes" for a log that begins with the header of `collectors.android`."""
    return "yes" if head.startswith(header_of("android")) else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `radio`, `position`, `gaps`, `phone_state`, `phone_events`, `app_bytes` and `remote_clock`.

    Raises
    ------
    FormatError
        If the first record is not this header.
    """
    log = _Log(path, LogLines(stream)).read()
    rest = {"position": log.positions, "phone_state": log.states, "phone_events": log.events, "app_bytes": log.apps}
    tables = {"radio": log.radio(), "gaps": log.gaps(), "remote_clock": log.clocks.table(log)}
    log.nowhere.note(log.lines)
    return tables | {name: log.placed(rows) for name, rows in rest.items()}


FORMAT = Format(
    name="android",
    layer="radio",
    description="answers of an Android phone through adb, recorded by MultiTracer's collector android",
    source="collectors/android.py; Android, frameworks/base and frameworks/opt/telephony",
    sniff=sniff,
    parse=parse,
)
