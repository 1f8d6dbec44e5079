"""Making experiments, and asking for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from windlass.client.attributes import label_query
from windlass.client.calls import users_call
from windlass.client.experiments import Experiment
from windlass.client.pages import Listing, flag, walk, words
from windlass.client.questions.asker import Asker
from windlass.client.scopes import check_id, scope
from windlass.client.transport import path_of
from windlass.model.errors import Conflict, InvalidArgument
from windlass.model.records import ExperimentRecord
from windlass.model.wire import ExperimentPage

if TYPE_CHECKING:
    from windlass.client.places import Project

_NAMESAKES = 21  # experiments of one name that are looked for; one less is told of


class ExperimentQuestions(Asker):
    """Experiments: made, found, listed."""

    @users_call("wl.create_experiment")
    def create_experiment(
        self,
        name: str,
        project: str | None = None,
        labels: Sequence[str] = (),
        description: str = "",
        config: Mapping[str, Any] | None = None,
        *,
        exist_ok: bool = False,
        wait: bool = False,
        dry_run: bool = False,
    ) -> Experiment:
        """A new experiment, made at once. Another of the same name may exist: their ids differ.

        ```python
        exp = wl.create_experiment("sweep", labels=["paper"], config={"seed": 7})
        exp.add(wl.Job(wl.Command(["echo"])), args={"lr": 0.1})
        ```

        Args:
            name: what it is called.
            project: the project it belongs to ("default").
            labels: texts to find it by.
            description: what it is about.
            config: what is to be remembered of how it was set up: anything that JSON can say.
            exist_ok: whether to take the one of that name in the project, if there is one, as it
                is: a script that is started again goes on with it.
            wait: whether the end of a `with` block waits for its trials, too, with a live table,
                and raises `wl.ExperimentFailed` if some did not succeed.
            dry_run: whether to show what would run instead, and start nothing, not even the
                server: whatever is added is a trial that did not run.
        """
        from windlass.authoring.founding import new_experiment

        request = new_experiment(name, project, labels, description, config, exist_ok=exist_ok)
        if dry_run:
            from windlass.client.dry import DryClient
            from windlass.client.dry_experiments import DryExperiment

            return DryExperiment(DryClient(*self.transport.named), request)
        record = self.transport.ask("POST", "/experiments", ExperimentRecord, body=request)
        return Experiment(self.transport, record, waits=wait)

    def get_experiment(
        self, id_or_name: int | str, *, project: Project | str | int | None = None
    ) -> Experiment:
        """The experiment of that id or name; a name that several have is refused with their ids.

        One of a project is `"vision/train"`, with its workspace `"lab/vision/train"`; or say the
        `project`.

        ```python
        print(wl.get_experiment("train").states)
        ```
        """
        if id_or_name == "":
            raise InvalidArgument(
                "An experiment has a name.", hint="See: windlass ls --experiments"
            )
        if isinstance(id_or_name, str):
            named = self._called(id_or_name, project, archived=False)
            if len(named) > 1:
                raise _ambiguous(id_or_name, named)
            return (named or self._called(id_or_name, project, archived=None))[0]
        path = path_of("experiments", check_id("experiment", id_or_name))
        return Experiment(self.transport, self.transport.ask("GET", path, ExperimentRecord))

    def _called(
        self, name: str, project: Project | str | int | None, *, archived: bool | None
    ) -> list[Experiment]:
        """Those that a text names, the newest first; the server refuses one that names none."""
        query = {
            **scope("project", project),
            "called": name,
            "archived": flag(archived),
            "sort": "-id",
        }
        pages = walk(self.transport, "/experiments", ExperimentPage, query, _NAMESAKES)
        return [Experiment(self.transport, record) for record in pages]

    def list_experiments(
        self,
        *,
        project: Project | str | int | None = None,
        name: str | None = None,
        labels: str | Sequence[str] | None = None,
        state: str | Sequence[str] | None = None,
        user: str | None = None,
        archived: bool | None = False,
        sort_by: str = "id",
        limit: int | None = None,
    ) -> Listing[Experiment]:
        """Experiments that match, lazily, a page at a time; `sort_by="-created"` is newest first.

        ```python
        for experiment in wl.list_experiments(state="SUCCEEDED", sort_by="-created"):
            print(experiment.name, experiment.trial_count)
        ```

        Args:
            project: the project they are of, its id or its name: `"vision"`, or `"lab/vision"`.
            name: what they are called.
            labels: labels all of which they have.
            state: one state, or several: EMPTY, RUNNING, SUCCEEDED, FAILED, STOPPED.
            user: who submitted at least one of their trials.
            archived: whether archived ones, and those of archived projects, are meant: `True` for
                only them, `None` for all.
            sort_by: `id`, `name` or `created`; with a `-` before it, downwards.
            limit: how many at most.
        """
        query = {
            **scope("project", project),
            "name": name,
            "labels": label_query(labels),
            "state": words("state", state, str.upper),
            "user": user,
            "archived": flag(archived),
            "sort": sort_by,
        }
        pages = walk(self.transport, "/experiments", ExperimentPage, query, limit)
        return pages.each(lambda record: Experiment(self.transport, record))


def _ambiguous(name: str, named: list[Experiment]) -> Conflict:
    """A name that several experiments have: which they are, the newest first."""
    import time

    from windlass.model.quantities import format_duration

    now = time.time()
    told = []
    for each in named[: _NAMESAKES - 1]:
        count = "1 trial" if each.trial_count == 1 else f"{each.trial_count} trials"
        age = format_duration(max(now - each.created, 0))
        told.append(f"{each.id}: {count} in {each.project}, made {age} ago")
    newest, lines = named[0].id, "\n".join(told)
    more = len(named) == _NAMESAKES
    number = f"more than {_NAMESAKES - 1}" if more else str(len(named))
    rest = "\nand others; see: windlass ls --experiments" if more else ""
    return Conflict(
        f"There are {number} experiments called {name!r}.",
        hint=f"Ask for one by its id, as in wl.get_experiment({newest}) or windlass ls -e {newest}:"
        f"\n{lines}{rest}",
    )
