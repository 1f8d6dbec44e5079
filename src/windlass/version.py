"""Computes the version of a git checkout. A build replaces this module with a fixed version.

A commit with the tag `v0.1.0` has the version `0.1.0`. Any other commit has a development version
such as `0.1.0.dev1130+g4b53e9d2f1`, which contains the number of commits since the last tag and the
commit hash. The version ignores uncommitted changes, because each process would spend milliseconds
looking for them.
"""

import os

_FIRST = "0.1.0"  # the first release, and the version that commits before the first tag lead up to
_TAGS = "v[0-9]*"
_ARCHIVED = "$Format:%H %(describe:tags,match=v[0-9]*)$"  # `git archive` replaces this text


def _checkout_version(package: str) -> str:
    if not _ARCHIVED.startswith("$"):
        return _version(*_ARCHIVED.split(" "))
    root = os.path.dirname(os.path.dirname(package))
    try:
        git, common = _git_folders(root)
        head = _read(os.path.join(git, "HEAD"))
    except OSError:
        return _version("", "")
    # Git takes milliseconds, so the result is cached until the branch or a tag changes.
    cache = os.path.join(package, "__pycache__", "checkout-version")
    state = f"{head} {_modification_times(git, common, head)}"
    try:
        cached_state, version = _read(cache).split("\n")
    except (OSError, ValueError):
        cached_state = version = ""
    if cached_state != state:
        described = _describe(root)
        if described is None:  # git is missing, or refuses a checkout owned by another user
            return _version(_commit(git, common, head), "")
        version = _version(*described)
        _write(cache, f"{state}\n{version}")
    return version


def _version(commit: str, description: str) -> str:
    """Convert git's description of a commit to a version.

    Descriptions are `v0.1.0`, `v0.1.0-12-g4b53e9d` (12 commits after a tag), and `-1130` (no tag
    yet).
    """
    tag, *distance = description.split("-")
    number = tag.removeprefix("v")
    if number and distance[:1] in ([], ["0"]):
        return number
    if number:  # 0.1.0 becomes 0.1.1, and 0.2.0rc1 becomes 0.2.0rc2
        digits = len(number) - len(number.rstrip("0123456789"))
        number = f"{number[:-digits]}{int(number[-digits:]) + 1}"
    commits = distance[0] if distance else "0"
    return f"{number or _FIRST}.dev{commits}+{f'g{commit[:10]}' if commit else 'unknown'}"


def _git_folders(root: str) -> tuple[str, str]:
    """Return the git folder that contains HEAD, and the one that contains branches and tags.

    They differ in a worktree, because worktrees share branches and tags.
    """
    git = os.path.join(root, ".git")
    if os.path.isfile(git):
        git = os.path.join(root, _read(git).removeprefix("gitdir: "))
    try:
        return git, os.path.join(git, _read(os.path.join(git, "commondir")))
    except FileNotFoundError:
        return git, git


def _modification_times(git: str, common: str, head: str) -> str:
    """Return the modification times of all files that change with HEAD, its branch or a tag."""
    names = (head.removeprefix("ref: "), "packed-refs", "refs/tags", "reftable/tables.list")
    return " ".join(_modified(f"{folder}/{name}") for folder in (git, common) for name in names)


def _modified(path: str) -> str:
    try:
        return str(os.stat(path).st_mtime_ns)
    except OSError:
        return "-"


def _describe(root: str) -> tuple[str, str] | None:
    """Return the commit and its distance from the last tag (or the first commit if untagged)."""
    describe = ("describe", "--tags", "--long", "--always", "--abbrev=40", "--match", _TAGS)
    description = _git(root, *describe)
    if description is None:
        return None
    if "-" not in description:
        return description, f"-{_git(root, 'rev-list', '--count', 'HEAD')}"
    return description.rpartition("-g")[2], description


def _git(root: str, *arguments: str) -> str | None:
    import subprocess

    # Inside a git hook, these variables would point git to the hook's repository.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", root, *arguments], capture_output=True, text=True, env=env, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _commit(git: str, common: str, head: str) -> str:
    """Read the commit of HEAD without running git. Return "" if no plain file stores it."""
    name = head.removeprefix("ref: ")
    if name == head:
        return head
    for folder in (git, common):
        try:
            return _read(os.path.join(folder, name))
        except OSError:
            pass
    try:
        lines = _read(os.path.join(common, "packed-refs")).split("\n")
    except OSError:
        return ""
    return next((line.split(" ")[0] for line in lines if line.endswith(f" {name}")), "")


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def _write(path: str, text: str) -> None:
    own = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(own, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(own, path)
    except OSError:
        pass  # the next process asks git again


__version__ = _checkout_version(os.path.dirname(os.path.realpath(__file__)))
