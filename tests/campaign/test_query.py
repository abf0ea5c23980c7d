"""A question in SQL reads the tables, and nothing else; what it may not do, the engine refuses."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import multitracer
from multitracer.campaign.catalogue import Catalogue
from multitracer.campaign.query import query
from multitracer.campaign.run import run
from multitracer.campaign.schemas import TABLES
from multitracer.errors import InputError
from tests.campaign.sessions import make_session, make_sessions
from tests.cli.program import ENVIRONMENT, call, start
from tests.conftest import ROOT
from tests.recording.captures import Conversation, write_pcap


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("campaign")
    run([str(make_sessions(folder / "drives", 3))], folder / "campaign")
    return folder / "campaign"


def test_the_questions_of_the_page_have_answers(tmp_path: Path) -> None:
    """Of operator a one capture was at the sender, where what arrived is not known, and one at the receiver."""
    place, transfer = tmp_path / "campaign", Conversation(lost=(0,))
    make_session(tmp_path / "drives" / "at_sender")
    make_session(tmp_path / "drives" / "at_receiver")
    write_pcap(tmp_path / "drives" / "at_receiver" / "phone" / "capture.pcap", transfer.at_receiver())
    run([str(tmp_path / "drives")], place)
    page = (ROOT / "docs" / "campaigns.md").read_text("utf-8")
    statements = page.partition("```sql\n")[2].partition("```")[0].split(";")[:-1]
    seconds, links, findings = (query(Catalogue(place), sql).to_pylist() for sql in statements)
    assert (seconds[0]["operator"], links[0]["operator"]) == ("a", "a")
    assert findings[0]["sessions"] >= 1
    assert links[0]["for_nothing"] == pytest.approx(1 - 5 / 6), "one of six segments arrived twice"


REFUSED = (
    "COPY (SELECT 1) TO '{file}'",
    "WITH x AS (COPY (SELECT 1) TO '{file}') SELECT * FROM x",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{file}'",
    "PREPARE p AS COPY (SELECT 1) TO '{file}'; EXECUTE p",
    "SELECT 1; COPY sessions TO '{file}'",
    "COPY sessions TO '{part}'",
    "EXPORT DATABASE '{file}'",
    "IMPORT DATABASE '{file}'",
    "ATTACH '{file}'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET memory_limit = '99GB'",
    "SET GLOBAL threads = 64",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "SET profiling_output = '{file}'",
    "SET log_query_path = '{file}'",
    "CREATE SECRET (TYPE s3)",
    "SELECT * FROM '{secret}'",
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM read_blob('{secret}')",
    "SELECT * FROM read_parquet('{part}')",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM 'https://example.org/x.csv'",
    "SELECT getenv('HOME')",
    "SELECT * FROM catalogue",
    "SELECT * FROM frame",
)


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_no_question_is_refused_by_the_engine(sql: str, place: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a,b\n1,2\n", "utf-8")
    catalogue = Catalogue(place)
    frame = [1]  # what a search for variables would find
    part = place / next(catalogue.snapshot.parts("sessions")).name
    before = part.read_bytes()
    with pytest.raises(InputError, match="query: "):
        query(catalogue, sql.format(file=tmp_path / "written", secret=secret, part=part))
    assert frame
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]
    assert part.read_bytes() == before


def test_a_slow_answer_holds_no_progress_bar(place: Path) -> None:
    setting = query(Catalogue(place), "SELECT current_setting('enable_progress_bar') AS shown")
    assert setting["shown"].to_pylist() == [False]


def test_a_wrong_question_is_one_line_with_the_engines_words(place: Path) -> None:
    done = call("campaign", "query", place, "SELEC 1", status=1)
    assert "syntax error" in done.stderr


def test_a_table_without_a_row_can_be_asked(place: Path) -> None:
    assert query(Catalogue(place), "SELECT count(*) AS n FROM handovers").to_pylist() == [{"n": 0}]
    assert [query(Catalogue(place), f"FROM {name} LIMIT 0").column_names for name in TABLES] == [
        list(schema.names) for schema in TABLES.values()
    ]


def test_an_answer_as_text(place: Path) -> None:
    lines = call("campaign", "query", place, "SELECT name, labels, begin_ns FROM sessions ORDER BY 1").stdout
    first = lines.splitlines()[1]
    assert first.startswith('drive 0  {"operator": "a"}  2023-11-14 22:13:20')


def test_an_answer_as_csv_runs_no_formula(place: Path) -> None:
    sql = "SELECT '=1+1' AS formula, 2.5 AS number, NULL AS nothing, TIMESTAMP '2026-01-02 03:04:05' AS at"
    rows = list(csv.DictReader(call("campaign", "query", "--csv", place, sql).stdout.splitlines()))
    assert rows == [{"formula": "'=1+1", "number": "2.5", "nothing": "", "at": "2026-01-02 03:04:05.000000"}]


def test_an_answer_as_json(place: Path) -> None:
    sql = "SELECT name, labels, 'nan'::DOUBLE AS none, [1, 2] AS list FROM sessions ORDER BY name LIMIT 1"
    assert json.loads(call("campaign", "query", "--json", place, sql).stdout) == [
        {"name": "drive 0", "labels": {"operator": "a"}, "none": None, "list": [1, 2]}
    ]


@pytest.mark.parametrize("name", ["answer.txt", "answer"])
def test_a_file_of_no_known_form_is_refused(name: str, place: Path, tmp_path: Path) -> None:
    done = call("campaign", "query", place, "FROM sessions", "-o", tmp_path / name, status=1)
    assert done.stderr.endswith("the suffix must be one of .csv, .json, .parquet; or name the format, such as --csv\n")
    assert not list(tmp_path.iterdir())
    call("campaign", "query", place, "FROM sessions", "--csv", "-o", tmp_path / name)


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_a_file_has_the_form_of_its_ending(form: str, place: Path, tmp_path: Path) -> None:
    target = tmp_path / f"answer.{form}"
    call("campaign", "query", place, "SELECT session FROM sessions ORDER BY 1", "-o", target)
    sessions = Catalogue(place).dataset("sessions").to_table()["session"].to_pylist()
    if form == "parquet":
        assert pq.read_table(target)["session"].to_pylist() == sorted(sessions)
    else:
        text = target.read_text("utf-8")
        read = json.loads(text) if form == "json" else list(csv.DictReader(text.splitlines()))
        assert [row["session"] for row in read] == sorted(sessions)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_question_without_end_can_be_ended(place: Path, number: signal.Signals) -> None:
    with start(["campaign", "query", str(place), ENDLESS]) as process:
        while not (engines := children(process.pid)):
            assert process.poll() is None
            time.sleep(0.05)
        while _processor_s(engines[0]) < 1.5:  # it is loaded and asked after less than one
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        _, words = process.communicate(timeout=60)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert words.splitlines() == ["Error: interrupted"] * (number == signal.SIGINT)
    until_s = time.monotonic() + 60
    while Path(f"/proc/{engines[0]}").exists():  # the kernel ends it with its parent
        assert time.monotonic() < until_s
        time.sleep(0.05)


ENDLESS = "SELECT count(*) FROM range(1000000000000) a, range(1000) b"


def children(process: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text("ascii").split()]


def _processor_s(process: int) -> float:
    """Return the processor time that a process used: on a busy machine it says more than the clock."""
    ticks = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def test_the_session_of_a_second_is_text_like_that_of_any_row(place: Path) -> None:
    catalogue = Catalogue(place)
    both = "SELECT typeof(session) FROM seconds UNION SELECT typeof(session) FROM sessions"
    assert query(catalogue, both).columns[0].to_pylist() == ["VARCHAR"]
    joined = query(catalogue, "SELECT count(*) AS n FROM seconds JOIN sessions USING (session)")
    assert joined["n"].to_pylist() == query(catalogue, "SELECT count(*) FROM seconds").columns[0].to_pylist()


# --- bounds of a question ---

LOOP = "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t"
ROW = "SELECT levenshtein(repeat('x', 1000000), repeat('y', 1000000))"


@pytest.mark.slow
@pytest.mark.parametrize("sql", [LOOP, ENDLESS, ROW])
def test_a_question_ends_at_its_time(sql: str, place: Path, tmp_path: Path) -> None:
    """The last one is one expression of one row, which the engine does not let be interrupted."""
    (tmp_path / "answer.csv").write_text("before", "utf-8")
    done = call("campaign", "query", place, sql, "--timeout", "1.5", "-o", tmp_path / "answer.csv", status=1)
    assert done.stderr == ("Error: query: no complete result after 1.5 s; simplify the query, or raise --timeout\n")
    assert [path.read_text("utf-8") for path in tmp_path.iterdir()] == ["before"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT repeat('x', 4000000000)",
        "SELECT string_agg(repeat('x', 1000000), '') FROM range(3000)",
        "SELECT [repeat('x', 1000000) FOR x IN range(3000)]",
        "SELECT range(1000000000)",
    ],
)
def test_a_question_ends_at_its_memory(sql: str, place: Path, tmp_path: Path) -> None:
    """DuckDB counts no text that a function makes."""
    done = call("campaign", "query", place, sql, "-o", tmp_path / "answer.json", status=1)
    assert done.stderr == (
        "Error: query: the query needs more than 1 GB of memory; aggregate, or read fewer rows or columns\n"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("form", "option", "bound", "most"),
    [
        ("csv", "--max-rows", "20000", "20,000 rows"),
        ("json", "--max-bytes", "0.5M", "500 kB"),
        ("parquet", "--max-rows", "20000", "20,000 rows"),
        ("csv", "--max-bytes", "500k", "500 kB"),
    ],
)
def test_an_answer_above_its_bound_is_an_error(
    form: str, option: str, bound: str, most: str, place: Path, tmp_path: Path
) -> None:
    sql, file = "SELECT range AS n, range AS m FROM range(50000)", tmp_path / f"answer.{form}"
    words = call("campaign", "query", place, sql, option, bound, "-o", file, status=1).stderr
    assert words == f"Error: query: the result has more than {most}; add LIMIT, or raise {option}\n"
    assert not list(tmp_path.iterdir())
    call("campaign", "query", place, f"{sql} LIMIT 20000", option, bound, "-o", file)


@pytest.mark.parametrize("size", ["0", "-1", "many", "1Q", "nan"])
def test_a_size_that_is_none_is_refused(size: str, place: Path) -> None:
    assert "is not a size" in call("campaign", "query", place, "SELECT 1", "--max-bytes", size, status=2).stderr


@pytest.mark.parametrize("sql", ["SELECT 1; SELECT 2", "SELECT 1; SELECT 2;", "SELECT ';'; -- one\n;SELECT 1"])
def test_only_one_statement_is_run(sql: str, place: Path) -> None:
    words = call("campaign", "query", place, sql, status=1).stderr
    assert words == "Error: query: 2 SQL statements given; give exactly one\n"
    assert call("campaign", "query", place, "SELECT ';' AS one; -- SELECT 2").stdout == "one\n;\n"


@pytest.mark.slow
def test_the_memory_of_a_question_does_not_follow_its_answer(place: Path, tmp_path: Path) -> None:
    program = (
        "import resource, sys; from multitracer.cli import main\n"
        "try: main()\n"
        "finally: print(*(resource.getrusage(who).ru_maxrss for who in (0, -1)), file=sys.stderr)"
    )
    sql = "SELECT range AS n, repeat('x', 1000) AS text FROM range(400000)"
    peaks = []
    for limit in (1, 400_000):
        argv = ["campaign", "query", str(place), f"{sql} LIMIT {limit}", "-o", str(tmp_path / "answer.parquet")]
        done = subprocess.run(
            [sys.executable, "-c", program, *argv], env=ENVIRONMENT, capture_output=True, text=True, check=True
        )
        peaks.append([int(kib) >> 10 for kib in done.stderr.split()])
    assert pq.ParquetFile(tmp_path / "answer.parquet").metadata.num_rows == 400_000
    assert all(large < small + 200 for small, large in zip(*peaks, strict=True)), peaks  # of 400 MB


def test_a_query_of_the_api_has_the_same_bounds(place: Path) -> None:
    campaign = multitracer.open_campaign(place)
    assert campaign.query("SELECT count(*) AS n FROM sessions")["n"].tolist() == [3]
    assert campaign.query("FROM handovers").empty
    with pytest.raises(InputError, match="more than 2 rows"):
        campaign.query("FROM sessions", max_rows=2)
    with pytest.raises(InputError, match="more than 10 B"):
        campaign.query("FROM sessions", max_bytes=10)
    with pytest.raises(InputError, match=r"no complete result after 0\.1 s"):
        campaign.query(ENDLESS, timeout_s=0.1)


def test_a_long_cell_is_shortened_as_text_alone(place: Path) -> None:
    sql = "SELECT repeat('x', 2000) AS long"
    assert call("campaign", "query", place, sql).stdout == f"long\n{'x' * 999}…\n"
    assert call("campaign", "query", place, sql, "--csv").stdout == f"long\n{'x' * 2000}\n"


# --- the other commands ---


@pytest.mark.parametrize("sql", ["", " ; ", "-- nothing"])
def test_a_question_without_a_statement_is_said(place: Path, sql: str) -> None:
    with pytest.raises(InputError, match="no SQL statement given"):
        query(Catalogue(place), sql)


def test_status_counts_the_rows(place: Path) -> None:
    lines = call("campaign", "status", place).stdout.splitlines()
    assert ["sessions", "3"] in [line.split() for line in lines]
    assert ["failures", "0"] in [line.split() for line in lines]


def test_verify_says_that_all_is_whole(place: Path) -> None:
    assert "no damage found" in call("campaign", "verify", place).stdout


def test_verify_names_what_is_damaged(tmp_path: Path) -> None:
    place = tmp_path / "campaign"
    run([str(make_sessions(tmp_path / "drives", 1))], place)
    name = next(Catalogue(place).snapshot.parts("transfers")).name
    (place / name).write_bytes(b"PAR1")
    assert name in call("campaign", "verify", place, status=1).stdout
    with pytest.raises(InputError, match="query: "):
        query(Catalogue(place), "SELECT sum(unique_bytes) FROM transfers")
    (place / name).unlink()
    assert f"{name}: this file no longer exists; " in call("campaign", "query", place, "SELECT 1", status=1).stderr


def test_forget_takes_a_session_out_and_a_run_reads_it_again(tmp_path: Path) -> None:
    drives, place = make_sessions(tmp_path / "drives", 3), tmp_path / "campaign"
    run([str(drives)], place)
    done = call("campaign", "forget", place, "drive 1")
    session = done.stdout.strip()
    for table in TABLES:
        held = query(Catalogue(place), f"SELECT session FROM {table}")["session"].to_pylist()
        assert session not in held
    assert run([str(drives)], place).done == 1


def test_forget_takes_a_path_as_the_user_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drives, place = make_sessions(tmp_path / "drives", 2), tmp_path / "campaign"
    run([str(drives)], place)
    monkeypatch.chdir(drives / "car0")
    call("campaign", "forget", place, "day000")
    assert query(Catalogue(place), "SELECT name FROM sessions").to_pylist() == [{"name": "drive 1"}]


@pytest.mark.parametrize(("name", "reason"), [("nobody", "no session"), ("drive", "2 sessions have the name")])
def test_forget_refuses_what_names_no_session_or_several(name: str, reason: str, tmp_path: Path) -> None:
    for number in (0, 1):
        make_session(tmp_path / "drives" / str(number), number)
    run([str(tmp_path / "drives")], tmp_path / "campaign")
    assert reason in call("campaign", "forget", tmp_path / "campaign", name, status=1).stderr


def test_compact_puts_the_parts_of_short_runs_together(tmp_path: Path) -> None:
    drives, place = make_sessions(tmp_path / "drives", 3), tmp_path / "campaign"
    for session in sorted(drives.glob("*/*")):
        run([str(session)], place)
    before = Catalogue(place).dataset("sessions").to_table().to_pylist()
    assert len(Catalogue(place).snapshot.groups) == 3
    call("campaign", "compact", place)
    assert len(Catalogue(place).snapshot.groups) == 1
    assert Catalogue(place).dataset("sessions").to_table().to_pylist() == before
    assert run([str(drives)], place).unchanged == 3


# --- what is no campaign of ours ---


def test_a_catalogue_of_a_newer_version_is_refused(place: Path, tmp_path: Path) -> None:
    newer = tmp_path / "campaign"
    shutil.copytree(place, newer)
    (last,) = sorted((newer / "snapshots").iterdir())[-1:]
    document = json.loads(last.read_text("utf-8"))
    last.write_text(json.dumps(document | {"schema": "multitracer.campaign/2", "multitracer": "9.9"}), "utf-8")
    for command in (("query", newer, "SELECT 1"), ("status", newer), ("run", tmp_path, "-o", newer)):
        assert "a newer MultiTracer (9.9)" in call("campaign", *command, status=1).stderr


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema": "multitracer.campaign/1"}', '{"schema": 3}'])
def test_a_damaged_snapshot_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "snapshots").mkdir()
    (tmp_path / "snapshots" / "000000000001.json").write_text(text, "utf-8")
    assert "not a valid snapshot" in call("campaign", "status", tmp_path, status=1).stderr


def test_a_snapshot_leads_to_no_file_outside(tmp_path: Path) -> None:
    part = {"name": "parts/../../secret", "rows": 1, "bytes": 1, "sha256": ""}
    document = {
        "schema": "multitracer.campaign/1", "number": 1, "retired": {},
        "groups": [{"number": 1, "parts": {"sessions": part}}],
    }  # fmt: skip
    (tmp_path / "snapshots").mkdir()
    (tmp_path / "snapshots" / "000000000001.json").write_text(json.dumps(document), "utf-8")
    assert "not a valid snapshot" in call("campaign", "status", tmp_path, status=1).stderr


def test_a_folder_without_a_campaign_is_refused(tmp_path: Path) -> None:
    assert "this folder contains no campaign" in call("campaign", "query", tmp_path, "SELECT 1", status=1).stderr
