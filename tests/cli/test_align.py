"""`multitracer align`: sessions and loose files, as text, JSON, tables and a figure."""

from __future__ import annotations

import base64
import csv
import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.scenario.model import ClockSetting as WrongClock
from multitracer.lab.simulator.network import EPOCH_NS
from multitracer.lab.simulator.run import record_virtual
from tests.cli.program import call, run
from tests.clock.restamp import S, restamp, stamps_of
from tests.conftest import SAMPLES
from tests.recording.captures import Conversation, write_conversations

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.tables import Times

SAMPLE = SAMPLES / "cellular_upload"
SENDER, RECEIVER = SAMPLE / "mobile" / "tcp-0.pcap.gz", SAMPLE / "fixed" / "tcp-0.pcap.gz"
MS = 1_000_000


def document(*args: str | Path) -> dict[str, Any]:
    found = json.loads(call("align", "--json", *args).stdout)
    assert found["schema"] == "multitracer.align/1"
    return dict(found)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a short virtual session whose fixed host's clock is 2.4 s ahead and gains 60 ppm."""
    folder = tmp_path_factory.mktemp("sessions") / "drive"
    wrong = WrongClock(offset_s=2.4, skew_ppm=60.0)
    record_virtual(replace(load_scenario("clock-shift"), clock=wrong, limit_s=90.0), folder)
    return folder


