"""The type of the file system of a path comes from the mounts of the process."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.worker.common.file_system import file_system_type, is_local

MOUNTS = """\
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 22 0:40 / /home rw,relatime shared:7 - autofs systemd-1 rw
31 30 0:41 / /home rw,relatime shared:8 master:2 - nfs4 store:/home rw,vers=4.2
32 31 0:42 / /home/ada/scratch\\040space rw - lustre mds:/scratch rw
33 22 0:43 / /homework rw - xfs /dev/sdb1 rw
34 22 0:44 / /mnt/remote rw - fuse.sshfs ada@lab: rw
a line that is not a mount
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/usr/lib", "ext4"),
        ("/home", "nfs4"),
        ("/home/ada/.windlass", "nfs4"),
        ("/home/ada/scratch space/wl", "lustre"),
        ("/homework/wl", "xfs"),
        ("/mnt/remote", "fuse.sshfs"),
        ("/mnt/remote/../local", "ext4"),
    ],
)
def test_the_longest_and_latest_mount_counts(tmp_path: Path, path: str, kind: str) -> None:
    mountinfo = tmp_path / "mountinfo"
    mountinfo.write_text(MOUNTS)
    assert file_system_type(path, str(mountinfo)) == kind
    assert is_local(kind) is (kind in ("ext4", "xfs"))


def test_a_link_leads_to_the_file_system_of_its_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/proc")
    assert file_system_type(tmp_path / "link" / "self") == "proc"


def test_a_system_without_mountinfo_has_an_unknown_type(tmp_path: Path) -> None:
    assert file_system_type("/", str(tmp_path / "missing")) == ""
