"""The tables and pictures of experiments.md: `python -m docs.papers.programs.experiments draw`."""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from docs.papers.programs.experiments import RUNS, arms
from multitracer.analysis.transports import RADIO, compare, influence, size_statistics
from multitracer.figures.environment import overlay
from multitracer.figures.rtt_size import cdf_figure, rtt_size_figure
from multitracer.report.plot_page import plot_page
from multitracer.report.transactions_page import factor, factors, seconds
from tests.report.chromium import Browser

if TYPE_CHECKING:
    from collections.abc import Callable

    import plotly.graph_objects as go

    from multitracer.analysis.transports import Transport

    Row = dict[str, Any]

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "papers" / "experiments.md"
IMAGES = ROOT / "docs" / "papers" / "images"
_NAMES = {"tcp": "TCP", "tcp1999": "TCP 1999", "tcptoday": "TCP today", "cc": "CentaurusComm", "ccearly": "early start"}
_NO_BUTTONS = "for (const each of document.querySelectorAll('.modebar-container, h1')) each.remove()"
_WIDTH_PX = 860
_WATCHDOG_S = 9.5
"""Nearly the 10 s of silence after which CentaurusComm gives a session up."""
_SMALL = (64, 128, 256, 512)
"""Where the paper says "small packet sizes"."""


@cache
def named(link: str, *, real: bool, vary: str = "reply") -> dict[str, Transport]:
    """Return the arms on one connection, by transport, with the page's names."""
    found = arms(link, real=real, vary=vary)
    return {key: replace(found[key], name=name) for key, name in _NAMES.items() if key in found}


@cache
def beside(link: str, real: bool, vary: str, first: str, second: str) -> dict[int, Row]:
    """Return the comparison of two transports by size."""
    both = named(link, real=real, vary=vary)
    return {row["size_bytes"]: row for row in compare(both[first], both[second]).rows()}


@cache
def statistics(link: str, real: bool, vary: str, transport: str) -> dict[int, Row]:
    """Return the numbers of a transport by size."""
    return {row["size_bytes"]: row for row in size_statistics(named(link, real=real, vary=vary)[transport]).rows()}


def sizes_table(link: str, *, real: bool, vary: str = "reply") -> str:
    """Return medians by size, and the ratios TCP 1999 / CentaurusComm with their intervals."""
    transports = [t for t in _NAMES if t in named(link, real=real, vary=vary)]
    setup = link == "cdpd"  # over Bluetooth no set-up but the first was measured
    heads = ["bytes", *(_NAMES[t] for t in transports), "TCP 1999 / CentaurusComm"]
    heads += ["with set-up"] if setup else []
    heads += ["TCP today / CentaurusComm", "dropped"]
    numbers = {t: statistics(link, real, vary, t) for t in transports}
    ratios = {t: beside(link, real, vary, t, "cc") for t in ("tcp1999", "tcptoday")}
    lines = []
    for size in numbers["cc"]:
        cells = [f"{size}", *(seconds(numbers[t][size]["median_s"]) for t in transports)]
        cells.append(interval(ratios["tcp1999"][size], "ratio"))
        cells += [interval(ratios["tcp1999"][size], "setup_ratio")] if setup else []
        cells.append(interval(ratios["tcptoday"][size], "ratio"))
        lines.append([*cells, _dropped([numbers[t][size] for t in transports])])
    return table(heads, lines)


def interval(row: Row, name: str) -> str:
    """Return a ratio with its 95 % interval."""
    if row[name] is None or not np.isfinite(row[name]):
        return str(row["why"])
    ends = factors(row[f"{name}_low"], row[f"{name}_high"])  # of fewer than six set-ups there are none
    return f"{factor(row[name])} ({ends})" if ends else factor(row[name])


def _dropped(rows: list[Row]) -> str:
    lost, count = (sum(row[name] for row in rows) for name in ("dropped", "count"))
    return f"{lost} of {count}"


def table(heads: list[str], lines: list[list[str]]) -> str:
    """Return a table as Markdown."""
    rule = "|".join("---" for _ in heads)
    body = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
    return f"| {' | '.join(heads)} |\n|{rule}|\n{body}"


