"""The viewer of messages between phone and network: search, trees, one cursor, cards, and what is missing."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.errors import InputError
from multitracer.recording.read import read
from multitracer.report import signalling_section
from multitracer.report.markup import with_code
from multitracer.report.write import write_report
from multitracer.schemas.signalling import SIGNALLING
from multitracer.tables import NOT_A_TIME, Table
from tests.cli.program import call
from tests.conftest import SAMPLES
from tests.parsers.signalling_messages import capture, nas, version_2
from tests.report.axe import serious_findings
from tests.report.signalling_pages import CARD_0, messages, opened, page_of, two_cards

if TYPE_CHECKING:
    from pathlib import Path

    from tests.report.chromium import Browser

needs_tshark = pytest.mark.skipif(not shutil.which("tshark"), reason="needs tshark")
browsing = pytest.mark.browser

NAMES = "[...document.querySelectorAll('.list .message')].map((row) => row.querySelector('.name').textContent)"
STATUS = "document.querySelector('.signalling .status').textContent"
CHOSEN = "document.querySelector('.list .message.chosen .name')?.textContent"
NEAR = "document.querySelector('.list .message.near .name')?.textContent"
FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cards")
    write_report(read(two_cards(folder / "phone.pcap")), folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page_of(messages(100_000), tmp_path_factory.mktemp("large") / "report.html")


def asked(browser: Browser, **values: str) -> None:
    """Fill the fields of the search: `search`, and the menus by their label."""
    for name, value in values.items():
        field = ".filters input[type=search]" if name == "search" else f".filters select[aria-label={name}]"
        browser.evaluate(
            f"(() => {{const e = document.querySelector({field!r}); e.value = {value!r};"
            " e.dispatchEvent(new Event(e.localName === 'select' ? 'change' : 'input'))})()"
        )
    browser.evaluate(FRAMES)


def pressed(browser: Browser, selector: str) -> None:
    browser.evaluate(f"document.querySelector({selector!r}).click()")
    browser.evaluate(FRAMES)


@needs_tshark
@browsing
def test_messages_are_in_order_and_nothing_is_loaded(browser: Browser, cards: Path) -> None:
    opened(browser, cards)
    assert browser.evaluate(NAMES)[:3] == [
        "RRCRRCConnectionRequest",
        "RRCRRCConnectionSetup",
        "RRCRRCConnectionSetupComplete",
    ]
    assert browser.evaluate("viewer.lanes.names()")[:4] == ["RRC up", "RRC down", "NAS up", "NAS"]
    assert {"RRC", "EMM", "procedures"} <= set(browser.evaluate("viewer.lanes.names()"))
    assert browser.complaints == []
    assert browser.requests == [cards.as_uri()]


@needs_tshark
@browsing
def test_search_and_menus_choose_messages(browser: Browser, cards: Path) -> None:
    opened(browser, cards)
    asked(browser, search="REJECT")
    assert browser.evaluate(NAMES) == ["NASTracking area update reject"]
    asked(browser, search="", Protocol="NAS", Message="Tracking area update request")
    assert browser.evaluate(NAMES) == ["NASTracking area update request"]
    asked(browser, Protocol="", Message="", Cause="any")
    assert "RRCRRCConnectionRequest" in browser.evaluate(NAMES)
    asked(browser, Cause="", search="no such message")
    assert browser.evaluate(NAMES) == []
    assert browser.evaluate(STATUS).startswith("0 of ")
    pressed(browser, ".filters button")
    assert len(browser.evaluate(NAMES)) > 10


@needs_tshark
@browsing
def test_a_message_unfolds_into_its_tree_without_identities(browser: Browser, cards: Path) -> None:
    opened(browser, cards)
    asked(browser, search="update re")
    pressed(browser, ".list .message:last-child .unfold")
    browser.wait("document.querySelector('.list .tree')?.textContent.includes('Tracking area update reject')")
    text = browser.evaluate("document.querySelector('.list .tree').textContent")
    assert "UE identity cannot be derived by the network" in text
    assert browser.evaluate("document.querySelector('.list .message:last-child .unfold').ariaExpanded") == "true"
    pressed(browser, ".list .message .unfold")
    browser.wait("document.querySelector('.list .tree')?.textContent.includes('Tracking area update request')")
    text = browser.evaluate("document.querySelector('.list .tree').textContent")
    assert "left out" in text
    assert "0xc0000001" not in text
    assert len(browser.evaluate("[...document.querySelectorAll('.list .tree')]")) == 1  # the first one is folded


@needs_tshark
@browsing
def test_a_message_whose_tree_is_not_in_the_page_has_a_command(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signalling_section, "MOST_TREES", 1)
    log, page = tmp_path / "a b.pcap", tmp_path / "report.html"
    log.write_bytes(capture(*map(version_2, CARD_0)))
    write_report(read(log), page)
    opened(browser, page)
    asked(browser, search="release")
    pressed(browser, ".list .unfold")
    browser.wait("!!document.querySelector('.list .tree code')")
    command = browser.evaluate("document.querySelector('.list .tree code').textContent")
    assert command == f"multitracer dissect 'a b.pcap' --message {len(CARD_0)}"
    printed = call("dissect", log, "--message", str(len(CARD_0)))
    assert "rrcConnectionRelease" in printed.stdout
    assert "decoded trees of 1 of 9 messages" in page.read_text()


@needs_tshark
@browsing
def test_list_lanes_and_page_have_one_cursor_and_window(browser: Browser, cards: Path) -> None:
    opened(browser, cards)
    browser.evaluate("Timeline.cursor(0.01)")  # the first reading, a report, is at 0 s
    browser.evaluate(FRAMES)
    assert browser.evaluate(NEAR) == "RRCMeasurementReport"
    assert browser.evaluate("document.querySelector('.lanes-of .cursor').hidden") is False
    before = browser.evaluate("Timeline.window()")
    asked(browser, search="release")
    pressed(browser, ".list .message .pick")
    assert browser.evaluate(CHOSEN) == "RRCRRCConnectionRelease"
    low, high = browser.evaluate("Timeline.window()")
    assert low < 0.3 < high
    assert high - low < before[1] - before[0]
    asked(browser, search="")
    browser.evaluate("document.querySelector('.lanes-of').scrollIntoView()")
    box = browser.evaluate("document.querySelector('.lanes-of canvas').getBoundingClientRect().toJSON()")
    browser.evaluate("Timeline.zoom(...Timeline.bounds())")
    browser.evaluate(FRAMES)
    x, top = browser.evaluate("[viewer.lanes.across().x(0.4), viewer.lanes.placed()[3].top + 8]")
    for kind in ("mousePressed", "mouseReleased"):
        browser.call(
            "Input.dispatchMouseEvent", type=kind, x=box["x"] + x, y=box["y"] + top, button="left", clickCount=1
        )
    browser.evaluate(FRAMES)
    assert browser.evaluate(CHOSEN) == "NASTracking area update request"


@needs_tshark
@browsing
def test_keys_step_through_the_list_and_unfold(browser: Browser, cards: Path) -> None:
    opened(browser, cards)
    browser.evaluate("document.querySelector('.list').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp", "Enter"):
        browser.call("Input.dispatchKeyEvent", type="keyDown", key=key)
        browser.call("Input.dispatchKeyEvent", type="keyUp", key=key)
    assert browser.evaluate(CHOSEN) == "RRCRRCConnectionSetup"
    browser.wait("document.querySelector('.list .message.open .tree')?.textContent.includes('DL-CCCH-Message')")


@needs_tshark
@browsing
def test_nothing_of_two_cards_is_mixed(browser: Browser, cards: Path) -> None:
    opened(browser, cards)
    assert browser.evaluate("[...document.querySelectorAll('select[aria-label=Card] option')].map((o) => o.text)") == [
        "card 0",
        "card 1",
    ]
    first = browser.evaluate(NAMES)
    assert not any("Registration" in name for name in first)
    shown = "[...document.querySelectorAll('.of-group')].filter((each) => !each.hidden).map((each) => each.textContent)"
    assert ["tracking area update" in each for each in browser.evaluate(shown)] == [True]
    browser.evaluate(
        "(() => {const e = document.querySelector('select[aria-label=Card]'); e.value = '1';"
        " e.dispatchEvent(new Event('change'))})()"
    )
    browser.wait(f"{STATUS}.startsWith('7 messages')")
    browser.evaluate(FRAMES)
    names = browser.evaluate(NAMES)
    assert names[0] == "RRCRRCSetupRequest"
    assert "NASRegistration reject" in names
    assert not any("RRCConnection" in name or "Tracking" in name for name in names)
    assert {"5GMM", "RRC"} <= set(browser.evaluate("viewer.lanes.names()"))
    assert "EMM" not in browser.evaluate("viewer.lanes.names()")
    assert ["tracking area update" in each for each in browser.evaluate(shown)] == [False]


@needs_tshark
def test_a_card_is_chosen_by_an_option(tmp_path: Path) -> None:
    log, page = two_cards(tmp_path / "phone.pcap"), tmp_path / "r.html"
    call("report", log, "-o", page, "--card", "1")
    text = page.read_text()
    assert "registration" in text
    assert "tracking area update" not in text
    assert "RRCConnectionRequest" not in text
    failed = call("report", log, "-o", page, "--card", "7", status=1)
    assert "no message is of card 7; the cards are 0, 1" in failed.stderr


@browsing
def test_a_hundred_thousand_messages_are_found_and_fit(browser: Browser, large: Path) -> None:
    assert large.stat().st_size < 12_000_000
    opened(browser, large)
    assert browser.evaluate(STATUS) == "100,000 messages."
    rows = browser.evaluate("document.querySelectorAll('.list .message').length")
    assert 0 < rows < 80
    asked(browser, search="reject suitable")
    assert browser.evaluate(STATUS) == "9,090 of 100,000 messages."
    asked(browser, search="pci 17,")
    assert browser.evaluate(STATUS) == f"{browser.evaluate('viewer.rows().length'):,} of 100,000 messages."
    cells = "[...document.querySelectorAll('.list .message .cell')].map((cell) => cell.textContent)"
    assert set(browser.evaluate(cells)) == {"LTE PCI 17, EARFCN 1350", "(LTE PCI 17, EARFCN 1350)"}
    asked(browser, search="")
    browser.evaluate("document.querySelector('.list').scrollTop = 1e9")
    browser.evaluate(FRAMES)
    last = "[...document.querySelectorAll('.list .message')].at(-1).querySelector('.frame').textContent"
    assert (
        int(browser.evaluate("Math.max(...[...document.querySelectorAll('.list .frame')].map((f) => +f.textContent))"))
        == 100_000
    )
    assert browser.evaluate(last)
    assert browser.complaints == []


HOSTILE = "<img src=x onerror=alert(1)>\u202e</script>&lt;"


@browsing
def test_hostile_names_and_causes_are_text(browser: Browser, tmp_path: Path) -> None:
    kinds = (
        ("LTE", "rrc", "up", "<b>UL</b>", HOSTILE, HOSTILE, 3),
        ("LTE", "<i>", "down", "DL-DCCH", "RRCConnectionReject", "'\"><svg onload=alert(1)>", -(1 << 62)),
    )
    page = page_of(messages(50, names=kinds), tmp_path / "r.html")
    opened(browser, page)
    assert HOSTILE in browser.evaluate("document.querySelector('.list .message .name').textContent")
    assert browser.evaluate("document.querySelectorAll('.signalling :is(img, svg, b b, script)').length") == 0
    asked(browser, search="onerror=alert")
    assert browser.evaluate(STATUS) == "25 of 50 messages."
    pressed(browser, ".list .unfold")
    browser.wait("!!document.querySelector('.list .tree code')")
    assert browser.complaints == []
    assert browser.requests == [page.as_uri()]


@browsing
@needs_tshark
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 768, 390])
def test_axe_finds_nothing_serious_and_nothing_is_too_wide(
    browser: Browser, cards: Path, width: int, scheme: str
) -> None:
    browser.resize(width, 900, mobile=width < 640)
    browser.prefer(scheme)
    opened(browser, cards)
    pressed(browser, ".list .unfold")
    browser.wait("document.querySelector('.list .tree')?.childElementCount")
    assert serious_findings(browser) == []
    assert browser.evaluate("document.documentElement.scrollWidth") == width


@browsing
@needs_tshark
def test_what_is_pressed_on_a_phone_is_large_enough(browser: Browser, cards: Path) -> None:
    browser.resize(390, 844, scale=3, mobile=True)
    opened(browser, cards)
    small = browser.evaluate(
        "[...document.querySelectorAll('.signalling :is(button, select, input[type=search], label.choice, .message)')]"
        ".filter((e) => e.offsetHeight && e.offsetHeight < 44 && !e.closest('.message, label')).map((e) => e.outerHTML)"
    )
    assert small == []
    assert browser.evaluate("document.querySelector('.list .message').offsetHeight") >= 44
    assert browser.evaluate("document.querySelector('.list .unfold').getBoundingClientRect().width") >= 44


@browsing
@needs_tshark
def test_paper_has_the_tables_of_all_cards_and_no_list(browser: Browser, cards: Path) -> None:
    opened(browser, cards)
    browser.call("Emulation.setEmulatedMedia", media="print")
    try:
        high = "[...document.querySelectorAll('.of-group')].map((each) => each.getBoundingClientRect().height > 0)"
        assert browser.evaluate(high) == [True, True]
        assert browser.evaluate("document.querySelector('.list').getBoundingClientRect().height") == 0
        assert browser.evaluate("document.querySelector('.lanes-of canvas').getBoundingClientRect().height") > 60
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")


@browsing
@needs_tshark
def test_without_scripts_the_tables_say_what_failed(browser: Browser, cards: Path) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(cards)
        text = "document.querySelector('.signalling').innerText"
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
        assert "UE identity cannot be derived by the network" in browser.evaluate(text)
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


@browsing
@needs_tshark
def test_a_button_of_what_failed_shows_its_message(browser: Browser, cards: Path) -> None:
    opened(browser, cards)
    pressed(browser, ".of-group button[data-at]")
    assert browser.evaluate(CHOSEN) == "NASTracking area update request"
    low, high = browser.evaluate("Timeline.window()")
    assert low < 0.4 < high


def notes(page: Path) -> str:
    return page.read_text().partition('class="lacks"')[2].partition("</details>")[0]


@needs_tshark
def test_a_log_without_nas_says_so(tmp_path: Path) -> None:
    (tmp_path / "rrc.pcap").write_bytes(capture(*map(version_2, ("request", "set-up", "release"))))
    write_report(read(tmp_path / "rrc.pcap"), tmp_path / "r.html")
    assert "no NAS message" in notes(tmp_path / "r.html")


@needs_tshark
def test_without_tshark_the_page_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "phone.pcap"
    log.write_bytes(capture(*map(version_2, CARD_0)))
    tools = tmp_path / "bin"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools))
    assert shutil.which("tshark", path=os.environ["PATH"]) is None
    write_report(read(log), tmp_path / "r.html")
    assert "tshark is not installed" in notes(tmp_path / "r.html")


@needs_tshark
def test_messages_that_tshark_cannot_dissect_are_counted_and_listed(tmp_path: Path) -> None:
    table = messages(
        20,
        names=(
            ("LTE", "nas", "", "", "", "", -(1 << 62)),
            ("LTE", "rrc", "up", "UL-DCCH", "MeasurementReport", "", -(1 << 62)),
        ),
    )
    page = page_of(table, tmp_path / "r.html")
    assert "10 messages without a name: ciphered, or not dissected by tshark" in notes(page)
    assert '"not dissected"' in page.read_text()


@browsing
def test_a_clock_that_was_set_is_marked_and_missing_times_are_no_zero(browser: Browser, tmp_path: Path) -> None:
    table = messages(40)
    columns = dict(table.columns)
    columns["clock"] = np.repeat([0, 1], 20).astype(columns["clock"].dtype)
    columns["time_ns"] = np.where(np.arange(40) < 3, NOT_A_TIME, columns["time_ns"])
    page = page_of(Table(SIGNALLING, columns), tmp_path / "r.html")
    opened(browser, page)
    times = browser.evaluate("[...document.querySelectorAll('.list .pick')].map((each) => each.textContent)")
    assert times[:3] == ["no time"] * 3
    assert times[3] == "0.000 s"
    assert browser.evaluate("document.querySelectorAll('.list .new-clock').length") == 1
    pressed(browser, ".list .pick")
    assert "gives this message no time" in browser.evaluate(STATUS)


@browsing
def test_states_without_messages_name_their_source(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    write_report(read(SAMPLES / "rehearsed-drive"), page)
    opened(browser, page)
    assert browser.evaluate("viewer.lanes.names()") == ["RRC", "EMM", "MM"]
    assert "No log holds messages" in notes(page)
    assert "+CEREG" in notes(page)
    assert browser.evaluate("document.querySelector('.signalling .list').getBoundingClientRect().height") == 0
    assert browser.complaints == []


def test_notes_of_the_page_show_commands_as_code_without_backticks(tmp_path: Path) -> None:
    write_report(read(SAMPLES / "rehearsed-drive"), tmp_path / "r.html")
    assert "<code>multitracer capture --signalling PORT</code>" in notes(tmp_path / "r.html")
    assert "`" not in notes(tmp_path / "r.html")
    assert with_code("a `<b>` c") == "a <code>&lt;b&gt;</code> c"
    assert with_code("one ` alone <i>") == "one ` alone &lt;i&gt;"


@needs_tshark
def test_a_cut_procedure_has_no_end(tmp_path: Path) -> None:
    (tmp_path / "cut.pcap").write_bytes(capture(nas("attach request"), version_2("request")))
    write_report(read(tmp_path / "cut.pcap"), tmp_path / "r.html")
    text = page_text(tmp_path / "r.html")
    assert "2 cut" in text or "1 cut" in text
    assert "no procedure failed" in text


def page_text(page: Path) -> str:
    return page.read_text()


def test_pages_without_messages_have_no_viewer(tmp_path: Path) -> None:
    write_report(read(SAMPLES / "download"), tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert "Messages of phone and network" not in text
    assert "Signalling.mount(" not in text.partition("const Signalling")[0] or "const Signalling" not in text


def test_an_interval_shows_only_its_messages(tmp_path: Path) -> None:
    table = messages(100)
    begin = int(table["time_ns"][50])
    page = page_of(table, tmp_path / "r.html", from_ns=begin)
    assert "50 messages" in page.read_text()


def test_a_card_that_no_log_names_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no message is of card 2; the cards are not named in the logs"):
        page_of(messages(10), tmp_path / "r.html", card=2)
