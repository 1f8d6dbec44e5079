"""Checks that no other user can change or replace a directory, as ssh does for its own files.

Anyone who can write to a home can run code as the home's owner, because the owner's programs
unpickle values from it. The home also contains the environment variables of trials. Before Windlass
uses a home, it therefore checks the owner and mode of the home and of every parent directory.
"""

from __future__ import annotations

import os
import stat

from windlass.model.errors import ServerError

TRUSTED_PARENT = "WINDLASS_TRUSTED_PARENT"  # this directory and its parents are not checked
_ROOT = 0  # the user id of root, and the group id of the root group, whose members can become root
_MOST_LINKS = 40  # the same limit as in the Linux kernel


def check_private(path: str) -> None:
    """Raise an error unless only this user and root can change a directory.

    The directory need not exist.

    >>> check_private("/etc/windlass")
    """
    trusted = os.path.realpath(os.environ[TRUSTED_PARENT]) if TRUSTED_PARENT in os.environ else ""
    steps, is_complete = _walk(path)
    if is_complete and stat.S_ISDIR(steps[-1][1].st_mode):
        _check_own(path, steps.pop()[1])
    for step, status in steps:
        if not _is_above(step, trusted):
            _check_parent(path, step, status)


def _check_own(path: str, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise _refusal(
            path,
            f"It belongs to {_user(status.st_uid)}, and you are {_user(os.geteuid())}",
            "Set WINDLASS_HOME to a directory of yours.",
        )
    if not _others_can_write(status):
        return
    if not os.listdir(path):
        os.chmod(path, 0o700)  # the directory is empty, so nobody has put anything into it
    if os.listdir(path):
        raise _refusal(
            path,
            f"Other users can write to it (mode {stat.S_IMODE(status.st_mode):04o})",
            f"If nobody else has changed it: chmod go-w {path}\n"
            "Otherwise set WINDLASS_HOME to a new directory.",
        )


def _check_parent(path: str, step: str, status: os.stat_result) -> None:
    """Check a directory or link on the path to the home.

    A user who can change this directory or link can replace the home.
    """
    way_out = (
        "Or set WINDLASS_HOME to a directory below your own.\n"
        f"If only you can reach {step}, for example in a container: {TRUSTED_PARENT}={step}"
    )
    if status.st_uid not in (_ROOT, os.geteuid()) and not _is_unmapped(status.st_uid):
        raise _refusal(
            path,
            f"{step} belongs to {_user(status.st_uid)}, who could replace what is below it",
            f"Change its owner.\n{way_out}",
        )
    is_link = stat.S_ISLNK(status.st_mode)
    if is_link or status.st_mode & stat.S_ISVTX or not _others_can_write(status):
        return
    raise _refusal(
        path,
        f"Other users can write to {step} (mode {stat.S_IMODE(status.st_mode):04o}), "
        "and could replace what is below it",
        f"Take the permission away: chmod go-w {step}\n{way_out}",
    )


def _refusal(path: str, why: str, hint: str) -> ServerError:
    return ServerError(
        f"The home {path} is not safe to use. {why}. Another user could read your secrets and run "
        "programs as you.",
        hint=hint,
    )


def _walk(path: str) -> tuple[list[tuple[str, os.stat_result]], bool]:
    """Return all directories and links that the kernel visits when it resolves a path.

    The boolean is True if the whole path exists.

    >>> steps, is_complete = _walk("/etc/../usr/missing")
    >>> [step for step, _ in steps], is_complete
    (['/', '/etc', '/usr'], False)
    """
    current, names, links = "/", path.split("/")[::-1], 0
    steps = [(current, os.lstat(current))]
    while names:
        name = names.pop()
        if name in ("", "."):
            continue
        if name == "..":
            current = os.path.dirname(current)
            continue
        step = os.path.join(current, name)
        try:
            status = os.lstat(step)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return steps, False
        steps.append((step, status))
        if not stat.S_ISLNK(status.st_mode):
            current = step
            continue
        links += 1
        if links > _MOST_LINKS:
            return steps, False
        target = os.readlink(step)
        current = "/" if target.startswith("/") else current
        names += target.split("/")[::-1]
    return steps, True


def _is_above(step: str, trusted: str) -> bool:
    """Return True if `step` is the directory `trusted` or one of its parents.

    >>> [_is_above(step, "/data/me") for step in ("/data", "/data/me", "/data/me/wl", "/dat")]
    [True, True, False, False]
    """
    return trusted == step or trusted.startswith(step.rstrip("/") + "/")


def _others_can_write(status: os.stat_result) -> bool:
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _is_own_group(status.st_gid)


def _is_own_group(gid: int) -> bool:
    """Return True if a group has no members except this user and root.

    Many systems give each user a private group named after the user, and let this group write to
    new directories.
    """
    import grp
    import pwd

    if gid == _ROOT:
        return True
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    is_private = user.pw_gid == gid and group.gr_name == user.pw_name
    return is_private and not {*group.gr_mem} - {user.pw_name, "root"}


def _is_unmapped(uid: int) -> bool:
    """Return True if a user is unknown in this process's user namespace.

    In a container, the kernel shows the same user id for all unknown users, including the root user
    outside the container.
    """
    try:
        with open("/proc/self/uid_map") as file:
            ranges = [[int(number) for number in line.split()] for line in file]
    except (OSError, ValueError):
        return False
    return not any(first <= uid < first + count for first, _, count in ranges)


def _user(uid: int) -> str:
    import pwd

    try:
        return f"{pwd.getpwuid(uid).pw_name!r}"
    except KeyError:
        return f"user {uid}"
