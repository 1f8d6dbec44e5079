"""Running commands, and asking for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from windlass.client.calls import users_call
from windlass.client.pages import Listing
from windlass.client.questions.asker import Asker
from windlass.model.records import TrialKind

if TYPE_CHECKING:
    from windlass.client.commands import CommandRun
    from windlass.client.experiments import Experiment
    from windlass.client.trials import Trial


class CommandQuestions(Asker):
    """Commands: run, found, listed."""

    @users_call("wl.run_command")
    def run_command(
        self,
        command: Sequence[str] | str,
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
        wait: bool = False,
    ) -> CommandRun:
        """Run a command on the server's machine, beside the trials; it returns at once.

        ```python
        run = wl.run_command(["uname", "-s"], wait=True)
        print(run.exit_code, run.output())
        ```

        It runs in an empty folder, unless it is told whose code to run in. It is recorded like a
        trial, with its log and its exit code, and is in no list of trials and no part of an
        experiment's state: see `wl.list_commands`.

        Args:
            command: its words, or a text: a line for the shell.
            trial: the trial, or its id, in whose code and environment it runs: a fresh copy.
            experiment: the experiment, its id or name, in whose newest trial's code it runs.
            code: whether it runs in a snapshot of this project.
            role: of a trial with several: whose code and variables are meant (the first).
            cpus: CPUs to set aside for it. Nothing is by default, so that it never waits for room.
            memory: memory to set aside for it: `"4GB"`.
            accelerator: what it computes on: `"a100x2"`. It waits until they are free.
            env: variables for its environment.
            secrets: names of variables to take from here, or a mapping; never recorded.
            timeout: how long it may run: `"10m"`.
            name: what it is called (the program).
            wait: whether to return when it has ended. It raises nothing then: see `exit_code`.
        """
        from windlass.authoring.asides import Aside, draft_command
        from windlass.client.commands import CommandRun
        from windlass.client.session import Client

        how = Aside(
            trial, experiment, code, role, cpus, memory, accelerator, env, secrets, timeout, name
        )
        client = Client.over(self.transport)
        draft = draft_command(client, command, how, where="wl.run_command")
        run = CommandRun(self.transport, client.submit(draft).record)
        return run.wait() if wait else run

    def get_command(self, command_id: int | str) -> CommandRun:
        """The command with that id.

        ```python
        run = wl.run_command(["true"])
        print(wl.get_command(run.id).wait().exit_code)
        ```
        """
        from windlass.client.commands import CommandRun
        from windlass.client.kinds import get_record

        record = get_record(self.transport, command_id, TrialKind.COMMAND)
        return CommandRun(self.transport, record)

    def list_commands(
        self,
        *,
        state: str | list[str] | None = None,
        sort_by: str = "id",
        limit: int | None = None,
    ) -> Listing[CommandRun]:
        """The commands there were, lazily, a page at a time; `sort_by="-id"` is newest first.

        ```python
        for run in wl.list_commands(state="RUNNING"):
            run.stop()
        ```
        """
        from windlass.client.commands import CommandRun
        from windlass.client.kinds import list_records

        found = list_records(self.transport, TrialKind.COMMAND, state, sort_by, limit)
        return found.each(lambda record: CommandRun(self.transport, record))