def cdpd_claims() -> str:
    """Return what the paper says of CDPD beside what was measured, in real and in virtual time."""
    lines: list[tuple[str, str, Callable[..., str]]] = [
        ("set-up of a TCP connection", "about 2 s", _setup),
        ("TCP with set-up / CentaurusComm, up to 512 bytes", "comparable", partial(_range, "tcp1999", "setup_ratio")),
        ("the same, had the set-up taken the paper's 2 s", "", partial(_with_2_s, "cc")),
        ("TCP / CentaurusComm at 4096 bytes", "about 5", partial(_at, "tcp1999", 4096)),
        ("the same, TCP as Linux is today", "", partial(_at, "tcptoday", 4096)),
        ("the same, TCP 1999, means in place of medians", "", partial(_of_means, "tcp1999", 4096)),
        ("TCP at 8192 bytes", "very few succeed", partial(_lost_at, "tcp1999", 8192)),
        ("sessions that CentaurusComm lost", "none", partial(_lost, "cc")),
        ("CentaurusComm's constant penalty", "about 2 s", _penalty),
        ("what early start saves", "proposed", _early),
        ("TCP with set-up / early start, up to 512 bytes", "", _against_early),
        ("transactions of CentaurusComm that took a watchdog's 10 s longer", "", _waited),
        ("TCP at 4096 bytes: transactions with a retransmission", "many", partial(_again, "tcp1999", 4096)),
    ]
    shown = [[what, paper, *(measure(real=real) for real in (True, False))] for what, paper, measure in lines]
    return table(["", "paper 000", "kernel's TCP, real time", "virtual time"], shown)


def _setup(*, real: bool) -> str:
    arm = arms("cdpd", real=real)["tcp1999 each"]
    known = arm.table["connect_s"][~np.isnan(arm.table["connect_s"])]
    return f"{seconds(float(np.median(known)))} (median of {len(known)})"


def _range(first: str, name: str, *, real: bool) -> str:
    rows = beside("cdpd", real, "reply", first, "cc")
    found = [rows[size][name] for size in _SMALL if size in rows]
    return f"{factor(min(found))} to {factor(max(found))}"


def _with_2_s(second: str, *, real: bool) -> str:
    rows = beside("cdpd", real, "reply", "tcp1999", second)
    medians = [statistics("cdpd", real, "reply", t) for t in ("tcp1999", second)]
    found = [(medians[0][s]["median_s"] + 2) / medians[1][s]["median_s"] for s in _SMALL if s in rows]
    return f"{factor(min(found))} to {factor(max(found))}"


def _against_early(*, real: bool) -> str:
    rows = beside("cdpd", real, "reply", "tcp1999", "ccearly")
    found = [rows[size]["setup_ratio"] for size in _SMALL if size in rows]
    return f"{factor(min(found))} to {factor(max(found))}"


def _waited(*, real: bool) -> str:
    """Return how many took longer than the quickest of their size by a watchdog that ran out."""
    arm = named("cdpd", real=real)["cc"]
    rtts = [arm.rtt_s(arm.at(size)) for size in arm.sizes]
    late = sum(int(np.sum(each > each.min() + _WATCHDOG_S)) for each in rtts)
    return f"{late} of {len(arm.table)}"


def _again(transport: str, size: int, *, real: bool) -> str:
    arm = named("cdpd", real=real)[transport]
    table = arm.at(size)
    again = np.maximum(table["retransmitted_client"], 0) + np.maximum(table["retransmitted_server"], 0)
    return f"{np.count_nonzero(again)} of {len(table)}, {int(again.sum())} segments in all"


def _at(first: str, size: int, *, real: bool) -> str:
    return interval(beside("cdpd", real, "reply", first, "cc")[size], "ratio")


def _of_means(first: str, size: int, *, real: bool) -> str:
    means = [statistics("cdpd", real, "reply", transport)[size]["mean_s"] for transport in (first, "cc")]
    return factor(means[0] / means[1])


def _lost_at(transport: str, size: int, *, real: bool) -> str:
    row = statistics("cdpd", real, "reply", transport)[size]
    return f"{row['dropped']} of {row['count']} dropped"


def _lost(transport: str, *, real: bool) -> str:
    return _dropped(list(statistics("cdpd", real, "reply", transport).values()))


