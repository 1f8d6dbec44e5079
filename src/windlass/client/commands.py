"""Commands as users hold them: a process beside the trials, its output and its exit code."""

from __future__ import annotations

from typing import Any

from windlass.client.trials import Trial
from windlass.model.job import ProcessCall
from windlass.model.records import TrialRecord


class CommandRun(Trial[None]):
    """A command that was run with `wl.run_command`: its output, its state, its exit code.

    All that a trial can do it can do, too; it is in no list of trials.

    ```python
    run = wl.run_command(["echo", "hello"]).wait()
    print(run.exit_code, run.output())
    ```
    """

    @property
    def command(self) -> list[str]:
        """Its words."""
        call = self._record.spec.roles[0].executable
        return list(call.argv) if isinstance(call, ProcessCall) else []

    def output(self) -> str:
        """What it has written so far, stdout and stderr as they came."""
        return "".join(f"{line}\n" for line in self.logs())

    def wait(self, timeout: float | str | None = None) -> CommandRun:
        """Wait until it has ended. `wl.WaitTimeout` if that takes longer than `timeout`."""
        super().wait(timeout)
        return self

    def stop(
        self, *, grace: float | str = 10.0, reason: str = "", force: bool = False
    ) -> CommandRun:
        """Ask it to stop: its processes get SIGTERM, and SIGKILL after `grace`."""
        super().stop(grace=grace, reason=reason, force=force)
        return self

    def refresh(self) -> CommandRun:
        """Ask the server how it stands now."""
        super().refresh()
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _revive, (self._record,)

    def __repr__(self) -> str:
        return super().__repr__().replace("<Trial", "<CommandRun", 1)


def _revive(record: TrialRecord) -> CommandRun:
    from windlass.client.session import default_client

    return CommandRun(default_client().transport, record)
