"""Packets of a phone: tcpdump as root through adb, else PCAPdroid; the phone plays both."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import struct
import sys
from typing import TYPE_CHECKING

import pytest

import multitracer as mt
from collectors import android
from collectors._stop import Stop
from collectors.android import PacketSplitter, PhonePackets
from multitracer.errors import CollectorError
from parsers import read_capture
from tests.cli.program import ENVIRONMENT, call
from tests.cli.program import run as program
from tests.collectors.running import end, records, running, until
from tests.collectors.test_android import Tools, plugged, server, tools  # noqa: F401  # fixtures
from tests.parsers.frames import ethernet, ipv4, ipv6, pcap_file, tcp

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.realtime, pytest.mark.skipif(shutil.which("adb") is None, reason="adb is not installed")]

AS_ROOT = {
    "su": '[ "$1" = -c ] || exit 1; PRIVILEGED=1 exec sh -c "$2"',
    "id": '[ "$PRIVILEGED" ] && echo 0 || echo 2000',
    "tcpdump": 'echo "$@" >> "$(dirname "$0")/asked.txt"; case "$*" in *udp*) name=udp;; *) name=tcp;; esac\n'
               'cat "$(dirname "$0")/$name.pcap"; exec sleep 60',
}  # fmt: skip
PLAYER = """\
import pathlib, socket, sys, time
folder = pathlib.Path(sys.argv[1])
words = dict(zip(sys.argv[2:], sys.argv[3:]))
stream = socket.create_connection(("127.0.0.1", int(words["collector_port"])))
data = (folder / "stream.pcap").read_bytes()
stream.sendall(data[:-50])
while not (folder / "stopped").exists():
    time.sleep(0.01)
