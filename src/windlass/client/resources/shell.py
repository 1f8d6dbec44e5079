"""Defines `wl.Shell`, an interactive session that outlives its clients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from windlass.client.arguments.timeouts import parse_timeout
from windlass.client.connection.shell_stream import Over, ShellInput, ShellStream, Shown
from windlass.client.resources.trial.trial import Trial
from windlass.model.errors import Conflict, InvalidArgument, shown
from windlass.model.job import ShellCall
from windlass.model.records import TrialRecord, TrialState
from windlass.model.text.terminal_screen import plain_text

if TYPE_CHECKING:
    from typing_extensions import Self

    from windlass.authoring.prepare.command_and_shell import CommandOptions
    from windlass.client.client import Client

_NOT_YET = (TrialState.QUEUED, TrialState.STARTING)


class Shell(Trial[None]):
    """A shell opened by `wl.open_shell`.

    A shell keeps running while no client is attached. It ends when it exits, is killed or times
    out.

    ```python
    shell = wl.open_shell(["/bin/sh"])
    shell.send("echo $((6 * 7))\\n")
    print(shell.read(until="42", timeout="1m"))
    shell.kill()
    ```
    """

    _keys: ShellInput | None = None
    _read_to: int = 0

    @property
    def command(self) -> list[str]:
        """The shell's command as a list of words.

        For the user's default shell, the list is empty.
        """
        call = self._record.spec.roles[0].executable
        return list(call.argv) if isinstance(call, ShellCall) else []

    def attach(self) -> int | None:
        """Connect this program's terminal to the shell until the shell exits. Return its exit code.

        Press Ctrl-] twice to detach. The call then returns None, and the shell continues. Several
        clients can be attached at the same time. All see the same output, and all can type.

        ```python
        code = shell.attach()
        ```
        """
        from windlass.client.terminal.attach_shell import attach

        code = attach(self._transport, self._record)
        self.refresh()
        return code

    def send(self, text: str | bytes) -> None:
        """Send input to the shell. End a line with `"\\\\n"`, and send `"\\\\x03"` for Ctrl-C.

        ```python
        shell = wl.open_shell(["/bin/sh"])
        shell.send("exit 3\\n")
        print(shell.wait().exit_code)
        ```
        """
        try:
            data = text.encode() if isinstance(text, str) else bytes(memoryview(text))
        except (TypeError, UnicodeEncodeError):
            raise InvalidArgument(
                f"{shown(text)} cannot be typed. Write a string or bytes."
            ) from None
        if self._keys is None:
            self._wait_until_it_runs()
            self._keys = ShellInput(self._transport, self.id)
        while data:
            taken = self._keys.send(data)
            if not taken:
                raise Conflict(
                    f"The program in shell {self.id} does not read its input.",
                    hint="Wait until it reads, or interrupt it: windlass shell attach "
                    f"{self.id}, then Ctrl-C",
                )
            data = data[taken:]

    def read(self, until: str | None = None, timeout: float | str | None = None) -> str:
        """Wait for output beyond what the last call returned. Return it as plain text.

        With `until`, this method reads until the output contains that text or the shell ends. If
        this takes longer than `timeout`, it raises `wl.WaitTimeout`, and the next call starts from
        the same output.

        ```python
        shell = wl.open_shell(["/bin/sh"])
        shell.send("uname\\n")
        print(shell.read(until="Linux", timeout="1m"))
        shell.kill()
        ```
        """
        shown, position = b"", self._read_to
        seconds = parse_timeout(timeout)
        for news in ShellStream(self._transport, self.id, position, timeout=seconds):
            if isinstance(news, Shown):
                shown, position = shown + news.data, news.position
                if until is None or until in plain_text(shown):
                    break
            elif isinstance(news, Over):
                self._replace(news.record)
        self._read_to = position
        return plain_text(shown)

    def output(self, *, follow: bool = False) -> Iterator[bytes]:
        """Yield the output as raw bytes, up to the last 16 MB.

        With `follow`, the iterator waits for new output until the shell ends.

        ```python
        shell = wl.open_shell(["/bin/echo", "hello"])
        print(b"".join(shell.output(follow=True)))
        ```
        """
        for news in ShellStream(self._transport, self.id, 0, follows=follow):
            if isinstance(news, Shown):
                yield news.data

    def resize(self, rows: int, columns: int) -> None:
        """Resize the shell's terminal. The programs in the shell get SIGWINCH."""
        self._keys = self._keys or ShellInput(self._transport, self.id)
        self._keys.resize(rows, columns)

    def kill(self, *, grace: float | str = 2.0) -> Self:
        """End all of the shell's processes with SIGHUP and, after `grace`, SIGKILL."""
        self.stop(grace=grace, reason="killed")
        return self.wait()

    def _wait_until_it_runs(self) -> None:
        for news in ShellStream(self._transport, self.id, self._read_to):
            if isinstance(news, Shown) or not (
                isinstance(news, TrialRecord) and news.state in _NOT_YET
            ):
                return


def open_shell(
    client: Client,
    command: Sequence[str] | str | None,
    options: CommandOptions,
    *,
    has_terminal: bool,
) -> Shell:
    """Submit a shell whose terminal has the same size as this program's terminal."""
    from windlass.authoring.prepare.command_and_shell import draft_shell
    from windlass.client.terminal.attach_shell import size_here

    draft = draft_shell(
        client, command, options,
        has_terminal=has_terminal, size=size_here(), where="wl.open_shell",
    )  # fmt: skip
    return Shell(client.transport, client.submit(draft).record)
