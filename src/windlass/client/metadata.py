"""What people note on experiments and trials, as they hold them: labels, notes, links, files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windlass.client.attributes import (
    check_config,
    check_file_name,
    check_labels,
    check_name,
    check_place,
    check_priority,
    check_text,
    check_url,
    find_named,
)
from windlass.model.records import Artifact, ExperimentRecord, Link, TrialRecord

if TYPE_CHECKING:
    from typing_extensions import Self

    from windlass.client.places import Project
    from windlass.client.transport import Transport

_CHANGED_BY = {
    "name": "set_name(...)",
    "priority": "set_priority(...)",
    "archived": "archive(), or exp.unarchive()",
    "project": "move_to(...)",
    "labels": "set_labels([...]), or exp.add_label(...)",
    "description": "set_description(...)",
    "notes": "set_notes(...)",
    "config": "set_config({...})",
    "links": "add_link(name, url)",
    "artifacts": "add_artifact(name, path)",
}


class Labelled:
    """What has labels: a trial, an experiment, a model.

    Labels are added and removed on the server one by one: others that change them meanwhile lose
    nothing by it.
    """

    _record: Any

    @property
    def labels(self) -> tuple[str, ...]:
        """Words to find it by, in the order they were given.

        ```python
        trial = train.submit(0.1)
        trial.add_label("baseline", "paper")
        assert trial.labels == ("baseline", "paper")
        ```
        """
        labels: tuple[str, ...] = self._record.labels
        return labels

    def set_labels(self, labels: Sequence[str]) -> Self:
        """Have these labels and no others.

        ```python
        train.submit(0.1).set_labels(["baseline"])
        ```
        """
        return self._change(labels=check_labels(labels))

    def add_label(self, *labels: str) -> Self:
        """Have these labels, too.

        ```python
        wl.get_experiment("train").add_label("paper")
        ```
        """
        return self._change(add_labels=check_labels(labels))

    def remove_label(self, *labels: str) -> Self:
        """Have these labels no longer; one that is not there is no matter.

        ```python
        wl.get_experiment("train").remove_label("paper")
        ```
        """
        return self._change(remove_labels=check_labels(labels))

    if TYPE_CHECKING:

        def _change(self, **changes: Any) -> Self: ...


class Noted(Labelled):
    """What people write about something: what it is called, what it is about, what they found."""

    @property
    def description(self) -> str:
        """What it is about."""
        description: str = self._record.description
        return description

    @property
    def notes(self) -> str:
        """What was found out, what is to be done: any text."""
        notes: str = self._record.notes
        return notes

    def set_name(self, name: str) -> Self:
        """Call it otherwise from now on. A name is one line of 1 to 200 printable characters.

        ```python
        wl.get_trial(3).set_name("baseline")
        ```
        """
        return self._change(name=check_name("name", name))

    def set_description(self, text: str) -> Self:
        """Say what it is about.

        ```python
        wl.get_experiment("train").set_description("How much the learning rate matters.")
        ```
        """
        return self._change(description=check_text("description", text))

    def set_notes(self, text: str) -> Self:
        """Have this text as its notes, in place of the one that was there.

        ```python
        experiment = wl.get_experiment("train")
        experiment.set_notes(experiment.notes + "0.3 diverges.\\n")
        ```
        """
        return self._change(notes=check_text("notes", text))


class NotedTrial(Noted):
    """What is noted on a trial, to be changed at any time."""

    _transport: Transport
    _record: TrialRecord

    if TYPE_CHECKING:

        def _learn(self, record: TrialRecord) -> None: ...

    def _change(self, **changes: Any) -> Self:
        from windlass.client.transport import path_of
        from windlass.model.wire import ChangeTrial

        path = path_of("trials", self._record.id)
        self._learn(self._transport.ask("PATCH", path, TrialRecord, body=ChangeTrial(**changes)))
        return self


class Described(Noted):
    """What is noted on an experiment, to be changed at any time."""

    _transport: Transport
    _record: ExperimentRecord

    def __setattr__(self, name: str, value: Any) -> None:
        if how := _CHANGED_BY.get(name):
            raise AttributeError(f"{name} cannot be assigned to. Write: exp.{how}")
        super().__setattr__(name, value)

    @property
    def priority(self) -> int:
        """The priority of what is added to it and says none itself: those with more start first."""
        return self._record.priority

    @property
    def archived(self) -> bool:
        """Whether it is left out of lists."""
        return self._record.archived

    @property
    def config(self) -> dict[str, Any]:
        """Settings that its trials share, or whatever else is to be kept with it as JSON."""
        return self._record.config

    @property
    def links(self) -> tuple[Link, ...]:
        """Things elsewhere that belong to it, each with `name` and `url`."""
        return self._record.links

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """Files that are kept with it, each with `name`, `size`, `digest` and `created`."""
        return self._record.artifacts

    def set_priority(self, priority: int) -> Self:
        """Have those of its trials that wait, and what is added to it, start before others.

        A job that is added and has a priority of its own, other than 0, keeps that. Trials in pods
        have none: the cluster's scheduler lets these in, by `priority_class=` of `wl.Kubernetes`.

        ```python
        wl.get_experiment("train").set_priority(10)
        ```
        """
        return self._change(priority=check_priority(priority))

    def archive(self) -> Self:
        """Leave it, and its trials, out of lists from now on. Nothing else changes.

        What runs goes on. A new trial of its name makes a new experiment.

        ```python
        experiment = wl.get_experiment("train").archive()
        assert experiment.id in [each.id for each in wl.list_experiments(archived=True)]
        experiment.unarchive()
        ```
        """
        return self._change(archived=True)

    def unarchive(self) -> Self:
        """Have it in lists again."""
        return self._change(archived=False)

    def move_to(self, project: Project | str) -> Self:
        """Have it belong to another project, which is made if there is none of that name.

        ```python
        wl.get_experiment("train").move_to("vision")
        ```
        """
        return self._change(project=check_place(project))

    def set_config(self, config: Mapping[str, Any]) -> Self:
        """Keep these settings with it, in place of those that were there. They are JSON.

        ```python
        wl.get_experiment("train").set_config({"dataset": "v3", "layers": [64, 32]})
        ```
        """
        return self._change(config=check_config(config))

    def add_link(self, name: str, url: str) -> Self:
        """Have a link of that name; one that was there leads elsewhere from now on.

        ```python
        wl.get_experiment("train").add_link("paper", "https://arxiv.org/abs/1412.6980")
        ```
        """
        return self._change(put_links={check_name("link", name): check_url(url)})

    def remove_link(self, name: str) -> Self:
        """Have no link of that name.

        ```python
        wl.get_experiment("train").remove_link("paper")
        ```
        """
        find_named("link", name, self._now().links)
        return self._change(remove_links=(name,))

    def add_artifact(self, name: str, path: str | os.PathLike[str]) -> Self:
        """Keep a copy of a file with it, under that name; what had the name before is replaced.

        ```python
        from pathlib import Path

        Path("curve.csv").write_text("step,loss\\n1,0.5\\n")
        wl.get_experiment("train").add_artifact("curve.csv", "curve.csv")
        ```
        """
        from windlass.client.artifacts import keep_file

        check_file_name(name)
        return keep_file(
            self._transport, path, lambda digest: self._change(put_artifacts={name: digest})
        )

    def download_artifact(self, name: str, directory: str | os.PathLike[str] = ".") -> Path:
        """Write an artifact to a folder, which is made if it is not there; the path of the file.

        ```python
        experiment = wl.get_experiment("train").add_artifact("notes.md", __file__)
        print(experiment.download_artifact("notes.md", "downloads").stat().st_size)
        ```
        """
        from windlass.client.artifacts import fetch_file

        found: Artifact = find_named("artifact", name, self._now().artifacts)
        check_file_name(found.name)  # whatever the server says, nothing is written elsewhere
        return fetch_file(self._transport, found, Path(directory))

    def remove_artifact(self, name: str) -> Self:
        """Keep the file of that name no longer.

        ```python
        experiment = wl.get_experiment("train").add_artifact("notes.md", __file__)
        experiment.remove_artifact("notes.md")
        ```
        """
        find_named("artifact", name, self._now().artifacts)
        return self._change(remove_artifacts=(name,))

    def _now(self) -> ExperimentRecord:
        """How it stands now."""
        from windlass.client.transport import path_of

        path = path_of("experiments", self._record.id)
        self._record = self._transport.ask("GET", path, ExperimentRecord)
        return self._record

    def _change(self, **changes: Any) -> Self:
        from windlass.client.transport import path_of
        from windlass.model.wire import ChangeExperiment

        path = path_of("experiments", self._record.id)
        body = ChangeExperiment(**changes)
        self._record = self._transport.ask("PATCH", path, ExperimentRecord, body=body)
        return self
