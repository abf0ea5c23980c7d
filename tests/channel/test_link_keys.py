"""[link] of a scenario: what its keys mean, and what is said of a wrong one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from multitracer.channel.cdpd.config import CdpdConfig, LossConfig
from multitracer.errors import FormatError
from multitracer.scenario.toml import parse_scenario
from tests.channel.link_table import PAGE


def read(text: str, kind: str = "cdpd") -> Any:
    """Return the link of a scenario whose [link] has these keys."""

    def no_trace(name: str) -> Any:
        raise AssertionError(name)

    toml = f'[link]\nkind = "{kind}"\n{text}\n'
    return parse_scenario(toml, name="x", path="x.toml", read_trace=no_trace).link


def test_the_keys_of_a_cell() -> None:
    config = read(
        'mobiles = 30\nbits_per_s = 50_000\nrecovery = "none"\n[link.loss]\ndown = 0.06\nup = 0\n'
        "[link.cell]\nstations = 10\n[link.queue]\nlimit_packets = 15"
    )
    assert (config.mobiles, config.bits_per_s, config.recovery) == (30, 50_000, "none")
    assert config.loss == LossConfig(down=0.06, up=0.0)
    assert (config.cell.stations, config.queue.limit_packets) == (10, 15)
    assert read("") == CdpdConfig()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("mobiles = 31", "mobiles is 31; choose 1 to 30"),
        ("mobiles = 0", "mobiles is 0; choose 1 to 30"),
        ("mobiles = 2.5", "[link] mobiles is 2.5, not int"),
        ("bits_per_s = 0", "bits_per_s is 0; choose 1,200 to 10,000,000"),
        ("bits_per_s = -19200", "bits_per_s is -19200; choose 1,200 to 10,000,000"),
        ("bits_per_s = nan", "[link] bits_per_s is nan; choose a number"),
        ("bits_per_s = 1e4", "[link] bits_per_s is 10000.0, not int"),
        ('recovery = "arq"', "[link] recovery is 'arq'; choose one of ('mdlp', 'none')"),
        ("mobile = 3", "[link] has no key mobile"),
        ('recovery = "none"\n[link.loss]\ndown = 1.01', "[link.loss]: CDPD: down is 1.01; choose 0 to 1"),
        ('recovery = "none"\n[link.loss]\nup = -0.1', "[link.loss]: CDPD: up is -0.1; choose 0 to 1"),
        ('recovery = "none"\n[link.loss]\nup = nan', "[link.loss] up is nan; choose a number"),
        ("[link.loss]\nup = 0.1", '[link]: loss is for recovery = "none"'),
        ("[link.loss]\nleft = 0.1", "[link.loss] has no key left"),
        ("loss = 0.1", "loss is no table; write [loss]"),
        ("[link.cell]\nstations = 31", "[link.cell]: CDPD: stations is 31; choose 0 to 30"),
        ("[link.cell]\nmean_blocks = inf", "[link.cell] mean_blocks is inf; choose a number"),
        ("[link.cell]\nmean_blocks = 1e17", "[link.cell]: CDPD cell: mean_blocks is 1 to 10,000"),
        ("[link.mdlp]\nt200_s = nan", "[link.mdlp] t200_s is nan; choose a number below 9,223,372,036"),
        ("[link.mdlp]\nt200_s = 1e300", "[link.mdlp] t200_s is 1e+300; choose a number below 9,223,372,036"),
        ("[link.mdlp]\nt200_ns = " + "9" * 400, "[link.mdlp] t200_ns is too large; choose a number"),
        ("[link.mdlp]\nstuffing_percent = -50", "stuffing_percent is -50.0; choose 0 to 100"),
        ("[link.access]\nmax_count = 99", "max_count is 99; choose 0 to 16"),
        ("[link.access]\nmin_count = 9", "min_count is 9; choose 0 to 8"),
        ("[link.access]\nmax_blocks = 0", "max_blocks is 0; choose 1 to 10,000"),
        ("[link.access]\nflag_delay_microslots = -1", "flag_delay_microslots is -1; choose 0 to 10,000"),
        ("[link.signal]\ncorrelation_s = 0", "correlation is above 0 s"),
        ("report_s = 0", "report is above 0 s"),
    ],
)
def test_a_wrong_value_is_one_sentence_with_file_key_and_range(text: str, says: str) -> None:
    with pytest.raises(FormatError) as refused:
        read(text)
    message = str(refused.value)
    assert message.startswith("x.toml")
    assert says in message
    assert "\n" not in message


@pytest.mark.parametrize("kind", ["gsm", "bluetooth"])
def test_links_of_two_ends_have_no_mobiles(kind: str) -> None:
    with pytest.raises(FormatError, match="has no key mobiles"):
        read("mobiles = 2\n[[traffic]]\nbytes = 1", kind)


@pytest.mark.parametrize("text", re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL))
def test_the_examples_of_the_page_are_read(text: str) -> None:
    config = parse_scenario(text, name="x", path="x.toml", read_trace=lambda _: pytest.fail("a trace")).link
    assert isinstance(config, CdpdConfig)
    assert config != CdpdConfig()


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(FormatError, match="kind is 'cdma'; choose one of gsm, cdpd, bluetooth, switched"):
        read("", "cdma")
