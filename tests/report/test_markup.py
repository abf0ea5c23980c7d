"""Nothing from a capture becomes markup."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.report.markup import Markup, element, join, json_text, script_hash, unbroken
from multitracer.words import printable


class Tags(HTMLParser):
    """Collects the tags and the text of a piece of HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.attributes: dict[str, str | None] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= dict(attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    tags.close()
    return tags


_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"))


def test_a_number_stays_on_one_line_with_its_unit() -> None:
    assert unbroken("handshake < 0.1 %, > 99.9 %") == "handshake <\u00a00.1\u00a0%, >\u00a099.9\u00a0%"
    said = unbroken("169 kbit/s (82 % of 3 min 6 s, -110 dBm) for 2 minutes, 5 m behind 4 segments")
    assert said == "169\xa0kbit/s (82\xa0% of 3\xa0min 6\xa0s, -110\xa0dBm) for 2 minutes, 5\xa0m behind 4 segments"


@given(_TEXT, _TEXT)
def test_text_and_attributes_come_out_as_they_went_in(text: str, attribute: str) -> None:
    found = parsed(element("p", text, title=attribute))
    assert found.tags == ["p"]
    assert found.text == text
    assert found.attributes == {"title": attribute}


def test_markup_is_not_escaped_twice() -> None:
    assert element("p", element("b", "a < b")) == "<p><b>a &lt; b</b></p>"


def test_missing_children_and_attributes_are_left_out() -> None:
    assert element("p", None, "x", id=None, hidden=False) == "<p>x</p>"
    assert element("input", disabled=True, aria_label="a", class_="b") == '<input disabled aria-label="a" class="b">'
    assert join([Markup("<br>"), ["a", ["b"]]]) == "<br>ab"


@pytest.mark.parametrize("text", ["</script><script>alert(1)</script>", "<!--", "\u2028", "]]>", "&lt;"])
def test_json_in_a_script_cannot_end_it(text: str) -> None:
    safe = json_text({text: [text]})
    assert not set(safe) & set("<>&\u2028\u2029")
    assert json.loads(safe) == {text: [text]}


def test_what_cannot_be_shown_is_written_out() -> None:
    assert printable("a\x1b[31m\u202e\udcff\n") == r"a\x1b[31m\u202e\udcff\n"
    assert printable("Größe 1 → 2.pcap") == "Größe 1 → 2.pcap"


def test_a_script_is_named_by_its_hash() -> None:
    assert script_hash("alert(1)") == "'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='"
