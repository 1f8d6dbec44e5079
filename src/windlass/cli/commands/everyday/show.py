"""Implements `windlass show`, which prints a trial's or an experiment's record."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.parameters import TRIAL_ID, experiment_option, json_option

if TYPE_CHECKING:
    from windlass.cli.output.sections import Lines
    from windlass.client.client import Client
    from windlass.client.resources.trial.trial import Trial
    from windlass.model.job import Code, JobSpec, Role
    from windlass.model.records import ErrorInfo, Git, TrialRecord
    from windlass.model.status import Event

_MOST_COUNTED = 1000  # stop counting output files at this number
_LONGEST_ERROR = 200  # characters


@click.command(
    short_help="Show the record of a trial: state, code, timeline.",
    epilog=examples(
        "windlass show 7", "windlass show 7 --json", "windlass show --experiment rates"
    ),
)
@click.argument("trial_id", type=TRIAL_ID, metavar="ID", required=False)
@experiment_option("Show an experiment (name or id).")
@click.option("--config", is_flag=True, help="Print the configuration of the trial as JSON.")
@json_option
@click.pass_context
def command(
    ctx: click.Context, /, trial_id: int | None, experiment: str | None, config: bool, as_json: bool
) -> None:
    """Show a trial's record: its state, times, code, environment and timeline.

    With --experiment, show an experiment's labels, links, files and notes.
    """
    if (trial_id is None) is (experiment is None):
        raise click.UsageError("Name a trial by its ID, or an experiment with --experiment.", ctx)
    if config:
        _show_config(trial_id, experiment)
        return
    if experiment is not None:
        from windlass.cli.output.experiment_page import show_experiment

        show_experiment(experiment, as_json=as_json)
        return
    assert trial_id is not None  # noqa: S101 -- `trial_id` or `experiment` is set
    _show_trial(trial_id, as_json=as_json)


def _show_config(trial_id: int | None, experiment: str | None) -> None:
    from windlass.cli.output.json import print_json
    from windlass.client.client import default_client

    client = default_client()
    if experiment is not None:
        print_json(client.get_experiment(experiment).config)
    elif trial_id is not None:
        print_json(client.get_trial(trial_id).config)


def _show_trial(trial_id: int, *, as_json: bool) -> None:
    import msgspec

    from windlass.cli.commands.everyday.metrics import print_metrics
    from windlass.cli.output.child_table import print_children
    from windlass.cli.output.lineage_tree import print_lineage
    from windlass.cli.output.pod_lines import package_lists, pod_lines, pods_in_full
    from windlass.cli.output.replica_table import print_replicas
    from windlass.cli.output.sections import print_notes, print_section
    from windlass.cli.output.usage import usage_lines
    from windlass.client.client import default_client
    from windlass.model.records import own_metrics

    client = default_client()
    trial = client.get_trial(trial_id)
    events = trial.events
    packages = _packages(client, trial.record.provenance.packages)
    of_pods = {digest: _packages(client, digest) for digest in package_lists(trial.record)}
    if as_json:
        from windlass.cli.output.json import plain, print_json

        pods = pods_in_full(trial.record, of_pods)
        more = {"events": events, "packages": packages, "pods": pods}
        print_json({**plain(trial.record), **more})
        return
    _print_head(trial.record)
    print_section("", _overview(trial.record))
    print_notes(trial.record.notes)
    print_section("Roles", _roles(trial.record))
    print_section("Parameters", _params(trial.record))
    own = own_metrics(trial.record.metrics)
    print_metrics(msgspec.structs.replace(trial.record, metrics=own))
    print_section("Checkpoints", _checkpoints(trial))
    print_section("Outputs", _outputs(trial))
    print_section("Used", usage_lines(trial.record))
    print_lineage(trial)
    print_section("Code", _code(trial.record))
    print_section("Where", pod_lines(trial.record, of_pods))
    is_here = trial.record.spec.capabilities.runs_on_server
    print_section("Where" if is_here else "Submitted from", _where(trial.record, packages))
    print_replicas(trial.record)
    print_children(client, trial)
    _print_timeline(trial.record, events)
    _print_cause(trial.record)
    _print_outcome(trial.record)


def _packages(client: Client, digest: str | None) -> list[str]:
    """Return the packages that were installed at submission, as `name==version`."""
    from windlass.client.connection.transport import request_path

    if digest is None:
        return []
    listed = client.transport.fetch("GET", request_path("blobs", digest))
    return listed.decode("utf-8", "replace").splitlines()


def _print_head(record: TrialRecord) -> None:
    from windlass.cli.output.text import clean, paint, state_colour
    from windlass.client.resources.trial.outcome import how_it_ended
    from windlass.model.records import TrialState

    title = paint(f"Trial {record.id}", bold=True) + f"  {clean(record.name)}  "
    print(title + paint(record.state.value, state_colour(record.state), bold=True))
    message = record.message
    if record.reason == "DeadlineExceeded":
        message = how_it_ended(record)  # the report of the program's start may have arrived late
    if record.state is TrialState.SUCCEEDED:
        return
    if record.error is not None and record.reason not in ("Stopped", "DeadlineExceeded"):
        print(f"  {_format_error_line(record.error)}")
        if message == f"exit code {record.exit_code}":
            return  # the page shows the exit code below
    if message:
        print(f"  {clean(message)}")


def _format_error_line(error: ErrorInfo) -> str:
    """Format the error on one line. The full message is in the traceback."""
    from windlass.cli.output.text import clean

    message = clean(error.message.strip().partition("\n")[0])
    message = message if len(message) <= _LONGEST_ERROR else f"{message[:_LONGEST_ERROR]}…"
    return f"{clean(error.type)}: {message}" if message else clean(error.type)


def _overview(record: TrialRecord) -> Lines:
    from windlass.cli.output.text import format_ago, format_moment
    from windlass.client.resources.trial.failure_tips import limit_name
    from windlass.client.resources.trial.replica_names import is_generated
    from windlass.display.trial_cells import format_run_time
    from windlass.model.records import TrialKind
    from windlass.model.text.quantities import format_duration

    now = time.time()
    spec = record.spec
    role = spec.roles[0]
    in_project = "" if record.project == "default" else f" (project {record.project})"
    yield "experiment", record.experiment + in_project
    yield "about", record.description
    yield "labels", ", ".join(record.labels)
    yield "template", record.recipe.template
    is_built = is_generated(record)
    is_external = record.kind is TrialKind.EXTERNAL
    yield "kind", "external: Windlass did not start it" if is_external else ""
    yield "part of", f"trial {record.parent_id}" if record.parent_id is not None else ""
    if len(spec.roles) == 1:
        yield "generator" if is_built else "command", _command(role)
    yield "created", f"{format_moment(record.created)} ({format_ago(record.created, now)})"
    if record.started is not None:
        waited = format_duration(max(record.started - record.created, 0))
        yield "started", f"{format_moment(record.started)} (waited {waited})"
    if record.ended is not None:
        yield "ended", f"{format_moment(record.ended)} (ran {format_run_time(record, now)})"
    if record.progress is not None:
        yield "progress", f"{record.progress:.0%}"
    if record.exit_code is not None:
        yield "exit code", f"{record.exit_code}" + (f" ({record.signal})" if record.signal else "")
    yield "framework", spec.framework
    if len(spec.roles) == 1 and not is_built:
        yield "replicas", f"{role.replicas} ({role.name})" if role.replicas != 1 else ""
        suffix = " each" if role.replicas > 1 else ""
        yield "resources", "" if is_external else str(role.resources) + suffix
    yield "restarts", _restarts(record)
    yield "asked to stop", record.asked_to_stop
    yield "backend", "" if is_built or is_external else spec.backend
    if spec.active_deadline is not None:
        yield limit_name(spec), format_duration(spec.active_deadline)
    yield "priority", str(spec.priority or "")
    yield "success", spec.success_policy.value
    yield "at its end", _cleaning(spec)
    if len(spec.roles) == 1:
        yield "env", _env(role)
    yield "secrets", " ".join(f"{name}=***" for name in spec.secret_names)
    yield "volumes", " ".join(f"{volume.target}={volume.source}" for volume in spec.volumes)
    yield "packages", " ".join(spec.python.packages)
    yield "files", "" if is_built else record.directory


def _params(record: TrialRecord) -> Lines:
    for name, value in record.params.items():
        yield name, repr(value)


def _checkpoints(trial: Trial[Any]) -> Lines:
    from windlass.model.text.quantities import format_size

    for newest in trial.list_checkpoints(sort_by="-number", limit=1):
        at = "" if newest.step is None else f"step {newest.step}, "
        yield "newest", f"{newest.id} ({at}{format_size(newest.size)})"
        yield "all", f"windlass checkpoint ls {trial.id}"


def _outputs(trial: Trial[Any]) -> Lines:
    """Describe how many output files there are, and how to list and download them.

    Files are counted only up to a limit.
    """
    from itertools import islice

    from windlass.cli.output.text import counted
    from windlass.model.text.quantities import format_size

    files = list(islice(trial.list_artifacts(), _MOST_COUNTED + 1))
    if len(files) > _MOST_COUNTED:
        yield "kept", f"more than {_MOST_COUNTED} files"
    elif files:
        size = format_size(sum(file.size for file in files))
        yield "kept", f"{counted(len(files), 'file')}, {size}"
    if files:
        yield "list", f"windlass artifacts {trial.id}"
        yield "fetch", f"windlass artifacts {trial.id} --to DIR"


def _code(record: TrialRecord) -> Lines:
    from windlass.cli.output.text import counted
    from windlass.model.text.quantities import format_size

    code, provenance = record.spec.code, record.provenance
    if code.tree is not None:
        size = f"{counted(provenance.tree_files, 'file')}, {format_size(provenance.tree_size)}"
        yield "tree", f"{code.tree[:12]} ({size})"
    yield "functions", f"{', '.join(code.functions)} (without a file)" if code.functions else ""
    yield from _outside(code)
    yield "root", code.root
    yield "directory", code.workdir if code.workdir != "." else ""
    yield "git", _git(provenance.git) if provenance.git is not None else ""
    for role in record.spec.roles:
        if role.code is not None and role.code.tree is not None:
            yield f"of {role.name}", f"{role.code.tree[:12]} from {role.code.root}"


def _outside(code: Code) -> Lines:
    for package in code.packages:
        if package.folder:
            yield "package", f"{package.name} from {package.path}"
        else:
            yield "not recorded", f"{package.name} in {package.path}: {package.reason}"
    for link in code.links:
        yield "link", f"{link.path} → {link.target} (the files behind it are not recorded)"


def _git(git: Git) -> str:
    commit = git.commit[:12] or "no commit yet"
    on = f" on {git.branch}" if git.branch else ""
    return commit + on + (", with changes that are not committed" if git.dirty else "")


def _where(record: TrialRecord, packages: Sequence[str]) -> Lines:
    from windlass.cli.output.text import counted

    provenance = record.provenance
    yield "user", f"{provenance.user} on {provenance.host}" if provenance.host else provenance.user
    yield "platform", provenance.platform
    executable = f" ({provenance.executable})" if provenance.executable else ""
    yield "Python", provenance.python + executable
    yield "installed", counted(len(packages), "package") if packages else ""
    yield "started by", shlex.join(provenance.argv)
    yield "Windlass", provenance.windlass


def _roles(record: TrialRecord) -> Lines:
    """Describe each role's command, if there are several roles."""
    if len(record.spec.roles) == 1:
        return
    for role in record.spec.roles:
        service = ", a service" if role.service else ""
        yield role.name, f"{role.replicas} x {_command(role)}  ({role.resources}{service})"
        yield "", _env(role)


