"""The runs of figure 6 are the same for everybody, and the page shows what they came to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from docs.papers.programs import figure6, figure6_page
from multitracer.lab.simulator.run import record_virtual
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from tests.narrowed import call_of

if TYPE_CHECKING:
    from pathlib import Path


def test_a_run_is_drawn_from_its_number_and_every_third_radio_is_poor() -> None:
    runs = [figure6.scenario(number) for number in range(figure6.HOW_MANY)]
    assert runs == [figure6.scenario(number) for number in range(figure6.HOW_MANY)]
    poor = [call_of(run).up.good_s < 10 for run in runs]
    assert sum(poor) * 3 == len(runs)
    sizes = [run.traffic[0].bytes for run in runs]
    assert 230_000 <= min(sizes) < 300_000
    assert 1_200_000 < max(sizes) <= 1_500_000
    assert {call_of(run).header_compression for run in runs} == {"none", "vj-slot-id"}
    assert {call_of(run).when_exhausted for run in runs} == {"reset", "drop-call"}


def test_a_run_comes_to_what_the_table_says(tmp_path: Path) -> None:
    rows = [row for row in figure6.read_rows() if row["run"].startswith("virtual")]
    smallest = min(rows, key=lambda row: int(row["bytes"]))
    number = int(smallest["run"].split()[1])
    record_virtual(figure6.scenario(number), tmp_path / "session")
    transfer = Transfer.of(read(tmp_path / "session"))
    made = figure6.row_of(smallest["run"], smallest["radio"], transfer)
    for name in ("bytes", "outcome", "utilization", "throughput_kbps", "resets", "lost_s"):
        assert str(made[name]) == smallest[name], name


def test_what_costs_a_transfer_without_compression_is_renos_wait() -> None:
    """Each of the worst without header compression reaches 98 % over the same radio once NewReno repairs it."""
    made = {row["run"]: float(row["utilization"]) for row in figure6.read_rows(figure6.REPEATED)}
    low = [row for row in figure6.worst(figure6.read_rows()) if row["header_compression"] == "none"]
    assert len(low) >= 3
    assert all(int(row["resets"]) > 0 for row in low)
    assert all(made[f"{row['run']}, NewReno"] > 0.97 for row in low)


def test_a_repeated_run_differs_in_what_its_name_says_alone() -> None:
    same, variants = figure6.scenario(41), figure6.repeated(41)
    assert {variant.mobile.congestion for variant in variants.values()} == {"newreno", "reno"}
    other = variants["the other compression"]
    assert call_of(same).header_compression != call_of(other).header_compression
    for run in (same, *variants.values()):  # only runs without compression have timestamps
        is_plain = call_of(run).header_compression == "none"
        assert [profile.timestamps for profile in (run.mobile, run.fixed)] == [is_plain, is_plain]
    congestion = [replace(profile, congestion="reno") for profile in (variants["NewReno"].mobile, same.fixed)]
    assert replace(variants["NewReno"], mobile=congestion[0], fixed=congestion[1]) == same
    assert [replace(profile, timestamps=False) for profile in (other.mobile, other.fixed)] == [same.mobile, same.fixed]
    assert replace(other, mobile=same.mobile, fixed=same.fixed, link=same.link) == same
    assert {variant.events for variant in variants.values()} == {same.events}
    assert {variant.seed for variant in variants.values()} == {same.seed}


def test_no_retransmission_competes_in_bulk_in_six_hours() -> None:
    """Section 5.4: spurious timeouts come at the beginning of a connection alone."""
    rows = figure6_page.six_hours()
    for radio, hours in (("good", 4), ("poor", 2)):
        total_s = sum(float(row["total_s"]) for row in rows if row["radio"] == radio)
        assert hours * 3600 <= total_s < hours * 3600 + 3600
    assert all(float(at_s) < 10 for row in rows for at_s in row["spurious_s"].split())


def test_the_page_shows_what_the_runs_came_to() -> None:
    text = figure6_page.PAGE.read_text("utf-8")
    assert figure6_page.filled(text) == text
