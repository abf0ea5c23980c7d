"""A real S3-speaking server on loopback, versitygw: `make buckets` builds it and names it to the tests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING

from tests.cli.program import ENVIRONMENT

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = os.environ.get("MULTITRACER_S3_SERVER")
KEY, SECRET = "AKIDOFTHISTEST", "secret-of-this-test-9f2c"
BUCKET = "drives"


def free_port() -> int:
    """Return a port that no one listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def client(port: int, *, key: str = KEY, secret: str = SECRET) -> dict[str, str]:
    """Return the environment by which s3fs finds a server; no region, and no one's own keys."""
    return {
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


class S3Server:
    """The server; its buckets are folders below `folder`, its objects their files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        (folder / BUCKET).mkdir(parents=True)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What a program needs to use it."""
        return ENVIRONMENT | client(self.port)

    def start(self, secret: str = SECRET) -> None:
        """Start it, and wait until it answers."""
        assert PROGRAM is not None
        keys = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": secret}
        command = [PROGRAM, "--port", f"127.0.0.1:{self.port}", "--quiet", "posix", str(self.folder)]
        self._process = subprocess.Popen(command, env=os.environ | keys, stdout=subprocess.DEVNULL)
        deadline_s = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                assert time.monotonic() < deadline_s
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """End it as a loss of power does."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None

    def hang(self) -> None:
        """Let it take connections and never answer."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
