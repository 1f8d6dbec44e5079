"""Implements `windlass logs --search TEXT`, which searches the logs of many trials."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options.parameters import name_or_id

if TYPE_CHECKING:
    from windlass.cli.commands.everyday.logs import LogQuery
    from windlass.client.client import Client
    from windlass.client.resources.trial.logs.lines import LogLine


def search_many(
    client: Client, log_query: LogQuery, experiment: str | None, where: str | None, *, counts: bool
) -> int:
    """Print the log lines of many trials that match a search, each prefixed with its trial."""
    from windlass.cli.output.text import print_message, warnings_as_messages
    from windlass.client.resources.trial.logs.pages import hits

    query: dict[str, Any] = {**log_query.query, "where": where}
    if experiment is not None:
        query["experiment_id"] = client.get_experiment(name_or_id(experiment)).id
    if counts:
        return print_count(client, query)
    number = 0
    try:
        with warnings_as_messages():
            for lines in hits(client.transport, query, log_query.head):
                number += len(lines)
                _print(lines, log_query)
    except KeyboardInterrupt:
        return 130
    if not number:
        whose = f"No trial of {experiment}" if experiment else "No trial"
        whose += " that matches --where" if where else ""
        print_message(f"{whose} wrote a matching line.")
    return 0


def print_count(client: Client, query: dict[str, Any]) -> int:
    """Print the number of log lines that match a search."""
    from windlass.cli.output.text import warnings_as_messages
    from windlass.client.resources.trial.logs.pages import count

    try:
        with warnings_as_messages():
            number = count(client.transport, query)
    except KeyboardInterrupt:
        return 130
    click.echo(str(number))
    return 0


def _print(lines: list[LogLine], log_query: LogQuery) -> None:
    from windlass.cli.output.log_lines import print_json_lines

    if log_query.as_json:
        print_json_lines(lines, with_trial=True)
        return
    from windlass.client.terminal.interleave import contained
    from windlass.client.terminal.sanitize import tame
    from windlass.client.terminal.screen import is_terminal, write

    is_tamed = is_terminal(sys.stdout) and not log_query.is_raw
    for line in lines:
        text: str = line
        if is_tamed:  # show the whole line, because a carriage return may hide the match
            text = tame(contained(line.replace("\r", "\\r")), log_query.reach)
        write(sys.stdout, f"{_prefix(line, timestamps=log_query.timestamps)} {text}\n")
    sys.stdout.flush()


def _prefix(line: LogLine, *, timestamps: bool) -> str:
    from windlass.cli.output.text import format_moment, paint

    name = f"{line.trial_id} {line.trial_name}"
    if line.role != "main" or line.replica_index:
        name += f" {line.role}-{line.replica_index}"
    if line.attempt > 1:
        name += f" attempt {line.attempt}"
    moment = f" {format_moment(line.time)}" if timestamps else ""
    return paint(f"{name}{moment} |", "cyan")
