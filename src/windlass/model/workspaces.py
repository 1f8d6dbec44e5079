"""Workspaces and projects: where experiments and models belong."""

from __future__ import annotations

import msgspec

from windlass.model.requests import Name, Text, TrialKey
from windlass.model.text.names import join_place


class WorkspaceRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A named set of projects."""

    id: int
    name: str
    created: float
    description: str = ""
    archived: bool = False
    projects: int = 0


class ProjectRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A named set of experiments and models, in a workspace."""

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
        """The text that names it: `vision`, or `lab/vision` outside the default workspace."""
        return join_place(self.workspace, self.name)


class CreateWorkspace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ask for a workspace. Sent twice with one key, it makes one."""

    key: TrialKey
    name: Name
    description: Text = ""
    exist_ok: bool = False  # then the one of that name, if there is one


class CreateProject(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ask for a project. Sent twice with one key, it makes one."""

    key: TrialKey
    name: Name
    workspace_id: int
    description: Text = ""
    exist_ok: bool = False


class ChangeWorkspace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Have other attributes; what is not given stays."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    description: Text | msgspec.UnsetType = msgspec.UNSET
    archived: bool | msgspec.UnsetType = msgspec.UNSET


class ChangeProject(ChangeWorkspace, frozen=True, kw_only=True, omit_defaults=True):
    """Have other attributes, or be in another workspace; what is not given stays."""

    workspace: Name | msgspec.UnsetType = msgspec.UNSET  # that of the name


class WorkspacePage(msgspec.Struct, frozen=True, kw_only=True):
    """Some workspaces, and where the next ones begin."""

    items: tuple[WorkspaceRecord, ...]
    next: str | None = None


class ProjectPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some projects, and where the next ones begin."""

    items: tuple[ProjectRecord, ...]
    next: str | None = None
