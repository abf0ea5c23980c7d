"""What a report of a drive says first: where it was bad, how bad, and why."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

import multitracer as mt
from multitracer.recording.read import read
from multitracer.report.drive_section import changes_section
from multitracer.report.write import write_report
from multitracer.schemas.mobility import JUDGED_HANDOVERS
from tests.cli.program import call
from tests.cli.test_without_capture import CSV
from tests.conftest import SAMPLES
from tests.report.test_route_map import START_NS, table

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 300
HOLE = range(100, 130)
DISTURBED = range(200, 220)


def drive(path: Path, *, planted: bool = True) -> Path:
    """Write a drive of five minutes with a hole in the coverage and a disturbed stretch, or with neither."""
    head = CSV.splitlines()[0].replace("Operatorname", "Operatorname,CellID")
    lines = []
    for i in range(SECONDS):
        rsrp = -118 if planted and i in HOLE else -85
        sinr = -6 if planted and i in DISTURBED else 18
        time = f"2026.11.20_10.{i // 60:02d}.{i % 60:02d}"
        place = f"{-8.4958 + 2e-4 * i:.6f},51.895500"
        lines.append(f"{time},{place},50,A,{1 + (i >= 150)},LTE,{rsrp},-9,{sinr},12,0,0")
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


def test_planted_stretches_come_first_with_their_causes(tmp_path: Path) -> None:
    log = drive(tmp_path / "drive.csv")
    bad = mt.open(log).stretches
    begin = (bad["begin_ns"] - bad["begin_ns"].min()).dt.total_seconds()
    assert bad["cause"].tolist() == ["coverage", "interference"]
    assert bad["seconds"].tolist() == pytest.approx([len(HOLE), len(DISTURBED)], abs=1)
    assert begin.tolist() == pytest.approx([0, 100], abs=1)
    write_report(read(log), tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    assert html.index("Where was it bad, and why?") < html.index(">Map<") < html.index("serving cell")
    assert "The radio was bad for" in html


def test_a_download_over_an_older_technology_is_slow_for_that_reason(tmp_path: Path) -> None:
    """Each change of the cell in 3G was a cause of its own, and 2G was not known."""
    lines = [CSV.splitlines()[0].replace("Operatorname", "Operatorname,CellID")]
    for i in range(SECONDS):
        mode, cell, rate = ("HSPA+", i // 5, 3_000) if 100 <= i < 160 else ("LTE", 1, 40_000)
        time = f"2026.11.20_10.{i // 60:02d}.{i % 60:02d}"
        lines.append(f"{time},{-8.4958 + 2e-4 * i:.6f},51.895500,50,A,{cell},{mode},-80,-6,18,12,{rate},0")
    lines = [f"{line},{'State' if at == 0 else 'D'}" for at, line in enumerate(lines)]
    log = tmp_path / "drive.csv"
    log.write_text("\n".join(lines) + "\n")
    write_report(read(log), tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text().replace("\xa0", " ")
    assert "It was bad for 60 s of 5 min, 100 % of that for one cause: an older technology." in html
    assert "3G for 60 of 60 s, at its usual rate in this drive; 3.0 Mbit/s; RSCP -80 dBm" in html


def test_a_drive_without_packets_says_what_it_does_not_tell_and_has_a_picture(tmp_path: Path) -> None:
    """On paper, and without JavaScript, its figure was a white box."""
    write_report(read(drive(tmp_path / "drive.csv")), tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    assert "They do not show what limited a transfer or what was lost: capture its packets, too." in html
    assert html.count('<figure class="still">') == 1
    assert html.index("<b>Received power</b>") < html.index("<b>Signal quality</b>")


def test_a_hole_says_when_its_cause_ended_and_when_data_came_again(tmp_path: Path) -> None:
    write_report(read(SAMPLES / "rehearsed-drive"), tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    assert "The cause lasted 8.0 s (begin and end known within 0.5 s); the rate rose again 5.0 s" in html


def test_a_bad_radio_with_a_good_rate_is_not_bad(tmp_path: Path) -> None:
    """What the logger saw counts: 40 Mbit/s in the disturbed stretch, next to nothing in the hole."""
    log = drive(tmp_path / "drive.csv")
    rows = log.read_text().splitlines()
    rates = [300 if i in HOLE else 40_000 for i in range(SECONDS)]
    rows[1:] = [f"{row.removesuffix(',0,0')},{rate},9" for row, rate in zip(rows[1:], rates, strict=True)]
    log.write_text("\n".join(rows) + "\n")
    bad = mt.open(log).stretches
    assert bad["cause"].tolist() == ["coverage"]
    write_report(read(log), tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text().replace("\N{NO-BREAK SPACE}", " ")
    seconds = f"{len(DISTURBED)} seconds with a bad radio the logger saw 20 Mbit/s or more all the same"
    assert seconds in html
    assert "the rate fell" not in html
    assert "the rate rose" not in html


def test_gaps_of_the_route_and_positions_left_out_are_named(tmp_path: Path) -> None:
    """A leap of 300 km draws no line, and the map says so; a position at 0/0 is counted."""
    log = drive(tmp_path / "drive.csv")
    rows = log.read_text().splitlines()
    rows[200:] = [row.replace("51.8955", "54.5935") for row in rows[200:]]
    rows[20] = rows[20].replace("51.8955", "0.0000").replace("-8.492000", "0.000000")
    log.write_text("\n".join(rows) + "\n")
    write_report(read(log), tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    assert "The route has 1 gap, in which nothing is drawn: leap of 300.0 km in 1 s." in html
    assert "Of 300 logged positions were left out: 1 (with impossible coordinates)." in html
    assert 'data-kind="gap"' in html


def test_the_level_of_a_cell_of_the_third_generation_is_named(tmp_path: Path) -> None:
    log = drive(tmp_path / "drive.csv")
    log.write_text(log.read_text().replace(",LTE,", ",HSPA,"))
    write_report(read(log), tmp_path / "report.html")
    assert "RSCP -85 dBm (-85 to -85)" in (tmp_path / "report.html").read_text()


def test_only_an_ordered_change_took_a_known_time() -> None:
    """A reselection is seen when it is done."""
    times = START_NS + np.array([0, 10]) * 1_000_000_000
    changes = table(
        JUDGED_HANDOVERS,
        time_ns=times,
        complete_ns=times + np.array([0, 40_000_000]),
        kind=np.array(["reselection", "handover"]),
    )
    html = str(changes_section(changes, origin_ns=START_NS, speed=1))
    assert "40 ms" in html
    assert ">0 s<" not in html


def test_a_good_drive_has_no_bad_stretch(tmp_path: Path) -> None:
    log = drive(tmp_path / "drive.csv", planted=False)
    assert mt.open(log).stretches.empty
    write_report(read(log), tmp_path / "report.html")
    assert "none of the 300 seconds that can be judged was bad" in (tmp_path / "report.html").read_text()


def test_the_change_of_the_cell_is_listed(tmp_path: Path) -> None:
    log = drive(tmp_path / "drive.csv", planted=False)
    (change,) = mt.open(log).handovers.to_dict("records")
    assert (change["source_cell_id"], change["target_cell_id"], change["evidence"]) == (1, 2, "cell id")
    write_report(read(log), tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    assert "1 change of the serving cell" in html
    assert 'data-show="0"' in html


def test_handovers_are_laid_over_each_other(tmp_path: Path) -> None:
    """RSRP falls from -85 to -95 dBm at each change of the cell, every thirty seconds."""
    log = drive(tmp_path / "drive.csv", planted=False)
    lines = log.read_text().splitlines()
    for i in range(SECONDS):
        cells = lines[i + 1].split(",")
        cells[5], cells[7] = str(i // 30), str(-85 if i % 30 < 15 else -95)
        lines[i + 1] = ",".join(cells)
    log.write_text("\n".join(lines) + "\n")
    session = mt.open(log)
    epochs = session.handover_epochs("Radio_rsrp").set_index("begin_s")
    assert epochs["n"].max() == SECONDS // 30 - 1
    assert epochs["mean"].dropna().loc[:-1].tolist() == pytest.approx([-95] * 9)
    assert epochs["mean"].dropna().loc[1:].tolist() == pytest.approx([-85] * 9, abs=0.1)
    around = session.around_handovers
    assert set(around["window"]) == {"baseline", "before", "during", "after"}
    call("plot", "--figure", "handovers", "--series", "Radio_rsrp", "-o", tmp_path / "figure.html", log)
    assert "contains no quantity" in call("plot", "--figure", "handovers", "--series", "No", log, status=1).stderr


def test_times_of_two_clocks_are_said_and_the_rest_is_shown(tmp_path: Path) -> None:
    log = drive(tmp_path / "drive.csv", planted=False)
    lines = log.read_text().splitlines()
    lines[20] = lines[20].replace("2026.11.20", "1970.01.02")
    log.write_text("\n".join(lines) + "\n")
    write_report(read(log), tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    assert "Nowhere: none of the 300 seconds that can be judged was bad" in html
    assert "The times of a log jump back by up to" in html
    assert "the logs hold 1 other drive (a pause of over six hours, or a clock that jumped), too" in html
    assert "serving cell" in html


def test_a_report_shows_the_part_between_from_and_to_judged_by_the_whole(tmp_path: Path) -> None:
    """The map, the stretches and the cells of the whole drive were shown whatever --from and --to said."""
    log = drive(tmp_path / "drive.csv")
    report = tmp_path / "report.html"
    call("report", "-o", report, log, "--from", "115", "--to", "205")
    html = report.read_text().replace("\xa0", " ")
    assert "The radio was bad for 20 s of 90 s" in html
    assert "weak (below -110 dBm) for 15 of 15 s" in html
    assert html.index("weak signal (coverage)") < html.index("(interference)")
    assert "The logs hold 90 readings of the radio and a route of 1.2 km in 89 s" in html
    assert "2 serving cells<" in html
    assert "The cause lasted" not in html  # of a stretch that is cut
    call("report", "-o", report, log, "--from", "40", "--to", "80")
    html = report.read_text()
    assert "Nowhere: none of the 40 seconds that can be judged was bad." in html
    assert "1 serving cell" in html
    assert "change of the serving cell" not in html
    empty = call("report", "-o", report, log, "--from", "2031-01-01T00:00:00")
    assert "no reading lies between --from and --to; what shows that time is empty" in empty.stderr
    assert "Nothing can be said: no reading of the radio lies between --from and --to." in report.read_text()


def test_a_page_says_by_what_each_second_was_judged(tmp_path: Path) -> None:
    write_report(read(SAMPLES / "rehearsal"), tmp_path / "report.html")
    said = (tmp_path / "report.html").read_text()
    assert "57 seconds are judged by the radio alone: nothing shows that data were wanted." in said
    assert "3 seconds cannot be judged." in said


def test_a_part_of_a_drive_with_packets_has_its_own_stretches_alone(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    call("report", "-o", report, SAMPLES / "rehearsed-drive", "--from", "60", "--to", "100")
    html = report.read_text()
    assert "It was bad for 2.7 s of 40 s, 100 % of that for one cause: changes of the cell." in html
    assert "weak signal (coverage)" not in html
    call("report", "-o", report, SAMPLES / "rehearsed-drive", "--from", "2031-01-01T00:00:00")
    assert "Nothing can be said" in report.read_text()


def test_a_radio_of_another_time_adds_no_stretches_to_those_of_the_packets(tmp_path: Path) -> None:
    """A logger an hour off: each hole was counted twice."""
    folder = tmp_path / "drive"
    shutil.copytree(SAMPLES / "rehearsed-drive", folder, ignore=shutil.ignore_patterns("manifest.json", "truth"))
    for log in [*folder.rglob("radio*"), *folder.rglob("gps*"), *folder.rglob("clocks*")]:
        log.unlink()
    begin_ns = 1_700_000_000_000_000_000
    lines = ["time_ns,source,role,rat,cell_id,rsrp_dbm,sinr_db"]
    lines += [f"{begin_ns + n * 10**9},csv,serving,LTE,7,{-118 if n < 30 else -80},15" for n in range(200)]
    (folder / "mobile" / "drive.csv").write_text("\n".join(lines) + "\n")
    write_report(read(folder), tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    assert "It was bad for 32.4 s of 3 min 6 s" in html
    assert "No radio reading was logged while the packets were captured" in html
    assert "(coverage)" not in html


def test_a_clock_that_was_set_back_joins_nothing(tmp_path: Path) -> None:
    """Daylight saving in local time: the way between was driven twice, and a change of the cell made up."""
    log = drive(tmp_path / "drive.csv")
    complete = mt.open(log)
    rows = log.read_text().splitlines()
    rows[181:] = [row.replace("_10.", "_09.", 1) for row in rows[181:]]
    log.write_text("\n".join(rows) + "\n")
    back = mt.open(log)
    changes = [frame.handovers[["source_cell_id", "target_cell_id"]].to_numpy().tolist() for frame in (back, complete)]
    assert changes == [[[1, 2]], [[1, 2]]]
    assert back.cells[["cell_id", "handovers_in"]].to_numpy().tolist() == [[1, 0], [2, 1]]
    write_report(read(log), tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    assert "a route of 4.1 km" in html
    assert "The route has 1 gap, in which nothing is drawn: its clock was set back." in html


def test_a_log_with_its_newest_line_first_has_one_clock(tmp_path: Path) -> None:
    """Each pause of such a log was a clock that was set back, over which no way led and no cell changed."""
    log = drive(tmp_path / "drive.csv", planted=False)
    head, *rows = log.read_text().splitlines()
    rows = [row for at, row in enumerate(rows) if not (100 <= at < 110 or 146 <= at < 154 or 200 <= at < 215)]
    log.write_text("\n".join([head, *rows]) + "\n")
    write_report(read(log), tmp_path / "forward.html")
    log.write_text("\n".join([head, *reversed(rows)]) + "\n")
    assert len(mt.open(log).handovers) == 1
    write_report(recording := read(log), tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    for page in ((tmp_path / "forward.html").read_text(), html):
        assert "a route of 4.1 km" in page
        assert "clock" not in page[page.index("<body") : page.index("How to read this")]
    assert not any(
        "jump" in warning for table in recording.tables("radio", "radio") for warning in table[1].provenance["warnings"]
    )


def test_of_a_clock_that_was_set_back_by_seconds_the_later_positions_count(tmp_path: Path) -> None:
    """Twenty seconds stand twice in the log: joined by time, the car went to and fro."""
    log = drive(tmp_path / "drive.csv")
    rows = log.read_text().splitlines()
    stamps = [row.partition(",")[0] for row in rows[1:]]
    rows[181:] = [f"{stamps[n + 160]},{row.partition(',')[2]}" for n, row in enumerate(rows[181:])]
    log.write_text("\n".join(rows) + "\n")
    write_report(read(log), tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    assert "a route of 3.8 km" in html
    assert "20 (before its clock was set back)" in html


def test_a_cell_serves_no_longer_than_readings_name_it(tmp_path: Path) -> None:
    log = drive(tmp_path / "drive.csv", planted=False)
    rows = log.read_text().splitlines()
    rows[61:] = [row.replace(",A,1,", ",A,-,").replace(",A,2,", ",A,-,") for row in rows[61:]]
    log.write_text("\n".join(rows) + "\n")
    (cell,) = mt.open(log).cells.to_dict("records")
    assert (cell["cell_id"], cell["seconds"]) == (1, 69)


def test_cells_that_no_log_names_are_not_counted(tmp_path: Path) -> None:
    """What `qmicli --nas-get-signal-info` tells in a loop: it was '1 serving cell'."""
    reading = "[/dev/cdc-wdm0] Successfully got signal info\nLTE:\n\tRSRP: '-95 dBm'\n\tSNR: '8.4 dB'\n"
    log = tmp_path / "qmi.txt"
    log.write_text("".join(f"2026-11-20T10:15:{at:02}Z\n{reading}" for at in range(60)))
    write_report(read(log), tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    assert "1 serving cell" not in html
    assert "How many cells served, and when they changed, is not known" in html


def with_rates(log: Path, rates: list[int], states: str = "") -> None:
    """Write what the logger saw, in kbit/s, and the state of its test program."""
    rows = log.read_text().splitlines()
    rows[0] += ",State" if states else ""
    for i, rate in enumerate(rates):
        rows[i + 1] = f"{rows[i + 1].removesuffix(',0,0')},{rate},9{f',{states[i]}' if states else ''}"
    log.write_text("\n".join(rows) + "\n")


def test_a_download_that_stalls_in_a_good_radio_is_bad_where_the_log_says_that_it_ran(tmp_path: Path) -> None:
    """A stall of 60 s was silent; and with a bad quality, at the usual rate, it was 'interference'."""
    rates = [300 if i in range(30, 90) or i in HOLE else 40_000 for i in range(SECONDS)]
    with_rates(log := drive(tmp_path / "drive.csv"), rates, "D" * 250 + "I" * 50)
    bad = mt.open(log).stretches
    assert bad["cause"].tolist() == ["unknown", "coverage"]
    assert bad["seconds"].tolist() == [60, 30]
    assert bad["missing"].tolist()[0] == "the limits of the transfer (a capture)"
    write_report(read(log), tmp_path / "report.html")
    assert "300 kbit/s" in (tmp_path / "report.html").read_text()


def test_a_low_rate_in_a_good_radio_is_told_where_nobody_knows_what_was_wanted(tmp_path: Path) -> None:
    rates = [300 if i in range(30, 90) else 40_000 for i in range(SECONDS)]
    with_rates(log := drive(tmp_path / "drive.csv", planted=False), rates)
    assert mt.open(log).stretches.empty
    write_report(read(log), tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert "In 60 seconds with a good radio the logger saw less than 8.0 Mbit/s, a fifth of its median" in html
    assert "longest for 60 s, from 0:30 on" in html


def test_a_stretch_at_the_usual_rate_is_not_bad_by_its_quality_alone(tmp_path: Path) -> None:
    """Bursts: the upper quartile is far above the median, and half of it was asked of each second."""
    rates = [(100_000 if i % 3 == 0 else 25_000) for i in range(SECONDS)]
    rates = [30_000 if i in DISTURBED else rate for i, rate in enumerate(rates)]
    with_rates(log := drive(tmp_path / "drive.csv"), rates)
    assert mt.open(log).stretches["cause"].tolist() == []
