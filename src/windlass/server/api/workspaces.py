"""Routes for workspaces and projects: create, change, list, get and delete."""

from __future__ import annotations

from windlass.model.requests import API
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
from windlass.server.services import Services
from windlass.server.web.query_types import Cursor, Limit, MaybeText, Text
from windlass.server.web.routing import Route


async def list_workspaces(
    services: Services,
    name: MaybeText = None,
    archived: bool | None = None,
    sort: Text = "id",
    cursor: Cursor | None = None,
    limit: Limit = 100,
) -> WorkspacePage:
    """List the workspaces that match all filters, in sorted pages."""
    return await services.workspaces.list_workspaces(
        name=name, archived=archived, sort=sort, cursor=cursor, limit=limit
    )


async def create_workspace(services: Services, data: CreateWorkspace) -> WorkspaceRecord:
    """Create a workspace. Its name must be unique."""
    return await services.workspaces.create_workspace(data)


async def get_workspace(services: Services, workspace_id: int) -> WorkspaceRecord:
    """Return a workspace by id."""
    return await services.workspaces.workspace(workspace_id)


async def find_workspace(services: Services, name: str) -> WorkspaceRecord:
    """Return a workspace by name. If no workspace has this name, a number is taken as an id."""
    return await services.workspaces.workspace(name)


async def change_workspace(
    services: Services, workspace_id: int, data: ChangeWorkspace
) -> WorkspaceRecord:
    """Rename, describe, archive or unarchive a workspace."""
    return await services.workspaces.change_workspace(workspace_id, data)


async def delete_workspace(services: Services, workspace_id: int) -> None:
    """Delete a workspace that has no projects, or do nothing if it does not exist."""
    await services.workspaces.delete_workspace(workspace_id)


async def list_projects(
    services: Services,
    workspace: MaybeText = None,
    workspace_id: int | None = None,
    name: MaybeText = None,
    archived: bool | None = None,
    sort: Text = "id",
    cursor: Cursor | None = None,
    limit: Limit = 100,
) -> ProjectPage:
    """List the projects that match all filters, in sorted pages."""
    return await services.workspaces.list_projects(
        workspace=workspace, workspace_id=workspace_id, name=name, archived=archived, sort=sort,
        cursor=cursor, limit=limit,
    )  # fmt: skip


async def create_project(services: Services, data: CreateProject) -> ProjectRecord:
    """Create a project. Its name must be unique in its workspace."""
    return await services.workspaces.create_project(data)


async def get_project(services: Services, project_id: int) -> ProjectRecord:
    """Return a project by id."""
    return await services.workspaces.project(project_id)


async def find_project(services: Services, name: str) -> ProjectRecord:
    """Return a project by its name, such as `vision` or `lab/vision`.

    If no project has this name, a number is taken as an id.
    """
    return await services.workspaces.project(name)


async def change_project(services: Services, project_id: int, data: ChangeProject) -> ProjectRecord:
    """Rename, describe, move, archive or unarchive a project."""
    return await services.workspaces.change_project(project_id, data)


async def delete_project(services: Services, project_id: int) -> None:
    """Delete an empty project. The request also succeeds if the project does not exist."""
    await services.workspaces.delete_project(project_id)


_WORKSPACES, _PROJECTS = f"{API}/workspaces", f"{API}/projects"
_WORKSPACE, _PROJECT = f"{_WORKSPACES}/{{workspace_id:int}}", f"{_PROJECTS}/{{project_id:int}}"
routes = [
    Route("POST", _WORKSPACES, create_workspace, status=201),
    Route("GET", _WORKSPACES, list_workspaces),
    Route("GET", _WORKSPACE, get_workspace),
    Route("PATCH", _WORKSPACE, change_workspace),
    Route("DELETE", _WORKSPACE, delete_workspace),
    Route("GET", f"{_WORKSPACES}/named/{{name:path}}", find_workspace),
    Route("POST", _PROJECTS, create_project, status=201),
    Route("GET", _PROJECTS, list_projects),
    Route("GET", _PROJECT, get_project),
    Route("PATCH", _PROJECT, change_project),
    Route("DELETE", _PROJECT, delete_project),
    Route("GET", f"{_PROJECTS}/named/{{name:path}}", find_project),
]
