"""Labels that a question reads by name are taken before a join; the answer is that of the map."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

from multitracer.campaign.catalogue import Catalogue
from multitracer.campaign.query import connection, labels_read, query
from multitracer.campaign.run import run
from tests.campaign.sessions import make_sessions

if TYPE_CHECKING:
    from pathlib import Path

JOIN = "FROM seconds JOIN sessions USING (session)"
BY_NAME = {
    f"SELECT labels['operator'] AS operator, median(throughput_bps) {JOIN} GROUP BY ALL": ("operator",),
    f"SELECT labels['operator'], count(*) {JOIN} GROUP BY 1": ("operator",),
    f"SELECT count(*), max(name) {JOIN} WHERE labels['operator'] = 'a' OR labels['none'] IS NULL": (
        "operator", "none",
    ),
    "SELECT s.LABELS['operator'] o, avg(rtt_ns) FROM seconds x LEFT JOIN sessions s "
    "ON x.session = s.session GROUP BY o ORDER BY o": ("operator",),
    f"SELECT count(*) FILTER (labels['it''s \"so\"'] IS NULL) {JOIN}": ("it's \"so\"",),
    f"SELECT 'a' || labels['operator'][1], count(*) {JOIN} GROUP BY ALL": ("operator",),
    "SELECT a.labels['operator'] o, count(*) FROM sessions a JOIN sessions b USING (session) GROUP BY o": (
        "operator",
    ),
}  # fmt: skip
OTHERWISE = (
    f"SELECT *, labels['operator'] {JOIN} ORDER BY ALL LIMIT 2",
    f"SELECT sessions.*, labels['operator'] {JOIN} ORDER BY ALL LIMIT 2",
    f"SELECT COLUMNS('^la'), labels['operator'] o {JOIN} LIMIT 2",
    f"SELECT sessions, labels['operator'] {JOIN} LIMIT 2",
    "SELECT s, s.labels['operator'] FROM seconds JOIN sessions s USING (session) LIMIT 2",
    f"SELECT labels, labels['operator'] {JOIN} LIMIT 2",
    f"SELECT map_keys(labels) k, labels['operator'] o, count(*) {JOIN} GROUP BY ALL",
    f"SELECT labels[name], labels['operator'] {JOIN} LIMIT 2",
    f"SELECT labels['operator'], (SELECT max(labels['x']) FROM sessions) {JOIN} LIMIT 2",
    f"WITH x AS (SELECT * FROM sessions) SELECT labels['operator'], count(*) {JOIN} GROUP BY ALL",
    f"SELECT labels['operator'] {JOIN} UNION SELECT labels['x'] {JOIN}",
    "SELECT labels['operator'], count(*) FROM sessions NATURAL JOIN sessions AS t GROUP BY ALL",
    "SELECT a.labels['operator'], count(*) FROM sessions a JOIN sessions b USING (labels) GROUP BY ALL",
    f"SELECT labels['operator'], labels['OPERATOR'], count(*) {JOIN} GROUP BY ALL",
    f"SELECT labels[''], count(*) {JOIN} GROUP BY ALL",
    f"SELECT labels['operator'], #3, count(*) {JOIN} GROUP BY ALL",
    f"EXPLAIN SELECT labels['operator'] {JOIN}",
    f"DESCRIBE SELECT labels['operator'] {JOIN}",
    f"FROM (SELECT labels['operator'] {JOIN}) LIMIT 2",
    f"SELECT labels['operator'] {JOIN} LIMIT 2; SELECT 2",
    "SELECT labels['operator'] FROM seconds JOIN sessions AS s(session, labels) USING (session)",
    "SELECT labels['operator']" + " || 'a'" * 3000 + f" {JOIN}",
    f"SELEC labels['operator'] {JOIN}",
)


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    folder = tmp_path_factory.mktemp("campaign")
    run([str(make_sessions(folder / "drives", 3))], folder / "campaign")
    return Catalogue(folder / "campaign")


@pytest.mark.parametrize("sql", BY_NAME)
def test_labels_read_by_name_give_the_answer_of_the_map(sql: str, catalogue: Catalogue) -> None:
    assert labels_read(duckdb.connect(), sql) == BY_NAME[sql]
    with connection(catalogue) as plain:
        expected = plain.sql(sql).to_arrow_table()
    found = query(catalogue, sql)
    assert found.schema == expected.schema
    assert sorted(found.to_pylist(), key=str) == sorted(expected.to_pylist(), key=str)


@pytest.mark.parametrize("sql", OTHERWISE)
def test_a_question_that_may_read_the_map_gets_the_map(sql: str) -> None:
    assert labels_read(duckdb.connect(), sql) == ()


def test_a_wrong_question_fails_with_the_engines_words(catalogue: Catalogue) -> None:
    sql = f"SELECT labels['operator'], no_such_column {JOIN}"
    with pytest.raises(Exception, match="no_such_column"), connection(catalogue, question=sql) as engine:
        engine.sql(sql)
    assert query(catalogue, f"SELECT labels {JOIN} LIMIT 1").to_pylist() == [{"labels": [("operator", "a")]}]


def test_an_engine_that_knows_no_json_gets_the_map(tmp_path: Path) -> None:
    engine = duckdb.connect(str(tmp_path / "a.duckdb"))
    engine.close()
    assert labels_read(engine, f"SELECT labels['operator'] {JOIN}") == ()
