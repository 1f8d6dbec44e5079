"""The entry point of the `windlass` command, which prints errors and sets the exit code.

The exit code is 0 for success, 1 for a failure, 2 for an invalid command line, and 130 after
Ctrl-C. `windlass run` uses the program's exit code instead.
"""

from __future__ import annotations

import os
import sys

_INTERRUPTED = 130
_BROKEN_PIPE = 141  # the exit code of a program that SIGPIPE ended
_COMPLETE = "_WINDLASS_COMPLETE"  # set by a shell's completion script


def main() -> None:
    """Run the `windlass` command and exit with its exit code."""
    try:
        code = _run()
    except KeyboardInterrupt:
        code = _INTERRUPTED
    sys.exit(code)


def _run() -> int:
    _prepare()
    try:
        code = _invoke()
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_stdout()
        return _BROKEN_PIPE
    except OSError as error:
        if error.filename is not None or not _is_about_output(error):
            raise
        _silence_stdout()
        sys.stderr.write(f"Error: The output cannot be written: {error.strerror}.\n")
        return 1
    return code


def _invoke() -> int:
    """Run the requested command and print its errors."""
    import click

    from windlass.cli.root import cli

    if instruction := os.environ.get(_COMPLETE):
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "windlass", _COMPLETE, instruction)
    try:
        with cli.make_context("windlass", sys.argv[1:]) as ctx:
            code = cli.invoke(ctx)
        _note_copied_home()
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.Abort:  # the user pressed Ctrl-C or Ctrl-D at a prompt
        return _INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except Exception as error:  # Windlass errors are printed; their class is imported late
        from windlass.model.errors import WindlassError

        if not isinstance(error, WindlassError):
            raise
        from windlass.cli.output.text import print_error

        print_error(str(error))
        return 1
    return code if isinstance(code, int) else 0


def _note_copied_home() -> None:
    """Print a note if the command used a home that is a copy of another."""
    discovery = sys.modules.get("windlass.client.connection.discovery")
    if discovery is None or os.environ.get("WINDLASS_SERVER"):
        return  # the command used no home
    from windlass.home import Home

    home = Home.find()
    described = discovery.describe_server(home)
    if described is None or not described.get("copy_of"):
        return
    from windlass.cli.output.text import print_message
    from windlass.model.copied_home import describe_copy

    print_message("\n".join(describe_copy(str(home.path), described["copy_of"])))


def _prepare() -> None:
    """Make output and imports independent of how the command was started."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # the stream was closed before the start
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 -- open until the end
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    # Python puts the folder of the `windlass` script first, but that folder has no user code.
    folder = os.path.dirname(os.path.realpath(sys.argv[0]))
    if sys.path and os.path.realpath(sys.path[0] or ".") == folder:
        del sys.path[0]


def _is_about_output(error: OSError) -> bool:
    import errno

    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF)


def _silence_stdout() -> None:
    """Redirect stdout to /dev/null, so that flushing its buffer does not fail a second time."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
