"""Defines `wl.Workspace` and `wl.Project`, which group experiments and models."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from windlass.client.arguments.metadata_checks import check_text
from windlass.client.arguments.user_calls import users_call
from windlass.client.connection.pages import Listing
from windlass.client.resources.base import Archivable, get_resource, list_resources
from windlass.model.text import names
from windlass.model.workspaces import (
    ChangeProject,
    ChangeWorkspace,
    CreateProject,
    CreateWorkspace,
    ProjectPage,
    ProjectRecord,
    WorkspacePage,
    WorkspaceRecord,
)

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from windlass.client.arguments.filters import Filters
    from windlass.client.connection.transport import Transport
    from windlass.client.resources.experiment.experiment import Experiment


class Workspace(Archivable[WorkspaceRecord]):
    """A named set of projects, for a team or a topic.

    ```python
    lab = wl.create_workspace("lab", exist_ok=True)
    vision = lab.create_project("vision", exist_ok=True)
    print([project.name for project in lab.list_projects()])
    ```

    The workspace `default` always exists.
    """

    _collection = "workspaces"
    _record_type = WorkspaceRecord
    _change_type = ChangeWorkspace

    @property
    def description(self) -> str:
        """The description of the workspace."""
        return self._record.description

    @property
    def project_count(self) -> int:
        """The number of projects in the workspace."""
        return self._record.projects

    def set_name(self, name: str) -> Self:
        """Rename the workspace. Workspace names are unique.

        References to its projects change accordingly.
        """
        names.check(names.proper_flaw(name, "workspace"))
        return self._change(name=name)

    def set_description(self, text: str) -> Self:
        """Replace the description of the workspace."""
        return self._change(description=check_text("description", text))

    @users_call("workspace.create_project")
    def create_project(
        self, name: str, description: str = "", *, exist_ok: bool = False
    ) -> Project:
        """Create a project in the workspace. With `exist_ok`, return an existing project instead.

        ```python
        wl.get_workspace("default").create_project("vision", "Whatever has eyes.", exist_ok=True)
        ```
        """
        names.check(names.proper_flaw(name, "project"))
        request = CreateProject(
            key=uuid.uuid4().hex,  # makes a retried request harmless
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
        """List the workspace's projects.

        By default, archived projects are omitted. `archived=True` lists only those, and
        `archived=None` lists all projects.
        """
        return list_projects(
            self._transport, workspace=self, archived=archived, sort_by=sort_by, limit=limit
        )

    def __repr__(self) -> str:
        many = "1 project" if self.project_count == 1 else f"{self.project_count} projects"
        return f"<Workspace {self.name}: {many}>"


class Project(Archivable[ProjectRecord]):
    """A named set of experiments and models in a workspace.

    ```python
    wl.create_experiment("sweep", project="vision")  # makes the project, if there is none
    vision = wl.get_project("vision")
    print(vision.place, vision.experiment_count)
    ```

    Everywhere else, a project is identified by its `place`: `vision` for a project in the default
    workspace, or `lab/vision` for a project in the workspace `lab`.
    """

    _collection = "projects"
    _record_type = ProjectRecord
    _change_type = ChangeProject

    @property
    def place(self) -> str:
        """The project's name, prefixed with its workspace unless that is the default workspace.

        For example, `vision` or `lab/vision`.
        """
        return self._record.place

    @property
    def workspace(self) -> str:
        """The name of the project's workspace."""
        return self._record.workspace

    @property
    def description(self) -> str:
        """The project's description."""
        return self._record.description

    @property
    def experiment_count(self) -> int:
        """The project's number of experiments, including archived ones."""
        return self._record.experiments

    @property
    def model_count(self) -> int:
        """The project's number of models, including archived ones."""
        return self._record.models

    def set_name(self, name: str) -> Self:
        """Rename the project. Project names are unique within a workspace.

        From now on, experiments, trials and models show the new name.

        ```python
        wl.get_workspace("default").create_project("eyes", exist_ok=True).set_name("sight").delete()
        ```
        """
        names.check(names.proper_flaw(name, "project"))
        return self._change(name=name)

    def set_description(self, text: str) -> Self:
        """Replace the project's description."""
        return self._change(description=check_text("description", text))

    def move_to(self, workspace: Workspace | str) -> Self:
        """Move the project, including its experiments and models, to another workspace.

        That workspace must exist.
        """
        name: Any = workspace.refresh().name if isinstance(workspace, Workspace) else workspace
        names.check(names.proper_flaw(name, "workspace"))
        return self._change(workspace=name)

    def delete(self) -> None:
        """Delete an empty project.

        If the project is not empty, raise `wl.Conflict`, which lists its contents.
        """
        super().delete()

    def list_experiments(self, **filters: Any) -> Listing[Experiment]:
        """List the project's experiments, with the same filters as `wl.list_experiments`."""
        from windlass.client.client import Client

        return Client.over(self._transport).list_experiments(project=self, **filters)

    def __repr__(self) -> str:
        count = self.experiment_count
        return f"<Project {self.place}: {count} experiment{'' if count == 1 else 's'}>"


def create_workspace(
    transport: Transport, name: str, description: str, *, exist_ok: bool
) -> Workspace:
    """Create a workspace, a named set of projects."""
    names.check(names.proper_flaw(name, "workspace"))
    request = CreateWorkspace(
        key=uuid.uuid4().hex,  # makes a retried request harmless
        name=name,
        description=check_text("description", description),
        exist_ok=exist_ok,
    )
    record = transport.ask("POST", "/workspaces", WorkspaceRecord, body=request)
    return Workspace(transport, record)


def get_workspace(transport: Transport, id_or_name: int | str) -> Workspace:
    """Fetch a workspace by its id or name."""
    return get_resource(transport, Workspace, id_or_name, "workspace")


def list_workspaces(
    transport: Transport, *, sort_by: str, limit: int | None, **filters: Unpack[Filters]
) -> Listing[Workspace]:
    """List the workspaces that match the filters, fetching pages on demand."""
    return list_resources(
        transport, Workspace, WorkspacePage, sort_by=sort_by, limit=limit, **filters
    )


def get_project(transport: Transport, id_or_name: int | str) -> Project:
    """Fetch a project by its id or name."""
    return get_resource(transport, Project, id_or_name, "project")


def list_projects(
    transport: Transport, *, sort_by: str, limit: int | None, **filters: Unpack[Filters]
) -> Listing[Project]:
    """List the projects that match the filters, fetching pages on demand."""
    return list_resources(transport, Project, ProjectPage, sort_by=sort_by, limit=limit, **filters)
