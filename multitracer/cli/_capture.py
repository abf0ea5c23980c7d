"""Converts the options of `multitracer capture` to a plan with the collectors and their options."""

from __future__ import annotations

import glob
import os
import re
import shutil
import socket
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collectors import collectors, installed
from collectors.android import check_adb
from collectors.starlink import check_package
from multitracer.cli._messages import warn
from multitracer.errors import InputError, PreflightError
from multitracer.manifest import Role
from multitracer.recorder.plan import SYNC_PROBE_PORT, PlannedCollector, RecordingPlan
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from collectors import Collector

Options = dict[str, Any]

_STEMS = {"tcpdump": "tcp", "sniffer": "tcp", "tcp_info": "tcp_state", "modem": "radio", "host_clock": "clocks"}
"""Beginning of the log's file name, for collectors where it is not their name (docs/session.md)."""
_WITH_NOTES = frozenset({"tcpdump", "sniffer", "signalling"})
_INSTEAD = {"sniffer": "tcpdump"}
"""Fallback collectors, by the name of the better collector that does not work."""
_FIXED_SIDE = ("fixed", "server")
"""Roles at the far side of the radio link; a sender or receiver is taken for the phone."""
_LINK_TYPES = ("EN10MB", "LINUX_SLL2", "RAW")
"""Link types of one interface, of all, and of a tunnel; a filter may be valid for only one of them."""
_IN_BRACKETS = re.compile(r"([^\[\]:]*\[[^\]]+\])(?::(.*))?")
_NO_FOLDER = re.compile(r"[^A-Za-z0-9.-]")
_QUIC = "tcpdump-udp"
"""Name of the second capture, of QUIC: its headers are longer than those of TCP, and it has a file of its own."""
_ONLY_QUIC = ("--filter=udp port 443", "--snap=192")
_END_PHONE_NS = 25 * NS_PER_S
"""Time for a phone's packets to end: PCAPdroid is stopped, sends what it has, and writes its keys, each through adb."""
_PORTS = ("modem", "gps", "signalling")
"""Collectors that have an option for their port."""
_ONLY_GIVEN = {"signalling": "signalling", "android": "phone", "remote": "remote", "starlink": "starlink"}
"""Collectors that run only if the option with their port or phone is given: they record what is somebody's own."""
_TYPES = {
    "role": str, "interface": str, "expression": str, "duration": float, "wanted": list, "unwanted": list,
    "modem": str, "gps": str, "signalling": str, "phone": list, "phone_exporter": str,
    "phone_keys": bool, "adb": str, "remote": list, "starlink": str,
    "clap": str, "clap_every": float, "label": list, "ready": float, "tail": float,
}  # fmt: skip
_IN_FILE = {"filter": "expression", "with": "wanted", "without": "unwanted", "labels": "label"}
"""Option names by the keys of a declared session, where they differ."""


def plan_of(
    chosen: Options, command: tuple[str, ...], rehearsed: Options, traffic: tuple[str, ...] = (), *, umask: int = -1
) -> RecordingPlan:
    """Return the plan of a recording.

    Parameters
    ----------
    chosen : dict
        The options as click has them; `declared` names a file with more.
    command : tuple of str
    rehearsed : dict
        Options that a rehearsal sets.
    traffic : tuple of str
        The program that makes a rehearsal's traffic.
    umask : int
        Of the command; -1 is that of this process.

    Raises
    ------
    InputError
        If an option, the command or the declared session is invalid.
    PreflightError
        If no collector works on this machine.
    """
    declared = _declared(chosen["declared"]) if chosen.get("declared") else {}
    given = {
        key: value for key, value in chosen.items() if key in _TYPES and value not in (None, ()) and value is not False
    }
    options = declared | given | rehearsed
    if command and shutil.which(command[0]) is None:
        raise InputError(f"{command[0]}: command not found; check the command after --")
    _check_packets(options.get("interface", "any"), options.get("expression", ""))
    _check_phone(options)
    duration = options.get("duration")
    return RecordingPlan(
        role=Role(options.get("role", Role.MOBILE)),
        sources=tuple(_sources(options)),
        duration_ns=None if duration is None else round(duration * NS_PER_S),
        command=command,
        umask=umask,
        traffic=traffic,
        ready_ns=round(options.get("ready", 5.0) * NS_PER_S),
        tail_ns=round(options.get("tail", 1.0) * NS_PER_S),
        sync_probe_every_ns=round(options.get("clap_every", 30.0) * NS_PER_S),
        sync_probe_to=_address(options.get("clap", f"127.0.0.1:{SYNC_PROBE_PORT}")),
        variables=_labels(options.get("label", ())),
        wants_packets=not rehearsed and any(collectors()[n].layer == "packet" for n in _names(options)),
    )


def _check_phone(options: Options) -> None:
    """Raise InputError if options say how a phone is recorded, but none is."""
    if not options.get("phone"):
        for name in ("phone_exporter", "phone_keys"):
            if options.get(name):
                raise InputError(f"--{name.replace('_', '-')}: no phone is recorded; add --phone SERIAL or --phone any")


