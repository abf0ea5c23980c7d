"""Writes the table of wtcp.md: what each parameter does to the goodput when it is halved and doubled.

`python -m docs.papers.programs.wtcp_sensitivity` takes some minutes. Of the threshold of a ratio, the
distance from 1 is halved and doubled. The path is that of the tests, in virtual time.
"""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import NamedTuple

from multitracer.errors import LocalProtocolError
from multitracer.protocols.wtcp import state as config_module
from multitracer.protocols.wtcp.state import WtcpConfig
from multitracer.units import NS_PER_S
from tests.protocols.wtcp_path import Direction, goodput_packets_per_s
from tests.protocols.wtcp_path import Path as Link

PAGE = Path(__file__).parents[1] / "wtcp.md"
BEGIN, END = "<!-- sensitivity -->\n", "<!-- end -->\n"
KEYS = tuple(each.name for each in fields(WtcpConfig))
_SECONDS = 200
_THRESHOLDS = ("alpha_plus", "alpha_minus", "beta_plus", "beta_minus")
_DOCUMENTED = re.compile(r'^    (\w+): [^\n]*\n    """(.*?)"""', re.MULTILINE | re.DOTALL)
_NOT_ALLOWED = "–"


class Case(NamedTuple):
    """A path on which a variant is tried."""

    bits_per_s: int
    loss: float
    seeds: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.bits_per_s / 1000:g} kb/s, {self.loss:.0%}"


CASES = (Case(19_200, 0.06, (1, 2)), Case(50_000, 0.06, (1, 2)), Case(50_000, 0.0, (1,)))


def goodput(config: WtcpConfig, case: Case) -> float:
    """Return the mean goodput of a variant, in packets of 500 bytes each second."""
    found = []
    for seed in case.seeds:
        ways = (Direction(bits_per_s=case.bits_per_s, loss=case.loss) for _ in range(2))
        link = Link(*ways, seed=seed)
        exchange = link.add(config, keep=False)
        link.run(_SECONDS)
        found.append(goodput_packets_per_s(exchange, 0, _SECONDS))
    return sum(found) / len(found)


def variant(key: str, factor: float) -> WtcpConfig | None:
    """Return the configuration with one parameter changed, None if that is not allowed."""
    default = getattr(WtcpConfig(), key)
    value = 1 - (1 - default) * factor if key in _THRESHOLDS else default * factor
    try:
        return replace(WtcpConfig(), **{key: round(value) if isinstance(default, int) else value})
    except LocalProtocolError:
        return None


def row(key: str) -> str:
    """Return the line of one parameter."""
    cells = []
    for factor in (0.5, 2.0):
        config = variant(key, factor)
        numbers = [_NOT_ALLOWED if config is None else f"{goodput(config, case):.2f}" for case in CASES]
        cells.append(" · ".join(numbers))
    default = _shown(key, getattr(WtcpConfig(), key))
    return f"| `{key}` | {default} | {_whose()[key]} | {cells[0]} | {cells[1]} |\n"


def table() -> str:
    """Return the whole table."""
    plain = " · ".join(f"{goodput(WtcpConfig(), case):.2f}" for case in CASES)
    head = f"Defaults: {plain} packets/s at {' · '.join(map(str, CASES))}.\n\n"
    head += "| parameter | default | whose | halved | doubled |\n| --- | --- | --- | --- | --- |\n"
    return head + "".join(map(row, KEYS))


def _shown(key: str, value: float) -> str:
    if key.endswith("_ns"):
        return f"{value / NS_PER_S:g} s"
    return f"{value:,.10g}" if isinstance(value, int) else f"{value:.4g}"


def _whose() -> dict[str, str]:
    """Return who gave each parameter, as its docstring tells."""
    text = Path(config_module.__file__).read_text("utf-8")
    return {key: _source(words) for key, words in _DOCUMENTED.findall(text) if key in KEYS}


def _source(words: str) -> str:
    if "[paper 001" in words:
        return "paper, without a value" if "not given" in words else "paper"
    return "not given" if "not given" in words else "ours"


def main() -> None:
    """Write the table into the page."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + BEGIN + "\n" + table() + "\n" + END + after, "utf-8")


if __name__ == "__main__":
    main()
