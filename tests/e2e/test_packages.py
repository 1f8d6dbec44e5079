"""`packages=`: an environment made by uv on top of the caller's, made once."""

from __future__ import annotations

import os
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from steps import look, newest

import windlass as wl
from conftest import Project


def test_packages_are_there_on_top_of_what_is_installed_here_and_are_installed_once(
    home: Path, project: Project
) -> None:
    assert metadata.version("iniconfig") != "1.1.1"
    wanting = wl.run(packages=["iniconfig==1.1.1"])(look)
    first = wanting.submit()
    version, folder, numpy, prefix = first.result()
    assert version == "1.1.1"
    assert Path(prefix).parent == home / "envs"
    assert folder.startswith(prefix)
    assert numpy == np.__version__, "what the caller has stays importable"
    assert first.record.spec.python.packages == ("iniconfig==1.1.1",)
    assert list(first.logs(search="iniconfig")), "what uv did is in the log"
    made = os.stat(Path(prefix) / "complete").st_mtime_ns

    second = wanting.submit()
    assert second.result() == (version, folder, numpy, prefix)
    assert list(second.logs()) == []

    # The same requirement in a file comes to the same environment.
    project.write("requirements.txt", "# pinned\niniconfig == 1.1.1\n")
    project.write(
        "train.py",
        """
        import sys

        import windlass as wl


        @wl.run(packages="requirements.txt")
        def train():
            import iniconfig

            return sys.prefix


        print(train())
        """,
    )
    done = project.python("train.py")
    assert (done.returncode, done.stdout) == (0, f"{prefix}\n"), done.stderr
    assert os.stat(Path(prefix) / "complete").st_mtime_ns == made
    assert len([each for each in (home / "envs").iterdir() if each.is_dir()]) == 1

    # Without `packages=` nothing of it is seen.
    plain = wl.run(look)()
    assert plain[0] == metadata.version("iniconfig")
    assert plain[3] == sys.prefix


@pytest.mark.parametrize(
    ("packages", "problem"),
    [
        (["windlass-has-no-such-package==1.0"], "windlass-has-no-such-package"),
        (["iniconfig==1.1.1", "iniconfig==2.0.0"], "iniconfig==2.0.0"),
        ("no-such-file.txt", "no-such-file.txt cannot be read"),
    ],
    ids=["unknown", "contradictory", "no-file"],
)
def test_what_cannot_be_installed_is_refused_before_anything_is_stored(
    home: Path, packages: list[str] | str, problem: str
) -> None:
    before = newest()
    wanting = wl.run(packages=packages)(look)
    for call in (wanting, wanting.submit):
        with pytest.raises(wl.InvalidArgument) as caught:
            call()
        assert problem in str(caught.value)
    assert newest() == before
