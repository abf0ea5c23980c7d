"""Holds the promotions that the program finds in rehearsed drives of an idle phone against those that were played.

`python -m tests.drives.promotions FOLDER [--seeds 1-8] [--seconds 160] [--beside 3] [--without-modem]` records drives
with `--traffic idle`, and as controls those of the same seeds with `--traffic requests`, whose phone never sleeps. What
is there is not recorded again. A promotion is found if a finding of a connection lies over it. Promotions near a hole
or a handover are not judged: there both cost the same seconds.
"""

from __future__ import annotations

import argparse
import json
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.diagnose import explain
from multitracer.recording.read import read
from tests.parsers.signalling_messages import packet, version_2

if TYPE_CHECKING:
    from collections.abc import Sequence

_NS = 1_000_000_000
_NEAR_NS = 12 * _NS
"""So far from a hole or a handover, ns: a timer that doubled in the longest one expires so late."""
_EDGE_NS = _NS // 2
"""A promotion may be found so much earlier or later: a modem answers late."""
_WORTH_SAYING = 0.1
LEFT_OUT = ("tcp_probe", "rlp")
TRAFFIC = ("idle", "requests")


@dataclass
class Judged:
    """What was found in one drive."""

    name: str
    errors: list[float] = field(default_factory=list)
    """Of the cost of each promotion that was found, as a share of what it took."""
    missed: list[int] = field(default_factory=list)
    false: list[str] = field(default_factory=list)
    inexact: list[str] = field(default_factory=list)
    unjudged: int = 0

    @property
    def played(self) -> int:
        return len(self.errors) + len(self.missed)


