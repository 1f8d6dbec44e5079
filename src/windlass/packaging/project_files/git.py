"""Reads a git repository's state: commit, branch, uncommitted changes and ignored paths."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from windlass.model.records import Git
from windlass.packaging.project_files.ignore import ALWAYS_IGNORED, ALWAYS_IGNORED_ENDINGS

if TYPE_CHECKING:
    import subprocess

_STATUS = (
    "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all",
    "--ignored=matching", "--no-renames",
)  # fmt: skip
_TRACKED_IGNORED = ("ls-files", "-z", "--cached", "--ignored", "--exclude-standard")
_PATIENCE = 60.0
_FIELDS = {
    b"1 ": 8,
    b"2 ": 9,
    b"u ": 10,
    b"? ": 1,
}  # number of fields before the path, by kind of record


class GitCall:
    """A git command that runs in the background until its output is requested."""

    def __init__(
        self, folder: str, arguments: Sequence[str], *, stdin: bytes = b"", fine: int = 0
    ) -> None:
        self._output: bytes | None = None
        self._fine = fine  # the highest exit code that counts as success
        self._process = _start(folder, arguments, stdin)

    def output(self) -> bytes | None:
        """Wait for the command and return its output, or None if git is missing or failed."""
        if self._process is not None:
            import subprocess

            process, self._process = self._process, None
            try:
                output, _ = process.communicate(timeout=_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
            else:
                self._output = output if 0 <= process.returncode <= self._fine else None
        return self._output


class GitStatus:
    """A git working tree's state.

    Git runs at most once. `folder` must be a repository's root. For any other folder, the state is
    None, so that a repository in a parent folder, such as a home directory, is never scanned.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._call: GitCall | None = None
        self.is_begun = False
        self._state: Git | None = None
        self._keep: Callable[[Git], None] | None = None

    def begin(self) -> None:
        """Start git's status command, so that it runs while this process does other work."""
        if self.is_begun:
            return
        self.is_begun = True
        if os.path.exists(os.path.join(self._folder, ".git")):
            self._call = GitCall(self._folder, _STATUS)

    def use_state(self, state: Git) -> None:
        """Use a known state of the working tree, so that git need not run."""
        self._state = state

    def on_state(self, keep: Callable[[Git], None]) -> None:
        """Set a callback that gets the working tree's git state as soon as git has reported it."""
        self._keep = keep

    def ignored(self) -> set[str] | None:
        """Return the paths that git ignores, or None if git fails.

        Paths of folders have no trailing slash.
        """
        output = self._output()
        if output is None:
            return None
        records = output.split(b"\0")
        return {os.fsdecode(record[2:].rstrip(b"/")) for record in records if record[:2] == b"! "}

    def state(self) -> Git | None:
        """Return the commit, branch and dirty flag, or None if git fails."""
        if self._state is None:
            output = self._output()
            if output is None:
                return None
            self._state = parse_status(output)
            if self._keep is not None:
                self._keep(self._state)
        return self._state

    def _output(self) -> bytes | None:
        self.begin()
        return None if self._call is None else self._call.output()


def tracked_ignored(folder: str) -> GitCall:
    """Start a git command that lists files that are tracked although they are ignored."""
    return GitCall(folder, _TRACKED_IGNORED)


def tracks_none_of(folder: str, paths: Sequence[str]) -> bool:
    """Return True only if git tracks no file at or below the given paths.

    This searches git's index for the bytes of the paths. The result may be False even if git tracks
    no such file, because the bytes may be part of other names, and because some index formats
    cannot be searched.
    """
    try:
        with open(os.path.join(git_directory(folder), "index"), "rb") as file:
            index = file.read()
    except OSError:
        return False
    is_plain = index[:4] == b"DIRC" and index[4:8] in (b"\0\0\0\2", b"\0\0\0\3")
    # The extension `link` means that some entries are in another file. With `sdir`, an entry may be
    # a whole folder.
    if not is_plain or b"link\0" in index or b"sdir\0" in index:
        return False
    names = map(os.fsencode, paths)
    return not any(name + b"\0" in index or name + b"/" in index for name in names)


def which_are_ignored(folder: str, paths: Sequence[str]) -> GitCall:
    """Start a git command that reports which of the given untracked paths are ignored.

    Paths are relative to `folder`. Pass only a few paths, because git receives all of them before
    its output is read.
    """
    stdin = b"".join(os.fsencode(path) + b"\0" for path in paths)
    return GitCall(folder, ("check-ignore", "-z", "--stdin"), stdin=stdin, fine=1)