def _declared(path: Path) -> Options:
    """Return the options in the file that describes a session."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: this file is not valid TOML: {error}; docs/capture.md lists the valid options"
        ) from error
    options = {_IN_FILE.get(key, key): value for key, value in document.items()}
    for key, value in options.items():
        if key not in _TYPES:
            known = ", ".join(sorted({*_TYPES, *_IN_FILE} - set(_IN_FILE.values())))
            raise InputError(f'{path}: unknown key "{key}"; the valid keys are {known}')
        options[key] = _typed(path, key, value)
    if options.get("phone_exporter", "tcp") not in ("tcp", "udp"):
        raise InputError(f'{path}: "phone_exporter" must be tcp or udp, but is {options["phone_exporter"]!r}')
    if options.get("role", Role.MOBILE) not in [*Role]:
        raise InputError(f'{path}: "role" must be one of {", ".join(Role)}, but is {options["role"]!r}')
    return options


def _typed(path: Path, key: str, value: object) -> object:
    kind = _TYPES[key]
    if key == "label" and isinstance(value, dict):
        return [f"{name}={text}" for name, text in value.items()]
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    if kind is not float and isinstance(value, kind):
        return value
    raise InputError(f'{path}: "{key}" must be of the type {kind.__name__}, but is {value!r}')


# --- which collectors ---


def _check_packets(interface: str, expression: str) -> None:
    """Raise an error if the capture filter is invalid; warn if the interface does not exist yet."""
    there = [name for _, name in socket.if_nameindex()]
    if interface not in ("any", *there):
        known = ", ".join(there)
        warn(
            f"the interface {interface} does not exist yet (existing interfaces: {known}); the "
            "recording starts when the interface appears"
        )
    tcpdump = shutil.which("tcpdump")
    if not expression or tcpdump is None:
        return
    words = ""
    for link in _LINK_TYPES:
        argv = [tcpdump, "-y", link, "-d", "--", expression]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False, timeout=5)
        except subprocess.TimeoutExpired:
            return  # it looks names up, and nobody answers
        if done.returncode == 0:
            return
        words = words or " ".join(done.stderr.split()).removeprefix("tcpdump: ")
    raise InputError(f"--filter {expression}: {words}; see pcap-filter(7)")


def _sources(options: Options) -> Iterator[PlannedCollector]:
    """Yield each requested collector that works on this machine; warn about those that do not."""
    known = collectors()
    for broken in installed().broken:
        warn(f"{broken}; the collector is not used")
    wanted, unwanted = options.get("wanted", ()), options.get("unwanted", ())
    for name in (*wanted, *unwanted):
        if name not in known:
            raise InputError(f"{name}: unknown collector; choose one of {', '.join(known)}")
    for name in wanted:
        if _is_not_given(name, options):
            option = _ONLY_GIVEN[name]
            what = {"phone": "SERIAL", "remote": "HOST", "starlink": "any"}.get(option, "PORT")
            raise InputError(f"{name}: this collector needs to know which; add --{option} {what}")
    names = _names(options)
    working = dict(_working([known[name] for name in names], options, insisted=bool(wanted)))
    for name, more in working.items():
        better = _INSTEAD.get(name)
        if better is not None and not wanted:
            warn(f"the collector {name} is used instead of {better}, but is slower: {known[name].description}")
        if better not in working:
            yield from planned(known[name], more, options)
    if not working:
        raise PreflightError("no collector can be used on this machine; `multitracer doctor` shows how to repair this")


def _names(options: Options) -> list[str]:
    """Return the names of the requested collectors, including those that do not work."""
    unwanted = options.get("unwanted", ())
    typical = [name for name in collectors() if not _is_not_given(name, options)]
    return [name for name in options.get("wanted", ()) or typical if name not in unwanted]


def _is_not_given(name: str, options: Options) -> bool:
    return name in _ONLY_GIVEN and _ONLY_GIVEN[name] not in options


def _working(chosen: Iterable[Collector], options: Options, *, insisted: bool) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the name and the command-line options of each collector that works.

    With `insisted`, a collector that does not work is an error.
    """
    for collector in chosen:
        if collector.name in _INSTEAD and not insisted and _works(collectors()[_INSTEAD[collector.name]]):
            continue
        given = _options_of(collector.name, options)
        try:
            if collector.name == "android":
                check_adb(options.get("adb", "adb"))  # the phone may come later
            elif collector.name == "starlink":
                check_package()  # so may the dish
            elif collector.name not in _PORTS or not given:
                collector.check()
            elif given[0] == "--device":  # what has a port of its own waits for it
                _warn_of_closed_ports(given[1])
        except PreflightError as error:
            if insisted:
                raise
            warn(f"the collector {collector.name} is not used: {error}")
        else:
            yield collector.name, given


def _warn_of_closed_ports(name: str) -> None:
    """Warn about each serial port that matches the pattern `name` and that this user may not open.

    The warning names the group that may open the port.
    """
    for port in glob.glob(name):  # noqa: PTH207  # Path.glob refuses absolute patterns
        if not os.access(port, os.R_OK | os.W_OK):
            group = _group_of(port)
            warn(f"{port}: no permission to open this port; run `sudo usermod -aG {group} $USER`, then log in again")


