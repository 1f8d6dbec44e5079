"""`windlass logs`: what a trial wrote, and goes on writing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from windlass.cli.parameters import TRIAL_ID, WholeNumber, complete_experiments, complete_role_names

if TYPE_CHECKING:
    from windlass.client.session import Client
    from windlass.client.taming import Reach
    from windlass.client.trials import Trial
    from windlass.model.logs import LogPart
    from windlass.model.records import TrialRecord

Pages = Iterator[Sequence["LogPart"]]
Tell = Callable[["TrialRecord | None"], None]  # how the trial stands, if that is to be told


@click.command(short_help="Print what a trial wrote, or search many.")
@click.argument("trial_id", type=TRIAL_ID, metavar="[ID]", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on until it ends.")
@click.option(
    "-n", "--tail", type=WholeNumber(0, 1_000_000), metavar="N", help="Only the last N lines."
)
@click.option("--head", type=WholeNumber(0), metavar="N", help="Only the first N lines.")
@click.option("--search", metavar="TEXT", help="Only lines that contain a text.")
@click.option("--regex", is_flag=True, help="TEXT is a regular expression.")
@click.option("-c", "--count", is_flag=True, help="Say only how many lines match.")
@click.option(
    "-e",
    "--experiment",
    metavar="NAME",
    shell_complete=complete_experiments,
    help="Without an ID: search the trials of an experiment, by name or id.",
)
@click.option(
    "--where",
    metavar="EXPRESSION",
    help='Without an ID: search trials that fulfil it, as "hparams.lr < 0.1".',
)
@click.option(
    "--role", metavar="NAME", shell_complete=complete_role_names, help="Only replicas of a role."
)
@click.option("--index", type=WholeNumber(min=0), metavar="N", help="Only replica N of each.")
@click.option(
    "--attempt", type=WholeNumber(min=1), metavar="N", help="Only attempt N of each replica."
)
@click.option("--since", metavar="TIME", help="Only from then on: 10m (ago), '2026-11-16 09:30'.")
@click.option("--until", metavar="TIME", help="Only until then.")
@click.option("--stdout", "only_stdout", is_flag=True, help="Only what it wrote to stdout.")
@click.option("--stderr", "only_stderr", is_flag=True, help="Only what it wrote to stderr.")
@click.option("-t", "--timestamps", is_flag=True, help="Say when each line was written.")
@click.option(
    "--raw", is_flag=True, help="To a terminal, too: all that it wrote, as it is, whatever it does."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
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
    """Print what a trial wrote: its stdout on stdout, its stderr on stderr.

    Of several replicas, each line begins with the name of the one that wrote it; of a trial that
    a generator built, with the name and the number of the trial in it that did.

    Without an ID, --search looks through the logs of all trials, or of an experiment's, or of
    those that fulfil --where, and each line begins with the trial that wrote it.

    In a terminal, what it wrote may have colours and draw over its own line; what else would
    steer the terminal is shown as text, unless --raw is given. Piped, it is as it was written.
    """
    from windlass.client.log_pages import check_ends, filters
    from windlass.client.session import default_client

    if count and search is None:
        raise click.UsageError("--count counts the lines of a --search.", ctx)
    stream = None
    if only_stdout != only_stderr:
        stream = "stdout" if only_stdout else "stderr"
    check_ends(head, tail)
    query = filters(
        search=search, regex=regex, stream=stream, role=role, index=index, attempt=attempt,
        since=since, until=until,
    )  # fmt: skip
    asked = Asked(query, follow, head, tail, timestamps, raw, as_json)
    client = default_client()
    if trial_id is None:
        from windlass.cli.log_search import search_many

        _check_many(ctx, asked)
        return search_many(client, asked, experiment, where, counts=count)
    for option, value in (("--experiment", experiment), ("--where", where)):
        if value is not None:
            raise click.UsageError(f"An ID names the trial already: leave out {option}.", ctx)
    trial = client.get_trial(trial_id)
    if count:
        from windlass.cli.log_search import say_count

        return say_count(client, {**query, "trials": trial_id})
    return _print_one(client, trial, asked)


class Asked(NamedTuple):
    """What is asked for, and how it is to be shown."""

    query: dict[str, Any]
    follows: bool
    head: int | None
    tail: int | None
    timestamps: bool
    is_raw: bool
    as_json: bool

    @property
    def reach(self) -> Reach:
        """How far what was written may go in a terminal: a log may be another's."""
        from windlass.client.taming import Reach

        return Reach.ALL if self.is_raw else Reach.LINE


