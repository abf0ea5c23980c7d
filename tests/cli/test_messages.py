"""What goes to standard error, and to the file of --log: the same options on every command."""

from __future__ import annotations

import re
import subprocess
import time
from typing import TYPE_CHECKING

import click
import pytest

from multitracer.cli import _messages, _progress
from multitracer.cli._program import cli
from multitracer.cli._progress import progress
from multitracer.cli.capture import _view
from multitracer.recorder.screen import ScreenView
from tests.benchmarks.growth import ORDERS, write_order
from tests.cli.program import call, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO|DEBUG|WARNING|ERROR) .+")


@pytest.fixture
def cut_capture(sample_sender: Path, tmp_path: Path) -> Path:
    """Return a capture that ends in the middle of a packet, which is a warning."""
    path = tmp_path / "cut.pcap"
    path.write_bytes(sample_sender.read_bytes()[:-7])
    return path


def _commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None
            yield from _commands(found, f"{name} {each}")
    else:
        yield name, command


@pytest.mark.parametrize(("name", "command"), list(_commands(cli, "multitracer")))
def test_every_command_has_the_options_of_messages(name: str, command: click.Command) -> None:
    options = {option for each in command.params for option in each.opts}
    assert {"-q", "--quiet", "-v", "--verbose", "--log", "--debug"} <= options, name


def test_quiet_leaves_the_result_and_no_warning(cut_capture: Path) -> None:
    told, quiet = run("analyze", cut_capture), run("analyze", "--quiet", cut_capture)
    assert told.stderr.startswith("Warning: ")
    assert not quiet.stderr
    assert quiet.stdout == told.stdout


def test_options_before_a_subcommand_hold_for_it(cut_capture: Path, tmp_path: Path) -> None:
    series, log = ("series", cut_capture, "-o", tmp_path / "series"), tmp_path / "messages.log"
    assert run("export", *series).stderr.startswith("Warning: ")
    assert not run("export", "--quiet", "--log", log, *series).stderr
    assert "WARNING" in log.read_text()


def test_quiet_leaves_errors() -> None:
    assert run("analyze", "-q", "-v", "nowhere.pcap", status=1).stderr.startswith("Error: nowhere.pcap")


def test_verbose_names_what_was_read(sample_session: Path) -> None:
    told = run("analyze", "-v", sample_session).stderr
    assert "captures are read by" in told
    assert re.search(r"tcp-0\.pcap.*: pcap, [\d,]+ packets", told)


def test_a_log_has_every_message_with_its_time_whatever_is_shown(cut_capture: Path, tmp_path: Path) -> None:
    log = tmp_path / "messages.log"
    run("analyze", "-q", "--log", log, cut_capture)
    run("analyze", "-q", "--log", log, "nowhere.pcap", status=1)
    first, *lines = log.read_text().splitlines()
    assert first.startswith("# messages of multitracer ")
    assert all(map(_LINE.fullmatch, lines)), lines
    levels = [line.split()[1] for line in lines]
    assert [levels[0], levels[-2], levels[-1]] == ["INFO", "INFO", "ERROR"]
    assert {"DEBUG", "WARNING"} <= set(levels)
    assert "nowhere.pcap" in lines[-1]


def test_a_log_never_goes_into_another_file(sample_sender: Path, cut_capture: Path, tmp_path: Path) -> None:
    before = sample_sender.read_bytes()
    assert "choose another name" in run("analyze", "--log", sample_sender, cut_capture, status=1).stderr
    assert sample_sender.read_bytes() == before
    notes = tmp_path / "notes.txt"
    notes.write_text("mine\n")
    assert "name a new file" in run("analyze", "--log", notes, cut_capture, status=1).stderr
    assert notes.read_text() == "mine\n"
    assert "name a file that can be written" in run("formats", "--log", tmp_path, status=1).stderr


@pytest.mark.root
def test_a_full_disk_ends_the_log_and_not_the_command(cut_capture: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", disk], check=True)
    try:
        log = disk / "messages.log"
        log.write_text("# messages of multitracer\n" + "x" * 4000)
        (disk / "rest").write_bytes(bytes(4096))
        done = run("analyze", "--log", log, cut_capture)
        assert "No space left on device; no more messages are written to this file" in done.stderr
        assert "TCP connection" in done.stdout
    finally:
        subprocess.run(["umount", disk], check=True)


def test_options_of_one_run_end_with_it(cut_capture: Path) -> None:
    assert not call("analyze", "--quiet", cut_capture).stderr
    assert call("analyze", cut_capture).stderr.startswith("Warning: ")


def test_a_hostile_name_is_one_line_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "messages.log"
    run("analyze", "--log", log, "a\nb\x1b[2J.pcap", status=1)
    assert all(map(_LINE.fullmatch, log.read_text().splitlines()[1:]))


def test_progress_off_a_terminal_is_lines_with_the_time_of_day(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_progress, "_EVERY_S", 0.01)
    with progress(total_bytes=2_000_000) as state:
        state(500_000)
        time.sleep(0.2)
    lines = capfd.readouterr().err.splitlines()
    assert lines
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d reading: 500 kB of 2\.0 MB", line) for line in lines), lines[0]
    monkeypatch.setattr(_messages.chosen, "errors_only", True)
    assert not _messages.chosen.is_progress_shown


def test_reading_tells_its_progress_in_lines_and_in_the_log_even_with_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_progress, "_EVERY_S", 0.0001)
    capture, log = tmp_path / "a.pcap", tmp_path / "messages.log"
    write_order(str(capture), next(iter(ORDERS)), 50_000)
    line = re.compile(r"\d\d:\d\d:\d\d (reading|analysing).*")
    assert any(map(line.fullmatch, call("analyze", "--json", capture).stderr.splitlines()))
    assert not call("analyze", "--json", "--quiet", "--log", log, capture).stderr
    assert re.search(r"Z INFO (reading|analysing)", log.read_text())


def test_runs_of_transports_tell_their_progress_in_lines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_progress, "_EVERY_S", 0.0)
    trace = tmp_path / "link.trace"
    trace.write_text("".join(f"{ms}\n" for ms in range(0, 1000, 20)))
    done = call("testbed", "compare", trace, "--transports", "reno", "--runs", "2", "--seconds", "2")
    lines = done.stderr.splitlines()
    assert [line[9:] for line in lines] == ["1 of 2 runs are complete", "2 of 2 runs are complete"]
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in lines)


@pytest.mark.parametrize("is_quiet", [False, True])
def test_warnings_of_a_recording_are_in_the_log(
    is_quiet: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_messages, "chosen", _messages.MessageChoice())
    _messages.chosen.log = str(tmp_path / "messages.log")
    _messages.chosen.errors_only = is_quiet
    with _view(tmp_path, tmp_path, plain=True) as view:
        view.warn("the disk is nearly full")
    assert capsys.readouterr().err == ("" if is_quiet else "Warning: the disk is nearly full\n")
    ScreenView("drive", _messages.log_warning).warn("the modem is silent")
    assert [line.split("Z ")[1] for line in (tmp_path / "messages.log").read_text().splitlines()[2:]] == [
        "WARNING the disk is nearly full", "WARNING the modem is silent",
    ]  # fmt: skip
