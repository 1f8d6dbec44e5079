"""Environments for `packages=`, created by the real uv."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_runtime import World, own_python

from windlass.model.job import Python
from windlass.model.status import Phase


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "home")
    yield world
    world.close()


def python_with(world: World, lock: str) -> Python:
    own = own_python()
    return Python(executable=own.executable, version=own.version, lock=world.blob(lock.encode()))


def test_packages_are_installed_once_and_come_before_those_of_the_author(world: World) -> None:
    script = """
        import importlib.metadata, iniconfig, msgspec, sys
        print(importlib.metadata.version("iniconfig"), iniconfig.__file__)
    """
    python = python_with(world, "iniconfig==2.0.0\n    # via -r requirements.in\n")
    job = world.start(world.script(script, python=python))
    world.wait(
        job,
        lambda seen: seen.message == "installing 1 package" or seen.phase.is_final,
        "it installs",
    )
    assert world.end_of(job).exit_code == 0, world.lines(job)
    lines = world.lines(job)
    assert any(stream == "stderr" and "iniconfig==2.0.0" in text for stream, text in lines)
    assert lines[-1][1].startswith(f"2.0.0 {world.home / 'envs'}")

    again = world.script(script, python=python)
    assert world.run(again).exit_code == 0
    assert [stream for stream, _ in world.lines(again)] == ["stdout"]

    function = world.call(("mod", "f"), files={"mod.py": "import iniconfig\ndef f(): return 5"},
                          python=python)  # fmt: skip
    assert world.run(function).exit_code == 0, world.lines(function)
    assert world.value(function) == 5


def test_unavailable_packages_are_a_failure_to_start(world: World) -> None:
    python = python_with(world, "./no-such-wheel-1.0-py3-none-any.whl\n")
    job = world.script("print('ran')", python=python)
    ended = world.run(job)
    assert (ended.phase, ended.reason) == (Phase.FAILED, "StartFailed")
    assert "log says why" in ended.message
    assert world.lines(job) and ("stdout", "ran") not in world.lines(job)


def test_an_incomplete_environment_is_created_again(world: World) -> None:
    python = python_with(world, "iniconfig==2.0.0\n")
    job = world.script("import iniconfig; print('ran')", python=python)
    assert world.run(job).exit_code == 0
    [environment] = [path for path in (world.home / "envs").iterdir() if path.is_dir()]
    (environment / "complete").unlink()
    (environment / "bin" / "python").unlink()
    job = world.script("import iniconfig; print('ran')", python=python)
    assert world.run(job).exit_code == 0
    assert world.lines(job)[-1] == ("stdout", "ran")


def test_a_job_may_set_its_package_index(world: World, tmp_path: Path) -> None:
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    with zipfile.ZipFile(shelf / "nowhere_else-1.0-py3-none-any.whl", "w") as wheel:
        info = "nowhere_else-1.0.dist-info"
        wheel.writestr("nowhere_else.py", "VALUE = 7\n")
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: nowhere-else\nVersion: 1.0\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    job = world.script(
        "import nowhere_else; print(nowhere_else.VALUE)",
        python=python_with(world, "nowhere-else==1.0\n"),
        env={"UV_FIND_LINKS": str(shelf), "UV_NO_INDEX": "1"},
    )
    assert world.run(job).exit_code == 0, world.lines(job)
    assert world.lines(job)[-1] == ("stdout", "7")