def _penalty(*, real: bool) -> str:
    """Return how much longer CentaurusComm takes, over the sizes at which that is a constant."""
    return _differences(beside("cdpd", real, "reply", "tcp1999", "cc"), sign=-1, sizes=_SMALL)


def _early(*, real: bool) -> str:
    return _differences(beside("cdpd", real, "reply", "cc", "ccearly"), sign=1, sizes=_SMALL)


def _differences(rows: dict[int, Row], *, sign: int, sizes: tuple[int, ...]) -> str:
    found = [sign * rows[size]["difference"] for size in sizes if size in rows]
    return f"{seconds(min(found))} to {seconds(max(found))}"


def radio() -> str:
    """Return how the RTT went with what the modem said."""
    lines = []
    for name, arm in ((_NAMES[key], arm) for key, arm in named("cdpd", real=True).items()):
        found = [influence(arm, column) for column in RADIO]
        lines.append([name, *(f"{each.correlation:+.2f}".replace("-", "−") for each in found)])
    return table(["rank correlation of the RTT with", "RSSI", "BLER", "cell busy"], lines)


def bluetooth_claims() -> str:
    """Return the same of Bluetooth."""
    lines = [
        ("TCP from 64 to 1024 bytes grows by", "almost constant", partial(_step, "tcp1999", 64, 1024)),
        ("TCP's jump from 1024 to 2048 bytes", "about 400 ms", partial(_step, "tcp1999", 1024, 2048)),
        ("TCP from 2048 to 4096 bytes grows by", "almost constant", partial(_step, "tcp1999", 2048, 4096)),
        ("TCP's jump from 4096 to 8192 bytes", "about 400 ms", partial(_step, "tcp1999", 4096, 8192)),
        ("CentaurusComm is slower, up to 512 bytes, by", "around 50 ms", partial(_slower, _SMALL)),
        ("from 1024 bytes by", "100 to 150 ms", partial(_slower, (1024, 2048, 4096))),
        ("CentaurusComm at 4096 bytes, mean", "around 0.6 s", partial(_mean, 4096)),
        ("CentaurusComm at 8192 bytes, mean", "around 3.5 s, unexplained", partial(_mean, 8192)),
    ]
    shown = [[what, paper, *(measure(real=real) for real in (True, False))] for what, paper, measure in lines]
    return table(["", "paper 000", "kernel's TCP, real time", "virtual time"], shown)


def figure1() -> str:
    """Return the means over the busy cell with a Palm, of the transactions that ended, and their ratio."""
    tcp, centaurus = (statistics("cdpd-palm", False, "request", transport) for transport in ("tcp", "cc"))
    lines = []
    for size, row in tcp.items():
        other = centaurus[size]
        ended = [f"{each['count'] - each['dropped']} of {each['count']}" for each in (row, other)]
        ratio = factor(row["mean_s"] / other["mean_s"]) if 2 * row["dropped"] < row["count"] else "fails"
        lines.append([f"{size}", _known(row["mean_s"]), ended[0], _known(other["mean_s"]), ended[1], ratio])
    heads = ["bytes", "TCP, mean", "ended", "CentaurusComm, mean", "ended", "TCP / CentaurusComm"]
    return table(heads, lines)


def _known(mean_s: float | None) -> str:
    return "–" if mean_s is None else seconds(mean_s)


def figure5() -> str:
    """Return the RTTs over Bluetooth with Nagle's algorithm and a slow user space."""
    tcp, centaurus = (statistics("bluetooth-linux22", False, "reply", transport) for transport in ("tcp", "cc"))
    lines, before_s = [], None
    for size, row in tcp.items():
        step = "" if before_s is None else seconds(row["median_s"] - before_s).replace("-", "−")
        before_s = row["median_s"]
        more = seconds(centaurus[size]["median_s"] - row["median_s"]).replace("-", "−")
        lines.append([f"{size}", seconds(row["median_s"]), step, seconds(centaurus[size]["mean_s"]), more])
    heads = ["bytes", "TCP, median", "step", "CentaurusComm, mean", "its median less TCP's"]
    return table(heads, lines)


def _step(transport: str, small: int, large: int, *, real: bool) -> str:
    rows = statistics("bluetooth", real, "reply", transport)
    return seconds(rows[large]["median_s"] - rows[small]["median_s"])


