"""Detects searches that cannot succeed, so that they end after their first trials."""

from __future__ import annotations

from typing import Any

from windlass.client.connection.transport import Transport
from windlass.client.resources.trial.trial import Trial
from windlass.model.errors import InvalidArgument, TrialFailed, WindlassError
from windlass.search.policy import SearchPolicy, SearchState, SearchTrial

_FIRST_FAILED = 5
_FIRST_UNREPORTED = 2


def hopeless_error(
    policy: SearchPolicy, transport: Transport, to_continue: str
) -> WindlassError | None:
    """Return an error if the first trials all ended without a value, or None.

    Trials that ended before the search resumed are ignored, so that the user can fix the program
    and continue the search.
    """
    hopeless = (SearchState.FAILED, SearchState.UNREPORTED)
    ended = [tried for tried in policy.ended if tried.is_new]
    if not ended or any(tried.state not in hopeless for tried in ended):
        return None
    is_last = not policy.running and not policy.to_begin
    silent = [tried for tried in ended if tried.state is SearchState.UNREPORTED]
    if len(silent) >= _FIRST_UNREPORTED or (silent and is_last):
        return _unreported(policy, silent[0])
    if len(ended) >= _FIRST_FAILED or is_last:
        return _failed(policy, ended, Trial(transport, ended[0].record), to_continue)
    return None


def how_to_continue(experiment_id: int) -> str:
    """Return code that resumes a search from any script."""
    return f"wl.get_experiment({experiment_id}).search(...) with the same settings."


def _unreported(policy: SearchPolicy, first: SearchTrial) -> InvalidArgument:
    metric, record = policy.settings.metric, first.record
    reported = sorted(record.metrics)
    instead = f"it reported {', '.join(reported)}" if reported else "it reported nothing"
    if record.result is not None and not reported:
        instead += f" and returned {record.result.text}"
    import difflib

    near = difflib.get_close_matches(metric, reported, n=1)
    remedy = (
        f"Did you mean metric={near[0]!r}?"
        if near
        else f"Report it: wl.report(step, {metric}=...); or return it from the function, as a "
        f'number or as {{"{metric}": ...}}.'
        if metric.isidentifier()
        else "Report it with its group and name: wl.report(step, group=..., name=...)."
    )
    return InvalidArgument(
        f"Search {policy.name!r} looks for {metric!r}, and trial {record.id} ({record.name}) "
        f"ended without it: {instead}.",
        hint=remedy,
    )


def _failed(
    policy: SearchPolicy, ended: list[SearchTrial], first: Trial[Any], to_continue: str
) -> TrialFailed:
    error = first.outcome().error
    record = first.record
    if isinstance(error, TrialFailed):
        what, lines = error.message, error.log_tail
    elif record.error is not None:
        what = (
            f"Trial {record.id} ({record.name}) raised {record.error.type}: {record.error.message}"
        )
        lines = tuple(record.error.traceback.rstrip().splitlines()[-20:])
    else:
        what = (
            f"Trial {record.id} ({record.name}) returned {ended[0].value}, which is not a number."
        )
        lines = ()
    many = "The only trial" if len(ended) == 1 else f"All of the first {len(ended)} trials"
    return TrialFailed(
        f"{many} of search {policy.name!r} failed. {what}",
        hint="Fix the cause, then continue with the next trial: "
        f"{to_continue}\n"
        f"See: windlass show {record.id}, windlass logs {record.id}",
        trial_id=record.id,
        exit_code=record.exit_code,
        log_tail=lines,
    )
