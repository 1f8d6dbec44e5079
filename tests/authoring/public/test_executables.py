"""Executables are found where a user expects, refused early, and run in the folder of the trial."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from windlass.authoring.prepare.programs import (
    build_program,
    executable_flaw,
    executable_name,
    find_call_site,
    path_flaw,
    record_params,
)
from windlass.model.job import ProcessCall
from windlass.packaging.draft import Call


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a script, a package and a program, as the working directory."""
    project = tmp_path / "project"
    for name in (
        "train.py",
        "jobs/other.py",
        "pkg/__init__.py",
        "pkg/train.py",
        "bare/__init__.py",
    ):
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("raise SystemExit('imported')\n")
    (project / "pyproject.toml").touch()
    (project / "tool.sh").write_text("#!/bin/sh\n")
    (project / "tool.sh").chmod(0o755)
    (project / "plain.sh").touch()
    (project / "round.sh").symlink_to("round.sh")  # which may not be read
    os.mkfifo(project / "pipe.py")
    monkeypatch.chdir(project)
    monkeypatch.delenv("WINDLASS_SERVER", raising=False)
    return project


@pytest.fixture(autouse=True)
def _nothing_is_imported() -> Iterator[None]:
    yield
    assert not {"pkg", "pkg.train", "bare"} & set(sys.modules)


def argv(executable: Any, arguments: Any = ()) -> tuple[str, ...]:
    program = build_program(executable, arguments, find_call_site([executable]))
    assert isinstance(program, ProcessCall)
    return program.argv


def add(a: int, b: int = 2) -> int:
    return a + b


def test_each_kind_becomes_the_command_line_that_a_user_would_type(folder: Path) -> None:
    assert argv(wl.PythonScript("train.py"), {"lr": 0.1}) == ("python", "train.py", "--lr=0.1")
    assert argv(wl.PythonScript(Path("jobs/other.py"))) == ("python", "jobs/other.py")
    assert argv(wl.PythonScript(str(folder / "train.py"))) == ("python", "train.py")
    assert argv(wl.PythonModule("pkg.train"), ["-v", 3]) == ("python", "-m", "pkg.train", "-v", "3")
    assert argv(wl.Command(["echo", "a"]), ["b"]) == ("echo", "a", "b")
    assert argv(wl.Command(["./tool.sh"])) == ("./tool.sh",)
    assert argv(wl.Command(["tool.sh"])) == ("./tool.sh",)
    assert argv(wl.Command(["/bin/echo"])) == ("/bin/echo",)


def test_the_path_of_a_script_is_relative_to_the_folder_of_the_trial(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder / "jobs")
    assert argv(wl.PythonScript("other.py")) == ("python", "other.py")
    assert argv(wl.PythonScript("../train.py")) == ("python", "../train.py")
    assert argv(wl.Command(["../tool.sh"])) == ("./../tool.sh",)


def test_a_function_is_called_with_a_mapping_or_a_list() -> None:
    for function in (add, wl.run(add)):
        executable = wl.PythonFunction(function)
        place = find_call_site([executable])
        assert build_program(executable, {"a": 1}, place) == Call(add, (), {"a": 1})
        assert build_program(executable, [1, 3], place) == Call(add, [1, 3], {})
        assert record_params(executable, {"a": 1}) == {"a": 1, "b": 2}
        assert executable_name(executable) == "add"


def test_recorded_arguments_are_the_mapping_or_the_parsed_words() -> None:
    assert record_params(wl.PythonScript("train.py"), {"lr": None}) == {"lr": None}
    assert record_params(wl.PythonScript("train.py"), ["--lr", 0.1]) == {"lr": 0.1}
    assert record_params(wl.Command(["python", "-m", "pkg.train", "--lr", "1"]), ["x"]) == {
        "lr": 1,
        "args": ["x"],
    }
    assert record_params(wl.Command(["echo", "--lr", "1"]), {"depth": 2}) == {"lr": 1, "depth": 2}


def test_the_name_of_a_job_comes_from_its_executable() -> None:
    named = {
        "train": wl.PythonScript("train.py"),
        "pkg.train": wl.PythonModule("pkg.train"),
        "tool": wl.Command(["./tool.sh"]),
        "lambda": wl.PythonFunction(lambda: 1),
        "json.tool": wl.Command(["python", "-m", "json.tool"]),
    }
    assert {executable_name(executable) for executable in named.values()} == set(named)


@pytest.mark.parametrize(
    "executable",
    [
        wl.PythonScript("train.py"),
        wl.PythonModule("pkg.train"),
        wl.PythonModule("json.tool"),
        wl.PythonModule("pytest"),
        wl.PythonFunction(add),
        wl.PythonFunction(len),
        wl.PythonFunction(wl.run(add)),
        wl.Command(["python", "-c", "pass"]),
        wl.Command(("./tool.sh",)),
    ],
)
def test_a_valid_executable_has_no_problem(executable: Any) -> None:
    assert executable_flaw(executable) == ""


class Model:
    def fit(self) -> None: ...