stream.sendall(data[-50:])
"""
START = f"""\
folder="$(dirname "$0")"
echo "$*" > "$folder/asked.txt"
case "$*" in *"action stop"*) touch "$folder/stopped"; exit;; esac
setsid sh -c '"$0" "$@" >/dev/null 2>&1 &' {sys.executable} "$folder/player.py" "$folder" "$@"
"""
"""A shell stops it: the collector waits 2.5 s, in which a busy machine starts no Python. The player has a session of
its own before the shell ends, whose process group the phone kills."""


def udp(*, to: int, payload: bytes = b"") -> bytes:
    return struct.pack(">4H", 40_000, to, 8 + len(payload), 0) + payload


def trailed(packet: bytes, *, uid: int = 10123, app: str = "Browser") -> bytes:
    """Return a packet as PCAPdroid writes it with its trailer."""
    frame = bytes(12) + (b"\x08\x00" if packet[0] >> 4 == 4 else b"\x86\xdd") + packet
    frame += bytes(-len(frame) % 4)
    return frame + struct.pack(">Ii20sI", 0x01072021, uid, app.encode(), 0)


def scripts(tools: Tools, more: dict[str, str]) -> None:  # noqa: F811
    for name, script in more.items():
        (tools.folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (tools.folder / name).chmod(0o755)


def packets_of(path: Path) -> int:
    return sum(file.packets for file in read_capture([path]).files) if path.exists() and path.stat().st_size else 0


def test_with_root_the_phones_tcpdump_writes_both_files(tools: Tools, tmp_path: Path) -> None:  # noqa: F811
    scripts(tools, AS_ROOT)
    (tools.folder / "tcp.pcap").write_bytes(pcap_file([ethernet(ipv4(tcp()))] * 3))
    (tools.folder / "udp.pcap").write_bytes(pcap_file([ethernet(ipv4(udp(to=443), protocol=17))]))
    pcap, notes = tmp_path / "tcp-0.pcap", tmp_path / "notes.jsonl"
    options = ("--packets", "--notes", notes, "--keys")
    with plugged(tools) as phone, running("android", pcap, *options, "--serial", phone.serial, is_log=False) as child:
        until(lambda: packets_of(pcap) == 3 and packets_of(tmp_path / "udp-0.pcap") == 1)
        assert end(child) == 0
        asked = (tools.folder / "asked.txt").read_text()
        assert f"-s 128 -n -U -w - tcp and not tcp port {phone.port}\n" in asked
    assert "-s 192 -n -U -w - udp port 443\n" in asked
    assert records(notes, "phone")[0]["packets"] == "tcpdump"
    assert "no keys of TLS are saved: this phone has root" in records(notes, "unable")[0]["says"]


def test_capture_that_ends_by_itself_is_an_error_with_its_reason(tools: Tools, tmp_path: Path) -> None:  # noqa: F811
    scripts(tools, {**AS_ROOT, "tcpdump": "exit 1"})
    pcap = tmp_path / "tcp-0.pcap"
    with (
        plugged(tools) as phone,
        running("android", pcap, "--packets", "--serial", phone.serial, is_log=False) as child,
    ):
        _, words = child.communicate(timeout=90)
    assert child.returncode == 1
    assert words == f"Error: {phone.serial}: the capture on the phone ended; it is still connected\n"
    assert not list(tmp_path.glob("*.pcap")), "nothing came"


def test_pcapdroid_is_started_and_stopped_and_its_packets_are_split(tools: Tools, tmp_path: Path) -> None:  # noqa: F811
    (tools.folder / "player.py").write_text(PLAYER)
    scripts(tools, {"su": "exit 127", "id": "echo 2000", "am": START, "pm": "echo package:/data/app/base.apk"})
    stream = [
        trailed(ipv4(tcp(payload=bytes(900)))), trailed(ipv4(tcp())), trailed(ipv6(tcp())),
        trailed(ipv4(udp(to=53, payload=b"a name"), protocol=17)),
        trailed(ipv4(udp(to=443, payload=bytes(300)), protocol=17)), trailed(ipv4(tcp())),
    ]  # fmt: skip
    (tools.folder / "stream.pcap").write_bytes(pcap_file(stream))
    pcap, notes = tmp_path / "tcp-0.pcap", tmp_path / "notes.jsonl"
    with plugged(tools) as phone:
        options = ("--packets", "--notes", notes, "--serial", phone.serial)
        with running("android", pcap, *options, is_log=False) as child:
            until(lambda: packets_of(pcap) == 3 and packets_of(tmp_path / "udp-0.pcap") == 1)
            assert "-e pcap_dump_mode tcp_exporter" in (tools.folder / "asked.txt").read_text()
            assert end(child) == 0
    assert packets_of(pcap) == 4, "the last packet came after the order to stop"
    assert "-e action stop" in (tools.folder / "asked.txt").read_text()
    capture = read_capture([pcap])
    assert capture.segments["payload_bytes"].tolist() == [900, 0, 0, 0]
    assert b"a name" not in pcap.read_bytes() + (tmp_path / "udp-0.pcap").read_bytes()
    assert pcap.stat().st_size < 700, "a long packet is cut"


UDP_PLAYER = """\
import pathlib, socket, struct, sys, time
folder = pathlib.Path(sys.argv[1])
words = dict(zip(sys.argv[2:], sys.argv[3:]))
end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end.connect(("127.0.0.1", int(words["collector_port"])))
data, at = (folder / "stream.pcap").read_bytes(), 24
end.send(data[:24])
while at < len(data):
    size = 16 + struct.unpack_from("<I", data, at + 8)[0]
    end.send(data[at : at + size])
    at += size
    time.sleep(0.01)
"""
"""It sends a datagram for each record, as PCAPdroid's UDP exporter does."""
NC = 'case "$*" in *"-u -l"*) exec toybox nc "$@";; esac; exit 1'


