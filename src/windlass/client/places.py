"""Workspaces and projects as users hold them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from windlass.client.attributes import check_text
from windlass.client.calls import users_call
from windlass.client.pages import Listing
from windlass.client.resources import Archivable
from windlass.model import names
from windlass.model.places import (
    ChangeProject,
    ChangeWorkspace,
    CreateProject,
    ProjectRecord,
    WorkspaceRecord,
)

if TYPE_CHECKING:
    from typing_extensions import Self

    from windlass.client.experiments import Experiment


class Workspace(Archivable[WorkspaceRecord]):
    """A named set of projects: a team's, a topic's.

    ```python
    lab = wl.create_workspace("lab", exist_ok=True)
    vision = lab.create_project("vision", exist_ok=True)
    print([project.name for project in lab.list_projects()])
    ```

    One called `default` always exists.
    """

    _nouns = "workspaces"
    _kind = WorkspaceRecord
    _changes = ChangeWorkspace

    @property
    def description(self) -> str:
        """What it is for."""
        return self._record.description

    @property
    def project_count(self) -> int:
        """How many projects it has."""
        return self._record.projects

    def set_name(self, name: str) -> Self:
        """Call it otherwise; no other has that name. All that names its projects changes along."""
        names.check(names.proper_flaw(name, "workspace"))
        return self._change(name=name)

    def set_description(self, text: str) -> Self:
        """Say what it is for."""
        return self._change(description=check_text("description", text))

    @users_call("workspace.create_project")
    def create_project(
        self, name: str, description: str = "", *, exist_ok: bool = False
    ) -> Project:
        """A new project in it; `exist_ok` takes the one of that name, if there is one, as it is.

        ```python
        wl.get_workspace("default").create_project("vision", "Whatever has eyes.", exist_ok=True)
        ```
        """
        names.check(names.proper_flaw(name, "project"))
        request = CreateProject(
            key=uuid.uuid4().hex,  # a request that is sent twice makes one
            workspace_id=self.id,
            name=name,
            description=check_text("description", description),
            exist_ok=exist_ok,
        )
        record = self._transport.ask("POST", "/projects", ProjectRecord, body=request)
        return Project(self._transport, record)

    def list_projects(
        self, *, archived: bool | None = False, sort_by: str = "id", limit: int | None = None
    ) -> Listing[Project]:
        """Its projects, lazily; archived ones are left out, unless `archived` is True or None."""
        from windlass.client.session import Client

        return Client.over(self._transport).list_projects(
            workspace=self, archived=archived, sort_by=sort_by, limit=limit
        )

    def __repr__(self) -> str:
        many = "1 project" if self.project_count == 1 else f"{self.project_count} projects"
        return f"<Workspace {self.name}: {many}>"


class Project(Archivable[ProjectRecord]):
    """A named set of experiments and models, in a workspace.

    ```python
    wl.create_experiment("sweep", project="vision")  # makes the project, if there is none
    vision = wl.get_project("vision")
    print(vision.place, vision.experiment_count)
    ```

    Elsewhere it is named by its `place`: `vision`, or `lab/vision` outside the default workspace.
    """

    _nouns = "projects"
    _kind = ProjectRecord
    _changes = ChangeProject

    @property
    def place(self) -> str:
        """The text that names it: `vision`, or `lab/vision` outside the default workspace."""
        return self._record.place

    @property
    def workspace(self) -> str:
        """The name of the workspace it is in."""
        return self._record.workspace

    @property
    def description(self) -> str:
        """What it is for."""
        return self._record.description

    @property
    def experiment_count(self) -> int:
        """How many experiments it holds, archived ones too."""
        return self._record.experiments

    @property
    def model_count(self) -> int:
        """How many models it holds, archived ones too."""
        return self._record.models

    def set_name(self, name: str) -> Self:
        """Call it otherwise; no other in its workspace has that name.

        Experiments, trials and models tell the new one from now on.

        ```python
        wl.get_workspace("default").create_project("eyes", exist_ok=True).set_name("sight").delete()
        ```
        """
        names.check(names.proper_flaw(name, "project"))
        return self._change(name=name)

    def set_description(self, text: str) -> Self:
        """Say what it is for."""
        return self._change(description=check_text("description", text))

    def move_to(self, workspace: Workspace | str) -> Self:
        """Have it, with all it holds, in another workspace, which exists."""
        name: Any = workspace.refresh().name if isinstance(workspace, Workspace) else workspace
        names.check(names.proper_flaw(name, "workspace"))
        return self._change(workspace=name)

    def delete(self) -> None:
        """Delete it, if it holds nothing; else `wl.Conflict` says how much it holds."""
        super().delete()

    def list_experiments(self, **filters: Any) -> Listing[Experiment]:
        """Its experiments, lazily; the filters are those of `wl.list_experiments`."""
        from windlass.client.session import Client

        asker = Client.over(self._transport)
        return asker.list_experiments(project=self, **filters)

    def __repr__(self) -> str:
        count = self.experiment_count
        return f"<Project {self.place}: {count} experiment{'' if count == 1 else 's'}>"
