"""Debian packages: installed ones, and a separate apt for sources and images."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from on_kubernetes.cluster.commands import ClusterError, run

CODENAME = "bookworm"

RUNTIME = (
    "conntrack", "containerd", "containernetworking-plugins", "etcd-server", "iproute2",
    "iptables", "openssl", "runc", "socat", "util-linux",
)  # fmt: skip
BUILDING = (
    "dpkg-dev", "gcc", "golang-github-modern-go-reflect2-dev", "golang-go", "jq", "libc6-dev",
    "make", "rsync", "tar",
)  # fmt: skip


def check_machine() -> None:
    """Raise an error with the missing requirement if no cluster can run."""
    missing = []
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        missing.append("Linux on x86-64")
    if not _is_our_debian():
        missing.append(f"Debian 12 ({CODENAME}), whose packages it is made of")
    if os.geteuid() != 0:
        missing.append("root")
    if missing:
        raise ClusterError(
            f"The test cluster needs {' and '.join(missing)}.\n"
            "With another cluster the tests run anywhere: "
            "make test-kube KUBECONFIG=~/.kube/config"
        )


def install(packages: tuple[str, ...]) -> None:
    """Install missing packages on this machine."""
    missing = [name for name in packages if not _is_installed(name)]
    if not missing:
        return
    print(f"Installing {', '.join(missing)} ...", flush=True)
    # None of their services may start: run level 1 has none.
    quiet = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    command = ("apt-get", "install", "--yes", "--no-install-recommends", *missing)
    try:
        run(*command, env=quiet)
    except ClusterError:
        run("apt-get", "update", env=quiet)
        try:
            run(*command, env=quiet)
        except ClusterError as error:
            raise ClusterError(
                f"The test cluster needs these Debian packages: {' '.join(missing)}.\n{error}"
            ) from None


class Apt:
    """An apt with the machine's package sources and a separate folder, which also knows sources."""

    def __init__(self, folder: Path) -> None:
        self._options: list[str] = []
        for name, setting in {
            "sources.d": "Dir::Etc::SourceParts",
            "lists": "Dir::State::Lists",
            "cache": "Dir::Cache",
        }.items():
            (folder / name).mkdir(parents=True, exist_ok=True)
            self._options += ["-o", f"{setting}={folder / name}"]
        (folder / "lists" / "partial").mkdir(exist_ok=True)
        (folder / "nothing-installed").write_text("")
        self._options += [
            "-o", "Dir::Etc::SourceList=/dev/null",
            "-o", f"Dir::State::Status={folder / 'nothing-installed'}",
            "-o", "APT::Sandbox::User=root",
        ]  # fmt: skip
        _write_sources(folder / "sources.d")
        self._archives = folder / "cache" / "archives"
        run("apt-get", *self._options, "update")

    def source(self, package: str, folder: Path) -> None:
        """Download the source of a package into a folder."""
        command = ("apt-get", *self._options, "source", "--download-only", package)
        folder.mkdir(parents=True, exist_ok=True)
        run(*command, cwd=folder)

    def unpack(self, packages: tuple[str, ...], folder: Path) -> None:
        """Unpack packages and their dependencies into a folder without running their scripts."""
        shutil.rmtree(self._archives, ignore_errors=True)
        (self._archives / "partial").mkdir(parents=True)
        run(
            "apt-get", *self._options, "-o", "Debug::NoLocking=1", "install", "--yes",
            "--no-install-recommends", "--download-only", *packages,
        )  # fmt: skip
        for archive in sorted(self._archives.glob("*.deb")):
            # `dpkg-deb --extract` would replace the links /bin and /lib by folders.
            extract = 'dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink -C "$2"'
            run("bash", "-o", "pipefail", "-c", extract, "bash", archive, folder)


def _is_our_debian() -> bool:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return False
    return release.get("ID") == "debian" and release.get("VERSION_CODENAME") == CODENAME


def _is_installed(package: str) -> bool:
    done = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout == "installed"


def _write_sources(folder: Path) -> None:
    """Copy the machine's Debian sources, both for packages and for source packages."""
    etc = Path("/etc/apt")
    for path in [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]:
        if not path.is_file() or path.suffix not in (".list", ".sources"):
            continue
        convert = with_sources_822 if path.suffix == ".sources" else with_sources
        (folder / path.name).write_text(convert(path.read_text()))


def with_sources(text: str) -> str:
    """Return the one-line sources of this Debian, each for packages and for source packages.

    >>> print(with_sources("deb http://a/debian bookworm main\\ndeb http://b/x any main"))
    deb http://a/debian bookworm main
    deb-src http://a/debian bookworm main
    """
    lines = []
    for line in text.splitlines():
        if match := re.match(rf"deb\s+((?:\[.*?\]\s+)?\S+\s+{CODENAME}\S*\s.*)", line):
            lines += [f"deb {match[1]}", f"deb-src {match[1]}"]
    return "\n".join(lines)


def with_sources_822(text: str) -> str:
    """Return the deb822 sources of this Debian, each for packages and for source packages.

    >>> print(with_sources_822("Types: deb\\nURIs: http://a\\nSuites: bookworm"))
    Types: deb deb-src
    URIs: http://a
    Suites: bookworm
    """
    paragraphs = re.split(r"\n\s*\n", text.strip())
    ours = [
        paragraph
        for paragraph in paragraphs
        if re.search(rf"(?mi)^Suites:.*\b{CODENAME}", paragraph)
    ]
    return "\n\n".join(
        re.sub(r"(?mi)^Types:.*$", "Types: deb deb-src", paragraph) for paragraph in ours
    )
