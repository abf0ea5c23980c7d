"""The content of single messages as trees: by frame, without identities, and why there is none."""

from __future__ import annotations

import re
import shutil
import subprocess
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

import multitracer as mt
from multitracer.errors import InputError
from parsers._signalling.trees import NOT_DISSECTED, message_trees
from tests.cli.program import call
from tests.conftest import SAMPLES
from tests.parsers.signalling_messages import capture, nas, nr, version_2, version_3

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(not shutil.which("tshark"), reason="needs tshark")


def written(path: Path, *datagrams: bytes) -> Path:
    path.write_bytes(capture(*datagrams))
    return path


def test_the_tree_of_a_frame_is_that_of_its_message(tmp_path: Path) -> None:
    path = written(tmp_path / "a.pcap", version_2("release"), nas("attach reject 15"), nr("set-up"))
    trees = {tree.frame: tree for tree in message_trees(path, [3, 2])}
    assert list(trees) == [2, 3]
    lines = [words for _, words in trees[2].lines]
    assert "EMM cause" in lines
    assert any(words.startswith("Cause: No Suitable Cells In tracking area (15)") for words in lines)
    depths = [depth for depth, _ in trees[3].lines]
    assert depths[0] == 0
    assert max(b - a for a, b in pairwise(depths)) == 1
    assert "rrcSetup" in trees[3].text()


def test_identities_are_left_out(tmp_path: Path) -> None:
    """GUTI, S-TMSI and random values, the name and address of the access, and octets that carry a NAS message."""
    names = ("request", "set-up complete with attach request", "re-establishment request")
    path = written(
        tmp_path / "a.pcap", *map(version_2, names), nas("attach request"), nas("attach accept"),
        nas("registration request"), nas("default bearer 8"),
    )  # fmt: skip
    texts = [tree.text() for tree in message_trees(path, range(1, 8))]
    whole = "\n".join(texts).lower()
    assert len(texts) == 7
    for secret in ("c0000001", "3221225473", "0000012345", "000012345", "test", "10.0.0.1", "e417ec01e220"):
        assert secret not in whole, secret
    assert whole.count("left out") >= 7
    assert "mobile country code" in whole or "mcc" in whole  # the network is no secret


def test_addresses_of_name_servers_are_left_out(tmp_path: Path) -> None:
    """IPCP within the protocol configuration options (TS 24.008, 10.5.6.3): 10.177.0.34 and 10.177.0.210."""
    options = bytes.fromhex("2714" + "80" + "802110" + "02000010" + "81060ab10022" + "83060ab100d2")
    (tree,) = message_trees(written(tmp_path / "a.pcap", nas("default bearer 8") + options), [1])
    assert "Primary DNS Address: left out" in tree.text()
    assert "10.177." not in tree.text()


@pytest.mark.fixtures
def test_no_identity_that_tshark_names_is_in_the_trees_of_a_capture(fixture_folder: Path) -> None:
    """2G, 3G and 4G of one phone: TLLI with its bits, SRES, TMSI, GUTI, IMSI, IMEI, addresses."""
    (path,) = fixture_folder.rglob("sample_2g_3g_4g_xperia.pcap")
    fields = (
        *("gsm_rlcmac.tlli", "gsm_a.dtap.sres", "gsm_a.tmsi", "e212.imsi", "gsm_a.imei", "nas_eps.emm.m_tmsi"),
        *("lte-rrc.m_TMSI", "e164.msisdn", "gsm_a.gm.sm.apn", "ipcp.opt.pri_dns_address", "nas_eps.esm.pdn_ipv4"),
    )
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", *(word for each in fields for word in ("-e", each))]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    secrets = {word.removeprefix("0x") for word in re.split(r"[\s,]+", printed) if len(word) > 7} - {"0.0.0.0"}
    assert len(secrets) > 5
    trees = list(message_trees(path, range(1, 10_000)))
    assert [tree.frame for tree in trees if tree.why] == []  # those of UMTS stand beside their layer
    text = "\n".join(tree.text() for tree in trees)
    assert [each for each in secrets if each in text] == []
    assert "s-RNTI: 0" not in text
    assert not re.search(r"[01.]{4} [01.]{4}  ?[01.]{4} .* = [\w ]*TLLI: ", text)


def test_a_message_that_tshark_does_not_know_says_so(tmp_path: Path) -> None:
    path = written(tmp_path / "a.pcap", version_3(0x0403, 0x7FFF, b"\x01\x02\x03", channel=1, cell=1))
    (tree,) = message_trees(path, [1])
    assert tree.why in (NOT_DISSECTED, "")
    assert tree.text()


def test_the_command_and_the_session_print_a_message(tmp_path: Path) -> None:
    path = written(tmp_path / "phone.pcap", version_2("request"), version_2("release"))
    printed = call("dissect", path, "--message", "2", "--message", "1").stdout
    assert printed.index("message 2") < printed.index("rrcConnectionRelease") < printed.index("message 1")
    assert mt.open(path).message_tree(2) in printed
    assert "no message 9" in call("dissect", path, "--message", "9", status=1).stderr
    assert "--filter has no effect" in call("dissect", path, "--message", "1", "--filter", "dns", status=2).stderr
    with pytest.raises(InputError, match="no message 9"):
        mt.open(path).message_tree(9)
    with pytest.raises(InputError, match=r"name the log of the message, one of: phone\.pcap"):
        mt.open(path).message_tree(1, log="other.pcap")


def test_other_logs_have_no_messages() -> None:
    log = next((SAMPLES / "rehearsed-drive").rglob("tcp_state*"))
    assert "holds no messages of signalling" in call("dissect", log, "--message", "1", status=1).stderr


@pytest.mark.fixtures
def test_a_diagnostic_log_has_the_frames_of_its_table(fixture_folder: Path) -> None:
    (log,) = fixture_folder.rglob("20201116_124000*.mi2log")
    table = mt.open(log).signalling
    wanted = table[table["message"] == "Tracking area update accept"].iloc[:3]
    trees = {tree.frame: tree.text() for tree in message_trees(log, wanted["frame"].tolist())}
    assert set(trees) == set(wanted["frame"])
    assert all("Tracking area update accept" in text for text in trees.values())