def parse_status(output: bytes) -> Git:
    r"""Parse the output of `git status --porcelain=v2 --branch -z --no-renames`.

    Files such as `__pycache__` do not make a tree dirty, because snapshots never contain them.

    >>> parse_status(b"# branch.oid 4b825d\0# branch.head main\0? new.py\0")
    Git(commit='4b825d', branch='main', dirty=True)
    >>> parse_status(b"# branch.oid 4b825d\0# branch.head main\0? a/__pycache__/b.pyc\0")
    Git(commit='4b825d', branch='main', dirty=False)
    """
    commit = branch = ""
    dirty = False
    for record in output.split(b"\0"):
        if record.startswith(b"# branch.oid "):
            commit = record[13:].decode()
        elif record.startswith(b"# branch.head "):
            branch = record[14:].decode("utf-8", "replace")
        elif (number := _FIELDS.get(record[:2])) and not dirty:
            dirty = not is_never_packaged(record.split(b" ", number)[-1])
    return Git(
        commit="" if commit == "(initial)" else commit,
        branch="" if branch == "(detached)" else branch,
        dirty=dirty,
    )


def is_never_packaged(path: bytes) -> bool:
    """Return True if a path is in a folder that snapshots never contain, such as `__pycache__`.

    >>> is_never_packaged(b"a/__pycache__/x"), is_never_packaged(b"a/x.py")
    (True, False)
    """
    parts = os.fsdecode(path).split("/")
    return any(part in ALWAYS_IGNORED or part.endswith(ALWAYS_IGNORED_ENDINGS) for part in parts)


def rule_files(folder: str) -> list[str]:
    """Return the paths of files outside the tree that affect what git ignores.

    Some of these files may not exist.
    """
    directory = git_directory(folder)
    common = common_directory(directory)
    config_home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    files = [
        os.path.join(common, "info", "exclude"),
        os.path.join(common, "config"),
        os.path.join(directory, "config.worktree"),
        os.path.join(common, "info", "attributes"),
        os.path.expanduser("~/.gitconfig"),
        os.path.join(config_home, "git", "config"),
        os.path.join(config_home, "git", "ignore"),
        os.path.join(config_home, "git", "attributes"),
        "/etc/gitconfig",
    ]
    return list(dict.fromkeys([*files, *_named_files(folder)]))


def git_settings() -> list[tuple[str, str]]:
    """Return the environment variables that configure git or locate its configuration."""
    variables = ("HOME", "XDG_CONFIG_HOME")
    items = os.environ.items()
    return sorted(
        item for item in items if item[0] in variables or item[0].startswith("GIT_CONFIG")
    )


def git_directory(folder: str) -> str:
    """Return a working tree's git directory.

    In worktrees and submodules, `.git` is a file that contains this directory's path.
    """
    directory = os.path.join(folder, ".git")
    try:
        with open(directory, encoding="utf-8", errors="surrogateescape") as file:
            first = file.readline()
    except OSError:
        return directory
    return os.path.join(folder, first.removeprefix("gitdir:").strip())


def common_directory(directory: str) -> str:
    """Return the directory that all working trees of a repository share."""
    try:
        with open(
            os.path.join(directory, "commondir"), encoding="utf-8", errors="surrogateescape"
        ) as file:
            return os.path.normpath(os.path.join(directory, file.readline().strip()))
    except OSError:
        return directory


def _named_files(folder: str) -> list[str]:
    """Return git's configuration files and the files that they include or refer to."""
    listed = GitCall(folder, ("config", "--list", "--show-origin", "-z")).output() or b""
    fields = os.fsdecode(listed).split("\0")
    files, chosen = [], ""
    for origin, setting in zip(fields[::2], fields[1::2], strict=False):
        kind, _, file = origin.partition(":")
        name, _, value = setting.partition("\n")
        if kind == "file":
            files.append(os.path.join(folder, file))
        if kind == "file" and name.startswith("include") and name.endswith(".path"):
            named = os.path.expanduser(value)  # the file may not exist yet
            files.append(os.path.join(folder, os.path.dirname(file), named))
        if name == "core.excludesfile":
            chosen = value  # the last value applies
    if chosen:
        files.append(os.path.join(folder, os.path.expanduser(chosen)))
    return files


def _start(folder: str, arguments: Sequence[str], stdin: bytes) -> subprocess.Popen[bytes] | None:
    import subprocess

    # Inside a git hook, these variables would point git to a different repository.
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith("GIT_CONFIG")
    }
    inherited["GIT_OPTIONAL_LOCKS"] = "0"
    try:
        process = subprocess.Popen(
            ["git", "-C", folder, *arguments],
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=inherited,
        )
    except OSError:
        return None
    if process.stdin is not None:
        try:
            with process.stdin as pipe:
                pipe.write(stdin)
        except OSError:
            pass  # git ended early; its exit code shows why
        process.stdin = None
    return process
