"""Implements `windlass logs`, which prints or follows a trial's output."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.parameters import (
    TRIAL_ID,
    WholeNumber,
    complete_role_names,
    experiment_option,
)

if TYPE_CHECKING:
    from windlass.client.client import Client
    from windlass.client.resources.trial.trial import Trial
    from windlass.client.terminal.sanitize import Reach
    from windlass.model.logs import LogPart
    from windlass.model.records import TrialRecord

Pages = Iterator[Sequence["LogPart"]]
ShowStatus = Callable[["TrialRecord"], None]


@click.command(
    short_help="Print or search the output of trials.",
    epilog=examples(
        "windlass logs 7 --follow",
        "windlass logs 7 --tail 20 --stderr",
        "windlass logs 7 --role worker --index 0 --since 10m",
        "windlass logs --search nan --experiment rates",
    ),
)
@click.argument("trial_id", type=TRIAL_ID, metavar="[ID]", required=False)
@click.option("-f", "--follow", is_flag=True, help="Print new lines until the trial ends.")
@click.option(
    "-n", "--tail", type=WholeNumber(0, 1_000_000), metavar="N", help="Print the last N lines only."
)
@click.option("--head", type=WholeNumber(0), metavar="N", help="Print the first N lines only.")
@click.option("--search", metavar="TEXT", help="Print lines that contain TEXT.")
@click.option("--regex", is_flag=True, help="Treat TEXT as a regular expression.")
@click.option("-c", "--count", is_flag=True, help="Print the number of matching lines only.")
@experiment_option("Search the trials of an experiment (name or id).")
@click.option(
    "--where",
    metavar="EXPRESSION",
    help='Search trials that match: "hparams.lr < 0.1".',
)
@click.option(
    "--role", metavar="NAME", shell_complete=complete_role_names, help="Replicas of a role."
)
@click.option("--index", type=WholeNumber(min=0), metavar="N", help="Replica N of each role.")
@click.option("--attempt", type=WholeNumber(min=1), metavar="N", help="Attempt N of each replica.")
@click.option("--since", metavar="TIME", help="Lines since then: 10m (ago), '2026-11-16 09:30'.")
@click.option("--until", metavar="TIME", help="Lines until then.")
@click.option("--stdout", "only_stdout", is_flag=True, help="Lines of stdout only.")
@click.option("--stderr", "only_stderr", is_flag=True, help="Lines of stderr only.")
@click.option("-t", "--timestamps", is_flag=True, help="Print the time of each line.")
@click.option("--raw", is_flag=True, help="Keep all terminal escape sequences.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@click.pass_context
def command(
    ctx: click.Context,
    trial_id: int | None,
    follow: bool,
    tail: int | None,
    head: int | None,
    search: str | None,
    regex: bool,
    count: bool,
    experiment: str | None,
    where: str | None,
    role: str | None,
    index: int | None,
    attempt: int | None,
    since: str | None,
    until: str | None,
    only_stdout: bool,
    only_stderr: bool,
    timestamps: bool,
    raw: bool,
    as_json: bool,
) -> int | None:
    """Print a trial's output: its stdout to stdout, and its stderr to stderr.

    With several replicas, each line starts with the replica's name. Without an ID, --search
    searches all trials, and each line starts with its trial's id. In a terminal, colours and
    progress bars work. Other escape sequences appear as text, except with --raw.
    """
    from windlass.client.client import default_client
    from windlass.client.resources.trial.logs.pages import check_ends, filters

    if count and search is None:
        raise click.UsageError("--count needs --search.", ctx)
    stream = None
    if only_stdout != only_stderr:
        stream = "stdout" if only_stdout else "stderr"
    check_ends(head, tail)
    query = filters(
        search=search, regex=regex, stream=stream, role=role, index=index, attempt=attempt,
        since=since, until=until,
    )  # fmt: skip
    log_query = LogQuery(query, follow, head, tail, timestamps, raw, as_json)
    client = default_client()
    if trial_id is None:
        from windlass.cli.commands.everyday.logs_search import search_many

        _check_many(ctx, log_query)
        return search_many(client, log_query, experiment, where, counts=count)
    for option, value in (("--experiment", experiment), ("--where", where)):
        if value is not None:
            raise click.UsageError(f"The ID already names the trial. Remove {option}.", ctx)
    trial = client.get_trial(trial_id)
    if count:
        from windlass.cli.commands.everyday.logs_search import print_count

        return print_count(client, {**query, "trials": trial_id})
    return _print_one(client, trial, log_query)


class LogQuery(NamedTuple):
    """The log filters and output options from the command line."""

    query: dict[str, Any]
    follows: bool
    head: int | None
    tail: int | None
    timestamps: bool
    is_raw: bool
    as_json: bool

    @property
    def reach(self) -> Reach:
        """The terminal control sequences in the log that are passed on to the terminal.

        Most are disabled by default, because the log may belong to another user.
        """
        from windlass.client.terminal.sanitize import Reach

        return Reach.ALL if self.is_raw else Reach.LINE


def _check_many(ctx: click.Context, log_query: LogQuery) -> None:
    """Raise an error unless the query is a search, the only kind that works on many trials."""
    if log_query.query["search"] is None:
        raise click.UsageError(
            "Name a trial: windlass logs 7. To search the logs of many trials: windlass "
            "logs --search TEXT",
            ctx,
        )
    if log_query.follows or log_query.tail is not None:
        option = "--follow" if log_query.follows else "--tail"
        raise click.UsageError(f"{option} works for one trial. Name it: windlass logs 7.", ctx)


def _print_one(client: Client, trial: Trial[Any], log_query: LogQuery) -> int | None:
    from windlass.client.resources.trial.logs import pages as log_pages
    from windlass.client.resources.trial.replica_names import is_generated

    query = log_query.query
    _check_replica(trial, query["role"], query["index"])
    if is_generated(trial.record):
        return _print_family(client, trial, log_query)

    def pages(show_status: ShowStatus | None = None) -> Pages:
        return log_pages.pages(
            client.transport, trial.id, query, head=log_query.head, tail=log_query.tail,
            follow=log_query.follows, on_change=show_status,
        )  # fmt: skip

    try:
        if log_query.as_json:
            _print_json(pages())
        elif not _print(pages, _names(trial, query), log_query):
            _explain_silence(trial, log_query)
    except KeyboardInterrupt:
        return _stop_following(trial)
    return None


def _print_family(client: Client, trial: Trial[Any], log_query: LogQuery) -> int | None:
    """Print the logs of a generator's child trials, each line prefixed with its trial's name."""
    from windlass.cli.output.log_lines import Clock
    from windlass.client.resources.trial.logs.generator_logs import pieces
    from windlass.client.resources.trial.logs.pages import first_lines
    from windlass.client.terminal.view import View

    clock, wrote = Clock(), False
    try:
        log_pieces = pieces(
            client.transport,
            trial.record,
            log_query.query,
            tail=log_query.tail,
            follows=log_query.follows,
        )
        names: Sequence[str] = []

        def read_parts() -> Pages:
            nonlocal names
            for piece in log_pieces:
                names = piece.names
                yield piece.parts

        pages = read_parts()
        if log_query.head is not None:
            pages = first_lines(pages, log_query.head)
        if log_query.as_json:
            _print_json(pages)
            return None
        with View(reach=log_query.reach) as view:
            for parts in pages:
                view.tell_apart(names)
                view.show_all(map(clock.stamp, parts) if log_query.timestamps else parts)
                wrote = wrote or bool(parts)
                view.flush()
    except KeyboardInterrupt:
        return _stop_following(trial)
    if not wrote:
        _explain_silence(trial, log_query)
    return None


def _check_replica(trial: Trial[Any], role: str | None, index: int | None) -> None:
    """Raise an error if the user selected a replica that never existed."""
    from windlass.model.errors import InvalidArgument

    there = {entry.name: entry.replicas for entry in trial.record.spec.roles}
    if role is not None and role not in there:
        raise InvalidArgument(
            f"Trial {trial.id} ({trial.name}) has no role {role!r}.",
            hint=f"It has: {', '.join(there)}.",
        )
    named = [size for name, size in there.items() if role in (None, name)]
    seen = [a.index + 1 for a in trial.record.attempts if role in (None, a.role)]
    if index is not None and index >= (most := max([*named, *seen])):
        whose = f" of {role}" if role else ""
        raise InvalidArgument(
            f"Trial {trial.id} ({trial.name}) has no replica {index}{whose}.",
            hint=f"Replicas are numbered from 0 to {most - 1}."
            if most > 1
            else "It has one replica: 0.",
        )


def _names(trial: Trial[Any], wanted: dict[str, Any]) -> list[str]:
    """Return the names of a trial's replicas, or [] if only one replica is selected."""
    from windlass.client.resources.trial.replica_names import names_of

    role, index = wanted["role"], wanted["index"]
    replicas = {(attempt.role, attempt.index) for attempt in trial.record.attempts} | {
        (replica.role, replica.index) for replica in trial.replicas
    }
    selected = [key for key in replicas if role in (None, key[0]) and index in (None, key[1])]
    return names_of(trial.record.spec, trial.record.attempts) if len(selected) > 1 else []


