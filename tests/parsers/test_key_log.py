"""Key logs: found by content, used for opening, written nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import parsers
from parsers.keylog import read_secrets, read_secrets_of_capture

if TYPE_CHECKING:
    from pathlib import Path

_RANDOM, _SECRET = "ab" * 32, "cd" * 48
LINE = f"CLIENT_TRAFFIC_SECRET_0 {_RANDOM} {_SECRET}\n"


def test_a_key_log_is_found_and_its_secrets_are_in_no_table(tmp_path: Path) -> None:
    path = tmp_path / "anything"
    path.write_text(f"# a comment\n{LINE}")
    assert parsers.detect(str(path)).name == "key-log"
    _, tables = parsers.read(str(path))
    assert isinstance(tables, dict)
    (row,) = tables["key_log"].rows()
    assert row == {"label": "CLIENT_TRAFFIC_SECRET_0", "client_random": _RANDOM, "secret_bytes": 48}
    assert read_secrets(str(path)) == {bytes.fromhex(_RANDOM): {"CLIENT_TRAFFIC_SECRET_0": bytes.fromhex(_SECRET)}}


def test_a_line_that_is_still_written_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(LINE + LINE[:60] + "\n" + "x" * 200_000 + "\n" + LINE.replace("CLIENT", "SERVER")[:-40])
    assert list(read_secrets(str(path))[bytes.fromhex(_RANDOM)]) == ["CLIENT_TRAFFIC_SECRET_0"]


def test_secrets_blocks_of_pcapng(tmp_path: Path) -> None:
    text = LINE.encode()
    padded = text + bytes(-len(text) % 4)

    def block(kind: int, body: bytes) -> bytes:
        size = (len(body) + 12).to_bytes(4, "little")
        return kind.to_bytes(4, "little") + size + body + size

    section = block(0x0A0D0D0A, bytes.fromhex("4d3c2b1a01000000ffffffffffffffff"))
    secrets = block(0x0A, 0x544C534B.to_bytes(4, "little") + len(text).to_bytes(4, "little") + padded)
    path = tmp_path / "capture.pcapng"
    path.write_bytes(section + secrets + b"\0" * 5)
    assert list(read_secrets_of_capture(str(path))) == [bytes.fromhex(_RANDOM)]
