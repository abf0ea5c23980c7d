"""Writes docs/peers.md: what other tools say of transfers whose cause is known, beside what we say.

`python -m docs.programs.peers` runs tshark and tcptrace on bundled recordings of `tests/causes` and makes the
page.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from tests.causes.judge import ask, asked_for, seen

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "peers.md"
RECORDINGS = ROOT / "tests" / "causes" / "recordings"
_WORDS = tomllib.loads((ROOT / "docs" / "peers.toml").read_text("utf-8"))
_INTRODUCTION: str = _WORDS["introduction"]
CASES: dict[str, str] = _WORDS["cases"]
"""Recording -> who is right."""
_FIELDS = ("frame.time_relative", "tcp.srcport", "tcp.seq", "tcp.len", "tcp.ack", "tcp.flags.syn")
_ARRIVED = ("delivered", "on-its-way")
_OPEN_OR_CLOSE = re.compile(r"^Connection |connection closing")
_WORTH = 0.05
"""Share from which on a limit is listed."""


def page() -> str:
    """Return the text of the page."""
    return _INTRODUCTION + "".join(f"\n{case_section(name)}" for name in CASES)


def case_section(name: str) -> str:
    """Return what everyone says of one recording, and who is right."""
    truth = json.loads((RECORDINGS / name / "truth" / "truth.json").read_text())
    transfer = truth["transfers"][0]
    with (
        tempfile.TemporaryDirectory() as place,
        seen(RECORDINGS / name, "sender", upload=truth["upload"] or not transfer["bytes"]) as given,
    ):
        capture = _plain(given, Path(place))
        rows = [
            ("truth", _truth(transfer)),
            ("`diagnose`", _ours(given, transfer)),
            ("Wireshark", wireshark_labels(capture)),
            ("tcptrace", _tcptrace(capture, transfer)),
            ("like captcp", _captcp_like(capture, transfer)),
        ]
    table = "".join(f"| {who} | {says} |\n" for who, says in rows)
    way = "up" if transfer["way"] == "up" else "down"
    kind = truth["kind"].replace("-", " ")
    size = f"{transfer['bytes'] / 1000:,.0f} kB {way} in {transfer['total_s']:.1f} s"
    return f"## {kind}: {size} ({name[:5]})\n\n| | says |\n|---|---|\n{table}\n{CASES[name]}\n"


def _plain(capture: Path, place: Path) -> Path:
    """Return a capture that tcptrace can read: it knows no gzip unless built with it."""
    plain = place / "sender.pcap"
    subprocess.run(["editcap", "-F", "nsecpcap", str(capture), str(plain)], check=True, capture_output=True)
    return plain


def _truth(transfer: dict[str, Any]) -> str:
    faults = sorted(kind for kind, there in transfer["faults"].items() if there)
    said = [_shares(transfer["shares"].items()), *([", ".join(faults)] if faults else [])]
    lost = {
        f"{way} lost to {fate}": number
        for way in ("data", "acks")
        for fate, number in transfer["fates"][way].items()
        if fate not in _ARRIVED
    }
    said += [", ".join(f"{number:,} {what}" for what, number in lost.items()) or "nothing lost"]
    return "; ".join(said)


def _shares(shares: Any) -> str:
    worth = sorted(((limit, share) for limit, share in shares if share >= _WORTH), key=lambda row: -row[1])
    return ", ".join(f"{limit} {share:.0%}" for limit, share in worth)


def _ours(given: Path, transfer: dict[str, Any]) -> str:
    answer = ask(given, asked_for(transfer))
    shares: dict[str, float] = {}
    for row in answer["limits"]:
        shares[row["limit"]] = shares.get(row["limit"], 0.0) + row["share"]
    kinds = sorted({finding["kind"] for finding in answer["findings"]})
    found = f"; {', '.join(kinds)}" if kinds else "; no fault"
    agree = sum(min(share, transfer["shares"].get(limit, 0.0)) for limit, share in shares.items())
    sure = answer["headline"]["confidence"]
    how_good = f"{sure}; the shares agree with the truth for {agree:.0%} of the time"
    return f"{_shares(shares.items())} ({how_good}){found}"


def wireshark_labels(capture: Path) -> str:
    """Return the expert information on TCP, the most frequent first."""
    done = subprocess.run(
        ["tshark", "-n", "-q", "-r", str(capture), "-z", "expert"], capture_output=True, text=True, check=True
    )
    rows = re.findall(r"^\s*(\d+)\s+(?:Sequence|Protocol)\s+TCP\s+(.*)$", done.stdout, re.MULTILINE)
    told: dict[str, int] = {}
    for number, label in rows:
        if not _OPEN_OR_CLOSE.search(label):
            told[_brief(label)] = told.get(_brief(label), 0) + int(number)
    said = [f"{number:,} × {label}" for label, number in sorted(told.items(), key=lambda row: -row[1])]
    return ", ".join(said) or "nothing"


def _brief(label: str) -> str:
    """Return an expert's label without what is the same in all, and without its number."""
    for noise in ("This frame is a ", "(suspected) ", "TCP "):
        label = label.replace(noise, "")
    return re.sub(r"\s*\(.*\)\s*$", "", label).strip().rstrip(".").replace("|", "\\|").lower()