def _restarts(record: TrialRecord) -> str:
    """Describe the number of restarts and the restart policy."""
    from windlass.client.resources.trial.replicas import has_several
    from windlass.model.job import RestartPolicy, RestartScope

    spec = record.spec
    policies = list(dict.fromkeys(role.restart_policy for role in spec.roles))
    if policies == [RestartPolicy.NEVER]:
        return str(record.restarts or "")
    together = spec.restart_scope is RestartScope.JOB and has_several(record)
    how = ", ".join(policy.value for policy in policies) + (", all together" if together else "")
    return f"{record.restarts} of up to {spec.backoff_limit} ({how})"


def _cleaning(spec: JobSpec) -> str:
    """Describe which replicas are stopped after the job has ended, and when.

    Return "" if the job uses the default policy and has no time to live.
    """
    from windlass.model.job import CleanPolicy
    from windlass.model.text.quantities import format_duration

    parts = [] if spec.clean_policy is CleanPolicy.RUNNING else [f"clean {spec.clean_policy.value}"]
    if spec.ttl_after_finished is not None:
        parts.append(f"all is stopped after {format_duration(spec.ttl_after_finished)}")
    return ", ".join(parts)


def _env(role: Role) -> str:
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in role.env.items())


def _command(role: Role) -> str:
    from windlass.comparison.settings import command_of

    return command_of(role.executable)


