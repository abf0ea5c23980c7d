"""The files of the hosting service: what they call is there, and nothing of others can change under them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import multitracer

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def jobs(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))["jobs"]
    return found


def test_there_are_workflows_for_changes_and_for_releases() -> None:
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "release.yml"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_each_job_calls_targets_of_the_makefile(path: Path) -> None:
    for name, job in jobs(path).items():
        words = "\n".join(step.get("run", "") for step in job["steps"])
        targets = job.get("strategy", {}).get("matrix", {}).get("target", [])
        words = words.replace("${{ matrix.target }}", " ".join(targets))
        called = set(re.findall(r"\bmake ([a-z ]+)", words))
        assert called, f"{name} calls no target"
        assert {word for each in called for word in each.split()} <= TARGETS, name


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_of_others_are_pinned_by_their_hash(path: Path) -> None:
    used = re.findall(r"uses: *(.*)", path.read_text("utf-8"))
    assert used
    for each in used:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", each), each


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_job_may_only_read_unless_it_says_more_and_ends_at_some_time(path: Path) -> None:
    assert yaml.safe_load(path.read_text("utf-8"))["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] <= 90 for job in jobs(path).values())


def test_each_python_from_the_oldest_on_is_tried_with_the_kernel_and_without() -> None:
    matrix = jobs(ROOT / ".github" / "workflows" / "ci.yml")["test"]["strategy"]["matrix"]
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert oldest == f">={matrix['python'][0]}"
    minors = [int(each.split(".")[1]) for each in matrix["python"]]
    assert minors == list(range(minors[0], minors[-1] + 1))
    assert set(matrix["native"]) == {"0", "1"}


def test_the_lowest_versions_and_known_faults_are_looked_at_each_week_too() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
    assert workflow["jobs"]["dependencies"]["strategy"]["matrix"]["target"] == ["oldest", "audit"]
    assert workflow[True]["schedule"]  # YAML 1.1 reads `on` as true


def test_the_container_for_developers_is_a_stage_of_the_image_and_calls_a_target() -> None:
    about = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8"))
    assert ROOT / ".devcontainer" / about["build"]["dockerfile"] == ROOT / ".devcontainer" / ".." / "Containerfile"
    assert f" AS {about['build']['target']}\n" in (ROOT / "Containerfile").read_text("utf-8")
    make, target = about["postCreateCommand"].split()
    assert make == "make"
    assert target in TARGETS


def test_what_the_page_of_the_container_shows_is_what_make_image_tries() -> None:
    """Of each command the options; folders and the interface are others."""
    page = (ROOT / "docs" / "container.md").read_text("utf-8")
    tried = (ROOT / ".ci" / "image").read_text("utf-8")
    commands = [shlex.split(line) for line in page.splitlines() if line.startswith("podman run ")]
    assert [command[command.index("multitracer") + 1] for command in commands] == ["report", "capture"]
    options = {word for command in commands for word in command if word.startswith("--")} | {"NET_RAW"}
    assert [option for option in options if option not in tried] == []


def test_arguments_of_the_image_on_its_page_are_those_of_the_file() -> None:
    page = (ROOT / "docs" / "container.md").read_text("utf-8")
    named = set(re.findall(r"^\| `([A-Z]+)=", page, re.MULTILINE))
    assert named == set(re.findall(r"^ARG ([A-Z]+)", (ROOT / "Containerfile").read_text("utf-8"), re.MULTILINE))


def test_the_tests_of_buckets_may_not_be_skipped_for_want_of_a_server(tmp_path: Path) -> None:
    """Where nothing prints the path of a server, the step before `make` fails."""
    steps = jobs(ROOT / ".github" / "workflows" / "ci.yml")["services"]["steps"]
    runs = [step["run"] for step in steps if "run" in step]
    assert runs[-1] == "make ${{ matrix.target }}"
    script = tmp_path / ".ci" / "s3-server"
    script.parent.mkdir()
    for printed, status in ((script, 0), ("", 1)):
        script.write_text(f"#!/bin/sh\necho {printed}\n")
        script.chmod(0o755)
        assert subprocess.run(["sh", "-ec", runs[-2]], cwd=tmp_path, check=False).returncode == status


def test_a_release_has_a_wheel_for_each_system_and_says_where_it_was_built() -> None:
    built = jobs(ROOT / ".github" / "workflows" / "release.yml")
    made = {(row["runner"].split("-")[0], row["target"]) for row in built["wheels"]["strategy"]["matrix"]["include"]}
    linux = {f"{machine}-unknown-linux-{libc}" for machine in ("x86_64", "aarch64") for libc in ("gnu.2.17", "musl")}
    assert made == {("ubuntu", target) for target in linux} | {("macos", "")}
    assert any("attest-build-provenance@" in step.get("uses", "") for step in built["release"]["steps"])
    assert built["release"]["permissions"]["attestations"] == "write"


@pytest.mark.parametrize(("tag", "status"), [(f"v{multitracer.__version__}", 0), ("v0.0.9", 1), ("v", 1)])
def test_a_tag_that_is_not_the_version_makes_no_release(tag: str, status: int) -> None:
    release = jobs(ROOT / ".github" / "workflows" / "release.yml")
    assert release["release"]["needs"] == "wheels"
    (step,) = (each["run"] for each in release["wheels"]["steps"] if "$GITHUB_REF_NAME" in each.get("run", ""))
    environment = {**os.environ, "GITHUB_REF_NAME": tag}
    done = subprocess.run(["sh", "-ec", step], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert (f"The tag is {tag}, but __version__" in done.stderr) == bool(status)


FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_has_fields_of_known_kinds_with_names_of_their_own(path: Path) -> None:
    form = yaml.safe_load(path.read_text("utf-8"))
    assert form["name"]
    assert form["description"]
    fields = [each for each in form["body"] if each["type"] != "markdown"]
    assert {each["type"] for each in fields} <= {"textarea", "input", "dropdown", "checkboxes"}
    assert all(each["attributes"]["label"] for each in fields)
    assert len({each["id"] for each in fields}) == len(fields)


def test_who_reports_a_wrong_answer_is_asked_for_an_anonymised_session() -> None:
    form = (ROOT / ".github" / "ISSUE_TEMPLATE" / "wrong_answer.yml").read_text("utf-8")
    for command in ("multitracer export session --anonymize", "multitracer inspect --json", "multitracer --version -v"):
        assert command in form
