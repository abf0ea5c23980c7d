"""The reference part of docs/cli.md, made from the commands; `python -m tests.cli.reference` writes it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import click

from multitracer.cli._program import cli

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
BEGIN = "<!-- reference: made by `python -m tests.cli.reference`; do not edit below -->"


def commands(group: click.Group = cli, name: str = "multitracer") -> Iterator[tuple[str, click.Command]]:
    """Yield every command with its full name, groups before their commands."""
    yield name, group
    context = click.Context(group, info_name=name)
    for each in group.list_commands(context):
        command = group.get_command(context, each)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} {each}")
        else:
            yield f"{name} {each}", command


def reference() -> str:
    """Return the help of every command as Markdown."""
    out = io.StringIO()
    for name, command in commands():
        context = click.Context(command, info_name=name, max_content_width=100, terminal_width=100)
        out.write(f"\n## {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return out.getvalue()


def main() -> None:
    """Write the reference into the page."""
    written, marker, _ = PAGE.read_text("utf-8").partition(BEGIN)
    assert marker, f"{PAGE} lacks the line {BEGIN}"
    PAGE.write_text(f"{written}{BEGIN}\n{reference()}", "utf-8")


if __name__ == "__main__":
    main()
