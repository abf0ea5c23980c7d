"""Small sessions that tests make, and what a campaign holds of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.campaign.catalogue import Catalogue
from multitracer.campaign.schemas import TABLES
from multitracer.manifest import Host, Manifest, Variables, write_manifest
from tests.recording.captures import START_NS, Conversation, write_conversations

if TYPE_CHECKING:
    from pathlib import Path

HOUR_NS = 3600 * 10**9


def make_session(folder: Path, number: int = 0, *, name: str = "drive", segments: int = 5) -> Path:
    """Make a session of one transfer; each number gives another time, address and number of losses."""
    host = folder / "phone"
    host.mkdir(parents=True)
    conversation = Conversation(
        client=f"10.{number // 250}.{number % 250}.1",
        start_ns=START_NS + number * HOUR_NS,
        segments=segments,
        lost=tuple(range(number % 3)),
    )
    write_conversations(host / "capture.pcap", conversation)
    variables = Variables(title=f"drive {number}", more={"operator": "ab"[number % 2]})
    write_manifest(folder, Manifest(name, hosts={"phone": Host()}, variables=variables))
    return folder


def make_sessions(folder: Path, count: int) -> Path:
    """Make sessions of several cars and days below a folder."""
    for number in range(count):
        make_session(folder / f"car{number % 2}" / f"day{number:03d}", number, name=f"drive {number}")
    return folder


def rows_of(place: str | Path) -> dict[str, list[str]]:
    """Return every row of a campaign as text, each table sorted: two campaigns are equal if these are."""
    catalogue = Catalogue(place)
    return {name: sorted(map(repr, catalogue.dataset(name).to_table().to_pylist())) for name in TABLES}


def count(place: str | Path, table: str = "sessions") -> int:
    """Return how many rows a table has."""
    return Catalogue(place).dataset(table).count_rows()