@pytest.mark.skipif(shutil.which("toybox") is None, reason="toybox, Android's, is not installed")
def test_phone_that_is_lost_before_its_owner_allows_pcapdroid_is_not_one_without_udp(
    tools: Tools,  # noqa: F811
    tmp_path: Path,
) -> None:
    scripts(tools, {"su": "exit 127", "id": "echo 2000", "pm": "echo package:/data/app/base.apk", "nc": NC,
                    "am": 'echo "$*" > "$(dirname "$0")/asked.txt"'})  # fmt: skip
    with plugged(tools) as phone:
        options = ("--packets", "--serial", phone.serial, "--exporter", "udp")
        with running("android", tmp_path / "tcp-0.pcap", *options, is_log=False) as child:
            until((tools.folder / "asked.txt").exists)
            phone.unplug()
            said = child.communicate(timeout=90)[1]
    assert "the phone was lost; " in said
    assert "nc" not in said.split(phone.serial)[1]


@pytest.mark.skipif(shutil.which("toybox") is None, reason="toybox, Android's, is not installed")
def test_datagrams_of_pcapdroid_come_through_the_phones_nc(tools: Tools, tmp_path: Path) -> None:  # noqa: F811
    (tools.folder / "player.py").write_text(UDP_PLAYER)
    scripts(
        tools, {"su": "exit 127", "id": "echo 2000", "am": START, "pm": "echo package:/data/app/base.apk", "nc": NC}
    )
    bare = ipv4(tcp(payload=bytes(3960)))
    stream = [trailed(ipv4(tcp(payload=bytes(900)))), trailed(ipv4(tcp())), bare, trailed(ipv6(tcp())),
              trailed(ipv4(udp(to=443, payload=bytes(300)), protocol=17))]  # fmt: skip
    (tools.folder / "stream.pcap").write_bytes(pcap_file(stream))
    pcap, notes = tmp_path / "tcp-0.pcap", tmp_path / "notes.jsonl"
    with plugged(tools) as phone:
        options = ("--packets", "--notes", notes, "--serial", phone.serial, "--exporter", "udp")
        with running("android", pcap, *options, is_log=False) as child:
            until(lambda: packets_of(pcap) == 4 and packets_of(tmp_path / "udp-0.pcap") == 1)
            asked = (tools.folder / "asked.txt").read_text()
            assert end(child) == 0
    assert "-e pcap_dump_mode udp_exporter" in asked
    assert "-e snaplen 4000" in asked
    assert "-e action stop" in (tools.folder / "asked.txt").read_text()
    assert read_capture([pcap]).segments["payload_bytes"].tolist() == [900, 0, 3960, 0]


def test_phone_whose_nc_takes_no_udp_is_one_sentence(tools: Tools, tmp_path: Path) -> None:  # noqa: F811
    more = {"su": "exit 127", "id": "echo 2000", "am": START, "pm": "echo package:/data/app/base.apk", "nc": "exit 1"}
    scripts(tools, more)
    with plugged(tools) as phone:
        options = ("--packets", "--serial", phone.serial, "--exporter", "udp")
        with running("android", tmp_path / "tcp-0.pcap", *options, is_log=False) as child:
            assert "the phone's nc takes no UDP; leave the exporter tcp" in child.communicate(timeout=90)[1]
    asked = tools.folder / "asked.txt"
    assert not asked.exists() or "action stop" in asked.read_text(), "on a busy machine it was started, and stopped"


WRITES_KEYS = """\
case "$*" in *"action stop"*)
  echo "CLIENT_RANDOM 00 11" > "$folder/$(sed -n 's/.*sslkeylog_name \\([^ ]*\\).*/\\1/p' "$folder/started.txt")"; esac
"""


def with_keys(tools: Tools, writes: str) -> None:  # noqa: F811
    """Give the phone a PCAPdroid whose keys a script writes when it is stopped, in the folder of the tools."""
    (tools.folder / "player.py").write_text(PLAYER)
    begin = f'folder="{tools.folder}"\ncase "$*" in *"action start"*) echo "$*" > "$folder/started.txt";; esac\n'
    moved = f'for word; do case "$word" in /sdcard/*) set -- "{tools.folder}/$(basename $word)";; esac; done\n'
    scripts(tools, {"su": "exit 127", "id": "echo 2000", "pm": "echo package:/data/app/base.apk",
                    "am": begin + writes + START,
                    "cat": moved + 'exec /bin/cat "$@"', "rm": moved + 'exec /bin/rm "$@"'})  # fmt: skip
    (tools.folder / "stream.pcap").write_bytes(pcap_file([trailed(ipv4(tcp()))] * 2))


