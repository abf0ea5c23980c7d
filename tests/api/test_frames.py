"""What a DataFrame of a session shows of missing values, and that polars, DuckDB and Arrow take it."""

from __future__ import annotations

import inspect
from functools import cached_property
from typing import TYPE_CHECKING

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import multitracer as mt
from multitracer.api.frames import ResultFrame
from multitracer.campaign.run import run
from multitracer.words import as_html
from tests.campaign.sessions import make_session
from tests.conftest import SAMPLES
from tests.recording.captures import Conversation, write_conversations

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_OTHERS = ("report", "to_parquet", "between", "table", "handovers_with", "align", "diagnose")


@pytest.fixture(scope="module")
def drive() -> mt.Session:
    return mt.open(SAMPLES / "rehearsed-drive")


def frames_of(session: mt.Session) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield every DataFrame that a session has, with its name."""
    for name in dir(mt.Session):
        member = inspect.getattr_static(mt.Session, name)
        if name.startswith("_") or name in _OTHERS:
            continue
        if isinstance(member, property | cached_property):
            found = getattr(session, name)
        elif "Frame" in str(inspect.signature(member).return_annotation):
            found = getattr(session, name)()
        else:
            continue
        for label, frame in found.items() if isinstance(found, dict) else [(name, found)]:
            if isinstance(frame, pd.DataFrame):
                yield label, frame


@pytest.mark.parametrize(("name", "meant"), [("rtt", "rtt_samples"), ("verdicts", "segment_verdicts")])
def test_a_table_that_does_not_exist_is_answered_with_one_that_does(name: str, meant: str) -> None:
    with pytest.raises(mt.MultiTracerError, match=f"did you mean {meant}"):
        mt.columns(name)


def test_every_frame_goes_to_arrow_polars_and_duckdb(drive: mt.Session) -> None:
    names = set()
    for name, frame in frames_of(drive):
        table = pa.table(frame)  # by __arrow_c_stream__
        names.add(name)
        assert table.num_rows == len(frame)
        if name not in ("files", "trust"):  # their texts are None where there is nothing to say
            assert not [field for field in table.schema if pa.types.is_null(field.type)], name
        for column in frame.select_dtypes("datetimetz"):
            assert table.schema.field(column).type == pa.timestamp("ns", tz="UTC"), name
        assert duckdb.sql("SELECT count(*) FROM frame").fetchall() == [(len(frame),)]
    assert {"seconds", "rtt", "radio", "connections", "trust", "TcpSnd_goodput"} <= names


def test_missing_values_are_null_in_sql(drive: mt.Session) -> None:
    seconds = drive.seconds()
    found = duckdb.sql("SELECT count(*), count(cause), count(rscp_dbm), count(cell_id) FROM seconds").fetchall()
    assert found == [(len(seconds), int(seconds["cause"].notna().sum()), 0, int(seconds["cell_id"].notna().sum()))]


def test_frames_of_a_campaign_go_to_arrow_too(tmp_path: Path) -> None:
    make_session(tmp_path / "drive")
    run([str(tmp_path / "drive")], tmp_path / "campaign")
    campaign = mt.open_campaign(tmp_path / "campaign")
    for name in campaign.tables:
        assert pa.table(campaign.frame(name)).num_rows == campaign.tables[name]


def test_a_frame_shows_why_values_are_missing_and_stops_when_they_are_not(drive: mt.Session) -> None:
    use = drive.utilization()
    reason = "utilization, utilization_rounded_up_pct: no log of the link at the data's sender"
    assert repr(use).endswith(reason)
    assert repr(use.head(1)).endswith(reason)
    assert isinstance(use, ResultFrame)
    assert f"<p>{as_html(reason)}</p>" in str(use._repr_html_())
    assert "no log" not in repr(use[["connection", "link_limited_share"]])
    assert "no log" not in repr(use.fillna(0))


def test_an_empty_table_shows_why_it_is_empty(drive: mt.Session, tmp_path: Path) -> None:
    assert repr(drive.link_frames).endswith("no rows: no log of the session has rows of link_frames")
    capture = mt.open(write_conversations(tmp_path / "a.pcap", Conversation()))
    assert repr(capture.handovers).endswith("no rows: no radio log of a phone")
    client = mt.open(SAMPLES / "download" / "mobile" / "tcp-0.pcap.gz")
    assert "no rows: captured at the receiver" in repr(client.phases())
    assert "reverse=True: captured near the receiver" in repr(client.rtt())


def test_a_selection_without_rows_gives_no_reason_of_the_complete_table(drive: mt.Session) -> None:
    for frame in (drive.radio, drive.limits(), drive.phases(), drive.efficiency(), drive.utilization(), drive.segments):
        assert len(frame)
        nothing = frame.iloc[:0]
        assert isinstance(nothing, ResultFrame)
        assert "no rows: " not in repr(nothing)
        assert "<p>no rows" not in str(nothing._repr_html_())
    shifted = mt.open(SAMPLES / "typical-1450k").account()
    assert "no log of the link" not in repr(shifted[["seconds"]].shift())


def test_a_frame_is_shown_whatever_pandas_made_its_columns(drive: mt.Session) -> None:
    seconds = drive.seconds()
    reason = "no log of a phone's test program"
    assert reason in repr(seconds[["time_ns", "wanted"]])
    twice = pd.concat([seconds, seconds], axis=1)
    for several in (seconds[["wanted", "wanted"]], twice):
        assert reason in repr(several)
        assert isinstance(several, ResultFrame)
        assert as_html(reason) in str(several._repr_html_())
    rtt = mt.open(SAMPLES / "download" / "mobile" / "tcp-0.pcap.gz").rtt()
    assert "reverse=True: captured near the receiver" in repr(pd.concat([rtt, rtt], axis=1))
    pivots = (
        seconds.pivot_table(["rtt_ns", "rsrp_dbm"], index="cell_id", columns="limited_by", aggfunc="median"),
        rtt[["reverse"]].assign(reverse=None),
        seconds.T,
        seconds.set_axis(range(seconds.shape[1]), axis=1),
    )
    for each in pivots:
        assert isinstance(each, ResultFrame)
        assert repr(each)
        assert each._repr_html_()


def test_trust_has_a_row_for_each_capture_even_without_a_reason_for_caution(drive: mt.Session) -> None:
    assert drive.trust["host"].tolist() == ["mobile", "fixed"]
    assert set(drive.trust["verdict"]) == {"good"}
    assert drive.trust["code"].isna().all()
    assert drive.trust["count"].tolist() == [0, 0]
    nothing = mt.open(SAMPLES / "rehearsal").trust
    assert nothing["verdict"].isna().tolist() == [True]
    assert nothing["sentence"].tolist() == ["no packets were captured, so there is no number to trust"]


def test_a_program_asks_with_if_whether_a_file_is_damaged(drive: mt.Session, tmp_path: Path) -> None:
    assert not [file.path for file in drive.files.itertuples() if file.damaged]
    assert not [reason.code for reason in drive.trust.itertuples() if reason.code]
    good, cut = write_conversations(tmp_path / "good.pcap", Conversation()), tmp_path / "cut.pcap"
    cut.write_bytes(good.read_bytes()[:-7])
    files = mt.open(good, cut).files
    assert [file.path for file in files.itertuples() if file.damaged] == [str(cut)]
    assert files["damaged"].isna().tolist() == [file == str(good) for file in files["path"]]
    assert files["compression"].tolist() == [None, None]


def test_a_pair_without_a_number_says_why(drive: mt.Session) -> None:
    found = mt.correlate(drive, with_=["ecio_db"], permutations=19)
    assert "ecio_db -> TcpSnd_goodput: rehearsed-drive holds no value of radio.ecio_db" in repr(found)
