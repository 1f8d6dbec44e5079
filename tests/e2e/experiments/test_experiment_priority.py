"""The priority of an experiment applies to its queued trials and to trials added later."""

from __future__ import annotations

from pathlib import Path

import pytest
from steps import step

import windlass as wl
from harness import PATIENCE, Project


def test_the_priority_applies_to_queued_and_added_trials(
    home: Path, one_cpu: None, gate: Path
) -> None:
    whole = step.options(cpus=1)
    first = whole.submit("holds", str(gate))
    exp = wl.create_experiment("urgent")
    other = whole.submit("other")
    waiting = [exp.add(whole, args={"word": str(number)}) for number in range(2)]
    assert [job.trial.id for job in wl.list_queue()] == [other.id, *(t.id for t in waiting)]
    exp.set_priority(7)
    added = exp.add(whole, args={"word": "added"})
    own = exp.add(wl.Job(wl.Command(["true"]), priority=9))
    assert [trial.refresh().priority for trial in (*waiting, added, own)] == [7, 7, 7, 9]
    order = [own.id, *(t.id for t in waiting), added.id, other.id]
    assert [job.trial.id for job in wl.list_queue()] == order
    assert (first.refresh().priority, other.refresh().priority) == (0, 0)
    assert exp.refresh().priority == 7
    with pytest.raises(wl.InvalidArgument, match="is not a valid priority"):
        exp.set_priority(10**7)
    gate.touch()
    for trial in (*waiting, added, own, other):
        assert trial.wait(timeout=PATIENCE).state == "SUCCEEDED"


def test_the_priority_does_not_apply_to_a_cluster_and_warns_once(
    fresh_home: Path, project: Project
) -> None:
    """With or without a cluster. Here there is none, and the job is refused."""
    launch = project.write(
        "launch.py",
        """
        import windlass as wl

        exp = wl.create_experiment("mixed").set_priority(5)
        there = wl.Job(wl.Command(["true"]), executor=wl.Kubernetes())
        for job in (wl.Job(wl.Command(["true"])), there, there):
            try:
                print(exp.add(job).priority)
            except wl.WindlassError as error:
                print(type(error).__name__)
        """,
    )
    done = project.python(launch, env={"KUBECONFIG": str(project.path / "none")})
    assert done.stdout.split() == ["5", "KubernetesError", "KubernetesError"]
    assert done.stderr.count("The experiment 'mixed' has the priority 5, which has no effect") == 1
    assert "launch.py:7: UserWarning" in done.stderr
    assert "wl.Kubernetes(priority_class=...)" in done.stderr
