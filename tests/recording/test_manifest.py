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
    Host,
    LogFile,
    Manifest,
    Measurement,
    Role,
    Variables,
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
    hosts={
        "mobile": Host(Role.SENDER, "Linux 6.18", addresses=["10.0.0.1"], more={"device": "wwan0"}),
        "fixed": Host(),
    },
    collectors=[CollectorRun("tcpdump", "mobile", ["tcpdump", "-i", "wwan0"], outcome="ended")],
    variables=Variables(speed=1.5, direction="uplink", more={"location": "tunnel"}),
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


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ('{"name": 7}', "the manifest has name = '7', but its type must be str"),
        ('{"created_ns": true}', "the manifest has created_ns = 'True', but its type must be int"),
        ('{"hosts": ["mobile"]}', "the manifest has hosts = \"['mobile']\", but its type must be dict"),
        ('{"hosts": {"mobile": 1}}', "host 'mobile' must be a JSON object, but is int"),
        (
            '{"hosts": {"mobile": {"role": "boss"}}}',
            "host 'mobile' has role = 'boss', but the role must be one of mobile, fixed, sender",
        ),
        (
            '{"hosts": {"mobile": {"addresses": [1]}}}',
            "host 'mobile' has addresses = '[1]', but its type must be list[str]",
        ),
        ('{"files": [{"path": "a"}]}', "an entry of files lacks a required key (its keys are \"['path']\")"),
        ('{"files": [{"path": 1, "host": "a"}]}', "an entry of files has path = '1', but its type must be str"),
        ('{"collectors": [[]]}', "an entry of collectors must be a JSON object, but is list"),
        ('{"variables": {"speed": "fast"}}', "variables has speed = 'fast', but its type must be float"),
        ('{"variables": {"measurement": {"over": 3}}}', "the measurement has over = '3', but its type must be str"),
    ],
)
def test_a_key_of_the_wrong_type_is_a_warning_and_the_rest_is_read(tmp_path: Path, text: str, warning: str) -> None:
    document = json.loads(text) | {"notes": "tunnel entrance"}
    (tmp_path / MANIFEST).write_text(json.dumps(document))
    manifest = read_manifest(tmp_path)
    assert manifest is not None
    assert manifest.warnings[0].startswith(f"{tmp_path / MANIFEST}: {warning}")
    assert manifest.more["notes"] == "tunnel entrance"


def test_what_is_not_used_is_written_back(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text('{"variables": {"speed": "fast", "mood": 1}, "hosts": {"a": {"role": "x"}}}')
    manifest = read_manifest(tmp_path)
    assert manifest is not None
    assert manifest.variables.speed is None
    write_manifest(tmp_path, manifest)
    document = json.loads((tmp_path / MANIFEST).read_text())
    assert document["variables"] == {"speed": "fast", "mood": 1}
    assert document["hosts"] == {"a": {"role": "x"}}


def test_old_manifests_are_read(tmp_path: Path) -> None:
    """As 0.1 wrote them: a role in words, a link in the server's name, extensions as a bit mask."""
    old = {
        "hosts": {"mobile": {"role": "client of a measurement"}, "fixed": {"role": "server of a measurement"}},
        "variables": {"measurement": {"protocol": "tcp", "server": "over cdpd", "timeout_s": 9}, "extensions": 0},
    }
    (tmp_path / MANIFEST).write_text(json.dumps(old))
    manifest = read_manifest(tmp_path)
    assert manifest is not None
    assert manifest.warnings == []
    assert [host.role for host in manifest.hosts.values()] == [Role.CLIENT, Role.SERVER]
    assert manifest.variables.measurement == Measurement("tcp", None, "cdpd", {"timeout_s": 9})
    assert manifest.variables.extensions == []


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
        with pytest.raises(InputError, match="link that leads out of the folder"):
            inside(folder, path)


def test_changed_logs_are_named(tmp_path: Path) -> None:
    for name, content in (("same", b"abc"), ("other", b"abd"), ("longer", b"abcd")):
        (tmp_path / name).write_bytes(content)
    sha256 = checksum(tmp_path / "same")
    names = ("same", "other", "longer", "gone", "../out")
    manifest = Manifest("drive", files=[LogFile(name, "mobile", 3, sha256) for name in names])
    sentences = list(changed_files(tmp_path, manifest))
    assert [s.removeprefix(f"{tmp_path}/") for s in sentences[:3]] == [
        "other: the content has changed since the recording (SHA-256 differs)",
        "longer: 4 bytes now, but 3 bytes were recorded",
        "gone: listed in the manifest, but missing",
    ]
    assert "leads out of the folder" in sentences[3]
    assert len(sentences) == 4
