"""`windlass logs --search TEXT`: what many trials wrote."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.parameters import name_or_id

if TYPE_CHECKING:
    from windlass.cli.logs import Asked
    from windlass.client.logs import LogLine
    from windlass.client.session import Client


def search_many(
    client: Client, asked: Asked, experiment: str | None, where: str | None, *, counts: bool
) -> int:
    """Print the lines that match, each with its trial."""
    from windlass.cli.text import say, saying_doubts
    from windlass.client.log_pages import hits

    query: dict[str, Any] = {**asked.query, "where": where}
    if experiment is not None:
        query["experiment_id"] = client.get_experiment(name_or_id(experiment)).id
    if counts:
        return say_count(client, query)
    found = 0
    try:
        with saying_doubts():
            for lines in hits(client.transport, query, asked.head):
                found += len(lines)
                _print(lines, asked)
    except KeyboardInterrupt:
        return 130
    if not found:
        whose = f"No trial of {experiment}" if experiment else "No trial"
        whose += " that fulfils --where" if where else ""
        say(f"{whose} wrote anything like that.")
    return 0


def say_count(client: Client, query: dict[str, Any]) -> int:
    """Print how many lines match."""
    from windlass.cli.text import saying_doubts
    from windlass.client.log_pages import count

    try:
        with saying_doubts():
            found = count(client.transport, query)
    except KeyboardInterrupt:
        return 130
    click.echo(str(found))
    return 0


def _print(lines: list[LogLine], asked: Asked) -> None:
    from windlass.cli.log_lines import print_json_lines

    if asked.as_json:
        print_json_lines(lines, with_trial=True)
        return
    from windlass.client.interleaving import contained
    from windlass.client.taming import tame
    from windlass.client.view import is_terminal, write

    is_tamed = is_terminal(sys.stdout) and not asked.is_raw
    for line in lines:
        text: str = line
        if is_tamed:  # what it matched may have been drawn over since: all of it is shown
            text = tame(contained(line.replace("\r", "\\r")), asked.reach)
        write(sys.stdout, f"{_prefix(line, timestamps=asked.timestamps)} {text}\n")
    sys.stdout.flush()


def _prefix(line: LogLine, *, timestamps: bool) -> str:
    from windlass.cli.text import format_moment, paint

    name = f"{line.trial_id} {line.trial_name}"
    if line.role != "main" or line.replica_index:
        name += f" {line.role}-{line.replica_index}"
    if line.attempt > 1:
        name += f" attempt {line.attempt}"
    moment = f" {format_moment(line.time)}" if timestamps else ""
    return paint(f"{name}{moment} |", "cyan")
