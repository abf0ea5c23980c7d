"""Records a QUIC transfer of known cause: aioquic at both ends, a link in user space, tcpdump at both sides of it.

The link is a process that passes datagrams between two ports of the loopback interface: with a rate, a delay, a queue,
random losses and a stall. Each side of it is a capture point; the ports differ, as behind a NAT.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

PATIENCE_S = 90
_CHUNK = 65_536


@dataclass
class Plan:
    """What is planted."""

    size: int = 1_000_000
    rate_bps: float = 8e6
    delay_s: float = 0.02
    queue_bytes: int = 60_000
    loss: float = 0.0
    stall: tuple[float, float] | None = None
    """Begin and length of a time in which the link passes nothing, s since its first datagram."""
    window: int = 0
    """Flow control of the connection that slides, bytes; 0: aioquic's, which grows."""
    stream_window: int = 0
    pauses: tuple[int, float] | None = None
    """The server writes so many bytes, then waits so many seconds."""
    upload: bool = False
    cipher: str = "AES_128_GCM_SHA256"
    version: int = 1
    retry: bool = False
    key_update: bool = False
    control: str = "reno"
    name: str | None = "video.example"
    snaplen: int = 192
    seed: int = 1
    ports: list[int] = field(default_factory=list)


def record(folder: Path, plan: Plan) -> Path:
    """Record a transfer into a folder: captures, keys.txt, qlogs, link.jsonl."""
    for name in ("mobile", "fixed", "qlog-c", "qlog-s"):
        (folder / name).mkdir(parents=True)
    plan.ports = _free_ports(2)  # of the server, and of the link's client side
    (folder / "plan.json").write_text(json.dumps(asdict(plan)))
    with contextlib.ExitStack() as stack:
        for host, port in (("mobile", plan.ports[1]), ("fixed", plan.ports[0])):
            stack.enter_context(_tcpdump(folder / host / "udp-0.pcap", port, plan.snaplen))
        for role in ("server", "link"):
            stack.enter_context(_role(role, folder))
        subprocess.run([*_program("client"), str(folder)], check=True, timeout=PATIENCE_S, capture_output=True)
        _wait_for_qlog(folder / "qlog-s")
    for name in ("qlog-c", "qlog-s"):
        for number, file in enumerate(sorted((folder / name).iterdir())):
            file.rename(folder / f"{name}{number or ''}.qlog")
        (folder / name).rmdir()
    return folder


def _wait_for_qlog(folder: Path) -> None:
    """Wait until the server has written its log, which it does once its connection is gone."""
    deadline = time.monotonic() + PATIENCE_S
    while not any(file.stat().st_size for file in folder.iterdir()):
        assert time.monotonic() < deadline, "the server wrote no qlog"
        time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _program(role: str) -> list[str]:
    return [sys.executable, "-m", "tests.quic.exchange", role]


@contextlib.contextmanager
def _tcpdump(path: Path, port: int, snaplen: int) -> Any:
    command = ["tcpdump", "-i", "lo", "-U", "--immediate-mode", "-B", "16384", "--time-stamp-precision=nano",
               "-s", str(snaplen), "-w", str(path), "-Z", "root", "udp", "port", str(port)]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "listening" in line:
            break
    try:
        yield
    finally:
        size, deadline = -1, time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and path.stat().st_size != size:  # the ends have closed: all is sent
            size = path.stat().st_size
            time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)
        process.stderr.close()


