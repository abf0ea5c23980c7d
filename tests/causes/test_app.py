"""The programs of a recording do what they are told, and their journals say so: two of them, over loopback."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.causes.tls import CERTIFICATE, make_certificate

if TYPE_CHECKING:
    from pathlib import Path

_ASK, _ANSWER, _FRAME = 300, 200_000, 16_384
_SLOW_S = 0.3


def _journals(folder: Path, client: list[Any], server: list[Any], *, tls: bool = False) -> dict[str, Any]:
    """Return the only connection of each journal."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    both = {"congestion_control": "reno"}
    plan = {
        "address": "127.0.0.1", "port": port, "listens": True, "lanes": 1, "most_s": 15.0, "patience_s": 20.0,
        "client": both, "server": both, "tls": tls, "connections": [{"client": client, "server": server}],
    }  # fmt: skip
    if tls:
        make_certificate(folder / CERTIFICATE)
    (folder / "plan.json").write_text(json.dumps(plan))
    argv = {
        role: [sys.executable, "-m", "tests.causes.app", role, str(folder / "plan.json"), str(folder / f"{role}.json")]
        for role in ("client", "server")
    }
    serves = subprocess.Popen(argv["server"], stdout=subprocess.PIPE, text=True)
    assert serves.stdout is not None
    with serves.stdout as words:
        assert words.readline() == "ready\n"
        subprocess.run(argv["client"], check=True, timeout=40)
        serves.terminate()
        serves.wait(10)
    return {role: json.loads((folder / f"{role}.json").read_text())["connections"][0] for role in argv}


def _bytes(journal: dict[str, Any], call: str) -> int:
    return sum(count for name, _, _, count in journal["calls"] if name == call)


_CLIENT = [["send", _ASK], ["recv", _ANSWER], ["close"]]
_SERVER = [["recv", _ASK], ["send", _ANSWER], ["drain"], ["close"]]


def test_a_journal_has_the_bytes_that_the_socket_took(tmp_path: Path) -> None:
    told = _journals(tmp_path, _CLIENT, _SERVER)
    assert _bytes(told["client"], "send") == _ASK
    assert _bytes(told["client"], "recv") == _bytes(told["server"], "send") == _ANSWER


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl: no certificate can be made")
def test_within_tls_these_are_the_bytes_of_the_records(tmp_path: Path) -> None:
    told = _journals(tmp_path, _CLIENT, _SERVER, tls=True)
    assert not [name for each in told.values() for name, *_ in each["calls"] if name.startswith("error")]
    sent = {role: _bytes(each, "send") for role, each in told.items()}
    assert sent["client"] == _bytes(told["server"], "recv")
    assert sent["server"] == _bytes(told["client"], "recv")
    records = -(-_ANSWER // _FRAME)
    assert _ANSWER + 22 * records < sent["server"] < _ANSWER + 22 * records + 4000  # and the handshake
    assert 500 < sent["client"] < 2000


def test_a_slow_answer_holds_no_other_back_on_its_connection(tmp_path: Path) -> None:
    size, fast = _ANSWER // 4, 3
    slow = [["wait", _SLOW_S, "think"], ["send", size, _FRAME]]
    answers = [slow, *([[["send", size, _FRAME]]] * fast)]
    told = _journals(tmp_path, _CLIENT, [["recv", _ASK], ["at_once", answers], ["drain"], ["close"]])
    calls = told["server"]["calls"]
    assert [end for _, _, end, _ in calls] == sorted(end for _, _, end, _ in calls)
    thinks_until = next(end for name, _, end, _ in calls if name == "think")
    before = sum(count for name, _, end, count in calls if name == "send" and end < thinks_until)
    assert before == fast * size
    assert _bytes(told["client"], "recv") == _ANSWER


def test_a_disk_gives_block_after_block_at_its_rate(tmp_path: Path) -> None:
    block, blocks = 50_000, 4
    rate = block * blocks / 0.4
    sends = [["recv", _ASK], ["file", block * blocks, block, rate], ["drain"], ["close"]]
    told = _journals(tmp_path, _CLIENT, sends)
    reads = [end - begin for name, begin, end, _ in told["server"]["calls"] if name == "disk"]
    assert len(reads) == blocks
    assert min(reads) >= 0.1e9
    assert _bytes(told["server"], "send") == block * blocks