def _check_many(ctx: click.Context, asked: Asked) -> None:
    """Of many trials there is a search, and nothing else."""
    if asked.query["search"] is None:
        raise click.UsageError(
            "Say which trial: windlass logs 7. To look through the logs of many: "
            "windlass logs --search TEXT",
            ctx,
        )
    if asked.follows or asked.tail is not None:
        option = "--follow" if asked.follows else "--tail"
        raise click.UsageError(f"{option} is of one trial: name it, as windlass logs 7.", ctx)


def _print_one(client: Client, trial: Trial[Any], asked: Asked) -> int | None:
    from windlass.client import log_pages
    from windlass.client.naming import is_generated

    query = asked.query
    _check_replica(trial, query["role"], query["index"])
    if is_generated(trial.record):
        return _print_family(client, trial, asked)
    is_whole = all(query[name] is None for name in ("search", "since", "until"))

    def pages(tell: Tell = lambda _record: None) -> Pages:
        if asked.follows and asked.tail is None and asked.head is None and is_whole:
            return _follow_pages(client, trial.id, _whose(query), tell)
        read = log_pages.pages(
            client.transport, trial.id, query,
            head=asked.head, tail=asked.tail, follow=asked.follows,
        )  # fmt: skip
        return _until_it_speaks(trial, read, tell) if asked.follows else read

    try:
        if asked.as_json:
            _print_json(pages())
        elif not _print(pages, _names(trial, query), asked):
            _explain_silence(trial, asked)
    except KeyboardInterrupt:
        return _leave(trial)
    return None


def _whose(query: dict[str, Any]) -> dict[str, Any]:
    return {name: query[name] for name in ("stream", "role", "index", "attempt")}


def _print_family(client: Client, trial: Trial[Any], asked: Asked) -> int | None:
    """Print what the trials of a generator wrote, each line with the name of its trial."""
    from windlass.cli.log_lines import Clock
    from windlass.client.family_logs import pieces
    from windlass.client.log_pages import first_lines
    from windlass.client.view import View

    clock, wrote = Clock(), False
    try:
        found = pieces(
            client.transport, trial.record, asked.query, tail=asked.tail, follows=asked.follows
        )
        names: Sequence[str] = []

        def parts_of() -> Pages:
            nonlocal names
            for piece in found:
                names = piece.names
                yield piece.parts

        pages = parts_of() if asked.head is None else first_lines(parts_of(), asked.head)
        if asked.as_json:
            _print_json(pages)
            return None
        with View(reach=asked.reach) as view:
            for parts in pages:
                view.tell_apart(names)
                view.show_all(map(clock.stamp, parts) if asked.timestamps else parts)
                wrote = wrote or bool(parts)
                view.flush()
    except KeyboardInterrupt:
        return _leave(trial)
    if not wrote:
        _explain_silence(trial, asked)
    return None


def _check_replica(trial: Trial[Any], role: str | None, index: int | None) -> None:
    """Refuse a replica that the trial does not have and never had."""
    from windlass.model.errors import InvalidArgument

    there = {each.name: each.replicas for each in trial.record.spec.roles}
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
            hint=f"They are numbered from 0 to {most - 1}." if most > 1 else "It has one: 0.",
        )


def _follow_pages(client: Client, trial_id: int, wanted: dict[str, Any], tell: Tell) -> Pages:
    """All of the log to the end of the trial, taken up again if the server is replaced."""
    from windlass.client.following import Following
    from windlass.model.logs import LogPage
    from windlass.model.records import TrialRecord

    for news in Following(client.transport, trial_id=trial_id):
        if isinstance(news, LogPage):
            yield [part for part in news.items if _is_wanted(part, wanted)]
        elif isinstance(news, TrialRecord):
            tell(news)


