"""What `diagnose --json` writes, held against docs/schemas/diagnose.schema.json."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from tests.cli.program import ROOT, call
from tests.cli.test_analyze import closed
from tests.conftest import SAMPLES
from tests.recording.captures import Conversation, write_conversations

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = json.loads((ROOT / "docs" / "schemas" / "diagnose.schema.json").read_text("utf-8"))
SESSIONS = sorted(path.parent.name for path in SAMPLES.glob("*/manifest.json"))


def strict() -> Any:
    """Return the schema with no key allowed that it does not list; only `intervals` may be absent."""
    schema = json.loads(json.dumps(SCHEMA))
    schema["required"].append("intervals")
    for name in ("transport", "quic"):  # of QUIC alone
        del schema["properties"][name]
    schema = closed(schema)
    schema["required"].remove("intervals")
    return schema


def diagnosed(*args: str | Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(call("diagnose", "--json", *args).stdout)
    jsonschema.validate(document, strict())
    return document


@pytest.mark.parametrize("session", SESSIONS)
def test_every_bundled_session_follows_the_schema(session: str) -> None:
    document = diagnosed(SAMPLES / session)
    assert "intervals" not in document
    assert sum(row["seconds"] for row in document["limits"]) == pytest.approx(document["limits_total_s"], abs=1e-4)


@pytest.mark.parametrize(
    ("folder", "view"),
    [
        ("download/mobile", "receiver"),
        ("download/fixed", "link-log"),
        ("cellular_upload/mobile", "sender-state"),
        ("cellular_upload/fixed", "receiver"),
    ],
)
def test_one_end_alone_follows_it(folder: str, view: str) -> None:
    assert diagnosed(SAMPLES / folder)["view"] == view


def test_the_capture_of_one_end_follows_it() -> None:
    assert diagnosed(SAMPLES / "download" / "fixed" / "tcp-0.pcap.gz")["view"] == "sender"


def test_a_connection_that_is_asked_for_follows_it() -> None:
    document = diagnosed("--connection", "1", SAMPLES / "cellular_upload")
    assert (document["connection"], document["group"]["connections"]) == (1, [1])


def test_what_nothing_is_known_of_follows_it(tmp_path: Path) -> None:
    findings = diagnosed(write_conversations(tmp_path / "short.pcap", Conversation()))["findings"]
    assert [each["kind"] for each in findings] == ["application-limited"]


def test_intervals_follow_it_and_leave_no_gap() -> None:
    """Their zero is the connection's first SYN, that of findings the sender's, here the SYN-ACK."""
    document = diagnosed("--intervals", SAMPLES / "download")
    found = document["intervals"]
    assert [each["end_ns"] for each in found[:-1]] == [each["begin_ns"] for each in found[1:]]
    assert found[0]["begin_s"] == 0
    assert found[-1]["end_s"] == pytest.approx(document["limits_total_s"], abs=1e-4)
    finding = document["findings"][0]
    zeros = [each["begin_ns"] / 1e9 - each["begin_s"] for each in (found[0], finding)]
    assert zeros[0] < zeros[1] < zeros[0] + 1


def test_trust_is_that_of_analyze_and_the_text_begins_with_it() -> None:
    capture = SAMPLES / "damaged" / "mobile"
    document = diagnosed(capture)
    (reason,) = document["trust"]["reasons"]
    assert document["trust"] == json.loads(call("analyze", "--json", capture).stdout)["trust"]
    assert (reason["code"], reason["severity"]) == ("damaged-file", "caution")
    assert "losses" in reason["affects"]
    assert call("diagnose", capture).stdout.startswith("Trust: caution\n  - The file is damaged")
    assert diagnosed(SAMPLES / "download")["trust"] == {
        "verdict": "good", "verdict_absent": None, "notes": [], "reasons": []
    }  # fmt: skip
    assert not call("diagnose", SAMPLES / "download").stdout.startswith("Trust")