def judge(folder: Path, *, with_modem: bool = True) -> Judged:
    """Return what the program finds in a drive; without its modem, by packets alone."""
    truth = json.loads((folder / "truth" / "drive.json").read_text())
    lines = [json.loads(line) for line in (folder / "truth" / "link.jsonl").read_text().splitlines()]
    played = [(each["began_ns"], each["ended_ns"]) for each in lines if each.get("rrc") == "connected"]
    holes = [
        (each["begin"]["time_ns"] - _NEAR_NS, each["end"]["time_ns"] + _NEAR_NS)
        for each in truth["events"]
        if each["kind"] in ("hole", "handover")
    ]
    recording = read(folder if with_modem else folder / "mobile" / "tcp-0.pcap")
    phone = next(each for each in recording.captures if len(recording.captures) == 1 or each.point.name == "mobile")
    segments = phone.tables.segments
    wanted_ns = segments["time_ns"][(segments["payload_bytes"] > 0) | (segments["flags"] & 0x02 != 0)]
    first_ns = min(int(each.tables.segments["time_ns"].min()) for each in recording.captures)
    found = [
        (each.begin_ns, each.end_ns, each.cost_s, each.sentence)
        for number in range(1, len(recording) + 1)
        for each in explain(recording, number).findings
        if each.kind == "promotion"
    ]
    judged, explained = Judged(folder.name), set[int]()
    for began_ns, ended_ns in played:
        over = [
            place
            for place, (begin_ns, end_ns, *_) in enumerate(found)
            if begin_ns < ended_ns + _EDGE_NS and end_ns > began_ns - _EDGE_NS
        ]
        explained |= set(over)
        is_cut = began_ns < first_ns or ended_ns + _NS > truth["ended_ns"]
        waiting_ns = wanted_ns[(wanted_ns > began_ns - _NS // 20) & (wanted_ns < ended_ns)]
        is_cut |= not len(waiting_ns)  # a FIN alone: no data waited
        if is_cut or any(begin_ns < ended_ns and end_ns > began_ns for begin_ns, end_ns in holes):
            judged.unjudged += 1
        elif over:
            took_s = (ended_ns - int(waiting_ns.min())) / _NS
            judged.errors.append(max(found[place][2] for place in over) / took_s - 1)
            if abs(judged.errors[-1]) > _WORTH_SAYING:
                judged.inexact.append(f"{began_ns}: {took_s:.3f} s, error {judged.errors[-1]:+.3f}")
        else:
            judged.missed.append(began_ns)
    judged.false = [words for place, (*_, words) in enumerate(found) if place not in explained]
    return judged


_STEPS = ((0.02, "request"), (0.3, "set-up"), (0.6, "set-up complete with service request"), (1, "complete 1"))
"""Messages of a promotion, and when they come as shares of it."""
_LINK_BYTES = {1: 14, 113: 16, 276: 20}
"""Length of the header before an IP packet, by the link type of the capture (tcpdump.org/linktypes.html)."""


def with_messages(folder: Path, into: Path) -> Path:
    """Return a copy of a drive whose modem is not asked: its messages are GSMTAP in the phone's capture."""
    drive = into / folder.name
    shutil.copytree(folder, drive, ignore=shutil.ignore_patterns("radio-*", "manifest.json"))
    events = [json.loads(line) for line in (folder / "truth" / "link.jsonl").read_text().splitlines()]
    said: list[tuple[int, str]] = []
    for event in events:
        if event.get("rrc") == "connected":
            took_ns = event["ended_ns"] - event["began_ns"]
            steps = (
                (0.02, "request"),
                (0.3, "set-up"),
                (0.6, "set-up complete with service request"),
                (1, "complete 1"),
            )
            said += [(event["began_ns"] + round(share * took_ns), name) for share, name in steps]
        elif event.get("rrc") == "idle":
            said.append((event["at_ns"], "release"))
    path = drive / "mobile" / "tcp-0.pcap"
    raw = path.read_bytes()
    order = "<" if raw[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    unit_ns = 1 if raw[:4] in (b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d") else 1000
    records, at = [], 24
    while at + 16 <= len(raw):
        seconds, fraction, length, _ = struct.unpack_from(f"{order}IIII", raw, at)
        records.append((seconds * _NS + fraction * unit_ns, raw[at : at + 16 + length]))
        at += 16 + length
    link_bytes = _LINK_BYTES.get(struct.unpack_from(f"{order}I", raw, 20)[0], 0)
    ours = next(each for _, each in records if each[16 + link_bytes] >> 4 == 4)
    for time_ns, name in said:
        data = ours[16 : 16 + link_bytes] + packet(version_2(name))
        head = struct.pack(f"{order}IIII", time_ns // _NS, time_ns % _NS // unit_ns, len(data), len(data))
        records.append((time_ns, head + data))
    path.write_bytes(raw[:24] + b"".join(record for _, record in sorted(records)))
    return drive


def record(traffic: str, seeds: Sequence[int], folder: Path, *, seconds: float, beside: int) -> None:
    """Record drives, some at a time, each in a network of its own."""
    drives = [(seed, folder / f"{traffic}-{seed}") for seed in seeds]
    missing = [each for each in drives if not (each[1] / "truth" / "drive.json").exists()]
    for at in range(0, len(missing), beside):
        children = []
        for seed, drive in missing[at : at + beside]:
            shutil.rmtree(drive, ignore_errors=True)
            drive.parent.mkdir(parents=True, exist_ok=True)
            argv = [sys.executable, "-m", "multitracer", "capture", "-o", str(drive), "--rehearse", "--plain"]
            argv += ["--seed", str(seed), "--traffic", traffic, "--duration", str(seconds)]
            argv += [word for name in LEFT_OUT for word in ("--without", name)]
            children.append(subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
        for child in children:
            if child.wait():
                raise SystemExit(f"{' '.join(map(str, child.args))}: exit {child.returncode}")  # type: ignore[arg-type]


def tell(drives: Sequence[Judged]) -> None:
    """Print a line for each drive, and what they are together."""
    for drive in drives:
        print(f"{drive.name}: {len(drive.errors)} of {drive.played} found, {drive.unjudged} not judged")
        for words in drive.false:
            print(f"    FALSE {words}")
        for words in drive.inexact:
            print(f"    {words}")
        for missed in drive.missed:
            print(f"    MISSED {missed}")
    errors = np.abs([error for drive in drives for error in drive.errors])
    played, false = sum(drive.played for drive in drives), sum(len(drive.false) for drive in drives)
    if played:
        print(f"recall {len(errors) / played:.3f} of {played}")
    if len(errors):
        print(f"precision {len(errors) / (len(errors) + false):.3f}; {false} false")
        quantiles = np.quantile(errors, [0.5, 0.95, 1.0])
        print(f"error of the cost: median {quantiles[0]:.3f}, 95 % {quantiles[1]:.3f}, at most {quantiles[2]:.3f}")
    else:
        print(f"{false} false")


def main() -> None:
    """Record what is missing, and judge all."""
    from tests.drives.__main__ import _seeds

    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--seeds", type=_seeds, default=_seeds("1-8"))
    options.add_argument("--seconds", type=float, default=160.0, help="of each drive; default 160")
    options.add_argument("--beside", type=int, default=3, help="drives at a time; default 3")
    options.add_argument("--without-modem", action="store_true", help="judge what packets alone suggest")
    options.add_argument("--messages", type=Path, metavar="FOLDER", help="judge copies with messages of the modem")
    chosen = options.parse_args()
    for traffic in TRAFFIC:
        record(traffic, chosen.seeds, chosen.folder, seconds=chosen.seconds, beside=chosen.beside)
    for traffic in TRAFFIC:
        folders = [chosen.folder / f"{traffic}-{seed}" for seed in chosen.seeds]
        if chosen.messages is not None:
            folders = [with_messages(folder, chosen.messages) for folder in folders]
        tell([judge(folder, with_modem=not chosen.without_modem) for folder in folders])


if __name__ == "__main__":
    main()