@contextlib.contextmanager
def _role(role: str, folder: Path) -> Any:
    process = subprocess.Popen([*_program(role), str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
        process.stdout.close()


# --- the programs ---


class _Link(asyncio.DatagramProtocol):
    """Passes datagrams on; one side of the link."""

    def __init__(self, plan: Plan, log: Any, *, is_down: bool) -> None:
        self.plan, self.log, self.is_down = plan, log, is_down
        self.other: _Link | None = None
        self.transport: Any = None
        self.peer: Any = None
        self.busy_until = 0.0
        self.first: list[float] = []
        self.passed: list[tuple[float, float, bool, float, int]] = []
        self.random = random.Random(plan.seed + is_down)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, address: Any) -> None:
        """Take a datagram of this side, and deliver it to the other one after its time."""
        assert self.other is not None
        if not self.is_down:
            self.peer = address
        loop, plan = asyncio.get_running_loop(), self.plan
        now = loop.time()
        self.first = self.first or self.other.first or [now]
        begun = now - self.first[0]
        is_data = self.is_down != plan.upload
        stalled = plan.stall is not None and plan.stall[0] <= begun < plan.stall[0] + plan.stall[1]
        lost = stalled or (is_data and self.random.random() < plan.loss)
        at = now
        if is_data:
            waiting = max(self.busy_until - now, 0) * plan.rate_bps / 8
            if not lost and waiting + len(data) > plan.queue_bytes:
                lost = True
            if not lost:
                self.busy_until = max(self.busy_until, now) + (len(data) + 28) * 8 / plan.rate_bps
                at = self.busy_until
        if lost:
            print(json.dumps({"t": time.time(), "down": self.is_down, "len": len(data)}), file=self.log, flush=True)
            return
        loop.call_at(at + plan.delay_s, self.other.send, data, (now, at + plan.delay_s, is_data))

    def send(self, data: bytes, times: tuple[float, float, bool]) -> None:
        """Send a datagram on this side, and note when it came, when it was due, and when it is sent."""
        self.passed.append((*times, asyncio.get_running_loop().time(), len(data)))
        if self.transport is not None:
            self.transport.sendto(data, None if self.is_down else self.peer)


async def _link(plan: Plan, folder: Path) -> None:
    loop = asyncio.get_running_loop()
    with (folder / "link.jsonl").open("w") as log:
        near, far = _Link(plan, log, is_down=False), _Link(plan, log, is_down=True)
        near.other, far.other = far, near
        await loop.create_datagram_endpoint(lambda: near, local_addr=("127.0.0.1", plan.ports[1]))
        await loop.create_datagram_endpoint(lambda: far, remote_addr=("127.0.0.1", plan.ports[0]))
        await _until_ended()
    (folder / "passed.json").write_text(json.dumps(near.passed + far.passed))  # a judge of what was planted


async def _until_ended() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await stop.wait()


def _configuration(plan: Plan, folder: Path, *, is_client: bool) -> Any:
    import ssl

    from aioquic.quic.configuration import QuicConfiguration
    from aioquic.quic.logger import QuicFileLogger
    from aioquic.quic.packet import QuicProtocolVersion
    from aioquic.tls import CipherSuite

    made = QuicConfiguration(
        is_client=is_client, alpn_protocols=["hq-test"], max_data=plan.window or 1 << 20,
        max_stream_data=plan.stream_window or 1 << 20,
        congestion_control_algorithm=plan.control,
        quic_logger=QuicFileLogger(str(folder / ("qlog-c" if is_client else "qlog-s"))),
        cipher_suites=[CipherSuite[plan.cipher]], verify_mode=ssl.CERT_NONE if is_client else None,
    )  # fmt: skip
    if plan.version == 2:
        made.supported_versions = [QuicProtocolVersion.VERSION_2]
        made.original_version = QuicProtocolVersion.VERSION_2
    if is_client:
        made.server_name = plan.name
        made.secrets_log_file = (folder / "keys.txt").open("a", buffering=1)
    return made


def _slide(plan: Plan) -> None:
    """Let the limits of flow control slide: aioquic doubles them, so that they would soon limit nothing."""
    from aioquic.quic.connection import QuicConnection

    connection_limits, stream_limits = QuicConnection._write_connection_limits, QuicConnection._write_stream_limits

    def slide_connection(self: Any, builder: Any, space: Any) -> None:
        limit = self._local_max_data
        used = limit.used
        if plan.window:
            if used + plan.window - limit.sent >= plan.window // 4:
                limit.value = used + plan.window
            limit.used = 0
        connection_limits(self, builder, space)
        limit.used = used

    def slide_stream(self: Any, builder: Any, space: Any, stream: Any) -> None:
        used = stream.receiver.highest_offset
        if plan.stream_window and stream.max_stream_data_local:
            if used + plan.stream_window - stream.max_stream_data_local_sent >= plan.stream_window // 4:
                stream.max_stream_data_local = used + plan.stream_window
            stream.receiver.highest_offset = 0
        stream_limits(self, builder, space, stream)
        stream.receiver.highest_offset = used

    QuicConnection._write_connection_limits = slide_connection
    QuicConnection._write_stream_limits = slide_stream


def _certificate(configuration: Any) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "video.example")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=9))
    configuration.certificate, configuration.private_key = made.sign(key, hashes.SHA256()), key


async def _send(writer: Any, plan: Plan, size: int) -> None:
    sent = 0
    step = plan.pauses[0] if plan.pauses else _CHUNK
    while sent < size:
        writer.write(bytes(min(step, size - sent)))
        sent += step
        if plan.pauses:
            await asyncio.sleep(plan.pauses[1])
    writer.write_eof()


async def _server(plan: Plan, folder: Path) -> None:
    from aioquic.asyncio import serve

    configuration = _configuration(plan, folder, is_client=False)
    _certificate(configuration)

    async def answered(reader: Any, writer: Any) -> None:
        if plan.upload:
            while await reader.read(_CHUNK):
                pass
            writer.write(b"done")
            writer.write_eof()
        else:
            await reader.readline()
            await _send(writer, plan, plan.size)

    tasks = []
    await serve(
        "127.0.0.1", plan.ports[0], configuration=configuration, retry=plan.retry,
        stream_handler=lambda *ends: tasks.append(asyncio.ensure_future(answered(*ends))),
    )  # fmt: skip
    await _until_ended()


async def _client(plan: Plan, folder: Path) -> None:
    from aioquic.asyncio import connect

    configuration = _configuration(plan, folder, is_client=True)
    _slide(plan)
    async with connect("127.0.0.1", plan.ports[1], configuration=configuration) as client:
        reader, writer = await client.create_stream()
        if plan.upload:
            task = asyncio.ensure_future(_send(writer, plan, plan.size))
        else:
            writer.write(b"get\n")
            task = None
        received = 0
        while data := await reader.read(_CHUNK):
            received += len(data)
            if plan.key_update and received > plan.size // 3:
                client.request_key_update()
                plan.key_update = False
        if task is not None:
            await task
    assert received == (4 if plan.upload else plan.size)


if __name__ == "__main__":
    role, where = sys.argv[1], Path(sys.argv[2])
    with contextlib.suppress(PermissionError):  # a link that waits for the processor is another link
        os.setpriority(os.PRIO_PROCESS, 0, -20 if role == "link" else -15)
    stated = Plan(**json.loads((where / "plan.json").read_text()))
    asyncio.run({"link": _link, "server": _server, "client": _client}[role](stated, where))