def _is_wanted(part: LogPart, wanted: dict[str, Any]) -> bool:
    return all(value in (None, getattr(part, name)) for name, value in wanted.items())


def _until_it_speaks(trial: Trial[Any], pages: Pages, tell: Tell) -> Pages:
    """The same pages, with what the trial does while they are empty: lines alone are heard of."""
    tell(None if trial.is_finished else trial.record)
    for parts in pages:
        if parts:
            tell(None)
        elif not trial.is_finished:
            tell(trial.refresh().record)
        yield parts


def _names(trial: Trial[Any], wanted: dict[str, Any]) -> list[str]:
    """What to call the replicas whose lines are asked for; nothing if it is one alone."""
    from windlass.client.naming import names_of

    role, index = wanted["role"], wanted["index"]
    roles = {(each.role, each.index) for each in trial.attempts} | {
        (each.role, each.index) for each in trial.replicas
    }
    asked = [each for each in roles if role in (None, each[0]) and index in (None, each[1])]
    return names_of(trial.record.spec, trial.attempts) if len(asked) > 1 else []


def _print(pages: Callable[[Tell], Pages], names: Sequence[str], asked: Asked) -> bool:
    """Print the pieces where they belong, by name if names are given; whether there were any.

    What the trial does meanwhile is told below them, in a terminal.
    """
    from windlass.cli.log_lines import Clock
    from windlass.client.standing import share_of, status_text
    from windlass.client.view import View

    clock = Clock()
    wrote = False
    with View(reach=asked.reach) as view:

        def tell(record: TrialRecord | None) -> None:
            view.status(*((status_text(record), share_of(record)) if record else ("",)))

        view.tell_apart(names)
        for parts in pages(tell):
            view.show_all(map(clock.stamp, parts) if asked.timestamps else parts)
            wrote = wrote or bool(parts)
            view.flush()
    return wrote


def _print_json(pages: Pages) -> None:
    from windlass.cli.log_lines import print_json_lines
    from windlass.client.logs import LineJoiner

    joiner = LineJoiner()
    for parts in pages:
        print_json_lines(joiner.feed(parts))
    print_json_lines(joiner.rest())


def _explain_silence(trial: Trial[Any], asked: Asked) -> None:
    from windlass.cli.text import say
    from windlass.model.records import TrialKind

    is_filtered = any(value is not None for value in asked.query.values())
    if asked.head == 0 or asked.tail == 0:
        return
    if is_filtered:
        say(f"Trial {trial.id} ({trial.name}) wrote nothing{_like_what(asked.query)}.")
    elif trial.record.kind is TrialKind.EXTERNAL:
        say(
            f"Trial {trial.id} ({trial.name}) was not started by Windlass: "
            "what it prints is not recorded."
        )
    elif trial.is_finished:
        say(f"Trial {trial.id} ({trial.name}) wrote nothing.")
    else:
        state = trial.state.lower() + (f": {trial.message}" if trial.message else "")
        say(
            f"Trial {trial.id} ({trial.name}) has written nothing yet; it is {state}.\n"
            f"Wait for it: windlass logs {trial.id} -f"
        )


def _like_what(query: dict[str, Any]) -> str:
    """What of it was asked for, if that can be said in a few words.

    >>> nothing = {"search": None, "since": None, "until": None, "stream": None, "role": None}
    >>> _like_what({**nothing, "stream": "stderr"}), _like_what({**nothing, "search": "nan"})
    (' to stderr', ' like that')
    """
    from windlass.cli.text import format_moment

    given = {name: value for name, value in query.items() if value is not None}
    if not given.keys() <= {"stream", "since", "until"}:
        return " like that"
    stream = f" to {given.pop('stream')}" if "stream" in given else ""
    return stream + "".join(f" {name} {format_moment(given[name])}" for name in given)


def _leave(trial: Trial[Any]) -> int:
    from windlass.cli.text import say
    from windlass.model.errors import WindlassError

    try:
        trial.refresh()
    except WindlassError:
        return 130  # whoever leaves wants to leave
    if not trial.is_finished:
        say(f"Trial {trial.id} ({trial.name}) goes on. To stop it: windlass stop {trial.id}")
    return 130