def _tcptrace(capture: Path, transfer: dict[str, Any]) -> str:
    """Return the counts of the data's direction that tcptrace's long output holds."""
    done = subprocess.run(["tcptrace", "-l", "-r", "-n", "--csv", str(capture)], capture_output=True, check=False)
    lines = done.stdout.decode("latin-1").splitlines()
    header = next((i for i, line in enumerate(lines) if line.startswith("conn_#")), None)
    if header is None:
        return "nothing"
    table = csv.DictReader([lines[header], *(line for line in lines[header + 1 :] if line[:1].isdigit())])
    row = next(
        (
            {k.strip(): v.strip() for k, v in each.items() if k and v}
            for each in table
            if str(transfer["client_port"]) in (each["port_a"].strip(), each["port_b"].strip())
        ),
        None,
    )
    if row is None:
        return "nothing"
    is_a = row["port_a"] == str(transfer["client_port"])
    way = "a2b" if is_a == (transfer["way"] == "up") else "b2a"
    rtt = " / ".join(_ms(row[f"RTT_{which}_{way}"]) for which in ("min", "avg", "max"))
    measured = float(row[f"RTT_max_{way}"]) > 0
    return (
        f"{row[f'rexmt_data_pkts_{way}']} of {row[f'actual_data_pkts_{way}']} data packets retransmitted, "
        f"{row[f'outoforder_pkts_{way}']} out of order; throughput {_kbit(float(row[f'throughput_{way}']))}; "
        + (f"RTT {rtt} ms (least, mean, most)" if measured else "no RTT")
    )


def _kbit(bytes_per_s: float) -> str:
    return f"{bytes_per_s * 8 / 1000:,.0f} kbit/s"


def _ms(text: str) -> str:
    return f"{float(text):,.0f}"


def _captcp_like(capture: Path, transfer: dict[str, Any]) -> str:
    """Return what captcp's documentation says that `statistic`, `throughput` and `inflight` report.

    Application-layer bytes (each copy) and their mean rate from the first to the last packet, the best
    second, retransmissions by repeated sequence numbers, and packets sent and not acknowledged.
    """
    fields = [word for field in _FIELDS for word in ("-e", field)]
    done = subprocess.run(
        ["tshark", "-n", "-r", str(capture), "-T", "fields", *fields, "tcp"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    rows = [line.split("\t") for line in done.stdout.splitlines() if line.count("\t") == len(_FIELDS) - 1]
    table = np.array([[float(cell or 0) for cell in _numbers(row)] for row in rows])
    if not len(table):
        return "nothing"
    from_client = table[:, 1] == transfer["client_port"]
    ours = from_client == (transfer["way"] == "up")
    data = table[ours & (table[:, 3] > 0)]
    if len(data) < 2:
        return f"{len(table)} packets, no data"
    took = float(np.ptp(table[:, 0]))
    again = len(data) - len({(row[2], row[3]) for row in data.tolist()})
    best = np.bincount(data[:, 0].astype(int), weights=data[:, 3]).max()
    flight = _inflight(table, ours=ours)
    return (
        f"{_kbit(data[:, 3].sum() / took)} mean, {_kbit(float(best))} in the best second; {again} packets "
        f"({again / len(data):.1%}) repeated; "
        f"{np.median(flight):.0f} packets in flight, at most {flight.max()}"
    )


def _numbers(row: list[str]) -> list[str]:
    return [{"True": "1", "False": "0"}.get(cell, cell.split(",")[0]) for cell in row]


def _inflight(table: Any, *, ours: Any) -> Any:
    """Return how many packets are sent and not acknowledged after each packet; copies do not count."""
    out: dict[float, float] = {}
    acked, found = 0.0, []
    for is_ours, (_, _, seq, size, ack, _) in zip(ours.tolist(), table.tolist(), strict=True):
        if is_ours and size and seq + size > acked:
            out.setdefault(seq, seq + size)
        elif not is_ours and ack > acked:
            acked = ack
            out = {begin: end for begin, end in out.items() if end > acked}
        found.append(len(out))
    return np.array(found)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