@pytest.mark.parametrize("has_keys", [True, False])
def test_keys_that_pcapdroid_wrote_are_a_file_of_the_session(tools: Tools, tmp_path: Path, *, has_keys: bool) -> None:  # noqa: F811
    """They are written at its end, and do not stay on the phone."""
    with_keys(tools, WRITES_KEYS if has_keys else "")
    pcap, notes = tmp_path / "tcp-0.pcap", tmp_path / "notes.jsonl"
    with plugged(tools) as phone:
        options = ("--packets", "--notes", notes, "--serial", phone.serial, "--keys")
        with running("android", pcap, *options, is_log=False) as child:
            until(lambda: packets_of(pcap))
            assert end(child) == 0
    asked = (tools.folder / "started.txt").read_text()
    assert "-e tls_decryption true -e sslkeylog_name multitracer-" in asked
    saved = tmp_path / "keylog-0.txt"
    if has_keys:
        assert saved.read_text() == "CLIENT_RANDOM 00 11\n"
        assert saved.stat().st_mode & 0o077 == 0
        assert not list(tools.folder.glob("multitracer-*")), "of the phone"
    else:
        assert not saved.exists()
        assert "wrote no keys of TLS" in records(notes, "unable")[0]["says"]


@pytest.mark.parametrize("way", ["unplugged", "name taken", "not removed"])
def test_keys_stay_on_the_phone_until_they_are_saved_and_it_is_said(tools: Tools, tmp_path: Path, way: str) -> None:  # noqa: F811
    with_keys(tools, WRITES_KEYS)
    pcap, notes, saved = tmp_path / "tcp-0.pcap", tmp_path / "notes.jsonl", tmp_path / "keylog-0.txt"
    if way == "name taken":
        saved.write_text("of before")
    if way == "not removed":
        scripts(tools, {"rm": "exit 1"})
    with plugged(tools) as phone:
        options = ("--packets", "--notes", notes, "--serial", phone.serial, "--keys")
        with running("android", pcap, *options, is_log=False) as child:
            until(lambda: packets_of(pcap))
            if way == "unplugged":
                phone.unplug()
                assert "PCAPdroid ended its capture; " in child.communicate(timeout=90)[1]
                (tools.folder / "stopped").touch()  # the app goes on without the computer
            else:
                child.terminate()
                said = child.communicate(timeout=90)[1]
    if way == "name taken":
        assert "keylog-0.txt: the file already exists" in said
        assert saved.read_text() == "of before"
    elif way == "not removed":
        assert saved.read_text() == "CLIENT_RANDOM 00 11\n"
        assert "saved, and still on the phone; remove them there" in records(notes, "unable")[0]["says"]
    else:
        sentences = [record["says"] for record in records(notes, "unable")]
        assert any("the keys of TLS could not be taken: " in says for says in sentences)
        assert not any("mitm" in says for says in sentences)
    if way != "unplugged":
        assert len(list(tools.folder.glob("multitracer-*"))) == 1, "on the phone"


