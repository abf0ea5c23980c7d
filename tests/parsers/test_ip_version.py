"""EtherTypes that contradict the version of the packet behind them: RFC 791 and RFC 8200 know their own."""

from __future__ import annotations

import pytest

from tests.parsers.frames import ethernet, ipv4, ipv6, pcap_file, read, tcp

WRONG = {4: 0x86DD, 6: 0x0800}


def packet(version: int, **fields: object) -> bytes:
    """Return a packet of a version."""
    return (ipv4 if version == 4 else ipv6)(tcp(payload=b"hello"), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("padding", [0, 6])
def test_the_packet_knows_its_version(version: int, padding: int) -> None:
    right, wrong = ethernet(packet(version)), ethernet(packet(version), WRONG[version])
    found = read(pcap_file([right, wrong + bytes(padding), right]))
    assert found.segments["payload_bytes"].tolist() == [5, 5, 5]
    assert found.flows["ip_version"].tolist() == [version]
    assert found.files[0].not_decoded == {}


@pytest.mark.parametrize("version", [4, 6])
def test_lengths_that_do_not_fit_prove_nothing(version: int) -> None:
    length = {"total": 9000} if version == 4 else {"length": 9000}
    facts = read(pcap_file([ethernet(packet(version, **length), WRONG[version])])).files[0]
    assert facts.not_decoded == {f"IPv{10 - version} header not valid": 1}
