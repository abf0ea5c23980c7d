"""`multitracer completion`: the script that lets a shell complete commands and options."""

from __future__ import annotations

import click

from multitracer.cli._options import common_options, examples


@click.command(
    "completion",
    epilog=examples(
        "multitracer completion bash > ~/.local/share/bash-completion/completions/multitracer",
        "multitracer completion zsh > ~/.zfunc/_multitracer",
        "multitracer completion fish > ~/.config/fish/completions/multitracer.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@common_options
def command(shell: str) -> None:
    """Print a completion script for SHELL, which completes commands and options of multitracer."""
    from click.shell_completion import get_completion_class

    from multitracer.cli._program import COMPLETION_VARIABLE, cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "multitracer", COMPLETION_VARIABLE).source())
