"""File names of reports come from hostile input names, and lead nowhere."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.report.index import file_name


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("traces/up.pcap", "up.pcap.html"),
        ("../../etc/passwd", "passwd.html"),
        ("..", "report.html"),
        ("C:\\traces\\a b.pcap", "a-b.pcap.html"),
        ("-", "report.html"),
        (".hidden", "hidden.html"),
        ("Größe.pcap", "Gr-e.pcap.html"),
        ("folder/", "folder.html"),
        ("index", "index-2.html"),
        ('"><script>alert(1)</script>', "script.html"),
    ],
)
def test_a_report_is_named_after_its_input(title: str, name: str) -> None:
    assert file_name(title, set()) == name


@given(st.lists(st.text(max_size=120), max_size=30))
def test_any_names_give_different_plain_names(titles: list[str]) -> None:
    taken: set[str] = set()
    names = [file_name(title, taken) for title in titles]
    assert len({name.lower() for name in names}) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,90}\.html", name) for name in names)
    assert "index.html" not in names


def test_inputs_of_one_name_get_a_number() -> None:
    taken: set[str] = set()
    assert [file_name(f"{folder}/tcp.pcap", taken) for folder in "abc"] == [
        "tcp.pcap.html",
        "tcp.pcap-2.html",
        "tcp.pcap-3.html",
    ]
