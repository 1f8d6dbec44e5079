"""Defines `wl.CommandRun`, a command started by `wl.run_command`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from windlass.client.resources.trial.trial import Trial
from windlass.model.job import ProcessCall

if TYPE_CHECKING:
    from windlass.authoring.prepare.command_and_shell import CommandOptions
    from windlass.client.client import Client


class CommandRun(Trial[None]):
    """A command started by `wl.run_command`, with its output, state and exit code.

    It has all methods of a trial, but does not appear in lists of trials.

    ```python
    run = wl.run_command(["echo", "hello"]).wait()
    print(run.exit_code, run.output())
    ```
    """

    @property
    def command(self) -> list[str]:
        """The command as a list of words."""
        call = self._record.spec.roles[0].executable
        return list(call.argv) if isinstance(call, ProcessCall) else []

    def output(self) -> str:
        """Return the output so far, with stdout and stderr merged in the order of writing."""
        return "".join(f"{line}\n" for line in self.logs())


def run_command(
    client: Client, command: Sequence[str] | str, options: CommandOptions
) -> CommandRun:
    """Submit a command and return its `CommandRun`."""
    from windlass.authoring.prepare.command_and_shell import draft_command

    draft = draft_command(client, command, options, where="wl.run_command")
    return CommandRun(client.transport, client.submit(draft).record)