def _slower(sizes: tuple[int, ...], *, real: bool) -> str:
    return _differences(beside("bluetooth", real, "reply", "tcp1999", "cc"), sign=-1, sizes=sizes)


def _mean(size: int, *, real: bool) -> str:
    return seconds(statistics("bluetooth", real, "reply", "cc")[size]["mean_s"])


def parts() -> dict[str, Callable[[], str]]:
    """Return every generated part of the page by its name."""
    return {
        "cdpd claims": cdpd_claims,
        "cdpd real": partial(sizes_table, "cdpd", real=True),
        "cdpd radio": radio,
        "cdpd virtual": partial(sizes_table, "cdpd", real=False),
        "cdpd request": partial(sizes_table, "cdpd", real=True, vary="request"),
        "cdpd virtual request": partial(sizes_table, "cdpd", real=False, vary="request"),
        "figure 1": figure1,
        "figure 5": figure5,
        "bluetooth claims": bluetooth_claims,
        "bluetooth real": partial(sizes_table, "bluetooth", real=True),
        "bluetooth virtual": partial(sizes_table, "bluetooth", real=False),
    }


def part(text: str, name: str) -> str:
    """Return a generated part of the page as it is written there."""
    return text.partition(f"<!-- {name} -->\n")[2].partition("<!-- end -->")[0]


def _between(made: str) -> Callable[[re.Match[str]], str]:
    return lambda match: match[1] + made + match[2]


def filled(text: str, made_of: dict[str, Callable[[], str]]) -> str:
    """Return a page's text with every generated part as it is to be."""
    for name, made in made_of.items():
        pattern = f"(<!-- {name} -->\n).*?(<!-- end -->)"
        text, found = re.subn(pattern, _between(made()), text, flags=re.S)
        if not found:
            raise LookupError(f"the page has no part {name}")
    return text


def figures() -> dict[str, Callable[[], go.Figure]]:
    """Return the pictures of the page by name."""
    found: dict[str, Callable[[], go.Figure]] = {}
    for link in ("cdpd", "bluetooth"):
        both = [named(link, real=True)[t] for t in ("tcp1999", "cc")]
        shown = [arm for key, arm in named(link, real=True).items() if key != "tcptoday"]  # as TCP 1999
        found[f"experiment_{link}"] = partial(rtt_size_figure, shown)
        found[f"experiment_{link}_cdf"] = partial(cdf_figure, both)
    tcp, centaurus = (named("cdpd", real=True)[t] for t in ("tcp1999", "cc"))
    for name, link, vary in (("figure1", "cdpd-palm", "request"), ("figure5", "bluetooth-linux22", "reply")):
        both = [replace(each, setup=None) for each in named(link, real=False, vary=vary).values()]
        found[f"experiment_{name}"] = partial(rtt_size_figure, both)
    found["experiment_figure2"] = partial(overlay, [tcp], 1024)
    found["experiment_figure4"] = partial(overlay, [centaurus], 8192)
    return found


def write(page: Path, made_of: dict[str, Callable[[], str]]) -> None:
    """Write the generated parts of a page."""
    page.write_text(filled(page.read_text("utf-8"), made_of), "utf-8")


def draw(drawn: dict[str, Callable[[], go.Figure]]) -> None:
    """Write pictures."""
    with tempfile.TemporaryDirectory() as folder, Browser(Path(folder) / "profile") as browser:
        browser.prefer("light")
        for name, made in drawn.items():
            _picture(browser, Path(folder) / f"{name}.html", name, made())


def check() -> None:
    """End the program if a run is missing."""
    missing = [run.name for run in RUNS if not run.path.exists()]
    if missing:
        raise SystemExit(f"not there yet: {', '.join(missing)}")


def _picture(browser: Browser, page: Path, name: str, figure: go.Figure) -> None:
    page.write_text(plot_page(figure, title=name, theme="light"), "utf-8")
    browser.resize(_WIDTH_PX, figure.layout.height)
    browser.open(page)
    browser.evaluate("window.plot.then(() => true)")
    browser.evaluate(_NO_BUTTONS)
    browser.screenshot(IMAGES / f"{name}.png")
