"""A copy to share holds no signalling: neither the modem's log nor packets of GSMTAP, and no true cell."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import parsers
from multitracer.anonymize.pseudonyms import Pseudonyms
from multitracer.anonymize.session import anonymize
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from multitracer.recording.inputs import find_inputs
from tests.parsers.frames import frame
from tests.parsers.signalling_messages import MESSAGES, START_NS, packet, version_2
from tests.parsers.test_diag import needs_programs
from tests.parsers.test_sdm import LOGGED

if TYPE_CHECKING:
    from pathlib import Path

KEY = b"k" * 32


def test_physical_cells_stay_in_their_range_and_apart() -> None:
    mapped = [Pseudonyms(KEY).physical_cell(n) for n in range(1008)]
    assert sorted(mapped) == list(range(1008))
    assert mapped != list(range(1008))
    assert mapped != [Pseudonyms(b"other").physical_cell(n) for n in range(1008)]
    assert Pseudonyms(KEY).physical_cell(4000) == Pseudonyms(KEY).cell(4000)


@needs_programs
def test_raw_logs_and_gsmtap_stay_behind_and_cells_are_pseudonyms(tmp_path: Path) -> None:
    phone = tmp_path / "drive" / "phone"
    phone.mkdir(parents=True)
    (phone / "modem.sdm").write_bytes(LOGGED)
    packets = [frame(seq=1, payload=b"x")[14:], *[packet(version_2("report"))] * 3]
    (phone / "all.pcap").write_bytes(
        pcap_header() + b"".join(pcap_record(p, time_ns=START_NS) for p in packets)
    )
    into = tmp_path / "copy"
    into.mkdir()
    said = anonymize(find_inputs(str(phone.parent)), into, key=KEY)
    assert said == {
        "phone/all.pcap": "IP headers only, 3 GSMTAP packets with signalling left out",
        "phone/modem.sdm": "decoded readings; the raw log and its 3 messages stayed behind",
    }
    assert len(list(parsers.read_ip_packets(into / "phone" / "all.pcap.gz"))) == 1
    fmt, tables = parsers.read(into / "phone" / "modem.csv.gz")
    assert fmt.name == "radio-table"
    assert isinstance(tables, dict)
    cells = tables["radio"]["physical_cell_id"].tolist()
    assert cells == [-1, Pseudonyms(KEY).physical_cell(305), Pseudonyms(KEY).physical_cell(17)]
    assert 305 not in cells
    octets = bytes.fromhex(MESSAGES["report"][1])
    for path in into.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert octets not in (gzip.decompress(data) if path.suffix == ".gz" else data)
