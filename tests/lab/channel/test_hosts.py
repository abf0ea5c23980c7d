"""Hosts by name: which a link has, where each is, and their addresses."""

from __future__ import annotations

import pytest

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.bluetooth_piconet import BluetoothConfig
from multitracer.lab.channel.capacity import CapacityConfig
from multitracer.lab.channel.cdma2000_radio import Cdma2000Config
from multitracer.lab.channel.cdpd_config import CdpdConfig
from multitracer.lab.channel.gsm import LinkConfig
from multitracer.lab.channel.links import AnyLinkConfig, link_of
from multitracer.lab.channel.shared.packet_link import MOST_MOBILES, host_address, host_names, one_of_two, side_of


def test_one_mobile_has_no_number_and_many_are_counted_from_1() -> None:
    assert host_names() == ("mobile", "fixed")
    assert host_names(3) == ("mobile-1", "mobile-2", "mobile-3", "fixed")
    assert [side_of(host) for host in host_names(2)] == ["mobile", "mobile", "fixed"]


@pytest.mark.parametrize("mobiles", [0, -1, 31])
def test_a_cell_has_1_to_30_mobiles(mobiles: int) -> None:
    with pytest.raises(LocalProtocolError, match="must be 1 to 30"):
        host_names(mobiles)


def test_every_host_has_an_address_of_its_own_and_the_first_two_are_those_of_old_recordings() -> None:
    assert host_address("mobile") == host_address("mobile-1") == bytes([10, 64, 0, 1])
    assert host_address("fixed") == bytes([10, 64, 0, 2])
    assert host_address("mobile-2") == bytes([10, 64, 0, 4])
    names = host_names(MOST_MOBILES)
    assert len({host_address(name) for name in names}) == len(names) == MOST_MOBILES + 1


@pytest.mark.parametrize(
    "name", ["", "server", "mobile-0", "mobile-31", "mobile-01", "mobile-x", "mobile--1", "fixed-1", "mobile-²"]
)
def test_other_names_have_no_address(name: str) -> None:
    with pytest.raises(LocalProtocolError, match="unknown host"):
        host_address(name)


@pytest.mark.parametrize("config", [LinkConfig(), CdpdConfig(), BluetoothConfig(), CapacityConfig(), Cdma2000Config()])
def test_a_link_of_two_ends_knows_the_mobile_and_the_fixed_host_only(config: AnyLinkConfig) -> None:
    link = link_of(config, seed=1)
    assert link.hosts == ("mobile", "fixed")
    assert link.reading(0, host="mobile") == link.reading(0)
    with pytest.raises(LocalProtocolError, match='no host named "mobile-2'):
        link.send("mobile-2", b"E" + bytes(40), now_ns=0)
    with pytest.raises(LocalProtocolError, match='no host named "mobile-2'):
        link.events("mobile-2")
    assert one_of_two("fixed") == "fixed"
