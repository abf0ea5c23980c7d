"""[link] of a scenario: what its keys mean, and what is said of a wrong one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from multitracer.errors import FormatError
from multitracer.lab.channel.cdma2000_radio import Cdma2000Config
from multitracer.lab.channel.cdpd_config import CdpdConfig, LossConfig
from multitracer.lab.channel.shared.frame_errors import ErrorConfig
from multitracer.lab.scenario.library import parse_scenario
from tests.lab.channel.link_table import PAGE


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
        ("mobiles = 31", "must be 1 to 30, but is 31"),
        ("mobiles = 0", "must be 1 to 30, but is 0"),
        ("mobiles = 2.5", "[link] mobiles must be of the type int, but is 2.5"),
        ("bits_per_s = 0", '"bits_per_s" must be 1,200 to 10,000,000'),
        ("bits_per_s = -19200", '"bits_per_s" must be 1,200 to 10,000,000'),
        ("bits_per_s = nan", "[link] bits_per_s must be a number from"),
        ("bits_per_s = 1e4", "[link] bits_per_s must be of the type int, but is 10000.0"),
        ('recovery = "arq"', "[link] recovery must be one of ('mdlp', 'none'), but is 'arq'"),
        ("mobile = 3", "[link] contains unknown keys: mobile"),
        ('recovery = "none"\n[link.loss]\ndown = 1.01', '[link.loss]: CDPD: "down" must be 0 to 1, but is 1.01'),
        ('recovery = "none"\n[link.loss]\nup = -0.1', '[link.loss]: CDPD: "up" must be 0 to 1, but is -0.1'),
        ('recovery = "none"\n[link.loss]\nup = nan', "[link.loss] up must be a number from"),
        ("[link.loss]\nup = 0.1", '[link]: [link.loss] can be used only if "recovery" is "none"'),
        ("[link.loss]\nleft = 0.1", "[link.loss] contains unknown keys: left"),
        ("loss = 0.1", '"loss" must be a table; write [loss]'),
        ("[link.cell]\nstations = 31", '[link.cell]: CDPD: "stations" must be 0 to 30'),
        ("[link.cell]\nmean_blocks = inf", "[link.cell] mean_blocks must be a number from"),
        ("[link.cell]\nmean_blocks = 1e17", '[link.cell]: CDPD cell: "mean_blocks" must be 1 to 10,000'),
        (
            "[link.mdlp]\nt200_s = nan",
            "[link.mdlp] t200_s must be a number from -9,223,372,036 to 9,223,372,036, but is nan",
        ),
        (
            "[link.mdlp]\nt200_s = 1e300",
            "[link.mdlp] t200_s must be a number from -9,223,372,036 to 9,223,372,036, but is 1e+300",
        ),
        ("[link.mdlp]\nt200_ns = " + "9" * 400, "[link.mdlp] t200_ns must be a number from"),
        ("[link.mdlp]\nstuffing_percent = -50", '"stuffing_percent" must be 0 to 100'),
        ("[link.access]\nmax_count = 99", '"max_count" must be 0 to 16, but is 99'),
        ("[link.access]\nmin_count = 9", '"min_count" must be 0 to 8, but is 9'),
        ("[link.access]\nmax_blocks = 0", '"max_blocks" must be 1 to 10,000, but is 0'),
        ("[link.access]\nflag_delay_microslots = -1", '"flag_delay_microslots" must be 0 to 10,000'),
        ("[link.signal]\ncorrelation_s = 0", '"correlation" must be above 0 s'),
        ("report_s = 0", '"report" must be above 0 s'),
    ],
)
def test_a_wrong_value_is_one_sentence_with_file_key_and_range(text: str, says: str) -> None:
    with pytest.raises(FormatError) as refused:
        read(text)
    message = str(refused.value)
    assert message.startswith("x.toml")
    assert says in message
    assert "\n" not in message


def test_the_keys_of_a_sector() -> None:
    config = read(
        'mobiles = 4\nrate = "mean"\nmean_bits_per_s = 100_000\nbuffer_bytes = 35_000\n[link.radio]\n'
        "ecio_db = -9\nspeed_m_per_s = 20\n[link.forward]\nmost_bits_per_s = 38_400\ndelay_ms = 300\n"
        "[link.rlp]\nthird_naks = 0",
        "cdma2000",
    )
    assert (config.mobiles, config.rate, config.mean_bits_per_s, config.buffer_bytes) == (4, "mean", 100_000, 35_000)
    assert (config.radio.ecio_db, config.radio.speed_m_per_s) == (-9.0, 20.0)
    assert (config.forward.most_bits_per_s, config.forward.delay_ns) == (38_400, 300_000_000)
    assert config.rlp.rounds == (1, 2)
    assert read("", "cdma2000") == Cdma2000Config()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("mobiles = 31", '[link]: "mobiles" must be 1 to 30, but is 31'),
        ("buffer_bytes = 0", '[link]: "buffer_bytes" must be 1500 to 10,000,000'),
        ("buffer_bytes = -30_000", '"buffer_bytes" must be 1500 to 10,000,000'),
        ('rate = "fast"', "[link] rate must be one of ('scheduled', 'mean', 'mean-rlp'), but is 'fast'"),
        ('rate = "mean"', '"mean_bits_per_s" must be 1000 to 10,000,000, but is 0'),
        ("mean_bits_per_s = 9_600", 'a mean rate can be given only if "rate" is "mean" or "mean-rlp"'),
        ("[link.radio]\necio_db = 1", '[link.radio]: "ecio_db" must be -40 to 0'),
        ("[link.radio]\necio_db = nan", "[link.radio] ecio_db must be a number from"),
        (
            "[link.radio]\ncell_m = 1000\nspeed_m_per_s = 1e-310",
            '[link.radio]: "speed_m_per_s" must be 0, or at least 0.01 where "cell_m" is set, but is 1e-310',
        ),
        ("[link.radio]\nspeed_m_per_s = -1", '[link.radio]: "speed_m_per_s" must be 0 to 150'),
        ("[link.radio]\nspeed_mph = 60", "[link.radio] contains unknown keys: speed_mph"),
        ("[link.radio]\nstill_s = 0", '"still" must be at least 1 s'),
        (
            "[link.forward]\nmost_bits_per_s = 50_000",
            '[link.forward]: "most_bits_per_s" must be one of 9600, 19200, 38400, 76800, 153600',
        ),
        ("[link.reverse]\nburst_frames = 10", '[link.reverse]: "burst_frames" must be one of 1, 2, 3, 4'),
        ("[link.forward]\ndelay_s = 11", '[link.forward]: "delay" must be 0 to 10 s'),
        ("[link.errors]\nsupplemental_error_rate = 1", '"supplemental_error_rate" must be 0 to 0.9'),
        ("[link.rlp]\nfirst_naks = 8", '"first_naks" must be 0 to 7, but is 8'),
        ("[link.rlp]\ntimer_ms = 0", '"timer" must be 20 ms to 10 s'),
        ("[link.wired]\nfixed_s = -1", '"fixed" must be 0 to 10 s'),
        ("report_s = 0", '"report" must be 0.001 to 3,600 s'),
    ],
)
def test_a_wrong_value_of_a_sector_is_one_sentence(text: str, says: str) -> None:
    with pytest.raises(FormatError) as refused:
        read(text, "cdma2000")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_keys_of_a_data_call() -> None:
    config = read(
        'frame_bits = 576\nslot_ms = 40\ncode = "14.4"\nt1_ms = 520\n[link.up]\nkind = "bits"\n'
        "good_s = 5\ngood_ber = 0.001\nbad_s = 0.2\nbad_ber = 0.1\n[[traffic]]\nbytes = 1",
        "gsm",
    )
    assert (config.frame_bits, config.slot_ns, config.code) == (576, 40_000_000, "14.4")
    assert config.up == ErrorConfig(kind="bits", good_s=5.0, good_ber=0.001, bad_s=0.2, bad_ber=0.1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("frame_bits = 241", '[link]: GSM link: "frame_bits" must be one of 240, 336, 576, 1152, 2304'),
        ("frame_bits = 0", '"frame_bits" must be one of'),
        ("frame_bits = nan", "[link] frame_bits must be a number from"),
        ('frame_bits = "240"', "[link] frame_bits must be of the type int, but is '240'"),
        ('queue_at = "left"', "[link] queue_at must be one of ('both', 'mobile', 'fixed'), but is 'left'"),
        ('code = "9"', "[link] code must be one of ('9.6', '14.4', '3/4', 'none'), but is '9'"),
        ("code = 9.6", "[link] code must be one of"),
        ("slot_ms = 0", '"slot_ns" must be 1,000,000 to 1,000,000,000'),
        ("slot_ms = 0.9", '"slot_ns" must be 1,000,000 to 1,000,000,000'),
        ("slot_s = 1.1\nt1_ms = 2000", '"slot_ns" must be 1,000,000 to 1,000,000,000'),
        ("slot_ms = 500", '"slot_ns" must be 1,000,000 to 1,000,000,000 ns and not longer than'),
        ('[link.up]\nkind = "bits"\ngood_ber = 0.51', "must be 0 to 0.5"),
        ('[link.down]\nkind = "bits"\nbad_ber = -0.1', "must be 0 to 0.5"),
        ('[link.up]\nkind = "bits"\nbad_ber = nan', "[link.up] bad_ber must be a number from"),
        ('[link.up]\nkind = "bits"\nbad_s = 0', "must be 0.001 to 86,400"),
        ('[link.up]\nkind = "bits"\ngood_s = 1e6', "must be 0.001 to"),
        ('[link.up]\nkind = "bit"', "[link.up] kind must be one of"),
        ('[link.up]\nkind = "replay"\nreplayed_slot_ms = -1', "but is -1000000"),
    ],
)
def test_a_wrong_value_of_a_data_call_is_one_sentence_with_file_key_and_range(text: str, says: str) -> None:
    with pytest.raises(FormatError) as refused:
        read(f"{text}\n[[traffic]]\nbytes = 1", "gsm")
    message = str(refused.value)
    assert message.startswith("x.toml")
    assert says in message
    assert "\n" not in message


def test_errors_of_bits_are_for_a_data_call() -> None:
    with pytest.raises(FormatError, match='up: errors of the kind "bits" are possible only for a GSM data call'):
        read('[link.up]\nkind = "bits"')


@pytest.mark.parametrize("kind", ["gsm", "bluetooth"])
def test_links_of_two_ends_have_no_mobiles(kind: str) -> None:
    with pytest.raises(FormatError, match="contains unknown keys: mobiles"):
        read("mobiles = 2\n[[traffic]]\nbytes = 1", kind)


@pytest.mark.parametrize("text", re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL))
def test_the_examples_of_the_page_are_read(text: str) -> None:
    config = parse_scenario(text, name="x", path="x.toml", read_trace=lambda _: pytest.fail("a trace")).link
    assert isinstance(config, CdpdConfig)
    assert config != CdpdConfig()


def test_an_unknown_kind_is_refused() -> None:
    known = "gsm, cdpd, bluetooth, capacity, switched"
    with pytest.raises(FormatError, match=f'"kind" must be one of {known}'):
        read("", "cdma")
