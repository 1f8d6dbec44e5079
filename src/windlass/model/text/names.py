"""The rules for all names, including labels and aliases.

A name is one line of 1 to 200 printable characters that are not all spaces. Names of workspaces,
projects, models and templates neither start nor end with a space. Names of workspaces and projects
contain no slash, because the slash separates the two in a full project name such as `lab/vision`.
"""

from __future__ import annotations

from windlass.model.errors import InvalidArgument, shown

LONGEST_NAME = 200
DEFAULT = "default"  # the workspace that always exists, and the project in it


def name_flaw(name: object, what: str = "name") -> str:
    """Return why a value is not a valid name or label, or "" if it is.

    >>> name_flaw("vision 2 (β)"), name_flaw("two\\nlines", "label")
    ('', "'two\\\\nlines' is not a valid label; write a string on one line")
    """
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        return f"{shown(name)} is not a valid {what}; write a string on one line"
    if len(name) > LONGEST_NAME:
        return f"a {what} has at most {LONGEST_NAME} characters; this one has {len(name)}"
    return ""


def proper_flaw(name: object, what: str) -> str:
    """Return why a value cannot name a workspace, project, model or template, or "" if it can.

    >>> proper_flaw("a/b", "project"), proper_flaw(" a", "model")
    ("'a/b' is not a valid project name: it contains a slash", "' a' is not a valid model name; \
remove the spaces at the ends")
    """
    if flaw := name_flaw(name, f"{what} name"):
        return flaw
    text = str(name)
    if text != text.strip():
        return f"{shown(name)} is not a valid {what} name; remove the spaces at the ends"
    if what in ("workspace", "project") and "/" in text:
        return f"{shown(name)} is not a valid {what} name: it contains a slash"
    return ""


def place_flaw(place: object) -> str:
    """Return why a string does not name a project, or "" if it does.

    The string may omit the workspace.

    >>> place_flaw("vision"), place_flaw("lab/vision"), place_flaw("lab/")
    ('', '', "'lab/' does not name a project; write 'vision', or 'lab/vision' with its workspace")
    """
    if not isinstance(place, str):
        return name_flaw(place, "project name")
    workspace, name = split_place(place)
    if not workspace or not name:
        meant = "write 'vision', or 'lab/vision' with its workspace"
        return f"{shown(place)} does not name a project; {meant}"
    return proper_flaw(workspace, "workspace") or proper_flaw(name, "project")


def split_place(place: str) -> tuple[str, str]:
    """Split a full project name into the workspace's and the project's name.

    >>> split_place("vision"), split_place("lab/vision")
    (('default', 'vision'), ('lab', 'vision'))
    """
    before, slash, after = place.partition("/")
    return (before, after) if slash else (DEFAULT, place)


def join_place(workspace: str, project: str) -> str:
    """Return a project's full name, which omits the default workspace.

    >>> join_place("default", "vision"), join_place("lab", "vision")
    ('vision', 'lab/vision')
    """
    return project if workspace == DEFAULT else f"{workspace}/{project}"


def check(flaw: str, where: str = "") -> None:
    """Raise InvalidArgument if `flaw` is not empty."""
    if flaw:
        first, _, rest = flaw.partition("\n")
        raise InvalidArgument(f"{where}{first}.", hint=rest or None)