def _print(pages: Callable[[ShowStatus], Pages], names: Sequence[str], log_query: LogQuery) -> bool:
    """Print log parts, prefixed with their replicas' names. Return True if there were any.

    If `names` is empty, lines have no prefix. In a terminal, the trial's status is shown below the
    log.
    """
    from windlass.cli.output.log_lines import Clock
    from windlass.client.terminal.status_line import share_of, status_text
    from windlass.client.terminal.view import View

    clock = Clock()
    wrote = False
    with View(reach=log_query.reach) as view:

        def show_status(record: TrialRecord) -> None:
            view.status(status_text(record), share_of(record))

        view.tell_apart(names)
        for parts in pages(show_status):
            view.show_all(map(clock.stamp, parts) if log_query.timestamps else parts)
            wrote = wrote or bool(parts)
            view.flush()
    return wrote


def _print_json(pages: Pages) -> None:
    from windlass.cli.output.log_lines import print_json_lines
    from windlass.client.resources.trial.logs.lines import LineJoiner

    joiner = LineJoiner()
    for parts in pages:
        print_json_lines(joiner.feed(parts))
    print_json_lines(joiner.rest())


def _explain_silence(trial: Trial[Any], log_query: LogQuery) -> None:
    from windlass.cli.output.text import print_message
    from windlass.model.records import TrialKind

    is_filtered = any(value is not None for value in log_query.query.values())
    if log_query.head == 0 or log_query.tail == 0:
        return
    if is_filtered:
        print_message(
            f"Trial {trial.id} ({trial.name}) wrote nothing{_describe_filters(log_query.query)}."
        )
    elif trial.record.kind is TrialKind.EXTERNAL:
        print_message(
            f"Trial {trial.id} ({trial.name}) was not started by Windlass, so its output "
            "is not recorded."
        )
    elif trial.is_finished:
        print_message(f"Trial {trial.id} ({trial.name}) wrote nothing.")
    else:
        state = trial.state.lower() + (f": {trial.message}" if trial.message else "")
        print_message(
            f"Trial {trial.id} ({trial.name}) has written nothing yet; it is {state}.\n"
            f"Wait for it: windlass logs {trial.id} -f"
        )


def _describe_filters(query: dict[str, Any]) -> str:
    """Describe a log query's filters in a few words, for a message.

    >>> nothing = {"search": None, "since": None, "until": None, "stream": None, "role": None}
    >>> (
    ...     _describe_filters({**nothing, "stream": "stderr"}),
    ...     _describe_filters({**nothing, "search": "nan"}),
    ... )
    (' to stderr', ' like that')
    """
    from windlass.cli.output.text import format_moment

    filters = {name: value for name, value in query.items() if value is not None}
    if not filters.keys() <= {"stream", "since", "until"}:
        return " like that"
    stream = f" to {filters.pop('stream')}" if "stream" in filters else ""
    return stream + "".join(f" {name} {format_moment(filters[name])}" for name in filters)


def _stop_following(trial: Trial[Any]) -> int:
    from windlass.cli.output.text import print_message
    from windlass.model.errors import WindlassError

    try:
        trial.refresh()
    except WindlassError:
        return 130  # Ctrl-C must end the command even if the server does not respond
    if not trial.is_finished:
        print_message(
            f"Trial {trial.id} ({trial.name}) continues to run. To stop it: windlass stop "
            f"{trial.id}"
        )
    return 130
