"""axe-core of npm, which finds what keeps people with assistive technology from reading a page."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.report.chromium import Browser

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "multitracer-tests" / "axe-core"
_SCRIPT = Path("node_modules", "axe-core", "axe.min.js")
_PATIENCE_S = 90  # npm asks the registry several times before it gives up; not measured


def axe_script() -> str:
    """Return the source of axe-core, installed once into a cache; skip the test where that cannot be done."""
    if not (_CACHE / _SCRIPT).is_file():
        _install()
    return (_CACHE / _SCRIPT).read_text("utf-8")


def _install() -> None:
    """Install into a folder of this process, then put it into its place: two processes may do so at once."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed, which brings axe-core")
    _CACHE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_CACHE.parent) as folder:
        command = [npm, "install", "--no-save", "--ignore-scripts", "--no-audit", "--prefix", folder, "axe-core@4"]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_PATIENCE_S)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"npm cannot install axe-core: {type(error).__name__}")
        if not _CACHE.exists():
            shutil.copytree(Path(folder), _CACHE, dirs_exist_ok=True)


def serious_findings(browser: Browser) -> list[dict[str, Any]]:
    """Return what axe-core finds on the page that is shown and is serious or critical."""
    browser.evaluate(axe_script() + "\n;true")
    findings = json.loads(browser.evaluate("axe.run().then((found) => JSON.stringify(found.violations))"))
    return [
        {"rule": each["id"], "impact": each["impact"], "nodes": [node["html"][:120] for node in each["nodes"]]}
        for each in findings
        if each["impact"] in ("serious", "critical")
    ]
