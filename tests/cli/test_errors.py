"""Whatever goes wrong ends in one clear line and a documented exit status."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.benchmarks.endless import write
from tests.cli.program import COMMAND, ENVIRONMENT, analyze, call, one_error, run, start
from tests.recording.captures import Conversation, write_conversations


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a capture of one connection."""
    return write_conversations(tmp_path_factory.mktemp("captures") / "a.pcap", Conversation())


@pytest.mark.parametrize("command", ["inspect", "analyze", "plot", "report"])
def test_absent_file(command: str, tmp_path: Path) -> None:
    done = call(command, tmp_path / "absent.pcap", status=1, cwd=tmp_path)
    assert (
        done.stderr == f"Error: {tmp_path}/absent.pcap: cannot open this input: No such file or directory; "
        "check the name\n"
    )
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_no_capture(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("just words\n")
    assert (
        "notes.txt: the format is unknown (the file begins with"
        in call("analyze", tmp_path / "notes.txt", status=1).stderr
    )
    assert "contains no capture" in call("analyze", tmp_path, status=1).stderr


def test_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty.pcap").touch()
    assert "the file is empty" in call("analyze", tmp_path / "empty.pcap", status=1).stderr


def test_header_alone_is_a_capture_without_packets(tmp_path: Path, capture: Path) -> None:
    (tmp_path / "header.pcap").write_bytes(capture.read_bytes()[:24])
    assert analyze(tmp_path / "header.pcap")["connections"] == []
    assert "no TCP connection" in call("plot", tmp_path / "header.pcap", status=1, cwd=tmp_path).stderr


def test_damaged_after_whole_packets(tmp_path: Path, capture: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(capture.read_bytes()[:-7])
    done = run("analyze", path)
    assert done.stderr.startswith(f"Warning: {path}: damaged after 15 whole packets: ")
    document = analyze(path)
    assert document["files"][0]["packets"] == 15
    assert document["files"][0]["damaged"]
    assert document["trust"]["verdict"] != "good"
    assert any("damaged" in reason["code"] for reason in document["trust"]["reasons"])


def test_file_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "secret.pcap"
    path.touch(mode=0o000)
    powerless = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    done = run("analyze", path, status=1, before=powerless)
    assert done.stderr.startswith(f"Error: {path}: cannot open this file: Permission denied")


def test_file_that_fails_while_it_is_read() -> None:
    errors = run("analyze", "/proc/self/mem", status=1).stderr
    assert "/proc/self/mem: cannot read this file: Input/output error" in errors


def test_directory_instead_of_the_output_file(tmp_path: Path, capture: Path) -> None:
    assert "is a folder" in call("plot", capture, "-o", tmp_path, status=1).stderr


def test_output_never_replaces_the_input(tmp_path: Path, capture: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(capture.read_bytes())
    for command in (("analyze", "--json"), ("plot",), ("report",)):
        assert "is also the input" in call(*command, path, "-o", path, status=1).stderr
    assert path.read_bytes() == capture.read_bytes()


def test_output_never_replaces_a_log_of_the_session(tmp_path: Path, sample_session: Path) -> None:
    folder = tmp_path / "session"
    shutil.copytree(sample_session, folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for path in (folder / "mobile" / "tcp-0.pcap.gz", folder / "manifest.json"):
        for command in ("analyze", "plot", "report"):
            assert "is also the input" in call(command, folder, "-o", path, status=1).stderr
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("analyze", "--parquet"), "connections.parquet"),
        (("export", "tables", "--format", "csv"), "directions.csv"),
        (("export", "series"), "TcpSnd_cwnd.csv"),
        (("report",), "index.html"),
    ],
)
def test_output_folder_never_replaces_an_input(
    command: tuple[str, ...], name: str, tmp_path: Path, capture: Path
) -> None:
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / name
    path.write_bytes(capture.read_bytes())
    inputs = [path, capture] if command == ("report",) else [path]
    assert "is also the input" in call(*command, "-o", tmp_path / "out", *inputs, status=1).stderr
    assert path.read_bytes() == capture.read_bytes()
    assert [each.name for each in (tmp_path / "out").iterdir()] == [name]


def test_output_folder_that_does_not_exist(tmp_path: Path, capture: Path) -> None:
    target = tmp_path / "absent" / "a"
    for command in (("analyze", "--json"), ("plot",), ("report",), ("export", "tables")):
        assert f"{target}: the folder does not exist" in call(*command, capture, "-o", target, status=1).stderr


def test_full_disk(full_device: Path, capture: Path) -> None:
    with full_device.open("w") as full:
        done = subprocess.run(
            [*COMMAND, "analyze", "--json", capture],
            env=ENVIRONMENT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "Error: output: No space left on device\n"
    assert "No space left" in run("analyze", "--json", capture, "-o", full_device, status=1).stderr


def test_disk_that_fills_up_leaves_no_half_file(tmp_path: Path, capture: Path) -> None:
    """A file size limit stands in for the full disk; Python ignores the signal that comes with it."""
    target = tmp_path / "figure.html"
    target.write_text("the old one")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = run("plot", capture, "-o", target, status=1, preexec_fn=limit)
    assert done.stderr.startswith(f"Error: {target}: cannot write this file: File too large; ")
    assert target.read_text() == "the old one"
    assert [path.name for path in tmp_path.iterdir()] == ["figure.html"]


@pytest.mark.parametrize("command", [("analyze", "--parquet"), ("export", "tables", "--format", "csv")])
def test_disk_that_fills_up_leaves_no_half_folder(command: tuple[str, ...], tmp_path: Path, capture: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    done = run(*command, capture, "-o", tmp_path / "tables", status=1, preexec_fn=limit)
    assert done.stderr.startswith(f"Error: {tmp_path}/tables: cannot write this file: ")
    assert ".tmp" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_several_reports_are_each_whole_when_the_disk_fills_up(tmp_path: Path, capture: Path) -> None:
    """Between the size of the index page and that of a report."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    other = shutil.copy(capture, tmp_path / "b.pcap")
    done = run("report", capture, other, "-o", tmp_path / "out", status=1, preexec_fn=limit)
    assert "File too large" in done.stderr
    assert ".part" not in done.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} <= {"index.html"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_that_ends_the_program_leaves_nothing(number: signal.Signals, tmp_path: Path, capture: Path) -> None:
    """It comes while the folder of tables lies beside its place."""
    (tmp_path / "planted").mkdir()
    (tmp_path / "planted" / "sitecustomize.py").write_text(
        "import multitracer.api.files as tables, os\n"
        f"tables.write_tables = lambda *args, **options: os.kill(os.getpid(), {int(number)})\n"
    )
    path = os.pathsep.join([str(tmp_path / "planted"), ENVIRONMENT["PYTHONPATH"]])
    environment = {**ENVIRONMENT, "PYTHONPATH": path}
    command: list[str | Path] = ["analyze", "--parquet", "-o", tmp_path / "tables", capture]
    done = run(*command, status=128 + number, env=environment)
    assert done.stderr == ""
    assert [each.name for each in tmp_path.iterdir()] == ["planted"]


def test_reader_that_stops_reading(sample_session: Path) -> None:
    with start(["analyze", "--json", sample_session]) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        assert child.stderr.read() == ""
        assert child.wait(30) == 141


@pytest.mark.parametrize("args", [("analyze",), ("inspect",), ("formats",), ("doctor",)])
def test_closed_standard_output(args: tuple[str, ...], capture: Path) -> None:
    inputs = [capture] if args[0] in ("analyze", "inspect") else []
    done = run(*args, *inputs, status=1, before=["sh", "-c", 'exec "$@" >&-', "sh"])
    assert done.stderr.startswith("Error: standard output is closed; ")


def test_moment_far_away_is_an_empty_interval(capture: Path) -> None:
    assert analyze(capture, "--from", "9e9")["connections"] == []
    assert len(analyze(capture, "--to", "9e9")["connections"]) == 1


def test_file_name_that_is_not_utf8(tmp_path: Path, capture: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9\x1b[31m.pcap")
    Path(path).write_bytes(capture.read_bytes())
    shown = f"{tmp_path}/caf\\xe9"
    assert f"{shown}\\x1b[31m.pcap: pcap, 16 packets" in run("analyze", path).stdout
    assert analyze(path)["files"][0]["path"] == f"{shown}\x1b[31m.pcap"
    assert shown in run("analyze", "--csv", path).stdout
    Path(path).write_bytes(b"nothing")
    done = run("analyze", path, status=1)
    assert "\x1b" not in done.stderr
    assert "\\udce9\\x1b[31m" in done.stderr


def test_plain_locale(capture: Path) -> None:
    plain = {**ENVIRONMENT, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    run("analyze", capture, env=plain)
    run("inspect", capture, env=plain)


@pytest.mark.parametrize(
    "args",
    [
        ["analyze"],
        ["analyse", "x"],
        ["analyze", "--jsn", "x"],
        ["analyze", "--json", "--csv", "x"],
        ["analyze", "--parquet", "x"],
        ["analyze", "--connection", "0", "x"],
        ["analyze", "--connection", "host:80", "x"],
        ["analyze", "--connection", "10.0.0.1:70000", "x"],
        ["analyze", "--connection", "10.0.0.1", "x"],
        ["analyze", "--from", "noon", "x"],
        ["analyze", "--from", "nan", "x"],
        ["analyze", "--to", "1e400", "x"],
        ["analyze", "--from", "1e300", "x"],
        ["analyze", "--to=-1e10", "x"],
        ["analyze", "--to", "9999-01-01", "x"],
        ["analyze", "--max-packets", "0", "x"],
        ["plot", "--direction", "up", "x"],
        ["export", "tables", "x"],
        ["completion", "csh"],
        ["analyze", "--connection", "[fe80::1%eth0]:80", "x"],
        ["analyze", ""],
        ["analyze", "-o", "", "x"],
        ["plot", "-o", "", "x"],
        ["report", "-o", "", "x"],
        ["plot", "-o", "-", "x"],
        ["report", "-o", "-", "x"],
        ["export", "tables", "-o", "-", "x"],
        ["export", "series", "-o", "", "x"],
    ],
)
def test_wrong_usage(args: list[str]) -> None:
    done = call(*args, status=2)
    assert done.stdout == ""
    assert "Error: " in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("command", ["analyze", "plot", "report", "diagnose"])
def test_an_input_without_a_name_is_refused(command: str, tmp_path: Path) -> None:
    assert "the value is empty; name a capture" in call(command, "", status=2, cwd=tmp_path).stderr


def test_interval_that_ends_before_it_begins(capture: Path) -> None:
    assert "--to" in call("analyze", "--from", "2", "--to", "1", capture, status=2).stderr


def test_bug_is_one_line_and_its_log(tmp_path: Path, capture: Path) -> None:
    environment = _with_a_bug(tmp_path)
    done = run("analyze", capture, status=1, env=environment)
    assert "this is a bug in MultiTracer (ZeroDivisionError: planted); details are in " in done.stderr
    log = Path(done.stderr.rpartition("details are in ")[2].strip())
    assert log.is_relative_to(tmp_path / "cache")
    assert "ZeroDivisionError: planted" in log.read_text()
    assert "Traceback" in log.read_text()


@pytest.mark.parametrize("args", [["--debug", "analyze"], ["analyze", "--debug"]])
def test_debug_shows_the_traceback_of_a_bug(tmp_path: Path, capture: Path, args: list[str]) -> None:
    done = subprocess.run(
        [*COMMAND, *args, capture], env=_with_a_bug(tmp_path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last)")
    assert done.stderr.endswith("ZeroDivisionError: planted\n")
    assert not (tmp_path / "cache").exists()


def test_debug_shows_the_traceback_of_an_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--debug", "analyze", tmp_path], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last)")
    assert one_error(done.stderr.splitlines()[-1])


@pytest.mark.parametrize(
    ("command", "package", "extra"),
    [
        (("plot", "-o", "f.html"), "plotly", "figures"),
        (("analyze", "--parquet", "-o", "t"), "pyarrow", "tables"),
        (("export", "tables", "-o", "t"), "pyarrow", "tables"),
    ],
)
def test_package_that_is_not_installed(
    tmp_path: Path, capture: Path, command: tuple[str, ...], package: str, extra: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules[{package!r}] = None\n")
    path = os.pathsep.join([str(tmp_path), ENVIRONMENT["PYTHONPATH"]])
    done = run(*command, capture, status=1, env={**ENVIRONMENT, "PYTHONPATH": path}, cwd=tmp_path)
    assert package in done.stderr
    assert f"pip install 'multitracer[{extra}]'" in done.stderr
    assert {each.name for each in tmp_path.iterdir()} <= {"sitecustomize.py", "__pycache__"}


def test_a_report_needs_no_plotly(tmp_path: Path, capture: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['plotly'] = None\n")
    path = os.pathsep.join([str(tmp_path), ENVIRONMENT["PYTHONPATH"]])
    run("report", "-o", "r.html", capture, env={**ENVIRONMENT, "PYTHONPATH": path}, cwd=tmp_path)
    assert 'id="figures"' in (tmp_path / "r.html").read_text("utf-8")


def test_out_of_memory_is_one_line(tmp_path: Path, capture: Path) -> None:
    done = run("analyze", capture, status=1, env=_with_a_bug(tmp_path, "MemoryError"))
    assert done.stderr == "Error: out of memory; read fewer packets with --max-packets N, or raise --max-memory\n"


def test_a_thread_that_cannot_be_started_is_no_bug(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import threading\nthreading.stack_size(1 << 60)\n")
    path = os.pathsep.join([str(tmp_path), ENVIRONMENT["PYTHONPATH"]])
    with (tmp_path / "large.pcap").open("wb") as stream:
        write(stream, 16 << 20)  # so much is read ahead
    environment = {**ENVIRONMENT, "PYTHONPATH": path, "MULTITRACER_NATIVE": "0"}
    done = run("analyze", tmp_path / "large.pcap", status=1, env=environment)
    assert done.stderr.startswith("Error: cannot start a thread; raise the limit")


def _with_a_bug(folder: Path, error: str = "ZeroDivisionError") -> dict[str, str]:
    """Return an environment in which opening any session raises something unexpected."""
    (folder / "sitecustomize.py").write_text(
        "import multitracer.recording.inputs\n"
        f"def broken(*paths):\n    raise {error}('planted')\n"
        "multitracer.recording.inputs.find_inputs = broken\n"
    )
    path = os.pathsep.join([str(folder), ENVIRONMENT["PYTHONPATH"]])
    return {**ENVIRONMENT, "PYTHONPATH": path, "XDG_CACHE_HOME": str(folder / "cache")}


def test_command_that_is_nearly_right_gets_a_suggestion_as_options_do() -> None:
    assert "No such command 'analize'. Did you mean 'analyze'?" in call("analize", status=2).stderr
    assert "Did you mean" not in call("brew", status=2).stderr