def test_capture_waits_for_keys_of_a_slow_phone_and_states_what_the_end_brought(tools: Tools, tmp_path: Path) -> None:  # noqa: F811
    """Other collectors are killed 5 s after they were asked to end."""
    with_keys(tools, WRITES_KEYS)
    slow = (tools.folder / "cat").read_text().replace('set -- "', 'sleep 6; set -- "')
    scripts(tools, {"cat": slow, "rm": "exit 1"})
    folder = tmp_path / "drive"
    with plugged(tools) as phone:
        wait = "until [ -s phone/tcp-0.pcap ]; do sleep 0.1; done"
        options = ("--phone", phone.serial, "--phone-keys", "--with", "android", "--ready", "15", "--plain")
        done = program("capture", "-o", folder, *options, "--", "sh", "-c", f"cd {folder}; {wait}",
                       env={**ENVIRONMENT, **os.environ})  # fmt: skip
    assert (folder / "phone" / "keylog-0.txt").read_text() == "CLIENT_RANDOM 00 11\n"
    assert "android-packets: the keys of TLS are saved, and still on the phone" in " ".join(done.stderr.split())


def test_options_of_a_phone_reach_its_collector_and_need_a_phone(tmp_path: Path) -> None:
    declared = tmp_path / "session.toml"
    declared.write_text('phone = ["nobodys:1"]\nphone_exporter = "udp"\nphone_keys = true\nwith = ["android"]\n')
    folder = tmp_path / "drive"
    call("capture", "-o", folder, "--session", declared, "--duration", "0.5", "--plain")
    commands = [run["command"] for run in json.loads((folder / "manifest.json").read_text())["collectors"]]
    (packets,) = (words for words in commands if "--packets" in words)
    assert packets[-2:] == ["--exporter=udp", "--keys"]
    for option in ("--phone-exporter=udp", "--phone-keys"):
        refused = call("capture", "-o", tmp_path / "none", option, "--with", "host_clock", status=1).stderr
        assert f"{option.partition('=')[0]}: no phone is recorded; add --phone SERIAL" in refused
    declared.write_text('phone_exporter = "ftp"\n')
    refused = call("capture", "-o", tmp_path / "none", "--session", declared, status=1).stderr
    assert "\"phone_exporter\" must be tcp or udp, but is 'ftp'" in " ".join(refused.split())


@pytest.mark.parametrize("is_asking", [True, False])
def test_pcapdroid_is_stopped_whatever_ends_the_capture(tools: Tools, tmp_path: Path, *, is_asking: bool) -> None:  # noqa: F811
    """While its owner is asked, and when it sends what is no pcap."""
    (tools.folder / "player.py").write_text(PLAYER)
    asks = f'case "$*" in *"action start"*) exit;; esac\n{START}'
    scripts(tools, {"su": "exit 127", "id": "echo 2000", "am": asks if is_asking else START,
                    "pm": "echo package:/data/app/base.apk"})  # fmt: skip
    (tools.folder / "stream.pcap").write_bytes(bytes(100))
    notes = tmp_path / "notes.jsonl"
    with plugged(tools) as phone:
        options = ("--packets", "--notes", notes, "--serial", phone.serial)
        with running("android", tmp_path / "tcp-0.pcap", *options, is_log=False) as child:
            if is_asking:
                until(lambda: notes.exists() and records(notes, "missed"))
                assert end(child) == 0
            else:
                assert "PCAPdroid sent no pcap" in child.communicate(timeout=90)[1]
        until((tools.folder / "stopped").exists)


@pytest.mark.parametrize("action", ["start", "stop"])
def test_pcapdroid_that_cannot_be_started_or_stopped_is_said(tools: Tools, tmp_path: Path, action: str) -> None:  # noqa: F811
    (tools.folder / "player.py").write_text(PLAYER)
    fails = f'case "$*" in *"action {action}"*) exit 1;; esac\n{START}'
    scripts(tools, {"su": "exit 127", "id": "echo 2000", "am": fails, "pm": "echo package:/data/app/base.apk"})
    (tools.folder / "stream.pcap").write_bytes(pcap_file([trailed(ipv4(tcp()))] * 2))
    pcap, notes = tmp_path / "tcp-0.pcap", tmp_path / "notes.jsonl"
    with plugged(tools) as phone:
        options = ("--packets", "--notes", notes, "--serial", phone.serial)
        with running("android", pcap, *options, is_log=False) as child:
            if action == "start":
                assert "PCAPdroid could not be started" in child.communicate(timeout=90)[1]
            else:
                until(lambda: packets_of(pcap))
                assert end(child) == 0
                assert any("could not be stopped" in each["says"] for each in records(notes, "unable"))
        (tools.folder / "stopped").touch()


