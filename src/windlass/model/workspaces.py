"""Workspaces and projects, which contain experiments and models."""

from __future__ import annotations

import msgspec

from windlass.model.requests import Name, Text, TrialKey
from windlass.model.text.names import join_place


class WorkspaceRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A workspace, which contains projects."""

    id: int
    name: str
    created: float
    description: str = ""
    archived: bool = False
    projects: int = 0


class ProjectRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A project in a workspace, which contains experiments and models."""

    id: int
    name: str
    workspace: str
    workspace_id: int
    created: float
    description: str = ""
    archived: bool = False
    experiments: int = 0
    models: int = 0

    @property
    def place(self) -> str:
        """The project's full name: `vision` in the default workspace, or else `lab/vision`."""
        return join_place(self.workspace, self.name)


class CreateWorkspace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Request a new workspace. Repeating the request with the same key creates no second one."""

    key: TrialKey
    name: Name
    description: Text = ""
    exist_ok: bool = False  # return the existing workspace with this name, if any


class CreateProject(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Request a new project. Repeating the request with the same key creates no second one."""

    key: TrialKey
    name: Name
    workspace_id: int
    description: Text = ""
    exist_ok: bool = False


class ChangeWorkspace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Change a workspace. Omitted fields stay unchanged."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    description: Text | msgspec.UnsetType = msgspec.UNSET
    archived: bool | msgspec.UnsetType = msgspec.UNSET


class ChangeProject(ChangeWorkspace, frozen=True, kw_only=True, omit_defaults=True):
    """Change a project or move it to another workspace. Omitted fields stay unchanged."""

    workspace: Name | msgspec.UnsetType = msgspec.UNSET  # the name of the target workspace


class WorkspacePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of workspaces, with the cursor for the next page."""

    items: tuple[WorkspaceRecord, ...]
    next: str | None = None


class ProjectPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of projects, with the cursor for the next page."""

    items: tuple[ProjectRecord, ...]
    next: str | None = None