def _group_of(port: str) -> str:
    """Return the name of the group that owns a device; `dialout` if the group has no name."""
    try:
        return Path(port).group()
    except (KeyError, OSError):
        return "dialout"


def _works(collector: Collector) -> bool:
    try:
        collector.check()
    except PreflightError:
        return False
    return True


def _options_of(name: str, options: Options) -> tuple[str, ...]:
    """Return the command-line options for one collector."""
    words: list[str] = []
    if name in ("tcpdump", "sniffer"):
        pairs = (("--interface", "interface"), ("--filter", "expression"))
        words = [f"{word}={options[key]}" for word, key in pairs if key in options]
    elif name in _PORTS and name in options:
        is_gpsd = name == "gps" and "/" not in options[name] and ":" in options[name]
        words = ["--gpsd" if is_gpsd else "--device", options[name]]
    elif name == "android" and "adb" in options:
        words = ["--adb", options["adb"]]
    elif name == "starlink":
        words = [f"--target={options['starlink']}"] if options["starlink"] != "any" else []
    elif name == "host_clock":
        words = ["--host", options.get("role", "mobile")]
    elif name == "rlp":
        words = ["--side", "fixed" if options.get("role") in _FIXED_SIDE else "mobile"]
    return tuple(words)


def planned(collector: Collector, more: tuple[str, ...], options: Options) -> Iterator[PlannedCollector]:
    """Yield a collector with its options; of phones one for each."""
    name = collector.name
    stem, notes = _STEMS.get(name, name), name in _WITH_NOTES
    packets = collector.layer == "packet"
    source = PlannedCollector(name, stem, collector.suffix, more, notes, packets, module=collector.module)
    if name == "tcpdump" and "expression" not in options:
        yield replace(source, name=_QUIC, stem="udp", options=(*more, *_ONLY_QUIC), module="collectors.tcpdump")
    phones = list(dict.fromkeys(options.get("phone", ()))) if name == "android" else []
    for number, serial in enumerate(phones):
        suffix = f"-{number + 1}" if len(phones) > 1 else ""
        yield from _of_phone(replace(source, options=(*more, "--serial", serial)), suffix, options)
    routers = list(dict.fromkeys(options.get("remote", ()))) if name == "remote" else []
    for number, router in enumerate(routers):
        yield from _of_router(source, router, f"-{number + 1}" if len(routers) > 1 else "")
    if not phones and not routers:
        yield source


def _of_phone(source: PlannedCollector, suffix: str, chosen: Options) -> Iterator[PlannedCollector]:
    """Yield the two collectors of a phone: what it answers, and its packets, in a host folder of the phone."""
    host = f"phone{suffix}"
    options = (*source.options, "--host", host)
    yield replace(source, name=f"android{suffix}", stem=f"android{suffix}", options=options)
    more = [f"--exporter={chosen['phone_exporter']}"] if "phone_exporter" in chosen else []
    more += ["--keys"] if chosen.get("phone_keys") else []
    yield PlannedCollector(
        f"android-packets{suffix}", "tcp", ".pcap", (*options, "--packets", *more), notes=True, packets=True, host=host,
        module="collectors.android", end_ns=_END_PHONE_NS,
    )  # fmt: skip


def _of_router(source: PlannedCollector, text: str, suffix: str) -> Iterator[PlannedCollector]:
    """Yield the two collectors of HOST[:PROFILE]: its modem and clock, and its packets."""
    bracketed = _IN_BRACKETS.fullmatch(text)
    to, profile = (
        (bracketed[1], bracketed[2] or "") if bracketed else text.split(":", 1) if text.count(":") == 1 else (text, "")
    )
    host = _NO_FOLDER.sub("_", to.rpartition("@")[2].strip("[]"))
    if not host.strip("._-") or host in [*Role]:
        raise InputError(
            f"--remote {text}: this is no host, or has the name of a role; give HOST or USER@HOST, and :PROFILE "
            "if you like ([ADDRESS]:PROFILE for IPv6)"
        )
    options = ("--to", to, "--host", host)
    more = ("--profile", profile) if profile else ()
    yield replace(source, name=f"remote{suffix}", stem=f"remote{suffix}", options=(*options, *more))
    packets = replace(
        source, name=f"remote-packets{suffix}", stem=f"tcp{suffix}", suffix=".pcap", packets=True, host=host
    )
    yield replace(packets, options=(*options, "--packets"), module="collectors.remote")


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise InputError(f"{text}: the address must have the form HOST:PORT")
    return host.strip("[]"), int(port)


def _labels(labels: Iterable[str]) -> dict[str, str]:
    pairs = [label.partition("=") for label in labels]
    for key, equals, value in pairs:
        if not equals or not key:
            raise InputError(f"{key}{equals}{value}: the label must have the form KEY=VALUE")
    return {key: value for key, _, value in pairs}
