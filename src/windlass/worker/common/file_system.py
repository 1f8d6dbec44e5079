"""Determines the type of the file system that contains a path."""

from __future__ import annotations

import os
import re

MOUNTINFO = "/proc/self/mountinfo"

# File systems on this machine's disks or in its memory. All other types may be shared with other
# machines, such as nfs4, lustre, gpfs, cifs, 9p and most fuse types.
_LOCAL = frozenset({
    "apfs", "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs",
    "fuse.fuse-overlayfs", "fuseblk", "jfs", "nilfs2", "ntfs3", "overlay", "reiserfs", "tmpfs",
    "ufs", "vfat", "xfs", "zfs",
})  # fmt: skip
_ESCAPED = re.compile(r"\\([0-7]{3})")  # an escaped space or other special character in a path


def file_system_type(path: str | os.PathLike[str], mountinfo: str = MOUNTINFO) -> str:
    """Return a path's file system type as named by `mount`, or "" if it is unknown.

    >>> file_system_type("/proc")  # doctest: +SKIP
    'proc'
    """
    try:
        with open(mountinfo, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.readlines()
    except OSError:  # not on Linux
        return ""
    wanted = os.path.join(os.path.realpath(path), "")
    longest, kind = "", ""
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, described = before.split(" "), after.split(" ")
        if len(fields) < 5:
            continue
        mount = os.path.join(_ESCAPED.sub(lambda code: chr(int(code[1], 8)), fields[4]), "")
        # a later mount at the same place hides the earlier one
        if wanted.startswith(mount) and len(mount) >= len(longest):
            longest, kind = mount, described[0].strip()
    return kind


def is_local(kind: str) -> bool:
    """Return whether a file system type belongs to a single machine.

    An unknown type counts as local.

    >>> [is_local(kind) for kind in ("ext4", "nfs4", "lustre", "fuse.sshfs", "")]
    [True, False, False, False, True]
    """
    return not kind or kind in _LOCAL
