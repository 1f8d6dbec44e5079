"""Pods of several images share one folder of environments."""

from __future__ import annotations

import os
import pickle
import platform
import site
import subprocess
import sys
from pathlib import Path

import pytest
from agent_processes import Agent, RemoteSite, programs

import windlass as wl
from harness import BIN, PATIENCE
from windlass.runtimes import paths
from windlass.worker.supervise.package_environment import name_here


def another_python(image: Path) -> str:
    """An interpreter at another path, with the packages of this one."""
    argv = [sys.executable, "-m", "venv", "--without-pip", image]
    subprocess.run(argv, check=True, timeout=PATIENCE)
    [packages] = image.glob("lib/python*/site-packages")
    (packages / "own.pth").write_text("\n".join(site.getsitepackages()))
    return str(image / "bin" / "python")


def prefix_of(agent: Agent) -> str:
    """The environment that the program ran in."""
    assert agent.wait() == 0, agent.log()
    return str(pickle.loads((agent.folder / paths.RESULT).read_bytes()))


@pytest.mark.thorough
def test_images_with_different_interpreters_have_separate_environments(
    home: Path, tmp_path: Path
) -> None:
    elsewhere = RemoteSite(home, tmp_path / "elsewhere", through_tunnels=False)
    trial = wl.run(programs.look, packages=["iniconfig==1.1.1"]).submit().wait(timeout=PATIENCE)
    pythons = [sys.executable, another_python(tmp_path / "image"), sys.executable]
    environment = {
        **os.environ,  # the source of packages
        "WINDLASS_AGENT_CACHE": str(tmp_path / "cache"),
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
    }
    one, other, again = [
        prefix_of(elsewhere.run(trial, attempt, python=python, **environment))
        for attempt, python in enumerate(pythons, 2)
    ]
    assert one == again != other
    assert {Path(one).parent, Path(other).parent} == {tmp_path / "cache" / "envs"}
    elsewhere.front.close()


@pytest.mark.parametrize(
    ("of", "name", "value"),
    [
        (sys, "version_info", (3, 9, 1)),
        (sys, "executable", "/opt/conda/bin/python3"),
        (os, "uname", lambda: os.uname_result(["Linux", "pod", "6", "1", "riscv64"])),
        (platform, "libc_ver", lambda: ("glibc", "2.17")),
    ],
)
def test_an_environment_depends_on_everything_it_is_built_for(
    of: object, name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = name_here("0123")
    assert before == name_here("0123") != name_here("4567")
    monkeypatch.setattr(of, name, value)
    assert name_here("0123").startswith("0123-")
    assert name_here("0123") != before
