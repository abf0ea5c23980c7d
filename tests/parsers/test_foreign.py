"""Files of other tools that are not read: named, with the command that works."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from typing import TYPE_CHECKING

import pytest

from multitracer.errors import UnknownFormatError
from parsers import detect
from tests.parsers.frames import EPOCH_S, frame, pcap_file

if TYPE_CHECKING:
    from pathlib import Path

WRITABLE = {
    "5views": "5View",
    "k12text": "K12xx",
    "lanalyzer": "LANalyzer",
    "netmon1": "Network Monitor 1",
    "netmon2": "Network Monitor 2",
    "nettl": "nettl",
    "ngsniffer": "DOS Sniffer",
    "ngwsniffer_1_1": "NetXRay",
    "ngwsniffer_2_0": "NetXRay",
    "visual": "Visual Networks",
}
"""What editcap writes -> how it is named."""


def said(path: Path) -> str:
    """Return what is said of a file that is not read."""
    with pytest.raises(UnknownFormatError) as caught:
        detect(path)
    return str(caught.value).removeprefix(f"{path}: ")


def of(tmp_path: Path, content: bytes) -> str:
    """Return what is said of a file with this content."""
    (tmp_path / "a file").write_bytes(content)
    return said(tmp_path / "a file")


@pytest.mark.skipif(not shutil.which("editcap"), reason="editcap is not installed")
@pytest.mark.parametrize("kind", WRITABLE)
def test_what_editcap_writes_is_named_with_the_command_that_works(kind: str, tmp_path: Path) -> None:
    (tmp_path / "in.pcap").write_bytes(pcap_file([frame(seq=n, payload=b"x" * 50) for n in range(9)]))
    subprocess.run(["editcap", "-F", kind, "in.pcap", "it"], cwd=tmp_path, check=True)
    told = said(tmp_path / "it")
    assert WRITABLE[kind] in told
    _, _, command = told.partition("convert it: ")
    subprocess.run(command, shell=True, cwd=tmp_path, check=True, capture_output=True)
    assert detect(tmp_path / "out.pcapng").name == "pcapng"


def test_observers_are_named(tmp_path: Path) -> None:  # editcap 4.0 cannot read those that it writes
    assert "Observer" in of(tmp_path, b"ObserverPktBufferVersion=15.00" + bytes(500))


def test_etherpeek_netmetrix_iptrace_and_tsh_are_named(tmp_path: Path) -> None:
    peek = struct.pack(">BB9I", 7, 0, 9000, 40, 1, 2, 3, 0, 0, 5, 10) + bytes(12)
    assert "EtherPeek" in (told := of(tmp_path, peek + bytes(500)))
    assert "editcap" in told
    assert "NetMetrix" in of(tmp_path, struct.pack(">II", 0x6476, 4) + bytes(500))
    assert "iptrace" in of(tmp_path, b"iptrace 2.0" + bytes(500))
    rng = random.Random(6)
    tsh = [struct.pack(">II", EPOCH_S + n, 1 << 24 | rng.randrange(10**6)) + frame(seq=n)[14:50] for n in range(9)]
    assert "TSH" in of(tmp_path, b"".join(tsh))


def test_results_scripts_and_link_traces_are_named(tmp_path: Path) -> None:
    script = b"// slow start\n0   socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0  < S 0:0(0) win 32792\n"
    assert "packetdrill" in of(tmp_path, script)
    assert "testbed compare" in of(tmp_path, b"".join(b"%d\n" % (n // 3) for n in range(3000)))
    assert "Mahimahi" not in of(tmp_path, b"".join(b"%d\n" % (n % 7) for n in range(3000)))
    assert "text2pcap" in of(tmp_path, b"000000 00 0e b6 00 00 02 00 0e b6 00 00 01 08 00\n")
    printed = b"12:00:00.123456 IP 10.0.0.1.80 > 10.0.0.2.1000: Flags [S], seq 1, win 500\n"
    assert "tcpdump -w" in of(tmp_path, printed)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b'{"a": 1}\n', "JSON"),
        (b"<a/>\n", "XML"),
        ("Grüße\n".encode() * 900, "text"),
        (b"\x7fELF\x02\0\0", "binary"),
        (b"caf\xe9 au lait" * 9, "binary"),
    ],
)
def test_what_nobody_knows_is_told_by_its_looks(content: bytes, kind: str, tmp_path: Path) -> None:
    told = of(tmp_path, content)
    assert told.startswith("the format is unknown (the file begins with")
    assert f"looks like {kind}); installed formats: " in told


def test_text_of_two_bytes_a_character_is_named_with_its_conversion(tmp_path: Path) -> None:
    """As Excel and drive-test programs on Windows save it."""
    for encoding in ("utf-16", "utf-16-be"):
        content = ("\ufeff" * (encoding != "utf-16") + "Time;RSRP\nGrüße;-90\n").encode(encoding)
        assert "text in UTF-16, a format that cannot be read; convert it: iconv -f UTF-16" in of(tmp_path, content)


def test_noise_gets_no_name(tmp_path: Path) -> None:
    rng = random.Random(8)
    for _ in range(200):
        content = rng.choice((rng.randbytes(2000), bytes(rng.randrange(1, 2000)), rng.randbytes(4) * 400))
        assert "looks like binary" in of(tmp_path, b"\xfe" + content)
