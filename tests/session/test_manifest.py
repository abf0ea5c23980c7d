from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.errors import FormatError, InputError
from multitracer.manifest import (
    MANIFEST,
    MAX_BYTES,
    CollectorRun,
    LogFile,
    Manifest,
    changed_files,
    checksum,
    inside,
    read_manifest,
    write_manifest,
)

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = Manifest(
    "drive",
    1_700_000_000_000_000_000,
    hosts={"mobile": {"role": "sender"}, "fixed": {}},
    collectors=[CollectorRun("tcpdump", "mobile", ["tcpdump", "-i", "wwan0"], outcome="ended")],
    variables={"speed": 1.5, "direction": "uplink"},
    files=[LogFile("mobile/tcp-0.pcap", "mobile", 3, "00" * 32)],
    more={"notes": ["tunnel entrance"]},
)


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    write_manifest(tmp_path, WHOLE)
    assert read_manifest(tmp_path) == WHOLE
    assert [path.name for path in tmp_path.iterdir()] == [MANIFEST]


def test_no_manifest_is_none(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None


def test_an_empty_object_is_named_after_its_folder(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text("{}")
    assert read_manifest(tmp_path) == Manifest(tmp_path.name)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        '{"name": 7}',
        '{"created_ns": true}',
        '{"hosts": ["mobile"]}',
        '{"hosts": {"mobile": 1}}',
        '{"files": [{"path": "a"}]}',
        '{"files": [{"path": 1, "host": "a"}]}',
        '{"collectors": [[]]}',
        '{"created_ns": NaN}',
        '{"variables": {"speed": Infinity}}',
        "[" * 100_000,
        '{"created_ns": ' + "9" * 5000 + "}",
        "\ufeff\ud800",
    ],
)
def test_another_shape_is_one_error(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(FormatError, match=MANIFEST):
        read_manifest(tmp_path)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_KEYS = ("name", "created_ns", "hosts", "collectors", "variables", "files", "x")


@given(document=st.dictionaries(st.sampled_from(_KEYS), _JSON))
def test_any_json_object_is_a_manifest_or_one_error(
    document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("session")
    (folder / MANIFEST).write_text(json.dumps(document))
    try:
        manifest = read_manifest(folder)
    except FormatError:
        return
    assert manifest is not None
    write_manifest(folder, manifest)
    assert read_manifest(folder) == manifest


def test_a_giant_is_refused_without_reading_it_whole(tmp_path: Path) -> None:
    with (tmp_path / MANIFEST).open("wb") as stream:
        stream.truncate(MAX_BYTES + 1)
    with pytest.raises(FormatError, match="longer than 16 MiB"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "mobile/../../x", "a\0b"])
def test_a_path_out_of_the_folder_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(InputError, match="leads out of the folder"):
        inside(tmp_path, path)


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "session"
    folder.mkdir()
    (tmp_path / "secret").write_text("x")
    (folder / "log").symlink_to(tmp_path / "secret")
    (folder / "host").symlink_to(tmp_path)
    for path in ("log", "host/secret"):
        with pytest.raises(InputError, match="link out of the folder"):
            inside(folder, path)


def test_changed_logs_are_named(tmp_path: Path) -> None:
    for name, content in (("same", b"abc"), ("other", b"abd"), ("longer", b"abcd")):
        (tmp_path / name).write_bytes(content)
    sha256 = checksum(tmp_path / "same")
    names = ("same", "other", "longer", "gone", "../out")
    manifest = Manifest("drive", files=[LogFile(name, "mobile", 3, sha256) for name in names])
    sentences = list(changed_files(tmp_path, manifest))
    assert [s.removeprefix(f"{tmp_path}/") for s in sentences[:3]] == [
        "other: its content is not what was recorded (SHA-256 differs)",
        "longer: 4 bytes, 3 when it was recorded",
        "gone: listed in the manifest, but not there",
    ]
    assert "leads out of the folder" in sentences[3]
    assert len(sentences) == 4
