"""What things may be called: one rule for every name, label and alias, wherever it is checked.

A name is one line of 1 to 200 printable characters that are not all spaces. Names of workspaces,
projects, models and templates have no space at either end; those of workspaces and projects
hold no slash, which joins the two: `lab/vision`.
"""

from __future__ import annotations

from windlass.model.errors import InvalidArgument, shown

LONGEST_NAME = 200
DEFAULT = "default"  # the workspace, and in it the project, that there always are


def name_flaw(name: object, what: str = "name") -> str:
    """What keeps something from being a name, or a label; empty if nothing does.

    >>> name_flaw("vision 2 (β)"), name_flaw("two\\nlines", "label")
    ('', "'two\\\\nlines' is no label; write a text on one line")
    """
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        return f"{shown(name)} is no {what}; write a text on one line"
    if len(name) > LONGEST_NAME:
        return f"a {what} has at most {LONGEST_NAME} characters, this one {len(name)}"
    return ""


def proper_flaw(name: object, what: str) -> str:
    """What keeps something from being the name of a workspace, a project, a model or a template.

    >>> proper_flaw("a/b", "project"), proper_flaw(" a", "model")
    ("'a/b' is no name of a project: it holds a slash", "' a' is no model; leave the spaces out")
    """
    if flaw := name_flaw(name, what):
        return flaw
    text = str(name)
    if text != text.strip():
        return f"{shown(name)} is no {what}; leave the spaces out"
    if what in ("workspace", "project") and "/" in text:
        return f"{shown(name)} is no name of a {what}: it holds a slash"
    return ""


def place_flaw(place: object) -> str:
    """What keeps a text from naming a project, alone or with its workspace.

    >>> place_flaw("vision"), place_flaw("lab/vision"), place_flaw("lab/")
    ('', '', "'lab/' names no project; write 'vision', or 'lab/vision' with its workspace")
    """
    if not isinstance(place, str):
        return name_flaw(place, "project")
    workspace, name = split_place(place)
    if not workspace or not name:
        meant = "write 'vision', or 'lab/vision' with its workspace"
        return f"{shown(place)} names no project; {meant}"
    return proper_flaw(workspace, "workspace") or proper_flaw(name, "project")


def split_place(place: str) -> tuple[str, str]:
    """The workspace and the project that a text names.

    >>> split_place("vision"), split_place("lab/vision")
    (('default', 'vision'), ('lab', 'vision'))
    """
    before, slash, after = place.partition("/")
    return (before, after) if slash else (DEFAULT, place)


def join_place(workspace: str, project: str) -> str:
    """The text that names a project; that of the default workspace needs no more than its name.

    >>> join_place("default", "vision"), join_place("lab", "vision")
    ('vision', 'lab/vision')
    """
    return project if workspace == DEFAULT else f"{workspace}/{project}"


def check(flaw: str, where: str = "") -> None:
    """Refuse what has a flaw."""
    if flaw:
        first, _, rest = flaw.partition("\n")
        raise InvalidArgument(f"{where}{first}.", hint=rest or None)
