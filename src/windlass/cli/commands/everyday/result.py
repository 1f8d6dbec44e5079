"""Implements `windlass result`, which prints a trial's return value."""

from __future__ import annotations

import math
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.parameters import TRIAL_ID, complete_files

if TYPE_CHECKING:
    from windlass.client.client import Client
    from windlass.model.errors import WindlassError
    from windlass.model.records import TrialRecord


@click.command(
    short_help="Print the return value of a trial.",
    epilog=examples(
        "windlass result 7",
        "windlass result 7 --wait --json",
        "windlass result 7 --out value.pickle",
    ),
)
@click.argument("trial_id", type=TRIAL_ID, metavar="ID")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON. `exact` is false if JSON cannot express the value.",
)
@click.option("--raw", is_flag=True, help="Write the pickled bytes to stdout.")
@click.option(
    "-o",
    "--out",
    metavar="FILE",
    shell_complete=complete_files,
    help="Write the pickled bytes (or with --json the JSON) to a file.",
)
@click.option("--wait", is_flag=True, help="Wait until the trial has ended.")
@click.pass_context
def command(
    ctx: click.Context, trial_id: int, as_json: bool, raw: bool, out: str | None, wait: bool
) -> int | None:
    """Print a trial's return value, or a failed trial's error."""
    from windlass.client.client import default_client

    if raw and as_json:
        raise click.UsageError("--raw and --json cannot be used together.", ctx)
    if raw and out is None and sys.stdout.isatty():
        raise click.UsageError(
            "--raw writes bytes that a terminal cannot show. Write them to a file: --out "
            "value.pkl, or > value.pkl", ctx
        )  # fmt: skip
    client = default_client()
    trial = client.get_trial(trial_id)
    if wait:
        trial.wait()
    _check_value(client, trial.record)
    if raw or (out is not None and not as_json):
        _write(_fetch(client, trial_id), out)
        return None
    _make_importable(trial.record)
    outcome = trial.outcome()
    if outcome.error is not None:
        raise outcome.error
    if as_json:
        _print_json(trial_id, outcome.value, out)
    else:
        _print_value(outcome.value)
    return None


def to_json(value: Any) -> tuple[Any, bool]:
    """Convert a value to JSON types. Return the result and whether the conversion is lossless.

    >>> to_json({"loss": [0.5, 0.25], "ok": True})
    ({'loss': [0.5, 0.25], 'ok': True}, True)
    >>> to_json({1: {2, 3}, "best": float("inf")})
    ({'1': '{2, 3}', 'best': 'inf'}, False)
    """
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value, True
    if isinstance(value, float):
        return (float(value), True) if math.isfinite(value) else (str(float(value)), False)
    if isinstance(value, dict):
        pairs = [(key, *to_json(item)) for key, item in value.items()]
        plain = {key if isinstance(key, str) else repr(key): item for key, item, _ in pairs}
        return plain, all(exact and isinstance(key, str) for key, _, exact in pairs)
    if isinstance(value, (list, tuple)):
        items = [to_json(item) for item in value]
        return [item for item, _ in items], all(exact for _, exact in items)
    if kind.__module__ == "numpy" and hasattr(value, "tolist"):
        return to_json(value.tolist())[0], False
    return repr(value), False


def _check_value(client: Client, record: TrialRecord) -> None:
    """Raise an error if the trial has no return value."""
    from windlass.model.errors import Conflict, NotFound
    from windlass.model.job import ExternalCall, FunctionCall, ProcessCall, ShellCall
    from windlass.model.records import TrialState

    who = f"Trial {record.id} ({record.name})"
    if not record.state.is_final:
        raise Conflict(
            f"{who} has no return value yet: it is {record.state.value.lower()}.",
            hint=f"Wait for it: windlass result {record.id} --wait",
        )
    if record.state is not TrialState.SUCCEEDED:
        raise _failure(client, record)
    executable = record.spec.roles[0].executable
    if not isinstance(executable, FunctionCall):
        kinds = {
            ProcessCall: "command",
            ShellCall: "shell",
            ExternalCall: "process that Windlass did not start",
        }
        what = kinds.get(type(executable), "generator")
        # The output of an interactive terminal is not recorded.
        way = (
            "See its record: windlass show"
            if what.startswith("process")
            else "See its output: windlass logs"
        )
        raise NotFound(
            f"{who} has no return value: it is a {what}, not a function.",
            hint=f"{way} {record.id}",
        )


def _failure(client: Client, record: TrialRecord) -> WindlassError:
    """Return a failed trial's error, with its function's traceback as text."""
    from windlass.cli.options.python_to_options import as_submitted
    from windlass.cli.output.error_text import describe_error
    from windlass.cli.output.text import clean_lines
    from windlass.client.resources.trial.failure_tips import last_lines
    from windlass.client.resources.trial.outcome import tail_of, trial_error
    from windlass.model.errors import TrialFailed

    error = record.error
    if error is None or record.reason in ("Stopped", "DeadlineExceeded"):
        cause = record.cause
        lines = cause.lines if cause else tail_of(client.get_trial(record.id))
        tail = last_lines(lines, len(lines))
        return trial_error(record, [clean_lines(line) for line in tail])
    description = describe_error(record, error, as_submitted)
    return TrialFailed(f"Trial {record.id} ({record.name}) failed:", hint=description)


def _fetch(client: Client, trial_id: int) -> bytes:
    from windlass.client.connection.transport import request_path

    return client.transport.fetch("GET", request_path("trials", trial_id, "result"))


def _make_importable(record: TrialRecord) -> None:
    """Add the project's folders to sys.path.

    This lets return values contain instances of the project's classes.
    """
    code = record.spec.code
    folders = [os.path.join(code.root, path) for path in code.import_paths]
    for folder in [*folders, *record.spec.python.extra_paths, os.getcwd()]:
        if os.path.isdir(folder) and folder not in sys.path:
            sys.path.append(folder)


def _print_value(value: Any) -> None:
    import pprint
    import shutil

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 100
    print(pprint.pformat(value, width=width, sort_dicts=False))


def _print_json(trial_id: int, value: Any, out: str | None) -> None:
    import json

    plain, exact = to_json(value)
    answer = {"id": trial_id, "value": plain, "exact": exact}
    text = json.dumps(answer, indent=2, ensure_ascii=False) + "\n"
    if out is None:
        sys.stdout.write(text)
    else:
        _write(text.encode("utf-8", "backslashreplace"), out)


def _write(data: bytes, out: str | None) -> None:
    from windlass.model.errors import WindlassError

    if out is None:
        sys.stdout.buffer.write(data)
        return
    try:
        with open(out, "wb") as file:
            file.write(data)
    except OSError as error:
        raise WindlassError(f"{out} cannot be written: {error.strerror}.") from error
