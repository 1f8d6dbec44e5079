"""Making workspaces, and asking for them and their projects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.client.calls import users_call
from windlass.client.pages import Listing, flag, walk
from windlass.client.questions.asker import Asker, which
from windlass.client.scopes import scope
from windlass.client.transport import path_of

if TYPE_CHECKING:  # most that ask something ask nothing of these
    from windlass.client.places import Project, Workspace


class PlaceQuestions(Asker):
    """Workspaces and projects: made, found, listed."""

    @users_call("wl.create_workspace")
    def create_workspace(
        self, name: str, description: str = "", *, exist_ok: bool = False
    ) -> Workspace:
        """A new workspace; `exist_ok` takes the one of that name, if there is one, as it is.

        ```python
        lab = wl.create_workspace("lab", "The people in the basement.", exist_ok=True)
        wl.create_experiment("sweep", project="lab/vision")
        ```
        """
        import uuid

        from windlass.client.attributes import check_text
        from windlass.client.places import Workspace
        from windlass.model import names
        from windlass.model.places import CreateWorkspace, WorkspaceRecord

        names.check(names.proper_flaw(name, "workspace"))
        request = CreateWorkspace(
            key=uuid.uuid4().hex,  # a request that is sent twice makes one
            name=name,
            description=check_text("description", description),
            exist_ok=exist_ok,
        )
        record = self.transport.ask("POST", "/workspaces", WorkspaceRecord, body=request)
        return Workspace(self.transport, record)

    def get_workspace(self, id_or_name: int | str) -> Workspace:
        """The workspace of that name or id.

        ```python
        print(wl.get_workspace("default").project_count)
        ```
        """
        from windlass.client.places import Workspace
        from windlass.model.places import WorkspaceRecord

        path = path_of("workspaces", *which(id_or_name, "workspace"))
        return Workspace(self.transport, self.transport.ask("GET", path, WorkspaceRecord))

    def list_workspaces(
        self,
        *,
        name: str | None = None,
        archived: bool | None = False,
        sort_by: str = "id",
        limit: int | None = None,
    ) -> Listing[Workspace]:
        """Workspaces, lazily; archived ones are left out, unless `archived` is True or None.

        ```python
        print([workspace.name for workspace in wl.list_workspaces(sort_by="name")])
        ```
        """
        from windlass.client.places import Workspace
        from windlass.model.places import WorkspacePage

        query = {"name": name, "archived": flag(archived), "sort": sort_by}
        pages = walk(self.transport, "/workspaces", WorkspacePage, query, limit)
        return pages.each(lambda record: Workspace(self.transport, record))

    def get_project(self, id_or_place: int | str) -> Project:
        """The project of that id, or that a text names: `vision`, or `lab/vision`.

        ```python
        print(wl.get_project("default").experiment_count)
        ```
        """
        from windlass.client.places import Project
        from windlass.model.places import ProjectRecord

        path = path_of("projects", *which(id_or_place, "project"))
        return Project(self.transport, self.transport.ask("GET", path, ProjectRecord))

    def list_projects(
        self,
        *,
        workspace: Workspace | str | int | None = None,
        name: str | None = None,
        archived: bool | None = False,
        sort_by: str = "id",
        limit: int | None = None,
    ) -> Listing[Project]:
        """Projects, of one workspace or of all, lazily; `archived` as for workspaces.

        ```python
        for project in wl.list_projects(workspace="default"):
            print(project.place, project.experiment_count)
        ```
        """
        from windlass.client.places import Project
        from windlass.model.places import ProjectPage

        query = {
            **scope("workspace", workspace),
            "name": name,
            "archived": flag(archived),
            "sort": sort_by,
        }
        pages = walk(self.transport, "/projects", ProjectPage, query, limit)
        return pages.each(lambda record: Project(self.transport, record))
