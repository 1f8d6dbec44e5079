"""The progress of an experiment, from the pieces of its stream."""

from __future__ import annotations

from windlass.client.terminal.experiment_progress import Progress
from windlass.model.job import JobSpec, ProcessCall, Role
from windlass.model.records import ExperimentRecord, TrialRecord, TrialState


def trial(state: TrialState) -> TrialRecord:
    spec = JobSpec(roles=(Role(executable=ProcessCall(argv=("true",))),))
    return TrialRecord(
        id=1, uid="", name="t", experiment="sweep", experiment_id=1, project="p", state=state,
        spec=spec,
    )  # fmt: skip


def sweep(state: TrialState) -> ExperimentRecord:
    return ExperimentRecord(
        id=1, name="sweep", project="p", created=1.0, trials=1, states={state.value: 1}
    )


def test_the_experiment_is_over_only_when_the_end_of_each_trial_is_known() -> None:
    running, ended = sweep(TrialState.RUNNING), sweep(TrialState.FAILED)
    progress = Progress(running)
    progress.learn(trial(TrialState.RUNNING))
    assert not progress.is_over
    progress.learn(ended)  # it ended after the events of trials were read
    assert not progress.is_over
    progress.learn(trial(TrialState.FAILED))
    progress.learn(ended)
    assert progress.is_over
    assert [trial.id for trial in progress.failed] == [1]
