"""Implements `windlass completion`, which prints the completion script for a shell."""

from __future__ import annotations

import os

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.root import cli

_SHELLS = ("bash", "zsh", "fish")
_INSTALL = {
    "bash": ("~/.bashrc", 'eval "$(windlass completion bash)"'),
    "zsh": ("~/.zshrc", 'eval "$(windlass completion zsh)"'),
    "fish": ("~/.config/fish/config.fish", "windlass completion fish | source"),
}


@click.command(
    short_help="Print the completion script for a shell.",
    epilog=examples(
        'eval "$(windlass completion bash)"',
        "windlass completion zsh",
    ),
)
@click.argument("shell", type=click.Choice(_SHELLS), required=False)
@click.pass_context
def command(ctx: click.Context, shell: str | None) -> None:
    """Print the completion script for a shell, by default for the current shell.

    The script's first lines explain how to install it.
    """
    from click.shell_completion import get_completion_class

    name = shell or os.path.basename(os.environ.get("SHELL", ""))
    if name not in _SHELLS:
        raise click.UsageError(f"Name a shell: {', '.join(_SHELLS)}.", ctx)
    script = get_completion_class(name)
    assert script is not None  # noqa: S101 -- click supports all three shells
    file, line = _INSTALL[name]
    first, rest = _split_compdef(script(cli, {}, "windlass", "_WINDLASS_COMPLETE").source())
    print(f"{first}# Add this line to {file}, then open a new shell:\n#   {line}\n{rest}", end="")


def _split_compdef(source: str) -> tuple[str, str]:
    """Split off the line `#compdef`, which must come first in a zsh completion script."""
    if not source.startswith("#compdef"):
        return "", source
    first, _, rest = source.partition("\n")
    return f"{first}\n", rest
