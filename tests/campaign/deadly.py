"""A session that kills each process that reads it, by a plug-in's reader.

It kills by a signal, as a mistake in a library of C does.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.cli.program import ENVIRONMENT

if TYPE_CHECKING:
    from pathlib import Path

READER = """
import os, signal
from multitracer.plugins import Format

def sniff(head):
    return "yes" if head.startswith(b"DEADLY") else "no"

def parse(stream, path):
    os.kill(os.getpid(), signal.SIGKILL)

FORMAT = Format("deadly", "radio", "kills its reader", "this test", sniff, parse)
"""


def environment_of(packages: Path) -> dict[str, str]:
    """Install the plug-in into a folder, and return an environment in which it is."""
    about = packages / "deadly-1.dist-info"
    about.mkdir(parents=True)
    (packages / "deadly_reader.py").write_text(READER, "utf-8")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: deadly\nVersion: 1\n", "utf-8")
    (about / "entry_points.txt").write_text("[multitracer.formats]\ndeadly = deadly_reader\n", "utf-8")
    return ENVIRONMENT | {"PYTHONPATH": os.pathsep.join((str(packages), ENVIRONMENT["PYTHONPATH"]))}


def make_deadly(folder: Path) -> Path:
    """Make a session that kills its reader."""
    folder.mkdir(parents=True)
    (folder / "modem.log").write_bytes(b"DEADLY")
    return folder