def test_answer_of_su_that_comes_late_is_not_that_of_another_question(
    tools: Tools,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(android, "_ROOT_S", 1.0)
    scripts(tools, {"su": "sleep 1.5; exit 1", "id": "echo 2000", "pm": "echo package:/data/app/base.apk"})
    chosen = argparse.Namespace(adb="adb", output=tmp_path / "tcp-0.pcap", serial="")
    with plugged(tools) as phone, Stop(outlive_parent=True) as stop:
        packets = PhonePackets(chosen, notes=None, stop=stop)  # type: ignore[arg-type]
        packets._serial = phone.serial
        assert not packets._root()
        assert packets._says("pm path x") == "package:/data/app/base.apk"


def test_phone_without_root_and_pcapdroid_is_one_sentence(tools: Tools, tmp_path: Path) -> None:  # noqa: F811
    scripts(tools, {"su": "exit 127", "id": "echo 2000", "pm": "exit 1"})
    pcap, notes = tmp_path / "tcp-0.pcap", tmp_path / "notes.jsonl"
    with plugged(tools) as phone:
        options = ("--packets", "--notes", notes, "--serial", phone.serial)
        with running("android", pcap, *options, is_log=False) as child:
            until(lambda: notes.exists() and records(notes, "unable"))
            assert end(child) == 0
    (unable,) = records(notes, "unable")
    assert "no root with tcpdump, and PCAPdroid is not installed; install PCAPdroid" in unable["says"]
    assert not pcap.exists()


def test_stream_in_any_pieces_is_split_alike_and_no_pcap_is_refused(tmp_path: Path) -> None:
    data = pcap_file([trailed(ipv4(tcp(payload=bytes(n)))) for n in (0, 1, 700, 90)])

    class Memory:
        def __init__(self) -> None:
            self.octets = b""

        def write(self, more: bytes) -> None:
            self.octets += more

    whole = Memory()
    PacketSplitter(whole, Memory()).feed(data)  # type: ignore[arg-type]
    for step in (1, 7, 100):
        some = Memory()
        splitter = PacketSplitter(some, Memory())  # type: ignore[arg-type]
        for at in range(0, len(data), step):
            splitter.feed(data[at : at + step])
        assert some.octets == whole.octets
    for hostile in (b"\n\r\r\n" + bytes(60), data[:24] + struct.pack("<4I", 1, 1, 1 << 31, 60) + bytes(60)):
        with pytest.raises(CollectorError):
            PacketSplitter(Memory(), Memory()).feed(hostile)  # type: ignore[arg-type]


def test_capture_has_the_packets_of_the_phone_in_a_host_of_its_own(tools: Tools, tmp_path: Path) -> None:  # noqa: F811
    scripts(tools, AS_ROOT)
    (tools.folder / "tcp.pcap").write_bytes(pcap_file([ethernet(ipv4(tcp()))] * 3))
    (tools.folder / "udp.pcap").write_bytes(pcap_file([]))
    folder = tmp_path / "drive"
    with plugged(tools) as phone:
        wait = "until grep -q remote_clock mobile/android-0.jsonl; do sleep 0.1; done"
        options = ("--phone", phone.serial, "--with", "android", "--with", "host_clock", "--ready", "15", "--plain")
        program("capture", "-o", folder, *options, "--", "sh", "-c", f"cd {folder}; {wait}",
                env={**ENVIRONMENT, **os.environ})  # fmt: skip
    session = mt.open(folder)
    assert set(session.connections["host"]) == {"phone"}
    assert "phone" in set(session.align().edges["from_host"])
    assert not [word for word in session.warnings if "android-packets" in word]