def _print_outcome(record: TrialRecord) -> None:
    from windlass.cli.options.python_to_options import as_submitted
    from windlass.cli.output.error_text import describe_error
    from windlass.cli.output.text import clean, paint
    from windlass.model.text.quantities import format_size

    if record.result is not None:
        print()
        print(paint("Result", bold=True))
        print(f"  {clean(record.result.text)}")
        size = format_size(record.result.size)
        print(paint(f"  {size}; all of it: windlass result {record.id}", dim=True))
    if record.error is not None:
        print()
        print(paint("Error", "red", bold=True))
        for line in describe_error(record, record.error, as_submitted).splitlines():
            print(f"  {line}")


def _print_cause(record: TrialRecord) -> None:
    """Print the replica that caused the trial's failure, with its last output."""
    from windlass.cli.options.python_to_options import as_submitted
    from windlass.cli.output.text import clean, paint
    from windlass.client.resources.trial.failure_tips import last_lines, tip_for
    from windlass.client.resources.trial.replicas import has_several

    cause = record.cause
    if cause is None or record.error is not None or not cause.lines:
        return
    print()
    who = (
        ""
        if not has_several(record)
        else f" of {cause.role}-{cause.index}, attempt {cause.attempt}"
    )
    print(paint("Last lines" + who, "red", bold=True))
    lines = last_lines(cause.lines)
    for line in lines:
        print(f"  {clean(line)}")
    if tip := tip_for(record, "\n".join(lines)):
        for line in as_submitted(tip, record).splitlines():
            print(f"  {clean(line)}")


def _print_timeline(record: TrialRecord, events: Sequence[Event]) -> None:
    import shutil
    import sys

    from windlass.cli.output.text import can_print, clean, is_terminal, paint
    from windlass.cli.output.timeline import Mark, build_timeline, draw

    moments = [
        moment._replace(text=clean(moment.text)) for moment in build_timeline(record, events)
    ]
    width = shutil.get_terminal_size().columns - 2 if is_terminal(sys.stdout) else None
    is_plain = not can_print("".join(mark.sign(plain=False) for mark in Mark))
    print()
    print(paint("Timeline", bold=True))
    for line in draw(moments, width=width, plain=is_plain):
        colour = "" if line.goes_on else line.mark.colour
        sign = paint(line.sign, colour or None, dim=not colour)
        text = paint(line.text, "red" if line.mark is Mark.FAILED else None)
        print(f"  {paint(line.when, dim=True)}  {sign}  {text}".rstrip())