def generate() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("executable", "message"),
    [
        (wl.PythonScript("trian.py"), "/project\nDid you mean 'train.py'?"),
        (wl.PythonScript("trian.py"), "there is no script 'trian.py' in /"),
        (wl.PythonScript("jobs/othr.py"), "Did you mean 'jobs/other.py'?"),
        (wl.PythonScript("none/x.py"), "There is no folder 'none' either."),
        (wl.PythonScript("jobs"), "is a folder, not a script"),
        (wl.PythonScript("pipe.py"), "'pipe.py' is not a file"),
        (wl.PythonScript(3), "3 is not a path of a script"),  # type: ignore[arg-type]
        (wl.PythonModule("pkg.trian"), "there is no module 'pkg.trian'\nDid you mean 'pkg.train'?"),
        (wl.PythonModule("pgk.train"), "there is no module 'pgk.train'\nDid you mean 'pkg.train'?"),
        # pkgutil is like it, and has no such module.
        (wl.PythonModule("pkgtil.train"), "there is no module 'pkgtil.train'\nWindlass looked"),
        (wl.PythonModule("qqqqqq"), "looked in the working directory and in this environment"),
        (wl.PythonModule("pkg.train.more"), "'pkg.train' is a module, not a package"),
        (wl.PythonModule("bare"), "is a package without __main__"),
        (wl.PythonModule("pkg/train.py"), "wl.PythonModule('pkg.train')"),
        (wl.PythonModule(""), "'' is not a valid module name"),
        (wl.PythonFunction(3), "wl.PythonFunction takes a function; 3 is a int"),  # type: ignore[arg-type]
        (wl.PythonFunction(Model), "wl.PythonFunction takes a function"),
        (wl.PythonFunction(Model.fit), "is a method"),
        (wl.PythonFunction(generate), "is a generator"),
        (wl.Command([]), "the command is empty"),
        (wl.Command([""]), "the command is empty"),
        (wl.Command(["echo", "a\0b"]), "contains a NUL character"),
        (wl.Command("ls -l 'a b'"), "Write: wl.Command(['ls', '-l', 'a b'])"),
        (wl.Command(["ls", 3]), "is not a list of words"),  # type: ignore[list-item]
        (wl.Command(["./tol.sh"]), "there is no program './tol.sh'\nDid you mean './tool.sh'?"),
        (wl.Command(["./plain.sh"]), "is not executable\nMake it executable: chmod +x ./plain.sh"),
        ("train.py", "Write: wl.PythonScript('train.py')"),
        ("ls -l", "Write: wl.Command(['ls', '-l'])"),
        (["ls"], "Write: wl.Command(['ls'])"),
        (add, "Write: wl.PythonFunction(add)"),
        (None, "None is not an executable"),
    ],
)
def test_an_invalid_executable_is_explained_with_a_suggestion(
    executable: Any, message: str
) -> None:
    assert message in executable_flaw(executable)


def test_a_module_of_packages_not_yet_installed_is_not_checked() -> None:
    assert executable_flaw(wl.PythonModule("qqqqqq"), has_packages=True) == ""


@pytest.mark.parametrize("program", ["run-of-an-image", "/opt/conda/bin/torchrun", "./tool.sh"])
def test_a_program_of_an_image_is_not_checked_here(program: str) -> None:
    command = wl.Command([program, "train.py"])
    assert executable_flaw(command, is_elsewhere=True) == ""
    assert argv(command) == (program, "train.py")
    assert executable_flaw(wl.PythonModule("qqqqqq"), is_elsewhere=True) == ""


def test_a_program_of_the_project_is_checked_for_every_backend() -> None:
    command = wl.Command(["./tol.sh"])
    assert "Did you mean './tool.sh'?" in executable_flaw(command, is_elsewhere=True)


def test_a_script_outside_the_project_is_refused(tmp_path: Path) -> None:
    stranger = tmp_path / "elsewhere" / "far.py"
    stranger.parent.mkdir()
    stranger.touch()
    place = find_call_site([wl.PythonScript("train.py")])
    assert path_flaw(wl.PythonScript("jobs/other.py"), place) == ""
    message = path_flaw(wl.PythonScript(stranger), place)
    assert f"{str(stranger)!r} is outside the project {tmp_path / 'project'}" in message
    assert path_flaw(wl.PythonScript(stranger), find_call_site([wl.PythonScript(stranger)])) == ""


def test_without_a_project_only_files_beside_the_script_are_included(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heap = tmp_path / "heap"
    (heap / "sub").mkdir(parents=True)
    for name in ("first.py", "beside.py", "sub/below.py"):
        (heap / name).touch()
    monkeypatch.setenv("TMPDIR", str(heap))  # the temporary directory is never a project
    place = find_call_site([wl.PythonScript(heap / "first.py")])
    assert path_flaw(wl.PythonScript(heap / "beside.py"), place) == ""
    message = path_flaw(wl.PythonScript(heap / "sub" / "below.py"), place)
    assert "below.py' would not be copied" in message