@pytest.fixture(scope="module")
def ahead(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the sample's capture at the receiver, by a clock 12.3 s ahead that gains 400 ppm."""
    path = tmp_path_factory.mktemp("captures") / "ahead.pcap"
    start = int(stamps_of(SENDER)[0])
    return restamp(RECEIVER, path, lambda t: t + 12_300 * MS + ((t - start) * 400e-6).astype("int64"))


# --- loose files ---


def test_two_loose_captures_are_related_from_the_first_to_the_second(ahead: Path) -> None:
    edge = document(SENDER, ahead)["edges"][0]
    assert (edge["from"], edge["to"]) == (str(SENDER), str(ahead))
    assert edge["first_ns"] == int(stamps_of(SENDER)[0])
    assert edge["offset_ns"] == pytest.approx(12_300 * MS, abs=2 * MS)
    assert edge["skew_ppm"] == pytest.approx(400, abs=30)
    assert 0 < edge["uncertainty_ns"] < 5 * MS
    assert edge["skew_uncertainty_ppm"] > 0
    assert edge["evidence"] > 6000
    assert edge["method"]
    assert edge["lower_ns"] < 12_300 * MS < edge["upper_ns"]


def test_the_other_way_round_it_is_the_inverse(ahead: Path) -> None:
    there, back = document(SENDER, ahead)["edges"][0], document(ahead, SENDER)["edges"][0]
    first = there["first_ns"] + 5 * S
    far = first + there["offset_ns"] + round(there["skew_ppm"] * 1e-6 * (first - there["first_ns"]))
    again = far + back["offset_ns"] + round(back["skew_ppm"] * 1e-6 * (far - back["first_ns"]))
    assert abs(again - first) <= 2
    assert back["from"] == str(ahead)


@pytest.mark.slow
def test_a_reference_can_be_named(ahead: Path) -> None:
    assert document(SENDER, ahead)["reference"] == str(SENDER)
    assert document(ahead, SENDER)["reference"] == str(SENDER)  # it sends the data
    found = document("--reference", str(ahead), SENDER, ahead)
    assert found["reference"] == str(ahead)
    assert [row["host"] for row in found["mapping"]] == [str(SENDER)]
    wrong = call("align", "--reference", "nobody", SENDER, ahead, status=1)
    assert "this recording has no clock 'nobody:realtime'; the clocks are " in wrong.stderr


def test_what_the_data_cannot_say_is_refused(tmp_path: Path) -> None:
    one = write_conversations(tmp_path / "one.pcap", Conversation())
    other = write_conversations(tmp_path / "other.pcap", Conversation(sport=41_000, client="10.0.0.9"))
    done = call("align", SENDER, one, status=1)
    assert "cannot determine the clock offset, because" in done.stderr
    assert "what would help" in done.stderr
    assert done.stdout == ""
    assert "cannot determine the clock offset" in call("align", "--json", one, other, status=1).stderr


def test_one_capture_has_one_clock(ahead: Path) -> None:
    found = document(ahead)
    assert (found["edges"], found["mapping"], found["reference"]) == ([], [], str(ahead))
    assert "There is only one clock" in call("align", ahead).stdout


def test_the_doctor_names_what_is_wrong_with_two_captures(tmp_path: Path) -> None:
    atomic = restamp(RECEIVER, tmp_path / "atomic.pcap", lambda t: t + 37 * S)
    (complaint,) = document(SENDER, atomic)["doctor"]
    assert (complaint["code"], complaint["source"]) == ("tai", str(atomic))
    assert complaint["shift_ns"] == -37 * S
    assert "tai: " in call("align", SENDER, atomic).stdout
    assert document(SENDER, RECEIVER)["doctor"] == []


def test_the_doctor_sees_a_single_capture_too(tmp_path: Path) -> None:
    coarse = restamp(SENDER, tmp_path / "coarse.pcap", lambda t: t // S * S)
    assert [each["code"] for each in document(coarse)["doctor"]] == ["whole-seconds"]


def test_two_logs_of_a_link_are_related_by_its_slots(session: Path) -> None:
    fixed, mobile = (session / host / "rlp.pcapng" for host in ("fixed", "mobile"))
    (edge,) = document(fixed, mobile)["edges"]
    assert (edge["from"], edge["to"], edge["method"]) == (str(fixed), str(mobile), "slots of the link")
    assert edge["skew_ppm"] == pytest.approx(-60, abs=1)
    assert edge["offset_ns"] == pytest.approx(-2_400 * MS, abs=10 * MS)


def test_a_folder_is_given_alone(ahead: Path) -> None:
    assert "give only this folder" in call("align", SAMPLE, ahead, status=1).stderr


# --- sessions ---


def test_a_session_is_related_and_its_tables_are_kept(session: Path, tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    shutil.copytree(session, folder)
    text = call("align", folder).stdout
    assert "mobile:realtime" in text
    assert "+2.400" in text
    assert "+60.00 ± " in text
    assert "Reference: mobile:realtime" in text
    edges = pq.read_table(folder / "tables" / "clock_edges.parquet")
    mapping = pq.read_table(folder / "tables" / "clock_mapping.parquet").to_pylist()
    methods = {"slots of the link", "two captures", "bracketed readings", "TCP timestamps"}
    assert set(edges["method"].to_pylist()) == methods
    (fixed,) = (row for row in mapping if (row["host"], row["domain"]) == ("fixed", "realtime"))
    true = -2_400 * MS - round((fixed["first_ns"] - EPOCH_NS - 2_400 * MS) * 60e-6)
    assert fixed["offset_ns"] == pytest.approx(true, abs=2 * MS)
    assert fixed["skew_ppm"] == pytest.approx(-60, abs=1)
    assert sorted(p.name for p in (folder / "tables").iterdir()) == ["clock_edges.parquet", "clock_mapping.parquet"]
    call("inspect", folder)  # the folder opens as before


def test_a_session_can_be_left_as_it_is(session: Path) -> None:
    call("align", "--no-keep", session)
    assert not (session / "tables").exists()


def test_without_pyarrow_the_tables_are_csv(session: Path, tmp_path: Path) -> None:
    folder, absent = tmp_path / "drive", tmp_path / "absent"
    shutil.copytree(session, folder)
    absent.mkdir()
    (absent / "pyarrow.py").write_text("raise ModuleNotFoundError('no pyarrow', name='pyarrow')\n")
    run("align", folder, before=["env", f"PYTHONPATH={absent}:{SAMPLES.parent}"])
    with (folder / "tables" / "clock_edges.csv").open(newline="") as stream:
        methods = {row["method"] for row in csv.DictReader(stream)}
    assert "slots of the link" in methods


def test_tables_that_lead_out_of_the_session_are_not_written(session: Path, tmp_path: Path) -> None:
    folder, outside = tmp_path / "drive", tmp_path / "outside"
    shutil.copytree(session, folder)
    outside.mkdir()
    (folder / "tables").symlink_to(outside)
    assert "link that leads out of the folder" in call("align", folder, status=1).stderr
    assert list(outside.iterdir()) == []


def test_the_figure_shows_residuals_envelopes_and_error(session: Path, tmp_path: Path) -> None:
    target = tmp_path / "clocks.json"
    assert call("align", "--no-keep", "-o", target, session).stdout.endswith(f"{target}\n")
    figure = json.loads(target.read_text())
    names = {trace.get("name") for trace in figure["data"]}
    assert {"there", "back", "envelope there", "envelope back", "both at once", "± 95 %"} <= names
    titles = [note["text"] for note in figure["layout"]["annotations"]]
    (packets,) = (title for title in titles if "(two captures)" in title)
    assert packets.startswith("<b>mobile:realtime to fixed:realtime</b><br>"), "a phone shows 45 characters"
    html = tmp_path / "clocks.html"
    call("align", "--no-keep", "-o", html, SAMPLE)
    page = html.read_text()
    assert "plotly" in page
    assert 'name="viewport"' in page, "a phone would show it unreadably small"
    assert "Content-Security-Policy" in page


@pytest.mark.slow
def test_a_step_is_drawn_and_each_packet_stands_on_its_side_of_it(tmp_path: Path) -> None:
    def stepped(t: Times) -> Times:
        return t + 2 * S * (np.arange(len(t)) > 3000)

    jumped, target = restamp(RECEIVER, tmp_path / "jumped.pcap", stepped), tmp_path / "clocks.json"
    call("align", "-o", target, SENDER, jumped)
    figure = json.loads(target.read_text())
    (step,) = (note["text"] for note in figure["layout"]["annotations"] if note["text"].startswith("step"))
    assert float(step.split()[1]) == pytest.approx(2, abs=0.02)
    (there,) = (trace for trace in figure["data"] if trace.get("name") == "there")
    delays = floats(there["y"])
    assert len(delays) > 1000
    assert delays.min() > 0.02
    assert delays.max() < 0.6


def floats(packed: Any) -> np.ndarray:
    """Return the numbers of a trace, which plotly packs in base 64."""
    if isinstance(packed, dict):
        return np.frombuffer(base64.b64decode(packed["bdata"]), dtype=packed["dtype"])
    return np.array(packed, dtype=float)


def test_an_empty_name_is_not_the_current_folder(tmp_path: Path) -> None:
    assert "the value is empty; name a capture" in call("align", "", status=2, cwd=tmp_path).stderr


def test_a_page_is_not_written_over_a_capture_that_a_forgotten_name_made_the_output(tmp_path: Path) -> None:
    near, far = (tmp_path / f"{host}.pcap.gz" for host in ("mobile", "fixed"))
    for path in (near, far):
        shutil.copy(SAMPLES / "cellular_upload" / "mobile" / "tcp-0.pcap.gz", path)
    before = far.read_bytes()
    assert "is a capture" in call("align", near, "-o", far, status=1).stderr
    assert far.read_bytes() == before
