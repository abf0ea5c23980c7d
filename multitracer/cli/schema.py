"""`multitracer schema`: the JSON schemas of what the commands write with --json."""

from __future__ import annotations

from pathlib import Path

import click

from multitracer.cli._options import common_options, examples

_ENDING = ".schema.json"


def folder() -> Path:
    """Return the folder of the schemas: in the installed package, or docs/schemas of a source tree."""
    package = Path(__file__).parents[1]
    installed = package / "schemas" / "documents"
    return installed if installed.is_dir() else package.parent / "docs" / "schemas"


@click.command("schema", epilog=examples("multitracer schema", "multitracer schema diagnose"))
@click.argument("command_name", metavar="[COMMAND]", required=False)
@common_options
def command(command_name: str | None) -> None:
    """Print the JSON schema of what COMMAND writes with --json; without COMMAND, list the commands.

    A schema has a version in its $id, which the documents repeat in the key `schema`. Later versions of the same number
    may add keys; they do not remove or redefine any. Of `campaign query`, COMMAND is campaign-query; of `analyze` of
    transactions, it is transactions.
    """
    known = sorted(path.name.removesuffix(_ENDING) for path in folder().glob(f"*{_ENDING}"))
    if command_name is None:
        click.echo("\n".join(known))
        return
    if command_name not in known:
        raise click.BadParameter(
            f"{command_name!r} has no schema; the schemas are {', '.join(known)}", param_hint="'COMMAND'"
        )
    click.echo((folder() / f"{command_name}{_ENDING}").read_text("utf-8"), nl=False)
