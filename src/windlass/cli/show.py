"""`windlass show`: everything recorded of one trial."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from windlass.cli.parameters import TRIAL_ID, json_option

if TYPE_CHECKING:
    from windlass.client.session import Client
    from windlass.model.records import Attempt, Git, TrialRecord
    from windlass.model.status import Event

Lines = Iterator[tuple[str, str]]


@click.command(short_help="Show everything recorded of a trial.")
@click.argument("trial_id", type=TRIAL_ID, metavar="ID")
@json_option
def command(trial_id: int, as_json: bool) -> None:
    """Show everything recorded of a trial: state, times, code, environment, what happened."""
    from windlass.client.session import default_client

    client = default_client()
    trial = client.get_trial(trial_id)
    events = trial.events
    packages = _packages(client, trial.record.provenance.packages)
    if as_json:
        from windlass.cli.machine import plain, print_json

        print_json({**plain(trial.record), "events": events, "packages": packages})
        return
    _print_head(trial.record)
    _print_section("", _overview(trial.record))
    _print_section("Parameters", _params(trial.record))
    _print_attempts(trial.record.attempts)
    _print_section("Code", _code(trial.record))
    _print_section("Where", _where(trial.record, packages))
    _print_outcome(trial.record)
    _print_events(events)


def _packages(client: Client, digest: str | None) -> list[str]:
    """What was installed where the trial was made, one `name==version` each."""
    from windlass.client.transport import path_of

    if digest is None:
        return []
    listed = client.transport.fetch("GET", path_of("blobs", digest))
    return listed.decode("utf-8", "replace").splitlines()


def _print_head(record: TrialRecord) -> None:
    from windlass.cli.text import clean, paint, state_colour
    from windlass.model.records import TrialState

    title = paint(f"Trial {record.id}", bold=True) + f"  {clean(record.name)}  "
    print(title + paint(record.state.value, state_colour(record.state), bold=True))
    if record.message and record.state is not TrialState.SUCCEEDED:
        print(f"  {clean(record.message)}")


def _print_section(title: str, lines: Lines) -> None:
    from windlass.cli.text import clean, paint

    shown = [(label, clean(value)) for label, value in lines if value]
    if not shown:
        return
    print()
    if title:
        print(paint(title, bold=True))
    width = max([len(label) for label, _ in shown] + [11])
    for label, value in shown:
        print(f"  {paint(label.ljust(width), dim=True)}  {value}")


def _overview(record: TrialRecord) -> Lines:
    from windlass.cli.ls import how_long
    from windlass.cli.text import format_ago, format_moment
    from windlass.model.quantities import format_duration

    now = time.time()
    spec = record.spec
    role = spec.roles[0]
    in_project = "" if record.project == "default" else f" (project {record.project})"
    yield "experiment", record.experiment + in_project
    yield "command", _command(record)
    yield "created", f"{format_moment(record.created)} ({format_ago(record.created, now)})"
    if record.started is not None:
        waited = format_duration(max(record.started - record.created, 0))
        yield "started", f"{format_moment(record.started)} (waited {waited})"
    if record.ended is not None:
        yield "ended", f"{format_moment(record.ended)} (ran {how_long(record, now)})"
    if record.exit_code is not None:
        yield "exit code", f"{record.exit_code}" + (f" ({record.signal})" if record.signal else "")
    yield "restarts", str(record.restarts or "")
    yield "resources", str(role.resources)
    yield "backend", spec.backend
    if spec.active_deadline is not None:
        yield "timeout", format_duration(spec.active_deadline)
    if role.restart_policy.value != "Never":
        yield "retries", f"up to {spec.backoff_limit}"
    yield "env", " ".join(f"{name}={shlex.quote(value)}" for name, value in role.env.items())
    yield "secrets", " ".join(f"{name}=***" for name in spec.secret_names)
    yield "volumes", " ".join(f"{each.target}={each.source}" for each in spec.volumes)
    yield "packages", " ".join(spec.python.packages)
    yield "files", record.directory


def _params(record: TrialRecord) -> Lines:
    for name, value in record.params.items():
        yield name, repr(value)


def _code(record: TrialRecord) -> Lines:
    from windlass.cli.text import counted
    from windlass.model.quantities import format_size

    code, known = record.spec.code, record.provenance
    if code.tree is not None:
        size = f"{counted(known.tree_files, 'file')}, {format_size(known.tree_size)}"
        yield "tree", f"{code.tree[:12]} ({size})"
    yield "root", code.root
    yield "directory", code.workdir if code.workdir != "." else ""
    yield "git", _git(known.git) if known.git is not None else ""


def _git(git: Git) -> str:
    commit = git.commit[:12] or "no commit yet"
    on = f" on {git.branch}" if git.branch else ""
    return commit + on + (", with changes that are not committed" if git.dirty else "")


def _where(record: TrialRecord, packages: Sequence[str]) -> Lines:
    from windlass.cli.text import counted

    known = record.provenance
    yield "user", f"{known.user} on {known.host}" if known.host else known.user
    yield "platform", known.platform
    python = f"{known.python} ({known.executable})" if known.executable else known.python
    yield "Python", python
    yield "installed", counted(len(packages), "package") if packages else ""
    yield "started by", shlex.join(known.argv)
    yield "Windlass", known.windlass


def _command(record: TrialRecord) -> str:
    from windlass.model.job import ProcessCall

    executable = record.spec.roles[0].executable
    if isinstance(executable, ProcessCall):
        return shlex.join(executable.argv)
    return f"{executable.qualname}(…)"


def _print_attempts(attempts: Sequence[Attempt]) -> None:
    from windlass.cli.tables import Column, print_table
    from windlass.cli.text import clean, format_moment, paint
    from windlass.model.quantities import format_duration

    if not attempts:
        return
    print()
    print(paint("Attempts", bold=True))
    is_one_role = len({(each.role, each.index) for each in attempts}) == 1
    rows = []
    for each in attempts:
        which = str(each.attempt) if is_one_role else f"{each.role}-{each.index}.{each.attempt}"
        took = ""
        if each.started is not None and each.ended is not None:
            took = format_duration(each.ended - each.started)
        rows.append([
            f"  {which}",
            each.phase,
            "" if each.exit_code is None else str(each.exit_code),
            "" if each.started is None else format_moment(each.started),
            took,
            clean(": ".join(part for part in (each.reason, each.message) if part)),
        ])  # fmt: skip
    print_table(
        [
            Column("  #"), Column("PHASE"), Column("EXIT", is_number=True), Column("STARTED"),
            Column("TOOK", is_number=True), Column("WHY", shrinks=True),
        ],
        rows,
    )  # fmt: skip


def _print_outcome(record: TrialRecord) -> None:
    from windlass.cli.failing import describe_error
    from windlass.cli.text import clean, paint
    from windlass.model.quantities import format_size

    if record.result is not None:
        print()
        print(paint("Result", bold=True))
        print(f"  {clean(record.result.text)}")
        size = format_size(record.result.size)
        print(paint(f"  {size}; the whole of it: windlass result {record.id}", dim=True))
    if record.error is not None:
        print()
        print(paint("Error", "red", bold=True))
        for line in describe_error(record, record.error).splitlines():
            print(f"  {line}")


def _print_events(events: Sequence[Event]) -> None:
    from windlass.cli.text import clean, format_moment, paint
    from windlass.model.status import EventKind

    if not events:
        return
    print()
    print(paint("Events", bold=True))
    width = max(len(event.reason) for event in events)
    for event in events:
        colour = "yellow" if event.kind is EventKind.WARNING else None
        moment = paint(format_moment(event.time), dim=True)
        reason = paint(event.reason.ljust(width), colour)
        print(f"  {moment}  {reason}  {clean(event.message)}".rstrip())
