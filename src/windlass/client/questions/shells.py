"""Opening shells, and asking for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from windlass.client.calls import users_call
from windlass.client.pages import Listing
from windlass.client.questions.asker import Asker
from windlass.model.records import TrialKind

if TYPE_CHECKING:
    from windlass.client.experiments import Experiment
    from windlass.client.shells import Shell
    from windlass.client.trials import Trial


class ShellQuestions(Asker):
    """Shells: opened, found, listed."""

    @users_call("wl.open_shell")
    def open_shell(
        self,
        command: Sequence[str] | str | None = None,
        *,
        trial: Trial[Any] | int | None = None,
        experiment: Experiment | int | str | None = None,
        code: bool = False,
        role: str | None = None,
        cpus: float | None = None,
        memory: str | int | None = None,
        accelerator: str | None = None,
        env: Mapping[str, str] | None = None,
        secrets: Sequence[str] | Mapping[str, str] | None = None,
        timeout: str | float | None = None,
        name: str | None = None,
        terminal: bool = True,
    ) -> Shell:
        """Open a shell on the server's machine, in a trial's code and environment; at once.

        ```python
        shell = wl.open_shell(["/bin/sh"], timeout="1h")
        shell.send("pwd; exit\\n")
        print(shell.wait().exit_code)
        ```

        `shell.attach()` sits at it. It has a fresh copy of the code, the trial's interpreter,
        packages, variables and volumes. Without a trial it begins in an empty folder. It is in no
        list of trials, and no part of an experiment's state: see `wl.list_shells`.

        Args:
            command: what runs in it (`$SHELL`): its words, or a text: a line for the shell.
            trial: the trial, or its id, in whose code and environment it is.
            experiment: the experiment, its id or name, in whose newest trial's code it is.
            code: whether it is in a snapshot of this project.
            role: of a trial with several: whose code and variables are meant (the first).
            cpus: CPUs to set aside for it. Nothing is by default, so that it never waits for room.
            memory: memory to set aside for it: `"4GB"`.
            accelerator: what it computes on: `"a100x2"`. It waits until they are free.
            env: variables for its environment.
            secrets: names of variables to take from here, or a mapping; never recorded.
            timeout: how long it may live: `"8h"`. Without, until it exits or is killed.
            name: what it is called.
            terminal: whether it has a terminal. Without, what is sent is its plain input.
        """
        from windlass.authoring.asides import Aside, draft_shell
        from windlass.client.attaching import size_here
        from windlass.client.session import Client
        from windlass.client.shells import Shell

        how = Aside(
            trial, experiment, code, role, cpus, memory, accelerator, env, secrets, timeout, name
        )
        client = Client.over(self.transport)
        draft = draft_shell(
            client, command, how, has_terminal=terminal, size=size_here(), where="wl.open_shell"
        )
        return Shell(self.transport, client.submit(draft).record)

    def get_shell(self, shell_id: int | str) -> Shell:
        """The shell with that id.

        ```python
        shell = wl.open_shell(["/bin/sh"])
        print(wl.get_shell(shell.id).kill().state)
        ```
        """
        from windlass.client.kinds import get_record
        from windlass.client.shells import Shell

        return Shell(self.transport, get_record(self.transport, shell_id, TrialKind.SHELL))

    def list_shells(
        self,
        *,
        state: str | list[str] | None = None,
        sort_by: str = "id",
        limit: int | None = None,
    ) -> Listing[Shell]:
        """The shells there were, lazily, a page at a time; `sort_by="-id"` is newest first.

        ```python
        for shell in wl.list_shells(state="RUNNING"):
            print(shell.id, shell.command)
        ```
        """
        from windlass.client.kinds import list_records
        from windlass.client.shells import Shell

        found = list_records(self.transport, TrialKind.SHELL, state, sort_by, limit)
        return found.each(lambda record: Shell(self.transport, record))
